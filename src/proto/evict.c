/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Room for a new flow when descriptors or the flow table have run out: the
 * least recently used of the datagram flows that have most likely done their
 * work ends early. Looks at a sample only, so that the cost of a packet stays
 * bounded; the cursor goes on from there the next time. Never takes a flow of
 * the packets in work, of a published port, of TCP, or one in steady use: who
 * may go is the protocol's own decision.
 *
 * RFC 4787 4.3 leaves the choice to us; netfilter drops early what has seen no
 * traffic both ways (nf_conntrack), we prefer what was answered.
 */
#include "proto/ping.h"
#include "proto/udp.h"

#define EVICT_SAMPLE	64		/* flows to choose from */
#define EVICT_LOOK	1024		/* entries looked at for them: most may be of TCP */

static bool evict_spare(const struct proto *p, struct flow *f, struct proto_spare *ret)
{
	if (f->batch_first != FLOW_NONE || f->h < 0)
		return false;
	if (f->key.proto == FLOW_UDP)
		return udp_spare(p, f, ret);
	return f->key.proto == FLOW_PING && ping_spare(p, f, ret);
}

bool proto_evict(struct proto *p)
{
	const struct flow_tab *t = p->flows;
	struct proto_spare best = { 0 }, s;
	struct flow *victim = NULL;

	for (uint32_t n = 0, seen = 0; n < t->fresh && n < EVICT_LOOK && seen < EVICT_SAMPLE; n++) {
		struct flow *f;

		if (p->evict_at >= t->fresh)
			p->evict_at = 0;
		f = &t->tab[p->evict_at++];
		if (!evict_spare(p, f, &s))
			continue;
		seen++;
		if (victim && (s.answered == best.answered ? s.last >= best.last : best.answered))
			continue;
		victim = f;
		best = s;
	}
	if (!victim)
		return false;
	env_drop(p->env, DROP_FLOW_EVICTED);
	trace_add(p->env->tr, p->env->now, "evicted", flow_idx(t, victim), victim->key.far_port, best.answered);
	if (victim->key.proto == FLOW_UDP)
		udp_end(p, victim);
	else
		ping_end(p, victim);
	return true;
}
