/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transactions on an rtnetlink socket, for the files nl*.c.
 */
#ifndef HOST_NL_PRIV_H
#define HOST_NL_PRIV_H

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/rtnetlink.h>
#include <stdint.h>

#include "host/nl.h"

#define NL_BUF_LEN	32768		/* the kernel fills at most this much at a time (netlink_dump) */
#define NL_MSG_LEN	512		/* above each request that we build */
#define NL_BATCH	(NL_BUF_LEN / NL_MSG_LEN)

struct nl {
	struct mnl_socket *sock;
	uint32_t seq;			/* of the latest request */
	char tx[NL_BUF_LEN] __attribute__((aligned(8)));
	char rx[NL_BUF_LEN] __attribute__((aligned(8)));
};

/* Start a request in the socket's own buffer: header and SIZE zeroed bytes of fixed part, in RET_FIXED */
struct nlmsghdr *nl_req_start(struct nl *nl, uint16_t type, uint16_t flags, size_t size, void *ret_fixed);
void nl_attr_put_addr(struct nlmsghdr *nlh, uint16_t type, const struct inaddr *a);
/* Send the request and wait for its result: 0 or negative errno of the kernel or the socket */
int nl_talk(struct nl *nl, struct nlmsghdr *nlh);

/* Build request I of a batch at NLH; the header is there, with room for NL_MSG_LEN bytes in all */
typedef void (*nl_build_t)(const void *data, unsigned i, struct nlmsghdr *nlh);
/* Up to NL_BATCH requests in one go, their results in RET_CODE: 0, or a negative errno that concerns all */
int nl_talk_many(struct nl *nl, unsigned cnt, nl_build_t build, const void *data, int *ret_code);

/* Hand each message of a dump to PARSE, which returns 0 or a negative errno that ends it. RESTART is called before each
 * attempt, to forget what an interrupted one has left.
 */
struct nl_dump {
	int (*parse)(const struct nlmsghdr *nlh, void *data);
	void (*restart)(void *data);
	void *data;
};
int nl_dump_run(struct nl *nl, struct nlmsghdr *nlh, const struct nl_dump *d);

/* A guest's interface being configured */
struct nl_ns {
	struct nl *nl;
	const struct nl_ns_conf *conf;
	struct nl_ns_done *done;
	struct nl_warns *warns;
};

/* Routes of one family, for an interface that is up and has ADDRS: those of the template, or only the given default */
void nl_copy_routes(const struct nl_ns *ns, const struct nl_ns_family *f, const struct nl_addrs *addrs, unsigned *ret_cnt);

/* The kernel, or this namespace, does not have the address family */
static inline bool nl_family_missing(int code)
{
	return code == -EAFNOSUPPORT || code == -EOPNOTSUPP || code == -EACCES || code == -EPROTONOSUPPORT;
}

#endif
