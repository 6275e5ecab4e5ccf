/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rtnetlink messages to plain structs: links, addresses, routes, nexthop objects. Makes no system call, and trusts no
 * length: every attribute is validated against what its type needs, one that does not fit spoils its message. Refuses to
 * choose: everything of the family and of the main table is kept, up to NL_ROUTES_MAX.
 * Invariant: a list only ever holds complete elements.
 */
#include "host/nl_data.h"

#include <errno.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/lwtunnel.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <libmnl/libmnl.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define ATTR_CNT	32		/* above each attribute that we look at */

struct attrs {
	const struct nlattr *at[ATTR_CNT];
};

_Static_assert(RTA_NH_ID < ATTR_CNT && IFA_RT_PRIORITY < ATTR_CNT && NHA_GROUP < ATTR_CNT && IFLA_MTU < ATTR_CNT,
	       "attribute table too short");
_Static_assert(RTAX_FASTOPEN_NO_COOKIE < NL_METRIC_CNT && NL_METRIC_CNT <= ATTR_CNT, "metrics do not fit");

int nl_list_grow(void *list_v, unsigned cnt, unsigned *room, size_t size)
{
	unsigned more = *room ? *room * 2 : 16;
	void *p, *old;

	if (cnt < *room)
		return 0;
	memcpy(&old, list_v, sizeof(old));	/* the pointer, whatever its type */
	p = realloc(old, more * size);
	if (!p)
		return -ENOMEM;
	memcpy(list_v, &p, sizeof(p));
	*room = more;
	return 0;
}

const struct nlmsghdr *nl_msg_next(const void *buf, size_t len, size_t *at)
{
	const struct nlmsghdr *nlh = (const void *)((const char *)buf + *at);
	size_t left = len - *at;

	if (left < sizeof(*nlh) || nlh->nlmsg_len < sizeof(*nlh) || nlh->nlmsg_len > left)
		return NULL;
	*at += BYTES_MIN((size_t)MNL_ALIGN(nlh->nlmsg_len), left);
	return nlh;
}

static int attr_keep(const struct nlattr *a, void *data)
{
	struct attrs *t = data;
	uint16_t type = mnl_attr_get_type(a);

	if (type < ATTR_CNT)
		t->at[type] = a;
	return MNL_CB_OK;
}

/* Fixed part of SIZE bytes, then attributes; NULL if the message is too short for the fixed part */
static const void *msg_split(const struct nlmsghdr *nlh, size_t size, struct attrs *ret)
{
	const size_t head = MNL_NLMSG_HDRLEN + MNL_ALIGN(size);

	memset(ret, 0, sizeof(*ret));
	if (nlh->nlmsg_len < MNL_NLMSG_HDRLEN + size)
		return NULL;
	/* Not mnl_attr_parse(): that rounds the length of the message up */
	if (nlh->nlmsg_len > head)
		mnl_attr_parse_payload((const char *)nlh + head, nlh->nlmsg_len - head, attr_keep, ret);
	return mnl_nlmsg_get_payload(nlh);
}

/* The getters leave RET alone where the attribute is missing; false if it has the wrong length */
static bool get_u32(const struct nlattr *a, uint32_t *ret)
{
	if (!a)
		return true;
	if (mnl_attr_validate(a, MNL_TYPE_U32) < 0)
		return false;
	*ret = mnl_attr_get_u32(a);
	return true;
}

static bool get_u8(const struct nlattr *a, uint8_t *ret)
{
	if (!a)
		return true;
	if (mnl_attr_validate(a, MNL_TYPE_U8) < 0)
		return false;
	*ret = mnl_attr_get_u8(a);
	return true;
}

static bool get_addr(const struct nlattr *a, bool v6, struct inaddr *ret)
{
	if (!a)
		return true;
	if (mnl_attr_validate2(a, MNL_TYPE_BINARY, v6 ? 16 : 4) < 0)
		return false;
	*ret = v6 ? inaddr_v6(mnl_attr_get_payload(a)) : inaddr_v4(mnl_attr_get_payload(a));
	return true;
}

static struct inaddr addr_any(bool v6)
{
	static const uint8_t zero[16];

	return v6 ? inaddr_v6(zero) : inaddr_v4(zero);
}

int nl_parse_link(const struct nlmsghdr *nlh, struct nl_links *ret)
{
	struct nl_link l = { .ifindex = 0 };
	const struct ifinfomsg *ifi;
	const struct nlattr *name;
	struct attrs t;

	if (nlh->nlmsg_type != RTM_NEWLINK)
		return 0;
	ifi = msg_split(nlh, sizeof(*ifi), &t);
	if (!ifi)
		return -EBADMSG;
	if (ifi->ifi_index <= 0)
		return 0;
	l.ifindex = (uint32_t)ifi->ifi_index;
	l.flags = ifi->ifi_flags;
	name = t.at[IFLA_IFNAME];
	if (!name || mnl_attr_validate(name, MNL_TYPE_NUL_STRING) < 0 || mnl_attr_get_payload_len(name) > NL_NAME_LEN ||
	    !get_u32(t.at[IFLA_MTU], &l.mtu))
		return -EBADMSG;
	memcpy(l.name, mnl_attr_get_payload(name), mnl_attr_get_payload_len(name));
	/* Tunnels have addresses of other lengths, or none: no MAC then */
	if (t.at[IFLA_ADDRESS] && mnl_attr_get_payload_len(t.at[IFLA_ADDRESS]) == sizeof(l.mac)) {
		memcpy(&l.mac, mnl_attr_get_payload(t.at[IFLA_ADDRESS]), sizeof(l.mac));
		l.has_mac = true;
	}
	if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(l)))
		return -ENOMEM;
	ret->v[ret->cnt++] = l;
	return 0;
}

int nl_parse_addr(const struct nlmsghdr *nlh, bool v6, struct nl_addrs *ret)
{
	struct nl_addr a = { .ifindex = 0 };
	const struct ifaddrmsg *ifa;
	struct attrs t;

	if (nlh->nlmsg_type != RTM_NEWADDR)
		return 0;
	ifa = msg_split(nlh, sizeof(*ifa), &t);
	if (!ifa)
		return -EBADMSG;
	if (ifa->ifa_family != (v6 ? AF_INET6 : AF_INET) || (!t.at[IFA_LOCAL] && !t.at[IFA_ADDRESS]))
		return 0;
	a.ifindex = ifa->ifa_index;
	a.flags = ifa->ifa_flags;
	a.prefix_len = ifa->ifa_prefixlen;
	a.scope = ifa->ifa_scope;
	a.has_bcast = t.at[IFA_BROADCAST];
	/* IFA_ADDRESS is the far end where there is one; IFA_LOCAL, where present, is ours (linux/if_addr.h) */
	if (!get_addr(t.at[IFA_ADDRESS], v6, &a.peer) || !get_addr(t.at[IFA_LOCAL], v6, &a.addr) ||
	    !get_addr(t.at[IFA_BROADCAST], v6, &a.bcast) || !get_u32(t.at[IFA_FLAGS], &a.flags) ||
	    !get_u32(t.at[IFA_RT_PRIORITY], &a.metric) || a.prefix_len > (v6 ? 128 : 32))
		return -EBADMSG;
	if (!t.at[IFA_LOCAL])
		a.addr = a.peer;
	if (!t.at[IFA_ADDRESS])
		a.peer = a.addr;
	if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(a)))
		return -ENOMEM;
	ret->v[ret->cnt++] = a;
	return 0;
}

static bool get_metrics(const struct nlattr *nest, uint32_t *ret)
{
	struct attrs t = { { NULL } };
	unsigned i;

	if (!nest)
		return true;
	if (mnl_attr_validate(nest, MNL_TYPE_NESTED) < 0)
		return false;
	mnl_attr_parse_nested(nest, attr_keep, &t);
	for (i = 1; i < NL_METRIC_CNT; i++) {
		/* The name of a congestion control algorithm: the guest's own business */
		if (i != RTAX_CC_ALGO && !get_u32(t.at[i], &ret[i]))
			return false;
	}
	return true;
}

/* RTA_GATEWAY or RTA_VIA of a route or of one of its hops */
static bool get_gw(const struct attrs *t, struct nl_route *r)
{
	const struct nlattr *via = t->at[RTA_VIA];
	struct rtvia head;
	bool v6;

	if (t->at[RTA_GATEWAY]) {
		r->gw_kind = NL_GW_SAME;
		return get_addr(t->at[RTA_GATEWAY], r->v6, &r->gw);
	}
	r->gw_kind = NL_GW_NONE;
	if (!via)
		return true;
	if (mnl_attr_get_payload_len(via) < sizeof(head))
		return false;
	memcpy(&head, mnl_attr_get_payload(via), sizeof(head));
	v6 = head.rtvia_family == AF_INET6;
	if (!v6 && head.rtvia_family != AF_INET)
		return false;
	if (mnl_attr_get_payload_len(via) != sizeof(head) + (v6 ? 16u : 4u))
		return false;
	via = mnl_attr_get_payload(via);
	r->gw = v6 ? inaddr_v6((const char *)via + sizeof(head)) : inaddr_v4((const char *)via + sizeof(head));
	r->gw_kind = v6 == r->v6 ? NL_GW_SAME : NL_GW_OTHER;
	return true;
}

/* RTA_MULTIPATH to one element for each hop, HOP (room for NL_HOPS_MAX); number, or -EBADMSG */
static int get_hops(const struct nlattr *multi, const struct nl_route *common, struct nl_route *hop)
{
	const char *p = mnl_attr_get_payload(multi);
	size_t left = mnl_attr_get_payload_len(multi);
	int cnt = 0;

	while (left >= sizeof(struct rtnexthop) && cnt < NL_HOPS_MAX) {
		struct rtnexthop h;
		struct attrs t = { { NULL } };

		memcpy(&h, p, sizeof(h));
		if (h.rtnh_len < sizeof(h) || h.rtnh_len > left)
			return -EBADMSG;
		mnl_attr_parse_payload(p + sizeof(h), h.rtnh_len - sizeof(h), attr_keep, &t);
		hop[cnt] = *common;
		hop[cnt].ifindex = (uint32_t)h.rtnh_ifindex;
		hop[cnt].hop_flags = h.rtnh_flags;
		hop[cnt].weight = h.rtnh_hops + 1u;
		if (!get_gw(&t, &hop[cnt]))
			return -EBADMSG;
		cnt++;
		if (MNL_ALIGN((size_t)h.rtnh_len) >= left)
			break;
		p += MNL_ALIGN(h.rtnh_len);
		left -= MNL_ALIGN((size_t)h.rtnh_len);
	}
	return cnt;
}

/* All but the hops; false: malformed */
static bool get_route(const struct rtmsg *rtm, const struct attrs *t, struct nl_route *r)
{
	r->dst = r->src = addr_any(r->v6);
	r->dst_len = rtm->rtm_dst_len;
	r->src_len = rtm->rtm_src_len;
	r->tos = rtm->rtm_tos;
	r->scope = rtm->rtm_scope;
	r->type = rtm->rtm_type;
	r->protocol = rtm->rtm_protocol;
	r->hop_flags = rtm->rtm_flags;
	r->weight = 1;
	r->has_prefsrc = t->at[RTA_PREFSRC];
	return rtm->rtm_dst_len <= (r->v6 ? 128 : 32) && rtm->rtm_src_len <= (r->v6 ? 128 : 32) &&
	       get_addr(t->at[RTA_DST], r->v6, &r->dst) && get_addr(t->at[RTA_SRC], r->v6, &r->src) &&
	       get_addr(t->at[RTA_PREFSRC], r->v6, &r->prefsrc) && get_u32(t->at[RTA_OIF], &r->ifindex) &&
	       get_u32(t->at[RTA_PRIORITY], &r->priority) && get_u32(t->at[RTA_NH_ID], &r->nh_id) &&
	       get_u8(t->at[RTA_PREF], &r->pref) && get_metrics(t->at[RTA_METRICS], r->metric) && get_gw(t, r);
}

int nl_parse_route(const struct nlmsghdr *nlh, bool v6, struct nl_routes *ret)
{
	struct nl_route r = { .v6 = v6 }, hop[NL_HOPS_MAX];
	const struct rtmsg *rtm;
	uint32_t table;
	struct attrs t;
	int cnt = 1, i;

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return 0;
	rtm = msg_split(nlh, sizeof(*rtm), &t);
	if (!rtm)
		return -EBADMSG;
	table = rtm->rtm_table;
	if (!get_u32(t.at[RTA_TABLE], &table))
		return -EBADMSG;
	if (rtm->rtm_family != (v6 ? AF_INET6 : AF_INET) || table != RT_TABLE_MAIN || rtm->rtm_type != RTN_UNICAST ||
	    rtm->rtm_flags & RTM_F_CLONED)
		return 0;
	if (!get_route(rtm, &t, &r))
		return -EBADMSG;
	r.set = ret->cnt ? ret->v[ret->cnt - 1].set + 1 : 0;
	hop[0] = r;
	if (t.at[RTA_MULTIPATH]) {
		/* The kernel has spelled out the object already (nexthop_compat_mode, Linux 5.8) */
		r.nh_id = 0;
		cnt = get_hops(t.at[RTA_MULTIPATH], &r, hop);
	} else if (r.ifindex) {
		hop[0].nh_id = 0;
	}
	if (cnt < 0)
		return cnt;
	for (i = 0; i < cnt; i++) {
		if (ret->cnt >= NL_ROUTES_MAX) {
			ret->lost++;
			return 0;
		}
		if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(r)))
			return -ENOMEM;
		ret->v[ret->cnt++] = hop[i];
	}
	return 0;
}

static bool get_members(const struct nlattr *group, struct nl_nexthop *n)
{
	size_t len = mnl_attr_get_payload_len(group), at;
	struct nexthop_grp g;

	if (len % sizeof(g))
		return false;
	for (at = 0; at < len && n->member_cnt < NL_HOPS_MAX; at += sizeof(g)) {
		memcpy(&g, (const char *)mnl_attr_get_payload(group) + at, sizeof(g));
		/* The byte after the weight became its high half in Linux 6.12, and was zero before */
		n->member[n->member_cnt].id = g.id;
		n->member[n->member_cnt++].weight = g.weight + 1u + 256u * ((const uint8_t *)&g)[5];
	}
	return true;
}

int nl_parse_nexthop(const struct nlmsghdr *nlh, struct nl_nexthops *ret)
{
	struct nl_nexthop n = { .id = 0 };
	const struct nhmsg *nhm;
	struct attrs t;

	if (nlh->nlmsg_type != RTM_NEWNEXTHOP)
		return 0;
	nhm = msg_split(nlh, sizeof(*nhm), &t);
	if (!nhm)
		return -EBADMSG;
	n.hop_flags = nhm->nh_flags;
	n.has_gw = t.at[NHA_GATEWAY];
	if (!get_u32(t.at[NHA_ID], &n.id) || !get_u32(t.at[NHA_OIF], &n.ifindex) ||
	    !get_addr(t.at[NHA_GATEWAY], nhm->nh_family == AF_INET6, &n.gw) ||
	    (t.at[NHA_GROUP] && !get_members(t.at[NHA_GROUP], &n)))
		return -EBADMSG;
	if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(n)))
		return -ENOMEM;
	ret->v[ret->cnt++] = n;
	return 0;
}

bool nl_routes_unresolved(const struct nl_routes *routes)
{
	unsigned i;

	for (i = 0; i < routes->cnt; i++) {
		if (routes->v[i].nh_id)
			return true;
	}
	return false;
}

static const struct nl_nexthop *nexthop_find(const struct nl_nexthops *n, uint32_t id)
{
	unsigned i;

	for (i = 0; i < n->cnt; i++) {
		if (n->v[i].id == id)
			return &n->v[i];
	}
	return NULL;
}

static void hop_fill(struct nl_route *r, const struct nl_nexthop *n)
{
	r->ifindex = n->ifindex;
	r->hop_flags = n->hop_flags;
	r->gw = n->gw;
	r->gw_kind = !n->has_gw ? NL_GW_NONE : inaddr_is_v4(&n->gw) == r->v6 ? NL_GW_OTHER : NL_GW_SAME;
}

/* Append the hops of R, whose object is N; a group has no groups in it (Linux 5.3) */
static int hops_add(struct nl_routes *to, struct nl_route r, const struct nl_nexthop *n, const struct nl_nexthops *all)
{
	unsigned i, cnt = n && n->member_cnt ? n->member_cnt : 1;

	r.nh_id = 0;
	for (i = 0; i < cnt; i++) {
		const struct nl_nexthop *m = n && n->member_cnt ? nexthop_find(all, n->member[i].id) : n;

		r.ifindex = 0;
		if (m)
			hop_fill(&r, m);
		if (n && n->member_cnt)
			r.weight = n->member[i].weight;
		if (to->cnt >= NL_ROUTES_MAX) {
			to->lost++;
			return 0;
		}
		if (nl_list_grow(&to->v, to->cnt, &to->room, sizeof(r)))
			return -ENOMEM;
		to->v[to->cnt++] = r;
	}
	return 0;
}

int nl_routes_resolve(struct nl_routes *routes, const struct nl_nexthops *nexthops)
{
	struct nl_routes to = { .lost = routes->lost };
	unsigned i;

	for (i = 0; i < routes->cnt; i++) {
		const struct nl_route *r = &routes->v[i];
		int rc;

		if (r->nh_id) {
			rc = hops_add(&to, *r, nexthop_find(nexthops, r->nh_id), nexthops);
		} else {
			rc = nl_list_grow(&to.v, to.cnt, &to.room, sizeof(*r));
			if (!rc)
				to.v[to.cnt++] = *r;
		}
		if (rc) {
			free(to.v);
			return rc;
		}
	}
	free(routes->v);
	*routes = to;
	return 0;
}
