/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/svc/arp.c: ARP-1 to ARP-9. IPv4 only by nature.
 */
#include <stdio.h>

#include "rig_proto.h"

#include "proto/svc.h"
#include "wire/arp.h"

static const struct macaddr guest_mac = { { 2, 0, 0, 0, 0, 2 } };

static void ask(struct rig *r, uint16_t op, const char *sip, const char *tip)
{
	uint8_t b[WIRE_ARP_LEN];
	const struct iovec iov[2] = { { b, 9 }, { b + 9, sizeof(b) - 9 } };
	const struct wire_arp a = { .op = op, .sha = guest_mac, .sip = rig_addr(sip), .tip = rig_addr(tip) };

	wire_arp_emit(b, &a);
	svc_arp(&r->p, view_of(iov, sizeof(b)));
}

static struct wire_arp answer(struct rig *r, struct wire_eth *ret_eth)
{
	const struct fake_l2_frame *f = &r->l2.frames[0];
	const struct iovec iov = { f->buf, f->len };
	struct view v = view_of(&iov, f->len);
	struct wire_arp a;

	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(wire_eth_parse(&v, ret_eth), 0);
	assert_int_equal(ret_eth->type, WIRE_ETH_ARP);
	assert_int_equal(wire_arp_parse(v, &a), 0);
	fake_l2_clear(&r->l2);
	return a;
}

/* ARP-2, ARP-3, ARP-4: everybody's address, on the link or not; probes too */
static void test_answers(void **state)
{
	static const struct { const char *sip, *tip; } q[] = {
		{ "192.0.2.10", "192.0.2.1" }, { "192.0.2.10", "192.0.2.77" }, { "192.0.2.10", "203.0.113.4" },
		{ "0.0.0.0", "192.0.2.77" },
	};
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(q); i++) {
		const struct inaddr sip = rig_addr(q[i].sip), tip = rig_addr(q[i].tip);
		struct wire_eth eth;
		struct wire_arp a;

		r->l2.split = i & 1 ? 5 : 0;
		ask(r, WIRE_ARP_REQUEST, q[i].sip, q[i].tip);
		a = answer(r, &eth);
		assert_int_equal(a.op, WIRE_ARP_REPLY);
		rig_same(&a.sip, &tip);
		rig_same(&a.tip, &sip);
		assert_true(macaddr_eq(&a.sha, &r->env.our_mac) && macaddr_eq(&a.tha, &guest_mac));
		assert_true(macaddr_eq(&eth.dst, &guest_mac) && macaddr_eq(&eth.src, &r->env.our_mac));
	}
}

/* ARP-2 a and b, ARP-5, ARP-9 */
static void test_silent(void **state)
{
	struct rig *r = *state;
	struct wire_eth eth;

	ask(r, WIRE_ARP_REQUEST, "0.0.0.0", "192.0.2.10");	/* probe for the assigned one */
	ask(r, WIRE_ARP_REQUEST, "192.0.2.1", "192.0.2.10");
	r->fwd.f[FWD_V4].seen = rig_addr("192.0.2.11");
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "192.0.2.11");	/* observed */
	ask(r, WIRE_ARP_REQUEST, "192.0.2.12", "192.0.2.12");	/* announced */
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "192.0.2.12");
	ask(r, WIRE_ARP_REPLY, "192.0.2.10", "192.0.2.1");
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "224.0.0.1");
	assert_int_equal(r->l2.cnt, 0);
	/* the router's address is not for the guest to take */
	ask(r, WIRE_ARP_REQUEST, "192.0.2.1", "192.0.2.1");
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "192.0.2.1");
	answer(r, &eth);
	assert_int_equal(r->drops.cnt[DROP_ARP_BAD], 0);
}

static void test_announced_are_bounded(void **state)
{
	struct rig *r = *state;
	struct wire_eth eth;
	char a[16];

	for (int i = 0; i < PROTO_OWNED_MAX + 1; i++) {
		snprintf(a, sizeof(a), "192.0.2.%d", 100 + i);
		ask(r, WIRE_ARP_REQUEST, a, a);
	}
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", a);
	assert_int_equal(r->l2.cnt, 0);
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "192.0.2.100");	/* the oldest is forgotten */
	answer(r, &eth);
}

static void test_bad(void **state)
{
	struct rig *r = *state;
	uint8_t b[WIRE_ARP_LEN];
	const struct iovec iov = { b, sizeof(b) };
	const struct wire_arp a = {
		.op = WIRE_ARP_REQUEST, .sha = macaddr_broadcast, .sip = r->guest, .tip = rig_addr("192.0.2.1"),
	};

	wire_arp_emit(b, &a);
	svc_arp(&r->p, view_of(&iov, sizeof(b)));		/* a group can't ask */
	svc_arp(&r->p, view_of(&iov, sizeof(b) - 1));
	assert_int_equal(r->drops.cnt[DROP_ARP_BAD], 2);
	r->fwd.f[FWD_V4].on = false;
	ask(r, WIRE_ARP_REQUEST, "192.0.2.10", "192.0.2.1");
	assert_int_equal(r->drops.cnt[DROP_FAMILY_OFF], 1);
	assert_int_equal(r->l2.cnt, 0);
}

/* ARP-6 */
static void test_solicit(void **state)
{
	struct rig *r = *state;
	struct wire_eth eth;
	struct wire_arp a;

	r->fwd.f[FWD_V6].on = false;
	svc_solicit(&r->p);
	a = answer(r, &eth);
	assert_int_equal(a.op, WIRE_ARP_REQUEST);
	rig_same(&a.tip, &r->fwd.f[FWD_V4].guest);
	rig_same(&a.sip, &r->fwd.f[FWD_V4].ours);
	assert_true(macaddr_eq(&a.sha, &r->env.our_mac) && macaddr_eq(&a.tha, &macaddr_broadcast));
	assert_true(macaddr_eq(&eth.dst, &macaddr_broadcast));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_silent, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_announced_are_bounded, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_bad, rig_setup, rig_teardown),
		cmocka_unit_test_setup_teardown(test_solicit, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
