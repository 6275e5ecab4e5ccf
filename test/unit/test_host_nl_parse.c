/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rtnetlink messages to structs: what is kept, what is passed over, and that no length is believed.
 */
#include "host/nl_data.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include "host/nl.h"
#include "split.h"

#define MSG_LEN	1024

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	if (inaddr_parse(text, &a))
		fail_msg("%s is no address", text);
	return a;
}

static void put_addr(struct nlmsghdr *nlh, uint16_t type, const char *text)
{
	struct inaddr a = addr(text);

	if (inaddr_is_v4(&a))
		mnl_attr_put(nlh, type, 4, a.b + 12);
	else
		mnl_attr_put(nlh, type, 16, a.b);
}

static struct nlmsghdr *msg(char *buf, uint16_t type, const void *fixed, size_t size)
{
	struct nlmsghdr *nlh;

	memset(buf, 0, MSG_LEN);
	nlh = mnl_nlmsg_put_header(buf);
	nlh->nlmsg_type = type;
	memcpy(mnl_nlmsg_put_extra_header(nlh, size), fixed, size);
	return nlh;
}

static struct nlmsghdr *msg_route(char *buf, int family, uint8_t dst_len)
{
	struct rtmsg rtm = { .rtm_family = (uint8_t)family, .rtm_dst_len = dst_len, .rtm_table = RT_TABLE_MAIN,
			     .rtm_type = RTN_UNICAST, .rtm_scope = RT_SCOPE_UNIVERSE, .rtm_protocol = RTPROT_STATIC };

	return msg(buf, RTM_NEWROUTE, &rtm, sizeof(rtm));
}

static void link_message(void **state)
{
	struct ifinfomsg ifi = { .ifi_index = 5, .ifi_flags = IFF_UP };
	static const uint8_t mac[6] = { 2, 0, 0, 0, 0, 1 }, v4[4] = { 1, 2, 3, 4 };
	struct nl_links l = { .v = NULL };
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];

	(void)state;
	nlh = msg(buf, RTM_NEWLINK, &ifi, sizeof(ifi));
	assert_int_equal(nl_parse_link(nlh, &l), -EBADMSG);	/* no name */
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "fifteen-letters");
	mnl_attr_put_u32(nlh, IFLA_MTU, 1500);
	mnl_attr_put(nlh, IFLA_ADDRESS, sizeof(mac), mac);
	assert_int_equal(nl_parse_link(nlh, &l), 0);
	assert_int_equal(l.cnt, 1);
	assert_string_equal(l.v[0].name, "fifteen-letters");
	assert_true(l.v[0].ifindex == 5 && l.v[0].mtu == 1500 && l.v[0].flags == IFF_UP && l.v[0].has_mac);
	assert_memory_equal(l.v[0].mac.b, mac, 6);

	nlh = msg(buf, RTM_NEWLINK, &ifi, sizeof(ifi));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "sixteen-letters!");
	assert_int_equal(nl_parse_link(nlh, &l), -EBADMSG);
	nlh = msg(buf, RTM_NEWLINK, &ifi, sizeof(ifi));
	mnl_attr_put(nlh, IFLA_IFNAME, 3, "abc");		/* no final NUL */
	assert_int_equal(nl_parse_link(nlh, &l), -EBADMSG);
	nlh = msg(buf, RTM_NEWLINK, &ifi, sizeof(ifi));
	mnl_attr_put_strz(nlh, IFLA_IFNAME, "tun0");
	mnl_attr_put(nlh, IFLA_ADDRESS, 4, v4);			/* as an IP tunnel has */
	assert_int_equal(nl_parse_link(nlh, &l), 0);
	assert_false(l.v[1].has_mac);
	nlh->nlmsg_type = RTM_DELLINK;
	assert_int_equal(nl_parse_link(nlh, &l), 0);
	assert_int_equal(l.cnt, 2);
	nl_list_free(&l);
	assert_null(l.v);
}

static void addr_message(void **state)
{
	struct ifaddrmsg ifa = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 3, .ifa_flags = 1 };
	struct nl_addrs l = { .v = NULL };
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];

	(void)state;
	nlh = msg(buf, RTM_NEWADDR, &ifa, sizeof(ifa));
	put_addr(nlh, IFA_LOCAL, "10.8.0.6");
	put_addr(nlh, IFA_ADDRESS, "10.8.0.5");
	mnl_attr_put_u32(nlh, IFA_FLAGS, IFA_F_NOPREFIXROUTE);
	assert_int_equal(nl_parse_addr(nlh, true, &l), 0);	/* another family */
	assert_int_equal(l.cnt, 0);
	assert_int_equal(nl_parse_addr(nlh, false, &l), 0);
	assert_int_equal(l.cnt, 1);
	assert_true(inaddr_eq(&l.v[0].addr, &(struct inaddr){ { [10] = 0xff, 0xff, 10, 8, 0, 6 } }));
	assert_true(inaddr_eq(&l.v[0].peer, &(struct inaddr){ { [10] = 0xff, 0xff, 10, 8, 0, 5 } }));
	assert_int_equal(l.v[0].flags, IFA_F_NOPREFIXROUTE);	/* the wide flags replace the narrow ones */

	ifa.ifa_prefixlen = 33;
	nlh = msg(buf, RTM_NEWADDR, &ifa, sizeof(ifa));
	put_addr(nlh, IFA_LOCAL, "10.8.0.6");
	assert_int_equal(nl_parse_addr(nlh, false, &l), -EBADMSG);
	ifa.ifa_prefixlen = 32;
	nlh = msg(buf, RTM_NEWADDR, &ifa, sizeof(ifa));
	put_addr(nlh, IFA_LOCAL, "2001:db8::1");
	assert_int_equal(nl_parse_addr(nlh, false, &l), -EBADMSG);
	ifa.ifa_family = AF_INET6;
	ifa.ifa_prefixlen = 128;
	nlh = msg(buf, RTM_NEWADDR, &ifa, sizeof(ifa));
	put_addr(nlh, IFA_ADDRESS, "2001:db8::1");		/* IPv6 without far end: no IFA_LOCAL */
	assert_int_equal(nl_parse_addr(nlh, true, &l), 0);
	assert_int_equal(l.cnt, 2);
	assert_true(inaddr_eq(&l.v[1].addr, &l.v[1].peer));
	nl_list_free(&l);
}

static void route_message(void **state)
{
	struct nl_routes l = { .v = NULL };
	struct nlmsghdr *nlh;
	struct rtmsg *rtm;
	struct nlattr *nest;
	char buf[MSG_LEN];
	uint8_t family;

	(void)state;
	for (family = AF_INET6;; family = AF_INET) {
		const bool v6 = family == AF_INET6;
		struct inaddr gw = addr(v6 ? "fe80::1" : "192.0.2.1");

		l.cnt = 0;
		nlh = msg_route(buf, family, v6 ? 32 : 8);
		rtm = mnl_nlmsg_get_payload(nlh);
		put_addr(nlh, RTA_DST, v6 ? "2001:db8::" : "10.0.0.0");
		put_addr(nlh, RTA_GATEWAY, v6 ? "fe80::1" : "192.0.2.1");
		mnl_attr_put_u32(nlh, RTA_OIF, 4);
		mnl_attr_put_u32(nlh, RTA_PRIORITY, 77);
		nest = mnl_attr_nest_start(nlh, RTA_METRICS);
		mnl_attr_put_u32(nlh, RTAX_MTU, 1400);
		mnl_attr_put_strz(nlh, RTAX_CC_ALGO, "bbr");
		mnl_attr_nest_end(nlh, nest);
		assert_int_equal(nl_parse_route(nlh, v6, &l), 0);
		assert_int_equal(nl_parse_route(nlh, !v6, &l), 0);
		assert_int_equal(l.cnt, 1);
		assert_true(l.v[0].gw_kind == NL_GW_SAME && inaddr_eq(&l.v[0].gw, &gw));
		assert_true(l.v[0].ifindex == 4 && l.v[0].priority == 77 && l.v[0].metric[RTAX_MTU] == 1400);
		assert_int_equal(l.v[0].metric[RTAX_CC_ALGO], 0);
		rtm->rtm_dst_len = v6 ? 129 : 33;
		assert_int_equal(nl_parse_route(nlh, v6, &l), -EBADMSG);
		rtm->rtm_dst_len = 8;
		rtm->rtm_type = RTN_BLACKHOLE;
		assert_int_equal(nl_parse_route(nlh, v6, &l), 0);
		rtm->rtm_type = RTN_UNICAST;
		rtm->rtm_flags = RTM_F_CLONED;
		assert_int_equal(nl_parse_route(nlh, v6, &l), 0);
		rtm->rtm_flags = 0;
		rtm->rtm_table = RT_TABLE_LOCAL;
		assert_int_equal(nl_parse_route(nlh, v6, &l), 0);
		mnl_attr_put_u32(nlh, RTA_TABLE, RT_TABLE_MAIN);
		assert_int_equal(l.cnt, 1);
		assert_int_equal(nl_parse_route(nlh, v6, &l), 0);
		assert_int_equal(l.cnt, 2);
		assert_int_equal(l.v[1].set, l.v[0].set + 1);
		if (!v6)
			break;
	}
	nl_list_free(&l);
}

static void put_hop(struct nlmsghdr *nlh, uint8_t hops, int ifindex, const char *gw)
{
	struct rtnexthop *h = mnl_nlmsg_get_payload_tail(nlh);

	memset(h, 0, sizeof(*h));
	h->rtnh_hops = hops;
	h->rtnh_ifindex = ifindex;
	nlh->nlmsg_len += sizeof(*h);
	put_addr(nlh, RTA_GATEWAY, gw);
	h->rtnh_len = (uint16_t)((char *)mnl_nlmsg_get_payload_tail(nlh) - (char *)h);
}

static void multipath_message(void **state)
{
	struct nl_routes l = { .v = NULL };
	struct nlattr *nest;
	struct rtnexthop *h;
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];

	(void)state;
	nlh = msg_route(buf, AF_INET, 0);
	mnl_attr_put_u32(nlh, RTA_NH_ID, 5);	/* spelled out: not looked up again */
	nest = mnl_attr_nest_start(nlh, RTA_MULTIPATH);
	h = mnl_attr_get_payload(nest);
	put_hop(nlh, 1, 3, "192.0.2.1");
	put_hop(nlh, 4, 4, "192.0.2.2");
	mnl_attr_nest_end(nlh, nest);
	assert_int_equal(nl_parse_route(nlh, false, &l), 0);
	assert_int_equal(l.cnt, 2);
	assert_false(nl_routes_unresolved(&l));
	assert_true(l.v[0].set == l.v[1].set && l.v[0].weight == 2 && l.v[1].weight == 5);
	assert_true(l.v[0].ifindex == 3 && l.v[1].ifindex == 4 && l.v[1].gw.b[15] == 2);
	h->rtnh_len = 7;
	assert_int_equal(nl_parse_route(nlh, false, &l), -EBADMSG);
	h->rtnh_len = 999;
	assert_int_equal(nl_parse_route(nlh, false, &l), -EBADMSG);
	assert_int_equal(l.cnt, 2);
	nl_list_free(&l);
}

static void via_message(void **state)
{
	static const uint8_t via[18] = { AF_INET6, 0, 0xfe, 0x80, [17] = 1 };
	struct inaddr gw = addr("fe80::1");
	struct nl_routes l = { .v = NULL };
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];
	size_t len;

	(void)state;
	for (len = 0; len <= sizeof(via); len++) {
		nlh = msg_route(buf, AF_INET, 0);
		mnl_attr_put_u32(nlh, RTA_OIF, 4);
		mnl_attr_put(nlh, RTA_VIA, len, via);
		assert_int_equal(nl_parse_route(nlh, false, &l), len == sizeof(via) ? 0 : -EBADMSG);
	}
	assert_int_equal(l.cnt, 1);
	assert_true(l.v[0].gw_kind == NL_GW_OTHER && inaddr_eq(&l.v[0].gw, &gw));
	nl_list_free(&l);
}

static void nexthop_messages(void **state)
{
	struct nhmsg nhm = { .nh_family = AF_INET, .nh_flags = RTNH_F_ONLINK };
	static const struct nexthop_grp group[] = { { .id = 1, .weight = 6 }, { .id = 9, .weight = 7 }, { .id = 2, .weight = 2 } };
	struct nl_nexthops hops = { .v = NULL };
	struct nl_routes l = { .v = NULL };
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];
	uint32_t id;

	(void)state;
	for (id = 1; id <= 2; id++) {
		nlh = msg(buf, RTM_NEWNEXTHOP, &nhm, sizeof(nhm));
		mnl_attr_put_u32(nlh, NHA_ID, id);
		mnl_attr_put_u32(nlh, NHA_OIF, 40 + id);
		put_addr(nlh, NHA_GATEWAY, id == 1 ? "192.0.2.1" : "192.0.2.2");
		assert_int_equal(nl_parse_nexthop(nlh, &hops), 0);
	}
	nlh = msg(buf, RTM_NEWNEXTHOP, &nhm, sizeof(nhm));
	mnl_attr_put_u32(nlh, NHA_ID, 3);
	mnl_attr_put(nlh, NHA_GROUP, sizeof(group), group);
	assert_int_equal(nl_parse_nexthop(nlh, &hops), 0);
	nlh = msg(buf, RTM_NEWNEXTHOP, &nhm, sizeof(nhm));
	mnl_attr_put(nlh, NHA_GROUP, sizeof(group) - 1, group);
	assert_int_equal(nl_parse_nexthop(nlh, &hops), -EBADMSG);
	assert_int_equal(hops.cnt, 3);
	for (id = 1; id <= 4; id++) {
		nlh = msg_route(buf, AF_INET, 0);
		if (id != 2)
			mnl_attr_put_u32(nlh, RTA_NH_ID, id);
		else
			mnl_attr_put_u32(nlh, RTA_OIF, 7);
		assert_int_equal(nl_parse_route(nlh, false, &l), 0);
	}
	assert_true(nl_routes_unresolved(&l));
	assert_int_equal(nl_routes_resolve(&l, &hops), 0);
	assert_false(nl_routes_unresolved(&l));
	assert_int_equal(l.cnt, 6);	/* one, an ordinary route, the three of the group, one unknown */
	assert_true(l.v[0].ifindex == 41 && l.v[0].gw_kind == NL_GW_SAME && l.v[0].hop_flags == RTNH_F_ONLINK);
	assert_true(l.v[1].ifindex == 7 && l.v[1].gw_kind == NL_GW_NONE);
	assert_true(l.v[2].ifindex == 41 && l.v[2].weight == 7 && l.v[3].ifindex == 0 && l.v[4].ifindex == 42);
	assert_true(l.v[4].weight == 3 && l.v[2].set == l.v[4].set && l.v[5].ifindex == 0);
	nl_list_free(&l);
	nl_list_free(&hops);
}

/* Each shorter form of a full message, in memory of just that size */
static void truncated(void **state)
{
	struct nl_routes l = { .v = NULL };
	struct nlattr *nest;
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];
	uint32_t len;

	(void)state;
	nlh = msg_route(buf, AF_INET, 8);
	put_addr(nlh, RTA_DST, "10.0.0.0");
	nest = mnl_attr_nest_start(nlh, RTA_MULTIPATH);
	put_hop(nlh, 1, 3, "192.0.2.1");
	put_hop(nlh, 4, 4, "192.0.2.2");
	mnl_attr_nest_end(nlh, nest);
	for (len = sizeof(*nlh); len <= nlh->nlmsg_len; len++) {
		struct nlmsghdr *part = malloc(len);
		size_t at = 0;
		int rc;

		assert_non_null(part);
		memcpy(part, nlh, len);
		part->nlmsg_len = len;
		assert_ptr_equal(nl_msg_next(part, len, &at), part);
		assert_int_equal(at, len);
		rc = nl_parse_route(part, false, &l);
		assert_true(rc == 0 || rc == -EBADMSG);
		assert_int_equal(rc, len < sizeof(*nlh) + sizeof(struct rtmsg) ? -EBADMSG : 0);
		part->nlmsg_len = len + 1;
		at = 0;
		assert_null(nl_msg_next(part, len, &at));
		part->nlmsg_len = 0xfffffffe;
		assert_null(nl_msg_next(part, len, &at));
		part->nlmsg_len = sizeof(*nlh) - 1;
		assert_null(nl_msg_next(part, len, &at));
		free(part);
	}
	nl_list_free(&l);
}

static void bounds(void **state)
{
	struct nl_routes l = { .v = NULL };
	struct nl_warns w = { .cnt = 0 };
	struct nlmsghdr *nlh;
	char buf[MSG_LEN];
	unsigned i;

	(void)state;
	nlh = msg_route(buf, AF_INET, 0);
	for (i = 0; i < NL_ROUTES_MAX + 5; i++)
		assert_int_equal(nl_parse_route(nlh, false, &l), 0);
	assert_int_equal(l.cnt, NL_ROUTES_MAX);
	assert_int_equal(l.lost, 5);
	nl_list_free(&l);
	for (i = 0; i < NL_WARN_LINES + 3; i++)
		nl_warns_add(&w, "%u %0500d", i, 0);
	assert_int_equal(nl_warns_kept(&w), NL_WARN_LINES);
	assert_int_equal(nl_warns_more(&w), 3);
	assert_memory_equal(w.line[NL_WARN_LINES - 1], "7 000", 5);
	assert_int_equal(strlen(w.line[0]), sizeof(w.line[0]) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_message),
		cmocka_unit_test(addr_message),
		cmocka_unit_test(route_message),
		cmocka_unit_test(multipath_message),
		cmocka_unit_test(via_message),
		cmocka_unit_test(nexthop_messages),
		cmocka_unit_test(truncated),
		cmocka_unit_test(bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
