/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses of this instance, from options and the host's network, and what
 * comes in at published ports. Listening sockets that run out of flows
 * or descriptors, or whose guest does not keep up with answering, pause, and go
 * on when one is free: no connection waits in vain, none spins. What comes from
 * the host's loopback is the business of inside.c.
 */
#include <errno.h>
#include <net/if.h>
#include <string.h>

#include "app_priv.h"

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
	app_own_init(a, t, s);
	s->dns_match = c->dns_forward;
	s->dns_host = c->dns_host;
	s->outbound = c->outbound;
	s->scope = s->group_scope = t->link.ifindex;
	if (c->outbound_if)
		s->group_scope = if_nametoindex(c->outbound_if);
	s->same_net = t->has_addr && s->prefix_len == t->prefix_len && inaddr_in_prefix(&s->guest, &t->addr, t->prefix_len);
}

/* What the namespace sends to an address of its own doesn't reach us */
static void warn_alias(const struct app *a, const char *opt, const struct inaddr *alias)
{
	char text[INADDR_STR_MAX];

	if (!inaddr_is_unset(alias) && fwd_is_guest(&a->fwd, alias) && !fwd_is_shared(&a->fwd, alias))
		app_log(&a->log, APP_WARN, "--%s %s has no effect: the namespace has that address itself, choose another one", opt,
			inaddr_str(alias, text));
}

int app_fwd_init(struct app *a, struct err *e)
{
	a->fwd.tcp_on = !a->conf.no_tcp;
	a->fwd.udp_on = !a->conf.no_udp;
	a->fwd.icmp_on = !a->conf.no_icmp;
	for (int f = 0; f < FWD_FAMILIES; f++)
		family_addresses(a, (enum fwd_family)f);
	for (int f = 0; f < FWD_FAMILIES; f++) {
		warn_alias(a, "map-host-loopback", &a->conf.f[f].host_loopback);
		warn_alias(a, "map-guest-addr", &a->conf.f[f].host_guest);
		warn_alias(a, "dns-forward", &a->conf.f[f].dns_forward);
	}
	if (!a->fwd.f[FWD_V4].on && !a->fwd.f[FWD_V6].on)
		return err_set(e, -EAFNOSUPPORT, "Neither IPv4 nor IPv6 can be used: check -4 and -6, and the kernel's IPv6");
	return app_dns_scope(a, e);
}

/* Next connection: handle, -EAGAIN if none waits, -EBUSY if it has to go on waiting, or what accept() says */
static int accept_one(struct app *a, const struct app_listener *l, struct tcp_incoming *in, struct sk_addr *ret_local)
{
	struct sk *sk = &a->sk.sk;
	int h;

	if (a->half_open[in->listener] >= APP_HALF_OPEN || !splice_takes(&a->splice))
		return -EBUSY;
	if (a->flows.cnt == a->flows.cap && !proto_evict(&a->path.p)) {
		env_drop(&a->env, DROP_FLOW_FULL);
		return -EBUSY;
	}
	h = sk->ops->accept(sk, l->h, &in->peer, ret_local);
	if ((h == -EMFILE || h == -ENFILE) && proto_evict(&a->path.p))
		h = sk->ops->accept(sk, l->h, &in->peer, ret_local);
	return h;
}

static void accept_all(struct app *a, struct app_listener *l)
{
	struct tcp_incoming in = { .target = l->target, .port = l->port, .listener = (uint32_t)(l - a->listener) };
	struct sk_addr local = { .port = 0 };
	int h;

	l->paused = false;
	do {
		h = accept_one(a, l, &in, a->conf.host_lo_to_ns_lo ? &local : NULL);	/* else nobody asks for it */
		if (h >= 0 && !app_inside_tcp(a, l, h, &in.peer, &local))
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
	if (l->h < 0 || hit->ref.gen != l->gen)
		return;			/* closed earlier in this turn */
	if (l->proto == FWD_TCP) {
		accept_all(a, l);
	} else {
		struct udp_listener u = { .h = l->h, .target = l->target, .port = l->port };

		if (app_inside_udp(a, l, &u, hit))
			return;
		a->sk.ev->ops->set(a->sk.ev, l->h, hit->ref, 0);
		l->paused = a->any_paused = true;
	}
}

static void go_on(struct app *a, struct app_listener *l)
{
	const struct ev_ref ref = { .idx = (uint32_t)(l - a->listener), .gen = l->gen, .kind = EV_KIND_LISTEN };

	if (l->proto == FWD_TCP) {
		accept_all(a, l);
	} else {
		l->paused = false;
		a->sk.ev->ops->set(a->sk.ev, l->h, ref, EV_IN | EV_LEVEL | EV_FIRST);
	}
}

void app_listen_resume(struct app *a)
{
	const bool gone = a->path.p.flow_gone || a->splice.flow_gone;

	if (!gone && !a->inside_news)
		return;
	a->path.p.flow_gone = a->splice.flow_gone = a->inside_news = false;
	if (gone)
		sk_ns_retry(&a->sk_ns);
	splice_resume(&a->splice);
	if (!a->any_paused)
		return;
	a->any_paused = false;
	for (uint32_t i = 0; i < a->listener_cnt; i++)
		if (a->listener[i].h >= 0 && a->listener[i].paused)
			go_on(a, &a->listener[i]);
}
