/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the unit tests of UDP share: datagrams of the guest and of the host,
 * by pattern, between fixed ports.
 */
#ifndef RIG_UDP_H
#define RIG_UDP_H

#include "rig_proto.h"
#include "wire/udp.h"

#define GUEST_PORT	40000
#define FAR_PORT	4500
#define OFFLOADS	(L2_OFF_CSUM | L2_OFF_USO)

static inline struct flow_key key_of(const struct rig *r, const struct inaddr *far)
{
	return (struct flow_key){ r->guest, *far, GUEST_PORT, FAR_PORT, FLOW_UDP };
}

/* Queue a datagram of LEN bytes by SEED */
static inline struct proto_pkt *put(struct rig *r, const struct inaddr *far, uint32_t len, uint32_t seed, uint32_t pieces)
{
	static uint8_t b[65600];
	const struct wire_udp h = { GUEST_PORT, FAR_PORT };

	wire_udp_emit(b, &h, len, 0);
	rig_pattern(b + WIRE_UDP_LEN, len, seed);
	return rig_pkt(r, far, WIRE_IP_UDP, b, WIRE_UDP_LEN + len, pieces);
}

static inline struct flow *find(struct rig *r, const struct inaddr *far)
{
	const struct flow_key k = key_of(r, far);

	return flow_find(&r->flows, &k);
}

/* Hand over what was queued */
static inline struct flow *push(struct rig *r, const struct inaddr *far)
{
	const struct flow_key k = key_of(r, far);

	udp_guest(&r->p, &k, find(r, far), r->pkt, 0);
	r->pkt_cnt = 0;
	return find(r, far);
}

/* A flow that the guest opened with one datagram */
static inline struct flow *open_flow(struct rig *r)
{
	struct flow *f;

	put(r, &r->far, 5, 0, 1);
	f = push(r, &r->far);
	assert_non_null(f);
	assert_int_equal(f->h, 100);
	fake_dg_clear(&r->dg);
	return f;
}

static inline void check_bytes(const uint8_t *got, uint32_t len, uint32_t seed)
{
	uint8_t *want = malloc(len + 1);

	rig_pattern(want, len, seed);
	assert_memory_equal(got, want, len);
	free(want);
}

static inline void arrive(struct rig *r, int h, uint32_t len, uint32_t seed, uint16_t seg, uint8_t tos)
{
	static uint8_t b[65536];
	const struct sk_dgram d = { .to_from = { .a = r->far, .port = FAR_PORT }, .seg = seg, .tos = tos };

	rig_pattern(b, len, seed);
	fake_dg_arrive(&r->dg, h, &d, b, len);
}

static inline void ready(struct rig *r, struct flow *f, uint32_t mask)
{
	const struct ev_hit hit = { .ref = flow_ref(&r->flows, f), .mask = mask };

	udp_host(&r->p, f, &hit);
}

static inline void come(struct rig *r, const struct udp_listener *l, const struct inaddr *peer, uint16_t port,
		 const struct inaddr *local, uint32_t len)
{
	const struct sk_dgram d = {
		.to_from = { .a = *peer, .port = port, .scope = 7 }, .local = { .a = *local },
	};
	uint8_t b[2000];

	rig_pattern(b, len, len);
	fake_dg_arrive(&r->dg, l->h, &d, b, len);
}

/* Let timers run up to AT; returns flows left */
static inline uint32_t run_until(struct rig *r, ns_t at)
{
	struct twheel_timer *t;

	r->env.now = at;
	while ((t = twheel_pop(&r->tw, at)))
		udp_timer(&r->p, flow_of_timer(t));
	return r->flows.cnt;
}

#endif
