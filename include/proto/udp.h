/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP flows: a 5-tuple with a time-out (UDP-1, UDP-2). The guest opens one with
 * a socket of its own on the host; the host opens one through the socket of a
 * published port, which serves all its flows.
 */
#ifndef PROTO_UDP_H
#define PROTO_UDP_H

#include "proto/proto.h"

struct udp_listener {			/* a published port, app's storage */
	int h;				/* its socket */
	struct inaddr target;		/* towards the guest; unset: the guest's own address */
	uint16_t port;			/* towards the guest */
	uint32_t owner;			/* index + 1 of the flow that the socket is of, 0: published */
};

struct udp_settings {
	ns_t timeout_oneway, timeout_stream;	/* UDP-2 */
	uint32_t flows_max, sockets_max;	/* of all flows, of their own sockets: the rest is for others. 0: no limit */
};

struct proto_told;

/* Packets of one 5-tuple in order of arrival; F is NULL if no flow is known yet */
void udp_guest(struct proto *p, const struct flow_key *key, struct flow *f, const struct proto_pkt *pkt, uint32_t first);
void udp_host(struct proto *p, struct flow *f, const struct ev_hit *hit);
/* Datagrams wait at a published port, or errors. The socket is watched with EV_LEVEL: what a call leaves is reported again. */
void udp_listen(struct proto *p, const struct udp_listener *l, const struct ev_hit *hit);
/* Its parts, for who wants to see some first: errors; up to MAX datagrams, which stay valid until the next call of this room,
 * how many, or negative errno; what becomes of them
 */
#define UDP_LISTEN_MAX	PROTO_SCRATCH_SLOTS
void udp_listen_errors(struct proto *p, const struct udp_listener *l);
int udp_listen_recv(struct proto *p, const struct udp_listener *l, struct sk_dgram *d, int max);
void udp_listened(struct proto *p, const struct udp_listener *l, const struct sk_dgram *d, int n);
/* The socket of a published port is about to be closed: end its flows */
void udp_listener_gone(struct proto *p, int h);
/* Receive what is sent to PORT in a group that was joined, on host interface SCOPE: 0, -EALREADY if a published port does,
 * or negative errno
 */
int udp_group_receive(struct proto *p, const struct inaddr *group, uint16_t port, uint32_t scope);
void udp_group_ignore(struct proto *p, const struct inaddr *group, uint16_t port);
/* The host opened the flow: what the guest sends in it are answers */
bool udp_is_answering(struct flow *f);
/* The flow has a descriptor that its end would free */
bool udp_has_socket(struct flow *f);
/* Whether the flow may end early: one exchange, over or given up, or silent for long */
bool udp_spare(const struct proto *p, struct flow *f, struct proto_spare *ret);
/* The guest's side says that a datagram of ours did not arrive: false, nothing comes of it */
bool udp_told(struct proto *p, struct flow *f, const struct proto_told *told);
/* End: close the socket if it is the flow's own */
void udp_end(struct proto *p, struct flow *f);
void udp_timer(struct proto *p, struct flow *f);
void udp_more(struct proto *p, struct flow *f);

#endif
