/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups that the guest joins: its reports become memberships of the host, and
 * we are the querier on its link, so that they end if it forgets to leave. A
 * question every two minutes, and only while there are groups. Nothing is
 * joined that concerns the guest's link only.
 *
 * What the guest sends to a group the host's kernel also gives to members on
 * this host, us among them: what just went out does not come back in. Another
 * host may say the same at the same time, and is heard.
 *
 * RFC 2236 3, RFC 3376 6, RFC 2710 4, RFC 3810 7, RFC 4605; W-4.
 */
#include "proto/group.h"

#include <errno.h>

#include "base/bytes.h"
#include "proto/udp.h"
#include "wire/group.h"

#define GROUP_QUERY_S	125		/* between general queries (RFC 3376 8.2) ... */
#define GROUP_STARTUP	(GROUP_QUERY_S * NS_S / 4)	/* ... the first two of them (8.6) */
#define GROUP_ANSWER_MS	10000		/* they may be answered within this time (8.3) */
#define GROUP_LIFE	((2 * GROUP_QUERY_S + 10) * NS_S)	/* of a membership that nobody reports again (8.4) */
#define GROUP_LAST_MS	1000		/* after a leave: who is left answers within this time (8.8), two questions */
#define GROUP_ECHO	(100 * NS_MS)	/* the kernel gives it back at once, but we may be busy */
#define GROUP_HASHED	256u		/* bytes of a datagram that tell it from others */

/* Ports that groups are registered for, those below 1024 apart: 16 low bits of an IPv6 group's identifier */
static const struct {
	uint8_t v4[4];
	uint32_t v6;
	uint16_t port[2];
} group_known[] = {
	{ { 224, 0, 0, 251 },	  0xfb,	   { 5353 } },		/* mDNS, RFC 6762 */
	{ { 224, 0, 0, 252 },	  0x10003, { 5355 } },		/* LLMNR, RFC 4795 */
	{ { 239, 255, 255, 250 }, 0xc,	   { 1900, 3702 } },	/* SSDP, WS-Discovery */
	{ { 224, 0, 1, 187 },	  0xfd,	   { 5683 } },		/* CoAP, RFC 7252 12.8 */
};

bool group_is_mld(uint8_t icmp6_type)
{
	return icmp6_type == WIRE_ICMP6_MLD2_REPORT ||
	       (icmp6_type >= WIRE_ICMP6_MLD_QUERY && icmp6_type <= WIRE_ICMP6_MLD_DONE);
}

/* The group's identifier (RFC 4291 2.7); IPv4: all of it */
static uint32_t group_id(const struct inaddr *a)
{
	return bytes_get32(a->b + 12);
}

static bool group_is_wide(const struct inaddr *a)
{
	static const uint8_t zero[9];

	return !inaddr_is_v4(a) && memcmp(a->b + 2, zero, sizeof(zero));
}

/* Groups that every node, or every router, is in, of addresses or within the guest */
static bool group_is_local(const struct inaddr *a)
{
	const uint32_t id = group_id(a);

	if (inaddr_is_v4(a))
		return id == 0xe0000001 || id == 0xe0000002 || id == 0xe0000016;
	if ((a->b[1] & 15) < 2)
		return true;
	if ((a->b[1] & 15) > 2 || group_is_wide(a))
		return false;
	/* solicited-node: its 32 bits begin with 1:ff */
	return (a->b[11] == 1 && a->b[12] == 0xff) || (!a->b[11] && (id == 1 || id == 2 || id == 0x16));
}

static struct group *group_find(struct proto_groups *gs, const struct inaddr *a)
{
	for (uint32_t i = 0; i < gs->cnt; i++)
		if (inaddr_eq(&gs->g[i].a, a))
			return &gs->g[i];
	return NULL;
}

static ns_t group_life(const struct proto *p, const struct inaddr *a)
{
	/* MLD's questions come from a link-local address, or are not heard */
	if (!inaddr_is_v4(a) && !inaddr_is_linklocal(&p->fwd->f[FWD_V6].ours))
		return NS_NEVER;
	return p->env->now + GROUP_LIFE;
}

/* Ask who is in GROUP, unset: in any */
static void group_ask(struct proto *p, enum fwd_family fam, const struct inaddr *group, uint32_t resp_ms)
{
	static const uint8_t none4[4];
	struct inaddr src = p->fwd->f[fam].ours, dst;
	uint8_t ip[WIRE_GROUP_QUERY_MAX], eth[PROTO_HDR_MAX];
	struct l2_frame f;
	uint32_t len;

	if (fam == FWD_V4 && inaddr_is_unset(&src))
		src = inaddr_v4(none4);	/* RFC 4541 2.1.1 */
	if (fam == FWD_V6 && !inaddr_is_linklocal(&src))
		return;
	len = wire_group_emit_query(ip, &src, group, resp_ms, GROUP_QUERY_S, &dst);
	if (!proto_reserve(p->env, &f, WIRE_ETH_LEN + len))
		return;
	proto_emit_l3(p->env, eth, &src, &dst, 0, 0, 0);	/* for its Ethernet header */
	view_scatter(f.iov, 0, eth, WIRE_ETH_LEN);
	view_scatter(f.iov, WIRE_ETH_LEN, ip, len);
	proto_commit(p->env, &f);
}

static void group_arm(struct proto *p)
{
	struct proto_groups *gs = p->groups;
	ns_t at = BYTES_MIN(gs->query_at[FWD_V4], gs->query_at[FWD_V6]);

	for (uint32_t i = 0; i < gs->cnt; i++)
		at = BYTES_MIN(at, BYTES_MIN(gs->g[i].until, gs->g[i].ask_at));
	gs->timer.kind = GROUP_TIMER;
	twheel_arm(p->env->tw, &gs->timer, gs->cnt ? at : NS_NEVER);
}

static void group_end(struct proto *p, struct group *g)
{
	struct proto_groups *gs = p->groups;

	for (uint32_t i = 0; i < g->port_cnt; i++)
		udp_group_ignore(p, &g->a, g->port[i]);
	p->env->sk->ops->close(p->env->sk, g->h, SK_END_GRACEFUL);
	*g = gs->g[--gs->cnt];
}

static void group_listen(struct proto *p, struct group *g, uint16_t port)
{
	int r;

	for (uint32_t i = 0; i < g->port_cnt; i++)
		if (g->port[i] == port)
			return;
	if (g->port_cnt == GROUP_PORTS) {
		env_drop(p->env, DROP_GROUP_FULL);
		return;
	}
	r = udp_group_receive(p, &g->a, port, p->fwd->f[fwd_family_of(&g->a)].group_scope);
	g->port[g->port_cnt++] = port;	/* in vain: not tried again */
	if (r && r != -EALREADY)
		env_drop(p->env, DROP_GROUP_OPEN);
	trace_add(p->env->tr, p->env->now, "group: port", 0, port, (uint32_t)-r);
}

void group_port(struct proto *p, const struct inaddr *a, uint16_t port)
{
	struct group *g = group_find(p->groups, a);

	if (g)
		group_listen(p, g, port);
}

static void group_known_ports(struct proto *p, struct group *g)
{
	const bool v4 = inaddr_is_v4(&g->a);

	for (unsigned i = 0; i < BYTES_COUNT(group_known); i++) {
		if (v4 ? memcmp(group_known[i].v4, g->a.b + 12, 4) : group_is_wide(&g->a) ||
		    ((uint32_t)g->a.b[11] << 24 | (group_id(&g->a) & 0xffffff)) != group_known[i].v6)
			continue;
		for (unsigned n = 0; n < BYTES_COUNT(group_known[i].port) && group_known[i].port[n]; n++)
			group_listen(p, g, group_known[i].port[n]);
	}
}

static void group_begin(struct proto *p, const struct inaddr *a)
{
	const enum fwd_family fam = fwd_family_of(a);
	const struct sk_addr to = { .a = *a, .scope = p->fwd->f[fam].group_scope };
	struct proto_groups *gs = p->groups;
	bool first = true;
	struct group *g;
	int h;

	if (gs->cnt == GROUP_MAX) {
		env_drop(p->env, DROP_GROUP_FULL);
		return;
	}
	h = p->env->sk->ops->group_open(p->env->sk, (struct ev_ref){ 0 }, SK_GROUP_HOLD, NULL, &to);
	trace_add(p->env->tr, p->env->now, "group: join", 0, group_id(a), (uint32_t)(h < 0 ? -h : 0));
	if (h < 0) {
		env_drop(p->env, DROP_GROUP_OPEN);
		return;
	}
	for (uint32_t i = 0; i < gs->cnt; i++)
		first &= fwd_family_of(&gs->g[i].a) != fam;
	g = &gs->g[gs->cnt++];
	*g = (struct group){ .a = *a, .h = h, .ask_at = NS_NEVER, .until = group_life(p, a) };
	if (first) {
		gs->queries[fam] = 0;
		gs->query_at[fam] = p->env->now + GROUP_STARTUP;
	}
	if (gs->cnt == 1)
		gs->query_at[!fam] = NS_NEVER;
	group_known_ports(p, g);
}

static void group_said(struct proto *p, const struct wire_group *w)
{
	struct group *g = group_find(p->groups, &w->a);

	if (group_is_local(&w->a) || w->what == WIRE_GROUP_KEEP)
		return;
	if (w->what == WIRE_GROUP_JOIN && !g) {
		group_begin(p, &w->a);
	} else if (w->what == WIRE_GROUP_JOIN) {
		g->until = group_life(p, &w->a);
		g->ask_at = NS_NEVER;
	} else if (g && g->ask_at == NS_NEVER) {
		g->until = p->env->now + 2 * GROUP_LAST_MS * NS_MS;
		g->ask_at = p->env->now + GROUP_LAST_MS * NS_MS;
		group_ask(p, fwd_family_of(&w->a), &w->a, GROUP_LAST_MS);
	}
}

static void group_report(struct proto *p, struct wire_group_list *l, int parsed)
{
	struct wire_group w;
	int r;

	if (parsed == -EPROTONOSUPPORT)	/* another querier, or what we don't know */
		env_drop(p->env, DROP_ICMP_TYPE);
	if (parsed == -EBADMSG)
		env_drop(p->env, DROP_GROUP_BAD);
	if (parsed)
		return;
	while ((r = wire_group_next(l, &w)) > 0)
		group_said(p, &w);
	if (r < 0)
		env_drop(p->env, DROP_GROUP_BAD);
	group_arm(p);
}

void group_igmp(struct proto *p, const struct proto_pkt *pkt)
{
	struct wire_group_list l;

	if (p->groups && p->groups->on)
		group_report(p, &l, wire_igmp_parse(pkt->l4, &l));
	else
		env_drop(p->env, DROP_GROUP_OFF);
}

void group_mld(struct proto *p, const struct proto_pkt *pkt)
{
	struct wire_group_list l;
	const bool near = pkt->ip.ttl == 1 && (inaddr_is_linklocal(&pkt->ip.src) || inaddr_is_unset(&pkt->ip.src));

	if (p->groups && p->groups->on)	/* RFC 3810 5.2.13, 6.2 */
		group_report(p, &l, near ? wire_mld_parse(pkt->l4, &l) : -EBADMSG);
	else
		env_drop(p->env, DROP_GROUP_OFF);
}

static void group_query(struct proto *p, enum fwd_family fam)
{
	static const struct inaddr all;
	struct proto_groups *gs = p->groups;
	bool any = false;

	if (gs->query_at[fam] > p->env->now)
		return;
	for (uint32_t i = 0; i < gs->cnt; i++)
		any |= fwd_family_of(&gs->g[i].a) == fam;
	gs->query_at[fam] = NS_NEVER;
	if (!any)
		return;
	group_ask(p, fam, &all, GROUP_ANSWER_MS);
	gs->query_at[fam] = p->env->now + (++gs->queries[fam] < 2 ? GROUP_STARTUP : GROUP_QUERY_S * NS_S);
}

void group_timer(struct proto *p)
{
	struct proto_groups *gs = p->groups;

	for (uint32_t i = 0; i < gs->cnt;) {
		struct group *g = &gs->g[i];

		if (g->until <= p->env->now) {
			trace_add(p->env->tr, p->env->now, "group: left", 0, group_id(&g->a), g->port_cnt);
			group_end(p, g);
			continue;
		}
		if (g->ask_at <= p->env->now) {
			group_ask(p, fwd_family_of(&g->a), &g->a, GROUP_LAST_MS);
			g->ask_at = g->until;
		}
		i++;
	}
	group_query(p, FWD_V4);
	group_query(p, FWD_V6);
	group_arm(p);
}

static uint64_t group_hash(const struct proto *p, struct view v, uint32_t seg)
{
	struct {
		uint32_t len;
		uint8_t b[GROUP_HASHED];
	} x = { .len = 0 };

	view_trim(&v, seg);
	x.len = v.len;
	view_copy(&v, x.b, GROUP_HASHED);
	return hash_sip(&p->env->key, &x, sizeof(x));
}

void group_sent(struct proto *p, struct view payload, uint32_t seg)
{
	struct proto_groups *gs = p->groups;

	do {
		gs->echo[gs->echo_at] = (struct group_echo){ group_hash(p, payload, seg), p->env->now };
		gs->echo_at = (gs->echo_at + 1) % GROUP_ECHOES;
		view_skip(&payload, seg);
	} while (payload.len);
}

bool group_is_echo(const struct proto *p, const struct sk_dgram *d)
{
	const struct iovec iov = { d->iov[0].iov_base, d->len };
	const uint64_t hash = group_hash(p, view_of(&iov, d->len), d->seg ? d->seg : d->len);
	const struct proto_groups *gs = p->groups;

	for (uint32_t i = 0; i < GROUP_ECHOES; i++)
		if (gs->echo[i].hash == hash && gs->echo[i].at + GROUP_ECHO >= p->env->now)
			return p->env->sk->ops->has_addr(p->env->sk, &d->to_from);
	return false;
}
