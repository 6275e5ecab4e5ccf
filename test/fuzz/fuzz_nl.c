/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Any bytes as rtnetlink messages: the parsers, and the choices and plans made from what they accept.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "host/nl_data.h"

struct all {
	struct nl_links links;
	struct nl_addrs addrs[2];	/* IPv4, IPv6 */
	struct nl_routes routes[2];
	struct nl_nexthops nexthops;
};

static void must(int ok)
{
	if (!ok)
		abort();
}

static void parse(const void *data, size_t size, struct all *a)
{
	const struct nlmsghdr *nlh;
	size_t at = 0;
	int v6;

	while ((nlh = nl_msg_next(data, size, &at))) {
		nl_parse_link(nlh, &a->links);
		nl_parse_nexthop(nlh, &a->nexthops);
		for (v6 = 0; v6 < 2; v6++) {
			nl_parse_addr(nlh, v6, &a->addrs[v6]);
			nl_parse_route(nlh, v6, &a->routes[v6]);
		}
	}
}

static void use(const struct nl_links *links, const struct nl_addrs *addrs, const struct nl_routes *routes)
{
	struct nl_plan plan = { .to_ifindex = 7, .mtu = 1500, .addr = addrs->v, .addr_cnt = addrs->cnt };
	struct nl_route *v = calloc(routes->cnt + 1, sizeof(*v));
	const struct nl_route *gw;
	char text[NL_ROUTE_STR_MAX];
	unsigned cnt, i;

	must(v != NULL);
	must(!nl_routes_unresolved(routes));
	if (nl_pick_link(links, routes, &plan.from_ifindex) != NL_WHY_NONE)
		must(nl_link_by_index(links, plan.from_ifindex) != NULL);
	gw = nl_pick_default(routes, plan.from_ifindex);
	must(!gw || nl_route_is_default(gw));
	nl_pick_addr(addrs, plan.from_ifindex);
	nl_pick_linklocal(addrs, plan.from_ifindex);
	cnt = nl_plan_routes(&plan, routes, v);
	must(cnt <= routes->cnt);
	for (i = 0; i < cnt; i++) {
		must(v[i].ifindex == 7);
		nl_route_str(&v[i], text);
		nl_is_onlink(addrs->v, addrs->cnt, &v[i].gw);
	}
	nl_routes_cover(v, cnt);
	free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct all a = { .links.v = NULL };
	void *copy = malloc(size ? size : 1);	/* aligned as the kernel's answers are, and no byte longer than the input */
	int v6;

	must(copy != NULL);
	memcpy(copy, data, size);
	parse(copy, size, &a);
	free(copy);
	for (v6 = 0; v6 < 2; v6++) {
		must(!nl_routes_resolve(&a.routes[v6], &a.nexthops));
		use(&a.links, &a.addrs[v6], &a.routes[v6]);
		nl_list_free(&a.addrs[v6]);
		nl_list_free(&a.routes[v6]);
	}
	nl_list_free(&a.links);
	nl_list_free(&a.nexthops);
	return 0;
}
