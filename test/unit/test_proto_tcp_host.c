/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the host socket to the guest: what each answer of peek() leads to, and
 * that something is armed whenever data waits.
 */
#include "rig_tcp.h"

static void push(struct rig *r)
{
	r->t->host_more = true;
	assert_true(tcp_push(&r->p, r->f));
}

static void test_empty(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	push(r);
	assert_false(r->t->host_more);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->t->rto_at, NS_NEVER);
}

static void test_interrupted(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	rig_sock(r)->err = EINTR;
	push(r);
	assert_true(r->t->host_more);
	assert_true(r->f->ready);			/* no event would tell again */
}

static void test_failed(void **state)
{
	struct rig *r = *state;
	int h;

	rig_open(r, true);
	h = r->f->h;
	rig_sock(r)->err = ECONNRESET;
	r->t->host_more = true;
	assert_false(tcp_push(&r->p, r->f));
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(r->l2.cnt, 1);
}

static void test_end(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	fake_sk_feed(&r->sk, r->f->h, "abc", 3);
	rig_sock(r)->eof = true;
	r->t->host_rdhup = true;
	push(r);
	assert_true(r->t->fin_sent);
	assert_int_equal(r->t->fin_seq, r->t->iss + 4);
	assert_int_equal(r->t->max, r->t->iss + 5);
	assert_int_equal(r->l2.cnt, 2);
	assert_true(r->t->rto_at != NS_NEVER);
	push(r);					/* only once */
	assert_int_equal(r->l2.cnt, 2);
}

/* The link gives no frame, or takes none: the timer tries again */
static void test_link_full(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	fake_sk_feed(&r->sk, r->f->h, "abc", 3);
	r->l2.reserve_max = 0;
	push(r);
	assert_true(r->t->host_more && r->t->push_at == r->env.now + TCP_LINK_RETRY);
	assert_int_equal(r->t->max, r->t->iss + 1);
	r->l2.reserve_max = UINT32_MAX;
	fake_l2_refuse_after(&r->l2, 0);
	push(r);
	assert_int_equal(r->t->max, r->t->iss + 1);
	fake_l2_refuse_after(&r->l2, UINT32_MAX);
	push(r);
	assert_int_equal(r->t->max, r->t->iss + 4);
	assert_int_equal(r->t->rto_at, r->env.now + tcp_rto(r->t));
}

static void test_window(void **state)
{
	static uint8_t data[1000];
	struct rig *r = *state;

	rig_open(r, true);
	fake_sk_feed(&r->sk, r->f->h, data, sizeof(data));
	r->t->wnd = 0;
	push(r);
	assert_int_equal(r->l2.cnt, 0);
	assert_true(r->t->rto_at != NS_NEVER);		/* probes */
	r->t->wnd = 300;
	push(r);
	assert_int_equal(r->t->nxt - r->t->una, 300);
	assert_true(r->t->host_more);
	push(r);
	assert_int_equal(r->l2.cnt, 1);
	r->t->wnd = 0;					/* it shrank */
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(r->l2.frames[1].len, r->l2.frames[0].len - 299);
	r->t->wnd = 100;
	assert_true(tcp_rexmit(&r->p, r->f, 50));
	assert_int_equal(r->l2.frames[2].len, r->l2.frames[0].len - 250);
	assert_int_equal(r->t->nxt - r->t->una, 300);	/* a repetition moves nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_empty), RIG_BOTH(test_interrupted), RIG_BOTH(test_failed), RIG_BOTH(test_end),
		RIG_BOTH(test_link_full), RIG_BOTH(test_window),
	};

	return cmocka_run_group_tests_name("proto/tcp/host", tests, NULL, NULL);
}
