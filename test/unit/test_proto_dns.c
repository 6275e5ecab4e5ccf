/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/dns.c: the way of a flow through the resolvers, by protocol and port.
 */
#include "rig_proto.h"

#include "rig_dns.h"

static void check(struct rig *r, const struct flow_key *k, struct proto_dns *d, int want)
{
	struct sk_addr to;

	if (want < 0) {
		assert_false(proto_dns_more(&r->p, k, d));
		assert_false(proto_dns_next(&r->p, k, d, &to));
		return;
	}
	assert_int_equal(proto_dns_more(&r->p, k, d), d->on && !proto_dns_stale(&r->p, k, d));
	assert_true(proto_dns_next(&r->p, k, d, &to));
	assert_int_equal(d->server, want);
	rig_same(&to.a, &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].dns.server[want].addr);
	assert_int_equal(to.port, k->far_port);
	assert_int_equal(to.scope, !r->v4 && want == 2 ? 3 : 0);
}

static struct flow_key key_of(struct rig *r, uint32_t proto, uint16_t port)
{
	return (struct flow_key){ .guest = r->guest, .far = dns_list(&r->fwd, r->v4, 3), .guest_port = 1, .far_port = port, .proto = proto };
}

static void test_order(void **state)
{
	struct rig *r = *state;
	const struct flow_key k = key_of(r, FLOW_UDP, 53);
	struct proto_dns d = { .on = false };

	for (int i = 0; i < 3; i++)
		check(r, &k, &d, i);
	check(r, &k, &d, -1);
	assert_int_equal(d.server, 2);
	d.asked = 2;
	check(r, &k, &d, 0);
}

/* Ports and protocols have their own health */
static void test_services(void **state)
{
	static const struct { uint32_t proto; uint16_t port; } s[] = {
		{ FLOW_UDP, 53 }, { FLOW_UDP, 853 }, { FLOW_TCP, 53 }, { FLOW_TCP, 853 },
	};
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(s); i++) {
		const struct flow_key k = key_of(r, s[i].proto, s[i].port);
		struct proto_dns d = { .on = false };

		check(r, &k, &d, 0);
		assert_false(proto_dns_doubted(&r->p, &k, &d));
		proto_dns_failed(&r->p, &k, &d);
		assert_true(proto_dns_doubted(&r->p, &k, &d));
		for (unsigned n = 0; n < BYTES_COUNT(s); n++) {
			const struct flow_key other = key_of(r, s[n].proto, s[n].port);
			struct proto_dns now = { .on = false };

			check(r, &other, &now, n <= i);
		}
	}
	for (unsigned i = 0; i < BYTES_COUNT(s); i++) {
		const struct flow_key k = key_of(r, s[i].proto, s[i].port);
		struct proto_dns d = { .on = true, .gen = 1, .server = 0 };

		proto_dns_answered(&r->p, &k, &d);
		d.on = false;
		check(r, &k, &d, 0);
	}
}

/* A new list: all are to be tried; what is known of the old ones tells nothing */
static void test_stale(void **state)
{
	struct rig *r = *state;
	const struct flow_key k = key_of(r, FLOW_UDP, 53);
	struct proto_dns d = { .on = false }, fresh = { .on = false };

	assert_false(proto_dns_stale(&r->p, &k, &d));
	check(r, &k, &d, 0);
	check(r, &k, &d, 1);
	assert_false(proto_dns_stale(&r->p, &k, &d));
	dns_list(&r->fwd, r->v4, 2);
	assert_true(proto_dns_stale(&r->p, &k, &d));
	assert_false(proto_dns_more(&r->p, &k, &d));
	d.server = 0;
	proto_dns_failed(&r->p, &k, &d);
	assert_false(proto_dns_doubted(&r->p, &k, &d));
	check(r, &k, &fresh, 0);
	check(r, &k, &d, 0);
	check(r, &k, &d, 1);
	check(r, &k, &d, -1);
}

/* Other addresses, other ports, no list */
static void test_none(void **state)
{
	struct rig *r = *state;
	struct flow_key k = key_of(r, FLOW_UDP, 54);
	struct proto_dns d = { .on = false };

	check(r, &k, &d, -1);
	k.far_port = 53;
	k.far = r->far;
	check(r, &k, &d, -1);
	k.far = dns_list(&r->fwd, r->v4, 0);
	check(r, &k, &d, -1);
	assert_false(d.on);
	proto_dns_failed(&r->p, &k, &d);
	proto_dns_answered(&r->p, &k, &d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_order), RIG_BOTH(test_services), RIG_BOTH(test_stale), RIG_BOTH(test_none),
	};

	return cmocka_run_group_tests_name("proto/dns", tests, NULL, NULL);
}
