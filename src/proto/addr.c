/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a flow of the guest goes on the host: translated address with the
 * interface that link-local ones need, and the source that --outbound asks
 * for. Decides nothing about reachability: the kernel does (NAT-1, NAT-4,
 * NAT-8).
 */
#include "proto/proto.h"

/* RFC 4291 2.7: groups of interface-local and link-local scope */
static bool addr_needs_scope(const struct inaddr *a)
{
	if (inaddr_is_v4(a))
		return false;
	return inaddr_is_linklocal(a) || (a->b[0] == 0xff && (a->b[1] & 0xf) <= 2);
}

struct sk_addr proto_host_addr(const struct proto *p, const struct inaddr *dst, uint16_t port)
{
	struct sk_addr to = { .a = fwd_to_host(p->fwd, dst, port), .port = port };

	if (addr_needs_scope(&to.a))
		to.scope = p->fwd->f[FWD_V6].scope;
	return to;
}

struct inaddr proto_host_from(const struct proto *p, const struct sk_addr *to)
{
	static const struct inaddr none;

	if (inaddr_is_loopback(&to->a) || inaddr_is_linklocal(&to->a))
		return none;
	return p->fwd->f[fwd_family_of(&to->a)].outbound;
}
