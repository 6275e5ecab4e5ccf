/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which resolvers stand behind the forwarding address: those of the command
 * line, else those of the host, whose file is followed. What the guest was
 * told stays true: the address that it asks does not change.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "app_priv.h"
#include "base/bytes.h"

#define RESOLV_PATH	"/etc/resolv.conf"
#define LOOK_AGAIN	NS_S		/* where the file can't be watched */

struct dns_list {
	struct fwd_dns_server server[FWD_DNS_MAX];
	unsigned cnt;
};

static void list_add(struct dns_list *l, const struct inaddr *addr, uint32_t scope)
{
	for (unsigned i = 0; i < l->cnt; i++)
		if (inaddr_eq(&l->server[i].addr, addr) && l->server[i].scope == scope)
			return;
	if (l->cnt < FWD_DNS_MAX)
		l->server[l->cnt++] = (struct fwd_dns_server){ .addr = *addr, .scope = scope };
}

static void list_add_v6(struct app *a, struct dns_list *l, const struct resolv *r, unsigned i)
{
	const bool scoped = inaddr_is_linklocal(&r->v6[i]) && *r->v6_scope[i];
	const uint32_t scope = scoped ? resolv_scope(r->v6_scope[i]) : 0;
	char addr[INADDR_STR_MAX];

	if (scoped && !scope)
		app_log(&a->log, APP_INFO, "Resolver %s%%%s is not used: no such interface", inaddr_str(&r->v6[i], addr), r->v6_scope[i]);
	else
		list_add(l, &r->v6[i], scope);
}

/* Those of one family: --dns-host alone, or all of the file */
static void list_add_family(struct app *a, struct dns_list *l, enum fwd_family fam, const struct resolv *r)
{
	if (!a->fwd.f[fam].on)
		return;
	if (!inaddr_is_unset(&a->conf.f[fam].dns_host)) {
		list_add(l, &a->conf.f[fam].dns_host, fam == FWD_V6 ? a->dns_host_scope : 0);
		return;
	}
	for (unsigned i = 0; fam == FWD_V4 && i < r->v4_cnt; i++)
		list_add(l, &r->v4[i], 0);
	for (unsigned i = 0; fam == FWD_V6 && i < r->v6_cnt; i++)
		list_add_v6(a, l, r, i);
}

/* A resolver on the host's loopback, or where its alias is, is reached through the alias, which then also is the forwarding
 * address (DNS-3). It stays that: the guest may have been told.
 */
static void match_init(struct fwd_family_set *s, const struct inaddr *server, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		if ((inaddr_is_loopback(&server[i]) || inaddr_eq(&server[i], &s->host_loopback)) &&
		    inaddr_is_unset(&s->dns_match))
			s->dns_match = s->host_loopback;
}

/* Resolvers of the other family come behind those of the guest's query: an address that the guest asks must not be dead
 * only because the host has none of its kind (DNS-2)
 */
static bool family_set(struct app *a, enum fwd_family fam, const struct resolv *r)
{
	struct fwd_family_set *s = &a->fwd.f[fam];
	struct dns_list l = { .cnt = 0 };

	if (!s->on)
		return false;
	list_add_family(a, &l, fam, r);
	if (inaddr_is_unset(&a->conf.f[fam].dns_host))
		list_add_family(a, &l, fam == FWD_V4 ? FWD_V6 : FWD_V4, r);
	if (!l.cnt)			/* a file that is being written, or a host without network: who was there may come back */
		return false;
	s->dns_host = l.server[0].addr;
	return fwd_dns_set(&s->dns, l.server, l.cnt);
}

static bool families_set(struct app *a, const struct resolv *r)
{
	bool changed = false;

	match_init(&a->fwd.f[FWD_V4], r->v4, r->v4_cnt);
	match_init(&a->fwd.f[FWD_V6], r->v6, r->v6_cnt);
	for (int f = 0; f < FWD_FAMILIES; f++)
		changed |= family_set(a, (enum fwd_family)f, r);
	return changed;
}

/* Whether the file can make a difference: there is a way to ask us, and not all is settled by options */
static bool file_counts(const struct app *a)
{
	for (int f = 0; f < FWD_FAMILIES; f++) {
		const struct fwd_family_set *s = &a->fwd.f[f];

		if (s->on && inaddr_is_unset(&a->conf.f[f].dns_host) &&
		    (!inaddr_is_unset(&s->dns_match) || !inaddr_is_unset(&s->host_loopback)))
			return true;
	}
	return false;
}

static void log_servers(const struct app *a)
{
	for (int f = 0; f < FWD_FAMILIES; f++) {
		const struct fwd_family_set *s = &a->fwd.f[f];
		char match[INADDR_STR_MAX], addr[INADDR_STR_MAX], text[FWD_DNS_MAX * (INADDR_STR_MAX + 12)] = "";

		if (!s->on || inaddr_is_unset(&s->dns_match))
			continue;
		for (unsigned i = 0, n = 0; i < s->dns.cnt; i++) {
			n += (unsigned)sprintf(text + n, " %s", inaddr_str(&s->dns.server[i].addr, addr));
			if (s->dns.server[i].scope)
				n += (unsigned)sprintf(text + n, "%%%u", s->dns.server[i].scope);
		}
		app_log(&a->log, s->dns.cnt ? APP_INFO : APP_WARN, "Queries to %s go to%s", inaddr_str(&s->dns_match, match),
			s->dns.cnt ? text : " no resolver: " RESOLV_PATH " has none, give one with --dns-host");
	}
}

static bool file_read(struct app *a)
{
	struct resolv r;
	struct err e;

	/* DNS that can't be read is no reason not to start */
	if (resolv_read(AT_FDCWD, RESOLV_PATH, &r, &e))
		app_log(&a->log, APP_WARN, "%s", e.text);
	return families_set(a, &r);
}

int app_dns_scope(struct app *a, struct err *e)
{
	const struct conf_family *c = &a->conf.f[FWD_V6];
	char addr[INADDR_STR_MAX], name[IF_NAMESIZE];

	if (!c->on || !*c->dns_host_scope)
		return 0;
	a->dns_host_scope = resolv_scope(c->dns_host_scope);
	if (a->dns_host_scope && if_indextoname(a->dns_host_scope, name))
		return 0;
	return err_set(e, -ENODEV, "--dns-host %s%%%s: %s is no interface of the host: %s; \"ip link\" lists them",
		       inaddr_str(&c->dns_host, addr), c->dns_host_scope, c->dns_host_scope, strerror(ENODEV));
}

int app_dns_init(struct app *a, struct err *e)
{
	const struct resolv none = { .v4_cnt = 0 };
	const struct ev_ref ref = { .kind = EV_KIND_RESOLV };
	struct err why;
	int code = 0;

	a->resolv.fd = -1;
	a->resolv_look_at = NS_NEVER;
	if (a->conf.no_dns) {
		families_set(a, &none);		/* what options say is used all the same */
		return 0;
	}
	if (file_counts(a) && resolv_watch_open(&a->resolv, RESOLV_PATH, &why)) {
		app_log(&a->log, APP_INFO, "%s; looking there when the guest asks", why.text);
		a->resolv_look_at = 0;
	}
	if (a->resolv.fd >= 0)
		code = a->ev->ops->set(a->ev, a->resolv.fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	if (code)
		return err_set(e, code, "Can't watch for events: %s", strerror(-code));
	file_read(a);
	log_servers(a);
	return 0;
}

void app_dns_event(struct app *a, const struct ev_hit *hit)
{
	(void)hit;
	if (resolv_watch_changed(&a->resolv) && file_read(a))
		log_servers(a);
}

void app_dns_look(struct app *a)
{
	if (a->env.now < a->resolv_look_at || a->dns_cnt == a->path.p.dns_cnt)
		return;
	a->dns_cnt = a->path.p.dns_cnt;
	a->resolv_look_at = a->env.now + LOOK_AGAIN;
	if (resolv_watch_look(&a->resolv) && file_read(a))
		log_servers(a);
}
