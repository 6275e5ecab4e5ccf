/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/group: the guest's memberships on the host, the querier's questions, the ports that are received.
 */
#include "proto/group.h"

#include <errno.h>

#include "rig_udp.h"
#include "wire/group.h"

#define LIFE	(260 * NS_S)

static int setup(void **state)
{
	struct rig *r;

	rig_setup(state);
	r = *state;
	r->p.groups = calloc(1, sizeof(*r->p.groups));
	r->p.groups->on = true;
	return 0;
}

static int teardown(void **state)
{
	struct rig *r = *state;

	free(r->p.groups);
	return rig_teardown(state);
}

#define BOTH(test) \
	{ #test " IPv4", test, setup, teardown, NULL }, \
	{ #test " IPv6", test, setup, teardown, (void *)1 }

/* A report of the newest version with one record */
static void report(struct rig *r, uint8_t type, const struct inaddr *group)
{
	uint8_t b[28] = { (uint8_t)(r->v4 ? 0x22 : 143), [7] = 1, [8] = type };
	struct proto_pkt *k;

	memcpy(b + 12, group->b + (r->v4 ? 12 : 0), r->v4 ? 4 : 16);
	k = rig_pkt(r, group, r->v4 ? WIRE_IP_IGMP : WIRE_IP_ICMP6, b, r->v4 ? 16 : 28, 2);
	k->ip.ttl = 1;
	if (!r->v4)
		k->ip.src = rig_addr("fe80::10");
	r->pkt_cnt = 0;
	if (r->v4)
		group_igmp(&r->p, k);
	else
		group_mld(&r->p, k);
}

static void join(struct rig *r, const struct inaddr *group)
{
	report(r, 4, group);
}

static void drop(struct rig *r, const struct inaddr *group)
{
	report(r, 3, group);
}

/* A group that no port is known of */
static struct inaddr other(const struct rig *r, unsigned n)
{
	struct inaddr a = rig_addr(r->v4 ? "239.1.2.0" : "ff15::5:0");

	a.b[15] = (uint8_t)n;
	return a;
}

static void run(struct rig *r, ns_t at)
{
	struct twheel_timer *t;

	/* as the loop does: each deadline at its time */
	while (twheel_next(&r->tw) <= at) {
		r->env.now = BYTES_MAX(twheel_next(&r->tw), r->env.now);
		while ((t = twheel_pop(&r->tw, r->env.now)))
			if (t->kind == GROUP_TIMER)
				group_timer(&r->p);
			else
				udp_timer(&r->p, flow_of_timer(t));
	}
	r->env.now = at;
}

static uint32_t open_cnt(const struct rig *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->dg.open_cnt; i++)
		n += r->dg.opened[i].h >= 0 && !r->dg.opened[i].closed;
	return n;
}

/* A question on the guest's link */
static struct wire_ip question(const struct fake_l2_frame *f)
{
	const struct iovec iov = { f->buf, f->len };
	struct view v = view_of(&iov, f->len);
	struct wire_eth eth;
	struct wire_ip ip;

	assert_int_equal(wire_eth_parse(&v, &eth), 0);
	if (eth.type == WIRE_ETH_IPV4)
		assert_int_equal(wire_ip4_parse(&v, &ip), WIRE_IP_OK);
	else
		assert_int_equal(wire_ip6_parse(&v, &ip), WIRE_IP_OK);
	assert_int_equal(ip.ttl, 1);
	assert_int_equal(ip.proto, eth.type == WIRE_ETH_IPV4 ? WIRE_IP_IGMP : WIRE_IP_ICMP6);
	return ip;
}

static void test_off(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = other(r, 1);

	r->p.groups->on = false;
	join(r, &a);
	assert_int_equal(r->drops.cnt[DROP_GROUP_OFF], 1);
	assert_int_equal(r->dg.open_cnt, 0);
}

static void test_join_and_leave(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = other(r, 1);
	const ns_t start = r->env.now;
	struct wire_ip ip;

	join(r, &a);
	join(r, &a);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(r->dg.opened[0].what, SK_GROUP_HOLD);
	rig_same(&r->dg.opened[0].to.a, &a);
	assert_int_equal(r->dg.opened[0].to.scope, 3);
	/* whoever is left is asked twice within two seconds (RFC 3376 6.4.2, 8.8) */
	drop(r, &a);
	drop(r, &a);
	assert_int_equal(r->l2.cnt, 1);
	ip = question(&r->l2.frames[0]);
	rig_same(&ip.dst, &a);
	run(r, start + 1999 * NS_MS);
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(open_cnt(r), 1);
	run(r, start + 2100 * NS_MS);
	assert_int_equal(open_cnt(r), 0);
	assert_int_equal(r->l2.cnt, 2);
	assert_int_equal(twheel_next(&r->tw), NS_NEVER);	/* nobody is asked any more */
	/* somebody is left */
	join(r, &a);
	drop(r, &a);
	run(r, r->env.now + NS_S / 2);
	join(r, &a);
	run(r, r->env.now + 100 * NS_S);
	assert_int_equal(open_cnt(r), 1);
}

/* General questions: two soon, then every 125 s, as long as there is a group; without answers it ends after 260 s */
static void test_querier(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = other(r, 1), all = rig_addr(r->v4 ? "224.0.0.1" : "ff02::1");
	const ns_t start = r->env.now, step = 125 * NS_S / 4;

	join(r, &a);
	run(r, start + step + NS_MS);
	assert_int_equal(r->l2.cnt, 1);
	run(r, start + 2 * step + 2 * NS_MS);
	assert_int_equal(r->l2.cnt, 2);
	run(r, start + 2 * step + 124 * NS_S);
	assert_int_equal(r->l2.cnt, 2);
	join(r, &a);
	run(r, start + 2 * step + 126 * NS_S);
	assert_int_equal(r->l2.cnt, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct wire_ip ip = question(&r->l2.frames[i]);
		const uint8_t mac4[6] = { 1, 0, 0x5e, 0, 0, 1 }, mac6[6] = { 0x33, 0x33, 0, 0, 0, 1 };

		rig_same(&ip.dst, &all);
		rig_same(&ip.src, &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].ours);
		assert_memory_equal(r->l2.frames[i].buf, r->v4 ? mac4 : mac6, 6);
	}
	run(r, start + 2 * step + 124 * NS_S + LIFE - NS_S);
	assert_int_equal(open_cnt(r), 1);
	run(r, start + 2 * step + 124 * NS_S + LIFE + NS_S);
	assert_int_equal(open_cnt(r), 0);
	assert_int_equal(r->p.groups->cnt, 0);
	const uint32_t asked = r->l2.cnt;

	run(r, r->env.now + 1000 * NS_S);
	assert_int_equal(r->l2.cnt, asked);
}

/* A querier of MLD needs a link-local address: without one nobody can be asked, so nothing ends by itself */
static void test_no_querier(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = other(r, 1);

	if (r->v4)
		return;
	memset(&r->fwd.f[FWD_V6].ours, 0, sizeof(r->fwd.f[FWD_V6].ours));
	join(r, &a);
	run(r, r->env.now + 10000 * NS_S);
	assert_int_equal(open_cnt(r), 1);
	assert_int_equal(r->l2.cnt, 0);
	drop(r, &a);
	run(r, r->env.now + 3 * NS_S);
	assert_int_equal(open_cnt(r), 0);
}

/* What every node joins is not for the host's network */
static void test_local(void **state)
{
	static const char *const none4[] = { "224.0.0.1", "224.0.0.2", "224.0.0.22" };
	static const char *const none6[] = {
		"ff02::1", "ff02::2", "ff02::16", "ff01::fb", "ff02::1:ff00:10", "ff02::1:ffab:cdef", "ff00::5",
	};
	static const char *const some4[] = { "224.0.0.3", "224.0.0.251", "239.0.0.1" };
	static const char *const some6[] = { "ff02::3", "ff02::1:3", "ff02::fb", "ff05::2", "ff12::1:ff00:10:1", "ff15::1:ff00:10" };
	struct rig *r = *state;

	for (unsigned i = 0; i < (r->v4 ? BYTES_COUNT(none4) : BYTES_COUNT(none6)); i++) {
		const struct inaddr a = rig_addr(r->v4 ? none4[i] : none6[i]);

		join(r, &a);
		assert_int_equal(r->dg.open_cnt, 0);
	}
	for (unsigned i = 0; i < (r->v4 ? BYTES_COUNT(some4) : BYTES_COUNT(some6)); i++) {
		const struct inaddr a = rig_addr(r->v4 ? some4[i] : some6[i]);

		join(r, &a);
		assert_int_equal(r->p.groups->cnt, i + 1);
	}
}

/* Ports: of well-known groups, of what the guest sends to, of none that is published; bounded */
static void test_ports(void **state)
{
	struct rig *r = *state;
	const struct inaddr ssdp = rig_addr(r->v4 ? "239.255.255.250" : "ff05::c"), a = other(r, 1);

	r->dg.published = 3702;
	join(r, &ssdp);
	assert_int_equal(r->dg.open_cnt, 2);
	assert_int_equal(r->dg.opened[1].what, SK_GROUP_RECV);
	assert_int_equal(r->dg.opened[1].to.port, 1900);
	rig_same(&r->dg.opened[1].to.a, &ssdp);
	assert_int_equal(r->drops.cnt[DROP_GROUP_OPEN], 0);

	put(r, &a, 1, 0, 1);
	push(r, &a);			/* before it joins */
	assert_int_equal(r->dg.open_cnt, 3);
	join(r, &a);
	assert_int_equal(r->dg.open_cnt, 4);
	put(r, &a, 1, 0, 1);
	push(r, &a);
	put(r, &a, 1, 0, 1);
	push(r, &a);
	assert_int_equal(r->dg.open_cnt, 5);
	assert_int_equal(r->dg.opened[4].what, SK_GROUP_RECV);
	assert_int_equal(r->dg.opened[4].to.port, FAR_PORT);
	for (uint16_t port = 1; port < 20; port++)
		group_port(&r->p, &a, port);
	assert_int_equal(r->dg.open_cnt, 4 + GROUP_PORTS);
	assert_true(r->drops.cnt[DROP_GROUP_FULL]);
	drop(r, &a);
	drop(r, &ssdp);
	run(r, r->env.now + 100 * NS_S);
	assert_int_equal(open_cnt(r), 0);
	assert_int_equal(r->flows.cnt, 0);
}

/* What is sent to the group arrives, from its sender and for the group; the guest's answer leaves from the same port */
static void test_traffic(void **state)
{
	struct rig *r = *state;
	const struct inaddr mdns = rig_addr(r->v4 ? "224.0.0.251" : "ff02::fb");
	const struct sk_dgram d = {
		.to_from = { .a = r->far, .port = 7777 }, .local = { .a = mdns, .port = 5353 }, .to_all = true,
	};
	const struct flow_key k = { r->guest, r->far, 5353, 7777, FLOW_UDP };
	struct ev_hit hit = { .mask = EV_IN };
	struct proto_spare s;
	struct rig_in in;
	struct flow *f;

	join(r, &mdns);
	hit.ref = r->dg.opened[1].ref;
	f = flow_of_ref(&r->flows, hit.ref);
	assert_non_null(f);
	fake_dg_arrive(&r->dg, f->h, &d, "query", 5);
	udp_host(&r->p, f, &hit);
	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	rig_same(&in.ip.src, &r->far);
	rig_same(&in.ip.dst, &mdns);
	assert_int_equal(bytes_get16(in.l4), 7777);
	assert_int_equal(bytes_get16(in.l4 + 2), 5353);
	put(r, &r->far, 3, 0, 1);
	udp_guest(&r->p, &k, flow_find(&r->flows, &k), r->pkt, 0);
	r->pkt_cnt = 0;
	assert_int_equal(r->dg.sent[0].h, f->h);
	assert_int_equal(r->dg.sent[0].d.to_from.port, 7777);
	assert_int_equal(r->dg.sent[0].d.local.port, 0);	/* the group is no source */
	/* it stays, however silent, and never makes room for others */
	run(r, r->env.now + 200 * NS_S);
	assert_int_equal(r->flows.cnt, 1);
	assert_false(udp_spare(&r->p, f, &s));
	drop(r, &mdns);
	run(r, r->env.now + 3 * NS_S);
	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(open_cnt(r), 0);
}

static void test_limits(void **state)
{
	struct rig *r = *state;

	for (unsigned i = 0; i < GROUP_MAX + 5; i++) {
		const struct inaddr a = other(r, i);

		join(r, &a);
	}
	assert_int_equal(r->dg.open_cnt, GROUP_MAX);
	assert_int_equal(r->drops.cnt[DROP_GROUP_FULL], 5);
	for (unsigned i = 0; i < GROUP_MAX; i++) {
		const struct inaddr a = other(r, i);

		drop(r, &a);
	}
	run(r, r->env.now + 3 * NS_S);
	assert_int_equal(open_cnt(r), 0);
	/* the host can't: counted, and tried again with the next report */
	const struct inaddr a = other(r, 1);

	r->dg.fail_open = -ENODEV;
	join(r, &a);
	assert_int_equal(r->drops.cnt[DROP_GROUP_OPEN], 1);
	r->dg.fail_open = 0;
	join(r, &a);
	assert_int_equal(r->p.groups->cnt, 1);
}

static void test_bad(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = other(r, 1);
	struct proto_pkt *k;
	uint8_t b[8] = { (uint8_t)(r->v4 ? 0x22 : 143), [7] = 1 };

	k = rig_pkt(r, &a, r->v4 ? WIRE_IP_IGMP : WIRE_IP_ICMP6, b, 8, 1);
	k->ip.ttl = 1;
	k->ip.src = rig_addr(r->v4 ? "192.0.2.10" : "::");
	r->v4 ? group_igmp(&r->p, k) : group_mld(&r->p, k);
	assert_int_equal(r->drops.cnt[DROP_GROUP_BAD], 1);
	b[0] = r->v4 ? 0x11 : 130;	/* a query of the guest */
	memcpy(r->bytes[0], b, 8);
	r->v4 ? group_igmp(&r->p, k) : group_mld(&r->p, k);
	assert_int_equal(r->drops.cnt[DROP_ICMP_TYPE], 1);
	if (!r->v4) {			/* from afar */
		memcpy(r->bytes[0], &(uint8_t[8]){ 143 }, 8);
		k->ip.src = r->guest;
		group_mld(&r->p, k);
		assert_int_equal(r->drops.cnt[DROP_GROUP_BAD], 2);
		k->ip.src = rig_addr("fe80::10");
		k->ip.ttl = 64;
		group_mld(&r->p, k);
		assert_int_equal(r->drops.cnt[DROP_GROUP_BAD], 3);
	}
	for (unsigned type = 0; type < 256; type++)
		assert_int_equal(group_is_mld((uint8_t)type), (type >= 130 && type <= 132) || type == 143);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_off), BOTH(test_join_and_leave), BOTH(test_querier), BOTH(test_no_querier), BOTH(test_local),
		BOTH(test_ports), BOTH(test_traffic), BOTH(test_limits), BOTH(test_bad),
	};

	return cmocka_run_group_tests_name("proto/group", tests, NULL, NULL);
}
