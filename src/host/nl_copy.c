/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes of a guest's interface: the plan made from the template's routes, or a single default route. A route that the
 * kernel refuses is tried again after the others, then with its gateway declared on-link, then without gateway, which
 * works too, as we answer for every address on the guest link. Refuses to give up over a route: what is left is one
 * warning. Invariant: afterwards there is a default route, unless that alone was refused.
 */
#include "nl_priv.h"

#include <linux/if_addr.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX	8		/* of routes that wait for each other; two is the deepest that makes sense */
#define CODE_NEW	1		/* not tried yet: no errno, and no success */

enum how {
	HOW_PLAIN,
	HOW_ONLINK,			/* the gateway need not be in a subnet */
	HOW_DIRECT,			/* no gateway, and nothing that could be refused */
};

struct install {
	const struct nl_route *v;
	unsigned cnt;
	int *code;			/* by route: 0, negative errno of the latest try, CODE_NEW */
	enum how how;
	unsigned pick[NL_BATCH];	/* routes of the batch under way */
};

static void put_metrics(struct nlmsghdr *nlh, const struct nl_route *r)
{
	struct nlattr *nest = NULL;
	unsigned i;

	for (i = 1; i < NL_METRIC_CNT; i++) {
		if (!r->metric[i])
			continue;
		if (!nest)
			nest = mnl_attr_nest_start(nlh, RTA_METRICS);
		mnl_attr_put_u32(nlh, (uint16_t)i, r->metric[i]);
	}
	if (nest)
		mnl_attr_nest_end(nlh, nest);
}

static void put_gw(struct nlmsghdr *nlh, const struct nl_route *r)
{
	struct {
		uint16_t family;
		uint8_t addr[16];
	} via = { .family = AF_INET6 };

	switch (r->gw_kind) {
	case NL_GW_NONE:
		break;
	case NL_GW_SAME:
		nl_attr_put_addr(nlh, RTA_GATEWAY, &r->gw);
		break;
	case NL_GW_OTHER:
		memcpy(via.addr, r->gw.b, sizeof(via.addr));
		mnl_attr_put(nlh, RTA_VIA, sizeof(via), &via);
		break;
	}
}

static void route_build(const void *data, unsigned i, struct nlmsghdr *nlh)
{
	const struct install *in = data;
	const struct nl_route *r = &in->v[in->pick[i]];
	struct rtmsg *rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));

	nlh->nlmsg_type = RTM_NEWROUTE;
	nlh->nlmsg_flags |= NLM_F_CREATE | NLM_F_EXCL;
	rtm->rtm_family = r->v6 ? AF_INET6 : AF_INET;
	rtm->rtm_dst_len = r->dst_len;
	rtm->rtm_src_len = r->src_len;
	rtm->rtm_tos = r->tos;
	rtm->rtm_table = RT_TABLE_MAIN;
	rtm->rtm_protocol = r->protocol;
	rtm->rtm_scope = in->how == HOW_DIRECT && !r->v6 ? RT_SCOPE_LINK : r->scope;
	rtm->rtm_type = RTN_UNICAST;
	rtm->rtm_flags = in->how == HOW_DIRECT ? 0 : r->hop_flags & RTNH_F_ONLINK;
	if (r->dst_len)
		nl_attr_put_addr(nlh, RTA_DST, &r->dst);
	if (r->src_len)
		nl_attr_put_addr(nlh, RTA_SRC, &r->src);
	mnl_attr_put_u32(nlh, RTA_OIF, r->ifindex);
	if (r->priority)
		mnl_attr_put_u32(nlh, RTA_PRIORITY, r->priority);
	if (in->how == HOW_DIRECT)
		return;
	if (in->how == HOW_ONLINK && r->gw_kind != NL_GW_NONE)
		rtm->rtm_flags |= RTNH_F_ONLINK;
	if (r->has_prefsrc)
		nl_attr_put_addr(nlh, RTA_PREFSRC, &r->prefsrc);
	if (r->v6 && r->pref)
		mnl_attr_put_u8(nlh, RTA_PREF, r->pref);
	put_metrics(nlh, r);
	put_gw(nlh, r);
}

/* Try what is not installed yet; number of successes, or a negative errno that concerns all */
static int install_round(struct nl *nl, struct install *in, enum how how)
{
	int code[NL_BATCH], won = 0, rc;
	unsigned i = 0, n, k;

	in->how = how;
	while (i < in->cnt) {
		for (n = 0; i < in->cnt && n < NL_BATCH; i++) {
			if (in->code[i])
				in->pick[n++] = i;
		}
		rc = nl_talk_many(nl, n, route_build, in, code);
		if (rc)
			return rc;
		for (k = 0; k < n; k++) {
			in->code[in->pick[k]] = code[k] == -EEXIST ? 0 : code[k];
			won += !in->code[in->pick[k]];
		}
	}
	return won;
}

/* As many as possible; negative errno if the kernel could not be asked */
static int install_all(struct nl *nl, struct install *in)
{
	int won = 1, i;

	for (i = 0; i < ROUNDS_MAX && won > 0; i++)
		won = install_round(nl, in, HOW_PLAIN);
	if (won >= 0)
		won = install_round(nl, in, HOW_ONLINK);
	if (won >= 0)
		won = install_round(nl, in, HOW_DIRECT);
	return won < 0 ? won : 0;
}

/* One warning about all that is left; keeps the others in place, returns how many */
static unsigned install_report(const struct nl_ns *ns, struct nl_route *v, const int *code, unsigned cnt)
{
	const char *but = cnt > 1 ? "; the default route serves instead" : "";
	const struct nl_route *bad = NULL;
	char text[NL_ROUTE_STR_MAX];
	unsigned i, n = 0;
	int why = 0;

	for (i = 0; i < cnt; i++) {
		if (!code[i] && n == i) {
			n++;
		} else if (!code[i]) {
			v[n++] = v[i];
		} else if (!bad) {
			bad = &v[i];
			why = code[i] == CODE_NEW ? -EINTR : code[i];
			nl_route_str(bad, text);
		}
	}
	if (bad)
		nl_warns_add(ns->warns, "%u of %u %s routes can't be set on %s, for example %s: %s%s",
			     cnt - n, cnt, bad->v6 ? "IPv6" : "IPv4", ns->conf->ifname, text, strerror(-why), but);
	return n;
}

/* Install, in place; number of routes that are there now, moved to the front */
static unsigned routes_install(const struct nl_ns *ns, struct nl_route *v, unsigned cnt)
{
	struct install in = { .v = v, .cnt = cnt };
	unsigned i;
	int rc;

	in.code = malloc((cnt ? cnt : 1) * sizeof(*in.code));
	if (!in.code) {
		nl_warns_add(ns->warns, "Can't copy %u routes: %s", cnt, strerror(ENOMEM));
		return 0;
	}
	for (i = 0; i < cnt; i++)
		in.code[i] = CODE_NEW;
	rc = install_all(ns->nl, &in);
	if (rc)
		nl_warns_add(ns->warns, "Can't set routes: %s", strerror(-rc));
	cnt = install_report(ns, v, in.code, cnt);
	free(in.code);
	return cnt;
}

/* A default route of our own making */
static unsigned default_install(const struct nl_ns *ns, bool v6, const struct inaddr *gw, const struct nl_addrs *addrs)
{
	static const uint8_t zero[16];
	struct nl_route r = {
		.v6 = v6,
		.type = RTN_UNICAST,
		.protocol = RTPROT_BOOT,
		.scope = RT_SCOPE_UNIVERSE,
		.gw_kind = NL_GW_SAME,
		.gw = *gw,
		.ifindex = ns->done->link.ifindex,
		.hop_flags = nl_is_onlink(addrs->v, addrs->cnt, gw) ? 0 : RTNH_F_ONLINK,
		.dst = v6 ? inaddr_v6(zero) : inaddr_v4(zero),
	};

	return routes_install(ns, &r, 1);
}

void nl_copy_routes(const struct nl_ns *ns, const struct nl_ns_family *f, const struct nl_addrs *addrs, unsigned *ret_cnt)
{
	const struct nl_template *t = f->tmpl;
	struct nl_plan plan = {
		.from_ifindex = t->link.ifindex,
		.to_ifindex = ns->done->link.ifindex,
		.mtu = ns->done->link.mtu,
		.addr = addrs->v,
		.addr_cnt = addrs->cnt,
	};
	struct nl_route *v;
	unsigned cnt;

	if (f->has_gw) {
		*ret_cnt = default_install(ns, t->v6, &f->gw, addrs);
		return;
	}
	v = malloc((t->routes.cnt + 1) * sizeof(*v));
	cnt = v ? nl_plan_routes(&plan, &t->routes, v) : 0;
	cnt = routes_install(ns, v, cnt);
	if (t->routes.lost)
		nl_warns_add(ns->warns, "The host has more than %u %s routes: %u are left out; the default route serves instead",
			     NL_ROUTES_MAX, t->v6 ? "IPv6" : "IPv4", t->routes.lost);
	*ret_cnt = cnt;
	if (!nl_routes_cover(v, cnt))
		*ret_cnt += default_install(ns, t->v6, &t->gw, addrs);
	free(v);
}
