/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets for multicast groups and broadcasts. A sender is not connected, so
 * that everybody's answer arrives, and hears only what was sent to this host
 * alone, whatever groups other programs have joined. A member is bound to the
 * group's own address, so that it takes no datagram of anybody's unicast.
 *
 * Where the sender's port is published, or shared with a program of the host,
 * that one hears the answers: the sender is then connected to the group, which
 * never sends, and takes nothing from it.
 *
 * RFC 1112, RFC 3678 4; UDP-14.
 */
#include <errno.h>
#include <unistd.h>

#include "sk_priv.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL	29	/* Linux 4.20 */
#endif
#define GROUP_TTL	64		/* where the guest's own is not given with each datagram; the kernel's default is 1 */

static int group_join(int fd, const struct sk_addr *group, int af)
{
	if (af == AF_INET) {
		struct ip_mreqn m = { .imr_ifindex = (int)group->scope };

		memcpy(&m.imr_multiaddr, group->a.b + 12, 4);
		return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof(m)) ? -errno : 0;
	}
	struct ipv6_mreq m = { .ipv6mr_interface = group->scope };

	memcpy(&m.ipv6mr_multiaddr, group->a.b, 16);
	return setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof(m)) ? -errno : 0;
}

static void group_options(int fd, int af)
{
	if (af == AF_INET) {
		sk_set_int(fd, SOL_SOCKET, SO_BROADCAST, 1);
		sk_set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, GROUP_TTL);
		sk_set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
		sk_set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);
	} else {
		sk_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
		sk_set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, GROUP_TTL);
		sk_set_int(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
		sk_set_int(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
	}
}

/* Bound, and connected where the port's other users hear the answers */
static int group_sender(struct sk_host *h, int fd, const struct sk_addr *local, const struct sk_addr *group, int af)
{
	union sk_sockaddr sa;
	socklen_t len = sizeof(sa);
	int err = sk_udp_bind(h, fd, local, af);
	uint16_t port;

	if (err)
		return err;
	if (getsockname(fd, &sa.sa, &len))
		return -errno;
	port = ntohs(af == AF_INET ? sa.v4.sin_port : sa.v6.sin6_port);
	if (sk_port_is_heard(h, port)) {
		len = sk_to_sockaddr(group, af, &sa);
		if (connect(fd, &sa.sa, len))
			return -errno;
		sk_port_hold(h, fd, port, SK_HOLD_PEER, NULL);
		return 0;
	}
	h->slot[fd].port = port;
	sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	sk_port_hold(h, fd, port, SK_HOLD_ANY, NULL);
	return 0;
}

static int group_receiver(struct sk_host *h, int fd, const struct sk_addr *group, int af)
{
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(group, af, &sa);
	int err;

	if (sk_port_is_published(h, group->port))
		return -EALREADY;
	err = sk_port_bind(h, fd, &sa, len, true);
	if (err)
		return err;
	h->slot[fd].port = group->port;
	sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	sk_port_hold(h, fd, group->port, SK_HOLD_PEER, NULL);
	return group_join(fd, group, af);
}

int sk_group_open(struct sk *s, struct ev_ref ref, enum sk_group what, const struct sk_addr *local, const struct sk_addr *group)
{
	struct sk_host *h = sk_host_of(s);
	const int af = inaddr_is_v4(&group->a) ? AF_INET : AF_INET6;
	const int fd = sk_new(h, &group->a, SOCK_DGRAM, IPPROTO_UDP);
	int err = 0;

	if (fd < 0)
		return fd;
	group_options(fd, af);
	if (what != SK_GROUP_HOLD)
		sk_udp_options(fd, af == AF_INET6);
	if (what == SK_GROUP_SEND)
		err = group_sender(h, fd, local, group, af);
	else if (what == SK_GROUP_RECV)
		err = group_receiver(h, fd, group, af);
	else
		err = group_join(fd, group, af);
	h->slot[fd].ref = ref;
	if (!err && what != SK_GROUP_HOLD)
		err = h->ev->ops->set(h->ev, fd, ref, EV_IN | EV_FIRST);
	if (!err)
		return fd;
	sk_port_release(h, fd);
	close(fd);
	return err;
}
