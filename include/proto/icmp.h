/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors towards the guest, for its packets that the host side refused.
 */
#ifndef PROTO_ICMP_H
#define PROTO_ICMP_H

#include <errno.h>

#include "proto/proto.h"
#include "wire/icmp.h"

#define PROTO_ICMP_RATE		1000	/* errors a second of our own making, and how many at once: as the kernel's */
#define PROTO_ICMP_BURST	50	/* defaults icmp_msgs_per_sec, icmp_msgs_burst */

/* Payload bytes that the quote of a datagram can hold at most */
#define PROTO_QUOTE_MAX		1232

struct proto_icmp {
	uint8_t type, code;		/* of the quoted packet's family */
	uint32_t info;			/* MTU for too big, offset for ICMPv6 parameter problems, 0 for others */
	struct inaddr from;		/* who complains, as the guest shall see it; unset: the quoted packet's target */
};

struct proto_quote {			/* the packet that the guest had sent */
	struct inaddr src, dst;
	uint8_t proto, ttl, tos;
	bool df;
	uint16_t id;			/* IPv4 */
	bool more;			/* IPv4: it was a first fragment */
	uint32_t l4_len;		/* its IP payload; at least l4.len */
	struct view l4;			/* as much of the IP payload as is known */
};

/* What an ICMP error of the guest's side says about a packet that we sent */
enum proto_told_kind {
	PROTO_TOLD_REFUSED,		/* nobody there takes such packets */
	PROTO_TOLD_UNREACH,		/* it did not get there */
	PROTO_TOLD_TOO_BIG,
};

struct proto_told {
	enum proto_told_kind kind;
	uint32_t mtu;			/* TOO_BIG: what fits, at least what every path should take */
	struct view l4;			/* the quoted packet from its transport header on; 4 bytes at least */
};

/* An ICMP packet of the guest: false if it is no error; else it is handed on, or counted */
bool proto_icmp_told(struct proto *p, const struct proto_pkt *pkt);
/* Send the error: 576 bytes at most (RFC 1812 4.3.2.3), 1280 for IPv6 (RFC 4443 2.4 (c)) */
void proto_icmp_error(struct proto *p, const struct proto_icmp *err, const struct proto_quote *q);
/* What an errno of the host means to the guest, from our own address: false if nothing that a peer should know */
bool proto_icmp_errno(const struct proto *p, int code, bool v4, uint32_t mtu, struct proto_icmp *ret);
/* Type and source of an error queue's entry, whose flow goes to HOST and is FAR to the guest (UDP-31, UDP-32): false if it
 * is not to be relayed
 */
bool proto_icmp_relay(struct proto *p, const struct sk_err *e, const struct inaddr *host,
		      const struct inaddr *far, struct proto_icmp *ret);
/* The entry is about a datagram that went out in fragments nevertheless (SK_DF_MAYBE) */
static inline bool proto_icmp_was_cut(const struct sk_err *e)
{
	return e->local && e->code == EMSGSIZE;
}
/* Send the error so that the guest's kernel learns from it and none of its sockets fails: what was too big has arrived. It
 * quotes an echo reply of KEY's addresses, which Linux takes as about its own.
 */
void proto_icmp_teach(struct proto *p, const struct proto_icmp *err, const struct flow_key *key);
/* Nobody takes packets of this IP protocol here (L2-21): said in the name of the packet's target */
void proto_icmp_no_protocol(struct proto *p, const struct proto_pkt *pkt);
/* Whether an error of our own making may be sent now; takes a token */
bool proto_icmp_allow(struct proto *p);

#endif
