/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A small TCP of the guest for the model test: a sender that goes back or, with
 * SACK, fills holes; a receiver with or without a queue for what is out of
 * order; timestamps. Both have their own checks of what we do (never beyond the window, never an ACK of what the kernel did not
 * take: that one is the caller's). Offsets are relative: 0 is the SYN.
 */
#ifndef TEST_SIM_MODEL_GUEST_H
#define TEST_SIM_MODEL_GUEST_H

#include "world.h"

#define MG_OOO		64		/* pieces kept out of order */
#define MG_SACKED	64		/* ranges that we reported */

struct mg_range { uint32_t from, to; };

struct mg {
	/* settings */
	bool active;			/* it opens */
	bool timers;			/* retransmits and probes by time */
	bool has_ws, keep_ooo;
	bool has_sack, has_ts;		/* offered */
	bool dsack;			/* reports what came twice (RFC 2883) */
	uint32_t ts_off;
	uint8_t ws;
	uint16_t mss_opt;		/* 0: no option */
	uint32_t seg_max;		/* most bytes of a segment that it sends */
	uint32_t rbuf;
	uint32_t send_total;		/* bytes of its stream, then FIN */

	/* sender */
	uint32_t isn;
	uint32_t una, nxt, max, edge;	/* edge: right end of our window */
	uint8_t ws_ours;
	uint32_t last_wnd;
	int dupacks;
	bool recovering;
	uint32_t recover;
	struct mg_range sacked[MG_SACKED];	/* not ordered, they don't touch */
	int sacked_cnt;
	uint32_t hole_next;		/* holes below are filled */
	ns_t rto_at, rto;

	/* receiver */
	bool syn_seen, fin_seen;
	uint32_t iss;
	uint32_t rcv_nxt;		/* relative to iss */
	uint32_t read;			/* bytes that the application has */
	uint32_t adv_edge;		/* right end of the window that it advertised */
	uint32_t our_max;		/* highest end of ours seen */
	struct mg_range ooo[MG_OOO];
	int ooo_cnt;
	struct mg_range recent, twice;	/* the piece that came last; what came twice, to be told */
	uint32_t acked;			/* last ACK sent */
	uint32_t ts_recent;
	bool sack_on, ts_on;		/* agreed */
	ns_t now;

	bool reset;			/* we sent RST */
	bool ack_now;
	bool was_shut;			/* it has offered nothing at some time */
	char why[200];			/* a fault that it saw; empty: none */
};

void mg_start(struct mg *g);
/* A segment of ours arrives at NOW */
void mg_take(struct mg *g, const struct world_seg *s, ns_t now);
/* Its application reads N bytes */
void mg_read(struct mg *g, uint32_t n);
/* The next segment that it wants to send, into S (data is filled in): false if none */
bool mg_send(struct mg *g, struct world_seg *s, uint8_t *data, ns_t now);
/* Its timer is due */
void mg_timer(struct mg *g, ns_t now);
/* It gives up what it has out of order (RFC 2018 8) */
void mg_renege(struct mg *g);
/* All sent and acknowledged, all received */
static inline bool mg_sent_all(const struct mg *g)
{
	return g->una == g->send_total + 2;
}

#endif
