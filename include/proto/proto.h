/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What all protocols share: their surroundings, a parsed packet, and the start
 * of every frame that they send.
 */
#ifndef PROTO_PROTO_H
#define PROTO_PROTO_H

#include "flow/flow.h"
#include "flow/fwd.h"
#include "port/env.h"
#include "wire/eth.h"
#include "wire/ip.h"

struct proto {
	struct env *env;
	struct flow_tab *flows;
	struct fwd *fwd;
	uint32_t ready_first, ready_last;	/* flows that gave up the turn with work left (path); FLOW_NONE: none */
	bool flow_gone;				/* a flow or descriptor became free: paused listeners may go on */
};

/* A packet from the guest, parsed down to its IP payload */
struct proto_pkt {
	const struct l2_frame *frame;
	struct wire_ip ip;
	struct view l4;			/* from the TCP, UDP or ICMP header on */
	uint32_t next;			/* next packet of the same flow in this batch, FLOW_NONE: last */
};

#define PROTO_HDR_MAX	(WIRE_ETH_LEN + WIRE_IP6_LEN + 60)	/* Ethernet, IPv6, largest TCP header */

/* Bytes before the transport header, by family of SRC */
static inline uint32_t proto_l4_off(const struct inaddr *src)
{
	return WIRE_ETH_LEN + wire_ip_hdr_len(src);
}
/* Write Ethernet and IP header for L4_LEN bytes of PROTO; returns the offset of the transport header. TTL 255 (L2-41);
 * the Ethernet destination of multicast is its group address (RFC 1112 6.4, RFC 2464 7), else the guest.
 */
uint32_t proto_emit_l3(const struct env *e, uint8_t *p, const struct inaddr *src, const struct inaddr *dst,
		       uint8_t proto, uint8_t tos, uint32_t l4_len);
/* Reserve one frame of TOTAL bytes, whole and complete by its descriptor; false, and counted, if the link has no room. Its
 * memory may come in pieces: write with view_scatter().
 */
bool proto_reserve(struct env *e, struct l2_frame *f, uint32_t total);
/* Send one frame; false, and counted, if the link did not take it */
bool proto_commit(struct env *e, const struct l2_frame *f);

/* Put the flow at the end of the queue of those that continue in the next turn */
void proto_ready(struct proto *p, struct flow *f);
/* Remove a flow: timer, queue membership, table entry. Its socket is the protocol's to close before. */
void proto_flow_free(struct proto *p, struct flow *f);

#endif
