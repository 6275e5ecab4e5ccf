/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole path with open flows: an input is a list of commands. Segments of the guest that are nearly right (numbers
 * close to what the flow expects, any flags, any options, SACK blocks and timestamps), whole frames of any bytes, events and data of host sockets,
 * links that refuse, time that passes. Beyond crashes it finds frames to the guest that are malformed, a window that
 * shrinks, an acknowledgement of what the kernel did not take, SACK blocks of what is acknowledged or out of the window, timestamps
 * where nobody agreed on them, blocks of the pool that are lost, and timers that spin. UDP is switched off: its sockets
 * are another fake's. What the guest sends to one of its own addresses goes back to it as it is, or to the host.
 */
#include "fuzz.h"

#include "../../src/proto/tcp/tcp_priv.h"
#include "sim/world.h"

#define CONNS	4

struct input {
	const uint8_t *p;
	size_t left;
};

struct conn {
	uint16_t port;
	bool edge_known;
	uint32_t edge;
	int h;				/* the socket that the edge belongs to */
};

struct fuzz {
	struct world w;
	struct conn c[CONNS];
	struct input in;
};

static uint8_t take8(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static uint32_t take16(struct input *in)
{
	uint32_t hi = take8(in);

	return hi << 8 | take8(in);
}

/* Close to AT, mostly: an offset of few bits, or of all */
static uint32_t near(struct input *in, uint32_t at)
{
	uint8_t how = take8(in);

	if (how < 128)
		return at;
	if (how < 192)
		return at + (uint32_t)(int8_t)take8(in);
	if (how < 240)
		return at + (uint32_t)(int16_t)take16(in) * 16;
	return take16(in) << 16 | take16(in);
}

static struct flow *flow_at(struct fuzz *z, unsigned n)
{
	struct flow_key key = world_key(&z->w, z->c[n].port, 80);

	return flow_find(&z->w.flows, &key);
}

static void fault(const char *what)
{
	fprintf(stderr, "fuzz_path: %s\n", what);
	abort();
}

static void check_frame(struct fuzz *z, const struct world_seg *s)
{
	struct conn *c = &z->c[(unsigned)(s->key.guest_port - 40000) % CONNS];
	struct flow_key key = s->key;
	struct flow *f = flow_find(&z->w.flows, &key);
	const struct tcp *t = f ? tcp_of(f) : NULL;
	uint32_t edge;

	if (!t || t->phase != TCP_PHASE_OPEN || s->h.flags & (WIRE_TCP_RST | WIRE_TCP_SYN) || s->key.guest_port != c->port ||
	    s->key.far_port != 80)
		return;
	if (c->h != f->h) {
		c->h = f->h;
		c->edge_known = false;
	}
	if (s->h.has_ts != t->ts_on || (s->h.sack_cnt && !t->sack_on))
		fault("options that nobody agreed on");
	for (int i = 0; i < s->h.sack_cnt; i++)
		if ((seqno_le(s->h.sack[i].from, s->h.ack) && (i || seqno_gt(s->h.sack[i].to, s->h.ack))) || seqno_ge(s->h.sack[i].from, s->h.sack[i].to) ||
		    seqno_gt(s->h.sack[i].to, t->rcv_edge))
			fault("an impossible SACK block");
	if (s->h.flags & WIRE_TCP_URG ? s->h.urg != 1 || s->len != 1 : s->h.urg)
		fault("an urgent pointer that is not that of its one byte");
	edge = s->h.ack + ((uint32_t)s->h.wnd << t->ws_ours);
	if (s->h.wnd) {			/* to nothing it may shrink: the kernel refused something */
		if (c->edge_known && seqno_lt(edge, c->edge))
			fault("the right edge of the window moved left");
		c->edge = edge;
		c->edge_known = true;
	}
	if (s->h.ack - t->irs - 1 > z->w.sk.s[f->h].tx.len + !!z->w.sk.s[f->h].shuts)
		fault("acknowledged what the kernel did not take");
}

/* Sent back to the guest, who may have sent anything */
static bool sent_back(const struct fuzz *z, const struct fake_l2_frame *r, bool v4)
{
	const uint8_t *own = z->w.fwd.f[v4 ? FWD_V4 : FWD_V6].shared[0].b;

	return v4 ? !memcmp(r->buf + 30, own + 12, 4) : !memcmp(r->buf + 38, own, 16);
}

/* Frames other than TCP may come from the services: only TCP is looked at */
static void drain(struct fuzz *z)
{
	struct world_seg s;

	while (z->w.read < z->w.l2.cnt) {
		const struct fake_l2_frame *r = &z->w.l2.frames[z->w.read];
		bool v4 = r->len > 34 && bytes_get16(r->buf + 12) == WIRE_ETH_IPV4;

		if (r->len < 54 || (v4 ? r->buf[23] : r->buf[20]) != WIRE_IP_TCP ||
		    (!v4 && bytes_get16(r->buf + 12) != WIRE_ETH_IPV6) || sent_back(z, r, v4)) {
			z->w.read++;
			continue;
		}
		if (world_next(&z->w, &s) < 0)
			fault(z->w.why);
		check_frame(z, &s);
	}
	world_forget(&z->w);
}

/* SACK and timestamps of a segment; a zero byte stands for what a correct guest sends */
static void put_options(struct fuzz *z, const struct tcp *t, struct wire_tcp *h)
{
	struct input *in = &z->in;
	uint8_t how = take8(in);

	if (h->flags & WIRE_TCP_SYN) {
		h->has_sack_ok = how & 1;
		h->has_ts = how & 2;
		h->ts_val = how & 4 ? take16(in) << 16 : 1000;
		return;
	}
	h->has_ts = t && t->ts_on && !(how & 128);
	if (h->has_ts) {
		h->ts_val = t->ts_recent + (how >> 6 & 1);
		h->ts_ecr = tcp_ts_now(&z->w.path.p, t);
	}
	if (h->has_ts && how & 32) {
		h->ts_val = near(in, t->ts_recent);
		h->ts_ecr = near(in, t->rexmit_ts);
	}
	h->sack_cnt = BYTES_MIN(how & 7, WIRE_TCP_SACK_MAX);
	for (int i = 0; t && i < h->sack_cnt; i++) {
		h->sack[i].from = near(in, t->una + 100 * (take8(in) & 63u));
		h->sack[i].to = near(in, h->sack[i].from + 100 * (1 + (take8(in) & 63u)));
	}
}

static void put_segment(struct fuzz *z, bool spoil)
{
	static uint8_t data[65000], frame[WORLD_FRAME_MAX];
	struct input *in = &z->in;
	unsigned n = take8(in) % CONNS;
	struct flow *f = flow_at(z, n);
	const struct tcp *t = f ? tcp_of(f) : NULL;
	struct world_seg s = { .key = world_key(&z->w, z->c[n].port, 80), .data = data };
	static const uint8_t flags[] = { 0x10, 0x18, 0x11, 0x02, 0x12, 0x04, 0x14, 0x00 };
	uint8_t how = take8(in);
	uint32_t len;

	s.h.flags = how < 224 ? flags[how % 8] : take8(in);
	s.h.seq = near(in, t ? t->rcv_nxt : 1000);
	s.h.ack = near(in, !t ? 0 : how & 8 ? t->max : t->una);
	s.h.wnd = (uint16_t)near(in, 1000);
	len = take8(in);
	s.len = len < 128 ? len : (len - 128) * 500;
	if (s.h.flags & WIRE_TCP_URG)
		s.h.urg = (uint16_t)near(in, s.len);
	if (s.h.flags & WIRE_TCP_SYN) {
		s.h.has_mss = how & 1;
		s.h.mss = (uint16_t)take16(in);
		s.h.has_ws = how & 2;
		s.h.ws = take8(in);
	}
	put_options(z, t, &s.h);
	s.h.sport = s.key.guest_port;
	s.h.dport = 80;
	len = world_frame(&z->w, frame, &s);
	for (int i = take8(in) % 8; spoil && i >= 0; i--)
		frame[take8(in) % BYTES_MIN(len, 94u)] ^= take8(in);
	if (spoil && take8(in) < 64)
		len = take16(in) % (len + 1);
	world_batch_raw(&z->w, frame, len);
}

static void put_raw(struct fuzz *z)
{
	struct input *in = &z->in;
	uint32_t len = take8(in);

	len = (uint32_t)BYTES_MIN(len, in->left);
	world_batch_raw(&z->w, in->p, len);
	in->p += len;
	in->left -= len;
}

/* Any errno that lasts: an interruption does not */
static int error_of(uint8_t n)
{
	int code = 1 + n % 120;

	return code == EINTR ? EIO : code;
}

static void socket_does(struct fuzz *z)
{
	struct input *in = &z->in;
	struct flow *f = flow_at(z, take8(in) % CONNS);
	struct fake_sk_sock *k = f && f->h >= 0 ? &z->w.sk.s[f->h] : NULL;
	static uint8_t data[65536];
	uint32_t mask = 0;

	switch (take8(in) % 9) {
	case 0:
		if (k && !k->eof)
			fake_sk_feed(&z->w.sk, f->h, data, take16(in));
		mask = EV_IN;
		break;
	case 1:
		if (k)
			k->eof = true;
		mask = EV_IN | EV_RDHUP;
		break;
	case 2:
		if (k)
			k->err = error_of(take8(in));
		mask = EV_IN | EV_OUT | EV_ERR | EV_HUP;
		break;
	case 3:
		if (k)
			k->take = take16(in);
		return;
	case 4:
		if (k)
			k->take = FAKE_SK_ANY;
		mask = EV_OUT;
		break;
	case 5:
		if (k)
			k->room = (struct sk_room){ .free = take16(in) * 16, .writable = take8(in) & 1 };
		return;
	case 6:
		if (k)
			k->result = take8(in) & 3 ? 0 : -ECONNREFUSED;
		mask = EV_OUT;
		break;
	case 7:
		if (k)
			k->send_err = -error_of(take8(in));
		return;
	case 8:
		mask = take8(in) & ~EV_SENT;	/* a completion nobody asked for is the engine's fault, not the guest's */
		if (k && mask & EV_FIRST) {
			k->mark = k->head + take16(in) % (k->rx.len - k->head + 1);
			mask |= EV_PRI;
		}
		break;
	}
	if (f)
		world_event(&z->w, flow_ref(&z->w.flows, f), mask);
}

static void host_accepts(struct fuzz *z)
{
	struct flow_key key = world_key(&z->w, z->c[take8(&z->in) % CONNS].port, 80);
	struct tcp_incoming in = { .peer = { .a = key.far, .port = 80 }, .port = key.guest_port };
	int h = fake_sk_accepted(&z->w.sk);

	if (h >= 0)
		tcp_accepted(&z->w.path.p, h, &in);
}

static void command(struct fuzz *z)
{
	struct input *in = &z->in;
	uint8_t what = take8(in);
	uint32_t n;

	if (what < 96) {
		put_segment(z, false);
		world_deliver(&z->w);
	} else if (what < 128) {
		for (n = what & 7; n && in->left; n--)
			put_segment(z, n == 3);
		world_deliver(&z->w);
	} else if (what < 136) {
		put_raw(z);
		world_deliver(&z->w);
	} else if (what < 200) {
		socket_does(z);
	} else if (what < 216) {
		host_accepts(z);
	} else if (what < 232) {
		world_advance(&z->w, (ns_t)take16(in) * NS_MS / 8);
	} else if (what < 240) {
		fake_l2_refuse_after(&z->w.l2, what & 1 ? UINT32_MAX : take8(in) % 4);
	} else if (what < 244) {
		z->w.l2.reserve_max = what & 1 ? UINT32_MAX : 0;
	} else if (what < 248) {
		put_segment(z, true);
		world_deliver(&z->w);
	} else {
		z->w.sk.room = (struct sk_room){ .free = take16(in) * 4, .writable = what & 1 };
	}
}

/* Frames of 64 KiB fill the sanitizer's quarantine with little to find in it: the whole process would pass 1 GiB */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fuzz z;
	uint8_t mode;

	z.in = (struct input){ data, size };
	mode = take8(&z.in);
	world_init(&z.w, mode & 1, mode & 2, 1000 * NS_S, 6);
	if (mode & 0x10)
		world_pool(&z.w, 2);
	if (mode & 4)
		z.w.l2.l2.gives = z.w.l2.l2.takes = 0;
	z.w.pieces = mode >> 4;
	if (mode & 8)
		z.w.l2.split = 100;
	z.w.fwd.icmp_on = true;
	z.w.sk.guest_has = mode >> 7;
	for (unsigned i = 0; i < FWD_FAMILIES; i++) {
		struct fwd_family_set *f = &z.w.fwd.f[i];

		f->shared[0] = f->guest;
		f->shared[0].b[15] = 0x66;
		f->shared_cnt = 1;
	}
	for (unsigned i = 0; i < CONNS; i++)
		z.c[i] = (struct conn){ .port = (uint16_t)(40000 + i), .h = -1 };
	while (z.in.left) {
		command(&z);
		drain(&z);
	}
	world_advance(&z.w, 10 * NS_S);
	drain(&z);
	path_end(&z.w.path);
	drain(&z);
	world_advance(&z.w, 10 * NS_S);
	if (z.w.pool.used)
		fault("blocks of the pool belong to nobody");
	world_done(&z.w);
	return 0;
}
