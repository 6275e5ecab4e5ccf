/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handshakes with the guest that are under way: when a SYN or SYN,ACK is sent
 * again, and how many connections of a published port wait for the guest.
 *
 * The peer of such a connection is connected before the guest has answered: its
 * kernel talked to ours, which completes handshakes before accept() can tell of
 * them. Linux has no way for an ordinary program to hold a SYN back:
 * TCP_DEFER_ACCEPT only waits for data on top of it, and what could decide about
 * a SYN (netfilter queues, TPROXY, BPF) needs rights over the host's network. So
 * the guest's refusal reaches the peer as a reset, at once.
 *
 * The schedule is that of the host's own kernel: the guest sees what it would
 * see without us (TCP-34). RFC 9293 3.8.1, RFC 6298 5.
 */
#include "tcp_priv.h"

#define SYN_LIMIT_MAX	250		/* what the counter of retries has room for */

int tcp_syn_limit(const struct proto *p, const struct tcp *t)
{
	const struct tcp_settings *s = p->tcp;

	if (t->phase != TCP_PHASE_SYN_SENT)
		return BYTES_MIN(s->synack_retries, SYN_LIMIT_MAX);
	return BYTES_MIN(s->syn_retries + s->syn_linear, SYN_LIMIT_MAX);	/* as tcp_write_timeout() */
}

ns_t tcp_syn_wait(const struct proto *p, const struct tcp *t)
{
	const int linear = t->phase == TCP_PHASE_SYN_SENT ? p->tcp->syn_linear : 0;
	ns_t wait = TCP_RTO_INIT;

	for (int i = linear; i < t->retries && wait < p->tcp->rto_max; i++)
		wait *= 2;
	return BYTES_MIN(wait, p->tcp->rto_max);
}

void tcp_half_open_begin(struct proto *p, struct tcp *t, uint32_t listener)
{
	t->listener = listener;
	if (p->half_open)
		p->half_open[listener]++;
}

void tcp_half_open_end(struct proto *p, struct tcp *t)
{
	if (t->listener == FLOW_NONE)
		return;
	if (p->half_open)
		p->half_open[t->listener]--;
	t->listener = FLOW_NONE;
	p->flow_gone = true;		/* the listener may have paused for it */
}
