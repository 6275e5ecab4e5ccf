/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses that guest and host both have (--host-own-addr). The guest's kernel
 * sends us what its programs send there, instead of delivering it itself; what
 * one of its own sockets waits for, and all that we can't offer the host, goes
 * back unchanged. Never takes a packet of a flow that leads to the host, and
 * keeps no state: a connection inside the guest is one that has no flow.
 *
 * A new flow costs one question about the guest's sockets, TCP only with its
 * SYN. Where the answer is unknown, the guest's kernel gives it (RST, or port
 * unreachable).
 */
#include "proto/proto.h"

#include "wire/icmp.h"
#include "wire/tcp.h"
#include "wire/udp.h"

/* Whether a new flow is the guest's own business */
static bool shared_is_guests(struct proto *p, const struct flow_key *key)
{
	const struct sk_addr local = { .a = key->far, .port = key->far_port };
	const struct sk_addr remote = { .a = key->guest, .port = key->guest_port };

	return fwd_is_lost(p->fwd, &key->far) ||
	       p->env->sk->ops->guest_has(p->env->sk, key->proto == FLOW_TCP, &local, &remote) != 0;
}

static bool shared_tcp_is_guests(struct proto *p, struct view v, struct flow_key *key)
{
	struct wire_tcp h;

	if (!p->fwd->tcp_on)
		return true;
	if (wire_tcp_parse(&v, &h))
		return false;		/* malformed: for others to count */
	key->proto = FLOW_TCP;
	key->guest_port = h.sport;
	key->far_port = h.dport;
	if (flow_find(p->flows, key))
		return false;
	return (h.flags & (WIRE_TCP_SYN | WIRE_TCP_ACK | WIRE_TCP_RST | WIRE_TCP_FIN)) != WIRE_TCP_SYN ||
	       shared_is_guests(p, key);
}

static bool shared_udp_is_guests(struct proto *p, const struct proto_pkt *pkt, struct flow_key *key)
{
	struct view v = pkt->l4;
	struct wire_udp h;

	if (!p->fwd->udp_on)
		return true;
	if (wire_udp_parse(&v, pkt->frame->gso == L2_GSO_UDP, &h))
		return false;
	key->proto = FLOW_UDP;
	key->guest_port = h.sport;
	key->far_port = h.dport;
	return !flow_find(p->flows, key) && shared_is_guests(p, key);
}

static bool shared_is_error(const struct proto_pkt *pkt)
{
	uint8_t bounce;
	const uint8_t *type = view_peek(&pkt->l4, &bounce, 1);

	if (!type)
		return false;
	if (pkt->ip.proto == WIRE_IP_ICMP6)
		return *type < 128;	/* RFC 4443 2.1 */
	return pkt->ip.proto == WIRE_IP_ICMP &&
	       (*type == WIRE_ICMP4_UNREACH || *type == WIRE_ICMP4_TIME_EXCEEDED || *type == WIRE_ICMP4_PARAM);
}

static void shared_send_back(struct proto *p, const struct l2_frame *from, bool v4)
{
	const struct wire_eth eth = {
		.dst = p->env->guest_mac, .src = p->env->our_mac, .type = v4 ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6,
	};
	struct view rest = view_of(from->iov, from->len);
	uint8_t hdr[WIRE_ETH_LEN];
	struct l2_frame f;

	if (!proto_reserve(p->env, &f, from->len))
		return;
	view_skip(&rest, WIRE_ETH_LEN);
	wire_eth_emit(hdr, &eth);
	view_scatter(f.iov, 0, hdr, sizeof(hdr));
	proto_put(&f, WIRE_ETH_LEN, rest);
	f.gso = from->gso;
	f.gso_size = from->gso_size;
	f.csum = from->csum;
	f.csum_start = from->csum_start;
	f.csum_off = from->csum_off;
	f.hdr_len = from->hdr_len;
	proto_commit(p->env, &f);
}

bool proto_shared_take(struct proto *p, const struct proto_pkt *pkt, bool reassembled)
{
	struct flow_key key = { .guest = pkt->ip.src, .far = pkt->ip.dst };
	bool guests = true;

	if (pkt->ip.proto == WIRE_IP_TCP)
		guests = shared_tcp_is_guests(p, pkt->l4, &key);
	else if (pkt->ip.proto == WIRE_IP_UDP)
		guests = shared_udp_is_guests(p, pkt, &key);
	if (!guests)
		return false;
	if (reassembled)
		proto_send(p->env, &pkt->ip.src, &pkt->ip.dst, pkt->ip.proto, pkt->ip.tos, &pkt->l4);
	else
		shared_send_back(p, pkt->frame, inaddr_is_v4(&pkt->ip.src));
	return !shared_is_error(pkt);	/* it may as well be about a packet from the host */
}
