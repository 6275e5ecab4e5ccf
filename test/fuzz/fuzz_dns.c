/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queries to the forwarding address with any bytes from both sides: an input is a list of commands. Beyond crashes it finds
 * sockets that are lost or closed twice, queries kept beyond their place, flows that never end, and frames without an answer
 * behind them.
 */
#include "dgram_bed.h"

#include "../../src/proto/udp/udp_priv.h"
#include "wire/udp.h"

#define FLOWS	4
#define OPENS	(FAKE_DG_MAX - 16)	/* the fake has no room for more */

struct input {
	const uint8_t *p;
	size_t left;
};

struct fuzz {
	struct input in;
	struct bed *b;
};

static void fault(const char *what)
{
	fprintf(stderr, "fuzz_dns: %s\n", what);
	abort();
}

static uint8_t take(struct input *in)
{
	if (!in->left)
		return 0;
	in->left--;
	return *in->p++;
}

static void list_set(struct fuzz *z, unsigned cnt)
{
	static const char *const name[] = { "198.51.100.1", "2001:db8:5::2", "198.51.100.3", "fe80::4" };
	struct fwd_dns_server s[4];

	for (unsigned i = 0; i < 4; i++)
		s[i] = (struct fwd_dns_server){ .addr = bed_addr(name[i]), .scope = i == 3 };
	for (unsigned f = 0; f < FWD_FAMILIES; f++)
		fwd_dns_set(&z->b->fwd.f[f].dns, s, cnt);
}

static void begin(struct fuzz *z)
{
	z->b = bed_new(true, FLOWS);
	z->b->fwd.f[FWD_V4].dns_match = bed_addr("169.254.1.1");
	z->b->fwd.f[FWD_V6].dns_match = bed_addr("fd99::53");
	list_set(z, 3);
}

static struct flow_key key_of(const struct fuzz *z, uint8_t how)
{
	const struct fwd_family_set *s = &z->b->fwd.f[how & 1 ? FWD_V6 : FWD_V4];

	return (struct flow_key){ s->guest, s->dns_match, (uint16_t)(40000 + (how >> 1 & 1)), how & 4 ? 853 : 53, FLOW_UDP };
}

/* LEN bytes that begin with the input's and end with nothing much */
static uint32_t fill(struct input *in, uint8_t *buf)
{
	const uint8_t how = take(in);
	const uint32_t len = how < 240 ? how : (how - 239u) * 100;

	memset(buf, 0, len);
	for (uint32_t i = 0; i < len && i < 16; i++)
		buf[i] = take(in);
	return len;
}

static void guest(struct fuzz *z)
{
	const struct flow_key k = key_of(z, take(&z->in));
	const struct wire_udp h = { k.guest_port, k.far_port };
	struct l2_frame f = { .len = 0 };
	uint8_t b[WIRE_UDP_LEN + 2000];
	const uint32_t len = fill(&z->in, b + WIRE_UDP_LEN);
	const struct iovec iov = { b, WIRE_UDP_LEN + len };
	struct proto_pkt pkt = {
		.frame = &f, .ip = { .src = k.guest, .dst = k.far, .proto = WIRE_IP_UDP, .ttl = 64 },
		.l4 = view_of(&iov, WIRE_UDP_LEN + len), .next = FLOW_NONE,
	};

	wire_udp_emit(b, &h, len, 0);
	udp_guest(&z->b->p, &k, flow_find(&z->b->flows, &k), &pkt, 0);
}

static void answer(struct fuzz *z)
{
	const uint8_t how = take(&z->in);
	const struct flow_key k = key_of(z, how);
	struct flow *f = flow_find(&z->b->flows, &k);
	const struct udp_flow *u = f ? udp_body(f) : NULL;
	struct sk_dgram d = { .seg = how & 16 ? 12 : 0 };
	struct ev_hit hit = { .mask = EV_IN };
	uint8_t b[2000];
	const uint32_t len = fill(&z->in, b), before = z->b->l2.cnt;
	const bool old = how & 8;

	if (!f || f->h < 0 || (old && !u->dns.old))
		return;
	d.to_from = old ? u->dns.old_to : u->to;
	d.to_from.port ^= how & 32 ? 1 : 0;
	hit.ref = flow_ref(&z->b->flows, f);
	fake_dg_arrive(&z->b->dg, old ? u->dns.old_h : f->h, &d, b, len);
	udp_host(&z->b->p, f, &hit);
	if (how & 32 && z->b->l2.cnt != before)
		fault("an answer from nobody");
}

static void error(struct fuzz *z)
{
	static const int code[] = { ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, EPERM, EACCES, EPROTO, 0 };
	const uint8_t how = take(&z->in);
	const struct flow_key k = key_of(z, how);
	struct flow *f = flow_find(&z->b->flows, &k);
	struct sk_err e = { .code = code[how >> 5], .local = how & 8, .icmp_type = take(&z->in), .icmp_code = take(&z->in) };
	struct ev_hit hit = { .mask = EV_ERR };
	uint8_t b[2000];
	const uint32_t len = fill(&z->in, b);

	if (!f || f->h < 0)
		return;
	e.to = udp_body(f)->to;
	if (how & 16)
		e.offender = e.to;
	hit.ref = flow_ref(&z->b->flows, f);
	fake_dg_error(&z->b->dg, f->h, &e, b, len);
	udp_host(&z->b->p, f, &hit);
}

static void pass(struct fuzz *z, ns_t time)
{
	struct twheel_timer *t;

	z->b->env.now += time;
	while ((t = twheel_pop(&z->b->tw, z->b->env.now)))
		udp_timer(&z->b->p, flow_of_timer(t));
}

static void check(struct fuzz *z)
{
	uint32_t open = 0, owned = 0;

	for (uint32_t i = 0; i < z->b->dg.open_cnt; i++)
		open += z->b->dg.opened[i].h >= 0 && !z->b->dg.opened[i].closed;
	for (uint32_t i = 0; i < z->b->flows.fresh; i++) {
		struct flow *f = &z->b->flows.tab[i];

		if (f->key.proto != FLOW_UDP)
			continue;
		owned += (f->h >= 0) + udp_body(f)->dns.old;
		if (udp_body(f)->dns.kept_len > UDP_DNS_KEPT)
			fault("more is kept than there is place for");
		if (!twheel_armed(&f->timer))
			fault("a flow that never ends");
	}
	if (open != owned)
		fault("a socket is lost");
	fake_dg_clear(&z->b->dg);
	fake_l2_clear(&z->b->l2);
}

static void step(struct fuzz *z)
{
	const uint8_t how = take(&z->in);

	switch (how & 7) {
	case 0: case 1: case 2:
		guest(z);
		break;
	case 3: case 4:
		answer(z);
		break;
	case 5:
		error(z);
		break;
	case 6:
		pass(z, (1 + (how >> 3)) * 200 * NS_MS);
		break;
	case 7:
		z->b->dg.fail_open = how & 128 ? -ENETUNREACH : 0;
		z->b->dg.max_open = how & 64 ? 2 : 0;
		if (how & 32)
			proto_evict(&z->b->p);
		else
			list_set(z, how >> 3 & 3);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz z = { .in = { data, size } };
	const struct fake_dg *dg;

	begin(&z);
	dg = &z.b->dg;
	while (z.in.left && dg->open_cnt < OPENS && dg->in_cnt < OPENS && dg->err_cnt < OPENS) {
		step(&z);
		check(&z);
	}
	z.b->dg.fail_open = -ENETUNREACH;
	pass(&z, 200 * NS_S);		/* an answer that was kept is a datagram of this time */
	pass(&z, 200 * NS_S);
	check(&z);
	if (z.b->flows.cnt)
		fault("a flow that did not end");
	bed_free(z.b);
	return 0;
}
