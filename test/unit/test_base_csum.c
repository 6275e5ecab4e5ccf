/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Checksums against the plain algorithm of RFC 1071 4.1.
 */
#include "base/csum.h"

#include "split.h"

#define LEN 70000

static uint8_t buf[LEN];

static uint16_t naive(const uint8_t *p, size_t len)
{
	uint64_t sum = 0;

	for (; len > 1; p += 2, len -= 2)
		sum += (uint64_t)p[0] << 8 | p[1];
	if (len)
		sum += (uint64_t)p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void known(void **state)
{
	/* RFC 1071 3; and an IPv4 header as in many textbooks */
	static const uint8_t rfc[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	static const uint8_t ip[] = { 0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61,
				      0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7 };

	(void)state;
	assert_int_equal(csum_fold(csum_add(0, rfc, sizeof(rfc))), 0xddf2);
	assert_int_equal(csum_done(csum_add(0, rfc, sizeof(rfc))), 0x220d);
	assert_int_equal(csum_done(csum_add(0, ip, sizeof(ip))), 0);
	assert_int_equal(csum_fold(0), 0);
	assert_int_equal(csum_fold(0xffff), 0xffff);
	assert_int_equal(csum_fold(0x10000), 1);
	assert_int_equal(csum_fold(0xffff0000), 0xffff);
	assert_int_equal(csum_fold(0xffffffff), 0xffff);
	assert_int_equal(csum_fold(0x1ffff), 1);
}

static void every_length(void **state)
{
	struct rng r;

	(void)state;
	rng_seed(&r, 2);
	for (unsigned kind = 0; kind < 3; kind++) {
		for (unsigned i = 0; i < LEN; i++)
			buf[i] = kind == 0 ? (uint8_t)rng_u64(&r) : kind == 1 ? 0xff : 0;
		for (unsigned len = 0; len <= 1200; len++) {
			for (unsigned off = 0; off < 9; off++)
				assert_int_equal(csum_fold(csum_add(0, buf + off, len)), naive(buf + off, len));
		}
		for (unsigned len = LEN - 9; len > 2000; len = len * 9 / 10)
			assert_int_equal(csum_fold(csum_add(0, buf + 3, len)), naive(buf + 3, len));
	}
}

/* The sum of much more than one packet neither overflows nor becomes zero */
static void no_overflow(void **state)
{
	const size_t len = 3 << 20;
	uint8_t *big = malloc(len);
	uint32_t sum = 0;

	(void)state;
	assert_non_null(big);
	memset(big, 0xff, len);
	assert_int_equal(csum_fold(csum_add(0, big, len)), 0xffff);
	for (unsigned i = 0; i < 100000; i++)
		sum = csum_add(sum, big, 4096);
	assert_int_equal(csum_fold(sum), 0xffff);
	big[0] = 0xfe;
	assert_int_equal(csum_fold(csum_add(0, big, len)), naive(big, len));
	assert_int_equal(csum_fold(csum_add(0xffffffff, big, 2)), 0xfeff);
	free(big);
}

static void even_pieces(void **state)
{
	struct rng r;

	(void)state;
	rng_seed(&r, 3);
	for (unsigned i = 0; i < LEN; i++)
		buf[i] = (uint8_t)rng_u64(&r);
	for (unsigned i = 0; i < 2000; i++) {
		const unsigned len = rng_below(&r, 3000), cut = rng_below(&r, len / 2 + 1) * 2;

		assert_int_equal(csum_fold(csum_add(csum_add(0, buf, cut), buf + cut, len - cut)), naive(buf, len));
	}
}

static void views(void **state)
{
	struct rng r;

	(void)state;
	rng_seed(&r, 4);
	for (unsigned len = 0; len <= 40; len++) {
		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			for (uint32_t skip = 0; skip <= len; skip++) {
				struct split s;
				struct view v = split_make(&s, buf, len, way);

				view_skip(&v, skip);
				assert_int_equal(csum_fold(csum_add_view(0, &v)), naive(buf + skip, len - skip));
				view_trim(&v, 5);
				assert_int_equal(csum_fold(csum_add_view(0, &v)),
						 naive(buf + skip, len - skip < 5 ? len - skip : 5));
				split_free(&s);
			}
		}
	}
	/* Long pieces of odd lengths */
	for (unsigned i = 0; i < 300; i++) {
		const uint32_t len = 1000 + rng_below(&r, 60000);
		struct split s;
		const struct view v = split_make(&s, buf, len, rng_below(&r, len));

		assert_int_equal(csum_fold(csum_add_view(0, &v)), naive(buf, len));
		split_free(&s);
	}
}

static void pseudo(void **state)
{
	static const uint8_t four[] = { 192, 0, 2, 1, 198, 51, 100, 254, 0, 17, 0xff, 0xfe };
	uint8_t six[40];
	const struct inaddr s4 = inaddr_v4(four), d4 = inaddr_v4(four + 4);
	struct inaddr s6, d6;

	(void)state;
	assert_int_equal(csum_fold(csum_pseudo(&s4, &d4, 17, 0xfffe)), naive(four, sizeof(four)));

	for (unsigned i = 0; i < 32; i++)
		six[i] = (uint8_t)(0xff - i * 3);
	split_hex(six + 32, "00 01 ff fd 00 00 00 3a");
	s6 = inaddr_v6(six);
	d6 = inaddr_v6(six + 16);
	assert_int_equal(csum_fold(csum_pseudo(&s6, &d6, 58, 0x1fffd)), naive(six, sizeof(six)));
	/* All ones: nothing is lost at the top */
	memset(&s6, 0xff, 16);
	assert_int_equal(csum_fold(csum_pseudo(&s6, &s6, 255, 0xffffffff)), 255);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known), cmocka_unit_test(every_length), cmocka_unit_test(no_overflow),
		cmocka_unit_test(even_pieces), cmocka_unit_test(views), cmocka_unit_test(pseudo),
	};

	return cmocka_run_group_tests_name("base/csum", tests, NULL, NULL);
}
