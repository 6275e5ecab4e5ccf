/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A world for simulations: the real path, flow table and protocols on fake
 * ports and fake time. Frames from the guest are built here, frames to it are
 * parsed and checked here: lengths, checksum descriptor, segmentation
 * descriptor. Only static inline functions, as fuzz targets use it too.
 */
#ifndef TEST_SIM_WORLD_H
#define TEST_SIM_WORLD_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "base/seqno.h"
#include "fake/fake_l2.h"
#include "fake/fake_sk.h"
#include "path/path.h"

#define WORLD_FRAME_MAX	(WIRE_ETH_LEN + 65600)

struct world_seg {			/* a TCP segment, either way */
	struct flow_key key;
	struct wire_tcp h;
	uint8_t tos, ttl;		/* ttl: of the guest's; 0: 64 */
	uint32_t len;
	const uint8_t *data;
	uint16_t gso_size;		/* 0: none */
};

struct world {
	struct env env;
	struct fake_l2 l2;
	struct fake_sk sk;
	struct twheel tw;
	struct rng rng;
	struct trace tr;
	struct drops drops;
	struct flow_tab flows;
	struct fwd fwd;
	struct path path;
	struct tcp_settings tcp;
	uint32_t half_open[1];
	struct tcp_pool pool;
	void *mem;
	bool v6;
	uint8_t *batch_buf[L2_BATCH];	/* frames from the guest, until delivered */
	struct l2_frame batch[L2_BATCH];
	int batch_cnt;
	uint32_t pieces;		/* frames of the guest lie in this many pieces of memory; 0 and 1: one */
	uint32_t read;			/* frames of l2 already looked at */
	char why[256];			/* what is wrong with a frame */
};

static inline void world_check_alloc(const void *p)
{
	if (!p) {
		fprintf(stderr, "out of memory\n");
		abort();
	}
}

static inline struct inaddr world_addr(const char *text)
{
	struct inaddr a;

	if (inaddr_parse(text, &a))
		abort();
	return a;
}

static inline void world_init(struct world *w, bool v6, bool deferred, ns_t now, uint32_t flows)
{
	static const struct svc svc;
	static uint8_t pool[TCP_POOL_LEN] __attribute__((aligned(8)));	/* one world at a time uses it */

	memset(w, 0, sizeof(*w));
	w->v6 = v6;
	fake_l2_init(&w->l2, L2_OFF_CSUM | L2_OFF_TSO4 | L2_OFF_TSO6);
	w->l2.l2.gives = w->l2.l2.takes;
	fake_sk_init(&w->sk, deferred);
	twheel_init(&w->tw, now);
	rng_seed(&w->rng, 1);
	w->tr.on = true;
	w->mem = calloc(1, flow_tab_size(flows));
	world_check_alloc(w->mem);
	w->env = (struct env){
		.now = now, .l2 = &w->l2.l2, .sk = &w->sk.sk, .tw = &w->tw, .rng = &w->rng, .tr = &w->tr, .drops = &w->drops,
		.key = { { 1, 2 } }, .our_mac = { { 2, 0, 0, 0, 0, 1 } }, .guest_mac = { { 2, 0, 0, 0, 0, 2 } },
	};
	flow_tab_init(&w->flows, w->mem, flows, &w->env.key);
	w->fwd.tcp_on = true;
	w->fwd.f[FWD_V4] = (struct fwd_family_set){ .on = true, .prefix_len = 24, .guest = world_addr("192.0.2.2"),
						   .seen = world_addr("192.0.2.2"), .gateway = world_addr("192.0.2.1"),
						   .ours = world_addr("192.0.2.1") };
	w->fwd.f[FWD_V6] = (struct fwd_family_set){ .on = true, .prefix_len = 64, .guest = world_addr("2001:db8::2"),
						   .seen = world_addr("2001:db8::2"), .gateway = world_addr("fe80::1"),
						   .ours = world_addr("fe80::1") };
	w->tcp = (struct tcp_settings){ 6, 4, 5, 120 * NS_S, 7200 * NS_S, 75 * NS_S, 9 };	/* the kernel's defaults */
	path_init(&w->path, &w->env, &w->flows, &w->fwd, &svc);
	w->path.p.tcp = &w->tcp;
	w->path.p.half_open = w->half_open;
	w->pool.mem = pool;
	w->path.p.tcp_pool = &w->pool;
}

/* Leave N blocks of the pool for out-of-order payload; call before any is used */
static inline void world_pool(struct world *w, uint32_t n)
{
	w->pool.fresh = TCP_POOL_CNT - n;
}

static inline void world_batch_free(struct world *w)
{
	for (int i = 0; i < w->batch_cnt; i++)
		free(w->batch_buf[i]);
	w->batch_cnt = 0;
}

static inline void world_done(struct world *w)
{
	world_batch_free(w);
	fake_l2_done(&w->l2);
	fake_sk_done(&w->sk);
	free(w->mem);
}

/* The tuple of guest port PORT to far port 80 */
static inline struct flow_key world_key(const struct world *w, uint16_t guest_port, uint16_t far_port)
{
	return (struct flow_key){
		.guest = world_addr(w->v6 ? "2001:db8::2" : "192.0.2.2"),
		.far = world_addr(w->v6 ? "2001:db8:1::80" : "198.51.100.80"),
		.guest_port = guest_port, .far_port = far_port, .proto = FLOW_TCP,
	};
}

/* The initial sequence number that a flow opened now would get */
static inline uint32_t world_iss(const struct world *w, const struct flow_key *k)
{
	return (uint32_t)hash_sip(&w->env.key, k, sizeof(*k)) + (uint32_t)(w->env.now >> 12);
}

/* Bytes of both streams: a function of direction and offset that repeats late */
static inline uint8_t world_byte(bool to_guest, uint32_t off)
{
	return (uint8_t)(off * 7 + (off >> 8) * 13 + (off >> 16) + (to_guest ? 1 : 0));
}

/* Add a raw frame to the batch of the guest; full: false */
static inline bool world_batch_raw(struct world *w, const void *p, uint32_t len)
{
	struct l2_frame *f = &w->batch[w->batch_cnt];
	uint32_t pieces = BYTES_MIN(BYTES_MAX(w->pieces, 1u), (uint32_t)L2_IOV_MAX), each = len / pieces;

	if (w->batch_cnt == L2_BATCH)
		return false;
	w->batch_buf[w->batch_cnt] = malloc(len ? len : 1);
	world_check_alloc(w->batch_buf[w->batch_cnt]);
	memcpy(w->batch_buf[w->batch_cnt], p, len);
	*f = (struct l2_frame){ .iov_cnt = pieces, .len = len };
	for (uint32_t i = 0; i < pieces; i++)
		f->iov[i] = (struct iovec){ w->batch_buf[w->batch_cnt] + i * each, i + 1 < pieces ? each : len - i * each };
	w->batch_cnt++;
	return true;
}

/* Frame of a segment of the guest */
static inline uint32_t world_frame(const struct world *w, uint8_t *p, const struct world_seg *s)
{
	struct wire_eth eth = { .dst = w->env.our_mac, .src = { { 2, 0, 0, 0, 0, 2 } },
				.type = inaddr_is_v4(&s->key.far) ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6 };
	struct wire_ip ip = { .src = s->key.guest, .dst = s->key.far, .proto = WIRE_IP_TCP, .ttl = s->ttl ? s->ttl : 64, .df = true,
			     .tos = s->tos };
	uint32_t hlen = wire_tcp_hdr_len(&s->h), n = WIRE_ETH_LEN;

	wire_eth_emit(p, &eth);
	n += wire_ip_emit(p + n, &ip, hlen + s->len);
	n += wire_tcp_emit(p + n, &s->h, 0);
	if (s->len)
		memcpy(p + n, s->data, s->len);
	return n + s->len;
}

static inline bool world_batch(struct world *w, const struct world_seg *s)
{
	static uint8_t buf[WORLD_FRAME_MAX];

	return world_batch_raw(w, buf, world_frame(w, buf, s));
}

/* Results of deferred sends, as the loop would bring them before the frames are released */
static inline void world_complete(struct world *w)
{
	struct ev_hit hit;

	while (fake_sk_complete(&w->sk, &hit))
		path_host(&w->path, &hit);
}

/* One turn with the batch */
static inline void world_deliver(struct world *w)
{
	path_guest(&w->path, w->batch, w->batch_cnt);
	world_complete(w);
	world_batch_free(w);
	path_tick(&w->path);
}

static inline void world_event(struct world *w, struct ev_ref ref, uint32_t mask)
{
	struct ev_hit hit = { .ref = ref, .mask = mask };

	path_host(&w->path, &hit);
	world_complete(w);
	path_tick(&w->path);
}

/* Let time pass, running what is due when it is due */
static inline void world_advance(struct world *w, ns_t by)
{
	ns_t end = w->env.now + by, next;
	uint32_t turns = 0;

	while ((next = path_next(&w->path)) <= end) {
		if (turns++ == 1000000) {
			fprintf(stderr, "timers spin\n");
			abort();
		}
		w->env.now = BYTES_MAX(next, w->env.now);
		path_tick(&w->path);
	}
	w->env.now = end;
	path_tick(&w->path);
}

static inline int world_bad(struct world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	return -1;
}

/* What every frame to the guest must keep to: 0, or -1 and w->why */
static inline int world_check(struct world *w, const struct fake_l2_frame *r, uint32_t l4, const struct world_seg *s)
{
	uint32_t hdr = r->len - s->len, mtu_len = WIRE_ETH_LEN + w->l2.l2.mtu;
	bool v4 = inaddr_is_v4(&s->key.far);
	uint16_t want = csum_fold(csum_pseudo(&s->key.far, &s->key.guest, WIRE_IP_TCP, r->len - l4));

	if (r->csum != L2_CSUM_PARTIAL || r->csum_start != l4 || r->csum_off != 16)
		return world_bad(w, "checksum descriptor %u %u %u", r->csum, r->csum_start, r->csum_off);
	if (bytes_get16(r->buf + l4 + 16) != want)
		return world_bad(w, "partial checksum %04x, not %04x", bytes_get16(r->buf + l4 + 16), want);
	if (r->gso == L2_GSO_NONE && r->len > mtu_len)
		return world_bad(w, "frame of %u bytes, not to be segmented", r->len);
	if (r->gso != L2_GSO_NONE && (r->gso != (v4 ? L2_GSO_TCP4 : L2_GSO_TCP6) || r->hdr_len != hdr || !r->gso_size ||
				      r->gso_size >= s->len || hdr + r->gso_size > mtu_len))
		return world_bad(w, "segmentation descriptor %u %u %u for %u bytes", r->gso, r->hdr_len, r->gso_size, s->len);
	if (v4 && csum_done(csum_add(0, r->buf + WIRE_ETH_LEN, WIRE_IP4_LEN)))
		return world_bad(w, "IPv4 header checksum");
	if (!(s->h.flags & WIRE_TCP_ACK) && s->h.ack)
		return world_bad(w, "acknowledgement number without ACK");
	return 0;
}

/* Next frame to the guest: 1, 0 if there is none, or -1 and w->why. Data points into the frame kept by the link. */
static inline int world_next(struct world *w, struct world_seg *ret)
{
	const struct fake_l2_frame *r = &w->l2.frames[w->read];
	struct iovec iov;
	struct view v;
	struct wire_eth eth;
	struct wire_ip ip;
	uint32_t l4;

	if (w->read == w->l2.cnt)
		return 0;
	w->read++;
	iov = (struct iovec){ r->buf, r->len };
	v = view_of(&iov, r->len);
	if (wire_eth_parse(&v, &eth))
		return world_bad(w, "short frame");
	if ((eth.type == WIRE_ETH_IPV4 ? wire_ip4_parse(&v, &ip) : wire_ip6_parse(&v, &ip)) != WIRE_IP_OK)
		return world_bad(w, "bad IP header");
	if (ip.proto != WIRE_IP_TCP)
		return world_bad(w, "protocol %u", ip.proto);
	l4 = r->len - v.len;
	if (wire_tcp_parse(&v, &ret->h))
		return world_bad(w, "bad TCP header");
	ret->key = (struct flow_key){ .guest = ip.dst, .far = ip.src, .guest_port = ret->h.dport, .far_port = ret->h.sport,
				     .proto = FLOW_TCP };
	ret->tos = ip.tos;
	ret->len = v.len;
	ret->data = r->buf + r->len - v.len;
	ret->gso_size = r->gso == L2_GSO_NONE ? 0 : r->gso_size;
	return world_check(w, r, l4, ret) ? -1 : 1;
}

/* Forget frames that were looked at, before the link's memory is full */
static inline void world_forget(struct world *w)
{
	if (w->read == w->l2.cnt) {
		fake_l2_clear(&w->l2);
		w->read = 0;
	}
}

static inline const char *world_flags(uint8_t flags, char *buf)
{
	static const char letter[] = "FSRP.UEW";
	char *p = buf;

	for (int i = 0; i < 8; i++)
		if (flags & 1 << i)
			*p++ = letter[i];
	*p = 0;
	return buf;
}

static inline void world_dump(const struct world *w, ns_t since)
{
	static const char *const name[] = {
#define WORLD_NAME(n, text) #n,
		DROP_LIST(WORLD_NAME)
#undef WORLD_NAME
	};
	const struct trace *t = &w->tr;
	uint32_t from = t->head > 60 ? t->head - 60 : 0;

	for (; from < t->head; from++) {
		const struct trace_rec *r = &t->rec[from % TRACE_LEN];

		fprintf(stderr, "    %9.3f ms  %s flow %u: %u %u\n", (double)(r->at - since) / 1e6, r->what, r->flow, r->a, r->b);
	}
	for (int i = 0; i < DROP_CNT; i++)
		if (w->drops.cnt[i])
			fprintf(stderr, "    dropped %s: %llu\n", name[i], (unsigned long long)w->drops.cnt[i]);
}

#endif
