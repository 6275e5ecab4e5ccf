/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp/udp_flow.c: birth, time-outs and end of UDP flows (UDP-1 to UDP-3, UDP-15).
 */
#include "rig_udp.h"

#include <errno.h>

#include "../../src/proto/udp/udp_priv.h"

#define PUBLISHED	50

static struct flow *by_guest(struct rig *r, uint16_t far_port)
{
	struct flow_key k = key_of(r, &r->far);
	struct flow *f;

	k.far_port = far_port;
	f = udp_flow_guest(&r->p, &k);
	assert_non_null(f);
	assert_ptr_equal(flow_find(&r->flows, &k), f);
	return f;
}

static ns_t due(const struct flow *f)
{
	assert_true(twheel_armed(&f->timer));
	return f->timer.due_tick * TWHEEL_TICK;
}

/* A flow by a datagram from the far host, which came to its own address LOCAL */
static struct flow *by_host(struct rig *r, int h, uint16_t far_port, const struct inaddr *local)
{
	const struct udp_listener l = { .h = h, .port = GUEST_PORT };
	const struct sk_dgram d = { .to_from = { .a = r->far, .port = far_port, .scope = 7 }, .local = { .a = *local } };

	return udp_flow_host(&r->p, &l, &d);
}

static void test_guest_socket(void **state)
{
	struct rig *r = *state;
	struct flow *f = by_guest(r, FAR_PORT);
	const struct fake_dg_open *o = &r->dg.opened[0];

	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(f->h, o->h);
	assert_int_equal(o->ref.idx, flow_idx(&r->flows, f));
	assert_int_equal(o->ref.gen, f->gen);
	assert_int_equal(o->ref.kind, EV_KIND_FLOW);
	rig_same(&o->to.a, &r->far);
	assert_int_equal(o->to.port, FAR_PORT);
	assert_int_equal(o->to.scope, 0);
	assert_int_equal(o->local.port, GUEST_PORT);
	assert_true(inaddr_is_unset(&o->local.a));
	assert_false(udp_body(f)->by_host);
	assert_int_equal(udp_body(f)->refused, 0);
	assert_true(twheel_armed(&f->timer));
	assert_true(udp_body(f)->last == r->env.now);
}

/* NAT-4, NAT-8: the source that --outbound asks for, the interface that link-local targets need */
static void test_guest_addresses(void **state)
{
	struct rig *r = *state;
	const struct inaddr near = rig_addr(r->v4 ? "169.254.7.7" : "fe80::7");
	const struct inaddr out = rig_addr(r->v4 ? "203.0.113.5" : "2001:db8:a::5");
	const struct inaddr dst[] = { r->far, near, r->router };
	struct flow_key k = key_of(r, &r->far);

	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].outbound = out;
	for (unsigned i = 0; i < BYTES_COUNT(dst); i++) {
		k.far = dst[i];
		assert_non_null(udp_flow_guest(&r->p, &k));
	}
	rig_same(&r->dg.opened[0].local.a, &out);
	assert_true(inaddr_is_unset(&r->dg.opened[1].local.a));
	assert_int_equal(r->dg.opened[1].to.scope, r->v4 ? 0 : 3);
	assert_true(inaddr_is_unset(&r->dg.opened[2].local.a));
	rig_same(&r->dg.opened[2].to.a, &r->loop);
}

/* UDP-15: the errno stays for a second, to the nanosecond */
static void test_guest_refused(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f;

	r->dg.fail_open = -EACCES;
	f = by_guest(r, FAR_PORT);
	assert_int_equal(f->h, -1);
	assert_int_equal(udp_body(f)->refused, EACCES);
	udp_body(f)->guest_cnt = udp_body(f)->host_cnt = 2;	/* whatever was counted */
	r->env.now = t0 + NS_S - 1;
	udp_timer(&r->p, f);
	assert_int_equal(r->flows.cnt, 1);
	r->env.now = t0 + NS_S;
	udp_timer(&r->p, f);
	assert_int_equal(r->flows.cnt, 0);		/* and closes no socket: the fake would not know it */
}

/* 0 is a socket as good as any */
static void test_handle_zero(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	r->dg.next_h = 0;
	f = by_guest(r, FAR_PORT);
	assert_int_equal(f->h, 0);
	assert_int_equal(udp_body(f)->refused, 0);
	by_host(r, PUBLISHED, FAR_PORT, &r->router);
	assert_int_equal(f->h, 0);
	udp_end(&r->p, f);
	assert_true(r->dg.opened[0].closed);
}

/* Without descriptors another flow goes first; without such a flow the errno stays */
static void test_guest_descriptors(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	r->dg.max_open = 1;
	f = by_guest(r, 1);
	udp_body(f)->guest_cnt = udp_body(f)->host_cnt = 1;
	r->env.now += NS_MS;
	r->dg.max_open = 0;
	r->dg.fail_open = -EACCES;		/* that is not what room would mend */
	udp_end(&r->p, by_guest(r, 4));
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 0);
	r->dg.fail_open = 0;
	r->dg.max_open = 1;
	f = by_guest(r, 2);
	assert_true(f->h >= 0);
	assert_true(r->dg.opened[0].closed);
	assert_int_equal(r->flows.cnt, 1);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 1);
	f = by_guest(r, 3);
	assert_int_equal(f->h, -1);
	assert_int_equal(udp_body(f)->refused, EMFILE);
}

static void test_table_full(void **state)
{
	struct rig *r = *state;
	struct flow_key k = key_of(r, &r->far);
	struct flow *f = by_guest(r, 1);

	udp_body(f)->guest_cnt = udp_body(f)->host_cnt = 1;
	while (r->flows.cnt < RIG_FLOWS) {
		const struct flow_key tcp = { r->guest, r->far, (uint16_t)r->flows.cnt, 1, FLOW_TCP };

		assert_non_null(flow_new(&r->flows, &tcp));
	}
	assert_null(udp_flow_guest(&r->p, &k));	/* the other one is of this very moment */
	assert_null(by_host(r, PUBLISHED, FAR_PORT, &r->far));
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 2);
	assert_int_equal(r->dg.open_cnt, 1);
	r->env.now += NS_MS;
	assert_non_null(udp_flow_guest(&r->p, &k));
	assert_int_equal(r->flows.cnt, RIG_FLOWS);
	assert_int_equal(r->drops.cnt[DROP_FLOW_EVICTED], 1);
	assert_int_equal(r->drops.cnt[DROP_FLOW_FULL], 2);
}

/* UDP-2: one way 30 s, both ways and more than one 120 s, an answered question to a resolver 5 s */
static void test_timeouts(void **state)
{
	static const struct { bool host; uint16_t port; uint8_t guest, host_cnt; ns_t wait; } tab[] = {
		{ false, 9, 1, 0, 30 * NS_S }, { false, 9, 2, 0, 30 * NS_S }, { false, 9, 1, 1, 30 * NS_S },
		{ false, 9, 2, 1, 120 * NS_S }, { false, 9, 1, 2, 120 * NS_S }, { false, 9, 2, 2, 120 * NS_S },
		{ true, 9, 0, 1, 30 * NS_S }, { true, 9, 0, 2, 30 * NS_S }, { true, 9, 1, 1, 30 * NS_S },
		{ true, 9, 1, 2, 120 * NS_S }, { true, 9, 2, 1, 120 * NS_S },
		{ false, 53, 1, 0, 30 * NS_S }, { false, 53, 1, 1, 5 * NS_S }, { false, 53, 2, 1, 120 * NS_S },
		{ false, 53, 2, 2, 5 * NS_S }, { false, 52, 1, 1, 30 * NS_S }, { true, 53, 1, 1, 30 * NS_S },
	};
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(tab); i++) {
		struct flow *f = tab[i].host ? by_host(r, PUBLISHED, tab[i].port, &r->far) : by_guest(r, tab[i].port);
		const ns_t t0 = r->env.now;

		udp_body(f)->guest_cnt = tab[i].guest;
		udp_body(f)->host_cnt = tab[i].host_cnt;
		r->env.now = t0 + tab[i].wait - 1;
		udp_timer(&r->p, f);
		if (r->flows.cnt != 1)
			fail_msg("row %u ends early", i);
		assert_true(due(f) == t0 + tab[i].wait);
		r->env.now = t0 + tab[i].wait;
		udp_timer(&r->p, f);
		if (r->flows.cnt)
			fail_msg("row %u does not end", i);
	}
}

/* A setting below the resolver's five seconds wins */
static void test_timeout_settings(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f;

	r->udp = (struct udp_settings){ .timeout_oneway = 2 * NS_S, .timeout_stream = 3 * NS_S };
	f = by_guest(r, 53);
	udp_body(f)->guest_cnt = udp_body(f)->host_cnt = 1;
	r->env.now = t0 + 2 * NS_S;
	udp_timer(&r->p, f);
	assert_int_equal(r->flows.cnt, 0);
}

/* Lazy: an answer does not touch the timer, unless it makes the end nearer */
static void test_answered(void **state)
{
	struct rig *r = *state;
	const ns_t t0 = r->env.now;
	struct flow *f = by_guest(r, 9), *dns = by_guest(r, 53);
	const ns_t at = due(f);

	udp_body(f)->guest_cnt = udp_body(dns)->guest_cnt = 1;
	r->env.now = t0 + NS_S;
	udp_flow_answered(&r->p, f);
	assert_int_equal(udp_body(f)->host_cnt, 1);
	assert_true(udp_body(f)->last == t0 + NS_S);
	assert_true(due(f) == at);
	udp_flow_answered(&r->p, f);
	udp_flow_answered(&r->p, f);
	assert_int_equal(udp_body(f)->host_cnt, 2);		/* ends there */
	udp_flow_answered(&r->p, dns);
	assert_true(due(dns) == t0 + 6 * NS_S);
}

/* Who may go early */
static void test_spare(void **state)
{
	static const struct { bool host; uint16_t port; uint8_t guest, host_cnt; ns_t idle; bool spare, answered; } tab[] = {
		{ false, 9, 1, 1, 1, true, true }, { false, 9, 1, 1, 0, false, true }, { true, 9, 1, 1, 1, true, true },
		{ false, 9, 1, 0, NS_S - 1, false, false }, { false, 9, 1, 0, NS_S, true, false },
		{ false, 9, 2, 0, NS_S, true, false }, { false, 9, 2, 1, 20 * NS_S, false, false },
		{ false, 9, 2, 2, 20 * NS_S, false, false }, { false, 53, 2, 2, 1, true, true },
		{ false, 53, 2, 1, NS_S - 1, false, false }, { false, 53, 2, 1, NS_S, true, false },
		{ true, 9, 0, 2, NS_S, true, false }, { true, 9, 0, 2, NS_S - 1, false, false },
		{ true, 9, 2, 2, 29 * NS_S, false, false }, { true, 9, 2, 2, 30 * NS_S, true, false },
		{ false, 9, 2, 2, 29 * NS_S, false, false }, { false, 9, 2, 2, 30 * NS_S, true, false },
	};
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(tab); i++) {
		struct flow *f = tab[i].host ? by_host(r, PUBLISHED, tab[i].port, &r->far) : by_guest(r, tab[i].port);
		struct proto_spare s;
		bool spare;

		udp_body(f)->guest_cnt = tab[i].guest;
		udp_body(f)->host_cnt = tab[i].host_cnt;
		udp_body(f)->last = r->env.now - tab[i].idle;
		spare = udp_spare(&r->p, f, &s);
		if (spare != tab[i].spare || s.answered != tab[i].answered || s.last != udp_body(f)->last)
			fail_msg("row %u: spare %d answered %d", i, spare, s.answered);
		udp_end(&r->p, f);
	}
}

/* ---- published ports */

static void test_host_key(void **state)
{
	static const struct inaddr none;
	struct rig *r = *state;
	const struct inaddr target = rig_addr(r->v4 ? "192.0.2.99" : "2001:db8::99");
	const struct inaddr alien = rig_addr(r->v4 ? "2001:db8::99" : "192.0.2.99");
	struct udp_listener l = { .h = PUBLISHED, .port = 65535 };
	struct sk_addr peer = { .a = r->far, .port = 1 };
	struct flow_key k;

	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), 0);
	rig_same(&k.guest, &r->guest);
	rig_same(&k.far, &r->far);
	assert_int_equal(k.guest_port, 65535);
	assert_int_equal(k.far_port, 1);
	assert_int_equal(k.proto, FLOW_UDP);
	peer.a = r->loop;
	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), 0);
	rig_same(&k.far, &r->router);
	l.target = target;
	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), 0);
	rig_same(&k.guest, &target);
	l.target = alien;			/* a target of the other family can't serve this peer */
	peer.a = r->far;
	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), 0);
	rig_same(&k.guest, &r->guest);
	if (!r->v4) {
		peer.a = rig_addr("fe80::77");
		assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), 0);
		rig_same(&k.guest, &r->fwd.f[FWD_V6].seen_ll);
	}
	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].guest = r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].seen = none;
	peer.a = r->far;
	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), -EADDRNOTAVAIL);
	assert_int_equal(r->drops.cnt[DROP_UDP_NO_GUEST], 1);
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], 0);
}

static void test_host_key_bad(void **state)
{
	static const char *const bad4[] = { "0.0.0.0", "224.0.0.1", "255.255.255.255" }, *const bad6[] = { "::", "ff02::1" };
	struct rig *r = *state;
	const struct udp_listener l = { .h = PUBLISHED, .port = GUEST_PORT };
	const unsigned cnt = r->v4 ? BYTES_COUNT(bad4) : BYTES_COUNT(bad6);
	struct sk_addr peer = { .a = r->far, .port = 0 };
	struct flow_key k;

	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), -EADDRNOTAVAIL);
	peer.port = 9;
	for (unsigned i = 0; i < cnt; i++) {
		peer.a = rig_addr(r->v4 ? bad4[i] : bad6[i]);
		assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), -EADDRNOTAVAIL);
	}
	r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].on = false;
	peer.a = r->far;
	assert_int_equal(udp_flow_host_key(&r->p, &l, &peer, &k), -EADDRNOTAVAIL);
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], cnt + 2);
	assert_null(by_host(r, PUBLISHED, 9, &r->far));
	assert_int_equal(r->flows.cnt, 0);
}

/* The answer leaves from the address that was asked, if that can be a source */
static void test_host_local(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = rig_addr(r->v4 ? "239.1.2.3" : "ff05::3");
	struct flow *f = by_host(r, PUBLISHED, FAR_PORT, &r->router);

	assert_int_equal(f->h, PUBLISHED);
	assert_true(udp_body(f)->by_host);
	assert_int_equal(r->dg.open_cnt, 0);
	rig_same(&udp_body(f)->to.a, &r->far);
	assert_int_equal(udp_body(f)->to.port, FAR_PORT);
	assert_int_equal(udp_body(f)->to.scope, 7);
	rig_same(&udp_body(f)->local.a, &r->router);
	assert_int_equal(udp_body(f)->local.port, GUEST_PORT);
	assert_true(twheel_armed(&f->timer));
	assert_ptr_equal(by_host(r, PUBLISHED + 1, FAR_PORT, &r->loop), f);	/* by another port's socket now */
	assert_int_equal(f->h, PUBLISHED + 1);
	assert_int_equal(udp_body(f)->local.port, GUEST_PORT);
	assert_ptr_equal(by_host(r, PUBLISHED, FAR_PORT, &group), f);
	assert_int_equal(udp_body(f)->local.port, 0);
	assert_int_equal(r->flows.cnt, 1);
}

/* The guest's own flow keeps its socket; one that the host had refused has a way now */
static void test_host_meets_guest(void **state)
{
	struct rig *r = *state;
	struct flow *f = by_guest(r, FAR_PORT);
	const int h = f->h;

	assert_ptr_equal(by_host(r, PUBLISHED, FAR_PORT, &r->router), f);
	assert_int_equal(f->h, h);
	assert_false(udp_body(f)->by_host);
	udp_end(&r->p, f);
	r->dg.fail_open = -EACCES;
	f = by_guest(r, FAR_PORT);
	assert_ptr_equal(by_host(r, PUBLISHED, FAR_PORT, &r->router), f);
	assert_int_equal(f->h, PUBLISHED);
	assert_int_equal(udp_body(f)->refused, 0);
	assert_true(udp_body(f)->by_host);
}

/* An answer from another of the guest's addresses; not for what the guest itself opened */
static void test_answer_key(void **state)
{
	struct rig *r = *state;
	struct fwd_family_set *fam = &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];
	const struct inaddr stranger = rig_addr(r->v4 ? "192.0.2.11" : "2001:db8::11");
	struct flow *f = by_host(r, PUBLISHED, FAR_PORT, &r->router);
	struct flow_key k = f->key;

	k.guest = stranger;
	assert_ptr_equal(udp_flow_answer(&r->p, &k), f);
	fam->seen = stranger;
	assert_ptr_equal(udp_flow_answer(&r->p, &k), f);	/* by the assigned one */
	fam->guest = stranger;
	assert_null(udp_flow_answer(&r->p, &k));
	fam->seen = r->guest;
	assert_ptr_equal(udp_flow_answer(&r->p, &k), f);	/* by the one seen */
	fam->seen = stranger;
	fam->seen_ll = r->guest;
	assert_ptr_equal(udp_flow_answer(&r->p, &k), f);
	k.far_port++;
	assert_null(udp_flow_answer(&r->p, &k));
	k.far_port--;
	k.guest_port++;
	assert_null(udp_flow_answer(&r->p, &k));
	udp_end(&r->p, f);
	by_guest(r, FAR_PORT);
	k = key_of(r, &r->far);
	k.guest = stranger;
	assert_null(udp_flow_answer(&r->p, &k));
}

/* A flow closes its own socket, never a port's; a port's end takes its flows, no other */
static void test_end(void **state)
{
	struct rig *r = *state;
	struct flow *one = by_host(r, PUBLISHED, 2, &r->far), *own = by_guest(r, 1);
	struct flow *two = by_host(r, PUBLISHED + 1, 3, &r->far);
	const struct flow_key tcp = { r->guest, r->far, 1, 1, FLOW_TCP };
	struct flow *t = flow_new(&r->flows, &tcp);

	t->h = PUBLISHED;			/* numbers are not owned by a protocol */
	assert_non_null(by_host(r, PUBLISHED, 4, &r->far));
	assert_int_equal(r->flows.cnt, 5);
	udp_listener_gone(&r->p, PUBLISHED);
	assert_int_equal(r->flows.cnt, 3);
	assert_int_equal(one->key.proto, FLOW_FREE);
	assert_ptr_equal(flow_find(&r->flows, &two->key), two);
	assert_false(r->dg.opened[0].closed);
	udp_listener_gone(&r->p, own->h);	/* a guest's socket is no port's */
	assert_int_equal(r->flows.cnt, 3);
	r->p.flow_gone = false;
	udp_end(&r->p, own);
	assert_true(r->dg.opened[0].closed);
	assert_true(r->p.flow_gone);
	udp_end(&r->p, two);
	assert_int_equal(r->flows.cnt, 1);
	assert_true(twheel_next(&r->tw) == NS_NEVER);
}

/* The host has another address, or another way to that peer: the guest's next datagram leaves from there, and no other flow
 * notices
 */
static void test_source_changes(void **state)
{
	struct rig *r = *state;
	const struct inaddr first = rig_addr(r->v4 ? "192.0.2.1" : "2001:db8:a::1");
	const struct inaddr then = rig_addr(r->v4 ? "192.0.2.2" : "2001:db8:a::2");
	struct flow *f;

	r->dg.source = first;
	f = open_flow(r);
	r->p.net_gen++;
	put(r, &r->far, 5, 0, 1);
	assert_ptr_equal(push(r, &r->far), f);
	assert_int_equal(f->h, 100);
	assert_int_equal(r->dg.open_cnt, 2);
	assert_int_equal(r->dg.opened[1].local.port, 0);	/* only to ask */
	assert_true(r->dg.opened[1].closed);
	assert_int_equal(r->dg.sent[0].h, 100);
	put(r, &r->far, 5, 0, 1);
	push(r, &r->far);
	assert_int_equal(r->dg.open_cnt, 2);			/* once for each change */

	r->dg.source = then;
	r->p.net_gen++;
	put(r, &r->far, 5, 0, 1);
	f = push(r, &r->far);
	assert_int_equal(r->dg.open_cnt, 4);
	assert_true(r->dg.opened[0].closed && r->dg.opened[2].closed && !r->dg.opened[3].closed);
	assert_int_equal(r->dg.opened[3].local.port, GUEST_PORT);
	assert_int_equal(f->h, r->dg.opened[3].h);
	assert_int_equal(r->dg.sent[2].h, f->h);
	assert_int_equal(r->flows.cnt, 1);
	assert_int_equal(r->p.udp_sockets, 1);

	r->dg.fail_open = -ENETUNREACH;		/* no address at all: as for a new flow */
	r->p.net_gen++;
	put(r, &r->far, 5, 0, 1);
	f = push(r, &r->far);
	assert_int_equal(f->h, -1);
	assert_int_equal(udp_body(f)->refused, ENETUNREACH);
	assert_int_equal(r->p.udp_sockets, 0);
}

/* IPv6: a new temporary address is no reason to leave the old one, as long as that is there and the prefix is the same */
static void test_source_temporary(void **state)
{
	struct rig *r = *state;
	const struct inaddr first = rig_addr(r->v4 ? "192.0.2.1" : "2001:db8:a::1");
	const struct inaddr then = rig_addr(r->v4 ? "192.0.2.2" : "2001:db8:a::2");
	struct flow *f;

	r->dg.source = r->dg.host = first;
	f = open_flow(r);
	r->dg.source = then;
	for (unsigned i = 0; i < 2; i++) {
		r->p.net_gen++;
		put(r, &r->far, 5, 0, 1);
		f = push(r, &r->far);
		assert_int_equal(r->dg.opened[0].closed, r->v4 || i);
		r->dg.host = then;		/* and now it is gone */
	}
	rig_same(&udp_body(f)->src, &then);
}

/* No descriptor is no sign of a change, and a loopback address stays what it is */
static void test_source_unknown(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);

	r->dg.fail_open = -EMFILE;
	r->p.net_gen++;
	put(r, &r->far, 5, 0, 1);
	assert_ptr_equal(push(r, &r->far), f);
	assert_int_equal(f->h, 100);
	r->dg.fail_open = 0;
	put(r, &r->router, 5, 0, 1);
	f = push(r, &r->router);
	assert_true(inaddr_is_loopback(&udp_body(f)->to.a));
	r->dg.source = rig_addr(r->v4 ? "192.0.2.2" : "2001:db8:a::2");
	r->p.net_gen++;
	put(r, &r->router, 5, 0, 1);
	assert_ptr_equal(push(r, &r->router), f);
	assert_int_equal(r->dg.open_cnt, 2 + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_guest_socket),
		RIG_BOTH(test_guest_addresses),
		RIG_BOTH(test_guest_refused),
		RIG_BOTH(test_handle_zero),
		RIG_BOTH(test_guest_descriptors),
		RIG_BOTH(test_table_full),
		RIG_BOTH(test_timeouts),
		RIG_BOTH(test_timeout_settings),
		RIG_BOTH(test_answered),
		RIG_BOTH(test_spare),
		RIG_BOTH(test_host_key),
		RIG_BOTH(test_host_key_bad),
		RIG_BOTH(test_host_local),
		RIG_BOTH(test_host_meets_guest),
		RIG_BOTH(test_answer_key),
		RIG_BOTH(test_end),
		RIG_BOTH(test_source_changes),
		RIG_BOTH(test_source_temporary),
		RIG_BOTH(test_source_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
