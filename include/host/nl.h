/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host's network looks like, and giving a namespace the same: rtnetlink through libmnl. Nothing here logs;
 * what does not prevent the start is collected as warnings for app to print.
 */
#ifndef HOST_NL_H
#define HOST_NL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/err.h"
#include "host/nl_data.h"

#define NL_WARN_LINES	8

/* Remarks, at most NL_WARN_LINES of them in words; all zero: none */
struct nl_warns {
	unsigned cnt;			/* all, also those not kept */
	char line[NL_WARN_LINES][240];	/* no final newline */
};

void nl_warns_add(struct nl_warns *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Lines to print */
static inline unsigned nl_warns_kept(const struct nl_warns *w)
{
	return w->cnt < NL_WARN_LINES ? w->cnt : NL_WARN_LINES;
}
/* "and N more" */
static inline unsigned nl_warns_more(const struct nl_warns *w)
{
	return w->cnt - nl_warns_kept(w);
}

/* An rtnetlink socket. It belongs to the network namespace in which it was opened, wherever the process goes then. */
struct nl;
int nl_open(struct nl **ret, struct err *e);
void nl_close(struct nl *nl);		/* NULL is allowed */

/* Dumps, appended to empty lists. A family that the kernel lacks has no addresses and no routes; that is no error. */
int nl_links_get(struct nl *nl, struct nl_links *ret, struct err *e);
int nl_addrs_get(struct nl *nl, bool v6, struct nl_addrs *ret, struct err *e);
/* Unicast routes of the main table, nexthop objects resolved */
int nl_routes_get(struct nl *nl, bool v6, struct nl_routes *ret, struct err *e);

/* What one family of the guest is modelled on. Always usable: without a network on the host (local) it holds
 * 169.254.2.1/16 and 169.254.2.2, or no IPv6 address and fe80::1.
 */
struct nl_template {
	bool v6;
	bool local;			/* no usable address on the host: local mode */
	bool gw_is_ours;		/* the host names no gateway of this family: gw is the local mode's */
	bool has_addr;			/* false: IPv6 in local mode */
	bool has_linklocal;
	enum nl_why why;
	struct nl_link link;		/* ifindex 0: no interface */
	struct inaddr addr;		/* for the guest */
	uint8_t prefix_len;		/* of addr as on the host, bits */
	struct inaddr gw;		/* the guest's gateway */
	struct inaddr linklocal;	/* the interface's own link-local address */
	struct inaddr our_addr;		/* who we are on the guest link: gw, or a link-local address for IPv6 */
	struct nl_addrs addrs;		/* usable addresses of the interface */
	struct nl_routes routes;	/* all unicast routes of the main table */
};

/* NAME: the interface to use, NULL to look for one. Fails if NAME does not exist, or the kernel does not answer. */
int nl_template_get(struct nl *nl, bool v6, const char *name, struct nl_template *ret, struct err *e);
void nl_template_free(struct nl_template *t);

/* One family of a guest's interface: what is given replaces the copies from the template */
struct nl_ns_family {
	bool on;
	bool has_addr, has_gw;
	uint8_t prefix_len;		/* bits */
	struct inaddr addr;		/* given: the only address */
	struct inaddr gw;		/* given: a default route through it, and no other routes */
	const struct nl_template *tmpl;	/* never NULL where the family is on */
};

struct nl_ns_conf {
	const char *ifname;
	uint32_t mtu;			/* bytes, 0: leave it */
	bool has_mac;
	struct macaddr mac;
	struct nl_ns_family v4, v6;
};

struct nl_ns_done {
	bool v4_on, v6_on;		/* v6: asked for, and the namespace has it */
	struct nl_link link;		/* as it is now */
	bool has_linklocal;
	struct inaddr linklocal;	/* of the interface, ready for use */
	unsigned v4_route_cnt, v6_route_cnt;	/* installed or already there */
};

/* The calls below act on the namespace in which NL was opened. */
int nl_lo_up(struct nl *nl, struct err *e);
/* Configure and raise the interface, addresses without duplicate detection. Fails only if the interface does not exist or
 * can't be raised; everything else that does not work is a warning.
 */
int nl_ns_configure(struct nl *nl, const struct nl_ns_conf *c, struct nl_ns_done *ret, struct nl_warns *w, struct err *e);

/* A descriptor that is readable when a link or an address of this namespace has changed, or negative errno */
int nl_monitor_open(struct err *e);
/* Let it tell of addresses and default routes instead: 0 or negative errno */
int nl_monitor_ways(int fd, struct err *e);
/* Until the next change */
void nl_monitor_drain(int fd);

/* Addresses of one family that packets of the namespace itself leave for, although it has them too */
struct nl_share {
	bool v6;
	uint32_t ifindex;
	struct inaddr gw;		/* whom the interface hands them to */
	const struct inaddr *addr;
	unsigned cnt;
};

/* The interface is up and has the addresses. 0, or negative errno with words in E. */
int nl_ns_share(struct nl *nl, const struct nl_share *s, struct err *e);

#endif
