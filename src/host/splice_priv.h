/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of spliced flows share.
 */
#ifndef SPLICE_PRIV_H
#define SPLICE_PRIV_H

#include "host/splice.h"

#define SPLICE_BUF_LEN		(2u << 20)
#define SPLICE_DGRAM_LEN	65536u
#define SPLICE_DGRAMS		(int)(SPLICE_BUF_LEN / SPLICE_DGRAM_LEN)
#define SPLICE_NONE		(-1)

enum splice_kind { SPLICE_KIND_FREE, SPLICE_KIND_TCP, SPLICE_KIND_UDP };

struct splice_listener {
	struct splice_listen l;
	bool paused;			/* accept again when descriptors or entries are free */
	int held;			/* accepted, but there was no descriptor for its other side; SPLICE_NONE */
	struct sk_addr held_peer, held_local;
};

struct splice_dir {			/* of a TCP flow, from the socket of one side to the other's */
	struct splice_pipe pipe;	/* valid while `piped`: only while data is under way */
	uint32_t pending;		/* bytes in it */
	bool piped;
	bool in;			/* the source may have something */
	bool out;			/* the sink may have room */
	bool fin;			/* the source's end is in its queue: read until it shows */
	bool eof;			/* it has shown */
	bool shut;			/* and the sink has been told */
	bool urgent;			/* urgent data in the source's queue, which splice(2) does not pass */
};

struct splice_udp {
	struct twheel_timer timer;
	struct sk_addr client;		/* in the namespace */
	struct sk_addr local;		/* what it talks to there */
	ns_t last;			/* datagram seen */
	uint32_t listener;
	uint32_t chain;			/* of its bucket */
	uint8_t guest_cnt, host_cnt;	/* datagrams from each side, counted up to 2 */
};

struct splice_flow {
	uint32_t next;			/* free list or ready list */
	uint32_t gen : 24;
	uint32_t kind : 8;		/* enum splice_kind */
	bool ready;
	bool connected;			/* TCP: both ends are there */
	int h[SPLICE_SIDES];
	union {
		struct splice_dir dir[SPLICE_SIDES];	/* by source */
		struct splice_udp udp;
	};
};

_Static_assert(sizeof(struct splice_flow) <= 192, "memory of an open connection");

static inline void splice_refuse(struct splice *s, enum splice_refuse why)
{
	s->stats.refused[why]++;
}

/* --- splice.c --- */
struct splice_flow *splice_flow_new(struct splice *s, enum splice_kind kind);
/* Sockets are closed and the timer is off by now */
void splice_flow_free(struct splice *s, struct splice_flow *f);
struct ev_ref splice_flow_ref(const struct splice *s, const struct splice_flow *f, enum splice_side side);
/* Give it another turn */
void splice_flow_ready(struct splice *s, struct splice_flow *f);
/* Where a flow from the listener goes that the client meant for LOCAL, and the source that it shall have there (unset:
 * the kernel's choice)
 */
struct sk_addr splice_target(const struct splice_listen *l, const struct sk_addr *local, const struct sk_addr *client,
			     struct inaddr *ret_from);

/* --- splice_tcp.c --- */
void splice_tcp_listen(struct splice *s, struct splice_listener *l);
void splice_tcp_event(struct splice *s, struct splice_flow *f, enum splice_side side, uint32_t mask);
void splice_tcp_more(struct splice *s, struct splice_flow *f);
void splice_tcp_end(struct splice *s, struct splice_flow *f, enum sk_end how);
void splice_pipe_close(struct splice_pipe *p);

/* --- splice_udp.c --- */
void splice_udp_listen(struct splice *s, uint32_t listener, uint32_t mask);
void splice_udp_event(struct splice *s, struct splice_flow *f, uint32_t mask);
void splice_udp_more(struct splice *s, struct splice_flow *f);
void splice_udp_timer(struct splice *s, struct splice_flow *f);
void splice_udp_end(struct splice *s, struct splice_flow *f);

#endif
