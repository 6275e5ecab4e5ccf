/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses and published ports of this instance: from options, the host's
 * network, its resolvers. Listening sockets that run out of flows or descriptors
 * pause, and go on when one is free: no connection waits in vain, none spins.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "app_priv.h"
#include "host/resolv.h"

#define LISTEN_PATIENCE	(NS_S / 2)	/* our predecessor needs some 2 ms, on a busy machine more */

/* The guest gets all addresses of the interface: to it, none of them is a peer's */
static void copied_addresses(const struct nl_template *t, struct fwd_family_set *s)
{
	for (unsigned i = 0; i < t->addrs.cnt && s->more_cnt < FWD_MORE_MAX; i++)
		if (!inaddr_eq(&t->addrs.v[i].addr, &s->guest) && !inaddr_is_linklocal(&t->addrs.v[i].addr))
			s->more[s->more_cnt++] = t->addrs.v[i].addr;
}

static void family_addresses(struct app *a, enum fwd_family fam)
{
	const struct conf_family *c = &a->conf.f[fam];
	const struct nl_template *t = &a->tmpl[fam];
	struct fwd_family_set *s = &a->fwd.f[fam];

	s->on = c->on;
	if (!s->on)
		return;
	if (!inaddr_is_unset(&c->addr)) {
		s->guest = c->addr;
		s->prefix_len = (uint8_t)c->prefix_len;
	} else if (t->has_addr) {
		s->guest = t->addr;
		s->prefix_len = t->prefix_len;
		if (fam == FWD_V4 && a->conf.netmask_len)
			s->prefix_len = (uint8_t)a->conf.netmask_len;
	}
	s->seen = s->guest;
	/* what we configure, or were told, is where it can be reached, whichever of its addresses it uses now and then */
	a->fwd.seen_fixed[fam] = !inaddr_is_unset(&c->addr) || (a->conf.config_net && !inaddr_is_unset(&s->guest));
	if (a->conf.config_net && inaddr_is_unset(&c->addr) && !a->conf.no_copy_addrs)
		copied_addresses(t, s);
	s->gateway = inaddr_is_unset(&c->gateway) ? t->gw : c->gateway;
	s->ours = t->our_addr;
	if (!inaddr_is_unset(&c->gateway) && (fam == FWD_V4 || inaddr_is_linklocal(&c->gateway)))
		s->ours = c->gateway;
	s->host_loopback = c->host_loopback;
	if (inaddr_is_unset(&c->host_loopback) && !a->conf.no_map_gw)
		s->host_loopback = s->gateway;
	s->host_guest = c->host_guest;
	s->dns_match = c->dns_forward;
	s->dns_host = c->dns_host;
	s->outbound = c->outbound;
	s->scope = t->link.ifindex;
}

/* The first resolver of a family is where forwarded queries go (DNS-2); one on the host's loopback is reached through the
 * alias, which then also is the forwarding address (DNS-3)
 */
static void family_resolver(struct app *a, enum fwd_family fam, const struct inaddr *server, unsigned cnt)
{
	struct fwd_family_set *s = &a->fwd.f[fam];

	if (!s->on || !cnt)
		return;
	if (inaddr_is_unset(&s->dns_host))
		s->dns_host = server[0];
	for (unsigned i = 0; i < cnt; i++)
		if ((inaddr_is_loopback(&server[i]) || inaddr_eq(&server[i], &s->host_loopback)) &&
		    inaddr_is_unset(&s->dns_match))
			s->dns_match = s->host_loopback;
}

int app_fwd_init(struct app *a, struct err *e)
{
	struct resolv r = { .v4_cnt = 0 };
	struct err ignored;

	a->fwd.tcp_on = !a->conf.no_tcp;
	a->fwd.udp_on = !a->conf.no_udp;
	a->fwd.icmp_on = !a->conf.no_icmp;
	for (int f = 0; f < FWD_FAMILIES; f++)
		family_addresses(a, (enum fwd_family)f);
	if (!a->fwd.f[FWD_V4].on && !a->fwd.f[FWD_V6].on)
		return err_set(e, -EAFNOSUPPORT, "Neither IPv4 nor IPv6 can be used: check -4 and -6, and the kernel's IPv6");
	if (a->conf.no_dns)
		return 0;
	/* DNS that can't be read is no reason not to start */
	if (resolv_read(AT_FDCWD, "/etc/resolv.conf", &r, &ignored))
		app_log(&a->log, APP_WARN, "%s", ignored.text);
	family_resolver(a, FWD_V4, r.v4, r.v4_cnt);
	family_resolver(a, FWD_V6, r.v6, r.v6_cnt);
	return 0;
}

/* "TCP port 8080 on 192.0.2.1" */
static const char *listen_name(char *buf, size_t len, const struct fwd_rule *r, unsigned port)
{
	char addr[INADDR_STR_MAX];

	snprintf(buf, len, "%s port %u on %s%s%s", r->proto == FWD_TCP ? "TCP" : "UDP", port,
		 r->any ? "any address" : inaddr_str(&r->listen, addr), r->ifname[0] ? " of interface " : "", r->ifname);
	return buf;
}

static const char *listen_hint(int err)
{
	switch (-err) {
	case EADDRINUSE:
		return "; another program uses it (ss -ltnup shows which)";
	case EACCES:
		return "; ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE";
	case EADDRNOTAVAIL:
		return "; the host does not have that address (--freebind allows it)";
	case EMFILE:
	case ENFILE:
		return "; raise the hard limit of open files (ulimit -Hn)";
	case ENODEV:
		return "; there is no such interface";
	}
	return "";
}

/* A port in use may belong to our predecessor, who is about to notice that its namespace has gone: be patient until UNTIL */
static int listen_one(struct app *a, const struct sk_listen *l, ns_t until)
{
	const struct ev_ref ref = { .idx = a->listener_cnt, .kind = EV_KIND_LISTEN };
	const struct timespec pause = { .tv_nsec = 5 * NS_MS };
	int h;

	while ((h = sk_host_listen(&a->sk, l, ref)) == -EADDRINUSE && app_clock() < until)
		nanosleep(&pause, NULL);
	return h;
}

static int listen_rule(struct app *a, const struct fwd_rule *r, ns_t until, unsigned *ret_failed, struct err *e)
{
	struct sk_listen l = {
		.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .any = r->any, .addr.a = r->listen,
		.ifname = r->ifname[0] ? r->ifname : NULL,
	};
	char name[128];

	for (unsigned port = r->first; port <= r->last; port++) {
		int h;

		l.addr.port = (uint16_t)port;
		h = listen_one(a, &l, r->weak ? 0 : until);
		if (h < 0 && !r->weak)
			return err_set(e, h, "Can't listen on %s: %s%s", listen_name(name, sizeof(name), r, port),
				       strerror(-h), listen_hint(h));
		if (h < 0) {
			++*ret_failed;
			continue;
		}
		a->listener[a->listener_cnt++] = (struct app_listener){
			.proto = r->proto, .h = h, .target = r->target,
			.port = (uint16_t)(r->target_first + (port - r->first)),
		};
	}
	return 0;
}

int app_listen(struct app *a, struct err *e)
{
	const struct fwd_rules *rules = &a->conf.host_rules;
	const ns_t until = app_clock() + LISTEN_PATIENCE;
	unsigned failed = 0;
	uint32_t cnt = 0;
	int r;

	for (unsigned i = 0; i < rules->cnt; i++)
		cnt += (uint32_t)rules->rule[i].last - rules->rule[i].first + 1;
	if (!cnt)
		return 0;
	a->listener = calloc(cnt, sizeof(*a->listener));
	if (!a->listener)
		return err_set(e, -ENOMEM, "Out of memory for %u published ports", cnt);
	for (unsigned i = 0; i < rules->cnt; i++) {
		r = listen_rule(a, &rules->rule[i], until, &failed, e);
		if (r)
			return r;
	}
	if (!a->listener_cnt)
		return err_set(e, -EADDRINUSE, "None of %u ports could be bound", cnt);
	if (failed)
		app_log(&a->log, APP_WARN, "%u of %u ports could not be bound", failed, cnt);
	return 0;
}

void app_listen_close(struct app *a)
{
	for (uint32_t i = 0; i < a->listener_cnt; i++) {
		const struct app_listener *l = &a->listener[i];

		if (l->proto == FWD_UDP)
			udp_listener_gone(&a->path.p, l->h);
		a->sk.sk.ops->close(&a->sk.sk, l->h, SK_END_GRACEFUL);
	}
	a->listener_cnt = 0;
}

static void accept_all(struct app *a, struct app_listener *l)
{
	struct sk_addr peer, local;
	int h;

	l->paused = false;
	while ((h = a->sk.sk.ops->accept(&a->sk.sk, l->h, &peer, &local)) >= 0)
		tcp_accepted(&a->path.p, h, &peer, &l->target, l->port);
	if (h == -EMFILE || h == -ENFILE || h == -ENOMEM || h == -ENOBUFS) {
		env_drop(&a->env, DROP_NO_DESCRIPTOR);
		l->paused = a->any_paused = true;
	}
}

void app_listen_event(struct app *a, const struct ev_hit *hit)
{
	struct app_listener *l;

	if (hit->ref.idx >= a->listener_cnt)
		return;
	l = &a->listener[hit->ref.idx];
	if (l->proto == FWD_TCP) {
		accept_all(a, l);
	} else {
		struct udp_listener u = { .h = l->h, .target = l->target, .port = l->port };

		udp_listen(&a->path.p, &u, hit);
	}
}

void app_listen_resume(struct app *a)
{
	if (!a->path.p.flow_gone)
		return;
	a->path.p.flow_gone = false;
	if (!a->any_paused)
		return;
	a->any_paused = false;
	for (uint32_t i = 0; i < a->listener_cnt; i++)
		if (a->listener[i].paused)
			accept_all(a, &a->listener[i]);
}
