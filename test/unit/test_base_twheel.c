/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The timer wheel against a list that is searched from end to end.
 */
#include "base/twheel.h"

#include "split.h"

#define TIMERS	96

struct model {
	struct twheel wheel;
	struct twheel_timer timer[TIMERS];
	bool armed[TIMERS];
	ns_t fire_at[TIMERS];		/* deadline rounded up to ticks */
	ns_t now;
	struct rng rng;
};

/* Rounded up, by counting on from the tick before */
static ns_t round_up(ns_t t)
{
	ns_t r = t / TWHEEL_TICK * TWHEEL_TICK;

	return r < t ? r + TWHEEL_TICK : r;
}

static ns_t earliest(const struct model *m)
{
	ns_t min = NS_NEVER;

	for (unsigned i = 0; i < TIMERS; i++)
		min = m->armed[i] && m->fire_at[i] < min ? m->fire_at[i] : min;
	return min;
}

static void check_wheel(const struct model *m)
{
	unsigned found = 0, armed = 0;

	for (unsigned i = 0; i < TIMERS; i++) {
		armed += m->armed[i];
		assert_int_equal(twheel_armed(&m->timer[i]), m->armed[i]);
	}
	for (unsigned level = 0; level < TWHEEL_LEVELS; level++) {
		for (unsigned slot = 0; slot < TWHEEL_SLOTS; slot++) {
			const struct twheel_timer *t = m->wheel.slot[level][slot];

			assert_int_equal(m->wheel.used[level] >> slot & 1, t != NULL);
			for (; t; t = t->next, found++) {
				assert_int_equal(t->level_slot, level * TWHEEL_SLOTS + slot);
				assert_ptr_equal(*t->prev, t);
			}
		}
	}
	assert_int_equal(found, armed);
}

/* The bound isn't late, and is there exactly if a timer is */
static void check_next(const struct model *m)
{
	const ns_t next = twheel_next(&m->wheel), want = earliest(m);

	if (want == NS_NEVER)
		assert_true(next == NS_NEVER);
	else
		assert_true(next <= (want > m->now ? want : m->now));
}

static unsigned run(struct model *m)
{
	const ns_t next = twheel_next(&m->wheel);
	struct twheel_timer *t;
	unsigned popped = 0;
	ns_t last = 0;

	while ((t = twheel_pop(&m->wheel, m->now))) {
		const unsigned i = (unsigned)(t - m->timer);

		assert_in_range(i, 0, TIMERS - 1);
		assert_true(m->armed[i]);
		assert_true(m->fire_at[i] <= m->now);
		assert_true(last <= m->fire_at[i]);
		assert_false(twheel_armed(t));
		assert_int_equal(t->kind, i);
		last = m->fire_at[i];
		m->armed[i] = false;
		popped++;
	}
	assert_true(earliest(m) > m->now);
	/* Who slept until the bound gets a timer or a later bound */
	assert_true(twheel_next(&m->wheel) > m->now - TWHEEL_TICK);
	if (!popped && next <= m->now)
		assert_true(twheel_next(&m->wheel) > next);
	if (popped)
		assert_true(next <= m->now);
	return popped;
}

/* Any scale from below a tick to beyond the range, and some in the past */
static ns_t random_span(struct rng *r)
{
	const unsigned bits = rng_below(r, 53);

	return (ns_t)(rng_u64(r) & ((UINT64_C(1) << bits) - 1)) - (rng_below(r, 8) ? 0 : 3 * TWHEEL_TICK);
}

static void arm(struct model *m, unsigned i, ns_t deadline)
{
	const ns_t floor_now = m->now / TWHEEL_TICK * TWHEEL_TICK;

	deadline = deadline < 0 ? 0 : deadline;
	twheel_arm(&m->wheel, &m->timer[i], deadline);
	m->armed[i] = true;
	m->fire_at[i] = round_up(deadline);
	if (m->fire_at[i] < floor_now)
		m->fire_at[i] = floor_now;
}

static void step(struct model *m)
{
	const unsigned i = rng_below(&m->rng, TIMERS);
	ns_t next;

	switch (rng_below(&m->rng, 8)) {
	case 0: case 1: case 2:
		arm(m, i, m->now + random_span(&m->rng));
		break;
	case 3:
		twheel_cancel(&m->wheel, &m->timer[i]);
		m->armed[i] = false;
		break;
	case 4: case 5:
		next = twheel_next(&m->wheel);
		if (next != NS_NEVER && next > m->now)
			m->now = next;
		run(m);
		break;
	case 6:
		m->now += (ns_t)(rng_u64(&m->rng) & ((UINT64_C(1) << rng_below(&m->rng, 48)) - 1));
		run(m);
		break;
	default:
		m->now += rng_below(&m->rng, 3 * TWHEEL_TICK);
		run(m);
		break;
	}
}

static void start(struct model *m, uint64_t seed, ns_t now)
{
	memset(m, 0, sizeof(*m));
	m->now = now;
	rng_seed(&m->rng, seed);
	twheel_init(&m->wheel, now);
	for (unsigned i = 0; i < TIMERS; i++)
		m->timer[i].kind = i;
}

static void random_operations(void **state)
{
	static struct model m;

	(void)state;
	for (uint64_t seed = 0; seed < 200; seed++) {
		start(&m, seed, (ns_t)(seed * seed * seed * 123456789101));
		for (unsigned i = 0; i < 2000; i++) {
			step(&m);
			check_next(&m);
			if (i % 16 == 0)
				check_wheel(&m);
		}
		/* To the end, by sleeping as told: few wake-ups a timer (one for each level, and far ones some more) */
		for (unsigned wakes = 0; earliest(&m) != NS_NEVER; wakes++) {
			assert_true(wakes < TIMERS * (TWHEEL_LEVELS + 8));
			if (twheel_next(&m.wheel) > m.now)
				m.now = twheel_next(&m.wheel);
			run(&m);
		}
		assert_true(twheel_next(&m.wheel) == NS_NEVER);
		check_wheel(&m);
	}
}

/* Each timer alone, around every edge of the levels: when does it fire, how often does one wake for it */
static void single(void **state)
{
	static struct model m;

	(void)state;
	for (unsigned bit = 0; bit < 36; bit++) {
		for (int d = -2; d <= 2; d++) {
			for (unsigned from = 0; from < 34; from++) {
				const ns_t span = ((INT64_C(1) << bit) + d) * TWHEEL_TICK;
				ns_t at;

				start(&m, 0, ((INT64_C(1) << from) - 1) * TWHEEL_TICK + 1);
				at = m.now + (span > 0 ? span : 0);
				arm(&m, 0, at);
				for (unsigned wakes = 0; m.armed[0]; wakes++) {
					const ns_t next = twheel_next(&m.wheel);

					/* Far ones are looked at once a turn of the last level */
					assert_true(wakes <= 3 + (bit > 29 ? 1u << (bit - 29) : 0));
					m.now = next > m.now ? next : m.now;
					run(&m);
				}
				assert_true(m.now == round_up(at));
			}
		}
	}
}

static void rounding(void **state)
{
	struct twheel w;
	struct twheel_timer t = { 0 };

	(void)state;
	twheel_init(&w, 10 * TWHEEL_TICK + 5);
	twheel_arm(&w, &t, 12 * TWHEEL_TICK + 1);
	assert_true(twheel_next(&w) == 13 * TWHEEL_TICK);
	assert_null(twheel_pop(&w, 12 * TWHEEL_TICK + 1));
	assert_null(twheel_pop(&w, 13 * TWHEEL_TICK - 1));
	assert_ptr_equal(twheel_pop(&w, 13 * TWHEEL_TICK), &t);
	assert_null(twheel_pop(&w, 13 * TWHEEL_TICK));

	twheel_arm(&w, &t, 14 * TWHEEL_TICK);
	assert_null(twheel_pop(&w, 14 * TWHEEL_TICK - 1));
	assert_ptr_equal(twheel_pop(&w, 14 * TWHEEL_TICK), &t);
}

static void past(void **state)
{
	struct twheel w;
	struct twheel_timer t = { 0 };

	(void)state;
	twheel_init(&w, 100 * NS_S);
	twheel_arm(&w, &t, -5);
	assert_true(twheel_next(&w) <= 100 * NS_S);
	assert_ptr_equal(twheel_pop(&w, 100 * NS_S), &t);
	twheel_arm(&w, &t, 99 * NS_S);
	assert_ptr_equal(twheel_pop(&w, 100 * NS_S), &t);
	assert_null(twheel_pop(&w, 200 * NS_S));
	twheel_arm(&w, &t, 0);
	assert_ptr_equal(twheel_pop(&w, 200 * NS_S), &t);
}

static void never(void **state)
{
	struct twheel w;
	struct twheel_timer t = { 0 };

	(void)state;
	twheel_init(&w, 0);
	assert_true(twheel_next(&w) == NS_NEVER);
	assert_null(twheel_pop(&w, NS_S));
	twheel_cancel(&w, &t);
	twheel_arm(&w, &t, 2 * NS_S);
	twheel_arm(&w, &t, NS_NEVER);
	assert_false(twheel_armed(&t));
	assert_true(twheel_next(&w) == NS_NEVER);

	/* The latest deadline there is: awaited, not overflowed */
	twheel_arm(&w, &t, NS_NEVER - 1);
	assert_true(twheel_armed(&t));
	assert_true(twheel_next(&w) > NS_S);
	assert_null(twheel_pop(&w, NS_NEVER - 2 * TWHEEL_TICK));
	assert_true(twheel_next(&w) == NS_NEVER - 1);
	twheel_cancel(&w, &t);
	assert_true(twheel_next(&w) == NS_NEVER);
}

/* Handlers arm and cancel others while a run is under way */
static void within_a_run(void **state)
{
	struct twheel w;
	struct twheel_timer t[3] = { 0 }, *first;

	(void)state;
	twheel_init(&w, 0);
	for (unsigned i = 0; i < 3; i++)
		twheel_arm(&w, &t[i], 5 * TWHEEL_TICK);
	first = twheel_pop(&w, 9 * TWHEEL_TICK);
	assert_non_null(first);
	for (unsigned i = 0; i < 3; i++) {
		if (first != &t[i]) {
			twheel_cancel(&w, &t[i]);
			break;
		}
	}
	/* Armed again for a time that has come already: in the same run */
	twheel_arm(&w, first, 7 * TWHEEL_TICK);
	assert_non_null(twheel_pop(&w, 9 * TWHEEL_TICK));
	assert_ptr_equal(twheel_pop(&w, 9 * TWHEEL_TICK), first);
	assert_null(twheel_pop(&w, 9 * TWHEEL_TICK));
	assert_true(twheel_next(&w) == NS_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations), cmocka_unit_test(single), cmocka_unit_test(rounding),
		cmocka_unit_test(past), cmocka_unit_test(never), cmocka_unit_test(within_a_run),
	};

	return cmocka_run_group_tests_name("base/twheel", tests, NULL, NULL);
}
