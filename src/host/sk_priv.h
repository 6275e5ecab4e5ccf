/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of host sockets share.
 */
#ifndef SK_PRIV_H
#define SK_PRIV_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "host/sk.h"

#define SK_PEEK_UNSET	(-1)
#define SK_TTL_USUAL	64		/* the default of kernels (RFC 1700): needs no control message, which costs a route look-up */

/* The default of 208 KiB holds some 90 datagrams of 1400 bytes: less than a millisecond of a fast sender, which is how long
 * another process may keep the processor
 */
#define SK_RCVBUF	(1 << 20)

enum sk_cut {				/* what a datagram socket does with what is too big for the path */
	SK_CUT_USUAL,			/* as the kernel decides (IP_PMTUDISC_WANT) */
	SK_CUT_ALLOWED,			/* fragments, here or by routers */
	SK_CUT_NEVER,			/* an error */
};

struct sk_slot {
	struct ev_ref ref;
	int32_t peek_off;		/* the kernel's peek offset, SK_PEEK_UNSET: not switched on */
	uint16_t port;			/* a UDP socket's own, if it takes datagrams of anybody */
	bool v6;
	bool dgram;
	bool ip_hdr;			/* what it receives begins with the IP header */
	uint16_t big_port;		/* where the last datagram that failed should have gone: IPv4's own errors lack it */
	bool yields;			/* SK_DF_MAYBE has met its error: fragments from here on */
	uint8_t cut[SK_FAMILIES];	/* enum sk_cut, by family of what it sends */
	uint8_t hold;			/* enum sk_hold */
	struct sk_port *hold_port;
	uint32_t hold_next, hold_prev;	/* descriptor + 1 of the neighbours that use the port in this way, 0: none */
	uint32_t peer;			/* SK_HOLD_PEER: hash of whom it hears */
};

enum sk_hold {				/* how a UDP socket uses its port */
	SK_HOLD_NONE,
	SK_HOLD_PEER,			/* hears one peer, or one group */
	SK_HOLD_ANY,			/* hears anybody, for a group's answers */
	SK_HOLD_PUBLISHED,		/* hears anybody, on all addresses */
};

struct sk_port {
	uint32_t any, peers;		/* descriptor + 1 of the first that hears anybody, or a peer; 0: none */
	uint32_t cnt;			/* of those that hear a peer */
	bool foreign;			/* a program of the host shared it with us when we came */
};

union sk_sockaddr {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static inline struct sk_host *sk_host_of(struct sk *s)
{
	return (struct sk_host *)s;
}

/* --- sk.c --- */
/* Options of every TCP socket; what a listener accepts inherits them */
void sk_tcp_options(int fd);

/* --- sk_ephemeral.c --- */
#define SK_LOCAL_PORT_RANGE	51	/* IP_LOCAL_PORT_RANGE, Linux 6.3: first | last << 16; for both families */
#define SK_WINDOW		64u	/* ports of a connection's window: some microseconds to look at all of them */

/* Begin to connect from a port of our choice; the socket has none yet. 0 or negative errno. */
int sk_ephemeral_connect(struct sk_ephemeral *e, int fd, const struct sk_addr *to, const union sk_sockaddr *sa, socklen_t len);

/* --- sk_addr.c --- */
/* Into a socket address of family AF (AF_INET6 takes both, IPv4 v4-mapped); returns its length */
socklen_t sk_to_sockaddr(const struct sk_addr *a, int af, union sk_sockaddr *ret);
void sk_from_sockaddr(const union sk_sockaddr *sa, struct sk_addr *ret);
/* Entry of the ops table */
bool sk_has_addr(struct sk *s, const struct sk_addr *a);
int sk_set_int(int fd, int level, int name, int v);
/* A bare one, of the host's network or, from the stock, the namespace's: descriptor or negative errno */
int sk_make(struct sk_host *s, bool v6, int type, int proto);
/* New socket for TO's family with its slot set; bound to the outbound device if that applies; inside the namespace
 * with its options too. Descriptor or -errno.
 */
int sk_new(struct sk_host *s, const struct inaddr *to, int type, int proto);

/* --- sk_port.c --- */
#define SK_PORTS	65536u
#define SK_SHARE_MAX	512u		/* flows on one port: before Linux 6.13 the kernel looks at all of them for each datagram */

/* FD is bound to PORT and used in this way, until it is closed; PEER: whom it hears, NULL: anybody, or a group */
void sk_port_hold(struct sk_host *s, int fd, uint16_t port, enum sk_hold hold, const struct sk_addr *peer);
/* Whether PORT may have a socket that hears PEER: the kernel would give its datagrams to one of two */
bool sk_port_hears(const struct sk_host *s, uint16_t port, const struct sk_addr *peer);
/* FD is closed, or was */
void sk_port_release(struct sk_host *s, int fd);
/* Bind to SA: its port alone, or together with others of ours, or (FOREIGN) of the host. 0 or negative errno. */
int sk_port_bind(struct sk_host *s, int fd, const union sk_sockaddr *sa, socklen_t len, bool foreign);
bool sk_port_is_published(const struct sk_host *s, uint16_t port);
/* Whether another program's sockets, or a published port, hear what comes to it from anybody */
bool sk_port_is_heard(const struct sk_host *s, uint16_t port);

/* --- sk_group.c: entry of the ops table --- */
int sk_group_open(struct sk *s, struct ev_ref ref, enum sk_group what, const struct sk_addr *local, const struct sk_addr *group);

/* --- sk_tcp_opt.c --- */
/* Traffic class of what the socket sends; V6: its family. 0 or negative errno. */
int sk_tcp_class(int fd, bool v6, int tos);
/* TTL of what the socket sends, and the error queue if it is a probe's */
void sk_tcp_ttl(int fd, bool v6, int ttl);
int sk_tcp_errors(int fd, bool v6, int on);
/* Before it connects: announce MSS at most, and send no larger segments */
void sk_tcp_mss(int fd, uint16_t mss);
/* Entry of the ops table; IP_RECVTOS was set on the listener */
uint8_t sk_tcp_peer_class(struct sk *s, int h, bool v4);
/* Keep-alive probes on, the first after IDLE_S seconds of silence, 0: the kernel's default. 0 or negative errno. */
int sk_tcp_keep_alive(int fd, int idle_s);

/* --- sk_guest.c: entry of the ops table --- */
int sk_guest_has(struct sk *s, bool tcp, const struct sk_addr *local, const struct sk_addr *remote);

/* --- sk_dgram.c: entries of the ops table --- */
int sk_udp_open(struct sk *s, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to, struct sk_addr *ret_local);
/* The end of opening: connect, watch */
int sk_open_connected(struct sk_host *h, int fd, struct ev_ref ref, const struct sk_addr *to);
int sk_recv_dgrams(struct sk *s, int h, struct sk_dgram *d, int n);
int sk_send_dgrams(struct sk *s, int h, const struct sk_dgram *d, int n);
int sk_recv_err(struct sk *s, int h, struct sk_err *ret, void *buf, uint32_t len);
/* Bind to LOCAL, its port kept if that can be: 0 or negative errno */
int sk_udp_bind(struct sk_host *h, int fd, const struct sk_addr *local, int af);
/* Options of every UDP socket: error queue, UDP_GRO */
void sk_udp_options(int fd, bool v6);

/* --- sk_ping.c: entry of the ops table --- */
int sk_ping_open(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from);

#endif
