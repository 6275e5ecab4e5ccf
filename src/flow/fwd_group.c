/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Destinations that are no single peer: groups, and broadcasts on the guest's
 * link. Broadcasts into other networks are a router's business, which refuses
 * them (RFC 2644): they are no groups here.
 *
 * RFC 919 7, RFC 922, RFC 1112; RFC 3021 (no broadcast on /31).
 */
#include "flow/fwd.h"

static const uint8_t fwd_all_ones[4] = { 255, 255, 255, 255 };

static bool fwd_is_net_broadcast(const struct fwd_family_set *s, const struct inaddr *a)
{
	const unsigned len = s->prefix_len;
	unsigned bits = len;

	if (!inaddr_is_v4(a) || inaddr_is_unset(&s->guest) || !len || len > 30 || !inaddr_in_prefix(a, &s->guest, len))
		return false;
	for (unsigned i = 12 + len / 8; i < 16; i++, bits = 0)
		if ((a->b[i] | (uint8_t)(0xff00u >> bits % 8)) != 0xff)
			return false;
	return true;
}

bool fwd_is_group(const struct fwd *w, const struct inaddr *dst)
{
	return inaddr_is_multicast(dst) || inaddr_is_broadcast(dst) ||
	       fwd_is_net_broadcast(&w->f[fwd_family_of(dst)], dst);
}

struct inaddr fwd_group_to_host(const struct fwd *w, const struct inaddr *dst)
{
	const struct fwd_family_set *s = &w->f[fwd_family_of(dst)];

	return s->same_net || !fwd_is_net_broadcast(s, dst) ? *dst : inaddr_v4(fwd_all_ones);
}
