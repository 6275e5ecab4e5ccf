/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The path from the guest: what is refused and how it is counted, what is
 * learned of the guest, and how a batch is grouped by flow. Then one whole
 * conversation with sends inline and deferred: the guest must see the same
 * bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "sim/world.h"

static struct world w;

static int setup_family(void **state)
{
	world_init(&w, *state, false, 1000 * NS_S, 8);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_done(&w);
	return 0;
}

#define BOTH(test) \
	{ #test " IPv4", test, setup_family, teardown, NULL }, { #test " IPv6", test, setup_family, teardown, (void *)1 }

static uint32_t frame_of(uint8_t *p, uint16_t port, uint8_t flags, uint32_t seq, uint32_t ack)
{
	struct world_seg s = { .key = world_key(&w, port, 80), .h = { .sport = port, .dport = 80, .seq = seq, .ack = ack,
								      .flags = flags, .wnd = 1000 } };

	return world_frame(&w, p, &s);
}

/* L2-21: said, in the target's name, with the packet quoted */
static void test_no_protocol(void **state)
{
	uint8_t p[200];
	const uint32_t len = frame_of(p, 40000, WIRE_TCP_SYN, 1, 0), ip_len = w.v6 ? 40 : 20;
	const uint8_t *ip;

	(void)state;
	p[w.v6 ? 20 : 23] = 132;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_int_equal(w.drops.cnt[DROP_IP_PROTO], 1);
	assert_int_equal(w.l2.cnt, 1);
	ip = w.l2.frames[0].buf + WIRE_ETH_LEN;
	assert_memory_equal(ip + (w.v6 ? 8 : 12), p + WIRE_ETH_LEN + (w.v6 ? 24 : 16), w.v6 ? 16 : 4);
	assert_int_equal(ip[ip_len], w.v6 ? 4 : 3);
	assert_int_equal(ip[ip_len + 1], w.v6 ? 1 : 2);
	assert_int_equal(ip[ip_len + 7], w.v6 ? 6 : 0);
	assert_int_equal(ip[ip_len + 8 + (w.v6 ? 6 : 9)], 132);
	assert_memory_equal(ip + ip_len + 8 + ip_len, p + WIRE_ETH_LEN + ip_len, WIRE_TCP_LEN);
	p[WIRE_ETH_LEN + (w.v6 ? 24 : 16)] = w.v6 ? 0xff : 224;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_int_equal(w.drops.cnt[DROP_IP_PROTO], 2);
	assert_int_equal(w.l2.cnt, 1);
}

/* An ICMP error of the guest reaches the flow that it quotes; one about nothing of ours is counted, and no ping */
static void test_icmp_error(void **state)
{
	struct flow_key key = world_key(&w, 40000, 80);
	const uint32_t ip_len = w.v6 ? 40 : 20, len = WIRE_ETH_LEN + ip_len + 8 + ip_len + 8;
	const struct wire_ip ip = { .src = key.guest, .dst = key.far, .proto = w.v6 ? WIRE_IP_ICMP6 : WIRE_IP_ICMP, .ttl = 64 };
	const struct wire_ip in = { .src = key.far, .dst = key.guest, .proto = WIRE_IP_TCP, .ttl = 64 };
	const int h = fake_sk_accepted(&w.sk);
	const struct tcp_incoming from = { .peer = { .a = key.far, .port = 80 }, .target = key.guest, .port = 40000 };
	uint8_t p[200], *l4 = p + WIRE_ETH_LEN + ip_len;

	(void)state;
	w.fwd.icmp_on = true;
	assert_int_equal(tcp_accepted(&w.path.p, h, &from), 0);
	frame_of(p, 40000, 0, 0, 0);
	memset(l4, 0, len - WIRE_ETH_LEN - ip_len);
	wire_ip_emit(p + WIRE_ETH_LEN, &ip, 8 + ip_len + 8);
	l4[0] = w.v6 ? 1 : 3;
	l4[1] = w.v6 ? 4 : 3;
	wire_ip_emit(l4 + 8, &in, 20);
	bytes_put16(l4 + 8 + ip_len, 81);
	bytes_put16(l4 + 8 + ip_len + 2, 40000);
	memcpy(l4 + 8 + ip_len + 4, w.l2.frames[w.l2.cnt - 1].buf + WIRE_ETH_LEN + ip_len + 4, 4);
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_int_equal(w.drops.cnt[DROP_ICMP_QUOTE], 1);
	assert_int_equal(w.drops.cnt[DROP_ICMP_TYPE], 0);
	assert_true(w.sk.s[h].open);
	bytes_put16(l4 + 8 + ip_len, 80);
	w.fwd.icmp_on = false;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_int_equal(w.drops.cnt[DROP_PROTO_OFF], 1);
	assert_true(w.sk.s[h].open);
	w.fwd.icmp_on = true;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_false(w.sk.s[h].open);
}

/* One frame, and the one counter that it moves */
static void refused(const uint8_t *p, uint32_t len, enum drop why)
{
	struct drops before = w.drops;

	world_batch_raw(&w, p, len);
	world_deliver(&w);
	for (int i = 0; i < DROP_CNT; i++)
		if (w.drops.cnt[i] != before.cnt[i] + (i == (int)why))
			fail_msg("counter %d: %llu more, expected %d", i, (unsigned long long)(w.drops.cnt[i] - before.cnt[i]), (int)why);
	assert_int_equal(w.flows.cnt, 0);
	assert_int_equal(w.l2.cnt, 0);
}

static void test_refusals(void **state)
{
	uint8_t good[200], p[200];
	uint32_t len = frame_of(good, 40000, WIRE_TCP_SYN, 1, 0), proto = w.v6 ? 20 : 23, l4 = len - WIRE_TCP_LEN;

	(void)state;
#define FRESH() memcpy(p, good, sizeof(p))
	FRESH();
	refused(p, 13, DROP_L2_SHORT);
	refused(p, 0, DROP_L2_SHORT);
	p[12] = 0x88;
	refused(p, len, DROP_L2_TYPE);
	FRESH();
	refused(p, l4 - 1, DROP_IP_BAD);
	p[14] ^= 0x70;
	refused(p, len, DROP_IP_BAD);
	FRESH();
	p[proto] = 89;
	w.fwd.f[w.v6 ? FWD_V6 : FWD_V4].on = false;
	refused(p, len, DROP_FAMILY_OFF);
	w.fwd.f[w.v6 ? FWD_V6 : FWD_V4].on = true;
	FRESH();
	p[l4 + 12] = 0x40;
	refused(p, len, DROP_TCP_BAD);
	FRESH();
	p[l4 + 2] = p[l4 + 3] = 0;
	refused(p, len, DROP_IP_ADDR);
	FRESH();
	w.fwd.f[w.v6 ? FWD_V6 : FWD_V4].on = false;
	refused(p, len, DROP_FAMILY_OFF);
	w.fwd.f[w.v6 ? FWD_V6 : FWD_V4].on = true;
	w.fwd.tcp_on = false;
	refused(p, len, DROP_PROTO_OFF);
	w.fwd.tcp_on = true;
	p[proto] = WIRE_IP_UDP;
	refused(p, len, DROP_PROTO_OFF);
	if (!w.v6) {
		FRESH();
		p[30] = 127;
		refused(p, len, DROP_IP_LOOPBACK);
		FRESH();
		p[30] = 224;
		refused(p, len, DROP_IP_ADDR);
	} else {
		FRESH();
		memset(p + 38, 0, 15);
		p[53] = 1;
		refused(p, len, DROP_IP_LOOPBACK);
		FRESH();
		p[38] = 0xff;
		refused(p, len, DROP_IP_ADDR);
	}
	/* and the frame as it was opens a flow */
	world_batch_raw(&w, good, len);
	world_deliver(&w);
	assert_int_equal(w.flows.cnt, 1);
}

static void test_learns(void **state)
{
	const struct fwd_family_set *f = &w.fwd.f[w.v6 ? FWD_V6 : FWD_V4];
	struct world_seg s = { .key = world_key(&w, 40000, 80), .h = { .sport = 40000, .dport = 80, .flags = WIRE_TCP_SYN } };
	uint8_t p[200];
	uint32_t len;

	(void)state;
	s.key.guest.b[15] = 77;
	len = world_frame(&w, p, &s);
	p[11] = 9;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_true(inaddr_eq(&f->seen, &s.key.guest));
	assert_int_equal(w.env.guest_mac.b[5], 9);
	p[6] = 0xff;			/* a group address is nobody's own */
	p[11] = 8;
	world_batch_raw(&w, p, len);
	world_deliver(&w);
	assert_int_equal(w.env.guest_mac.b[5], 9);
}

static void open_flow(uint16_t port)
{
	struct flow_key key = world_key(&w, port, 80);
	struct flow *f;
	uint8_t p[200];
	uint32_t iss = world_iss(&w, &key);

	world_batch_raw(&w, p, frame_of(p, port, WIRE_TCP_SYN, 0, 0));
	world_deliver(&w);
	f = flow_find(&w.flows, &key);
	assert_non_null(f);
	w.sk.s[f->h].result = 0;
	world_event(&w, flow_ref(&w.flows, f), EV_OUT);
	world_batch_raw(&w, p, frame_of(p, port, WIRE_TCP_ACK, 1, iss + 1));
	world_deliver(&w);
	w.read = w.l2.cnt;
	world_forget(&w);
}

/* Segments of three flows, shuffled: one send for each flow, in order */
static void test_groups(void **state)
{
	static uint8_t data[64];
	struct world_seg s = { .data = data, .len = 10 };

	(void)state;
	for (uint16_t i = 0; i < 3; i++)
		open_flow((uint16_t)(40000 + i));
	for (uint32_t i = 0; i < 60; i++) {
		uint16_t port = (uint16_t)(40000 + i % 3);
		struct flow_key key = world_key(&w, port, 80);

		s.key = key;
		s.h = (struct wire_tcp){ .sport = port, .dport = 80, .seq = 1 + i / 3 * 10, .flags = WIRE_TCP_ACK, .wnd = 1000,
					 .ack = (uint32_t)hash_sip(&w.env.key, &key, sizeof(key)) + (uint32_t)(w.env.now >> 12) + 1 };
		for (uint32_t b = 0; b < 10; b++)
			data[b] = world_byte(false, i / 3 * 10 + b);
		assert_true(world_batch(&w, &s));
	}
	world_deliver(&w);
	for (int h = 0; h < 3; h++) {
		assert_int_equal(w.sk.s[h].sends, 1);
		assert_int_equal(w.sk.s[h].tx.len, 200);
		for (uint32_t b = 0; b < 200; b++)
			assert_int_equal(w.sk.s[h].tx.p[b], world_byte(false, b));
	}
}

/* A flow that opens, and what follows its SYN, in one batch; and one that ends and opens again */
static void test_in_one_batch(void **state)
{
	struct flow_key key = world_key(&w, 40000, 80);
	uint8_t p[200];

	(void)state;
	world_batch_raw(&w, p, frame_of(p, 40000, WIRE_TCP_SYN, 0, 0));
	world_batch_raw(&w, p, frame_of(p, 40000, WIRE_TCP_SYN, 0, 0));
	world_batch_raw(&w, p, frame_of(p, 40000, WIRE_TCP_RST, 1, 0));
	world_batch_raw(&w, p, frame_of(p, 40000, WIRE_TCP_SYN, 100, 0));
	world_batch_raw(&w, p, frame_of(p, 40000, WIRE_TCP_SYN, 100, 0));
	world_deliver(&w);
	assert_int_equal(w.sk.cnt, 2);
	assert_false(w.sk.s[0].open);
	assert_true(w.sk.s[1].open);
	assert_non_null(flow_find(&w.flows, &key));
	assert_int_equal(w.flows.cnt, 1);
}

struct tape {				/* all frames that the guest saw */
	uint8_t p[400000];
	uint32_t len, frames;
};

static void record(struct tape *t)
{
	for (uint32_t i = 0; i < w.l2.cnt; i++) {
		const struct fake_l2_frame *f = &w.l2.frames[i];

		assert_true(t->len + f->len <= sizeof(t->p));
		memcpy(t->p + t->len, f->buf, f->len);
		t->len += f->len;
		t->frames++;
	}
	w.read = w.l2.cnt;
	world_forget(&w);
}

static void guest_sends(uint8_t flags, uint32_t seq, uint32_t ack, uint32_t len)
{
	static uint8_t data[3000];
	struct flow_key key = world_key(&w, 40000, 80);
	struct world_seg s = { .key = key, .data = data, .len = len,
			       .h = { .sport = 40000, .dport = 80, .seq = seq, .ack = ack, .wnd = 3000, .flags = flags,
				      .has_mss = true, .mss = 1300, .has_ws = true, .ws = 5 } };

	world_batch(&w, &s);
}

static void conversation(bool v6, bool deferred, struct tape *t)
{
	static const uint8_t reply[90000] = { 1, 2, 3 };
	uint32_t iss, seq = 1;
	struct flow *f;
	struct flow_key key;

	world_init(&w, v6, deferred, 1000 * NS_S, 8);
	key = world_key(&w, 40000, 80);
	iss = world_iss(&w, &key);
	t->len = t->frames = 0;
	guest_sends(WIRE_TCP_SYN, 0, 0, 0);
	world_deliver(&w);
	f = flow_find(&w.flows, &key);
	assert_non_null(f);
	w.sk.s[0].result = 0;
	world_event(&w, flow_ref(&w.flows, f), EV_OUT);
	guest_sends(WIRE_TCP_ACK, seq, iss + 1, 0);
	world_deliver(&w);
	for (int i = 0; i < 5; i++) {
		for (int k = 0; k < 4; k++, seq += 700)
			guest_sends(WIRE_TCP_ACK | WIRE_TCP_PSH, seq, iss + 1, 700);
		world_deliver(&w);
		record(t);
		world_advance(&w, NS_MS);
	}
	w.sk.s[0].take = 1000;
	w.sk.s[0].room = (struct sk_room){ .free = 100 };
	guest_sends(WIRE_TCP_ACK, seq, iss + 1, 3000);
	world_deliver(&w);
	w.sk.s[0].take = FAKE_SK_ANY;
	w.sk.s[0].room = (struct sk_room){ .free = 100000, .writable = true };
	world_event(&w, flow_ref(&w.flows, f), EV_OUT);
	guest_sends(WIRE_TCP_ACK | WIRE_TCP_FIN, seq + 1000, iss + 1, 2000);
	world_deliver(&w);
	seq += 3001;
	fake_sk_feed(&w.sk, 0, reply, sizeof(reply));
	w.sk.s[0].eof = true;
	world_event(&w, flow_ref(&w.flows, f), EV_IN | EV_RDHUP);
	record(t);
	guest_sends(WIRE_TCP_ACK, seq, iss + 1 + sizeof(reply), 0);
	world_deliver(&w);
	guest_sends(WIRE_TCP_ACK, seq, iss + 2 + sizeof(reply), 0);
	world_deliver(&w);
	assert_false(w.sk.s[0].open);
	assert_int_equal(w.sk.s[0].how, SK_END_GRACEFUL);
	assert_int_equal(w.sk.s[0].tx.len, seq - 2);
	world_advance(&w, 3 * NS_S);
	assert_int_equal(w.flows.cnt, 0);
	record(t);
	world_done(&w);
}

static void test_same_bytes(void **state)
{
	static struct tape inl, def;

	(void)state;
	for (int v6 = 0; v6 < 2; v6++) {
		conversation(v6, false, &inl);
		conversation(v6, true, &def);
		assert_true(inl.frames > 10);
		assert_int_equal(inl.frames, def.frames);
		assert_int_equal(inl.len, def.len);
		assert_memory_equal(inl.p, def.p, inl.len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_no_protocol), BOTH(test_icmp_error),
		BOTH(test_refusals), BOTH(test_learns), BOTH(test_groups), BOTH(test_in_one_batch),
		cmocka_unit_test(test_same_bytes),
	};

	return cmocka_run_group_tests_name("path/guest", tests, NULL, NULL);
}
