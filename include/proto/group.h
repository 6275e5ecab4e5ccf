/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups that the guest has joined, and their traffic (W-4). A membership has
 * no port, but a host's socket needs one: what is sent to a group is received
 * on published ports, on those that the guest itself sends to in that group,
 * and on the port that the group is registered for.
 */
#ifndef PROTO_GROUP_H
#define PROTO_GROUP_H

#include "proto/proto.h"

#define GROUP_MAX	64		/* joined at a time, both families together */
#define GROUP_PORTS	8		/* of one group */
#define GROUP_ECHOES	64

struct group {
	struct inaddr a;
	int h;				/* the membership's own socket */
	ns_t until;			/* left unless reported again */
	ns_t ask_at;			/* next question about this group, NS_NEVER: none */
	uint32_t port_cnt;
	uint16_t port[GROUP_PORTS];
};

struct group_echo {
	uint64_t hash;
	ns_t at;
};

struct proto_groups {			/* app's, zeroed */
	bool on;			/* follow what the guest joins (--multicast) */
	struct group g[GROUP_MAX];
	uint32_t cnt;
	ns_t query_at[FWD_FAMILIES];	/* next general query */
	uint32_t queries[FWD_FAMILIES];	/* sent since the family's first group */
	struct twheel_timer timer;
	struct group_echo echo[GROUP_ECHOES];	/* what the guest sent to groups just now */
	uint32_t echo_at;
};

/* Kind of the timer in proto_groups; flows have 0 */
#define GROUP_TIMER	1

/* IGMP, MLD of the guest */
void group_igmp(struct proto *p, const struct proto_pkt *pkt);
void group_mld(struct proto *p, const struct proto_pkt *pkt);
/* ICMPv6 type of a report or query */
bool group_is_mld(uint8_t icmp6_type);
/* The guest sends to PORT in group A: receive there too, if it is a member */
void group_port(struct proto *p, const struct inaddr *a, uint16_t port);
void group_timer(struct proto *p);
/* Note what the guest sends to a group, in datagrams of SEG bytes; whether D is one of them that came back */
void group_sent(struct proto *p, struct view payload, uint32_t seg);
bool group_is_echo(const struct proto *p, const struct sk_dgram *d);

#endif
