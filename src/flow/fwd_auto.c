/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What "auto" listens on (FWD-5). The bound address counts (FWD-6): where a service can't be reached from, nobody is
 * accepted just to be reset, and a service on a loopback address is opened for clients on loopback, at its own address, or
 * not at all.
 *
 * - From the host, remote clients arrive at the guest's address through its link, so the service must be bound to that, or to
 *   all. Its loopback is reached only with --host-lo-to-ns-lo, and by clients of the host's loopback.
 * - From the namespace only the host's loopback is reached (NAT-33).
 * - Each family is opened for itself. For clients on loopback, who may take "localhost" for either, a service of one family
 *   is opened on the other loopback address too: the splice tries both.
 * - Rules of UDP follow what TCP listens on as well, for protocols that use both.
 *
 * Refuses to know sockets of our own: the caller leaves them out, or two directions would feed each other for ever.
 */
#include "flow/fwd_auto.h"

#define FWD_IFINDEX_LO	1		/* in each namespace */

struct fwd_group {			/* sockets of one port */
	const struct fwd_bound *v;
	unsigned cnt;
};

enum fwd_has {
	FWD_HAS_NONE,
	FWD_HAS_SOME,
	FWD_HAS_LOCALHOST,		/* what clients get who ask for "localhost" */
};

struct fwd_out {
	struct fwd_want *v;
	unsigned cnt, max;
	unsigned begin;			/* of the port that is being looked at */
};

static int fwd_addr_cmp(const struct inaddr *x, const struct inaddr *y)
{
	const enum fwd_family fx = fwd_family_of(x), fy = fwd_family_of(y);

	return fx == fy ? memcmp(x->b, y->b, sizeof(x->b)) : (int)fx - (int)fy;
}

int fwd_bound_cmp(const void *x, const void *y)
{
	const struct fwd_bound *a = x, *b = y;

	return a->port == b->port ? fwd_addr_cmp(&a->addr, &b->addr) : (int)a->port - (int)b->port;
}

int fwd_want_cmp(const struct fwd_want *x, const struct fwd_want *y)
{
	if (x->rule != y->rule)
		return (int)x->rule - (int)y->rule;
	return x->port == y->port ? fwd_addr_cmp(&x->listen, &y->listen) : (int)x->port - (int)y->port;
}

static struct inaddr fwd_any(enum fwd_family family)
{
	static const uint8_t zero[16];

	return family == FWD_V4 ? inaddr_v4(zero) : inaddr_v6(zero);
}

static struct inaddr fwd_lo(enum fwd_family family)
{
	static const uint8_t lo4[4] = { 127, 0, 0, 1 };
	static const uint8_t lo6[16] = { [15] = 1 };

	return family == FWD_V4 ? inaddr_v4(lo4) : inaddr_v6(lo6);
}

static bool fwd_serves(const struct fwd_bound *b, enum fwd_family family)
{
	return b->both || fwd_family_of(&b->addr) == family;
}

/* Where the guest is reached through its link */
static bool fwd_at_guest(const struct fwd *w, const struct inaddr *a)
{
	const struct fwd_family_set *s = &w->f[fwd_family_of(a)];

	return inaddr_eq(a, inaddr_is_unset(&s->seen) ? &s->guest : &s->seen) || inaddr_eq(a, &s->seen_ll);
}

/* Whoever comes to the rule's ports reaches this service */
static bool fwd_reach_all(const struct fwd_auto *s, const struct fwd_rule *r, const struct fwd_bound *b)
{
	const uint32_t link = s->ns ? FWD_IFINDEX_LO : s->guest_ifindex;

	if ((!s->ns && !s->link) || (b->ifindex && b->ifindex != link))
		return false;
	if (inaddr_is_unset(&b->addr))
		return true;
	if (!inaddr_is_unset(&r->target))
		return inaddr_eq(&b->addr, &r->target);
	return !s->ns && fwd_at_guest(s->fwd, &b->addr);
}

/* Only who is on loopback does, at *RET_ADDR */
static bool fwd_reach_lo(const struct fwd_auto *s, const struct fwd_rule *r, const struct fwd_bound *b, enum fwd_family family,
			 struct inaddr *ret_addr)
{
	if (!s->splice || (!s->ns && !s->lo_to_lo) || !inaddr_is_unset(&r->target))
		return false;
	if (b->ifindex && b->ifindex != FWD_IFINDEX_LO)
		return false;
	*ret_addr = inaddr_is_unset(&b->addr) ? fwd_lo(family) : b->addr;
	return inaddr_is_loopback(ret_addr);
}

/* Whether the rule listens where clients of loopback address A come */
static bool fwd_takes_lo(const struct fwd_rule *r, const struct inaddr *a)
{
	if (*r->ifname && strcmp(r->ifname, "lo"))
		return false;
	return r->any || (fwd_family_of(&r->listen) == fwd_family_of(a) &&
			  (inaddr_is_unset(&r->listen) || inaddr_eq(&r->listen, a)));
}

/* In order among those of the port; once, whoever asks for it: SO_REUSEPORT, or TCP beside UDP */
static void fwd_put(struct fwd_out *o, unsigned rule, unsigned port, const struct inaddr *listen)
{
	const struct fwd_want w = { *listen, (uint16_t)rule, (uint16_t)port };
	unsigned i = o->cnt;

	if (o->cnt >= o->max) {
		o->cnt++;
		return;
	}
	while (i > o->begin && fwd_want_cmp(&o->v[i - 1], &w) > 0)
		i--;
	if (i > o->begin && !fwd_want_cmp(&o->v[i - 1], &w))
		return;
	memmove(&o->v[i + 1], &o->v[i], (o->cnt - i) * sizeof(w));
	o->v[i] = w;
	o->cnt++;
}

/* One family of one port of a rule: what it has to offer, and gets opened */
static enum fwd_has fwd_family_wants(const struct fwd_auto *s, unsigned rule, unsigned port, enum fwd_family family,
				     const struct fwd_group *g, struct fwd_out *o)
{
	const struct fwd_rule *r = &s->rules->rule[rule];
	const struct inaddr lo = fwd_lo(family);
	enum fwd_has has = FWD_HAS_NONE;
	struct inaddr a;

	if (!s->fwd->f[family].on || (!r->any && fwd_family_of(&r->listen) != family))
		return FWD_HAS_NONE;
	for (unsigned i = 0; i < g->cnt; i++) {
		const struct fwd_bound *b = &g->v[i];

		if ((b->proto == FWD_UDP && r->proto == FWD_TCP) || !fwd_serves(b, family) || !fwd_reach_all(s, r, b))
			continue;
		a = r->any ? fwd_any(family) : r->listen;
		fwd_put(o, rule, port, &a);
		return FWD_HAS_LOCALHOST;
	}
	for (unsigned i = 0; i < g->cnt; i++) {
		const struct fwd_bound *b = &g->v[i];

		if ((b->proto == FWD_UDP && r->proto == FWD_TCP) || !fwd_serves(b, family))
			continue;
		if (!fwd_reach_lo(s, r, b, family, &a) || !fwd_takes_lo(r, &a))
			continue;
		fwd_put(o, rule, port, &a);
		if (has != FWD_HAS_LOCALHOST)
			has = inaddr_eq(&a, &lo) ? FWD_HAS_LOCALHOST : FWD_HAS_SOME;
	}
	return has;
}

static void fwd_port_wants(const struct fwd_auto *s, unsigned rule, unsigned port, const struct fwd_group *g, struct fwd_out *o)
{
	const struct fwd_rule *r = &s->rules->rule[rule];
	enum fwd_has v4, v6;
	struct inaddr lo;

	o->begin = o->cnt;
	v4 = fwd_family_wants(s, rule, port, FWD_V4, g, o);
	v6 = fwd_family_wants(s, rule, port, FWD_V6, g, o);
	if (!r->any || !s->splice || (v4 && v6) || (v4 != FWD_HAS_LOCALHOST && v6 != FWD_HAS_LOCALHOST))
		return;
	lo = fwd_lo(v4 ? FWD_V6 : FWD_V4);
	if (s->fwd->f[fwd_family_of(&lo)].on && fwd_takes_lo(r, &lo))
		fwd_put(o, rule, port, &lo);
}

/* The first one at PORT or above */
static unsigned fwd_bound_find(const struct fwd_bound *v, unsigned cnt, unsigned port)
{
	unsigned low = 0, high = cnt;

	while (low < high) {
		const unsigned mid = low + (high - low) / 2;

		if (v[mid].port < port)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

unsigned fwd_auto_wants(const struct fwd_auto *s, const struct fwd_bound *bound, unsigned cnt, struct fwd_want *ret, unsigned max)
{
	struct fwd_out o = { .v = ret, .max = max };

	for (unsigned rule = 0; rule < s->rules->cnt; rule++) {
		const struct fwd_rule *r = &s->rules->rule[rule];
		const unsigned target_last = r->target_first + (unsigned)(r->last - r->first);
		unsigned i;

		if (!r->scan)
			continue;
		for (i = fwd_bound_find(bound, cnt, r->target_first); i < cnt && bound[i].port <= target_last;) {
			struct fwd_group g = { &bound[i], 1 };

			while (i + g.cnt < cnt && bound[i + g.cnt].port == bound[i].port)
				g.cnt++;
			fwd_port_wants(s, rule, r->first + (unsigned)(bound[i].port - r->target_first), &g, &o);
			i += g.cnt;
		}
	}
	return o.cnt;
}
