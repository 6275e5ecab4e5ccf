/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/shared.c: which packets to an address of guest and host go back to the guest, and that they are what they were.
 */
#include <errno.h>

#include "rig_proto.h"
#include "wire/icmp.h"
#include "wire/tcp.h"
#include "wire/udp.h"

#define HEAD		2048		/* bytes of packet in one piece of memory, the rest in another */

struct sent {				/* a frame of the guest to its own address */
	uint8_t proto;
	uint8_t flags;			/* of TCP; type of ICMP */
	uint32_t data_len;
	uint16_t sport, dport;
};

/* L4 bytes at P; returns how many */
static uint32_t emit_l4(uint8_t *p, const struct sent *s)
{
	uint32_t len = s->proto == WIRE_IP_TCP ? WIRE_TCP_LEN : WIRE_UDP_LEN;

	if (s->proto == WIRE_IP_TCP) {
		memset(p, 0, len);
		bytes_put16(p, s->sport);
		bytes_put16(p + 2, s->dport);
		p[12] = 0x50;
		p[13] = s->flags;
	} else if (s->proto != WIRE_IP_UDP) {
		memset(p, 0, len);
		p[0] = s->flags;
	} else {
		const struct wire_udp h = { s->sport, s->dport };

		wire_udp_emit(p, &h, s->data_len, 0xabcd);
	}
	rig_pattern(p + len, s->data_len, s->sport);
	return len + s->data_len;
}

static struct proto_pkt *packet(struct rig *r, const struct sent *s)
{
	struct proto_pkt *k = rig_pkt(r, &r->guest, s->proto, "", 0, 1);
	struct l2_frame *f = &r->frame[r->pkt_cnt - 1];
	uint8_t *p = r->bytes[r->pkt_cnt - 1];
	const struct wire_eth eth = {
		.dst = r->env.our_mac, .src = r->env.guest_mac, .type = r->v4 ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6,
	};
	uint32_t l4 = WIRE_ETH_LEN + wire_ip_hdr_len(&r->guest), len;

	len = l4 + emit_l4(p + l4, s);
	wire_eth_emit(p, &eth);
	wire_ip_emit(p + WIRE_ETH_LEN, &k->ip, len - l4);
	f->iov[0] = (struct iovec){ p, BYTES_MIN(len, HEAD) };
	f->iov[1] = (struct iovec){ p + HEAD, len - BYTES_MIN(len, HEAD) };
	f->iov_cnt = len > HEAD ? 2 : 1;
	f->len = len;
	k->l4 = view_of(f->iov, len);
	view_skip(&k->l4, l4);
	return k;
}

static bool take(struct rig *r, const struct sent *s)
{
	r->dg.guest_asked = 0;
	return proto_shared_take(&r->p, packet(r, s), false);
}

/* The last frame that the guest got is the last one that it sent, but for who sends it to whom */
static void came_back(struct rig *r)
{
	const struct l2_frame *f = &r->frame[r->pkt_cnt - 1];
	const struct fake_l2_frame *b = &r->l2.frames[r->l2.cnt - 1];
	const uint8_t *p = r->bytes[r->pkt_cnt - 1];

	assert_true(r->l2.cnt);
	assert_int_equal(b->len, f->len);
	assert_memory_equal(b->buf, r->env.guest_mac.b, 6);
	assert_memory_equal(b->buf + 6, r->env.our_mac.b, 6);
	assert_memory_equal(b->buf + 12, p + 12, f->len - 12);
	assert_int_equal(b->gso, f->gso);
	assert_int_equal(b->gso_size, f->gso_size);
	assert_int_equal(b->csum, f->csum);
	assert_int_equal(b->csum_start, f->csum_start);
	assert_int_equal(b->csum_off, f->csum_off);
	assert_int_equal(b->hdr_len, f->hdr_len);
	fake_l2_clear(&r->l2);
}

static void asked(const struct rig *r, const struct sent *s)
{
	assert_int_equal(r->dg.guest_asked, 1);
	assert_int_equal(r->dg.guest_tcp, s->proto == WIRE_IP_TCP);
	rig_same(&r->dg.guest_local.a, &r->guest);
	rig_same(&r->dg.guest_remote.a, &r->guest);
	assert_int_equal(r->dg.guest_local.port, s->dport);
	assert_int_equal(r->dg.guest_remote.port, s->sport);
}

/* The first packet of a conversation: the guest's own socket goes first, and an unknown answer is left to its kernel */
static void test_first(void **state)
{
	static const struct sent first[] = {
		{ WIRE_IP_TCP, WIRE_TCP_SYN, 0, 40000, 80 }, { WIRE_IP_TCP, WIRE_TCP_SYN | WIRE_TCP_ECE | WIRE_TCP_CWR, 9, 40000, 80 },
		{ WIRE_IP_UDP, 0, 0, 40000, 53 }, { WIRE_IP_UDP, 0, 60000, 40000, 53 },
	};
	struct rig *r = *state;

	r->fwd.tcp_on = r->fwd.udp_on = true;
	for (unsigned i = 0; i < BYTES_COUNT(first); i++) {
		r->dg.guest_has = 0;
		assert_false(take(r, &first[i]));
		asked(r, &first[i]);
		assert_int_equal(r->l2.cnt, 0);
		r->dg.guest_has = 1;
		assert_true(take(r, &first[i]));
		asked(r, &first[i]);
		came_back(r);
		r->dg.guest_has = -ENOBUFS;
		assert_true(take(r, &first[i]));
		came_back(r);
	}
}

/* The host has lost the address: whoever has it next is not meant */
static void test_lost(void **state)
{
	static const struct sent s[] = { { WIRE_IP_TCP, WIRE_TCP_SYN, 0, 40000, 80 }, { WIRE_IP_UDP, 0, 0, 40000, 80 } };
	struct rig *r = *state;
	struct fwd_family_set *f = &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];

	r->fwd.tcp_on = r->fwd.udp_on = true;
	f->shared[f->shared_cnt++] = r->guest;
	f->shared_lost = 1;
	for (unsigned i = 0; i < BYTES_COUNT(s); i++) {
		assert_true(take(r, &s[i]));
		assert_int_equal(r->dg.guest_asked, 0);
		came_back(r);
	}
	f->shared_lost = 0;
	assert_false(take(r, &s[0]));
}

/* TCP without a flow and without being a SYN: a conversation inside the guest, or nobody's, which its kernel tells */
static void test_tcp_inside(void **state)
{
	static const uint8_t flags[] = {
		WIRE_TCP_SYN | WIRE_TCP_ACK, WIRE_TCP_ACK, WIRE_TCP_ACK | WIRE_TCP_PSH, WIRE_TCP_FIN | WIRE_TCP_ACK, WIRE_TCP_RST,
		WIRE_TCP_RST | WIRE_TCP_ACK, 0, WIRE_TCP_SYN | WIRE_TCP_FIN, WIRE_TCP_SYN | WIRE_TCP_RST,
	};
	struct rig *r = *state;

	r->fwd.tcp_on = true;
	for (unsigned i = 0; i < BYTES_COUNT(flags); i++) {
		const struct sent s = { WIRE_IP_TCP, flags[i], 3000, 80, 40000 };

		assert_true(take(r, &s));
		assert_int_equal(r->dg.guest_asked, 0);
		came_back(r);
	}
}

/* What has a flow leads to the host, whoever listens now */
static void test_flow(void **state)
{
	static const struct sent s[] = {
		{ WIRE_IP_TCP, WIRE_TCP_SYN, 0, 40000, 80 }, { WIRE_IP_TCP, WIRE_TCP_ACK, 10, 40000, 80 }, { WIRE_IP_UDP, 0, 10, 40000, 80 },
	};
	struct rig *r = *state;
	struct flow_key key = { .guest = r->guest, .far = r->guest, .guest_port = 40000, .far_port = 80, .proto = FLOW_TCP };

	r->fwd.tcp_on = r->fwd.udp_on = true;
	r->dg.guest_has = 1;
	assert_non_null(flow_new(&r->flows, &key));
	key.proto = FLOW_UDP;
	assert_non_null(flow_new(&r->flows, &key));
	for (unsigned i = 0; i < BYTES_COUNT(s); i++) {
		assert_false(take(r, &s[i]));
		assert_int_equal(r->dg.guest_asked, 0);
		assert_int_equal(r->l2.cnt, 0);
	}
}

/* Offloads stay what they were; other protocols, and those switched off, are not for the host */
static void test_unchanged(void **state)
{
	struct rig *r = *state;
	const struct sent udp = { WIRE_IP_UDP, 0, 5000, 40000, 53 };
	struct sent icmp = { r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, r->v4 ? WIRE_ICMP4_ECHO : WIRE_ICMP6_ECHO, 700, 0, 0 };
	const struct sent syn = { WIRE_IP_TCP, WIRE_TCP_SYN, 0, 40000, 80 };
	struct proto_pkt *k;
	struct l2_frame *f;

	assert_true(take(r, &udp));
	came_back(r);
	assert_true(take(r, &syn));
	came_back(r);
	assert_true(take(r, &icmp));
	came_back(r);
	icmp.flags = r->v4 ? WIRE_ICMP4_UNREACH : WIRE_ICMP6_UNREACH;
	assert_false(take(r, &icmp));	/* others see it too */
	came_back(r);
	assert_int_equal(r->dg.guest_asked, 0);
	r->fwd.udp_on = true;
	r->dg.guest_has = 1;
	k = packet(r, &udp);
	f = &r->frame[r->pkt_cnt - 1];
	f->gso = L2_GSO_UDP;
	f->gso_size = 1000;
	f->csum = L2_CSUM_PARTIAL;
	f->csum_start = WIRE_ETH_LEN + (uint16_t)wire_ip_hdr_len(&r->guest);
	f->csum_off = 6;
	f->hdr_len = f->csum_start + WIRE_UDP_LEN;
	assert_true(proto_shared_take(&r->p, k, false));
	came_back(r);
}

/* What came as fragments goes back as fragments; a link without room loses a frame, and counts it */
static void test_link(void **state)
{
	struct rig *r = *state;
	const struct sent udp = { WIRE_IP_UDP, 0, 5000, 40000, 53 };
	uint32_t len = 0;

	r->fwd.udp_on = true;
	r->dg.guest_has = 1;
	assert_true(proto_shared_take(&r->p, packet(r, &udp), true));
	assert_int_equal(r->l2.cnt, 4);
	for (uint32_t i = 0; i < r->l2.cnt; i++) {
		assert_true(r->l2.frames[i].len <= WIRE_ETH_LEN + r->l2.l2.mtu);
		len += r->l2.frames[i].len - WIRE_ETH_LEN - (r->v4 ? WIRE_IP4_LEN : WIRE_IP6_LEN + 8);
	}
	assert_int_equal(len, WIRE_UDP_LEN + 5000);
	fake_l2_clear(&r->l2);
	fake_l2_refuse_after(&r->l2, 0);
	assert_true(take(r, &udp));
	assert_int_equal(r->drops.cnt[DROP_L2_LINK_FULL], 1);
}

/* Malformed headers are for others to refuse */
static void test_malformed(void **state)
{
	struct rig *r = *state;
	const struct sent s[] = { { WIRE_IP_TCP, WIRE_TCP_SYN, 0, 40000, 80 }, { WIRE_IP_UDP, 0, 0, 40000, 80 } };

	r->fwd.tcp_on = r->fwd.udp_on = true;
	for (unsigned i = 0; i < BYTES_COUNT(s); i++) {
		struct proto_pkt *k = packet(r, &s[i]);

		view_trim(&k->l4, WIRE_UDP_LEN - 1);
		assert_false(proto_shared_take(&r->p, k, false));
	}
	assert_int_equal(r->dg.guest_asked, 0);
	assert_int_equal(r->l2.cnt, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_first),
		RIG_BOTH(test_tcp_inside),
		RIG_BOTH(test_flow),
		RIG_BOTH(test_lost),
		RIG_BOTH(test_unchanged),
		RIG_BOTH(test_link),
		RIG_BOTH(test_malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
