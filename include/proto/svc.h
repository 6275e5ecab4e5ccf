/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Services on the guest link: ARP and neighbour discovery.
 */
#ifndef PROTO_SVC_H
#define PROTO_SVC_H

#include "proto/proto.h"

struct svc {				/* settings; none change while frames are handled */
	bool nd_on, ra_on;
	uint32_t mtu;			/* advertised in RAs, 0: not */
	struct inaddr dns[3];		/* IPv6 resolvers advertised */
	unsigned dns_cnt;
	const char *const *search;
	unsigned search_cnt;
};

/* ARP packet, view behind the Ethernet header (ARP-1..ARP-9) */
void svc_arp(struct proto *p, struct view v);
/* ICMPv6 types 133 to 136 (NDP-1..NDP-6, RA-1..RA-5) */
void svc_nd(struct proto *p, const struct svc *s, const struct proto_pkt *pkt);
/* A router advertisement that nobody asked for, to all nodes (RA-6) */
void svc_advertise(struct proto *p, const struct svc *s);
/* Ask for the guest's MAC: one ARP request and one neighbour solicitation for its addresses (ARP-6, NDP-6) */
void svc_solicit(struct proto *p);

#endif
