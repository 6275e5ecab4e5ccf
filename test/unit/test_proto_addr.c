/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/addr.c: where a flow of the guest goes on the host (NAT-1, NAT-4, NAT-8).
 */
#include "rig_proto.h"

static struct fwd_family_set *mine(struct rig *r)
{
	return &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];
}

static struct fwd_family_set *other(struct rig *r)
{
	return &r->fwd.f[r->v4 ? FWD_V6 : FWD_V4];
}

/* The router's address is the host's loopback; every port passes as it is */
static void test_to_loopback(void **state)
{
	static const uint16_t ports[] = { 0, 1, 80, 65535 };
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(ports); i++) {
		const struct sk_addr to = proto_host_addr(&r->p, &r->router, ports[i]);

		rig_same(&to.a, &r->loop);
		assert_int_equal(to.port, ports[i]);
		assert_int_equal(to.scope, 0);	/* although the guest's name for it is link-local */
	}
}

static void test_to_far(void **state)
{
	struct rig *r = *state;
	const struct sk_addr to = proto_host_addr(&r->p, &r->far, 65535);

	rig_same(&to.a, &r->far);
	assert_int_equal(to.port, 65535);
	assert_int_equal(to.scope, 0);
}

/* A resolver's alias counts for its two ports only; a link-local resolver of the host needs the interface */
static void test_to_resolver(void **state)
{
	struct rig *r = *state;
	const struct inaddr match = rig_addr(r->v4 ? "192.0.2.53" : "2001:db8::53");
	const struct inaddr host = rig_addr(r->v4 ? "169.254.1.53" : "fe80::53");
	struct sk_addr to;

	mine(r)->dns_match = match;
	mine(r)->dns_host = host;
	for (uint16_t port = 53; port <= 853; port += 800) {
		to = proto_host_addr(&r->p, &match, port);
		rig_same(&to.a, &host);
		assert_int_equal(to.port, port);
		assert_int_equal(to.scope, r->v4 ? 0 : 3);
	}
	to = proto_host_addr(&r->p, &match, 54);
	rig_same(&to.a, &match);
	assert_int_equal(to.scope, 0);
}

/* The host's own copy of the guest's address has an alias of its own */
static void test_to_host_guest(void **state)
{
	struct rig *r = *state;
	const struct inaddr alias = rig_addr(r->v4 ? "192.0.2.200" : "2001:db8::200");
	struct sk_addr to;

	mine(r)->host_guest = alias;
	mine(r)->host_own = r->guest;
	to = proto_host_addr(&r->p, &alias, 7);
	rig_same(&to.a, &r->guest);
}

/* Which addresses mean something on one link only (RFC 4291 2.5.6 and 2.7) */
static void test_scope(void **state)
{
	static const struct { const char *a; uint32_t scope; } six[] = {
		{ "fe7f:ffff::1", 0 }, { "fe80::2", 3 }, { "febf:ffff::1", 3 }, { "fec0::1", 0 },
		{ "ff01::1", 3 }, { "ff02::fb", 3 }, { "ff12::fb", 3 }, { "ff32::1", 3 }, { "ff03::1", 0 }, { "ff05::2", 0 },
		{ "ff0e::101", 0 }, { "fe02::1", 0 }, { "::1", 0 }, { "2001:db8::2", 0 },
	}, four[] = {
		{ "169.254.0.1", 0 }, { "169.254.255.254", 0 }, { "224.0.0.251", 0 }, { "239.255.255.250", 0 }, { "127.0.0.1", 0 },
	};
	struct rig *r = *state;
	const unsigned cnt = r->v4 ? BYTES_COUNT(four) : BYTES_COUNT(six);

	for (unsigned i = 0; i < cnt; i++) {
		const struct inaddr a = rig_addr(r->v4 ? four[i].a : six[i].a);
		const struct sk_addr to = proto_host_addr(&r->p, &a, 5353);

		rig_same(&to.a, &a);
		if (to.scope != (r->v4 ? four[i].scope : six[i].scope))
			fail_msg("%s: scope %u", r->v4 ? four[i].a : six[i].a, to.scope);
	}
}

/* --outbound, by family; never where the kernel has to choose by the target */
static void test_from(void **state)
{
	static const char *const none4[] = { "127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.255.254" };
	static const char *const none6[] = { "::1", "fe80::2", "febf::1" };
	struct rig *r = *state;
	const struct inaddr out = rig_addr(r->v4 ? "203.0.113.5" : "2001:db8:a::5");
	const char *const *none = r->v4 ? none4 : none6;
	const unsigned cnt = r->v4 ? BYTES_COUNT(none4) : BYTES_COUNT(none6);
	struct sk_addr to = { .a = r->far, .port = 1 };
	struct inaddr from;

	from = proto_host_from(&r->p, &to);
	assert_true(inaddr_is_unset(&from));
	other(r)->outbound = rig_addr(r->v4 ? "2001:db8:a::5" : "203.0.113.5");
	from = proto_host_from(&r->p, &to);
	assert_true(inaddr_is_unset(&from));
	mine(r)->outbound = out;
	from = proto_host_from(&r->p, &to);
	rig_same(&from, &out);
	to.a = rig_addr(r->v4 ? "239.255.255.250" : "ff05::2");
	from = proto_host_from(&r->p, &to);
	rig_same(&from, &out);
	for (unsigned i = 0; i < cnt; i++) {
		to.a = rig_addr(none[i]);
		from = proto_host_from(&r->p, &to);
		if (!inaddr_is_unset(&from))
			fail_msg("a source towards %s", none[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_to_loopback),
		RIG_BOTH(test_to_far),
		RIG_BOTH(test_to_resolver),
		RIG_BOTH(test_to_host_guest),
		RIG_BOTH(test_scope),
		RIG_BOTH(test_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
