/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whole frames through every parser. However a frame is cut into pieces, it must mean the same: all that the parsers
 * say is hashed, once for the pieces and once for the frame in one piece.
 */
#include "base/csum.h"
#include "base/hash.h"
#include "pieces.h"
#include "wire/arp.h"
#include "wire/eth.h"
#include "wire/icmp.h"
#include "wire/ip.h"
#include "wire/nd.h"
#include "wire/tcp.h"
#include "wire/udp.h"

struct digest {
	struct hash_key key;
};

static void add(struct digest *d, const void *p, size_t len)
{
	d->key.k[0] = hash_sip(&d->key, p, len);
	d->key.k[1]++;
}

static void add_num(struct digest *d, uint64_t n)
{
	add(d, &n, sizeof(n));
}

static void add_view(struct digest *d, const struct view *v)
{
	uint8_t *b = malloc(v->len + 1);

	fuzz_require(b);
	fuzz_require(view_copy(v, b, v->len + 1) == v->len);
	add(d, b, v->len);
	fuzz_require(csum_fold(csum_add_view(0, v)) == csum_fold(csum_add(0, b, v->len)));
	free(b);
}

static void do_tcp(struct digest *d, struct view *v)
{
	struct wire_tcp h;

	if (wire_tcp_parse(v, &h))
		return;
	add_num(d, h.seq ^ (uint64_t)h.ack << 32);
	add_num(d, (uint64_t)h.sport << 48 | (uint64_t)h.dport << 32 | (uint64_t)h.wnd << 16 | h.urg);
	add_num(d, (uint64_t)h.mss << 32 | (uint64_t)h.ws << 24 | (uint64_t)h.sack_cnt << 16 | (uint64_t)h.flags << 8 |
		   (h.has_mss ? 1u : 0) | (h.has_ws ? 2u : 0) | (h.has_sack_ok ? 4u : 0) | (h.has_ts ? 8u : 0));
	add_num(d, h.ts_val ^ (uint64_t)h.ts_ecr << 32);
	add(d, h.sack, sizeof(h.sack));
}

static void do_icmp(struct digest *d, struct view *v, const struct wire_ip *ip)
{
	struct wire_nd_sol sol;
	struct wire_icmp h;

	if (!wire_nd_parse_ns(*v, ip->ttl, &ip->src, &sol) || !wire_nd_parse_rs(*v, ip->ttl, &ip->src, &sol)) {
		add(d, sol.target.b, sizeof(sol.target.b));
		add(d, sol.lladdr.b, sizeof(sol.lladdr.b));
		add_num(d, sol.has_lladdr);
	}
	if (!wire_icmp_parse(v, &h)) {
		struct view quote = *v;
		struct wire_ip in;

		add_num(d, (uint64_t)h.type << 40 | (uint64_t)h.code << 32 | (uint64_t)h.id << 16 | h.seq);
		if (wire_ip_quote_parse(&quote, ip->proto == WIRE_IP_ICMP, &in) == WIRE_IP_OK) {
			add(d, in.dst.b, sizeof(in.dst.b));
			add_num(d, in.proto);
			add_view(d, &quote);
		}
	}
}

static void do_ip(struct digest *d, struct view *v, enum wire_ip_verdict verdict, const struct wire_ip *ip)
{
	struct wire_udp u;

	add_num(d, verdict);
	if (verdict == WIRE_IP_MALFORMED)
		return;
	add(d, ip->src.b, sizeof(ip->src.b));
	add(d, ip->dst.b, sizeof(ip->dst.b));
	add_num(d, (uint64_t)ip->label << 32 | (uint64_t)ip->proto << 24 | (uint64_t)ip->ttl << 16 |
		   (uint64_t)ip->tos << 8 | ip->df);
	if (verdict != WIRE_IP_OK)
		return;
	add_view(d, v);
	if (ip->proto == WIRE_IP_TCP) {
		do_tcp(d, v);
	} else if (ip->proto == WIRE_IP_UDP) {
		if (!wire_udp_parse(v, ip->tos & 1, &u))
			add_num(d, (uint64_t)u.sport << 16 | u.dport);
	} else if (ip->proto == WIRE_IP_ICMP || ip->proto == WIRE_IP_ICMP6) {
		do_icmp(d, v, ip);
	}
	add_view(d, v);
}

static uint64_t run(struct view v)
{
	struct digest d = { { { 1, 2 } } };
	struct wire_arp arp;
	struct wire_eth eth;
	struct wire_ip ip;
	int r;

	memset(&ip, 0, sizeof(ip));
	if (wire_eth_parse(&v, &eth))
		return 0;
	add(&d, &eth, sizeof(eth));
	if (eth.type == WIRE_ETH_IPV4) {
		const enum wire_ip_verdict verdict = wire_ip4_parse(&v, &ip);

		do_ip(&d, &v, verdict, &ip);
	} else if (eth.type == WIRE_ETH_IPV6) {
		const enum wire_ip_verdict verdict = wire_ip6_parse(&v, &ip);

		do_ip(&d, &v, verdict, &ip);
	} else if (eth.type == WIRE_ETH_ARP) {
		memset(&arp, 0, sizeof(arp));
		r = wire_arp_parse(v, &arp);
		add_num(&d, (uint64_t)-r);
		add(&d, &arp, r ? 0 : sizeof(arp));
	}
	return d.key.k[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t uncut[PIECES_MAX - 1];
	const uint8_t *cuts;
	struct pieces s;
	uint64_t cut, whole;

	if (!pieces_input(&data, &size, &cuts))
		return 0;
	cut = run(pieces_make(&s, cuts, data, size));
	pieces_free(&s);
	whole = run(pieces_make(&s, uncut, data, size));
	pieces_free(&s);
	fuzz_require(cut == whole);
	return 0;
}
