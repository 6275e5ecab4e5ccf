/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The window towards the guest: from numbers alone, then under random ones. The
 * right edge never moves left, no socket that is full goes without a wake-up,
 * and one that is writable is never asked for one.
 */
#include <stdio.h>

#include "base/rng.h"
#include "rig_tcp.h"

static void test_room(void **state)
{
	static const struct { uint32_t free; bool writable; uint32_t limit, want; } c[] = {
		{ 0, false, TCP_WND_MAX, 0 },
		{ 5000, false, TCP_WND_MAX, 5000 },
		{ 5000, true, TCP_WND_MAX, TCP_SUPER },		/* a writable one takes a super-frame */
		{ 5000, true, 3000, 3000 },
		{ 200000, true, TCP_WND_MAX, 200000 },
		{ 200000, false, 65535, 65535 },
		{ UINT32_MAX, true, UINT32_MAX, TCP_WND_MAX },
	};

	(void)state;
	for (size_t i = 0; i < BYTES_COUNT(c); i++) {
		const struct sk_room r = { .free = c[i].free, .writable = c[i].writable };

		assert_int_equal(tcp_win_room(&r, c[i].limit), c[i].want);
	}
}

static void test_field(void **state)
{
	struct tcp t = { .rcv_nxt = 0xffffff00, .rcv_edge = 0xffffff00 + 1000, .ws_ours = 8 };

	(void)state;
	assert_int_equal(tcp_win_field(&t), 4);			/* rounded up, and the edge with it */
	assert_int_equal(t.rcv_edge - t.rcv_nxt, 1024);
	t.ws_ours = 0;
	assert_int_equal(tcp_win_field(&t), 1024);
	t.rcv_edge = t.rcv_nxt;
	assert_int_equal(tcp_win_field(&t), 0);
	t.ws_ours = 8;
	t.rcv_edge = t.rcv_nxt + TCP_WND_MAX;
	assert_int_equal(tcp_win_field(&t), TCP_WND_MAX >> 8);
	assert_int_equal(t.rcv_edge - t.rcv_nxt, TCP_WND_MAX);
}

static void test_wake_up(void **state)
{
	struct rig *r = *state;
	struct fake_sk_sock *k;

	rig_open(r, true);
	k = rig_sock(r);
	r->t->rcv_edge = r->t->rcv_nxt;
	r->t->wnd_low = TCP_SUPER;
	k->room = (struct sk_room){ .free = 0 };
	tcp_win_update(&r->p, r->f);
	assert_int_equal(k->arms, 1);
	tcp_win_update(&r->p, r->f);				/* once is enough */
	assert_int_equal(k->arms, 1);
	r->t->armed = false;
	k->room = (struct sk_room){ .free = TCP_SUPER };	/* enough for one super-frame: the guest will call again */
	tcp_win_update(&r->p, r->f);
	assert_int_equal(k->arms, 1);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_SUPER);
	r->t->rcv_edge = r->t->rcv_nxt;
	k->room_err = -EBADF;					/* its event tells */
	tcp_win_update(&r->p, r->f);
	assert_int_equal(r->t->rcv_edge, r->t->rcv_nxt);
	k->room_err = 0;
	r->t->guest_fin = true;
	tcp_win_update(&r->p, r->f);
	assert_int_equal(r->t->rcv_edge, r->t->rcv_nxt);
}

static void test_random(void **state)
{
	struct rig *r = *state;
	struct fake_sk_sock *k;
	struct rng rng;

	rng_seed(&rng, 42);
	for (int scaled = 0; scaled < 2; scaled++) {
		rig_open(r, scaled);
		k = rig_sock(r);
		for (int i = 0; i < 200000; i++) {
			struct tcp *t = r->t;
			uint32_t edge = t->rcv_edge, said;

			k->room.free = rng_below(&rng, 2) ? rng_below(&rng, 1u << rng_below(&rng, 26)) : k->room.free / 2;
			k->room.writable = rng_below(&rng, 2);
			t->rcv_nxt += rng_below(&rng, 3) ? rng_below(&rng, t->rcv_edge - t->rcv_nxt + 1) : 0;
			t->armed = t->armed && rng_below(&rng, 2);
			tcp_win_update(&r->p, r->f);
			assert_true(seqno_ge(t->rcv_edge, edge));
			assert_true(t->rcv_edge - t->rcv_nxt <= TCP_WND_MAX + 255 || t->rcv_edge == edge);
			if (t->rcv_edge - t->rcv_nxt < TCP_SUPER && !t->armed && !k->room.writable)
				fail_msg("step %d: %u left, nothing will open it", i, t->rcv_edge - t->rcv_nxt);
			edge = t->rcv_edge;
			said = t->rcv_nxt + ((uint32_t)tcp_win_field(t) << t->ws_ours);
			assert_true(seqno_ge(said, edge));
			assert_int_equal(said, t->rcv_edge);
		}
		tcp_abort(&r->p, r->f);
	}
}

static void sends_much(struct rig *r, struct tcp *t)
{
	struct fake_sk_sock *k = rig_sock(r);

	k->room = (struct sk_room){ .free = 8u << 20, .writable = true };
	tcp_win_bulk(&r->p, t);
	t->rcv_nxt = t->rcv_edge;
	tcp_win_update(&r->p, r->f);
}

/* Flows that send much share what may queue in the guest's device, also while some of them wait for their turn (D05) */
static void test_share(void **state)
{
	struct rig *r = *state;
	struct tcp other[9] = { 0 };

	rig_open(r, true);
	sends_much(r, r->t);
	sends_much(r, r->t);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_WND_MAX);	/* alone, it counts once */
	for (int i = 0; i < 3; i++)
		tcp_win_bulk(&r->p, &other[i]);
	sends_much(r, r->t);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_WND_SHARED / 4);
	r->env.now += TCP_BULK_PERIOD;			/* in the next period it is the first: the others count still */
	sends_much(r, r->t);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_WND_SHARED / 4);
	r->env.now += TCP_BULK_PERIOD;			/* they sent nothing all the time */
	sends_much(r, r->t);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_WND_MAX);
	for (int i = 0; i < 9; i++)
		tcp_win_bulk(&r->p, &other[i]);
	sends_much(r, r->t);
	assert_int_equal(r->t->rcv_edge - r->t->rcv_nxt, TCP_WND_SHARE);
	tcp_abort(&r->p, r->f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_field),
		RIG_BOTH(test_wake_up),
		RIG_BOTH(test_random),
		RIG_BOTH(test_share),
	};

	return cmocka_run_group_tests_name("proto/tcp/win", tests, NULL, NULL);
}
