/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guest of the model test. As simple as a correct TCP can be: all from
 * una again on a timeout or three equal ACKs (with SACK, only the holes then),
 * an ACK for each segment that has something. RFC 9293, 5681, 2018, 2883, 7323.
 */
#include "model_guest.h"

#define MG_RTO		(300 * NS_MS)

static void mg_bad(struct mg *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void mg_bad(struct mg *g, const char *fmt, ...)
{
	va_list ap;

	if (g->why[0])
		return;
	va_start(ap, fmt);
	vsnprintf(g->why, sizeof(g->why), fmt, ap);
	va_end(ap);
}

void mg_start(struct mg *g)
{
	g->rto_at = NS_NEVER;
	g->rto = MG_RTO;
	g->adv_edge = 1;
}

static uint32_t mg_buffered(const struct mg *g)
{
	uint32_t data = g->rcv_nxt - 1 - g->fin_seen;

	return g->syn_seen ? data - g->read : 0;
}

/* The edge that it would offer: never further left, and small openings wait (RFC 9293 3.8.6.2.2) */
static uint32_t mg_edge(const struct mg *g)
{
	uint32_t free = g->rbuf - mg_buffered(g), shift = g->has_ws ? g->ws : 0;
	uint32_t edge = g->rcv_nxt + BYTES_MIN(free >> shift, 65535u) * (1u << shift);

	return seqno_lt(edge, g->adv_edge + BYTES_MIN(g->rbuf / 2, 1460u)) ? g->adv_edge : edge;
}

static uint16_t mg_window(struct mg *g)
{
	uint32_t shift = g->has_ws ? g->ws : 0, edge = mg_edge(g), field;

	if (seqno_lt(edge, g->rcv_nxt))
		edge = g->rcv_nxt;
	field = BYTES_MIN((edge - g->rcv_nxt) >> shift, 65535u);
	if (seqno_gt(g->rcv_nxt + (field << shift), g->adv_edge))
		g->adv_edge = g->rcv_nxt + (field << shift);
	g->was_shut |= !field;
	return (uint16_t)field;
}

void mg_read(struct mg *g, uint32_t n)
{
	g->read += BYTES_MIN(n, mg_buffered(g));
	/* a window update once it is worth it */
	if (mg_edge(g) != g->adv_edge)
		g->ack_now = true;
}

static void mg_sacked_add(struct mg *g, uint32_t from, uint32_t to)
{
	for (int i = 0; i < g->sacked_cnt; i++)
		if (seqno_le(from, g->sacked[i].to) && seqno_ge(to, g->sacked[i].from)) {
			from = seqno_lt(g->sacked[i].from, from) ? g->sacked[i].from : from;
			to = seqno_gt(g->sacked[i].to, to) ? g->sacked[i].to : to;
			g->sacked[i] = g->sacked[--g->sacked_cnt];
			i = -1;
		}
	if (g->sacked_cnt < MG_SACKED)
		g->sacked[g->sacked_cnt++] = (struct mg_range){ from, to };
}

static void mg_take_sacks(struct mg *g, const struct world_seg *s)
{
	if (s->h.sack_cnt && !g->sack_on)
		mg_bad(g, "SACK blocks that nobody agreed on");
	for (int i = 0; i < s->h.sack_cnt; i++) {
		uint32_t from = s->h.sack[i].from - g->isn, to = s->h.sack[i].to - g->isn;

		if (!i && seqno_lt(from, to) && seqno_le(to, s->h.ack - g->isn))
			continue;	/* what came twice */
		if (seqno_ge(from, to) || seqno_le(from, s->h.ack - g->isn) || seqno_gt(to, g->max))
			mg_bad(g, "SACK block %u to %u with ACK %u, sent %u", from, to, s->h.ack - g->isn, g->max);
		else if (seqno_gt(from, g->una))
			mg_sacked_add(g, from, to);
	}
}

/* The first hole at hole_next or beyond, below something that was reported */
static bool mg_hole(const struct mg *g, struct mg_range *ret)
{
	uint32_t from = seqno_lt(g->hole_next, g->una) ? g->una : g->hole_next, to = 0;

	for (int i = 0; i < g->sacked_cnt; i++)
		if (seqno_le(g->sacked[i].from, from) && seqno_gt(g->sacked[i].to, from)) {
			from = g->sacked[i].to;
			i = -1;
		}
	for (int i = 0; i < g->sacked_cnt; i++)
		if (seqno_gt(g->sacked[i].from, from) && (!to || seqno_lt(g->sacked[i].from, to)))
			to = g->sacked[i].from;
	*ret = (struct mg_range){ from, to };
	return to;
}

static void mg_recover(struct mg *g)
{
	g->recovering = true;
	g->recover = g->max;
	g->hole_next = g->una;
	if (!g->sack_on || !g->sacked_cnt)
		g->nxt = g->una;
}

static void mg_take_ack(struct mg *g, const struct world_seg *s, ns_t now)
{
	uint32_t ack = s->h.ack - g->isn, wnd = s->h.flags & WIRE_TCP_SYN ? s->h.wnd : (uint32_t)s->h.wnd << g->ws_ours;

	if (seqno_gt(ack, g->max)) {
		mg_bad(g, "ACK %u of what was never sent (%u)", ack, g->max);
		return;
	}
	if (seqno_gt(ack + wnd, g->edge))
		g->edge = ack + wnd;
	mg_take_sacks(g, s);
	if (seqno_gt(ack, g->una)) {
		g->una = ack;
		if (seqno_lt(g->nxt, ack))
			g->nxt = ack;
		g->dupacks = 0;
		g->rto = MG_RTO;
		g->rto_at = g->una == g->max || !g->timers ? NS_NEVER : now + g->rto;
		if (g->recovering && seqno_ge(ack, g->recover))
			g->recovering = false;
	} else if (ack == g->una && !s->len && g->una != g->max && wnd == g->last_wnd && !(s->h.flags & WIRE_TCP_FIN) &&
		   !g->recovering && ++g->dupacks == 3) {
		mg_recover(g);
	}
	g->last_wnd = wnd;
}

static void mg_take_ooo(struct mg *g, uint32_t from, uint32_t to)
{
	g->recent = (struct mg_range){ from, to };
	if (g->ooo_cnt < MG_OOO) {
		g->ooo[g->ooo_cnt].from = from;
		g->ooo[g->ooo_cnt++].to = to;
	}
}

static void mg_drain_ooo(struct mg *g)
{
	for (int i = 0; i < g->ooo_cnt; i++)
		if (seqno_le(g->ooo[i].from, g->rcv_nxt)) {
			if (seqno_gt(g->ooo[i].to, g->rcv_nxt))
				g->rcv_nxt = g->ooo[i].to;
			g->ooo[i] = g->ooo[--g->ooo_cnt];
			i = -1;
		}
}

static void mg_take_data(struct mg *g, const struct world_seg *s)
{
	uint32_t from = s->h.seq - g->iss, to = from + s->len;
	bool fin = s->h.flags & WIRE_TCP_FIN;

	if (seqno_gt(to + fin, g->our_max))
		g->our_max = to + fin;
	for (uint32_t i = 0; i < s->len; i++)
		if (s->data[i] != world_byte(true, from - 1 + i)) {
			mg_bad(g, "byte %u to the guest is wrong", from - 1 + i);
			return;
		}
	if (seqno_gt(to, g->adv_edge)) {
		mg_bad(g, "data up to %u beyond the window %u", to, g->adv_edge);
		return;
	}
	g->ack_now = true;
	if (g->fin_seen)
		return;
	if (seqno_gt(from, g->rcv_nxt)) {
		if (g->keep_ooo && s->len && !fin)
			mg_take_ooo(g, from, to);
		return;
	}
	if (s->len && seqno_le(to, g->rcv_nxt))
		g->twice = (struct mg_range){ from, to };
	if (seqno_gt(to, g->rcv_nxt))
		g->rcv_nxt = to;
	mg_drain_ooo(g);
	if (fin && g->rcv_nxt == to) {
		g->fin_seen = true;
		g->rcv_nxt++;
	}
}

void mg_renege(struct mg *g)
{
	g->ooo_cnt = 0;
}

/* What the SYN of ours settles */
static void mg_agree(struct mg *g, const struct wire_tcp *h)
{
	g->sack_on = g->has_sack && h->has_sack_ok;
	g->ts_on = g->has_ts && h->has_ts;
	g->ts_recent = h->ts_val;
	if (h->flags & WIRE_TCP_ACK && ((h->has_sack_ok && !g->has_sack) || (h->has_ts && !g->has_ts)))
		mg_bad(g, "options in SYN,ACK, not asked for");
	if (!(h->flags & WIRE_TCP_ACK) && !(h->has_sack_ok && h->has_ts))
		mg_bad(g, "a SYN without SACK or timestamps");
}

/* False: an old duplicate (RFC 7323 5.3) */
static bool mg_take_ts(struct mg *g, const struct world_seg *s)
{
	if (s->h.has_ts != g->ts_on)
		mg_bad(g, "timestamps: %d", s->h.has_ts);
	if (!g->ts_on)
		return true;
	if (seqno_lt(s->h.ts_val, g->ts_recent)) {
		g->ack_now = true;
		return false;
	}
	if (seqno_le(s->h.seq - g->iss, g->acked))
		g->ts_recent = s->h.ts_val;
	return true;
}

void mg_take(struct mg *g, const struct world_seg *s, ns_t now)
{
	uint8_t flags = s->h.flags;

	if (flags & WIRE_TCP_RST) {
		g->reset = true;
		return;
	}
	if (flags & WIRE_TCP_SYN) {
		if (g->syn_seen && s->h.seq != g->iss)
			mg_bad(g, "a SYN with another sequence number");
		if (!g->syn_seen) {
			g->syn_seen = true;
			g->iss = s->h.seq;
			g->rcv_nxt = 1;
			g->adv_edge = 1;
			g->our_max = 1;
			mg_agree(g, &s->h);
			if (flags & WIRE_TCP_ACK)
				g->ws_ours = g->has_ws && s->h.has_ws ? s->h.ws : 0;
			else if (g->has_ws && s->h.has_ws)
				g->ws_ours = s->h.ws;
			if (flags & WIRE_TCP_ACK && s->h.has_ws && !g->has_ws)
				mg_bad(g, "window scale in SYN,ACK, not asked for");
		}
		g->ack_now = true;
	} else if (!g->syn_seen || !mg_take_ts(g, s)) {
		return;
	}
	if (flags & WIRE_TCP_ACK)
		mg_take_ack(g, s, now);
	if (s->len || flags & WIRE_TCP_FIN)
		mg_take_data(g, s);
	else if (s->h.seq != g->iss + g->rcv_nxt && !(flags & WIRE_TCP_SYN))
		g->ack_now = true;	/* a window probe */
}

/* The piece grown by all that it touches */
static struct mg_range mg_grow(const struct mg *g, struct mg_range r)
{
	for (int i = 0; i < g->ooo_cnt; i++)
		if (seqno_le(r.from, g->ooo[i].to) && seqno_ge(r.to, g->ooo[i].from) &&
		    (seqno_lt(g->ooo[i].from, r.from) || seqno_gt(g->ooo[i].to, r.to))) {
			r.from = seqno_lt(g->ooo[i].from, r.from) ? g->ooo[i].from : r.from;
			r.to = seqno_gt(g->ooo[i].to, r.to) ? g->ooo[i].to : r.to;
			i = -1;
		}
	return r;
}

static void mg_fill_sack(const struct mg *g, struct wire_tcp *h, struct mg_range r)
{
	if (h->sack_cnt == WIRE_TCP_SACK_MAX - g->ts_on)
		return;
	for (int i = 0; i < h->sack_cnt; i++)
		if (h->sack[i].from == g->iss + r.from)
			return;
	h->sack[h->sack_cnt].from = g->iss + r.from;
	h->sack[h->sack_cnt++].to = g->iss + r.to;
}

/* What came twice, what came last, then the rest (RFC 2018 4, RFC 2883 4) */
static void mg_fill_sacks(struct mg *g, struct wire_tcp *h)
{
	if (g->dsack && g->twice.to)
		mg_fill_sack(g, h, g->twice);
	g->twice = (struct mg_range){ 0, 0 };
	if (g->ooo_cnt && seqno_gt(g->recent.from, g->rcv_nxt))
		mg_fill_sack(g, h, mg_grow(g, g->ooo[g->ooo_cnt - 1]));
	for (int i = g->ooo_cnt - 1; i >= 0; i--)
		mg_fill_sack(g, h, mg_grow(g, g->ooo[i]));
}

static void mg_fill(struct mg *g, struct world_seg *s, uint8_t flags, uint32_t seq)
{
	s->h = (struct wire_tcp){ .seq = g->isn + seq, .flags = flags };
	s->len = 0;
	if (flags & WIRE_TCP_ACK)
		s->h.ack = g->iss + g->rcv_nxt;
	if (flags & WIRE_TCP_SYN) {
		s->h.has_mss = g->mss_opt;
		s->h.mss = g->mss_opt;
		s->h.has_ws = g->has_ws;
		s->h.ws = g->ws;
		s->h.wnd = (uint16_t)BYTES_MIN(g->rbuf, 65535u);
		if (seqno_gt(g->rcv_nxt + s->h.wnd, g->adv_edge))
			g->adv_edge = (g->syn_seen ? g->rcv_nxt : 1) + s->h.wnd;
	} else {
		s->h.wnd = mg_window(g);
	}
	if (flags & WIRE_TCP_SYN) {
		s->h.has_sack_ok = g->syn_seen ? g->sack_on : g->has_sack;
		s->h.has_ts = g->syn_seen ? g->ts_on : g->has_ts;
	} else {
		s->h.has_ts = g->ts_on;
	}
	s->h.ts_val = g->ts_off + (uint32_t)(g->now / NS_MS);
	if (flags & WIRE_TCP_ACK) {
		s->h.ts_ecr = g->ts_recent;
		g->acked = g->rcv_nxt;
		g->ack_now = false;
		if (g->sack_on && !(flags & WIRE_TCP_SYN))
			mg_fill_sacks(g, &s->h);
	}
}

/* Bytes of its stream from SEQ, and its FIN if that is said */
static void mg_data(struct mg *g, struct world_seg *s, uint8_t *data, const struct mg_range *r, uint8_t flags)
{
	mg_fill(g, s, flags, r->from);
	for (uint32_t i = 0; i < r->to - r->from; i++)
		data[i] = world_byte(false, r->from - 1 + i);
	s->data = data;
	s->len = r->to - r->from;
	if (g->timers && (g->rto_at == NS_NEVER || g->rto_at <= g->now))
		g->rto_at = g->now + g->rto;
}

bool mg_send(struct mg *g, struct world_seg *s, uint8_t *data, ns_t now)
{
	struct mg_range hole;

	uint32_t fin_at = g->send_total + 1, left;
	uint8_t flags = WIRE_TCP_ACK;

	g->now = now;
	if (g->reset || (!g->active && !g->syn_seen))
		return false;
	if (g->recovering && g->sack_on && mg_hole(g, &hole)) {
		hole.to = BYTES_MIN(hole.to, hole.from + g->seg_max);
		g->hole_next = hole.to;
		mg_data(g, s, data, &hole, flags);
		return true;
	}
	if (g->nxt == 0) {
		mg_fill(g, s, WIRE_TCP_SYN | (g->syn_seen ? WIRE_TCP_ACK : 0), 0);
		g->nxt = 1;
		g->max = BYTES_MAX(g->max, 1u);
		if (g->timers && (g->rto_at == NS_NEVER || g->rto_at <= now))
			g->rto_at = now + g->rto;
		return true;
	}
	left = seqno_gt(g->edge, g->nxt) ? g->edge - g->nxt : 0;
	if (g->una && g->syn_seen && (left || (g->nxt == g->una && g->rto_at <= now)) && g->nxt <= fin_at) {
		uint32_t n = BYTES_MIN(BYTES_MIN(fin_at - g->nxt, g->seg_max), BYTES_MAX(left, 1u));

		if (g->nxt + n == fin_at && (n < left || !n))
			flags |= WIRE_TCP_FIN;
		hole = (struct mg_range){ g->nxt, g->nxt + n };
		mg_data(g, s, data, &hole, flags);
		g->nxt += n + !!(flags & WIRE_TCP_FIN);
		if (seqno_gt(g->nxt, g->max))
			g->max = g->nxt;
		return true;
	}
	/* shut out by a closed window: probe by time */
	if (g->timers && g->una && g->nxt <= fin_at && g->rto_at == NS_NEVER)
		g->rto_at = now + g->rto;
	if (!g->ack_now || !g->syn_seen)
		return false;
	mg_fill(g, s, flags, g->nxt);
	return true;
}

void mg_timer(struct mg *g, ns_t now)
{
	g->rto = BYTES_MIN(g->rto * 2, 10 * NS_S);
	g->dupacks = 0;
	g->recovering = false;
	g->sacked_cnt = 0;		/* we may have given up what we reported */
	if (mg_sent_all(g)) {
		g->rto_at = NS_NEVER;
		return;
	}
	/* and rto_at stays due: mg_send() sends at least one byte, into a closed window too */
	g->nxt = g->una;
	if (!g->active && !g->syn_seen)
		g->rto_at = now + g->rto;
}
