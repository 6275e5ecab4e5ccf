/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A look for events before sleeping, while they are close together.
 */
#include <stdbool.h>

#include "base/bytes.h"
#include "ev/look.h"

#define TURN_MAX	NS_MS		/* a long sleep counts as this: a few short ones make up for it */
#define BYTES_TURN_MAX	65536		/* the same of bytes */
#define MEAN_OF		8		/* weight of what was before */

static bool is_worth_it(struct ev_look *l, ns_t woke, ns_t now, uint64_t moved)
{
	l->gap += (BYTES_MIN(woke - l->woke, TURN_MAX) - l->gap) / MEAN_OF;
	l->work += (BYTES_MIN(now - woke, TURN_MAX) - l->work) / MEAN_OF;
	l->bytes += ((int32_t)BYTES_MIN(moved - l->moved, BYTES_TURN_MAX) - l->bytes) / MEAN_OF;
	l->woke = woke;
	l->moved = moved;
	if (l->rest) {
		l->rest--;
		return false;
	}
	return l->gap < EV_LOOK_GAP && l->gap >= EV_LOOK_GAP_MIN && l->work < EV_LOOK_WORK && l->bytes < EV_LOOK_BYTES;
}

static void learn(struct ev_look *l, bool found)
{
	l->luck = BYTES_MIN(l->luck + (found ? 1 : -1), EV_LOOK_LUCK);
	if (l->luck > -EV_LOOK_LUCK)
		return;
	l->luck = 0;
	l->rest = EV_LOOK_REST;
}

int ev_look_wait(struct ev_look *l, struct ev *e, struct ev_hit *hit, int max, ns_t now, ns_t until, ns_t (*clock)(void),
		 uint64_t moved)
{
	const ns_t begin = clock();
	int n;

	if (is_worth_it(l, now, begin, moved) && until > now) {
		const ns_t end = BYTES_MIN(begin + EV_LOOK_TIME, until);

		do
			n = e->ops->wait(e, hit, max, now, 0);
		while (!n && clock() < end);
		learn(l, n);
		if (n)
			return n;
	}
	return e->ops->wait(e, hit, max, now, until);
}
