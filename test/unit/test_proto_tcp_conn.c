/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of a TCP flow, as far as scenarios (test/sim) don't show it: what is
 * freed, with which end, targets on the host, errors of the socket table, the
 * end of the guest.
 */
#include "../../src/proto/udp/udp_priv.h"
#include "rig_tcp.h"

static struct tcp_seg syn_of(void)
{
	return (struct tcp_seg){ .h = { .sport = 40000, .dport = 80, .seq = RIG_ISN, .wnd = 1000, .flags = WIRE_TCP_SYN },
				 .next = FLOW_NONE };
}

/* Every way to end a flow frees it, its timer and its socket */
static void test_ends(void **state)
{
	struct rig *r = *state;
	void (*const end[])(struct proto *, struct flow *) = { tcp_reset, tcp_abort };

	for (size_t i = 0; i < BYTES_COUNT(end); i++) {
		struct fake_sk_sock *k;

		rig_open(r, true);
		k = rig_sock(r);
		proto_ready(&r->p, r->f);
		r->p.flow_gone = false;
		end[i](&r->p, r->f);
		assert_int_equal(r->flows.cnt, 0);
		assert_false(k->open);
		assert_int_equal(k->how, SK_END_RESET);
		assert_int_equal(r->p.ready_first, FLOW_NONE);
		assert_int_equal(twheel_next(&r->tw), NS_NEVER);
		assert_true(r->p.flow_gone);
		assert_int_equal(r->l2.cnt, end[i] == tcp_reset ? 1 : 0);
		fake_l2_clear(&r->l2);
	}
}

/* ISNs differ by tuple and grow with time (RFC 6528) */
static void test_isn(void **state)
{
	struct rig *r = *state;
	uint32_t first, second;

	rig_open(r, true);
	first = r->t->iss;
	tcp_abort(&r->p, r->f);
	r->env.now += 4096 * 1000;
	rig_open(r, true);
	assert_int_equal(r->t->iss - first, 1000);
	tcp_abort(&r->p, r->f);
	r->key.guest_port++;
	rig_open(r, true);
	second = r->t->iss;
	assert_int_not_equal(second - first, 1000);
	tcp_abort(&r->p, r->f);
	r->key.guest_port--;
	r->env.key.k[0]++;
	rig_open(r, true);
	assert_int_not_equal(r->t->iss - first, 1000);
}

/* Where the host connects to, and from */
static void test_target(void **state)
{
	struct rig *r = *state;
	struct fwd_family_set *set = &r->fwd.f[fwd_family_of(&r->key.far)];
	const struct tcp_seg s = syn_of();
	bool v4 = inaddr_is_v4(&r->key.far);

	set->outbound = rig_addr(v4 ? "203.0.113.9" : "2001:db8:9::9");
	set->host_loopback = rig_addr(v4 ? "192.0.2.1" : "2001:db8::1");
	set->scope = 3;
	tcp_guest_new(&r->p, &r->key, &s);
	assert_true(inaddr_eq(&r->sk.s[0].to.a, &r->key.far));
	assert_int_equal(r->sk.s[0].to.port, 80);
	assert_int_equal(r->sk.s[0].to.scope, 0);
	assert_true(inaddr_eq(&r->sk.s[0].from, &set->outbound));
	r->key.far = set->host_loopback;
	tcp_guest_new(&r->p, &r->key, &s);
	assert_true(inaddr_is_loopback(&r->sk.s[1].to.a));
	assert_true(inaddr_is_unset(&r->sk.s[1].from));		/* no other source reaches loopback */
	if (!v4) {
		r->key.far = rig_addr("fe80::99");
		tcp_guest_new(&r->p, &r->key, &s);
		assert_int_equal(r->sk.s[2].to.scope, 3);
	}
}

/* The socket table refuses to discard: the stream can't go on */
static void test_drop_fails(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	r->t->fin_sent = false;
	r->t->una = r->t->nxt = r->t->max = r->t->iss + 1 + 5000;	/* more than there is */
	assert_false(tcp_discard(&r->p, r->f, true));
	assert_int_equal(r->flows.cnt, 0);
}

/* A one-shot datagram flow that was answered a second ago */
static struct flow *datagram_flow(struct rig *r)
{
	struct flow_key k = r->key;
	struct flow *f;

	k.proto = FLOW_UDP;
	f = flow_new(&r->flows, &k);
	assert_non_null(f);
	f->h = fake_sk_accepted(&r->sk);
	*(struct udp_flow *)flow_body(f) = (struct udp_flow){ .last = r->env.now - NS_S, .guest_cnt = 1, .host_cnt = 1 };
	return f;
}

/* Neither descriptors nor flows are left: a datagram flow that has done its work makes room (D19) */
static void test_evict(void **state)
{
	struct rig *r = *state;
	const struct tcp_seg s = syn_of();
	struct tcp_incoming in = { .peer = { .a = r->key.far, .port = 81 }, .target = r->key.guest, .port = 1 };

	r->sk.max_open = 1;
	datagram_flow(r);
	tcp_guest_new(&r->p, &r->key, &s);
	assert_non_null(flow_find(&r->flows, &r->key));
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 1);
	r->key.guest_port++;
	tcp_guest_new(&r->p, &r->key, &s);
	assert_null(flow_find(&r->flows, &r->key));
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 1);
	r->sk.max_open = 0;
	r->env.now += NS_MS;		/* nobody looks for another one at once */
	for (int way = 0; way < 2; way++) {
		while (r->flows.cnt < r->flows.cap - 1) {
			r->key.guest_port++;
			tcp_guest_new(&r->p, &r->key, &s);
		}
		datagram_flow(r);
		r->key.guest_port++;
		if (way)
			assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &in), 0);
		else
			tcp_guest_new(&r->p, &r->key, &s);
		assert_int_equal(r->flows.cnt, r->flows.cap);
		assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 2 + way);
		tcp_abort(&r->p, flow_find(&r->flows, &(struct flow_key){ .guest = r->key.guest, .far = r->key.far,
				       .guest_port = way ? 1 : r->key.guest_port, .far_port = way ? 81 : 80, .proto = FLOW_TCP }));
	}
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 0);
}

/* Ports and peers that can't be told to the guest */
static void test_accept_refused(void **state)
{
	struct rig *r = *state;
	struct tcp_incoming in = { .peer = { .a = r->key.far, .port = 0 }, .target = r->key.guest, .port = 40000 };
	int h = fake_sk_accepted(&r->sk);

	assert_int_equal(tcp_accepted(&r->p, h, &in), -EADDRNOTAVAIL);
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->sk.s[h].how, SK_END_RESET);
	in.peer.port = 80;
	in.target = (struct inaddr){ { 0 } };
	h = fake_sk_accepted(&r->sk);
	assert_int_equal(tcp_accepted(&r->p, h, &in), -EADDRNOTAVAIL);	/* no address of the guest is known */
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->drops.cnt[DROP_TCP_NO_GUEST], 2);
	in.target = r->key.guest;
	r->sk.watch_err = -ENOSPC;					/* its events can't be watched */
	h = fake_sk_accepted(&r->sk);
	assert_int_equal(tcp_accepted(&r->p, h, &in), -ENOSPC);
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->sk.s[h].how, SK_END_RESET);
	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->drops.cnt[DROP_TCP_OPEN], 1);
	r->sk.watch_err = 0;
	h = fake_sk_accepted(&r->sk);
	assert_int_equal(tcp_accepted(&r->p, h, &in), 0);
	assert_true(r->sk.s[h].open && r->sk.s[h].watched);
	assert_non_null(flow_find(&r->flows, &r->key));
	h = fake_sk_accepted(&r->sk);
	assert_int_equal(tcp_accepted(&r->p, h, &in), -EADDRINUSE);
	assert_false(r->sk.s[h].open);
	assert_int_equal(r->flows.cnt, 1);
}

/* Its namespace is gone: the kernel finishes sending, unread data or not */
static void test_guest_gone(void **state)
{
	struct rig *r = *state;
	struct tcp_seg s = { .h = { .flags = WIRE_TCP_ACK | WIRE_TCP_FIN, .wnd = 1000 }, .next = FLOW_NONE };
	int h;

	rig_open(r, true);
	h = r->f->h;
	assert_true(tcp_draining(r->f));
	fake_sk_feed(&r->sk, h, "unread", 6);
	tcp_guest_gone(&r->p, r->f);
	assert_int_equal(r->sk.s[h].how, SK_END_GRACEFUL);
	assert_int_equal(r->sk.s[h].head, 6);		/* else the kernel would send a reset */
	assert_int_equal(r->flows.cnt, 0);

	rig_open(r, true);
	h = r->f->h;
	s.h.seq = r->t->rcv_nxt;
	s.h.ack = r->t->una;
	tcp_guest(&r->p, r->f, &s, 0);
	assert_false(tcp_draining(r->f));
	fake_sk_feed(&r->sk, h, "unread", 6);
	tcp_guest_gone(&r->p, r->f);
	assert_int_equal(r->sk.s[h].how, SK_END_GRACEFUL);
	assert_int_equal(r->sk.s[h].head, 6);		/* else the kernel would send a reset */
	assert_int_equal(r->sk.s[h].shuts, 1);
	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(r->l2.cnt, 1);			/* the ACK of its FIN, nothing afterwards */
}

/* The kernel refused a part, and takes more by now though it did not say so: what was kept goes out, up to a gap */
static void test_guest_gone_refused(void **state)
{
	static uint8_t byte[1000];
	static const struct iovec iov = { byte, sizeof(byte) };
	struct rig *r = *state;
	struct fake_sk_sock *k;

	rig_pool(r, 8);
	for (int fin = 0; fin < 2; fin++) {
		struct tcp_seg s = { .h = { .flags = WIRE_TCP_ACK | (fin ? WIRE_TCP_FIN : 0), .wnd = 1000 },
				     .data = view_of(&iov, sizeof(byte)), .next = FLOW_NONE };

		rig_open(r, true);
		k = rig_sock(r);
		s.h.seq = r->t->rcv_nxt;
		s.h.ack = r->t->una;
		k->take = 4;
		tcp_guest(&r->p, r->f, &s, 0);
		s.h.seq += 1500;
		if (!fin)
			tcp_guest(&r->p, r->f, &s, 0);
		assert_int_equal(k->tx.len, 4);
		k->take = FAKE_SK_ANY;
		tcp_guest_gone(&r->p, r->f);
		assert_int_equal(k->tx.len, 1000);
		assert_int_equal(k->shuts, fin);
		assert_int_equal(k->how, SK_END_GRACEFUL);
		assert_int_equal(r->flows.cnt, 0);
		assert_int_equal(r->pool.used, 0);
	}
	/* the peer is gone too: nothing is touched twice */
	rig_open(r, true);
	k = rig_sock(r);
	k->take = 4;
	{
		struct tcp_seg s = { .h = { .flags = WIRE_TCP_ACK, .wnd = 1000, .seq = r->t->rcv_nxt, .ack = r->t->una },
				     .data = view_of(&iov, sizeof(byte)), .next = FLOW_NONE };

		tcp_guest(&r->p, r->f, &s, 0);
	}
	k->send_err = -ECONNRESET;
	tcp_guest_gone(&r->p, r->f);
	assert_false(k->open);
	assert_int_equal(r->flows.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_ends), RIG_BOTH(test_isn), RIG_BOTH(test_target), RIG_BOTH(test_drop_fails),
		RIG_BOTH(test_accept_refused),
		RIG_BOTH(test_evict), RIG_BOTH(test_guest_gone), RIG_BOTH(test_guest_gone_refused),
	};

	return cmocka_run_group_tests_name("proto/tcp/conn", tests, NULL, NULL);
}
