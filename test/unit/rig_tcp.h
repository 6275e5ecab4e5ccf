/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One TCP flow for unit tests of src/proto/tcp: opened by the guest through the
 * real calls, on a recording link and scripted sockets, without the path.
 */
#ifndef RIG_TCP_H
#define RIG_TCP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../../src/proto/tcp/tcp_priv.h"
#include "../fake/fake_l2.h"
#include "../fake/fake_sk.h"

#define RIG_ISN		5000u
#define RIG_TS		7000u		/* the guest's timestamp in all that the rig sends by itself */

enum rig_opt { RIG_OPT_WS = 1, RIG_OPT_SACK = 2, RIG_OPT_TS = 4 };	/* bits: what the guest's SYN offers */

struct rig {
	struct fake_l2 l2;
	struct fake_sk sk;
	struct twheel tw;
	struct rng rng;
	struct trace tr;
	struct drops drops;
	struct fwd fwd;
	struct flow_tab flows;
	struct env env;
	struct proto p;
	struct tcp_settings tcp;
	uint32_t half_open[2];
	struct tcp_pool pool;		/* only after rig_pool() */
	void *mem;
	struct flow_key key;
	struct flow *f;			/* open, NULL before rig_open() */
	struct tcp *t;
};

static inline struct inaddr rig_addr(const char *s)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(s, &a), 0);
	return a;
}

/* state: the family, NULL is IPv4 */
static inline int rig_setup(void **state)
{
	struct rig *r = calloc(1, sizeof(*r));
	const struct hash_key key = { { 1, 2 } };
	bool v4 = !*state;

	fake_l2_init(&r->l2, L2_OFF_CSUM | L2_OFF_TSO4 | L2_OFF_TSO6);
	r->l2.l2.gives = r->l2.l2.takes;
	fake_sk_init(&r->sk, false);
	rng_seed(&r->rng, 1);
	r->env = (struct env){
		.now = 1000 * NS_S, .l2 = &r->l2.l2, .sk = &r->sk.sk, .tw = &r->tw, .rng = &r->rng, .tr = &r->tr,
		.drops = &r->drops, .key = key, .our_mac = { { 2, 0, 0, 0, 0, 1 } }, .guest_mac = { { 2, 0, 0, 0, 0, 2 } },
	};
	twheel_init(&r->tw, r->env.now);
	r->mem = calloc(1, flow_tab_size(4));
	flow_tab_init(&r->flows, r->mem, 4, &key);
	r->fwd.tcp_on = r->fwd.f[FWD_V4].on = r->fwd.f[FWD_V6].on = true;
	r->tcp = (struct tcp_settings){ 6, 4, 5, 120 * NS_S, 7200 * NS_S, 75 * NS_S, 9 };
	r->p = (struct proto){ .tcp = &r->tcp, .half_open = r->half_open, .env = &r->env, .flows = &r->flows, .fwd = &r->fwd, .ready_first = FLOW_NONE,
			       .ready_last = FLOW_NONE, .tcp_turn = TCP_TURN };
	r->key = (struct flow_key){
		.guest = rig_addr(v4 ? "192.0.2.10" : "2001:db8::10"), .far = rig_addr(v4 ? "198.51.100.7" : "2001:db8:f::7"),
		.guest_port = 40000, .far_port = 80, .proto = FLOW_TCP,
	};
	*state = r;
	return 0;
}

static inline int rig_teardown(void **state)
{
	struct rig *r = *state;

	fake_l2_done(&r->l2);
	fake_sk_done(&r->sk);
	free(r->pool.mem);
	free(r->mem);
	free(r);
	return 0;
}

#define RIG_BOTH(test) \
	{ #test " IPv4", test, rig_setup, rig_teardown, NULL }, \
	{ #test " IPv6", test, rig_setup, rig_teardown, (void *)1 }

/* Give the flows a pool of BLOCKS blocks */
static inline void rig_pool(struct rig *r, uint32_t blocks)
{
	r->pool = (struct tcp_pool){ .mem = calloc(1, TCP_POOL_LEN), .fresh = TCP_POOL_CNT - blocks };
	assert_non_null(r->pool.mem);
	r->p.tcp_pool = &r->pool;
}

/* An open flow; the guest's window is 1000 << 7, its MSS 1400. OPTS: enum rig_opt. */
static inline void rig_open_opts(struct rig *r, unsigned opts)
{
	struct tcp_seg s = { .h = { .sport = 40000, .dport = 80, .seq = RIG_ISN, .wnd = 65535, .flags = WIRE_TCP_SYN,
				    .has_mss = true, .mss = 1400, .has_ws = opts & RIG_OPT_WS, .ws = 7,
				    .has_sack_ok = opts & RIG_OPT_SACK, .has_ts = opts & RIG_OPT_TS, .ts_val = RIG_TS },
			     .next = FLOW_NONE };
	struct ev_hit hit = { .mask = EV_OUT };

	tcp_guest_new(&r->p, &r->key, &s);
	r->f = flow_find(&r->flows, &r->key);
	assert_non_null(r->f);
	r->t = flow_body(r->f);
	r->sk.s[r->f->h].result = 0;
	tcp_host(&r->p, r->f, &hit);
	s.h = (struct wire_tcp){ .sport = 40000, .dport = 80, .seq = RIG_ISN + 1, .ack = r->t->iss + 1, .wnd = 1000,
				 .flags = WIRE_TCP_ACK, .has_ts = opts & RIG_OPT_TS, .ts_val = RIG_TS };
	tcp_guest(&r->p, r->f, &s, 0);
	assert_int_equal(r->t->phase, TCP_PHASE_OPEN);
	fake_l2_clear(&r->l2);
}

static inline void rig_open(struct rig *r, bool scaled)
{
	rig_open_opts(r, scaled ? RIG_OPT_WS : 0);
}

/* The guest acknowledges up to OFF bytes of ours; SACK blocks are the caller's to add */
static inline struct tcp_seg rig_ack(const struct rig *r, uint32_t off)
{
	return (struct tcp_seg){ .h = { .seq = r->t->rcv_nxt, .ack = r->t->iss + 1 + off, .wnd = 1000, .flags = WIRE_TCP_ACK,
				       .has_ts = r->t->ts_on, .ts_val = RIG_TS }, .next = FLOW_NONE };
}

/* A frame to the guest: header parsed, payload length returned */
static inline uint32_t rig_frame(const struct rig *r, uint32_t n, struct wire_tcp *ret)
{
	const struct fake_l2_frame *f = &r->l2.frames[n];
	uint32_t l4 = proto_l4_off(&r->key.far);
	struct iovec iov = { f->buf + l4, f->len - l4 };
	struct view v = view_of(&iov, f->len - l4);

	assert_true(n < r->l2.cnt);
	assert_int_equal(wire_tcp_parse(&v, ret), 0);
	return v.len;
}

static inline struct fake_sk_sock *rig_sock(struct rig *r)
{
	return &r->sk.s[r->f->h];
}

#endif
