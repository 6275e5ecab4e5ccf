/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Echo requests of the guest through unprivileged ping sockets of the host
 * (ICMP-1..ICMP-6). The guest keeps its identifier.
 */
#ifndef PROTO_PING_H
#define PROTO_PING_H

#include "proto/proto.h"

/* An ICMP or ICMPv6 packet from the guest that is not neighbour discovery */
void ping_guest(struct proto *p, const struct proto_pkt *pkt);
void ping_host(struct proto *p, struct flow *f, const struct ev_hit *hit);
/* The flow had work left when its turn ended */
void ping_more(struct proto *p, struct flow *f);
/* Whether the flow may end early */
bool ping_spare(const struct proto *p, struct flow *f, struct proto_spare *ret);
void ping_end(struct proto *p, struct flow *f);
void ping_timer(struct proto *p, struct flow *f);

#endif
