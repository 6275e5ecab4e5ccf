/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP between the guest's stack and host sockets (RFC 9293). No stack of our
 * own: segments become socket operations and back. Data towards the guest
 * stays in the host socket until the guest acknowledges it.
 */
#ifndef PROTO_TCP_H
#define PROTO_TCP_H

#include "proto/proto.h"
#include "wire/tcp.h"

/* Payload from the guest that can't be passed on yet: ahead of a gap, or refused by a full socket. One pool for all
 * flows, in app's memory; a flow holds at most TCP_POOL_FLOW of its blocks.
 */
#define TCP_POOL_BLOCK	8192u		/* bytes, of which some are the block's own: a few segments, or an eighth of a super-frame */
#define TCP_POOL_CNT	2048u		/* 16 MiB; pages never used cost nothing */
#define TCP_POOL_FLOW	512u		/* 4 MiB: what a window usually opens to (net.ipv4.tcp_wmem[2]) */
#define TCP_POOL_LEN	((size_t)TCP_POOL_BLOCK * TCP_POOL_CNT)

/* Super-frames that flows send to the guest in one turn of the loop, some 100 us, before new events are looked at. Whoever did
 * not wait for its turn already sends one in any case: a connection with little to say never queues behind those with much.
 */
#define TCP_TURN	4u

struct tcp_pool {			/* all zero with MEM set: empty */
	uint8_t *mem;			/* TCP_POOL_LEN bytes, aligned to 8; NULL: nothing is kept */
	uint32_t free_head;		/* chain of blocks given back, index + 1; 0: none */
	uint32_t fresh;			/* blocks from here on were never used */
	uint32_t used;
};

struct tcp_seg {			/* a segment from the guest */
	struct wire_tcp h;
	struct view data;
	uint8_t tos, ttl;		/* traffic class and TTL of its packet */
	uint32_t next;			/* index of the next one of the same flow in the batch, FLOW_NONE: last */
};

struct tcp_settings {			/* the host's kernel: sysctls of these names in net.ipv4 */
	uint8_t syn_retries;		/* tcp_syn_retries: SYNs sent again with doubled time */
	uint8_t syn_linear;		/* tcp_syn_linear_timeouts: SYNs sent again before that, each after the same time */
	uint8_t synack_retries;		/* tcp_synack_retries */
	ns_t rto_max;			/* tcp_rto_max_ms */
	ns_t keep_time;			/* tcp_keepalive_time */
	ns_t keep_interval;		/* tcp_keepalive_intvl */
	uint8_t keep_probes;		/* tcp_keepalive_probes */
};

struct tcp_incoming {			/* what accept() told, and the published port that it came to */
	struct sk_addr peer;
	struct inaddr target;		/* towards the guest; unset: the guest's own address */
	uint16_t port;			/* towards the guest */
	uint32_t listener;		/* place in half_open of struct proto */
};

struct proto_told;

/* Segment without a flow: opens one (SYN) or is answered with RST */
void tcp_guest_new(struct proto *p, const struct flow_key *key, const struct tcp_seg *s);
/* Segments of one flow, in order of arrival: SEG[first], SEG[SEG[first].next] ... */
void tcp_guest(struct proto *p, struct flow *f, const struct tcp_seg *seg, uint32_t first);
/* Event of the host socket */
void tcp_host(struct proto *p, struct flow *f, const struct ev_hit *hit);
/* A connection that the host accepted as handle H: open it towards the guest. Takes the handle in any case. 0, or the reason
 * why the connection was reset.
 */
int tcp_accepted(struct proto *p, int h, const struct tcp_incoming *in);
/* The guest's side says that a segment of ours did not arrive: false, nothing comes of it */
bool tcp_told(struct proto *p, struct flow *f, const struct proto_told *told);
/* The flow's timer is due */
void tcp_timer(struct proto *p, struct flow *f);
/* The flow had work left when its turn ended */
void tcp_more(struct proto *p, struct flow *f);
/* True while the guest may still have data for us, or its end: when what we serve ends, its kernel closes its sockets */
bool tcp_draining(const struct flow *f);
/* The guest is gone: end the host side so that the kernel finishes sending */
void tcp_guest_gone(struct proto *p, struct flow *f);

#endif
