/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/svc/svc.c: which addresses are the guest's own business (ARP-2, ARP-5, NDP-3), and the question for its MAC
 * (ARP-6, NDP-6).
 */
#include <stdio.h>

#include "rig_proto.h"

#include "../../src/proto/svc/svc_priv.h"
#include "wire/arp.h"
#include "wire/icmp.h"
#include "wire/nd.h"

/* The Nth neighbour of the guest */
static struct inaddr near_addr(const struct rig *r, unsigned n)
{
	char s[INADDR_STR_MAX];

	snprintf(s, sizeof(s), r->v4 ? "192.0.2.%u" : "2001:db8::%u", 100 + n);
	return rig_addr(s);
}

static void own(struct rig *r, const char *s)
{
	const struct inaddr a = rig_addr(s);

	svc_own(&r->p, &a);
}

static bool owned(struct rig *r, const char *s)
{
	const struct inaddr a = rig_addr(s);

	return svc_owned(&r->p, &a);
}

static void test_known(void **state)
{
	struct rig *r = *state;
	struct fwd_family_set *f = &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];
	const struct inaddr seen = near_addr(r, 1), stranger = near_addr(r, 2);

	f->seen = seen;
	assert_true(svc_owned(&r->p, &r->guest));
	assert_true(svc_owned(&r->p, &seen));
	assert_true(owned(r, "fe80::10"));	/* seen_ll */
	assert_false(svc_owned(&r->p, &stranger));
	assert_false(svc_owned(&r->p, &r->router));
	assert_false(svc_owned(&r->p, &r->far));
	f->guest = f->seen = stranger;
	assert_false(svc_owned(&r->p, &r->guest));
}

/* What was announced is kept; announced twice it takes one place */
static void test_announced(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = near_addr(r, 1), b = near_addr(r, 2);

	svc_own(&r->p, &a);
	svc_own(&r->p, &a);
	assert_true(svc_owned(&r->p, &a));
	assert_false(svc_owned(&r->p, &b));
	assert_int_equal(r->p.owned_next, 1);
	svc_own(&r->p, &b);
	assert_true(svc_owned(&r->p, &a) && svc_owned(&r->p, &b));
	/* nor does an address that is known anyway */
	svc_own(&r->p, &r->guest);
	assert_int_equal(r->p.owned_next, 2);
}

/* Ours, the router's and what is nobody's can't be taken */
static void test_refused(void **state)
{
	static const char *const bad4[] = { "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.0.2.1", "192.0.2.254" };
	static const char *const bad6[] = { "::", "ff02::1", "fe80::1", "fe80::fe" };
	struct rig *r = *state;
	const char *const *bad = r->v4 ? bad4 : bad6;
	const unsigned cnt = r->v4 ? BYTES_COUNT(bad4) : BYTES_COUNT(bad6);

	r->fwd.f[FWD_V4].ours = rig_addr("192.0.2.254");
	r->fwd.f[FWD_V6].ours = rig_addr("fe80::fe");
	for (unsigned i = 0; i < cnt; i++) {
		own(r, bad[i]);
		if (r->p.owned_next)
			fail_msg("the guest may take %s", bad[i]);
	}
}

/* One announcement too many costs the oldest one only */
static void test_oldest_goes(void **state)
{
	struct rig *r = *state;
	struct inaddr a;

	for (unsigned i = 0; i < PROTO_OWNED_MAX; i++) {
		a = near_addr(r, i);
		svc_own(&r->p, &a);
	}
	for (unsigned i = 0; i < PROTO_OWNED_MAX; i++) {
		a = near_addr(r, i);
		assert_true(svc_owned(&r->p, &a));
	}
	for (unsigned more = 0; more < 2 * PROTO_OWNED_MAX; more++) {
		a = near_addr(r, PROTO_OWNED_MAX + more);
		svc_own(&r->p, &a);
		for (unsigned i = 0; i <= PROTO_OWNED_MAX + more; i++) {
			a = near_addr(r, i);
			assert_int_equal(svc_owned(&r->p, &a), i > more);
		}
	}
}

/* The other family's settings don't count */
static void test_families_apart(void **state)
{
	struct rig *r = *state;
	const char *gw = r->v4 ? "2001:db8::fe" : "192.0.2.254";

	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].ours = rig_addr(gw);	/* by mistake of another's */
	own(r, gw);
	assert_true(owned(r, gw));
}

static void check_arp(struct rig *r, const struct fake_l2_frame *f, const char *sip)
{
	const struct inaddr from = rig_addr(sip), guest = rig_addr("192.0.2.10");
	const struct iovec iov = { f->buf, f->len };
	struct view v = view_of(&iov, f->len);
	struct wire_eth eth;
	struct wire_arp a;

	assert_int_equal(wire_eth_parse(&v, &eth), 0);
	assert_int_equal(eth.type, WIRE_ETH_ARP);
	assert_true(macaddr_eq(&eth.dst, &macaddr_broadcast));
	assert_int_equal(wire_arp_parse(v, &a), 0);
	assert_int_equal(a.op, WIRE_ARP_REQUEST);
	assert_true(macaddr_eq(&a.sha, &r->env.our_mac));
	rig_same(&a.sip, &from);
	rig_same(&a.tip, &guest);
}

static void check_ns(struct rig *r, const struct fake_l2_frame *f)
{
	const struct rig_in in = rig_frame(f);
	const struct inaddr group = rig_addr("ff02::1:ff00:10");

	assert_int_equal(in.ip.proto, WIRE_IP_ICMP6);
	assert_int_equal(in.l4[0], WIRE_ICMP6_NS);
	assert_int_equal(rig_csum(&in, true), 0);
	rig_same(&in.ip.src, &r->fwd.f[FWD_V6].ours);
	rig_same(&in.ip.dst, &group);
	assert_memory_equal(in.l4 + 8, r->fwd.f[FWD_V6].guest.b, 16);
}

static void test_solicit(void **state)
{
	static const struct inaddr none;
	struct rig *r = *state;

	svc_solicit(&r->p);
	assert_int_equal(r->l2.cnt, 2);
	check_arp(r, &r->l2.frames[0], "192.0.2.1");
	check_ns(r, &r->l2.frames[1]);
	fake_l2_clear(&r->l2);
	r->fwd.f[r->v4 ? FWD_V6 : FWD_V4].on = false;
	svc_solicit(&r->p);
	assert_int_equal(r->l2.cnt, 1);
	if (r->v4)
		check_arp(r, &r->l2.frames[0], "192.0.2.1");
	else
		check_ns(r, &r->l2.frames[0]);
	fake_l2_clear(&r->l2);
	/* without an address of ours: ARP has the probe, neighbour discovery nothing that would be answered to us */
	r->fwd.f[FWD_V4].ours = r->fwd.f[FWD_V6].ours = none;
	svc_solicit(&r->p);
	assert_int_equal(r->l2.cnt, r->v4 ? 1 : 0);
	if (r->v4)
		check_arp(r, &r->l2.frames[0], "0.0.0.0");
	fake_l2_clear(&r->l2);
	rig_family(&r->fwd.f[FWD_V4], "0.0.0.0", "192.0.2.1", "192.0.2.1", 24);
	rig_family(&r->fwd.f[FWD_V6], "::", "fe80::1", "fe80::1", 64);
	svc_solicit(&r->p);
	assert_int_equal(r->l2.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_known),
		RIG_BOTH(test_announced),
		RIG_BOTH(test_refused),
		RIG_BOTH(test_oldest_goes),
		RIG_BOTH(test_families_apart),
		RIG_BOTH(test_solicit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
