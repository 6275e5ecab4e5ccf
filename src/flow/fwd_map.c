/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address translation between guest and host: a function of the settings and
 * of the guest's addresses seen so far.
 *
 * It never maps one family to the other, and validates no destination: that is
 * for the protocols. Replies inside a flow don't come here, they keep the
 * addresses of the flow's key.
 *
 * Invariant: an unset address in the settings matches nothing.
 *
 * RFC 4291 2.5.3 and RFC 1122 3.2.1.3: loopback addresses never appear on a
 * link, so they are always translated, or the flow is refused.
 */
#include "flow/fwd.h"

#include <errno.h>

#define FWD_PORT_DNS	53
#define FWD_PORT_DOT	853		/* RFC 7858 3.1 */

static bool fwd_is(const struct inaddr *setting, const struct inaddr *a)
{
	return !inaddr_is_unset(setting) && inaddr_eq(setting, a);
}

/* The one loopback address that has an alias on the link, not the whole of 127/8 */
static struct inaddr fwd_loopback(enum fwd_family family)
{
	return inaddr_loopback(family == FWD_V4);
}

struct inaddr fwd_to_host(const struct fwd *w, const struct inaddr *dst, uint16_t port)
{
	enum fwd_family family = fwd_family_of(dst);
	const struct fwd_family_set *s = &w->f[family];

	if ((port == FWD_PORT_DNS || port == FWD_PORT_DOT) && fwd_is(&s->dns_match, dst) &&
	    !inaddr_is_unset(&s->dns_host))
		return s->dns_host;
	if (fwd_is(&s->host_loopback, dst))
		return fwd_loopback(family);
	if (fwd_is(&s->host_guest, dst) && !inaddr_is_unset(&s->host_own))
		return s->host_own;
	return *dst;
}

bool fwd_is_guest(const struct fwd *w, const struct inaddr *a)
{
	const struct fwd_family_set *s = &w->f[fwd_family_of(a)];

	for (unsigned i = 0; i < s->more_cnt; i++)
		if (inaddr_eq(&s->more[i], a))
			return true;
	return fwd_is(&s->guest, a) || fwd_is(&s->seen, a) || fwd_is(&s->seen_ll, a);
}

/* Place of A in the shared addresses of its family, -1: it has none */
static int fwd_shared_idx(const struct fwd_family_set *s, const struct inaddr *a)
{
	for (unsigned i = 0; i < s->shared_cnt; i++)
		if (inaddr_eq(&s->shared[i], a))
			return (int)i;
	return -1;
}

bool fwd_is_shared(const struct fwd *w, const struct inaddr *a)
{
	return fwd_shared_idx(&w->f[fwd_family_of(a)], a) >= 0;
}

bool fwd_is_lost(const struct fwd *w, const struct inaddr *a)
{
	const struct fwd_family_set *s = &w->f[fwd_family_of(a)];
	int i = fwd_shared_idx(s, a);

	return i >= 0 && s->shared_lost & 1u << i;
}

int fwd_from_host(const struct fwd *w, const struct inaddr *peer, struct inaddr *ret)
{
	enum fwd_family family = fwd_family_of(peer);
	const struct fwd_family_set *s = &w->f[family];
	struct inaddr lo = fwd_loopback(family);

	if (!s->on || inaddr_is_unset(peer) || inaddr_is_multicast(peer) || inaddr_is_broadcast(peer))
		return -EADDRNOTAVAIL;

	if (inaddr_eq(peer, &lo) && !inaddr_is_unset(&s->host_loopback)) {
		*ret = s->host_loopback;
		return 0;
	}
	if (fwd_is(&s->guest, peer) && !inaddr_is_unset(&s->host_guest)) {
		*ret = s->host_guest;
		return 0;
	}
	if (!inaddr_is_loopback(peer) && !fwd_is_guest(w, peer)) {
		*ret = *peer;
		return 0;
	}

	/* To the guest, the source would be itself: we stand in for the peer */
	if (inaddr_is_unset(&s->ours))
		return -EADDRNOTAVAIL;
	*ret = s->ours;
	return 0;
}

int fwd_guest_addr(const struct fwd *w, const struct inaddr *src, struct inaddr *ret)
{
	enum fwd_family family = fwd_family_of(src);
	const struct fwd_family_set *s = &w->f[family];

	if (!s->on)
		return -EADDRNOTAVAIL;

	/* A guest that hasn't shown its link-local address yet answers link-local sources from any other: it is on-link */
	if (family == FWD_V6 && inaddr_is_linklocal(src) && !inaddr_is_unset(&s->seen_ll))
		*ret = s->seen_ll;
	else if (!inaddr_is_unset(&s->seen))
		*ret = s->seen;
	else if (!inaddr_is_unset(&s->guest))
		*ret = s->guest;
	else
		return -EADDRNOTAVAIL;
	return 0;
}

void fwd_seen(struct fwd *w, const struct inaddr *src)
{
	enum fwd_family family = fwd_family_of(src);
	struct fwd_family_set *s = &w->f[family];

	if (!s->on || inaddr_is_loopback(src) || !inaddr_is_unicast(src))
		return;
	/* Ours on the link: the guest can't own it, and flows towards it would come back to us */
	if (fwd_is(&s->ours, src) || fwd_is(&s->gateway, src))
		return;

	if (family == FWD_V6 && inaddr_is_linklocal(src)) {
		s->seen_ll = *src;
		if (inaddr_is_unset(&s->guest))		/* local mode: nothing was assigned */
			s->guest = *src;
		if (!inaddr_is_unset(&s->seen))
			return;
	}
	if (!w->seen_fixed[family])
		s->seen = *src;
}
