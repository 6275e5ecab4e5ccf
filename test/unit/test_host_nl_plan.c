/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which routes of the template are copied, how they change on the way, and their order.
 */
#include "host/nl_data.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>

#include "split.h"

#define FROM	2
#define TO	9

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	if (inaddr_parse(text, &a))
		fail_msg("%s is no address", text);
	return a;
}

/* GW NULL: on-link */
static struct nl_route route(uint32_t set, const char *dst, uint8_t len, const char *gw)
{
	struct nl_route r = { .set = set, .dst = addr(dst), .dst_len = len, .ifindex = FROM, .type = RTN_UNICAST, .weight = 1 };

	r.v6 = !inaddr_is_v4(&r.dst);
	if (gw) {
		r.gw = addr(gw);
		r.gw_kind = inaddr_is_v4(&r.gw) == r.v6 ? NL_GW_OTHER : NL_GW_SAME;
	}
	return r;
}

static struct nl_addr addr4 = { .ifindex = FROM, .prefix_len = 24 };
static struct nl_addr addr6 = { .ifindex = FROM, .prefix_len = 64 };

static unsigned plan(struct nl_route *v, unsigned cnt, struct nl_route *ret)
{
	struct nl_addr a[2];
	struct nl_plan p = { .from_ifindex = FROM, .to_ifindex = TO, .mtu = 1500, .addr = a, .addr_cnt = 2 };
	struct nl_routes routes = { .v = v, .cnt = cnt };

	addr4.addr = addr4.peer = addr("192.0.2.2");
	addr6.addr = addr6.peer = addr("2001:db8::2");
	a[0] = addr4;
	a[1] = addr6;
	return nl_plan_routes(&p, &routes, ret);
}

static void expect(const struct nl_route *v, unsigned cnt, const char *const *text)
{
	char buf[NL_ROUTE_STR_MAX];
	unsigned i;

	for (i = 0; i < cnt; i++) {
		assert_non_null(text[i]);
		assert_string_equal(nl_route_str(&v[i], buf), text[i]);
		assert_int_equal(v[i].ifindex, TO);
	}
	assert_null(text[cnt]);
}

static void order(void **state)
{
	struct nl_route v[] = {
		route(0, "0.0.0.0", 0, "172.31.1.1"), route(1, "10.0.0.0", 8, "192.0.2.1"), route(2, "172.31.1.1", 32, NULL),
		route(3, "10.1.0.0", 16, NULL), route(4, "172.16.0.0", 12, "fe80::1"),
	}, got[5];
	static const char *const want[] = {
		"172.31.1.1/32", "10.1.0.0/16", "default via 172.31.1.1", "10.0.0.0/8 via 192.0.2.1 metric 7",
		"172.16.0.0/12 via fe80::1", NULL,
	};

	(void)state;
	v[1].priority = 7;
	expect(got, plan(v, 5, got), want);
	assert_int_equal(got[4].gw_kind, NL_GW_OTHER);
}

static void multipath(void **state)
{
	struct nl_route v[] = {
		route(0, "0.0.0.0", 0, "192.0.2.1"), route(0, "0.0.0.0", 0, "192.0.2.2"), route(0, "0.0.0.0", 0, "192.0.2.3"),
		route(0, "0.0.0.0", 0, "192.0.2.4"), route(1, "2001:db8:5::", 48, "fe80::1"), route(2, "2001:db8:5::", 48, "fe80::2"),
	}, got[6];
	static const char *const want[] = {
		"default via 192.0.2.3", "2001:db8:5::/48 via fe80::1", "2001:db8:5::/48 via fe80::2", NULL,
	};

	(void)state;
	v[0].weight = 2;
	v[1].weight = v[2].weight = 5;
	v[3].weight = 9;
	v[3].ifindex = FROM + 1;	/* another interface's hop */
	expect(got, plan(v, 6, got), want);
	assert_int_equal(got[0].weight, 1);
}

static void left_out(void **state)
{
	struct nl_route v[] = {
		route(0, "192.0.2.0", 24, NULL), route(1, "2001:db8::", 64, NULL), route(2, "fe80::", 64, NULL),
		route(3, "10.0.0.0", 8, NULL), route(4, "10.1.0.0", 16, NULL), route(5, "192.0.2.0", 24, NULL),
		route(6, "192.0.2.0", 25, NULL),
	}, got[7];
	static const char *const want[] = { "192.0.2.0/24", "192.0.2.0/25", NULL };
	static const char *const want_all[] = { "192.0.2.0/24", "2001:db8::/64", "192.0.2.0/24", "192.0.2.0/25", NULL };

	(void)state;
	v[0].protocol = v[1].protocol = v[6].protocol = RTPROT_KERNEL;
	v[3].ifindex = FROM + 1;
	v[4].type = RTN_BLACKHOLE;
	expect(got, plan(v, 7, got), want);
	/* Whoever suppressed the kernel's own route gets a copy of what stands in its place */
	addr4.flags = addr6.flags = IFA_F_NOPREFIXROUTE;
	expect(got, plan(v, 7, got), want_all);
	addr4.flags = addr6.flags = 0;
}

static void changes(void **state)
{
	struct nl_route v[] = { route(0, "10.0.0.0", 8, "192.0.2.1"), route(1, "10.1.0.0", 16, "192.0.2.1") }, got[2];

	(void)state;
	v[0].has_prefsrc = v[1].has_prefsrc = true;
	v[0].prefsrc = addr("192.0.2.2");
	v[1].prefsrc = addr("192.0.2.3");
	v[0].hop_flags = RTNH_F_ONLINK | RTNH_F_LINKDOWN | RTNH_F_DEAD;
	v[0].metric[RTAX_MTU] = 1400;
	v[1].metric[RTAX_MTU] = 9000;
	v[0].metric[RTAX_LOCK] = v[1].metric[RTAX_LOCK] = 1U << RTAX_MTU;
	v[0].metric[RTAX_ADVMSS] = 1459;
	v[1].metric[RTAX_ADVMSS] = 1460;
	assert_int_equal(plan(v, 2, got), 2);
	assert_true(got[0].has_prefsrc);
	assert_false(got[1].has_prefsrc);
	assert_int_equal(got[0].hop_flags, RTNH_F_ONLINK);
	assert_int_equal(got[0].metric[RTAX_MTU], 1400);
	assert_int_equal(got[0].metric[RTAX_LOCK], 1U << RTAX_MTU);
	assert_int_equal(got[1].metric[RTAX_MTU], 0);
	assert_int_equal(got[1].metric[RTAX_LOCK], 0);
	assert_int_equal(got[0].metric[RTAX_ADVMSS], 1459);
	assert_int_equal(got[1].metric[RTAX_ADVMSS], 0);
}

static void onlink(void **state)
{
	struct nl_addr v[] = { { .prefix_len = 24 }, { .prefix_len = 64 }, { .prefix_len = 32 } };
	struct inaddr a;

	(void)state;
	v[0].addr = v[0].peer = addr("192.0.2.2");
	v[1].addr = v[1].peer = addr("2001:db8::2");
	v[2].addr = addr("10.8.0.6");
	v[2].peer = addr("10.8.0.5");
	assert_true(nl_is_onlink(v, 3, (a = addr("192.0.2.1"), &a)));
	assert_false(nl_is_onlink(v, 3, (a = addr("192.0.3.1"), &a)));
	assert_false(nl_is_onlink(v, 3, (a = addr("192.0.2.2"), &a)));
	assert_true(nl_is_onlink(v, 3, (a = addr("10.8.0.5"), &a)));
	assert_false(nl_is_onlink(v, 3, (a = addr("10.8.0.6"), &a)));
	assert_true(nl_is_onlink(v, 3, (a = addr("2001:db8::1"), &a)));
	assert_false(nl_is_onlink(v, 3, (a = addr("2001:db8:1::1"), &a)));
	assert_true(nl_is_onlink(v, 0, (a = addr("fe80::1"), &a)));
	assert_false(nl_is_onlink(v, 0, (a = addr("169.254.2.2"), &a)));
	v[0].flags = IFA_F_NOPREFIXROUTE;
	assert_false(nl_is_onlink(v, 3, (a = addr("192.0.2.1"), &a)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),
		cmocka_unit_test(multipath),
		cmocka_unit_test(left_out),
		cmocka_unit_test(changes),
		cmocka_unit_test(onlink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
