/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every state of a connection times every combination of flags, with sequence
 * and acknowledgement numbers at and around each edge of the windows, with and
 * without payload, SACK and timestamps. No expectations for single cases, those
 * are in the scenarios; what holds for all: phases follow each other as fsm.c
 * allows, nothing known is forgotten, a reset is never answered by a reset and
 * only an exact one ends the flow, nothing is acknowledged that the kernel did
 * not take, one segment has few answers, and the end of all leaves nothing.
 */
#include "../../src/proto/tcp/tcp_priv.h"
#include "world.h"

#define ISN	7000u
#define BITS	(WIRE_TCP_FIN | WIRE_TCP_SYN | WIRE_TCP_RST | WIRE_TCP_PSH | WIRE_TCP_ACK | WIRE_TCP_URG)
#define SYN_BITS (WIRE_TCP_SYN | WIRE_TCP_ACK | WIRE_TCP_RST | WIRE_TCP_FIN)	/* of these a SYN that opens has one */

enum state {
	STATE_CLOSED, STATE_CONNECTING, STATE_SYN_RCVD, STATE_SYN_SENT, STATE_ESTABLISHED, STATE_IN_FLIGHT, STATE_GAP, STATE_FULL,
	STATE_CLOSE_WAIT, STATE_FIN_WAIT_1, STATE_FIN_WAIT_2, STATE_CLOSING, STATE_QUIET, STATE_CNT
};

static const char *const state_name[STATE_CNT] = {
	"CLOSED", "connecting", "SYN-RECEIVED", "SYN-SENT", "ESTABLISHED", "data in flight", "gap", "socket full",
	"CLOSE-WAIT", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSING or LAST-ACK", "quiet",
};

struct rig {
	struct world w;
	struct flow_key key;
	struct flow *f;
	uint32_t iss, nxt, max;		/* ours and the guest's next, as far as they are known to it */
	bool ts;
	unsigned opts;			/* bit 0: SACK and timestamps; 1: IPv6; 2: deferred */
	struct world_seg s;		/* the one under test */
	enum state state;
};

static void bad(const struct rig *r, const char *why)
{
	char flags[12];

	fprintf(stderr, "test_states: %s: in %s (%s, %s, %s) the segment %s seq %d ack %d len %u, relative to what is expected\n", why,
		state_name[r->state], r->opts & 2 ? "IPv6" : "IPv4", r->opts & 4 ? "deferred" : "inline",
		r->opts & 1 ? "SACK and timestamps" : "no options", world_flags(r->s.h.flags, flags), (int)(r->s.h.seq - r->nxt),
		(int)(r->s.h.ack - r->max), r->s.len);
	world_dump(&r->w, 1000 * NS_S);
	exit(1);
}

static void drain(struct rig *r)
{
	r->w.read = r->w.l2.cnt;
	world_forget(&r->w);
}

static void guest(struct rig *r, uint8_t flags, uint32_t seq, uint32_t len)
{
	static const uint8_t data[1000];
	struct world_seg s = { .key = r->key, .len = len, .data = data,
			       .h = { .sport = r->key.guest_port, .dport = 80, .seq = seq, .wnd = 60000, .flags = flags,
				      .has_ts = r->ts, .ts_val = 50 } };

	if (flags & WIRE_TCP_ACK)
		s.h.ack = r->max;
	if (flags & WIRE_TCP_SYN) {
		s.h.has_mss = true;
		s.h.mss = 1460;
		s.h.has_sack_ok = r->opts & 1;
	}
	world_batch(&r->w, &s);
	world_deliver(&r->w);
	drain(r);
}

static void event(struct rig *r, uint32_t mask)
{
	world_event(&r->w, flow_ref(&r->w.flows, r->f), mask);
	drain(r);
}

static struct fake_sk_sock *sock(struct rig *r)
{
	return &r->w.sk.s[r->f->h];
}

static void peer(struct rig *r, uint32_t len, bool end)
{
	static const uint8_t data[1000];

	if (len)
		fake_sk_feed(&r->w.sk, r->f->h, data, len);
	sock(r)->eof = end;
	event(r, EV_IN | (end ? EV_RDHUP : 0));
	r->max = tcp_of(r->f)->max;
}

static void to_open(struct rig *r)
{
	guest(r, WIRE_TCP_SYN, ISN, 0);
	r->f = flow_find(&r->w.flows, &r->key);
	r->nxt = ISN + 1;
	if (r->state == STATE_CONNECTING)
		return;
	sock(r)->result = 0;
	event(r, EV_OUT);
	r->max = tcp_of(r->f)->max;
	if (r->state != STATE_SYN_RCVD)
		guest(r, WIRE_TCP_ACK, r->nxt, 0);
}

static void fin(struct rig *r)
{
	guest(r, WIRE_TCP_FIN | WIRE_TCP_ACK, r->nxt++, 0);
}

/* What brings an open connection to the state */
static void from_open(struct rig *r)
{
	switch (r->state) {
	case STATE_IN_FLIGHT:
		peer(r, 1000, false);
		break;
	case STATE_GAP:
		guest(r, WIRE_TCP_ACK, r->nxt + 100, 100);
		guest(r, WIRE_TCP_ACK | WIRE_TCP_FIN, r->nxt + 300, 100);
		break;
	case STATE_FULL:
		sock(r)->take = 10;
		guest(r, WIRE_TCP_ACK, r->nxt, 100);
		r->nxt += 10;
		break;
	case STATE_CLOSE_WAIT:
		fin(r);
		break;
	case STATE_FIN_WAIT_1:
	case STATE_FIN_WAIT_2:
		peer(r, 100, true);
		if (r->state == STATE_FIN_WAIT_2)
			guest(r, WIRE_TCP_ACK, r->nxt, 0);
		break;
	case STATE_CLOSING:
		fin(r);
		peer(r, 100, true);
		break;
	case STATE_QUIET:
		fin(r);
		peer(r, 100, true);
		guest(r, WIRE_TCP_ACK, r->nxt, 0);
		break;
	case STATE_CLOSED:
	case STATE_CONNECTING:
	case STATE_SYN_RCVD:
	case STATE_SYN_SENT:
	case STATE_ESTABLISHED:
	case STATE_CNT:
		break;
	}
}

static void setup(struct rig *r, enum state state, unsigned opts)
{
	const struct tcp_incoming in = { .peer = { .a = world_key(&r->w, 40000, 80).far, .port = 80 }, .port = 40000 };

	world_init(&r->w, opts & 2, opts & 4, 1000 * NS_S, 4);
	r->key = world_key(&r->w, 40000, 80);
	r->opts = opts;
	r->state = state;
	r->f = NULL;
	r->nxt = ISN;
	r->max = 9000;
	r->ts = opts & 1;
	if (state == STATE_CLOSED)
		return;
	if (state == STATE_SYN_SENT) {
		struct tcp_incoming here = in;

		here.peer.a = r->key.far;
		tcp_accepted(&r->w.path.p, fake_sk_accepted(&r->w.sk), &here);
		r->f = flow_find(&r->w.flows, &r->key);
		r->max = tcp_of(r->f)->max;
		drain(r);
		return;
	}
	to_open(r);
	from_open(r);
}

static void check_answers(struct rig *r, const struct fake_sk_sock *k)
{
	struct world_seg a;
	int cnt = 0, n;

	while ((n = world_next(&r->w, &a)) > 0) {
		cnt++;
		if (a.h.flags & WIRE_TCP_RST && r->s.h.flags & WIRE_TCP_RST)
			bad(r, "a reset is answered by a reset");
		if (k && a.h.flags & WIRE_TCP_ACK && !(a.h.flags & (WIRE_TCP_SYN | WIRE_TCP_RST)) &&
		    a.h.ack - ISN - 1 > k->tx.len + !!k->shuts && r->state != STATE_SYN_SENT && r->state != STATE_QUIET)
			bad(r, "something is acknowledged that the kernel did not take");
	}
	if (n < 0)
		bad(r, r->w.why);
	if (cnt > 4)
		bad(r, "one segment has many answers");
}

/* In any number of steps; the table of fsm.c has no circles */
static bool may_become(enum tcp_phase from, enum tcp_phase to)
{
	if (from == to)
		return true;
	for (int by = 0; by < TCP_PHASE_CNT; by++)
		if (tcp_phase_legal(from, (enum tcp_phase)by) && may_become((enum tcp_phase)by, to))
			return true;
	return false;
}

static void check_flow(struct rig *r, const struct tcp *old, uint32_t gen)
{
	const struct flow *f = flow_find(&r->w.flows, &r->key);
	const struct tcp *t = f ? (const void *)f->body : NULL;
	uint8_t flags = r->s.h.flags;
	bool exact = flags & WIRE_TCP_RST && (r->state == STATE_SYN_SENT ? flags & WIRE_TCP_ACK && r->s.h.ack == old->max
									: r->s.h.seq == old->rcv_nxt);

	if (!t || f->gen != gen) {
		/* SYN-RECEIVED, SYN-SENT: nothing but a reset either; quiet: a new SYN takes the place */
		if (!exact && r->state != STATE_QUIET)
			bad(r, "the flow ended without an exact reset");
		return;
	}
	if (exact && r->state != STATE_CLOSED)
		bad(r, "an exact reset did not end the flow");
	if (!may_become((enum tcp_phase)old->phase, (enum tcp_phase)t->phase))
		bad(r, "a phase that can't follow");
	if (seqno_lt(t->una, old->una) || seqno_lt(t->max, old->max) || seqno_gt(t->una, t->max))
		bad(r, "what the guest has acknowledged went back, or beyond what was sent");
	if (old->phase == TCP_PHASE_CONNECTING) {	/* the last SYN is the one that counts */
		if (t->rcv_nxt != ((flags & SYN_BITS) == WIRE_TCP_SYN ? r->s.h.seq + 1 : old->rcv_nxt))
			bad(r, "not the last SYN is the one to be answered");
	} else if (old->phase != TCP_PHASE_SYN_SENT && (seqno_lt(t->rcv_nxt, old->rcv_nxt) || seqno_lt(t->rcv_edge, old->rcv_edge)))
		bad(r, "what we have of the guest, or its window, went back");
	if (seqno_gt(t->rcv_nxt, t->rcv_edge))
		bad(r, "more was taken than offered");
	if (t->sending)
		bad(r, "a send never ended");
}

static void play(struct rig *r, const struct world_seg *s)
{
	struct fake_sk_sock *k = r->f && r->f->h >= 0 ? sock(r) : NULL;
	uint32_t gen = r->f ? r->f->gen : 0;
	struct tcp old = { 0 };

	if (r->f)
		old = *tcp_of(r->f);
	r->s = *s;
	world_batch(&r->w, s);
	world_deliver(&r->w);
	check_answers(r, k);
	if (r->f)
		check_flow(r, &old, gen);
	else if (r->w.flows.cnt && (s->h.flags & SYN_BITS) != WIRE_TCP_SYN)
		bad(r, "something else than a SYN opened a flow");
	path_end(&r->w.path);
	world_advance(&r->w, TCP_QUIET + NS_S);
	if (r->w.flows.cnt || r->w.pool.used)
		bad(r, "something is left at the end");
	for (int i = 0; i < r->w.sk.cnt; i++)
		if (r->w.sk.s[i].open)
			bad(r, "a socket is open at the end");
	world_done(&r->w);
}

int main(void)
{
	static const uint8_t data[100];
	static const int32_t seqs[] = { -101, -1, 0, 1, 70000, 1 << 30 }, acks[] = { -1000, -1, 0, 1 };
	static const uint32_t lens[] = { 0, 100 };
	static struct rig r;
	uint32_t cnt = 0;

	for (unsigned n = 0; n < STATE_CNT * 8u; n++)
		for (unsigned flags = 0; flags <= BITS; flags++)
			for (unsigned i = 0; i < BYTES_COUNT(seqs) * BYTES_COUNT(acks) * BYTES_COUNT(lens); i++) {
				struct world_seg s = { .data = data, .len = lens[i % 2] };

				if (!(flags & WIRE_TCP_ACK) && i / 2 / BYTES_COUNT(seqs))
					continue;
				setup(&r, (enum state)(n / 8), n % 8);
				s.key = r.key;
				s.h = (struct wire_tcp){ .sport = 40000, .dport = 80, .wnd = 1000, .flags = (uint8_t)flags,
							 .seq = r.nxt + (uint32_t)seqs[i / 2 % BYTES_COUNT(seqs)], .has_ts = r.ts,
							 .ts_val = 60, .urg = flags & WIRE_TCP_URG ? 5 : 0 };
				if (flags & WIRE_TCP_ACK)
					s.h.ack = r.max + (uint32_t)acks[i / 2 / BYTES_COUNT(seqs)];
				play(&r, &s);
				cnt++;
			}
	printf("sim: %u segments in %d states\n", cnt, STATE_CNT);
	return 0;
}
