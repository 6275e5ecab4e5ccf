/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of flows to the forwarding address share: the address, and
 * resolvers of both families behind it.
 */
#ifndef RIG_DNS_H
#define RIG_DNS_H

#include "proto/dns.h"

/* 0 and 2 of the guest's family, 1 of the other */
static inline struct inaddr dns_server(bool v4, unsigned i)
{
	const char *four[] = { "198.51.100.1", "2001:db8:5::2", "198.51.100.3" };
	const char *six[] = { "2001:db8:5::1", "198.51.100.2", "fe80::3" };

	return rig_addr((v4 ? four : six)[i]);
}

/* The first CNT of them; returns the forwarding address */
static inline struct inaddr dns_list(struct fwd *w, bool v4, unsigned cnt)
{
	struct fwd_family_set *s = &w->f[v4 ? FWD_V4 : FWD_V6];
	struct fwd_dns_server l[3];

	for (unsigned i = 0; i < 3; i++)
		l[i] = (struct fwd_dns_server){ .addr = dns_server(v4, i) };
	w->f[FWD_V6].scope = 3;
	s->dns_match = rig_addr(v4 ? "169.254.1.1" : "fd99::53");
	fwd_dns_set(&s->dns, l, cnt);
	return s->dns_match;
}

#endif
