/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a UDP flow, and what its sources share.
 */
#ifndef UDP_PRIV_H
#define UDP_PRIV_H

#include "proto/dns.h"
#include "proto/icmp.h"
#include "proto/udp.h"

#define UDP_SEG_MAX	64		/* datagrams of one run: UDP_MAX_SEGMENTS before Linux 6.9 */
#define UDP_TURN	90u		/* datagrams from one socket in one turn: whoever reads them has room for some 90 (of 1400 bytes, in
					 * the 212,992 bytes of net.core.rmem_default), and we can't know when it runs
					 */
#define UDP_ERR_MAX	64		/* error queue entries of a flow in one turn */
#define UDP_DHCP_PORT	67		/* of servers: the guest's requests are ours to answer (D6-1) */
#define UDP_DHCP6_PORT	547
#define UDP_DNS		(5 * NS_S)	/* after the answer: as long as a resolver waits before it asks again */
#define UDP_REFUSED	NS_S		/* how long a failed open answers for its tuple */

#define UDP_PREFIX_LEN	8		/* bytes of an IPv6 address that name its link (RFC 4291 2.5.1) */

#define UDP_DNS_KEPT	272		/* bytes of messages: queries for both families of most names, and what one server said to them */

struct udp_dns {			/* all zero: the flow does not go to the forwarding address */
	struct proto_dns way, old_way;
	int32_t old_h;			/* socket of the server that was asked before, ... */
	bool old;			/* ... if there is one */
	bool unkept;			/* a query is open that had no place */
	bool heard;			/* the present server has answered something since it was asked */
	uint16_t kept_len;
	struct sk_addr old_to;
	ns_t again_at;			/* when the present server is given up, NS_NEVER: not */
	uint8_t kept[UDP_DNS_KEPT];	/* open queries and answers of servers that have none, each behind its head */
};

struct udp_flow {
	ns_t last;			/* last datagram, either way */
	struct sk_addr to;		/* the peer on the host side */
	struct inaddr src;		/* of the flow's own socket, as the host chose it */
	uint32_t net_gen;		/* proto.net_gen when that was right */
	struct sk_addr local;		/* by_host: address that the peer used; open: source and interface. Port 0: the kernel's choice */
	int refused;			/* errno of a failed open; the flow's handle is then -1 */
	bool by_host;			/* the handle is a published port's, or the owner's: not ours to close */
	bool open;			/* towards a group: the socket hears anybody. Guest port 0: receives for a group */
	uint32_t owner;			/* by_host: index + 1 of the open flow whose handle it is, 0: a published port's */
	uint32_t owned_cnt;		/* open: flows that have its handle */
	uint8_t guest_cnt, host_cnt;	/* datagrams, up to 2 */
	uint8_t ttl, tos;		/* of the guest's last packet, for quotes of it */
	bool df;
	bool whole;			/* must not be cut */
	uint16_t mtu;			/* towards the guest, where a router of its own has said so; 0: the link's */
	bool closed;			/* the peer's host says that nobody is there */
	uint16_t len;			/* payload of the guest's last datagram */
	struct udp_dns dns;
};

_Static_assert(sizeof(struct udp_flow) <= FLOW_BODY_LEN, "a UDP flow fits into its flow");

static inline struct udp_flow *udp_body(struct flow *f)
{
	return flow_body(f);
}

/* A datagram went by */
static inline void udp_alive(const struct proto *p, struct udp_flow *u, uint8_t *cnt)
{
	u->last = p->env->now;
	if (*cnt < 2)
		(*cnt)++;
}

/* udp_flow.c */
/* New flow without a handle or timer, maybe in place of another; NULL, and counted */
struct flow *udp_flow_new(struct proto *p, const struct flow_key *key);
/* New flow for the guest's tuple, with a socket of its own or the errno why there is none; NULL, and counted: no flow */
struct flow *udp_flow_guest(struct proto *p, const struct flow_key *key);
/* Flow of a datagram that came to a published port; NULL, and counted */
struct flow *udp_flow_host(struct proto *p, const struct udp_listener *l, const struct sk_dgram *d);
/* The key under which a published port's peer is known: 0, or counted and negative */
int udp_flow_host_key(struct proto *p, const struct udp_listener *l, const struct sk_addr *peer, struct flow_key *ret);
/* The published port's flow that a packet of tuple KEY answers from another of the guest's addresses, as servers do that
 * listen on all of them; NULL: none
 */
struct flow *udp_flow_answer(const struct proto *p, const struct flow_key *key);
/* The guest sends in a flow with a socket of its own: the flow, a new one if the host would send from another address by now;
 * NULL, and counted: none
 */
struct flow *udp_flow_follow(struct proto *p, struct flow *f);
/* A socket of the flow towards TO: its handle, or negative errno */
int udp_flow_open(struct proto *p, struct flow *f, const struct sk_addr *to);
/* Set the timer to what comes first */
void udp_flow_arm(struct proto *p, struct flow *f);
/* The peer answered at the flow's own socket */
void udp_flow_answered(struct proto *p, struct flow *f);

/* udp_dns.c */
/* A socket to a resolver: its handle, or negative errno; -ENOENT: the flow does not go to the forwarding address */
int udp_dns_open(struct proto *p, struct flow *f);
/* The socket of the server before */
void udp_dns_close(struct proto *p, struct flow *f);
/* The guest asks in a flow that goes there: may give it another socket */
void udp_dns_query(struct proto *p, struct flow *f, const struct view *v);
/* One message, or a run, from the present server, or the one before (OLD): whether it is for the guest. May give the flow
 * another socket.
 */
bool udp_dns_answer(struct proto *p, struct flow *f, bool old, const struct sk_dgram *a);
/* When udp_dns_due() has something to do, NS_NEVER: not before the next call */
ns_t udp_dns_next_at(const struct proto *p, struct flow *f);
/* The server refused: true if all that was open has been answered, or the next one asked, so that the guest need not know */
bool udp_dns_refused(struct proto *p, struct flow *f, const struct sk_err *e);
/* The timer fired */
void udp_dns_due(struct proto *p, struct flow *f);
/* udp.c */
/* What waits at a socket that hears anybody, and with ERRORS its error queue; true if there may be more */
bool udp_listen_turn(struct proto *p, const struct udp_listener *l, bool errors);

/* udp_group.c */
/* Socket for a flow towards a group: handle or negative errno; u->to and u->local are set */
int udp_group_open(struct proto *p, struct flow *f);
/* What waits at an open flow's socket; true if there may be more */
bool udp_group_turn(struct proto *p, struct flow *f, bool errors);

/* udp_err.c */
/* Relay the error queue; true if the socket can't be used any more. Budgeted: *ret_more tells that entries remain. */
bool udp_err_flow(struct proto *p, struct flow *f, bool *ret_more);
/* True if more may wait */
bool udp_err_listener(struct proto *p, const struct udp_listener *l);
/* The host refused PAYLOAD of the guest with errno CODE: say so, at a limited rate */
void udp_err_refused(struct proto *p, struct flow *f, int code, const struct view *payload);

/* udp_out.c: frames towards the guest, collected over one call */
#define UDP_OUT_MAX	64		/* frames, and pieces, of one round */
#define UDP_PIECE_MAX	128

struct udp_out {			/* one frame: a datagram, or a run of them */
	struct flow *f;
	struct inaddr dst;
	uint32_t piece, piece_cnt;
	uint32_t len;			/* payload bytes */
	uint32_t seg, seg_cnt;		/* payload of each datagram, datagrams */
	uint8_t tos;
	bool closed;			/* ends in a shorter datagram */
};

struct udp_outs {
	struct proto *p;
	uint32_t cnt, piece_cnt;
	struct udp_out out[UDP_OUT_MAX];
	struct iovec piece[UDP_PIECE_MAX];
};

/* Large, so only what counts is set */
static inline void udp_outs_init(struct udp_outs *o, struct proto *p)
{
	o->p = p;
	o->cnt = o->piece_cnt = 0;
}

/* Add what was received, one datagram or a run, for address DST of the guest; its bytes stay valid until the flush */
void udp_out_add(struct udp_outs *o, struct flow *f, const struct inaddr *dst, const struct sk_dgram *d);
void udp_out_flush(struct udp_outs *o);

#endif
