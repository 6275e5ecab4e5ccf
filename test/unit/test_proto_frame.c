/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/frame.c, frag.c, addr.c and icmp/error.c: starts of frames, fragments, the queue of flows, translation of
 * targets, rate of our errors.
 */
#include "rig_proto.h"

#include "proto/icmp.h"

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

/* Put the fragments of all frames together and compare */
static void check_fragments(struct rig *r, const uint8_t *want, uint32_t len)
{
	uint8_t *got = malloc(len);
	uint32_t id = 0, sum = 0;

	for (uint32_t i = 0; i < r->l2.cnt; i++) {
		const struct fake_l2_frame *f = &r->l2.frames[i];
		const uint8_t *ip = f->buf + WIRE_ETH_LEN, *data;
		uint32_t off, n, this_id;
		bool more;

		assert_true(f->len - WIRE_ETH_LEN <= r->l2.l2.mtu);
		if (r->v4) {
			assert_int_equal(csum_done(csum_add(0, ip, 20)), 0);
			off = (bytes_get16(ip + 6) & 0x1fff) * 8u;
			more = bytes_get16(ip + 6) & 0x2000;
			assert_false(bytes_get16(ip + 6) & 0x4000);
			this_id = bytes_get16(ip + 4);
			n = bytes_get16(ip + 2) - 20u;
			data = ip + 20;
			assert_int_equal(ip[9], WIRE_IP_UDP);
		} else {
			assert_int_equal(ip[6], 44);
			assert_int_equal(ip[40], WIRE_IP_UDP);
			off = bytes_get16(ip + 42) & 0xfff8u;
			more = ip[43] & 1;
			this_id = bytes_get32(ip + 44);
			n = bytes_get16(ip + 4) - 8u;
			data = ip + 48;
		}
		if (!i)
			id = this_id;
		assert_int_equal(this_id, id);
		assert_int_equal(off, sum);
		assert_int_equal(more, i + 1 < r->l2.cnt);
		assert_true(!more || !(n % 8));
		assert_true(off + n <= len);
		memcpy(got + off, data, n);
		sum += n;
	}
	assert_int_equal(sum, len);
	assert_memory_equal(got, want, len);
	free(got);
}

static void test_fragments(void **state)
{
	struct rig *r = *state;
	const uint32_t lens[] = { 1481, 3001, 9008, r->v4 ? 65515 : 65535 };
	uint8_t *b = malloc(65536);

	rig_pattern(b, 65536, 1);
	for (unsigned i = 0; i < BYTES_COUNT(lens); i++) {
		const struct iovec iov[2] = { { b, 8 }, { b + 8, lens[i] - 8 } };
		const struct view v = view_of(iov, lens[i]);

		r->l2.split = i % 2 ? 61 : 0;
		assert_true(proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, 0, &v));
		assert_true(r->l2.cnt > 1);
		check_fragments(r, b, lens[i]);
		fake_l2_clear(&r->l2);
	}
	free(b);
}

static void test_fragments_not_needed(void **state)
{
	struct rig *r = *state;
	const uint32_t len = 1500 - wire_ip_hdr_len(&r->far);
	uint8_t b[1500];
	const struct iovec iov = { b, len };
	const struct view v = view_of(&iov, len);
	struct rig_in in;

	rig_pattern(b, len, 2);
	assert_true(proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, 0, &v));
	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	assert_int_equal(in.l4_len, len);
	assert_memory_equal(in.l4, b, len);
	/* a link with no room for any fragment */
	r->l2.l2.mtu = 24;
	assert_false(proto_send(&r->env, &r->far, &r->guest, WIRE_IP_UDP, 0, &v));
	assert_int_equal(r->drops.cnt[DROP_UDP_TOO_BIG], 1);
}

static void test_host_addr(void **state)
{
	struct rig *r = *state;
	struct sk_addr to;
	struct inaddr from;

	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].outbound = rig_addr(r->v4 ? "203.0.113.5" : "2001:db8:a::5");
	to = proto_host_addr(&r->p, &r->router, 80);
	rig_same(&to.a, &r->loop);
	assert_int_equal(to.port, 80);
	assert_int_equal(to.scope, 0);
	from = proto_host_from(&r->p, &to);
	assert_true(inaddr_is_unset(&from));
	to = proto_host_addr(&r->p, &r->far, 80);
	from = proto_host_from(&r->p, &to);
	rig_same(&from, &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].outbound);
	if (!r->v4) {
		const struct inaddr ll = rig_addr("fe80::99"), group = rig_addr("ff02::fb"), wide = rig_addr("ff05::2");

		assert_int_equal(proto_host_addr(&r->p, &ll, 1).scope, 3);
		assert_int_equal(proto_host_addr(&r->p, &group, 1).scope, 3);
		assert_int_equal(proto_host_addr(&r->p, &wide, 1).scope, 0);
	}
}

static void test_icmp_rate(void **state)
{
	struct rig *r = *state;
	int n = 0;

	while (proto_icmp_allow(&r->p))
		n++;
	assert_int_equal(n, PROTO_ICMP_BURST);
	r->env.now += 3 * NS_MS + 999 * NS_US;
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, 3);
	r->env.now += NS_US;		/* the rest of the millisecond is not lost */
	assert_true(proto_icmp_allow(&r->p));
	r->env.now += 10 * NS_S;
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, PROTO_ICMP_BURST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_l3),
		RIG_BOTH(test_group_mac),
		RIG_BOTH(test_link_full),
		RIG_BOTH(test_ready_queue),
		RIG_BOTH(test_fragments),
		RIG_BOTH(test_fragments_not_needed),
		RIG_BOTH(test_host_addr),
		RIG_BOTH(test_icmp_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
