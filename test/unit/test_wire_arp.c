/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP packets (ARP-1).
 */
#include "wire/arp.h"

#include <errno.h>

#include "split.h"

static uint8_t packet[46];		/* padded as by a network card */

static int make(void **state)
{
	(void)state;
	split_hex(packet, "0001 0800 06 04 0002  9a559a559a55 c0000201  020000000001 c63364fe");
	return 0;
}

static void parse(void **state)
{
	const struct inaddr sip = inaddr_v4("\300\0\2\1"), tip = inaddr_v4("\306\63\144\376");
	uint8_t back[WIRE_ARP_LEN];

	(void)state;
	for (uint32_t len = 0; len <= sizeof(packet); len++) {
		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct split s;
			const struct view v = split_make(&s, packet, len, way);
			struct wire_arp a;

			if (len < WIRE_ARP_LEN) {
				assert_int_equal(wire_arp_parse(v, &a), -EBADMSG);
			} else {
				assert_int_equal(wire_arp_parse(v, &a), 0);
				assert_int_equal(a.op, WIRE_ARP_REPLY);
				assert_memory_equal(a.sha.b, packet + 8, 6);
				assert_memory_equal(a.tha.b, packet + 18, 6);
				assert_true(inaddr_eq(&a.sip, &sip));
				assert_true(inaddr_eq(&a.tip, &tip));
				wire_arp_emit(back, &a);
				assert_memory_equal(back, packet, WIRE_ARP_LEN);
			}
			split_free(&s);
		}
	}
}

/* Any other bit in the first six bytes: not ours, even if the packet is as short as that kind may be */
static void other_kinds(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 48; bit++) {
		uint8_t b[WIRE_ARP_LEN];
		struct wire_arp a;

		memcpy(b, packet, sizeof(b));
		b[bit / 8] ^= (uint8_t)(1 << bit % 8);
		for (uint32_t len = 6; len <= sizeof(b); len++) {
			struct split s;

			assert_int_equal(wire_arp_parse(split_make(&s, b, len, 0), &a), -EPROTONOSUPPORT);
			split_free(&s);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse), cmocka_unit_test(other_kinds),
	};

	return cmocka_run_group_tests_name("wire/arp", tests, make, NULL);
}
