/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The way of one flow through the resolvers behind the forwarding address.
 */
#ifndef PROTO_DNS_H
#define PROTO_DNS_H

#include "proto/proto.h"

#define PROTO_DNS_PORT	53

struct proto_dns {			/* all zero: the flow does not go there */
	uint32_t gen;			/* of the list */
	uint8_t asked;			/* bits: servers that this flow has tried */
	uint8_t server;			/* the present one */
	bool on;
};

_Static_assert(FWD_DNS_MAX <= 8, "bits of `asked`");

/* Go to the next server: its address and port; false: there is none that was not tried, or this is no forwarding address.
 * After a change of the list all are new.
 */
bool proto_dns_next(struct proto *p, const struct flow_key *key, struct proto_dns *d, struct sk_addr *ret);
/* The flow's list has been replaced since */
bool proto_dns_stale(const struct proto *p, const struct flow_key *key, const struct proto_dns *d);
/* Whether there is a server that was not tried */
bool proto_dns_more(const struct proto *p, const struct flow_key *key, const struct proto_dns *d);
/* The present server refused or was silent; or it lives */
void proto_dns_failed(const struct proto *p, const struct flow_key *key, const struct proto_dns *d);
void proto_dns_answered(const struct proto *p, const struct flow_key *key, const struct proto_dns *d);
/* It failed the last time it was tried */
bool proto_dns_doubted(const struct proto *p, const struct flow_key *key, const struct proto_dns *d);

#endif
