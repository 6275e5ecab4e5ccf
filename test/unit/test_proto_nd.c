/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/svc/nd.c: NDP-1 to NDP-6, RA-1 to RA-6. IPv6 only by nature.
 */
#include "rig_proto.h"

#include "proto/svc.h"
#include "wire/icmp.h"
#include "wire/nd.h"

static const struct macaddr guest_mac = { { 2, 0, 0, 0, 0, 2 } };
static const struct svc on = { .nd_on = true, .ra_on = true };

/* Hand over the packet last queued, as if from SRC */
static void take(struct rig *r, const struct svc *s, const char *src, uint8_t hop_limit)
{
	struct proto_pkt *k = &r->pkt[r->pkt_cnt - 1];

	k->ip.src = rig_addr(src);
	k->ip.ttl = hop_limit;
	svc_nd(&r->p, s, k);
	r->pkt_cnt = 0;
}

static void ask(struct rig *r, const struct svc *s, const char *src, const char *target, uint8_t hop_limit)
{
	const struct inaddr a = rig_addr(src), t = rig_addr(target), dst = rig_addr("ff02::1:ff00:1");
	uint8_t b[WIRE_ND_NS_LEN];

	wire_nd_emit_ns(b, &t, &guest_mac, &a, &dst);
	/* detection of duplicates: no source option (RFC 4861 4.3) */
	rig_pkt(r, &dst, WIRE_IP_ICMP6, b, inaddr_is_unset(&a) ? 24 : sizeof(b), 3);
	take(r, s, src, hop_limit);
}

static void solicit_router(struct rig *r, const struct svc *s, const char *src, uint8_t hop_limit)
{
	const uint8_t b[8] = { WIRE_ICMP6_RS };
	const struct inaddr dst = rig_addr("ff02::2");

	rig_pkt(r, &dst, WIRE_IP_ICMP6, b, sizeof(b), 1);
	take(r, s, src, hop_limit);
}

static struct rig_in one(struct rig *r)
{
	struct rig_in in;

	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	assert_int_equal(in.ip.proto, WIRE_IP_ICMP6);
	assert_int_equal(rig_csum(&in, true), 0);
	return in;
}

/* NDP-3, NDP-4 */
static void test_answers(void **state)
{
	static const char *const targets[] = { "fe80::1", "2001:db8::1", "2001:db8:ffff::99", "fe80::77" };
	static const char *const askers[] = { "fe80::10", "2001:db8::10" };
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(targets) * 2; i++) {
		const struct inaddr target = rig_addr(targets[i / 2]), asker = rig_addr(askers[i % 2]);
		struct rig_in in;

		ask(r, &on, askers[i % 2], targets[i / 2], 255);
		in = one(r);
		rig_same(&in.ip.src, &r->fwd.f[FWD_V6].ours);
		rig_same(&in.ip.dst, &asker);
		assert_int_equal(in.l4_len, WIRE_ND_NA_LEN);
		assert_int_equal(in.l4[0], WIRE_ICMP6_NA);
		assert_int_equal(in.l4[4], 0xe0);
		assert_memory_equal(in.l4 + 8, target.b, 16);
		assert_int_equal(in.l4[24], 2);
		assert_memory_equal(in.l4 + 26, r->env.our_mac.b, 6);
		fake_l2_clear(&r->l2);
	}
}

static void test_silent(void **state)
{
	struct rig *r = *state;
	const struct svc off = { .ra_on = true };

	ask(r, &on, "fe80::10", "2001:db8::10", 255);		/* the guest's own */
	ask(r, &on, "2001:db8::10", "fe80::10", 255);
	ask(r, &on, "::", "2001:db8::55", 255);			/* it takes another ... */
	ask(r, &on, "fe80::10", "2001:db8::55", 255);		/* ... which is then its own */
	assert_int_equal(r->drops.cnt[DROP_ND_BAD], 0);
	ask(r, &on, "fe80::10", "2001:db8::1", 64);		/* from behind a router */
	assert_int_equal(r->drops.cnt[DROP_ND_BAD], 1);
	ask(r, &off, "fe80::10", "2001:db8::1", 255);
	assert_int_equal(r->drops.cnt[DROP_PROTO_OFF], 1);
	assert_int_equal(r->l2.cnt, 0);
	ask(r, &on, "::", "fe80::1", 255);			/* the router's is not to be taken */
	ask(r, &on, "fe80::10", "fe80::1", 255);
	one(r);
}

/* Advertisements make no noise; a neighbour's tells which addresses the guest has */
static void test_advertisements(void **state)
{
	struct rig *r = *state;
	const struct inaddr src = rig_addr("fe80::10"), dst = rig_addr("ff02::1"), t = rig_addr("2001:db8::66");
	uint8_t b[WIRE_ND_NA_LEN], ra[16] = { WIRE_ICMP6_RA };

	wire_nd_emit_na(b, WIRE_ND_NA_OVERRIDE, &t, &guest_mac, &src, &dst);
	rig_pkt(r, &dst, WIRE_IP_ICMP6, b, sizeof(b), 4);
	take(r, &on, "fe80::10", 255);
	ask(r, &on, "fe80::10", "2001:db8::66", 255);
	rig_pkt(r, &dst, WIRE_IP_ICMP6, ra, sizeof(ra), 1);
	take(r, &on, "fe80::10", 255);
	assert_int_equal(r->l2.cnt, 0);
	rig_pkt(r, &dst, WIRE_IP_ICMP6, b, 20, 1);
	take(r, &on, "fe80::10", 255);
	assert_int_equal(r->drops.cnt[DROP_ND_BAD], 1);
}

/* Walk the options of an RA; the lengths must fill the message */
static const uint8_t *ra_option(const struct rig_in *in, uint8_t type, unsigned *ret_cnt)
{
	const uint8_t *found = NULL;
	uint32_t off = 16;

	*ret_cnt = 0;
	while (off < in->l4_len) {
		const uint8_t *o = in->l4 + off;

		assert_true(off + 8 <= in->l4_len && o[1]);
		off += o[1] * 8u;
		assert_true(off <= in->l4_len);
		if (o[0] == type) {
			found = o;
			(*ret_cnt)++;
		}
	}
	return found;
}

static void test_ra(void **state)
{
	static const char *const search[] = { "abcdef", "example.org" };
	struct rig *r = *state;
	const struct svc s = {
		.nd_on = true, .ra_on = true, .mtu = 9000, .dns = { rig_addr("2001:db8::53") }, .dns_cnt = 1,
		.search = search, .search_cnt = 2,
	};
	const uint8_t prefix[16] = { 0x20, 1, 0xd, 0xb8 };
	const struct inaddr asker = rig_addr("fe80::10");
	const uint8_t *o;
	struct rig_in in;
	unsigned n;

	solicit_router(r, &s, "fe80::10", 255);
	in = one(r);
	rig_same(&in.ip.dst, &asker);
	assert_int_equal(in.l4[0], WIRE_ICMP6_RA);
	assert_int_equal(in.l4[4], 255);
	assert_int_equal(in.l4[5], 0x80);
	assert_int_equal(bytes_get16(in.l4 + 6), 65535);
	o = ra_option(&in, 3, &n);
	assert_true(n == 1 && o[2] == 64);
	assert_memory_equal(o + 16, prefix, 16);
	o = ra_option(&in, 1, &n);
	assert_int_equal(n, 1);
	assert_memory_equal(o + 2, r->env.our_mac.b, 6);
	o = ra_option(&in, 5, &n);
	assert_true(n == 1 && bytes_get32(o + 4) == 9000);
	ra_option(&in, 25, &n);
	assert_int_equal(n, 1);
	ra_option(&in, 31, &n);
	assert_int_equal(n, 1);
}

/* RA-1: to :: no stack listens; RA-3: no prefix without a global address */
static void test_ra_unspecified(void **state)
{
	struct rig *r = *state;
	const struct inaddr all = rig_addr("ff02::1");
	struct rig_in in;
	unsigned n;

	r->fwd.f[FWD_V6].guest = rig_addr("fe80::10");
	solicit_router(r, &on, "::", 255);
	in = one(r);
	rig_same(&in.ip.dst, &all);
	assert_int_equal(in.eth.dst.b[0], 0x33);
	ra_option(&in, 3, &n);
	assert_int_equal(n, 0);
	fake_l2_clear(&r->l2);
	svc_advertise(&r->p, &on);
	in = one(r);
	rig_same(&in.ip.dst, &all);
}

static void test_ra_off(void **state)
{
	struct rig *r = *state;
	const struct svc s = { .nd_on = true };

	solicit_router(r, &s, "fe80::10", 255);
	svc_advertise(&r->p, &s);
	assert_int_equal(r->drops.cnt[DROP_ND_BAD], 0);
	solicit_router(r, &on, "fe80::10", 254);
	assert_int_equal(r->drops.cnt[DROP_ND_BAD], 1);
	r->fwd.f[FWD_V6].on = false;
	svc_advertise(&r->p, &on);
	assert_int_equal(r->l2.cnt, 0);
}

/* NDP-6: to the solicited-node group, with our link-layer address */
static void test_solicit(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = rig_addr("ff02::1:ff00:10");
	struct rig_in in;

	r->fwd.f[FWD_V4].on = false;
	svc_solicit(&r->p);
	in = one(r);
	rig_same(&in.ip.dst, &group);
	rig_same(&in.ip.src, &r->fwd.f[FWD_V6].ours);
	assert_int_equal(in.l4[0], WIRE_ICMP6_NS);
	assert_memory_equal(in.l4 + 8, r->guest.b, 16);
	assert_int_equal(in.l4[24], 1);
	assert_memory_equal(in.l4 + 26, r->env.our_mac.b, 6);
}

#define V6(test) { #test, test, rig_setup, rig_teardown, (void *)1 }

int main(void)
{
	const struct CMUnitTest tests[] = {
		V6(test_answers), V6(test_silent), V6(test_advertisements), V6(test_ra), V6(test_ra_unspecified),
		V6(test_ra_off), V6(test_solicit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
