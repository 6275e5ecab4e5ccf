/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What passes through besides bytes. From the guest: the DSCP of its packets
 * (RFC 2474) and its wish to notice a dead peer, as keep-alive probes (RFC 9293
 * 3.8.4). From the host: the DSCP with which a peer that connected to us began.
 * Both ways: the mark of urgent data (RFC 9293 3.8.5), which stays in its place
 * among the bytes (TCP-49).
 *
 * The kernel marks the last byte of what it took with MSG_OOB, so the urgent one
 * is sent alone: what is before it first. It tells of a mark only when it is at
 * the head of the receive queue, so while one waits we send up to it, wait until
 * the guest has all of that, and look. A pointer that is ahead of its byte does
 * not pass: the other side learns of the mark with the byte.
 *
 * What does not pass, as the kernel tells a socket nothing of it: a later change
 * of the peer's DSCP, and that of a peer that the guest connected to. The ECN
 * field belongs to each TCP's own congestion control and stays with it (the
 * kernel masks it in IP_TOS). Keep-alive probes of the peer are answered by the
 * host's kernel. Ours to the guest are another matter: timer.c.
 */
#include "tcp_priv.h"

#define PASS_IDLE_MAX	32767		/* seconds; what TCP_KEEPIDLE takes */

void tcp_pass_class(struct proto *p, struct flow *f, uint8_t tos)
{
	struct tcp *t = tcp_of(f);

	tos &= TCP_DSCP_MASK;
	if (tos == t->tos_guest)
		return;
	t->tos_guest = tos;
	p->env->sk->ops->set(p->env->sk, f->h, SK_OPT_CLASS, tos);	/* a kernel that refuses changes nothing */
}

void tcp_pass_keep_alive(struct proto *p, struct flow *f, const struct tcp_seg *s)
{
	struct tcp *t = tcp_of(f);
	const ns_t quiet = p->env->now - BYTES_MAX(t->keep_at, t->guest_data_at);
	const bool again = t->keep_alive && t->keep_at >= t->guest_data_at;
	uint16_t idle_s = 0;

	/* at a closed window this is a probe of the window */
	if (s->h.seq != t->rcv_nxt - 1 || s->data.len > 1 || s->h.flags & (WIRE_TCP_FIN | WIRE_TCP_SYN | WIRE_TCP_RST) ||
	    t->rcv_edge == t->rcv_nxt)
		return;
	/* each was answered, so they are as far apart as the guest is patient */
	if (again && quiet >= NS_S)
		idle_s = (uint16_t)BYTES_MIN(quiet / NS_S, PASS_IDLE_MAX);
	t->keep_at = p->env->now;
	if (t->keep_alive && (!idle_s || (t->keep_idle_s && idle_s >= t->keep_idle_s)))
		return;
	t->keep_alive = true;
	t->keep_idle_s = idle_s;
	p->env->sk->ops->set(p->env->sk, f->h, SK_OPT_KEEP_ALIVE, idle_s);
}

void tcp_mark_take(struct tcp *t, const struct tcp_seg *s)
{
	uint32_t at = s->h.seq + s->h.urg - 1;

	if (!(s->h.flags & WIRE_TCP_URG) || !s->h.urg || seqno_lt(at, t->rcv_nxt) || (t->guest_mark && seqno_le(at, t->guest_mark_seq)))
		return;
	t->guest_mark = true;
	t->guest_mark_seq = at;
}

uint32_t tcp_mark_cut(const struct tcp *t, uint32_t len, bool *ret)
{
	uint32_t before = t->guest_mark_seq - t->rcv_nxt;

	*ret = t->guest_mark && len && !before;
	if (*ret)
		return 1;
	return t->guest_mark && before < len ? before : len;
}

bool tcp_mark_look(struct proto *p, struct flow *f, bool *ret_wait)
{
	struct tcp *t = tcp_of(f);

	*ret_wait = t->una != t->max;
	if (*ret_wait)
		return true;
	if (!tcp_discard(p, f, true))
		return false;
	switch (p->env->sk->ops->mark(p->env->sk, f->h)) {
	case SK_MARK_HERE:
		t->host_mark = true;
		t->host_mark_seq = t->nxt;
		t->host_urgent = false;
		break;
	case SK_MARK_AHEAD:
		break;
	case SK_MARK_NONE:		/* the event was of one that has gone by */
		t->host_urgent = false;
		break;
	}
	return true;
}
