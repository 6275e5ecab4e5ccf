/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Loopback ports of the namespace that lead to the host's loopback: socket to
 * socket, past the guest link. Listeners were opened inside the namespace, the
 * other socket of a flow is made where we run.
 *
 * The caller ignores SIGPIPE: splice(2) has no flag against it.
 */
#ifndef HOST_SPLICE_H
#define HOST_SPLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/ns.h"
#include "base/twheel.h"
#include "host/sk.h"

#define SPLICE_FLOW_MAX		65536u
#define SPLICE_LISTENER_MAX	327680u		/* LIM-1 */
#define SPLICE_POOL		32		/* empty pipes kept (LIM-8) */

#define SPLICE_REFUSE_LIST(X) \
	X(NOT_LOOPBACK,		"connection or datagram with an address that is not loopback") \
	X(NO_DESCRIPTOR,	"out of file descriptors") \
	X(FULL,			"table of loopback flows full") \
	X(CONNECT,		"connection refused or not possible on the host") \
	X(UDP_OPEN,		"UDP socket could not be opened") \
	X(UDP_SEND,		"UDP datagram not taken by the kernel") \
	X(UDP_ERROR,		"UDP datagram refused by its target")

enum splice_refuse {
#define SPLICE_REFUSE_ENUM(name, text) SPLICE_REFUSE_##name,
	SPLICE_REFUSE_LIST(SPLICE_REFUSE_ENUM)
#undef SPLICE_REFUSE_ENUM
	SPLICE_REFUSE_CNT
};

enum splice_side {
	SPLICE_GUEST,			/* the socket in the namespace */
	SPLICE_HOST,
	SPLICE_SIDES
};

struct splice_stats {
	uint64_t flows[2];		/* ever begun, by enum sk_proto */
	uint64_t bytes[SPLICE_SIDES];	/* payload passed on, by the side that it came from */
	uint64_t refused[SPLICE_REFUSE_CNT];
};

struct splice_settings {
	struct sk_host *sk;
	struct hash_key key;		/* secret */
	ns_t timeout_oneway, timeout_stream;	/* of UDP flows (UDP-2) */
};

struct splice_pipe {
	int fd[2];
	uint32_t slot_cnt;		/* how many pieces it takes, of one byte each at the least */
};

struct splice_listener;
struct splice_flow;

struct splice {
	struct splice_settings set;
	struct splice_stats stats;
	bool flow_gone;			/* a flow has ended: descriptors are free. For the caller, who sets it back. */

	struct splice_listener *listener;	/* mapped, touched on use, as are flows and buckets */
	uint32_t listener_cnt;
	bool any_paused;

	struct splice_flow *flow;
	uint32_t fresh;			/* entries from here on were never used */
	uint32_t cnt[2];		/* open now, by enum sk_proto */
	uint32_t *bucket;		/* of UDP flows. Links hold index + 1, 0: none */
	uint32_t free_first, ready_first, ready_last;

	struct twheel tw;
	ns_t now;
	uint8_t *buf;			/* datagrams, and data that can't go through a pipe */
	struct splice_pipe pool[SPLICE_POOL];
	uint32_t pool_cnt;
};

int splice_open(struct splice *s, const struct splice_settings *set, ns_t now, struct err *e);
/* End everything; connections whose data from the guest has not been passed on to its end with RST, so that nobody takes
 * it for complete
 */
void splice_close(struct splice *s);

struct splice_listen {
	int h;				/* from sk_host_listen(), with the reference below */
	enum sk_proto proto;
	struct inaddr target;		/* unset: the loopback address that the client used */
	uint16_t port;			/* on the host */
};

/* Reference for the next listener to open; -ENOSPC in splice_listener_add() if there are too many */
struct ev_ref splice_listener_ref(const struct splice *s);
/* The handle is ours from now on, unless this fails */
int splice_listener_add(struct splice *s, const struct splice_listen *l);

/* An event with EV_KIND_SPLICE */
void splice_event(struct splice *s, const struct ev_hit *hit, ns_t now);
/* Flows that gave up their last turn, and those of UDP that nobody uses any more */
void splice_tick(struct splice *s, ns_t now);
/* When splice_tick() must run next: in the past if there is work, NS_NEVER if nothing is to come */
ns_t splice_next(const struct splice *s);
/* Accept again where that was given up for lack of descriptors or room */
void splice_resume(struct splice *s);
/* Whether data may still be on its way from the guest to the host */
bool splice_draining(const struct splice *s);

/* "NAME: text" of a refusal */
const char *splice_refuse_text(enum splice_refuse r);

#endif
