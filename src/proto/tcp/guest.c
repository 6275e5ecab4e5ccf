/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments from the guest: validated (RFC 9293 3.10.7, RFC 5961), put in order,
 * handed to the host socket. The payload of all segments of a batch goes out by
 * one send. What the kernel accepted is acknowledged, nothing else is.
 *
 * Segments ahead of a gap wait in the pool (kept.c), as does what a full socket
 * refused: the guest need not send either again.
 */
#include "tcp_priv.h"

struct gather {				/* in-order payload of the batch, not yet sent */
	struct iovec iov[TCP_IOV];
	int cnt;
	uint32_t len;
	bool fin;
};

/* The guest learns where we are, as it seems to be elsewhere */
static void challenge(struct proto *p, struct flow *f, enum drop why)
{
	env_drop(p->env, why);
	tcp_of(f)->ack_due = tcp_of(f)->ack_now = true;
}

/* The same for a segment without data, which may itself be such an answer: two ends that disagree must not answer each other
 * for ever (RFC 5961 7)
 */
static void challenge_empty(struct proto *p, struct flow *f, const struct tcp_seg *s, enum drop why)
{
	struct tcp *t = tcp_of(f);

	if (p->env->now - t->challenge_at >= TCP_CHALLENGE_TIME) {
		t->challenge_at = p->env->now;
		t->challenges = 0;
	}
	if (s->data.len || t->challenges++ < TCP_CHALLENGES)
		challenge(p, f, why);
	else
		env_drop(p->env, DROP_TCP_CHALLENGE);
	t->challenges = BYTES_MIN(t->challenges, TCP_CHALLENGES);
}

/* A reset that is not at the exact next sequence EXPECT: one in the window is asked about (RFC 5961 3.2) */
static void reset_elsewhere(struct proto *p, struct flow *f, const struct tcp_seg *s, uint32_t expect)
{
	if (seqno_gt(s->h.seq, expect) && seqno_lt(s->h.seq, tcp_of(f)->rcv_edge))
		challenge_empty(p, f, s, DROP_TCP_RST_SEQ);
	else
		env_drop(p->env, DROP_TCP_RST_SEQ);
}

bool tcp_sent(struct proto *p, struct flow *f, int r, uint32_t len, bool fin)
{
	struct tcp *t = tcp_of(f);
	uint32_t end = t->rcv_nxt + len;

	if (r < 0 && r != -EAGAIN && r != -EINTR) {
		/* EPIPE, ECONNRESET ...: nobody is there to take more. What the peer sent before it left comes first. */
		t->host_more = true;
		if (tcp_push(p, f))
			tcp_reset(p, f);
		return false;
	}
	t->rcv_nxt += (uint32_t)BYTES_MAX(r, 0);
	t->guest_data_at = p->env->now;
	tcp_kept_drop(p, f, t->rcv_nxt);
	if (t->guest_mark && seqno_lt(t->guest_mark_seq, t->rcv_nxt))
		t->guest_mark = false;
	t->stuck = BYTES_MAX(r, 0) < (int)len;
	if (t->stuck) {
		/* what waits in the pool goes out later; the guest must repeat the rest */
		if (seqno_lt(tcp_kept_end(p, f, t->rcv_nxt), end)) {
			env_drop(p->env, DROP_TCP_BUSY);
			t->refused = true;
		}
		t->ack_now = true;
		if (!t->armed) {
			t->armed = true;
			p->env->sk->ops->arm(p->env->sk, f->h);
		}
	} else if (fin) {
		tcp_kept_free(p, f);	/* nothing stands behind the end */
		t->kept_fin = false;
		t->rcv_nxt++;
		if (seqno_lt(t->rcv_edge, t->rcv_nxt))
			t->rcv_edge = t->rcv_nxt;
		t->guest_fin = t->ack_now = true;
		p->env->sk->ops->shut(p->env->sk, f->h);
	}
	t->ack_due = true;
	tcp_win_update(p, f);
	return true;
}

/* Kept data that continues behind what is gathered, and the FIN behind that */
static void gather_kept(struct proto *p, struct flow *f, struct gather *g)
{
	struct tcp *t = tcp_of(f);
	uint32_t len;

	if (t->kept_head || t->kept_fin)	/* a gap that closes, or a part of it: at once (RFC 5681 4.2) */
		t->ack_now = true;
	if (t->kept_head) {
		g->cnt += tcp_kept_iov(p, f, t->rcv_nxt + g->len, g->iov + g->cnt, TCP_IOV - g->cnt, &len);
		g->len += len;
	}
	if (t->kept_fin && t->kept_fin_seq == t->rcv_nxt + g->len)
		g->fin = true;
}

static void keep_fin(struct tcp *t, uint32_t seq)
{
	t->kept_fin = true;
	t->kept_fin_seq = seq;
}

/* The kernel took only R of LEN bytes, or will tell later: the rest waits with us, where it can */
static void keep_tail(struct proto *p, struct flow *f, const struct gather *g, uint32_t r, uint32_t len, bool fin)
{
	struct tcp *t = tcp_of(f);
	struct view v = view_of(g->iov, len);

	view_skip(&v, r);
	if (tcp_kept_add(p, f, t->rcv_nxt + r, &v) && fin)
		keep_fin(t, t->rcv_nxt + len);
}

/* The first PART bytes of what is gathered, which end at an urgent one, or are URGENT */
static __attribute__((noinline)) int send_part(struct proto *p, struct flow *f, const struct gather *g, uint32_t part,
					       bool urgent)
{
	const struct view v = view_of(g->iov, part);
	struct iovec iov[TCP_IOV];
	uint8_t bounce;

	if (urgent)
		return p->env->sk->ops->urge(p->env->sk, f->h, *(const uint8_t *)view_peek(&v, &bounce, 1));
	return p->env->sk->ops->send(p->env->sk, f->h, iov, view_iov(&v, iov, TCP_IOV));
}

/* Hand over what is gathered. False: the flow is gone. */
static bool flush(struct proto *p, struct flow *f, struct gather *g)
{
	struct tcp *t = tcp_of(f);
	uint32_t len = g->len, part;
	bool fin = g->fin, urgent;
	int r = 0, cnt = g->cnt;

	if (!len && !fin)
		return true;
	part = tcp_mark_cut(t, len, &urgent);
	if (len >= TCP_BULK)
		tcp_win_bulk(p, t);
	g->cnt = 0;
	g->len = 0;
	g->fin = false;
	if (urgent || part < len)
		r = send_part(p, f, g, part, urgent);
	else if (len)
		r = p->env->sk->ops->send(p->env->sk, f->h, g->iov, cnt);
	if (r == -EAGAIN || r == -EINTR || r == -EINPROGRESS || (r >= 0 && (uint32_t)r < len))
		keep_tail(p, f, g, (uint32_t)BYTES_MAX(r, 0), len, fin);
	if (r == -EINPROGRESS) {
		t->sending = true;
		t->send_len = part;
		t->send_fin = fin && part == len;
		return true;
	}
	if (!tcp_sent(p, f, r, part, fin && part == len))
		return false;
	return part == len || t->stuck || tcp_pass_kept(p, f);
}

bool tcp_pass_kept(struct proto *p, struct flow *f)
{
	struct gather g;

	g.cnt = 0;
	g.len = 0;
	g.fin = false;
	if (!tcp_of(f)->sending)
		gather_kept(p, f, &g);
	return flush(p, f, &g);
}

/* A new ACK: queue, timers, and the state of a repair */
static bool ack_news(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	uint32_t ack = s->h.ack;

	if (!t->recovering)
		tcp_cap_grow(t, ack - t->una);
	t->una = ack;
	if (t->host_mark && seqno_lt(t->host_mark_seq, ack))
		t->host_mark = false;
	if (t->fin_sent && ack == t->fin_seq + 1)
		t->fin_acked = true;
	t->dupacks = 0;
	tcp_sack_trim(t);
	if (t->ts_on && s->h.has_ts)
		tcp_timer_echo(p, t, s->h.ts_ecr);
	if (t->recovering) {
		/* Eifel (RFC 3522): what fills the hole was sent before we sent it again, so nothing was lost */
		bool spurious = t->ts_on && s->h.has_ts && s->h.ts_ecr && seqno_lt(s->h.ts_ecr, t->rexmit_ts);

		/* all that SACK shows is filled, the rest is on its way: nothing more is known to be lost */
		bool filled = t->sack_on && !t->all_lost && !t->sacked_cnt;

		t->recovering = seqno_lt(ack, t->recover) && !spurious && !filled;
		/* NewReno (RFC 6582 3.2): a partial ACK shows the next hole, unless it lies in what was just sent again: then
		 * the ACK for the rest of that is on its way
		 */
		t->rexmit_due = t->recovering && seqno_ge(ack, t->rexmit_end);
	}
	tcp_timer_acked(p, t);
	return tcp_discard(p, f, false);
}

/* RTT, window and queue after an acceptable ACK */
static bool take_ack(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	uint32_t ack = s->h.ack, wnd = (uint32_t)s->h.wnd << t->ws_guest, old_wnd = t->wnd;
	bool in_flight = t->una != t->max, news;

	t->retries = 0;
	/* News also comes with a new ACK in data sent again, whose sequence is older than that of data ahead of a gap */
	if (seqno_gt(ack, t->una) || (ack == t->una && seqno_le(t->wl1, s->h.seq))) {
		t->wnd = wnd;
		t->wnd_max = BYTES_MAX(t->wnd_max, wnd);
		t->wl1 = s->h.seq;
		/* a guest short of memory announces 0 and drops what is on its way (TCP-55): send it again at once */
		if (!old_wnd && wnd && in_flight && ack == t->una)
			tcp_recover(p, t, true);
	}
	news = t->sack_on && tcp_sack_take(t, &s->h);
	if (seqno_gt(ack, t->una)) {
		if (!ack_news(p, f, s))
			return false;
	} else if (ack == t->una && in_flight && !s->data.len && !(s->h.flags & WIRE_TCP_FIN) &&
		   (t->sack_on ? news : wnd == old_wnd) &&	/* with SACK, only news count (RFC 6675 2) */
		   !t->recovering && t->dupacks < TCP_DUPACKS) {
		t->dupacks++;
		/* ack == recover: these may answer what was sent again in vain (RFC 6582 3.2, step 1) */
		if (t->dupacks == TCP_DUPACKS && (ack != t->recover || t->sack_on)) {
			tcp_cap_cut(t);
			tcp_recover(p, t, false);
		}
	}
	/* news after a probe: what is missing below it was sent much earlier (RFC 8985 7.4) */
	if (news && !t->recovering && (t->probed || tcp_sack_lost(t))) {
		tcp_cap_cut(t);
		tcp_recover(p, t, false);
	} else if (news && t->recovering) {
		t->rexmit_due = true;		/* maybe a hole more */
		tcp_sack_round(t);
	}
	return true;
}

/* Payload that can't be passed on now: it lies ahead of a gap, or a send is under way (the rest of a batch with more pieces
 * than one send takes)
 */
static void take_ahead(struct proto *p, struct flow *f, const struct tcp_seg *s, uint32_t expect)
{
	struct tcp *t = tcp_of(f);
	uint32_t seq = s->h.seq, room;
	bool fin = s->h.flags & WIRE_TCP_FIN;
	struct view v = s->data;

	if (seqno_lt(seq, expect)) {
		view_skip(&v, expect - seq);
		seq = expect;
	}
	room = t->rcv_edge - seq;
	if (v.len > room) {
		view_trim(&v, room);
		fin = false;
	}
	t->ack_due = t->ack_now = t->ack_alone = true;
	if (!tcp_kept_add(p, f, seq, &v)) {
		env_drop(p->env, t->sending || t->refused ? DROP_TCP_BUSY : DROP_TCP_GAP);
		t->send_missed = t->sending;
	} else if (fin) {
		keep_fin(t, seq + v.len);
	}
}

/* Payload and FIN of an acceptable segment. False: the flow is gone. */
static bool take_data(struct proto *p, struct flow *f, const struct tcp_seg *s, struct gather *g)
{
	struct tcp *t = tcp_of(f);
	uint32_t seq = s->h.seq, expect = t->rcv_nxt + g->len, room = t->rcv_edge - expect;
	struct view v = s->data;
	bool fin = s->h.flags & WIRE_TCP_FIN;
	int n;

	if (!v.len && !fin)
		return true;
	tcp_pass_class(p, f, s->tos);
	if (t->guest_fin || g->fin) {	/* beyond the end of its stream, or the FIN again */
		challenge(p, f, DROP_TCP_OLD);
		return true;
	}
	if (seqno_gt(seq, expect) || t->sending) {
		take_ahead(p, f, s, expect);
		return true;
	}
	view_skip(&v, expect - seq);
	if (v.len > room) {
		env_drop(p->env, DROP_TCP_WINDOW);
		view_trim(&v, room);
		t->ack_due = t->ack_now = true;
		fin = false;
	}
	if (v.len) {
		n = view_iov(&v, g->iov + g->cnt, TCP_IOV - g->cnt);
		if (n < 0) {
			if (!flush(p, f, g))
				return false;
			if (t->rcv_nxt != expect) {	/* not all of it was taken: this stands behind the rest */
				take_ahead(p, f, s, expect);
				return true;
			}
			n = view_iov(&v, g->iov, TCP_IOV);
			if (n < 0) {
				challenge(p, f, DROP_TCP_BUSY);
				return true;
			}
		}
		g->cnt += n;
		g->len += v.len;
	}
	g->fin = fin;
	if (!fin)
		gather_kept(p, f, g);
	return true;
}

/* An urgent pointer. There is one mark at a time, so an earlier one goes out first. False: the flow is gone. */
static bool take_mark(struct proto *p, struct flow *f, const struct tcp_seg *s, struct gather *g)
{
	struct tcp *t = tcp_of(f);

	if (!(s->h.flags & WIRE_TCP_URG))
		return true;
	if (t->guest_mark && seqno_lt(t->guest_mark_seq, t->rcv_nxt + g->len) && !flush(p, f, g))
		return false;
	tcp_mark_take(t, s);
	return true;
}

/* First check of RFC 9293 3.10.7.4: anything of the segment in the window, or right at its edges */
static bool acceptable(const struct tcp *t, const struct tcp_seg *s, uint32_t expect)
{
	uint32_t len = s->data.len + !!(s->h.flags & WIRE_TCP_FIN);

	if (!len)
		return seqno_ge(s->h.seq, expect) && seqno_le(s->h.seq, t->rcv_edge);
	return seqno_gt(s->h.seq + len, expect) && seqno_le(s->h.seq, t->rcv_edge);
}

/* A guest that knows that it repeated in vain undoes what it did about a loss (RFC 2883) */
static void tell_twice(struct tcp *t, const struct tcp_seg *s)
{
	uint32_t end = s->h.seq + s->data.len;

	if (!t->sack_on || !s->data.len || seqno_ge(s->h.seq, t->rcv_nxt) || seqno_gt(end, t->rcv_nxt))
		return;
	t->twice = (struct tcp_range){ s->h.seq, end };
	t->twice_due = t->ack_alone = true;
}

static bool take_open(struct proto *p, struct flow *f, const struct tcp_seg *s, struct gather *g)
{
	struct tcp *t = tcp_of(f);
	uint32_t expect = t->rcv_nxt + g->len + g->fin;
	uint8_t flags = s->h.flags;

	if (flags & WIRE_TCP_RST) {
		if (s->h.seq == expect) {
			if (flush(p, f, g))
				tcp_guest_reset(p, f);
			return false;
		}
		reset_elsewhere(p, f, s, expect);
		return true;
	}
	if (flags & WIRE_TCP_SYN) {	/* RFC 5961 4.2 */
		challenge_empty(p, f, s, DROP_TCP_SYN_LATE);
		return true;
	}
	if (t->ts_on && !s->h.has_ts) {	/* RFC 7323 3.2: silently */
		env_drop(p->env, DROP_TCP_PAWS);
		return true;
	}
	if (t->ts_on && seqno_lt(s->h.ts_val, t->ts_recent) && p->env->now - t->ts_recent_at < TCP_PAWS_IDLE) {	/* RFC 7323 5.3 */
		challenge_empty(p, f, s, DROP_TCP_PAWS);
		return true;
	}
	if (!acceptable(t, s, expect)) {
		tcp_pass_keep_alive(p, f, s);
		tell_twice(t, s);
		/* also keep-alive probes, which want just this answer (TCP-57) */
		challenge_empty(p, f, s, seqno_gt(s->h.seq, expect) ? DROP_TCP_WINDOW : DROP_TCP_OLD);
		return true;
	}
	if (!(flags & WIRE_TCP_ACK)) {
		env_drop(p->env, DROP_TCP_FLAGS);
		return true;
	}
	if (t->ts_on && seqno_le(s->h.seq, t->rcv_acked)) {	/* RFC 7323 4.3 */
		t->ts_recent = s->h.ts_val;
		t->ts_recent_at = p->env->now;
	}
	if (seqno_gt(s->h.ack, t->max)) {
		challenge_empty(p, f, s, DROP_TCP_ACK_UNSENT);
		return true;
	}
	/* older than anything that can be on its way: guessed, and so is its data (RFC 5961 5.2) */
	if (seqno_lt(s->h.ack, t->una - t->wnd_max)) {
		challenge_empty(p, f, s, DROP_TCP_ACK_OLD);
		return true;
	}
	return take_ack(p, f, s) && take_mark(p, f, s, g) && take_data(p, f, s, g);
}

/* The socket is connected to both ends now */
static void establish(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	t->una = t->iss + 1;
	t->retries = 0;
	tcp_phase_set(p, f, TCP_PHASE_OPEN);
	tcp_timer_acked(p, t);
	t->wnd_low = TCP_SUPER;
	tcp_win_update(p, f);
	if (!t->syn_wnd)		/* the guest waits for an opening that came without an event */
		t->ack_due = t->ack_now = true;
}

static void reset_seq(struct proto *p, struct flow *f, uint32_t seq)
{
	env_drop(p->env, DROP_TCP_FLAGS);
	tcp_emit(p, f, WIRE_TCP_RST, seq);
}

/* We sent SYN, ACK. False: the flow is gone. */
static bool take_syn_rcvd(struct proto *p, struct flow *f, const struct tcp_seg *s, struct gather *g)
{
	struct tcp *t = tcp_of(f);
	uint8_t flags = s->h.flags;

	if (flags & WIRE_TCP_RST) {
		if (s->h.seq == t->rcv_nxt) {
			tcp_abort(p, f);
			return false;
		}
		reset_elsewhere(p, f, s, t->rcv_nxt);
		return true;
	}
	if (flags & WIRE_TCP_SYN && !(flags & WIRE_TCP_ACK)) {
		if (s->h.seq == t->irs)
			tcp_emit_syn(p, f);
		else
			challenge_empty(p, f, s, DROP_TCP_SYN_LATE);	/* a guest that forgot resets us, and tries again */
		return true;
	}
	if (!(flags & WIRE_TCP_ACK)) {
		env_drop(p->env, DROP_TCP_FLAGS);
		return true;
	}
	/* the SYN of a simultaneous open lies before the window */
	if (!(flags & WIRE_TCP_SYN) && !acceptable(t, s, t->rcv_nxt)) {
		challenge_empty(p, f, s, DROP_TCP_WINDOW);
		return true;
	}
	if (s->h.ack != t->iss + 1) {
		reset_seq(p, f, s->h.ack);
		return true;
	}
	establish(p, f);
	t->wnd = (uint32_t)s->h.wnd << (flags & WIRE_TCP_SYN ? 0 : t->ws_guest);	/* RFC 7323 2.2 */
	t->wnd_max = BYTES_MAX(t->wnd_max, t->wnd);
	if (flags & WIRE_TCP_SYN) {		/* simultaneous open: its SYN, ACK */
		t->ack_due = t->ack_now = true;
		return true;
	}
	return take_open(p, f, s, g);
}

/* We sent SYN. False: the flow is gone. */
static bool take_syn_sent(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	uint8_t flags = s->h.flags;
	bool ack_ok = flags & WIRE_TCP_ACK && s->h.ack == t->iss + 1;

	if (flags & WIRE_TCP_RST) {
		if (ack_ok) {
			tcp_abort(p, f);
			return false;
		}
		env_drop(p->env, DROP_TCP_RST_SEQ);
		return true;
	}
	if (flags & WIRE_TCP_ACK && !ack_ok) {
		reset_seq(p, f, s->h.ack);
		return true;
	}
	if (!(flags & WIRE_TCP_SYN)) {
		env_drop(p->env, DROP_TCP_FLAGS);
		return true;
	}
	tcp_take_syn(p, f, &s->h);
	t->rcv_edge = t->rcv_nxt + t->syn_wnd;
	if (!ack_ok) {			/* simultaneous open (RFC 9293 3.5) */
		tcp_phase_set(p, f, TCP_PHASE_SYN_RCVD);
		t->syn_flags = WIRE_TCP_SYN | WIRE_TCP_ACK;
		tcp_emit_syn(p, f);
		return true;
	}
	establish(p, f);
	t->ack_due = t->ack_now = true;
	return true;
}

/* Both ends are done. False: the flow is gone. */
static bool take_quiet(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	uint8_t flags = s->h.flags;

	if (flags & WIRE_TCP_RST) {
		if (s->h.seq != t->rcv_nxt)
			return true;
		proto_flow_free(p, f);
		return false;
	}
	/* The tuple again: make room for it, unless that SYN is this flow's own, late. Not by order, as RFC 9293 3.10.7.4
	 * does for TIME-WAIT: this link delays nothing for long, and guests with random ISNs would wait for a retry.
	 */
	if ((flags & (WIRE_TCP_SYN | WIRE_TCP_ACK)) == WIRE_TCP_SYN && s->h.seq != t->irs) {
		struct flow_key key = f->key;

		proto_flow_free(p, f);
		tcp_guest_new(p, &key, s);
		return false;
	}
	if (s->data.len || flags & (WIRE_TCP_FIN | WIRE_TCP_SYN))
		challenge_empty(p, f, s, DROP_TCP_OLD);
	return true;
}

/* The host connects, and the guest was told nothing yet. False: the flow is gone. */
static bool take_connecting(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	uint8_t flags = s->h.flags;

	if (flags & WIRE_TCP_RST && s->h.seq == t->rcv_nxt) {
		tcp_abort(p, f);
		return false;
	}
	if (!(flags & WIRE_TCP_SYN))
		env_drop(p->env, DROP_TCP_FLAGS);
	/* Its SYN again is no news. Another one is of a guest that forgot the first, and gets the answer (TCP-5). */
	else if (!(flags & (WIRE_TCP_RST | WIRE_TCP_ACK | WIRE_TCP_FIN)) && s->h.seq != t->irs)
		tcp_take_syn(p, f, &s->h);
	return true;
}

static bool take(struct proto *p, struct flow *f, const struct tcp_seg *s, struct gather *g)
{
	switch ((enum tcp_phase)tcp_of(f)->phase) {
	case TCP_PHASE_OPEN:
		return take_open(p, f, s, g);
	case TCP_PHASE_SYN_RCVD:
		return take_syn_rcvd(p, f, s, g);
	case TCP_PHASE_SYN_SENT:
		return take_syn_sent(p, f, s);
	case TCP_PHASE_QUIET:
		return take_quiet(p, f, s);
	case TCP_PHASE_CONNECTING:
		return take_connecting(p, f, s);
	case TCP_PHASE_NEW:
	case TCP_PHASE_CNT:
		break;
	}
	__builtin_trap();
}

void tcp_guest(struct proto *p, struct flow *f, const struct tcp_seg *seg, uint32_t first)
{
	struct flow_key key = f->key;
	struct gather g;

	g.cnt = 0;
	g.len = 0;
	g.fin = false;
	for (uint32_t i = first; i != FLOW_NONE; i = seg[i].next) {
		if (take(p, f, &seg[i], &g))
			continue;
		/* The flow ended inside its batch: the rest is for a new one, or for none */
		g.cnt = 0;
		g.len = 0;
		g.fin = false;
		while (i = seg[i].next, i != FLOW_NONE) {
			f = flow_find(p->flows, &key);
			if (f)
				break;
			tcp_guest_new(p, &key, &seg[i]);
		}
		if (i == FLOW_NONE)
			return;
		if (!take(p, f, &seg[i], &g))
			return;
	}
	if (!flush(p, f, &g))
		return;
	tcp_timer_heard(p, tcp_of(f));
	/* blocks may have been more than fitted that send; a socket that is full calls */
	if (tcp_of(f)->kept_head && !tcp_of(f)->armed && !tcp_pass_kept(p, f))
		return;
	tcp_settle(p, f);
}
