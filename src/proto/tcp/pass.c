/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What passes through besides bytes. From the guest: the DSCP of its packets
 * (RFC 2474) and its wish to notice a dead peer, as keep-alive probes (RFC 9293
 * 3.8.4). From the host: the DSCP with which a peer that connected to us began.
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
