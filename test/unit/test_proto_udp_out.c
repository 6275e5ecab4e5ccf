/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp/udp_out.c: datagrams of the host become frames, super-frames and fragments, in order and byte for byte.
 */
#include "rig_udp.h"

#include "../../src/proto/udp/udp_priv.h"

#define POOL		(1u << 20)

struct out {
	struct rig *r;
	struct udp_outs *o;
	struct flow *f;
	uint8_t *pool;			/* POOL bytes by pattern: where datagrams "were received" */
};

static int setup(void **state)
{
	struct out *x = calloc(1, sizeof(*x));
	void *s = *state;

	if (rig_setup(&s))
		return -1;
	x->r = s;
	x->o = malloc(sizeof(*x->o));
	memset(x->o, 0xa5, sizeof(*x->o));	/* init sets what counts */
	udp_outs_init(x->o, &x->r->p);
	x->f = open_flow(x->r);
	x->r->l2.l2.takes = OFFLOADS;
	x->pool = malloc(POOL);
	rig_pattern(x->pool, POOL, 3);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct out *x = *state;
	void *s = x->r;

	free(x->o);
	free(x->pool);
	free(x);
	return rig_teardown(&s);
}

/* Bytes AT of the pool, LEN of them, in datagrams of SEG if that is not 0 */
static void add(struct out *x, uint32_t at, uint32_t len, uint16_t seg)
{
	const struct sk_dgram d = { .iov = { { x->pool + at, POOL - at } }, .iov_cnt = 1, .len = len, .seg = seg };

	udp_out_add(x->o, x->f, &x->r->guest, &d);
}

/* Frame I holds bytes AT of the pool, LEN of them, in datagrams of SEG */
static void check(struct out *x, uint32_t i, uint32_t at, uint32_t len, uint32_t seg)
{
	const struct rig *r = x->r;
	const struct fake_l2_frame *f = &r->l2.frames[i];
	const struct rig_in in = rig_frame(f);

	assert_true(i < r->l2.cnt);
	rig_same(&in.ip.src, &r->far);
	rig_same(&in.ip.dst, &r->guest);
	assert_int_equal(in.ip.proto, WIRE_IP_UDP);
	assert_int_equal(bytes_get16(in.l4), FAR_PORT);
	assert_int_equal(bytes_get16(in.l4 + 2), GUEST_PORT);
	assert_int_equal(in.l4_len, WIRE_UDP_LEN + len);
	assert_int_equal(bytes_get16(in.l4 + 4), in.l4_len);
	assert_int_equal(f->len, proto_l4_off(&r->far) + in.l4_len);
	assert_int_equal(f->gso, seg ? L2_GSO_UDP : L2_GSO_NONE);
	assert_int_equal(f->gso_size, seg);
	assert_int_equal(f->hdr_len, proto_l4_off(&r->far) + WIRE_UDP_LEN);
	if (r->l2.l2.takes & L2_OFF_CSUM) {
		assert_int_equal(f->csum, L2_CSUM_PARTIAL);
		assert_int_equal(f->csum_start, proto_l4_off(&r->far));
		assert_int_equal(f->csum_off, 6);
		assert_int_equal(bytes_get16(in.l4 + 6), csum_fold(csum_pseudo(&r->far, &r->guest, 17, in.l4_len)));
	} else {
		assert_int_equal(f->csum, L2_CSUM_COMPLETE);
		assert_int_equal(f->csum_start, 0);
		assert_int_equal(f->csum_off, 0);
		assert_int_equal(rig_csum(&in, true), 0);
	}
	assert_memory_equal(in.l4 + WIRE_UDP_LEN, x->pool + at, len);
}

/* Equal ones and a shorter last one; the bytes may lie anywhere */
static void test_joins(void **state)
{
	struct out *x = *state;

	add(x, 0, 1000, 0);
	add(x, 1000, 1000, 0);		/* right behind: one piece of memory */
	assert_int_equal(x->o->piece_cnt, 1);
	add(x, 5000, 1000, 0);
	assert_int_equal(x->o->piece_cnt, 2);
	add(x, 9000, 1, 0);		/* ends the run */
	add(x, 9001, 1, 0);
	assert_int_equal(x->r->l2.cnt, 0);	/* nothing leaves before the flush */
	memcpy(x->pool + 2000, x->pool + 5000, 1000);	/* the bytes in the order of the frame */
	memcpy(x->pool + 3000, x->pool + 9000, 1);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 2);
	check(x, 0, 0, 3001, 1000);
	check(x, 1, 9001, 1, 0);
	udp_out_flush(x->o);			/* all is gone */
	assert_int_equal(x->r->l2.cnt, 2);
}

/* A run that the host's kernel has put together stays one; its short end lets nothing follow */
static void test_run(void **state)
{
	struct out *x = *state;

	add(x, 0, 5 * 100, 100);
	add(x, 500, 3 * 100 + 99, 100);
	add(x, 899, 100, 0);
	add(x, 999, 100, 100);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 2);
	check(x, 0, 0, 899, 100);
	check(x, 1, 899, 200, 100);
}

/* What must stay apart: longer, empty, another class, another target, another flow */
static void test_apart(void **state)
{
	struct out *x = *state;
	const struct inaddr other = rig_addr(x->r->v4 ? "239.1.2.3" : "ff05::3");
	struct sk_dgram d = { .iov = { { x->pool, 100 } }, .iov_cnt = 1, .len = 100 };
	struct flow_key k = x->f->key;
	struct rig_in in;
	struct flow *f2;

	add(x, 0, 99, 0);
	add(x, 0, 100, 0);
	add(x, 0, 0, 0);
	add(x, 0, 100, 0);
	d.tos = 1;
	udp_out_add(x->o, x->f, &x->r->guest, &d);
	udp_out_add(x->o, x->f, &other, &d);
	k.far_port++;
	f2 = flow_new(&x->r->flows, &k);
	udp_out_add(x->o, f2, &other, &d);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 7);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(x->r->l2.frames[i].gso, L2_GSO_NONE);
	check(x, 0, 0, 99, 0);
	check(x, 2, 0, 0, 0);
	check(x, 3, 0, 100, 0);
	assert_int_equal(rig_frame(&x->r->l2.frames[4]).ip.tos, 1);
	in = rig_frame(&x->r->l2.frames[5]);
	rig_same(&in.ip.dst, &other);
	assert_int_equal(x->r->l2.frames[5].buf[0] & 1, 1);	/* a group's link address */
	assert_int_equal(bytes_get16(rig_frame(&x->r->l2.frames[6]).l4), FAR_PORT + 1);
}

/* Without one of the offloads there are no super-frames, and the sums are ours */
static void test_no_offloads(void **state)
{
	static const uint32_t takes[] = { 0, L2_OFF_USO, L2_OFF_CSUM };
	struct out *x = *state;

	for (unsigned n = 0; n < BYTES_COUNT(takes); n++) {
		x->r->l2.l2.takes = takes[n];
		x->r->l2.split = n ? 29 : 0;
		add(x, 0, 303, 101);
		add(x, 404, 0, 0);
		udp_out_flush(x->o);
		assert_int_equal(x->r->l2.cnt, 4);
		for (uint32_t i = 0; i < 3; i++)
			check(x, i, i * 101, 101, 0);
		check(x, 3, 404, 0, 0);
		fake_l2_clear(&x->r->l2);
	}
}

/* 64 datagrams; 65535 bytes of packet; the MTU for each: the last that fits, the first that does not */
static void test_limits(void **state)
{
	struct out *x = *state;
	const uint32_t mtu_fit = 1500 - wire_ip_hdr_len(&x->r->far) - WIRE_UDP_LEN;
	const uint32_t all_fit = L2_IP_MAX - wire_ip_hdr_len(&x->r->far) - WIRE_UDP_LEN;
	const uint16_t seg = 1200;
	const uint32_t full = all_fit / seg * seg, rest = all_fit - full;

	add(x, 0, 65 * 10, 10);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 2);
	check(x, 0, 0, 640, 10);
	check(x, 1, 640, 10, 0);
	fake_l2_clear(&x->r->l2);

	add(x, 0, full + rest, seg);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 1);
	check(x, 0, 0, full + rest, seg);
	fake_l2_clear(&x->r->l2);
	add(x, 0, full + rest + 1, seg);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 2);
	check(x, 0, 0, full, seg);
	check(x, 1, full, rest + 1, 0);
	fake_l2_clear(&x->r->l2);

	add(x, 0, 2 * mtu_fit, (uint16_t)mtu_fit);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 1);
	check(x, 0, 0, 2 * mtu_fit, mtu_fit);
	fake_l2_clear(&x->r->l2);
	add(x, 0, mtu_fit, 0);
	udp_out_flush(x->o);
	check(x, 0, 0, mtu_fit, 0);
	fake_l2_clear(&x->r->l2);
	add(x, 0, 2 * (mtu_fit + 1), (uint16_t)(mtu_fit + 1));
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 4);	/* two fragments each */
	assert_int_equal(x->r->drops.cnt[DROP_UDP_TOO_BIG], 0);
}

/* In fragments the sum is that of the whole, whatever the link would do; what is around it keeps its place */
static void test_fragments(void **state)
{
	struct out *x = *state;
	const uint32_t head = wire_ip_hdr_len(&x->r->far) + (x->r->v4 ? 0 : 8), step = (1500 - head) & ~7u;
	uint8_t whole[WIRE_UDP_LEN + 4000];
	uint32_t sum, got = 0;

	add(x, 0, 10, 0);
	add(x, 100, 4000, 0);
	add(x, 5000, 20, 0);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 5);
	check(x, 0, 0, 10, 0);
	check(x, 4, 5000, 20, 0);
	for (uint32_t i = 1; i < 4; i++) {
		const struct fake_l2_frame *f = &x->r->l2.frames[i];
		const uint32_t n = f->len - WIRE_ETH_LEN - head;

		assert_int_equal(f->csum, L2_CSUM_COMPLETE);
		assert_true(n == step || i == 3);
		memcpy(whole + got, f->buf + WIRE_ETH_LEN + head, n);
		got += n;
	}
	assert_int_equal(got, sizeof(whole));
	sum = csum_pseudo(&x->r->far, &x->r->guest, WIRE_IP_UDP, sizeof(whole));
	assert_int_equal(csum_done(csum_add(sum, whole, sizeof(whole))), 0);
	assert_int_equal(bytes_get16(whole + 4), sizeof(whole));
	assert_memory_equal(whole + WIRE_UDP_LEN, x->pool + 100, 4000);
}

/* RFC 768: a sum that comes out as 0 is sent as all ones */
static void test_csum_zero(void **state)
{
	struct out *x = *state;
	const struct wire_udp h = { FAR_PORT, GUEST_PORT };
	uint32_t sum = csum_pseudo(&x->r->far, &x->r->guest, WIRE_IP_UDP, WIRE_UDP_LEN + 2);
	uint8_t udp[WIRE_UDP_LEN];

	x->r->l2.l2.takes = 0;
	wire_udp_emit(udp, &h, 2, 0);
	bytes_put16(x->pool, csum_done(csum_add(sum, udp, sizeof(udp))));
	add(x, 0, 2, 0);
	udp_out_flush(x->o);
	assert_int_equal(bytes_get16(rig_frame(&x->r->l2.frames[0]).l4 + 6), 0xffff);
}

/* More frames, or pieces, than fit: what is there goes first, nothing is lost, nothing overtakes */
static void test_overflow(void **state)
{
	struct out *x = *state;
	const uint32_t frames = UDP_OUT_MAX + 3, pieces = UDP_PIECE_MAX + 5;
	uint32_t n = 0;

	for (uint32_t i = 0; i < frames; i++)	/* each longer than the one before: none joins */
		add(x, i * 1000, i, 0);
	assert_int_equal(x->r->l2.cnt, UDP_OUT_MAX);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, frames);
	for (uint32_t i = 0; i < frames; i++)
		check(x, i, i * 1000, i, 0);
	fake_l2_clear(&x->r->l2);

	add(x, 0, 9, 0);			/* so that the last piece is in the middle of a run */
	for (uint32_t i = 0; i < pieces; i++)
		add(x, i * 1000, 10, 0);
	assert_int_equal(x->r->l2.cnt, 3);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 4);
	check(x, 0, 0, 9, 0);
	for (uint32_t i = 1; i < x->r->l2.cnt; i++) {
		const struct rig_in in = rig_frame(&x->r->l2.frames[i]);

		for (uint32_t off = WIRE_UDP_LEN; off < in.l4_len; off += 10, n++)
			assert_memory_equal(in.l4 + off, x->pool + n * 1000, 10);
	}
	assert_int_equal(n, pieces);
}

/* Small frames share a call; a large one goes by itself, and the order stays */
static void test_calls(void **state)
{
	static const uint32_t len[] = { 10, 1400, 20, 3000, 30, 40 };	/* 3000: of a link with a large MTU */
	struct out *x = *state;

	x->r->l2.l2.mtu = 9000;
	x->r->l2.l2.takes = L2_OFF_CSUM;
	for (uint32_t i = 0; i < BYTES_COUNT(len); i++)
		add(x, i * 4000, len[i], 0);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.commits, 3);
	assert_int_equal(x->r->l2.cnt, BYTES_COUNT(len));
	for (uint32_t i = 0; i < BYTES_COUNT(len); i++)
		check(x, i, i * 4000, len[i], 0);
	/* 2 KiB of frame is still small */
	for (uint32_t more = 0; more < 2; more++) {
		const uint32_t edge = 2048 - proto_l4_off(&x->r->far) - WIRE_UDP_LEN + more;

		fake_l2_clear(&x->r->l2);
		add(x, 0, 10, 0);
		add(x, 4000, edge, 0);
		add(x, 8000, edge, 0);
		udp_out_flush(x->o);
		assert_int_equal(x->r->l2.commits, more ? 3 : 1);
		check(x, 2, 8000, edge, 0);
	}
}

/* Memory for some frames at a time; none; a link that stops taking */
static void test_link_full(void **state)
{
	struct out *x = *state;

	x->r->l2.l2.takes = 0;
	x->r->l2.reserve_max = 2;
	for (uint32_t i = 0; i < 5; i++)
		add(x, i * 1000, 100 + i, 0);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 5);
	for (uint32_t i = 0; i < 5; i++)
		check(x, i, i * 1000, 100 + i, 0);
	assert_int_equal(x->r->drops.cnt[DROP_L2_LINK_FULL], 0);
	fake_l2_clear(&x->r->l2);

	fake_l2_refuse_after(&x->r->l2, 3);
	for (uint32_t i = 0; i < 5; i++)
		add(x, i * 1000, 100 + i, 0);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 3);
	assert_int_equal(x->r->drops.cnt[DROP_L2_LINK_FULL], 2);
	fake_l2_refuse_after(&x->r->l2, UINT32_MAX);
	x->r->l2.reserve_max = 0;
	for (uint32_t i = 0; i < 5; i++)
		add(x, i * 1000, 100 + i, 0);
	udp_out_flush(x->o);
	assert_int_equal(x->r->l2.cnt, 3);
	assert_int_equal(x->r->drops.cnt[DROP_L2_LINK_FULL], 7);
}

#define OUT_BOTH(test) \
	{ #test " IPv4", test, setup, teardown, NULL }, \
	{ #test " IPv6", test, setup, teardown, (void *)1 }

int main(void)
{
	const struct CMUnitTest tests[] = {
		OUT_BOTH(test_joins),
		OUT_BOTH(test_run),
		OUT_BOTH(test_apart),
		OUT_BOTH(test_no_offloads),
		OUT_BOTH(test_limits),
		OUT_BOTH(test_fragments),
		OUT_BOTH(test_csum_zero),
		OUT_BOTH(test_overflow),
		OUT_BOTH(test_calls),
		OUT_BOTH(test_link_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
