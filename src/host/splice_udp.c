/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced UDP (UDP-12): each client of a listener has a connected socket on the
 * other side, with the client's own port if that is free there. Replies leave
 * through the listener, from the address that the client used. Sizes are kept,
 * empty datagrams are datagrams.
 *
 * As long as nobody has answered, a datagram that is refused makes the other
 * family's address the one to use, and is sent there again if the error quotes all
 * of it: whoever will listen, on whichever of the two, may come later.
 *
 * Refuses to tell a client of a closed port on the other side: the listener can't
 * answer with an ICMP error; it is counted.
 */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "splice_priv.h"

#define BATCHES		4		/* of one flow before others get their turn */
#define EVICT_LOOK	64
#define TRY_AGAIN	(100 * NS_MS)	/* between two changes of the address after the first: a flood must not cost a socket each */
#define ERRORS		64		/* entries of an error queue in one turn */

static bool addr_eq(const struct sk_addr *x, const struct sk_addr *y)
{
	return x->port == y->port && inaddr_eq(&x->a, &y->a);
}

static uint32_t *bucket_of(const struct splice *s, int listener, const struct sk_addr *client, const struct inaddr *local)
{
	struct {
		struct inaddr client, local;
		int listener, port;
	} key = { client->a, *local, listener, client->port };

	_Static_assert(sizeof(key) == 40, "hashed as bytes: no padding");
	return &s->bucket[hash_sip(&s->set.key, &key, sizeof(key)) % SPLICE_FLOW_MAX];
}

static bool is_stream(const struct splice_flow *f)
{
	const uint8_t *cnt = f->udp.cnt;

	return cnt[splice_back(f)] && (cnt[SPLICE_GUEST] > 1 || cnt[SPLICE_HOST] > 1);
}

static ns_t deadline(const struct splice *s, const struct splice_flow *f)
{
	return f->udp.last + (is_stream(f) ? s->set.timeout_stream : s->set.timeout_oneway);
}

/* Up to SPLICE_DGRAMS datagrams into the buffer: how many, or negative errno */
static int receive(struct splice *s, int h, struct sk_dgram *d)
{
	for (int i = 0; i < SPLICE_DGRAMS; i++) {
		d[i].iov[0] = (struct iovec){ s->buf + (size_t)i * SPLICE_DGRAM_LEN, SPLICE_DGRAM_LEN };
		d[i].iov_cnt = 1;
	}
	return splice_sk(s)->ops->recv_dgrams(splice_sk(s), h, d, SPLICE_DGRAMS);
}

/* N datagrams of flow F from SIDE to the other one */
static void pass_on(struct splice *s, struct splice_flow *f, enum splice_side side, struct sk_dgram *d, int n)
{
	const bool forth = side == f->front;	/* to the socket that is connected */
	struct splice_udp *u = &f->udp;
	int sent;

	for (int i = 0; i < n; i++) {
		d[i].iov[0].iov_len = d[i].len;
		d[i].ttl = 0;
		d[i].to_from = forth ? (struct sk_addr){ .port = 0 } : u->client;
		d[i].local = forth ? (struct sk_addr){ .port = 0 } : u->local;
	}
	sent = splice_sk(s)->ops->send_dgrams(splice_sk(s), f->h[!side], d, n);
	for (int i = 0; i < n; i++) {
		if (i < sent)
			s->stats.bytes[side] += d[i].len;
		else
			splice_refuse(s, SPLICE_REFUSE_UDP_SEND);
	}
	u->cnt[side] = (uint8_t)BYTES_MIN(u->cnt[side] + n, 2);
	if (forth && n > 0) {
		u->out = (uint8_t)BYTES_MIN(u->out + n, 2);
		u->out_len = d[n - 1].len;
		u->out_tos = d[n - 1].tos;
	}
	u->last = s->now;
	if (!twheel_armed(&f->timer))
		twheel_arm(&s->tw, &f->timer, deadline(s, f));
}

/* The second socket, from FROM: 0 or negative errno */
static int back_open(struct splice *s, struct splice_flow *f, const struct sk_addr *from)
{
	struct sk *sk = splice_back_sk(s, f);
	struct sk_addr got;
	int h = sk->ops->udp_open(sk, splice_flow_ref(s, f, splice_back(f)), from, &f->to, &got);

	f->h[splice_back(f)] = h < 0 ? SPLICE_NONE : h;
	return h < 0 ? h : 0;
}

/* Nobody listens there: the quoted datagram, LEN bytes in the buffer, goes to the other address if nobody ever answered. Whether
 * the flow has another socket now.
 */
static bool try_again(struct splice *s, struct splice_flow *f, uint32_t len)
{
	const enum splice_side back = splice_back(f);
	const struct sk_addr from = { .port = f->udp.client.port }, to = f->to;
	struct splice_udp *u = &f->udp;
	struct sk_dgram d = { .iov = { { s->buf, len } }, .iov_cnt = 1, .len = len, .tos = u->out_tos };
	const bool whole = u->out == 1 && u->out_len == len;
	const int before = f->h[back];

	u->out = 0;
	if (!f->alt.port || u->cnt[back] || (u->tried && s->now - u->tried < TRY_AGAIN))
		return false;
	u->tried = s->now;
	f->to = f->alt;
	f->alt = to;
	if (back_open(s, f, &from)) {
		splice_refuse(s, SPLICE_REFUSE_UDP_OPEN);
		f->alt = f->to;
		f->to = to;
		f->h[back] = before;
		return false;
	}
	splice_sk(s)->ops->close(splice_sk(s), before, SK_END_GRACEFUL);
	if (whole)
		pass_on(s, f, (enum splice_side)f->front, &d, 1);
	return true;
}

/* The error queue of a socket, F's own if that is given */
static void errors_take(struct splice *s, int h, struct splice_flow *f)
{
	struct sk_err err;

	for (int i = 0; i < ERRORS; i++) {
		if (splice_sk(s)->ops->recv_err(splice_sk(s), h, &err, s->buf, SPLICE_DGRAM_LEN))
			return;
		splice_refuse(s, SPLICE_REFUSE_UDP_ERROR);
		if (f && err.code == ECONNREFUSED && try_again(s, f, err.len))
			return;
	}
}

/* End one of some flows, that which was used least recently, to make room for ours; conversations are spared. Whether there was
 * one.
 */
static bool evict(struct splice *s, const struct splice_flow *ours)
{
	struct splice_flow *oldest = NULL;

	for (uint32_t i = 0; i < EVICT_LOOK && i < s->fresh; i++) {
		struct splice_flow *f = &s->flow[s->evict_at++ % s->fresh];

		if (f != ours && f->kind == SPLICE_KIND_UDP && !is_stream(f) && (!oldest || f->udp.last < oldest->udp.last))
			oldest = f;
	}
	if (oldest)
		splice_udp_end(s, oldest);
	return oldest;
}

static struct splice_flow *flow_begin(struct splice *s, int listener, enum splice_side front, const struct sk_dgram *d,
				      const struct splice_way *w, const struct inaddr *from)
{
	const struct sk_addr src = { .a = *from, .port = d->to_from.port };
	struct splice_flow *f = splice_flow_new(s, SPLICE_KIND_UDP);
	struct splice_udp *u;
	uint32_t *bucket;
	int r;

	if (!f && evict(s, NULL))
		f = splice_flow_new(s, SPLICE_KIND_UDP);
	if (!f)
		return NULL;
	f->front = (uint8_t)front;
	f->to = w->to;
	f->alt = w->alt;
	f->h[front] = listener;
	do
		r = back_open(s, f, &src);
	while (r < 0 && r != -EAGAIN && r != -EMFILE && r != -ENFILE && splice_flow_elsewhere(f));
	/* inside the namespace there will be a socket for the next one */
	if ((r == -EMFILE || r == -ENFILE) && evict(s, f))
		r = back_open(s, f, &src);
	if (r < 0) {
		splice_refuse(s, r == -EMFILE || r == -ENFILE ? SPLICE_REFUSE_NO_DESCRIPTOR : SPLICE_REFUSE_UDP_OPEN);
		splice_flow_free(s, f);
		return NULL;
	}
	u = &f->udp;
	u->client = d->to_from;
	u->local = d->local;
	bucket = bucket_of(s, listener, &u->client, &u->local.a);
	u->chain = *bucket;
	*bucket = (uint32_t)(f - s->flow) + 1;
	splice_flow_begun(s, f);
	return f;
}

static struct splice_flow *flow_find(struct splice *s, int listener, const struct sk_dgram *d)
{
	for (uint32_t i = *bucket_of(s, listener, &d->to_from, &d->local.a); i; i = s->flow[i - 1].udp.chain) {
		struct splice_flow *f = &s->flow[i - 1];

		if (f->h[f->front] == listener && addr_eq(&f->udp.client, &d->to_from) && inaddr_eq(&f->udp.local.a, &d->local.a))
			return f;
	}
	return NULL;
}

/* Of a listener in the namespace */
static struct splice_flow *flow_of(struct splice *s, const struct splice_listen *l, const struct sk_dgram *d)
{
	struct splice_flow *f;
	struct splice_way w;
	struct inaddr from;

	if (!inaddr_is_loopback(&d->to_from.a) || !inaddr_is_loopback(&d->local.a)) {
		splice_refuse(s, SPLICE_REFUSE_NOT_LOOPBACK);
		return NULL;
	}
	f = flow_find(s, l->h, d);
	if (f)
		return f;
	w = splice_target(s, l, &d->local, &d->to_from, &from);
	return flow_begin(s, l->h, SPLICE_GUEST, d, &w, &from);
}

void splice_dgrams(struct splice *s, int h, struct sk_dgram *d, int n, const struct splice_way *w)
{
	static const struct inaddr any;
	struct splice_flow *f = flow_find(s, h, d);

	if (!f)
		f = flow_begin(s, h, SPLICE_HOST, d, w, &any);
	if (f)
		pass_on(s, f, SPLICE_HOST, d, n);
}

void splice_udp_listen(struct splice *s, uint32_t listener, uint32_t mask)
{
	const struct splice_listen *l = &s->listener[listener].l;
	int n, run;
	struct sk_dgram d[SPLICE_DGRAMS];

	if (mask & EV_ERR)		/* of a client that has gone; unread, it would be reported for ever */
		errors_take(s, l->h, NULL);
	n = receive(s, l->h, d);
	for (int i = 0; i < n; i += run) {
		struct splice_flow *f = flow_of(s, l, &d[i]);

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
		int n = receive(s, f->h[splice_back(f)], d);

		if (n > 0)
			pass_on(s, f, splice_back(f), d, n);
		if (n == -EAGAIN || (n >= 0 && n < SPLICE_DGRAMS))
			return;
		if (n < 0)		/* told here or in the error queue, but not lasting */
			errors_take(s, f->h[splice_back(f)], f);
	}
	splice_flow_ready(s, f);
}

void splice_udp_event(struct splice *s, struct splice_flow *f, uint32_t mask)
{
	if (mask & EV_ERR)
		errors_take(s, f->h[splice_back(f)], f);
	splice_udp_more(s, f);
}

void splice_udp_timer(struct splice *s, struct splice_flow *f)
{
	ns_t due = deadline(s, f);

	if (due > s->now)
		twheel_arm(&s->tw, &f->timer, due);
	else
		splice_udp_end(s, f);
}

void splice_udp_end(struct splice *s, struct splice_flow *f)
{
	struct splice_udp *u = &f->udp;
	uint32_t *link = bucket_of(s, f->h[f->front], &u->client, &u->local.a);

	while (*link != (uint32_t)(f - s->flow) + 1)
		link = &s->flow[*link - 1].udp.chain;
	*link = u->chain;
	twheel_cancel(&s->tw, &f->timer);
	splice_sk(s)->ops->close(splice_sk(s), f->h[splice_back(f)], SK_END_GRACEFUL);
	splice_flow_free(s, f);
	s->flow_gone = true;
}
