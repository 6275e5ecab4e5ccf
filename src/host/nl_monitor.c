/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notifications that links or addresses have changed. What they say is not read:
 * they may get lost when many come at once, so only a look at the present state
 * is worth anything. rtnetlink(7).
 */
#include <errno.h>
#include <linux/rtnetlink.h>
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

void nl_monitor_drain(int fd)
{
	char some[64];
	ssize_t n;

	do
		n = recv(fd, some, sizeof(some), 0);	/* the rest of each is thrown away */
	while (n >= 0 || errno == ENOBUFS || errno == EINTR);
}
