/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the host side says about the guest's datagrams: entries of error
 * queues become ICMP errors with the datagram quoted as the guest sent it
 * (UDP-30 to UDP-35). The flow survives them; a queue that can't be read ends
 * it. The other way round, a guest that refuses a datagram ends the flow, so that
 * the host refuses the next one.
 */
#include "udp_priv.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "wire/udp.h"

/* UDP header of the guest's datagram of LEN bytes; the checksum can be told only if all of it is known */
static void err_udp(uint8_t *p, const struct flow_key *k, const struct view *payload, uint32_t len)
{
	const struct wire_udp h = { .sport = k->guest_port, .dport = k->far_port };
	uint16_t csum = 0;

	wire_udp_emit(p, &h, len, 0);
	if (payload->len == len) {
		uint32_t sum = csum_pseudo(&k->guest, &k->far, WIRE_IP_UDP, WIRE_UDP_LEN + len);

		csum = csum_done(csum_add_view(csum_add(sum, p, WIRE_UDP_LEN), payload));
		csum = csum ? csum : 0xffff;
	}
	wire_udp_emit(p, &h, len, csum);
}

/* PAYLOAD: what is known of the datagram, LEN bytes long */
static void err_send(struct proto *p, struct flow *f, const struct proto_icmp *icmp, const struct view *payload,
		     uint32_t len)
{
	const struct udp_flow *u = udp_body(f);
	const struct flow_key *k = &f->key;
	uint8_t l4[WIRE_UDP_LEN + PROTO_QUOTE_MAX];
	const uint32_t known = view_copy(payload, l4 + WIRE_UDP_LEN, BYTES_MIN(payload->len, PROTO_QUOTE_MAX));
	const struct iovec iov = { l4, WIRE_UDP_LEN + known };
	const struct proto_quote q = {
		.src = k->guest, .dst = k->far, .proto = WIRE_IP_UDP,
		.ttl = u->ttl ? u->ttl : 64, .tos = u->tos, .df = u->df,
		.l4_len = WIRE_UDP_LEN + len, .l4 = view_of(&iov, WIRE_UDP_LEN + known),
	};

	err_udp(l4, k, payload, len);
	proto_icmp_error(p, icmp, &q);
}

static void err_relay(struct proto *p, struct flow *f, const struct sk_err *e, uint8_t *buf)
{
	const struct udp_flow *u = udp_body(f);
	const struct inaddr to = u->to.a;
	const struct iovec iov = { buf, e->len };
	const struct view v = view_of(&iov, e->len);
	const bool v4 = inaddr_is_v4(&f->key.far);
	struct proto_icmp icmp;

	if (udp_dns_refused(p, f, e))
		return;
	udp_body(f)->closed |= e->code == ECONNREFUSED;
	/* a resolver may be of the other family */
	if (inaddr_is_v4(&to) != v4 ? !proto_icmp_errno(p, e->code, v4, 0, &icmp) : !proto_icmp_relay(p, e, &to, &f->key.far, &icmp))
		return;
	if (!u->whole && proto_icmp_was_cut(e)) {
		proto_icmp_teach(p, &icmp, &f->key);
		return;
	}
	/* a router quotes only the beginning: the rest of the length is most likely that of the last datagram */
	err_send(p, f, &icmp, &v, BYTES_MAX(e->len, u->len));
}

/* Next entry; 0: none, positive: one, negative: the queue can't be read */
static int err_next(struct proto *p, int h, struct sk_err *ret)
{
	const int r = p->env->sk->ops->recv_err(p->env->sk, h, ret, p->scratch, PROTO_QUOTE_MAX);

	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		return r;
	ret->len = BYTES_MIN(ret->len, PROTO_QUOTE_MAX);
	return 1;
}

bool udp_err_flow(struct proto *p, struct flow *f, bool *ret_more)
{
	struct sk_err e;
	int r = 1, n;

	for (n = 0; n < UDP_ERR_MAX; n++) {
		r = err_next(p, f->h, &e);
		if (r <= 0)
			break;
		err_relay(p, f, &e, p->scratch);
	}
	*ret_more = r > 0;
	if (r < 0)
		return true;
	p->env->sk->ops->result(p->env->sk, f->h);	/* clears the error that the next call would return */
	return false;
}

bool udp_err_listener(struct proto *p, const struct udp_listener *l)
{
	struct flow_key key;
	struct sk_err e;
	int n;

	for (n = 0; n < UDP_ERR_MAX && err_next(p, l->h, &e) > 0; n++) {
		struct flow *f;

		if (udp_flow_host_key(p, l, &e.to, &key) < 0)
			continue;
		f = flow_find(p->flows, &key);
		if (f)
			err_relay(p, f, &e, p->scratch);
	}
	p->env->sk->ops->result(p->env->sk, l->h);
	return n == UDP_ERR_MAX;
}

void udp_err_refused(struct proto *p, struct flow *f, int code, const struct view *payload)
{
	struct proto_icmp icmp;

	if (udp_body(f)->open)		/* no error about what went to a group (RFC 1122 3.2.2) */
		return;
	if (proto_icmp_errno(p, code, inaddr_is_v4(&f->key.guest), 0, &icmp) && proto_icmp_allow(p))
		err_send(p, f, &icmp, payload, payload->len);
}

bool udp_told(struct proto *p, struct flow *f, const struct proto_told *told)
{
	struct udp_flow *u = udp_body(f);
	const uint32_t mtu = u->mtu ? u->mtu : p->env->l2->mtu;

	if (told->kind == PROTO_TOLD_TOO_BIG && told->mtu < mtu) {
		u->mtu = (uint16_t)told->mtu;
		return true;
	}
	/* a published port has other peers; without a socket of the flow's own, the host's kernel refuses what comes next */
	if (told->kind != PROTO_TOLD_REFUSED || u->by_host || f->h < 0)
		return false;
	udp_end(p, f);
	return true;
}
