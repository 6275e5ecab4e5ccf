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

struct sk_slot {
	struct ev_ref ref;
	int32_t peek_off;		/* the kernel's peek offset, SK_PEEK_UNSET: not switched on */
	uint16_t port;			/* a UDP listener's own */
	bool v6;
	bool dgram;
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

/* --- sk_addr.c --- */
/* Into a socket address of family AF (AF_INET6 takes both, IPv4 v4-mapped); returns its length */
socklen_t sk_to_sockaddr(const struct sk_addr *a, int af, union sk_sockaddr *ret);
void sk_from_sockaddr(const union sk_sockaddr *sa, struct sk_addr *ret);
int sk_set_int(int fd, int level, int name, int v);
/* A bare one, of the host's network or, from the stock, the namespace's: descriptor or negative errno */
int sk_make(struct sk_host *s, bool v6, int type, int proto);
/* New socket for TO's family with its slot set; bound to the outbound device if that applies; inside the namespace
 * with its options too. Descriptor or -errno.
 */
int sk_new(struct sk_host *s, const struct inaddr *to, int type, int proto);

/* --- sk_tcp_opt.c --- */
/* Traffic class of what the socket sends; V6: its family. 0 or negative errno. */
int sk_tcp_class(int fd, bool v6, int tos);
/* Entry of the ops table; IP_RECVTOS was set on the listener */
uint8_t sk_tcp_peer_class(struct sk *s, int h, bool v4);
/* Keep-alive probes on, the first after IDLE_S seconds of silence, 0: the kernel's default. 0 or negative errno. */
int sk_tcp_keep_alive(int fd, int idle_s);

/* --- sk_guest.c: entry of the ops table --- */
int sk_guest_has(struct sk *s, bool tcp, const struct sk_addr *local, const struct sk_addr *remote);

/* --- sk_dgram.c: entries of the ops table --- */
int sk_udp_open(struct sk *s, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to, struct sk_addr *ret_local);
int sk_ping_open(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from);
int sk_recv_dgrams(struct sk *s, int h, struct sk_dgram *d, int n);
int sk_send_dgrams(struct sk *s, int h, const struct sk_dgram *d, int n);
int sk_recv_err(struct sk *s, int h, struct sk_err *ret, void *buf, uint32_t len);
/* Options of every UDP socket: error queue, UDP_GRO */
void sk_udp_options(int fd, bool v6);

#endif
