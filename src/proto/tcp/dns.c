/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connections to the forwarding address, where it stands for several
 * resolvers: the next one is tried when a connect is refused or takes longer
 * than a second. The guest has not been answered by then, so it sees one
 * handshake. The last one has all the time that its kernel gives it.
 *
 * An open connection stays where it is.
 */
#include "tcp_priv.h"

#define DNS_PATIENCE	NS_S		/* a SYN that was lost would be sent again then */
#define DNS_DOUBT	(200 * NS_MS)	/* ... with a server that failed the last time */

int tcp_dns_open(struct proto *p, struct flow *f)
{
	struct proto_dns *d = &tcp_of(f)->dns;
	struct sk_addr to;
	int h = -ENOENT;

	while (h < 0 && h != -EMFILE && h != -ENFILE && proto_dns_next(p, &f->key, d, &to)) {
		h = tcp_connect(p, f, &to);
		if (h < 0 && h != -EMFILE && h != -ENFILE)
			proto_dns_failed(p, &f->key, d);
	}
	return h;
}

void tcp_dns_wait(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	t->rto_at = NS_NEVER;
	if (!t->dns.on || !proto_dns_more(p, &f->key, &t->dns))
		return;
	t->rto_at = p->env->now + (proto_dns_doubted(p, &f->key, &t->dns) ? DNS_DOUBT : DNS_PATIENCE);
	tcp_timer_sync(p, f);
}

bool tcp_dns_next(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	int h;

	t->rto_at = NS_NEVER;
	if (!t->dns.on)
		return false;
	proto_dns_failed(p, &f->key, &t->dns);
	h = tcp_dns_open(p, f);
	if (h < 0)
		return false;
	trace_add(p->env->tr, p->env->now, "tcp next resolver", flow_idx(p->flows, f), t->dns.server, 0);
	p->env->sk->ops->close(p->env->sk, f->h, SK_END_RESET);
	f->h = h;
	tcp_dns_wait(p, f);
	return true;
}

void tcp_dns_connected(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	t->rto_at = NS_NEVER;
	proto_dns_answered(p, &f->key, &t->dns);
}
