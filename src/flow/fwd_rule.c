/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules of published ports in words: for people, and in the form that callers
 * know from reports (one rule a line).
 */
#include "flow/fwd.h"

#include <stdio.h>

static const char *fwd_proto_str(enum fwd_proto p)
{
	return p == FWD_TCP ? "TCP" : "UDP";
}

const char *fwd_rule_name(const struct fwd_rule *r, bool ns, unsigned first, unsigned last, char buf[FWD_RULE_STR_MAX])
{
	char addr[INADDR_STR_MAX], ports[32];

	snprintf(ports, sizeof(ports), first == last ? " %u" : "s %u to %u", first, last);
	snprintf(buf, FWD_RULE_STR_MAX, "%s port%s on %s%s%s", fwd_proto_str(r->proto), ports,
		 ns ? "the namespace's loopback" : r->any ? "any address" : inaddr_str(&r->listen, addr),
		 *r->ifname ? " of interface " : "", r->ifname);
	return buf;
}

const char *fwd_rule_line(const struct fwd_rule *r, bool ns, char buf[FWD_RULE_STR_MAX])
{
	char listen[INADDR_STR_MAX], target[INADDR_STR_MAX + 1] = "", from[16] = "", to[16] = "";
	unsigned target_last = r->target_first + (unsigned)(r->last - r->first);
	const char *ifname = ns ? "lo" : r->ifname;

	if (!inaddr_is_unset(&r->target)) {
		char a[INADDR_STR_MAX];

		snprintf(target, sizeof(target), "%s:", inaddr_str(&r->target, a));
	}
	if (r->first != r->last) {
		snprintf(from, sizeof(from), "-%u", r->last);
		snprintf(to, sizeof(to), "-%u", target_last);
	}
	snprintf(buf, FWD_RULE_STR_MAX, "%s [%s]%s%s:%u%s  =>  %s%u%s %s%s", fwd_proto_str(r->proto),
		 r->any ? "*" : inaddr_str(&r->listen, listen), *ifname ? "%" : "", ifname, r->first, from, target,
		 r->target_first, to, r->weak ? " (best effort)" : "", r->scan ? " (auto-scan)" : "");
	return buf;
}
