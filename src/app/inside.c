/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections over the host's loopback to published ports: from socket to
 * socket, past the guest link (NAT-30, NAT-31, NAT-35). They need sockets inside
 * the namespace, which a process there makes; without it they take the link, as
 * with --no-splice.
 *
 * A service that listens on the namespace's loopback only is not reached, unless
 * --host-lo-to-ns-lo says so (B10), or its port's rule names a loopback address as
 * target. What comes to that from elsewhere takes this way as well: a packet to
 * loopback on the link is dropped inside, and the caller would wait for nothing.
 */
#include <string.h>
#include <unistd.h>

#include "app_priv.h"
#include "base/bytes.h"

bool app_inside_needed(const struct app *a)
{
	return (!a->conf.no_splice && a->conf.host_rules.cnt) || a->follow[true].on;
}

int app_inside_start(struct app *a, const struct box_identity *id, struct err *e)
{
	int fd[2], r;

	r = sk_ns_pair(fd, e);
	if (r)
		return r;
	a->inside_pid = box_ns_stay(&a->ns, id, sk_ns_serve, fd[1], e);
	close(fd[1]);
	if (a->inside_pid < 0) {
		r = a->inside_pid;
		close(fd[0]);
		return r;
	}
	r = sk_ns_open(&a->sk_ns, a->ev, fd[0]);
	return r ? err_set(e, r, "Can't watch the helper in the namespace: %s", strerror(-r)) : 0;
}

/* The guest's own address of a family, unset: it has none, or shares it with the host, and what is sent there from inside comes
 * back to us (--host-own-addr)
 */
static struct sk_addr guest_address(const struct app *a, bool v4, uint16_t port)
{
	const struct fwd_family_set *s = &a->fwd.f[v4 ? FWD_V4 : FWD_V6];
	struct sk_addr to = { .a = inaddr_is_unset(&s->seen) ? s->guest : s->seen, .port = port };

	if (!s->on || fwd_is_shared(&a->fwd, &to.a))
		to.a = (struct inaddr){ { 0 } };
	if (!v4 && inaddr_is_linklocal(&to.a))
		to.scope = a->guest_ifindex;
	return to;
}

/* Where in the namespace something goes that came from PEER to LOCAL; false: over the link (NAT-32) */
static bool way(const struct app *a, const struct app_listener *l, const struct sk_addr *peer, const struct sk_addr *local,
		struct splice_way *ret)
{
	const bool v4 = inaddr_is_v4(&peer->a), local_peer = inaddr_is_loopback(&peer->a);

	*ret = (struct splice_way){ .to.port = l->port, .alt.port = l->port };
	if (a->conf.no_splice || (!local_peer && (a->conf.splice_only || !inaddr_is_loopback(&l->target))))
		return false;
	if (!inaddr_is_unset(&l->target)) {
		ret->to.a = l->target;
		ret->alt.port = 0;
		return inaddr_is_loopback(&l->target) || fwd_is_guest(&a->fwd, &l->target);
	}
	if (a->conf.host_lo_to_ns_lo) {
		ret->to.a = inaddr_is_loopback(&local->a) ? local->a : inaddr_loopback(v4);
		ret->alt.a = a->fwd.f[v4 ? FWD_V6 : FWD_V4].on ? inaddr_loopback(!v4) : ret->alt.a;
	} else {
		ret->to = guest_address(a, v4, l->port);
		ret->alt = guest_address(a, !v4, l->port);
	}
	if (inaddr_is_unset(&ret->to.a)) {
		ret->to = ret->alt;
		ret->alt.port = 0;
	}
	if (inaddr_is_unset(&ret->alt.a))
		ret->alt.port = 0;
	return !inaddr_is_unset(&ret->to.a);
}

bool app_inside_tcp(struct app *a, const struct app_listener *l, int h, const struct sk_addr *peer, const struct sk_addr *local)
{
	struct splice_way w;

	if (a->sk_ns.fd >= 0 && way(a, l, peer, local, &w)) {
		splice_accepted(&a->splice, h, &w);
		return true;
	}
	if (!a->conf.splice_only)
		return false;
	a->splice.stats.refused[SPLICE_REFUSE_NOT_LOOPBACK]++;
	a->sk.sk.ops->close(&a->sk.sk, h, SK_END_RESET);
	return true;
}

/* How many datagrams may be received: each may be a new flow's */
static int udp_room(struct app *a)
{
	uint32_t n = UDP_LISTEN_MAX;

	if (a->inside_pid <= 0)
		return UDP_LISTEN_MAX;
	for (int k = SK_NS_UDP4; k <= SK_NS_UDP6; k++) {
		sk_ns_want(&a->sk_ns, (enum sk_ns_kind)k);
		n = BYTES_MIN(n, sk_ns_stock(&a->sk_ns, (enum sk_ns_kind)k));
	}
	return (int)n;
}

bool app_inside_udp(struct app *a, const struct app_listener *l, const struct udp_listener *u, const struct ev_hit *hit)
{
	struct sk_dgram d[UDP_LISTEN_MAX];
	const int room = udp_room(a);
	struct splice_way w;
	int n, run;

	if (!room)
		return false;
	if (hit->mask & (EV_ERR | EV_HUP))
		udp_listen_errors(&a->path.p, u);
	n = udp_listen_recv(&a->path.p, u, d, room);
	for (int i = 0; i < n; i += run) {
		const bool local = a->sk_ns.fd >= 0 && way(a, l, &d[i].to_from, &d[i].local, &w);

		for (run = 1; i + run < n && d[i + run].to_from.port == d[i].to_from.port &&
		     inaddr_eq(&d[i + run].to_from.a, &d[i].to_from.a) && inaddr_eq(&d[i + run].local.a, &d[i].local.a);)
			run++;
		if (local)
			splice_dgrams(&a->splice, l->h, &d[i], run, &w);
		else if (a->conf.splice_only)
			a->splice.stats.refused[SPLICE_REFUSE_NOT_LOOPBACK] += (unsigned)run;
		else
			udp_listened(&a->path.p, u, &d[i], run);
	}
	return true;
}

void app_inside_event(struct app *a, const struct ev_hit *hit)
{
	(void)hit;
	a->inside_news = true;
	if (!sk_ns_event(&a->sk_ns))
		return;
	box_ns_stay_end(a->inside_pid);
	a->inside_pid = 0;
	app_log(&a->log, APP_WARN, "The helper in the namespace has ended, was it killed? Connections over the host's loopback "
			"%s from now on", a->conf.splice_only ? "are refused" : "go through the namespace's interface");
}

void app_inside_end(struct app *a)
{
	sk_ns_close(&a->sk_ns);
	box_ns_stay_end(a->inside_pid);
	a->inside_pid = 0;
}
