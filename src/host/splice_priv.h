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
	struct splice_listen l;		/* h SPLICE_NONE: closed, free for another one */
	bool paused;			/* accept again when descriptors or entries are free */
	uint32_t gen : 24;		/* in its events' references */
	uint32_t next_free;		/* index + 1, 0: none */
	int held;			/* accepted, but there was no descriptor for its other side; SPLICE_NONE */
	struct sk_addr held_peer, held_local;
};

struct splice_dir {			/* of a TCP flow, from the socket of one side to the other's */
	struct splice_pipe pipe;	/* valid while `piped`: only while data is under way */
	uint32_t pending;		/* bytes in it */
	uint32_t run;			/* KiB through pipes since the source paused ... */
	uint32_t runs;			/* ... in so many pieces: between one dry source and the next */
	uint32_t piece;			/* KiB of the present one */
	bool piped;
	bool in;			/* the source may have something */
	bool out;			/* the sink may have room */
	bool fin;			/* the source's end is in its queue: read until it shows */
	bool eof;			/* it has shown */
	bool shut;			/* and the sink has been told */
	bool deaf;			/* what comes to the source is not reported: the sink is full */
	bool urgent;			/* urgent data in the source's queue, which splice(2) does not pass */
	bool bulk;			/* the source has had much at once */
	bool low;			/* the source reports only much at once (SO_RCVLOWAT) ... */
	bool moved;			/* ... and has had some since the timer was set */
	uint8_t wary;			/* how often it paused then: doubles the run that is needed */
};

struct splice_udp {
	struct sk_addr client;
	struct sk_addr local;		/* what it talks to */
	ns_t last;			/* datagram seen */
	uint32_t chain;			/* of its bucket */
	uint8_t cnt[SPLICE_SIDES];	/* datagrams from each side, counted up to 2 */
	ns_t tried;			/* when it last went to the other address, 0: never */
	uint8_t out;			/* the client's datagrams since the last error, counted up to 2 */
	uint8_t out_tos;		/* traffic class of the last one ... */
	uint32_t out_len;		/* ... and its bytes */
};

struct splice_flow {
	uint32_t next;			/* free list, ready list or waiting list */
	uint32_t gen : 24;
	uint32_t kind : 8;		/* enum splice_kind */
	bool ready;
	bool waits;			/* TCP: for a socket inside, on that list */
	bool connected;			/* TCP: both ends are there */
	uint8_t front;			/* enum splice_side where it was begun */
	int h[SPLICE_SIDES];		/* UDP: at the front the listener, which others share */
	struct twheel_timer timer;
	struct sk_addr to;		/* at the back */
	struct sk_addr alt;		/* where to try next, port 0: nowhere. UDP: to and fro, until somebody answers */
	union {
		struct splice_dir dir[SPLICE_SIDES];	/* by source */
		struct splice_udp udp;
	};
};

_Static_assert(sizeof(struct splice_flow) <= 192, "memory of an open connection");

static inline struct sk *splice_sk(const struct splice *s)
{
	return &s->set.sk->sk;
}

/* The side where the second socket of a flow is made */
static inline enum splice_side splice_back(const struct splice_flow *f)
{
	return f->front == SPLICE_GUEST ? SPLICE_HOST : SPLICE_GUEST;
}

/* Where sockets of that side come from */
static inline struct sk *splice_back_sk(const struct splice *s, const struct splice_flow *f)
{
	return f->front == SPLICE_GUEST ? &s->set.sk->sk : &s->set.inside->sk;
}

static inline void splice_refuse(struct splice *s, enum splice_refuse why)
{
	s->stats.refused[why]++;
}

/* --- splice.c --- */
struct splice_flow *splice_flow_new(struct splice *s, enum splice_kind kind);
/* It has both its addresses: count and trace it */
void splice_flow_begun(struct splice *s, const struct splice_flow *f);
/* Sockets are closed and the timer is off by now */
void splice_flow_free(struct splice *s, struct splice_flow *f);
struct ev_ref splice_flow_ref(const struct splice *s, const struct splice_flow *f, enum splice_side side);
/* Give it another turn */
void splice_flow_ready(struct splice *s, struct splice_flow *f);
/* Give it a turn when there are sockets inside */
void splice_flow_wait(struct splice *s, struct splice_flow *f);
/* The next one that waits, or NULL if that one has ended meanwhile; there must be some */
struct splice_flow *splice_flow_waiting(struct splice *s);
/* Whether there was another address to try; it is now in f->to */
bool splice_flow_elsewhere(struct splice_flow *f);
/* Where a flow from the listener goes that CLIENT meant for LOCAL, and the source that it shall have there (unset: the
 * kernel's choice)
 */
struct splice_way splice_target(const struct splice *s, const struct splice_listen *l, const struct sk_addr *local,
				const struct sk_addr *client, struct inaddr *ret_from);

/* --- splice_tcp.c --- */
void splice_tcp_listen(struct splice *s, struct splice_listener *l);
void splice_tcp_event(struct splice *s, struct splice_flow *f, enum splice_side side, uint32_t mask);
void splice_tcp_more(struct splice *s, struct splice_flow *f);
void splice_tcp_end(struct splice *s, struct splice_flow *f, enum sk_end how);
/* Those who wait for a socket inside */
void splice_tcp_waiting(struct splice *s);

/* --- splice_pump.c --- */
/* All that goes now from SIDE to the other one: 0, 1 if there is more, or negative errno */
int splice_pump(struct splice *s, struct splice_flow *f, enum splice_side side);
/* It has been quiet, or not */
void splice_pump_timer(struct splice *s, struct splice_flow *f);
/* The direction has ended, whatever is under way */
void splice_pipe_drop(struct splice *s, struct splice_dir *d);
void splice_pipe_close(struct splice_pipe *p);

/* --- splice_udp.c --- */
void splice_udp_listen(struct splice *s, uint32_t listener, uint32_t mask);
void splice_udp_event(struct splice *s, struct splice_flow *f, uint32_t mask);
void splice_udp_more(struct splice *s, struct splice_flow *f);
void splice_udp_timer(struct splice *s, struct splice_flow *f);
void splice_udp_end(struct splice *s, struct splice_flow *f);

#endif
