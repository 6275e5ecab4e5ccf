/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reassembly: an input is a list of fragments, of few identifications, at places that touch and overlap, and of time that
 * passes. A whole packet has the bytes that its fragments had, each in its place and none from elsewhere; what never came
 * whole is given up in time, and nothing stays behind.
 */
#include "dgram_bed.h"
#include "proto/reasm.h"

#define IDS	4
#define LEN_MAX	1400

/* What byte AT of packet ID is, in every fragment of it */
static uint8_t byte_of(uint32_t id, uint32_t at)
{
	return (uint8_t)(id * 101 + at * 7 + (at >> 8) * 3);
}

/* One fragment into P; returns its length */
static uint32_t emit(const struct bed *b, uint8_t *p, uint32_t id, uint32_t off, uint32_t len, bool more)
{
	const uint8_t proto = 99;	/* has no checksum that we know */
	struct wire_ip ip = { .src = b->guest, .dst = b->far, .proto = proto, .ttl = 64, .tos = (uint8_t)(id * 4), .id = (uint16_t)id };
	uint32_t n;

	if (b->v4) {
		n = wire_ip_emit(p, &ip, len);
		bytes_put16(p + 6, (uint16_t)((off / 8 & 0x1fff) | (more ? 0x2000 : 0)));
	} else {
		ip.proto = 44;
		n = wire_ip_emit(p, &ip, 8 + len);
		p[n] = proto;
		p[n + 1] = 0;
		bytes_put16(p + n + 2, (uint16_t)((off & 0xfff8) | more));
		bytes_put32(p + n + 4, id);
		n += 8;
	}
	for (uint32_t i = 0; i < len; i++)
		p[n + i] = byte_of(id, off + i);
	return n + len;
}

static void check_whole(const struct bed *b, const struct proto_pkt *pkt, uint32_t id)
{
	uint8_t *got = malloc(pkt->l4.len);

	fuzz_require(got && pkt->l4.len <= (b->v4 ? L2_IP_MAX - WIRE_IP4_LEN : L2_IP_MAX));
	fuzz_require(view_copy(&pkt->l4, got, pkt->l4.len) == pkt->l4.len);
	for (uint32_t i = 0; i < pkt->l4.len; i++)
		fuzz_require(got[i] == byte_of(id, i));
	fuzz_require(pkt->ip.proto == 99 && !pkt->ip.df && pkt->ip.tos == id * 4);
	free(got);
}

static void fragment(struct bed *b, struct proto_reasm *r, const uint8_t *in)
{
	const uint32_t id = in[0] % IDS + 1, len = (in[3] << 8 | in[4]) % LEN_MAX;
	const uint32_t off = (uint32_t)(in[0] & 0x40 ? in[1] << 8 | in[2] : in[1] % 16 * 200) & ~7u;
	uint8_t *p = malloc(WIRE_IP6_LEN + 8 + LEN_MAX);
	const uint8_t cuts[PIECES_MAX - 1] = { in[2], 9, in[1] };
	struct proto_pkt pkt = { .next = FLOW_NONE };
	struct pieces s;
	struct view whole;

	fuzz_require(p);
	whole = pieces_make(&s, cuts, p, emit(b, p, id, off, in[0] & 0x20 ? len & ~7u : len, in[0] & 0x10));
	free(p);
	pkt.l4 = whole;
	if ((b->v4 ? wire_ip4_parse(&pkt.l4, &pkt.ip) : wire_ip6_parse(&pkt.l4, &pkt.ip)) == WIRE_IP_FRAGMENTED &&
	    proto_reasm_take(&b->p, r, whole, &pkt))
		check_whole(b, &pkt, id);
	pieces_free(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct proto_reasm reasm, *const r = &reasm;	/* each input leaves it empty */
	struct bed *b;

	if (size < 1 || size > 4096)
		return 0;
	b = bed_new(data[0] & 1, BED_FLOWS);
	for (size_t i = 1; i + 5 <= size; i += 5) {
		if (data[i] < 0x80) {
			fragment(b, r, data + i);
		} else if (data[i] < 0xc0) {
			proto_reasm_release(r);
		} else {
			b->env.now += data[i + 1] * NS_S / 4;
			proto_reasm_tick(&b->p, r);
			fuzz_require(proto_reasm_next(r) > b->env.now);
		}
		bed_check_errors(b);
	}
	proto_reasm_release(r);
	b->env.now += PROTO_REASM_TIME;
	proto_reasm_tick(&b->p, r);
	bed_check_errors(b);
	for (unsigned i = 0; i < PROTO_REASM_CNT; i++)
		fuzz_require(!r->e[i].used);
	fuzz_require(proto_reasm_next(r) == NS_NEVER);
	bed_free(b);
	return 0;
}
