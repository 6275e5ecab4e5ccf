/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From the host socket to the guest: peek straight into the frame, as far as
 * the guest's window goes; discard when the guest acknowledges (TCP-40). A
 * retransmission peeks the same bytes again.
 *
 * Invariant: while data waits, something will wake us: bytes in flight have the
 * retransmission timer, a closed window has the probe timer, an empty socket
 * has its event.
 */
#include "tcp_priv.h"

bool tcp_discard(struct proto *p, struct flow *f, bool all)
{
	struct tcp *t = tcp_of(f);
	uint32_t upto = t->fin_sent && seqno_gt(t->una, t->fin_seq) ? t->fin_seq : t->una;
	uint32_t len = upto - t->head;
	int r;

	if (!len)
		return true;
	if (!all && t->small_run >= TCP_LAZY_RUN && ++t->lazy_cnt < TCP_LAZY_CNT) {
		if (t->drop_at == NS_NEVER)
			t->drop_at = p->env->now + TCP_LAZY_TIME;
		return true;
	}
	t->lazy_cnt = 0;
	t->drop_at = NS_NEVER;
	r = p->env->sk->ops->drop(p->env->sk, f->h, len);
	if (r) {
		tcp_reset(p, f);
		return false;
	}
	t->head = upto;
	return true;
}

/* A data segment from SEQ, at most WANT bytes: what peek returned */
static int send_data(struct proto *p, struct flow *f, uint32_t seq, uint32_t want, uint32_t all_if_below)
{
	struct tcp *t = tcp_of(f);
	uint32_t hdr_len = proto_l4_off(&f->key.far) + WIRE_TCP_LEN + tcp_opt_len(t);
	struct iovec iov[L2_IOV_MAX];
	uint8_t hdr[PROTO_HDR_MAX];
	struct l2_frame fr;
	struct view v;
	int r, cnt;

	if (!proto_reserve(p->env, &fr, hdr_len + want))
		return -ENOBUFS;
	v = view_of(fr.iov, hdr_len + want);
	view_skip(&v, hdr_len);
	cnt = view_iov(&v, iov, L2_IOV_MAX);
	r = p->env->sk->ops->peek(p->env->sk, f->h, seq - t->head, iov, cnt);
	if (r <= 0)
		return r;
	/* silly window avoidance, sender's side: a part of what waits is not worth a segment now (RFC 9293 3.8.6.2.1) */
	if ((uint32_t)r == want && want < all_if_below)
		return -EBUSY;
	tcp_data_hdr(p, f, hdr, seq, WIRE_TCP_ACK | ((uint32_t)r < want ? WIRE_TCP_PSH : 0), (uint32_t)r);
	view_scatter(fr.iov, 0, hdr, hdr_len);
	tcp_data_desc(f, &fr, hdr_len, (uint32_t)r);
	if (!proto_commit(p->env, &fr))
		return -ENOBUFS;
	t->small_run = (uint32_t)r > TCP_LAZY_SEG ? 0 : BYTES_MIN(t->small_run + 1, TCP_LAZY_RUN);
	if (p->env->now - t->guest_data_at < TCP_ACK_DELAY)
		t->delay_acks = true;
	if (t->ack_alone)
		t->rcv_acked = t->rcv_nxt;
	else
		tcp_timer_ack_sent(t);
	return r;
}

static bool send_fin(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->fin_sent)
		return true;
	t->fin_sent = true;
	t->fin_seq = t->max;
	t->max = t->nxt = t->fin_seq + 1;
	tcp_emit(p, f, WIRE_TCP_FIN | WIRE_TCP_ACK, t->fin_seq);	/* if the link refused: the timer sends it again */
	tcp_timer_data_sent(p, t, t->max, false);
	return true;
}

/* What peek said instead of data. True: go on with this flow; *ret_gone tells if it is no more. */
static void no_data(struct proto *p, struct flow *f, int r, bool *ret_gone)
{
	struct tcp *t = tcp_of(f);

	*ret_gone = false;
	switch (-r) {
	case 0:
		t->host_more = false;
		send_fin(p, f);
		return;
	case EAGAIN:
		t->host_more = false;
		return;
	case EINTR:
		proto_ready(p, f);	/* no event will tell again */
		return;
	case EBUSY:
		return;			/* an ACK is on its way */
	case ENOBUFS:
		t->push_at = p->env->now + TCP_LINK_RETRY;	/* the link is full, and tells no event of its end */
		return;
	default:
		*ret_gone = true;
		tcp_reset(p, f);
	}
}

bool tcp_push(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	uint32_t hdrs = wire_ip_hdr_len(&f->key.far) + WIRE_TCP_LEN + tcp_opt_len(t);
	uint32_t super = BYTES_MAX((L2_IP_MAX - hdrs) / t->mss, 1u) * t->mss;
	uint32_t small = BYTES_MIN(t->mss, t->wnd_max / 2);
	bool gone;

	if (t->fin_sent)		/* nothing follows it: an error then counts at once */
		t->host_more = false;
	for (int turn = 0; t->host_more && !t->fin_sent; turn++) {
		int32_t room = (int32_t)(t->una + t->wnd - t->nxt), flight;
		uint32_t want;
		bool wait = false;
		int r;

		if (t->host_urgent && !tcp_mark_look(p, f, &wait))
			return false;
		if (wait)		/* an ACK is on its way */
			break;
		flight = (int32_t)(t->nxt - t->head);
		if (turn && !p->tcp_turn) {
			proto_ready(p, f);
			break;
		}
		room = BYTES_MIN(room, BYTES_MIN((int32_t)TCP_FLIGHT_MAX - flight, tcp_cap_room(t)));
		if (room <= 0) {
			if (t->una == t->max)
				tcp_timer_blocked(p, t);
			break;
		}
		want = tcp_mark_at(t, t->nxt) ? 1 : BYTES_MIN((uint32_t)room, super);
		r = send_data(p, f, t->nxt, want, t->una != t->max ? small : 0);
		if (r <= 0) {
			no_data(p, f, r, &gone);
			if (gone)
				return false;
			break;
		}
		p->tcp_turn -= p->tcp_turn > 0;
		if (t->una == t->max)
			tcp_timer_first(t);
		t->nxt += (uint32_t)r;
		t->max = t->nxt;
		tcp_timer_data_sent(p, t, t->nxt, false);
		/* a short read emptied the socket: the next bytes come with an event of their own */
		if ((uint32_t)r < want && !t->host_rdhup && !t->host_err && !t->host_urgent)
			t->host_more = false;
	}
	return true;
}

void tcp_recover(struct proto *p, struct tcp *t, bool all)
{
	t->all_lost = all;
	t->recovering = t->rexmit_due = true;
	t->recover = t->max;
	t->rexmit_end = t->round_end = t->una;
	t->again = (struct tcp_range){ t->una, t->una };
	t->rexmit_ts = tcp_ts_now(p, t);
}

/* Up to WANT bytes from SEQ again: how many, or what peek said. False: the flow is gone. */
static bool send_again(struct proto *p, struct flow *f, uint32_t seq, uint32_t want, uint32_t *ret_len)
{
	struct tcp *t = tcp_of(f);
	uint32_t hdrs = wire_ip_hdr_len(&f->key.far) + WIRE_TCP_LEN + tcp_opt_len(t);
	bool gone = false;
	int r;

	*ret_len = 0;
	want = tcp_mark_at(t, seq) ? 1 : BYTES_MIN(want, BYTES_MAX((L2_IP_MAX - hdrs) / t->mss, 1u) * t->mss);
	r = send_data(p, f, seq, want, 0);
	if (r > 0)
		*ret_len = (uint32_t)r;
	else if (r != -EAGAIN)
		no_data(p, f, r, &gone);
	if (r == -ENOBUFS)
		t->rexmit_due = true;
	return !gone;
}

/* The next hole to fill, and whose place moves on then: one that was filled in vain, or the next that was not filled yet */
static uint32_t *next_hole(struct tcp *t, struct tcp_range *ret)
{
	if (seqno_lt(t->again.from, t->una))
		t->again.from = t->una;
	if (seqno_lt(t->again.from, t->again.to) && tcp_sack_hole(t, t->again.from, ret) && seqno_lt(ret->from, t->again.to)) {
		if (seqno_gt(ret->to, t->again.to))
			ret->to = t->again.to;
		return &t->again.from;
	}
	t->again.to = t->again.from;
	return tcp_sack_hole(t, t->rexmit_end, ret) ? &t->rexmit_end : NULL;
}

/* All holes that SACK shows and that are not filled (RFC 6675 5); *ret_any: there were some. False: the flow is gone. */
static bool fill_holes(struct proto *p, struct flow *f, bool *ret_any)
{
	struct tcp *t = tcp_of(f);
	struct tcp_range hole;
	uint32_t len, *at;

	*ret_any = false;
	for (int turn = 0; (at = next_hole(t, &hole)); turn++) {
		if (turn == TCP_FILL) {
			t->rexmit_due = true;
			proto_ready(p, f);
			break;
		}
		if (!send_again(p, f, hole.from, hole.to - hole.from, &len))
			return false;
		if (!len)
			break;
		*at = hole.from + len;
		*ret_any = true;
	}
	if (seqno_le(t->round_end, t->una) && !t->rexmit_due) {
		t->round_end = t->rexmit_end;
		t->round_seq = t->max;
	}
	return true;
}

bool tcp_rexmit(struct proto *p, struct flow *f, uint32_t limit)
{
	struct tcp *t = tcp_of(f);
	uint32_t end = t->fin_sent ? t->fin_seq : t->max, len;
	bool any = true;

	t->rexmit_due = false;
	if (t->una == t->max)
		return true;
	if (seqno_lt(t->rexmit_end, t->una))
		t->rexmit_end = t->una;
	if (seqno_ge(t->una, end)) {
		tcp_emit(p, f, WIRE_TCP_FIN | WIRE_TCP_ACK, t->fin_seq);
	} else if (t->sacked_cnt) {
		if (!fill_holes(p, f, &any))
			return false;
	} else {
		/* a window that shrank: what fits it, but at least a probe of one byte */
		limit = BYTES_MIN(limit, BYTES_MAX(t->wnd, 1u));
		if (!send_again(p, f, t->una, BYTES_MIN(end - t->una, limit), &len))
			return false;
		t->rexmit_end = t->una + len;
		any = len;
	}
	if (any)			/* news about the rest is no reason to wait longer for what was sent again before */
		tcp_timer_data_sent(p, t, t->max, true);
	return true;
}

bool tcp_probe_tail(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	uint32_t end = t->fin_sent ? t->fin_seq : t->max, len = BYTES_MIN(end - t->una, t->mss);

	t->probed = true;
	t->rtt_timing = false;
	if (t->recovering) {
		t->again = (struct tcp_range){ t->una, t->rexmit_end };
		t->round_end = t->una;
		return tcp_rexmit(p, f, t->mss);
	}
	if (t->fin_sent)
		tcp_emit(p, f, WIRE_TCP_FIN | WIRE_TCP_ACK, t->fin_seq);
	else if (!send_again(p, f, end - len, len, &len))
		return false;
	if (!len) {			/* the link is full: the probe comes later, and is no reason for more */
		t->probed = t->rexmit_due = false;
		t->rto_at = p->env->now + TCP_LINK_RETRY;
	}
	return true;
}

static void connected(struct proto *p, struct flow *f, uint32_t mask)
{
	struct tcp *t = tcp_of(f);
	struct sk_room r = { .writable = true };
	int err = p->env->sk->ops->result(p->env->sk, f->h);

	if (err == -EINPROGRESS && !(mask & (EV_ERR | EV_HUP)))
		return;
	if (err && tcp_dns_next(p, f))
		return;
	if (err) {
		tcp_connect_failed(p, f, err);
		return;
	}
	tcp_dns_connected(p, f);
	if (tcp_is_probe(t->ttl_guest))
		p->env->sk->ops->set(p->env->sk, f->h, SK_OPT_ERRORS, 0);
	t->host_rdhup = mask & EV_RDHUP;
	t->host_more = mask & (EV_IN | EV_PRI | EV_RDHUP);
	p->env->sk->ops->room(p->env->sk, f->h, &r);
	t->syn_flags = WIRE_TCP_SYN | WIRE_TCP_ACK;
	t->syn_wnd = (uint16_t)BYTES_MIN(tcp_win_room(&r, 65535), 65535u);
	t->rcv_edge = t->rcv_nxt + t->syn_wnd;
	t->max = t->nxt = t->iss + 1;
	tcp_phase_set(p, f, TCP_PHASE_SYN_RCVD);
	tcp_emit_syn(p, f);
	tcp_timer_data_sent(p, t, t->max, false);
	tcp_timer_sync(p, f);
}

/* The kernel refused a part of a batch, and takes data again: three equal ACKs make the guest repeat it at once (RFC 5681
 * 3.2) instead of after its timer
 */
static void ask_again(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	t->refused = false;
	for (int i = 0; i <= TCP_DUPACKS; i++)
		tcp_emit(p, f, WIRE_TCP_ACK, t->max);
}

/* The socket may take more: what was kept, then ask for the rest. False: the flow is gone. */
static bool go_on(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->armed)			/* it will tell */
		return true;
	if (!tcp_pass_kept(p, f))
		return false;
	if (t->refused && !t->sending && !t->armed)
		ask_again(p, f);
	return true;
}

/* False: the flow is gone */
static bool writable(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	uint32_t edge = t->rcv_edge;

	t->armed = t->stuck = false;
	t->wnd_low = TCP_WND_MAX;	/* look, however much is left */
	tcp_win_update(p, f);
	if (t->rcv_edge != edge)
		t->ack_due = t->ack_now = true;
	return go_on(p, f);
}

void tcp_host(struct proto *p, struct flow *f, const struct ev_hit *hit)
{
	struct tcp *t = tcp_of(f);
	uint32_t mask = hit->mask;

	if (f->h < 0)			/* an event from before its close in this turn: the flow is quiet */
		return;
	if (t->phase == TCP_PHASE_CONNECTING) {
		connected(p, f, mask);
		return;
	}
	if (mask & EV_RDHUP)
		t->host_rdhup = true;
	if (mask & EV_PRI)
		t->host_urgent = true;
	if (mask & (EV_IN | EV_RDHUP | EV_HUP | EV_PRI))
		t->host_more = true;
	if (mask & EV_ERR)
		t->host_err = t->host_more = true;
	if (t->phase != TCP_PHASE_OPEN) {
		if (t->host_err)	/* the client did not wait for the guest's answer */
			tcp_reset(p, f);
		return;
	}
	if (mask & EV_SENT) {
		t->sending = false;
		if (!tcp_sent(p, f, hit->res, t->send_len, t->send_fin))
			return;
		t->refused |= t->send_missed;
		t->send_missed = false;
		if (!go_on(p, f))
			return;
	}
	if (mask & EV_OUT && (t->armed || t->refused) && !writable(p, f))
		return;
	tcp_settle(p, f);
}

void tcp_more(struct proto *p, struct flow *f)
{
	tcp_settle(p, f);
}
