/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ethernet headers.
 */
#include "wire/eth.h"

#include <errno.h>

#include "split.h"

static void parse(void **state)
{
	uint8_t b[18], back[WIRE_ETH_LEN];
	const uint32_t len = split_hex(b, "ff ff ff ff ff fe  9a 55 9a 55 9a 56  86 dd  01 02 03 04");

	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
		struct split s;
		struct view v = split_make(&s, b, len, way);
		struct wire_eth h;

		assert_int_equal(wire_eth_parse(&v, &h), 0);
		assert_memory_equal(h.dst.b, b, 6);
		assert_memory_equal(h.src.b, b + 6, 6);
		assert_int_equal(h.type, WIRE_ETH_IPV6);
		assert_int_equal(v.len, 4);
		assert_int_equal(view_copy(&v, back, 4), 4);
		assert_memory_equal(back, b + 14, 4);
		wire_eth_emit(back, &h);
		assert_memory_equal(back, b, WIRE_ETH_LEN);
		split_free(&s);
	}
}

static void short_frames(void **state)
{
	const uint8_t b[WIRE_ETH_LEN] = { 0 };
	struct wire_eth h;

	(void)state;
	for (uint32_t len = 0; len <= WIRE_ETH_LEN; len++) {
		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct split s;
			struct view v = split_make(&s, b, len, way);

			assert_int_equal(wire_eth_parse(&v, &h), len < WIRE_ETH_LEN ? -EBADMSG : 0);
			split_free(&s);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse), cmocka_unit_test(short_frames),
	};

	return cmocka_run_group_tests_name("wire/eth", tests, NULL, NULL);
}
