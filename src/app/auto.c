/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules with "auto": what listens on one side is listened for on the other, and
 * no more when it has gone. The kernel tells nobody of new listeners, so it is
 * asked, as often as it takes to follow within 200 ms; without such rules there
 * is nothing to wake up for.
 *
 * Never fails: a port that can't be had is told of once, and tried again now and
 * then. Never follows sockets of our own, in either direction. What seems to
 * have gone is asked for twice, since the kernel may pass over a socket while
 * others come and go.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app_priv.h"
#include "base/bytes.h"
#include "host/nl_data.h"

#define FOLLOW_PERIOD	(120 * NS_MS)	/* 200 ms, less what it takes, and what a busy machine adds */
#define FOLLOW_SOON	(5 * NS_MS)	/* a socket from inside the namespace is on its way */
#define FOLLOW_AGAIN	NS_S		/* try again what could not be bound */

/* --- our own sockets --- */

/* Place of INODE among our own */
static uint32_t ours_place(const struct app *a, uint32_t inode)
{
	uint32_t low = 0, high = a->ours_cnt;

	while (low < high) {
		const uint32_t mid = low + (high - low) / 2;

		if (a->ours[mid] < inode)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool ours_is(const struct app *a, uint32_t inode)
{
	const uint32_t at = ours_place(a, inode);

	return at < a->ours_cnt && a->ours[at] == inode;
}

void app_ours_add(struct app *a, int h)
{
	struct stat st;
	uint32_t at;

	if ((!a->follow[0].on && !a->follow[1].on) || fstat(h, &st))
		return;
	if (a->ours_cnt == a->ours_room) {
		const uint32_t room = a->ours_room ? a->ours_room * 2 : 64;
		uint32_t *more = realloc(a->ours, room * sizeof(*more));

		if (!more)
			return;
		a->ours = more;
		a->ours_room = room;
	}
	at = ours_place(a, (uint32_t)st.st_ino);
	memmove(&a->ours[at + 1], &a->ours[at], (a->ours_cnt - at) * sizeof(*a->ours));
	a->ours[at] = (uint32_t)st.st_ino;
	a->ours_cnt++;
}

void app_ours_del(struct app *a, int h)
{
	struct stat st;
	uint32_t at;

	if (!a->ours_cnt || fstat(h, &st))
		return;
	at = ours_place(a, (uint32_t)st.st_ino);
	if (at == a->ours_cnt || a->ours[at] != (uint32_t)st.st_ino)
		return;
	a->ours_cnt--;
	memmove(&a->ours[at], &a->ours[at + 1], (a->ours_cnt - at) * sizeof(*a->ours));
}

/* --- asking --- */

static const struct fwd_rules *rules_of(const struct app *a, bool ns)
{
	return ns ? &a->conf.ns_rules : &a->conf.host_rules;
}

void app_auto_plan(struct app *a)
{
	a->follow_at = NS_NEVER;
	for (int ns = 0; ns < 2; ns++) {
		const struct fwd_rules *rules = rules_of(a, ns);
		bool udp = false;

		for (unsigned i = 0; i < rules->cnt; i++) {
			a->follow[ns].on |= rules->rule[i].scan;
			udp |= rules->rule[i].scan && rules->rule[i].proto == FWD_UDP;
		}
		/* TCP is looked at for both (FWD-5) */
		a->follow[ns].off[SK_UDP][SK_V4] = a->follow[ns].off[SK_UDP][SK_V6] = !udp;
		a->follow[ns].off[SK_TCP][SK_V6] = !a->sk.v6;
		a->follow[ns].off[SK_UDP][SK_V6] |= !a->sk.v6;
	}
}

/* Ask for the ports that rules lead to. Of too many ranges, for all between the lowest and the highest one. */
static void ask_for(struct app_auto *f, const struct fwd_rules *rules)
{
	struct diag_ports v[DIAG_PORTS_MAX], all = { 65535, 0 };
	unsigned cnt = 0;

	for (unsigned i = 0; i < rules->cnt; i++) {
		const struct fwd_rule *r = &rules->rule[i];
		const struct diag_ports p = { r->target_first, (uint16_t)(r->target_first + (r->last - r->first)) };
		unsigned known = 0;

		if (!r->scan)
			continue;
		all = (struct diag_ports){ BYTES_MIN(all.first, p.first), BYTES_MAX(all.last, p.last) };
		while (known < BYTES_MIN(cnt, DIAG_PORTS_MAX) && (v[known].first != p.first || v[known].last != p.last))
			known++;
		if (known == cnt && cnt < DIAG_PORTS_MAX)
			v[cnt] = p;
		cnt += known == cnt;
	}
	if (cnt > DIAG_PORTS_MAX)
		diag_ports(f->diag, &all, 1);
	else
		diag_ports(f->diag, v, cnt);
}

void app_auto_open(struct app *a, bool ns)
{
	struct app_auto *f = &a->follow[ns];
	struct err e;

	if (!f->on)
		return;
	if (diag_open(&f->diag, &e)) {
		f->diag = NULL;
		app_log(&a->log, APP_WARN, "%s; ports of 'auto' will not be forwarded", e.text);
		return;
	}
	ask_for(f, rules_of(a, ns));
}

/* Into f->next: 0 or negative errno */
static int look(struct app *a, bool ns)
{
	struct app_auto *f = &a->follow[ns];

	f->next.cnt = 0;
	for (int i = 0; i < 2 * SK_FAMILIES; i++) {
		const enum sk_proto proto = i / SK_FAMILIES ? SK_UDP : SK_TCP;
		const int family = i % SK_FAMILIES;
		const int r = f->off[proto][family] ? 0 : diag_dump(f->diag, proto, family == SK_V6, &f->next);

		if (!r)
			continue;
		if (!f->told && r != -EBUSY && r != -EAGAIN) {
			app_log(&a->log, APP_WARN, "Can't ask what listens on %s ports %s, for 'auto': %s%s", proto == SK_TCP ? "TCP" : "UDP",
				ns ? "of the host" : "in the namespace", strerror(-r),
				r == -ENOENT ? "; the kernel needs CONFIG_INET_DIAG and CONFIG_INET_UDP_DIAG" : "");
			f->told = true;
		}
		if (r != -ENOENT)
			return r;
		f->off[proto][family] = true;
	}
	return 0;
}

static bool sock_eq(const struct diag_sock *x, const struct diag_sock *y)
{
	return x->inode == y->inode && x->port == y->port && x->proto == y->proto && x->both == y->both &&
	       x->ifindex == y->ifindex && inaddr_eq(&x->addr, &y->addr);
}

/* The same sockets as last time, and a guest that is reached in the same way */
static bool unchanged(const struct app *a, struct app_auto *f)
{
	struct inaddr guest[2 * FWD_FAMILIES];
	bool same = f->seen.cnt == f->next.cnt;

	for (int i = 0; i < FWD_FAMILIES; i++) {
		guest[2 * i] = a->fwd.f[i].seen;
		guest[2 * i + 1] = a->fwd.f[i].seen_ll;
	}
	same = same && !memcmp(guest, f->guest, sizeof(guest));
	memcpy(f->guest, guest, sizeof(guest));
	for (unsigned i = 0; same && i < f->next.cnt; i++)
		same = sock_eq(&f->seen.v[i], &f->next.v[i]);
	return same;
}

/* --- following --- */

/* What others than we have bound: the caller frees it; NULL if there is no memory */
static struct fwd_bound *bound_list(const struct app *a, bool ns, unsigned *ret_cnt)
{
	const struct sk_host *side = ns ? &a->sk : &a->sk_inside;	/* where they listen */
	const struct app_auto *f = &a->follow[ns];
	struct fwd_bound *b = malloc((f->next.cnt + 1) * sizeof(*b));
	unsigned cnt = 0;

	for (unsigned i = 0; b && i < f->next.cnt; i++) {
		const struct diag_sock *s = &f->next.v[i];

		if (!ours_is(a, s->inode) && (s->proto == SK_TCP || !sk_host_is_ours(side, s->port, s->inode)))
			b[cnt++] = (struct fwd_bound){
				.addr = s->addr, .ifindex = s->ifindex, .port = s->port, .both = s->both,
				.proto = s->proto == SK_TCP ? FWD_TCP : FWD_UDP,
			};
	}
	if (b)
		qsort(b, cnt, sizeof(*b), fwd_bound_cmp);
	*ret_cnt = cnt;
	return b;
}

/* Sockets that we should listen with: the caller frees them; NULL if there is no memory */
static struct fwd_want *want_list(struct app *a, bool ns, unsigned *ret_cnt)
{
	const struct fwd_auto s = {
		.rules = rules_of(a, ns), .fwd = &a->fwd, .ns = ns, .link = !a->conf.splice_only, .splice = ns || !a->conf.no_splice,
		.lo_to_lo = a->conf.host_lo_to_ns_lo, .guest_ifindex = a->guest_ifindex,
	};
	struct app_auto *f = &a->follow[ns];
	const unsigned most = a->sk.slot_cnt / 4;	/* a guest must not take all descriptors by listening */
	struct fwd_want *w = NULL;
	unsigned bound_cnt, cnt;
	struct fwd_bound *b = bound_list(a, ns, &bound_cnt);

	if (!b)
		return NULL;
	cnt = fwd_auto_wants(&s, b, bound_cnt, NULL, 0);
	w = malloc((cnt + 1) * sizeof(*w));
	if (w)
		cnt = fwd_auto_wants(&s, b, bound_cnt, w, cnt);
	free(b);
	if (w && cnt > most && !f->told_max) {
		app_log(&a->log, APP_WARN, "Only %u of the %u sockets that 'auto' would listen with are opened: more would leave too few "
			"open files for connections, raise the hard limit (ulimit -Hn)", most, cnt);
		f->told_max = true;
	}
	*ret_cnt = BYTES_MIN(cnt, most);
	return w;
}

/* Whether some port that is open is wanted no more */
static bool any_gone(const struct app_auto *f, const struct fwd_want *w, unsigned cnt)
{
	unsigned j = 0;

	for (uint32_t i = 0; i < f->port_cnt; i++) {
		while (j < cnt && fwd_want_cmp(&w[j], &f->port[i].want) < 0)
			j++;
		if (j == cnt || fwd_want_cmp(&w[j], &f->port[i].want))
			return true;
	}
	return false;
}

static void tell_change(const struct app *a, bool ns, const struct fwd_want *w, bool opened)
{
	const struct fwd_rule *r = &rules_of(a, ns)->rule[w->rule];
	char addr[INADDR_STR_MAX];

	app_log(&a->log, APP_DEBUG, "%s: %s %s port %u, on %s%s%s", ns ? "From the namespace" : "From the host",
		opened ? "follow" : "leave", r->proto == FWD_TCP ? "TCP" : "UDP", w->port, inaddr_str(&w->listen, addr),
		*r->ifname ? " of interface " : "", r->ifname);
}

/* The list of ports by what is wanted; those that are not go first, for another may take their place */
static int merge(struct app *a, bool ns, const struct fwd_want *w, unsigned cnt)
{
	struct app_auto *f = &a->follow[ns];
	struct app_auto_port *new = calloc(cnt + 1, sizeof(*new));
	uint32_t i = 0;
	unsigned j = 0;

	if (!new)
		return -ENOMEM;
	while (i < f->port_cnt || j < cnt) {
		const int cmp = i == f->port_cnt ? 1 : j == cnt ? -1 : fwd_want_cmp(&f->port[i].want, &w[j]);

		if (cmp < 0) {
			if (f->port[i].idx >= 0) {
				app_follower_close(a, ns, (uint32_t)f->port[i].idx);
				tell_change(a, ns, &f->port[i].want, false);
			}
			i++;
		} else {
			new[j] = cmp ? (struct app_auto_port){ .want = w[j], .idx = -EAGAIN } : f->port[i++];
			j++;
		}
	}
	free(f->port);
	f->port = new;
	f->port_cnt = cnt;
	return 0;
}

/* Open what is due, by sockets that INSIDE makes in the namespace */
static void open_due(struct app *a, bool ns, struct sk_host *inside, ns_t now)
{
	struct app_auto *f = &a->follow[ns];
	struct app_tally t = { .ns = ns };

	f->retry_at = NS_NEVER;
	for (uint32_t i = 0; i < f->port_cnt; i++) {
		struct app_auto_port *p = &f->port[i];
		const struct fwd_rule *r = &rules_of(a, ns)->rule[p->want.rule];

		if (p->idx >= 0)
			continue;
		if (now >= p->retry_at) {
			p->idx = app_follower_open(a, ns, inside, &p->want);
			p->retry_at = now + (p->idx == -EAGAIN ? FOLLOW_SOON : FOLLOW_AGAIN);
			if (p->idx >= 0) {
				tell_change(a, ns, &p->want, true);
				continue;
			}
		}
		f->retry_at = BYTES_MIN(f->retry_at, p->retry_at);
		if (p->told || p->idx == -EAGAIN || p->idx == -EPIPE)	/* without help inside: that was told */
			continue;
		p->told = true;
		if (t.r != r) {
			app_tally_tell(a, &t);
			t = (struct app_tally){ .r = r, .ns = ns };
		}
		app_tally_add(&t, p->idx, p->want.port);
	}
	app_tally_tell(a, &t);
}

/* What failed in the other direction may work now that sockets on that side have come or gone */
static void retry_other(struct app *a, bool ns, ns_t now)
{
	struct app_auto *f = &a->follow[!ns];

	if (f->retry_at == NS_NEVER)
		return;
	for (uint32_t i = 0; i < f->port_cnt; i++)
		f->port[i].retry_at = 0;
	f->retry_at = now;
}

static void follow(struct app *a, bool ns, struct sk_host *inside, ns_t now)
{
	struct app_auto *f = &a->follow[ns];
	struct diag_socks old;
	struct fwd_want *w;
	unsigned cnt = 0;
	bool same;

	if (!f->diag || look(a, ns))
		return;
	same = unchanged(a, f);
	if (same && now < f->retry_at)
		return;
	w = same ? NULL : want_list(a, ns, &cnt);
	if (w && any_gone(f, w, cnt)) {
		free(w);
		w = look(a, ns) ? NULL : want_list(a, ns, &cnt);
	}
	if (!same && (!w || merge(a, ns, w, cnt))) {
		f->seen.cnt = 0;		/* nothing was done: look again */
		free(w);
		return;
	}
	free(w);
	if (!same)
		retry_other(a, ns, now);
	old = f->seen;
	f->seen = f->next;
	f->next = old;
	open_due(a, ns, inside, now);
}

static void plan_next(struct app *a, ns_t now)
{
	a->follow_at = NS_NEVER;
	for (int ns = 0; ns < 2; ns++)
		if (a->follow[ns].diag)
			a->follow_at = BYTES_MIN(a->follow_at, BYTES_MIN(now + FOLLOW_PERIOD, a->follow[ns].retry_at));
}

void app_auto_begin(struct app *a, bool ns)
{
	const ns_t now = app_clock();

	a->follow[ns].retry_at = NS_NEVER;
	follow(a, ns, &a->sk, now);
	plan_next(a, now);
}

bool app_auto_privileged(const struct app *a)
{
	const struct fwd_rules *rules = rules_of(a, false);

	for (unsigned i = 0; a->follow[false].diag && i < rules->cnt; i++)
		if (rules->rule[i].scan && rules->rule[i].first < IPPORT_RESERVED)
			return true;
	return false;
}

void app_auto_tick(struct app *a)
{
	if (a->env.now < a->follow_at)
		return;
	for (int ns = 0; ns < 2; ns++)
		follow(a, ns, &a->sk_inside, a->env.now);
	plan_next(a, a->env.now);
}

void app_auto_end(struct app *a)
{
	for (int ns = 0; ns < 2; ns++) {
		diag_close(a->follow[ns].diag);
		a->follow[ns].diag = NULL;
		a->follow[ns].port_cnt = 0;
	}
	a->follow_at = NS_NEVER;
}

void app_auto_free(struct app *a)
{
	app_auto_end(a);
	for (int ns = 0; ns < 2; ns++) {
		nl_list_free(&a->follow[ns].seen);
		nl_list_free(&a->follow[ns].next);
		free(a->follow[ns].port);
	}
	free(a->ours);
}
