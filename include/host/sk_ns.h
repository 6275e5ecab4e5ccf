/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets of the guest's network namespace, which we are not in. A process that
 * is makes them (sk_ns_serve()) and sends them here in batches; some are kept
 * in stock, so that to take one costs no round trip.
 *
 * They are new, unbound, unconnected, non-blocking, close on exec. Bound to a
 * privileged port by us they are not: that takes a right in the namespace.
 */
#ifndef HOST_SK_NS_H
#define HOST_SK_NS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/ev.h"

#define SK_NS_STOCK	32		/* of each kind (LIM-8), refilled when half of them are gone */

enum sk_ns_kind { SK_NS_TCP4, SK_NS_TCP6, SK_NS_UDP4, SK_NS_UDP6, SK_NS_KINDS };

struct sk_ns_shelf {			/* one kind's stock */
	int fd[SK_NS_STOCK];
	uint32_t cnt;
	bool asked;			/* more are on their way */
	bool short_of;			/* none came, for lack of descriptors or memory: ask again when that may have changed */
};

struct sk_ns {
	int fd;				/* to the process inside; -1: there is none, or none any more */
	struct ev *ev;
	struct sk_ns_shelf shelf[SK_NS_KINDS];
};

/* A pair of sockets, [0] for sk_ns_open() and [1] for sk_ns_serve(): 0 or negative errno with words */
int sk_ns_pair(int ret_fd[2], struct err *e);

/* The process inside: make sockets as asked for until the other end is closed. Only what it calls is async-signal-safe. */
void sk_ns_serve(int fd);

/* FD is ours from now on, with events EV_KIND_NS. 0 or negative errno. */
int sk_ns_open(struct sk_ns *n, struct ev *ev, int fd);
void sk_ns_close(struct sk_ns *n);

/* Lay in a stock of a kind that is going to be needed */
void sk_ns_want(struct sk_ns *n, enum sk_ns_kind kind);
/* A socket, the caller's to close; -EAGAIN: more have been asked for, try again after an event; -EPIPE: there will be none;
 * -EMFILE: no descriptors or memory, sk_ns_retry() asks again
 */
int sk_ns_take(struct sk_ns *n, enum sk_ns_kind kind);

/* How many of a kind can be taken without waiting. No limit if there is nothing to wait for: no process, no descriptors. */
uint32_t sk_ns_stock(const struct sk_ns *n, enum sk_ns_kind kind);

/* An event with EV_KIND_NS: whoever got -EAGAIN may try again. 0, or -EPIPE once, when the process inside has ended. */
int sk_ns_event(struct sk_ns *n);
/* Descriptors have become free: true if there are some to be asked for again. Not merely because an answer has come. */
bool sk_ns_retry(struct sk_ns *n);

#endif
