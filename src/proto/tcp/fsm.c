/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Phases of a TCP flow: one writer, tcp_phase_set(), and a table of what may
 * follow what. The finer states of RFC 9293 3.3.2 (FIN-WAIT, CLOSE-WAIT ...) are
 * TCP_PHASE_OPEN with the half-close flags, each of which is set once.
 */
#include "tcp_priv.h"

#define BIT(n) (1u << (n))

static const uint8_t tcp_next[TCP_PHASE_CNT] = {
	[TCP_PHASE_NEW]		= BIT(TCP_PHASE_CONNECTING) | BIT(TCP_PHASE_SYN_SENT),
	[TCP_PHASE_CONNECTING]	= BIT(TCP_PHASE_SYN_RCVD),
	[TCP_PHASE_SYN_RCVD]	= BIT(TCP_PHASE_OPEN),
	[TCP_PHASE_SYN_SENT]	= BIT(TCP_PHASE_OPEN) | BIT(TCP_PHASE_SYN_RCVD),
	[TCP_PHASE_OPEN]	= BIT(TCP_PHASE_QUIET),
	[TCP_PHASE_QUIET]	= 0,
};

bool tcp_phase_legal(enum tcp_phase from, enum tcp_phase to)
{
	return tcp_next[from] & BIT(to);
}

void tcp_phase_set(struct proto *p, struct flow *f, enum tcp_phase to)
{
	struct tcp *t = tcp_of(f);

	if (!tcp_phase_legal((enum tcp_phase)t->phase, to))
		__builtin_trap();
	(t->phase == TCP_PHASE_NEW ? trace_open : trace_add)(p->env->tr, p->env->now, "tcp phase", flow_idx(p->flows, f), t->phase, to);
	t->phase = to;
	if (to != TCP_PHASE_SYN_SENT)
		tcp_half_open_end(p, t);
}
