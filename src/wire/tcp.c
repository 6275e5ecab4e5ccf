/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP headers and the options that matter: MSS, window scale, SACK, timestamps.
 *
 * Refuses a data offset that doesn't fit; nothing in the options can make a segment invalid. Options count only where
 * their RFC lets them stand (MSS, window scale and SACK-permitted on SYN, SACK blocks elsewhere) and with their exact
 * length; others are stepped over. Hence emit(parse(x)) always fits and parses to the same struct. The checksum is not
 * verified (L2-13). RFC 9293 3.1 and 3.2, RFC 7323 2.2 and 3.2, RFC 2018 2 and 3.
 */
#include "wire/tcp.h"

#include <errno.h>

#include "base/bytes.h"

#define OPT_END		0
#define OPT_NOP		1
#define OPT_MSS		2
#define OPT_WS		3
#define OPT_SACK_OK	4
#define OPT_SACK	5
#define OPT_TS		8

#define TS_ALIGNED	0x0101080a	/* NOP, NOP, timestamps: what nearly every data segment has */

static void parse_ts(const uint8_t *p, struct wire_tcp *ret)
{
	ret->has_ts = true;
	ret->ts_val = bytes_get32(p);
	ret->ts_ecr = bytes_get32(p + 4);
}

/* One option of LEN bytes at P, kind and length included */
static void parse_option(const uint8_t *p, unsigned len, struct wire_tcp *ret)
{
	const bool syn = ret->flags & WIRE_TCP_SYN;

	if (p[0] == OPT_MSS && len == 4 && syn) {
		ret->has_mss = true;
		ret->mss = bytes_get16(p + 2);
	} else if (p[0] == OPT_WS && len == 3 && syn) {
		ret->has_ws = true;
		ret->ws = p[2];
	} else if (p[0] == OPT_SACK_OK && len == 2 && syn) {
		ret->has_sack_ok = true;
	} else if (p[0] == OPT_TS && len == 10) {
		parse_ts(p + 2, ret);
	} else if (p[0] == OPT_SACK && len >= 10 && (len - 2) % 8 == 0 && !syn) {
		/* At most four blocks fit into any header */
		ret->sack_cnt = (uint8_t)((len - 2) / 8);
		for (unsigned i = 0; i < ret->sack_cnt; i++) {
			ret->sack[i].from = bytes_get32(p + 2 + i * 8);
			ret->sack[i].to = bytes_get32(p + 6 + i * 8);
		}
	}
}

static void parse_options(const uint8_t *p, unsigned left, struct wire_tcp *ret)
{
	unsigned len;

	if (left == 12 && bytes_get32(p) == TS_ALIGNED) {
		parse_ts(p + 4, ret);
		return;
	}
	for (; left && p[0] != OPT_END; p += len, left -= len) {
		len = 1;
		if (p[0] == OPT_NOP)
			continue;
		if (left < 2 || p[1] < 2 || p[1] > left)
			return;
		len = p[1];
		parse_option(p, len, ret);
	}
}

int wire_tcp_parse(struct view *v, struct wire_tcp *ret)
{
	uint8_t bounce[WIRE_TCP_LEN + WIRE_TCP_OPT_MAX];
	const uint8_t *p = view_peek(v, bounce, WIRE_TCP_LEN);
	uint32_t hdr_len;

	if (!p)
		return -EBADMSG;
	hdr_len = (p[12] >> 4) * 4u;
	if (hdr_len < WIRE_TCP_LEN)
		return -EBADMSG;
	p = view_pull(v, bounce, hdr_len);
	if (!p)
		return -EBADMSG;

	*ret = (struct wire_tcp){
		.sport = bytes_get16(p), .dport = bytes_get16(p + 2),
		.seq = bytes_get32(p + 4), .ack = bytes_get32(p + 8),
		.flags = p[13], .wnd = bytes_get16(p + 14), .urg = bytes_get16(p + 18),
	};
	parse_options(p + WIRE_TCP_LEN, hdr_len - WIRE_TCP_LEN, ret);
	return 0;
}

/* SACK blocks that are written: as many as fit beside timestamps */
static unsigned sack_cnt(const struct wire_tcp *h)
{
	const unsigned max = h->has_ts ? WIRE_TCP_SACK_MAX - 1 : WIRE_TCP_SACK_MAX;

	return h->flags & WIRE_TCP_SYN ? 0 : BYTES_MIN(h->sack_cnt, max);
}

uint32_t wire_tcp_hdr_len(const struct wire_tcp *h)
{
	const unsigned blocks = sack_cnt(h);
	uint32_t len = WIRE_TCP_LEN;

	if (h->flags & WIRE_TCP_SYN)
		len += (h->has_mss ? 4u : 0) + (h->has_ws ? 4u : 0) + (h->has_sack_ok && !h->has_ts ? 4u : 0);
	return len + (h->has_ts ? 12u : 0) + (blocks ? 4 + 8 * blocks : 0);
}

static uint8_t *emit_syn_options(uint8_t *p, const struct wire_tcp *h)
{
	if (h->has_mss) {
		bytes_put32(p, (uint32_t)OPT_MSS << 24 | 4 << 16 | h->mss);
		p += 4;
	}
	if (h->has_ws) {
		bytes_put32(p, (uint32_t)OPT_NOP << 24 | OPT_WS << 16 | 3 << 8 | h->ws);
		p += 4;
	}
	if (h->has_sack_ok && !h->has_ts) {
		bytes_put32(p, (uint32_t)OPT_NOP << 24 | OPT_NOP << 16 | OPT_SACK_OK << 8 | 2);
		p += 4;
	}
	return p;
}

uint32_t wire_tcp_emit(uint8_t *p, const struct wire_tcp *h, uint16_t csum)
{
	const uint32_t hdr_len = wire_tcp_hdr_len(h);
	const unsigned blocks = sack_cnt(h);
	const bool syn = h->flags & WIRE_TCP_SYN;

	bytes_put16(p, h->sport);
	bytes_put16(p + 2, h->dport);
	bytes_put32(p + 4, h->seq);
	bytes_put32(p + 8, h->ack);
	p[12] = (uint8_t)(hdr_len / 4 << 4);
	p[13] = h->flags;
	bytes_put16(p + 14, h->wnd);
	bytes_put16(p + 16, csum);
	bytes_put16(p + 18, h->urg);
	p += WIRE_TCP_LEN;

	if (syn)
		p = emit_syn_options(p, h);
	if (h->has_ts) {
		/* On SYN, SACK-permitted takes the place of the two bytes of padding */
		bytes_put32(p, syn && h->has_sack_ok ? (uint32_t)OPT_SACK_OK << 24 | 2 << 16 | OPT_TS << 8 | 10
						     : TS_ALIGNED);
		bytes_put32(p + 4, h->ts_val);
		bytes_put32(p + 8, h->ts_ecr);
		p += 12;
	}
	if (blocks) {
		bytes_put32(p, (uint32_t)OPT_NOP << 24 | OPT_NOP << 16 | OPT_SACK << 8 | (2 + 8 * blocks));
		p += 4;
		for (unsigned i = 0; i < blocks; i++, p += 8) {
			bytes_put32(p, h->sack[i].from);
			bytes_put32(p + 4, h->sack[i].to);
		}
	}
	return hdr_len;
}
