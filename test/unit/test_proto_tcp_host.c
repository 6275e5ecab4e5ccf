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

/* A flight of N segments, and what SACK says of it: [from, to) in segments */
static void flight(struct rig *r, uint32_t n)
{
	static uint8_t data[65536 * 20];

	fake_sk_feed(&r->sk, r->f->h, data, n * r->t->mss);
	r->t->wnd = r->t->wnd_max = sizeof(data);
	push(r);
	fake_l2_clear(&r->l2);
}

static void has(struct rig *r, uint32_t from, uint32_t to)
{
	r->t->sacked[r->t->sacked_cnt++] = (struct tcp_range){ r->t->una + from * r->t->mss, r->t->una + to * r->t->mss };
}

/* Only holes, each once, and nothing above the highest range */
static void test_holes(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 20);
	has(r, 1, 3);
	has(r, 10, 11);
	tcp_recover(&r->p, r->t, false);
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(rig_frame(r, 0, &h), r->t->mss);
	assert_int_equal(h.seq, r->t->una);
	assert_int_equal(rig_frame(r, 1, &h), 7 * r->t->mss);
	assert_int_equal(h.seq, r->t->una + 3 * r->t->mss);
	assert_int_equal(r->t->rto_at, r->env.now + 2 * r->t->srtt + TCP_PTO_MIN);
	r->env.now += NS_MS;
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(r->t->rto_at, r->env.now - NS_MS + 2 * r->t->srtt + TCP_PTO_MIN);	/* nothing sent, nothing put off */
	has(r, 13, 14);
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->l2.cnt, 3);
	assert_int_equal(rig_frame(r, 2, &h), 2 * r->t->mss);
	/* in vain: all of them again, then the timer */
	assert_true(tcp_probe_tail(&r->p, r->f));
	assert_int_equal(r->l2.cnt, 6);
	assert_int_equal(rig_frame(r, 4, &h), 7 * r->t->mss);
	assert_int_equal(r->t->rto_at, r->env.now + tcp_rto(r->t));
}

/* A hole of many super-frames gives up the turn, and goes on in the next */
static void test_holes_turn(void **state)
{
	struct rig *r = *state;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 900);
	while (r->t->max - r->t->una < 880u * r->t->mss)	/* a turn ended */
		push(r);
	fake_l2_clear(&r->l2);
	has(r, 870, 880);
	tcp_recover(&r->p, r->t, false);
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->l2.cnt, TCP_TURN);
	assert_true(r->t->rexmit_due && r->f->ready);
	for (int turn = 0; r->t->rexmit_due; turn++) {
		fake_l2_clear(&r->l2);
		r->f->ready = false;
		r->p.ready_first = r->p.ready_last = FLOW_NONE;
		tcp_more(&r->p, r->f);
		assert_in_range(r->l2.cnt, 1, TCP_TURN);
		assert_true(turn < 100);
	}
	assert_int_equal(r->t->rexmit_end, r->t->sacked[0].from);
}

/* The link is full in the middle of a repair: a timer is armed, what was not sent does not count as sent */
static void test_holes_link_full(void **state)
{
	struct rig *r = *state;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 20);
	has(r, 1, 3);
	has(r, 10, 11);
	tcp_recover(&r->p, r->t, false);
	fake_l2_refuse_after(&r->l2, 1);
	assert_true(tcp_rexmit(&r->p, r->f, L2_IP_MAX));
	assert_int_equal(r->t->rexmit_end, r->t->una + r->t->mss);
	assert_true(r->t->rto_at != NS_NEVER);
}

/* The probe of a tail: its last segment, or the FIN */
static void test_probe_tail(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 3);
	assert_true(tcp_probe_tail(&r->p, r->f));
	assert_int_equal(rig_frame(r, 0, &h), r->t->mss);
	assert_int_equal(h.seq, r->t->una + 2 * r->t->mss);
	assert_true(r->t->probed);
	rig_sock(r)->eof = true;
	push(r);
	fake_l2_clear(&r->l2);
	assert_true(tcp_probe_tail(&r->p, r->f));
	assert_int_equal(rig_frame(r, 0, &h), 0);
	assert_int_equal(h.flags, WIRE_TCP_FIN | WIRE_TCP_ACK);
	assert_int_equal(h.seq, r->t->fin_seq);
}

/* FIN of the guest before its data, the socket full meanwhile: passed on by EV_OUT alone */
static void test_kept_fin(void **state)
{
	static uint8_t data[100];
	const struct ev_hit hit = { .mask = EV_OUT };
	struct rig *r = *state;
	struct iovec iov = { data, 100 };
	struct tcp_seg s;

	rig_pool(r, 10);
	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	rig_sock(r)->take = 30;
	s = rig_ack(r, 0);
	s.h.seq += 100;
	s.h.flags |= WIRE_TCP_FIN;
	tcp_guest(&r->p, r->f, &s, 0);
	assert_true(r->t->kept_fin);
	s = rig_ack(r, 0);
	s.data = view_of(&iov, 100);
	tcp_guest(&r->p, r->f, &s, 0);
	assert_int_equal(rig_sock(r)->tx.len, 30);
	assert_true(r->t->armed && !r->t->refused && !r->t->guest_fin);
	rig_sock(r)->take = 30;
	tcp_host(&r->p, r->f, &hit);
	assert_int_equal(rig_sock(r)->tx.len, 60);
	assert_true(r->t->armed);
	rig_sock(r)->take = FAKE_SK_ANY;
	tcp_host(&r->p, r->f, &hit);
	assert_int_equal(rig_sock(r)->tx.len, 100);
	assert_true(r->t->guest_fin && !r->t->kept_fin);
	assert_int_equal(rig_sock(r)->shuts, 1);
	assert_int_equal(r->pool.used, 0);
	assert_int_equal(r->drops.cnt[DROP_TCP_BUSY], 0);
}

/* What came while a send was under way and had no place is asked for once that is over: three equal ACKs behind the first */
static void test_send_missed(void **state)
{
	static uint8_t data[100];
	const struct ev_hit hit = { .mask = EV_SENT, .res = 50 };
	struct rig *r = *state;
	struct iovec iov = { data, 100 };
	struct tcp_seg s;
	struct wire_tcp h;

	rig_open(r, true);
	r->t->sending = true;			/* no pool: nothing can be kept */
	r->t->send_len = 50;
	s = rig_ack(r, 0);
	s.h.seq += 50;
	s.data = view_of(&iov, 100);
	tcp_guest(&r->p, r->f, &s, 0);
	assert_true(r->t->send_missed);
	fake_l2_clear(&r->l2);
	tcp_host(&r->p, r->f, &hit);
	assert_false(r->t->send_missed || r->t->refused);
	assert_int_equal(r->l2.cnt, 1 + TCP_DUPACKS);
	for (uint32_t i = 0; i < r->l2.cnt; i++) {
		rig_frame(r, i, &h);
		assert_int_equal(h.ack, RIG_ISN + 1 + 50);
	}
}

/* The rest of a refused send is asked for when what was kept of it has gone out, not while that waits itself */
static void test_ask_last(void **state)
{
	static uint8_t data[20000];
	const struct ev_hit hit = { .mask = EV_OUT };
	struct rig *r = *state;
	struct iovec iov = { data, sizeof(data) };
	struct tcp_seg s;

	rig_pool(r, 1);
	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	rig_sock(r)->take = 100;
	s = rig_ack(r, 0);
	s.data = view_of(&iov, sizeof(data));
	tcp_guest(&r->p, r->f, &s, 0);
	assert_true(r->t->refused && r->t->armed);
	fake_l2_clear(&r->l2);
	rig_sock(r)->take = 100;
	tcp_host(&r->p, r->f, &hit);
	assert_true(r->t->refused && r->t->armed);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	rig_sock(r)->take = FAKE_SK_ANY;
	tcp_host(&r->p, r->f, &hit);
	assert_false(r->t->refused);
	assert_int_equal(r->l2.cnt, 1 + TCP_DUPACKS);
	assert_int_equal(r->t->rcv_nxt - RIG_ISN - 1, rig_sock(r)->tx.len);
	assert_true(rig_sock(r)->tx.len > 8000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_empty), RIG_BOTH(test_interrupted), RIG_BOTH(test_failed), RIG_BOTH(test_end),
		RIG_BOTH(test_link_full), RIG_BOTH(test_window),
		RIG_BOTH(test_holes), RIG_BOTH(test_holes_turn), RIG_BOTH(test_holes_link_full), RIG_BOTH(test_probe_tail),
		RIG_BOTH(test_kept_fin), RIG_BOTH(test_send_missed), RIG_BOTH(test_ask_last),
	};

	return cmocka_run_group_tests_name("proto/tcp/host", tests, NULL, NULL);
}
