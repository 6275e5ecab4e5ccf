/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hierarchical timer wheel: one per instance. A timer fires at or after its
 * deadline, never before, at most one tick (TWHEEL_TICK) late by rounding.
 * The caller asks for the next deadline and runs what is due; nothing here
 * reads a clock.
 */
#ifndef BASE_TWHEEL_H
#define BASE_TWHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ns.h"

#define TWHEEL_TICK	(NS_MS)		/* resolution */
#define TWHEEL_BITS	6		/* 64 slots a level */
#define TWHEEL_SLOTS	(1 << TWHEEL_BITS)
#define TWHEEL_LEVELS	5		/* 2^30 ticks of 1 ms: 12 days; later ones wait on the last level */

struct twheel_timer {			/* embedded in its owner; all zero: not armed */
	struct twheel_timer *next, **prev;
	uint64_t due_tick;
	uint32_t kind;			/* owner's meaning */
	uint16_t level_slot;
};

struct twheel {
	struct twheel_timer *slot[TWHEEL_LEVELS][TWHEEL_SLOTS];
	uint64_t used[TWHEEL_LEVELS];	/* bit per non-empty slot */
	uint64_t tick;			/* all before this tick have been run */
};

void twheel_init(struct twheel *w, ns_t now);
/* Arm or move; a deadline in the past fires at the next run (even the present one: a handler that arms its timer again
 * must use a later deadline). NS_NEVER disarms.
 */
void twheel_arm(struct twheel *w, struct twheel_timer *t, ns_t deadline);
void twheel_cancel(struct twheel *w, struct twheel_timer *t);
static inline bool twheel_armed(const struct twheel_timer *t)
{
	return t->prev;
}
/* Deadline of the earliest timer, or a bound not later than it; NS_NEVER if none is armed */
ns_t twheel_next(const struct twheel *w);
/* One timer that is due at NOW, disarmed; NULL when no more are. Call until NULL. */
struct twheel_timer *twheel_pop(struct twheel *w, ns_t now);

#endif
