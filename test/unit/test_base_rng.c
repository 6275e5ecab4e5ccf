/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The generator against values of its authors' code, and even spread below a bound.
 */
#include "base/rng.h"

#include "split.h"

/* State 1, 2, 3, 4: the first outputs, as published with other implementations of xoshiro256** */
static void reference(void **state)
{
	static const uint64_t want[] = { 11520, 0, 1509978240, 1215971899390074240, 1216172134540287360,
					 607988272756665600, UINT64_C(16172922978634559625), 8476171486693032832,
					 UINT64_C(10595114339597558777), 2904607092377533576 };
	struct rng r = { { 1, 2, 3, 4 } };

	(void)state;
	for (unsigned i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		assert_true(rng_u64(&r) == want[i]);
}

/* SplitMix64 from seed 1234567 */
static void seeding(void **state)
{
	static const uint64_t want[] = { 6457827717110365317, 3203168211198807973, UINT64_C(9817491932198370423),
					 4593380528125082431 };
	struct rng r, zero, one;

	(void)state;
	rng_seed(&r, 1234567);
	assert_memory_equal(r.s, want, sizeof(want));
	rng_seed(&zero, 0);
	rng_seed(&one, 1);
	assert_true(zero.s[0] | zero.s[1] | zero.s[2] | zero.s[3]);
	assert_true(rng_u64(&zero) != rng_u64(&one));
	rng_seed(&zero, 1234567);
	assert_memory_equal(zero.s, want, sizeof(want));
}

static void below(void **state)
{
	static const uint32_t bound[] = { 1, 2, 3, 7, 10, 256, 1000, 0x80000000, 0x80000001, 0xffffffff };
	struct rng r;

	(void)state;
	rng_seed(&r, 5);
	for (unsigned i = 0; i < sizeof(bound) / sizeof(bound[0]); i++) {
		unsigned upper = 0;

		for (unsigned k = 0; k < 20000; k++) {
			const uint32_t x = rng_below(&r, bound[i]);

			assert_true(x < bound[i]);
			upper += x >= bound[i] - bound[i] / 2;
		}
		/* The upper half of the range, within six standard deviations (71 each) */
		if (bound[i] % 2 == 0 || bound[i] > 256)
			assert_in_range(upper, 10000 - 430, 10000 + 430);
	}
}

static void below_even(void **state)
{
	unsigned cnt[6] = { 0 };
	struct rng r;

	(void)state;
	rng_seed(&r, 6);
	for (unsigned k = 0; k < 60000; k++)
		cnt[rng_below(&r, 6)]++;
	for (unsigned i = 0; i < 6; i++)
		assert_in_range(cnt[i], 9400, 10600);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reference), cmocka_unit_test(seeding), cmocka_unit_test(below),
		cmocka_unit_test(below_even),
	};

	return cmocka_run_group_tests_name("base/rng", tests, NULL, NULL);
}
