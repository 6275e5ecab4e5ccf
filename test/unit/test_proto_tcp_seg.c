/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments towards the guest, byte by byte: headers, options, descriptors for
 * checksum and segmentation, and the reset for what belongs to nothing.
 */
#include <string.h>

#include "base/csum.h"
#include "rig_tcp.h"

/* The only frame sent: its TCP header parsed, the rest checked */
static struct wire_tcp only(struct rig *r)
{
	const struct fake_l2_frame *f = &r->l2.frames[0];
	uint32_t l4 = proto_l4_off(&r->key.far);
	struct iovec iov = { f->buf + l4, f->len - l4 };
	struct view v = view_of(&iov, f->len - l4);
	struct wire_tcp h;

	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(f->csum, L2_CSUM_PARTIAL);
	assert_int_equal(f->csum_start, l4);
	assert_int_equal(f->csum_off, 16);
	assert_int_equal(bytes_get16(f->buf + l4 + 16),
			 csum_fold(csum_pseudo(&r->key.far, &r->key.guest, WIRE_IP_TCP, f->len - l4)));
	assert_memory_equal(f->buf, "\2\0\0\0\0\2\2\0\0\0\0\1", 12);
	assert_int_equal(wire_tcp_parse(&v, &h), 0);
	assert_int_equal(h.sport, 80);
	assert_int_equal(h.dport, 40000);
	fake_l2_clear(&r->l2);
	return h;
}

static void test_plain(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;

	rig_open(r, true);
	r->t->ack_due = true;
	r->t->ack_at = 5;
	assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
	h = only(r);
	assert_int_equal(h.seq, r->t->iss + 1);
	assert_int_equal(h.ack, RIG_ISN + 1);
	assert_int_equal(h.wnd, 262144 >> 8);
	assert_int_equal(h.flags, WIRE_TCP_ACK);
	assert_false(r->t->ack_due);				/* it settles what is owed */
	assert_int_equal(r->t->ack_at, NS_NEVER);
	r->t->ack_due = true;
	assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_RST, 7));
	h = only(r);
	assert_int_equal(h.flags, WIRE_TCP_RST);
	assert_int_equal(h.ack, 0);
	assert_int_equal(h.wnd, 0);
	assert_true(r->t->ack_due);
	fake_l2_refuse_after(&r->l2, 0);
	assert_false(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
	assert_true(r->t->ack_due);				/* not sent: still owed */
}

static void test_syn(void **state)
{
	struct rig *r = *state;
	uint32_t hdrs = wire_ip_hdr_len(&r->key.far) + WIRE_TCP_LEN;
	struct wire_tcp h;

	rig_open(r, false);
	r->t->syn_flags = WIRE_TCP_SYN;
	r->t->syn_wnd = 65535;
	assert_true(tcp_emit_syn(&r->p, r->f));
	h = only(r);
	assert_int_equal(h.seq, r->t->iss);
	assert_int_equal(h.ack, 0);
	assert_true(h.has_mss && h.has_ws && h.has_sack_ok && h.has_ts);
	assert_int_equal(h.ts_ecr, 0);
	assert_int_equal(h.mss, 1500 - hdrs);
	assert_int_equal(h.ws, TCP_WS_OURS);
	assert_int_equal(h.wnd, 65535);
	r->t->syn_flags = WIRE_TCP_SYN | WIRE_TCP_ACK;
	assert_true(tcp_emit_syn(&r->p, r->f));
	h = only(r);
	assert_int_equal(h.ack, RIG_ISN + 1);
	assert_false(h.has_ws || h.has_sack_ok || h.has_ts);	/* the guest offered none of them */
	r->t->guest_has_ws = r->t->sack_on = r->t->ts_on = true;
	r->t->ts_recent = 77;
	assert_true(tcp_emit_syn(&r->p, r->f));
	h = only(r);
	assert_true(h.has_ws && h.has_sack_ok && h.has_ts);
	assert_int_equal(h.ts_ecr, 77);
}

static void test_descriptor(void **state)
{
	struct rig *r = *state;
	struct l2_frame fr = { .gso = L2_GSO_NONE };
	uint32_t hdr = proto_l4_off(&r->key.far) + WIRE_TCP_LEN;

	rig_open(r, true);
	tcp_data_desc(r->f, &fr, hdr, 1400);
	assert_int_equal(fr.len, hdr + 1400);
	assert_int_equal(fr.gso, L2_GSO_NONE);
	tcp_data_desc(r->f, &fr, hdr, 1401);
	assert_int_equal(fr.gso, inaddr_is_v4(&r->key.far) ? L2_GSO_TCP4 : L2_GSO_TCP6);
	assert_int_equal(fr.gso_size, 1400);
	assert_int_equal(fr.hdr_len, hdr);
	assert_int_equal(fr.csum_start, proto_l4_off(&r->key.far));
}

/* Each combination that a guest may offer: agreed on exactly that, in its role and in ours, and paid for by the MSS */
static void test_offers(void **state)
{
	struct rig *r = *state;
	uint32_t ip = wire_ip_hdr_len(&r->key.far), n;
	struct wire_tcp h;

	for (unsigned opts = 0; opts < 8; opts++) {
		rig_open_opts(r, opts);
		assert_int_equal(r->t->sack_on, !!(opts & RIG_OPT_SACK));
		assert_int_equal(r->t->ts_on, !!(opts & RIG_OPT_TS));
		assert_int_equal(r->t->mss, 1400 - (opts & RIG_OPT_TS ? 12 : 0));
		assert_true(tcp_emit_syn(&r->p, r->f));
		h = only(r);
		assert_int_equal(h.has_sack_ok, !!(opts & RIG_OPT_SACK));
		assert_int_equal(h.has_ts, !!(opts & RIG_OPT_TS));
		assert_int_equal(h.has_ws, !!(opts & RIG_OPT_WS));
		assert_int_equal(h.mss, 1500 - ip - WIRE_TCP_LEN);	/* options are not part of it (RFC 6691 2) */
		if (opts & RIG_OPT_TS)
			assert_int_equal(h.ts_ecr, RIG_TS);
		tcp_abort(&r->p, r->f);
	}
	for (unsigned opts = 0; opts < 8; opts++) {
		const struct tcp_incoming incoming = { .peer = { .a = r->key.far, .port = 80 }, .target = r->key.guest, .port = 40000 };
		struct tcp_seg s = { .h = { .seq = RIG_ISN, .wnd = 65535, .flags = WIRE_TCP_SYN | WIRE_TCP_ACK, .has_mss = true,
					    .mss = 9000, .has_ws = opts & RIG_OPT_WS, .has_sack_ok = opts & RIG_OPT_SACK,
					    .has_ts = opts & RIG_OPT_TS, .ts_val = RIG_TS }, .next = FLOW_NONE };

		assert_int_equal(tcp_accepted(&r->p, fake_sk_accepted(&r->sk), &incoming), 0);
		h = only(r);
		assert_true(h.has_mss && h.has_ws && h.has_sack_ok && h.has_ts);
		r->f = flow_find(&r->flows, &r->key);
		r->t = flow_body(r->f);
		s.h.ack = r->t->iss + 1;
		tcp_guest(&r->p, r->f, &s, 0);
		h = only(r);
		assert_int_equal(r->t->phase, TCP_PHASE_OPEN);
		assert_int_equal(h.has_ts, !!(opts & RIG_OPT_TS));
		assert_int_equal(r->t->sack_on, !!(opts & RIG_OPT_SACK));
		n = 1500 - ip - WIRE_TCP_LEN - (opts & RIG_OPT_TS ? 12 : 0);
		assert_int_equal(r->t->mss, n);
		tcp_abort(&r->p, r->f);
	}
}

/* Frames with timestamps: segments fit the MTU, super-frames the 65535 bytes of an IP packet */
static void test_data_sizes(void **state)
{
	static uint8_t data[200000];
	struct rig *r = *state;
	uint32_t hdrs = wire_ip_hdr_len(&r->key.far) + WIRE_TCP_LEN + TCP_TS_LEN, len;
	struct wire_tcp h;

	r->l2.l2.mtu = 1300;			/* below the guest's MSS: that of the link counts */
	rig_open_opts(r, RIG_OPT_WS | RIG_OPT_TS);
	assert_int_equal(r->t->mss, 1300 - hdrs);
	r->t->wnd = r->t->wnd_max = sizeof(data);
	fake_sk_feed(&r->sk, r->f->h, data, sizeof(data));
	r->t->host_more = true;
	assert_true(tcp_push(&r->p, r->f));
	assert_true(r->l2.cnt > 2);
	len = rig_frame(r, 0, &h);
	assert_true(h.has_ts);
	assert_int_equal(r->l2.frames[0].gso_size, r->t->mss);
	assert_int_equal(r->l2.frames[0].hdr_len, WIRE_ETH_LEN + hdrs);
	assert_int_equal(len, (65535 - hdrs) / r->t->mss * r->t->mss);
	assert_true(r->l2.frames[0].len - WIRE_ETH_LEN <= 65535);
}

/* The least MSS that counts, with the options' room taken from it */
static void test_least_mss(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h = { .has_mss = true, .mss = 1, .has_ts = true };

	rig_open_opts(r, RIG_OPT_TS);
	tcp_take_syn(&r->p, r->f, &h);
	assert_int_equal(r->t->mss, TCP_MSS_MIN - TCP_TS_LEN);
	h.has_ts = false;
	tcp_take_syn(&r->p, r->f, &h);
	assert_int_equal(r->t->mss, TCP_MSS_MIN);
}

/* Four blocks, three beside timestamps (RFC 2018 3); none on data, none without agreement */
static void test_blocks(void **state)
{
	struct rig *r = *state;
	struct iovec iov = { (uint8_t[10]){ 0 }, 10 };
	struct view v = view_of(&iov, 10);
	struct wire_tcp h;

	rig_pool(r, 100);
	for (unsigned opts = 0; opts < 8; opts++) {
		rig_open_opts(r, opts);
		for (uint32_t i = 1; i < 7; i++)
			assert_true(tcp_kept_add(&r->p, r->f, r->t->rcv_nxt + 100 * i, &v));
		assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
		h = only(r);
		assert_int_equal(h.sack_cnt, !(opts & RIG_OPT_SACK) ? 0 : opts & RIG_OPT_TS ? 3 : 4);
		assert_int_equal(h.sack[0].from, opts & RIG_OPT_SACK ? r->t->rcv_nxt + 600 : 0);
		assert_int_equal(h.sack[1].from, opts & RIG_OPT_SACK ? r->t->rcv_nxt + 100 : 0);
		assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_RST, 5));
		assert_int_equal(only(r).sack_cnt, 0);
		tcp_abort(&r->p, r->f);
		assert_int_equal(r->pool.used, 0);
	}
}

/* RFC 2883 4: what came twice, before the ranges, in no more room; told once, and again if the link did not take it */
static void test_twice(void **state)
{
	struct rig *r = *state;
	struct iovec iov = { (uint8_t[10]){ 0 }, 10 };
	struct view v = view_of(&iov, 10);
	struct wire_tcp h;

	rig_pool(r, 100);
	rig_open_opts(r, RIG_OPT_SACK | RIG_OPT_TS);
	r->t->twice = (struct tcp_range){ r->t->rcv_nxt - 100, r->t->rcv_nxt - 50 };
	for (uint32_t i = 1; i < 5; i++)
		assert_true(tcp_kept_add(&r->p, r->f, r->t->rcv_nxt + 100 * i, &v));
	r->t->twice_due = true;
	fake_l2_refuse_after(&r->l2, 0);
	assert_false(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
	fake_l2_refuse_after(&r->l2, UINT32_MAX);
	assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
	h = only(r);
	assert_int_equal(h.sack_cnt, 3);
	assert_int_equal(h.sack[0].from, r->t->rcv_nxt - 100);
	assert_int_equal(h.sack[0].to, r->t->rcv_nxt - 50);
	assert_int_equal(h.sack[1].from, r->t->rcv_nxt + 400);
	assert_int_equal(h.sack[2].from, r->t->rcv_nxt + 100);
	assert_true(tcp_emit(&r->p, r->f, WIRE_TCP_ACK, r->t->max));
	h = only(r);
	assert_int_equal(h.sack_cnt, 3);
	assert_int_equal(h.sack[0].from, r->t->rcv_nxt + 400);
}

/* RFC 9293 3.10.7.1 */
static void test_stray_reset(void **state)
{
	static const struct { uint8_t flags; uint32_t len, want_seq, want_ack; uint8_t want; } c[] = {
		{ WIRE_TCP_ACK, 10, 77, 0, WIRE_TCP_RST },
		{ WIRE_TCP_SYN | WIRE_TCP_ACK, 0, 77, 0, WIRE_TCP_RST },
		{ 0, 10, 0, 510, WIRE_TCP_RST | WIRE_TCP_ACK },
		{ WIRE_TCP_SYN, 0, 0, 501, WIRE_TCP_RST | WIRE_TCP_ACK },
		{ WIRE_TCP_SYN | WIRE_TCP_FIN, 3, 0, 505, WIRE_TCP_RST | WIRE_TCP_ACK },
	};
	struct rig *r = *state;
	uint8_t data[16] = { 0 };
	struct iovec iov = { data, sizeof(data) };

	for (size_t i = 0; i < BYTES_COUNT(c); i++) {
		const struct tcp_seg s = { .h = { .seq = 500, .ack = 77, .flags = c[i].flags }, .data = view_of(&iov, c[i].len) };
		struct wire_tcp h;

		tcp_emit_stray_rst(&r->p, &r->key, &s);
		h = only(r);
		assert_int_equal(h.flags, c[i].want);
		assert_int_equal(h.seq, c[i].want_seq);
		assert_int_equal(h.ack, c[i].want_ack);
		assert_int_equal(h.wnd, 0);
	}
	{
		const struct tcp_seg s = { .h = { .seq = 500, .ack = 77, .flags = WIRE_TCP_RST | WIRE_TCP_ACK } };

		tcp_emit_stray_rst(&r->p, &r->key, &s);		/* never in answer to one */
		assert_int_equal(r->l2.cnt, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_plain), RIG_BOTH(test_syn), RIG_BOTH(test_descriptor), RIG_BOTH(test_stray_reset),
		RIG_BOTH(test_offers), RIG_BOTH(test_data_sizes), RIG_BOTH(test_least_mss), RIG_BOTH(test_blocks),
		RIG_BOTH(test_twice),
	};

	return cmocka_run_group_tests_name("proto/tcp/seg", tests, NULL, NULL);
}
