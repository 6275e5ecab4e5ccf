/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/frag.c: whole packets towards the guest, in fragments where its MTU is small (L2-55).
 */
#include "rig_proto.h"

#define TOS	0x2e

static uint32_t frag_head(const struct rig *r)
{
	return r->v4 ? WIRE_IP4_LEN : WIRE_IP6_LEN + 8;
}

static uint32_t len_max(const struct rig *r)
{
	return r->v4 ? L2_IP_MAX - WIRE_IP4_LEN : L2_IP_MAX;
}

/* Leave no zeros on the stack: what the code forgets to write shows */
static void __attribute__((noinline)) dirty(void)
{
	volatile uint8_t b[2048];

	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = 0xa5;
}

/* Send LEN bytes of B in two pieces, cut at CUT */
static bool send_cut(struct rig *r, uint8_t *b, uint32_t len, uint32_t cut)
{
	const struct iovec iov[2] = { { b, cut }, { b + cut, len - cut } };
	const struct view v = view_of(iov, len);

	dirty();
	return proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, TOS, &v);
}

struct piece {
	uint32_t off, len, id;
	bool more;
	const uint8_t *data;
};

static struct piece parse4(const struct rig *r, const uint8_t *ip)
{
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], TOS);
	assert_int_equal(csum_done(csum_add(0, ip, 20)), 0);
	assert_false(bytes_get16(ip + 6) & 0xc000);	/* a fragment that must not be fragmented is a lie */
	assert_int_equal(ip[8], 255);
	assert_int_equal(ip[9], WIRE_IP_UDP);
	assert_memory_equal(ip + 12, r->far.b + 12, 4);
	assert_memory_equal(ip + 16, r->guest.b + 12, 4);
	return (struct piece){
		(bytes_get16(ip + 6) & 0x1fff) * 8u, bytes_get16(ip + 2) - 20u, bytes_get16(ip + 4),
		bytes_get16(ip + 6) & 0x2000, ip + 20,
	};
}

static struct piece parse6(const struct rig *r, const uint8_t *ip)
{
	assert_int_equal(bytes_get32(ip) >> 20, 0x600 | TOS);
	assert_int_equal(ip[6], 44);
	assert_int_equal(ip[7], 255);
	assert_memory_equal(ip + 8, r->far.b, 16);
	assert_memory_equal(ip + 24, r->guest.b, 16);
	assert_int_equal(ip[40], WIRE_IP_UDP);
	assert_int_equal(ip[41], 0);
	assert_int_equal(ip[43] & 6, 0);
	return (struct piece){
		bytes_get16(ip + 42) & 0xfff8u, bytes_get16(ip + 4) - 8u, bytes_get32(ip + 44), ip[43] & 1, ip + 48,
	};
}

/* Put the fragments of all frames together and compare; returns their identification */
static uint32_t check_fragments(struct rig *r, const uint8_t *want, uint32_t len)
{
	uint8_t *got = malloc(len);
	uint32_t id = 0, sum = 0;

	for (uint32_t i = 0; i < r->l2.cnt; i++) {
		const struct fake_l2_frame *f = &r->l2.frames[i];
		const uint8_t *ip = f->buf + WIRE_ETH_LEN;
		const struct piece g = r->v4 ? parse4(r, ip) : parse6(r, ip);

		assert_int_equal(bytes_get16(f->buf + 12), r->v4 ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6);
		assert_memory_equal(f->buf, r->env.guest_mac.b, 6);
		assert_int_equal(f->gso, L2_GSO_NONE);
		assert_int_equal(f->csum, L2_CSUM_COMPLETE);
		assert_int_equal(f->len, WIRE_ETH_LEN + frag_head(r) + g.len);
		assert_true(f->len - WIRE_ETH_LEN <= r->l2.l2.mtu);
		if (!i)
			id = g.id;
		assert_int_equal(g.id, id);
		assert_int_equal(g.off, sum);
		assert_int_equal(g.more, i + 1 < r->l2.cnt);
		assert_true(!g.more || !(g.len % 8));
		assert_true(g.len && g.off + g.len <= len);
		memcpy(got + g.off, g.data, g.len);
		sum += g.len;
	}
	assert_int_equal(sum, len);
	assert_memory_equal(got, want, len);
	free(got);
	return id;
}

static void test_pieces(void **state)
{
	struct rig *r = *state;
	const uint32_t lens[] = { 1481, 3001, 9008, len_max(r) };
	uint8_t *b = malloc(65536);
	uint32_t id;

	rig_pattern(b, 65536, 1);
	for (unsigned i = 0; i < BYTES_COUNT(lens); i++) {
		struct rng ahead = r->rng;

		r->l2.split = i % 2 ? 61 : 0;
		assert_true(send_cut(r, b, lens[i], i ? i * 700 : 8));
		assert_true(r->l2.cnt > 1);
		id = check_fragments(r, b, lens[i]);
		/* RFC 6864, RFC 7739: nobody guesses the next one */
		assert_int_equal(id, rng_u64(&ahead) & (r->v4 ? 0xffff : UINT32_MAX));
		fake_l2_clear(&r->l2);
	}
	free(b);
}

/* One byte decides */
static void test_only_if_needed(void **state)
{
	struct rig *r = *state;
	uint8_t b[1500];

	rig_pattern(b, sizeof(b), 2);
	for (uint32_t mtu = 1280; mtu <= 1281; mtu++) {
		const uint32_t len = mtu - wire_ip_hdr_len(&r->far);
		struct rig_in in;

		r->l2.l2.mtu = mtu;
		assert_true(send_cut(r, b, len, 3));
		assert_int_equal(r->l2.cnt, 1);
		in = rig_frame(&r->l2.frames[0]);
		assert_int_equal(in.ip.proto, WIRE_IP_UDP);
		assert_int_equal(in.ip.tos, TOS);
		assert_true(in.ip.df);
		assert_int_equal(in.l4_len, len);
		assert_memory_equal(in.l4, b, len);
		fake_l2_clear(&r->l2);
		assert_true(send_cut(r, b, len + 1, 3));
		assert_int_equal(r->l2.cnt, 2);
		check_fragments(r, b, len + 1);
		fake_l2_clear(&r->l2);
	}
}

/* No bytes at all are a packet too */
static void test_empty(void **state)
{
	struct rig *r = *state;
	uint8_t b = 0;

	assert_true(send_cut(r, &b, 0, 0));
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(rig_frame(&r->l2.frames[0]).l4_len, 0);
}

/* Eight bytes a fragment are the least that a link can carry */
static void test_smallest_mtu(void **state)
{
	struct rig *r = *state;
	uint8_t b[70];

	rig_pattern(b, sizeof(b), 3);
	for (uint32_t more = 8; more <= 15; more++) {
		r->l2.l2.mtu = frag_head(r) + more;
		assert_true(send_cut(r, b, sizeof(b), 11));
		assert_int_equal(r->l2.cnt, 9);
		check_fragments(r, b, sizeof(b));
		fake_l2_clear(&r->l2);
	}
	r->l2.l2.mtu = frag_head(r) + 7;
	assert_false(send_cut(r, b, sizeof(b), 11));
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->drops.cnt[DROP_UDP_TOO_BIG], 1);
}

/* A byte more than a packet can name */
static void test_too_long(void **state)
{
	struct rig *r = *state;
	uint8_t *b = malloc(65536);

	rig_pattern(b, 65536, 4);
	assert_false(send_cut(r, b, len_max(r) + 1, 100));
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->drops.cnt[DROP_UDP_TOO_BIG], 1);
	free(b);
}

/* A view that begins and ends within its pieces, of which some are empty */
static void test_view(void **state)
{
	struct rig *r = *state;
	uint8_t b[5000];
	const struct iovec iov[] = { { b, 100 }, { b + 100, 0 }, { b + 100, 1 }, { b + 101, 3000 }, { b + 3101, 1899 } };
	struct view v = view_of(iov, sizeof(b));

	rig_pattern(b, sizeof(b), 5);
	view_skip(&v, 33);
	view_trim(&v, 4000);
	assert_true(proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, TOS, &v));
	check_fragments(r, b + 33, 4000);
	assert_int_equal(v.len, 4000);
	fake_l2_clear(&r->l2);
	view_trim(&v, 1000);
	assert_true(proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, TOS, &v));
	assert_int_equal(r->l2.cnt, 1);
	assert_memory_equal(rig_frame(&r->l2.frames[0]).l4, b + 33, 1000);
}

/* The rest of a packet whose fragment was refused would be noise */
static void test_link_full(void **state)
{
	struct rig *r = *state;
	uint8_t b[5000];

	rig_pattern(b, sizeof(b), 6);
	fake_l2_refuse_after(&r->l2, 2);
	assert_false(send_cut(r, b, sizeof(b), 1));
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 1);
	assert_int_equal(r->l2.commits, 3);
	fake_l2_refuse_after(&r->l2, 0);
	assert_false(send_cut(r, b, 100, 1));
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 2);
	fake_l2_refuse_after(&r->l2, UINT32_MAX);
	r->l2.reserve_max = 0;
	assert_false(send_cut(r, b, sizeof(b), 1));
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 3);
	assert_int_equal(r->drops.cnt[DROP_UDP_TOO_BIG], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_pieces),
		RIG_BOTH(test_only_if_needed),
		RIG_BOTH(test_empty),
		RIG_BOTH(test_smallest_mtu),
		RIG_BOTH(test_too_long),
		RIG_BOTH(test_view),
		RIG_BOTH(test_link_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
