/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hierarchical timer wheel (Varghese, Lauck 1987): arm and cancel in constant time.
 *
 * Refuses to fire early and to read a clock. A timer lies on the level of the highest 6-bit digit in which its tick
 * differs from the wheel's, in the slot of that digit. Invariants that follow:
 * - all timers of a level are due before all of the next level, so the next event is in the lowest level in use;
 * - on level 0 no used slot lies behind the wheel's digit, on the others none at or behind it; only the last level
 *   goes round: there, a slot at or behind the digit belongs to the next turn, and timers beyond the range are looked
 *   at and queued again each time that their slot comes up;
 * - moving the wheel to just before the next used slot needs no work, and arriving there empties it into lower levels,
 *   so that a caller who sleeps until twheel_next() gets either a timer or a later bound.
 */
#include "base/twheel.h"

#include <stddef.h>

#include "base/bytes.h"

#define LAST	(TWHEEL_LEVELS - 1)
/* twheel_next() is exact if the slot holds no more timers than this; else it tells when the slot comes up */
#define EXACT_MAX 8

static inline unsigned digit(uint64_t tick, unsigned level)
{
	return (unsigned)(tick >> (level * TWHEEL_BITS)) & (TWHEEL_SLOTS - 1);
}

static inline uint64_t tick_of(ns_t now)
{
	return now > 0 ? (uint64_t)(now / TWHEEL_TICK) : 0;
}

static void place(struct twheel *w, struct twheel_timer *t)
{
	const uint64_t diff = t->due_tick ^ w->tick;
	unsigned level = diff ? (unsigned)(63 - __builtin_clzll(diff)) / TWHEEL_BITS : 0;
	struct twheel_timer **head;
	unsigned slot;

	level = BYTES_MIN(level, (unsigned)LAST);
	slot = digit(t->due_tick, level);
	head = &w->slot[level][slot];
	t->level_slot = (uint16_t)(level * TWHEEL_SLOTS + slot);
	t->next = *head;
	t->prev = head;
	if (t->next)
		t->next->prev = &t->next;
	*head = t;
	w->used[level] |= UINT64_C(1) << slot;
}

/* First slot to come up: its level, slot and the tick when it does; false if the wheel is empty */
static bool first_slot(const struct twheel *w, unsigned *ret_level, unsigned *ret_slot, uint64_t *ret_tick)
{
	for (unsigned level = 0; level < TWHEEL_LEVELS; level++) {
		const unsigned shift = level * TWHEEL_BITS, cur = digit(w->tick, level);
		uint64_t used = w->used[level], base = w->tick >> shift;
		unsigned from = level ? cur + 1 : cur;

		if (!used)
			continue;
		base -= cur;			/* begin of this turn of the level, in its slots */
		if (from < TWHEEL_SLOTS && used >> from) {
			used = used >> from << from;
		} else {
			base += TWHEEL_SLOTS;	/* only on the last level */
		}
		*ret_level = level;
		*ret_slot = (unsigned)__builtin_ctzll(used);
		*ret_tick = (base + *ret_slot) << shift;
		return true;
	}
	return false;
}

void twheel_init(struct twheel *w, ns_t now)
{
	*w = (struct twheel){ .tick = tick_of(now) };
}

void twheel_arm(struct twheel *w, struct twheel_timer *t, ns_t deadline)
{
	uint64_t due = tick_of(deadline);

	twheel_cancel(w, t);
	if (deadline == NS_NEVER)
		return;
	if (deadline > 0 && deadline % TWHEEL_TICK)
		due++;
	t->due_tick = BYTES_MAX(due, w->tick);
	place(w, t);
}

void twheel_cancel(struct twheel *w, struct twheel_timer *t)
{
	const unsigned level = t->level_slot / TWHEEL_SLOTS, slot = t->level_slot % TWHEEL_SLOTS;

	if (!t->prev)
		return;
	*t->prev = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->next = NULL;
	t->prev = NULL;
	if (!w->slot[level][slot])
		w->used[level] &= ~(UINT64_C(1) << slot);
}

ns_t twheel_next(const struct twheel *w)
{
	unsigned level, slot, n = 0;
	uint64_t tick, min = UINT64_MAX;

	if (!first_slot(w, &level, &slot, &tick))
		return NS_NEVER;
	/* Not on the last level: its slots mix timers of several turns */
	if (level && level < LAST) {
		const struct twheel_timer *t;

		for (t = w->slot[level][slot]; t && n < EXACT_MAX; t = t->next, n++)
			min = BYTES_MIN(min, t->due_tick);
		if (!t)
			tick = min;
	}
	/* The tick after the last nanosecond of the clock can't be told */
	if (tick > (uint64_t)(NS_NEVER / TWHEEL_TICK))
		return NS_NEVER - 1;
	return (ns_t)tick * TWHEEL_TICK;
}

struct twheel_timer *twheel_pop(struct twheel *w, ns_t now)
{
	const uint64_t end = tick_of(now);
	unsigned level, slot;
	uint64_t tick;

	while (first_slot(w, &level, &slot, &tick) && tick <= end) {
		struct twheel_timer *t = w->slot[level][slot], *next;

		w->tick = tick;
		if (!level) {
			twheel_cancel(w, t);
			return t;
		}
		/* The slot came up: spread it over the lower levels, or the last one again */
		w->slot[level][slot] = NULL;
		w->used[level] &= ~(UINT64_C(1) << slot);
		for (; t; t = next) {
			next = t->next;
			place(w, t);
		}
	}
	w->tick = BYTES_MAX(w->tick, end);
	return NULL;
}
