/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events and deadlines to the protocol of their flow.
 */
#include "base/bytes.h"
#include "path/path.h"
#include "proto/reasm.h"
#include "proto/group.h"

void path_host(struct path *pa, const struct ev_hit *hit)
{
	struct flow *f = flow_of_ref(pa->p.flows, hit->ref);

	if (!f)
		return;			/* the flow ended earlier in this turn */
	switch ((enum flow_proto)f->key.proto) {
	case FLOW_TCP:
		tcp_host(&pa->p, f, hit);
		return;
	case FLOW_UDP:
		udp_host(&pa->p, f, hit);
		return;
	case FLOW_PING:
		ping_host(&pa->p, f, hit);
		return;
	case FLOW_FREE:
		return;
	}
}

static void timer_due(struct path *pa, struct flow *f)
{
	switch ((enum flow_proto)f->key.proto) {
	case FLOW_TCP:
		tcp_timer(&pa->p, f);
		return;
	case FLOW_UDP:
		udp_timer(&pa->p, f);
		return;
	case FLOW_PING:
		ping_timer(&pa->p, f);
		return;
	case FLOW_FREE:
		return;
	}
}

static void more(struct path *pa, struct flow *f)
{
	if (f->key.proto == FLOW_TCP)
		tcp_more(&pa->p, f);
	else if (f->key.proto == FLOW_UDP)
		udp_more(&pa->p, f);
	else if (f->key.proto == FLOW_PING)
		ping_more(&pa->p, f);
}

void path_tick(struct path *pa)
{
	struct twheel_timer *t;
	uint32_t last, i;

	while ((t = twheel_pop(pa->p.env->tw, pa->p.env->now)))
		if (t->kind == GROUP_TIMER)
			group_timer(&pa->p);
		else
			timer_due(pa, flow_of_timer(t));
	if (pa->p.reasm)
		proto_reasm_tick(&pa->p, pa->p.reasm);
	last = pa->p.ready_last;	/* a timer may have ended the flow that was last */
	/* only those that were queued before this turn: who has still more goes to the end */
	while ((i = pa->p.ready_first) != FLOW_NONE) {
		struct flow *f = &pa->p.flows->tab[i];

		pa->p.ready_first = f->ready_next;
		if (pa->p.ready_first == FLOW_NONE)
			pa->p.ready_last = FLOW_NONE;
		f->ready = false;
		more(pa, f);
		if (i == last || !pa->p.tcp_turn)
			break;
	}
	pa->p.tcp_turn = TCP_TURN;
}

ns_t path_next(const struct path *pa)
{
	const ns_t due = twheel_next(pa->p.env->tw);

	if (pa->p.ready_first != FLOW_NONE)
		return 0;
	return pa->p.reasm ? BYTES_MIN(due, proto_reasm_next(pa->p.reasm)) : due;
}

bool path_draining(const struct path *pa)
{
	const struct flow_tab *ft = pa->p.flows;

	for (uint32_t i = 0; i < ft->fresh; i++)
		if (ft->tab[i].key.proto == FLOW_TCP && tcp_draining(&ft->tab[i]))
			return true;
	return false;
}

void path_end(struct path *pa)
{
	struct flow_tab *ft = pa->p.flows;

	for (uint32_t i = 0; i < ft->fresh; i++)
		if (ft->tab[i].key.proto == FLOW_TCP)
			tcp_guest_gone(&pa->p, &ft->tab[i]);
}
