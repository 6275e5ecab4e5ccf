/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/icmp/raw.c: many flows at one raw socket, and what it must not believe.
 */
#include "rig_proto.h"

#include <errno.h>

#include "proto/icmp.h"
#include "proto/ping.h"

#define RAW_H	70
#define HIGH	0xab
#define ID	0x1234

static struct ping_raw raws[FWD_FAMILIES];

static struct ping_raw *raw(struct rig *r)
{
	for (int f = 0; f < FWD_FAMILIES; f++)
		raws[f] = (struct ping_raw){ .h = -1 };
	raws[r->v4 ? FWD_V4 : FWD_V6] = (struct ping_raw){ .h = RAW_H, .high = HIGH };
	r->p.ping_raw = raws;
	r->dg.fail_open = -EACCES;
	return &raws[r->v4 ? FWD_V4 : FWD_V6];
}

static struct flow *request(struct rig *r, const struct inaddr *dst, uint16_t id, uint16_t seq, uint32_t len)
{
	const struct wire_icmp h = { .type = r->v4 ? WIRE_ICMP4_ECHO : WIRE_ICMP6_ECHO, .id = id, .seq = seq };
	const struct flow_key k = { r->guest, *dst, id, 0, FLOW_PING };
	uint8_t b[2000];

	wire_icmp_emit(b, &h, NULL, NULL, NULL);
	rig_pattern(b + WIRE_ICMP_LEN, len, seq);
	rig_pkt(r, dst, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, b, WIRE_ICMP_LEN + len, 4);
	ping_guest(&r->p, &r->pkt[0]);
	r->pkt_cnt = 0;
	return flow_find(&r->flows, &k);
}

static void answer(struct rig *r, const struct inaddr *from, uint16_t id, uint16_t seq)
{
	const struct sk_dgram d = { .to_from = { .a = *from } };
	uint8_t b[WIRE_ICMP_LEN + 4] = { r->v4 ? WIRE_ICMP4_ECHO_REPLY : WIRE_ICMP6_ECHO_REPLY };

	bytes_put16(b + 4, id);
	bytes_put16(b + 6, seq);
	fake_dg_arrive(&r->dg, RAW_H, &d, b, sizeof(b));
}

static void event(struct rig *r, struct ping_raw *x, uint32_t mask)
{
	const struct ev_hit hit = { .mask = mask };

	ping_raw_host(&r->p, x, &hit);
}

static uint16_t sent_id(const struct rig *r, uint32_t i)
{
	return bytes_get16(r->dg.sent[i].data + 4);
}

/* Two flows, each with an identifier of its own in the block, the checksum where the kernel leaves it to us */
static void test_flows(void **state)
{
	struct rig *r = *state;
	struct ping_raw *x = raw(r);
	const struct inaddr other = rig_addr(r->v4 ? "198.51.100.8" : "2001:db8:f::8");
	struct rig_in in;

	request(r, &r->far, ID, 1, 100);
	request(r, &other, ID, 2, 100);
	assert_int_equal(r->dg.sent_cnt, 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(r->dg.sent[i].h, RAW_H);
		assert_int_equal(sent_id(r, i) >> 8, HIGH);
		assert_int_equal(r->dg.sent[i].d.to_from.port, r->v4 ? 1 : 58);
		rig_same(&r->dg.sent[i].d.to_from.a, i ? &other : &r->far);
		assert_int_equal(bytes_get16(r->dg.sent[i].data + 6), i + 1);
		if (r->v4)
			assert_int_equal(csum_done(csum_add(0, r->dg.sent[i].data, r->dg.sent[i].d.len)), 0);
	}
	assert_int_not_equal(sent_id(r, 0), sent_id(r, 1));
	answer(r, &other, sent_id(r, 1), 2);
	answer(r, &r->far, sent_id(r, 0), 1);
	event(r, x, EV_IN);
	assert_int_equal(r->l2.cnt, 2);
	for (uint32_t i = 0; i < 2; i++) {
		in = rig_frame(&r->l2.frames[i]);
		rig_same(&in.ip.src, i ? &r->far : &other);
		assert_int_equal(bytes_get16(in.l4 + 4), ID);
		assert_int_equal(bytes_get16(in.l4 + 6), i ? 1 : 2);
		assert_int_equal(rig_csum(&in, !r->v4), 0);
	}
	assert_int_equal(r->drops.cnt[DROP_ICMP_FOREIGN], 0);
}

/* The source that -o asks for goes along */
static void test_source(void **state)
{
	struct rig *r = *state;
	struct fwd_family_set *fam = &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];

	raw(r);
	request(r, &r->far, ID, 1, 8);
	assert_int_equal(r->dg.sent[0].d.local.port, 0);
	fam->outbound = rig_addr(r->v4 ? "192.0.2.77" : "2001:db8::77");
	request(r, &r->far, ID, 2, 8);
	assert_int_not_equal(r->dg.sent[1].d.local.port, 0);
	rig_same(&r->dg.sent[1].d.local.a, &fam->outbound);
}

/* From elsewhere, of another block, of nobody, too short, no reply */
static void test_foreign(void **state)
{
	struct rig *r = *state;
	struct ping_raw *x = raw(r);
	const struct sk_dgram d = { .to_from = { .a = r->far } };
	uint16_t id;

	request(r, &r->far, ID, 1, 8);
	id = sent_id(r, 0);
	answer(r, &r->router, id, 1);
	answer(r, &r->far, id ^ 0x100, 1);
	answer(r, &r->far, id ^ 1, 1);
	fake_dg_arrive(&r->dg, RAW_H, &d, "\0\0\0\0", 4);
	event(r, x, EV_IN);
	assert_int_equal(r->drops.cnt[DROP_ICMP_FOREIGN], 4);
	assert_int_equal(r->l2.cnt, 0);
}

/* The error queue: by the quote, or, if our own kernel wrote it, by where it went */
static void test_errors(void **state)
{
	struct rig *r = *state;
	struct ping_raw *x = raw(r);
	const struct inaddr hop = rig_addr(r->v4 ? "203.0.113.1" : "2001:db8:1::1");
	struct sk_err e = {
		.code = EHOSTUNREACH, .icmp_type = r->v4 ? 11 : 3, .to = { .a = r->far }, .offender = { .a = hop },
	};
	uint8_t b[WIRE_ICMP_LEN + 8] = { r->v4 ? 8 : 128 };
	struct rig_in in;

	request(r, &r->far, ID, 7, 8);
	bytes_put16(b + 4, sent_id(r, 0));
	bytes_put16(b + 6, 7);
	fake_dg_error(&r->dg, RAW_H, &e, b, sizeof(b));
	b[5] ^= 1;
	fake_dg_error(&r->dg, RAW_H, &e, b, sizeof(b));
	e.to.a = hop;
	fake_dg_error(&r->dg, RAW_H, &e, "", 0);
	e = (struct sk_err){ .code = ENETUNREACH, .local = true, .to = { .a = r->far } };
	fake_dg_error(&r->dg, RAW_H, &e, "", 0);
	event(r, x, EV_ERR);
	assert_int_equal(r->l2.cnt, 2);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.src, &hop);
	assert_int_equal(bytes_get16(in.l4 + WIRE_ICMP_LEN + wire_ip_hdr_len(&hop) + 4), ID);
	in = rig_frame(&r->l2.frames[1]);
	assert_int_equal(in.l4[0], r->v4 ? 3 : 1);
	assert_int_equal(bytes_get16(in.l4 + WIRE_ICMP_LEN + wire_ip_hdr_len(&hop) + 6), 7);
}

/* The end of a flow frees its identifier and leaves the socket open; without a raw socket nothing is different */
static void test_end(void **state)
{
	struct rig *r = *state;
	struct ping_raw *x = raw(r);

	x->next = PING_RAW_IDS - 10;		/* comes round */
	for (uint32_t n = 0; n < 40; n++) {
		struct flow *f = request(r, &r->far, (uint16_t)n, 1, 0);

		assert_int_equal(f->h, RAW_H);
		if (n % 2)
			fake_dg_clear(&r->dg);
		ping_end(&r->p, f);
		assert_int_equal(r->flows.cnt, 0);
	}
	for (unsigned i = 0; i < PING_RAW_IDS; i++)
		x->flow[i] = 1000;		/* all taken */
	assert_int_equal(request(r, &r->far, ID, 1, 0)->h, -1);
	assert_int_equal(r->drops.cnt[DROP_NO_DESCRIPTOR], 1);
	ping_end(&r->p, request(r, &r->far, ID, 1, 0));
	x->h = -1;
	r->drops = (struct drops){ { 0 } };
	assert_int_equal(request(r, &r->far, ID, 1, 0)->h, -1);
	assert_int_equal(r->drops.cnt[DROP_PING_OPEN], 1);
	assert_int_equal(r->l2.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_flows),
		RIG_BOTH(test_source),
		RIG_BOTH(test_foreign),
		RIG_BOTH(test_errors),
		RIG_BOTH(test_end),
	};

	return cmocka_run_group_tests_name("proto/icmp/raw", tests, NULL, NULL);
}
