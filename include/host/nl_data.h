/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Links, addresses and routes of a network namespace as plain structs: parsed from rtnetlink messages, chosen from and
 * planned with by functions that make no system call. nl.h fetches and installs them.
 */
#ifndef HOST_NL_DATA_H
#define HOST_NL_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"

#define NL_NAME_LEN	16		/* IFNAMSIZ: name with final NUL */
#define NL_ROUTES_MAX	32768		/* routes kept of one family; the default route comes first in a dump */
#define NL_HOPS_MAX	64		/* next hops kept of one route, members kept of one nexthop group */
#define NL_METRIC_CNT	18		/* RTAX_* up to fastopen_no_cookie (Linux 4.15) */
#define NL_ROUTE_STR_MAX 160

struct nlmsghdr;

struct nl_link {
	uint32_t ifindex;
	uint32_t flags;			/* IFF_* */
	uint32_t mtu;			/* bytes */
	bool has_mac;			/* six-byte link-layer address */
	struct macaddr mac;
	char name[NL_NAME_LEN];
};

struct nl_addr {
	uint32_t ifindex;
	uint32_t flags;			/* IFA_F_* */
	uint32_t metric;		/* of its connected route, 0: the kernel's choice */
	uint8_t prefix_len;		/* bits, of the address's own family */
	uint8_t scope;			/* RT_SCOPE_* */
	bool has_bcast;
	struct inaddr addr;
	struct inaddr peer;		/* far end of a point-to-point link, else equal to addr */
	struct inaddr bcast;
};

enum nl_gw {
	NL_GW_NONE,			/* on-link */
	NL_GW_SAME,			/* a gateway of the route's own family */
	NL_GW_OTHER,			/* IPv4 route through an IPv6 gateway (RTA_VIA, Linux 5.2) */
};

/* One next hop of one route: a multipath route is several of these in a row with the same set */
struct nl_route {
	bool v6;
	uint8_t dst_len, src_len;	/* bits */
	uint8_t tos, scope, type, protocol;	/* RT_SCOPE_*, RTN_*, RTPROT_* */
	uint8_t pref;			/* ICMPV6_ROUTER_PREF_*, 0: medium */
	bool has_prefsrc;
	enum nl_gw gw_kind;
	uint32_t ifindex;
	uint32_t hop_flags;		/* RTNH_F_* */
	uint32_t weight;		/* 1: the usual */
	uint32_t nh_id;			/* nexthop object that still has to be looked up, 0: none */
	uint32_t set;			/* number of the route within its list */
	uint32_t priority;		/* lower is better */
	uint32_t metric[NL_METRIC_CNT];	/* by RTAX_*, 0: not set */
	struct inaddr dst, src, gw, prefsrc;
};

/* Nexthop object (Linux 5.3): a single hop, or a group of others */
struct nl_nexthop {
	uint32_t id;
	uint32_t ifindex;
	uint32_t hop_flags;
	bool has_gw;
	struct inaddr gw;
	unsigned member_cnt;		/* 0: a single hop */
	struct {
		uint32_t id, weight;
	} member[NL_HOPS_MAX];
};

/* Growing lists; all zero is the empty one, nl_list_free() empties them */
struct nl_links {
	struct nl_link *v;
	unsigned cnt, room;
};

struct nl_addrs {
	struct nl_addr *v;
	unsigned cnt, room;
};

struct nl_routes {
	struct nl_route *v;
	unsigned cnt, room;
	unsigned lost;			/* beyond NL_ROUTES_MAX */
};

struct nl_nexthops {
	struct nl_nexthop *v;
	unsigned cnt, room;
};

/* Room for one more element of SIZE bytes in a list: 0 or -ENOMEM */
int nl_list_grow(void *list_v, unsigned cnt, unsigned *room, size_t size);
#define nl_list_free(l)	do { free((l)->v); *(l) = (__typeof__(*(l))){ .v = NULL }; } while (0)

/* The message at byte *AT of LEN bytes, *AT moved behind it; NULL at the end, or where what is left is not a whole message.
 * Use this, not mnl_nlmsg_ok(), which takes a length above INT_MAX for a good one (libmnl 1.0.5).
 */
const struct nlmsghdr *nl_msg_next(const void *buf, size_t len, size_t *at);

/* Parsers of one message each, appending to a list. Messages of another type or family, of cloned routes and of tables
 * other than main are passed over. 0, -EBADMSG if lengths contradict each other (nothing is appended), or -ENOMEM.
 */
int nl_parse_link(const struct nlmsghdr *nlh, struct nl_links *ret);
int nl_parse_addr(const struct nlmsghdr *nlh, bool v6, struct nl_addrs *ret);
int nl_parse_route(const struct nlmsghdr *nlh, bool v6, struct nl_routes *ret);
int nl_parse_nexthop(const struct nlmsghdr *nlh, struct nl_nexthops *ret);

/* Replace nexthop ids by the hops they stand for; routes whose object is unknown lose the id and have no interface */
int nl_routes_resolve(struct nl_routes *routes, const struct nl_nexthops *nexthops);
/* Whether a route still carries an id */
bool nl_routes_unresolved(const struct nl_routes *routes);

/* How a template interface was found */
enum nl_why {
	NL_WHY_NONE,			/* not at all */
	NL_WHY_NAME,			/* by its name */
	NL_WHY_DEFAULT,			/* it has a default route */
	NL_WHY_HALF,			/* two routes that cover everything, as VPN clients set */
	NL_WHY_ROUTE,			/* it has some route */
};

const struct nl_link *nl_link_by_index(const struct nl_links *links, uint32_t ifindex);
const struct nl_link *nl_link_by_name(const struct nl_links *links, const char *name);
/* Template interface of the family that ROUTES are of; links that are up, with carrier, come before others */
enum nl_why nl_pick_link(const struct nl_links *links, const struct nl_routes *routes, uint32_t *ret_ifindex);
/* Default route of an interface, or its stand-in by halves; multipath: highest weight, last among equals */
const struct nl_route *nl_pick_default(const struct nl_routes *routes, uint32_t ifindex);
/* Address for the guest: longest prefix, first among equals; wider than link, not deprecated, no failed duplicate
 * detection. NULL: none.
 */
const struct nl_addr *nl_pick_addr(const struct nl_addrs *addrs, uint32_t ifindex);
const struct nl_addr *nl_pick_linklocal(const struct nl_addrs *addrs, uint32_t ifindex);
/* Fit to be copied to the guest */
bool nl_addr_is_usable(const struct nl_addr *a);

/* What a plan of copied routes depends on */
struct nl_plan {
	uint32_t from_ifindex;		/* the template */
	uint32_t to_ifindex;		/* the guest's interface */
	uint32_t mtu;			/* of the guest's interface; 0: unknown */
	const struct nl_addr *addr;	/* addresses that the guest's interface will have */
	unsigned addr_cnt;
};

/* Routes to install for a copy of ROUTES, in an order in which gateways come after the routes that lead to them. RET has
 * place for routes->cnt; returns the number used.
 */
unsigned nl_plan_routes(const struct nl_plan *p, const struct nl_routes *routes, struct nl_route *ret);
/* Default, or (half of) its stand-in */
bool nl_route_is_default(const struct nl_route *r);
/* The planned routes lead anywhere: a default route, or halves that make one */
bool nl_routes_cover(const struct nl_route *v, unsigned cnt);
/* The gateway is inside a connected subnet of these addresses, or link-local */
bool nl_is_onlink(const struct nl_addr *v, unsigned cnt, const struct inaddr *gw);

/* "2001:db8::/32 via fe80::1 metric 20" in BUF (NL_ROUTE_STR_MAX bytes); returns BUF */
const char *nl_route_str(const struct nl_route *r, char *buf);

#endif
