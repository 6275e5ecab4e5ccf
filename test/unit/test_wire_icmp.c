/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP and ICMPv6 headers.
 */
#include "wire/icmp.h"

#include <errno.h>

#include "split.h"
#include "base/bytes.h"
#include "base/csum.h"
#include "wire/ip.h"

static void parse(void **state)
{
	uint8_t b[12];

	(void)state;
	split_hex(b, "80 01 ffff 1234 5678 01020304");
	for (uint32_t len = 0; len <= sizeof(b); len++) {
		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct split s;
			struct view v = split_make(&s, b, len, way);
			struct wire_icmp h;

			assert_int_equal(wire_icmp_parse(&v, &h), len < 8 ? -EBADMSG : 0);
			if (len >= 8) {
				assert_int_equal(h.type, 128);
				assert_int_equal(h.code, 1);
				assert_int_equal(h.id, 0x1234);
				assert_int_equal(h.seq, 0x5678);
				assert_int_equal(v.len, len - 8);
			}
			split_free(&s);
		}
	}
}

/* An echo request of 4 bytes whose checksum was worked out by hand: 0800 + 1234 + 0001 + 6162 + 6364 = defb */
static void emit4(void **state)
{
	const struct wire_icmp h = { WIRE_ICMP4_ECHO, 0, 0x1234, 1 };
	uint8_t b[WIRE_ICMP_LEN], want[WIRE_ICMP_LEN];

	(void)state;
	split_hex(want, "08 00 2104 1234 0001");
	for (uint32_t way = 0; way < SPLIT_WAYS(4); way++) {
		struct split s;
		const struct view v = split_make(&s, "abcd", 4, way);

		memset(b, 0xff, sizeof(b));
		wire_icmp_emit(b, &h, &v, NULL, NULL);
		assert_memory_equal(b, want, sizeof(b));
		split_free(&s);
	}
	wire_icmp_emit(b, &h, NULL, NULL, NULL);
	split_hex(want, "08 00 e5ca 1234 0001");
	assert_memory_equal(b, want, sizeof(b));
}

static void emit6(void **state)
{
	const struct wire_icmp h = { WIRE_ICMP6_TOO_BIG, 0, 0, 1280 };
	uint8_t body[101], b[WIRE_ICMP_LEN + sizeof(body)];
	struct inaddr src, dst;

	(void)state;
	for (unsigned i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(200 - i);
	inaddr_parse("2001:db8::1", &src);
	inaddr_parse("fe80::9855:9aff:fe55:9a55", &dst);
	for (uint32_t way = 0; way < SPLIT_WAYS(sizeof(body)); way++) {
		struct split s;
		const struct view v = split_make(&s, body, sizeof(body), way);

		wire_icmp_emit(b, &h, &v, &src, &dst);
		view_copy(&v, b + WIRE_ICMP_LEN, sizeof(body));
		assert_int_equal(b[0], 2);
		assert_int_equal(b[1], 0);
		assert_int_equal(bytes_get32(b + 4), 1280);
		assert_int_not_equal(bytes_get16(b + 2), 0);
		assert_int_equal(csum_done(csum_add(csum_pseudo(&src, &dst, WIRE_IP_ICMP6, sizeof(b)), b, sizeof(b))),
				 0);
		split_free(&s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse), cmocka_unit_test(emit4), cmocka_unit_test(emit6),
	};

	return cmocka_run_group_tests_name("wire/icmp", tests, NULL, NULL);
}
