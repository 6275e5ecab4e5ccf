/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses and published ports of this instance: from options, the host's
 * network, its resolvers. Listening sockets that run out of flows or
 * descriptors, or whose guest does not keep up with answering, pause, and go on
 * when one is free: no connection waits in vain, none spins.
 * Loopback ports of the namespace are bound here too, but then are the business
 * of host/splice.
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
static const char *listen_name(char *buf, size_t len, const struct fwd_rule *r, unsigned port, bool ns)
{
	char addr[INADDR_STR_MAX];

	snprintf(buf, len, "%s port %u on %s%s%s", r->proto == FWD_TCP ? "TCP" : "UDP", port,
		 ns ? "the namespace's loopback" : r->any ? "any address" : inaddr_str(&r->listen, addr),
		 r->ifname[0] ? " of interface " : "", r->ifname);
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

/* A port in use may belong to our predecessor, who is about to notice that its namespace has gone: be patient */
static int listen_one(struct app *a, const struct sk_listen *l, struct ev_ref ref, bool weak)
{
	const struct timespec pause = { .tv_nsec = 5 * NS_MS };
	int h;

	while ((h = sk_host_listen(&a->sk, l, ref)) == -EADDRINUSE && !weak && app_clock() < a->listen_until)
		nanosleep(&pause, NULL);
	return h;
}

/* One port of a rule, on the host or, inside it, in the namespace: 0, or negative errno of binding */
static int listen_port(struct app *a, const struct fwd_rule *r, uint16_t port, bool ns)
{
	const uint16_t target_port = (uint16_t)(r->target_first + (port - r->first));
	const struct sk_listen l = {
		.proto = r->proto == FWD_TCP ? SK_TCP : SK_UDP, .any = r->any, .addr = { .a = r->listen, .port = port },
		.ifname = ns ? "lo" : r->ifname[0] ? r->ifname : NULL,	/* every loopback address, and no other (NAT-33) */
	};
	struct ev_ref ref = { .idx = a->listener_cnt, .kind = EV_KIND_LISTEN };
	int h;

	h = listen_one(a, &l, ns ? splice_listener_ref(&a->splice) : ref, r->weak);
	if (h < 0)
		return h;
	if (ns) {
		const struct splice_listen s = { .h = h, .proto = l.proto, .target = r->target, .port = target_port };

		return splice_listener_add(&a->splice, &s);
	}
	a->listener[a->listener_cnt++] = (struct app_listener){
		.proto = r->proto, .h = h, .target = r->target, .port = target_port,
	};
	return 0;
}

static int listen_rule(struct app *a, const struct fwd_rule *r, bool ns, unsigned *ret_failed, struct err *e)
{
	char name[128];

	for (unsigned port = r->first; port <= r->last; port++) {
		int err = listen_port(a, r, (uint16_t)port, ns);

		if (err && !r->weak)
			return err_set(e, err, "Can't listen on %s: %s%s", listen_name(name, sizeof(name), r, port, ns),
				       strerror(-err), listen_hint(err));
		*ret_failed += !!err;
	}
	return 0;
}

/* To be bound at start */
static unsigned rules_ports(const struct fwd_rules *rules)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < rules->cnt; i++)
		if (!rules->rule[i].scan)
			cnt += rules->rule[i].last - rules->rule[i].first + 1u;
	return cnt;
}

/* All rules, of which CNT ports; weak ones may fail, but not everything */
static int listen_rules(struct app *a, const struct fwd_rules *rules, bool ns, unsigned cnt, struct err *e)
{
	const char *where = ns ? " in the namespace" : "";
	unsigned failed = 0;

	for (unsigned i = 0; i < rules->cnt; i++) {
		int r = rules->rule[i].scan ? 0 : listen_rule(a, &rules->rule[i], ns, &failed, e);

		if (r)
			return r;
	}
	if (failed == cnt)
		return err_set(e, -EADDRINUSE, "None of %u ports could be bound%s", cnt, where);
	if (failed)
		app_log(&a->log, APP_WARN, "%u of %u ports could not be bound%s", failed, cnt, where);
	return 0;
}

int app_listen(struct app *a, struct err *e)
{
	unsigned cnt = rules_ports(&a->conf.host_rules);

	if (!cnt)
		return 0;
	a->listen_until = app_clock() + LISTEN_PATIENCE;
	a->listener = calloc(cnt, sizeof(*a->listener));
	a->half_open = calloc(cnt, sizeof(*a->half_open));
	if (!a->listener || !a->half_open)
		return err_set(e, -ENOMEM, "Out of memory for %u published ports", cnt);
	return listen_rules(a, &a->conf.host_rules, false, cnt, e);
}

int app_listen_ns(struct app *a, struct err *e)
{
	unsigned cnt = rules_ports(&a->conf.ns_rules);

	return cnt ? listen_rules(a, &a->conf.ns_rules, true, cnt, e) : 0;
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

/* Next connection: handle, -EAGAIN if none waits, -EBUSY if it has to go on waiting, or what accept() says */
static int accept_one(struct app *a, const struct app_listener *l, struct tcp_incoming *in)
{
	struct sk *sk = &a->sk.sk;
	struct sk_addr local;
	int h;

	if (a->half_open[in->listener] >= APP_HALF_OPEN)
		return -EBUSY;
	if (a->flows.cnt == a->flows.cap && !proto_evict(&a->path.p)) {
		env_drop(&a->env, DROP_FLOW_FULL);
		return -EBUSY;
	}
	h = sk->ops->accept(sk, l->h, &in->peer, &local);
	if ((h == -EMFILE || h == -ENFILE) && proto_evict(&a->path.p))
		h = sk->ops->accept(sk, l->h, &in->peer, &local);
	return h;
}

static void accept_all(struct app *a, struct app_listener *l)
{
	struct tcp_incoming in = { .target = l->target, .port = l->port, .listener = (uint32_t)(l - a->listener) };
	int h;

	l->paused = false;
	do {
		h = accept_one(a, l, &in);
		if (h >= 0)
			tcp_accepted(&a->path.p, h, &in);
		/* a connection that ended in the queue is no reason to leave those behind it there */
	} while (h >= 0 || h == -ECONNABORTED || h == -EPROTO || h == -EINTR);
	if (h == -EMFILE || h == -ENFILE || h == -ENOMEM || h == -ENOBUFS)
		env_drop(&a->env, DROP_NO_DESCRIPTOR);
	else if (h != -EBUSY)
		return;
	l->paused = a->any_paused = true;
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
	if (!a->path.p.flow_gone && !a->splice.flow_gone)
		return;
	a->path.p.flow_gone = a->splice.flow_gone = false;
	splice_resume(&a->splice);
	if (!a->any_paused)
		return;
	a->any_paused = false;
	for (uint32_t i = 0; i < a->listener_cnt; i++)
		if (a->listener[i].paused)
			accept_all(a, &a->listener[i]);
}
