/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames from the guest: parsed once, down to the transport header, and grouped
 * by flow, so that a protocol sees all packets of a flow in one call. Order is
 * kept within a flow, not between flows. No policy beyond what makes a packet
 * valid; each refusal is counted by its reason.
 */
#include <errno.h>

#include "base/bytes.h"
#include "path/path.h"
#include "proto/icmp.h"
#include "proto/group.h"
#include "proto/reasm.h"
#include "wire/arp.h"
#include "wire/group.h"
#include "wire/icmp.h"
#include "wire/tcp.h"
#include "wire/udp.h"

void path_init(struct path *pa, struct env *e, struct flow_tab *flows, struct fwd *fwd, const struct svc *svc)
{
	pa->p = (struct proto){
		.env = e, .flows = flows, .fwd = fwd,
		.ready_first = FLOW_NONE, .ready_last = FLOW_NONE, .tcp_turn = TCP_TURN,
	};
	pa->svc = *svc;
	pa->group_cnt = 0;
}

/* Chain packet I of the batch to its flow */
static void group_add(struct path *pa, struct flow *f, uint32_t i, uint32_t *prev_next)
{
	if (f->batch_first == FLOW_NONE) {
		f->batch_first = i;
		pa->group[pa->group_cnt++] = flow_idx(pa->p.flows, f);
	} else {
		*prev_next = i;
	}
	f->batch_last = i;
}

static void take_tcp(struct path *pa, uint32_t i, const struct flow_key *addrs)
{
	struct tcp_seg *s = &pa->seg[i];
	struct flow_key key = *addrs;
	struct flow *f;

	s->data = pa->pkt[i].l4;
	s->next = FLOW_NONE;
	s->tos = pa->pkt[i].ip.tos;
	s->ttl = pa->pkt[i].ip.ttl;
	if (wire_tcp_parse(&s->data, &s->h)) {
		env_drop(pa->p.env, DROP_TCP_BAD);
		return;
	}
	key.guest_port = s->h.sport;
	key.far_port = s->h.dport;
	f = flow_find(pa->p.flows, &key);
	if (f)
		group_add(pa, f, i, f->batch_first == FLOW_NONE ? NULL : &pa->seg[f->batch_last].next);
	else
		tcp_guest_new(&pa->p, &key, s);
}

static void take_udp(struct path *pa, uint32_t i, const struct flow_key *addrs)
{
	struct proto_pkt *pkt = &pa->pkt[i];
	struct flow_key key = *addrs;
	struct view v = pkt->l4;
	struct wire_udp h;
	struct flow *f;

	if (!pa->p.fwd->udp_on) {
		env_drop(pa->p.env, DROP_PROTO_OFF);
		return;
	}
	if (wire_udp_parse(&v, pkt->frame->gso == L2_GSO_UDP, &h)) {
		env_drop(pa->p.env, DROP_UDP_BAD);
		return;
	}
	key.guest_port = h.sport;
	key.far_port = h.dport;
	f = flow_find(pa->p.flows, &key);
	if (!f && fwd_is_guest(pa->p.fwd, &key.guest)) {
		/* a server on the wildcard may answer from another of the guest's addresses than the one it was asked at */
		struct flow_key asked = key;

		if (!fwd_guest_addr(pa->p.fwd, &key.far, &asked.guest))
			f = flow_find(pa->p.flows, &asked);
		if (f && !udp_is_answering(f))
			f = NULL;	/* both of the guest's addresses ask */
	}
	if (f)
		group_add(pa, f, i, f->batch_first == FLOW_NONE ? NULL : &pa->pkt[f->batch_last].next);
	else
		udp_guest(&pa->p, &key, NULL, pa->pkt, i);
}

static void take_icmp(struct path *pa, const struct proto_pkt *pkt)
{
	uint8_t bounce[WIRE_ICMP_LEN];
	const uint8_t *type = view_peek(&pkt->l4, bounce, 1);

	if (pkt->ip.proto == WIRE_IP_ICMP6 && type && *type >= WIRE_ICMP6_RS && *type <= WIRE_ICMP6_NA)
		svc_nd(&pa->p, &pa->svc, pkt);
	else if (pkt->ip.proto == WIRE_IP_ICMP6 && type && group_is_mld(*type))
		group_mld(&pa->p, pkt);
	else if (!pa->p.fwd->icmp_on)
		env_drop(pa->p.env, DROP_PROTO_OFF);
	else if (!proto_icmp_told(&pa->p, pkt))
		ping_guest(&pa->p, pkt);
}

static void take_ip(struct path *pa, uint32_t i, bool v4)
{
	struct proto_pkt *pkt = &pa->pkt[i];
	struct flow_key key = { .proto = FLOW_FREE };
	const struct view whole = pkt->l4;
	struct env *e = pa->p.env;
	bool reassembled = false;

	switch (v4 ? wire_ip4_parse(&pkt->l4, &pkt->ip) : wire_ip6_parse(&pkt->l4, &pkt->ip)) {
	case WIRE_IP_OK:
		break;
	case WIRE_IP_MALFORMED:
		env_drop(e, DROP_IP_BAD);
		return;
	case WIRE_IP_FRAGMENTED:
		if (!pa->p.reasm)
			env_drop(e, DROP_IP_FRAGMENT);
		if (!pa->p.reasm || !proto_reasm_take(&pa->p, pa->p.reasm, whole, pkt))
			return;
		reassembled = true;
		break;
	case WIRE_IP_NO_NEXT:
		env_drop(e, DROP_IP_EXT);
		return;
	}
	if (!pa->p.fwd->f[v4 ? FWD_V4 : FWD_V6].on) {
		env_drop(e, DROP_FAMILY_OFF);
		return;
	}
	if (inaddr_is_loopback(&pkt->ip.src) || inaddr_is_loopback(&pkt->ip.dst)) {
		env_drop(e, DROP_IP_LOOPBACK);
		return;
	}
	fwd_seen(pa->p.fwd, &pkt->ip.src);
	if (fwd_is_shared(pa->p.fwd, &pkt->ip.dst) && proto_shared_take(&pa->p, pkt, reassembled))
		return;
	key.guest = pkt->ip.src;
	key.far = pkt->ip.dst;
	if (pkt->ip.proto == WIRE_IP_TCP) {
		key.proto = FLOW_TCP;
		take_tcp(pa, i, &key);
	} else if (pkt->ip.proto == WIRE_IP_UDP) {
		key.proto = FLOW_UDP;
		take_udp(pa, i, &key);
	} else if (pkt->ip.proto == (v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6)) {
		take_icmp(pa, pkt);
	} else if (v4 && pkt->ip.proto == WIRE_IP_IGMP) {
		group_igmp(&pa->p, pkt);
	} else {
		env_drop(e, DROP_IP_PROTO);
		proto_icmp_no_protocol(&pa->p, pkt);
	}
}

static void take_frame(struct path *pa, uint32_t i, const struct l2_frame *f)
{
	struct proto_pkt *pkt = &pa->pkt[i];
	struct wire_eth eth;

	pkt->frame = f;
	pkt->next = FLOW_NONE;
	pkt->l4 = view_of(f->iov, f->len);
	if (wire_eth_parse(&pkt->l4, &eth)) {
		env_drop(pa->p.env, DROP_L2_SHORT);
		return;
	}
	if (macaddr_is_unicast(&eth.src))
		pa->p.env->guest_mac = eth.src;
	switch (eth.type) {
	case WIRE_ETH_IPV4:
		take_ip(pa, i, true);
		return;
	case WIRE_ETH_IPV6:
		take_ip(pa, i, false);
		return;
	case WIRE_ETH_ARP:
		svc_arp(&pa->p, pkt->l4);
		return;
	}
	env_drop(pa->p.env, DROP_L2_TYPE);
}

void path_guest(struct path *pa, const struct l2_frame *f, int n)
{
	pa->group_cnt = 0;
	for (int i = 0; i < n; i++)
		take_frame(pa, (uint32_t)i, &f[i]);
	for (uint32_t g = 0; g < pa->group_cnt; g++) {
		struct flow *fl = &pa->p.flows->tab[pa->group[g]];
		uint32_t first = fl->batch_first;

		fl->batch_first = fl->batch_last = FLOW_NONE;
		if (fl->key.proto == FLOW_TCP)
			tcp_guest(&pa->p, fl, pa->seg, first);
		else
			udp_guest(&pa->p, &fl->key, fl, pa->pkt, first);
	}
	if (pa->p.reasm)
		proto_reasm_release(pa->p.reasm);
}
