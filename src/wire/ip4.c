/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv4 headers.
 *
 * Refuses fragments (nothing is put together here) and whatever claims more bytes than the frame has; skips options
 * unread; doesn't verify the checksum, since the guest link is memory (L2-12 to L2-16). Super-frames carry their true
 * total length. RFC 791 3.1.
 */
#include "wire/ip.h"

#include "base/bytes.h"
#include "base/csum.h"
#include "ip_priv.h"

#define FRAG_DF		0x4000
#define FRAG_MF_OFFSET	0x3fff

enum wire_ip_verdict wire_ip4_parse(struct view *v, struct wire_ip *ret)
{
	uint8_t bounce[WIRE_IP4_LEN];
	const uint8_t *p = view_peek(v, bounce, WIRE_IP4_LEN);
	uint32_t hdr_len, total;
	uint16_t frag;

	if (!p || p[0] >> 4 != 4)
		return WIRE_IP_MALFORMED;
	hdr_len = (p[0] & 0x0fu) * 4;
	total = bytes_get16(p + 2);
	if (hdr_len < WIRE_IP4_LEN || total < hdr_len || total > v->len)
		return WIRE_IP_MALFORMED;

	frag = bytes_get16(p + 6);
	ret->src = inaddr_v4(p + 12);
	ret->dst = inaddr_v4(p + 16);
	ret->proto = p[9];
	ret->ttl = p[8];
	ret->tos = p[1];
	ret->df = frag & FRAG_DF;
	ret->label = 0;
	if (frag & FRAG_MF_OFFSET)
		return WIRE_IP_FRAGMENTED;

	view_trim(v, total);
	view_skip(v, hdr_len);
	return WIRE_IP_OK;
}

static void ip4_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload)
{
	p[0] = 4 << 4 | WIRE_IP4_LEN / 4;
	p[1] = h->tos;
	bytes_put16(p + 2, (uint16_t)(WIRE_IP4_LEN + payload));
	bytes_put16(p + 4, 0);
	bytes_put16(p + 6, h->df ? FRAG_DF : 0);
	p[8] = h->ttl;
	p[9] = h->proto;
	bytes_put16(p + 10, 0);
	memcpy(p + 12, h->src.b + 12, 4);
	memcpy(p + 16, h->dst.b + 12, 4);
	bytes_put16(p + 10, csum_done(csum_add(0, p, WIRE_IP4_LEN)));
}

uint32_t wire_ip_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload)
{
	if (inaddr_is_v4(&h->src)) {
		ip4_emit(p, h, payload);
		return WIRE_IP4_LEN;
	}
	wire_ip6_emit(p, h, payload);
	return WIRE_IP6_LEN;
}
