/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly of the guest's fragments. Memory is bounded: a fixed number of
 * packets, the oldest gives way. What overlaps with other bytes than it had
 * brought itself is an attack or a fault and ends the packet, with all that is
 * still to come of it (RFC 5722; for IPv4 alike, RFC 1858).
 *
 * Invariants: `have` counts the bytes of the units that are marked; a packet
 * is whole when have equals total. RFC 791 3.2, RFC 8200 4.5, RFC 3168 5.3.
 */
#include "proto/reasm.h"

#include "base/bytes.h"
#include "base/csum.h"
#include "proto/icmp.h"
#include "wire/udp.h"

#define REASM_EXT	44		/* IPv6 fragment header */
#define REASM_EXT_LEN	8
#define REASM_ECN	3
#define REASM_CE	3		/* congestion experienced */

struct reasm_frag {
	uint32_t id, off;
	bool more;
	uint8_t proto;
	struct view data;
};

static bool reasm_parse4(struct view v, struct reasm_frag *ret)
{
	uint8_t bounce[WIRE_IP4_LEN];
	const uint8_t *p = view_peek(&v, bounce, sizeof(bounce));
	uint32_t hdr_len;

	if (!p)
		return false;
	hdr_len = (p[0] & 0xfu) * 4;
	ret->id = bytes_get16(p + 4);
	ret->off = (bytes_get16(p + 6) & 0x1fff) * 8u;
	ret->more = bytes_get16(p + 6) & 0x2000;
	ret->proto = p[9];
	view_trim(&v, bytes_get16(p + 2));
	if (hdr_len < WIRE_IP4_LEN || hdr_len > v.len)
		return false;
	view_skip(&v, hdr_len);
	ret->data = v;
	return true;
}

static bool reasm_parse6(struct view v, struct reasm_frag *ret)
{
	uint8_t bounce[REASM_EXT_LEN];
	const uint8_t *p = view_pull(&v, bounce, sizeof(bounce));

	if (!p)
		return false;
	ret->proto = p[0];
	ret->off = bytes_get16(p + 2) & 0xfff8;
	ret->more = p[3] & 1;
	ret->id = bytes_get32(p + 4);
	ret->data = v;
	return true;
}

/* The sender learns of it if the first fragment has come: the rest says nothing to it */
static void reasm_time_exceeded(struct proto *p, const struct proto_reasm_entry *e)
{
	const bool v4 = inaddr_is_v4(&e->src);
	const struct proto_icmp err = { .type = v4 ? WIRE_ICMP4_TIME_EXCEEDED : WIRE_ICMP6_TIME_EXCEEDED, .code = 1 };
	uint8_t ext[REASM_EXT_LEN] = { e->proto };
	const struct iovec iov[2] = { { ext, v4 ? 0 : sizeof(ext) }, { (void *)e->data, e->first } };
	const uint32_t len = (uint32_t)iov[0].iov_len + e->first;
	const struct proto_quote q = {
		.src = e->src, .dst = e->dst, .proto = v4 ? e->proto : REASM_EXT, .ttl = e->ip.ttl, .tos = e->ip.tos,
		.id = (uint16_t)e->id, .more = true, .l4_len = len, .l4 = view_of(v4 ? iov + 1 : iov, len),
	};

	ext[3] = 1;
	bytes_put32(ext + 4, e->id);
	if (inaddr_is_unicast(&e->src) && inaddr_is_unicast(&e->dst) && proto_icmp_allow(p))
		proto_icmp_error(p, &err, &q);
}

void proto_reasm_tick(struct proto *p, struct proto_reasm *r)
{
	const ns_t now = p->env->now;

	if (now < proto_reasm_next(r))
		return;
	r->next = 0;
	for (struct proto_reasm_entry *e = r->e; e < r->e + PROTO_REASM_CNT; e++) {
		if (!e->used || e->done)
			continue;
		if (e->since + PROTO_REASM_TIME > now) {
			r->next = BYTES_MIN(proto_reasm_next(r), e->since + PROTO_REASM_TIME);
			continue;
		}
		e->used = false;
		if (e->dead)
			continue;
		env_drop(p->env, DROP_IP_FRAGMENT);
		if (e->first)
			reasm_time_exceeded(p, e);
	}
}

/* Whether X gives way before Y */
static bool reasm_gives_way(const struct proto_reasm_entry *x, const struct proto_reasm_entry *y)
{
	if (x->used != y->used)
		return !x->used;
	if (x->dead != y->dead)
		return x->dead;
	return x->since < y->since;
}

/* The packet that the fragment belongs to, a new one if need be; NULL if all memory holds whole packets of this batch */
static struct proto_reasm_entry *reasm_entry(struct proto *p, struct proto_reasm *r, const struct wire_ip *ip,
					     const struct reasm_frag *g)
{
	struct proto_reasm_entry *e, *best = NULL;

	for (e = r->e; e < r->e + PROTO_REASM_CNT; e++) {
		if (e->used && !e->done && e->id == g->id && e->proto == g->proto && inaddr_eq(&e->src, &ip->src) &&
		    inaddr_eq(&e->dst, &ip->dst))
			return e;
		if (e->done)
			continue;
		if (!best || reasm_gives_way(e, best))
			best = e;
	}
	if (!best)
		return NULL;
	if (best->used && !best->dead)
		env_drop(p->env, DROP_IP_FRAGMENT);
	best->used = true;
	best->dead = false;
	best->src = ip->src;
	best->dst = ip->dst;
	best->id = g->id;
	best->proto = g->proto;
	best->since = p->env->now;
	best->ip = *ip;
	best->have = best->total = best->top = best->first = 0;
	r->next = BYTES_MIN(proto_reasm_next(r), best->since + PROTO_REASM_TIME);
	memset(best->unit, 0, sizeof(best->unit));
	return best;
}

/* Mark the fragment's units: how many were marked before */
static uint32_t reasm_mark(struct proto_reasm_entry *e, uint32_t off, uint32_t len)
{
	uint32_t before = 0;

	for (uint32_t u = off / 8; u < (off + len + 7) / 8; u++) {
		const uint64_t bit = (uint64_t)1 << u % 64;

		before += !!(e->unit[u / 64] & bit);
		e->unit[u / 64] |= bit;
	}
	return before;
}

/* Whether the fragment's place and size are possible, also next to those that came before */
static bool reasm_fits(const struct proto_reasm_entry *e, const struct reasm_frag *g, uint32_t max)
{
	const uint32_t end = g->off + g->data.len;

	if (!g->data.len || end > max || (g->more && g->data.len % 8) || (e->total && end > e->total))
		return false;
	return g->more || ((!e->total || e->total == end) && e->top <= end);
}

/* RFC 3168 5.3: one mark marks the packet; the other fields are those of its beginning */
static void reasm_header(struct proto_reasm_entry *e, const struct wire_ip *ip, const struct reasm_frag *g)
{
	const bool ce = (e->ip.tos & REASM_ECN) == REASM_CE || (ip->tos & REASM_ECN) == REASM_CE;

	if (!g->off) {
		e->ip = *ip;
		e->first = g->data.len;
	}
	if (ce)
		e->ip.tos |= REASM_CE;
}

/* A checksum of 0 is none; other protocols have theirs elsewhere, or none */
static bool reasm_csum_good(const struct proto_reasm_entry *e)
{
	const bool udp = e->proto == WIRE_IP_UDP, icmp = e->proto == WIRE_IP_ICMP;
	uint32_t sum = 0;

	if (!udp && !icmp && e->proto != WIRE_IP_TCP && e->proto != WIRE_IP_ICMP6)
		return true;
	if (udp && e->total >= WIRE_UDP_LEN && !bytes_get16(e->data + 6))
		return true;
	if (!icmp)
		sum = csum_pseudo(&e->src, &e->dst, e->proto, e->total);
	return !csum_done(csum_add(sum, e->data, e->total));
}

bool proto_reasm_take(struct proto *p, struct proto_reasm *r, struct view ip, struct proto_pkt *pkt)
{
	const bool v4 = inaddr_is_v4(&pkt->ip.src);
	const uint32_t max = v4 ? L2_IP_MAX - WIRE_IP4_LEN : L2_IP_MAX;
	struct proto_reasm_entry *e;
	struct reasm_frag g;
	uint32_t before;

	if (!(v4 ? reasm_parse4(ip, &g) : reasm_parse6(pkt->l4, &g)) || !(e = reasm_entry(p, r, &pkt->ip, &g))) {
		env_drop(p->env, DROP_IP_FRAGMENT);
		return false;
	}
	if (e->dead) {
		env_drop(p->env, DROP_IP_FRAGMENT);
		return false;
	}
	if (!reasm_fits(e, &g, max)) {
		env_drop(p->env, DROP_IP_FRAGMENT);
		e->used = false;
		return false;
	}
	before = reasm_mark(e, g.off, g.data.len);
	if (before) {
		env_drop(p->env, DROP_IP_FRAGMENT);
		e->dead = before != (g.data.len + 7) / 8;	/* not just a copy */
		return false;
	}
	reasm_header(e, &pkt->ip, &g);
	view_copy(&g.data, e->data + g.off, g.data.len);
	e->have += g.data.len;
	e->top = BYTES_MAX(e->top, g.off + g.data.len);
	if (!g.more)
		e->total = g.off + g.data.len;
	if (!e->total || e->have != e->total)
		return false;
	if (!reasm_csum_good(e)) {
		env_drop(p->env, DROP_IP_FRAGMENT);
		e->used = false;
		return false;
	}
	e->done = true;
	e->iov = (struct iovec){ e->data, e->total };
	pkt->ip = e->ip;
	pkt->ip.proto = e->proto;
	pkt->ip.df = false;
	pkt->l4 = view_of(&e->iov, e->total);
	return true;
}

void proto_reasm_release(struct proto_reasm *r)
{
	for (struct proto_reasm_entry *e = r->e; e < r->e + PROTO_REASM_CNT; e++) {
		if (e->done)
			e->used = e->done = false;
	}
}
