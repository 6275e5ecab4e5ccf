/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv6 headers and chains of extension headers (L2-16, L2-18 to L2-20).
 */
#include "wire/ip.h"

#include "split.h"
#include "base/bytes.h"

static const char base[] = "6b 8a bcde 0000 11 40"
	"20010db8000000000000000000000001 20010db8000000000000000000000002";

/* Header with FIRST as next header, then the bytes of REST; payload length by their number */
static uint32_t make(uint8_t *b, uint8_t first, const char *rest)
{
	uint32_t len;

	split_hex(b, base);
	b[6] = first;
	len = split_hex(b + WIRE_IP6_LEN, rest);
	bytes_put16(b + 4, (uint16_t)len);
	return WIRE_IP6_LEN + len;
}

static enum wire_ip_verdict parse_flat(const uint8_t *b, uint32_t len, struct wire_ip *ret, uint32_t *ret_left)
{
	struct split s;
	struct view v = split_make(&s, b, len, 0);
	const enum wire_ip_verdict verdict = wire_ip6_parse(&v, ret);

	*ret_left = v.len;
	split_free(&s);
	return verdict;
}

static void parse(void **state)
{
	uint8_t b[100], out[5];
	const uint32_t len = make(b, WIRE_IP_UDP, "0102030405") + 7;	/* padded */
	struct wire_ip ip;

	(void)state;
	memset(b + len - 7, 0xee, 7);
	for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
		struct split s;
		struct view v = split_make(&s, b, len, way);

		memset(&ip, 0xff, sizeof(ip));
		assert_int_equal(wire_ip6_parse(&v, &ip), WIRE_IP_OK);
		assert_memory_equal(ip.src.b, b + 8, 16);
		assert_memory_equal(ip.dst.b, b + 24, 16);
		assert_int_equal(ip.proto, WIRE_IP_UDP);
		assert_int_equal(ip.ttl, 64);
		assert_int_equal(ip.tos, 0xb8);
		assert_int_equal(ip.label, 0xabcde);
		assert_true(ip.df);
		assert_int_equal(v.len, 5);
		view_copy(&v, out, 5);
		assert_memory_equal(out, b + WIRE_IP6_LEN, 5);
		split_free(&s);
	}
}

static void lengths(void **state)
{
	uint8_t b[100];
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	make(b, WIRE_IP_TCP, "");
	memset(b + WIRE_IP6_LEN, 0, sizeof(b) - WIRE_IP6_LEN);
	for (unsigned payload = 0; payload < 70; payload++) {
		bytes_put16(b + 4, (uint16_t)payload);
		for (uint32_t len = 0; len <= sizeof(b); len++) {
			const bool ok = len >= WIRE_IP6_LEN && payload <= len - WIRE_IP6_LEN;

			assert_int_equal(parse_flat(b, len, &ip, &left), ok ? WIRE_IP_OK : WIRE_IP_MALFORMED);
			if (ok)
				assert_int_equal(left, payload);
		}
	}
	bytes_put16(b + 4, 0xffff);
	assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), WIRE_IP_MALFORMED);
	bytes_put16(b + 4, 10);
	for (unsigned version = 0; version < 16; version++) {
		b[0] = (uint8_t)(version << 4 | 0x0b);
		assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), version == 6 ? WIRE_IP_OK : WIRE_IP_MALFORMED);
	}
}

static void largest(void **state)
{
	const uint32_t len = WIRE_IP6_LEN + 65535;
	uint8_t *b = calloc(1, len);
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	assert_non_null(b);
	make(b, WIRE_IP_TCP, "");
	bytes_put16(b + 4, 65535);
	assert_int_equal(parse_flat(b, len, &ip, &left), WIRE_IP_OK);
	assert_int_equal(left, 65535);
	assert_int_equal(parse_flat(b, len - 1, &ip, &left), WIRE_IP_MALFORMED);
	free(b);
}

static const struct chain {
	uint8_t first;
	const char *rest;
	enum wire_ip_verdict verdict;
	uint8_t proto;
	uint32_t left;
} chains[] = {
	/* Each kind alone, 8 and 16 bytes, an echo request of one byte behind it */
	{ 0, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 43, "3a00000000000000 80", WIRE_IP_OK, 58, 1 },
	{ 60, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 135, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 139, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 140, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 253, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 254, "3a00010400000000 80", WIRE_IP_OK, 58, 1 },
	{ 60, "3a01010c00000000 0000000000000000 80", WIRE_IP_OK, 58, 1 },
	/* AH counts four bytes, and two units less: 8 + 16 bytes with a 96-bit check value */
	{ 51, "3a040000 00000001 00000001 0102030405060708090a0b0c 80", WIRE_IP_OK, 58, 1 },
	{ 51, "3a000000 00000001 80", WIRE_IP_OK, 58, 1 },
	/* MLDv2 report behind a router alert */
	{ 0, "3a00050200000100 8f00000000000000", WIRE_IP_OK, 58, 8 },
	/* Several, as recommended by RFC 8200 4.1 */
	{ 0, "3c00010400000000 2b00010400000000 2c00000000000000 3300000000000001 0600010400000000 0102030405060708",
	  WIRE_IP_OK, 6, 8 },
	/* Nothing behind the last one */
	{ 0, "0600010400000000", WIRE_IP_OK, 6, 0 },
	{ 6, "", WIRE_IP_OK, 6, 0 },
	/* Not ours, but well-formed */
	{ 132, "0102", WIRE_IP_OK, 132, 2 },
	{ 60, "ff00010400000000", WIRE_IP_OK, 255, 0 },
	{ 1, "08", WIRE_IP_OK, 1, 1 },
	/* The end of the road */
	{ 59, "", WIRE_IP_NO_NEXT, 59, 0 },
	{ 59, "010203", WIRE_IP_NO_NEXT, 59, 0 },
	{ 50, "0102030405060708", WIRE_IP_NO_NEXT, 50, 0 },
	{ 60, "3b00010400000000", WIRE_IP_NO_NEXT, 59, 0 },
	{ 60, "3200010400000000", WIRE_IP_NO_NEXT, 50, 0 },
	/* Atomic fragments pass, reserved bits are ignored */
	{ 44, "11000000 12345678 0102", WIRE_IP_OK, 17, 2 },
	{ 44, "11ff0006 12345678 0102", WIRE_IP_OK, 17, 2 },
	{ 44, "3c000000 12345678 1100010400000000 01", WIRE_IP_OK, 17, 1 },
	/* Its second byte is reserved, no length */
	{ 44, "11080000 12345678 0102", WIRE_IP_OK, 17, 2 },
	/* Real ones: first, middle, last, smallest offset */
	{ 44, "11000001 12345678 0102030405060708", WIRE_IP_FRAGMENTED, 17, 0 },
	{ 44, "11000101 12345678 0102030405060708", WIRE_IP_FRAGMENTED, 17, 0 },
	{ 44, "11008000 12345678 0102030405060708", WIRE_IP_FRAGMENTED, 17, 0 },
	{ 44, "11000008 12345678", WIRE_IP_FRAGMENTED, 17, 0 },
	{ 60, "2c00010400000000 3a000001 12345678 01", WIRE_IP_FRAGMENTED, 58, 0 },
	/* Too short for the header, or for its length */
	{ 0, "", WIRE_IP_MALFORMED, 0, 0 },
	{ 0, "3a000104000000", WIRE_IP_MALFORMED, 0, 0 },
	{ 44, "3a000000000000", WIRE_IP_MALFORMED, 0, 0 },
	{ 51, "3a000000000000", WIRE_IP_MALFORMED, 0, 0 },
	{ 51, "3a01000000000000 010203", WIRE_IP_MALFORMED, 0, 0 },
	{ 60, "3a01010400000000 00000000000000", WIRE_IP_MALFORMED, 0, 0 },
	{ 60, "3aff010400000000", WIRE_IP_MALFORMED, 0, 0 },
	{ 60, "3c00010400000000 3a00", WIRE_IP_MALFORMED, 0, 0 },
};

static void chain_table(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(chains) / sizeof(chains[0]); i++) {
		const struct chain *c = &chains[i];
		uint8_t b[200];
		const uint32_t len = make(b, c->first, c->rest);

		memset(b + len, 0, sizeof(b) - len);
		for (uint32_t pad = 0; pad <= 32; pad += 16) {
			for (uint32_t way = 0; way < SPLIT_WAYS(len + pad); way++) {
				struct wire_ip ip = { 0 };
				struct split s;
				struct view v = split_make(&s, b, len + pad, way);
				const enum wire_ip_verdict verdict = wire_ip6_parse(&v, &ip);

				if (verdict != c->verdict)
					fail_msg("chain %u, way %u: verdict %d, not %d", i, way, verdict, c->verdict);
				if (verdict != WIRE_IP_MALFORMED)
					assert_int_equal(ip.proto, c->proto);
				if (verdict == WIRE_IP_OK)
					assert_int_equal(v.len, c->left);
				split_free(&s);
			}
		}
	}
}

/* Sixteen headers pass, seventeen don't, whatever ends the chain */
static void chain_bound(void **state)
{
	uint8_t b[WIRE_IP6_LEN + 8 * 8000];
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	for (unsigned cnt = 1; cnt <= 8000; cnt = cnt < 40 ? cnt + 1 : cnt * 200) {
		make(b, 60, "");
		memset(b + WIRE_IP6_LEN, 0, 8 * cnt);
		for (unsigned i = 0; i < cnt; i++)
			b[WIRE_IP6_LEN + 8 * i] = i + 1 < cnt ? 60 : 17;
		bytes_put16(b + 4, (uint16_t)(8 * cnt));
		assert_int_equal(parse_flat(b, WIRE_IP6_LEN + 8 * cnt, &ip, &left),
				 cnt <= 16 ? WIRE_IP_OK : WIRE_IP_NO_NEXT);
	}
}

/* RFC 2675: payload length 0 and a hop-by-hop option of type 194 */
static void jumbogram(void **state)
{
	uint8_t b[200] = { 0 };
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	make(b, 0, "0600c20400010000");
	bytes_put16(b + 4, 0);
	assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), WIRE_IP_MALFORMED);
}

/* v4-mapped addresses would pass for IPv4 */
static void mapped(void **state)
{
	uint8_t b[100];
	const uint32_t len = make(b, WIRE_IP_UDP, "0102030405060708");
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	for (unsigned at = 8; at <= 24; at += 16) {
		make(b, WIRE_IP_UDP, "0102030405060708");
		split_hex(b + at, "00000000000000000000ffff7f000001");
		assert_int_equal(parse_flat(b, len, &ip, &left), WIRE_IP_MALFORMED);
	}
}

static void emit(void **state)
{
	uint8_t b[100], out[WIRE_IP6_LEN];
	const uint32_t len = make(b, WIRE_IP_UDP, "0102030405");
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	assert_int_equal(parse_flat(b, len, &ip, &left), WIRE_IP_OK);
	assert_int_equal(wire_ip_hdr_len(&ip.src), WIRE_IP6_LEN);
	memset(out, 0xff, sizeof(out));
	assert_int_equal(wire_ip_emit(out, &ip, 5), WIRE_IP6_LEN);
	assert_memory_equal(out, b, WIRE_IP6_LEN);
	/* A label of more than 20 bits doesn't spill over */
	ip.label = 0xfffabcde;
	wire_ip_emit(out, &ip, 5);
	assert_memory_equal(out, b, WIRE_IP6_LEN);
	wire_ip_emit(out, &ip, 65535);
	assert_int_equal(bytes_get16(out + 4), 65535);
}

/* The beginning of a packet, also of a first fragment; and what a fragment leaves of the view */
static void quote(void **state)
{
	static const struct { uint8_t first; const char *rest; enum wire_ip_verdict quoted; uint32_t left, frag_left; } tab[] = {
		{ 17, "0102030405", WIRE_IP_OK, 5, 0 },
		{ 60, "1100010400000000 0102", WIRE_IP_OK, 2, 0 },
		{ 44, "1100000100000007 010203", WIRE_IP_OK, 3, 11 },
		{ 0, "2c00010400000000 1100000100000007 010203", WIRE_IP_OK, 3, 11 },
		{ 44, "1100000800000007 010203", WIRE_IP_FRAGMENTED, 11, 11 },
		{ 44, "11000000", WIRE_IP_MALFORMED, 0, 0 },
		{ 50, "0102030405060708", WIRE_IP_NO_NEXT, 0, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(tab) / sizeof(tab[0]); i++) {
		uint8_t b[100];
		const uint32_t len = make(b, tab[i].first, tab[i].rest);
		struct wire_ip ip;

		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct split s;
			struct view v;

			bytes_put16(b + 4, 1400);
			v = split_make(&s, b, len, way);
			assert_int_equal(wire_ip_quote_parse(&v, false, &ip), tab[i].quoted);
			if (tab[i].quoted == WIRE_IP_OK) {
				assert_int_equal(v.len, tab[i].left);
				assert_int_equal(ip.proto, WIRE_IP_UDP);
			}
			split_free(&s);
			bytes_put16(b + 4, (uint16_t)(len - WIRE_IP6_LEN));
			v = split_make(&s, b, len, way);
			if (tab[i].frag_left) {
				assert_int_equal(wire_ip6_parse(&v, &ip), WIRE_IP_FRAGMENTED);
				assert_int_equal(v.len, tab[i].frag_left);
			}
			split_free(&s);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse), cmocka_unit_test(lengths), cmocka_unit_test(largest),
		cmocka_unit_test(chain_table), cmocka_unit_test(chain_bound), cmocka_unit_test(jumbogram),
		cmocka_unit_test(mapped), cmocka_unit_test(emit), cmocka_unit_test(quote),
	};

	return cmocka_run_group_tests_name("wire/ip6", tests, NULL, NULL);
}
