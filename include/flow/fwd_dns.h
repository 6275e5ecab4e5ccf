/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resolvers behind the forwarding address, and what is known of their
 * health: which one to ask next.
 */
#ifndef FLOW_FWD_DNS_H
#define FLOW_FWD_DNS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/ns.h"

#define FWD_DNS_MAX	6		/* three of each family */

/* Ports 53 and 853 of each protocol: a server without DNS over TLS is none the worse at plain queries */
enum fwd_dns_service { FWD_DNS_UDP, FWD_DNS_TCP, FWD_DNS_QUIC, FWD_DNS_TLS, FWD_DNS_SERVICES };

struct fwd_dns_health {
	ns_t bad_until;			/* not asked before that, as long as there is another */
	uint8_t failed_cnt;		/* in a row */
};

struct fwd_dns_server {
	struct inaddr addr;
	uint32_t scope;			/* interface index of a link-local IPv6 address, 0: that of the guest's link-local targets */
	struct fwd_dns_health health[FWD_DNS_SERVICES];
};

struct fwd_dns {			/* all zero: none */
	struct fwd_dns_server server[FWD_DNS_MAX];	/* in order of preference */
	unsigned cnt;
	uint32_t gen;			/* counts lists: what was learned of an older one is void */
};

struct fwd;

/* The list for a guest's destination; NULL: it isn't the forwarding address, or there is no resolver */
struct fwd_dns *fwd_dns_of(struct fwd *w, const struct inaddr *dst, uint16_t port);
/* A new list: true if it differs from the present one. Health is kept if not. */
bool fwd_dns_set(struct fwd_dns *d, const struct fwd_dns_server *server, unsigned cnt);
/* The server to ask, of those whose bit in ASKED is clear; -1: none */
int fwd_dns_pick(const struct fwd_dns *d, enum fwd_dns_service s, uint32_t asked, ns_t now);
/* Server I refused, or was silent */
void fwd_dns_failed(struct fwd_dns *d, unsigned i, enum fwd_dns_service s, ns_t now);
void fwd_dns_answered(struct fwd_dns *d, unsigned i, enum fwd_dns_service s);

#endif
