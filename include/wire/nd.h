/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Neighbour discovery for IPv6 (RFC 4861, RFC 8106): solicitations from the
 * guest, advertisements to it. Messages begin at the ICMPv6 type.
 */
#ifndef WIRE_ND_H
#define WIRE_ND_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/view.h"

#define WIRE_ND_NA_LEN	32		/* header, target, target link-layer option */
#define WIRE_ND_NS_LEN	32
#define WIRE_ND_RA_MAX	1232		/* fits into 1280 with the IPv6 header */
#define WIRE_ND_DNS_MAX	3

struct wire_nd_sol {			/* neighbour or router solicitation */
	struct inaddr target;		/* unset for a router solicitation */
	bool has_lladdr;
	struct macaddr lladdr;		/* source link-layer address option */
};

struct wire_nd_ra {
	uint8_t hop_limit;
	bool managed, other;		/* M and O flags */
	uint16_t router_lifetime_s;
	bool has_prefix;
	struct inaddr prefix;		/* host bits are cleared when written */
	uint8_t prefix_len;
	struct macaddr lladdr;		/* source link-layer address */
	uint32_t mtu;			/* 0: no option */
	struct inaddr dns[WIRE_ND_DNS_MAX];
	unsigned dns_cnt;
	const char *const *search;	/* names, dotted text */
	unsigned search_cnt;
};

/* A whole NS or RS, view at the ICMPv6 type: 0, or -EBADMSG. Checks RFC 4861 7.1.1, 6.1.1: HOP_LIMIT 255, code 0, option
 * lengths not zero and within the message, target not multicast, no source option if SRC is unspecified.
 */
int wire_nd_parse_ns(struct view v, uint8_t hop_limit, const struct inaddr *src, struct wire_nd_sol *ret);
int wire_nd_parse_rs(struct view v, uint8_t hop_limit, const struct inaddr *src, struct wire_nd_sol *ret);

#define WIRE_ND_NA_ROUTER	0x80
#define WIRE_ND_NA_SOLICITED	0x40
#define WIRE_ND_NA_OVERRIDE	0x20
/* Write WIRE_ND_NA_LEN bytes, checksum included */
void wire_nd_emit_na(uint8_t *p, uint8_t flags, const struct inaddr *target, const struct macaddr *lladdr,
		     const struct inaddr *src, const struct inaddr *dst);
/* Neighbour solicitation with source link-layer option, WIRE_ND_NS_LEN bytes */
void wire_nd_emit_ns(uint8_t *p, const struct inaddr *target, const struct macaddr *lladdr,
		     const struct inaddr *src, const struct inaddr *dst);
/* Write at most WIRE_ND_RA_MAX bytes, checksum included; returns the length. Search names that don't fit are left out. */
uint32_t wire_nd_emit_ra(uint8_t *p, const struct wire_nd_ra *ra, const struct inaddr *src, const struct inaddr *dst);

#endif
