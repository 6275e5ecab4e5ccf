/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets of published ports: what descriptors they may take, binding them at
 * start, and closing them. Loopback ports of the namespace are bound here too,
 * but then are the business of host/splice; what has to wait for its interface
 * or address is watched by late.c; what only mirrors the other side ("auto") is
 * not bound here at all.
 *
 * A port that was asked for by number, and can't be had, prevents the start. Of
 * "all" we take what is there, and say in a line what was not.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "app_priv.h"
#include "base/bytes.h"
#include "host/listen.h"

#define LISTEN_PATIENCE	(NS_S / 2)	/* our predecessor needs some 2 ms, on a busy machine more */
#define LISTEN_RESERVE	64u		/* descriptors that we need beside those of published ports */
#define HINT_LEN	192

/* What is to be done about it, without those who have PORT */
static const char *listen_hint(int err, unsigned port, char buf[HINT_LEN])
{
	unsigned first = 0, none;

	switch (-err) {
	case EADDRINUSE:
		return "; another program uses it (ss -ltnup shows which)";
	case EACCES:
		if (!app_proc_numbers("/proc/sys/net/ipv4/ip_unprivileged_port_start", &first, &none) || port >= first)
			return "; a security policy of this system forbids it";
		snprintf(buf, HINT_LEN, "; ports below %u need CAP_NET_BIND_SERVICE, or once, as root: "
			 "sysctl -w net.ipv4.ip_unprivileged_port_start=%u", first, port);
		return buf;
	case EMFILE:
	case ENFILE:
		return "; raise the hard limit of open files (ulimit -Hn)";
	case EINVAL:
		return "; a link-local address needs its interface, as in fe80::1%eth0/22";
	}
	return "";
}

static const char *owner_hint(const struct fwd_rule *r, bool ns, uint16_t port, char buf[HINT_LEN])
{
	const struct sk_listen l = {
		.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .any = r->any, .addr = { .a = r->listen, .port = port },
	};
	struct listen_owner o;

	if (!listen_owner_find(&l, &o))
		return listen_hint(-EADDRINUSE, port, buf);
	if (o.pid)
		snprintf(buf, HINT_LEN, "; %s (process %d) uses it: end that, or choose another port", o.comm, o.pid);
	else
		snprintf(buf, HINT_LEN, "; a program of user %u uses it (%sss -ltnup shows which)", o.uid, ns ? "" : "as root, ");
	return buf;
}

static int listen_fail(const struct fwd_rule *r, bool ns, unsigned port, int code, struct err *e)
{
	char name[FWD_RULE_STR_MAX], hint[HINT_LEN];

	return err_set(e, code, "Can't listen on %s: %s%s", fwd_rule_name(r, ns, port, port, name), strerror(-code),
		       code == -EADDRINUSE ? owner_hint(r, ns, (uint16_t)port, hint) : listen_hint(code, port, hint));
}

/* --- sockets --- */

/* A port in use may belong to our predecessor, who is about to notice that its namespace has gone: wait a little? */
static bool patience(const struct app *a)
{
	const struct timespec pause = { .tv_nsec = 5 * NS_MS };

	return app_clock() < a->listen_until && !nanosleep(&pause, NULL);
}

static int listen_patiently(const struct app *a, struct sk_host *from, const struct sk_listen *l, struct ev_ref ref, bool strong)
{
	int h;

	while ((h = sk_host_listen(from, l, ref)) == -EADDRINUSE && strong && patience(a))
		;
	return h;
}

static uint16_t target_port(const struct fwd_rule *r, uint16_t port)
{
	return (uint16_t)(r->target_first + (port - r->first));
}

static void hold(struct app *a, const struct fwd_rule *r, uint16_t port, bool on)
{
	const uint8_t bit = (uint8_t)(1 << port % 8);

	if (on)
		a->held[r->proto][port / 8] |= bit;
	else
		a->held[r->proto][port / 8] &= (uint8_t)~bit;
}

static bool is_held(const struct app *a, enum fwd_proto proto, uint16_t port)
{
	return a->held[proto][port / 8] >> port % 8 & 1;
}

/* The rule of the other side that would send back to PORT what R sends there */
static const struct fwd_rule *way_back(const struct app *a, const struct fwd_rule *r, bool ns, uint16_t port)
{
	const bool lo = a->conf.host_lo_to_ns_lo;

	if (a->conf.no_splice)
		return NULL;
	return fwd_rules_back(r, port, ns || lo, ns ? &a->conf.host_rules : &a->conf.ns_rules, !ns || lo);
}

static int listener_open(struct app *a, unsigned rule, const struct sk_listen *l)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[rule];
	uint32_t idx = a->listener_free ? a->listener_free - 1 : a->listener_cnt;
	struct app_listener *s = &a->listener[idx];
	struct ev_ref ref = { .idx = idx, .kind = EV_KIND_LISTEN };
	int h;

	if (idx == a->listener_cap)
		return -ENOSPC;
	ref.gen = s->gen;
	h = listen_patiently(a, &a->sk, l, ref, !r->weak && !r->scan);
	if (h < 0)
		return h;
	if (a->listener_free)
		a->listener_free = s->next_free;
	else
		a->listener_cnt++;
	*s = (struct app_listener){
		.proto = r->proto, .h = h, .target = r->target, .port = target_port(r, l->addr.port), .rule = (uint16_t)rule,
		.gen = ref.gen,
	};
	if (r->weak && !r->scan)
		a->group[false][r->proto].bound++;
	if (!r->scan)
		hold(a, r, l->addr.port, true);
	app_ours_add(a, h);
	return (int)idx;
}

int app_listener_open(struct app *a, unsigned rule, uint16_t port, bool freebind)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[rule];
	const struct sk_listen l = {
		.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .any = r->any, .addr = { .a = r->listen, .port = port },
		.ifname = *r->ifname ? r->ifname : NULL, .freebind = freebind,
	};

	return listener_open(a, rule, &l);
}

void app_listener_close(struct app *a, uint32_t idx)
{
	struct app_listener *s = &a->listener[idx];
	const struct fwd_rule *r = &a->conf.host_rules.rule[s->rule];

	if (s->h < 0)
		return;
	if (r->weak && !r->scan)
		a->group[false][r->proto].bound--;
	if (!r->scan)
		hold(a, r, (uint16_t)(r->first + (s->port - r->target_first)), false);
	if (s->proto == FWD_UDP && a->path.p.flows)
		udp_listener_gone(&a->path.p, s->h);
	if (s->proto == FWD_UDP)
		splice_listener_gone(&a->splice, s->h);
	app_ours_del(a, s->h);
	a->sk.sk.ops->close(&a->sk.sk, s->h, SK_END_GRACEFUL);
	s->h = -1;
	s->gen = (s->gen + 1) & 0xffffff;
	s->next_free = a->listener_free;
	a->listener_free = idx + 1;
}

void app_listen_close(struct app *a)
{
	app_auto_end(a);
	app_late_close(a);
	for (uint32_t i = 0; i < a->listener_cnt; i++)
		app_listener_close(a, i);
}

/* One port of a rule in the namespace, by a socket that FROM makes there; its index */
static int listen_ns(struct app *a, const struct fwd_rule *r, struct sk_host *from, const struct sk_listen *l)
{
	const int h = listen_patiently(a, from, l, splice_listener_ref(&a->splice), !r->weak && !r->scan);
	const struct splice_listen s = { .h = h, .proto = l->proto, .target = r->target, .port = target_port(r, l->addr.port) };
	int idx;

	if (h < 0)
		return h;
	idx = splice_listener_add(&a->splice, &s);
	if (idx < 0)
		a->sk.sk.ops->close(&a->sk.sk, h, SK_END_GRACEFUL);
	else
		app_ours_add(a, h);
	return idx;
}

int app_follower_open(struct app *a, bool ns, struct sk_host *inside, const struct fwd_want *w)
{
	const struct fwd_rule *r = ns ? &a->conf.ns_rules.rule[w->rule] : &a->conf.host_rules.rule[w->rule];
	const struct sk_listen l = {
		.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .addr = { .a = w->listen, .port = w->port },
		.ifname = ns ? "lo" : *r->ifname ? r->ifname : NULL,
	};

	return ns ? listen_ns(a, r, inside, &l) : listener_open(a, w->rule, &l);
}

void app_follower_close(struct app *a, bool ns, uint32_t idx)
{
	if (!ns) {
		app_listener_close(a, idx);
		return;
	}
	app_ours_del(a, splice_listener_handle(&a->splice, idx));
	splice_listener_close(&a->splice, idx);
}

/* --- rules --- */

void app_tally_add(struct app_tally *t, int err, unsigned port)
{
	unsigned i;

	for (i = 0; i < t->kind_cnt && t->kind[i].err != err; i++)
		;
	if (i == APP_TALLY)
		i--;			/* of that many kinds the last one stands for all others */
	else if (i == t->kind_cnt)
		t->kind[t->kind_cnt++].err = err;
	if (t->kind[i].cnt && t->kind[i].last == port)
		return;			/* of the other family */
	if (!t->kind[i].cnt++)
		t->kind[i].first = port;
	t->kind[i].last = port;
}

void app_tally_tell(const struct app *a, const struct app_tally *t)
{
	char name[FWD_RULE_STR_MAX], hint[HINT_LEN], some[32];

	for (unsigned i = 0; i < t->kind_cnt; i++) {
		const unsigned span = t->kind[i].last - t->kind[i].first + 1;

		snprintf(some, sizeof(some), t->kind[i].cnt < span ? "%u of " : "", t->kind[i].cnt);
		app_log(&a->log, t->r->scan ? APP_INFO : APP_WARN, "Not forwarded: %s%s: %s%s", some,
			fwd_rule_name(t->r, t->ns, t->kind[i].first, t->kind[i].last, name), strerror(-t->kind[i].err),
			listen_hint(t->kind[i].err, t->kind[i].first, hint));
	}
}

static int listen_rule_try(struct app *a, unsigned rule, struct app_tally *t, bool *ret_absent, struct err *e)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[rule];
	const struct app_group *g = &a->group[false][r->proto];

	*t = (struct app_tally){ .r = r };
	*ret_absent = false;
	for (unsigned port = r->first; port <= r->last && !(r->weak && g->bound >= g->share); port++) {
		const struct fwd_rule *back = way_back(a, r, false, (uint16_t)port);
		int n;

		if (back && !back->weak && r->weak)
			continue;		/* who asked for that one by number gets it */
		n = app_listener_open(a, rule, (uint16_t)port, *ret_absent);
		if (n == -EADDRNOTAVAIL && !*ret_absent) {	/* reserved now, of use when the host has the address */
			*ret_absent = true;
			n = app_listener_open(a, rule, (uint16_t)port, true);
		}
		if (n == -ENODEV || (n < 0 && !r->weak))
			return listen_fail(r, false, port, n, e);
		if (n < 0)
			app_tally_add(t, n, port);
	}
	return 0;
}

/* Other programs have ports here and there. A quarter of all in use: that is somebody like us. */
static bool crowded(const struct app_tally *t)
{
	for (unsigned i = 0; i < t->kind_cnt; i++)
		if (t->kind[i].err == -EADDRINUSE)
			return t->kind[i].cnt * 4 > t->r->last - t->r->first + 1u;
	return false;
}

int app_listen_rule(struct app *a, unsigned rule, bool *ret_absent, struct err *e)
{
	struct app_tally t;
	int r;

	while (!(r = listen_rule_try(a, rule, &t, ret_absent, e)) && crowded(&t) && patience(a))
		app_listen_rule_close(a, rule);
	if (!r)
		app_tally_tell(a, &t);
	return r;
}

void app_listen_rule_close(struct app *a, unsigned rule)
{
	for (uint32_t i = 0; i < a->listener_cnt; i++)
		if (a->listener[i].rule == rule)
			app_listener_close(a, i);
}

static int listen_rule_ns(struct app *a, unsigned rule, struct err *e)
{
	const struct fwd_rule *r = &a->conf.ns_rules.rule[rule];
	struct app_group *g = &a->group[true][r->proto];
	struct app_tally t = { .r = r, .ns = true };
	unsigned first = UINT16_MAX, last = 0;
	char name[FWD_RULE_STR_MAX];

	for (unsigned port = r->first; port <= r->last && !(r->weak && g->bound >= g->share); port++) {
		const struct sk_listen l = {
			.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .any = r->any,
			.addr = { .a = r->listen, .port = (uint16_t)port }, .ifname = "lo",	/* NAT-33 */
		};
		int n;

		if (way_back(a, r, true, (uint16_t)port) && is_held(a, r->proto, target_port(r, (uint16_t)port))) {
			g->wait = true;		/* nobody on the host serves it: we would ask ourselves */
			first = BYTES_MIN(first, port);
			last = port;
			continue;
		}
		n = listen_ns(a, r, &a->sk, &l);
		if (n < 0 && !r->weak)
			return listen_fail(r, true, port, n, e);
		if (n < 0)
			app_tally_add(&t, n, port);
		else if (r->weak)
			g->bound++;
	}
	app_tally_tell(a, &t);
	if (last && !r->weak)
		app_log(&a->log, APP_WARN, "Not forwarded: %s: the host's port forwards to it, which would never end",
			fwd_rule_name(r, true, first, last, name));
	return 0;
}

/* "all" with nothing to show for it is no service */
static int groups_check(struct app *a, bool ns, struct err *e)
{
	const char *where = ns ? " of the namespace's loopback" : "";

	for (int p = 0; p < FWD_PROTOS; p++) {
		const struct app_group *g = &a->group[ns][p];
		const char *proto = p == FWD_TCP ? "TCP" : "UDP";

		if (g->weak && !g->bound && !g->wait)
			return err_set(e, -EADDRNOTAVAIL, "None of %u %s ports%s could be bound", g->weak, proto, where);
		if (g->bound == g->share && g->share < g->weak)
			app_log(&a->log, APP_WARN, "%u of %u %s ports%s forwarded: for all it takes %u open files, and the hard limit "
				"is %u (ulimit -Hn)", g->bound, g->weak, proto, where, a->fd_wanted, a->fd_limit);
	}
	return 0;
}

int app_listen(struct app *a, struct err *e)
{
	const struct fwd_rules *rules = &a->conf.host_rules;
	uint32_t cap = 0;
	bool absent;
	int r = 0;

	for (unsigned i = 0; i < rules->cnt; i++)	/* one for each family, if they come and go for themselves */
		cap += (rules->rule[i].last - rules->rule[i].first + 1u) * (rules->rule[i].scan ? SK_FAMILIES : 1);
	if (!cap)
		return 0;
	a->listen_until = app_clock() + LISTEN_PATIENCE;
	a->listener_cap = cap;
	a->listener = calloc(cap, sizeof(*a->listener));
	a->half_open = calloc(cap, sizeof(*a->half_open));
	if (!a->listener || !a->half_open)
		return err_set(e, -ENOMEM, "Out of memory for %u published ports", cap);
	for (unsigned i = 0; i < rules->cnt && !r; i++) {
		if (rules->rule[i].scan)
			continue;
		r = app_listen_rule(a, i, &absent, e);
		if (r == -ENODEV || (!r && (absent || *rules->rule[i].ifname)))
			r = app_late_add(a, i, r == -ENODEV, absent, e);
	}
	if (!r)
		r = groups_check(a, false, e);
	return r ? r : app_late_open(a, e);
}

int app_listen_ns(struct app *a, struct err *e)
{
	const struct fwd_rules *rules = &a->conf.ns_rules;
	int r = 0;

	for (unsigned i = 0; i < rules->cnt && !r; i++)
		if (!rules->rule[i].scan)
			r = listen_rule_ns(a, i, e);
	return r ? r : groups_check(a, true, e);
}

/* --- descriptors --- */

static void groups_count(struct app *a, bool ns, const struct fwd_rules *rules)
{
	for (unsigned i = 0; i < rules->cnt; i++) {
		const struct fwd_rule *r = &rules->rule[i];
		struct app_group *g = &a->group[ns][r->proto];

		if (!r->scan)
			*(r->weak ? &g->weak : &g->strong) += r->last - r->first + 1u;
	}
}

int app_listen_budget(struct app *a, struct err *e)
{
	struct app_group *const group = &a->group[0][0];
	unsigned strong = 0, weak = 0, left;
	struct rlimit rl;

	groups_count(a, false, &a->conf.host_rules);
	groups_count(a, true, &a->conf.ns_rules);
	for (int i = 0; i < 2 * FWD_PROTOS; i++) {
		strong += group[i].strong;
		weak += group[i].weak;
	}
	if (!strong && !weak)
		return 0;
	if (getrlimit(RLIMIT_NOFILE, &rl))
		return err_set(e, -errno, "Can't read the limit of open files: %s", strerror(errno));
	a->fd_limit = (unsigned)BYTES_MIN(rl.rlim_max, 1u << 24);
	if (strong && strong + LISTEN_RESERVE > a->fd_limit)
		return err_set(e, -EMFILE, "%u ports to forward need %u open files, but the hard limit is %u: raise it (ulimit -Hn, "
			       "systemd: LimitNOFILE=), or forward fewer ports", strong, strong + LISTEN_RESERVE, a->fd_limit);
	/* the others get three quarters of what remains, so that there is something left for connections */
	left = a->fd_limit - BYTES_MIN(a->fd_limit, strong + LISTEN_RESERVE);
	left -= left / 4;
	a->fd_wanted = strong + LISTEN_RESERVE + (weak * 4 + 2) / 3;
	for (int i = 0; i < 2 * FWD_PROTOS; i++)
		group[i].share = weak <= left ? group[i].weak : (unsigned)((uint64_t)group[i].weak * left / weak);
	return 0;
}
