/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The flow table: every conversation between guest and host has one entry,
 * found by what the guest link shows of it. The table knows no protocol: each
 * entry has a body of raw bytes that its protocol owns. Entries are named by
 * index and generation, never by pointer outside one call.
 *
 * Memory is handed in by app (mapped, untouched pages cost nothing).
 */
#ifndef FLOW_FLOW_H
#define FLOW_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/hash.h"
#include "base/twheel.h"
#include "port/ev.h"

#define FLOW_MAX	131071		/* LIM-1 */
#define FLOW_NONE	UINT32_MAX
#define FLOW_BODY_LEN	448		/* bytes; each protocol asserts that it fits. Sum with struct flow: below 1 KiB */

enum flow_proto { FLOW_FREE, FLOW_TCP, FLOW_UDP, FLOW_PING };

struct flow_key {			/* as on the guest link; no padding, it is hashed as bytes */
	struct inaddr guest, far;
	uint16_t guest_port;		/* ping: identifier */
	uint16_t far_port;		/* ping: 0 */
	uint32_t proto;			/* enum flow_proto */
};

struct flow {
	struct flow_key key;
	uint32_t gen;			/* 24 bits, counts uses of this entry */
	uint32_t hash_next;		/* index + 1 of the next in this chain, or of the next free one; 0: last */
	uint32_t batch_first, batch_last;	/* path: this batch's frames; FLOW_NONE */
	uint32_t ready_next;		/* path: queue of flows with more to do; FLOW_NONE: last */
	bool ready;			/* path: is in that queue */
	int32_t h;			/* host socket, -1: none */
	struct twheel_timer timer;	/* one deadline per flow; protocols multiplex */
	uint8_t body[FLOW_BODY_LEN] __attribute__((aligned(16)));
};

struct flow_tab {
	struct flow *tab;
	uint32_t *bucket;		/* heads of hash chains: index + 1, 0: empty */
	uint32_t cap, bucket_cnt;	/* bucket_cnt: a power of two */
	uint32_t cnt;			/* entries in use */
	uint32_t free_head;		/* chain of used-then-freed entries: index + 1, 0: none */
	uint32_t fresh;			/* entries never used begin here: their memory is untouched */
	struct hash_key hkey;
};

/* Bytes of memory for CAP entries */
size_t flow_tab_size(uint32_t cap);
/* MEM: zeroed, flow_tab_size(cap) bytes */
void flow_tab_init(struct flow_tab *t, void *mem, uint32_t cap, const struct hash_key *hkey);

/* New entry, hashed by KEY (which no other entry has), body zeroed, h -1; NULL if the table is full */
struct flow *flow_new(struct flow_tab *t, const struct flow_key *key);
/* Its timer is disarmed and its socket closed before. */
void flow_free(struct flow_tab *t, struct flow *f);
struct flow *flow_find(const struct flow_tab *t, const struct flow_key *key);
/* The entry that an event means, NULL if stale */
struct flow *flow_of_ref(const struct flow_tab *t, struct ev_ref ref);

static inline uint32_t flow_idx(const struct flow_tab *t, const struct flow *f)
{
	return (uint32_t)(f - t->tab);
}

static inline struct ev_ref flow_ref(const struct flow_tab *t, const struct flow *f)
{
	return (struct ev_ref){ .idx = flow_idx(t, f), .gen = f->gen, .kind = EV_KIND_FLOW };
}

static inline void *flow_body(struct flow *f)
{
	return f->body;
}

static inline struct flow *flow_of_timer(struct twheel_timer *t)
{
	return (struct flow *)((char *)t - offsetof(struct flow, timer));
}

#endif
