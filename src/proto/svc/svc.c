/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What ARP and neighbour discovery share: which addresses belong to the guest,
 * so that we answer for everybody else only (ARP-2, ARP-5, NDP-3).
 *
 * Invariant: an address in proto.owned is never our own nor the router's.
 */
#include "svc_priv.h"

bool svc_owned(const struct proto *p, const struct inaddr *a)
{
	const struct fwd_family_set *f = &p->fwd->f[fwd_family_of(a)];

	if (inaddr_eq(a, &f->guest) || inaddr_eq(a, &f->seen) || inaddr_eq(a, &f->seen_ll))
		return true;
	for (unsigned i = 0; i < PROTO_OWNED_MAX; i++) {
		if (inaddr_eq(a, &p->owned[i]))
			return true;
	}
	return false;
}

void svc_own(struct proto *p, const struct inaddr *a)
{
	const struct fwd_family_set *f = &p->fwd->f[fwd_family_of(a)];

	if (!inaddr_is_unicast(a) || inaddr_eq(a, &f->ours) || inaddr_eq(a, &f->gateway) || svc_owned(p, a))
		return;
	p->owned[p->owned_next] = *a;
	p->owned_next = (p->owned_next + 1) % PROTO_OWNED_MAX;
}

void svc_solicit(struct proto *p)
{
	svc_arp_solicit(p);
	svc_nd_solicit(p);
}
