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

struct tcp_settings;
struct udp_settings;
struct proto_groups;
struct proto_reasm;
struct ping_raw;
struct tcp_pool;

/* Scratch memory: slots for the largest datagram, or run of them (UDP_GRO). Only what arrives touches it, so pages mapped
 * and never used cost nothing. The stride spreads the slots' beginnings over the cache's sets.
 */
#define PROTO_SCRATCH_SLOTS	32
#define PROTO_SCRATCH_SLOT	65536u
#define PROTO_SCRATCH_STRIDE	(PROTO_SCRATCH_SLOT + 1600)
#define PROTO_SCRATCH_LEN	(PROTO_SCRATCH_SLOTS * PROTO_SCRATCH_STRIDE)

#define PROTO_OWNED_MAX		8

struct proto {
	struct env *env;
	struct flow_tab *flows;
	struct fwd *fwd;
	const struct tcp_settings *tcp;
	uint32_t *half_open;			/* by listener, app's: connections that the guest has not answered; NULL: not counted */
	const struct udp_settings *udp;
	uint32_t tcp_bulk, tcp_bulk_now;	/* TCP flows that sent much in the last period, in this one ... */
	uint32_t tcp_bulk_period;		/* ... which has this number ... */
	ns_t tcp_bulk_end;			/* ... and ends then */
	uint32_t tcp_turn;			/* super-frames towards the guest left of this turn of the loop */
	struct tcp_pool *tcp_pool;		/* app's; NULL: segments ahead of a gap are dropped */
	struct proto_reasm *reasm;		/* app's, zeroed; NULL: fragments are dropped */
	struct ping_raw *ping_raw;		/* app's, by family; NULL: none */
	struct proto_groups *groups;		/* app's, zeroed; NULL: what the guest sends to groups may come back to it */
	uint8_t *scratch;			/* PROTO_SCRATCH_LEN bytes, app's: datagrams on their way through one call */
	uint32_t ready_first, ready_last;	/* flows that gave up the turn with work left (path); FLOW_NONE: none */
	uint32_t udp_run;			/* datagrams of the longest run that the host had for us the last time */
	uint32_t udp_given;			/* datagrams that went to the guest since app's last look */
	bool udp_burst;				/* several datagrams at once went somewhere: the turn of who reads them (app) */
	bool flow_gone;				/* a flow or descriptor became free: paused listeners may go on */
	uint32_t net_gen;			/* app's: changes when addresses or default routes of the host do */
	uint32_t dns_cnt;			/* counts the use of resolvers behind the forwarding address */
	uint32_t evict_at;			/* where the search for a flow to give up goes on ... */
	ns_t evict_next;			/* ... and, after one in vain, when */
	uint32_t udp_flows, udp_sockets;	/* of UDP: entries, sockets of their own */
	uint32_t icmp_tokens;			/* errors that we may make up now, as of icmp_at */
	ns_t icmp_at;
	struct inaddr owned[PROTO_OWNED_MAX];	/* addresses that the guest announced, oldest replaced first */
	unsigned owned_next;
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
/* Write a view into a reserved frame from byte OFF on */
void proto_put(const struct l2_frame *f, uint32_t off, struct view v);
/* Reserve one frame of TOTAL bytes, whole and complete by its descriptor; false, and counted, if the link has no room. Its
 * memory may come in pieces: write with view_scatter().
 */
bool proto_reserve(struct env *e, struct l2_frame *f, uint32_t total);
/* How strictly the packet's sender wants no fragments. Linux sets DF on whatever its own link takes, and cuts the next ones
 * once it is told a smaller size: DF alone, and IPv6, is only a maybe. No identification for fragments means that there must
 * not be any (RFC 6864 4.1), and a hop limit below every system's default that this is a probe, as of tracepath.
 */
enum sk_df proto_df(const struct wire_ip *ip);
/* Send one frame; false, and counted, if the link did not take it */
bool proto_commit(struct env *e, const struct l2_frame *f);
/* Send one IP packet whose L4 bytes, checksum included, are complete; as fragments where it is larger than the link's MTU
 * (RFC 791 2.3, RFC 8200 4.5). False, and counted, if it could not be sent.
 */
bool proto_send(struct env *e, const struct inaddr *src, const struct inaddr *dst, uint8_t proto, uint8_t tos,
		const struct view *l4);

struct proto_path {			/* of a packet towards the guest */
	const struct inaddr *src, *dst;
	uint8_t proto, tos;
	uint32_t mtu;			/* at most the link's: a router behind it may have told of less */
};

bool proto_send_path(struct env *e, const struct proto_path *way, const struct view *l4);

/* Host target of a guest's destination: address translated, scope set where one is needed (NAT-1, NAT-8) */
struct sk_addr proto_host_addr(const struct proto *p, const struct inaddr *dst, uint16_t port);
/* Source of host sockets towards TO: that of -o, which only makes sense for what is neither loopback nor link-local */
struct inaddr proto_host_from(const struct proto *p, const struct sk_addr *to);

/* A packet to an address that guest and host share (fwd_is_shared()), of which FRAME is not the whole if it was REASSEMBLED:
 * true if it is the guest's own business, and then it was sent back there, as if it had never left. False: it goes the way
 * of all others, to the host. An ICMP error goes both ways.
 */
bool proto_shared_take(struct proto *p, const struct proto_pkt *pkt, bool reassembled);

/* What a datagram protocol says of a flow that may end early */
struct proto_spare {
	ns_t last;			/* when it was used last */
	bool answered;			/* nothing is expected any more */
	bool idle;			/* was in steady use: the last to go */
};

#define PROTO_SPARE_WAIT	NS_S	/* how long an answer is waited for, however scarce room is */

/* End the least useful of some datagram flows: true, and counted, if there is room now for one more (D19). Frees a descriptor
 * unless what is lacking is a place in the table.
 */
bool proto_evict(struct proto *p);

/* Put the flow at the end of the queue of those that continue in the next turn */
void proto_ready(struct proto *p, struct flow *f);
/* Remove a flow: timer, queue membership, table entry. Its socket is the protocol's to close before. */
void proto_flow_free(struct proto *p, struct flow *f);

#endif
