/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv6 headers and the chain of extension headers behind them.
 *
 * Refuses fragments other than atomic ones, jumbograms, what can't be skipped (ESP), chains longer than CHAIN_MAX, and
 * v4-mapped addresses, which must not be on a wire and would pass for IPv4 from here on (L2-16 to L2-20). Skips
 * everything else unread. Super-frames carry their true payload length.
 * RFC 8200 3 and 4, RFC 4302 2.2, RFC 6946, RFC 2675, RFC 6564, RFC 4942 2.2.
 */
#include "wire/ip.h"

#include "base/bytes.h"
#include "ip_priv.h"

#define CHAIN_MAX	16		/* extension headers; real ones have two or three */
#define FRAG_OFFSET	0xfff8		/* of the fragment header; the two bits between these are reserved and ignored */
#define FRAG_MORE	1

enum ext {
	EXT_HOP_BY_HOP = 0,
	EXT_ROUTING = 43,
	EXT_FRAGMENT = 44,
	EXT_ESP = 50,
	EXT_AH = 51,
	EXT_NO_NEXT = 59,
	EXT_DESTINATION = 60,
	EXT_MOBILITY = 135,
	EXT_HIP = 139,
	EXT_SHIM6 = 140,
	EXT_EXPERIMENT_1 = 253,
	EXT_EXPERIMENT_2 = 254,
};

/* FRAG: bits of a fragment header's offset field that must be 0 */
static enum wire_ip_verdict skip_chain(struct view *v, struct wire_ip *ret, uint16_t frag)
{
	for (unsigned i = 0; i <= CHAIN_MAX; i++) {
		uint8_t bounce[8];
		const uint8_t *p = view_peek(v, bounce, 8);
		uint32_t len;

		switch (ret->proto) {
		case EXT_HOP_BY_HOP:
		case EXT_ROUTING:
		case EXT_DESTINATION:
		case EXT_MOBILITY:
		case EXT_HIP:
		case EXT_SHIM6:
		case EXT_EXPERIMENT_1:
		case EXT_EXPERIMENT_2:
			len = p ? (p[1] + 1u) * 8 : UINT32_MAX;
			break;
		case EXT_AH:
			len = p ? (p[1] + 2u) * 4 : UINT32_MAX;
			break;
		case EXT_FRAGMENT:
			len = p ? 8 : UINT32_MAX;
			break;
		case EXT_ESP:
		case EXT_NO_NEXT:
			return WIRE_IP_NO_NEXT;
		default:
			return WIRE_IP_OK;
		}
		if (len > v->len)
			return WIRE_IP_MALFORMED;
		if (ret->proto == EXT_FRAGMENT && bytes_get16(p + 2) & frag) {
			ret->proto = p[0];
			return WIRE_IP_FRAGMENTED;
		}
		ret->proto = p[0];
		view_skip(v, len);
	}
	return WIRE_IP_NO_NEXT;
}

/* The fixed header is pulled; false: malformed */
static bool ip6_head(struct view *v, struct wire_ip *ret, uint32_t *ret_payload)
{
	uint8_t bounce[WIRE_IP6_LEN];
	const uint8_t *p = view_pull(v, bounce, WIRE_IP6_LEN);
	uint32_t first;

	if (!p || p[0] >> 4 != 6)
		return false;
	first = bytes_get32(p);
	*ret_payload = bytes_get16(p + 4);
	ret->src = inaddr_v6(p + 8);
	ret->dst = inaddr_v6(p + 24);
	if (inaddr_is_v4(&ret->src) || inaddr_is_v4(&ret->dst))
		return false;
	ret->proto = p[6];
	ret->ttl = p[7];
	ret->tos = (uint8_t)(first >> 20);
	ret->df = true;
	ret->id = 0;
	ret->label = first & 0xfffff;
	return true;
}

enum wire_ip_verdict wire_ip6_parse(struct view *v, struct wire_ip *ret)
{
	uint32_t payload = 0;

	if (!ip6_head(v, ret, &payload) || payload > v->len)
		return WIRE_IP_MALFORMED;
	/* A jumbogram says 0 here, and then its hop-by-hop header doesn't fit: malformed */
	view_trim(v, payload);
	if (ret->proto == WIRE_IP_TCP || ret->proto == WIRE_IP_UDP)
		return WIRE_IP_OK;
	return skip_chain(v, ret, FRAG_OFFSET | FRAG_MORE);
}

enum wire_ip_verdict wire_ip6_quote(struct view *v, struct wire_ip *ret)
{
	uint32_t payload = 0;

	if (!ip6_head(v, ret, &payload))
		return WIRE_IP_MALFORMED;
	view_trim(v, payload);
	return skip_chain(v, ret, FRAG_OFFSET);
}

void wire_ip6_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload)
{
	bytes_put32(p, (uint32_t)6 << 28 | (uint32_t)h->tos << 20 | (h->label & 0xfffff));
	bytes_put16(p + 4, (uint16_t)payload);
	p[6] = h->proto;
	p[7] = h->ttl;
	memcpy(p + 8, h->src.b, 16);
	memcpy(p + 24, h->dst.b, 16);
}
