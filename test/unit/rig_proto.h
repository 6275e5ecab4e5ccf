/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Surroundings of a datagram protocol for unit tests: one guest on a recording
 * link, scripted sockets, a clock that the test moves. Each test runs for IPv4
 * and for IPv6.
 */
#ifndef RIG_PROTO_H
#define RIG_PROTO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../fake/fake_dgram.h"
#include "../fake/fake_l2.h"
#include "base/bytes.h"
#include "base/csum.h"
#include "proto/udp.h"

#define RIG_FLOWS	64

struct rig {
	bool v4;
	struct inaddr guest, far, router, loop;	/* of the family */
	struct fake_l2 l2;
	struct fake_dg dg;
	struct twheel tw;
	struct rng rng;
	struct drops drops;
	struct fwd fwd;
	struct flow_tab flows;
	struct udp_settings udp;
	struct env env;
	struct proto p;
	void *mem;
	struct l2_frame frame[L2_BATCH];	/* behind the packets from the guest */
	struct proto_pkt pkt[L2_BATCH];
	struct iovec iov[L2_BATCH][4];
	uint8_t bytes[L2_BATCH][65600];
	uint32_t pkt_cnt;
};

static inline struct inaddr rig_addr(const char *s)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(s, &a), 0);
	return a;
}

static inline void rig_family(struct fwd_family_set *f, const char *guest, const char *router, const char *ours,
			      uint8_t prefix)
{
	f->on = true;
	f->prefix_len = prefix;
	f->guest = f->seen = rig_addr(guest);
	f->gateway = f->host_loopback = rig_addr(router);
	f->ours = rig_addr(ours);
}

/* state: the family, NULL is IPv4 */
static inline int rig_setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	const struct hash_key key = { { 1, 2 } };

	r->v4 = !*state;
	r->guest = rig_addr(r->v4 ? "192.0.2.10" : "2001:db8::10");
	r->router = rig_addr(r->v4 ? "192.0.2.1" : "fe80::1");
	r->far = rig_addr(r->v4 ? "198.51.100.7" : "2001:db8:f::7");
	r->loop = rig_addr(r->v4 ? "127.0.0.1" : "::1");
	fake_l2_init(&r->l2, 0);
	fake_dg_init(&r->dg);
	r->env = (struct env){
		.now = 1000 * NS_S, .l2 = &r->l2.l2, .sk = &r->dg.sk, .tw = &r->tw, .rng = &r->rng, .drops = &r->drops,
		.our_mac = { { 2, 0, 0, 0, 0, 1 } }, .guest_mac = { { 2, 0, 0, 0, 0, 2 } },
	};
	twheel_init(&r->tw, r->env.now);
	rng_seed(&r->rng, 1);
	r->mem = calloc(1, flow_tab_size(RIG_FLOWS));
	flow_tab_init(&r->flows, r->mem, RIG_FLOWS, &key);
	rig_family(&r->fwd.f[FWD_V4], "192.0.2.10", "192.0.2.1", "192.0.2.1", 24);
	rig_family(&r->fwd.f[FWD_V6], "2001:db8::10", "fe80::1", "fe80::1", 64);
	r->fwd.f[FWD_V6].seen_ll = rig_addr("fe80::10");
	r->fwd.f[FWD_V6].scope = 3;
	r->fwd.f[FWD_V4].group_scope = r->fwd.f[FWD_V6].group_scope = 3;
	r->fwd.f[FWD_V4].same_net = r->fwd.f[FWD_V6].same_net = true;
	r->udp = (struct udp_settings){ .timeout_oneway = 30 * NS_S, .timeout_stream = 120 * NS_S };
	r->p = (struct proto){
		.env = &r->env, .flows = &r->flows, .fwd = &r->fwd, .udp = &r->udp,
		.scratch = malloc(PROTO_SCRATCH_LEN), .ready_first = FLOW_NONE, .ready_last = FLOW_NONE,
	};
	*state = r;
	return 0;
}

static inline int rig_teardown(void **state)
{
	struct rig *r = *state;

	fake_l2_done(&r->l2);
	fake_dg_done(&r->dg);
	free(r->p.scratch);
	free(r->mem);
	free(r);
	return 0;
}

#define RIG_BOTH(test) \
	{ #test " IPv4", test, rig_setup, rig_teardown, NULL }, \
	{ #test " IPv6", test, rig_setup, rig_teardown, (void *)1 }

/* Queue L4 bytes as a packet of the guest, in PIECES pieces of memory (up to 4) */
static inline struct proto_pkt *rig_pkt(struct rig *r, const struct inaddr *dst, uint8_t proto, const void *l4,
					uint32_t len, uint32_t pieces)
{
	const uint32_t i = r->pkt_cnt++;
	struct proto_pkt *k = &r->pkt[i];
	uint32_t off = 0;

	assert_true(i < L2_BATCH && pieces <= 4 && len <= sizeof(r->bytes[i]));
	memcpy(r->bytes[i], l4, len);
	for (uint32_t n = 0; n < pieces; n++) {
		const uint32_t part = n == pieces - 1 ? len - off : len / pieces;

		r->iov[i][n] = (struct iovec){ r->bytes[i] + off, part };
		off += part;
	}
	memset(&r->frame[i], 0, sizeof(r->frame[i]));
	*k = (struct proto_pkt){
		.frame = &r->frame[i],
		.ip = { .src = r->guest, .dst = *dst, .proto = proto, .ttl = 64, .df = true },
		.l4 = view_of(r->iov[i], len), .next = FLOW_NONE,
	};
	if (i)
		r->pkt[i - 1].next = i;
	return k;
}

struct rig_in {				/* a frame to the guest, parsed */
	struct wire_eth eth;
	struct wire_ip ip;
	const uint8_t *l4;
	uint32_t l4_len;
};

static inline struct rig_in rig_frame(const struct fake_l2_frame *f)
{
	const struct iovec iov = { f->buf, f->len };
	struct view v = view_of(&iov, f->len);
	struct rig_in in;

	assert_int_equal(wire_eth_parse(&v, &in.eth), 0);
	if (in.eth.type == WIRE_ETH_IPV4) {
		assert_int_equal(csum_done(csum_add(0, f->buf + WIRE_ETH_LEN, WIRE_IP4_LEN)), 0);
		assert_int_equal(wire_ip4_parse(&v, &in.ip), WIRE_IP_OK);
	} else {
		assert_int_equal(in.eth.type, WIRE_ETH_IPV6);
		assert_int_equal(wire_ip6_parse(&v, &in.ip), WIRE_IP_OK);
	}
	in.l4 = (const uint8_t *)v.iov->iov_base + v.off;
	in.l4_len = v.len;
	assert_int_equal(in.ip.ttl, 255);
	return in;
}

/* Sum over pseudo-header (if any) and L4 bytes: 0 if right */
static inline uint16_t rig_csum(const struct rig_in *in, bool pseudo)
{
	const uint32_t sum = pseudo ? csum_pseudo(&in->ip.src, &in->ip.dst, in->ip.proto, in->l4_len) : 0;

	return csum_done(csum_add(sum, in->l4, in->l4_len));
}

static inline void rig_same(const struct inaddr *x, const struct inaddr *y)
{
	assert_memory_equal(x->b, y->b, 16);
}

static inline void rig_pattern(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

#endif
