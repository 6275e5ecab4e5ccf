/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The host's own addresses, as they are at any time: which one stands behind
 * --map-guest-addr (A11), and which ones the namespace shares with the host
 * (--host-own-addr). An address that the host has lost is nobody's but the
 * namespace's from then on: what its programs send there must not go to a
 * stranger who has it next.
 *
 * One notification socket. What a notification says does not matter: it is a
 * reason to look, also for flows of datagrams, whose sockets are connected and
 * would keep the source address that they began with.
 */
#include <errno.h>
#include <string.h>

#include "app_priv.h"

static bool on_host(const struct inaddr *a)
{
	return !inaddr_is_unset(a) && sk_host_has_addr(a, NULL);
}

static struct inaddr own_address(const struct fwd_family_set *s, const struct nl_template *t)
{
	const struct inaddr none = { { 0 } };

	if (on_host(&s->guest))
		return s->guest;
	return t->has_addr && !t->local ? t->addr : none;
}

void app_own_init(const struct app *a, const struct nl_template *t, struct fwd_family_set *s)
{
	s->host_own = own_address(s, t);
	if (!a->conf.host_own_addr)
		return;
	if (on_host(&s->guest))
		s->shared[s->shared_cnt++] = s->guest;
	for (unsigned i = 0; i < s->more_cnt; i++)
		s->shared[s->shared_cnt++] = s->more[i];
}

int app_own_link(struct app *a, struct nl *nl, uint32_t ifindex, struct err *e)
{
	int r = sk_host_guest_open(&a->sk, ifindex, e);

	for (int f = 0; f < FWD_FAMILIES && !r; f++) {
		const struct fwd_family_set *s = &a->fwd.f[f];
		const struct nl_share share = {
			.v6 = f == FWD_V6, .ifindex = ifindex, .gw = s->gateway, .addr = s->shared, .cnt = s->shared_cnt,
		};

		if (f == FWD_V4 ? a->ns_done.v4_on : a->ns_done.v6_on)
			r = nl_ns_share(nl, &share, e);
	}
	return r;
}

static bool follows(const struct app *a, enum fwd_family fam)
{
	return a->conf.f[fam].on && !inaddr_is_unset(&a->conf.f[fam].host_guest);
}

int app_own_open(struct app *a, struct err *e)
{
	const bool needed = a->conf.host_own_addr || follows(a, FWD_V4) || follows(a, FWD_V6);
	const struct ev_ref ref = { .kind = EV_KIND_OWN };
	struct err why;
	int r;

	a->own_fd = -1;
	if (a->conf.splice_only)
		return 0;
	a->own_fd = nl_monitor_open(&why);
	if (a->own_fd < 0 && needed)
		return err_set(e, a->own_fd, "%s", why.text);
	if (a->own_fd < 0 || nl_monitor_ways(a->own_fd, &why))
		app_log(&a->log, APP_INFO, "%s; flows of datagrams may end with the host's address", why.text);
	r = a->own_fd < 0 ? 0 : a->ev->ops->set(a->ev, a->own_fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	return r ? err_set(e, r, "Can't watch for addresses: %s", strerror(-r)) : 0;
}

/* Another one in the place of an address that the host has lost, or has not had */
static void own_address_find(struct app *a, enum fwd_family fam)
{
	struct fwd_family_set *s = &a->fwd.f[fam];
	struct nl_template t = { .v6 = fam == FWD_V6 };
	char text[INADDR_STR_MAX], alias[INADDR_STR_MAX];
	struct nl *nl = NULL;
	struct err e;
	int r = nl_open(&nl, &e);

	if (!r)
		r = nl_template_get(nl, fam == FWD_V6, app_template_name(a, fam), &t, &e);
	nl_close(nl);
	if (r && r != -ENODEV)		/* the interface is gone: so is its address */
		app_log(&a->log, APP_WARN, "%s", e.text);
	s->host_own = own_address(s, &t);
	nl_template_free(&t);
	inaddr_str(&s->host_guest, alias);
	if (inaddr_is_unset(&s->host_own))
		app_log(&a->log, APP_INFO, "The host has no address behind %s now", alias);
	else
		app_log(&a->log, APP_INFO, "The host's own address behind %s is %s now", alias, inaddr_str(&s->host_own, text));
}

void app_own_event(struct app *a, const struct ev_hit *hit)
{
	(void)hit;
	nl_monitor_drain(a->own_fd);
	a->path.p.net_gen++;
	for (int f = 0; f < FWD_FAMILIES; f++) {
		struct fwd_family_set *s = &a->fwd.f[f];

		s->shared_lost = 0;
		for (unsigned i = 0; i < s->shared_cnt; i++)
			if (!on_host(&s->shared[i]))
				s->shared_lost |= 1u << i;
		if (follows(a, (enum fwd_family)f) && !on_host(&s->host_own))
			own_address_find(a, (enum fwd_family)f);
	}
}
