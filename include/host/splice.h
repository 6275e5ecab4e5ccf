/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Flows from socket to socket, past the guest link: from loopback ports of the
 * namespace to the host's loopback (listeners were opened inside, they are
 * ours), and from the host's loopback into the namespace (listeners are the
 * caller's, who hands over what is local; the other socket comes from host/sk_ns).
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
#include "base/trace.h"
#include "base/twheel.h"
#include "host/sk.h"

#define SPLICE_FLOW_MAX		65536u
#define SPLICE_LISTENER_MAX	327680u		/* LIM-1 */
#define SPLICE_TRACED		(1u << 31)	/* our flows have their index plus this in the trace, which tells no more than that they begin */
#define SPLICE_POOL		32		/* empty pipes kept (LIM-8) */

#define SPLICE_REFUSE_LIST(X) \
	X(NOT_LOOPBACK,		"connection or datagram with an address that is not loopback") \
	X(NO_DESCRIPTOR,	"out of file descriptors") \
	X(FULL,			"table of loopback flows full") \
	X(CONNECT,		"connection refused or not possible on the other side") \
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
	struct sk_host *inside;		/* takes sockets from within the namespace */
	bool one_family;		/* never try the other family's loopback */
	struct hash_key key;		/* secret */
	ns_t timeout_oneway, timeout_stream;	/* of UDP flows (UDP-2) */
	struct trace *tr;		/* NULL: none */
};

struct splice_pipe {
	int fd[2];
	uint32_t slot_cnt;		/* how many pieces it takes, of one byte each at the least */
	uint32_t len;			/* how many bytes, if each piece is a page */
};

struct splice_listener;
struct splice_flow;

struct splice {
	struct splice_settings set;
	struct splice_stats stats;
	bool flow_gone;			/* descriptors or room are free again. For the caller, who sets it back. */

	struct splice_listener *listener;	/* mapped, touched on use, as are flows and buckets */
	uint32_t listener_cnt;		/* in use, or free again */
	uint32_t listener_free;		/* first one that is free again: index + 1, 0: none */
	bool any_paused;

	struct splice_flow *flow;
	uint32_t fresh;			/* entries from here on were never used */
	uint32_t cnt[2];		/* open now, by enum sk_proto */
	uint32_t evict_at;		/* where to look next for a UDP flow that can go */
	uint32_t *bucket;		/* of UDP flows. Links hold index + 1, 0: none */
	uint32_t free_first, ready_first, ready_last;
	uint32_t wait_first, wait_last, wait_cnt;	/* accepted, but there was no socket inside at hand */

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
/* The handle is ours from now on, unless this fails. Its index, or negative errno. */
int splice_listener_add(struct splice *s, const struct splice_listen *l);
int splice_listener_handle(const struct splice *s, uint32_t idx);
/* Close one. Its connections go on; flows of UDP, whose datagrams left through it, end. */
void splice_listener_close(struct splice *s, uint32_t idx);

struct splice_way {			/* into the namespace */
	struct sk_addr to;
	struct sk_addr alt;		/* where else, if nobody listens there, port 0: nowhere */
};

/* Whether there is room for another connection from the host */
bool splice_takes(const struct splice *s);
/* A connection H that was accepted on the host: ours from now on */
void splice_accepted(struct splice *s, int h, const struct splice_way *w);
/* N datagrams of one client to one address, received by H, a socket of a published port; replies leave through it */
void splice_dgrams(struct splice *s, int h, struct sk_dgram *d, int n, const struct splice_way *w);
/* H is about to be closed: end its flows */
void splice_listener_gone(struct splice *s, int h);

/* An event with EV_KIND_SPLICE */
void splice_event(struct splice *s, const struct ev_hit *hit, ns_t now);
/* Flows that gave up their last turn, and those of UDP that nobody uses any more */
void splice_tick(struct splice *s, ns_t now);
/* When splice_tick() must run next: in the past if there is work, NS_NEVER if nothing is to come */
ns_t splice_next(const struct splice *s);
/* Go on where that was given up for lack of descriptors, room, or sockets inside */
void splice_resume(struct splice *s);
/* Whether data may still be on its way from the guest to the host */
bool splice_draining(const struct splice *s);

struct splice_ends {
	enum sk_proto proto;
	struct sk_addr end[SPLICE_SIDES];	/* the client's at the one, where it leads at the other */
};

/* Those of the flow with that index, for the log: costs a call. False if it has ended. */
bool splice_ends(const struct splice *s, uint32_t idx, struct splice_ends *ret);
/* "NAME: text" of a refusal */
const char *splice_refuse_text(enum splice_refuse r);

#endif
