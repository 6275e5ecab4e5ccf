/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Deadlines of a TCP flow: RTO from samples (RFC 6298), Karn's rule, backoff,
 * and the one timer that serves all deadlines.
 */
#include "rig_tcp.h"

static void test_rto(void **state)
{
	struct tcp t = { .rto = TCP_RTO_MIN };

	(void)state;
	assert_int_equal(tcp_rto(&t), TCP_RTO_MIN);
	t.backoff = 3;
	assert_int_equal(tcp_rto(&t), 8 * TCP_RTO_MIN);
	t.backoff = 16;
	assert_int_equal(tcp_rto(&t), TCP_RTO_MAX);
	t.backoff = 255;
	assert_int_equal(tcp_rto(&t), TCP_RTO_MAX);
}

static void acked_after(struct rig *r, ns_t rtt)
{
	struct tcp *t = r->t;

	t->max = t->nxt = t->una + 100;
	tcp_timer_data_sent(&r->p, t, t->max, false);
	r->env.now += rtt;
	t->una = t->max;
	tcp_timer_acked(&r->p, t);
	assert_int_equal(t->rto_at, NS_NEVER);
}

/* RFC 6298 2.2 and 2.3 */
static void test_samples(void **state)
{
	struct rig *r = *state;
	struct tcp *t;

	rig_open(r, true);
	t = r->t;
	t->srtt = 0;
	acked_after(r, 100 * NS_MS);
	assert_int_equal(t->srtt, 100 * NS_MS);
	assert_int_equal(t->rttvar, 50 * NS_MS);
	assert_int_equal(t->rto, 300 * NS_MS);
	acked_after(r, 180 * NS_MS);
	assert_int_equal(t->rttvar, 50 * NS_MS * 3 / 4 + 80 * NS_MS / 4);
	assert_int_equal(t->srtt, 110 * NS_MS);
	for (int i = 0; i < 100; i++)
		acked_after(r, 10 * NS_US);
	assert_int_equal(t->rto, TCP_RTO_MIN);
	acked_after(r, 1000 * NS_S);
	assert_int_equal(t->rto, TCP_RTO_MAX);
}

static void test_karn(void **state)
{
	struct rig *r = *state;
	struct tcp *t;
	ns_t srtt;

	rig_open(r, true);
	t = r->t;
	acked_after(r, 100 * NS_MS);
	srtt = t->srtt;
	t->max = t->nxt = t->una + 100;
	tcp_timer_data_sent(&r->p, t, t->max, false);
	r->env.now += 50 * NS_MS;
	tcp_timer_data_sent(&r->p, t, t->max, true);		/* again */
	assert_int_equal(t->rto_at, r->env.now + tcp_rto(t));
	r->env.now += 500 * NS_MS;
	t->una = t->max;
	tcp_timer_acked(&r->p, t);
	assert_int_equal(t->srtt, srtt);
}

/* A part acknowledged: the timer begins anew, the sample waits for its byte */
static void test_partial(void **state)
{
	struct rig *r = *state;
	struct tcp *t;
	ns_t srtt;

	rig_open(r, true);
	t = r->t;
	srtt = t->srtt;
	t->max = t->nxt = t->una + 100;
	t->backoff = 2;
	tcp_timer_data_sent(&r->p, t, t->max, false);
	r->env.now += 100 * NS_MS;
	t->una += 40;
	tcp_timer_acked(&r->p, t);
	assert_int_equal(t->backoff, 0);
	assert_int_equal(t->rto_at, r->env.now + tcp_rto(t));
	assert_int_equal(t->srtt, srtt);
	tcp_timer_first(t);
	assert_int_equal(t->rto_at, NS_NEVER);
}

/* The one timer moves to an earlier deadline only */
static void test_sync(void **state)
{
	struct rig *r = *state;
	struct tcp *t;

	rig_open(r, true);
	t = r->t;
	twheel_cancel(&r->tw, &r->f->timer);
	t->rto_at = t->ack_at = NS_NEVER;
	tcp_timer_sync(&r->p, r->f);
	assert_false(twheel_armed(&r->f->timer));
	t->rto_at = r->env.now + 200 * NS_MS;
	tcp_timer_sync(&r->p, r->f);
	assert_true(twheel_armed(&r->f->timer));
	assert_int_equal(twheel_next(&r->tw), t->rto_at);
	t->ack_at = r->env.now + 2 * NS_MS;
	tcp_timer_sync(&r->p, r->f);
	assert_int_equal(twheel_next(&r->tw), t->ack_at);
	t->ack_at = NS_NEVER;
	tcp_timer_sync(&r->p, r->f);				/* it will fire early, for nothing, and be set anew */
	assert_int_equal(twheel_next(&r->tw), r->env.now + 2 * NS_MS);
	r->env.now += 2 * NS_MS;
	assert_ptr_equal(twheel_pop(&r->tw, r->env.now), &r->f->timer);
	tcp_timer(&r->p, r->f);
	assert_int_equal(twheel_next(&r->tw), t->rto_at);
	assert_int_equal(r->l2.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rto),
		RIG_BOTH(test_samples),
		RIG_BOTH(test_karn),
		RIG_BOTH(test_partial),
		RIG_BOTH(test_sync),
	};

	return cmocka_run_group_tests_name("proto/tcp/timer", tests, NULL, NULL);
}
