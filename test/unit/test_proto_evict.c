/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/evict.c: who makes room when descriptors or flows have run out (D19),
 * and the short life of answered DNS flows.
 */
#include "rig_udp.h"

#include <errno.h>

#include "proto/ping.h"
#include "wire/icmp.h"

/* One datagram from guest port PORT to FAR_P */
static struct flow *ask(struct rig *r, uint16_t port, uint16_t far_p)
{
	const struct flow_key k = { r->guest, r->far, port, far_p, FLOW_UDP };
	const struct wire_udp h = { port, far_p };
	uint8_t b[WIRE_UDP_LEN + 4] = { 0 };

	wire_udp_emit(b, &h, 4, 0);
	rig_pkt(r, &r->far, WIRE_IP_UDP, b, sizeof(b), 1);
	udp_guest(&r->p, &k, flow_find(&r->flows, &k), r->pkt, 0);
	r->pkt_cnt = 0;
	return flow_find(&r->flows, &k);
}

static void answer(struct rig *r, struct flow *f)
{
	const struct sk_dgram d = { .to_from = { .a = r->far, .port = f->key.far_port } };

	fake_dg_arrive(&r->dg, f->h, &d, "yes", 3);
	ready(r, f, EV_IN);
}

static bool alive(struct rig *r, uint16_t port, uint16_t far_p)
{
	const struct flow_key k = { r->guest, r->far, port, far_p, FLOW_UDP };
	const struct flow *f = flow_find(&r->flows, &k);

	return f && f->h >= 0;
}

static void pass(struct rig *r, ns_t by)
{
	r->env.now += by;
}

/* Out of descriptors: the answered one that was used least recently goes, others stay */
static void test_answered_first(void **state)
{
	struct rig *r = *state;

	r->dg.max_open = 4;
	ask(r, 1, 9);			/* no answer, oldest */
	pass(r, 5 * NS_S);
	answer(r, ask(r, 2, 9));
	pass(r, NS_MS);
	answer(r, ask(r, 3, 9));
	pass(r, NS_MS);
	ask(r, 4, 9);
	assert_true(alive(r, 5, 9) == false && ask(r, 5, 9)->h >= 0);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 1);
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 0);
	assert_false(alive(r, 2, 9));
	assert_true(alive(r, 1, 9) && alive(r, 3, 9) && alive(r, 4, 9));
	assert_int_equal(r->dg.sent_cnt, 5);
	pass(r, NS_MS);
	assert_true(ask(r, 6, 9)->h >= 0);
	assert_false(alive(r, 3, 9));
	/* then the unanswered one that has waited for its answer long enough */
	assert_true(ask(r, 7, 9)->h >= 0);
	assert_false(alive(r, 1, 9));
	/* the others still wait: the new one is refused, as before */
	assert_int_equal(ask(r, 8, 9)->h, -1);
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 1);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 3);
	assert_true(alive(r, 4, 9) && alive(r, 5, 9) && alive(r, 6, 9) && alive(r, 7, 9));
	pass(r, PROTO_SPARE_WAIT);
	assert_true(ask(r, 10, 9)->h >= 0);
}

/* A conversation is never cut, nor a published port's flow, nor one with packets in work */
static void test_never(void **state)
{
	const struct udp_listener l = { .h = 7, .port = 1000 };
	struct rig *r = *state;
	struct flow *f;

	come(r, &l, &r->far, FAR_PORT, &r->guest, 5);
	udp_listen(&r->p, &l, &(struct ev_hit){ .mask = EV_IN });
	assert_int_equal(r->flows.cnt, 1);
	r->dg.max_open = 2;
	answer(r, ask(r, 1, 9));
	answer(r, ask(r, 1, 9));	/* twice each: steady use */
	answer(r, ask(r, 2, 9));
	pass(r, 3 * NS_S);
	f = ask(r, 2, 9);		/* guest spoke again: an answer may come */
	f->batch_first = 0;
	assert_int_equal(ask(r, 3, 9)->h, -1);
	pass(r, 3 * NS_S);
	f->batch_first = FLOW_NONE;
	assert_true(alive(r, 1, 9) && alive(r, 2, 9));
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 0);
	assert_int_equal(ask(r, 4, 9)->h, -1);
	assert_int_equal(r->flows.cnt, 5);
}

/* One with packets in this batch is not taken although it could be */
static void test_in_work(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	r->dg.max_open = 1;
	f = ask(r, 1, 9);
	answer(r, f);
	pass(r, NS_S);
	f->batch_first = f->batch_last = 3;
	assert_int_equal(ask(r, 2, 9)->h, -1);
	f->batch_first = f->batch_last = FLOW_NONE;
	assert_int_equal(ask(r, 3, 9)->h, -1);	/* nobody looks again at once */
	pass(r, NS_MS);
	assert_true(ask(r, 4, 9)->h >= 0);
}

/* The last to go: a conversation that was silent for as long as one exchange would be kept */
static void test_idle(void **state)
{
	struct rig *r = *state;

	r->dg.max_open = 2;
	for (uint16_t port = 1; port <= 2; port++) {
		answer(r, ask(r, port, 9));
		answer(r, ask(r, port, 9));
		pass(r, NS_S);
	}
	pass(r, 27 * NS_S);
	assert_int_equal(ask(r, 3, 9)->h, -1);
	pass(r, NS_S);			/* the older one is 30 s old */
	assert_true(ask(r, 4, 9)->h >= 0);
	assert_false(alive(r, 1, 9));
	pass(r, 2 * NS_S);
	assert_true(ask(r, 5, 9)->h >= 0);	/* one exchange before the conversation */
	assert_true(alive(r, 2, 9));
	assert_false(alive(r, 4, 9));
}

/* A closed port has nothing more to say: a scan makes room for itself */
static void test_closed(void **state)
{
	struct rig *r = *state;

	r->dg.max_open = 2;
	for (uint16_t port = 1; port < 50; port++) {
		struct flow *f = ask(r, 1, port);
		struct sk_err e = {
			.code = ECONNREFUSED, .icmp_type = r->v4 ? 3 : 1, .icmp_code = r->v4 ? 3 : 4,
			.to = { .a = r->far, .port = port }, .offender = { .a = r->far },
		};

		assert_true(f->h >= 0);
		fake_dg_error(&r->dg, f->h, &e, "ask", 3);
		ready(r, f, EV_ERR);
		pass(r, NS_MS);
	}
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 47);
}

/* UDP leaves descriptors and entries for others; sockets of published ports need entries only */
static void test_share(void **state)
{
	const struct udp_listener l = { .h = 7, .port = 1000 };
	struct rig *r = *state;

	r->udp.sockets_max = 3;
	r->udp.flows_max = 10;
	for (uint16_t port = 1; port <= 3; port++)
		assert_true(ask(r, port, 9)->h >= 0);
	assert_null(ask(r, 4, 9));
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 1);
	assert_int_equal(r->dg.open_cnt, 3);
	for (unsigned i = 0; i < 20; i++) {
		struct inaddr peer = r->far;

		peer.b[14] = (uint8_t)i;
		come(r, &l, &peer, FAR_PORT, &r->guest, 5);
		udp_listen(&r->p, &l, &(struct ev_hit){ .mask = EV_IN });
	}
	assert_int_equal(r->flows.cnt, 10);
	assert_int_equal(r->p.udp_flows, 10);
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 13);
	pass(r, NS_S);			/* nobody answered those either: the oldest of all go */
	for (unsigned i = 0; i < 5; i++)
		come(r, &l, &r->far, (uint16_t)(100 + i), &r->guest, 5);
	udp_listen(&r->p, &l, &(struct ev_hit){ .mask = EV_IN });
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 5);
	assert_int_equal(r->flows.cnt, 10);
	assert_int_equal(run_until(r, r->env.now + 200 * NS_S), 0);
	assert_int_equal(r->p.udp_flows, 0);
	assert_int_equal(r->p.udp_sockets, 0);
}

/* The table is full */
static void test_table(void **state)
{
	struct rig *r = *state;

	for (uint16_t i = 0; i < RIG_FLOWS; i++) {
		answer(r, ask(r, (uint16_t)(100 + i), 9));
		pass(r, NS_MS);
	}
	assert_int_equal(r->flows.cnt, RIG_FLOWS);
	assert_non_null(ask(r, 1, 9));
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 0);
	assert_false(alive(r, 100, 9));
	assert_int_equal(r->flows.cnt, RIG_FLOWS);
	/* a flood of answered ones goes on for ever */
	for (uint16_t i = 0; i < 100; i++) {
		pass(r, NS_MS);
		answer(r, ask(r, (uint16_t)(1000 + i), 9));
	}
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 0);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 101);
}

/* Echo requests make room, and take it */
static void test_ping(void **state)
{
	const struct wire_icmp h = { .type = (*(struct rig **)state)->v4 ? WIRE_ICMP4_ECHO : WIRE_ICMP6_ECHO, .id = 5, .seq = 1 };
	struct rig *r = *state;
	const struct view none = { .len = 0 };
	uint8_t b[WIRE_ICMP_LEN];

	r->dg.max_open = 1;
	wire_icmp_emit(b, &h, &none, r->v4 ? NULL : &r->guest, r->v4 ? NULL : &r->far);
	answer(r, ask(r, 1, 9));
	pass(r, NS_MS);
	ping_guest(&r->p, rig_pkt(r, &r->far, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, b, sizeof(b), 1));
	r->pkt_cnt = 0;
	assert_false(alive(r, 1, 9));
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 1);
	assert_int_equal(r->dg.sent_cnt, 2);
	pass(r, PROTO_SPARE_WAIT - NS_MS);
	assert_int_equal(ask(r, 2, 9)->h, -1);
	pass(r, NS_MS);
	assert_true(ask(r, 3, 9)->h >= 0);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 2);
}

/* DNS: five seconds after the answer, counted from it; without one as long as any other */
static void test_dns(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;

	ask(r, 1, 53);
	ask(r, 2, 53);
	ask(r, 2, 53);			/* both families */
	ask(r, 3, 9);
	assert_int_equal(run_until(r, t0 + 2 * NS_S), 3);
	for (uint16_t port = 1; port <= 3; port++) {
		const struct flow_key k = { r->guest, r->far, port, port == 3 ? 9 : 53, FLOW_UDP };

		answer(r, flow_find(&r->flows, &k));
	}
	assert_int_equal(run_until(r, t0 + 6900 * NS_MS), 3);
	assert_int_equal(run_until(r, t0 + 7010 * NS_MS), 2);
	assert_false(alive(r, 1, 53));
	assert_true(alive(r, 2, 53));	/* one answer is still to come */
	assert_int_equal(run_until(r, t0 + 31 * NS_S), 2);
	assert_int_equal(run_until(r, t0 + 33 * NS_S), 1);
	assert_int_equal(run_until(r, t0 + 125 * NS_S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_answered_first),
		RIG_BOTH(test_never),
		RIG_BOTH(test_in_work),
		RIG_BOTH(test_idle),
		RIG_BOTH(test_closed),
		RIG_BOTH(test_share),
		RIG_BOTH(test_table),
		RIG_BOTH(test_ping),
		RIG_BOTH(test_dns),
	};

	return cmocka_run_group_tests_name("proto/evict", tests, NULL, NULL);
}
