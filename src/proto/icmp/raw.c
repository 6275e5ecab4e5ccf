/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ping without ping sockets: all flows of a family share the raw socket that
 * app opened while it had the right to, and differ by identifiers of a block
 * that the kernel filters for. Sends echo requests only, and believes no reply
 * but from where a flow's requests went.
 *
 * Invariant: r->flow[low byte of raw_id] is the flow's index + 1 exactly while
 * the flow has its place. RFC 792, RFC 4443 4.
 */
#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "ping_priv.h"

#define RAW_PORT4	1		/* to a raw socket, the port is the protocol */
#define RAW_PORT6	58

int ping_raw_open(struct proto *p, struct flow *f)
{
	struct ping_raw *r = p->ping_raw ? &p->ping_raw[fwd_family_of(&f->key.guest)] : NULL;
	struct ping_flow *g = ping_body(f);

	if (!r || r->h < 0)
		return -EACCES;
	for (unsigned i = 0; i < PING_RAW_IDS; i++) {
		const uint8_t low = r->next++;

		if (r->flow[low])
			continue;
		r->flow[low] = flow_idx(p->flows, f) + 1;
		g->raw = r;
		g->raw_id = (uint16_t)(r->high << 8 | low);
		return r->h;
	}
	return -EMFILE;
}

void ping_raw_close(struct ping_flow *g)
{
	g->raw->flow[g->raw_id & 0xff] = 0;
	g->raw = NULL;
}

void ping_raw_fill(const struct proto *p, const struct flow *f, struct sk_dgram *d, uint8_t *hdr, const struct view *data)
{
	const struct ping_flow *g = (const void *)f->body;
	const bool v4 = inaddr_is_v4(&f->key.guest);

	d->to_from = g->to;
	d->to_from.port = v4 ? RAW_PORT4 : RAW_PORT6;
	d->local.a = proto_host_from(p, &g->to);
	d->local.port = inaddr_is_unset(&d->local.a) ? 0 : d->to_from.port;
	bytes_put16(hdr + 4, g->raw_id);
	if (v4)				/* of ICMPv6 the kernel does it, with the address that it chooses */
		bytes_put16(hdr + 2, csum_done(csum_add_view(csum_add(0, hdr, WIRE_ICMP_LEN), data)));
}

/* The flow of an echo message with header HDR that went to, or came from, A */
static struct flow *raw_flow(const struct proto *p, const struct ping_raw *r, const uint8_t *hdr, const struct inaddr *a)
{
	const uint16_t id = bytes_get16(hdr + 4);
	const uint32_t idx = r->flow[id & 0xff];
	struct flow *f = idx ? &p->flows->tab[idx - 1] : NULL;

	return f && id == ping_body(f)->raw_id && inaddr_eq(a, &ping_body(f)->to.a) ? f : NULL;
}

/* Our own kernel's error quotes nothing: the flow that sent there last */
static struct flow *raw_flow_to(const struct proto *p, const struct ping_raw *r, const struct inaddr *to)
{
	struct flow *best = NULL;

	for (unsigned i = 0; i < PING_RAW_IDS; i++) {
		struct flow *f = r->flow[i] ? &p->flows->tab[r->flow[i] - 1] : NULL;

		if (f && inaddr_eq(to, &ping_body(f)->to.a) && (!best || ping_body(f)->last > ping_body(best)->last))
			best = f;
	}
	return best;
}

static void raw_errors(struct proto *p, struct ping_raw *r)
{
	struct sk *sk = p->env->sk;
	struct sk_err e;

	for (int n = 0; n < PING_ERR_MAX && !sk->ops->recv_err(sk, r->h, &e, p->scratch, PROTO_QUOTE_MAX); n++) {
		struct flow *f = e.len >= WIRE_ICMP_LEN ? raw_flow(p, r, p->scratch, &e.to.a) : raw_flow_to(p, r, &e.to.a);

		if (f)
			ping_relay(p, f, &e);
	}
	sk->ops->result(sk, r->h);	/* clears what the next call would return */
}

void ping_raw_host(struct proto *p, struct ping_raw *r, const struct ev_hit *hit)
{
	struct sk_dgram d[PING_SLOTS];
	int n = PING_SLOTS;

	if (hit->mask & (EV_ERR | EV_HUP))
		raw_errors(p, r);
	for (int round = 0; round < PING_ROUNDS && n == PING_SLOTS; round++) {
		n = ping_recv(p, r->h, d);
		for (int i = 0; i < n; i++) {
			struct flow *f = d[i].len >= WIRE_ICMP_LEN ? raw_flow(p, r, d[i].iov[0].iov_base, &d[i].to_from.a) : NULL;

			if (f)
				ping_answer(p, f, &d[i]);
			else
				env_drop(p->env, DROP_ICMP_FOREIGN);
		}
	}
}
