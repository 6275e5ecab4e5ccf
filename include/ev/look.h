/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for events that are expected soon. To fall asleep and be woken takes
 * longer than a round trip to a neighbour, most of it in the scheduler and in an
 * idle processor. Where events have been close together, look for the next one
 * for a moment before sleeping: a request and its answer are passed on sooner, at
 * the same processor time. Where it is in vain most of the time, leave it for a
 * while.
 */
#ifndef EV_LOOK_H
#define EV_LOOK_H

#include "port/ev.h"

/* Measured on two virtual processors, round trips of a byte from socket to socket: events 40 us apart without looking, 30 us
 * with 15 us of it, 23 us with 20 us.
 */
#define EV_LOOK_TIME	(20 * NS_US)
#define EV_LOOK_GAP	(60 * NS_US)	/* mean time between turns of the loop above which the next event is not expected soon, ... */
#define EV_LOOK_GAP_MIN	(15 * NS_US)	/* ... and below which there are so many that it is better to gather some in a short sleep */
/* A turn is one question or its answer, no more than that: else somebody else needs the processor more, whose data that is */
#define EV_LOOK_WORK	(20 * NS_US)	/* mean time of a turn's work, ... */
#define EV_LOOK_BYTES	4096		/* ... and its bytes, headers included */
#define EV_LOOK_LUCK	16		/* so many more in vain than not ... */
#define EV_LOOK_REST	1000u		/* ... make it leave off for so many turns: below 1 % of a processor is spent in vain then */

struct ev_look {			/* all zero: nothing known */
	ns_t woke;			/* when the last wait ended */
	uint64_t moved;			/* bytes so far */
	ns_t gap, work;			/* means of the latest turns: time from wake-up to wake-up, of that in work, ... */
	int32_t bytes;			/* ... bytes moved */
	int luck;
	uint32_t rest;
};

/* As E's own wait(), with such a look before it sleeps. CLOCK is where NOW is from; MOVED is how many bytes were passed on so far. */
int ev_look_wait(struct ev_look *l, struct ev *e, struct ev_hit *hit, int max, ns_t now, ns_t until, ns_t (*clock)(void),
		 uint64_t moved);

#endif
