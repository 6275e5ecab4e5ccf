/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Options that make a TCP socket of the host behave as the guest's: traffic
 * class, TTL, MSS and keep-alive. Failures change nothing for the connection's bytes.
 *
 * Linux keeps the class of one packet of an accepted connection, the last of its
 * handshake, and gives it by a getsockopt() that only looks at stored options.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/bytes.h"
#include "sk_priv.h"

#ifndef IPV6_2292PKTOPTIONS
#define IPV6_2292PKTOPTIONS	6
#endif
#ifndef IP_PKTOPTIONS
#define IP_PKTOPTIONS	9
#endif
#define SK_MSS_MIN		88	/* what TCP_MAXSEG takes: TCP_MIN_MSS ... */
#define SK_MSS_MAX		32767	/* ... to MAX_TCP_WINDOW; EINVAL beyond */
#define SK_KEEP_INTERVAL	75	/* net.ipv4.tcp_keepalive_intvl */

int sk_tcp_class(int fd, bool v6, int tos)
{
	int r = sk_set_int(fd, IPPROTO_IP, IP_TOS, tos);	/* a dual-stack socket may speak IPv4 */

	return v6 ? sk_set_int(fd, IPPROTO_IPV6, IPV6_TCLASS, tos) : r;
}

int sk_tcp_errors(int fd, bool v6, int on)
{
	return sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, on);
}

void sk_tcp_ttl(int fd, bool v6, int ttl)
{
	sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_UNICAST_HOPS : IP_TTL, ttl);
	if (ttl < SK_TTL_PROBE)
		sk_tcp_errors(fd, v6, 1);
}

void sk_tcp_mss(int fd, uint16_t mss)
{
	sk_set_int(fd, IPPROTO_TCP, TCP_MAXSEG, BYTES_MIN(BYTES_MAX(mss, SK_MSS_MIN), SK_MSS_MAX));
}

/* The class among the stored options of the last packet */
static uint8_t stored_class(int fd, int level, int name, int type)
{
	uint8_t buf[256] __attribute__((aligned(8)));
	struct msghdr m = { .msg_control = buf };
	socklen_t len = sizeof(buf);
	int tos = 0;

	if (getsockopt(fd, level, name, buf, &len))
		return 0;
	m.msg_controllen = len;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == level && c->cmsg_type == type)
			memcpy(&tos, CMSG_DATA(c), BYTES_MIN(sizeof(tos), c->cmsg_len - CMSG_LEN(0)));
	return (uint8_t)tos;
}

uint8_t sk_tcp_peer_class(struct sk *s, int fd, bool v4)
{
	uint8_t tos;

	(void)s;
	if (v4)
		return stored_class(fd, IPPROTO_IP, IP_PKTOPTIONS, IP_TOS);
	/* on while we look only: the kernel would copy each packet's descriptor to keep its options (tcp_v6_do_rcv) */
	if (sk_set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1))
		return 0;
	tos = stored_class(fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS, IPV6_TCLASS);
	sk_set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 0);
	return tos;
}

int sk_tcp_keep_alive(int fd, int idle_s)
{
	if (idle_s > 0) {
		sk_set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
		sk_set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, BYTES_MIN(idle_s, SK_KEEP_INTERVAL));
	}
	return sk_set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}
