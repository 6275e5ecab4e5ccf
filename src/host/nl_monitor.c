/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notifications that links, addresses or default routes have changed. What they
 * say is not read: they may get lost when many come at once, so only a look at the
 * present state is worth anything. rtnetlink(7).
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/nl.h"

int nl_monitor_open(struct err *e)
{
	const struct sockaddr_nl sa = {
		.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE), code;

	if (fd >= 0 && !bind(fd, (const struct sockaddr *)&sa, sizeof(sa)))
		return fd;
	code = -errno;
	if (fd >= 0)
		close(fd);
	return err_set(e, code, "Can't watch for interfaces and addresses: %s", strerror(-code));
}

/* Addresses and default routes only: what else there is of routes would wake us all the time on a router, and links tell of each
 * scan of a wireless device
 */
static int monitor_filter(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWADDR), 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELADDR), 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWROUTE), 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELROUTE), 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, NLMSG_HDRLEN + offsetof(struct rtmsg, rtm_dst_len)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? -errno : 0;
}

int nl_monitor_ways(int fd, struct err *e)
{
	static const int groups[] = { RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE };
	int r = monitor_filter(fd);

	for (unsigned i = 0; i < sizeof(groups) / sizeof(groups[0]) && !r; i++)
		if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])))
			r = -errno;
	return r ? err_set(e, r, "Can't watch for routes: %s", strerror(-r)) : 0;
}

void nl_monitor_drain(int fd)
{
	char some[64];
	ssize_t n;

	do
		n = recv(fd, some, sizeof(some), 0);	/* the rest of each is thrown away */
	while (n >= 0 || errno == ENOBUFS || errno == EINTR);
}
