/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries to the forwarding address, where it stands for several resolvers.
 * The guest knows one address and waits for seconds before it asks that again;
 * so a copy of what it asked goes to the next resolver when one refuses, has
 * no answer (SERVFAIL, NOTIMP, REFUSED: as resolver libraries do), or is silent
 * for a second. A silent one may still answer: its socket stays open until the
 * next change.
 *
 * What a resolver said that had no answer is kept: the guest gets it if nobody
 * knows better, once all have been silent, and in any case before a resolver
 * library gives up.
 *
 * Of a message it reads the identifier, the response code and, to shorten it,
 * where the question ends (RFC 1035 4.1), nothing else. What has no place to be
 * kept is the guest's to repeat; the repetition finds the next resolver. Port
 * 853 carries connections (RFC 9250): they stay with their server.
 */
#include "udp_priv.h"

#include <errno.h>

#include "base/bytes.h"

#define DNS_PATIENCE	NS_S
#define DNS_DOUBT	(200 * NS_MS)	/* ... with a server that was silent the last time */
#define DNS_LIMIT_MS	4000u		/* resolver libraries wait for 5 s */
#define DNS_HDR_LEN	12		/* RFC 1035 4.1.1 */
#define DNS_ID_LEN	2
#define DNS_LABEL_MAX	63		/* RFC 1035 2.3.4; what is more is a pointer, or nothing at all */
#define DNS_TYPE_LEN	4		/* type and class, behind the name of a question */
#define DNS_REC_LEN	(uint32_t)sizeof(struct dns_head)
#define DNS_RESEND	(UDP_DNS_KEPT / (sizeof(struct dns_head) + DNS_HDR_LEN))

enum { DNS_SERVFAIL = 2, DNS_NOTIMP = 4, DNS_REFUSED = 5 };

struct dns_head {			/* in front of each message kept */
	uint32_t asked_ms;		/* when the guest asked */
	uint16_t len;
	uint16_t none;			/* what a server said that has no answer, behind the query that it was asked */
};

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

/* The message at *OFF among those kept, and its head; NULL: no more */
static uint8_t *dns_rec(struct udp_dns *d, uint32_t *off, struct dns_head *ret)
{
	uint8_t *rec = d->kept + *off;

	if (*off >= d->kept_len)
		return NULL;
	memcpy(ret, rec, DNS_REC_LEN);
	*off += DNS_REC_LEN + ret->len;
	return rec + DNS_REC_LEN;
}

/* That with the identifier at ID, and its head; NULL: there is none */
static uint8_t *dns_find(struct udp_dns *d, const uint8_t *id, bool none, struct dns_head *ret)
{
	uint32_t off = 0;
	uint8_t *m;

	while ((m = dns_rec(d, &off, ret)))
		if (!ret->none == !none && !memcmp(m, id, DNS_ID_LEN))
			return m;
	return NULL;
}

/* Forget the query with the identifier at ID, and what was said to it */
static void dns_forget(struct udp_dns *d, const uint8_t *id)
{
	uint32_t off = 0, from = 0;
	struct dns_head h;
	const uint8_t *m;

	while ((m = dns_rec(d, &off, &h))) {
		if (!memcmp(m, id, DNS_ID_LEN)) {
			memmove(d->kept + from, d->kept + off, d->kept_len - off);
			d->kept_len = (uint16_t)(d->kept_len - (off - from));
			off = from;
		}
		from = off;
	}
}

/* Where to write a message with head H; NULL: no place */
static uint8_t *dns_place(struct udp_dns *d, const struct dns_head *h)
{
	uint8_t *rec = d->kept + d->kept_len;

	if (d->kept_len + DNS_REC_LEN + h->len > UDP_DNS_KEPT)
		return NULL;
	memcpy(rec, h, DNS_REC_LEN);
	d->kept_len = (uint16_t)(d->kept_len + DNS_REC_LEN + h->len);
	return rec + DNS_REC_LEN;
}

static uint32_t dns_now_ms(const struct proto *p)
{
	return (uint32_t)(p->env->now / NS_MS);
}

/* The guest asks: once more, then nothing of what is known is lost, but it waits anew if it was too late for that */
static void dns_keep(struct proto *p, struct udp_dns *d, const struct view *v)
{
	struct dns_head h, new = { .asked_ms = dns_now_ms(p), .len = (uint16_t)v->len };
	uint8_t m[UDP_DNS_KEPT], *at = NULL;

	if (v->len >= DNS_HDR_LEN) {
		const uint32_t len = view_copy(v, m, UDP_DNS_KEPT);

		at = dns_find(d, m, false, &h);
		if (at && h.len == v->len && !memcmp(at, m, len) && new.asked_ms - h.asked_ms < DNS_LIMIT_MS)
			return;
		dns_forget(d, m);
		at = dns_place(d, &new);
	}
	if (at)
		view_copy(v, at, v->len);
	else
		d->unkept = true;
}

/* Bytes of a header and the one question behind it; 0: it has not that form */
static uint32_t dns_question_end(const uint8_t *m, uint32_t len)
{
	uint32_t at = DNS_HDR_LEN;

	if (m[4] || m[5] != 1)
		return 0;
	while (at < len && m[at] && m[at] <= DNS_LABEL_MAX)
		at += 1u + m[at];
	return at < len && !m[at] && at + 1 + DNS_TYPE_LEN <= len ? at + 1 + DNS_TYPE_LEN : 0;
}

/* Message M says that there is no answer to a query that is kept: keep that too, without its records if it must be. Whether
 * the guest can be told so later.
 */
static bool dns_keep_none(struct udp_dns *d, const uint8_t *m, uint32_t len)
{
	struct dns_head h;
	uint8_t *at;

	if (dns_find(d, m, true, &h))
		return true;			/* the first one will do */
	dns_find(d, m, false, &h);
	h.none = true;
	h.len = (uint16_t)len;
	at = dns_place(d, &h);
	if (at) {
		memcpy(at, m, len);
		return true;
	}
	h.len = (uint16_t)dns_question_end(m, len);
	at = h.len ? dns_place(d, &h) : NULL;
	if (!at)
		return false;
	memcpy(at, m, h.len);
	memset(at + 6, 0, DNS_HDR_LEN - 6);	/* counts of the records */
	return true;
}

/* The guest has waited long enough for a better answer than this */
static bool dns_is_late(const struct proto *p, const struct dns_head *h)
{
	return h->none && dns_now_ms(p) - h->asked_ms >= DNS_LIMIT_MS;
}

/* Give the guest what is kept for it: ALL, or what must not wait longer */
static void dns_tell(struct proto *p, struct flow *f, bool all)
{
	struct udp_dns *d = &udp_body(f)->dns;
	uint32_t off = 0;
	struct dns_head h;
	struct udp_outs o;
	uint8_t *m;

	while ((m = dns_rec(d, &off, &h))) {
		const struct sk_dgram a = { .iov = { { m, h.len } }, .iov_cnt = 1, .len = h.len };
		uint8_t id[DNS_ID_LEN];

		if (!h.none || (!all && !dns_is_late(p, &h)))
			continue;
		trace_add(p->env->tr, p->env->now, "udp: no resolver has an answer", flow_idx(p->flows, f), h.len, all);
		udp_outs_init(&o, p);
		udp_out_add(&o, f, &f->key.guest, &a);
		udp_out_flush(&o);
		memcpy(id, m, sizeof(id));
		dns_forget(d, id);
		off = 0;
		udp_flow_answered(p, f);
	}
	if (!d->kept_len && !d->unkept)
		d->again_at = NS_NEVER;
}

ns_t udp_dns_next_at(const struct proto *p, struct flow *f)
{
	struct udp_dns *d = &udp_body(f)->dns;
	ns_t at = d->again_at;
	uint32_t off = 0;
	struct dns_head h;

	while (dns_rec(d, &off, &h)) {
		const uint32_t age = dns_now_ms(p) - h.asked_ms;

		if (h.none)
			at = BYTES_MIN(at, p->env->now + (DNS_LIMIT_MS - BYTES_MIN(age, DNS_LIMIT_MS)) * NS_MS);
	}
	return at;
}

/* All that is kept, to the present server */
static void dns_resend(struct proto *p, struct flow *f)
{
	struct udp_flow *u = udp_body(f);
	struct sk_dgram d[DNS_RESEND];
	struct dns_head h;
	uint32_t off = 0;
	uint8_t *m;
	int n = 0, r;

	memset(d, 0, sizeof(d));
	while (n < (int)DNS_RESEND && (m = dns_rec(&u->dns, &off, &h)))
		if (!h.none)
			d[n++] = (struct sk_dgram){
				.iov = { { m, h.len } }, .iov_cnt = 1, .len = h.len, .ttl = u->ttl ? u->ttl : 1, .tos = u->tos,
			};
	r = n ? p->env->sk->ops->send_dgrams(p->env->sk, f->h, d, n) : 0;
	p->env->drops->cnt[DROP_UDP_SEND] += (uint64_t)(n - BYTES_MAX(r, 0));
}

static void dns_arm(struct proto *p, struct flow *f)
{
	struct udp_dns *d = &udp_body(f)->dns;
	/* the last one has its whole time: to be quick about it would help nobody */
	const bool doubt = proto_dns_more(p, &f->key, &d->way) && proto_dns_doubted(p, &f->key, &d->way);

	d->again_at = NS_NEVER;
	if (d->kept_len || d->unkept)
		d->again_at = p->env->now + (doubt ? DNS_DOUBT : DNS_PATIENCE);
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
	const bool idle = !d->kept_len && !d->unkept, stale = proto_dns_stale(p, &f->key, &d->way);
	uint8_t id[DNS_ID_LEN];

	if (f->key.far_port != PROTO_DNS_PORT)
		return;
	if (stale || (!idle && d->again_at == NS_NEVER)) {	/* nobody answered: from the beginning */
		if (view_copy(v, id, DNS_ID_LEN) == DNS_ID_LEN)
			dns_forget(d, id);	/* the guest repeats it: no need to resend that */
		if (!stale)
			d->way.asked = 0;
		dns_switch(p, f, true);
	} else if (idle) {
		d->way.asked = (uint8_t)(1u << d->way.server);
		d->heard = false;
	}
	if (!proto_dns_more(p, &f->key, &d->way) && idle)
		return;			/* the only one */
	dns_keep(p, d, v);
	if (d->again_at == NS_NEVER)
		dns_arm(p, f);
}

void udp_dns_due(struct proto *p, struct flow *f)
{
	struct udp_dns *d = &udp_body(f)->dns;

	if (!d->way.on)
		return;
	dns_tell(p, f, false);
	if (d->again_at > p->env->now)
		return;
	if (!d->heard)
		proto_dns_failed(p, &f->key, &d->way);
	if (!dns_switch(p, f, true))
		dns_tell(p, f, true);
}

/* The server says that it can't answer an open query */
static bool dns_no_answer(struct udp_dns *d, const uint8_t *m, uint32_t len)
{
	struct dns_head h;

	if (len < DNS_HDR_LEN || !(m[2] & 0x80) || !dns_find(d, m, false, &h))
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
	if (!a->seg && dns_no_answer(d, m, a->len)) {
		const bool kept = dns_keep_none(d, m, a->len);

		/* of the one before, as long as the present one may know better */
		if (old ? d->again_at != NS_NEVER : dns_switch(p, f, true)) {
			env_drop(p->env, kept ? DROP_DNS_NEXT : DROP_DNS_UNKEPT);
			udp_flow_arm(p, f);
			return false;
		}
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
	if (dns_switch(p, f, false))
		return all;
	dns_tell(p, f, true);
	return all && !d->kept_len;
}
