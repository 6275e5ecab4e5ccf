/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Neighbour discovery: solicitations in, advertisements out.
 *
 * Refuses what a receiver must silently discard (NDP-2, RFC 4861 6.1.1 and 7.1.1), except by the checksum, which a
 * guest may have left to the link (L2-13). Invariants: options written are padded to eight bytes and no further, none
 * has length 0 (RA-5); search names are written whole or not at all, and need no resolver beside them (RA-4).
 * RFC 4861 4, RFC 4862, RFC 8106 5, RFC 1035 3.1.
 */
#include "wire/nd.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "wire/icmp.h"
#include "wire/ip.h"

#define OPT_SLLA	1
#define OPT_TLLA	2
#define OPT_PREFIX	3
#define OPT_MTU		5
#define OPT_RDNSS	25
#define OPT_DNSSL	31

#define LLADDR_OPT_LEN	8
#define SOL_LEN		24		/* NS or NA before its options */
#define RS_LEN		8
#define RA_LEN		16
#define FOREVER_S	0xffffffff
#define LABEL_MAX	63
#define NAME_MAX_LEN	255		/* as written, final root label included */

static int parse_options(struct view *v, const struct inaddr *src, struct wire_nd_sol *ret)
{
	while (v->len) {
		uint8_t bounce[LLADDR_OPT_LEN];
		const uint8_t *p = view_peek(v, bounce, LLADDR_OPT_LEN);

		/* Every option has at least eight bytes */
		if (!p || !p[1] || p[1] * 8u > v->len)
			return -EBADMSG;
		if (p[0] == OPT_SLLA) {
			if (inaddr_is_unset(src))
				return -EBADMSG;
			if (p[1] == 1) {
				memcpy(ret->lladdr.b, p + 2, 6);
				/* A group or zero address can't be a source: as if there were none */
				ret->has_lladdr = macaddr_is_unicast(&ret->lladdr);
			}
		}
		view_skip(v, p[1] * 8u);
	}
	return 0;
}

int wire_nd_parse_ns(struct view v, uint8_t hop_limit, const struct inaddr *src, struct wire_nd_sol *ret)
{
	uint8_t bounce[SOL_LEN];
	const uint8_t *p = view_pull(&v, bounce, SOL_LEN);

	if (!p || hop_limit != 255 || p[0] != WIRE_ICMP6_NS || p[1])
		return -EBADMSG;
	*ret = (struct wire_nd_sol){ .target = inaddr_v6(p + 8) };
	/* A v4-mapped target would pass for IPv4 from here on */
	if (inaddr_is_multicast(&ret->target) || inaddr_is_v4(&ret->target))
		return -EBADMSG;
	return parse_options(&v, src, ret);
}

int wire_nd_parse_rs(struct view v, uint8_t hop_limit, const struct inaddr *src, struct wire_nd_sol *ret)
{
	uint8_t bounce[RS_LEN];
	const uint8_t *p = view_pull(&v, bounce, RS_LEN);

	if (!p || hop_limit != 255 || p[0] != WIRE_ICMP6_RS || p[1])
		return -EBADMSG;
	*ret = (struct wire_nd_sol){ .has_lladdr = false };
	return parse_options(&v, src, ret);
}

static void finish(uint8_t *p, uint32_t len, const struct inaddr *src, const struct inaddr *dst)
{
	bytes_put16(p + 2, 0);
	bytes_put16(p + 2, csum_done(csum_add(csum_pseudo(src, dst, WIRE_IP_ICMP6, len), p, len)));
}

static uint8_t *emit_lladdr(uint8_t *p, uint8_t type, const struct macaddr *m)
{
	p[0] = type;
	p[1] = LLADDR_OPT_LEN / 8;
	memcpy(p + 2, m->b, 6);
	return p + LLADDR_OPT_LEN;
}

void wire_nd_emit_na(uint8_t *p, uint8_t flags, const struct inaddr *target, const struct macaddr *lladdr,
		     const struct inaddr *src, const struct inaddr *dst)
{
	memset(p, 0, SOL_LEN);
	p[0] = WIRE_ICMP6_NA;
	p[4] = flags;
	memcpy(p + 8, target->b, 16);
	emit_lladdr(p + SOL_LEN, OPT_TLLA, lladdr);
	finish(p, WIRE_ND_NA_LEN, src, dst);
}

void wire_nd_emit_ns(uint8_t *p, const struct inaddr *target, const struct macaddr *lladdr,
		     const struct inaddr *src, const struct inaddr *dst)
{
	memset(p, 0, SOL_LEN);
	p[0] = WIRE_ICMP6_NS;
	memcpy(p + 8, target->b, 16);
	emit_lladdr(p + SOL_LEN, OPT_SLLA, lladdr);
	finish(p, WIRE_ND_NS_LEN, src, dst);
}

static uint8_t *emit_prefix(uint8_t *p, const struct wire_nd_ra *ra)
{
	const unsigned bits = BYTES_MIN(ra->prefix_len, 128u);

	memset(p, 0, 32);
	p[0] = OPT_PREFIX;
	p[1] = 4;
	p[2] = (uint8_t)bits;
	p[3] = 0x80 | 0x40;		/* on-link, autonomous */
	bytes_put32(p + 4, FOREVER_S);
	bytes_put32(p + 8, FOREVER_S);
	memcpy(p + 16, ra->prefix.b, bits / 8);
	if (bits % 8)
		p[16 + bits / 8] = (uint8_t)(ra->prefix.b[bits / 8] & 0xff00 >> bits % 8);
	return p + 32;
}

static uint8_t *emit_rdnss(uint8_t *p, const struct wire_nd_ra *ra)
{
	const unsigned cnt = BYTES_MIN(ra->dns_cnt, (unsigned)WIRE_ND_DNS_MAX);
	uint8_t *at = p + 8;

	for (unsigned i = 0; i < cnt; i++) {
		/* The option has no room for IPv4 */
		if (inaddr_is_v4(&ra->dns[i]))
			continue;
		memcpy(at, ra->dns[i].b, 16);
		at += 16;
	}
	if (at == p + 8)
		return p;
	p[0] = OPT_RDNSS;
	p[1] = (uint8_t)((at - p) / 8);
	bytes_put16(p + 2, 0);
	bytes_put32(p + 4, FOREVER_S);
	return at;
}

/* Dotted text to labels, into ROOM bytes: bytes written, 0 if it doesn't fit or is no name */
static uint32_t emit_name(uint8_t *p, uint32_t room, const char *name)
{
	uint32_t at = 0;

	room = BYTES_MIN(room, (uint32_t)NAME_MAX_LEN);
	while (*name) {
		uint32_t n = 0;

		while (name[n] && name[n] != '.')
			n++;
		if (!n || n > LABEL_MAX || at + 1 + n + 1 > room)
			return 0;
		p[at] = (uint8_t)n;
		memcpy(p + at + 1, name, n);
		at += 1 + n;
		name += n + (name[n] == '.');
	}
	if (!at)
		return 0;
	p[at] = 0;
	return at + 1;
}

static uint8_t *emit_dnssl(uint8_t *p, uint32_t room, const struct wire_nd_ra *ra)
{
	uint32_t at = 8;

	/* The room is a multiple of eight, as every option before is: what fits can be padded */
	if (room < 16)
		return p;
	for (unsigned i = 0; i < ra->search_cnt; i++)
		at += emit_name(p + at, room - at, ra->search[i]);
	if (at == 8)
		return p;
	for (; at % 8; at++)
		p[at] = 0;
	p[0] = OPT_DNSSL;
	p[1] = (uint8_t)(at / 8);
	bytes_put16(p + 2, 0);
	bytes_put32(p + 4, FOREVER_S);
	return p + at;
}

uint32_t wire_nd_emit_ra(uint8_t *p, const struct wire_nd_ra *ra, const struct inaddr *src, const struct inaddr *dst)
{
	uint8_t *at = p + RA_LEN;

	memset(p, 0, RA_LEN);
	p[0] = WIRE_ICMP6_RA;
	p[4] = ra->hop_limit;
	p[5] = (uint8_t)((ra->managed ? 0x80 : 0) | (ra->other ? 0x40 : 0));
	bytes_put16(p + 6, ra->router_lifetime_s);

	if (ra->has_prefix)
		at = emit_prefix(at, ra);
	at = emit_lladdr(at, OPT_SLLA, &ra->lladdr);
	if (ra->mtu) {
		at[0] = OPT_MTU;
		at[1] = 1;
		bytes_put16(at + 2, 0);
		bytes_put32(at + 4, ra->mtu);
		at += 8;
	}
	at = emit_rdnss(at, ra);
	at = emit_dnssl(at, WIRE_ND_RA_MAX - (uint32_t)(at - p), ra);
	finish(p, (uint32_t)(at - p), src, dst);
	return (uint32_t)(at - p);
}
