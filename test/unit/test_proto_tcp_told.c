/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/tcp/told.c: which ICMP errors of the guest's side a connection believes.
 */
#include "rig_tcp.h"

#include "proto/icmp.h"

static uint8_t hdr[8];
static const struct iovec hdr_iov = { hdr, sizeof(hdr) };

static struct proto_told told(enum proto_told_kind kind, uint32_t seq, uint32_t mtu)
{
	bytes_put32(hdr + 4, seq);
	return (struct proto_told){ .kind = kind, .mtu = mtu, .l4 = view_of(&hdr_iov, sizeof(hdr)) };
}

static struct flow *accepted(struct rig *r, int *ret_h)
{
	const struct tcp_incoming in = { .peer = { .a = r->key.far, .port = 80 }, .target = r->key.guest, .port = 40000 };

	*ret_h = fake_sk_accepted(&r->sk);
	assert_int_equal(tcp_accepted(&r->p, *ret_h, &in), 0);
	fake_l2_clear(&r->l2);
	return flow_find(&r->flows, &r->key);
}

/* A guest that rejects our SYN by ICMP, as firewalls do, resets the peer; not with a wrong sequence, nor for its size */
static void test_refused(void **state)
{
	static const enum proto_told_kind kinds[] = { PROTO_TOLD_REFUSED, PROTO_TOLD_UNREACH };
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(kinds); i++) {
		int h;
		struct flow *f = accepted(r, &h);
		const uint32_t iss = tcp_of(f)->iss;
		struct proto_told t = told(kinds[i], iss + 1, 0);

		assert_false(tcp_told(&r->p, f, &t));
		t = told(PROTO_TOLD_TOO_BIG, iss, 1280);
		assert_false(tcp_told(&r->p, f, &t));
		t = told(kinds[i], iss, 0);
		view_trim(&t.l4, 7);
		assert_false(tcp_told(&r->p, f, &t));
		assert_true(r->sk.s[h].open);
		t = told(kinds[i], iss, 0);
		assert_true(tcp_told(&r->p, f, &t));
		assert_false(r->sk.s[h].open);
		assert_int_equal(r->sk.s[h].how, SK_END_RESET);
		assert_int_equal(r->flows.cnt, 0);
		assert_int_equal(r->l2.cnt, 0);
	}
}

/* An open connection outlives it */
static void test_soft(void **state)
{
	struct rig *r = *state;
	struct proto_told t;

	rig_open(r, true);
	for (int k = PROTO_TOLD_REFUSED; k <= PROTO_TOLD_UNREACH; k++) {
		t = told((enum proto_told_kind)k, r->t->una, 0);
		assert_false(tcp_told(&r->p, r->f, &t));
	}
	assert_int_equal(r->t->phase, TCP_PHASE_OPEN);
}

/* What was sent too big comes again in segments that fit; nothing makes them larger again */
static void test_too_big(void **state)
{
	struct rig *r = *state;
	const uint32_t hdrs = wire_ip_hdr_len(&r->key.far) + WIRE_TCP_LEN;
	static uint8_t data[10000];
	struct ev_hit hit = { .mask = EV_IN };
	struct proto_told t;

	rig_open(r, true);
	t = told(PROTO_TOLD_TOO_BIG, r->t->max, 1280);	/* nothing is in flight */
	assert_false(tcp_told(&r->p, r->f, &t));
	fake_sk_feed(&r->sk, r->f->h, data, sizeof(data));
	tcp_host(&r->p, r->f, &hit);
	assert_int_equal(r->t->max - r->t->una, sizeof(data));
	fake_l2_clear(&r->l2);
	t = told(PROTO_TOLD_TOO_BIG, r->t->una - 1, 1280);
	assert_false(tcp_told(&r->p, r->f, &t));
	t = told(PROTO_TOLD_TOO_BIG, r->t->una + 5000, 1500);
	assert_false(tcp_told(&r->p, r->f, &t));
	t = told(PROTO_TOLD_TOO_BIG, r->t->una + 5000, 1280);
	assert_true(tcp_told(&r->p, r->f, &t));
	assert_int_equal(r->t->mss, 1280 - hdrs);
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(r->l2.frames[0].gso_size, 1280 - hdrs);
	assert_int_equal(r->l2.frames[0].len, WIRE_ETH_LEN + hdrs + sizeof(data));
	assert_false(tcp_told(&r->p, r->f, &t));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_refused),
		RIG_BOTH(test_soft),
		RIG_BOTH(test_too_big),
	};

	return cmocka_run_group_tests_name("proto/tcp/told", tests, NULL, NULL);
}
