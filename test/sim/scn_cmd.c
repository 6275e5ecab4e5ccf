/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands of scenario files: what the guest sends, what we expect of the
 * product, what counts afterwards. Keeps for each connection what both sides
 * have sent, so that files may leave numbers out. Checks in each frame what no
 * scenario needs to say: payload by its place in the stream, and the right edge
 * of the window, which never moves left.
 */
#include <ctype.h>

#include "scn.h"

static uint8_t scn_flags(struct scn *s, const char *text)
{
	static const char letter[] = "FSRP.UEW";
	uint8_t flags = 0;

	for (; *text; text++) {
		const char *l = strchr(letter, *text);

		if (!l)
			scn_fail(s, "'%c' is no flag", *text);
		flags |= (uint8_t)(1 << (l - letter));
	}
	return flags;
}

static bool scn_ts_on(const struct scn_conn *c)
{
	return c->guest_offers_ts && c->we_offer_ts;
}

/* The guest's clock */
static uint32_t scn_guest_ts(const struct scn *s)
{
	return 1000 + (uint32_t)((s->w.env.now - s->start) / NS_MS);
}

/* FROM:TO with numbers relative to BASE */
static void scn_block(struct scn *s, char *text, uint32_t base, uint32_t *ret_from, uint32_t *ret_to)
{
	char *colon = strchr(text, ':');

	if (!colon)
		scn_fail(s, "'%s': a block is FROM:TO", text);
	*colon = 0;
	*ret_from = base + scn_num(s, text);
	*ret_to = base + scn_num(s, colon + 1);
	*colon = ':';
}

/* sack FROM:TO FROM:TO ... */
static void scn_guest_sack(struct scn *s, char *text, struct wire_tcp *h)
{
	char *save, *block;

	for (block = strtok_r(text, " ", &save); block; block = strtok_r(NULL, " ", &save)) {
		if (h->sack_cnt == WIRE_TCP_SACK_MAX)
			scn_fail(s, "a segment has at most %d blocks", WIRE_TCP_SACK_MAX);
		scn_block(s, block, s->c->iss, &h->sack[h->sack_cnt].from, &h->sack[h->sack_cnt].to);
		h->sack_cnt++;
	}
}

/* ts [VALUE [ECHO]] */
static void scn_guest_ts_opt(struct scn *s, char *arg, struct wire_tcp *h)
{
	char *echo = arg ? strchr(arg + 1, ' ') : NULL;

	h->has_ts = true;
	h->ts_val = scn_guest_ts(s);
	if (echo) {
		*echo = 0;
		h->ts_ecr = s->c->ts_base + scn_num(s, echo + 1);
	}
	if (arg)
		h->ts_val = scn_num(s, arg + 1);
}

/* <mss 1460,ws 7,sackok> */
static void scn_options(struct scn *s, char *text, struct wire_tcp *h)
{
	char *save, *opt;

	for (opt = strtok_r(text, "<,>", &save); opt; opt = strtok_r(NULL, "<,>", &save)) {
		char *arg = strchr(opt, ' ');
		unsigned n = arg ? (unsigned)strtoul(arg, NULL, 0) : 0;

		if (arg && !strncmp(opt, "mss ", 4)) {
			h->has_mss = true;
			h->mss = (uint16_t)n;
		} else if (arg && !strncmp(opt, "ws ", 3)) {
			h->has_ws = true;
			h->ws = (uint8_t)n;
		} else if (!strcmp(opt, "sackok")) {
			h->has_sack_ok = true;
		} else if (!strcmp(opt, "nots")) {
			h->has_ts = false;
		} else if (arg ? !strncmp(opt, "ts ", 3) : !strcmp(opt, "ts")) {
			scn_guest_ts_opt(s, arg, h);
		} else if (arg && !strncmp(opt, "sack ", 5)) {
			scn_guest_sack(s, arg + 1, h);
		} else {
			scn_fail(s, "'%s' is no option", opt);
		}
	}
}

/* What the SYN of either side settles */
static void scn_saw_guest_syn(struct scn *s, const struct wire_tcp *h)
{
	uint32_t dfl = s->w.v6 ? 1220 : 536, most = s->w.l2.l2.mtu - (s->w.v6 ? 60 : 40), mss = h->has_mss ? h->mss : dfl;

	s->c->guest_ws = h->has_ws;
	s->c->ws_ours = h->has_ws ? 8 : 0;
	s->c->mss = BYTES_MIN(BYTES_MAX(mss, 48), most);
	s->c->guest_offers_ts = h->has_ts;
	s->c->guest_offers_sack = h->has_sack_ok;
	if (h->has_ts)
		s->c->mss -= 12;
}

static void scn_flush(struct scn *s)
{
	scn_quiet(s);
	world_forget(&s->w);
	world_deliver(&s->w);
}

static void cmd_guest(struct scn *s)
{
	static uint8_t data[65536];
	struct scn_conn *c = s->c;
	struct world_seg g = { .key = world_key(&s->w, c->guest_port, 80) };
	uint32_t seq = c->guest_nxt, ack = c->our_nxt;
	uint16_t far_port = 80;

	g.h.flags = scn_flags(s, scn_next(s));
	g.h.wnd = 1000;
	if (g.h.flags & WIRE_TCP_SYN)
		g.h.has_sack_ok = s->mode & SCN_OPT_SACK;
	g.h.has_ts = g.h.flags & WIRE_TCP_SYN ? s->mode & SCN_OPT_TS : scn_ts_on(c);
	g.h.ts_val = scn_guest_ts(s);
	g.h.ts_ecr = g.h.flags & WIRE_TCP_ACK ? c->ts_recent : 0;
	while (scn_more(s)) {
		char *what = scn_next(s);

		if (*what == '<')
			scn_options(s, what, &g.h);
		else if (!strcmp(what, "seq"))
			seq = scn_num(s, scn_next(s));
		else if (!strcmp(what, "ack"))
			ack = scn_num(s, scn_next(s));
		else if (!strcmp(what, "win"))
			g.h.wnd = (uint16_t)scn_num(s, scn_next(s));
		else if (!strcmp(what, "len"))
			g.len = scn_num(s, scn_next(s));
		else if (!strcmp(what, "tos"))
			g.tos = (uint8_t)scn_num(s, scn_next(s));
		else if (!strcmp(what, "urg"))
			g.h.urg = (uint16_t)scn_num(s, scn_next(s));
		else if (!strcmp(what, "port"))
			far_port = (uint16_t)scn_num(s, scn_next(s));
		else
			scn_fail(s, "'%s' is not understood", what);
	}
	if (g.len > sizeof(data) - 60)
		scn_fail(s, "%u bytes don't fit a frame", g.len);
	g.key.far_port = far_port;
	g.h.sport = c->guest_port;
	g.h.dport = far_port;
	g.h.seq = c->guest_isn + seq;
	g.h.ack = g.h.flags & WIRE_TCP_ACK ? c->iss + ack : 0;
	for (uint32_t i = 0; i < g.len; i++)
		data[i] = world_byte(false, seq - 1 + i);
	g.data = data;
	if (g.h.flags & WIRE_TCP_SYN)
		scn_saw_guest_syn(s, &g.h);
	if (g.h.flags & WIRE_TCP_ACK && seqno_gt(ack, c->guest_acked))
		c->guest_acked = ack;
	seq += g.len + !!(g.h.flags & WIRE_TCP_SYN) + !!(g.h.flags & WIRE_TCP_FIN);
	if (seqno_gt(seq, c->guest_nxt))
		c->guest_nxt = seq;
	if (!world_batch(&s->w, &g))
		scn_fail(s, "a batch has %d frames at most", L2_BATCH);
	if (!s->in_batch)
		scn_flush(s);
}

static void cmd_batch(struct scn *s)
{
	if (s->in_batch)
		scn_fail(s, "batch inside of a batch");
	s->in_batch = true;
}

static void cmd_end(struct scn *s)
{
	if (!s->in_batch)
		scn_fail(s, "end without batch");
	s->in_batch = false;
	scn_flush(s);
}

static void scn_describe(const struct scn *s, const struct world_seg *f, char *buf, size_t size)
{
	const struct scn_conn *c = s->c;
	char flags[12];

	snprintf(buf, size, "%s seq %u ack %u len %u win %u (raw %u)%s%s", world_flags(f->h.flags, flags),
		 f->h.seq - c->iss, f->h.flags & WIRE_TCP_ACK ? f->h.ack - c->guest_isn : 0, f->len,
		 f->h.flags & WIRE_TCP_SYN ? f->h.wnd : f->h.wnd << c->ws_ours, f->h.wnd, f->gso_size ? " gso" : "",
		 f->key.guest_port == c->guest_port ? "" : " (other connection)");
}

/* Timestamps are in every segment or in none (RFC 7323 3.2), SACK blocks only where agreed on and never of what is acknowledged */
static void scn_check_options(struct scn *s, const struct world_seg *f)
{
	struct scn_conn *c = s->c;

	if (f->h.flags & WIRE_TCP_SYN) {
		c->we_offer_ts = f->h.has_ts;
		c->we_offer_sack = f->h.has_sack_ok;
		if (f->h.flags & WIRE_TCP_ACK && (f->h.has_ts != c->guest_offers_ts || f->h.has_sack_ok != c->guest_offers_sack))
			scn_fail(s, "SYN,ACK has timestamps %d, SACK %d", f->h.has_ts, f->h.has_sack_ok);
	} else if (f->h.has_ts != scn_ts_on(c)) {
		scn_fail(s, "timestamps: %d", f->h.has_ts);
	}
	if (f->h.sack_cnt && !(c->guest_offers_sack && c->we_offer_sack))
		scn_fail(s, "SACK blocks, though nobody agreed on them");
	/* the first may be what came twice (RFC 2883) */
	for (int i = f->h.sack_cnt && seqno_le(f->h.sack[0].to, f->h.ack); i < f->h.sack_cnt; i++)
		if (seqno_le(f->h.sack[i].from, f->h.ack) || seqno_le(f->h.sack[i].to, f->h.sack[i].from) ||
		    seqno_gt(f->h.sack[i].to, c->guest_isn + c->guest_nxt))
			scn_fail(s, "a wrong SACK block: %u to %u", f->h.sack[i].from - c->guest_isn, f->h.sack[i].to - c->guest_isn);
	if (!f->h.has_ts)
		return;
	if (!c->ts_seen) {
		c->ts_seen = true;
		c->ts_base = f->h.ts_val;
	}
	if (seqno_le(f->h.seq - c->iss, c->guest_acked) || f->h.flags & WIRE_TCP_SYN)
		c->ts_recent = f->h.ts_val;
}

/* Things that hold for any frame */
static void scn_check(struct scn *s, const struct world_seg *f)
{
	struct scn_conn *c = s->c;
	bool syn = f->h.flags & WIRE_TCP_SYN;
	uint32_t end, edge;

	if (f->key.guest_port != c->guest_port)
		return;
	if (syn && !c->iss_known) {
		c->iss = f->h.seq;
		c->iss_known = true;
	}
	if (f->h.flags & WIRE_TCP_RST)
		return;
	scn_check_options(s, f);
	if (syn && f->h.seq != c->iss)
		scn_fail(s, "our SYN has another sequence number now: %u more", f->h.seq - c->iss);
	for (uint32_t i = 0; i < f->len; i++)
		if (f->data[i] != world_byte(true, f->h.seq - c->iss - 1 + i))
			scn_fail(s, "byte %u of the payload is not that of the stream", i);
	end = f->h.seq - c->iss + f->len + syn + !!(f->h.flags & WIRE_TCP_FIN);
	if (seqno_gt(end, c->our_nxt))
		c->our_nxt = end;
	if (!(f->h.flags & WIRE_TCP_ACK) || (!f->h.wnd && !syn))	/* to nothing it may shrink */
		return;
	edge = f->h.ack + (syn ? f->h.wnd : (uint32_t)f->h.wnd << c->ws_ours);
	if (c->edge_known && seqno_lt(edge, c->edge))
		scn_fail(s, "the right edge of the window moved left by %u", c->edge - edge);
	c->edge = edge;
	c->edge_known = true;
}

static void scn_want(struct scn *s, const struct world_seg *f, const char *what, uint32_t got, const char *text)
{
	char seen[200];
	bool least = *text == '>';
	uint32_t want = scn_num(s, text + least);

	if (least ? got >= want : got == want)
		return;
	scn_describe(s, f, seen, sizeof(seen));
	scn_fail(s, "%s is %u, not %s%u: %s", what, got, least ? "at least " : "", want, seen);
}

/* sack none, or FROM:TO,FROM:TO in this order */
static void scn_want_sack(struct scn *s, const struct world_seg *f, char *text)
{
	char seen[200], *save, *block;
	int n = 0;

	scn_describe(s, f, seen, sizeof(seen));
	if (!strcmp(text, "none"))
		text += 4;
	for (block = strtok_r(text, ",", &save); block; block = strtok_r(NULL, ",", &save), n++) {
		uint32_t from, to;

		scn_block(s, block, s->c->guest_isn, &from, &to);
		if (n >= f->h.sack_cnt || f->h.sack[n].from != from || f->h.sack[n].to != to)
			scn_fail(s, "SACK block %d is not %s: %s", n + 1, block, seen);
	}
	if (n != f->h.sack_cnt)
		scn_fail(s, "%u SACK blocks, not %d: %s", f->h.sack_cnt, n, seen);
}

static void scn_take_frame(struct scn *s, struct world_seg *f)
{
	int r = world_next(&s->w, f);

	if (r < 0)
		scn_fail(s, "%s", s->w.why);
	if (!r)
		scn_fail(s, "no frame came");
	scn_check(s, f);
}

static void cmd_expect(struct scn *s)
{
	struct world_seg f;
	char *flags = scn_next(s), seen[200];

	if (!strcmp(flags, "none")) {
		scn_quiet(s);
		return;
	}
	do
		scn_take_frame(s, &f);
	while (!strcmp(s->tok[s->at - 2], "expect-last") && s->w.read < s->w.l2.cnt);
	scn_describe(s, &f, seen, sizeof(seen));
	if (f.key.guest_port != s->c->guest_port)
		scn_fail(s, "a frame of another connection: %s", seen);
	if (strcmp(flags, "*")) {
		uint8_t want = scn_flags(s, flags), got = f.h.flags;

		if (!(want & WIRE_TCP_PSH))
			got &= (uint8_t)~WIRE_TCP_PSH;
		if (got != want)
			scn_fail(s, "flags are not %s: %s", flags, seen);
	}
	while (scn_more(s)) {
		char *what = scn_next(s), *text = scn_next(s);

		if (!strcmp(what, "seq"))
			scn_want(s, &f, what, f.h.seq - s->c->iss, text);
		else if (!strcmp(what, "rawseq"))
			scn_want(s, &f, what, f.h.seq, text);
		else if (!strcmp(what, "ack"))
			scn_want(s, &f, what, f.h.ack - s->c->guest_isn, text);
		else if (!strcmp(what, "win"))
			scn_want(s, &f, what, f.h.flags & WIRE_TCP_SYN ? f.h.wnd : (uint32_t)f.h.wnd << s->c->ws_ours, text);
		else if (!strcmp(what, "len"))
			scn_want(s, &f, what, f.len, text);
		else if (!strcmp(what, "tos"))
			scn_want(s, &f, what, f.tos, text);
		else if (!strcmp(what, "urg"))
			scn_want(s, &f, what, f.h.urg, text);
		else if (!strcmp(what, "gso"))
			scn_want(s, &f, what, f.gso_size, text);
		else if (!strcmp(what, "mss"))
			scn_want(s, &f, what, f.h.has_mss ? f.h.mss : 0, text);
		else if (!strcmp(what, "ws"))
			scn_want(s, &f, what, f.h.has_ws ? f.h.ws : 99, strcmp(text, "none") ? text : "99");
		else if (!strcmp(what, "sack"))
			scn_want_sack(s, &f, text);
		else if (!strcmp(what, "sackok"))
			scn_want(s, &f, what, f.h.has_sack_ok, strcmp(text, "yes") ? "0" : "1");
		else if (!strcmp(what, "ts"))
			scn_want(s, &f, what, f.h.has_ts, strcmp(text, "yes") ? "0" : "1");
		else if (!strcmp(what, "tsval"))
			scn_want(s, &f, what, f.h.ts_val - s->c->ts_base, text);
		else if (!strcmp(what, "ecr"))
			scn_want(s, &f, what, f.h.ts_ecr, text);
		else
			scn_fail(s, "'%s' is not understood", what);
	}
}

void scn_quiet(struct scn *s)
{
	struct world_seg f;
	char seen[200];
	int r = world_next(&s->w, &f);

	if (!r)
		return;
	if (r < 0)
		scn_fail(s, "%s", s->w.why);
	scn_describe(s, &f, seen, sizeof(seen));
	scn_fail(s, "nobody expected %s", seen);
}

/* ignore: all frames there are, checked all the same */
static void cmd_ignore(struct scn *s)
{
	struct world_seg f;

	while (s->w.read < s->w.l2.cnt)
		scn_take_frame(s, &f);
}

static void cmd_conn(struct scn *s)
{
	uint32_t n = scn_num(s, scn_next(s));

	if (n >= SCN_CONNS)
		scn_fail(s, "connections are 0 to %d", SCN_CONNS - 1);
	s->c = &s->conn[n];
}

/* isn guest N, isn ours N: ours by choosing the time of the start */
static void cmd_isn(struct scn *s)
{
	const char *who = scn_next(s);
	uint32_t n = scn_num(s, scn_next(s));
	struct flow_key key = world_key(&s->w, s->c->guest_port, 80);

	if (!strcmp(who, "guest")) {
		s->c->guest_isn = n;
	} else if (!strcmp(who, "ours")) {
		s->w.env.now = 0;
		s->start = s->w.env.now = (ns_t)(n - world_iss(&s->w, &key)) << 12;
		twheel_init(&s->w.tw, s->w.env.now);
	} else {
		scn_fail(s, "isn of guest or ours");
	}
}

/* again: the same tuple opens a new connection, with a guest ISN further on */
static void cmd_again(struct scn *s)
{
	struct scn_conn *c = s->c;

	*c = (struct scn_conn){ .guest_port = c->guest_port, .guest_isn = c->guest_isn + 1000000, .mss = c->mss };
}

static void cmd_link(struct scn *s)
{
	const char *what = scn_next(s);

	if (!strcmp(what, "full"))
		fake_l2_refuse_after(&s->w.l2, scn_more(s) ? scn_num(s, scn_next(s)) : 0);
	else if (!strcmp(what, "ok"))
		fake_l2_refuse_after(&s->w.l2, UINT32_MAX);
	else if (!strcmp(what, "mtu"))
		s->w.l2.l2.mtu = scn_num(s, scn_next(s));
	else if (!strcmp(what, "noreserve"))
		s->w.l2.reserve_max = 0;
	else if (!strcmp(what, "reserve"))
		s->w.l2.reserve_max = UINT32_MAX;
	else if (!strcmp(what, "queue"))
		s->w.l2.l2.queue_frames = scn_num(s, scn_next(s));
	else if (!strcmp(what, "notso"))
		s->w.l2.l2.gives = s->w.l2.l2.takes = L2_OFF_CSUM;
	else if (!strcmp(what, "pieces"))
		s->w.pieces = scn_num(s, scn_next(s));
	else if (!strcmp(what, "split"))
		s->w.l2.split = scn_num(s, scn_next(s));
	else
		scn_fail(s, "'%s' is not understood", what);
}

static void scn_equal(struct scn *s, const char *what, uint64_t got)
{
	uint64_t want = scn_num(s, scn_next(s));

	if (got != want)
		scn_fail(s, "%s: %llu, not %llu", what, (unsigned long long)got, (unsigned long long)want);
}

static void cmd_flows(struct scn *s)
{
	scn_equal(s, "flows", s->w.flows.cnt);
}

static void cmd_half_open(struct scn *s)
{
	scn_equal(s, "half open", s->w.half_open[0]);
}

static void cmd_drop(struct scn *s)
{
	static const char *const name[] = {
#define DROP_NAME(n, text) #n,
		DROP_LIST(DROP_NAME)
	};
	const char *text = scn_next(s);

	for (size_t i = 0; i < BYTES_COUNT(name); i++)
		if (!strcmp(name[i], text)) {
			scn_equal(s, text, s->w.drops.cnt[i]);
			return;
		}
	scn_fail(s, "no reason to drop is called '%s'", text);
}

/* idle: nothing waits for its turn, no timer is armed but that of the probe of a silent guest, two hours after its last word */
static void cmd_idle(struct scn *s)
{
	world_advance(&s->w, 3600 * NS_S);	/* a timer that was left behind fires once, for nothing */
	scn_quiet(s);
	for (uint32_t i = 0; i < s->w.flows.fresh; i++) {
		const struct twheel_timer *t = &s->w.flows.tab[i].timer;

		if (twheel_armed(t) && (ns_t)t->due_tick * TWHEEL_TICK < s->w.env.now + 1800 * NS_S)
			scn_fail(s, "something is armed, though nothing is to come");
	}
	if (!s->w.flows.cnt && path_next(&s->w.path) != NS_NEVER)
		scn_fail(s, "something is armed for no flow");
	if (!s->w.flows.cnt && s->w.pool.used)
		scn_fail(s, "%u blocks of the pool are kept for no flow", s->w.pool.used);
}

/* table N: capacity of the flow table */
static void cmd_table(struct scn *s)
{
	s->w.flows.cap = scn_num(s, scn_next(s));
}

/* pool N, pool used N, pool none: blocks that are left for what comes early; how many are used; there is no pool */
static void cmd_pool(struct scn *s)
{
	char *what = scn_next(s);

	if (!strcmp(what, "used"))
		scn_equal(s, "pool used", s->w.pool.used);
	else if (!strcmp(what, "none"))
		s->w.path.p.tcp_pool = NULL;
	else
		world_pool(&s->w, scn_num(s, what));
}

/* also sack, also ts, also sack ts: test_scn.c has read it */
static void cmd_also(struct scn *s)
{
	while (scn_more(s)) {
		const char *what = scn_next(s);

		if (strcmp(what, "sack") && strcmp(what, "ts"))
			scn_fail(s, "also sack or ts");
	}
}

static void cmd_off(struct scn *s)
{
	(void)s;
	s->w.fwd.tcp_on = false;
}

/* patience N: a guest is silent after so many seconds */
static void cmd_patience(struct scn *s)
{
	s->w.tcp.keep_time = scn_num(s, scn_next(s)) * NS_S;
}

static void cmd_end_all(struct scn *s)
{
	scn_quiet(s);
	path_end(&s->w.path);
}

void scn_run(struct scn *s)
{
	static const struct {
		const char *name;
		void (*fn)(struct scn *s);
	} cmd[] = {
		{ "guest", cmd_guest }, { "expect", cmd_expect }, { "expect-last", cmd_expect }, { "sk", scn_socket }, { "batch", cmd_batch }, { "end", cmd_end },
		{ "ignore", cmd_ignore }, { "conn", cmd_conn }, { "isn", cmd_isn }, { "again", cmd_again }, { "link", cmd_link },
		{ "flows", cmd_flows }, { "drop", cmd_drop }, { "idle", cmd_idle }, { "table", cmd_table }, { "tcpoff", cmd_off },
		{ "endall", cmd_end_all }, { "half-open", cmd_half_open }, { "icmp", scn_icmp }, { "norouter", scn_norouter },
		{ "patience", cmd_patience }, { "pool", cmd_pool }, { "also", cmd_also },
	};
	const char *name = scn_next(s);

	for (size_t i = 0; i < BYTES_COUNT(cmd); i++)
		if (!strcmp(cmd[i].name, name)) {
			if (s->in_batch && cmd[i].fn != cmd_guest && cmd[i].fn != cmd_end && cmd[i].fn != cmd_conn)
				scn_fail(s, "a batch has only frames of the guest");
			cmd[i].fn(s);
			return;
		}
	scn_fail(s, "'%s' is no command", name);
}
