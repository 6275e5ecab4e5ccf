/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The test link does what it says: chances within six standard deviations,
 * order, delay, rate, bounded queue, and the same again from the same seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "link.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define FRAMES 20000u

struct run {			/* what came out, in order */
	uint32_t num[2 * FRAMES];
	uint64_t at[2 * FRAMES];
	uint32_t cnt;
	struct link_stat stat;
};

static struct run one, two;

static void drain(struct link_dir *d, struct run *r, uint64_t upto)
{
	while (link_next(d) <= upto) {
		uint64_t at = link_next(d);
		struct link_frame *f = link_take(d, at);

		if (!f)
			continue;	/* it was held back just now */
		if (at < r->at[r->cnt ? r->cnt - 1 : 0])
			at = r->at[r->cnt - 1];
		memcpy(&r->num[r->cnt], f->data, sizeof(r->num[0]));
		r->at[r->cnt++] = at;
		free(f);
	}
}

/* CNT frames of LEN bytes, one each GAP, the first one at GAP */
static void go(struct run *r, const struct link_conf *conf, uint32_t cnt, uint32_t len, uint64_t gap)
{
	uint8_t buf[2048] = { 0 };
	struct link_dir d;

	memset(r, 0, sizeof(*r));
	link_init(&d, conf, 7);
	for (uint32_t i = 0; i < cnt; i++) {
		drain(&d, r, (i + 1) * gap);
		memcpy(buf, &i, sizeof(i));
		link_put(&d, (i + 1) * gap, buf, len);
	}
	drain(&d, r, LINK_NEVER - 1);
	assert_true(link_next(&d) == LINK_NEVER);
	assert_null(link_take(&d, LINK_NEVER));
	r->stat = d.stat;
	link_free(&d);
}

static void transparent(void **state)
{
	const struct link_conf conf = { .loss_ppm = 0 };

	(void)state;
	go(&one, &conf, FRAMES, 100, US);
	assert_int_equal(one.cnt, FRAMES);
	for (uint32_t i = 0; i < FRAMES; i++) {
		assert_int_equal(one.num[i], i);
		assert_true(one.at[i] == (i + 1) * US);
	}
}

/* Each chance by itself: 5 % of 20000 is 1000, standard deviation 31 */
static void chances(void **state)
{
	struct link_conf conf = { .loss_ppm = 50000 };

	(void)state;
	go(&one, &conf, FRAMES, 100, US);
	assert_in_range(one.stat.lost, 1000 - 185, 1000 + 185);
	assert_int_equal(one.cnt, FRAMES - one.stat.lost);
	conf = (struct link_conf){ .dup_ppm = 50000 };
	go(&one, &conf, FRAMES, 100, US);
	assert_in_range(one.stat.duplicated, 1000 - 185, 1000 + 185);
	assert_int_equal(one.cnt, FRAMES + one.stat.duplicated);
	conf = (struct link_conf){ .reorder_ppm = 50000, .reorder_cnt = 3, .reorder_ns = 5 * MS };
	go(&one, &conf, FRAMES, 100, US);
	assert_in_range(one.stat.reordered, 1000 - 185, 1000 + 185);
	assert_int_equal(one.cnt, FRAMES);
}

static void extremes(void **state)
{
	struct link_conf conf = { .loss_ppm = LINK_CERTAIN };

	(void)state;
	go(&one, &conf, 1000, 100, US);
	assert_int_equal(one.cnt, 0);
	conf = (struct link_conf){ .dup_ppm = LINK_CERTAIN };
	go(&one, &conf, 1000, 100, US);
	assert_int_equal(one.cnt, 2000);
	for (uint32_t i = 0; i < 2000; i++)
		assert_int_equal(one.num[i], i / 2);
}

/* A frame held back comes after three others that came in later and were not held back themselves */
static void reorder(void **state)
{
	const struct link_conf conf = { .reorder_ppm = 30000, .reorder_cnt = 3, .reorder_ns = 1000 * MS };
	uint32_t late = 0, highest = 0;

	(void)state;
	go(&one, &conf, FRAMES, 100, US);
	assert_int_equal(one.cnt, FRAMES);
	for (uint32_t i = 0; i < one.cnt; i++) {
		uint32_t passed = 0;

		if (one.num[i] >= highest) {
			highest = one.num[i];
			continue;
		}
		late++;
		for (uint32_t k = i; k-- > 0 && k + 20 > i;)
			passed += one.num[k] > one.num[i];
		assert_in_range(passed, 3, 8);
	}
	/* the last few may have had nothing behind them */
	assert_in_range(late, one.stat.reordered - 2, one.stat.reordered);
}

/* With nothing behind it, a frame held back comes by its time */
static void reorder_time(void **state)
{
	const struct link_conf conf = { .reorder_ppm = LINK_CERTAIN, .reorder_cnt = 3, .reorder_ns = 5 * MS, .delay_ns = MS };

	(void)state;
	go(&one, &conf, 1, 100, US);
	assert_int_equal(one.cnt, 1);
	assert_true(one.at[0] == US + 6 * MS);
}

static void delay(void **state)
{
	struct link_conf conf = { .delay_ns = 3 * MS };
	uint64_t least = LINK_NEVER, most = 0;

	(void)state;
	go(&one, &conf, 1000, 100, MS);
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(one.at[i] == (i + 1) * MS + 3 * MS);
	conf.jitter_ns = MS / 2;
	go(&one, &conf, 1000, 100, MS);
	for (uint32_t i = 0; i < 1000; i++) {
		uint64_t took = one.at[i] - (i + 1) * MS;

		assert_int_equal(one.num[i], i);
		least = took < least ? took : least;
		most = took > most ? took : most;
	}
	assert_true(least >= 3 * MS && least < 3 * MS + 20 * US);
	assert_true(most < 3 * MS + MS / 2 && most > 3 * MS + MS / 2 - 20 * US);
	/* more jitter than distance: still in order */
	go(&one, &conf, FRAMES, 100, US);
	for (uint32_t i = 0; i < FRAMES; i++)
		assert_int_equal(one.num[i], i);
}

/* 1250 bytes at 100 Mbit/s take 100 us */
static void rate(void **state)
{
	struct link_conf conf = { .rate_bps = 100000000 };

	(void)state;
	go(&one, &conf, 1000, 1250, 10 * US);
	assert_int_equal(one.cnt, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(one.at[i] == 10 * US + (i + 1) * 100 * US);
	/* slower than the wire: no waiting */
	go(&one, &conf, 1000, 1250, 200 * US);
	for (uint32_t i = 0; i < 1000; i++)
		assert_true(one.at[i] == (i + 1) * 200 * US + 100 * US);
}

static void bounded(void **state)
{
	const struct link_conf conf = { .rate_bps = 100000000, .limit_cnt = 10, .delay_ns = 50 * MS };

	(void)state;
	go(&one, &conf, 1000, 1250, US);
	/* 10 wait, and one leaves each 100 us of the millisecond; frames under way do not count */
	assert_int_equal(one.cnt, 19);
	assert_int_equal(one.stat.overflow, 1000 - 19);
}

static void repeatable(void **state)
{
	struct link_conf conf = { .loss_ppm = 10000, .dup_ppm = 10000, .reorder_ppm = 10000, .reorder_cnt = 3,
				  .reorder_ns = MS, .delay_ns = MS, .jitter_ns = MS };

	(void)state;
	go(&one, &conf, FRAMES, 100, US);
	go(&two, &conf, FRAMES, 100, US);
	assert_memory_equal(&one, &two, sizeof(one));
	/* the fate of a frame does not depend on delay and rate */
	conf.delay_ns = conf.jitter_ns = 0;
	conf.rate_bps = 1000000000;
	go(&two, &conf, FRAMES, 100, US);
	assert_memory_equal(&one.stat, &two.stat, sizeof(one.stat));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transparent), cmocka_unit_test(chances), cmocka_unit_test(extremes),
		cmocka_unit_test(reorder), cmocka_unit_test(reorder_time), cmocka_unit_test(delay),
		cmocka_unit_test(rate), cmocka_unit_test(bounded), cmocka_unit_test(repeatable),
	};

	return cmocka_run_group_tests_name("test link", tests, NULL, NULL);
}
