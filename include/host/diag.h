/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets of a network namespace that wait for whoever comes: TCP ones that listen, UDP ones that are bound and not
 * connected. Asked of the kernel by sock_diag(7), which needs no privilege.
 */
#ifndef HOST_DIAG_H
#define HOST_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/err.h"
#include "host/sk.h"

#define DIAG_PORTS_MAX	255		/* ranges of one question */

struct diag_sock {
	struct inaddr addr;		/* unset: all addresses of its family */
	uint32_t ifindex;		/* SO_BINDTODEVICE, 0: none */
	uint32_t inode;			/* st_ino of its descriptor, in every namespace another one */
	uint16_t port;
	bool both;			/* an IPv6 wildcard that serves IPv4 as well */
	enum sk_proto proto;
};

/* Growing list, all zero is the empty one; nl_list_free() of nl_data.h empties it */
struct diag_socks {
	struct diag_sock *v;
	unsigned cnt, room;
};

struct diag_ports {
	uint16_t first, last;
};

struct diag;
struct nlmsghdr;

/* Sees the network namespace that the caller is in, from wherever it is used. 0, or negative errno with its words in E. */
int diag_open(struct diag **ret, struct err *e);
void diag_close(struct diag *d);
/* Ask for these ports only, 1 to DIAG_PORTS_MAX ranges: what else is bound costs little then. Before that, all are asked for. */
void diag_ports(struct diag *d, const struct diag_ports *v, unsigned cnt);
/* Append those of one protocol and family. 0, or negative errno with RET as it was: -ENOENT if the kernel can't tell
 * (CONFIG_INET_DIAG, CONFIG_INET_UDP_DIAG), -EBUSY or -EAGAIN if only this time.
 */
int diag_dump(struct diag *d, enum sk_proto proto, bool v6, struct diag_socks *ret);

/* Pure: append the socket that one message is about; those of another family, in another state or without a port are passed
 * over. 0, -EBADMSG if lengths contradict each other (nothing is appended), or -ENOMEM.
 */
int diag_parse(const struct nlmsghdr *nlh, enum sk_proto proto, bool v6, struct diag_socks *ret);
/* Pure: the program of INET_DIAG_REQ_BYTECODE that accepts ports in one of CNT ranges, in words of 4 bytes; returns their
 * number, at most DIAG_PROGRAM_LEN
 */
#define DIAG_PROGRAM_LEN (DIAG_PORTS_MAX * 5)
unsigned diag_program(const struct diag_ports *v, unsigned cnt, uint32_t *ret_words);

#endif
