/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp: flows, runs of datagrams either way, published ports, time-outs.
 */
#include "rig_udp.h"

#include <errno.h>

/* A frame with one datagram for the guest */
static void check_frame(struct rig *r, uint32_t i, uint32_t len, uint32_t seed)
{
	const struct rig_in in = rig_frame(&r->l2.frames[i]);
	const struct fake_l2_frame *f = &r->l2.frames[i];

	rig_same(&in.ip.src, &r->far);
	rig_same(&in.ip.dst, &r->guest);
	assert_int_equal(in.ip.proto, WIRE_IP_UDP);
	assert_int_equal(bytes_get16(in.l4), FAR_PORT);
	assert_int_equal(bytes_get16(in.l4 + 2), GUEST_PORT);
	assert_int_equal(bytes_get16(in.l4 + 4), WIRE_UDP_LEN + len);
	assert_int_equal(in.l4_len, WIRE_UDP_LEN + len);
	assert_int_equal(f->gso, L2_GSO_NONE);
	check_bytes(in.l4 + WIRE_UDP_LEN, len, seed);
	if (f->csum == L2_CSUM_PARTIAL) {
		assert_int_equal(bytes_get16(in.l4 + 6), csum_fold(csum_pseudo(&r->far, &r->guest, 17, in.l4_len)));
		assert_int_equal(f->csum_start, proto_l4_off(&r->far));
		assert_int_equal(f->csum_off, 6);
	} else {
		assert_int_not_equal(bytes_get16(in.l4 + 6), 0);
		assert_int_equal(rig_csum(&in, true), 0);
	}
}

/* UDP-1, UDP-8, UDP-9: addresses, ports, sizes, TTL and class of service */
static void test_guest_opens(void **state)
{
	struct rig *r = *state;
	const struct fake_dg_open *o = &r->dg.opened[0];
	struct proto_pkt *k;
	struct flow *f;

	k = put(r, &r->far, 0, 0, 1);
	k->ip.ttl = 3;
	k->ip.tos = 0xb9;
	f = push(r, &r->far);
	assert_int_equal(r->dg.open_cnt, 1);
	rig_same(&o->to.a, &r->far);
	assert_int_equal(o->to.port, FAR_PORT);
	assert_int_equal(o->local.port, GUEST_PORT);
	assert_true(inaddr_is_unset(&o->local.a));
	assert_int_equal(o->ref.idx, flow_idx(&r->flows, f));
	assert_int_equal(o->ref.gen, f->gen);
	assert_int_equal(r->dg.sent_cnt, 1);
	assert_int_equal(r->dg.sent[0].h, o->h);
	assert_int_equal(r->dg.sent[0].d.len, 0);
	assert_int_equal(r->dg.sent[0].d.ttl, 3);
	assert_int_equal(r->dg.sent[0].d.tos, 0xb9);
	assert_int_equal(r->dg.sent[0].d.to_from.port, 0);
	/* the second uses the same socket */
	put(r, &r->far, 65507 - 20, 9, 3);
	push(r, &r->far);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->dg.sent[1].d.len, 65487);
	check_bytes(r->dg.sent[1].data, 65487, 9);
}

static void test_guest_translated(void **state)
{
	struct rig *r = *state;

	put(r, &r->router, 1, 0, 1);
	push(r, &r->router);
	rig_same(&r->dg.opened[0].to.a, &r->loop);
	assert_int_equal(r->dg.sent_cnt, 1);
}

static void test_guest_bad(void **state)
{
	struct rig *r = *state;
	const struct inaddr none = rig_addr(r->v4 ? "0.0.0.0" : "::");
	struct flow_key k = key_of(r, &r->far);
	struct proto_pkt *pkt;

	put(r, &none, 1, 0, 1);
	put(r, &none, 1, 0, 1);
	push(r, &none);
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], 2);
	k.far_port = 0;
	put(r, &r->far, 1, 0, 1);
	udp_guest(&r->p, &k, NULL, r->pkt, 0);
	r->pkt_cnt = 0;
	assert_int_equal(r->drops.cnt[DROP_UDP_BAD], 1);
	assert_int_equal(r->flows.cnt, 0);
	pkt = put(r, &r->far, 10, 0, 1);
	pkt->l4.len = 12;		/* cut short */
	pkt = put(r, &r->far, 200, 0, 1);
	r->frame[1].gso = L2_GSO_UDP;	/* 200 datagrams of a byte, or of none */
	r->frame[1].gso_size = 1;
	pkt = put(r, &r->far, 200, 0, 1);
	r->frame[2].gso = L2_GSO_UDP;
	push(r, &r->far);
	assert_int_equal(r->drops.cnt[DROP_UDP_BAD], 4);
	assert_int_equal(r->dg.sent_cnt, 0);
}

/* Equal ones are joined, a shorter one ends the run; order and bytes are kept */
static void test_guest_joins(void **state)
{
	static const uint32_t lens[] = { 100, 100, 100, 40, 100, 0, 100, 7, 7, 1452, 1452, 1460 };
	struct rig *r = *state;
	uint32_t n = 0;

	for (int pieces = 1; pieces <= 4; pieces++) {
		for (unsigned i = 0; i < BYTES_COUNT(lens); i++)
			put(r, &r->far, lens[i], i, (uint32_t)pieces);
		push(r, &r->far);
		assert_int_equal(r->dg.send_calls, 1);
		n = 0;
		for (uint32_t s = 0; s < r->dg.sent_cnt; s++) {
			const struct sk_dgram *d = &r->dg.sent[s].d;
			uint32_t off = 0;

			do {
				const uint32_t len = d->seg ? BYTES_MIN(d->seg, d->len - off) : d->len;

				assert_int_equal(len, lens[n]);
				check_bytes(r->dg.sent[s].data + off, len, n);
				off += len;
				n++;
			} while (off < d->len);
		}
		assert_int_equal(n, BYTES_COUNT(lens));
		assert_int_equal(r->dg.sent_cnt, 7);	/* 100 100 100 40 | 100 | 0 | 100 7 | 7 | 1452 1452 | 1460 */
		fake_dg_clear(&r->dg);
	}
}

/* What differs in TTL, class, or in whether it may be cut, stays apart */
static void test_guest_does_not_join(void **state)
{
	struct rig *r = *state;

	put(r, &r->far, 10, 0, 1);
	put(r, &r->far, 10, 1, 1)->ip.ttl = 9;
	put(r, &r->far, 10, 2, 1)->ip.tos = 2;
	put(r, &r->far, 10, 3, 1)->ip.id = 5;
	put(r, &r->far, 10, 4, 1)->ip.df = false;
	put(r, &r->far, 10, 5, 1)->ip.df = false;
	push(r, &r->far);
	assert_int_equal(r->dg.sent_cnt, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(r->dg.sent[i].d.seg, i == 4 ? 10 : 0);
	assert_int_equal(r->dg.sent[0].d.df, r->v4 ? SK_DF_YES : SK_DF_MAYBE);
	assert_int_equal(r->dg.sent[1].d.df, SK_DF_YES);
	assert_int_equal(r->dg.sent[3].d.df, SK_DF_MAYBE);
	assert_int_equal(r->dg.sent[4].d.df, SK_DF_NO);
}

/* A super-frame of the guest is a run, in parts of at most 64 datagrams */
static void test_guest_uso(void **state)
{
	struct rig *r = *state;
	uint32_t off = 0;

	put(r, &r->far, 100 * 500 + 3, 4, 2);
	r->frame[0].gso = L2_GSO_UDP;
	r->frame[0].gso_size = 500;
	push(r, &r->far);
	assert_int_equal(r->dg.sent_cnt, 2);
	assert_int_equal(r->dg.sent[0].d.len, 64 * 500);
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t *want = malloc(50003);

		rig_pattern(want, 50003, 4);
		assert_int_equal(r->dg.sent[i].d.seg, 500);
		assert_memory_equal(r->dg.sent[i].data, want + off, r->dg.sent[i].d.len);
		off += r->dg.sent[i].d.len;
		free(want);
	}
	assert_int_equal(off, 50003);
}

/* Full batches of the largest datagrams fit the scratch memory, whatever their shape */
static void test_guest_full_batch(void **state)
{
	struct rig *r = *state;

	for (uint32_t i = 0; i < L2_BATCH; i++)
		put(r, &r->far, 65000, i, 4);
	push(r, &r->far);
	assert_int_equal(r->dg.sent_cnt, L2_BATCH);
	for (uint32_t i = 0; i < L2_BATCH; i++)
		check_bytes(r->dg.sent[i].data, 65000, i);
}

/* UDP-10 and errors of earlier datagrams */
static void test_guest_send_errors(void **state)
{
	struct rig *r = *state;

	open_flow(r);
	r->dg.fail_send = -ECONNREFUSED;
	r->dg.fail_sends = 1;
	put(r, &r->far, 10, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.sent_cnt, 1);
	assert_int_equal(r->drops.cnt[DROP_UDP_SEND], 0);
	r->dg.fail_send = -EAGAIN;
	r->dg.fail_sends = 2;
	put(r, &r->far, 10, 0, 1);
	put(r, &r->far, 20, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->drops.cnt[DROP_UDP_SEND], 2);
	r->dg.fail_send = -ENETUNREACH;
	r->dg.fail_sends = 2;
	put(r, &r->far, 10, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->drops.cnt[DROP_UDP_SEND], 3);
	assert_int_equal(r->l2.cnt, 1);		/* said by ICMP */
}

static void test_host_single(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	for (int takes = 0; takes < 2; takes++) {
		r->l2.l2.takes = takes ? OFFLOADS : 0;
		r->l2.split = takes ? 33 : 0;
		arrive(r, f->h, 0, 1, 0, 0);
		arrive(r, f->h, 1, 2, 0, 3);
		arrive(r, f->h, 1400, 3, 0, 3);
		ready(r, f, EV_IN);
		assert_int_equal(r->l2.cnt, 3);
		check_frame(r, 0, 0, 1);
		check_frame(r, 1, 1, 2);
		check_frame(r, 2, 1400, 3);
		assert_int_equal(rig_frame(&r->l2.frames[1]).ip.tos, 3);
		assert_int_equal(r->l2.commits, 1);
		fake_l2_clear(&r->l2);
	}
	assert_int_equal(r->dg.recv_calls, 2);		/* a short count says that none is left */
}

/* A checksum that comes out as zero is sent as all ones (RFC 768) */
static void test_host_csum_zero(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const struct sk_dgram d = { .to_from = { .a = r->far, .port = FAR_PORT } };
	uint8_t b[2] = { 0, 0 }, udp[8];
	const struct wire_udp h = { FAR_PORT, GUEST_PORT };
	uint32_t sum = csum_pseudo(&r->far, &r->guest, WIRE_IP_UDP, 10);

	wire_udp_emit(udp, &h, 2, 0);
	bytes_put16(b, csum_done(csum_add(sum, udp, 8)));
	fake_dg_arrive(&r->dg, f->h, &d, b, 2);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(bytes_get16(rig_frame(&r->l2.frames[0]).l4 + 6), 0xffff);
}

/* The datagrams in a super-frame */
static void check_super(struct rig *r, uint32_t i, uint32_t seg, uint32_t cnt, uint32_t last, uint32_t seed)
{
	const struct fake_l2_frame *f = &r->l2.frames[i];
	const struct rig_in in = rig_frame(f);
	const uint32_t len = seg * (cnt - 1) + last;

	assert_int_equal(f->gso, L2_GSO_UDP);
	assert_int_equal(f->gso_size, seg);
	assert_int_equal(f->csum, L2_CSUM_PARTIAL);
	assert_int_equal(f->hdr_len, proto_l4_off(&r->far) + WIRE_UDP_LEN);
	assert_int_equal(in.l4_len, WIRE_UDP_LEN + len);
	assert_int_equal(bytes_get16(in.l4 + 4), WIRE_UDP_LEN + len);
	assert_int_equal(bytes_get16(in.l4 + 6), csum_fold(csum_pseudo(&r->far, &r->guest, 17, in.l4_len)));
	for (uint32_t n = 0; n < cnt; n++)
		check_bytes(in.l4 + WIRE_UDP_LEN + n * seg, n == cnt - 1 ? last : seg, seed + n);
}

static void test_host_joins(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->l2.l2.takes = OFFLOADS;
	for (uint32_t i = 0; i < 10; i++)
		arrive(r, f->h, 1200, i, 0, 0);
	arrive(r, f->h, 77, 10, 0, 0);
	arrive(r, f->h, 77, 11, 0, 0);
	arrive(r, f->h, 77, 12, 0, 1);		/* congestion marked: apart */
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 3);
	check_super(r, 0, 1200, 11, 77, 0);
	check_frame(r, 1, 77, 11);
	check_frame(r, 2, 77, 12);
}

/* Limits of a run: 64 datagrams, 65535 bytes, MTU of each; without USO or checksum offload none */
/* The turn of a flow that gave way */
static void go_on(struct rig *r, struct flow *f)
{
	assert_true(f->ready);
	r->p.ready_first = r->p.ready_last = FLOW_NONE;
	f->ready = false;
	udp_more(&r->p, f);
}

static void test_host_join_limits(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const uint32_t seg = 1472 - (r->v4 ? 0 : 20);
	const uint32_t fit = (L2_IP_MAX - wire_ip_hdr_len(&r->far) - WIRE_UDP_LEN) / seg;
	uint32_t total = 0;
	static uint8_t b[65536];

	r->l2.l2.takes = OFFLOADS;
	rig_pattern(b, sizeof(b), 0);
	arrive(r, f->h, 800, 0, 8, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 2);
	for (uint32_t i = 0; i < r->l2.cnt; i++) {
		assert_true(rig_frame(&r->l2.frames[i]).l4_len <= 8 + 64 * 8);
		total += rig_frame(&r->l2.frames[i]).l4_len - 8;
	}
	assert_int_equal(total, 800);
	fake_l2_clear(&r->l2);

	arrive(r, f->h, 60 * 1000, 0, 1000, 0);		/* UDP_GRO: one run, one frame */
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(r->l2.frames[0].gso_size, 1000);
	assert_memory_equal(rig_frame(&r->l2.frames[0]).l4 + 8, b, 60000);
	fake_l2_clear(&r->l2);

	arrive(r, f->h, seg * fit, 0, (uint16_t)seg, 0);
	arrive(r, f->h, seg, 0, 0, 0);			/* would not fit any more */
	ready(r, f, EV_IN);
	go_on(r, f);
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(rig_frame(&r->l2.frames[0]).l4_len, WIRE_UDP_LEN + seg * fit);
	fake_l2_clear(&r->l2);

	r->l2.l2.takes = L2_OFF_CSUM;
	arrive(r, f->h, 60 * 1000, 0, 1000, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 60);
	assert_int_equal(r->l2.commits, 1);
	for (uint32_t i = 0; i < 60; i++)
		assert_memory_equal(rig_frame(&r->l2.frames[i]).l4 + 8, b + i * 1000, 1000);
}

/* L2-55: larger than the guest's MTU, also out of a run */
static void test_host_too_big(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->l2.l2.takes = OFFLOADS;
	arrive(r, f->h, 100, 1, 0, 0);
	arrive(r, f->h, 9000, 2, 0, 0);
	arrive(r, f->h, 3000, 3, 1500, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1 + 7 + 2 * 2);
	check_frame(r, 0, 100, 1);
	for (uint32_t i = 0; i < r->l2.cnt; i++)
		assert_true(r->l2.frames[i].len <= WIRE_ETH_LEN + 1500 && r->l2.frames[i].gso == L2_GSO_NONE);
	assert_int_equal(r->drops.cnt[DROP_UDP_TOO_BIG], 0);
}

static void test_host_link_full(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	fake_l2_refuse_after(&r->l2, 1);
	for (uint32_t i = 0; i < 3; i++)
		arrive(r, f->h, 100 + i, i, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 2);
	r->l2.reserve_max = 0;
	arrive(r, f->h, 100, 0, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 3);
	fake_l2_refuse_after(&r->l2, UINT32_MAX);
	r->l2.reserve_max = 2;			/* comes in parts */
	for (uint32_t i = 0; i < 5; i++)
		arrive(r, f->h, 100 + i, i, 0, 0);
	fake_l2_clear(&r->l2);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 5);
	for (uint32_t i = 0; i < 5; i++)
		check_frame(r, i, 100 + i, i);
}

/* Who reads in the guest has room for some 90 datagrams: of runs it is their datagrams that count */
static void test_host_budget_runs(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->l2.l2.takes = OFFLOADS;
	arrive(r, f->h, 40 * 1000, 0, 1000, 0);
	ready(r, f, EV_IN);			/* how long the runs are shows in the first turn */
	assert_int_equal(r->l2.cnt, 1);
	assert_true(r->p.udp_burst);
	assert_int_equal(r->p.udp_given, 40);
	for (int i = 0; i < 5; i++)
		arrive(r, f->h, 40 * 1000, 0, 1000, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1 + 2);
	assert_int_equal(r->p.udp_given, 40 + 2 * 40);
	go_on(r, f);
	go_on(r, f);
	assert_int_equal(r->l2.cnt, 1 + 5);
	assert_false(f->ready);
	arrive(r, f->h, 10, 0, 0, 0);
	ready(r, f, EV_IN);
	for (int i = 0; i < 5; i++)		/* single ones again */
		arrive(r, f->h, 10, 0, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1 + 5 + 1 + 1);	/* joined, as equal ones are */
}

/* A flow that is never empty gives way, and goes on */
static void test_host_budget(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	for (uint32_t i = 0; i < PROTO_SCRATCH_SLOTS + 8; i++)
		arrive(r, f->h, 10 + i, i, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, PROTO_SCRATCH_SLOTS);
	assert_int_equal(r->p.ready_first, flow_idx(&r->flows, f));
	assert_true(r->p.udp_burst);
	r->p.udp_burst = false;
	go_on(r, f);
	assert_int_equal(r->l2.cnt, PROTO_SCRATCH_SLOTS + 8);
	assert_false(f->ready);
	assert_true(r->p.udp_burst);
	r->p.udp_burst = false;
	arrive(r, f->h, 10, 0, 0, 0);			/* a single answer hurries nobody */
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, PROTO_SCRATCH_SLOTS + 9);
	assert_false(r->p.udp_burst);
}

static void test_host_foreign(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const struct sk_dgram d = { .to_from = { .a = r->far, .port = FAR_PORT + 1 } };

	fake_dg_arrive(&r->dg, f->h, &d, "x", 1);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->drops.cnt[DROP_UDP_FOREIGN], 1);
}

/* ---- published ports */

static void test_listen(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	const struct inaddr local = rig_addr(r->v4 ? "203.0.113.9" : "2001:db8:9::9");
	const struct ev_hit hit = { .mask = EV_IN };
	struct rig_in in;
	struct flow *f;

	r->l2.l2.takes = OFFLOADS;
	come(r, &l, &r->far, FAR_PORT, &local, 100);
	come(r, &l, &r->far, FAR_PORT, &local, 100);
	come(r, &l, &r->far, 1234, &local, 20);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->dg.open_cnt, 0);
	assert_int_equal(r->flows.cnt, 2);
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(r->l2.frames[0].gso_size, 100);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.dst, &r->guest);
	assert_int_equal(bytes_get16(rig_frame(&r->l2.frames[1]).l4), 1234);
	/* U04: the answer leaves from the address that was asked */
	put(r, &r->far, 3, 0, 1);
	f = push(r, &r->far);
	assert_int_equal(r->dg.open_cnt, 0);
	assert_int_equal(r->dg.sent[0].h, 50);
	rig_same(&r->dg.sent[0].d.to_from.a, &r->far);
	assert_int_equal(r->dg.sent[0].d.to_from.port, FAR_PORT);
	assert_int_equal(r->dg.sent[0].d.to_from.scope, 7);
	rig_same(&r->dg.sent[0].d.local.a, &local);
	assert_int_not_equal(r->dg.sent[0].d.local.port, 0);
	/* the end of a flow leaves the socket alone; so does the end of the port */
	r->env.now += 121 * NS_S;
	udp_timer(&r->p, f);
	assert_int_equal(r->flows.cnt, 1);
	udp_listener_gone(&r->p, 50);
	assert_int_equal(r->flows.cnt, 0);
}

/* A published port's target, the host's loopback as a peer, groups */
static void test_listen_addresses(void **state)
{
	struct rig *r = *state;
	const struct inaddr target = rig_addr(r->v4 ? "192.0.2.99" : "2001:db8::99");
	const struct inaddr group = rig_addr(r->v4 ? "239.1.2.3" : "ff05::3"), none = rig_addr(r->v4 ? "0.0.0.0" : "::");
	struct udp_listener l = { .h = 50, .port = GUEST_PORT, .target = target };
	const struct ev_hit hit = { .mask = EV_IN };
	struct rig_in in;

	come(r, &l, &r->loop, 99, &r->loop, 1);
	udp_listen(&r->p, &l, &hit);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.src, &r->router);
	rig_same(&in.ip.dst, &target);
	l.target = (struct inaddr){ { 0 } };
	come(r, &l, &r->far, FAR_PORT, &group, 1);
	udp_listen(&r->p, &l, &hit);
	in = rig_frame(&r->l2.frames[1]);
	rig_same(&in.ip.dst, &group);
	put(r, &r->far, 3, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.sent[0].h, 50);
	assert_int_equal(r->dg.sent[0].d.local.port, 0);
	/* nobody there yet */
	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].guest = r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].seen = none;
	come(r, &l, &r->far, 1, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->drops.cnt[DROP_UDP_NO_GUEST], 1);
	come(r, &l, &r->far, 0, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], 1);
	assert_int_equal(r->l2.cnt, 2);
}

/* A server on all of the guest's addresses may answer from another one than was asked */
static void test_listen_answer_from_other(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	const struct ev_hit hit = { .mask = EV_IN };
	struct proto_pkt *k;
	struct flow_key key;

	come(r, &l, &r->far, FAR_PORT, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	k = put(r, &r->far, 3, 0, 1);
	k->ip.src = rig_addr(r->v4 ? "192.0.2.11" : "2001:db8::11");
	key = key_of(r, &r->far);
	key.guest = k->ip.src;
	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].seen = k->ip.src;	/* as path has noted it */
	udp_guest(&r->p, &key, NULL, r->pkt, 0);
	assert_int_equal(r->dg.open_cnt, 0);
	assert_int_equal(r->dg.sent[0].h, 50);
	assert_int_equal(r->flows.cnt, 1);
	/* to somebody else it is a flow of its own */
	key.far_port++;
	udp_guest(&r->p, &key, NULL, r->pkt, 0);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->flows.cnt, 2);
}

/* The guest's own flow for the same tuple keeps its socket */
static void test_listen_meets_guest_flow(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	struct flow *f = open_flow(r);
	const struct ev_hit hit = { .mask = EV_IN };

	come(r, &l, &r->far, FAR_PORT, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_int_equal(r->flows.cnt, 1);
	assert_int_equal(r->l2.cnt, 1);
	put(r, &r->far, 3, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.sent[0].h, f->h);
	assert_int_equal(f->h, 100);
}

/* ---- time-outs */

static void test_timeout(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f = open_flow(r);
	ns_t due;

	/* a datagram does not touch the timer */
	due = twheel_next(&r->tw);
	r->env.now = t0 + 20 * NS_S;
	put(r, &r->far, 1, 0, 1);
	push(r, &r->far);
	assert_true(twheel_next(&r->tw) == due);
	assert_int_equal(run_until(r, t0 + 31 * NS_S), 1);
	/* answered, and more than one: a stream */
	r->env.now = t0 + 40 * NS_S;
	arrive(r, f->h, 1, 0, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(run_until(r, t0 + 51 * NS_S), 1);
	assert_int_equal(run_until(r, t0 + 159 * NS_S), 1);
	assert_false(r->dg.opened[0].closed);
	assert_int_equal(run_until(r, t0 + 161 * NS_S), 0);
	assert_true(r->dg.opened[0].closed);
	assert_true(r->p.flow_gone);
}

static void test_timeout_oneway(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f = open_flow(r);

	arrive(r, f->h, 1, 0, 0, 0);		/* one request, one reply */
	ready(r, f, EV_IN);
	assert_int_equal(run_until(r, t0 + 29 * NS_S), 1);
	assert_int_equal(run_until(r, t0 + 31 * NS_S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_guest_opens),
		RIG_BOTH(test_guest_translated),
		RIG_BOTH(test_guest_bad),
		RIG_BOTH(test_guest_joins),
		RIG_BOTH(test_guest_does_not_join),
		RIG_BOTH(test_guest_uso),
		RIG_BOTH(test_guest_full_batch),
		RIG_BOTH(test_guest_send_errors),
		RIG_BOTH(test_host_single),
		RIG_BOTH(test_host_csum_zero),
		RIG_BOTH(test_host_joins),
		RIG_BOTH(test_host_join_limits),
		RIG_BOTH(test_host_too_big),
		RIG_BOTH(test_host_link_full),
		RIG_BOTH(test_host_budget), RIG_BOTH(test_host_budget_runs),
		RIG_BOTH(test_host_foreign),
		RIG_BOTH(test_listen),
		RIG_BOTH(test_listen_addresses),
		RIG_BOTH(test_listen_answer_from_other),
		RIG_BOTH(test_listen_meets_guest_flow),
		RIG_BOTH(test_timeout),
		RIG_BOTH(test_timeout_oneway),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
