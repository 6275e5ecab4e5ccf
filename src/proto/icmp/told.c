/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors that the guest, or a router behind it, sends about packets of
 * ours: parsed, and handed to the flow that the quoted packet was of. Believes
 * nothing that quotes no flow; what an error may do is the protocol's decision.
 *
 * RFC 792, RFC 1191 4, RFC 4443 2.4 and 3, RFC 5927 4.
 */
#include "proto/icmp.h"

#include "base/bytes.h"
#include "proto/tcp.h"
#include "proto/udp.h"

#define TOLD_MTU_MIN4	552		/* as the kernel's net.ipv4.route.min_pmtu: below it, fragments cost more than they are worth */
#define TOLD_MTU_MIN6	1280
#define TOLD_PORTS	4		/* both ports begin the header of TCP and UDP */

static bool told_parse4(const struct wire_icmp *h, struct proto_told *ret)
{
	if (h->type == WIRE_ICMP4_UNREACH && h->code == 4) {
		ret->kind = PROTO_TOLD_TOO_BIG;
		ret->mtu = BYTES_MAX(h->seq, TOLD_MTU_MIN4);	/* a router from before RFC 1191 says 0 */
	} else if (h->type == WIRE_ICMP4_UNREACH) {
		ret->kind = h->code == 2 || h->code == 3 || h->code == 9 || h->code == 10 || h->code == 13 ?
			PROTO_TOLD_REFUSED : PROTO_TOLD_UNREACH;
	} else if (h->type == WIRE_ICMP4_TIME_EXCEEDED || h->type == WIRE_ICMP4_PARAM) {
		ret->kind = PROTO_TOLD_UNREACH;
	} else {
		return false;
	}
	return true;
}

static bool told_parse6(const struct wire_icmp *h, struct proto_told *ret)
{
	if (h->type == WIRE_ICMP6_TOO_BIG) {
		ret->kind = PROTO_TOLD_TOO_BIG;
		ret->mtu = BYTES_MAX((uint32_t)h->id << 16 | h->seq, TOLD_MTU_MIN6);
	} else if (h->type == WIRE_ICMP6_UNREACH) {
		ret->kind = h->code == 1 || h->code == 4 || h->code == 5 || h->code == 6 ? PROTO_TOLD_REFUSED : PROTO_TOLD_UNREACH;
	} else if (h->type == WIRE_ICMP6_TIME_EXCEEDED || h->type == WIRE_ICMP6_PARAM) {
		ret->kind = PROTO_TOLD_UNREACH;
	} else {
		return false;
	}
	return true;
}

/* The flow of the quoted packet, which went to the guest; its view is left at the transport header */
static struct flow *told_flow(const struct proto *p, bool v4, struct view *v)
{
	uint8_t bounce[TOLD_PORTS];
	struct flow_key key;
	const uint8_t *port;
	struct wire_ip ip;

	if (wire_ip_quote_parse(v, v4, &ip) != WIRE_IP_OK || (ip.proto != WIRE_IP_TCP && ip.proto != WIRE_IP_UDP))
		return NULL;
	port = view_peek(v, bounce, sizeof(bounce));
	if (!port)
		return NULL;
	key = (struct flow_key){
		.guest = ip.dst, .far = ip.src, .far_port = bytes_get16(port), .guest_port = bytes_get16(port + 2),
		.proto = ip.proto == WIRE_IP_TCP ? FLOW_TCP : FLOW_UDP,
	};
	return flow_find(p->flows, &key);
}

bool proto_icmp_told(struct proto *p, const struct proto_pkt *pkt)
{
	const bool v4 = inaddr_is_v4(&pkt->ip.src);
	struct view v = pkt->l4;
	struct proto_told t = { .mtu = 0 };
	struct wire_icmp h;
	struct flow *f;

	if (wire_icmp_parse(&v, &h) < 0 || !(v4 ? told_parse4(&h, &t) : told_parse6(&h, &t)))
		return false;
	f = told_flow(p, v4, &v);
	t.l4 = v;
	if (!f)
		env_drop(p->env, DROP_ICMP_QUOTE);
	else if (!(f->key.proto == FLOW_TCP ? tcp_told(p, f, &t) : udp_told(p, f, &t)))
		env_drop(p->env, DROP_ICMP_TOLD);
	return true;
}
