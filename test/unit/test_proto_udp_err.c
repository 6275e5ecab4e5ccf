/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp: what the host refuses, and how the guest is told.
 */
#include "rig_udp.h"

#include <errno.h>

#include "proto/icmp.h"

/* The ICMP error in frame I; returns the quoted packet's L4 bytes */
static const uint8_t *check_icmp(struct rig *r, uint32_t i, uint8_t type, uint8_t code, const struct inaddr *from)
{
	const struct rig_in in = rig_frame(&r->l2.frames[i]);
	const uint8_t *q = in.l4 + WIRE_ICMP_LEN;

	assert_int_equal(in.ip.proto, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6);
	assert_int_equal(rig_csum(&in, !r->v4), 0);
	assert_int_equal(in.l4[0], type);
	assert_int_equal(in.l4[1], code);
	rig_same(&in.ip.src, from);
	rig_same(&in.ip.dst, &r->guest);
	if (r->v4) {
		assert_int_equal(csum_done(csum_add(0, q, 20)), 0);
		assert_memory_equal(q + 12, r->guest.b + 12, 4);
		assert_memory_equal(q + 16, r->far.b + 12, 4);
	} else {
		assert_memory_equal(q + 8, r->guest.b, 16);
		assert_memory_equal(q + 24, r->far.b, 16);
	}
	q += wire_ip_hdr_len(&r->far);
	assert_int_equal(bytes_get16(q), GUEST_PORT);
	assert_int_equal(bytes_get16(q + 2), FAR_PORT);
	return q;
}

static uint32_t quoted_ip_len(const struct rig *r, const uint8_t *l4)
{
	return r->v4 ? bytes_get16(l4 - 18) - 20u : bytes_get16(l4 - 36);
}

/* UDP-31 to UDP-33: refused by the peer, unreachable by a router; the flow lives on */
static void test_errors_relayed(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	struct sk_err e = {
		.code = ECONNREFUSED, .icmp_type = r->v4 ? 3 : 1, .icmp_code = r->v4 ? 3 : 4,
		.to = { .a = r->far, .port = FAR_PORT }, .offender = { .a = r->far },
	};
	const struct inaddr hop = rig_addr(r->v4 ? "203.0.113.1" : "2001:db8:1::1");
	const uint8_t *q;

	put(r, &r->far, 1000, 0, 1)->ip.ttl = 9;
	push(r, &r->far);
	fake_dg_error(&r->dg, f->h, &e, "hello", 5);
	e.icmp_type = r->v4 ? 11 : 3;
	e.icmp_code = 0;
	e.offender.a = hop;
	fake_dg_error(&r->dg, f->h, &e, "", 0);
	ready(r, f, EV_ERR);
	assert_int_equal(r->l2.cnt, 2);
	q = check_icmp(r, 0, r->v4 ? 3 : 1, r->v4 ? 3 : 4, &r->far);
	assert_memory_equal(q + 8, "hello", 5);
	assert_int_equal(quoted_ip_len(r, q), 1008);
	assert_int_equal(bytes_get16(q + 4), 1008);
	assert_int_equal(r->v4 ? q[-12] : q[-33], 9);
	check_icmp(r, 1, r->v4 ? 11 : 3, 0, &hop);
	assert_int_equal(r->flows.cnt, 1);
}

/* The alias that the guest used stays the name of the peer */
static void test_errors_alias(void **state)
{
	struct rig *r = *state;
	const struct sk_err e = {
		.code = ECONNREFUSED, .icmp_type = r->v4 ? 3 : 1, .icmp_code = r->v4 ? 3 : 4,
		.to = { .a = r->loop, .port = FAR_PORT }, .offender = { .a = r->loop },
	};
	struct flow *f;

	put(r, &r->router, 4, 0, 1);
	f = push(r, &r->router);
	fake_dg_error(&r->dg, f->h, &e, "", 0);
	ready(r, f, EV_ERR | EV_IN);
	r->far = r->router;
	check_icmp(r, 0, r->v4 ? 3 : 1, r->v4 ? 3 : 4, &r->router);
}

/* Sizes: 576 and 1280 bytes at most; MTU in too big; what is no error for the guest */
static void test_errors_sizes(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	uint8_t b[PROTO_QUOTE_MAX];
	struct sk_err e = {
		.code = EMSGSIZE, .icmp_type = r->v4 ? 3 : 2, .icmp_code = r->v4 ? 4 : 0, .info = 1400,
		.to = { .a = r->far, .port = FAR_PORT }, .offender = { .a = r->far },
	};
	const uint8_t *q;

	rig_pattern(b, sizeof(b), 1);
	fake_dg_error(&r->dg, f->h, &e, b, sizeof(b));
	e.local = true;
	fake_dg_error(&r->dg, f->h, &e, b, 8);
	e.info = 0;
	fake_dg_error(&r->dg, f->h, &e, b, 8);
	e.local = false;
	e.icmp_type = r->v4 ? 5 : 137;		/* redirect */
	fake_dg_error(&r->dg, f->h, &e, b, 8);
	put(r, &r->far, 5, 0, 1)->ip.ttl = 3;
	push(r, &r->far);
	ready(r, f, EV_ERR);
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(r->l2.frames[0].len, WIRE_ETH_LEN + (r->v4 ? 576 : 1280));
	q = check_icmp(r, 0, r->v4 ? 3 : 2, r->v4 ? 4 : 0, &r->far);
	assert_int_equal(bytes_get32(rig_frame(&r->l2.frames[0]).l4 + 4), 1400);
	assert_int_equal(quoted_ip_len(r, q), 8 + PROTO_QUOTE_MAX);
	check_icmp(r, 1, r->v4 ? 3 : 2, r->v4 ? 4 : 0, &r->router);
}

/* UDP-37: what may not be cut is refused to its socket; what was cut is told to the guest's kernel alone, by an echo reply */
static void test_errors_cut(void **state)
{
	struct rig *r = *state;
	struct sk_err e = { .code = EMSGSIZE, .local = true, .info = 1400, .to = { .a = r->far, .port = FAR_PORT } };

	for (int n = 0; n < 2; n++) {
		struct proto_pkt *k = put(r, &r->far, 4000, 0, 1);
		const bool maybe = n == 1;
		struct rig_in in;
		struct flow *f;

		k->ip.id = maybe ? 77 : 0;
		k->ip.ttl = maybe ? 64 : 3;
		fake_l2_clear(&r->l2);
		fake_dg_clear(&r->dg);
		f = push(r, &r->far);
		assert_int_equal(r->dg.sent[0].d.df, maybe ? SK_DF_MAYBE : SK_DF_YES);
		fake_dg_error(&r->dg, f->h, &e, "", 0);
		ready(r, f, EV_ERR);
		assert_int_equal(r->l2.cnt, 1);
		in = rig_frame(&r->l2.frames[0]);
		assert_int_equal(in.l4[0], r->v4 ? 3 : 2);
		assert_int_equal(in.l4[1], r->v4 ? 4 : 0);
		assert_int_equal(bytes_get32(in.l4 + 4), 1400);
		assert_int_equal(rig_csum(&in, !r->v4), 0);
		assert_int_equal(in.l4[WIRE_ICMP_LEN + (r->v4 ? 9 : 6)],
				 !maybe ? WIRE_IP_UDP : r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6);
		if (maybe)
			assert_int_equal(in.l4[WIRE_ICMP_LEN + wire_ip_hdr_len(&r->far)], r->v4 ? 0 : 129);
		else
			check_icmp(r, 0, r->v4 ? 3 : 2, r->v4 ? 4 : 0, &r->router);
	}
}

/* Our own errors are limited in rate, the network's are not */
static void test_errors_rate(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const struct sk_err e = { .code = EHOSTUNREACH, .local = true, .to = { .a = r->far, .port = FAR_PORT } };

	for (int n = 0; n < PROTO_ICMP_BURST + 30; n++)
		fake_dg_error(&r->dg, f->h, &e, "", 0);
	ready(r, f, EV_ERR);
	ready(r, f, EV_ERR);
	assert_int_equal(r->l2.cnt, PROTO_ICMP_BURST);
}

/* UDP-34 */
static void test_errors_listener(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	struct ev_hit hit = { .mask = EV_IN };
	struct sk_err e = {
		.code = ECONNREFUSED, .icmp_type = r->v4 ? 3 : 1, .icmp_code = r->v4 ? 3 : 4,
		.to = { .a = r->far, .port = 777 }, .offender = { .a = r->far },
	};

	come(r, &l, &r->far, FAR_PORT, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	fake_l2_clear(&r->l2);
	fake_dg_error(&r->dg, 50, &e, "", 0);	/* of no flow */
	e.to.port = FAR_PORT;
	fake_dg_error(&r->dg, 50, &e, "abc", 3);
	hit.mask = EV_ERR;
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->l2.cnt, 1);
	check_icmp(r, 0, r->v4 ? 3 : 1, r->v4 ? 3 : 4, &r->far);
}

static void test_errors_fatal(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->dg.fail_err = -ENOTCONN;
	ready(r, f, EV_ERR);
	assert_int_equal(r->flows.cnt, 0);
	assert_true(r->dg.opened[0].closed);
	r->dg.fail_err = 0;
	put(r, &r->far, 1, 0, 1);
	f = push(r, &r->far);
	r->dg.fail_recv = -ECONNREFUSED;
	r->dg.fail_recvs = 1;			/* of an earlier datagram: goes away */
	arrive(r, f->h, 7, 1, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1);
	r->dg.fail_recvs = 100;
	ready(r, f, EV_IN);
	assert_int_equal(r->flows.cnt, 0);
}

/* UDP-15: a failed open is said, counted, and not tried again at once */
static void test_open_fails(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	const uint8_t *q;
	struct flow *f;

	r->dg.fail_open = -ENETUNREACH;
	put(r, &r->far, 6, 3, 1);
	put(r, &r->far, 6, 3, 1);
	f = push(r, &r->far);
	assert_int_equal(f->h, -1);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->drops.cnt[DROP_UDP_OPEN], 2);
	assert_int_equal(r->l2.cnt, 2);
	q = check_icmp(r, 0, r->v4 ? 3 : 1, 0, &r->router);
	check_bytes(q + 8, 6, 3);
	ready(r, f, EV_ERR | EV_IN);		/* nothing to read from */
	for (int i = 1; i < 9; i++) {		/* a flood does not keep it */
		r->env.now = t0 + i * 100 * NS_MS;
		put(r, &r->far, 6, 3, 1);
		push(r, &r->far);
	}
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(run_until(r, t0 + NS_S + 5 * NS_MS), 0);
	r->dg.fail_open = 0;
	put(r, &r->far, 6, 3, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.sent_cnt, 1);
}

static void test_open_limits(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	const struct ev_hit hit = { .mask = EV_IN };
	struct flow *f;

	r->dg.fail_open = -EMFILE;
	put(r, &r->far, 6, 3, 1);
	f = push(r, &r->far);
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 1);
	assert_int_equal(r->l2.cnt, 0);
	/* the host's side opens the way meanwhile */
	come(r, &l, &r->far, FAR_PORT, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(f->h, 50);
	put(r, &r->far, 6, 3, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.sent[0].h, 50);
	assert_int_equal(run_until(r, r->env.now + 2 * NS_S), 1);
	r->dg.fail_open = 0;
	put(r, &r->far, 6, 3, 1);	/* in use */
	push(r, &r->far);
	while (r->flows.cnt < RIG_FLOWS) {
		const struct flow_key k = { r->far, r->far, (uint16_t)r->flows.cnt, 1, FLOW_TCP };

		flow_new(&r->flows, &k);
	}
	put(r, &r->router, 1, 0, 1);
	push(r, &r->router);
	come(r, &l, &r->far, 9, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 2);
}

/* Errors of our own making have a limit, the count has not */
static void test_error_rate(void **state)
{
	struct rig *r = *state;

	r->dg.fail_open = -EACCES;
	for (int n = 0; n < 2; n++) {
		for (uint32_t i = 0; i < L2_BATCH; i++)
			put(r, &r->far, 6, 3, 1);
		push(r, &r->far);
	}
	assert_int_equal(r->drops.cnt[DROP_UDP_OPEN], 128);
	assert_int_equal(r->l2.cnt, PROTO_ICMP_BURST);
	check_icmp(r, 0, r->v4 ? 3 : 1, r->v4 ? 13 : 1, &r->router);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_errors_relayed),
		RIG_BOTH(test_errors_alias),
		RIG_BOTH(test_errors_cut),
		RIG_BOTH(test_errors_rate),
		RIG_BOTH(test_errors_sizes),
		RIG_BOTH(test_errors_listener),
		RIG_BOTH(test_errors_fatal),
		RIG_BOTH(test_open_fails),
		RIG_BOTH(test_open_limits),
		RIG_BOTH(test_error_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
