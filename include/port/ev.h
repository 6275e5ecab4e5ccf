/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The event engine: readiness and completions in one shape. A reference names
 * who is meant; its generation tells a stale event from a current one.
 */
#ifndef PORT_EV_H
#define PORT_EV_H

#include <stdint.h>

#include "base/ns.h"

struct ev_ref {
	uint32_t idx;			/* flow, listener ...: by kind */
	uint32_t gen : 24;		/* generation of the entry at that index */
	uint32_t kind : 8;		/* app's routes table gives the meaning, enum ev_kind */
};

enum ev_kind {
	EV_KIND_NONE,
	EV_KIND_LINK,			/* the guest link */
	EV_KIND_FLOW,			/* a flow's host socket */
	EV_KIND_LISTEN,			/* a forwarding rule's socket */
	EV_KIND_SPLICE,			/* socket-to-socket flows, host/splice */
	EV_KIND_NS,			/* sockets from inside the namespace, host/sk_ns */
	EV_KIND_CHILD,			/* the command or the namespace that we serve */
	EV_KIND_SIGNAL,
	EV_KIND_MONITOR,		/* interfaces or addresses of the host have changed */
	EV_KIND_OWN,			/* the same, or default routes, for own.c */
	EV_KIND_RESOLV,			/* the host's resolver file */
	EV_KIND_PING,			/* a raw ICMP socket, by family */
	EV_KIND_CNT
};

#define EV_IN		(1u << 0)	/* something to read or accept */
#define EV_OUT		(1u << 1)	/* room to write, or connect() came to an end */
#define EV_RDHUP	(1u << 2)	/* the peer sent its end */
#define EV_ERR		(1u << 3)	/* error or error queue */
#define EV_HUP		(1u << 4)
#define EV_SENT		(1u << 5)	/* completion of a send that returned -EINPROGRESS; result in res */
#define EV_LEVEL	(1u << 6)	/* only for set(): report as long as ready; otherwise once per change */
#define EV_FIRST	(1u << 7)	/* only for set(): this descriptor is not watched yet */
#define EV_PRI		(1u << 8)	/* urgent data of TCP is on its way or in the queue */

struct ev_hit {
	struct ev_ref ref;
	uint32_t mask;
	int32_t res;			/* EV_SENT: bytes or negative errno */
};

struct ev;

struct ev_ops {
	const char *name;
	/* Watch FD (EV_FIRST), or change its mask: both look at its state afresh, so an edge can't be missed. Mask 0 forgets
	 * it; closing FD does so too.
	 */
	int (*set)(struct ev *e, int fd, struct ev_ref ref, uint32_t mask);
	/* Wait until something happens or UNTIL (NS_NEVER: for ever; in the past: don't wait); returns hits, or negative
	 * errno. NOW is the current time.
	 */
	int (*wait)(struct ev *e, struct ev_hit *hit, int max, ns_t now, ns_t until);
	void (*close)(struct ev *e);
};

struct ev {
	const struct ev_ops *ops;
};

#endif
