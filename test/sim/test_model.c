/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random conversations of a model guest and a model peer through the real
 * path: segments lost, doubled, late, in another order; sends that take a part;
 * sockets full for a while; a link that refuses. Checked: both streams arrive
 * as sent, nothing is acknowledged that the kernel did not take or reported that
 * did not come, no byte leaves the window, its edge never moves left, timestamps
 * neither go back nor are made up, something is armed while anything is to come,
 * the end is reached, and the pool, which is small in half of the cases, has all
 * its blocks again.
 *
 * Half of the cases are clean: nothing is lost, and the guest has no timers at
 * all. Then every wake-up must come from us, nothing may be sent twice, and the
 * window must be honest: the kernel takes all that was offered.
 *
 * SIM_SEED=n plays one case, with its trace. SIM_BASE, SIM_CASES: others, more;
 * SIM_EVENTS: so many segments, timers and socket events instead of cases.
 */
#include "../../src/proto/tcp/tcp_priv.h"
#include "model_guest.h"

#define PKT_MAX		2000
#define TIME_MAX	(4000 * NS_S)
#define STEPS_MAX	400000

struct pkt {
	ns_t at;
	struct world_seg s;
};

struct queue {
	struct pkt p[PKT_MAX];
	int cnt;
	ns_t last;			/* arrival of the last one, to keep order */
};

struct model {
	struct world w;
	struct rng rng;
	struct mg g;
	struct queue to_guest, to_us;
	uint64_t seed;
	bool clean, verbose;
	unsigned loss, dup, reorder, refuse, partial, renege;	/* per thousand */
	ns_t delay, peer_pause, app_pause;
	struct flow_key key;
	ns_t start;
	int h;
	uint32_t peer_total, peer_sent, peer_chunk;
	bool peer_fin;
	ns_t peer_at, app_at, link_ok_at;
	uint32_t ev_mask;		/* events to deliver */
	ns_t ev_at;
	bool edge_known;
	uint32_t edge;
	bool ts_known;
	uint32_t ts_val, ts_ecr;	/* of what we sent last */
	uint8_t *arrived;		/* by offset: bytes of the guest's stream that reached us */
	uint64_t events;
	char why[300];
};

static unsigned below(struct model *m, unsigned n)
{
	return n ? rng_below(&m->rng, n) : 0;
}

static bool chance(struct model *m, unsigned per_thousand)
{
	return below(m, 1000) < per_thousand;
}

static bool model_bad(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool model_bad(struct model *m, const char *fmt, ...)
{
	va_list ap;

	if (!m->why[0]) {
		va_start(ap, fmt);
		vsnprintf(m->why, sizeof(m->why), fmt, ap);
		va_end(ap);
	}
	return false;
}

static struct fake_sk_sock *sock(struct model *m)
{
	return m->h < 0 ? NULL : &m->w.sk.s[m->h];
}

static void enqueue(struct model *m, struct queue *q, const struct world_seg *s)
{
	int copies = 1 + (chance(m, m->dup) ? 1 : 0);

	for (int i = 0; i < copies; i++) {
		struct pkt *p = &q->p[q->cnt];
		uint8_t *data;

		if (chance(m, m->loss) || q->cnt == PKT_MAX)
			continue;
		data = malloc(s->len ? s->len : 1);
		world_check_alloc(data);
		if (s->len)
			memcpy(data, s->data, s->len);
		*p = (struct pkt){ .at = m->w.env.now + (ns_t)below(m, (unsigned)m->delay + 1), .s = *s };
		p->s.data = data;
		if (chance(m, m->reorder))
			p->at += (ns_t)below(m, 20000000);
		else
			q->last = p->at = BYTES_MAX(p->at, q->last);
		q->cnt++;
	}
}

static ns_t queue_next(const struct queue *q)
{
	ns_t at = NS_NEVER;

	for (int i = 0; i < q->cnt; i++)
		at = BYTES_MIN(at, q->p[i].at);
	return at;
}

/* The earliest that is due, in order of queueing among equals */
static bool dequeue(struct queue *q, ns_t now, struct pkt *ret)
{
	int best = -1;

	for (int i = 0; i < q->cnt; i++)
		if (q->p[i].at <= now && (best < 0 || q->p[i].at < q->p[best].at))
			best = i;
	if (best < 0)
		return false;
	*ret = q->p[best];
	memmove(&q->p[best], &q->p[best + 1], (size_t)(q->cnt - best - 1) * sizeof(*ret));
	q->cnt--;
	return true;
}

static void say(const struct model *m, const char *who, const struct world_seg *s)
{
	char flags[12];

	if (m->verbose)
		fprintf(stderr, "%12.6f %s %s seq %u ack %u len %u win %u\n", (double)(m->w.env.now - m->start) / 1e6, who,
			world_flags(s->h.flags, flags), s->h.seq - (*who == 'g' ? m->g.isn : m->g.iss),
			s->h.flags & WIRE_TCP_ACK ? s->h.ack - (*who == 'g' ? m->g.iss : m->g.isn) : 0, s->len, s->h.wnd);
}

static bool check_options(struct model *m, const struct world_seg *s)
{
	for (int i = 0; i < s->h.sack_cnt; i++) {
		uint32_t from = s->h.sack[i].from - m->g.isn, to = s->h.sack[i].to - m->g.isn;

		if (from >= to || to > m->g.send_total + 2)
			return model_bad(m, "reported %u to %u", from, to);
		for (uint32_t at = from; at < to; at++)
			if (!m->arrived[at])
				return model_bad(m, "reported %u to %u, but %u did not come", from, to, at);
	}
	if (!s->h.has_ts)
		return true;
	if (m->ts_known && !(s->h.flags & WIRE_TCP_SYN) && (seqno_lt(s->h.ts_val, m->ts_val) || seqno_lt(s->h.ts_ecr, m->ts_ecr)))
		return model_bad(m, "a timestamp went back: %u after %u, echo %u after %u", s->h.ts_val, m->ts_val, s->h.ts_ecr,
				 m->ts_ecr);
	if (seqno_gt(s->h.ts_ecr, m->g.ts_off + (uint32_t)(m->w.env.now / NS_MS)))
		return model_bad(m, "echo %u of a timestamp that never was", s->h.ts_ecr);
	m->ts_known = true;
	m->ts_val = s->h.ts_val;
	m->ts_ecr = s->h.ts_ecr;
	return true;
}

/* What we send is true at the moment that we send it */
static bool check_ours(struct model *m, const struct world_seg *s)
{
	const struct fake_sk_sock *k = sock(m);
	bool syn = s->h.flags & WIRE_TCP_SYN;
	uint32_t edge, ack = s->h.ack - m->g.isn - 1;

	if (!(s->h.flags & WIRE_TCP_ACK) || s->h.flags & WIRE_TCP_RST)
		return true;
	if (!check_options(m, s))
		return false;
	if (k && ack > k->tx.len + !!k->shuts)
		return model_bad(m, "acknowledged %u bytes, the kernel took %u", ack, k->tx.len);
	edge = s->h.ack + (syn ? s->h.wnd : (uint32_t)s->h.wnd << (m->g.has_ws ? 8 : 0));
	if (s->h.wnd || syn) {		/* to nothing it may shrink: the kernel refused something */
		if (m->edge_known && seqno_lt(edge, m->edge))
			return model_bad(m, "right edge moved left by %u", m->edge - edge);
		m->edge = edge;
		m->edge_known = true;
	}
	/* a window of 0 may mean that the guest dropped what it had offered to take (TCP-55) */
	if (m->clean && !m->g.was_shut && m->g.syn_seen && s->len && seqno_lt(s->h.seq - m->g.iss, m->g.our_max) && !m->to_guest.cnt)
		return model_bad(m, "sent twice from %u", s->h.seq - m->g.iss);
	return true;
}

/* Clean: so large that a writable socket takes a super-frame, as Linux's do */
static uint32_t sndbuf_of(struct model *m)
{
	return (m->clean ? 200000 : 10000) + below(m, 400000);
}

/* Frames that the path made */
static bool collect(struct model *m)
{
	struct world_seg s;
	int r;

	while ((r = world_next(&m->w, &s)) > 0) {
		say(m, "us   ", &s);
		m->events++;
		if (!check_ours(m, &s))
			return false;
		enqueue(m, &m->to_guest, &s);
	}
	if (r < 0)
		return model_bad(m, "bad frame: %s", m->w.why);
	world_forget(&m->w);
	if (m->h < 0) {
		struct flow *f = flow_find(&m->w.flows, &m->key);

		m->h = f ? f->h : -1;
		if (m->h >= 0)
			m->w.sk.s[m->h].sndbuf = sndbuf_of(m);
		if (m->h >= 0 && m->g.active) {
			m->ev_mask |= EV_OUT;
			m->ev_at = m->w.env.now + (ns_t)below(m, 3000000);
		}
	}
	return true;
}

static void event(struct model *m, uint32_t mask)
{
	if (!m->ev_mask)
		m->ev_at = m->w.env.now + (ns_t)below(m, 200000);
	m->ev_mask |= mask;
}

/* The kernel reports room once it was asked to and has some */
static void kernel_room(struct model *m)
{
	struct fake_sk_sock *k = sock(m);

	if (k && k->open && k->armed && fake_sk_room_now(k).writable) {
		k->armed = false;
		event(m, EV_OUT);
	}
}

static void peer_turn(struct model *m)
{
	struct fake_sk_sock *k = sock(m);
	uint32_t n;

	m->peer_at = m->w.env.now + (ns_t)below(m, (unsigned)m->peer_pause) + 1;
	if (!k || !k->open || k->result)
		return;
	n = below(m, m->peer_chunk * 2 + m->g.send_total / 200);
	k->drained += BYTES_MIN(k->tx.len - k->drained, n);
	n = below(m, m->peer_chunk);
	n = BYTES_MIN(m->peer_total - m->peer_sent, n);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t b = world_byte(true, m->peer_sent++);

		fake_sk_feed(&m->w.sk, m->h, &b, 1);
	}
	if (n)
		event(m, EV_IN);
	if (m->peer_sent == m->peer_total && !m->peer_fin) {
		m->peer_fin = k->eof = true;
		event(m, EV_IN | EV_RDHUP);
	}
	k->take = chance(m, m->partial) ? below(m, 5000) : FAKE_SK_ANY;
}

static bool peer_busy(struct model *m)
{
	const struct fake_sk_sock *k = sock(m);

	return k && k->open && (!m->peer_fin || k->drained < k->tx.len || k->take != FAKE_SK_ANY || k->result);
}

static void guest_sends(struct model *m)
{
	static uint8_t data[65536];
	struct world_seg s = { .key = m->key };

	for (int i = 0; i < 100 && mg_send(&m->g, &s, data, m->w.env.now); i++) {
		s.h.sport = m->key.guest_port;
		s.h.dport = m->key.far_port;
		say(m, "guest", &s);
		enqueue(m, &m->to_us, &s);
	}
}

static void deliver_ours(struct model *m)
{
	struct pkt p;

	while (dequeue(&m->to_guest, m->w.env.now, &p)) {
		mg_take(&m->g, &p.s, m->w.env.now);
		if (m->renege && chance(m, m->renege))
			mg_renege(&m->g);
		free((void *)p.s.data);
	}
}

static void deliver_theirs(struct model *m)
{
	struct pkt p;

	while (m->w.batch_cnt < L2_BATCH && dequeue(&m->to_us, m->w.env.now, &p)) {
		m->events++;
		if (p.s.len)
			memset(m->arrived + (p.s.h.seq - m->g.isn), 1, p.s.len);
		world_batch(&m->w, &p.s);
		free((void *)p.s.data);
	}
	if (m->w.batch_cnt)
		world_deliver(&m->w);
}

static ns_t next_at(struct model *m)
{
	ns_t at = BYTES_MIN(queue_next(&m->to_guest), queue_next(&m->to_us));

	at = BYTES_MIN(at, path_next(&m->w.path));
	at = BYTES_MIN(at, m->g.rto_at);
	at = BYTES_MIN(at, m->link_ok_at);
	if (peer_busy(m))
		at = BYTES_MIN(at, m->peer_at);
	if (m->g.syn_seen && m->g.rcv_nxt - 1 - m->g.fin_seen > m->g.read)
		at = BYTES_MIN(at, m->app_at);
	if (m->ev_mask)
		at = BYTES_MIN(at, m->ev_at);
	return at;
}

static void step(struct model *m)
{
	struct fake_sk_sock *k = sock(m);
	ns_t now = m->w.env.now;

	if (m->link_ok_at <= now) {
		fake_l2_refuse_after(&m->w.l2, UINT32_MAX);
		m->link_ok_at = NS_NEVER;
	} else if (chance(m, m->refuse) && m->link_ok_at == NS_NEVER) {
		fake_l2_refuse_after(&m->w.l2, below(m, 4));
		m->link_ok_at = now + (ns_t)below(m, 10000000);
	}
	deliver_ours(m);
	deliver_theirs(m);
	if (peer_busy(m) && m->peer_at <= now)
		peer_turn(m);
	kernel_room(m);
	if (m->app_at <= now) {
		mg_read(&m->g, below(m, m->g.rbuf));
		m->app_at = now + (ns_t)below(m, (unsigned)m->app_pause) + 1;
	}
	if (m->ev_mask && m->ev_at <= now && k) {
		uint32_t mask = m->ev_mask;

		m->ev_mask = 0;
		if (k->result == -EINPROGRESS && mask & EV_OUT)
			k->result = 0;
		m->events++;
		if (k->open && k->watched)
			world_event(&m->w, k->ref, mask);
	}
	if (m->g.rto_at <= now)
		mg_timer(&m->g, now);
	if (path_next(&m->w.path) <= now) {
		m->events++;
		path_tick(&m->w.path);
		world_complete(&m->w);
	}
}

/* Blocks of the pool belong to the flow, or are free */
static bool check_pool(struct model *m)
{
	const struct flow *f = flow_find(&m->w.flows, &m->key);
	const struct tcp *t = f ? (const void *)f->body : NULL;

	if (m->w.pool.used != (t ? t->kept_cnt : 0))
		return model_bad(m, "%u blocks of the pool are used, the flow has %u", m->w.pool.used, t ? t->kept_cnt : 0);
	return true;
}

static bool finished(struct model *m)
{
	const struct fake_sk_sock *k = sock(m);

	return k && !k->open && m->g.fin_seen && (mg_sent_all(&m->g) || m->g.reset);
}

/* Both streams, at the end */
static bool verdict(struct model *m)
{
	const struct fake_sk_sock *k = sock(m);

	if (k->how != SK_END_GRACEFUL)
		return model_bad(m, "the socket was reset");
	if (k->tx.len != m->g.send_total || m->g.rcv_nxt != m->peer_total + 2)
		return model_bad(m, "%u of %u bytes to the peer, %u of %u to the guest", k->tx.len, m->g.send_total,
				 m->g.rcv_nxt - 2, m->peer_total);
	for (uint32_t i = 0; i < k->tx.len; i++)
		if (k->tx.p[i] != world_byte(false, i))
			return model_bad(m, "byte %u to the peer is wrong", i);
	if (k->head != k->rx.len)
		return model_bad(m, "%u bytes were left in the socket: the close is a reset", k->rx.len - k->head);
	if (m->clean && m->w.drops.cnt[DROP_TCP_BUSY])
		return model_bad(m, "the kernel did not take what the window offered");
	fake_l2_refuse_after(&m->w.l2, UINT32_MAX);
	world_advance(&m->w, 10 * NS_S);
	if (m->w.flows.cnt || m->w.pool.used || path_next(&m->w.path) != NS_NEVER)
		return model_bad(m, "something is left when all is over");
	return true;
}

static bool run(struct model *m)
{
	struct tcp_incoming in = { .peer = { .a = m->key.far, .port = m->key.far_port }, .port = m->key.guest_port };

	if (!m->g.active) {
		m->h = fake_sk_accepted(&m->w.sk);
		m->w.sk.s[m->h].sndbuf = sndbuf_of(m);
		tcp_accepted(&m->w.path.p, m->h, &in);
	}
	for (int i = 0; i < STEPS_MAX; i++) {
		ns_t at;

		guest_sends(m);
		if (!collect(m) || !check_pool(m))
			return false;
		if (m->g.why[0])
			return model_bad(m, "guest: %s", m->g.why);
		if (finished(m))
			return verdict(m);
		if (m->g.reset) {
			/* given up for good, or the handshake was, by chance */
			if (!m->clean && m->g.una <= 1)
				return true;
			return model_bad(m, "unexpected reset");
		}
		at = next_at(m);
		if (at == NS_NEVER)
			return model_bad(m, "deadlock: nothing is armed, nothing under way");
		m->w.env.now = BYTES_MAX(at, m->w.env.now);
		if (m->w.env.now - m->start > (m->clean ? 100 * NS_S : TIME_MAX))
			return model_bad(m, "too slow");
		step(m);
	}
	return model_bad(m, "too many steps");
}

static void setup(struct model *m, uint64_t seed)
{
	static const uint16_t mss[] = { 0, 48, 536, 1220, 1460, 9000 };
	struct mg *g = &m->g;
	unsigned size;

	memset(&m->to_guest, 0, sizeof(m->to_guest));
	memset(&m->to_us, 0, sizeof(m->to_us));
	memset(g, 0, sizeof(*g));
	rng_seed(&m->rng, seed);
	m->seed = seed;
	m->clean = below(m, 2);
	m->start = (ns_t)below(m, 4000) * NS_S * 1000;
	world_init(&m->w, below(m, 2), below(m, 2), m->start, 4);
	m->w.pieces = below(m, 2) ? 1 : 1 + below(m, 16);	/* 64 frames of 16 pieces are one send */
	m->w.l2.split = below(m, 2) ? 0 : 1 + below(m, 9000);
	m->key = world_key(&m->w, 40000, 80);
	m->h = -1;
	m->edge_known = m->peer_fin = m->ts_known = false;
	m->peer_sent = m->ev_mask = 0;
	m->why[0] = 0;
	m->loss = m->clean ? 0 : below(m, 150);
	m->dup = m->clean ? 0 : below(m, 100);
	m->reorder = m->clean ? 0 : below(m, 200);
	m->refuse = m->clean ? 0 : below(m, 50);
	m->partial = m->clean ? 0 : below(m, 300);
	m->renege = m->clean || below(m, 4) ? 0 : below(m, 20);
	if (below(m, 2))
		world_pool(&m->w, below(m, 8));
	m->delay = (ns_t)below(m, 3000000);
	m->peer_pause = 1 + (ns_t)below(m, 5000000);
	m->app_pause = 1 + (ns_t)below(m, 5000000);
	size = 1u << below(m, chance(m, 50) ? 22 : 18);
	m->peer_total = below(m, 4) ? below(m, size) : 0;
	m->peer_chunk = 2 + below(m, 1u << below(m, 18));
	m->peer_chunk += m->peer_total / 500;
	m->peer_at = m->app_at = m->start;
	m->link_ok_at = NS_NEVER;
	g->active = below(m, 2);
	g->timers = !m->clean;
	g->has_ws = below(m, 4);
	g->ws = (uint8_t)below(m, 10);
	g->has_sack = below(m, 2);
	g->keep_ooo = g->has_sack || below(m, 2);
	g->has_ts = below(m, 2);
	g->dsack = below(m, 2);
	g->ts_off = (uint32_t)rng_u64(&m->rng);
	g->mss_opt = mss[below(m, 6)];
	g->seg_max = below(m, 2) ? 1400 : 1 + below(m, 60000);
	g->rbuf = 1024 + below(m, below(m, 2) ? 20000 : 500000);
	g->rbuf += 8u << g->ws;
	g->send_total = below(m, 4) ? below(m, 1u << below(m, chance(m, 50) ? 22 : 18)) : 0;
	g->seg_max += g->send_total / 500;
	g->isn = (uint32_t)rng_u64(&m->rng);
	m->arrived = calloc(1, g->send_total + 3);
	world_check_alloc(m->arrived);
	mg_start(g);
}

static bool play(struct model *m, uint64_t seed)
{
	bool ok;

	setup(m, seed);
	ok = run(m);
	if (!ok || m->verbose)
		fprintf(stderr, "test_model: case %llu (%s, %s, %s, %s opens%s%s): %s after %.3f ms\n", (unsigned long long)seed,
			m->clean ? "clean" : "lossy", m->w.v6 ? "IPv6" : "IPv4", m->w.sk.deferred ? "deferred" : "inline",
			m->g.active ? "guest" : "host", m->g.sack_on ? ", SACK" : "", m->g.ts_on ? ", timestamps" : "", ok ? "ok" : m->why, (double)(m->w.env.now - m->start) / 1e6);
	if (!ok) {
		const struct mg *g = &m->g;

		world_dump(&m->w, m->start);
		fprintf(stderr, "    guest: sent %u of %u, acknowledged %u, window to %u; received %u, read %u, offered to %u\n"
			"    again, with all segments: SIM_SEED=%llu\n", g->max, g->send_total, g->una, g->edge, g->rcv_nxt,
			g->read, g->adv_edge, (unsigned long long)seed);
	}
	for (int i = 0; i < m->to_guest.cnt; i++)
		free((void *)m->to_guest.p[i].s.data);
	for (int i = 0; i < m->to_us.cnt; i++)
		free((void *)m->to_us.p[i].s.data);
	world_done(&m->w);
	free(m->arrived);
	return ok;
}

int main(void)
{
	static struct model m;
	const char *seed = getenv("SIM_SEED"), *base = getenv("SIM_BASE"), *cases = getenv("SIM_CASES"), *events = getenv("SIM_EVENTS");
	uint64_t from = base ? strtoull(base, NULL, 0) : 1, n = cases ? strtoull(cases, NULL, 0) : 4000, failed = 0;
	uint64_t enough = events ? strtoull(events, NULL, 0) : UINT64_MAX, i;

	if (seed) {
		m.verbose = true;
		return play(&m, strtoull(seed, NULL, 0)) ? 0 : 1;
	}
	for (i = 0; (events ? m.events < enough : i < n) && failed < 10; i++)
		failed += !play(&m, from + i);
	printf("sim: %llu random conversations, %llu events, %llu failed\n", (unsigned long long)i, (unsigned long long)m.events,
	       (unsigned long long)failed);
	return failed ? 1 : 0;
}
