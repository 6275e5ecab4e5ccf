/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors towards the guest, for its packets that the host side refused.
 */
#ifndef PROTO_ICMP_H
#define PROTO_ICMP_H

#include "proto/proto.h"
#include "wire/icmp.h"

#define PROTO_ICMP_RATE		1000	/* errors a second of our own making, and how many at once: as the kernel's */
#define PROTO_ICMP_BURST	50	/* defaults icmp_msgs_per_sec, icmp_msgs_burst */

/* Payload bytes that the quote of a datagram can hold at most */
#define PROTO_QUOTE_MAX		1232

struct proto_icmp {
	uint8_t type, code;		/* of the quoted packet's family */
	uint32_t info;			/* MTU for too big, 0 for others */
	struct inaddr from;		/* who complains, as the guest shall see it; unset: the quoted packet's target */
};

struct proto_quote {			/* the packet that the guest had sent */
	struct inaddr src, dst;
	uint8_t proto, ttl, tos;
	bool df;
	uint32_t l4_len;		/* its IP payload; at least l4.len */
	struct view l4;			/* as much of the IP payload as is known */
};

/* Send the error: 576 bytes at most (RFC 1812 4.3.2.3), 1280 for IPv6 (RFC 4443 2.4 (c)) */
void proto_icmp_error(struct proto *p, const struct proto_icmp *err, const struct proto_quote *q);
/* What an errno of the host means to the guest, from our own address: false if nothing that a peer should know */
bool proto_icmp_errno(const struct proto *p, int code, bool v4, uint32_t mtu, struct proto_icmp *ret);
/* Type and source of an error queue's entry, whose flow goes to HOST and is FAR to the guest (UDP-31, UDP-32): false if it
 * is not to be relayed
 */
bool proto_icmp_relay(const struct proto *p, const struct sk_err *e, const struct inaddr *host,
		      const struct inaddr *far, struct proto_icmp *ret);
/* Whether an error of our own making may be sent now; takes a token */
bool proto_icmp_allow(struct proto *p);

#endif
