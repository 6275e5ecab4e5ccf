/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A look for events before sleeping, while they are close together.
 */
#include <stdbool.h>

#include "base/bytes.h"
#include "ev/look.h"

#define GAP_MAX		NS_MS		/* a long sleep counts as this: a few short ones make up for it */
#define GAP_WEIGHT	8

static bool is_worth_it(struct ev_look *l, ns_t woke, ns_t now)
{
	const ns_t gap = BYTES_MIN(woke - l->woke, GAP_MAX), work = BYTES_MIN(now - woke, GAP_MAX);

	l->woke = woke;
	l->gap += (gap - l->gap) / GAP_WEIGHT;
	l->work += (work - l->work) / GAP_WEIGHT;
	if (l->rest) {
		l->rest--;
		return false;
	}
	return l->gap < EV_LOOK_GAP && l->work < EV_LOOK_WORK;
}

static void learn(struct ev_look *l, bool found)
{
	l->found_cnt += found;
	l->vain_cnt += !found;
	l->luck = BYTES_MIN(l->luck + (found ? 1 : -1), EV_LOOK_LUCK);
	if (l->luck > -EV_LOOK_LUCK)
		return;
	l->luck = 0;
	l->rest = EV_LOOK_REST;
}

int ev_look_wait(struct ev_look *l, struct ev *e, struct ev_hit *hit, int max, ns_t now, ns_t until, ns_t (*clock)(void))
{
	const ns_t begin = clock();
	int n;

	if (is_worth_it(l, now, begin) && until > now) {
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
