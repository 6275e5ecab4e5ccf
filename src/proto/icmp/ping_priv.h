/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of a ping flow, and what its sources share.
 */
#ifndef PING_PRIV_H
#define PING_PRIV_H

#include "proto/icmp.h"
#include "proto/ping.h"

#define PING_ROUNDS	4
#define PING_SLOTS	8
#define PING_ERR_MAX	64

struct ping_flow {
	ns_t last;			/* last request */
	struct sk_addr to;
	uint32_t net_gen;		/* proto.net_gen when it was opened */
	int refused;			/* errno of a failed open */
	struct ping_raw *raw;		/* whose socket the flow's handle is; NULL: its own */
	uint16_t raw_id;		/* identifier there */
	uint8_t ttl, tos;		/* of the last request */
	bool df;
	bool whole;			/* must not be cut */
	bool answered;			/* the last request */
	uint16_t seq;
	uint32_t len;			/* its ICMP bytes */
};

_Static_assert(sizeof(struct ping_flow) <= FLOW_BODY_LEN, "a ping flow fits into its flow");

static inline struct ping_flow *ping_body(struct flow *f)
{
	return flow_body(f);
}

/* --- ping.c --- */
/* A reply: ICMP header and data */
void ping_answer(struct proto *p, struct flow *f, const struct sk_dgram *d);
/* An entry of the error queue, with what it quotes in the scratch */
void ping_relay(struct proto *p, struct flow *f, const struct sk_err *e);
/* Up to PING_SLOTS messages of socket H into D, whose memory is the scratch */
int ping_recv(struct proto *p, int h, struct sk_dgram *d);

/* --- raw.c --- */
/* Give the flow a place at the raw socket of its family: handle, or negative errno */
int ping_raw_open(struct proto *p, struct flow *f);
void ping_raw_close(struct ping_flow *g);
/* The rest of a request that ping sockets leave to the kernel: HDR and DATA are its bytes */
void ping_raw_fill(const struct proto *p, const struct flow *f, struct sk_dgram *d, uint8_t *hdr, const struct view *data);

#endif
