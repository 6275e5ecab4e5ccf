/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much may be on its way to the guest. Its link is memory and loses nothing,
 * so there is no congestion window and no slow start: the guest's window is the
 * limit. But a guest may forward to a queue of its own that our bursts overrun,
 * and would be overrun for ever. Each loss halves what may be on its way, each
 * round trip without one gives a super-frame back, until the window is the limit
 * again (the steady state of RFC 5681, with super-frames for segments).
 *
 * Invariant: never below TCP_CAP_MIN, so a single loss costs a flow nothing.
 */
#include "tcp_priv.h"

void tcp_cap_cut(struct tcp *t)
{
	uint32_t flight = t->max - t->una;

	if (t->cap)
		flight = BYTES_MIN(flight, t->cap);
	t->cap = BYTES_MAX(flight / 2, TCP_CAP_MIN);
}

void tcp_cap_grow(struct tcp *t, uint32_t acked)
{
	if (!t->cap)
		return;
	t->cap += (uint32_t)((uint64_t)TCP_SUPER * acked / t->cap);
	if (t->cap >= t->wnd_max)
		t->cap = 0;
}

int32_t tcp_cap_room(const struct tcp *t)
{
	if (!t->cap)
		return INT32_MAX;
	return (int32_t)(t->cap + tcp_sack_sum(t) - (t->nxt - t->una));
}
