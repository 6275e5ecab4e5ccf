/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who has the port that we want.
 */
#ifndef HOST_LISTEN_H
#define HOST_LISTEN_H

#include "host/sk.h"

struct listen_owner {
	unsigned uid;
	int pid;			/* 0: not visible to us */
	char comm[16];			/* its name, if pid is */
};

/* The first socket that is in the way of L, in the network namespace that we are in. For messages: it reads all of /proc. */
bool listen_owner_find(const struct sk_listen *l, struct listen_owner *ret);
/* A line of /proc/net/{tcp,tcp6,udp,udp6}, of a socket that is in the way of L? */
bool listen_owner_line(const char *line, const struct sk_listen *l, unsigned *ret_uid, unsigned long *ret_inode);

#endif
