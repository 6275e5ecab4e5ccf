/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for a new flow when descriptors or the flow table have run out: the
 * least recently used of the datagram flows that have most likely done their
 * work ends early. Looks at a sample only, so that the cost of a packet stays
 * bounded; the cursor goes on from there the next time, and a search in vain is
 * not repeated at once. Never takes a flow of the packets in work, of TCP, or one
 * in steady use now: who may go is the protocol's own decision. One without a
 * socket of its own makes room in the table only.
 *
 * RFC 4787 4.3 leaves the choice to us; netfilter drops early what has seen no
 * traffic both ways (nf_conntrack), we prefer what was answered.
 */
#include "proto/ping.h"
#include "proto/udp.h"

#define EVICT_SAMPLE	64		/* flows to choose from */
#define EVICT_LOOK	1024		/* entries looked at for them: most may be of TCP */
#define EVICT_AGAIN	NS_MS		/* after a search in vain */

static bool evict_table_full(const struct proto *p)
{
	return p->flows->cnt == p->flows->cap || (p->udp->flows_max && p->udp_flows >= p->udp->flows_max);
}

/* Who goes first */
static int evict_rank(const struct proto_spare *s)
{
	return s->idle ? 2 : s->answered ? 0 : 1;
}

static bool evict_spare(const struct proto *p, struct flow *f, struct proto_spare *ret)
{
	*ret = (struct proto_spare){ 0 };
	if (f->batch_first != FLOW_NONE)
		return false;
	if (f->key.proto == FLOW_UDP)
		return (udp_has_socket(f) || evict_table_full(p)) && udp_spare(p, f, ret);
	return f->key.proto == FLOW_PING && f->h >= 0 && ping_spare(p, f, ret);
}

bool proto_evict(struct proto *p)
{
	const struct flow_tab *t = p->flows;
	struct proto_spare best = { 0 }, s;
	struct flow *victim = NULL;

	if (p->env->now < p->evict_next)
		return false;
	for (uint32_t n = 0, seen = 0; n < t->fresh && n < EVICT_LOOK && seen < EVICT_SAMPLE; n++) {
		struct flow *f;

		if (p->evict_at >= t->fresh)
			p->evict_at = 0;
		f = &t->tab[p->evict_at++];
		if (!evict_spare(p, f, &s))
			continue;
		seen++;
		if (victim && (evict_rank(&s) == evict_rank(&best) ? s.last >= best.last : evict_rank(&s) > evict_rank(&best)))
			continue;
		victim = f;
		best = s;
	}
	if (!victim) {
		p->evict_next = p->env->now + EVICT_AGAIN;
		return false;
	}
	env_drop(p->env, DROP_FLOW_EVICTED);
	trace_add(p->env->tr, p->env->now, "evicted", flow_idx(t, victim), victim->key.far_port, (uint32_t)evict_rank(&best));
	if (victim->key.proto == FLOW_UDP)
		udp_end(p, victim);
	else
		ping_end(p, victim);
	return true;
}
