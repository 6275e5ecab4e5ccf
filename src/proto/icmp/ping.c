/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Echo requests of the guest through ping sockets of the host: one socket for
 * each guest address, target and identifier. The kernel puts an identifier of
 * its own into the request; replies and errors get the guest's back. Forwards
 * nothing but requests and what comes in answer to them. Where the host permits
 * no ping sockets, the flows share a raw one, if there is one (raw.c).
 *
 * Invariant: a flow without socket (handle -1) is a target that the host
 * refused less than a second ago. RFC 792, RFC 4443 4; ICMP-1 to ICMP-6.
 */
#include "ping_priv.h"

#include <errno.h>

#include "base/bytes.h"

#define PING_TIMEOUT	(60 * NS_S)	/* ICMP-4, from the guest's last request */
#define PING_REFUSED	NS_S
#define PING_TRIES	2

static uint8_t ping_request(const struct inaddr *a)
{
	return inaddr_is_v4(a) ? WIRE_ICMP4_ECHO : WIRE_ICMP6_ECHO;
}

static uint8_t ping_reply(const struct inaddr *a)
{
	return inaddr_is_v4(a) ? WIRE_ICMP4_ECHO_REPLY : WIRE_ICMP6_ECHO_REPLY;
}

static void ping_arm(struct proto *p, struct flow *f)
{
	const struct ping_flow *g = ping_body(f);

	twheel_arm(p->env->tw, &f->timer, g->last + (g->refused ? PING_REFUSED : PING_TIMEOUT));
}

void ping_end(struct proto *p, struct flow *f)
{
	if (ping_body(f)->raw)
		ping_raw_close(ping_body(f));
	else if (f->h >= 0)
		p->env->sk->ops->close(p->env->sk, f->h, SK_END_GRACEFUL);
	proto_flow_free(p, f);
}

void ping_timer(struct proto *p, struct flow *f)
{
	const struct ping_flow *g = ping_body(f);

	if (g->last + (g->refused ? PING_REFUSED : PING_TIMEOUT) <= p->env->now)
		ping_end(p, f);
	else
		ping_arm(p, f);
}

bool ping_spare(const struct proto *p, struct flow *f, struct proto_spare *ret)
{
	const struct ping_flow *g = ping_body(f);

	ret->last = g->last;
	ret->answered = g->answered;
	return g->answered ? g->last != p->env->now : g->last + PROTO_SPARE_WAIT <= p->env->now;
}

static struct flow *ping_open(struct proto *p, const struct flow_key *key)
{
	struct flow *f = flow_new(p->flows, key);
	struct sk *sk = p->env->sk;
	struct ping_flow *g;
	struct inaddr from;
	int h;

	if (!f && proto_evict(p))
		f = flow_new(p->flows, key);
	if (!f) {
		env_drop(p->env, DROP_FLOW_FULL);
		return NULL;
	}
	g = ping_body(f);
	g->last = p->env->now;
	g->net_gen = p->net_gen;
	g->to = proto_host_addr(p, &key->far, 0);
	from = proto_host_from(p, &g->to);
	h = sk->ops->ping_open(sk, flow_ref(p->flows, f), &g->to, &from);
	if ((h == -EMFILE || h == -ENFILE) && proto_evict(p))
		h = sk->ops->ping_open(sk, flow_ref(p->flows, f), &g->to, &from);
	if (h == -EACCES || h == -EPERM)
		h = ping_raw_open(p, f);
	f->h = h < 0 ? -1 : h;
	if (h < 0)
		g->refused = -h;
	trace_open(p->env->tr, p->env->now, "ping: open", flow_idx(p->flows, f), key->guest_port, (uint32_t)g->refused);
	ping_arm(p, f);
	return f;
}

/* The guest's request in an error: DATA as far as known, behind the ICMP header */
static void ping_error(struct proto *p, struct flow *f, const struct proto_icmp *icmp, uint16_t seq,
		       const struct view *data)
{
	const struct ping_flow *g = ping_body(f);
	const struct flow_key *k = &f->key;
	const bool v4 = inaddr_is_v4(&k->guest);
	const struct wire_icmp h = { .type = ping_request(&k->guest), .id = k->guest_port, .seq = seq };
	uint8_t l4[WIRE_ICMP_LEN + PROTO_QUOTE_MAX];
	const uint32_t known = view_copy(data, l4 + WIRE_ICMP_LEN, BYTES_MIN(data->len, PROTO_QUOTE_MAX));
	const struct iovec iov = { l4, WIRE_ICMP_LEN + known };
	const struct proto_quote q = {
		.src = k->guest, .dst = k->far, .proto = v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6,
		.ttl = g->ttl ? g->ttl : 64, .tos = g->tos, .df = g->df,
		.l4_len = BYTES_MAX(g->len, WIRE_ICMP_LEN + known), .l4 = view_of(&iov, WIRE_ICMP_LEN + known),
	};

	wire_icmp_emit(l4, &h, data, v4 ? NULL : &k->guest, v4 ? NULL : &k->far);
	proto_icmp_error(p, icmp, &q);
}

/* The host refused the request with errno CODE. No permission for ping at all is the administrator's choice, of which app
 * warns, and not the network's answer.
 */
static void ping_refused(struct proto *p, struct flow *f, int code, uint16_t seq, const struct view *data)
{
	struct proto_icmp icmp;

	if (code != EACCES && code != EPERM &&
	    proto_icmp_errno(p, code, inaddr_is_v4(&f->key.guest), 0, &icmp) && proto_icmp_allow(p))
		ping_error(p, f, &icmp, seq, data);
}

static void ping_send(struct proto *p, struct flow *f, const struct view *data)
{
	const struct ping_flow *g = ping_body(f);
	struct sk *sk = p->env->sk;
	uint8_t hdr[WIRE_ICMP_LEN] = { ping_request(&f->key.guest) };	/* the kernel sets checksum and identifier */
	struct sk_dgram d = {
		.iov = { { hdr, sizeof(hdr) } }, .iov_cnt = 1, .len = WIRE_ICMP_LEN + data->len,
		.ttl = g->ttl ? g->ttl : 1, .tos = g->tos, .df = g->whole ? SK_DF_YES : g->df ? SK_DF_MAYBE : SK_DF_NO,
	};
	int r = -EAGAIN, n;

	bytes_put16(hdr + 4, f->key.guest_port);
	bytes_put16(hdr + 6, g->seq);
	n = view_iov(data, &d.iov[1], 1);
	if (n < 0) {			/* in several pieces */
		d.iov[1] = (struct iovec){ p->scratch, view_copy(data, p->scratch, data->len) };
		n = 1;
	}
	d.iov_cnt += (uint32_t)n;
	if (g->raw)
		ping_raw_fill(p, f, &d, hdr, data);
	for (int i = 0; i < PING_TRIES && r <= 0; i++)	/* an error may be that of an earlier request */
		r = sk->ops->send_dgrams(sk, f->h, &d, 1);
	if (r > 0)
		return;
	env_drop(p->env, DROP_PING_SEND);
	if (r < 0)
		ping_refused(p, f, -r, g->seq, data);
}

void ping_guest(struct proto *p, const struct proto_pkt *pkt)
{
	const struct wire_ip *ip = &pkt->ip;
	struct view v = pkt->l4;
	struct flow_key key = { .guest = ip->src, .far = ip->dst, .proto = FLOW_PING };
	struct ping_flow *g;
	struct wire_icmp h;
	struct flow *f;

	if (wire_icmp_parse(&v, &h) < 0) {
		env_drop(p->env, DROP_ICMP_BAD);
		return;
	}
	if (h.type != ping_request(&ip->src) || h.code) {
		env_drop(p->env, DROP_ICMP_TYPE);
		return;
	}
	if (!inaddr_is_unicast(&ip->src) || !inaddr_is_unicast(&ip->dst)) {
		env_drop(p->env, DROP_IP_ADDR);
		return;
	}
	key.guest_port = h.id;
	f = flow_find(p->flows, &key);
	if (f && f->h >= 0 && !ping_body(f)->raw && ping_body(f)->net_gen != p->net_gen) {
		ping_end(p, f);		/* connected, it would keep its source address */
		f = NULL;
	}
	if (!f)
		f = ping_open(p, &key);
	if (!f)
		return;
	g = ping_body(f);
	g->ttl = ip->ttl;
	g->tos = ip->tos;
	g->df = ip->df;
	g->whole = proto_df(ip) == SK_DF_YES;
	g->seq = h.seq;
	g->len = pkt->l4.len;
	if (f->h < 0) {
		env_drop(p->env, g->refused == EMFILE || g->refused == ENFILE ? DROP_NO_DESCRIPTOR : DROP_PING_OPEN);
		ping_refused(p, f, g->refused, h.seq, &v);
		return;
	}
	g->last = p->env->now;
	g->answered = false;
	ping_send(p, f, &v);
}

void ping_answer(struct proto *p, struct flow *f, const struct sk_dgram *d)
{
	const bool v4 = inaddr_is_v4(&f->key.guest);
	struct iovec iov = { d->iov[0].iov_base, d->len };
	struct view v = view_of(&iov, d->len), whole = v;
	struct wire_icmp h;

	if (wire_icmp_parse(&v, &h) < 0) {
		env_drop(p->env, DROP_ICMP_BAD);
		return;
	}
	if (h.type != ping_reply(&f->key.guest) || h.code) {
		env_drop(p->env, DROP_ICMP_TYPE);
		return;
	}
	ping_body(f)->answered = true;
	h.id = f->key.guest_port;
	wire_icmp_emit(iov.iov_base, &h, &v, v4 ? NULL : &f->key.far, v4 ? NULL : &f->key.guest);
	proto_send(p->env, &f->key.far, &f->key.guest, v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, d->tos, &whole);
}

void ping_relay(struct proto *p, struct flow *f, const struct sk_err *e)
{
	const struct ping_flow *g = ping_body(f);
	const struct iovec iov = { p->scratch, PROTO_QUOTE_MAX };
	struct view v = view_of(&iov, BYTES_MIN(e->len, PROTO_QUOTE_MAX));
	struct wire_icmp h = { .seq = g->seq };
	struct proto_icmp icmp;

	if (wire_icmp_parse(&v, &h) < 0)
		v = view_of(&iov, 0);	/* too little: most likely it was the last request */
	if (!proto_icmp_relay(p, e, &g->to.a, &f->key.far, &icmp))
		return;
	if (!g->whole && proto_icmp_was_cut(e))
		proto_icmp_teach(p, &icmp, &f->key);
	else
		ping_error(p, f, &icmp, h.seq, &v);
}

/* Relay the error queue (ICMP-5); false if the socket is dead */
static bool ping_errors(struct proto *p, struct flow *f, bool *ret_more)
{
	struct sk *sk = p->env->sk;
	struct sk_err e;

	for (int n = 0; n < PING_ERR_MAX; n++) {
		const int r = sk->ops->recv_err(sk, f->h, &e, p->scratch, PROTO_QUOTE_MAX);

		if (r == -EAGAIN) {
			sk->ops->result(sk, f->h);	/* clears what the next call would return */
			return true;
		}
		if (r < 0)
			return false;
		ping_relay(p, f, &e);
	}
	*ret_more = true;
	return true;
}

int ping_recv(struct proto *p, int h, struct sk_dgram *d)
{
	memset(d, 0, sizeof(*d) * PING_SLOTS);
	for (uint32_t i = 0; i < PING_SLOTS; i++) {
		d[i].iov[0] = (struct iovec){ p->scratch + i * PROTO_SCRATCH_STRIDE, PROTO_SCRATCH_SLOT };
		d[i].iov_cnt = 1;
	}
	return p->env->sk->ops->recv_dgrams(p->env->sk, h, d, PING_SLOTS);
}

/* Replies until none is left, or the turn's budget is used up; false if the socket is dead */
static bool ping_read(struct proto *p, struct flow *f, bool *ret_more)
{
	struct sk_dgram d[PING_SLOTS];
	int tries = 0;

	for (int round = 0; round < PING_ROUNDS; round++) {
		const int r = ping_recv(p, f->h, d);

		if (r == -EAGAIN)
			return true;
		if (r < 0 && ++tries > PING_TRIES)
			return false;
		for (int i = 0; i < r; i++)
			ping_answer(p, f, &d[i]);
		if (r >= 0 && r < PING_SLOTS)
			return true;
	}
	*ret_more = true;
	return true;
}

static void ping_turn(struct proto *p, struct flow *f, bool errors)
{
	bool more = false;

	if (f->h < 0)
		return;
	if ((errors && !ping_errors(p, f, &more)) || !ping_read(p, f, &more))
		ping_end(p, f);
	else if (more)
		proto_ready(p, f);
}

void ping_host(struct proto *p, struct flow *f, const struct ev_hit *hit)
{
	ping_turn(p, f, hit->mask & (EV_ERR | EV_HUP));
}

void ping_more(struct proto *p, struct flow *f)
{
	ping_turn(p, f, true);
}
