/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guest of the model test. As simple as a correct TCP can be: all from
 * una again on a timeout or three equal ACKs, an ACK for each segment that
 * has something. RFC 9293, RFC 5681.
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

static void mg_take_ack(struct mg *g, const struct world_seg *s, ns_t now)
{
	uint32_t ack = s->h.ack - g->isn, wnd = s->h.flags & WIRE_TCP_SYN ? s->h.wnd : (uint32_t)s->h.wnd << g->ws_ours;

	if (seqno_gt(ack, g->max)) {
		mg_bad(g, "ACK %u of what was never sent (%u)", ack, g->max);
		return;
	}
	if (seqno_gt(ack + wnd, g->edge))
		g->edge = ack + wnd;
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
		g->recovering = true;
		g->recover = g->max;
		g->nxt = g->una;
	}
	g->last_wnd = wnd;
}

static void mg_take_ooo(struct mg *g, uint32_t from, uint32_t to)
{
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
	if (seqno_gt(to, g->rcv_nxt))
		g->rcv_nxt = to;
	mg_drain_ooo(g);
	if (fin && g->rcv_nxt == to) {
		g->fin_seen = true;
		g->rcv_nxt++;
	}
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
			if (flags & WIRE_TCP_ACK)
				g->ws_ours = g->has_ws && s->h.has_ws ? s->h.ws : 0;
			else if (g->has_ws && s->h.has_ws)
				g->ws_ours = s->h.ws;
			if (flags & WIRE_TCP_ACK && s->h.has_ws && !g->has_ws)
				mg_bad(g, "window scale in SYN,ACK, not asked for");
		}
		g->ack_now = true;
	} else if (!g->syn_seen) {
		return;
	}
	if (flags & WIRE_TCP_ACK)
		mg_take_ack(g, s, now);
	if (s->len || flags & WIRE_TCP_FIN)
		mg_take_data(g, s);
	else if (s->h.seq != g->iss + g->rcv_nxt && !(flags & WIRE_TCP_SYN))
		g->ack_now = true;	/* a window probe */
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
	if (flags & WIRE_TCP_ACK)
		g->ack_now = false;
}

bool mg_send(struct mg *g, struct world_seg *s, uint8_t *data, ns_t now)
{
	uint32_t fin_at = g->send_total + 1, left;
	uint8_t flags = WIRE_TCP_ACK;

	if (g->reset || (!g->active && !g->syn_seen))
		return false;
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
		mg_fill(g, s, flags, g->nxt);
		for (uint32_t i = 0; i < n; i++)
			data[i] = world_byte(false, g->nxt - 1 + i);
		s->data = data;
		s->len = n;
		g->nxt += n + !!(flags & WIRE_TCP_FIN);
		if (seqno_gt(g->nxt, g->max))
			g->max = g->nxt;
		if (g->timers && (g->rto_at == NS_NEVER || g->rto_at <= now))
			g->rto_at = now + g->rto;
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
	if (mg_sent_all(g)) {
		g->rto_at = NS_NEVER;
		return;
	}
	/* and rto_at stays due: mg_send() sends at least one byte, into a closed window too */
	g->nxt = g->una;
	if (!g->active && !g->syn_seen)
		g->rto_at = now + g->rto;
}
