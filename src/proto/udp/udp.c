/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagrams between the guest and host sockets. What came in one batch goes
 * out in one call; equally long datagrams of a batch become one run, which the
 * host's kernel (or its network card) cuts. Sizes are preserved, empty
 * datagrams too; TTL and traffic class pass towards the host, traffic class
 * towards the guest. UDP gives no promise: what a full socket or link does not
 * take is counted and gone.
 *
 * RFC 768, RFC 4787; UDP-1 to UDP-15.
 */
#include "udp_priv.h"

#include <errno.h>

#include "base/bytes.h"
#include "proto/group.h"
#include "wire/udp.h"

#define UDP_RUN_MAX	65487		/* payload of a run: the smaller of both families' limits, headers off */
/* Datagrams beyond a usual path MTU are not joined: a run that the kernel can't cut costs more than it saves */
#define UDP_JOIN_MAX4	1472
#define UDP_JOIN_MAX6	1452
#define UDP_GSO_SEGS	128		/* datagrams in a super-frame of the guest at most: UDP_MAX_SEGMENTS */
#define UDP_TRIES	2		/* of a call that met an error of an earlier datagram */

struct udp_send {			/* one batch of a flow towards the host */
	struct proto *p;
	struct flow *f;
	uint32_t cnt;
	uint32_t used;			/* scratch bytes */
	uint32_t join_max;
	uint32_t seg, seg_cnt;		/* of the last entry, if it can grow; seg 0: it can't */
	bool copied;			/* the last entry's bytes end the used scratch */
	struct sk_dgram d[L2_BATCH];
};

/* The bytes behind an entry as a view, for the quote in an error */
static struct view send_view(const struct sk_dgram *d)
{
	return view_of(d->iov, d->len);
}

static void send_flush(struct udp_send *s)
{
	struct sk *sk = s->p->env->sk;
	uint32_t off = 0, tries = 0;

	while (off < s->cnt) {
		const int r = sk->ops->send_dgrams(sk, s->f->h, s->d + off, (int)(s->cnt - off));
		const struct view v = send_view(&s->d[off]);

		if (r > 0)
			off += (uint32_t)r;
		else if (++tries < UDP_TRIES)
			continue;
		else if (!r || r == -EAGAIN)
			break;
		else {
			udp_err_refused(s->p, s->f, -r, &v);
			env_drop(s->p->env, DROP_UDP_SEND);
			off++;
		}
	}
	s->p->env->drops->cnt[DROP_UDP_SEND] += s->cnt - off;
	s->cnt = s->used = s->seg = 0;
}

static uint8_t *send_copy(struct udp_send *s, const struct view *v)
{
	uint8_t *at = s->p->scratch + s->used;

	s->used += view_copy(v, at, v->len);
	return at;
}

/* What becomes of it if it is too big. No router says so of what goes to a group (RFC 1112 7.2, RFC 1122 3.2.2), and a TTL of 1
 * is the usual one there, not that of a probe.
 */
static uint8_t send_df(const struct udp_send *s, const struct wire_ip *ip)
{
	return udp_body(s->f)->open ? SK_DF_NO : (uint8_t)proto_df(ip);
}

/* Make the datagram part of the last entry if both are alike */
static bool send_join(struct udp_send *s, const struct view *v, const struct wire_ip *ip)
{
	struct sk_dgram *d = &s->d[s->cnt ? s->cnt - 1 : 0];
	uint32_t need = v->len;

	if (!s->cnt || !s->seg || !v->len || v->len > s->seg || s->seg_cnt == UDP_SEG_MAX ||
	    d->len + v->len > UDP_RUN_MAX || d->ttl != ip->ttl || d->tos != ip->tos || d->df != send_df(s, ip))
		return false;
	if (!s->copied)
		need += d->len;
	if (s->used + need > PROTO_SCRATCH_LEN)
		return false;
	if (!s->copied) {
		const struct view first = send_view(d);

		d->iov[0] = (struct iovec){ send_copy(s, &first), d->len };
		d->iov_cnt = 1;
		d->seg = (uint16_t)s->seg;
		s->copied = true;
	}
	send_copy(s, v);
	d->len += v->len;
	d->iov[0].iov_len = d->len;
	s->seg_cnt++;
	if (v->len < s->seg)
		s->seg = 0;		/* a shorter one ends the run */
	return true;
}

/* New entry: SEG 0 for one datagram, else a run of the guest's own making */
static void send_add(struct udp_send *s, const struct view *v, const struct wire_ip *ip, uint32_t seg)
{
	const struct udp_flow *u = udp_body(s->f);
	struct sk_dgram *d;
	int n;

	if (s->cnt == L2_BATCH)
		send_flush(s);
	d = &s->d[s->cnt];
	memset(d, 0, sizeof(*d));
	n = view_iov(v, d->iov, (int)BYTES_COUNT(d->iov));
	if (n < 0) {			/* in too many pieces */
		if (s->used + v->len > PROTO_SCRATCH_LEN) {
			send_flush(s);
			d = &s->d[0];
			memset(d, 0, sizeof(*d));
		}
		d->iov[0] = (struct iovec){ send_copy(s, v), v->len };
		n = 1;
	}
	d->iov_cnt = (uint32_t)n;
	d->len = v->len;
	d->seg = v->len > seg ? (uint16_t)seg : 0;
	d->ttl = ip->ttl ? ip->ttl : 1;
	d->tos = ip->tos;
	d->df = send_df(s, ip);
	if (u->by_host || u->open) {
		d->to_from = u->to;
		d->local = u->local;
	}
	s->cnt++;
	s->copied = false;
	s->seg = !seg && v->len <= s->join_max ? v->len : 0;
	s->seg_cnt = 1;
}

/* A super-frame of the guest, in runs that the host takes */
static void send_run(struct udp_send *s, struct view v, const struct wire_ip *ip, uint32_t seg)
{
	const uint32_t step = seg * BYTES_MIN(UDP_SEG_MAX, BYTES_MAX(UDP_RUN_MAX / seg, 1));

	while (v.len) {
		struct view part = v;

		view_trim(&part, step);
		send_add(s, &part, ip, seg);
		view_skip(&v, step);
	}
}

static void guest_one(struct udp_send *s, const struct proto_pkt *pkt)
{
	const bool gso = pkt->frame->gso == L2_GSO_UDP;
	const uint32_t seg = pkt->frame->gso_size;
	struct udp_flow *u = udp_body(s->f);
	struct view v = pkt->l4;
	struct wire_udp h;

	if (wire_udp_parse(&v, gso, &h) < 0 || (gso && (!seg || v.len > seg * UDP_GSO_SEGS))) {
		env_drop(s->p->env, DROP_UDP_BAD);
		return;
	}
	u->ttl = pkt->ip.ttl;
	u->tos = pkt->ip.tos;
	u->df = pkt->ip.df;
	u->whole = proto_df(&pkt->ip) == SK_DF_YES;
	u->len = (uint16_t)(gso ? BYTES_MIN(seg, v.len) : v.len);
	if (s->f->h < 0) {		/* no sign of life: the next try must come, flood or not */
		udp_err_refused(s->p, s->f, u->refused, &v);
		env_drop(s->p->env, u->refused == EMFILE || u->refused == ENFILE ? DROP_NO_DESCRIPTOR : DROP_UDP_OPEN);
		return;
	}
	udp_alive(s->p, u, &u->guest_cnt);
	if (u->dns.way.on)
		udp_dns_query(s->p, s->f, &v);
	if (u->owner)			/* lives as long as those that have its socket */
		udp_body(&s->p->flows->tab[u->owner - 1])->last = u->last;
	if (u->open && s->p->groups)
		group_sent(s->p, v, gso ? seg : v.len);
	if (gso && v.len > seg)
		send_run(s, v, &pkt->ip, seg);
	else if (!send_join(s, &v, &pkt->ip))
		send_add(s, &v, &pkt->ip, 0);
}

void udp_guest(struct proto *p, const struct flow_key *key, struct flow *f, const struct proto_pkt *pkt, uint32_t first)
{
	const bool v4 = inaddr_is_v4(&key->guest);
	struct udp_send s;		/* large: only what counts is set */
	enum drop why = DROP_CNT;
	uint32_t i;

	if (!key->guest_port || !key->far_port)
		why = DROP_UDP_BAD;
	else if (inaddr_is_unset(&key->far) || !inaddr_is_unicast(&key->guest))
		why = DROP_IP_ADDR;
	else if ((key->far_port == UDP_DHCP_PORT || key->far_port == UDP_DHCP6_PORT) && fwd_is_group(p->fwd, &key->far))
		why = DROP_UDP_SERVICE;
	else if (!f)
		f = udp_flow_answer(p, key);
	if (!f && why == DROP_CNT)
		f = udp_flow_guest(p, key);
	else if (f && why == DROP_CNT && udp_body(f)->net_gen != p->net_gen && udp_has_socket(f) && !udp_body(f)->open)
		f = udp_flow_follow(p, f);
	for (i = first; why != DROP_CNT && i != FLOW_NONE; i = pkt[i].next)
		env_drop(p->env, why);
	if (why != DROP_CNT || !f)
		return;
	s.p = p;
	s.f = f;
	s.cnt = s.used = s.seg = s.seg_cnt = 0;
	s.copied = false;
	s.join_max = v4 ? UDP_JOIN_MAX4 : UDP_JOIN_MAX6;
	for (i = first; i != FLOW_NONE; i = pkt[i].next)
		guest_one(&s, &pkt[i]);
	p->udp_burst |= s.cnt > 1 || s.seg_cnt > 1;
	if (s.cnt)
		send_flush(&s);
	if (udp_body(f)->open && p->groups)
		group_port(p, &key->far, key->far_port);
}

/* How many datagrams or runs one turn takes from a socket, as long as the last ones were */
static int turn_max(const struct proto *p)
{
	const uint32_t max = UDP_TURN / BYTES_MAX(p->udp_run, 1u);

	return (int)BYTES_MAX(BYTES_MIN(max, PROTO_SCRATCH_SLOTS), 1u);
}

/* R of them came */
static void turn_learn(struct proto *p, const struct sk_dgram *d, int r)
{
	uint32_t longest = 1, sum = 0;

	for (int i = 0; i < r; i++) {
		const uint32_t run = d[i].seg ? (d[i].len + d[i].seg - 1) / d[i].seg : 1;

		longest = BYTES_MAX(longest, run);
		sum += run;
	}
	p->udp_run = longest;
	p->udp_given += sum;
	p->udp_burst |= sum > 1;
}

/* Up to MAX datagrams into the scratch */
static int host_recv(struct proto *p, int h, struct sk_dgram *d, int max)
{
	int r;

	memset(d, 0, sizeof(*d) * (size_t)max);
	for (int i = 0; i < max; i++) {
		d[i].iov[0] = (struct iovec){ p->scratch + (size_t)i * PROTO_SCRATCH_STRIDE, PROTO_SCRATCH_SLOT };
		d[i].iov_cnt = 1;
	}
	r = p->env->sk->ops->recv_dgrams(p->env->sk, h, d, max);
	if (r > 0)
		turn_learn(p, d, r);
	return r;
}

/* Datagrams queued between bind() and connect() may be anybody's (UDP-5) */
static bool host_is_peer(const struct sk_addr *to, const struct sk_addr *from)
{
	return !from->port || (from->port == to->port && inaddr_eq(&from->a, &to->a));
}

/* What waits at the flow's own socket, or at the one before that (OLD); false if the socket is dead */
static bool host_read(struct proto *p, struct flow *f, bool old, bool *ret_more)
{
	const struct udp_flow *u = udp_body(f);
	const int h = old ? u->dns.old_h : f->h;
	const struct sk_addr to = old ? u->dns.old_to : u->to;
	const int max = turn_max(p);
	struct sk_dgram d[PROTO_SCRATCH_SLOTS];
	struct udp_outs o;
	uint32_t tries = 0;
	int r;

	do
		r = host_recv(p, h, d, max);
	while (r < 0 && r != -EAGAIN && ++tries <= UDP_TRIES);
	if (r < 0)
		return r == -EAGAIN;
	udp_outs_init(&o, p);
	for (int i = 0; i < r; i++) {
		if (!host_is_peer(&to, &d[i].to_from)) {
			env_drop(p->env, DROP_UDP_FOREIGN);
			continue;
		}
		if (u->dns.way.on && !udp_dns_answer(p, f, h != f->h, &d[i]))
			continue;
		udp_flow_answered(p, f);
		udp_out_add(&o, f, &f->key.guest, &d[i]);
	}
	udp_out_flush(&o);
	*ret_more |= r == max;
	return true;
}

static void host_turn(struct proto *p, struct flow *f, bool errors)
{
	bool dead = false, more_err = false, more = false;

	if (f->h < 0 || udp_body(f)->by_host)
		return;
	if (udp_body(f)->open) {
		if (udp_group_turn(p, f, errors))
			proto_ready(p, f);
		return;
	}
	if (errors)
		dead = udp_err_flow(p, f, &more_err);
	if (!dead)
		dead = !host_read(p, f, false, &more);
	if (!dead && udp_body(f)->dns.old && !host_read(p, f, true, &more))
		udp_dns_close(p, f);
	if (dead)
		udp_end(p, f);
	else if (more || more_err)
		proto_ready(p, f);
}

void udp_host(struct proto *p, struct flow *f, const struct ev_hit *hit)
{
	host_turn(p, f, hit->mask & (EV_ERR | EV_HUP));
}

void udp_more(struct proto *p, struct flow *f)
{
	host_turn(p, f, true);
}

/* Address of the guest's packet: the flow's, or the group that the host received for */
static const struct inaddr *listen_dst(const struct flow *f, const struct sk_dgram *d)
{
	return inaddr_is_multicast(&d->local.a) ? &d->local.a : &f->key.guest;
}

static bool listen_same(const struct sk_dgram *x, const struct sk_dgram *y)
{
	return x->to_from.port == y->to_from.port && x->to_from.scope == y->to_from.scope &&
	       inaddr_eq(&x->to_from.a, &y->to_from.a) && inaddr_eq(&x->local.a, &y->local.a);
}

/* Whether a datagram that arrived is for the guest: broadcasts only where they were asked for, and none of its own */
static bool listen_takes(struct proto *p, const struct udp_listener *l, const struct sk_dgram *d)
{
	if (!d->to_all)
		return true;
	if (l->owner && !(p->groups && p->groups->on) && !inaddr_is_multicast(&d->local.a)) {
		env_drop(p->env, DROP_UDP_TO_ALL);
		return false;
	}
	if (p->groups && group_is_echo(p, d)) {
		env_drop(p->env, DROP_GROUP_ECHO);
		return false;
	}
	return true;
}

void udp_listen_errors(struct proto *p, const struct udp_listener *l)
{
	udp_err_listener(p, l);
}

int udp_listen_recv(struct proto *p, const struct udp_listener *l, struct sk_dgram *d, int max)
{
	int r, tries = 0;

	max = BYTES_MIN(max, turn_max(p));
	do
		r = host_recv(p, l->h, d, max);
	while (r < 0 && r != -EAGAIN && ++tries <= UDP_TRIES);	/* an error of an earlier datagram: what waits is behind it */
	return r;
}

void udp_listened(struct proto *p, const struct udp_listener *l, const struct sk_dgram *d, int n)
{
	struct flow *f = NULL;
	struct udp_outs o;

	udp_outs_init(&o, p);
	for (int i = 0; i < n; i++) {
		if (!listen_takes(p, l, &d[i])) {
			f = NULL;
			continue;
		}
		if (!i || !f || !listen_same(&d[i], &d[i - 1]))
			f = udp_flow_host(p, l, &d[i]);
		if (!f)
			continue;
		udp_alive(p, udp_body(f), &udp_body(f)->host_cnt);
		udp_out_add(&o, f, listen_dst(f, &d[i]), &d[i]);
	}
	udp_out_flush(&o);
}

bool udp_listen_turn(struct proto *p, const struct udp_listener *l, bool errors)
{
	const bool more_err = errors && udp_err_listener(p, l);
	struct sk_dgram d[UDP_LISTEN_MAX];
	const int max = turn_max(p), n = udp_listen_recv(p, l, d, max);

	udp_listened(p, l, d, n);
	return more_err || n == max;
}

void udp_listen(struct proto *p, const struct udp_listener *l, const struct ev_hit *hit)
{
	udp_listen_turn(p, l, hit->mask & (EV_ERR | EV_HUP));
}
