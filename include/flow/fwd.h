/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who talks to whom: address translation between guest and host as a function
 * of settings, and the rules of published ports.
 */
#ifndef FLOW_FWD_H
#define FLOW_FWD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "flow/fwd_dns.h"

#define FWD_MORE_MAX	16

enum fwd_family { FWD_V4, FWD_V6, FWD_FAMILIES };

static inline enum fwd_family fwd_family_of(const struct inaddr *a)
{
	return inaddr_is_v4(a) ? FWD_V4 : FWD_V6;
}

struct fwd_family_set {			/* one family's addresses; unset address: none */
	bool on;
	uint8_t prefix_len;		/* of guest, bits */
	struct inaddr guest;		/* assigned to the guest */
	struct inaddr more[FWD_MORE_MAX]; /* other addresses of the host that the guest has too */
	unsigned more_cnt;
	struct inaddr seen;		/* last unicast source seen from the guest, starts as `guest` (L2-30) */
	struct inaddr seen_ll;		/* IPv6: last link-local source seen */
	struct inaddr gateway;		/* the guest's router */
	struct inaddr ours;		/* our own address on the link: IPv4 gateway, IPv6 link-local (CFG-4) */
	struct inaddr host_loopback;	/* guest address that stands for the host's loopback (NAT-3) */
	struct inaddr host_guest;	/* guest address that stands for host_own (--map-guest-addr) */
	struct inaddr host_own;		/* the host's own address: `guest`, unless that was given and is not the host's */
	struct inaddr shared[FWD_MORE_MAX + 1];	/* host's and guest's: to the host where nobody listens (--host-own-addr) */
	unsigned shared_cnt;
	uint32_t shared_lost;		/* bit I: the host does not have shared[I] any more */
	struct inaddr dns_match;	/* guest address whose ports 53 and 853 go to dns_host */
	struct inaddr dns_host;		/* the first one of `dns` */
	struct fwd_dns dns;		/* all resolvers, of this family before those of the other; empty: dns_host alone */
	struct inaddr outbound;		/* source address of host sockets (-o) */
	uint32_t scope;			/* host interface of link-local targets */
	uint32_t group_scope;		/* and of groups and broadcasts, 0: the kernel's choice */
	bool same_net;			/* the guest's prefix is that interface's: broadcast addresses mean the same */
};

struct fwd {
	struct fwd_family_set f[FWD_FAMILIES];
	bool tcp_on, udp_on, icmp_on;
	bool seen_fixed[FWD_FAMILIES];	/* -a: never follow what the guest uses */
};

/* Guest destination to host target (NAT-1); PORT 0 for ping. Scope for link-local is in f[].scope. */
struct inaddr fwd_to_host(const struct fwd *w, const struct inaddr *dst, uint16_t port);
/* Source of a host peer as the guest shall see it (NAT-20, NAT-21): 0, or -EADDRNOTAVAIL if it can't be told */
int fwd_from_host(const struct fwd *w, const struct inaddr *peer, struct inaddr *ret);
/* The guest's address for a flow from the host, by the translated source (NAT-22): 0, -EADDRNOTAVAIL if not known */
int fwd_guest_addr(const struct fwd *w, const struct inaddr *src, struct inaddr *ret);
/* A group, or all on the guest's link: no single peer (RFC 1112, RFC 919) */
bool fwd_is_group(const struct fwd *w, const struct inaddr *dst);
/* That destination on the host: its own link's */
struct inaddr fwd_group_to_host(const struct fwd *w, const struct inaddr *dst);
/* One of the guest's own addresses, as far as we know them */
bool fwd_is_guest(const struct fwd *w, const struct inaddr *a);
/* Of both the host and the guest, and to be reached at the host if the guest has no listener there */
bool fwd_is_shared(const struct fwd *w, const struct inaddr *a);
/* It was, but the host has lost it: the guest's alone */
bool fwd_is_lost(const struct fwd *w, const struct inaddr *a);
/* Note a source address of a valid guest packet (L2-30, L2-31) */
void fwd_seen(struct fwd *w, const struct inaddr *src);

/* Published ports */
#define FWD_RULE_MAX	4096		/* per direction; a thousand single ports in one command line are not rare (C02) */
#define FWD_RULE_STR_MAX 192		/* bytes of a rule in words */

enum fwd_proto { FWD_TCP, FWD_UDP, FWD_PROTOS };

struct fwd_rule {
	enum fwd_proto proto;
	bool any;			/* both families' wildcard; `listen` is then unset */
	struct inaddr listen;		/* unspecified of one family: that family's wildcard */
	char ifname[16];		/* empty: no interface */
	uint16_t first, last;		/* ports that we listen on */
	uint16_t target_first;		/* port towards the other side for `first` */
	struct inaddr target;		/* :: : automatic */
	bool weak;			/* failure to bind is no error */
	bool scan;			/* listen only while something on the other side does: nothing to bind at start */
};

struct fwd_rules {
	unsigned cnt;
	struct fwd_rule rule[FWD_RULE_MAX];
};

/* "TCP ports 8080 to 8089 on 192.0.2.1 of interface eth0": FIRST to LAST of R's ports. NS: it listens in the namespace. */
const char *fwd_rule_name(const struct fwd_rule *r, bool ns, unsigned first, unsigned last, char buf[FWD_RULE_STR_MAX]);
/* "TCP [192.0.2.1]%eth0:8080-8089  =>  80-89 ", as callers know it from the report at start */
const char *fwd_rule_line(const struct fwd_rule *r, bool ns, char buf[FWD_RULE_STR_MAX]);
/* The rule of the other side, among BACK, that returns to PORT what R sends over from there, so that it would go round for ever; NULL:
 * none. LO, BACK_LO: without a target address R, or those of BACK, lead from loopback to loopback.
 */
const struct fwd_rule *fwd_rules_back(const struct fwd_rule *r, uint16_t port, bool lo, const struct fwd_rules *back, bool back_lo);

#endif
