/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments from the guest: what the result of a send leads to, and random
 * segments near the window, against a bitmap of what could have been accepted.
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

/* Random overlapping segments of one stream: what the kernel got is a prefix of it, never further than what was sent */
static void test_random(void **state)
{
	static uint8_t stream[STREAM];
	struct rig *r = *state;
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
		fake_l2_clear(&r->l2);
		reached = r->t->rcv_nxt - base;
		assert_int_equal(reached, k->tx.len);
		assert_memory_equal(k->tx.p ? k->tx.p : stream, stream, k->tx.len);
	}
	assert_int_equal(reached, STREAM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_sent_all), RIG_BOTH(test_sent_part), RIG_BOTH(test_sent_error), RIG_BOTH(test_fin_at_edge),
		RIG_BOTH(test_random),
	};

	return cmocka_run_group_tests_name("proto/tcp/guest", tests, NULL, NULL);
}
