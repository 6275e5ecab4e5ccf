/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments from the guest: what the result of a send leads to, timestamps
 * (RFC 7323), what ends a repair, and random segments near the window, with and
 * without a pool for what comes early: the stream must reach the host as it is.
 */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "rig_tcp.h"

static void test_sent_all(void **state)
{
	struct rig *r = *state;
	uint32_t nxt;

	rig_open(r, true);
	nxt = r->t->rcv_nxt;
	assert_true(tcp_sent(&r->p, r->f, 100, 100, false));
	assert_int_equal(r->t->rcv_nxt, nxt + 100);
	assert_true(r->t->ack_due);
	assert_false(r->t->refused);
	assert_true(tcp_sent(&r->p, r->f, 100, 100, true));
	assert_int_equal(r->t->rcv_nxt, nxt + 201);
	assert_true(r->t->guest_fin);
	assert_int_equal(rig_sock(r)->shuts, 1);
}

static void test_sent_part(void **state)
{
	struct rig *r = *state;
	uint32_t nxt;

	rig_open(r, true);
	nxt = r->t->rcv_nxt;
	assert_true(tcp_sent(&r->p, r->f, 40, 100, true));	/* the FIN is beyond */
	assert_int_equal(r->t->rcv_nxt, nxt + 40);
	assert_true(r->t->refused && r->t->armed && r->t->ack_now);
	assert_false(r->t->guest_fin);
	assert_int_equal(rig_sock(r)->shuts, 0);
	assert_int_equal(rig_sock(r)->arms, 1);
	assert_true(tcp_sent(&r->p, r->f, -EAGAIN, 60, false));
	assert_int_equal(r->t->rcv_nxt, nxt + 40);
	assert_int_equal(rig_sock(r)->arms, 1);
	assert_int_equal(r->drops.cnt[DROP_TCP_BUSY], 2);
}

static void test_sent_error(void **state)
{
	struct rig *r = *state;
	int h;

	rig_open(r, true);
	h = r->f->h;
	assert_false(tcp_sent(&r->p, r->f, -EPIPE, 60, false));
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->flows.cnt, 0);
}

/* The window is full to its edge with a FIN: the FIN may stand right behind it */
static void test_fin_at_edge(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	r->t->rcv_edge = r->t->rcv_nxt + 10;
	rig_sock(r)->room = (struct sk_room){ .free = 0 };
	assert_true(tcp_sent(&r->p, r->f, 10, 10, true));
	assert_int_equal(r->t->rcv_edge, r->t->rcv_nxt);
}

#define STREAM	4000u

static uint8_t byte_at(uint32_t off)
{
	return (uint8_t)(off * 7 + off / 251);
}

/* A segment of the guest at OFF bytes beyond what we have of its stream */
static void guest(struct rig *r, uint32_t off, uint32_t len, uint8_t flags, uint32_t ts_val)
{
	static uint8_t data[1000];
	struct iovec iov = { data, len };
	struct tcp_seg s = rig_ack(r, r->t->una - r->t->iss - 1);

	s.h.seq += off;
	s.h.flags |= flags;
	s.h.ts_val = ts_val;
	s.data = view_of(&iov, len);
	tcp_guest(&r->p, r->f, &s, 0);
}

/* RFC 7323 4.3: the timestamp to echo is that of the segment at the last ACK sent, never of one ahead of it */
static void test_ts_recent(void **state)
{
	struct rig *r = *state;

	rig_pool(r, 10);
	rig_open_opts(r, RIG_OPT_TS | RIG_OPT_SACK);
	assert_int_equal(r->t->ts_recent, RIG_TS);
	guest(r, 100, 10, 0, RIG_TS + 5);		/* ahead of a gap */
	assert_int_equal(r->t->ts_recent, RIG_TS);
	guest(r, 0, 100, 0, RIG_TS + 9);		/* fills it */
	assert_int_equal(r->t->ts_recent, RIG_TS + 9);
	assert_int_equal(rig_sock(r)->tx.len, 110);
	guest(r, 0, 0, 0, RIG_TS + 20);			/* a bare ACK counts too */
	assert_int_equal(r->t->ts_recent, RIG_TS + 20);
	r->t->rcv_acked -= 50;				/* an ACK of ours is still due: the first segment after it counts */
	guest(r, 0, 10, 0, RIG_TS + 30);
	assert_int_equal(r->t->ts_recent, RIG_TS + 20);
	guest(r, 0, 0, 0, 0x80000000u + RIG_TS + 19);	/* half a circle on is new, more is old */
	assert_int_equal(r->drops.cnt[DROP_TCP_PAWS], 0);
	guest(r, 0, 0, 0, 0x80000000u + RIG_TS + 21);
	assert_int_equal(r->drops.cnt[DROP_TCP_PAWS], 1);
}

static void test_paws(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;
	int sock;

	rig_open_opts(r, RIG_OPT_TS);
	sock = r->f->h;
	guest(r, 0, 10, 0, RIG_TS - 1);
	assert_int_equal(r->drops.cnt[DROP_TCP_PAWS], 1);
	assert_int_equal(rig_sock(r)->tx.len, 0);
	assert_int_equal(r->l2.cnt, 1);			/* answered, so that a guest whose ACK was lost goes on */
	rig_frame(r, 0, &h);
	assert_int_equal(h.flags, WIRE_TCP_ACK);
	assert_int_equal(h.ts_ecr, RIG_TS);
	guest(r, 0, 10, 0, RIG_TS);			/* equal is not old */
	assert_int_equal(rig_sock(r)->tx.len, 10);
	r->env.now += TCP_PAWS_IDLE - 1;
	guest(r, 0, 10, 0, RIG_TS - 1);
	assert_int_equal(rig_sock(r)->tx.len, 10);
	r->env.now += 1;				/* its clock may have gone around */
	guest(r, 0, 10, 0, RIG_TS - 1);
	assert_int_equal(rig_sock(r)->tx.len, 20);
	guest(r, 0, 0, WIRE_TCP_RST, 1);		/* a reset is not asked for its time */
	assert_false(r->sk.s[sock].open);
	assert_int_equal(r->flows.cnt, 0);
}

/* A flight of N segments of the flow's MSS */
static void flight(struct rig *r, uint32_t n)
{
	static uint8_t data[65536];

	fake_sk_feed(&r->sk, r->f->h, data, n * r->t->mss);
	r->t->host_more = true;
	assert_true(tcp_push(&r->p, r->f));
	fake_l2_clear(&r->l2);
}

static void sacks(struct rig *r, uint32_t ack, uint32_t from, uint32_t to, uint32_t ecr)
{
	struct tcp_seg s = rig_ack(r, ack * r->t->mss);

	s.h.ts_ecr = ecr;
	if (to) {
		s.h.sack_cnt = 1;
		s.h.sack[0].from = r->t->iss + 1 + from * r->t->mss;
		s.h.sack[0].to = r->t->iss + 1 + to * r->t->mss;
	}
	tcp_guest(&r->p, r->f, &s, 0);
}

/* RFC 3522: what fills the hole tells by its timestamp whether it was the first copy; no timestamp tells nothing */
static void test_eifel(void **state)
{
	struct rig *r = *state;
	uint32_t first, again;

	for (int spurious = 0; spurious < 2; spurious++) {
		rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK | RIG_OPT_TS);
		flight(r, 10);
		first = tcp_ts_now(&r->p, r->t);
		r->env.now += 10 * NS_MS;
		again = tcp_ts_now(&r->p, r->t);
		sacks(r, 0, 4, 8, RIG_TS);
		assert_true(r->t->recovering);
		assert_int_equal(r->l2.cnt, 1);
		assert_int_equal(r->t->rexmit_ts, again);
		sacks(r, 0, 9, 10, RIG_TS);			/* a hole more is filled at once */
		assert_int_equal(r->l2.cnt, 2);
		r->env.now += NS_MS;
		fake_l2_clear(&r->l2);
		sacks(r, 2, 4, 8, spurious ? first : again);
		assert_int_equal(r->t->recovering, !spurious);
		assert_int_equal(r->l2.cnt, 0);
		sacks(r, 10, 0, 0, again);
		assert_false(r->t->recovering);
		assert_int_equal(r->t->sacked_cnt, 0);
		tcp_abort(&r->p, r->f);
		fake_l2_clear(&r->l2);
	}
	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK | RIG_OPT_TS);
	r->t->ts_off = 100 - (uint32_t)(r->env.now / NS_MS);	/* as a number, 0 is older */
	flight(r, 10);
	sacks(r, 0, 4, 8, 0);
	assert_true(r->t->recovering);
	sacks(r, 2, 4, 8, 0);
	assert_true(r->t->recovering);
}

/* In one batch: the data before a reset is handed over first, and not kept for whoever comes next */
static void test_reset_behind_data(void **state)
{
	struct rig *r = *state;
	static uint8_t data[100];
	struct iovec iov = { data, sizeof(data) };
	struct tcp_seg seg[2];
	int h;

	rig_open(r, true);
	h = r->f->h;
	seg[0] = seg[1] = rig_ack(r, 0);
	seg[0].data = view_of(&iov, sizeof(data));
	seg[0].next = 1;
	seg[1].h.seq += sizeof(data);
	seg[1].h.flags = WIRE_TCP_RST;
	tcp_guest(&r->p, r->f, seg, 0);
	assert_int_equal(r->sk.s[h].tx.len, sizeof(data));
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->flows.cnt, 0);
}

/* With SACK the number of equal ACKs says nothing, their news do; without it is the other way round */
static void test_recovery_entry(void **state)
{
	struct rig *r = *state;

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 20);
	for (int i = 0; i < 5; i++)
		sacks(r, 0, 0, 0, 0);
	assert_false(r->t->recovering);
	sacks(r, 0, 2, 3, 0);
	sacks(r, 0, 5, 6, 0);
	sacks(r, 0, 5, 6, 0);					/* no news */
	assert_false(r->t->recovering);
	sacks(r, 0, 8, 9, 0);					/* three ranges */
	assert_true(r->t->recovering);
	assert_int_equal(r->l2.cnt, 3);				/* the three holes, and nothing between them */
	for (uint32_t i = 0; i < 3; i++) {
		struct wire_tcp h;

		assert_int_equal(rig_frame(r, i, &h), 2 * r->t->mss);
		assert_int_equal(h.seq, r->t->iss + 1 + 3 * i * r->t->mss);
	}
	tcp_abort(&r->p, r->f);

	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_SACK);
	flight(r, 20);
	sacks(r, 0, 2, 4, 0);
	assert_false(r->t->recovering);
	sacks(r, 0, 4, 5, 0);					/* more than two segments */
	assert_true(r->t->recovering);
	tcp_abort(&r->p, r->f);

	rig_open_opts(r, RIG_OPT_WS);
	flight(r, 20);
	sacks(r, 0, 2, 9, 0);					/* nobody agreed on it */
	sacks(r, 0, 0, 0, 0);
	assert_false(r->t->recovering);
	assert_int_equal(r->t->sacked_cnt, 0);
	sacks(r, 0, 0, 0, 0);
	assert_true(r->t->recovering);
}

/* Random overlapping segments of one stream: what the kernel got is a prefix of it, never further than what was sent */
static void random_stream(struct rig *r)
{
	static uint8_t stream[STREAM];
	struct tcp_seg seg[8];
	struct iovec iov[8];
	struct rng rng;
	uint32_t base, reached = 0;

	rng_seed(&rng, 7);
	for (uint32_t i = 0; i < STREAM; i++)
		stream[i] = byte_at(i);
	rig_open(r, true);
	base = r->t->rcv_nxt;
	for (int round = 0; reached < STREAM && round < 100000; round++) {
		uint32_t n = 1 + rng_below(&rng, 8);
		const struct fake_sk_sock *k = rig_sock(r);

		rig_sock(r)->take = rng_below(&rng, 3) ? FAKE_SK_ANY : rng_below(&rng, 200);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t from = BYTES_MIN(reached + rng_below(&rng, 300), STREAM), len;

			from -= rng_below(&rng, 300) > from ? 0 : BYTES_MIN(from, 150u);
			len = rng_below(&rng, 200);
			len = BYTES_MIN(len, STREAM - from);
			iov[i] = (struct iovec){ stream + from, len };
			seg[i] = (struct tcp_seg){ .h = { .seq = base + from, .ack = r->t->una, .wnd = 1000, .flags = WIRE_TCP_ACK },
						   .data = view_of(&iov[i], len), .next = i + 1 < n ? i + 1 : FLOW_NONE };
		}
		tcp_guest(&r->p, r->f, seg, 0);
		if (r->t->armed && rng_below(&rng, 2)) {
			const struct ev_hit hit = { .mask = EV_OUT };

			rig_sock(r)->take = rng_below(&rng, 2) ? FAKE_SK_ANY : rng_below(&rng, 100);
			tcp_host(&r->p, r->f, &hit);
		}
		fake_l2_clear(&r->l2);
		reached = r->t->rcv_nxt - base;
		assert_int_equal(reached, k->tx.len);
		assert_memory_equal(k->tx.p ? k->tx.p : stream, stream, k->tx.len);
	}
	assert_int_equal(reached, STREAM);
}

static void test_random(void **state)
{
	random_stream(*state);
}

/* What was refused, or came early, may come from the pool any time that the socket is writable */
static void test_random_pool(void **state)
{
	struct rig *r = *state;

	rig_pool(r, 3);
	random_stream(r);
	assert_int_equal(r->pool.used, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_sent_all), RIG_BOTH(test_sent_part), RIG_BOTH(test_sent_error), RIG_BOTH(test_fin_at_edge),
		RIG_BOTH(test_ts_recent), RIG_BOTH(test_paws), RIG_BOTH(test_eifel), RIG_BOTH(test_recovery_entry),
		RIG_BOTH(test_reset_behind_data),
		RIG_BOTH(test_random), RIG_BOTH(test_random_pool),
	};

	return cmocka_run_group_tests_name("proto/tcp/guest", tests, NULL, NULL);
}
