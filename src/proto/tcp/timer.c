/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Deadlines of a TCP flow: retransmission or window probe, a delayed ACK, and
 * the probe of a silent guest, independent of each other (TCP-58, W-33). They
 * share the flow's one timer, which is moved only to an earlier time; when it
 * fires too early it is set anew. So a segment costs no timer operation in the
 * usual case.
 * The guest is probed as the host's kernel would (RFC 9293 3.8.4): after two
 * hours, so that idle connections cost nothing, a guest that was suspended for a
 * while keeps them, and one that was restarted loses them in the end (TCP-80).
 * RTO as RFC 6298, with Karn's rule: a retransmitted range gives no sample.
 */
#include "tcp_priv.h"

ns_t tcp_rto(const struct tcp *t)
{
	ns_t rto = t->rto;

	for (int i = 0; i < t->backoff && rto < TCP_RTO_MAX; i++)
		rto *= 2;
	return BYTES_MIN(rto, TCP_RTO_MAX);
}

/* Whether silence is first answered by a probe of the tail, or of the holes in a repair: its answer tells of losses that
 * nothing else would show before the RTO (RFC 8985 7.2). A single segment may rest with the guest for a delayed ACK, one that
 * fills a hole may not (RFC 5681 4.2).
 */
static bool may_probe(const struct tcp *t, uint32_t end_seq)
{
	if (!t->sack_on || t->probed || !t->wnd)
		return false;
	return t->recovering ? t->sacked_cnt : end_seq - t->una > t->mss;
}

static ns_t first_wait(const struct tcp *t, uint32_t end_seq)
{
	return may_probe(t, end_seq) ? BYTES_MIN(2 * t->srtt + TCP_PTO_MIN, tcp_rto(t)) : tcp_rto(t);
}

void tcp_timer_data_sent(struct proto *p, struct tcp *t, uint32_t end_seq, bool again)
{
	if (again) {
		t->rtt_timing = false;
	} else if (!t->rtt_timing) {
		t->rtt_timing = true;
		t->rtt_seq = end_seq;
		t->rtt_at = p->env->now;
	}
	if (again)
		t->rto_at = p->env->now + first_wait(t, end_seq);
	else if (t->rto_at == NS_NEVER || may_probe(t, end_seq))	/* what began with too little for a probe may get one now */
		t->rto_at = BYTES_MIN(t->rto_at, p->env->now + first_wait(t, end_seq));
}

void tcp_timer_first(struct tcp *t)
{
	/* a probe's deadline, and how often it was doubled, say nothing about data */
	t->backoff = 0;
	t->rto_at = NS_NEVER;
}

static void rtt_sample(struct tcp *t, ns_t rtt)
{
	ns_t err;

	if (!t->srtt) {
		t->srtt = BYTES_MAX(rtt, 1);
		t->rttvar = rtt / 2;
	} else {
		err = t->srtt > rtt ? t->srtt - rtt : rtt - t->srtt;
		t->rttvar += (err - t->rttvar) / 4;
		t->srtt += (rtt - t->srtt) / 8;
	}
	t->rto = BYTES_MIN(BYTES_MAX(t->srtt + 4 * t->rttvar, TCP_RTO_MIN), TCP_RTO_MAX);
}

void tcp_timer_acked(struct proto *p, struct tcp *t)
{
	if (t->rtt_timing && seqno_ge(t->una, t->rtt_seq)) {
		t->rtt_timing = false;
		rtt_sample(t, p->env->now - t->rtt_at);
	}
	t->backoff = 0;
	t->probed = false;
	t->rto_at = t->una == t->max ? NS_NEVER : p->env->now + first_wait(t, t->max);
}

void tcp_timer_echo(struct proto *p, struct tcp *t, uint32_t ts_ecr)
{
	uint32_t age_ms = tcp_ts_now(p, t) - ts_ecr;

	/* where our own clocking was spoilt by a retransmission; not older than any RTO */
	if (!t->rtt_timing && ts_ecr && age_ms < TCP_RTO_MAX / NS_MS)
		rtt_sample(t, age_ms * NS_MS);
}

void tcp_timer_blocked(struct proto *p, struct tcp *t)
{
	if (t->rto_at == NS_NEVER)
		t->rto_at = p->env->now + tcp_rto(t);
}

void tcp_timer_ack_sent(struct tcp *t)
{
	t->ack_due = t->ack_now = t->ack_alone = t->twice_due = false;
	t->ack_at = NS_NEVER;
	t->rcv_acked = t->rcv_nxt;
}

void tcp_timer_heard(struct proto *p, struct tcp *t)
{
	t->idle_at = p->env->now + p->tcp->keep_time;
	t->idle_probes = 0;
}

void tcp_timer_sync(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	ns_t at = BYTES_MIN(BYTES_MIN(t->rto_at, t->ack_at), BYTES_MIN(t->drop_at, t->push_at));

	if (t->phase == TCP_PHASE_OPEN)
		at = BYTES_MIN(at, t->idle_at);
	if (at == NS_NEVER)
		return;
	if (!twheel_armed(&f->timer) || f->timer.due_tick * (uint64_t)TWHEEL_TICK > (uint64_t)(at + TWHEEL_TICK))
		twheel_arm(p->env->tw, &f->timer, at);
}

/* Nothing was heard of the guest for too long */
static bool give_up(struct proto *p, struct flow *f, int limit)
{
	if (++tcp_of(f)->retries <= limit)
		return false;
	tcp_reset(p, f);
	return true;
}

static bool rto_expired(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	bool syn = t->phase == TCP_PHASE_SYN_RCVD || t->phase == TCP_PHASE_SYN_SENT;

	trace_add(p->env->tr, p->env->now, "tcp rto", flow_idx(p->flows, f), t->una, t->max);
	if (t->phase == TCP_PHASE_QUIET) {
		proto_flow_free(p, f);
		return false;
	}
	if (t->phase == TCP_PHASE_CONNECTING) {
		tcp_dns_next(p, f);	/* the last one may take its time */
		return true;
	}
	if (!syn && t->una == t->max && !t->host_more) {
		/* the link had no room when the socket was to be looked at, and the socket turned out to be empty */
		t->rto_at = NS_NEVER;
		t->backoff = 0;
		return true;
	}
	if (!syn && may_probe(t, t->max) && t->una != t->max) {
		t->rto_at = p->env->now + tcp_rto(t);
		return tcp_probe_tail(p, f);
	}
	if (give_up(p, f, syn ? tcp_syn_limit(p, t) : TCP_RETRIES))
		return false;
	if (t->backoff < 16)
		t->backoff++;
	t->rto_at = p->env->now + tcp_rto(t);
	t->rtt_timing = false;
	if (syn) {
		t->rto = TCP_RTO_SYN_RETRIED;
		t->rto_at = p->env->now + tcp_syn_wait(p, t);
		tcp_emit_syn(p, f);
		return true;
	}
	if (t->una == t->max) {
		/* Window probe (RFC 9293 3.8.6.1): an old sequence makes the guest say its window, at any size of it */
		tcp_emit(p, f, WIRE_TCP_ACK, t->una - 1);
		return true;
	}
	/* the guest may have given up what it reported (RFC 2018 8) */
	t->sacked_cnt = 0;
	t->dupacks = 0;
	tcp_cap_cut(t);
	tcp_recover(p, t, true);
	return tcp_rexmit(p, f, t->mss);
}

/* A guest that was silent for long: is it still there, and does it know of this (TCP-80)? False: the flow is gone. */
static bool idle_expired(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->idle_probes == p->tcp->keep_probes) {
		tcp_emit(p, f, WIRE_TCP_RST | WIRE_TCP_ACK, t->max);
		tcp_guest_reset(p, f);
		return false;
	}
	t->idle_probes++;
	t->idle_at = p->env->now + p->tcp->keep_interval;
	tcp_emit(p, f, WIRE_TCP_ACK, t->una - 1);
	return true;
}

void tcp_timer(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	if (t->ack_at <= p->env->now) {
		t->ack_at = NS_NEVER;
		t->delay_acks = false;	/* the reply was not soon enough to wait for */
		t->ack_now = t->ack_due;
	}
	if (t->push_at <= p->env->now)
		t->push_at = NS_NEVER;	/* host_more is still set: settling pushes */
	if (t->drop_at <= p->env->now && !tcp_discard(p, f, true))
		return;
	if (t->rto_at <= p->env->now) {
		t->rto_at = NS_NEVER;
		if (!rto_expired(p, f))
			return;
	}
	if (t->phase == TCP_PHASE_OPEN && t->idle_at <= p->env->now && !idle_expired(p, f))
		return;
	tcp_settle(p, f);
}
