/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One direction of a bad link: takes frames at a time, and says which frame
 * comes out at the other end, and when. No system call, no clock.
 */
#ifndef TEST_LINK_H
#define TEST_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

#define LINK_NEVER	UINT64_MAX
#define LINK_HELD_MAX	256u			/* frames held back at the same time: one more is not held */
#define LINK_CERTAIN	1000000u		/* a chance, in parts per million */

struct link_conf {
	uint32_t loss_ppm, dup_ppm, reorder_ppm;
	uint32_t reorder_cnt;			/* a frame held back lets this many others pass, ... */
	uint64_t reorder_ns;			/* ... or waits at most so long if they do not come */
	uint64_t delay_ns, jitter_ns;		/* jitter: more delay, even in [0, jitter_ns), never a change of order */
	uint64_t rate_bps;			/* bits a second, 0: no limit */
	uint32_t limit_cnt;			/* frames that wait for the wire, which `rate_bps` keeps busy; more are lost */
};

struct link_stat {
	uint64_t in, out, out_bytes;
	uint64_t lost, duplicated, reordered;
	uint64_t overflow;			/* lost because limit_cnt were waiting, or memory was short */
};

struct link_frame {
	struct link_frame *next;
	uint64_t sent_ns, due_ns;		/* leaves the wire's near end; arrives at the far one, or is let go */
	uint32_t to_pass_cnt, len;
	bool hold;
	uint8_t data[];
};

struct link_dir {
	struct link_conf conf;			/* may change while frames are under way: counts for later ones */
	struct link_stat stat;
	struct rng rng;
	uint64_t busy_ns, last_ns;		/* the wire is free from; the last frame arrives at */
	struct link_frame *head, **tail;	/* under way, in the order of arrival */
	struct link_frame *waiting;		/* first one that has not left the near end */
	uint32_t waiting_cnt;
	struct link_frame *held;		/* held back, first one first */
	uint32_t held_cnt;
};

/* Decisions depend on SEED and on the number of the frame, on nothing else */
void link_init(struct link_dir *d, const struct link_conf *conf, uint64_t seed);
void link_free(struct link_dir *d);
/* A frame goes in */
void link_put(struct link_dir *d, uint64_t now_ns, const void *data, uint32_t len);
/* The frame that comes out by now, NULL if there is none. The caller frees it with free(). */
struct link_frame *link_take(struct link_dir *d, uint64_t now_ns);
/* When link_take() has something, LINK_NEVER if the link is empty */
uint64_t link_next(const struct link_dir *d);

#endif
