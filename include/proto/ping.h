/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Echo requests of the guest through unprivileged ping sockets of the host
 * (ICMP-1..ICMP-6). The guest keeps its identifier.
 */
#ifndef PROTO_PING_H
#define PROTO_PING_H

#include "proto/proto.h"

#define PING_RAW_IDS	256		/* identifiers of one socket: those with its high byte */

/* Where ping sockets are not permitted: one raw socket for all flows of a family, app's storage. Each flow has an identifier of
 * its own on the host; the kernel hands us replies with the high byte alone, so that those of others stay theirs.
 */
struct ping_raw {
	int h;				/* -1: none */
	uint8_t high;			/* of the identifiers */
	uint8_t next;			/* where the search for a free one goes on */
	uint32_t flow[PING_RAW_IDS];	/* index + 1; 0: free */
};

/* An ICMP or ICMPv6 packet from the guest that is not neighbour discovery */
void ping_guest(struct proto *p, const struct proto_pkt *pkt);
void ping_host(struct proto *p, struct flow *f, const struct ev_hit *hit);
/* Event of a raw socket, watched with EV_LEVEL */
void ping_raw_host(struct proto *p, struct ping_raw *r, const struct ev_hit *hit);
/* The flow had work left when its turn ended */
void ping_more(struct proto *p, struct flow *f);
/* Whether the flow may end early */
bool ping_spare(const struct proto *p, struct flow *f, struct proto_spare *ret);
void ping_end(struct proto *p, struct flow *f);
void ping_timer(struct proto *p, struct flow *f);

#endif
