/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Template interface, gateway and address from synthetic lists, both families from the same tables.
 */
#include "host/nl_data.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "split.h"

#define LINKS	4

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	if (inaddr_parse(text, &a))
		fail_msg("%s is no address", text);
	return a;
}

/* lo, up0, up1, and down2, which is not up */
static const struct nl_links links = {
	.v = (struct nl_link[LINKS]){
		{ .ifindex = 1, .name = "lo", .flags = IFF_UP | IFF_LOOPBACK },
		{ .ifindex = 2, .name = "up0", .flags = IFF_UP },
		{ .ifindex = 3, .name = "up1", .flags = IFF_UP },
		{ .ifindex = 4, .name = "down2" },
	},
	.cnt = LINKS,
};

static struct nl_route route(const char *dst, uint8_t len, uint32_t ifindex, uint32_t priority)
{
	struct nl_route r = {
		.dst = addr(dst), .dst_len = len, .ifindex = ifindex, .priority = priority, .type = RTN_UNICAST, .weight = 1,
	};

	r.v6 = !inaddr_is_v4(&r.dst);
	return r;
}

static void expect(const char *what, struct nl_route *v, unsigned cnt, enum nl_why why, uint32_t ifindex)
{
	struct nl_routes routes = { .v = v, .cnt = cnt };
	uint32_t got = 0;
	enum nl_why got_why;
	unsigned i;

	for (i = 0; i < cnt; i++)
		v[i].set = v[i].set ? v[i].set : i + 1000;
	got_why = nl_pick_link(&links, &routes, &got);
	if (got_why != why || got != ifindex)
		fail_msg("%s: interface %u because of %d, expected %u because of %d", what, got, got_why, ifindex, why);
}

static void link_choice(void **state)
{
	static const char *const any[] = { "0.0.0.0", "::" }, *const net[] = { "10.0.0.0", "2001:db8::" };
	unsigned f;

	(void)state;
	for (f = 0; f < 2; f++) {
		struct nl_route none[1], lowest[] = { route(any[f], 0, 2, 700), route(any[f], 0, 3, 600) };
		struct nl_route equal[] = { route(any[f], 0, 3, 5), route(any[f], 0, 2, 5) };
		struct nl_route dead[] = { route(any[f], 0, 2, 100), route(any[f], 0, 3, 600) };
		struct nl_route down[] = { route(any[f], 0, 4, 100), route(net[f], 32, 3, 0) };
		struct nl_route lo[] = { route(any[f], 0, 1, 0), route(net[f], 32, 3, 0) };
		struct nl_route first[] = { route(net[f], 32, 3, 9), route(net[f], 16, 2, 0) };
		struct nl_route odd[] = { route(any[f], 0, 2, 0), route(any[f], 0, 99, 0) };

		expect("none", none, 0, NL_WHY_NONE, 0);
		expect("lowest metric", lowest, 2, NL_WHY_DEFAULT, 3);
		expect("first of equals", equal, 2, NL_WHY_DEFAULT, 3);
		dead[0].hop_flags = RTNH_F_LINKDOWN;
		expect("no carrier", dead, 2, NL_WHY_DEFAULT, 3);
		dead[0].hop_flags = RTNH_F_DEAD;
		expect("dead", dead, 2, NL_WHY_DEFAULT, 3);
		dead[1].hop_flags = RTNH_F_LINKDOWN;
		expect("nothing usable", dead, 2, NL_WHY_DEFAULT, 2);
		expect("a route that works before a default that does not", down, 2, NL_WHY_ROUTE, 3);
		expect("loopback is no template", lo, 2, NL_WHY_ROUTE, 3);
		expect("first of any routes", first, 2, NL_WHY_ROUTE, 3);
		odd[0].type = RTN_BLACKHOLE;
		expect("blackhole, and an interface that is gone", odd, 2, NL_WHY_NONE, 0);
	}
}

static void halves(void **state)
{
	struct nl_route v4[] = { route("10.0.0.0", 8, 2, 0), route("0.0.0.0", 1, 3, 0), route("128.0.0.0", 1, 3, 0) };
	struct nl_route one[] = { route("10.0.0.0", 8, 2, 0), route("0.0.0.0", 1, 3, 0) };
	struct nl_route apart[] = { route("0.0.0.0", 1, 2, 0), route("128.0.0.0", 1, 3, 0) };
	struct nl_route beside[] = { route("0.0.0.0", 1, 3, 0), route("128.0.0.0", 1, 3, 0), route("0.0.0.0", 0, 2, 0) };
	struct nl_route v6[] = { route("fd00::", 8, 2, 0), route("::", 1, 3, 0), route("8000::", 1, 3, 0) };
	struct nl_route global[] = { route("fd00::", 8, 2, 0), route("2000::", 3, 3, 0) };
	struct nl_route quarters[] = { route("fd00::", 8, 2, 0), route("2000::", 4, 3, 0), route("3000::", 4, 3, 0) };
	struct nl_route quarter[] = { route("fd00::", 8, 2, 0), route("2000::", 4, 3, 0) };
	struct nl_route ula[] = { route("fc00::", 3, 2, 0), route("e000::", 3, 3, 0) };
	struct nl_route local[] = { route("fe80::", 64, 2, 0) };

	(void)state;
	expect("0/1 and 128/1", v4, 3, NL_WHY_HALF, 3);
	expect("only one half", one, 2, NL_WHY_ROUTE, 2);
	expect("halves over two interfaces", apart, 2, NL_WHY_ROUTE, 2);
	expect("a default route goes first", beside, 3, NL_WHY_DEFAULT, 2);
	expect("::/1 and 8000::/1", v6, 3, NL_WHY_HALF, 3);
	expect("2000::/3", global, 2, NL_WHY_HALF, 3);
	expect("2000::/4 and 3000::/4", quarters, 3, NL_WHY_HALF, 3);
	expect("2000::/4 alone", quarter, 2, NL_WHY_ROUTE, 2);
	expect("other thirds of IPv6", ula, 2, NL_WHY_ROUTE, 2);
	expect("link-local only", local, 1, NL_WHY_NONE, 0);
	assert_true(nl_routes_cover(v4, 3));
	assert_false(nl_routes_cover(one, 2));
	assert_true(nl_routes_cover(quarters, 3));
	assert_false(nl_routes_cover(quarter, 2));
	assert_false(nl_routes_cover(NULL, 0));
}

static const struct nl_route *default_of(struct nl_route *v, unsigned cnt, uint32_t ifindex)
{
	struct nl_routes routes = { .v = v, .cnt = cnt };

	return nl_pick_default(&routes, ifindex);
}

static void gateway(void **state)
{
	struct nl_route v[] = {
		route("0.0.0.0", 0, 2, 50), route("0.0.0.0", 0, 2, 10), route("0.0.0.0", 0, 2, 10), route("0.0.0.0", 0, 2, 10),
		route("0.0.0.0", 0, 3, 10), route("0.0.0.0", 0, 2, 10), route("0.0.0.0", 1, 2, 0),
	};
	struct nl_route half[] = { route("0.0.0.0", 1, 2, 9), route("128.0.0.0", 1, 2, 3), route("10.0.0.0", 8, 2, 0) };

	(void)state;
	v[0].set = 1;
	v[1].set = v[2].set = v[3].set = v[4].set = 2;	/* hops 1 to 4 of one route */
	v[5].set = 3;
	v[6].set = 4;
	v[1].weight = 2;
	v[2].weight = v[3].weight = 5;
	v[4].weight = v[5].weight = 9;
	assert_ptr_equal(default_of(v, 7, 2), &v[3]);
	assert_ptr_equal(default_of(v, 7, 3), &v[4]);
	assert_ptr_equal(default_of(v, 3, 2), &v[2]);
	assert_null(default_of(v, 7, 1));
	half[1].set = 1;
	half[2].set = 2;
	assert_ptr_equal(default_of(half, 3, 2), &half[1]);
	assert_null(default_of(half, 1, 2));
}

static struct nl_addr own(const char *text, uint8_t len, uint8_t scope, uint32_t flags)
{
	return (struct nl_addr){ .ifindex = 2, .addr = addr(text), .peer = addr(text), .prefix_len = len, .scope = scope,
				 .flags = flags };
}

static void address(void **state)
{
	struct nl_addr v[] = {
		own("169.254.7.7", 16, RT_SCOPE_LINK, 0), own("192.0.2.2", 24, 0, 0),
		own("192.0.2.130", 25, 0, IFA_F_DEPRECATED), own("192.0.2.3", 24, 0, IFA_F_SECONDARY),
		own("2001:db8::2", 64, 0, 0), own("2001:db8::3", 128, 0, IFA_F_DADFAILED | IFA_F_TENTATIVE),
		own("2001:db8::4", 128, 0, IFA_F_TENTATIVE), own("fe80::2", 64, RT_SCOPE_LINK, 0),
		own("127.0.0.2", 32, 0, 0), own("fe80::3", 128, 0, 0),
	};
	struct nl_addrs v4 = { .v = v, .cnt = 4 }, v6 = { .v = v + 4, .cnt = 6 };

	(void)state;
	assert_ptr_equal(nl_pick_addr(&v4, 2), &v[1]);
	assert_ptr_equal(nl_pick_addr(&v6, 2), &v[6]);
	assert_null(nl_pick_addr(&v4, 3));
	assert_ptr_equal(nl_pick_linklocal(&v6, 2), &v[7]);
	assert_null(nl_pick_linklocal(&v6, 3));
	v[1].ifindex = 3;
	assert_ptr_equal(nl_pick_addr(&v4, 2), &v[3]);
	v[2].flags = 0;
	assert_ptr_equal(nl_pick_addr(&v4, 2), &v[2]);
	assert_false(nl_addr_is_usable(&v[8]));
	assert_false(nl_addr_is_usable(&v[9]));
	assert_ptr_equal(nl_link_by_name(&links, "up1"), &links.v[2]);
	assert_null(nl_link_by_name(&links, "up"));
	assert_null(nl_link_by_index(&links, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_choice),
		cmocka_unit_test(halves),
		cmocka_unit_test(gateway),
		cmocka_unit_test(address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
