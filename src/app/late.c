/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published ports whose interface or listening address is not there yet, or
 * goes away and comes back. An address is bound at once, as with --freebind, so
 * that nobody takes its ports meanwhile: only people need to be told. An
 * interface can't be bound before it exists, and one that was made again is
 * another one: its sockets are opened then, and afresh.
 *
 * One notification socket while there is something to wait for, none otherwise.
 * What a notification says does not matter: it is a reason to look.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app_priv.h"

static void tell(const struct app *a, const struct app_late *w)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[w->rule];
	char name[FWD_RULE_STR_MAX];

	fwd_rule_name(r, false, r->first, r->last, name);
	if (w->served)
		app_log(&a->log, APP_INFO, "Now forwarded: %s", name);
	else
		app_log(&a->log, APP_WARN, "Not forwarded yet: %s: there is no such %s; it will be used when it appears", name,
			*r->ifname && !w->ifindex ? "interface" : "address");
}

int app_late_add(struct app *a, unsigned rule, bool no_ifname, bool absent, struct err *e)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[rule];
	struct app_late *w;

	if (!strcmp(r->ifname, "lo") && !absent)
		return 0;		/* is always there */
	if (!a->late)
		a->late = calloc(a->conf.host_rules.cnt, sizeof(*a->late));
	if (!a->late)
		return err_set(e, -ENOMEM, "Out of memory for published ports");
	w = &a->late[a->late_cnt++];
	*w = (struct app_late){ .rule = (uint16_t)rule, .served = !no_ifname && !absent };
	w->ifindex = *r->ifname && !no_ifname ? if_nametoindex(r->ifname) : 0;
	if (r->weak && no_ifname)
		a->group[false][r->proto].wait = true;
	if (!w->served)
		tell(a, w);
	return 0;
}

int app_late_open(struct app *a, struct err *e)
{
	const struct ev_ref ref = { .kind = EV_KIND_MONITOR };
	int r;

	if (!a->late_cnt)
		return 0;
	a->late_fd = nl_monitor_open(e);
	if (a->late_fd < 0)
		return a->late_fd;
	r = a->ev->ops->set(a->ev, a->late_fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	return r ? err_set(e, r, "Can't watch for interfaces: %s", strerror(-r)) : 0;
}

void app_late_close(struct app *a)
{
	if (a->late_fd >= 0)
		close(a->late_fd);
	a->late_fd = -1;
	a->late_cnt = 0;
}

static bool has_addr(const struct fwd_rule *r)
{
	return r->any || inaddr_is_unset(&r->listen) || sk_host_has_addr(&r->listen, *r->ifname ? r->ifname : NULL);
}

/* Sockets belong to an interface's number, which is given only once */
static void follow_ifname(struct app *a, struct app_late *w)
{
	const struct fwd_rule *r = &a->conf.host_rules.rule[w->rule];
	unsigned now = if_nametoindex(r->ifname);
	struct err e;
	bool absent;
	int code;

	if (now == w->ifindex)
		return;
	app_listen_rule_close(a, w->rule);
	w->ifindex = 0;
	w->failed = false;
	if (!now)
		return;
	code = app_listen_rule(a, w->rule, &absent, &e);
	if (code == -ENODEV)
		return;			/* gone already */
	w->ifindex = now;
	w->failed = code;
	if (w->failed)
		app_log(&a->log, APP_WARN, "%s", e.text);
}

void app_late_check(struct app *a)
{
	unsigned left = 0;

	for (unsigned i = 0; i < a->late_cnt; i++) {
		struct app_late w = a->late[i];
		const struct fwd_rule *r = &a->conf.host_rules.rule[w.rule];
		bool was = w.served;

		if (*r->ifname)
			follow_ifname(a, &w);
		w.served = !w.failed && (!*r->ifname || w.ifindex) && has_addr(r);
		if (w.served != was && !w.failed)
			tell(a, &w);
		if (!w.served || *r->ifname)	/* an address may go: its sockets stay good */
			a->late[left++] = w;
	}
	a->late_cnt = left;
	if (!left)
		app_late_close(a);
}

void app_late_event(struct app *a, const struct ev_hit *hit)
{
	(void)hit;
	if (a->late_fd < 0)
		return;
	nl_monitor_drain(a->late_fd);
	app_late_check(a);
}
