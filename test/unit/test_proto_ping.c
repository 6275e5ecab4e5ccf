/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/icmp/ping.c: ICMP-1 to ICMP-6.
 */
#include "rig_proto.h"

#include <errno.h>

#include "proto/icmp.h"
#include "proto/ping.h"

#define ID	0x1234
#define KERNEL_ID 0x9999

static void put(struct rig *r, const struct inaddr *dst, uint16_t seq, uint32_t len, uint32_t pieces)
{
	static uint8_t b[65536];
	const struct wire_icmp h = { .type = r->v4 ? WIRE_ICMP4_ECHO : WIRE_ICMP6_ECHO, .id = ID, .seq = seq };
	const struct iovec iov = { b + WIRE_ICMP_LEN, len };
	const struct view v = view_of(&iov, len);

	rig_pattern(b + WIRE_ICMP_LEN, len, seq);
	wire_icmp_emit(b, &h, &v, r->v4 ? NULL : &r->guest, r->v4 ? NULL : dst);
	rig_pkt(r, dst, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, b, WIRE_ICMP_LEN + len, pieces);
}

static struct flow *push(struct rig *r)
{
	const struct flow_key k = { r->guest, r->pkt[0].ip.dst, ID, 0, FLOW_PING };

	ping_guest(&r->p, &r->pkt[0]);
	r->pkt_cnt = 0;
	return flow_find(&r->flows, &k);
}

static struct flow *open_flow(struct rig *r)
{
	struct flow *f;

	put(r, &r->far, 1, 56, 1);
	f = push(r);
	assert_non_null(f);
	fake_dg_clear(&r->dg);
	return f;
}

static void ready(struct rig *r, struct flow *f, uint32_t mask)
{
	const struct ev_hit hit = { .ref = flow_ref(&r->flows, f), .mask = mask };

	ping_host(&r->p, f, &hit);
}

/* A reply as the kernel gives it */
static void reply(struct rig *r, int h, uint16_t seq, uint32_t len)
{
	static uint8_t b[65536];
	const struct sk_dgram d = { .to_from = { .a = r->far } };

	b[0] = r->v4 ? WIRE_ICMP4_ECHO_REPLY : WIRE_ICMP6_ECHO_REPLY;
	bytes_put16(b + 2, 0x5555);
	bytes_put16(b + 4, KERNEL_ID);
	bytes_put16(b + 6, seq);
	rig_pattern(b + WIRE_ICMP_LEN, len, seq);
	fake_dg_arrive(&r->dg, h, &d, b, WIRE_ICMP_LEN + len);
}

static void check_echo(const uint8_t *p, uint8_t type, uint16_t id, uint16_t seq, uint32_t len)
{
	uint8_t *want = malloc(len + 1);

	assert_int_equal(p[0], type);
	assert_int_equal(p[1], 0);
	assert_int_equal(bytes_get16(p + 4), id);
	assert_int_equal(bytes_get16(p + 6), seq);
	rig_pattern(want, len, seq);
	assert_memory_equal(p + WIRE_ICMP_LEN, want, len);
	free(want);
}

/* ICMP-2, ICMP-5: request and reply; the guest's TTL goes along */
static void test_echo(void **state)
{
	static const uint32_t lens[] = { 0, 1, 56, 1400 };
	struct rig *r = *state;

	for (uint16_t i = 0; i < BYTES_COUNT(lens); i++) {
		struct rig_in in;
		struct flow *f;

		put(r, &r->far, i, lens[i], i + 1);
		r->pkt[0].ip.ttl = 7;
		r->pkt[0].ip.tos = 4;
		f = push(r);
		assert_int_equal(r->dg.open_cnt, 1);
		assert_true(r->dg.opened[0].ping);
		rig_same(&r->dg.opened[0].to.a, &r->far);
		assert_int_equal(r->dg.sent_cnt, i + 1);
		assert_int_equal(r->dg.sent[i].d.len, WIRE_ICMP_LEN + lens[i]);
		assert_int_equal(r->dg.sent[i].d.ttl, 7);
		assert_int_equal(r->dg.sent[i].d.tos, 4);
		check_echo(r->dg.sent[i].data, r->v4 ? 8 : 128, ID, i, lens[i]);
		reply(r, f->h, i, lens[i]);
		ready(r, f, EV_IN);
		assert_int_equal(r->l2.cnt, i + 1);
		in = rig_frame(&r->l2.frames[i]);
		rig_same(&in.ip.src, &r->far);
		rig_same(&in.ip.dst, &r->guest);
		assert_int_equal(in.l4_len, WIRE_ICMP_LEN + lens[i]);
		assert_int_equal(rig_csum(&in, !r->v4), 0);
		check_echo(in.l4, r->v4 ? 0 : 129, ID, i, lens[i]);
	}
}

static void test_translated(void **state)
{
	struct rig *r = *state;
	struct rig_in in;
	struct flow *f;

	put(r, &r->router, 1, 8, 1);
	f = push(r);
	rig_same(&r->dg.opened[0].to.a, &r->loop);
	reply(r, f->h, 1, 8);
	ready(r, f, EV_IN);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.src, &r->router);
	if (!r->v4) {
		const struct inaddr ll = rig_addr("fe80::77");

		put(r, &ll, 1, 8, 1);
		push(r);
		assert_int_equal(r->dg.opened[1].to.scope, 3);
	}
}

/* Larger than the MTU: in fragments */
static void test_large_reply(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	reply(r, f->h, 1, 8000);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 6);
}

static void test_refused(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = rig_addr(r->v4 ? "224.0.0.1" : "ff02::1");
	const uint8_t other[8] = { r->v4 ? 13 : 144 };

	rig_pkt(r, &r->far, WIRE_IP_ICMP, other, 7, 1);
	push(r);
	assert_int_equal(r->drops.cnt[DROP_ICMP_BAD], 1);
	rig_pkt(r, &r->far, WIRE_IP_ICMP, other, 8, 1);
	push(r);
	assert_int_equal(r->drops.cnt[DROP_ICMP_TYPE], 1);
	put(r, &group, 1, 8, 1);
	push(r);
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], 1);
	assert_int_equal(r->flows.cnt, 0);
}

static uint32_t run_until(struct rig *r, ns_t at)
{
	struct twheel_timer *t;

	r->env.now = at;
	while ((t = twheel_pop(&r->tw, at)))
		ping_timer(&r->p, flow_of_timer(t));
	return r->flows.cnt;
}

/* ICMP-4: replies don't keep it, requests do */
static void test_timeout(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f = open_flow(r);

	r->env.now = t0 + 30 * NS_S;
	put(r, &r->far, 2, 8, 1);
	push(r);
	r->env.now = t0 + 50 * NS_S;
	reply(r, f->h, 2, 8);
	ready(r, f, EV_IN);
	assert_int_equal(run_until(r, t0 + 61 * NS_S), 1);
	assert_int_equal(run_until(r, t0 + 89 * NS_S), 1);
	assert_int_equal(run_until(r, t0 + 91 * NS_S), 0);
	assert_true(r->dg.opened[0].closed);
}

/* No permission is counted, and no network's fault; no route is said */
static void test_open_fails(void **state)
{
	struct rig *r = *state;
	struct rig_in in;

	r->dg.fail_open = -EACCES;
	for (uint16_t i = 0; i < 3; i++) {
		put(r, &r->far, i, 8, 1);
		push(r);
	}
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->drops.cnt[DROP_PING_OPEN], 3);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(run_until(r, r->env.now + 2 * NS_S), 0);
	r->dg.fail_open = -ENETUNREACH;
	put(r, &r->far, 9, 8, 1);
	push(r);
	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.src, &r->router);
	assert_int_equal(in.l4[0], r->v4 ? 3 : 1);
	assert_int_equal(in.l4[1], 0);
	check_echo(in.l4 + 8 + wire_ip_hdr_len(&r->far), r->v4 ? 8 : 128, ID, 9, 8);
}

/* ICMP-5: traceroute by ping works; the quote has the guest's identifier */
static void test_errors(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const struct inaddr hop = rig_addr(r->v4 ? "203.0.113.1" : "2001:db8:1::1");
	const struct sk_err e = {
		.code = EHOSTUNREACH, .icmp_type = r->v4 ? 11 : 3, .to = { .a = r->far }, .offender = { .a = hop },
	};
	uint8_t b[WIRE_ICMP_LEN + 30] = { r->v4 ? 8 : 128 };

	bytes_put16(b + 4, KERNEL_ID);
	bytes_put16(b + 6, 77);
	rig_pattern(b + WIRE_ICMP_LEN, 30, 77);
	fake_dg_error(&r->dg, f->h, &e, b, sizeof(b));
	fake_dg_error(&r->dg, f->h, &e, b, 0);
	ready(r, f, EV_ERR);
	assert_int_equal(r->l2.cnt, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct rig_in in = rig_frame(&r->l2.frames[i]);
		const uint8_t *q = in.l4 + WIRE_ICMP_LEN;

		rig_same(&in.ip.src, &hop);
		assert_int_equal(rig_csum(&in, !r->v4), 0);
		assert_int_equal(in.l4[0], r->v4 ? 11 : 3);
		assert_int_equal(r->v4 ? bytes_get16(q + 2) - 20 : bytes_get16(q + 4), WIRE_ICMP_LEN + 56);
		check_echo(q + wire_ip_hdr_len(&r->far), r->v4 ? 8 : 128, ID, i ? 1 : 77, i ? 0 : 30);
	}
	assert_int_equal(r->flows.cnt, 1);
	r->dg.fail_err = -ENOTCONN;
	ready(r, f, EV_ERR);
	assert_int_equal(r->flows.cnt, 0);
}

static void test_send_fails(void **state)
{
	struct rig *r = *state;

	open_flow(r);
	r->dg.fail_send = -EHOSTUNREACH;
	r->dg.fail_sends = 1;
	put(r, &r->far, 2, 8, 1);
	push(r);
	assert_int_equal(r->dg.sent_cnt, 1);
	r->dg.fail_sends = 2;
	put(r, &r->far, 3, 8, 1);
	push(r);
	assert_int_equal(r->drops.cnt[DROP_PING_SEND], 1);
	assert_int_equal(r->l2.cnt, 1);
}

static void test_budget(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const struct sk_dgram bad = { .tos = 0 };

	fake_dg_arrive(&r->dg, f->h, &bad, "short", 5);
	for (uint16_t i = 0; i < 40; i++)
		reply(r, f->h, i, 8);
	ready(r, f, EV_IN);
	assert_int_equal(r->drops.cnt[DROP_ICMP_BAD], 1);
	assert_int_equal(r->l2.cnt, 31);
	assert_true(f->ready);
	f->ready = false;
	r->p.ready_first = r->p.ready_last = FLOW_NONE;
	ping_more(&r->p, f);
	assert_int_equal(r->l2.cnt, 40);
	assert_false(f->ready);
}

/* The host's addresses or routes are others: a new socket, which may have another source address */
static void test_network_changes(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->p.net_gen++;
	put(r, &r->far, 2, 56, 1);
	f = push(r);
	assert_int_equal(r->dg.open_cnt, 2);
	assert_true(r->dg.opened[0].closed);
	assert_int_equal(f->h, r->dg.opened[1].h);
	assert_int_equal(r->dg.sent[0].h, f->h);
	put(r, &r->far, 3, 56, 1);
	assert_ptr_equal(push(r), f);
	assert_int_equal(r->dg.open_cnt, 2);
	assert_int_equal(r->flows.cnt, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_echo),
		RIG_BOTH(test_translated),
		RIG_BOTH(test_large_reply),
		RIG_BOTH(test_refused),
		RIG_BOTH(test_timeout),
		RIG_BOTH(test_open_fails),
		RIG_BOTH(test_errors),
		RIG_BOTH(test_send_fails),
		RIG_BOTH(test_budget),
		RIG_BOTH(test_network_changes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
