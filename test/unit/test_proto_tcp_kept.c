/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Payload that waits in the pool, against an array of bytes: random pieces that
 * overlap and meet, across the wrap of sequence numbers, with a pool or a share
 * of it that runs out, and the ranges that SACK blocks are made of.
 */
#include <string.h>

#include "base/rng.h"
#include "rig_tcp.h"

#define SPAN	300000u
#define RANGES	20000

struct model {
	uint32_t base, nxt;		/* offset 0; rcv_nxt as an offset */
	uint32_t recent;		/* first byte of what came last; SPAN: not stored */
	bool has[SPAN + 1];		/* one more, never set */
};

static uint8_t byte_at(uint32_t off)
{
	return (uint8_t)(off * 7 + off / 251);
}

static void setup(struct rig *r, uint32_t blocks)
{
	rig_pool(r, blocks);
	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
}

static bool add(struct rig *r, const struct model *m, uint32_t off, uint32_t len)
{
	static uint8_t data[SPAN];
	struct iovec iov[2] = { { data, len / 3 }, { data + len / 3, len - len / 3 } };
	struct view v = view_of(iov, len);

	for (uint32_t i = 0; i < len; i++)
		data[i] = byte_at(off + i);
	return tcp_kept_add(&r->p, r->f, m->base + off, &v);
}

/* Ranges as the model has them: ascending, beyond what is acknowledged */
static int naive_ranges(const struct model *m, struct tcp_range *ret)
{
	int n = 0;

	for (uint32_t i = m->nxt; i < SPAN; i++)
		if (m->has[i] && (i == m->nxt || !m->has[i - 1])) {
			uint32_t to = i;

			while (m->has[to])
				to++;
			if (i > m->nxt)
				ret[n++] = (struct tcp_range){ m->base + i, m->base + to };
			i = to;
		}
	return n;
}

static void check_bytes(struct rig *r, const struct model *m, uint32_t off, uint32_t end)
{
	static struct iovec iov[TCP_POOL_FLOW];
	uint32_t len;
	int n = tcp_kept_iov(&r->p, r->f, m->base + off, iov, TCP_POOL_FLOW, &len);

	assert_int_equal(len, end - off);
	assert_int_equal(tcp_kept_end(&r->p, r->f, m->base + off), m->base + end);
	for (int i = 0; i < n; i++)
		for (size_t j = 0; j < iov[i].iov_len; j++, off++)
			if (((uint8_t *)iov[i].iov_base)[j] != byte_at(off))
				fail_msg("byte %u is wrong", off);
	assert_int_equal(off, end);
}

static void check(struct rig *r, struct model *m)
{
	static struct tcp_range want[RANGES], got[RANGES], few[3];
	int n = naive_ranges(m, want), k = 0, first = -1;
	uint32_t to = m->nxt;

	r->t->rcv_nxt = m->base + m->nxt;
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, got, RANGES), n);
	for (int i = 0; i < n; i++)
		if (m->recent < SPAN && want[i].from - m->base <= m->recent && m->recent < want[i].to - m->base)
			first = i;
	if (first >= 0)
		assert_memory_equal(&got[k++], &want[first], sizeof(want[0]));
	for (int i = 0; i < n; i++) {
		if (i != first)
			assert_memory_equal(&got[k++], &want[i], sizeof(want[0]));
		check_bytes(r, m, want[i].from - m->base, want[i].to - m->base);
	}
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, few, 3), BYTES_MIN(n, 3));
	assert_memory_equal(few, got, (size_t)BYTES_MIN(n, 3) * sizeof(few[0]));
	while (m->has[to])
		to++;
	if (to > m->nxt)
		check_bytes(r, m, m->nxt, to);
	assert_int_equal(r->pool.used, r->t->kept_cnt);
	assert_true(r->t->kept_cnt <= TCP_POOL_FLOW);
}

/* Add to both; the model takes the part that was stored, which must be a beginning of it */
static void add_both(struct rig *r, struct model *m, uint32_t off, uint32_t len)
{
	bool all = add(r, m, off, len);
	uint32_t n = all ? len : 0;

	/* what is stored of it: bytes that either copy has, up to the first that is missing */
	while (!all && n < len && seqno_gt(tcp_kept_end(&r->p, r->f, m->base + off + n), m->base + off + n))
		n = tcp_kept_end(&r->p, r->f, m->base + off + n) - m->base - off;
	n = BYTES_MIN(n, len);
	memset(m->has + off, true, n);
	m->recent = n ? off : SPAN;
	if (!all)
		assert_true(r->t->kept_cnt == TCP_POOL_FLOW || !r->pool.free_head);
}

static void random_life(struct rig *r, struct model *m, struct rng *rng, uint32_t big)
{
	memset(m->has, 0, sizeof(m->has));
	m->base = 0u - 100000u - rng_below(rng, 50000);		/* wraps inside */
	m->nxt = 0;
	m->recent = SPAN;
	for (int i = 0; i < 150; i++) {
		uint32_t off = m->nxt + 1 + rng_below(rng, rng_below(rng, 2) ? 40000 : SPAN), len = 1 + rng_below(rng, big);

		if (off >= SPAN)
			continue;
		add_both(r, m, off, BYTES_MIN(len, SPAN - off));
		if (!rng_below(rng, 8)) {	/* the application's turn: the gap closes, or a part of what was kept is passed on */
			m->nxt += rng_below(rng, 30000);
			m->nxt = BYTES_MIN(m->nxt, SPAN);
			tcp_kept_drop(&r->p, r->f, m->base + m->nxt);
		}
		check(r, m);
	}
	tcp_kept_free(&r->p, r->f);
	assert_int_equal(r->pool.used, 0);
	assert_int_equal(r->t->kept_cnt, 0);
	assert_int_equal(r->t->kept_head, 0);
}

static void test_random(void **state)
{
	static const struct { uint32_t blocks, big; } c[] = {
		{ TCP_POOL_CNT, 100 }, { TCP_POOL_CNT, 20000 }, { 20, 20000 }, { 5, 3000 }, { 1, 9000 }, { 60, 1 },
	};
	struct rig *r = *state;
	struct model *m = calloc(1, sizeof(*m));
	struct rng rng;

	rng_seed(&rng, 3);
	setup(r, TCP_POOL_CNT);
	for (size_t i = 0; i < BYTES_COUNT(c); i++)
		for (int life = 0; life < 3; life++) {
			/* memory of earlier lives is in it: nothing may depend on zeroes */
			r->pool.free_head = 0;
			r->pool.fresh = TCP_POOL_CNT - c[i].blocks;
			random_life(r, m, &rng, c[i].big);
		}
	free(m);
}

/* One flow takes no more than its share, and gives all back */
static void test_share(void **state)
{
	struct rig *r = *state;
	struct model m = { .base = 0xfffffff0u };
	uint32_t i;

	setup(r, TCP_POOL_CNT);
	for (i = 0; add(r, &m, 10 + 2 * i, 1); i++)
		assert_true(i < TCP_POOL_FLOW);
	assert_int_equal(i, TCP_POOL_FLOW);
	assert_int_equal(r->pool.used, TCP_POOL_FLOW);
	tcp_kept_drop(&r->p, r->f, m.base + 10 + 3);	/* one block */
	assert_int_equal(r->pool.used, TCP_POOL_FLOW - 2);
	assert_true(add(r, &m, 10, 3));			/* all that is missing there */
	assert_int_equal(r->pool.used, TCP_POOL_FLOW - 1);
	tcp_abort(&r->p, r->f);
	assert_int_equal(r->pool.used, 0);
}

/* No pool, or none with memory: nothing is kept, nothing breaks */
static void test_none(void **state)
{
	struct rig *r = *state;
	struct model m = { .base = 100 };
	struct tcp_range ret;

	rig_open_opts(r, RIG_OPT_SACK);
	assert_false(add(r, &m, 10, 1));
	r->p.tcp_pool = &r->pool;
	assert_false(add(r, &m, 10, 1));
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, &ret, 1), 0);
	assert_int_equal(tcp_kept_end(&r->p, r->f, 5), 5);
	tcp_kept_drop(&r->p, r->f, 500);
}

/* Small segments in order share blocks */
static void test_dense(void **state)
{
	struct rig *r = *state;
	struct model m = { .base = 0xffffff00u };

	setup(r, TCP_POOL_CNT);
	for (uint32_t i = 0; i < 8000; i++)
		assert_true(add(r, &m, 10 + i, 1));
	assert_int_equal(r->pool.used, 1);
}

/* The latest first, also when there are more ranges than places */
static void test_order(void **state)
{
	struct rig *r = *state;
	struct model m = { .base = 0xffffff00u };
	struct tcp_range ret[3];

	setup(r, TCP_POOL_CNT);
	r->t->rcv_nxt = m.base;
	for (uint32_t i = 1; i <= 6; i++)
		assert_true(add(r, &m, 100 * i, 10));
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, ret, 3), 3);
	assert_int_equal(ret[0].from, m.base + 600);
	assert_int_equal(ret[1].from, m.base + 100);
	assert_int_equal(ret[2].from, m.base + 200);
	assert_true(add(r, &m, 310, 5));
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, ret, 3), 3);
	assert_int_equal(ret[0].from, m.base + 300);
	assert_int_equal(ret[0].to, m.base + 315);
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, ret, 1), 1);
	assert_int_equal(ret[0].from, m.base + 300);
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, ret, 0), 0);
	r->t->rcv_nxt = m.base + 300;			/* in order now: it only waits for the socket */
	assert_int_equal(tcp_kept_ranges(&r->p, r->f, ret, 3), 3);
	assert_int_equal(ret[0].from, m.base + 400);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_random), RIG_BOTH(test_share), RIG_BOTH(test_none), RIG_BOTH(test_dense), RIG_BOTH(test_order),
	};

	return cmocka_run_group_tests_name("proto/tcp/kept", tests, NULL, NULL);
}
