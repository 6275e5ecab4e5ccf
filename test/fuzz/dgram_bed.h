/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For fuzz targets of the datagram protocols: one guest on a recording link, scripted sockets, and what every frame to
 * the guest must look like.
 */
#ifndef FUZZ_DGRAM_BED_H
#define FUZZ_DGRAM_BED_H

#include "base/bytes.h"
#include "base/csum.h"
#include "fake/fake_dgram.h"
#include "fake/fake_l2.h"
#include "pieces.h"
#include "proto/icmp.h"
#include "proto/udp.h"

#define BED_FLOWS	16

struct bed {
	bool v4;
	struct inaddr guest, far;
	struct fake_l2 l2;
	struct twheel tw;
	struct rng rng;
	struct drops drops;
	struct fwd fwd;
	struct flow_tab flows;
	struct udp_settings udp;
	struct env env;
	struct proto p;
	void *mem;
	struct fake_dg dg;		/* last: it clears itself */
};

static inline struct inaddr bed_addr(const char *s)
{
	struct inaddr a;

	fuzz_require(!inaddr_parse(s, &a));
	return a;
}

/* One at a time, in memory that stays: to map megabytes anew took most of the time of an input */
static inline struct bed *bed_new(bool v4, uint32_t flows)
{
	static uint8_t scratch[PROTO_SCRATCH_LEN];
	static struct bed bed, *const b = &bed;
	const struct hash_key key = { { 1, 2 } };

	memset(b, 0, offsetof(struct bed, dg));
	b->v4 = v4;
	b->guest = bed_addr(v4 ? "192.0.2.10" : "2001:db8::10");
	b->far = bed_addr(v4 ? "198.51.100.7" : "2001:db8:f::7");
	fake_l2_init(&b->l2, 0);
	fake_dg_init(&b->dg);
	b->env = (struct env){
		.now = 1000 * NS_S, .l2 = &b->l2.l2, .sk = &b->dg.sk, .tw = &b->tw, .rng = &b->rng, .drops = &b->drops,
	};
	twheel_init(&b->tw, b->env.now);
	rng_seed(&b->rng, 1);
	b->mem = calloc(1, flow_tab_size(flows));
	fuzz_require(b->mem);
	flow_tab_init(&b->flows, b->mem, flows, &key);
	for (int f = 0; f < FWD_FAMILIES; f++)
		b->fwd.f[f].on = true;
	b->fwd.f[FWD_V4].guest = b->fwd.f[FWD_V4].seen = bed_addr("192.0.2.10");
	b->fwd.f[FWD_V4].ours = b->fwd.f[FWD_V4].gateway = bed_addr("192.0.2.1");
	b->fwd.f[FWD_V6].guest = b->fwd.f[FWD_V6].seen = bed_addr("2001:db8::10");
	b->fwd.f[FWD_V6].ours = b->fwd.f[FWD_V6].gateway = bed_addr("fe80::1");
	b->udp = (struct udp_settings){ .timeout_oneway = 30 * NS_S, .timeout_stream = 120 * NS_S };
	b->p = (struct proto){
		.env = &b->env, .flows = &b->flows, .fwd = &b->fwd, .udp = &b->udp, .scratch = scratch,
		.ready_first = FLOW_NONE, .ready_last = FLOW_NONE,
	};
	return b;
}

static inline void bed_free(struct bed *b)
{
	fake_l2_done(&b->l2);
	fake_dg_done(&b->dg);
	free(b->mem);
}

/* Every frame is an ICMP error to the guest: as long as the RFCs allow, right sums, a quote of what the guest had sent */
static inline void bed_check_errors(struct bed *b)
{
	for (uint32_t i = 0; i < b->l2.cnt; i++) {
		const struct iovec iov = { b->l2.frames[i].buf, b->l2.frames[i].len };
		struct view v = view_of(&iov, b->l2.frames[i].len);
		struct wire_ip ip, in;
		struct wire_icmp h;

		fuzz_require(v.len <= WIRE_ETH_LEN + (b->v4 ? 576u : 1280u));
		view_skip(&v, WIRE_ETH_LEN);
		fuzz_require((b->v4 ? wire_ip4_parse(&v, &ip) : wire_ip6_parse(&v, &ip)) == WIRE_IP_OK);
		fuzz_require(inaddr_eq(&ip.dst, &b->guest) && inaddr_is_unicast(&ip.src));
		fuzz_require(ip.proto == (b->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6));
		fuzz_require(!csum_done(csum_add_view(b->v4 ? 0 : csum_pseudo(&ip.src, &ip.dst, ip.proto, v.len), &v)));
		fuzz_require(!wire_icmp_parse(&v, &h));
		fuzz_require(b->v4 ? h.type == 3 || h.type == 11 || h.type == 12 : h.type >= 1 && h.type <= 4);
		fuzz_require(wire_ip_quote_parse(&v, b->v4, &in) == WIRE_IP_OK);
		fuzz_require(inaddr_eq(&in.src, &b->guest) && inaddr_eq(&in.dst, &b->far));
	}
	fake_l2_clear(&b->l2);
}

#endif
