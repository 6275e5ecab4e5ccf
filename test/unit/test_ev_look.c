/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A look before sleeping: only while events are close together and bring little
 * work, and not for long if it is in vain. Engine and clock are made up: each
 * try and each reading of the clock takes a microsecond.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ev/look.h"

static ns_t now;			/* the clock */
static ns_t event_at;			/* when the next event comes */
static uint64_t moved;

struct fake {
	struct ev ev;
	uint32_t tries, sleeps;
	bool looking;			/* tried, and found nothing so far */
	uint32_t vain;			/* looks that ended in sleep */
};

static ns_t fake_clock(void)
{
	return now += NS_US;
}

static int fake_wait(struct ev *e, struct ev_hit *hit, int max, ns_t begin, ns_t until)
{
	struct fake *f = (struct fake *)e;

	(void)begin;
	(void)max;
	now += NS_US;
	if (until <= now) {
		f->tries++;
		f->looking = event_at > now;
	} else {
		f->sleeps++;
		f->vain += f->looking;
		f->looking = false;
		now = event_at < until ? event_at > now ? event_at : now : until;
	}
	hit->mask = EV_IN;
	return event_at <= now;
}

static const struct ev_ops fake_ops = { .name = "fake", .wait = fake_wait };

/* Turns of WORK and so many BYTES each, whose next events come GAP after the last one: how many ended without a sleep */
static uint32_t turns_moving(struct ev_look *l, struct fake *f, int cnt, ns_t gap, ns_t work, uint64_t bytes)
{
	const uint32_t before = f->sleeps;
	struct ev_hit hit;

	for (int i = 0; i < cnt; i++) {
		const ns_t woke = now;

		event_at = woke + gap;
		now += work;
		assert_int_equal(ev_look_wait(l, &f->ev, &hit, 1, woke, NS_NEVER, fake_clock, moved += bytes), 1);
	}
	return (uint32_t)cnt - (f->sleeps - before);
}

static uint32_t turns(struct ev_look *l, struct fake *f, int cnt, ns_t gap, ns_t work)
{
	return turns_moving(l, f, cnt, gap, work, 200);
}

static void begin(struct ev_look *l, struct fake *f)
{
	now = 1000 * NS_S;
	*l = (struct ev_look){ 0 };
	*f = (struct fake){ .ev.ops = &fake_ops };
	turns(l, f, 1, NS_S, 0);
}

static void test_close(void **state)
{
	struct ev_look l;
	struct fake f;

	(void)state;
	begin(&l, &f);
	assert_in_range(turns(&l, &f, 100, 25 * NS_US, 8 * NS_US), 50, 100);	/* after some, to know that */
	assert_int_equal(turns(&l, &f, 100, 25 * NS_US, 8 * NS_US), 100);
	assert_int_equal(f.vain, 0);
	/* a pause costs one look, and then the next ones are far until proven otherwise */
	turns(&l, &f, 1, NS_S, 8 * NS_US);
	assert_int_equal(f.vain, 1);
	f.tries = 0;
	turns(&l, &f, 1, NS_S, 8 * NS_US);
	assert_int_equal(f.tries, 0);
}

static void test_far(void **state)
{
	struct ev_look l;
	struct fake f;

	(void)state;
	begin(&l, &f);
	assert_int_equal(turns(&l, &f, 1000, 2 * EV_LOOK_GAP, 8 * NS_US), 0);
	assert_int_equal(f.tries, 0);
}

static void test_work(void **state)
{
	struct ev_look l;
	struct fake f;

	(void)state;
	begin(&l, &f);
	turns(&l, &f, 100, 50 * NS_US, 2 * EV_LOOK_WORK);
	f.tries = 0;
	turns(&l, &f, 1000, 50 * NS_US, 2 * EV_LOOK_WORK);
	assert_int_equal(f.tries, 0);
}

static void test_bytes(void **state)
{
	struct ev_look l;
	struct fake f;

	(void)state;
	begin(&l, &f);
	turns(&l, &f, 100, 25 * NS_US, 8 * NS_US);
	turns_moving(&l, &f, 1, 25 * NS_US, 8 * NS_US, 1u << 20);
	f.tries = 0;
	turns_moving(&l, &f, 1000, 25 * NS_US, 8 * NS_US, 2 * EV_LOOK_BYTES);
	assert_int_equal(f.tries, 0);
	turns_moving(&l, &f, 100, 25 * NS_US, 8 * NS_US, EV_LOOK_BYTES / 4);
	assert_int_equal(turns_moving(&l, &f, 100, 25 * NS_US, 8 * NS_US, EV_LOOK_BYTES / 4), 100);
}

/* So close that a sleep gathers several, which costs less than one turn for each */
static void test_crowd(void **state)
{
	struct ev_look l;
	struct fake f;

	(void)state;
	begin(&l, &f);
	turns(&l, &f, 100, 10 * NS_US, 4 * NS_US);
	f.tries = 0;
	turns(&l, &f, 1000, 10 * NS_US, 4 * NS_US);
	assert_int_equal(f.tries, 0);
}

/* Events as close as it takes, but always a little later than the look: it costs next to nothing */
static void test_in_vain(void **state)
{
	const ns_t gap = EV_LOOK_TIME + 15 * NS_US;
	struct ev_look l;
	struct fake f;
	ns_t start;

	(void)state;
	begin(&l, &f);
	start = now;
	assert_int_equal(turns(&l, &f, 100000, gap, 8 * NS_US), 0);
	assert_true(f.vain > 100);
	assert_true((ns_t)f.vain * EV_LOOK_TIME * 100 < now - start);
	/* and luck that returns is found */
	turns(&l, &f, EV_LOOK_REST + 1, 25 * NS_US, 8 * NS_US);
	assert_int_equal(turns(&l, &f, 100, 25 * NS_US, 8 * NS_US), 100);
}

/* A deadline is kept, and who must not wait does not */
static void test_until(void **state)
{
	struct ev_look l;
	struct ev_hit hit;
	struct fake f;
	ns_t until;

	(void)state;
	begin(&l, &f);
	turns(&l, &f, 100, 25 * NS_US, 8 * NS_US);
	event_at = NS_NEVER;
	until = now + 5 * NS_US;
	assert_int_equal(ev_look_wait(&l, &f.ev, &hit, 1, now, until, fake_clock, moved), 0);
	assert_in_range(now, until, until + 4 * NS_US);
	f.tries = 0;
	assert_int_equal(ev_look_wait(&l, &f.ev, &hit, 1, now, 0, fake_clock, moved), 0);
	assert_int_equal(f.tries, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close), cmocka_unit_test(test_far), cmocka_unit_test(test_work), cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_in_vain), cmocka_unit_test(test_until),
	};

	return cmocka_run_group_tests_name("ev/look", tests, NULL, NULL);
}
