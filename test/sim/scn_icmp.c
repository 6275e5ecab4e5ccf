/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands `icmp` and `norouter` of scenario files: an error towards the
 * guest that quotes its SYN, checked down to each checksum.
 */
#include "scn.h"
#include "wire/icmp.h"

static struct view icmp_view(const struct fake_l2_frame *r, struct iovec *iov)
{
	*iov = (struct iovec){ r->buf, r->len };
	return view_of(iov, r->len);
}

static uint16_t icmp_csum(const struct view *v, const struct wire_ip *ip, bool pseudo)
{
	return csum_done(csum_add_view(pseudo ? csum_pseudo(&ip->src, &ip->dst, ip->proto, v->len) : 0, v));
}

static void icmp_quote(struct scn *s, struct view v)
{
	struct flow_key key = world_key(&s->w, s->c->guest_port, 80);
	struct wire_ip ip;
	struct wire_tcp h;

	if ((s->w.v6 ? wire_ip6_parse(&v, &ip) : wire_ip4_parse(&v, &ip)) != WIRE_IP_OK || ip.proto != WIRE_IP_TCP)
		scn_fail(s, "the error quotes no TCP packet");
	if (!inaddr_eq(&ip.src, &key.guest) || !inaddr_eq(&ip.dst, &key.far))
		scn_fail(s, "the quoted packet has other addresses");
	if (icmp_csum(&v, &ip, true))
		scn_fail(s, "the quoted segment's checksum is wrong");
	if (wire_tcp_parse(&v, &h) || h.sport != key.guest_port || h.dport != key.far_port || h.flags != WIRE_TCP_SYN ||
	    h.seq != s->c->guest_isn)
		scn_fail(s, "the quoted segment is not the guest's SYN: ports %u %u flags %02x seq %u", h.sport, h.dport,
			 h.flags, h.seq - s->c->guest_isn);
}

void scn_icmp(struct scn *s)
{
	const struct fake_l2_frame *r = &s->w.l2.frames[s->w.read];
	const struct inaddr *want = &s->w.fwd.f[s->w.v6 ? FWD_V6 : FWD_V4].ours;
	struct flow_key key = world_key(&s->w, s->c->guest_port, 80);
	uint32_t num[4];
	struct iovec iov;
	struct wire_eth eth;
	struct wire_icmp h;
	struct wire_ip ip;
	struct view v;

	for (int i = 0; i < 4; i++)
		num[i] = scn_num(s, scn_next(s));
	if (s->w.read == s->w.l2.cnt)
		scn_fail(s, "no frame came");
	s->w.read++;
	v = icmp_view(r, &iov);
	if (wire_eth_parse(&v, &eth) || (s->w.v6 ? wire_ip6_parse(&v, &ip) : wire_ip4_parse(&v, &ip)) != WIRE_IP_OK ||
	    ip.proto != (s->w.v6 ? WIRE_IP_ICMP6 : WIRE_IP_ICMP))
		scn_fail(s, "the frame is no ICMP: protocol %u", ip.proto);
	if (!inaddr_eq(&ip.dst, &key.guest) || !inaddr_eq(&ip.src, inaddr_is_unset(want) ? &key.far : want))
		scn_fail(s, "the error has wrong addresses");
	if (icmp_csum(&v, &ip, s->w.v6))
		scn_fail(s, "the error's checksum is wrong");
	if (wire_icmp_parse(&v, &h) || h.type != num[s->w.v6 ? 2 : 0] || h.code != num[s->w.v6 ? 3 : 1])
		scn_fail(s, "type %u code %u", h.type, h.code);
	icmp_quote(s, v);
}

void scn_norouter(struct scn *s)
{
	for (int f = 0; f < FWD_FAMILIES; f++)
		s->w.fwd.f[f].ours = s->w.fwd.f[f].gateway = (struct inaddr){ { 0 } };
}
