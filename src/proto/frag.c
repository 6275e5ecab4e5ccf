/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whole IP packets towards the guest, cut into fragments where the link's MTU
 * asks for it: a datagram that the host received in one piece may be larger
 * than what a guest with a small MTU takes. TCP never comes here. Keeps no
 * state: identifications are random.
 *
 * RFC 791 2.3 and 3.2, RFC 6864 4, RFC 8200 4.5.
 */
#include "proto/proto.h"

#include "base/bytes.h"
#include "base/csum.h"

#define FRAG_EXT_LEN	8		/* IPv6 fragment header */
#define FRAG_EXT	44		/* its protocol number */
#define FRAG_MORE4	0x2000

struct frag {
	const struct inaddr *src, *dst;
	uint8_t proto, tos;
	uint32_t id;
	uint32_t off, len;		/* this fragment's part of the L4 bytes */
	bool more;
};

/* Ethernet to fragment header; returns the length */
static uint32_t frag_emit(const struct env *e, uint8_t *p, const struct frag *g)
{
	uint8_t *ip = p + WIRE_ETH_LEN;

	if (inaddr_is_v4(g->src)) {
		const uint32_t n = proto_emit_l3(e, p, g->src, g->dst, g->proto, g->tos, g->len);

		bytes_put16(ip + 4, (uint16_t)g->id);
		bytes_put16(ip + 6, (uint16_t)(g->off / 8 | (g->more ? FRAG_MORE4 : 0)));
		bytes_put16(ip + 10, 0);
		bytes_put16(ip + 10, csum_done(csum_add(0, ip, WIRE_IP4_LEN)));
		return n;
	}

	const uint32_t n = proto_emit_l3(e, p, g->src, g->dst, FRAG_EXT, g->tos, FRAG_EXT_LEN + g->len);

	p[n] = g->proto;
	p[n + 1] = 0;
	bytes_put16(p + n + 2, (uint16_t)(g->off | g->more));
	bytes_put32(p + n + 4, g->id);
	return n + FRAG_EXT_LEN;
}

/* One frame: HDR_LEN bytes of HDR, then the view */
static bool frag_send(struct env *e, const uint8_t *hdr, uint32_t hdr_len, struct view v)
{
	struct l2_frame f;

	if (!proto_reserve(e, &f, hdr_len + v.len))
		return false;
	view_scatter(f.iov, 0, hdr, hdr_len);
	proto_put(&f, hdr_len, v);
	return proto_commit(e, &f);
}

bool proto_send_path(struct env *e, const struct proto_path *way, const struct view *l4)
{
	struct frag g = { .src = way->src, .dst = way->dst, .proto = way->proto, .tos = way->tos };
	const uint32_t ip_len = wire_ip_hdr_len(way->src);
	const uint32_t head = ip_len + (inaddr_is_v4(way->src) ? 0 : FRAG_EXT_LEN);
	uint8_t hdr[WIRE_ETH_LEN + WIRE_IP6_LEN + FRAG_EXT_LEN];
	struct view rest = *l4;

	if (ip_len + l4->len <= way->mtu)
		return frag_send(e, hdr, proto_emit_l3(e, hdr, way->src, way->dst, way->proto, way->tos, l4->len), rest);

	/* IPv4 counts the header in its 16 bits of length, IPv6 does not */
	if (way->mtu < head + 8 || l4->len > (inaddr_is_v4(way->src) ? L2_IP_MAX - ip_len : L2_IP_MAX)) {
		env_drop(e, DROP_UDP_TOO_BIG);
		return false;
	}
	const uint32_t step = (way->mtu - head) & ~7u;

	g.id = (uint32_t)rng_u64(e->rng);
	for (; rest.len; g.off += g.len) {
		struct view part = rest;

		g.len = BYTES_MIN(step, rest.len);
		g.more = g.len < rest.len;
		view_trim(&part, g.len);
		if (!frag_send(e, hdr, frag_emit(e, hdr, &g), part))
			return false;
		view_skip(&rest, g.len);
	}
	return true;
}

bool proto_send(struct env *e, const struct inaddr *src, const struct inaddr *dst, uint8_t proto, uint8_t tos,
		const struct view *l4)
{
	const struct proto_path way = { .src = src, .dst = dst, .proto = proto, .tos = tos, .mtu = e->l2->mtu };

	return proto_send_path(e, &way, l4);
}
