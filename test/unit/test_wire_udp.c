/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP headers (L2-22, L2-23).
 */
#include "wire/udp.h"

#include <errno.h>

#include "split.h"
#include "base/bytes.h"

static void lengths(void **state)
{
	uint8_t b[20] = { 0x12, 0x34, 0xab, 0xcd };

	(void)state;
	for (uint32_t len = 0; len <= sizeof(b); len++) {
		for (unsigned field = 0; field < 30; field++) {
			for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
				for (unsigned gso = 0; gso < 2; gso++) {
					const bool ok = len >= 8 && (gso || (field >= 8 && field <= len));
					struct split s;
					struct wire_udp h;
					struct view v;

					bytes_put16(b + 4, (uint16_t)field);
					v = split_make(&s, b, len, way);
					assert_int_equal(wire_udp_parse(&v, gso, &h), ok ? 0 : -EBADMSG);
					if (ok) {
						assert_int_equal(h.sport, 0x1234);
						assert_int_equal(h.dport, 0xabcd);
						assert_int_equal(v.len, gso ? len - 8 : field - 8);
					}
					split_free(&s);
				}
			}
		}
	}
}

static void emit(void **state)
{
	const struct wire_udp h = { 53, 40000 };
	uint8_t b[WIRE_UDP_LEN], want[WIRE_UDP_LEN];

	(void)state;
	split_hex(want, "0035 9c40 002a beef");
	wire_udp_emit(b, &h, 34, 0xbeef);
	assert_memory_equal(b, want, sizeof(b));
	wire_udp_emit(b, &h, 65527, 0);
	assert_int_equal(bytes_get16(b + 4), 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths), cmocka_unit_test(emit),
	};

	return cmocka_run_group_tests_name("wire/udp", tests, NULL, NULL);
}
