/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A guest link that keeps what was sent to it. Frames are copied deep and
 * flat; what was reserved is allocated to the exact length, so that sanitizers
 * see a write beyond it.
 */
#ifndef FAKE_L2_H
#define FAKE_L2_H

#include "port/l2.h"

#define FAKE_L2_MAX	512		/* frames kept; more fail the test */

struct fake_l2_frame {
	uint8_t *buf;			/* `len` bytes */
	uint32_t len;
	uint8_t gso, csum;
	uint16_t gso_size, csum_start, csum_off, hdr_len;
};

struct fake_l2 {
	struct l2 l2;			/* first: the ops cast back; mtu may be changed by the test */
	struct fake_l2_frame frames[FAKE_L2_MAX];
	uint32_t cnt;
	uint32_t commits;		/* calls of commit() */
	uint32_t refuse_at;		/* frames taken until then; UINT32_MAX: all */
	uint32_t reserve_max;		/* frames that reserve() gives at most; UINT32_MAX: as asked */
	uint32_t split;			/* bytes of a reserved frame's first piece, the others as long; 0: one piece */
	uint8_t *pool[L2_BATCH];	/* reserved memory */
	int pool_cnt;
	uint32_t pool_len;
};

/* An empty link, MTU 1500; TAKES: L2_OFF_* */
void fake_l2_init(struct fake_l2 *l, uint32_t takes);
/* Forget the frames kept */
void fake_l2_clear(struct fake_l2 *l);
/* Take N more frames, then refuse all; UINT32_MAX: take all again */
void fake_l2_refuse_after(struct fake_l2 *l, uint32_t n);
/* Release all memory */
void fake_l2_done(struct fake_l2 *l);

#endif
