/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced UDP (UDP-12): each client of a listener has a connected socket on the
 * host, with the client's own port if that is free there. Replies leave through
 * the listener, from the address that the client used. Sizes are kept, empty
 * datagrams are datagrams.
 *
 * Refuses to tell a client of a closed port on the host: the listener can't
 * answer with an ICMP error; it is counted.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "splice_priv.h"

#define BATCHES		4		/* of one flow before others get their turn */
#define ERRORS		64		/* entries of an error queue in one turn */

static struct sk *sk_of(const struct splice *s)
{
	return &s->set.sk->sk;
}

static bool addr_eq(const struct sk_addr *x, const struct sk_addr *y)
{
	return x->port == y->port && inaddr_eq(&x->a, &y->a);
}

static uint32_t *bucket_of(const struct splice *s, uint32_t listener, const struct sk_addr *client, const struct inaddr *local)
{
	struct {
		struct inaddr client, local;
		uint32_t listener, port;
	} key = { client->a, *local, listener, client->port };

	_Static_assert(sizeof(key) == 40, "hashed as bytes: no padding");
	return &s->bucket[hash_sip(&s->set.key, &key, sizeof(key)) % SPLICE_FLOW_MAX];
}

static ns_t deadline(const struct splice *s, const struct splice_udp *u)
{
	bool stream = u->host_cnt && (u->host_cnt > 1 || u->guest_cnt > 1);

	return u->last + (stream ? s->set.timeout_stream : s->set.timeout_oneway);
}

/* Up to SPLICE_DGRAMS datagrams into the buffer: how many, or negative errno */
static int receive(struct splice *s, int h, struct sk_dgram *d)
{
	int n;

	for (int i = 0; i < SPLICE_DGRAMS; i++) {
		d[i].iov[0] = (struct iovec){ s->buf + (size_t)i * SPLICE_DGRAM_LEN, SPLICE_DGRAM_LEN };
		d[i].iov_cnt = 1;
	}
	n = sk_of(s)->ops->recv_dgrams(sk_of(s), h, d, SPLICE_DGRAMS);
	for (int i = 0; i < n; i++) {
		d[i].iov[0].iov_len = d[i].len;
		d[i].ttl = 0;
	}
	return n;
}

/* N datagrams of flow F from SIDE to the other one */
static void pass_on(struct splice *s, struct splice_flow *f, enum splice_side side, struct sk_dgram *d, int n)
{
	struct splice_udp *u = &f->udp;
	uint8_t *cnt = side == SPLICE_GUEST ? &u->guest_cnt : &u->host_cnt;
	int h = side == SPLICE_GUEST ? f->h[SPLICE_HOST] : s->listener[u->listener].l.h, sent;

	for (int i = 0; i < n; i++) {
		/* the host's socket is connected */
		d[i].to_from = side == SPLICE_GUEST ? (struct sk_addr){ .port = 0 } : u->client;
		d[i].local = side == SPLICE_GUEST ? (struct sk_addr){ .port = 0 } : u->local;
	}
	sent = sk_of(s)->ops->send_dgrams(sk_of(s), h, d, n);
	for (int i = 0; i < n; i++) {
		if (i < sent)
			s->stats.bytes[side] += d[i].len;
		else
			splice_refuse(s, SPLICE_REFUSE_UDP_SEND);
	}
	*cnt = (uint8_t)BYTES_MIN(*cnt + n, 2);
	u->last = s->now;
	if (!twheel_armed(&u->timer))
		twheel_arm(&s->tw, &u->timer, deadline(s, u));
}

static void errors_take(struct splice *s, int h)
{
	struct sk_err err;

	for (int i = 0; i < ERRORS; i++) {
		if (sk_of(s)->ops->recv_err(sk_of(s), h, &err, s->buf, SPLICE_DGRAM_LEN))
			return;
		splice_refuse(s, SPLICE_REFUSE_UDP_ERROR);
	}
}

static struct splice_flow *flow_begin(struct splice *s, uint32_t listener, const struct sk_dgram *d, uint32_t *bucket)
{
	const struct splice_listen *l = &s->listener[listener].l;
	struct splice_flow *f = splice_flow_new(s, SPLICE_KIND_UDP);
	struct sk_addr to, from = { .port = d->to_from.port }, got;
	struct splice_udp *u;
	int h;

	if (!f)
		return NULL;
	to = splice_target(l, &d->local, &d->to_from, &from.a);
	h = sk_of(s)->ops->udp_open(sk_of(s), splice_flow_ref(s, f, SPLICE_HOST), &from, &to, &got);
	if (h < 0) {
		splice_refuse(s, h == -EMFILE || h == -ENFILE ? SPLICE_REFUSE_NO_DESCRIPTOR : SPLICE_REFUSE_UDP_OPEN);
		splice_flow_free(s, f);
		return NULL;
	}
	f->h[SPLICE_HOST] = h;
	u = &f->udp;
	u->client = d->to_from;
	u->local = d->local;
	u->listener = listener;
	u->chain = *bucket;
	*bucket = (uint32_t)(f - s->flow) + 1;
	s->stats.flows[SK_UDP]++;
	return f;
}

static struct splice_flow *flow_of(struct splice *s, uint32_t listener, const struct sk_dgram *d)
{
	uint32_t *bucket;

	if (!inaddr_is_loopback(&d->to_from.a) || !inaddr_is_loopback(&d->local.a)) {
		splice_refuse(s, SPLICE_REFUSE_NOT_LOOPBACK);
		return NULL;
	}
	bucket = bucket_of(s, listener, &d->to_from, &d->local.a);
	for (uint32_t i = *bucket; i; i = s->flow[i - 1].udp.chain) {
		const struct splice_udp *u = &s->flow[i - 1].udp;

		if (u->listener == listener && addr_eq(&u->client, &d->to_from) && inaddr_eq(&u->local.a, &d->local.a))
			return &s->flow[i - 1];
	}
	return flow_begin(s, listener, d, bucket);
}

void splice_udp_listen(struct splice *s, uint32_t listener, uint32_t mask)
{
	int h = s->listener[listener].l.h, n, run;
	struct sk_dgram d[SPLICE_DGRAMS];

	if (mask & EV_ERR)		/* of a client that has gone; unread, it would be reported for ever */
		errors_take(s, h);
	n = receive(s, h, d);
	for (int i = 0; i < n; i += run) {
		struct splice_flow *f = flow_of(s, listener, &d[i]);

		for (run = 1; i + run < n; run++)
			if (!addr_eq(&d[i].to_from, &d[i + run].to_from) || !inaddr_eq(&d[i].local.a, &d[i + run].local.a))
				break;
		if (f)
			pass_on(s, f, SPLICE_GUEST, &d[i], run);
	}
}

void splice_udp_more(struct splice *s, struct splice_flow *f)
{
	struct sk_dgram d[SPLICE_DGRAMS];

	for (int i = 0; i < BATCHES; i++) {
		int n = receive(s, f->h[SPLICE_HOST], d);

		if (n > 0)
			pass_on(s, f, SPLICE_HOST, d, n);
		if (n == -EAGAIN || (n >= 0 && n < SPLICE_DGRAMS))
			return;
		if (n < 0)		/* told here or in the error queue, but not lasting */
			errors_take(s, f->h[SPLICE_HOST]);
	}
	splice_flow_ready(s, f);
}

void splice_udp_event(struct splice *s, struct splice_flow *f, uint32_t mask)
{
	if (mask & EV_ERR)
		errors_take(s, f->h[SPLICE_HOST]);
	splice_udp_more(s, f);
}

void splice_udp_timer(struct splice *s, struct splice_flow *f)
{
	ns_t due = deadline(s, &f->udp);

	if (due > s->now)
		twheel_arm(&s->tw, &f->udp.timer, due);
	else
		splice_udp_end(s, f);
}

void splice_udp_end(struct splice *s, struct splice_flow *f)
{
	struct splice_udp *u = &f->udp;
	uint32_t *link = bucket_of(s, u->listener, &u->client, &u->local.a);

	while (*link != (uint32_t)(f - s->flow) + 1)
		link = &s->flow[*link - 1].udp.chain;
	*link = u->chain;
	twheel_cancel(&s->tw, &u->timer);
	sk_of(s)->ops->close(sk_of(s), f->h[SPLICE_HOST], SK_END_GRACEFUL);
	splice_flow_free(s, f);
	s->flow_gone = true;
}
