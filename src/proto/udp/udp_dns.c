/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries to the forwarding address, where it stands for several resolvers.
 * The guest knows one address and waits for seconds before it asks that again;
 * so a copy of what it asked goes to the next resolver when one refuses, has
 * no answer (SERVFAIL, NOTIMP, REFUSED: as resolver libraries do), or is silent
 * for a second. A silent one may still answer: its socket stays open until the
 * next change.
 *
 * Of a message it reads the identifier and the response code, nothing else
 * (RFC 1035 4.1.1). What has no place to be kept is the guest's to repeat; the
 * repetition finds the next resolver. Port 853 carries connections (RFC 9250):
 * they stay with their server.
 */
#include "udp_priv.h"

#include <errno.h>

#include "base/bytes.h"

#define DNS_PATIENCE	NS_S
#define DNS_DOUBT	(200 * NS_MS)	/* ... with a server that was silent the last time */
#define DNS_HDR_LEN	12		/* RFC 1035 4.1.1 */
#define DNS_ID_LEN	2
#define DNS_REC_LEN	2		/* length in front of each message kept */
#define DNS_RESEND	(UDP_DNS_KEPT / (DNS_REC_LEN + DNS_HDR_LEN))

enum { DNS_SERVFAIL = 2, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

static bool dns_full(int err)
{
	return err == -EMFILE || err == -ENFILE;
}

/* A socket to the next server that has a way: its handle; -ENOENT: there is none */
static int dns_next(struct proto *p, struct flow *f)
{
	struct udp_flow *u = udp_body(f);
	struct sk_addr to;
	int h = -ENOENT;

	while (h < 0 && !dns_full(h) && proto_dns_next(p, &f->key, &u->dns.way, &to)) {
		h = udp_flow_open(p, f, &to);
		if (h >= 0 || !u->to.port)
			u->to = to;
		if (h < 0 && !dns_full(h))
			proto_dns_failed(p, &f->key, &u->dns.way);
	}
	return h;
}

int udp_dns_open(struct proto *p, struct flow *f)
{
	udp_body(f)->dns.again_at = NS_NEVER;
	return dns_next(p, f);
}

static void dns_old_close(struct proto *p, struct udp_dns *d)
{
	if (d->old)
		p->env->sk->ops->close(p->env->sk, d->old_h, SK_END_GRACEFUL);
	d->old = false;
}

void udp_dns_close(struct proto *p, struct flow *f)
{
	dns_old_close(p, &udp_body(f)->dns);
}

/* The message at *OFF among those kept, and its length; NULL: no more */
static const uint8_t *dns_rec(const struct udp_dns *d, uint32_t *off, uint32_t *ret_len)
{
	const uint8_t *rec = d->kept + *off;

	if (*off >= d->kept_len)
		return NULL;
	*ret_len = (uint32_t)rec[0] << 8 | rec[1];
	*off += DNS_REC_LEN + *ret_len;
	return rec + DNS_REC_LEN;
}

/* Forget the message with the identifier at ID */
static void dns_forget(struct udp_dns *d, const uint8_t *id)
{
	uint32_t off = 0, from = 0, len;
	const uint8_t *m;

	while ((m = dns_rec(d, &off, &len))) {
		if (!memcmp(m, id, DNS_ID_LEN)) {
			memmove(d->kept + from, d->kept + off, d->kept_len - off);
			d->kept_len = (uint16_t)(d->kept_len - (off - from));
			return;
		}
		from = off;
	}
}

static bool dns_has(const struct udp_dns *d, const uint8_t *id)
{
	uint32_t off = 0, len;
	const uint8_t *m;

	while ((m = dns_rec(d, &off, &len)))
		if (!memcmp(m, id, DNS_ID_LEN))
			return true;
	return false;
}

static void dns_keep(struct udp_dns *d, const struct view *v)
{
	uint8_t *rec = d->kept + d->kept_len;

	if (v->len < DNS_HDR_LEN || d->kept_len + DNS_REC_LEN + v->len > UDP_DNS_KEPT) {
		d->unkept = true;
		return;
	}
	rec[0] = (uint8_t)(v->len >> 8);
	rec[1] = (uint8_t)v->len;
	view_copy(v, rec + DNS_REC_LEN, v->len);
	d->kept_len = (uint16_t)(d->kept_len + DNS_REC_LEN + v->len);
}

/* All that is kept, to the present server */
static void dns_resend(struct proto *p, struct flow *f)
{
	const struct udp_flow *u = udp_body(f);
	struct sk_dgram d[DNS_RESEND];
	uint32_t off = 0, len;
	const uint8_t *m;
	int n = 0, r;

	memset(d, 0, sizeof(d));
	while (n < (int)DNS_RESEND && (m = dns_rec(&u->dns, &off, &len)))
		d[n++] = (struct sk_dgram){
			.iov = { { (void *)m, len } }, .iov_cnt = 1, .len = len, .ttl = u->ttl ? u->ttl : 1, .tos = u->tos,
		};
	r = n ? p->env->sk->ops->send_dgrams(p->env->sk, f->h, d, n) : 0;
	p->env->drops->cnt[DROP_UDP_SEND] += (uint64_t)(n - BYTES_MAX(r, 0));
}

static void dns_arm(struct proto *p, struct flow *f)
{
	struct udp_dns *d = &udp_body(f)->dns;

	d->again_at = NS_NEVER;
	if (d->kept_len || d->unkept)
		d->again_at = p->env->now + (proto_dns_doubted(p, &f->key, &d->way) ? DNS_DOUBT : DNS_PATIENCE);
	udp_flow_arm(p, f);
}

/* To the next server, with what is unanswered; WAIT: the present one may still answer. False: there is no other. */
static bool dns_switch(struct proto *p, struct flow *f, bool wait)
{
	struct udp_flow *u = udp_body(f);
	struct udp_dns *d = &u->dns;
	const struct proto_dns was = d->way;
	const struct sk_addr to = u->to;
	int h;

	d->again_at = NS_NEVER;
	if (!proto_dns_stale(p, &f->key, &d->way) && !proto_dns_more(p, &f->key, &d->way))
		return false;
	dns_old_close(p, d);		/* its descriptor may be the last one */
	h = dns_next(p, f);
	if (h < 0) {
		d->way.server = was.server;
		return false;
	}
	trace_add(p->env->tr, p->env->now, "udp: next resolver", flow_idx(p->flows, f), was.server, d->way.server);
	d->old = wait;
	if (wait) {
		d->old_h = f->h;
		d->old_to = to;
		d->old_way = was;
	} else if (f->h >= 0) {
		p->env->sk->ops->close(p->env->sk, f->h, SK_END_GRACEFUL);
	}
	f->h = h;
	d->heard = false;
	dns_resend(p, f);
	dns_arm(p, f);
	return true;
}

void udp_dns_query(struct proto *p, struct flow *f, const struct view *v)
{
	struct udp_dns *d = &udp_body(f)->dns;
	const bool idle = !d->kept_len && !d->unkept;
	uint8_t id[DNS_ID_LEN];

	if (f->key.far_port != PROTO_DNS_PORT)
		return;
	if (view_copy(v, id, DNS_ID_LEN) == DNS_ID_LEN)
		dns_forget(d, id);	/* the guest repeats it */
	if (proto_dns_stale(p, &f->key, &d->way)) {
		dns_switch(p, f, true);
	} else if (!idle && d->again_at == NS_NEVER) {	/* nobody answered: from the beginning */
		d->way.asked = 0;
		dns_switch(p, f, true);
	} else if (idle) {
		d->way.asked = (uint8_t)(1u << d->way.server);
		d->heard = false;
	}
	if (!proto_dns_more(p, &f->key, &d->way) && idle)
		return;			/* the only one */
	dns_keep(d, v);
	if (d->again_at == NS_NEVER)
		dns_arm(p, f);
}

void udp_dns_due(struct proto *p, struct flow *f)
{
	struct udp_dns *d = &udp_body(f)->dns;

	if (!d->way.on || d->again_at > p->env->now)
		return;
	if (!d->heard)
		proto_dns_failed(p, &f->key, &d->way);
	dns_switch(p, f, true);
}

/* The server says that it can't answer an open query */
static bool dns_no_answer(const struct udp_dns *d, const uint8_t *m, uint32_t len)
{
	if (len < DNS_HDR_LEN || !(m[2] & 0x80) || !dns_has(d, m))
		return false;
	return (m[3] & 15) == DNS_SERVFAIL || (m[3] & 15) == DNS_NOTIMP || (m[3] & 15) == DNS_REFUSED;
}

bool udp_dns_answer(struct proto *p, struct flow *f, bool old, const struct sk_dgram *a)
{
	struct udp_dns *d = &udp_body(f)->dns;
	const uint32_t seg = a->seg ? a->seg : a->len;
	const uint8_t *m = a->iov[0].iov_base;

	proto_dns_answered(p, &f->key, old ? &d->old_way : &d->way);
	d->heard |= !old;
	if (f->key.far_port != PROTO_DNS_PORT)
		return true;
	if (!a->seg && dns_no_answer(d, m, a->len) && (old || dns_switch(p, f, true))) {
		env_drop(p->env, DROP_DNS_NEXT);
		return false;
	}
	d->unkept = false;
	for (uint32_t off = 0; off + DNS_ID_LEN <= a->len; off += seg)
		dns_forget(d, m + off);
	if (!d->kept_len)
		d->again_at = NS_NEVER;
	return true;
}

bool udp_dns_refused(struct proto *p, struct flow *f, const struct sk_err *e)
{
	struct udp_dns *d = &udp_body(f)->dns;
	const bool v4 = inaddr_is_v4(&udp_body(f)->to.a), all = d->kept_len && !d->unkept;

	if (!d->way.on || e->code == EMSGSIZE || (!e->local && e->icmp_type != (v4 ? WIRE_ICMP4_UNREACH : WIRE_ICMP6_UNREACH)))
		return false;
	proto_dns_failed(p, &f->key, &d->way);
	return dns_switch(p, f, false) && all;
}
