/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host sockets as the protocols see them. A handle is a small number >= 0.
 * Calls return a value >= 0 or a negative errno and never block.
 *
 * Now or later: send() alone may return -EINPROGRESS. The same value then
 * arrives as an event with EV_SENT and the reference given at opening, and the
 * bytes stay valid until then: the loop takes no further frames from the guest
 * link before all sends of a batch have come back. connect() always completes
 * later, by EV_OUT, EV_ERR or EV_HUP; result() then tells how.
 * peek() and drop() complete on the spot, until a measurement says otherwise.
 */
#ifndef PORT_SK_H
#define PORT_SK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/addr.h"
#include "port/ev.h"

struct sk_addr {
	struct inaddr a;
	uint16_t port;			/* host order */
	uint16_t reserved;
	uint32_t scope;			/* interface index of link-local IPv6, else 0 */
};

enum sk_end {
	SK_END_GRACEFUL,		/* the kernel finishes sending, then FIN */
	SK_END_RESET,			/* RST now */
};

enum sk_opt {				/* of a TCP socket; values as set() takes them */
	SK_OPT_CLASS,			/* traffic class of what it sends; of its ECN field nothing is used */
	SK_OPT_KEEP_ALIVE,		/* probes on; seconds of silence before the first one, 0: the kernel's default */
	SK_OPT_ERRORS,			/* 0: errors of routers are passing ones, and forgotten (RFC 1122 4.2.3.9) */
};

#define SK_TTL_PROBE	32		/* below every system's default: the sender wants to know how far it gets */

struct sk_syn {				/* what a connection's packets have of the guest's, from the SYN on; 0: as the kernel does */
	uint8_t tos;			/* as for SK_OPT_CLASS */
	uint8_t ttl;			/* below SK_TTL_PROBE: the errors of routers are kept for recv_err(), until SK_OPT_ERRORS is set to 0 */
	uint16_t mss;			/* most payload of a segment either way: announced, and kept to. Less than the kernel can: its least. */
};

enum sk_mark {				/* where the mark of urgent data is in the receive queue */
	SK_MARK_NONE,
	SK_MARK_AHEAD,
	SK_MARK_HERE,			/* the byte at the head is urgent */
};

struct sk_room {
	uint32_t free;			/* bytes that the kernel would accept now, a cautious figure */
	uint32_t queued;		/* kernel memory of what the peer has not acknowledged; 0: it has everything */
	bool writable;			/* whether it would report EV_OUT now: if so, no edge is to come by itself */
};

enum sk_df {				/* what becomes of a datagram that is too big for its path (UDP-37) */
	SK_DF_NO,			/* fragments, here or by routers */
	SK_DF_MAYBE,			/* fragments, but the first one also leaves an entry in the error queue: EMSGSIZE, local */
	SK_DF_YES,			/* nobody cuts it: an entry in the error queue tells the size that fits */
};

struct sk_dgram {			/* one datagram, or a run of equal ones */
	struct sk_addr to_from;		/* the far end; ignored on send over a connected socket if port is 0 */
	struct sk_addr local;		/* our address and port that it came to, port 0: not known. send: source unless port 0; scope: interface */
	struct iovec iov[2];
	uint32_t iov_cnt;
	uint32_t len;			/* recv: bytes received. send: bytes in iov */
	uint16_t seg;			/* bytes of each datagram if this is a run (UDP_GRO, UDP_SEGMENT), 0: just one */
	uint8_t ttl;			/* send: time to live or hop limit, 0: the default */
	uint8_t tos;			/* traffic class */
	uint8_t df;			/* send: enum sk_df */
	bool to_all;			/* recv: it was sent to a group (then `local` is that) or by broadcast */
};

enum sk_group {				/* what a socket does for a group, or for broadcasts */
	SK_GROUP_SEND,			/* sends to it; what anybody sends to its port, and to us alone, arrives */
	SK_GROUP_RECV,			/* receives what is sent to the group's port, as a member of the group */
	SK_GROUP_HOLD,			/* is a member, no more: published ports receive then */
};

struct sk_err {				/* one entry of an error queue (IP_RECVERR), for ICMP errors */
	int code;			/* errno, positive */
	uint8_t icmp_type, icmp_code;	/* of the family of `to` */
	bool local;			/* raised by our own kernel */
	uint32_t info;			/* MTU for too-big errors */
	struct sk_addr to;		/* where the datagram went */
	struct sk_addr offender;	/* who complained; port 0; unset if unknown */
	uint32_t len;			/* bytes of the datagram's payload quoted into the buffer */
};

struct sk;

struct sk_ops {
	const char *name;

	/* --- TCP --- */
	/* New socket, connect started: handle. Events carry REF. FROM: source address, unset: kernel's choice. */
	int (*connect)(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from, struct sk_syn syn);
	/* How connect() ended: 0, -EINPROGRESS, or its errno; also the pending error of an open socket */
	int (*result)(struct sk *s, int h);
	/* Next waiting connection of a listener: handle, peer and, unless RET_LOCAL is NULL, local address; -EAGAIN: none. Events start
	 * with watch().
	 */
	int (*accept)(struct sk *s, int listener, struct sk_addr *ret_peer, struct sk_addr *ret_local);
	/* Traffic class of the first packets of an accepted connection's peer, 0 if unknown; V4: the family of the peer */
	uint8_t (*peer_class)(struct sk *s, int h, bool v4);
	/* 0 or negative errno */
	int (*set)(struct sk *s, int h, enum sk_opt opt, int value);
	/* Begin to report events of an accepted socket with REF; what is ready already is reported too */
	int (*watch)(struct sk *s, int h, struct ev_ref ref);
	/* Bytes from SKIP bytes behind the head of the receive queue into IOV, left in place; 0: end of stream there */
	int (*peek)(struct sk *s, int h, uint32_t skip, const struct iovec *iov, int cnt);
	/* Discard LEN bytes at the head of the receive queue */
	int (*drop)(struct sk *s, int h, uint32_t len);
	/* Send: bytes accepted by the kernel, maybe fewer; -EAGAIN: none */
	int (*send)(struct sk *s, int h, const struct iovec *iov, int cnt);
	/* Send one byte as urgent data: 1, -EAGAIN or what send() gives, but never later */
	int (*urge)(struct sk *s, int h, uint8_t byte);
	/* Urgent data of the peer (EV_PRI). A peek that begins before the mark ends there. */
	enum sk_mark (*mark)(struct sk *s, int h);
	/* What more the kernel would take */
	int (*room)(struct sk *s, int h, struct sk_room *ret);
	/* Report EV_OUT once the socket is, or becomes, writable; costs a call, so only where no edge is to come */
	int (*arm)(struct sk *s, int h);
	/* End of our stream: FIN after what was accepted */
	int (*shut)(struct sk *s, int h);
	/* Handle and its events are gone */
	void (*close)(struct sk *s, int h, enum sk_end how);

	/* --- datagrams: UDP and ping --- */
	/* UDP socket bound to LOCAL (port kept if it can be, else the kernel's choice; address unset: wildcard) and connected
	 * to TO. *ret_local: what it really got.
	 */
	int (*udp_open)(struct sk *s, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to, struct sk_addr *ret_local);
	/* UDP socket for GROUP (multicast, or broadcast to send to), member or sender on interface group->scope (0: the kernel's
	 * choice). LOCAL as for udp_open(), for SK_GROUP_SEND only. -EALREADY: a published port receives for that port.
	 */
	int (*group_open)(struct sk *s, struct ev_ref ref, enum sk_group what, const struct sk_addr *local, const struct sk_addr *group);
	/* Ping socket (ICMP, ICMPv6 by family of TO), connected to TO. The kernel chooses the identifier. */
	int (*ping_open)(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from);
	/* Up to N (at most 64) datagrams into the iovecs given; returns how many, fewer than N only if no more are waiting;
	 * -EAGAIN: none
	 */
	int (*recv_dgrams)(struct sk *s, int h, struct sk_dgram *d, int n);
	/* Send N; returns how many were handled, of which errors are counted and skipped; < N only on -EAGAIN. An error that
	 * was pending belongs to an earlier datagram: send again. A run that the kernel does not cut (path MTU, no
	 * UDP_SEGMENT, no checksum offload) goes out one by one.
	 */
	int (*send_dgrams)(struct sk *s, int h, const struct sk_dgram *d, int n);
	/* Next entry of the error queue; up to LEN payload bytes of the culprit go to BUF; -EAGAIN: empty */
	int (*recv_err)(struct sk *s, int h, struct sk_err *ret, void *buf, uint32_t len);

	/* Whether the host has this address; true as well if nobody knows. Costs some calls. */
	bool (*has_addr)(struct sk *s, const struct sk_addr *a);

	/* --- sockets of the guest itself, where its kernel is ours --- */
	/* Whether one would get what REMOTE sends to LOCAL, over TCP or else UDP: 1, 0, or negative errno */
	int (*guest_has)(struct sk *s, bool tcp, const struct sk_addr *local, const struct sk_addr *remote);
};

struct sk {
	const struct sk_ops *ops;
};

#endif
