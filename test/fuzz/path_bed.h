/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What holds of TCP flows between guest and host whatever both sides do, for fuzz_path.c: of each frame to the guest, of
 * each flow after each event, and of everything once it is over. It looks at the flows' own numbers where it must, and
 * keeps its own where it can: what the guest offered, what the peers sent, where the streams began.
 */
#ifndef FUZZ_PATH_BED_H
#define FUZZ_PATH_BED_H

#include "fuzz.h"

#include "../../src/proto/tcp/tcp_priv.h"
#include "sim/world.h"

#define CONNS		4
#define CONN_PORT	40000		/* of the guest's end of the first */
#define STREAM		65536u		/* the byte at a sequence repeats after so many */

struct input {
	const uint8_t *p;
	size_t left;
};

struct conn {
	uint16_t port, far_port;
	int h;				/* the socket that the following belong to; -1: none */
	bool edge_known, ack_known;
	uint32_t edge;			/* of the window towards the guest */
	uint32_t ack;			/* last that the guest got */
	uint32_t offered;		/* right edge of all windows that the guest may have had accepted */
};

struct stream {				/* of a socket */
	bool known;
	uint32_t base;			/* sequence of the guest's first byte */
	uint32_t checked;		/* so many bytes were compared */
};

struct fuzz {
	struct world w;
	struct conn c[CONNS];
	struct stream s[FAKE_SK_MAX];
	struct input in;
	bool spoilt;			/* frames of any bytes went in: what the guest sent is not known */
};

static inline void fault(const char *what)
{
	fprintf(stderr, "fuzz_path: %s\n", what);
	abort();
}

/* Bytes of both streams from AT on: a sequence number of the guest, an offset of a peer. Up to STREAM of them. */
static inline const uint8_t *stream_at(uint32_t at)
{
	static uint8_t data[2 * STREAM];

	static bool filled;

	for (uint32_t i = 0; !filled && i < sizeof(data); i++)
		data[i] = world_byte(false, i % STREAM);
	filled = true;
	return data + at % STREAM;
}

static inline struct flow_key key_of(const struct fuzz *z, unsigned n)
{
	return world_key(&z->w, z->c[n].port, z->c[n].far_port);
}

static inline struct flow *flow_at(struct fuzz *z, unsigned n)
{
	struct flow_key key = key_of(z, n);

	return flow_find(&z->w.flows, &key);
}

/* The connection's own numbers begin anew with each flow. False: there is none that the guest has accepted. */
static inline bool conn_sync(struct conn *c, const struct flow *f)
{
	const struct tcp *t = f ? (const void *)f->body : NULL;

	if (!t || t->phase < TCP_PHASE_SYN_RCVD || t->phase == TCP_PHASE_QUIET)
		return false;
	if (c->h != f->h)
		*c = (struct conn){ .port = c->port, .far_port = c->far_port, .h = f->h, .offered = t->una + t->wnd };
	return t->phase == TCP_PHASE_OPEN;
}

/* The guest sends a segment: the window that it may have offered by it */
static inline void conn_offer(struct fuzz *z, unsigned n, const struct world_seg *s)
{
	struct conn *c = &z->c[n];
	struct flow *f = flow_at(z, n);
	const struct tcp *t = f ? tcp_of(f) : NULL;
	uint32_t edge;

	if (!t || t->phase < TCP_PHASE_SYN_RCVD || t->phase == TCP_PHASE_QUIET)
		return;
	conn_sync(c, f);
	if (t->phase == TCP_PHASE_SYN_SENT) {	/* its scale is not known yet */
		edge = t->iss + 1 + ((uint32_t)s->h.wnd << (s->h.flags & WIRE_TCP_SYN ? 0 : TCP_WS_MAX));
	} else {
		edge = s->h.ack + ((uint32_t)s->h.wnd << t->ws_guest);
		if (seqno_gt(s->h.ack, t->max) || seqno_lt(s->h.ack, t->una - (1u << 30)))
			return;
	}
	if (seqno_gt(edge, c->offered))
		c->offered = edge;
}

static inline void check_options(const struct tcp *t, const struct wire_tcp *h)
{
	if (h->has_ts != t->ts_on || (h->sack_cnt && !t->sack_on))
		fault("options that nobody agreed on");
	for (int i = 0; i < h->sack_cnt; i++)
		if (seqno_ge(h->sack[i].from, h->sack[i].to) ||
		    (seqno_le(h->sack[i].from, h->ack) ? i || seqno_gt(h->sack[i].to, h->ack) : seqno_gt(h->sack[i].to, t->rcv_edge)))
			fault("an impossible SACK block");
}

/* Bytes to the guest are the peer's, in their places, and no more than the guest asked for */
static inline void check_payload(const struct fuzz *z, const struct conn *c, const struct tcp *t, const struct world_seg *s)
{
	const struct fake_sk_bytes *rx = &z->w.sk.s[c->h].rx;
	const uint32_t off = s->h.seq - t->iss - 1;

	if (s->h.flags & WIRE_TCP_URG ? s->h.urg != 1 || s->len != 1 : s->h.urg)
		fault("an urgent pointer that is not that of its one byte");
	if (s->len && (s->len > STREAM || off > rx->len || s->len > rx->len - off || memcmp(s->data, stream_at(off), s->len)))
		fault("bytes that the peer did not send there");
	if (s->h.flags & WIRE_TCP_FIN && (!z->w.sk.s[c->h].eof || off + s->len != rx->len))
		fault("an end that the peer did not send");
	if (s->len && !z->spoilt && seqno_gt(s->h.seq + s->len, c->offered))
		fault("bytes beyond every window of the guest");
}

static inline void check_frame(struct fuzz *z, const struct world_seg *s)
{
	struct conn *c = &z->c[(unsigned)(s->key.guest_port - CONN_PORT) % CONNS];
	struct flow_key key = s->key;
	struct flow *f = flow_find(&z->w.flows, &key);
	const struct tcp *t = f ? tcp_of(f) : NULL;
	const struct fake_sk_sock *k;
	uint32_t edge;

	if (s->key.guest_port != c->port || s->key.far_port != c->far_port || s->h.flags & (WIRE_TCP_RST | WIRE_TCP_SYN) ||
	    !conn_sync(c, f))
		return;
	k = &z->w.sk.s[f->h];
	check_options(t, &s->h);
	check_payload(z, c, t, s);
	if (c->ack_known && seqno_lt(s->h.ack, c->ack))
		fault("an acknowledgement taken back");
	c->ack = s->h.ack;
	c->ack_known = true;
	edge = s->h.ack + ((uint32_t)s->h.wnd << t->ws_ours);
	if (s->h.wnd) {			/* to nothing it may shrink: the kernel refused something */
		if (c->edge_known && seqno_lt(edge, c->edge))
			fault("the right edge of the window moved left");
		c->edge = edge;
		c->edge_known = true;
	}
	if (s->h.ack - t->irs - 1 > k->tx.len + !!k->shuts)
		fault("acknowledged what the kernel did not take");
}

/* What each socket was given is what the guest sent, byte by byte */
static inline void check_streams(struct fuzz *z)
{
	for (int h = 0; h < z->w.sk.cnt; h++) {
		const struct fake_sk_sock *k = &z->w.sk.s[h];
		struct stream *s = &z->s[h];

		if (k->shuts > 1)
			fault("ended twice");
		while (s->known && !z->spoilt && s->checked < k->tx.len) {
			uint32_t n = BYTES_MIN(k->tx.len - s->checked, STREAM);

			if (memcmp(k->tx.p + s->checked, stream_at(s->base + s->checked), n))
				fault("the peer got bytes that the guest did not send");
			s->checked += n;
		}
	}
}

/* Something is armed as long as anything is to come */
static inline void check_armed(const struct flow *f)
{
	const struct tcp *t = (const void *)f->body;
	const ns_t first = BYTES_MIN(BYTES_MIN(t->rto_at, t->ack_at), BYTES_MIN(t->drop_at, t->push_at));

	if (t->phase != TCP_PHASE_CONNECTING && first != NS_NEVER && !twheel_armed(&f->timer))
		fault("a deadline without a timer");
	if ((t->phase == TCP_PHASE_SYN_SENT || t->phase == TCP_PHASE_SYN_RCVD || t->phase == TCP_PHASE_QUIET) && t->rto_at == NS_NEVER)
		fault("a flow that may stay for ever");
	if (t->phase != TCP_PHASE_OPEN)
		return;
	if (t->idle_at == NS_NEVER || !twheel_armed(&f->timer))
		fault("a silent guest would not be noticed");
	if (t->una != t->max && t->rto_at == NS_NEVER)
		fault("something in flight has no timer");
	if (t->host_more && !f->ready && t->una == t->max && t->rto_at == NS_NEVER && t->push_at == NS_NEVER)
		fault("data for the guest waits for nothing");
	if (t->ack_due && t->ack_at == NS_NEVER)
		fault("an acknowledgement waits for nothing");
	if ((t->refused || t->stuck) && !t->armed && !t->sending)
		fault("what was refused waits for nothing");
}

/* Flows, sockets, blocks of the pool and half-open connections belong together */
static inline void check_all(struct fuzz *z)
{
	uint32_t owned = 0, open = 0, kept = 0, half = 0;

	for (uint32_t i = 0; i < z->w.flows.fresh; i++) {
		const struct flow *f = &z->w.flows.tab[i];
		const struct tcp *t = (const void *)f->body;

		if (f->key.proto != FLOW_TCP)
			continue;
		owned += f->h >= 0;
		kept += t->kept_cnt;
		half += t->phase == TCP_PHASE_SYN_SENT;
		if (f->h >= 0 && !z->w.sk.s[f->h].open)
			fault("a flow of a socket that is closed");
		if (f->h >= 0 && t->phase == TCP_PHASE_OPEN)
			z->s[f->h].base = t->irs + 1, z->s[f->h].known = true;
		check_armed(f);
	}
	for (int h = 0; h < z->w.sk.cnt; h++)
		open += z->w.sk.s[h].open;
	if (open != owned)
		fault("a socket that belongs to no flow");
	if (kept != z->w.pool.used)
		fault("blocks of the pool belong to nobody");
	if (half != z->w.half_open[0])
		fault("half-open connections that were miscounted");
	check_streams(z);
}

/* Nothing is left, and nothing will happen any more */
static inline void check_end(struct fuzz *z)
{
	check_all(z);
	if (z->w.flows.cnt)
		fault("a flow that never ends");
	if (path_draining(&z->w.path) || path_next(&z->w.path) != NS_NEVER)
		fault("something to do, and nothing is left");
}

#endif
