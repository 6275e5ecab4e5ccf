/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv4 headers (L2-12 to L2-16).
 */
#include "wire/ip.h"

#include "split.h"
#include "base/bytes.h"
#include "base/csum.h"

#define PAYLOAD 11

static uint8_t packet[WIRE_IP4_LEN + PAYLOAD];

static int make(void **state)
{
	(void)state;
	split_hex(packet, "45 b8 001f 1234 4000 3f 11 0000 c0000201 c63364fe  0102030405060708090a0b");
	return 0;
}

static enum wire_ip_verdict parse_flat(const uint8_t *b, uint32_t len, struct wire_ip *ret, uint32_t *ret_left)
{
	struct split s;
	struct view v = split_make(&s, b, len, 0);
	const enum wire_ip_verdict verdict = wire_ip4_parse(&v, ret);

	*ret_left = v.len;
	split_free(&s);
	return verdict;
}

static void parse(void **state)
{
	uint8_t out[PAYLOAD];
	struct wire_ip ip;

	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(sizeof(packet)); way++) {
		struct split s;
		struct view v = split_make(&s, packet, sizeof(packet), way);

		memset(&ip, 0xff, sizeof(ip));
		assert_int_equal(wire_ip4_parse(&v, &ip), WIRE_IP_OK);
		assert_memory_equal(ip.src.b + 12, packet + 12, 4);
		assert_memory_equal(ip.dst.b + 12, packet + 16, 4);
		assert_true(inaddr_is_v4(&ip.src) && inaddr_is_v4(&ip.dst));
		assert_int_equal(ip.proto, WIRE_IP_UDP);
		assert_int_equal(ip.ttl, 63);
		assert_int_equal(ip.tos, 0xb8);
		assert_true(ip.df);
		assert_int_equal(ip.label, 0);
		assert_int_equal(ip.id, 0x1234);
		assert_int_equal(v.len, PAYLOAD);
		view_copy(&v, out, PAYLOAD);
		assert_memory_equal(out, packet + WIRE_IP4_LEN, PAYLOAD);
		split_free(&s);
	}
}

static void lengths(void **state)
{
	uint8_t b[100] = { 0 };
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	memcpy(b, packet, WIRE_IP4_LEN);
	for (unsigned version = 0; version < 16; version++) {
		for (unsigned ihl = 0; ihl < 16; ihl++) {
			for (unsigned total = 0; total <= 90; total++) {
				for (uint32_t len = 0; len <= 90; len += 5) {
					const bool ok = version == 4 && ihl >= 5 && ihl * 4 <= total && total <= len;

					b[0] = (uint8_t)(version << 4 | ihl);
					bytes_put16(b + 2, (uint16_t)total);
					assert_int_equal(parse_flat(b, len, &ip, &left),
							 ok ? WIRE_IP_OK : WIRE_IP_MALFORMED);
					/* Options skipped, padding trimmed */
					if (ok)
						assert_int_equal(left, total - ihl * 4);
				}
			}
		}
	}
	bytes_put16(b + 2, 0xffff);
	b[0] = 0x45;
	assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), WIRE_IP_MALFORMED);
}

/* The largest super-frame */
static void largest(void **state)
{
	uint8_t *b = calloc(1, 65535 + 10);
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	assert_non_null(b);
	memcpy(b, packet, WIRE_IP4_LEN);
	bytes_put16(b + 2, 65535);
	assert_int_equal(parse_flat(b, 65535 + 10, &ip, &left), WIRE_IP_OK);
	assert_int_equal(left, 65515);
	assert_int_equal(parse_flat(b, 65534, &ip, &left), WIRE_IP_MALFORMED);
	free(b);
}

static void fragments(void **state)
{
	uint8_t b[sizeof(packet)];
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	memcpy(b, packet, sizeof(b));
	for (unsigned frag = 0; frag < 0x10000; frag += frag < 0x20 ? 1 : 0xf) {
		const bool whole = !(frag & 0x2000) && !(frag & 0x1fff);

		bytes_put16(b + 6, (uint16_t)frag);
		assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), whole ? WIRE_IP_OK : WIRE_IP_FRAGMENTED);
		assert_int_equal(ip.df, !!(frag & 0x4000));
		assert_int_equal(ip.proto, WIRE_IP_UDP);
	}
	for (unsigned bit = 0; bit < 16; bit++) {
		bytes_put16(b + 6, (uint16_t)(1 << bit));
		assert_int_equal(parse_flat(b, sizeof(b), &ip, &left), bit < 14 ? WIRE_IP_FRAGMENTED : WIRE_IP_OK);
	}
}

/* The beginning of a packet: its length may lie beyond what is there, and a first fragment will do */
static void quote(void **state)
{
	uint8_t b[sizeof(packet)];
	struct wire_ip ip;

	(void)state;
	memcpy(b, packet, sizeof(b));
	for (uint32_t len = 0; len <= sizeof(b); len++) {
		for (unsigned frag = 0; frag < 0x10000; frag += 0x1000) {
			struct split s;
			struct view v;

			bytes_put16(b + 2, 1500);
			bytes_put16(b + 6, (uint16_t)frag);
			v = split_make(&s, b, len, len / 2);
			assert_int_equal(wire_ip_quote_parse(&v, true, &ip), len < WIRE_IP4_LEN ? WIRE_IP_MALFORMED :
					 frag & 0x1000 ? WIRE_IP_FRAGMENTED : WIRE_IP_OK);
			if (len >= WIRE_IP4_LEN && !(frag & 0x1000))
				assert_int_equal(v.len, len - WIRE_IP4_LEN);
			split_free(&s);
		}
	}
	bytes_put16(b + 6, 0);
	for (int n = 0; n < 3; n++) {		/* version, header length, total length */
		struct split s;
		struct view v;

		memcpy(b, packet, sizeof(b));
		b[n < 2 ? 0 : 3] = (const uint8_t[]){ 0x65, 0x4f, 19 }[n];
		v = split_make(&s, b, sizeof(b), 0);
		assert_int_equal(wire_ip_quote_parse(&v, true, &ip), WIRE_IP_MALFORMED);
		split_free(&s);
	}
}

static void emit(void **state)
{
	uint8_t b[WIRE_IP4_LEN], want[WIRE_IP4_LEN];
	struct wire_ip ip;
	uint32_t left;

	(void)state;
	assert_int_equal(parse_flat(packet, sizeof(packet), &ip, &left), WIRE_IP_OK);
	assert_int_equal(wire_ip_hdr_len(&ip.src), WIRE_IP4_LEN);
	for (unsigned df = 0; df < 2; df++) {
		ip.df = df;
		memset(b, 0xff, sizeof(b));
		assert_int_equal(wire_ip_emit(b, &ip, PAYLOAD), WIRE_IP4_LEN);
		assert_int_equal(csum_done(csum_add(0, b, sizeof(b))), 0);
		memcpy(want, packet, sizeof(want));
		bytes_put16(want + 6, df ? 0x4000 : 0);
		memcpy(want + 10, b + 10, 2);
		assert_memory_equal(b, want, sizeof(want));
	}
	wire_ip_emit(b, &ip, 65515);
	assert_int_equal(bytes_get16(b + 2), 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse), cmocka_unit_test(lengths), cmocka_unit_test(largest),
		cmocka_unit_test(fragments), cmocka_unit_test(quote), cmocka_unit_test(emit),
	};

	return cmocka_run_group_tests_name("wire/ip4", tests, make, NULL);
}
