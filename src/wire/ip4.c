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
#define FRAG_OFFSET	0x1fff

/* The fields that a quote has as well: header length, 0: malformed; whether it is a fragment is for the caller */
static uint32_t ip4_head(const struct view *v, struct wire_ip *ret, uint32_t *ret_total, uint16_t *ret_frag)
{
	uint8_t bounce[WIRE_IP4_LEN];
	const uint8_t *p = view_peek(v, bounce, WIRE_IP4_LEN);
	uint32_t hdr_len;

	if (!p || p[0] >> 4 != 4)
		return 0;
	hdr_len = (p[0] & 0x0fu) * 4;
	*ret_total = bytes_get16(p + 2);
	*ret_frag = bytes_get16(p + 6);
	if (hdr_len < WIRE_IP4_LEN || *ret_total < hdr_len || hdr_len > v->len)
		return 0;
	ret->src = inaddr_v4(p + 12);
	ret->dst = inaddr_v4(p + 16);
	ret->proto = p[9];
	ret->ttl = p[8];
	ret->tos = p[1];
	ret->df = *ret_frag & FRAG_DF;
	ret->id = bytes_get16(p + 4);
	ret->label = 0;
	return hdr_len;
}

enum wire_ip_verdict wire_ip4_parse(struct view *v, struct wire_ip *ret)
{
	uint32_t total = 0;
	uint16_t frag = 0;
	const uint32_t hdr_len = ip4_head(v, ret, &total, &frag);

	if (!hdr_len || total > v->len)
		return WIRE_IP_MALFORMED;
	if (frag & FRAG_MF_OFFSET)
		return WIRE_IP_FRAGMENTED;
	view_trim(v, total);
	view_skip(v, hdr_len);
	return WIRE_IP_OK;
}

static enum wire_ip_verdict ip4_quote(struct view *v, struct wire_ip *ret)
{
	uint32_t total = 0;
	uint16_t frag = 0;
	const uint32_t hdr_len = ip4_head(v, ret, &total, &frag);

	if (!hdr_len)
		return WIRE_IP_MALFORMED;
	if (frag & FRAG_OFFSET)
		return WIRE_IP_FRAGMENTED;
	view_trim(v, total);
	view_skip(v, hdr_len);
	return WIRE_IP_OK;
}

enum wire_ip_verdict wire_ip_quote_parse(struct view *v, bool v4, struct wire_ip *ret)
{
	return v4 ? ip4_quote(v, ret) : wire_ip6_quote(v, ret);
}

static void ip4_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload)
{
	p[0] = 4 << 4 | WIRE_IP4_LEN / 4;
	p[1] = h->tos;
	bytes_put16(p + 2, (uint16_t)(WIRE_IP4_LEN + payload));
	bytes_put16(p + 4, h->id);
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
