/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Questions to rtnetlink: links, addresses, routes with their nexthop objects, and from these the template that a guest's
 * family is modelled on (nl_template_get()). Refuses to fail because there is no network: a family without interface or
 * address yields the local mode's values.
 */
#include "nl_priv.h"

#include <linux/if_addr.h>
#include <linux/nexthop.h>
#include <stdlib.h>
#include <string.h>

/* One dump: where messages of which family go */
struct get {
	bool v6;
	struct nl_links *links;
	struct nl_addrs *addrs;
	struct nl_routes *routes;
	struct nl_nexthops *nexthops;
};

static int get_parse(const struct nlmsghdr *nlh, void *data)
{
	struct get *g = data;

	if (g->links)
		return nl_parse_link(nlh, g->links);
	if (g->addrs)
		return nl_parse_addr(nlh, g->v6, g->addrs);
	if (g->routes)
		return nl_parse_route(nlh, g->v6, g->routes);
	return nl_parse_nexthop(nlh, g->nexthops);
}

static void get_restart(void *data)
{
	struct get *g = data;

	if (g->links)
		g->links->cnt = 0;
	if (g->addrs)
		g->addrs->cnt = 0;
	if (g->routes)
		g->routes->cnt = g->routes->lost = 0;
	if (g->nexthops)
		g->nexthops->cnt = 0;
}

static int get_run(struct nl *nl, struct nlmsghdr *nlh, struct get *g, const char *what, struct err *e)
{
	struct nl_dump d = { .parse = get_parse, .restart = get_restart, .data = g };
	int rc = nl_dump_run(nl, nlh, &d);

	/* ENOENT: a table without routes is not there (strict dumps of IPv6) */
	if (!rc || nl_family_missing(rc) || rc == -ENOENT)
		return 0;
	return err_set(e, rc, "Can't read %s from the kernel: %s", what, strerror(-rc));
}

int nl_links_get(struct nl *nl, struct nl_links *ret, struct err *e)
{
	struct get g = { .links = ret };
	struct ifinfomsg *ifi;
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_GETLINK, 0, sizeof(*ifi), &ifi);

	ifi->ifi_family = AF_UNSPEC;
	return get_run(nl, nlh, &g, "network interfaces", e);
}

int nl_addrs_get(struct nl *nl, bool v6, struct nl_addrs *ret, struct err *e)
{
	struct get g = { .v6 = v6, .addrs = ret };
	struct ifaddrmsg *ifa;
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_GETADDR, 0, sizeof(*ifa), &ifa);

	ifa->ifa_family = v6 ? AF_INET6 : AF_INET;
	return get_run(nl, nlh, &g, v6 ? "IPv6 addresses" : "IPv4 addresses", e);
}

static int nexthops_resolve(struct nl *nl, struct nl_routes *routes, struct err *e)
{
	struct nl_nexthops hops = { .v = NULL };
	struct get g = { .nexthops = &hops };
	struct nhmsg *nhm;
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_GETNEXTHOP, 0, sizeof(*nhm), &nhm);
	int rc = get_run(nl, nlh, &g, "nexthop objects", e);

	if (!rc && nl_routes_resolve(routes, &hops))
		rc = err_set(e, -ENOMEM, "Can't keep the host's routes: %s", strerror(ENOMEM));
	nl_list_free(&hops);
	return rc;
}

int nl_routes_get(struct nl *nl, bool v6, struct nl_routes *ret, struct err *e)
{
	struct get g = { .v6 = v6, .routes = ret };
	struct rtmsg *rtm;
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_GETROUTE, 0, sizeof(*rtm), &rtm);
	int rc;

	/* A hint to kernels that filter; the parser looks again */
	rtm->rtm_family = v6 ? AF_INET6 : AF_INET;
	rtm->rtm_table = RT_TABLE_MAIN;
	rc = get_run(nl, nlh, &g, v6 ? "IPv6 routes" : "IPv4 routes", e);
	if (!rc && nl_routes_unresolved(ret))
		rc = nexthops_resolve(nl, ret, e);
	return rc;
}

/* Keep what the guest may get */
static void addrs_keep(struct nl_addrs *addrs, uint32_t ifindex)
{
	unsigned cnt = 0, i;

	for (i = 0; i < addrs->cnt; i++) {
		if (addrs->v[i].ifindex == ifindex && nl_addr_is_usable(&addrs->v[i]))
			addrs->v[cnt++] = addrs->v[i];
	}
	addrs->cnt = cnt;
}

/* Values of the local mode, of which other cases need the gateway */
static void template_local(struct nl_template *t)
{
	static const uint8_t guest4[4] = { 169, 254, 2, 1 }, ours4[4] = { 169, 254, 2, 2 };
	static const uint8_t ours6[16] = { 0xfe, 0x80, [15] = 1 };

	t->local = t->gw_is_ours = true;
	t->gw = t->our_addr = t->v6 ? inaddr_v6(ours6) : inaddr_v4(ours4);
	if (t->v6)
		return;
	t->has_addr = true;
	t->addr = inaddr_v4(guest4);
	t->prefix_len = 16;
}

static void template_fill(struct nl_template *t)
{
	const struct nl_addr *a = nl_pick_addr(&t->addrs, t->link.ifindex);
	const struct nl_addr *ll = nl_pick_linklocal(&t->addrs, t->link.ifindex);
	const struct nl_route *gw = nl_pick_default(&t->routes, t->link.ifindex);

	template_local(t);
	if (ll) {
		t->has_linklocal = true;
		t->linklocal = ll->addr;
	}
	if (!a)
		return;
	t->local = false;
	t->has_addr = true;
	t->addr = a->addr;
	t->prefix_len = a->prefix_len;
	if (gw && gw->gw_kind == NL_GW_SAME) {
		t->gw_is_ours = false;
		t->gw = gw->gw;
	}
	if (!t->v6 || inaddr_is_linklocal(&t->gw))
		t->our_addr = t->gw;
	else if (ll)
		t->our_addr = ll->addr;
}

/* The lists, and the link; ifindex 0 if there is none */
static int template_read(struct nl *nl, const char *name, struct nl_links *links, struct nl_template *t, struct err *e)
{
	const struct nl_link *l = NULL;
	uint32_t ifindex;
	int rc = nl_links_get(nl, links, e);

	if (!rc)
		rc = nl_addrs_get(nl, t->v6, &t->addrs, e);
	if (!rc)
		rc = nl_routes_get(nl, t->v6, &t->routes, e);
	if (rc)
		return rc;
	if (name) {
		l = nl_link_by_name(links, name);
		if (!l)
			return err_set(e, -ENODEV, "There is no network interface %s here; \"ip link\" lists them", name);
		t->why = NL_WHY_NAME;
	} else {
		t->why = nl_pick_link(links, &t->routes, &ifindex);
		if (t->why != NL_WHY_NONE)
			l = nl_link_by_index(links, ifindex);
	}
	if (l)
		t->link = *l;
	return 0;
}

int nl_template_get(struct nl *nl, bool v6, const char *name, struct nl_template *ret, struct err *e)
{
	struct nl_template t = { .v6 = v6 };
	struct nl_links links = { .v = NULL };
	int rc = template_read(nl, name, &links, &t, e);

	nl_list_free(&links);
	if (rc) {
		nl_template_free(&t);
		return rc;
	}
	template_fill(&t);
	if (t.local) {
		nl_list_free(&t.addrs);
		nl_list_free(&t.routes);
	}
	addrs_keep(&t.addrs, t.link.ifindex);
	*ret = t;
	return 0;
}

void nl_template_free(struct nl_template *t)
{
	nl_list_free(&t->addrs);
	nl_list_free(&t->routes);
}
