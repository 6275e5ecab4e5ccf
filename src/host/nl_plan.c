/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which routes of the template interface the guest gets, and in which order: a plan made from plain lists without a
 * system call. Every packet of the guest ends at us whatever its route says, so a multipath route keeps one hop, and what
 * belongs to the host's link alone (tunnel encapsulation, state of the hop, expiry) is left out. Refuses to copy routes
 * over other interfaces.
 */
#include "host/nl_data.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

bool nl_is_onlink(const struct nl_addr *v, unsigned cnt, const struct inaddr *gw)
{
	unsigned i;

	if (inaddr_is_linklocal(gw) && !inaddr_is_v4(gw))
		return true;
	for (i = 0; i < cnt; i++) {
		if (v[i].flags & IFA_F_NOPREFIXROUTE || inaddr_is_v4(&v[i].addr) != inaddr_is_v4(gw) ||
		    inaddr_eq(&v[i].addr, gw))
			continue;
		if (inaddr_in_prefix(gw, &v[i].peer, v[i].prefix_len))
			return true;
	}
	return false;
}

/* The kernel makes this route by itself when the address is added */
static bool route_is_made(const struct nl_plan *p, const struct nl_route *r)
{
	unsigned i;

	if (r->v6 && inaddr_is_linklocal(&r->dst))
		return true;
	if (r->protocol != RTPROT_KERNEL || r->gw_kind != NL_GW_NONE)
		return false;
	for (i = 0; i < p->addr_cnt; i++) {
		const struct nl_addr *a = &p->addr[i];

		if (!(a->flags & IFA_F_NOPREFIXROUTE) && inaddr_is_v4(&a->addr) != r->v6 && a->prefix_len == r->dst_len &&
		    inaddr_in_prefix(&r->dst, &a->peer, a->prefix_len))
			return true;
	}
	return false;
}

static bool has_addr(const struct nl_plan *p, const struct inaddr *addr)
{
	unsigned i;

	for (i = 0; i < p->addr_cnt; i++) {
		if (inaddr_eq(&p->addr[i].addr, addr))
			return true;
	}
	return false;
}

/* As seen from the guest's interface */
static struct nl_route route_move(const struct nl_plan *p, const struct nl_route *from)
{
	struct nl_route r = *from;

	r.ifindex = p->to_ifindex;
	r.hop_flags &= RTNH_F_ONLINK;
	r.weight = 1;
	if (r.has_prefsrc && !has_addr(p, &r.prefsrc))
		r.has_prefsrc = false;
	/* A path MTU that the interface has anyway is better left to it: it may be changed later */
	if (p->mtu && r.metric[RTAX_MTU] >= p->mtu) {
		r.metric[RTAX_MTU] = 0;
		r.metric[RTAX_LOCK] &= ~(1U << RTAX_MTU);
	}
	if (p->mtu && r.metric[RTAX_ADVMSS] >= p->mtu - BYTES_MIN(p->mtu, 40))
		r.metric[RTAX_ADVMSS] = 0;
	return r;
}

unsigned nl_plan_routes(const struct nl_plan *p, const struct nl_routes *routes, struct nl_route *ret)
{
	const struct nl_route *kept = NULL;	/* last one that was kept, in ROUTES */
	unsigned cnt = 0, pass, i;

	/* Two passes keep the host's order within each kind: on-link first, then what needs a gateway */
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < routes->cnt; i++) {
			const struct nl_route *r = &routes->v[i];

			if (r->ifindex != p->from_ifindex || r->type != RTN_UNICAST || (r->gw_kind != NL_GW_NONE) != pass ||
			    route_is_made(p, r))
				continue;
			if (kept && kept->set == r->set && (kept->gw_kind != NL_GW_NONE) == pass) {
				if (r->weight < kept->weight)
					continue;
				cnt--;
			}
			ret[cnt++] = route_move(p, r);
			kept = r;
		}
	}
	return cnt;
}

const char *nl_route_str(const struct nl_route *r, char *buf)
{
	char a[INADDR_STR_MAX], via[INADDR_STR_MAX + 8] = "", metric[24] = "";

	if (r->gw_kind != NL_GW_NONE)
		snprintf(via, sizeof(via), " via %s", inaddr_str(&r->gw, a));
	if (r->priority)
		snprintf(metric, sizeof(metric), " metric %u", r->priority);
	if (!r->dst_len)
		snprintf(buf, NL_ROUTE_STR_MAX, "default%s%s", via, metric);
	else
		snprintf(buf, NL_ROUTE_STR_MAX, "%s/%u%s%s", inaddr_str(&r->dst, a), r->dst_len, via, metric);
	return buf;
}
