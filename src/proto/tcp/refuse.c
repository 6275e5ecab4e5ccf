/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Why the host could not connect, told to the guest so that its application
 * sees the same errno, or the nearest that a network can say (TCP-24). Refused
 * is RST. Unreachable and prohibited are ICMP errors that quote the guest's SYN:
 * Linux ends a connect() at once by any of them (tcp_v4_err, tcp_v6_err), with
 * the errno of its tables icmp_err_convert and icmpv6_err_convert. IPv4 has no
 * code that becomes EACCES there: "prohibited" arrives as EHOSTUNREACH. Where
 * the SYN's TTL is that of a traceroute, the router that it reached is named. A
 * time-out is silence: the guest's own timer, as old as the host's, says it.
 *
 * Only connects come here: on an open connection such errors are soft to every
 * TCP (RFC 1122 4.2.3.9), and one that is fatal to the host's socket is a reset.
 *
 * RFC 9293 3.9.2.2, RFC 5927 4.1 (the quote carries the SYN's sequence number).
 */
#include "tcp_priv.h"

#include "base/csum.h"
#include "proto/icmp.h"

static void refuse_quote(struct proto *p, const struct flow_key *k, const struct tcp_seg *syn, const struct proto_icmp *icmp)
{
	const struct wire_tcp h = {
		.sport = k->guest_port, .dport = k->far_port, .seq = syn->h.seq, .wnd = syn->h.wnd, .flags = WIRE_TCP_SYN,
	};
	uint8_t l4[WIRE_TCP_LEN];
	const struct iovec iov = { l4, sizeof(l4) };
	const struct proto_quote q = {
		.src = k->guest, .dst = k->far, .proto = WIRE_IP_TCP, .ttl = syn->ttl ? syn->ttl : 64, .tos = syn->tos, .df = true,
		.l4_len = sizeof(l4), .l4 = view_of(&iov, sizeof(l4)),
	};

	wire_tcp_emit(l4, &h, 0);
	wire_tcp_emit(l4, &h, csum_done(csum_add(csum_pseudo(&k->guest, &k->far, WIRE_IP_TCP, sizeof(l4)), l4, sizeof(l4))));
	proto_icmp_error(p, icmp, &q);
}

bool tcp_refuse(struct proto *p, const struct flow_key *k, const struct tcp_seg *syn, int err)
{
	struct proto_icmp icmp;
	int code = -err;

	if (code == ETIMEDOUT)
		return true;
	if (code == EINVAL)		/* what a blackhole route says: fail as fast as on the host */
		code = ENETUNREACH;
	if (code == ECONNREFUSED || !proto_icmp_errno(p, code, inaddr_is_v4(&k->guest), 0, &icmp) || !proto_icmp_allow(p))
		return false;
	refuse_quote(p, k, syn, &icmp);
	return true;
}

/* The error of the router where the guest's probe ended, as it came; false: there is none */
static bool refuse_by_hop(struct proto *p, const struct flow *f, const struct tcp_seg *syn)
{
	const struct sk_addr to = proto_host_addr(p, &f->key.far, f->key.far_port);
	struct proto_icmp icmp;
	struct sk_err e;
	uint8_t quote[1];

	if (!tcp_is_probe(syn->ttl) || p->env->sk->ops->recv_err(p->env->sk, f->h, &e, quote, sizeof(quote)) < 0 ||
	    e.local || !proto_icmp_relay(p, &e, &to.a, &f->key.far, &icmp))
		return false;
	refuse_quote(p, &f->key, syn, &icmp);
	return true;
}

void tcp_connect_failed(struct proto *p, struct flow *f, int err)
{
	const struct tcp *t = tcp_of(f);
	const struct tcp_seg syn = { .h = { .seq = t->irs, .wnd = (uint16_t)t->wnd }, .tos = t->tos_guest, .ttl = t->ttl_guest };

	trace_add(p->env->tr, p->env->now, "tcp connect failed", flow_idx(p->flows, f), (uint32_t)-err, 0);
	if (refuse_by_hop(p, f, &syn) || tcp_refuse(p, &f->key, &syn, err))
		tcp_abort(p, f);
	else
		tcp_reset(p, f);
}
