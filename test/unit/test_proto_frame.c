/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/frame.c: start and end of frames, the queue of flows.
 */
#include "rig_proto.h"

static void test_l3(void **state)
{
	struct rig *r = *state;
	uint8_t hdr[PROTO_HDR_MAX];
	struct fake_l2_frame f = { .buf = hdr };
	struct rig_in in;

	f.len = proto_emit_l3(&r->env, hdr, &r->far, &r->guest, WIRE_IP_UDP, 0x2e, 0);
	assert_int_equal(f.len, proto_l4_off(&r->far));
	in = rig_frame(&f);
	rig_same(&in.ip.src, &r->far);
	rig_same(&in.ip.dst, &r->guest);
	assert_int_equal(in.ip.proto, WIRE_IP_UDP);
	assert_int_equal(in.ip.tos, 0x2e);
	assert_true(in.ip.df);
	assert_memory_equal(&in.eth.dst, &r->env.guest_mac, 6);
	assert_memory_equal(&in.eth.src, &r->env.our_mac, 6);
}

static void test_group_mac(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = rig_addr(r->v4 ? "239.255.255.250" : "ff02::1:ff00:10");
	const uint8_t mac4[6] = { 1, 0, 0x5e, 0x7f, 0xff, 0xfa }, mac6[6] = { 0x33, 0x33, 0xff, 0, 0, 0x10 };
	const struct inaddr all = rig_addr("255.255.255.255");
	uint8_t hdr[PROTO_HDR_MAX];

	proto_emit_l3(&r->env, hdr, &r->far, &group, WIRE_IP_UDP, 0, 0);
	assert_memory_equal(hdr, r->v4 ? mac4 : mac6, 6);
	if (r->v4) {
		proto_emit_l3(&r->env, hdr, &r->far, &all, WIRE_IP_UDP, 0, 0);
		assert_memory_equal(hdr, macaddr_broadcast.b, 6);
	}
}

static void test_link_full(void **state)
{
	struct rig *r = *state;
	struct l2_frame f;

	r->l2.reserve_max = 0;
	assert_false(proto_reserve(&r->env, &f, 100));
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 1);
	r->l2.reserve_max = 1;
	assert_true(proto_reserve(&r->env, &f, 100));
	assert_int_equal(f.len, 100);
	assert_int_equal(f.gso, L2_GSO_NONE);
	assert_int_equal(f.csum, L2_CSUM_COMPLETE);
	fake_l2_refuse_after(&r->l2, 0);
	assert_false(proto_commit(&r->env, &f));
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 2);
	fake_l2_refuse_after(&r->l2, UINT32_MAX);
	assert_true(proto_commit(&r->env, &f));
}

/* Any order of leaving keeps the queue whole */
static void test_ready_queue(void **state)
{
	struct rig *r = *state;

	for (int gone = 0; gone < 3; gone++) {
		struct flow *f[3];
		uint32_t i, n = 0;

		for (uint16_t k = 0; k < 3; k++) {
			const struct flow_key key = { r->guest, r->far, (uint16_t)(k + 1), 9, FLOW_UDP };

			f[k] = flow_new(&r->flows, &key);
			twheel_arm(&r->tw, &f[k]->timer, r->env.now + NS_S);
			proto_ready(&r->p, f[k]);
			proto_ready(&r->p, f[k]);
		}
		r->p.flow_gone = false;
		proto_flow_free(&r->p, f[gone]);
		assert_true(r->p.flow_gone);
		for (i = r->p.ready_first; i != FLOW_NONE; i = r->flows.tab[i].ready_next, n++) {
			assert_true(r->flows.tab[i].ready);
			assert_int_not_equal(i, flow_idx(&r->flows, f[gone]));
			if (r->flows.tab[i].ready_next == FLOW_NONE)
				assert_int_equal(r->p.ready_last, i);
		}
		assert_int_equal(n, 2);
		for (int k = 0; k < 3; k++) {
			if (k != gone)
				proto_flow_free(&r->p, f[k]);
		}
		assert_int_equal(r->p.ready_first, FLOW_NONE);
		assert_int_equal(r->flows.cnt, 0);
		assert_true(twheel_next(&r->tw) == NS_NEVER);
	}
}

/* UDP-37: how strictly DF is meant */
static void test_df(void **state)
{
	static const struct { bool df; uint8_t ttl; uint16_t id; enum sk_df want4, want6; } tab[] = {
		{ true, 64, 1, SK_DF_MAYBE, SK_DF_MAYBE }, { true, 64, 0, SK_DF_YES, SK_DF_MAYBE },
		{ true, 31, 1, SK_DF_YES, SK_DF_YES }, { true, 32, 1, SK_DF_MAYBE, SK_DF_MAYBE },
		{ false, 1, 0, SK_DF_NO, SK_DF_NO }, { false, 64, 1, SK_DF_NO, SK_DF_NO },
	};
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(tab); i++) {
		const struct wire_ip ip = { .src = r->guest, .df = tab[i].df, .ttl = tab[i].ttl, .id = r->v4 ? tab[i].id : 0 };

		assert_int_equal(proto_df(&ip), r->v4 ? tab[i].want4 : tab[i].want6);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_l3),
		RIG_BOTH(test_group_mac),
		RIG_BOTH(test_link_full),
		RIG_BOTH(test_ready_queue),
		RIG_BOTH(test_df),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
