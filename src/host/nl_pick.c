/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What to take as a model for the guest: interface, gateway and address, chosen from plain lists without a system call.
 * Refuses to judge by reachability: only what the kernel says about links (up, carrier) and routes (dead, linkdown)
 * counts. Everything that looks at a default route also accepts the pairs of routes that VPN clients set in its place.
 */
#include "host/nl_data.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

enum route_rank {
	ROUTE_RANK_DEFAULT,
	ROUTE_RANK_HALF,
	ROUTE_RANK_ANY,
	ROUTE_RANK_CNT
};

const struct nl_link *nl_link_by_index(const struct nl_links *links, uint32_t ifindex)
{
	unsigned i;

	for (i = 0; i < links->cnt; i++) {
		if (links->v[i].ifindex == ifindex)
			return &links->v[i];
	}
	return NULL;
}

const struct nl_link *nl_link_by_name(const struct nl_links *links, const char *name)
{
	unsigned i;

	for (i = 0; i < links->cnt; i++) {
		if (!strcmp(links->v[i].name, name))
			return &links->v[i];
	}
	return NULL;
}

/* Which halves of the address space, or of IPv6's global unicast part (2000::/3, RFC 4291 2.4), a route covers: bits 1
 * and 2. Default routes cover both.
 */
static unsigned route_halves(const struct nl_route *r)
{
	if (!r->dst_len)
		return 3;
	if (!r->v6)
		return r->dst_len > 1 ? 0 : r->dst.b[12] & 0x80 ? 2 : 1;
	if (r->dst_len <= 3)
		return (r->dst.b[0] ^ 0x20) >> (8 - r->dst_len) ? 0 : 3;
	if (r->dst_len > 4 || (r->dst.b[0] & 0xe0) != 0x20)
		return 0;
	return r->dst.b[0] & 0x10 ? 2 : 1;
}

bool nl_route_is_default(const struct nl_route *r)
{
	return route_halves(r) && r->type == RTN_UNICAST;
}

bool nl_routes_cover(const struct nl_route *v, unsigned cnt)
{
	unsigned halves = 0, i;

	for (i = 0; i < cnt && halves != 3; i++) {
		if (nl_route_is_default(&v[i]))
			halves |= route_halves(&v[i]);
	}
	return halves == 3;
}

/* The interface covers everything through routes none of which is a default route */
static bool link_has_halves(const struct nl_routes *routes, uint32_t ifindex)
{
	unsigned halves = 0, i;

	for (i = 0; i < routes->cnt; i++) {
		if (routes->v[i].ifindex == ifindex)
			halves |= route_halves(&routes->v[i]);
	}
	return halves == 3;
}

static bool route_ranks(const struct nl_routes *routes, const struct nl_route *r, enum route_rank rank)
{
	switch (rank) {
	case ROUTE_RANK_DEFAULT:
		return !r->dst_len;
	case ROUTE_RANK_HALF:
		return route_halves(r) && link_has_halves(routes, r->ifindex);
	case ROUTE_RANK_ANY:
	case ROUTE_RANK_CNT:
		break;
	}
	return !inaddr_is_linklocal(&r->dst);
}

/* A hop that can carry something: USABLE_ONLY, right now */
static bool hop_counts(const struct nl_links *links, const struct nl_route *r, bool usable_only)
{
	const struct nl_link *l = r->ifindex && r->type == RTN_UNICAST ? nl_link_by_index(links, r->ifindex) : NULL;

	if (!l || l->flags & IFF_LOOPBACK)
		return false;
	return !usable_only || (l->flags & IFF_UP && !(r->hop_flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN)));
}

static const struct nl_route *route_best(const struct nl_links *links, const struct nl_routes *routes, enum route_rank rank,
					 bool usable_only)
{
	const struct nl_route *best = NULL;
	unsigned i;

	for (i = 0; i < routes->cnt; i++) {
		const struct nl_route *r = &routes->v[i];

		/* Metrics of different destinations say nothing about each other: the first one, then */
		if (best && (rank == ROUTE_RANK_ANY || r->priority >= best->priority))
			continue;
		if (route_ranks(routes, r, rank) && hop_counts(links, r, usable_only))
			best = r;
	}
	return best;
}

enum nl_why nl_pick_link(const struct nl_links *links, const struct nl_routes *routes, uint32_t *ret_ifindex)
{
	static const enum nl_why why[ROUTE_RANK_CNT] = {
		[ROUTE_RANK_DEFAULT] = NL_WHY_DEFAULT,
		[ROUTE_RANK_HALF] = NL_WHY_HALF,
		[ROUTE_RANK_ANY] = NL_WHY_ROUTE,
	};
	unsigned i;

	for (i = 0; i < 2 * ROUTE_RANK_CNT; i++) {
		enum route_rank rank = (enum route_rank)(i % ROUTE_RANK_CNT);
		const struct nl_route *r = route_best(links, routes, rank, i < ROUTE_RANK_CNT);

		if (r) {
			*ret_ifindex = r->ifindex;
			return why[rank];
		}
	}
	return NL_WHY_NONE;
}

/* X serves better than Y: a real default route, lower metric, then within one route the higher weight */
static bool default_better(const struct nl_route *x, const struct nl_route *y)
{
	if (!x->dst_len != !y->dst_len)
		return !x->dst_len;
	if (x->dst_len && x->dst_len != y->dst_len)
		return x->dst_len < y->dst_len;
	if (x->priority != y->priority)
		return x->priority < y->priority;
	return x->set == y->set && x->weight >= y->weight;
}

const struct nl_route *nl_pick_default(const struct nl_routes *routes, uint32_t ifindex)
{
	bool halves = link_has_halves(routes, ifindex);
	const struct nl_route *best = NULL;
	unsigned i;

	for (i = 0; i < routes->cnt; i++) {
		const struct nl_route *r = &routes->v[i];

		if (r->ifindex != ifindex || !nl_route_is_default(r) || (r->dst_len && !halves))
			continue;
		if (!best || default_better(r, best))
			best = r;
	}
	return best;
}

bool nl_addr_is_usable(const struct nl_addr *a)
{
	return a->scope < RT_SCOPE_LINK && !(a->flags & (IFA_F_DEPRECATED | IFA_F_DADFAILED)) && !inaddr_is_loopback(&a->addr) &&
	       inaddr_is_unicast(&a->addr) && !(inaddr_is_linklocal(&a->addr) && !inaddr_is_v4(&a->addr));
}

const struct nl_addr *nl_pick_addr(const struct nl_addrs *addrs, uint32_t ifindex)
{
	const struct nl_addr *best = NULL;
	unsigned i;

	for (i = 0; i < addrs->cnt; i++) {
		const struct nl_addr *a = &addrs->v[i];

		if (a->ifindex == ifindex && nl_addr_is_usable(a) && (!best || a->prefix_len > best->prefix_len))
			best = a;
	}
	return best;
}

const struct nl_addr *nl_pick_linklocal(const struct nl_addrs *addrs, uint32_t ifindex)
{
	unsigned i;

	for (i = 0; i < addrs->cnt; i++) {
		const struct nl_addr *a = &addrs->v[i];

		if (a->ifindex == ifindex && inaddr_is_linklocal(&a->addr) && !(a->flags & IFA_F_DADFAILED))
			return a;
	}
	return NULL;
}
