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

/* RFC 7323 4.1: an echo gives a sample where a repetition spoilt our own clocking; nonsense gives none */
static void test_echo(void **state)
{
	struct rig *r = *state;
	struct tcp *t;
	uint32_t sent;
	ns_t srtt;

	rig_open_opts(r, RIG_OPT_TS);
	t = r->t;
	t->srtt = 0;
	acked_after(r, 100 * NS_MS);
	srtt = t->srtt;
	t->max = t->nxt = t->una + 100;
	tcp_timer_data_sent(&r->p, t, t->max, false);
	sent = tcp_ts_now(&r->p, t);
	tcp_timer_echo(&r->p, t, sent);				/* our own clocking still counts */
	assert_int_equal(t->srtt, srtt);
	tcp_timer_data_sent(&r->p, t, t->max, true);
	r->env.now += 180 * NS_MS;
	tcp_timer_echo(&r->p, t, sent);
	assert_int_equal(t->srtt, srtt + 10 * NS_MS);
	srtt = t->srtt;
	tcp_timer_echo(&r->p, t, 0);
	tcp_timer_echo(&r->p, t, tcp_ts_now(&r->p, t) + 1);	/* from the future */
	tcp_timer_echo(&r->p, t, tcp_ts_now(&r->p, t) - 121000);
	t->ts_off = 1000 - (uint32_t)(r->env.now / NS_MS);	/* a second old, as a number */
	tcp_timer_echo(&r->p, t, 0);
	assert_int_equal(t->srtt, srtt);
}

/* A flight of LEN bytes begins now */
static void flight(struct rig *r, uint32_t len)
{
	static uint8_t data[65536];
	struct tcp *t = r->t;

	fake_sk_feed(&r->sk, r->f->h, data, len);
	t->host_more = true;
	assert_true(tcp_push(&r->p, r->f));
	fake_l2_clear(&r->l2);
}

/* When a tail is probed: RFC 8985 7.2 */
static void test_probe_conditions(void **state)
{
	struct rig *r = *state;

	for (int i = 0; i < 7; i++) {
		struct tcp *t;
		ns_t probe;

		rig_open_opts(r, RIG_OPT_WS | (i == 1 ? 0 : RIG_OPT_SACK));
		t = r->t;
		t->srtt = 5 * NS_MS;
		probe = r->env.now + 2 * t->srtt + TCP_PTO_MIN;
		t->probed = i == 3;
		t->recovering = i == 4;
		flight(r, i == 2 ? t->mss : 4u * t->mss);
		if (i == 5) {
			flight(r, t->mss);			/* later data does not put it off */
			assert_int_equal(t->rto_at, probe);
		}
		if (i == 6) {
			t->wnd = 0;
			tcp_timer_acked(&r->p, t);
		}
		assert_int_equal(t->rto_at, i == 0 || i == 5 ? probe : r->env.now + tcp_rto(t));
		tcp_abort(&r->p, r->f);
	}
}

/* The probe, then the timer; an answer allows the next probe */
static void test_probe(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;
	struct tcp *t;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	t = r->t;
	flight(r, 4u * t->mss + 10);
	r->env.now = t->rto_at;
	tcp_timer(&r->p, r->f);
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(rig_frame(r, 0, &h), t->mss);
	assert_int_equal(h.seq + t->mss, t->max);
	assert_int_equal(t->retries, 0);
	assert_int_equal(t->backoff, 0);
	assert_int_equal(t->rto_at, r->env.now + tcp_rto(t));
	fake_l2_clear(&r->l2);
	r->env.now = t->rto_at;
	tcp_timer(&r->p, r->f);				/* no answer: the timer, from the beginning */
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(rig_frame(r, 0, &h), t->mss);
	assert_int_equal(h.seq, t->una);
	assert_int_equal(t->backoff, 1);
	assert_true(t->recovering && t->all_lost);
	t->una += t->mss;
	tcp_timer_acked(&r->p, t);
	assert_false(t->probed);
}

/* The guest may have given up what it reported (RFC 2018 8) */
static void test_rto_forgets(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;
	struct tcp *t;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	t = r->t;
	flight(r, 4u * t->mss);
	t->probed = true;
	t->sacked_cnt = 1;
	t->sacked[0] = (struct tcp_range){ t->una + t->mss, t->max };
	r->env.now = t->rto_at;
	tcp_timer(&r->p, r->f);
	assert_int_equal(t->sacked_cnt, 0);
	assert_int_equal(rig_frame(r, 0, &h), t->mss);
	assert_int_equal(h.seq, t->una);
}

/* The one timer moves to an earlier deadline only */
static void test_sync(void **state)
{
	struct rig *r = *state;
	struct tcp *t;

	rig_open(r, true);
	t = r->t;
	twheel_cancel(&r->tw, &r->f->timer);
	t->rto_at = t->ack_at = t->idle_at = NS_NEVER;
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
		RIG_BOTH(test_echo), RIG_BOTH(test_probe_conditions), RIG_BOTH(test_probe), RIG_BOTH(test_rto_forgets),
	};

	return cmocka_run_group_tests_name("proto/tcp/timer", tests, NULL, NULL);
}
