/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole path with open flows: an input is two bytes of settings and a list of commands. Segments of the guest that are
 * nearly right (numbers close to what the flow expects, any flags, any options, SACK blocks and timestamps), whole frames of
 * any bytes, ICMP errors, connections from the host, events, data, ends and errors of host sockets, calls that fail, links
 * that refuse, time that passes. What must hold is in path_bed.h. In the end either the guest is gone, or all sides fall
 * silent; then every flow must end by itself. UDP is switched off: its sockets are another fake's. What the guest sends to
 * one of its own addresses goes back to it as it is, or to the host. The last connection goes to a forwarded resolver.
 */
#include "path_bed.h"

#define INPUT_MAX	1024		/* longer ones take long, and find nothing more */
#define TURNS		64		/* of the loop in one command: a full link is tried again every 2 ms */
#define TURNS_END	20000		/* until everything has ended */

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

/* A segment of connection N, nearly right */
static void make_segment(struct fuzz *z, unsigned n, struct world_seg *s)
{
	static const uint8_t flags[] = { 0x10, 0x18, 0x11, 0x02, 0x12, 0x04, 0x14, 0x00 };
	struct input *in = &z->in;
	struct flow *f = flow_at(z, n);
	const struct tcp *t = f ? tcp_of(f) : NULL;
	uint8_t how = take8(in);
	const bool any = how >= 224;
	uint32_t at = t ? t->rcv_nxt : 1000;

	s->key = key_of(z, n);
	s->h.flags = any ? take8(in) : flags[how % 8];
	if (t && !any && how & 16)
		at = t->rcv_edge;
	s->h.seq = near(in, !any && how & 32 ? at - 1 : at);
	s->h.ack = near(in, !t ? 0 : how & 8 ? t->max : t->una);
	s->h.wnd = !any && how & 64 ? 0 : (uint16_t)near(in, 1000);
	s->len = take8(in);
	if (s->len >= 128)
		s->len = (s->len - 128) * 500;
	if (s->h.flags & WIRE_TCP_URG)
		s->h.urg = (uint16_t)near(in, s->len);
	if (s->h.flags & WIRE_TCP_SYN) {
		s->h.has_mss = how & 1;
		s->h.mss = (uint16_t)take16(in);
		s->h.has_ws = how & 2;
		s->h.ws = take8(in);
	}
	put_options(z, t, &s->h);
	s->h.sport = s->key.guest_port;
	s->h.dport = s->key.far_port;
	s->data = stream_at(s->h.seq + !!(s->h.flags & WIRE_TCP_SYN));
}

static void put_segment(struct fuzz *z, bool spoil)
{
	static uint8_t frame[WORLD_FRAME_MAX];
	struct input *in = &z->in;
	unsigned n = take8(in) % CONNS;
	struct world_seg s = { .len = 0 };
	uint8_t more;
	uint32_t len;

	make_segment(z, n, &s);
	more = take8(in);
	s.tos = spoil ? 0 : more & TCP_DSCP_MASK;
	s.ttl = !spoil && more & 1 ? 5 : 0;
	conn_offer(z, n, &s);
	len = world_frame(&z->w, frame, &s);
	z->spoilt |= spoil;
	for (int i = more % 8; spoil && i >= 0; i--)
		frame[take8(in) % BYTES_MIN(len, 94u)] ^= take8(in);
	if (spoil && take8(in) < 64)
		len = take16(in) % (len + 1);
	world_batch_raw(&z->w, frame, len);
}

/* A batch of segments one behind the other, as bulk data comes; maybe with gaps, or with some of it again */
static void put_run(struct fuzz *z)
{
	static uint8_t frame[WORLD_FRAME_MAX];
	struct input *in = &z->in;
	const unsigned cnt = take8(in) % L2_BATCH + 1, n = take8(in) % CONNS;
	const uint8_t step = take8(in);
	struct world_seg s = { .len = 0 };
	uint32_t first, next;

	make_segment(z, n, &s);
	s.len = BYTES_MIN(s.len, 1460u);
	first = next = s.h.seq;
	for (unsigned i = 0; i < cnt; i++) {
		const bool again = step & 4 && i % 16 == 15;

		s.h.seq = again ? first - 10 : next;
		s.data = stream_at(s.h.seq);
		conn_offer(z, n, &s);
		world_batch_raw(&z->w, frame, world_frame(&z->w, frame, &s));
		next += again ? 0 : s.len + (i % 2 ? 0 : step % 4);
	}
}

static void put_raw(struct fuzz *z)
{
	struct input *in = &z->in;
	uint32_t len = take8(in);

	len = (uint32_t)BYTES_MIN(len, in->left);
	world_batch_raw(&z->w, in->p, len);
	in->p += len;
	in->left -= len;
	z->spoilt = true;
}

/* An ICMP error of the guest, or of a router behind it, about a segment of ours */
static void put_icmp(struct fuzz *z)
{
	struct input *in = &z->in;
	const unsigned n = take8(in) % CONNS;
	const struct flow_key key = key_of(z, n);
	const bool v4 = !z->w.v6;
	struct flow *f = flow_at(z, n);
	const struct wire_eth eth = { .dst = z->w.env.our_mac, .src = z->w.env.guest_mac, .type = v4 ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6 };
	const struct wire_ip ip = { .src = key.guest, .dst = key.far, .proto = v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, .ttl = 64 };
	const struct wire_ip quoted = { .src = key.far, .dst = key.guest, .proto = WIRE_IP_TCP, .ttl = 60 };
	const struct wire_tcp h = {
		.sport = key.far_port, .dport = key.guest_port, .seq = near(in, f ? tcp_of(f)->una : 0), .flags = WIRE_TCP_ACK,
	};
	const uint32_t quote_len = wire_ip_hdr_len(&key.far) + WIRE_TCP_LEN;
	uint8_t p[WIRE_ETH_LEN + 2 * WIRE_IP6_LEN + 8 + WIRE_TCP_LEN];
	const uint8_t kind = take8(in);
	const uint16_t mtu = (uint16_t)take16(in);
	const uint32_t cut = kind & 8 ? take8(in) % 32 : 0;
	uint32_t len = WIRE_ETH_LEN;

	wire_eth_emit(p, &eth);
	len += wire_ip_emit(p + len, &ip, 8 + quote_len - cut);
	p[len] = (v4 ? (const uint8_t[]){ 3, 3, 11, 12 } : (const uint8_t[]){ 1, 2, 3, 4 })[kind % 4];
	p[len + 1] = kind >> 4;
	memset(p + len + 2, 0, 6);
	bytes_put16(p + len + 6, mtu);
	len += 8;
	len += wire_ip_emit(p + len, &quoted, WIRE_TCP_LEN);
	wire_tcp_emit(p + len, &h, 0);
	len += WIRE_TCP_LEN;
	world_batch_raw(&z->w, p, len - cut);
}

#define ERROR_LASTS	8		/* so many of these end a connection */

/* What calls on sockets may return */
static int error_of(uint8_t n)
{
	static const int code[] = {
		ECONNRESET, ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EACCES, EPERM, EPIPE, ENOBUFS, ENOMEM, EAGAIN, EIO,
		EADDRNOTAVAIL, ENETDOWN, EPROTO, EINVAL,
	};

	return code[n % (sizeof(code) / sizeof(code[0]))];
}

/* What the kernel or the peer does to socket K: the event that tells of it, 0 if nothing does */
static uint32_t kernel_does(struct fuzz *z, struct fake_sk_sock *k, int h)
{
	struct input *in = &z->in;

	switch (take8(in) % 18) {
	case 0:
		if (!k->eof)
			fake_sk_feed(&z->w.sk, h, stream_at(k->rx.len), take16(in));
		return EV_IN;
	case 1:
		k->eof = true;
		return EV_IN | EV_RDHUP;
	case 2:
		k->err = error_of(take8(in) % ERROR_LASTS);	/* others pass */
		return EV_IN | EV_OUT | EV_ERR | EV_HUP;
	case 3:
		k->take = take16(in);
		return 0;
	case 4:
		k->take = FAKE_SK_ANY;
		return EV_OUT;
	case 5:
		k->room = (struct sk_room){ .free = take16(in) * 16, .writable = take8(in) & 1 };
		return 0;
	case 6:				/* connect() */
		k->result = take8(in) & 3 ? 0 : -ECONNREFUSED;
		return EV_OUT;
	case 7:
		k->send_err = -error_of(take8(in));
		return 0;
	case 8:
		k->mark = k->head + take16(in) % (k->rx.len - k->head + 1);
		return EV_PRI;
	case 9:
		k->result = -error_of(take8(in));
		return EV_OUT | EV_ERR | EV_HUP;
	case 10:
		k->result = -error_of(take8(in));
		k->router = (struct sk_err){ .code = EHOSTUNREACH, .icmp_type = take8(in) % 16, .icmp_code = take8(in) % 16, .to = k->to,
					     .offender = { .a = z->w.fwd.f[z->w.v6 ? FWD_V6 : FWD_V4].gateway } };
		return EV_ERR;
	case 11:
		k->peek_max = take16(in) + 1;
		return EV_IN;
	case 12:
		k->take_once = take16(in);
		return 0;
	case 13:
		k->peek_err = take8(in) & 1 ? -EINTR : -error_of(take8(in));
		return EV_IN;
	case 14:
		k->sndbuf = take16(in) * 4;
		k->drained = k->tx.len;
		return EV_OUT;
	case 15:
		k->room_err = -error_of(take8(in));
		return 0;
	case 16:
		k->drop_err = -error_of(take8(in));
		return 0;
	default:			/* some of it to the peer, or a send that works again */
		k->drained += take16(in) % (k->tx.len - k->drained + 1);
		k->send_err = 0;
		return EV_OUT;
	}
}

static void socket_does(struct fuzz *z)
{
	struct flow *f = flow_at(z, take8(&z->in) % CONNS);
	uint8_t more;
	uint32_t mask;

	if (!f)
		return;
	mask = f->h < 0 ? EV_IN : kernel_does(z, &z->w.sk.s[f->h], f->h);	/* one of a socket just closed */
	more = take8(&z->in);
	/* other events; not a completion, which nobody asked for */
	if (more)
		mask |= more & (EV_IN | EV_OUT | EV_RDHUP | EV_ERR | EV_HUP);
	if (mask)
		world_event(&z->w, flow_ref(&z->w.flows, f), mask);
}

static void host_accepts(struct fuzz *z)
{
	const unsigned n = take8(&z->in) % CONNS;
	const uint8_t how = take8(&z->in);
	struct flow_key key = key_of(z, n);
	struct tcp_incoming in = { .peer = { .a = key.far, .port = key.far_port }, .port = key.guest_port };
	int h;

	if ((how & 7) == 1)
		in.peer.a = inaddr_loopback(!z->w.v6);
	else if ((how & 7) == 2)
		in.peer.port = 0;
	else if ((how & 7) == 3)
		in.target = key.guest;
	else if ((how & 7) == 4)
		in.peer.a = key.guest;
	z->w.sk.peer_tos = how & TCP_DSCP_MASK;
	h = fake_sk_accepted(&z->w.sk);
	if (h >= 0)
		tcp_accepted(&z->w.path.p, h, &in);
}

/* Time passes in at most TURNS turns of the loop, the last one late if these are not enough. False: they were not. */
static bool pass(struct fuzz *z, ns_t time, uint32_t turns)
{
	const ns_t end = z->w.env.now + time;
	ns_t next;

	while ((next = path_next(&z->w.path)) <= end && turns--) {
		z->w.env.now = BYTES_MAX(next, z->w.env.now);
		path_tick(&z->w.path);
		drain(z);
	}
	z->w.env.now = end;
	path_tick(&z->w.path);
	drain(z);
	return next > end;
}

/* What becomes of new connections */
static void host_changes(struct fuzz *z)
{
	struct input *in = &z->in;
	const uint8_t how = take8(in);

	z->w.sk.connect_err = how & 1 ? -error_of(take8(in)) : 0;
	z->w.sk.watch_err = how & 2 ? -ENOMEM : 0;
	z->w.sk.max_open = how & 4 ? 2 : 0;
	z->w.fwd.tcp_on = !(how & 64);
	z->w.sk.guest_has = how & 8 ? -ENOMEM : how >> 4 & 1;
	if (how & 32) {
		for (unsigned i = 0; i < FWD_FAMILIES; i++)
			z->w.fwd.f[i].ours = z->w.fwd.f[i].seen = z->w.fwd.f[i].guest;
	}
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
			put_segment(z, n == 3 && what & 8);
		world_deliver(&z->w);
	} else if (what < 132) {
		put_raw(z);
		world_deliver(&z->w);
	} else if (what < 136) {
		put_icmp(z);
		world_deliver(&z->w);
	} else if (what < 200) {
		socket_does(z);
	} else if (what < 216) {
		host_accepts(z);
	} else if (what < 232) {
		pass(z, ((ns_t)take16(in) * NS_MS / 8) << (what & 2 ? what & 1 ? 18 : 10 : 0), TURNS);
	} else if (what < 236) {
		fake_l2_refuse_after(&z->w.l2, what & 1 ? UINT32_MAX : take8(in) % 4);
	} else if (what < 240) {
		put_run(z);
		world_deliver(&z->w);
	} else if (what < 244) {
		z->w.l2.reserve_max = what & 1 ? UINT32_MAX : 0;
	} else if (what < 248) {
		put_segment(z, true);
		world_deliver(&z->w);
	} else if (what < 252) {
		z->w.sk.room = (struct sk_room){ .free = take16(in) * 4, .writable = what & 1 };
	} else {
		host_changes(z);
	}
}

/* Frames of 64 KiB fill the sanitizer's quarantine with little to find in it: the whole process would pass 1 GiB. Where memory
 * came from is of little use here, and walks of the stack cost much.
 */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16:malloc_context_size=2";
}

static void addresses(struct fuzz *z)
{
	static const char *const resolver[] = { "198.51.100.1", "2001:db8:5::2", "fe80::4" };
	struct fwd_dns_server s[3] = { { .scope = 0 } };

	for (unsigned i = 0; i < 3; i++)
		s[i].addr = world_addr(resolver[i]);
	for (unsigned i = 0; i < FWD_FAMILIES; i++) {
		struct fwd_family_set *f = &z->w.fwd.f[i];

		f->shared[0] = f->guest;
		f->shared[0].b[15] = 0x66;
		f->shared_cnt = 1;
		f->dns_match = key_of(z, 0).far;
		f->dns_host = s[0].addr;
		fwd_dns_set(&f->dns, s, 3);
	}
}

static void begin(struct fuzz *z, uint8_t mode, uint8_t more)
{
	static const uint16_t mtu[] = { 1500, 1280, 9000, 65520 };

	world_init(&z->w, mode & 1, mode & 2, 1000 * NS_S, more & 8 ? 2 : 6);
	if (mode & 0x10)
		world_pool(&z->w, 2);
	if (mode & 4)
		z->w.l2.l2.gives = z->w.l2.l2.takes = 0;
	z->w.pieces = (mode >> 4) * L2_IOV_MAX / 15u;
	if (mode & 8)
		z->w.l2.split = 100;
	z->w.l2.l2.mtu = mtu[more & 3];
	if (more & 4)
		z->w.l2.l2.queue_frames = 10;
	if (more & 0x20)
		z->w.path.p.tcp_pool = NULL;
	z->w.fwd.icmp_on = true;
	z->w.sk.guest_has = mode >> 7;
	for (unsigned i = 0; i < CONNS; i++)
		z->c[i] = (struct conn){ .port = (uint16_t)(CONN_PORT + i), .far_port = i == CONNS - 1 ? 53 : 80, .h = -1 };
	memset(z->s, 0, sizeof(z->s));
	z->spoilt = false;
	addresses(z);
}

/* Every connect ends, at the last resolver too */
static void connects_end(struct fuzz *z)
{
	for (int turn = 0; turn < 4; turn++) {
		for (uint32_t i = 0; i < z->w.flows.fresh; i++) {
			struct flow *f = &z->w.flows.tab[i];

			if (f->key.proto != FLOW_TCP || tcp_of(f)->phase != TCP_PHASE_CONNECTING)
				continue;
			z->w.sk.s[f->h].result = -ETIMEDOUT;
			world_event(&z->w, flow_ref(&z->w.flows, f), EV_ERR | EV_HUP);
			drain(z);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fuzz z;
	uint8_t mode, more;
	ns_t time;

	if (size > INPUT_MAX)
		return 0;
	z.in = (struct input){ data, size };
	mode = take8(&z.in);
	more = take8(&z.in);
	begin(&z, mode, more);
	while (z.in.left) {
		command(&z);
		drain(&z);
		check_all(&z);
	}
	fake_l2_refuse_after(&z.w.l2, UINT32_MAX);
	z.w.l2.reserve_max = UINT32_MAX;
	for (int h = 0; h < z.w.sk.cnt; h++)
		z.w.sk.s[h].peek_max = FAKE_SK_ANY;
	if (more & 0x10) {		/* a guest that went away */
		if (path_draining(&z.w.path) && !z.w.flows.cnt)
			fault("waits for a guest without flows");
		path_end(&z.w.path);
		time = 2 * TCP_QUIET;
	} else {
		connects_end(&z);
		time = 4 * 3600 * NS_S;
	}
	if (!pass(&z, time, TURNS_END))
		fault("timers spin");
	check_end(&z);
	world_done(&z.w);
	return 0;
}
