/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp: flows towards groups and broadcasts, and those of whoever answers.
 */
#include "rig_udp.h"

#include <errno.h>

#include "proto/group.h"

#define PEER_PORT	1900

static struct inaddr group_of(const struct rig *r)
{
	return rig_addr(r->v4 ? "239.255.255.250" : "ff02::fb");
}

static struct inaddr peer_of(const struct rig *r, unsigned n)
{
	struct inaddr a = r->far;

	a.b[15] = (uint8_t)n;
	return a;
}

static struct flow *search(struct rig *r)
{
	const struct inaddr group = group_of(r);
	struct flow *f;

	put(r, &group, 9, 0, 1)->ip.ttl = 255;
	f = push(r, &group);
	assert_non_null(f);
	return f;
}

/* PEER, from PORT, sends LEN bytes to the host; TO_ALL: to address LOCAL by broadcast or in a group */
static void answer(struct rig *r, struct flow *f, const struct inaddr *peer, const struct inaddr *local, bool to_all)
{
	const struct sk_dgram d = {
		.to_from = { .a = *peer, .port = PEER_PORT, .scope = 7 },
		.local = { .a = *local, .port = GUEST_PORT }, .to_all = to_all,
	};

	fake_dg_arrive(&r->dg, f->h, &d, "answer", 6);
	ready(r, f, EV_IN);
}

/* Packet I of the guest's link comes from PEER for DST */
static void check_from(struct rig *r, uint32_t i, const struct inaddr *peer, const struct inaddr *dst)
{
	const struct rig_in in = rig_frame(&r->l2.frames[i]);

	rig_same(&in.ip.src, peer);
	rig_same(&in.ip.dst, dst);
	assert_int_equal(bytes_get16(in.l4), PEER_PORT);
	assert_int_equal(bytes_get16(in.l4 + 2), GUEST_PORT);
}

/* UDP-14: out of the right interface with its hop limit; the answers of all, each under its own name; and back to them */
static void test_all_answer(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = group_of(r);
	struct flow *f = search(r);

	assert_int_equal(r->dg.open_cnt, 1);
	assert_true(r->dg.opened[0].group);
	assert_int_equal(r->dg.opened[0].what, SK_GROUP_SEND);
	rig_same(&r->dg.opened[0].to.a, &group);
	assert_int_equal(r->dg.opened[0].to.scope, 3);
	assert_int_equal(r->dg.opened[0].local.port, GUEST_PORT);
	rig_same(&r->dg.sent[0].d.to_from.a, &group);
	assert_int_equal(r->dg.sent[0].d.to_from.port, FAR_PORT);
	assert_int_equal(r->dg.sent[0].d.local.scope, 3);
	assert_int_equal(r->dg.sent[0].d.ttl, 255);
	for (unsigned n = 1; n < 5; n++) {
		const struct inaddr peer = peer_of(r, n);

		answer(r, f, &peer, &r->guest, false);
		assert_int_equal(r->l2.cnt, n);
		check_from(r, n - 1, &peer, &r->guest);
	}
	assert_int_equal(r->flows.cnt, 5);

	/* to one of them, from the same port and socket */
	const struct inaddr peer = peer_of(r, 2);
	struct flow_key k = { r->guest, peer, GUEST_PORT, PEER_PORT, FLOW_UDP };

	put(r, &peer, 3, 0, 1);
	udp_guest(&r->p, &k, flow_find(&r->flows, &k), r->pkt, 0);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->dg.sent[1].h, f->h);
	rig_same(&r->dg.sent[1].d.to_from.a, &peer);
	assert_int_equal(r->dg.sent[1].d.to_from.port, PEER_PORT);
	rig_same(&r->dg.sent[1].d.local.a, &r->guest);
	assert_int_equal(r->dg.sent[1].d.to_from.scope, 7);
}

/* The socket outlives those that use it, and goes with the last of them */
static void test_ends(void **state)
{
	struct rig *r = *state;
	const struct inaddr peer = peer_of(r, 1);
	const ns_t start = r->env.now;
	struct flow *f = search(r);
	struct flow_key k = { r->guest, peer, GUEST_PORT, PEER_PORT, FLOW_UDP };

	answer(r, f, &peer, &r->guest, false);
	for (ns_t t = 25; t <= 200; t += 25) {	/* a long talk with the one that answered */
		assert_int_equal(run_until(r, start + t * NS_S), 2);
		put(r, &peer, 3, 0, 1);
		udp_guest(&r->p, &k, flow_find(&r->flows, &k), r->pkt, 0);
		r->pkt_cnt = 0;
	}
	assert_false(r->dg.opened[0].closed);
	run_until(r, start + 319 * NS_S);
	assert_false(r->dg.opened[0].closed);
	assert_int_equal(run_until(r, start + 500 * NS_S), 0);
	assert_true(r->dg.opened[0].closed);
	assert_int_equal(r->dg.open_cnt, 1);
	/* the end of the socket is the end of all */
	r->env.now = start + 600 * NS_S;
	f = search(r);
	answer(r, f, &peer, &r->guest, false);
	assert_int_equal(r->flows.cnt, 2);
	udp_end(&r->p, f);
	assert_int_equal(r->flows.cnt, 0);
}

/* Nobody answers: an ordinary one-way flow, which may go early */
static void test_nobody(void **state)
{
	struct rig *r = *state;
	struct proto_spare s;
	struct flow *f = search(r);
	const ns_t start = r->env.now;

	assert_false(udp_spare(&r->p, f, &s));
	r->env.now += 2 * NS_S;
	assert_true(udp_spare(&r->p, f, &s));
	answer(r, f, &(struct inaddr){ { 0xff, 2, [15] = 9 } }, &r->guest, false);	/* a group is no sender */
	assert_int_equal(r->drops.cnt[DROP_IP_ADDR], 1);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(run_until(r, start + 40 * NS_S), 0);
	assert_true(r->dg.opened[0].closed);
}

/* Nothing is received by default that was sent to all; with --multicast it is, but not the guest's own */
static void test_broadcast_in(void **state)
{
	struct rig *r = *state;
	const struct inaddr peer = peer_of(r, 1), *local = &r->guest, group = group_of(r);
	const struct sk_dgram own = { .to_from = { .a = peer, .port = 5 }, .local = { .a = *local, .port = 1 }, .to_all = true };
	struct proto_groups *gs = calloc(1, sizeof(*gs));
	struct flow *f = search(r);
	uint8_t b[9];

	answer(r, f, &peer, local, true);
	assert_int_equal(r->l2.cnt, 0);
	assert_int_equal(r->drops.cnt[DROP_UDP_TO_ALL], 1);
	r->p.groups = gs;
	answer(r, f, &peer, local, true);
	assert_int_equal(r->drops.cnt[DROP_UDP_TO_ALL], 2);
	gs->on = true;
	answer(r, f, &peer, local, true);
	assert_int_equal(r->l2.cnt, 1);
	put(r, &group, 9, 4, 1);
	push(r, &group);
	rig_pattern(b, sizeof(b), 4);
	r->dg.host = peer;
	fake_dg_arrive(&r->dg, f->h, &own, b, sizeof(b));
	ready(r, f, EV_IN);
	assert_int_equal(r->drops.cnt[DROP_GROUP_ECHO], 1);
	assert_int_equal(r->l2.cnt, 1);
	r->dg.host = peer_of(r, 2);	/* another host says the same at the same time */
	fake_dg_arrive(&r->dg, f->h, &own, b, sizeof(b));
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 2);
	r->dg.host = peer;
	r->env.now += NS_S;		/* another program of the host, later */
	fake_dg_arrive(&r->dg, f->h, &own, b, sizeof(b));
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 3);
	free(gs);
}

static void test_broadcast_out(void **state)
{
	struct rig *r = *state;
	const struct inaddr all = rig_addr("255.255.255.255"), net = rig_addr("192.0.2.255");
	struct flow_key k = key_of(r, &all);

	if (!r->v4)
		return;
	put(r, &net, 1, 0, 1);
	push(r, &net);
	rig_same(&r->dg.opened[0].to.a, &net);
	r->fwd.f[FWD_V4].same_net = false;
	r->env.now += 100 * NS_S;
	run_until(r, r->env.now);
	put(r, &net, 1, 0, 1);
	push(r, &net);
	rig_same(&r->dg.opened[1].to.a, &all);
	put(r, &all, 1, 0, 1);
	push(r, &all);
	rig_same(&r->dg.opened[2].to.a, &all);
	assert_true(r->dg.opened[2].group);
	/* DHCP ends here (D6-1) */
	k.far_port = 67;
	put(r, &all, 1, 0, 1);
	udp_guest(&r->p, &k, NULL, r->pkt, 0);
	assert_int_equal(r->drops.cnt[DROP_UDP_SERVICE], 1);
	assert_int_equal(r->dg.open_cnt, 3);
}

/* No error about a group, whatever the host says; the next second tries again */
static void test_refused(void **state)
{
	struct rig *r = *state;

	r->dg.fail_open = -ENETUNREACH;
	search(r);
	assert_int_equal(r->drops.cnt[DROP_UDP_OPEN], 1);
	assert_int_equal(r->l2.cnt, 0);
	r->dg.fail_open = 0;
	run_until(r, r->env.now + 2 * NS_S);
	r->dg.fail_send = -ENETUNREACH;
	r->dg.fail_sends = 2;
	search(r);
	assert_int_equal(r->drops.cnt[DROP_UDP_SEND], 1);
	assert_int_equal(r->l2.cnt, 0);
}

/* What is too big goes in fragments, whatever its TTL and DF say: to nobody would an error be told */
static void test_too_big(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = group_of(r);
	static const uint8_t ttl[] = { 1, 31, 32, 255 };

	for (unsigned i = 0; i < BYTES_COUNT(ttl); i++) {
		put(r, &group, 3000, i, 1)->ip.ttl = ttl[i];
		push(r, &group);
		assert_int_equal(r->dg.sent_cnt, i + 1);
		assert_int_equal(r->dg.sent[i].d.ttl, ttl[i]);
		assert_int_equal(r->dg.sent[i].d.df, SK_DF_NO);
	}
}

/* More than a turn's worth waits: the flow goes on in the next */
static void test_much(void **state)
{
	struct rig *r = *state;
	const struct inaddr peer = peer_of(r, 1);
	const struct sk_dgram d = {
		.to_from = { .a = peer, .port = PEER_PORT }, .local = { .a = r->guest, .port = GUEST_PORT },
	};
	struct flow *f = search(r);

	for (unsigned i = 0; i < PROTO_SCRATCH_SLOTS + 22; i++)
		fake_dg_arrive(&r->dg, f->h, &d, &i, 1 + i % 4);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, PROTO_SCRATCH_SLOTS);
	assert_true(f->ready);
	f->ready = false;
	udp_more(&r->p, f);
	assert_int_equal(r->l2.cnt, PROTO_SCRATCH_SLOTS + 22);
	assert_false(f->ready);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_all_answer), RIG_BOTH(test_ends), RIG_BOTH(test_nobody), RIG_BOTH(test_broadcast_in),
		RIG_BOTH(test_broadcast_out), RIG_BOTH(test_refused), RIG_BOTH(test_much), RIG_BOTH(test_too_big),
	};

	return cmocka_run_group_tests_name("proto/udp_group", tests, NULL, NULL);
}
