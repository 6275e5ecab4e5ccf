/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules of published ports in words: for people, and in the form that callers
 * know from reports (one rule a line). And whether two of them chase each other.
 */
#include "flow/fwd.h"

#include <stdio.h>
#include <string.h>

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

/* Whether what is sent to loopback arrives on loopback; LO: if no target says otherwise */
static bool is_local(const struct fwd_rule *r, bool lo)
{
	if (r->scan || (*r->ifname && strcmp(r->ifname, "lo")))
		return false;
	if (!r->any && !inaddr_is_unset(&r->listen) && !inaddr_is_loopback(&r->listen))
		return false;
	return inaddr_is_unset(&r->target) ? lo : inaddr_is_loopback(&r->target);
}

const struct fwd_rule *fwd_rules_back(const struct fwd_rule *r, uint16_t port, bool lo, const struct fwd_rules *back, bool back_lo)
{
	const unsigned there = r->target_first + (unsigned)(port - r->first);

	for (unsigned i = 0; is_local(r, lo) && i < back->cnt; i++) {
		const struct fwd_rule *b = &back->rule[i];

		if (b->proto == r->proto && there >= b->first && there <= b->last && b->target_first + (there - b->first) == port &&
		    is_local(b, back_lo))
			return b;
	}
	return NULL;
}
