/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of a TCP flow: opened by the guest's SYN or by a connection that the
 * host accepted, ended by both FINs, a reset, or silence.
 *
 * The guest sees no answer to its SYN before the host's connect() has ended
 * (TCP-22): the latency that it measures is the real one. Initial sequence
 * numbers as RFC 6528: keyed hash of the tuple plus a clock of 4 us.
 */
#include "tcp_priv.h"

void tcp_init(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	t->iss = (uint32_t)hash_sip(&p->env->key, &f->key, sizeof(f->key)) + (uint32_t)(p->env->now >> 12);
	t->una = t->nxt = t->max = t->recover = t->sacked_max = t->iss;
	t->head = t->iss + 1;
	t->ts_off = (uint32_t)(hash_sip(&p->env->key, &f->key, sizeof(f->key)) >> 32);	/* tells nothing of our uptime (RFC 7323 5.4) */
	t->syn_ts = tcp_ts_now(p, t);
	t->rto = TCP_RTO_INIT;
	t->rto_at = t->ack_at = t->drop_at = t->push_at = t->idle_at = NS_NEVER;
	t->challenge_at = p->env->now;
	t->delay_acks = true;
	t->listener = FLOW_NONE;
}

void tcp_take_syn(struct proto *p, struct flow *f, const struct wire_tcp *h)
{
	struct tcp *t = tcp_of(f);
	uint32_t hdrs = wire_ip_hdr_len(&f->key.guest) + WIRE_TCP_LEN, mss;

	mss = h->has_mss ? h->mss : inaddr_is_v4(&f->key.guest) ? TCP_MSS_DFL4 : TCP_MSS_DFL6;
	mss = BYTES_MIN(BYTES_MAX(mss, TCP_MSS_MIN), L2_IP_MAX - hdrs);
	/* never above what fits our own MTU: the link's frames end there */
	t->mss = (uint16_t)BYTES_MIN(mss, p->env->l2->mtu - hdrs);
	t->ts_on = h->has_ts;
	t->ts_recent = h->has_ts ? h->ts_val : 0;
	t->ts_recent_at = p->env->now;
	t->sack_on = h->has_sack_ok;
	/* options take their room from every segment, however small (RFC 6691) */
	if (t->ts_on)
		t->mss = (uint16_t)BYTES_MAX(t->mss - (int)TCP_TS_LEN, 1);
	t->guest_has_ws = h->has_ws;
	t->ws_guest = h->has_ws ? BYTES_MIN(h->ws, TCP_WS_MAX) : 0;
	t->ws_ours = h->has_ws ? TCP_WS_OURS : 0;
	t->irs = h->seq;
	t->rcv_nxt = t->rcv_acked = t->rcv_edge = h->seq + 1;
	t->wnd = t->wnd_max = h->wnd;	/* never scaled in a SYN (RFC 7323 2.2) */
	t->wl1 = h->seq;
}

static void close_socket(struct proto *p, struct flow *f, enum sk_end how)
{
	tcp_kept_free(p, f);
	if (f->h >= 0)
		p->env->sk->ops->close(p->env->sk, f->h, how);
	f->h = -1;
	p->flow_gone = true;
}

void tcp_abort(struct proto *p, struct flow *f)
{
	trace_add(p->env->tr, p->env->now, "tcp abort", flow_idx(p->flows, f), tcp_of(f)->phase, 0);
	tcp_half_open_end(p, tcp_of(f));
	close_socket(p, f, SK_END_RESET);
	proto_flow_free(p, f);
}

void tcp_guest_reset(struct proto *p, struct flow *f)
{
	struct sk_room r;

	/* A guest forgets a connection that it closed long before a slow peer has read all: RST would make our kernel forget
	 * the rest. An orderly close does not, and that kernel resets a peer which goes on sending.
	 */
	if (tcp_of(f)->guest_fin && !p->env->sk->ops->room(p->env->sk, f->h, &r) && r.queued)
		tcp_guest_gone(p, f);
	else
		tcp_abort(p, f);
}

void tcp_reset(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->phase == TCP_PHASE_SYN_SENT)
		tcp_emit(p, f, WIRE_TCP_RST, t->iss + 1);
	else
		tcp_emit(p, f, WIRE_TCP_RST | WIRE_TCP_ACK, t->max);
	tcp_abort(p, f);
}

void tcp_finish(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	close_socket(p, f, SK_END_GRACEFUL);
	tcp_phase_set(p, f, TCP_PHASE_QUIET);
	t->host_more = t->rexmit_due = false;
	t->ack_at = t->drop_at = t->push_at = NS_NEVER;
	t->rto_at = p->env->now + TCP_QUIET;
}

/* A connect could not even be started */
static void refuse(struct proto *p, const struct flow_key *key, const struct tcp_seg *s, int err)
{
	const bool full = err == -EMFILE || err == -ENFILE;

	env_drop(p->env, full ? DROP_NO_DESCRIPTOR : DROP_TCP_OPEN);
	if (!tcp_refuse(p, key, s, err))
		tcp_emit_stray_rst(p, key, s);
}

int tcp_connect(struct proto *p, struct flow *f, const struct sk_addr *to)
{
	const struct tcp *t = tcp_of(f);
	const struct sk_syn syn = { .tos = t->tos_guest, .ttl = t->ttl_guest, .mss = t->mss_guest };
	struct inaddr from = proto_host_from(p, to);
	int h = p->env->sk->ops->connect(p->env->sk, flow_ref(p->flows, f), to, &from, syn);

	if ((h == -EMFILE || h == -ENFILE) && proto_evict(p))
		h = p->env->sk->ops->connect(p->env->sk, flow_ref(p->flows, f), to, &from, syn);
	return h;
}

/* Its socket, or negative errno */
static int open_socket(struct proto *p, struct flow *f)
{
	struct sk_addr to;
	int h = tcp_dns_open(p, f);

	if (h != -ENOENT)
		return h;
	to = proto_host_addr(p, &f->key.far, f->key.far_port);
	return tcp_connect(p, f, &to);
}

/* What the host socket shall have of the guest's SYN. An MSS that the path gives anyway would only cost a call; none at all is no
 * wish.
 */
static void take_wishes(struct tcp *t, const struct tcp_seg *s)
{
	t->ttl_guest = s->ttl;
	t->tos_guest = s->tos & TCP_DSCP_MASK;
	t->mss_guest = s->h.has_mss && s->h.mss < TCP_MSS_USUAL ? (uint16_t)BYTES_MAX(s->h.mss, TCP_MSS_MIN) : 0;
}

static void open_from_guest(struct proto *p, const struct flow_key *key, const struct tcp_seg *s)
{
	struct flow *f = flow_new(p->flows, key);
	int h;

	if (!f && proto_evict(p))
		f = flow_new(p->flows, key);
	if (!f) {
		env_drop(p->env, DROP_FLOW_FULL);
		tcp_emit_stray_rst(p, key, s);
		return;
	}
	take_wishes(tcp_of(f), s);
	h = open_socket(p, f);
	if (h < 0) {
		proto_flow_free(p, f);
		refuse(p, key, s, h);
		return;
	}
	f->h = h;
	tcp_init(p, f);
	tcp_take_syn(p, f, &s->h);
	tcp_phase_set(p, f, TCP_PHASE_CONNECTING);
	tcp_dns_wait(p, f);
}

void tcp_guest_new(struct proto *p, const struct flow_key *key, const struct tcp_seg *s)
{
	if (!p->fwd->tcp_on) {
		env_drop(p->env, DROP_PROTO_OFF);
		return;
	}
	if (!inaddr_is_unicast(&key->far) || !inaddr_is_unicast(&key->guest) || !key->far_port || !key->guest_port) {
		env_drop(p->env, DROP_IP_ADDR);
		return;
	}
	if ((s->h.flags & (WIRE_TCP_SYN | WIRE_TCP_ACK | WIRE_TCP_RST | WIRE_TCP_FIN)) == WIRE_TCP_SYN) {
		open_from_guest(p, key, s);
		return;
	}
	env_drop(p->env, DROP_TCP_NO_FLOW);
	tcp_emit_stray_rst(p, key, s);
}

/* A flow that has the tuple of a connection which the host accepted; false: it lives, another address of the host gave the same
 * tuple after translation. Where the guest has ended it and the peer comes again from the same port, the peer's end is behind us
 * in this turn, or the guest's ACK of it is on its way: the guest waits with nothing but the end, and takes a new SYN then
 * (RFC 9293 3.6.1).
 */
static bool make_way(struct proto *p, const struct flow_key *key)
{
	static const struct ev_hit look = { .mask = EV_IN };
	struct flow *f = flow_find(p->flows, key);
	struct tcp *t;

	if (f && tcp_of(f)->phase == TCP_PHASE_OPEN && tcp_of(f)->guest_fin) {
		tcp_host(p, f, &look);
		f = flow_find(p->flows, key);
	}
	if (!f)
		return true;
	t = tcp_of(f);
	if (t->phase == TCP_PHASE_OPEN) {
		if (!t->guest_fin || !t->fin_sent || t->una != t->fin_seq)
			return false;
		if (!tcp_discard(p, f, true))
			return true;
		tcp_finish(p, f);
	}
	if (t->phase != TCP_PHASE_QUIET)
		return false;
	proto_flow_free(p, f);
	return true;
}

int tcp_accepted(struct proto *p, int h, const struct tcp_incoming *in)
{
	struct flow_key key = { .far_port = in->peer.port, .guest_port = in->port, .proto = FLOW_TCP, .guest = in->target };
	enum drop why = DROP_TCP_NO_GUEST;
	struct flow *f;
	struct tcp *t;
	int err = -EADDRNOTAVAIL;

	if (!in->peer.port || fwd_from_host(p->fwd, &in->peer.a, &key.far) ||
	    (inaddr_is_unset(&in->target) && fwd_guest_addr(p->fwd, &key.far, &key.guest)))
		goto refuse;
	if (!make_way(p, &key)) {
		err = -EADDRINUSE;
		goto refuse;
	}
	f = flow_new(p->flows, &key);
	if (!f && proto_evict(p))
		f = flow_new(p->flows, &key);
	if (!f) {
		why = DROP_FLOW_FULL;
		err = -ENFILE;
		goto refuse;
	}
	err = p->env->sk->ops->watch(p->env->sk, h, flow_ref(p->flows, f));
	if (err) {			/* without events it would hang */
		proto_flow_free(p, f);
		why = DROP_TCP_OPEN;
		goto refuse;
	}
	t = tcp_of(f);
	f->h = h;
	tcp_init(p, f);
	t->tos_host = p->env->sk->ops->peer_class(p->env->sk, h, inaddr_is_v4(&in->peer.a)) & TCP_DSCP_MASK;
	t->syn_flags = WIRE_TCP_SYN;
	t->syn_wnd = 65535;
	t->max = t->nxt = t->iss + 1;
	tcp_phase_set(p, f, TCP_PHASE_SYN_SENT);
	tcp_half_open_begin(p, t, in->listener);
	tcp_emit_syn(p, f);
	tcp_timer_data_sent(p, t, t->max, false);
	tcp_timer_sync(p, f);
	return 0;
refuse:
	env_drop(p->env, why);
	p->env->sk->ops->close(p->env->sk, h, SK_END_RESET);
	return err;
}

static void acknowledge(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	bool wait = t->delay_acks && !t->ack_now && !t->refused && t->rcv_nxt - t->rcv_acked <= TCP_ACK_SMALL;

	/* a link that is full gets it a little later */
	if ((wait || !tcp_emit(p, f, WIRE_TCP_ACK, t->max)) && t->ack_at == NS_NEVER)
		t->ack_at = p->env->now + TCP_ACK_DELAY;
}

void tcp_settle(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->phase == TCP_PHASE_OPEN) {
		/* without SACK nothing tells what is missing beyond the first segment (RFC 6582) */
		if (t->rexmit_due && !tcp_rexmit(p, f, t->sack_on || t->all_lost ? L2_IP_MAX : t->mss))
			return;
		if (t->host_more && !f->ready && !tcp_push(p, f))	/* ready: its turn comes after the others' */
			return;
		if (t->host_err && !t->host_more) {
			tcp_reset(p, f);
			return;
		}
	}
	if (t->ack_due)
		acknowledge(p, f);
	if (t->phase == TCP_PHASE_OPEN && t->guest_fin && t->fin_acked) {
		if (!tcp_discard(p, f, true))
			return;
		tcp_finish(p, f);
	}
	tcp_timer_sync(p, f);
}

bool tcp_draining(const struct flow *f)
{
	const struct tcp *t = (const void *)f->body;

	/* after its FIN the kernel has all: it goes on alone, as it does for any program that ends */
	return f->h >= 0 && !t->guest_fin;
}

void tcp_guest_gone(struct proto *p, struct flow *f)
{
	struct sk *sk = p->env->sk;
	uint8_t scratch[1];
	struct iovec iov = { scratch, 1 };
	uint32_t n;

	if (f->h < 0)
		return;
	/* The guest can't repeat what the kernel refused. It calls a socket writable long after it takes some more. */
	if (tcp_of(f)->kept_head && !tcp_pass_kept(p, f))
		return;
	/* Unread data would turn the close into a reset, and lose what the kernel still has to send */
	for (n = 0; n < 1024 && sk->ops->peek(sk, f->h, 0, &iov, 1) > 0; n++)
		sk->ops->drop(sk, f->h, TCP_WND_MAX);
	tcp_half_open_end(p, tcp_of(f));
	close_socket(p, f, SK_END_GRACEFUL);
	proto_flow_free(p, f);
}
