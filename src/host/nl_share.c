/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses of a namespace that its own packets shall leave for, all the same:
 * they get a table of routes through the interface, asked before the table of
 * local addresses, for what the namespace sends itself. What comes in, by any
 * interface, and what a loopback address sends is looked up as ever. The rules
 * stay when the interface goes; their table is then empty, and all is as
 * before. ip-rule(8), rtnetlink(7).
 *
 * Invariant: at no time is the local table not looked up at all.
 */
#include "nl_priv.h"

#include <linux/fib_rules.h>
#include <string.h>

#define SHARE_TABLE	0x67656d	/* any number that nobody else uses */
#define SHARE_PRIO	10u		/* of the first rule; the kernel's first one has 0 and is moved behind ours */

struct rule {
	uint32_t table;
	bool own_packets;		/* only for those */
	bool from_loopback;
};

/* Header of a rule message of family V6 for TABLE at PRIO */
static struct nlmsghdr *rule_start(struct nl *nl, bool v6, bool del, uint32_t prio, const struct rule *r)
{
	static const uint8_t lo4[4] = { 127 }, lo6[16] = { [15] = 1 };
	struct inaddr lo = v6 ? inaddr_v6(lo6) : inaddr_v4(lo4);
	struct fib_rule_hdr *frh;
	struct nlmsghdr *nlh;

	nlh = nl_req_start(nl, del ? RTM_DELRULE : RTM_NEWRULE, del ? 0 : NLM_F_CREATE | NLM_F_EXCL, sizeof(*frh), &frh);
	frh->family = v6 ? AF_INET6 : AF_INET;
	frh->action = FR_ACT_TO_TBL;
	frh->table = r->table < 256 ? (uint8_t)r->table : RT_TABLE_UNSPEC;
	mnl_attr_put_u32(nlh, FRA_PRIORITY, prio);
	mnl_attr_put_u32(nlh, FRA_TABLE, r->table);
	if (r->own_packets)
		mnl_attr_put_strz(nlh, FRA_IIFNAME, "lo");
	if (r->from_loopback) {
		frh->src_len = v6 ? 128 : 8;
		nl_attr_put_addr(nlh, FRA_SRC, &lo);
	}
	return nlh;
}

static int rules_set(struct nl *nl, const struct nl_share *s)
{
	const struct rule rule[] = {
		{ .table = RT_TABLE_LOCAL, .from_loopback = true },
		{ .table = SHARE_TABLE, .own_packets = true },
		{ .table = RT_TABLE_LOCAL },
	};
	const unsigned cnt = sizeof(rule) / sizeof(rule[0]);
	int rc = 0;

	for (unsigned i = 0; i < cnt && !rc; i++) {
		rc = nl_talk(nl, rule_start(nl, s->v6, false, SHARE_PRIO + i, &rule[i]));
		if (rc == -EEXIST)
			rc = 0;
	}
	if (!rc)
		rc = nl_talk(nl, rule_start(nl, s->v6, true, 0, &rule[cnt - 1]));
	return rc == -ENOENT ? 0 : rc;
}

static int route_set(struct nl *nl, const struct nl_share *s, const struct inaddr *addr)
{
	struct rtmsg *rtm;
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*rtm), &rtm);

	rtm->rtm_family = s->v6 ? AF_INET6 : AF_INET;
	rtm->rtm_dst_len = s->v6 ? 128 : 32;
	rtm->rtm_table = RT_TABLE_UNSPEC;
	rtm->rtm_protocol = RTPROT_STATIC;
	rtm->rtm_type = RTN_UNICAST;
	rtm->rtm_flags = RTNH_F_ONLINK;
	mnl_attr_put_u32(nlh, RTA_TABLE, SHARE_TABLE);
	nl_attr_put_addr(nlh, RTA_DST, addr);
	nl_attr_put_addr(nlh, RTA_GATEWAY, &s->gw);
	mnl_attr_put_u32(nlh, RTA_OIF, s->ifindex);
	if (!s->v6)			/* as the local table would choose it; IPv6 does so by itself (RFC 6724 5, rule 1) */
		nl_attr_put_addr(nlh, RTA_PREFSRC, addr);
	return nl_talk(nl, nlh);
}

int nl_ns_share(struct nl *nl, const struct nl_share *s, struct err *e)
{
	char text[INADDR_STR_MAX];
	int rc = 0;

	for (unsigned i = 0; i < s->cnt; i++) {
		rc = route_set(nl, s, &s->addr[i]);
		if (rc)
			return err_set(e, rc, "Can't route %s out of the namespace (--host-own-addr): %s",
				       inaddr_str(&s->addr[i], text), strerror(-rc));
	}
	if (s->cnt)
		rc = rules_set(nl, s);
	return rc ? err_set(e, rc, "Can't set %s routing rules in the namespace, which --host-own-addr needs: %s%s",
			    s->v6 ? "IPv6" : "IPv4", strerror(-rc),
			    nl_family_missing(rc) ? "; this kernel has no policy routing" : "") : 0;
}
