/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Membership of multicast groups: IGMP (RFC 1112, 2236, 3376) and MLD
 * (RFC 2710, 3810). What a host says, as a list of groups joined and left;
 * what a querier asks.
 */
#ifndef WIRE_GROUP_H
#define WIRE_GROUP_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/view.h"

#define WIRE_IP_IGMP		2
#define WIRE_ICMP6_MLD_QUERY	130
#define WIRE_ICMP6_MLD_REPORT	131
#define WIRE_ICMP6_MLD_DONE	132
#define WIRE_ICMP6_MLD2_REPORT	143
#define WIRE_GROUP_QUERY_MAX	76	/* IPv6 header, router alert, MLDv2 query */

enum wire_group_what {
	WIRE_GROUP_JOIN,		/* is a member: of all sources, or of some */
	WIRE_GROUP_LEAVE,
	WIRE_GROUP_KEEP,		/* sources change, membership does not */
};

struct wire_group {
	struct inaddr a;		/* multicast */
	enum wire_group_what what;
};

struct wire_group_list {		/* a message that is being read */
	struct view rest;		/* records of version 2 or 3 */
	uint32_t left;			/* groups to come */
	bool v4;
	bool single;			/* older versions: just this one */
	struct wire_group one;
};

/* Begin to read an IGMP message, or an MLD one from the ICMPv6 header on: 0, -EBADMSG, or -EPROTONOSUPPORT if it is no
 * report. Checksums are not verified (L2-13).
 */
int wire_igmp_parse(struct view v, struct wire_group_list *ret);
int wire_mld_parse(struct view v, struct wire_group_list *ret);
/* Next group: 1, 0 at the end, -EBADMSG if the rest makes no sense */
int wire_group_next(struct wire_group_list *l, struct wire_group *ret);

/* Whole IP packet of a query about GROUP (unset: all groups) that is to be answered within RESP_MS; SRC gives the family.
 * P: WIRE_GROUP_QUERY_MAX bytes. Returns its length; *ret_dst: where it goes.
 */
uint32_t wire_group_emit_query(uint8_t *p, const struct inaddr *src, const struct inaddr *group, uint32_t resp_ms,
			       uint32_t interval_s, struct inaddr *ret_dst);

#endif
