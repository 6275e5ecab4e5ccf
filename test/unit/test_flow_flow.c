/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The flow table, by hand and against a naive model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "flow/flow.h"

static const struct hash_key hkey = { { 0x0706050403020100, 0x0f0e0d0c0b0a0908 } };

static struct flow_key key_of(uint32_t n)
{
	const uint8_t guest[4] = { 10, 0, 0, 2 }, far[4] = { 192, 0, 2, (uint8_t)(n >> 16) };

	return (struct flow_key){
		.guest = inaddr_v4(guest),
		.far = inaddr_v4(far),
		.guest_port = (uint16_t)n,
		.far_port = 80,
		.proto = FLOW_TCP,
	};
}

struct fixture {
	struct flow_tab t;
	void *mem;
};

static void setup(struct fixture *x, uint32_t cap)
{
	x->mem = aligned_alloc(64, (flow_tab_size(cap) + 63) & ~(size_t)63);
	assert_non_null(x->mem);
	memset(x->mem, 0, flow_tab_size(cap));
	flow_tab_init(&x->t, x->mem, cap, &hkey);
}

static void test_new_find_free(void **state)
{
	struct flow_key a = key_of(1), b = key_of(2);
	struct flow *f, *g;
	struct fixture x;

	(void)state;
	setup(&x, 4);
	assert_null(flow_find(&x.t, &a));
	f = flow_new(&x.t, &a);
	assert_non_null(f);
	assert_int_equal(f->h, -1);
	assert_int_equal(f->batch_first, FLOW_NONE);
	assert_int_equal(f->batch_last, FLOW_NONE);
	assert_int_equal(f->ready_next, FLOW_NONE);
	assert_false(f->ready);
	g = flow_new(&x.t, &b);
	assert_ptr_not_equal(f, g);
	assert_ptr_equal(flow_find(&x.t, &a), f);
	assert_ptr_equal(flow_find(&x.t, &b), g);
	assert_int_equal(x.t.cnt, 2);

	/* Each field of the key counts */
	a.proto = FLOW_UDP;
	assert_null(flow_find(&x.t, &a));
	a.proto = FLOW_TCP;
	a.far_port++;
	assert_null(flow_find(&x.t, &a));
	a.far_port--;

	flow_free(&x.t, f);
	assert_null(flow_find(&x.t, &a));
	assert_ptr_equal(flow_find(&x.t, &b), g);
	assert_int_equal(x.t.cnt, 1);
	free(x.mem);
}

static void test_body_of_a_used_entry_is_zeroed(void **state)
{
	struct flow_key a = key_of(1);
	struct fixture x;
	struct flow *f;
	unsigned i;

	(void)state;
	setup(&x, 1);
	f = flow_new(&x.t, &a);
	memset(flow_body(f), 0xa5, FLOW_BODY_LEN);
	f->h = 7;
	f->ready = true;
	flow_free(&x.t, f);
	assert_ptr_equal(flow_new(&x.t, &a), f);
	for (i = 0; i < FLOW_BODY_LEN; i++)
		assert_int_equal(f->body[i], 0);
	assert_int_equal(f->h, -1);
	assert_false(f->ready);
	assert_false(twheel_armed(&f->timer));
	assert_ptr_equal(flow_of_timer(&f->timer), f);
	free(x.mem);
}

static void test_full(void **state)
{
	struct flow_key k;
	struct fixture x;
	uint32_t i;

	(void)state;
	setup(&x, 5);
	for (i = 0; i < 5; i++) {
		k = key_of(i);
		assert_non_null(flow_new(&x.t, &k));
	}
	k = key_of(5);
	assert_null(flow_new(&x.t, &k));
	assert_int_equal(x.t.cnt, 5);
	flow_free(&x.t, &x.t.tab[3]);
	assert_ptr_equal(flow_new(&x.t, &k), &x.t.tab[3]);
	assert_null(flow_new(&x.t, &k));
	free(x.mem);
}

static void test_stale_references(void **state)
{
	struct ev_ref zero = { 0 }, first, other;
	struct flow_key a = key_of(1);
	struct fixture x;
	struct flow *f;

	(void)state;
	setup(&x, 2);
	assert_null(flow_of_ref(&x.t, zero));
	f = flow_new(&x.t, &a);
	first = flow_ref(&x.t, f);
	assert_ptr_equal(flow_of_ref(&x.t, first), f);
	zero.kind = EV_KIND_FLOW;
	assert_null(flow_of_ref(&x.t, zero));
	other = first;
	other.kind = EV_KIND_LISTEN;
	assert_null(flow_of_ref(&x.t, other));
	other = first;
	other.idx = 1;			/* never used */
	assert_null(flow_of_ref(&x.t, other));
	other.idx = UINT32_MAX;
	assert_null(flow_of_ref(&x.t, other));

	flow_free(&x.t, f);
	assert_null(flow_of_ref(&x.t, first));
	f = flow_new(&x.t, &a);
	assert_null(flow_of_ref(&x.t, first));
	assert_ptr_equal(flow_of_ref(&x.t, flow_ref(&x.t, f)), f);

	/* 24 bits wrap around past 0 */
	flow_free(&x.t, f);
	f->gen = 0xffffff;
	f = flow_new(&x.t, &a);
	assert_int_equal(f->gen, 1);
	free(x.mem);
}

static void test_free_twice_keeps_the_table_whole(void **state)
{
	struct flow_key a = key_of(1), b = key_of(2), c = key_of(3);
	struct fixture x;
	struct flow *f;

	(void)state;
	setup(&x, 2);
	f = flow_new(&x.t, &a);
	flow_free(&x.t, f);
	flow_free(&x.t, f);
	assert_int_equal(x.t.cnt, 0);
	assert_ptr_not_equal(flow_new(&x.t, &b), flow_new(&x.t, &c));
	assert_non_null(flow_find(&x.t, &b));
	assert_non_null(flow_find(&x.t, &c));
	free(x.mem);
}

/* A full-size table that was made, and has a few flows, occupies a few pages only */
static void test_untouched_memory_stays_untouched(void **state)
{
	size_t len = flow_tab_size(FLOW_MAX), page = (size_t)sysconf(_SC_PAGESIZE), i, resident = 0, pages;
	unsigned char *vec;
	struct flow_tab t;
	struct flow_key k;
	void *mem;

	(void)state;
	mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	madvise(mem, len, MADV_NOHUGEPAGE);
	flow_tab_init(&t, mem, FLOW_MAX, &hkey);
	for (i = 0; i < 10; i++) {
		k = key_of((uint32_t)i);
		flow_free(&t, flow_new(&t, &k));
		assert_non_null(flow_new(&t, &k));
	}

	pages = (len + page - 1) / page;
	vec = calloc(pages, 1);
	assert_int_equal(mincore(mem, len, vec), 0);
	for (i = 0; i < pages; i++)
		resident += vec[i] & 1;
	free(vec);
	munmap(mem, len);
	assert_in_range(resident, 1, 10 * sizeof(struct flow) / page + 2 + 10);
}

#define MODEL_KEYS	400u
#define MODEL_CAP	256u

struct model {
	struct flow *f[MODEL_KEYS];
	struct ev_ref ref[MODEL_KEYS], stale[MODEL_KEYS];
	uint32_t mark[MODEL_KEYS], cnt;
};

static void model_check(const struct flow_tab *t, const struct model *m, uint32_t n)
{
	struct flow_key k = key_of(n);

	assert_ptr_equal(flow_find(t, &k), m->f[n]);
	assert_ptr_equal(flow_of_ref(t, m->ref[n]), m->f[n]);
	assert_null(flow_of_ref(t, m->stale[n]));
	if (m->f[n])
		assert_memory_equal(m->f[n]->body, &m->mark[n], sizeof(m->mark[n]));
}

static void model_step(struct flow_tab *t, struct model *m, struct rng *r)
{
	uint32_t n = rng_below(r, MODEL_KEYS), i;
	struct flow_key k = key_of(n);

	if (m->f[n]) {
		flow_free(t, m->f[n]);
		m->f[n] = NULL;
		m->stale[n] = m->ref[n];
		m->cnt--;
		return;
	}
	m->f[n] = flow_new(t, &k);
	assert_int_equal(!m->f[n], m->cnt == MODEL_CAP);
	if (!m->f[n])
		return;
	for (i = 0; i < MODEL_KEYS; i++)
		assert_true(i == n || m->f[i] != m->f[n]);
	m->cnt++;
	m->mark[n] = (uint32_t)rng_u64(r);
	memcpy(flow_body(m->f[n]), &m->mark[n], sizeof(m->mark[n]));
	m->ref[n] = flow_ref(t, m->f[n]);
}

static void test_random_against_model(void **state)
{
	const char *env = getenv("SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : (uint64_t)time(NULL);
	static struct model m;
	struct fixture x;
	struct rng r;
	uint32_t i, n;

	(void)state;
	print_message("SEED=%llu\n", (unsigned long long)seed);
	rng_seed(&r, seed);
	setup(&x, MODEL_CAP);
	for (i = 0; i < 20000; i++) {
		model_step(&x.t, &m, &r);
		assert_int_equal(x.t.cnt, m.cnt);
		model_check(&x.t, &m, rng_below(&r, MODEL_KEYS));
		if (i % 1000)
			continue;
		for (n = 0; n < MODEL_KEYS; n++)
			model_check(&x.t, &m, n);
	}
	free(x.mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_new_find_free),
		cmocka_unit_test(test_body_of_a_used_entry_is_zeroed),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_stale_references),
		cmocka_unit_test(test_free_twice_keeps_the_table_whole),
		cmocka_unit_test(test_untouched_memory_stays_untouched),
		cmocka_unit_test(test_random_against_model),
	};

	return cmocka_run_group_tests_name("flow/flow", tests, NULL, NULL);
}
