/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The scoreboard against a bitmap: random blocks, right and wrong ones, across
 * the wrap of sequence numbers, with more ranges than there is room for.
 */
#include <string.h>

#include "base/rng.h"
#include "rig_tcp.h"

#define SPAN	2000u

struct model {
	uint32_t base, una, max;	/* offsets from base */
	bool has[SPAN + 1];
};

static bool in(struct tcp *t, uint32_t from, uint32_t to)
{
	const struct wire_tcp h = { .ack = t->una, .sack_cnt = 1, .sack = { { from, to } } };

	return tcp_sack_take(t, &h);
}

/* Runs of the bitmap; the highest is forgotten where there are too many */
static int runs(struct model *m, struct tcp_range *ret)
{
	int n = 0;

	for (uint32_t i = 0; i < SPAN; i++)
		if (m->has[i]) {
			uint32_t from = i;

			while (m->has[i])
				i++;
			if (n == TCP_SACKED)
				memset(m->has + from, 0, i - from);
			else
				ret[n++] = (struct tcp_range){ m->base + from, m->base + i };
		}
	return n;
}

static void check(struct model *m, const struct tcp *t)
{
	struct tcp_range want[TCP_SACKED], hole;
	uint32_t sum = 0;
	int n = runs(m, want);

	assert_int_equal(t->sacked_cnt, n);
	assert_memory_equal(t->sacked, want, (size_t)n * sizeof(want[0]));
	for (int i = 0; i < n; i++)
		sum += want[i].to - want[i].from;
	assert_int_equal(tcp_sack_lost(t), n >= 3 || sum > 2u * t->mss);
	for (uint32_t off = m->una; off < SPAN; off += 37) {
		uint32_t from = off, to;

		while (m->has[from])
			from++;
		for (to = from; to < SPAN && !m->has[to]; to++)
			;
		if (to == SPAN) {
			assert_false(tcp_sack_hole(t, m->base + off, &hole));
		} else {
			assert_true(tcp_sack_hole(t, m->base + off, &hole));
			assert_int_equal(hole.from, m->base + from);
			assert_int_equal(hole.to, m->base + to);
		}
	}
}

static bool take_block(struct model *m, uint32_t una, uint32_t from, uint32_t to)
{
	bool news = false;

	if (from <= una || from >= to || to > m->max)
		return false;
	for (uint32_t i = from; i < to; i++)
		news |= !m->has[i];
	memset(m->has + from, true, to - from);
	return news;
}

static void test_random(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	for (int life = 0; life < 300; life++) {
		struct model m = { .base = 0u - rng_below(&rng, SPAN), .una = 1, .max = 2 + rng_below(&rng, SPAN - 2) };
		struct tcp t = { .una = m.base + 1, .max = m.base + m.max, .mss = (uint16_t)(1 + rng_below(&rng, 300)) };

		for (int i = 0; i < 60; i++) {
			struct wire_tcp h = { .sack_cnt = (uint8_t)rng_below(&rng, WIRE_TCP_SACK_MAX + 1) };
			uint32_t ack = rng_below(&rng, 6) ? m.una : rng_below(&rng, m.max + 1), una = BYTES_MAX(ack, m.una);
			bool news = false;

			h.ack = m.base + ack;
			for (int b = 0; b < h.sack_cnt; b++) {
				uint32_t from = rng_below(&rng, SPAN), to = from + rng_below(&rng, rng_below(&rng, 2) ? 20 : 300);

				struct tcp_range dummy[TCP_SACKED];

				from -= rng_below(&rng, 10) ? 0 : 2 * (from - BYTES_MIN(from, to - from));
				h.sack[b].from = m.base + from;
				h.sack[b].to = m.base + to;
				if (from < SPAN)
					news |= take_block(&m, una, from, to);
				runs(&m, dummy);
			}
			assert_int_equal(tcp_sack_take(&t, &h), news);
			if (ack > m.una) {
				m.una = ack;
				t.una = h.ack;
				memset(m.has, 0, m.una);
				tcp_sack_trim(&t);
			}
			check(&m, &t);
		}
	}
}

static void test_invalid(void **state)
{
	const uint32_t una = 0xfffffff0u, max = una + 1000;
	struct tcp t = { .una = una, .max = max, .mss = 100 };
	struct tcp_range hole;

	(void)state;
	assert_false(in(&t, una - 50, una - 10));	/* a duplicate (RFC 2883) */
	assert_false(in(&t, una - 50, una + 10));
	assert_false(in(&t, una, una + 10));		/* it would have been acknowledged */
	assert_false(in(&t, una + 900, max + 1));	/* never sent */
	assert_false(in(&t, max, max + 10));
	assert_false(in(&t, una + 200, una + 100));	/* reversed */
	assert_false(in(&t, una + 200, una + 200));	/* empty */
	assert_false(in(&t, una + 200, una + 200 + 0x80000000u));
	assert_int_equal(t.sacked_cnt, 0);
	assert_false(tcp_sack_hole(&t, una, &hole));
	assert_false(tcp_sack_lost(&t));
	assert_true(in(&t, una + 900, max));		/* across the wrap, to the last byte */
	assert_false(in(&t, una + 900, max));		/* no news */
	assert_false(in(&t, una + 950, una + 960));	/* a duplicate inside */
	assert_true(tcp_sack_hole(&t, una, &hole));
	assert_int_equal(hole.from, una);
	assert_int_equal(hole.to, una + 900);
	{
		const struct wire_tcp h = { .ack = una + 500, .sack_cnt = 1, .sack = { { una + 100, una + 200 } } };

		assert_false(tcp_sack_take(&t, &h));	/* below its own ACK: a duplicate */
	}
	assert_int_equal(t.sacked_cnt, 1);
}

/* RFC 6675 4: three ranges, or more than two segments' bytes */
static void test_lost(void **state)
{
	struct tcp t = { .una = 0, .max = 100000, .mss = 1000 };

	(void)state;
	assert_true(in(&t, 1000, 2000));
	assert_false(tcp_sack_lost(&t));
	assert_true(in(&t, 3000, 4000));
	assert_false(tcp_sack_lost(&t));
	assert_true(in(&t, 5000, 5001));
	assert_true(tcp_sack_lost(&t));
	t.sacked_cnt = 0;
	assert_true(in(&t, 1000, 3000));
	assert_false(tcp_sack_lost(&t));
	assert_true(in(&t, 3000, 3001));
	assert_int_equal(t.sacked_cnt, 1);
	assert_true(tcp_sack_lost(&t));
}

/* With too many ranges the lowest stay: their holes are filled first */
static void test_overflow(void **state)
{
	struct tcp t = { .una = 0, .max = 100000, .mss = 1000 };

	(void)state;
	for (uint32_t i = TCP_SACKED + 3; i; i--)
		in(&t, i * 100, i * 100 + 50);
	assert_int_equal(t.sacked_cnt, TCP_SACKED);
	assert_int_equal(t.sacked[0].from, 100);
	assert_int_equal(t.sacked[TCP_SACKED - 1].to, TCP_SACKED * 100 + 50);
	in(&t, 50000, 50001);
	assert_int_equal(t.sacked[TCP_SACKED - 1].to, TCP_SACKED * 100 + 50);
	assert_true(in(&t, 100, 60000));
	assert_int_equal(t.sacked_cnt, 1);
	assert_int_equal(t.sacked[0].to, 60000);
}

/* A round ends when more than two segments arrived that were sent after all of it; what is missing then was lost */
static void test_round(void **state)
{
	struct tcp t = { .una = 0xfffff000, .max = 0x5000, .mss = 1000, .sacked_max = 0xfffff000 };

	(void)state;
	t.again = (struct tcp_range){ t.una, t.una };
	t.round_end = 0xfffff800;
	t.round_seq = 0x1000;
	assert_true(in(&t, 0xfffff400, 0x1000 + 2000));
	tcp_sack_round(&t);
	assert_int_equal(t.again.to, t.una);
	assert_true(in(&t, 0x1000, 0x1000 + 2001));
	tcp_sack_round(&t);
	assert_int_equal(t.again.from, t.una);
	assert_int_equal(t.again.to, 0xfffff800);
	assert_int_equal(t.round_end, t.una);
	tcp_sack_round(&t);		/* more news, before that is sent */
	assert_int_equal(t.again.to, 0xfffff800);

	/* what was acknowledged is no stale maximum */
	t.una = 0x4000;
	tcp_sack_trim(&t);
	assert_int_equal(t.sacked_max, 0x4000);
}

/* Blocks that reach so far around that each of their ends looks right against its neighbour */
static void test_far(void **state)
{
	static const uint32_t at[] = { 0, 0xfffff000, 0x7ffff000, 12345 };

	(void)state;
	for (size_t i = 0; i < BYTES_COUNT(at); i++) {
		struct tcp t = { .mss = 100, .una = at[i], .max = at[i] + 1000, .sacked_max = at[i] };

		assert_false(in(&t, t.una + 0x60000000, t.una + 0xc0000000));
		assert_false(in(&t, t.una + 0x7fffffff, t.una - 2));
		assert_false(in(&t, t.una + 2000, t.una + 0x80000000));
		assert_false(in(&t, t.una + 500, t.una + 0x80000100));
		assert_false(in(&t, t.una + 500, t.una + 1001));
		assert_false(in(&t, t.una - 1, t.una + 500));
		assert_false(in(&t, t.una, t.una + 500));
		assert_false(in(&t, t.una + 500, t.una + 500));
		assert_int_equal(t.sacked_cnt, 0);
		assert_true(in(&t, t.una + 500, t.una + 1000));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random), cmocka_unit_test(test_invalid), cmocka_unit_test(test_lost),
		cmocka_unit_test(test_overflow), cmocka_unit_test(test_round), cmocka_unit_test(test_far),
	};

	return cmocka_run_group_tests_name("proto/tcp/sack", tests, NULL, NULL);
}
