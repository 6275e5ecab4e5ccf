/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/reasm.c: fragments in any order, copies, overlaps, limits. The fragments are those of proto/frag.c.
 */
#include "rig_proto.h"

#include "proto/reasm.h"
#include "wire/icmp.h"

#define LEN	20000

struct bed {
	struct rig *r;
	struct proto_reasm *m;
	uint8_t b[65536];
	struct proto_pkt out;
	struct iovec iov[2];
};

static struct bed *bed_new(struct rig *r)
{
	struct bed *d = calloc(1, sizeof(*d));

	d->r = r;
	d->m = calloc(1, sizeof(*d->m));
	rig_pattern(d->b, sizeof(d->b), 7);
	return d;
}

static void bed_free(struct bed *d)
{
	free(d->m);
	free(d);
}

/* A checksum that is right for LEN bytes */
static void sum_of(struct bed *d, uint32_t len)
{
	const uint32_t pseudo = csum_pseudo(&d->r->guest, &d->r->far, WIRE_IP_UDP, len);

	bytes_put16(d->b + 6, csum_done(csum_add(pseudo, d->b, len)));
}

/* Cut LEN bytes into frames on the link; returns how many */
static uint32_t cut(struct bed *d, uint32_t len, uint32_t mtu)
{
	const struct iovec iov = { d->b, len };
	const struct view v = view_of(&iov, len);

	fake_l2_clear(&d->r->l2);
	d->r->l2.l2.mtu = mtu;
	bytes_put16(d->b + 6, 0);
	sum_of(d, len);
	assert_true(proto_send(&d->r->env, &d->r->guest, &d->r->far, WIRE_IP_UDP, 2, &v));
	assert_true(d->r->l2.cnt > 1);
	return d->r->l2.cnt;
}

/* Hand over frame I, in two pieces that break at byte SPLIT */
static bool take(struct bed *d, uint32_t i, uint32_t split)
{
	const struct fake_l2_frame *f = &d->r->l2.frames[i];
	struct view v, whole;

	d->iov[0] = (struct iovec){ f->buf, split };
	d->iov[1] = (struct iovec){ f->buf + split, f->len - split };
	v = view_of(d->iov, f->len);
	view_skip(&v, WIRE_ETH_LEN);
	whole = v;
	memset(&d->out, 0, sizeof(d->out));
	assert_int_equal(d->r->v4 ? wire_ip4_parse(&v, &d->out.ip) : wire_ip6_parse(&v, &d->out.ip), WIRE_IP_FRAGMENTED);
	d->out.l4 = v;
	return proto_reasm_take(&d->r->p, d->m, whole, &d->out);
}

static void check_whole(const struct bed *d, uint32_t len)
{
	uint8_t *got = malloc(len);

	assert_int_equal(d->out.l4.len, len);
	assert_int_equal(view_copy(&d->out.l4, got, len), len);
	assert_memory_equal(got, d->b, len);
	free(got);
	rig_same(&d->out.ip.src, &d->r->guest);
	rig_same(&d->out.ip.dst, &d->r->far);
	assert_int_equal(d->out.ip.proto, WIRE_IP_UDP);
	assert_int_equal(d->out.ip.tos, 2);
}

static uint64_t lost(const struct bed *d)
{
	return d->r->drops.cnt[DROP_IP_FRAGMENT];
}

/* Any order, any place where the memory breaks, copies on the way */
static void test_orders(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t n = cut(d, LEN, 1500);

	for (uint32_t round = 0; round < 50; round++) {
		uint32_t order[64];

		for (uint32_t i = 0; i < n; i++) {
			const uint32_t k = rng_below(&d->r->rng, i + 1);

			order[i] = order[k];
			order[k] = i;
		}
		for (uint32_t i = 0; i < n; i++) {
			const uint32_t split = 1 + rng_below(&d->r->rng, 80);

			assert_int_equal(take(d, order[i], split), i == n - 1);
			if (i < n - 1 && !(round % 5))
				assert_false(take(d, order[i], split));
		}
		check_whole(d, LEN);
		proto_reasm_release(d->m);
	}
	assert_int_equal(lost(d), 10 * (n - 1));		/* the copies */
	bed_free(d);
}

/* The largest packet of the family; one byte of it marked as congested marks all */
static void test_largest(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t len = d->r->v4 ? 65515 : 65535, n = cut(d, len, 9000);
	uint8_t *ip = d->r->l2.frames[1].buf + WIRE_ETH_LEN;

	ip[1] |= d->r->v4 ? 3 : 0x30;	/* TOS, or the lower half of the traffic class */
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(take(d, i, 20), i == n - 1);
	assert_int_equal(d->out.ip.tos, 3);
	d->out.ip.tos = 2;
	check_whole(d, len);
	bed_free(d);
}

/* Move frame I by DELTA bytes of offset, or let it end the packet */
static void forge(struct bed *d, uint32_t i, int delta, bool last)
{
	uint8_t *ip = d->r->l2.frames[i].buf + WIRE_ETH_LEN;
	uint8_t *field = ip + (d->r->v4 ? 6 : 42);
	uint32_t off = d->r->v4 ? (bytes_get16(field) & 0x1fff) * 8u : bytes_get16(field) & 0xfff8u;

	off = (uint32_t)((int)off + delta);
	bytes_put16(field, (uint16_t)(d->r->v4 ? off / 8 | (last ? 0 : 0x2000) : off | !last));
}

static void test_overlap(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t n = cut(d, LEN, 1500);

	assert_false(take(d, 0, 20));
	forge(d, 1, -8, false);
	assert_false(take(d, 1, 20));
	for (uint32_t i = 2; i < n; i++)
		assert_false(take(d, i, 20));
	assert_int_equal(lost(d), n - 1);
	/* RFC 5722 4: nor does a second try with the same identification */
	forge(d, 1, 8, false);
	for (uint32_t i = 0; i < n; i++)
		assert_false(take(d, i, 20));
	assert_int_equal(lost(d), 2 * n - 1);
	d->r->env.now += PROTO_REASM_TIME;
	proto_reasm_tick(&d->r->p, d->m);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(take(d, i, 20), i == n - 1);
	bed_free(d);
}

/* RFC 4963: parts of two packets that happen to fit */
static void test_mixed(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t n = cut(d, LEN, 1500);

	d->r->l2.frames[2].buf[500] ^= 1;
	for (uint32_t i = 0; i < n; i++)
		assert_false(take(d, i, 20));
	assert_int_equal(lost(d), 1);
	d->r->l2.frames[2].buf[500] ^= 1;
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(take(d, i, 20), i == n - 1);
	proto_reasm_release(d->m);
	cut(d, LEN, 1500);			/* without a checksum: what there is */
	memset(d->r->l2.frames[0].buf + (d->r->v4 ? 34 : 62) + 6, 0, 2);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(take(d, i, 20), i == n - 1);
	bed_free(d);
}

/* RFC 792, RFC 4443 3.3: who sent the first fragment is told that the rest did not come; others hear nothing */
static void test_time_exceeded(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t ip_len = d->r->v4 ? 20 : 40, head = ip_len + (d->r->v4 ? 0 : 8);
	const ns_t t0 = d->r->env.now;
	uint8_t first[1514];
	const uint8_t *q;
	struct rig_in in;

	assert_true(proto_reasm_next(d->m) == NS_NEVER);
	cut(d, LEN, 1500);
	assert_false(take(d, 1, 20));		/* no first fragment */
	cut(d, LEN, 1500);
	assert_false(take(d, 2, 20));
	assert_false(take(d, 0, 20));
	memcpy(first, d->r->l2.frames[0].buf, BYTES_MIN(d->r->l2.frames[0].len, sizeof(first)));
	fake_l2_clear(&d->r->l2);
	assert_true(proto_reasm_next(d->m) == t0 + PROTO_REASM_TIME);
	d->r->env.now = t0 + PROTO_REASM_TIME - 1;
	proto_reasm_tick(&d->r->p, d->m);
	assert_int_equal(lost(d), 0);
	d->r->env.now++;
	proto_reasm_tick(&d->r->p, d->m);
	assert_int_equal(lost(d), 2);
	assert_true(proto_reasm_next(d->m) == NS_NEVER);
	assert_int_equal(d->r->l2.cnt, 1);
	in = rig_frame(&d->r->l2.frames[0]);
	rig_same(&in.ip.src, &d->r->far);
	rig_same(&in.ip.dst, &d->r->guest);
	assert_int_equal(in.l4[0], d->r->v4 ? 11 : 3);
	assert_int_equal(in.l4[1], 1);
	assert_int_equal(rig_csum(&in, !d->r->v4), 0);
	q = in.l4 + WIRE_ICMP_LEN;
	if (d->r->v4)				/* all but TTL and checksum, which the fake guest's first one has otherwise */
		assert_memory_equal(q + 2, first + WIRE_ETH_LEN + 2, 6);
	else
		assert_memory_equal(q + 40, first + WIRE_ETH_LEN + 40, 8);
	assert_memory_equal(q + head, first + WIRE_ETH_LEN + head, in.l4_len - WIRE_ICMP_LEN - head);
	bed_free(d);
}

/* Beyond the largest packet, behind the end, two ends, an odd middle */
static void test_impossible(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t n = cut(d, LEN, 1500);

	forge(d, 1, 64000, false);
	assert_false(take(d, 1, 20));
	assert_int_equal(lost(d), 1);
	cut(d, LEN, 1500);
	assert_false(take(d, 3, 20));
	forge(d, 1, 0, true);			/* ends before what is there: else two of them would be a whole */
	assert_false(take(d, 1, 20));
	assert_int_equal(lost(d), 2);
	cut(d, LEN, 1500);
	assert_false(take(d, n - 1, 20));
	forge(d, n - 2, 0, true);		/* another end */
	assert_false(take(d, n - 2, 20));
	assert_int_equal(lost(d), 3);
	cut(d, LEN + 1, 1500);
	forge(d, n - 1, 0, false);		/* goes on, but in the middle of a unit */
	assert_false(take(d, n - 1, 20));
	assert_int_equal(lost(d), 4);
	for (uint32_t i = 0; i < PROTO_REASM_CNT; i++)
		assert_false(d->m->e[i].used);
	bed_free(d);
}

/* RFC 8200 4.5: headers of each fragment may stand before the fragment header */
static void test_behind_extension(void **state)
{
	struct bed *d = bed_new(*state);
	const uint32_t n = cut(d, LEN, 1400);

	for (uint32_t i = 0; i < n && !d->r->v4; i++) {
		struct fake_l2_frame *f = &d->r->l2.frames[i];
		uint8_t *b = calloc(1, f->len + 8);

		memcpy(b, f->buf, WIRE_ETH_LEN + WIRE_IP6_LEN);
		b[WIRE_ETH_LEN + 6] = 60;
		bytes_put16(b + WIRE_ETH_LEN + 4, (uint16_t)(bytes_get16(b + WIRE_ETH_LEN + 4) + 8));
		b[WIRE_ETH_LEN + WIRE_IP6_LEN] = 44;
		memcpy(b + WIRE_ETH_LEN + WIRE_IP6_LEN + 8, f->buf + WIRE_ETH_LEN + WIRE_IP6_LEN, f->len - WIRE_ETH_LEN - WIRE_IP6_LEN);
		free(f->buf);
		f->buf = b;
		f->len += 8;
	}
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(take(d, i, 1 + i * 3), i == n - 1);
	check_whole(d, LEN);
	bed_free(d);
}

/* 30 s, and the oldest gives way */
static void test_bounds(void **state)
{
	struct bed *d = bed_new(*state);
	uint32_t n = cut(d, LEN, 1500);

	assert_false(take(d, 0, 20));
	d->r->env.now += PROTO_REASM_TIME;
	proto_reasm_tick(&d->r->p, d->m);
	for (uint32_t i = 1; i < n; i++)
		assert_false(take(d, i, 20));
	assert_int_equal(lost(d), 1);
	for (uint32_t i = 0; i < PROTO_REASM_CNT; i++) {
		d->r->env.now++;
		cut(d, LEN, 1500);
		assert_false(take(d, 0, 20));
	}
	assert_int_equal(lost(d), 2);		/* the one from before */
	for (uint32_t i = 1; i < n; i++)
		assert_int_equal(take(d, i, 20), i == n - 1);
	check_whole(d, LEN);
	bed_free(d);
}

/* Whole packets stay until the batch is over */
static void test_batch(void **state)
{
	struct bed *d = bed_new(*state);

	for (uint32_t k = 0; k <= PROTO_REASM_CNT; k++) {
		const uint32_t n = cut(d, 2000, 1500);

		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(take(d, i, 20), i == n - 1 && k < PROTO_REASM_CNT);
	}
	assert_int_equal(lost(d), 2);
	proto_reasm_release(d->m);
	cut(d, 2000, 1500);
	assert_false(take(d, 1, 20));
	assert_true(take(d, 0, 20));
	bed_free(d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_orders), RIG_BOTH(test_largest), RIG_BOTH(test_overlap), RIG_BOTH(test_mixed), RIG_BOTH(test_behind_extension), RIG_BOTH(test_time_exceeded), RIG_BOTH(test_impossible),
		RIG_BOTH(test_bounds), RIG_BOTH(test_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
