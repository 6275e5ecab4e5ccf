/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host sockets of this kernel, behind the table of port/sk.h. A handle is a
 * descriptor.
 */
#ifndef HOST_SK_H
#define HOST_SK_H

#include <stdbool.h>
#include <sys/types.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "port/ev.h"
#include "port/sk.h"

enum sk_family { SK_V4, SK_V6, SK_FAMILIES };

#define SK_EPHEMERAL_PLACES	256u

struct sk_ports {
	uint16_t first, last;
};

struct sk_ephemeral {
	struct sk_ports ports;		/* net.ipv4.ip_local_port_range; the same: the kernel chooses */
	struct hash_key key;
	uint32_t used[SK_EPHEMERAL_PLACES];	/* connections so far, by destination */
};

struct sk_host_settings {
	struct sk_ports ephemeral;	/* net.ipv4.ip_local_port_range; all zero: leave the choice to the kernel */
	struct hash_key key;		/* secret */
	bool no_peek_off;		/* leave SO_PEEK_OFF alone, to measure and test without it */
	const char *outbound_if[SK_FAMILIES];	/* SO_BINDTODEVICE for what is not loopback; NULL: none */
	bool multicast;			/* groups are joined: share ports with programs of the host, published ones hear groups */
	bool freebind;			/* listen on addresses that the host doesn't have (yet) */
};

struct sk_slot;				/* per descriptor */
struct sk_ns;
struct sk_port;				/* per UDP port */

struct sk_host {
	struct sk sk;			/* hand this to others */
	struct ev *ev;
	struct sk_ns *ns;		/* where new sockets come from: the guest's network namespace; NULL: ours */
	struct sk_host_settings set;
	bool peek_off[SK_FAMILIES];	/* SO_PEEK_OFF works for TCP: IPv4 since Linux 6.10, IPv6 since 6.12 */
	bool v6;			/* the kernel has IPv6 at all */
	struct sk_slot *slot;		/* by descriptor, mapped, touched on use */
	uint32_t slot_cnt;
	struct sk_ephemeral ephemeral;
	struct sk_port *port;		/* of one network namespace, by number; mapped, touched on use */
	uint8_t *skip_buf;		/* what a peek without SO_PEEK_OFF reads over again */
	int guest_fd;			/* sock_diag(7) in the guest's namespace, valid if guest_ifindex is not 0 */
	uint32_t guest_ifindex;
};

/* 0 or negative errno. Raises the soft limit of descriptors to the hard one. */
int sk_host_open(struct sk_host *s, struct ev *ev, const struct sk_host_settings *set, struct err *e);

/* In the guest's namespace, whose interface towards us has the index IFINDEX: get guest_has() ready. 0 or negative errno. */
int sk_host_guest_open(struct sk_host *s, uint32_t ifindex, struct err *e);
/* The same again, but with sockets of another network namespace: to connect or open one takes one from NS's stock, and gives
 * what sk_ns_take() says if that is empty. Descriptors are known to both.
 */
void sk_host_inside(struct sk_host *ret, const struct sk_host *s, struct sk_ns *ns);

enum sk_proto { SK_TCP, SK_UDP };

struct sk_listen {
	enum sk_proto proto;
	bool any;			/* both families; addr is then unset */
	struct sk_addr addr;		/* to bind; unspecified of a family: its wildcard */
	const char *ifname;		/* SO_BINDTODEVICE, NULL: none */
	bool freebind;			/* this address, too, need not be there yet */
};

/* Listening socket (FWD-2, FWD-3) or a bound, unconnected UDP one; events with REF, edge-triggered for TCP (accept until
 * -EAGAIN; out of descriptors it does not spin), level-triggered for UDP. Handle or negative errno.
 */
int sk_host_listen(struct sk_host *s, const struct sk_listen *l, struct ev_ref ref);
/* Whether more data in the queue of the TCP socket H is reported, urgent too; its end and room always are. What is there when
 * it is reported again makes an edge. 0 or negative errno.
 */
int sk_host_hear(struct sk_host *s, int h, bool hear);
/* Whether INODE is that of a UDP socket of S itself which has PORT */
bool sk_host_is_ours(const struct sk_host *s, uint16_t port, uint32_t inode);
/* Whether something could listen on A now, of interface IFNAME unless NULL */
bool sk_host_has_addr(const struct inaddr *a, const char *ifname);

/* Whether group GID may use ping sockets (net.ipv4.ping_group_range), which count for both families */
bool sk_ping_permitted(gid_t gid);
/* Raw ICMP socket that receives replies to identifiers of this high byte alone: takes CAP_NET_RAW. Handle, or negative
 * errno. Its port in an address is the protocol's number.
 */
int sk_host_ping_raw(struct sk_host *s, bool v6, uint8_t high);

#endif
