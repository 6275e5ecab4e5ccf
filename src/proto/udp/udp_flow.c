/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Birth and end of UDP flows. A tuple of the guest gets a socket of its own,
 * bound to the guest's source port and connected, so that the kernel hands us
 * only that peer's datagrams and its errors (UDP-3). A peer that came to a
 * published port is served by that port's socket. A tuple that the host
 * refuses keeps a flow without socket for a second, so that a flood of its
 * datagrams costs no flood of system calls (UDP-15).
 *
 * Time-outs are lazy: a datagram only notes the time, the timer looks at it
 * when it fires (UDP-2). RFC 4787 4.
 */
#include "udp_priv.h"

#include <errno.h>

#include "base/bytes.h"

/* One question after the other, each from its own port, is what DNS does: an answered one needs its socket no more. The
 * counters end at 2, which also covers a resolver that asks for both families at once.
 */
static bool flow_dns_done(const struct flow *f, const struct udp_flow *u)
{
	return !u->by_host && f->key.far_port == PROTO_DNS_PORT && u->host_cnt >= u->guest_cnt;
}

static ns_t flow_timeout(const struct proto *p, const struct flow *f)
{
	const struct udp_flow *u = (const void *)f->body;
	const uint8_t answers = u->by_host ? u->guest_cnt : u->host_cnt;

	if (u->refused)
		return UDP_REFUSED;
	if (u->owned_cnt)
		return p->udp->timeout_stream;	/* as long as any of those can last */
	if (flow_dns_done(f, u))
		return BYTES_MIN(UDP_DNS, p->udp->timeout_oneway);
	if (answers && (u->guest_cnt > 1 || u->host_cnt > 1))
		return p->udp->timeout_stream;
	return p->udp->timeout_oneway;
}

struct flow *udp_flow_new(struct proto *p, const struct flow_key *key)
{
	const bool full = p->udp->flows_max && p->udp_flows >= p->udp->flows_max;
	struct flow *f = full ? NULL : flow_new(p->flows, key);

	if (!f && proto_evict(p))
		f = flow_new(p->flows, key);
	if (!f) {
		env_drop(p->env, DROP_FLOW_FULL);
		return NULL;
	}
	p->udp_flows++;
	f->h = -1;
	udp_body(f)->last = p->env->now;
	udp_body(f)->net_gen = p->net_gen;
	return f;
}

void udp_flow_arm(struct proto *p, struct flow *f)
{
	const struct udp_flow *u = udp_body(f);
	const ns_t end = u->last + flow_timeout(p, f);

	twheel_arm(p->env->tw, &f->timer, u->dns.way.on ? BYTES_MIN(end, udp_dns_next_at(p, f)) : end);
}

int udp_flow_open(struct proto *p, struct flow *f, const struct sk_addr *to)
{
	struct sk_addr local = { .a = proto_host_from(p, to), .port = f->key.guest_port }, got;
	struct sk *sk = p->env->sk;
	int h = sk->ops->udp_open(sk, flow_ref(p->flows, f), &local, to, &got);

	/* a flow that has a socket could be the one to go */
	if ((h == -EMFILE || h == -ENFILE) && f->h < 0 && proto_evict(p))
		h = sk->ops->udp_open(sk, flow_ref(p->flows, f), &local, to, &got);
	if (h >= 0)
		udp_body(f)->src = got.a;
	return h;
}

/* Whether the address that the flow's socket has will still do: what another socket gets tells. A temporary address gives way to
 * the next one of the same prefix, but what began with it may stay with it (RFC 8981 3.4).
 */
static bool flow_src_holds(struct proto *p, struct flow *f)
{
	const struct udp_flow *u = udp_body(f);
	const struct sk_addr local = { .a = proto_host_from(p, &u->to) };
	struct sk *sk = p->env->sk;
	struct sk_addr got;
	const int h = sk->ops->udp_open(sk, (struct ev_ref){ 0 }, &local, &u->to, &got);

	if (h == -EMFILE || h == -ENFILE)
		return true;
	if (h < 0)
		return false;
	sk->ops->close(sk, h, SK_END_GRACEFUL);
	if (inaddr_eq(&got.a, &u->src))
		return true;
	return !inaddr_is_v4(&u->src) && !memcmp(got.a.b, u->src.b, UDP_PREFIX_LEN) &&
	       sk->ops->has_addr(sk, &(struct sk_addr){ .a = u->src, .scope = u->to.scope });
}

struct flow *udp_flow_follow(struct proto *p, struct flow *f)
{
	const struct flow_key key = f->key;
	struct udp_flow *u = udp_body(f);

	u->net_gen = p->net_gen;
	if (inaddr_is_loopback(&u->to.a) || flow_src_holds(p, f))
		return f;
	trace_add(p->env->tr, p->env->now, "udp: source has changed", flow_idx(p->flows, f), key.far_port, 0);
	udp_end(p, f);
	return udp_flow_guest(p, &key);
}

struct flow *udp_flow_guest(struct proto *p, const struct flow_key *key)
{
	struct udp_flow *u;
	struct flow *f;
	int h;

	/* a flood of them must not fill the table with flows that only say so */
	if (p->udp->sockets_max && p->udp_sockets >= p->udp->sockets_max && !proto_evict(p)) {
		env_drop(p->env, DROP_NO_DESCRIPTOR);
		return NULL;
	}
	f = udp_flow_new(p, key);
	if (!f)
		return NULL;
	u = udp_body(f);
	h = fwd_is_group(p->fwd, &key->far) ? udp_group_open(p, f) : udp_dns_open(p, f);
	if (h == -ENOENT) {
		u->to = proto_host_addr(p, &key->far, key->far_port);
		h = udp_flow_open(p, f, &u->to);
	}
	if (h < 0)
		u->refused = -h;
	else
		f->h = h;
	p->udp_sockets += h >= 0;
	trace_open(p->env->tr, p->env->now, "udp: open by guest", flow_idx(p->flows, f), key->far_port, (uint32_t)u->refused);
	udp_flow_arm(p, f);
	return f;
}

void udp_flow_answered(struct proto *p, struct flow *f)
{
	struct udp_flow *u = udp_body(f);

	udp_alive(p, u, &u->host_cnt);
	u->closed = false;
	if (flow_dns_done(f, u))
		udp_flow_arm(p, f);	/* an earlier time than the one that it waits for */
}

bool udp_is_answering(struct flow *f)
{
	return udp_body(f)->by_host;
}

bool udp_has_socket(struct flow *f)
{
	return f->h >= 0 && !udp_body(f)->by_host;
}

bool udp_spare(const struct proto *p, struct flow *f, struct proto_spare *ret)
{
	const struct udp_flow *u = udp_body(f);
	const bool once = u->guest_cnt == 1 && u->host_cnt == 1;
	const uint8_t answers = u->by_host ? u->guest_cnt : u->host_cnt;

	ret->last = u->last;
	ret->answered = once || u->closed || u->refused || flow_dns_done(f, u);
	if (u->last == p->env->now || u->owned_cnt || !f->key.guest_port)
		return false;
	if (ret->answered)
		return true;
	if (!answers || (!u->by_host && f->key.far_port == PROTO_DNS_PORT))
		return u->last + PROTO_SPARE_WAIT <= p->env->now;
	ret->idle = true;
	return u->last + p->udp->timeout_oneway <= p->env->now;
}

int udp_flow_host_key(struct proto *p, const struct udp_listener *l, const struct sk_addr *peer, struct flow_key *ret)
{
	*ret = (struct flow_key){
		.guest = l->target, .guest_port = l->port, .far_port = peer->port, .proto = FLOW_UDP,
	};
	if (!peer->port || !inaddr_is_unicast(&peer->a) || fwd_from_host(p->fwd, &peer->a, &ret->far) < 0) {
		env_drop(p->env, DROP_IP_ADDR);
		return -EADDRNOTAVAIL;
	}
	if (!inaddr_is_unset(&l->target) && inaddr_is_v4(&l->target) == inaddr_is_v4(&ret->far))
		return 0;
	if (fwd_guest_addr(p->fwd, &ret->far, &ret->guest) < 0) {
		env_drop(p->env, DROP_UDP_NO_GUEST);
		return -EADDRNOTAVAIL;
	}
	return 0;
}

/* The flow has its owner's handle no more */
static void udp_disown(struct proto *p, struct udp_flow *u)
{
	if (u->owner)
		udp_body(&p->flows->tab[u->owner - 1])->owned_cnt--;
	u->owner = 0;
}

struct flow *udp_flow_host(struct proto *p, const struct udp_listener *l, const struct sk_dgram *d)
{
	struct flow_key key;
	struct udp_flow *u;
	struct flow *f;

	if (udp_flow_host_key(p, l, &d->to_from, &key) < 0)
		return NULL;
	f = flow_find(p->flows, &key);
	if (f && f->h >= 0 && !udp_body(f)->by_host)
		return f;		/* the guest has opened it already: answers go its way */
	if (!f) {
		f = udp_flow_new(p, &key);
		if (!f)
			return NULL;
		trace_open(p->env->tr, p->env->now, "udp: open by host", flow_idx(p->flows, f), key.far_port, l->port);
	}
	u = udp_body(f);
	if (u->owner != l->owner) {
		udp_disown(p, u);
		u->owner = l->owner;
		if (u->owner)
			udp_body(&p->flows->tab[u->owner - 1])->owned_cnt++;
	}
	u->by_host = true;
	u->refused = 0;
	u->to = d->to_from;
	u->local = d->local;
	/* a group is no source: the kernel picks one then */
	u->local.port = inaddr_is_unicast(&d->local.a) || inaddr_is_loopback(&d->local.a) ? l->port : 0;
	f->h = l->h;
	if (!twheel_armed(&f->timer))
		udp_flow_arm(p, f);
	return f;
}

struct flow *udp_flow_answer(const struct proto *p, const struct flow_key *key)
{
	const struct fwd_family_set *fam = &p->fwd->f[fwd_family_of(&key->guest)];
	const struct inaddr *const own[] = { &fam->guest, &fam->seen, &fam->seen_ll };

	for (unsigned i = 0; i < BYTES_COUNT(own); i++) {
		struct flow_key k = *key;
		struct flow *f;

		k.guest = *own[i];
		f = flow_find(p->flows, &k);
		if (f && udp_body(f)->by_host)
			return f;
	}
	return NULL;
}

void udp_end(struct proto *p, struct flow *f)
{
	struct udp_flow *u = udp_body(f);

	udp_disown(p, u);
	if (u->owned_cnt)
		udp_listener_gone(p, f->h);
	udp_dns_close(p, f);
	if (f->h >= 0 && !u->by_host) {
		p->env->sk->ops->close(p->env->sk, f->h, SK_END_GRACEFUL);
		p->udp_sockets--;
	}
	p->udp_flows--;
	proto_flow_free(p, f);
}

void udp_listener_gone(struct proto *p, int h)
{
	for (uint32_t i = 0; i < p->flows->fresh; i++) {
		struct flow *f = &p->flows->tab[i];

		if (f->key.proto == FLOW_UDP && f->h == h && udp_body(f)->by_host)
			udp_end(p, f);
	}
}

void udp_timer(struct proto *p, struct flow *f)
{
	struct udp_flow *u = udp_body(f);

	udp_dns_due(p, f);
	if (u->last + flow_timeout(p, f) <= p->env->now) {
		trace_add(p->env->tr, p->env->now, "udp: timed out", flow_idx(p->flows, f), u->guest_cnt, u->host_cnt);
		udp_end(p, f);
	} else {
		udp_flow_arm(p, f);
	}
}
