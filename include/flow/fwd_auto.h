/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Forwarding rules with "auto": which ports to listen on, given what listens on the other side.
 */
#ifndef FLOW_FWD_AUTO_H
#define FLOW_FWD_AUTO_H

#include <stdbool.h>
#include <stdint.h>

#include "flow/fwd.h"

/* A socket on the side that a rule leads to, not one of ours: TCP and listening, or UDP, bound and not connected */
struct fwd_bound {
	struct inaddr addr;		/* unset: all addresses of its family */
	uint32_t ifindex;		/* only by this interface, 0: by each */
	uint16_t port;
	bool both;			/* a wildcard of IPv6 that serves IPv4 too */
	enum fwd_proto proto;
};

/* One socket to listen with */
struct fwd_want {
	struct inaddr listen;		/* unset of a family: its wildcard */
	uint16_t rule, port;
};

struct fwd_auto {
	const struct fwd_rules *rules;	/* those without `scan` are passed over */
	const struct fwd *fwd;
	bool ns;			/* we listen in the namespace, the services are the host's */
	bool link;			/* what is not spliced reaches the guest by its link */
	bool splice;			/* a client on loopback is served by a socket beside the service, of either family ... */
	bool lo_to_lo;			/* ... which, from the host, reaches the namespace's loopback */
	uint32_t guest_ifindex;		/* of the guest's end of the link */
};

/* By port, then address: the order in which fwd_auto_wants() needs them, for qsort(3) */
int fwd_bound_cmp(const void *x, const void *y);
/* The order of what it returns: rule, port, family, address */
int fwd_want_cmp(const struct fwd_want *x, const struct fwd_want *y);

/* Sockets to listen with for what BOUND has, CNT of them in order. At most MAX in RET, each once, in order; returns their
 * number, or one above MAX that is enough for all.
 */
unsigned fwd_auto_wants(const struct fwd_auto *s, const struct fwd_bound *bound, unsigned cnt, struct fwd_want *ret,
			unsigned max);

#endif
