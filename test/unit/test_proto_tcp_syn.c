/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/tcp/syn.c: schedules of the kernel's settings, and what counts as half
 * open at which published port.
 */
#include "rig_tcp.h"

static ns_t wait_after(struct rig *r, enum tcp_phase phase, uint8_t retries)
{
	const struct tcp t = { .phase = (uint8_t)phase, .retries = retries };

	return tcp_syn_wait(&r->p, &t);
}

static int limit_of(struct rig *r, enum tcp_phase phase)
{
	const struct tcp t = { .phase = (uint8_t)phase };

	return tcp_syn_limit(&r->p, &t);
}

/* TCP-34: SYN waits linearly at first, SYN,ACK never does */
static void test_schedule(void **state)
{
	static const ns_t syn[] = { 0, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64, 120, 120 };
	struct rig *r = *state;

	for (uint8_t i = 1; i < BYTES_COUNT(syn); i++)
		assert_int_equal(wait_after(r, TCP_PHASE_SYN_SENT, i), syn[i] * NS_S);
	for (uint8_t i = 1; i < 7; i++)
		assert_int_equal(wait_after(r, TCP_PHASE_SYN_RCVD, i), NS_S << i);
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_SENT), 10);
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_RCVD), 5);
	r->tcp = (struct tcp_settings){ 2, 0, 1, 3 * NS_S, 7200 * NS_S, 75 * NS_S, 9 };
	assert_int_equal(wait_after(r, TCP_PHASE_SYN_SENT, 1), 2 * NS_S);
	assert_int_equal(wait_after(r, TCP_PHASE_SYN_SENT, 2), 3 * NS_S);
	assert_int_equal(wait_after(r, TCP_PHASE_SYN_SENT, 255), 3 * NS_S);
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_SENT), 2);
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_RCVD), 1);
	r->tcp = (struct tcp_settings){ 255, 255, 255, 120 * NS_S, 7200 * NS_S, 75 * NS_S, 9 };
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_SENT), 250);
	assert_int_equal(limit_of(r, TCP_PHASE_SYN_RCVD), 250);
}

/* No retry at all: one SYN, then the end */
static void test_no_retry(void **state)
{
	struct rig *r = *state;
	struct tcp_incoming in = { .peer = { .a = r->key.far, .port = 80 }, .target = r->key.guest, .port = 40000 };
	struct twheel_timer *t;

	r->tcp.syn_retries = r->tcp.syn_linear = 0;
	assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), 0);
	assert_int_equal(r->l2.cnt, 1);
	r->env.now += TCP_RTO_INIT + NS_MS;
	t = twheel_pop(&r->tw, r->env.now);
	assert_non_null(t);
	tcp_timer(&r->p, flow_of_timer(t));
	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(r->half_open[0], 0);
}

/* Each at its own port; one that finds no room, or that the guest has already, never counts. The end tells who paused. */
static void test_half_open(void **state)
{
	struct rig *r = *state;
	struct tcp_incoming in = { .peer = { .a = r->key.far, .port = 80 }, .target = r->key.guest, .port = 40000,
				   .listener = 1 };
	struct flow *f;

	assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), 0);
	assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), -EADDRINUSE);
	in.listener = 0;
	for (in.port = 1; in.port <= 3; in.port++)
		assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), 0);
	assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), -ENFILE);
	assert_int_equal(r->half_open[0], 3);
	assert_int_equal(r->half_open[1], 1);
	f = flow_find(&r->flows, &r->key);
	assert_non_null(f);
	r->p.flow_gone = false;
	tcp_phase_set(&r->p, f, TCP_PHASE_OPEN);
	assert_int_equal(r->half_open[1], 0);
	assert_true(r->p.flow_gone);
	r->p.flow_gone = false;
	tcp_reset(&r->p, f);
	assert_int_equal(r->half_open[1], 0);
	assert_int_equal(r->half_open[0], 3);
	assert_true(r->p.flow_gone);
	/* nobody counts */
	r->p.half_open = NULL;
	in.listener = 77;
	assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_schedule),
		RIG_BOTH(test_no_retry),
		RIG_BOTH(test_half_open),
	};

	return cmocka_run_group_tests_name("proto/tcp/syn", tests, NULL, NULL);
}
