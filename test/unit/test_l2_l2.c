/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Software segmentation against an independent view of the result: payloads
 * put together, headers field by field, checksums by the plain algorithm over
 * a pseudo-header that is written out as bytes.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "l2/l2.h"

#define ROOM	70000

struct shape {
	uint8_t gso;			/* enum l2_gso */
	bool v6;
	uint32_t ip_opt, tcp_opt;	/* bytes of IPv4 options or IPv6 extension header, and of TCP options */
	uint32_t payload;
	uint16_t size;			/* gso_size */
	bool df;
};

struct super {
	uint8_t b[ROOM];
	struct l2_frame f;
	uint32_t l4, payload_at;
};

static uint16_t plain_sum(const uint8_t *p, size_t len, uint64_t sum)
{
	for (; len > 1; p += 2, len -= 2)
		sum += (uint64_t)p[0] << 8 | p[1];
	if (len)
		sum += (uint64_t)p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* Folded sum of the pseudo-header of the packet at IP */
static uint16_t plain_pseudo(const uint8_t *ip, bool v6, uint8_t proto, uint32_t len)
{
	uint8_t p[40] = { 0 };

	if (v6) {
		memcpy(p, ip + 8, 32);
		p[34] = (uint8_t)(len >> 8);
		p[35] = (uint8_t)len;
		p[39] = proto;
		return plain_sum(p, 40, 0);
	}
	memcpy(p, ip + 12, 8);
	p[9] = proto;
	p[10] = (uint8_t)(len >> 8);
	p[11] = (uint8_t)len;
	return plain_sum(p, 12, 0);
}

static void ip_build(struct super *s, const struct shape *h, uint8_t proto, uint32_t ip_len)
{
	uint8_t *ip = s->b + 14;

	bytes_put16(s->b + 12, h->v6 ? 0x86dd : 0x0800);
	if (h->v6) {
		bytes_put32(ip, 0x60012345);
		bytes_put16(ip + 4, (uint16_t)(ip_len - 40));
		ip[6] = h->ip_opt ? 60 : proto;
		ip[7] = 64;
		if (h->ip_opt) {	/* destination options: padding */
			ip[40] = proto;
			ip[41] = (uint8_t)(h->ip_opt / 8 - 1);
		}
		return;
	}
	ip[0] = (uint8_t)(0x40 | (20 + h->ip_opt) / 4);
	bytes_put16(ip + 2, (uint16_t)ip_len);
	bytes_put16(ip + 4, 0xfffe);
	ip[6] = h->df ? 0x40 : 0;
	ip[8] = 64;
	ip[9] = proto;
}

static void super_build(struct super *s, const struct shape *h)
{
	const bool udp = h->gso == L2_GSO_UDP;
	const uint32_t l4_len = udp ? 8 : 20 + h->tcp_opt;
	const uint8_t proto = udp ? 17 : 6;

	for (uint32_t i = 0; i < ROOM; i++)
		s->b[i] = (uint8_t)(i * 31 + (i >> 8));
	s->l4 = 14 + (h->v6 ? 40 : 20) + h->ip_opt;
	s->payload_at = s->l4 + l4_len;
	memset(s->b + 14, 0, s->l4 - 14);
	memset(s->b + 22 + (h->v6 ? 0 : 4), 0x5a, h->v6 ? 32 : 8);
	ip_build(s, h, proto, s->payload_at - 14 + h->payload);
	if (udp) {
		bytes_put16(s->b + s->l4 + 4, (uint16_t)(8 + h->payload));
	} else {
		bytes_put32(s->b + s->l4 + 4, 0xfffff000);
		s->b[s->l4 + 12] = (uint8_t)(l4_len / 4 << 4);
		s->b[s->l4 + 13] = 0x80 | 0x10 | 0x08 | 0x01;	/* CWR ACK PSH FIN */
	}
	s->f = (struct l2_frame){
		.iov = { { s->b, 1 }, { s->b + 1, 40 }, { s->b + 41, ROOM - 41 } },
		.iov_cnt = 3,
		.len = s->payload_at + h->payload,
		.gso = h->gso,
		.csum = L2_CSUM_PARTIAL,
		.gso_size = h->size,
		.csum_start = (uint16_t)s->l4,
		.csum_off = udp ? 6 : 16,
	};
	bytes_put16(s->b + s->l4 + s->f.csum_off, plain_pseudo(s->b + 14, h->v6, proto, s->f.len - s->l4));
}

static void check_ip(const struct super *s, const struct shape *h, const uint8_t *ip, uint32_t ip_len, uint32_t idx)
{
	if (h->v6) {
		assert_int_equal(bytes_get16(ip + 4), ip_len - 40);
		assert_memory_equal(ip, s->b + 14, 4);
		assert_memory_equal(ip + 6, s->b + 20, s->l4 - 20);
		return;
	}
	assert_int_equal(bytes_get16(ip + 2), ip_len);
	assert_int_equal(bytes_get16(ip + 4), h->df ? 0xfffe : (uint16_t)(0xfffe + idx));
	assert_int_equal(plain_sum(ip, s->l4 - 14, 0), 0xffff);
	assert_memory_equal(ip + 12, s->b + 26, s->l4 - 26);
}

static void check_segment(const struct super *s, const struct shape *h, const uint8_t *b, uint32_t len, uint32_t idx)
{
	const bool udp = h->gso == L2_GSO_UDP, last = (idx + 1) * h->size >= h->payload;
	const uint32_t at = idx * h->size, n = len - s->payload_at;
	const uint8_t *l4 = b + s->l4;

	assert_int_equal(n, last ? h->payload - at : h->size);
	assert_memory_equal(b, s->b, 14);
	assert_memory_equal(b + s->payload_at, s->b + s->payload_at + at, n);
	check_ip(s, h, b + 14, len - 14, idx);
	assert_int_equal(plain_sum(l4, len - s->l4, plain_pseudo(b + 14, h->v6, udp ? 17 : 6, len - s->l4)), 0xffff);
	assert_memory_equal(l4, s->b + s->l4, 4);
	if (udp) {
		assert_int_equal(bytes_get16(l4 + 4), 8 + n);
		assert_int_not_equal(bytes_get16(l4 + 6), 0);
		return;
	}
	assert_int_equal(bytes_get32(l4 + 4), 0xfffff000 + at);
	assert_int_equal(l4[13], 0x10 | (idx ? 0 : 0x80) | (last ? 0x09 : 0));
	assert_memory_equal(l4 + 20, s->b + s->l4 + 20, h->tcp_opt);
}

static void cut(const struct shape *h)
{
	static struct super s;
	static uint8_t out[ROOM];
	struct l2_segment seg;
	uint32_t idx = 0, total = 0;
	int len;

	super_build(&s, h);
	assert_int_equal(l2_segment_start(&seg, &s.f), 0);
	while ((len = l2_segment_next(&seg, out, sizeof(out))) > 0) {
		check_segment(&s, h, out, (uint32_t)len, idx++);
		total += (uint32_t)len - s.payload_at;
	}
	assert_int_equal(len, 0);
	assert_int_equal(total, h->payload);
	assert_int_equal(idx, h->payload ? (h->payload + h->size - 1) / h->size : 1);
}

static void segments(void **state)
{
	static const uint32_t payloads[] = { 0, 1, 2, 1459, 1460, 1461, 2920, 20001, 65000 };
	static const uint16_t sizes[] = { 1, 536, 1447, 1460, 32768 };

	(void)state;
	for (uint32_t i = 0; i < BYTES_COUNT(payloads) * BYTES_COUNT(sizes) * 24; i++) {
		const uint32_t kind = i % 24, n = i / 24;
		const struct shape h = {
			.v6 = kind & 1,
			.gso = kind & 2 ? L2_GSO_UDP : kind & 1 ? L2_GSO_TCP6 : L2_GSO_TCP4,
			.df = kind & 4,
			.ip_opt = kind / 8 * 8,
			.tcp_opt = kind & 2 ? 0 : kind / 8 * 20,
			.payload = payloads[n % BYTES_COUNT(payloads)],
			.size = sizes[n / BYTES_COUNT(payloads)],
		};

		if (h.size > 1 || h.payload < 3000)
			cut(&h);
	}
}

/* A frame that needs no cutting: only its sum is completed, and only if it is to be */
static void sums(void **state)
{
	static struct super s;
	static uint8_t out[ROOM];
	const struct shape h = { .gso = L2_GSO_UDP, .v6 = true, .payload = 777, .size = 777 };
	struct l2_segment seg;
	uint16_t partial;

	(void)state;
	super_build(&s, &h);
	partial = bytes_get16(s.b + s.l4 + 6);
	s.f.gso = L2_GSO_NONE;
	assert_int_equal(l2_segment_start(&seg, &s.f), 0);
	assert_int_equal(l2_segment_next(&seg, out, s.f.len - 1), -EMSGSIZE);
	assert_int_equal(l2_segment_next(&seg, out, sizeof(out)), s.f.len);
	assert_int_equal(plain_sum(out + s.l4, s.f.len - s.l4, plain_pseudo(out + 14, true, 17, s.f.len - s.l4)), 0xffff);
	assert_int_equal(l2_segment_next(&seg, out, sizeof(out)), 0);

	s.f.csum = L2_CSUM_COMPLETE;
	assert_int_equal(l2_segment_start(&seg, &s.f), 0);
	assert_int_equal(l2_segment_next(&seg, out, sizeof(out)), s.f.len);
	assert_int_equal(bytes_get16(out + s.l4 + 6), partial);
}

/* A UDP sum that comes out as 0 is sent as 0xffff: 0 means none (RFC 768) */
static void udp_zero(void **state)
{
	static struct super s;
	static uint8_t out[ROOM];
	const struct shape h = { .gso = L2_GSO_UDP, .payload = 4, .size = 4 };
	struct l2_segment seg;
	uint16_t sum;

	(void)state;
	super_build(&s, &h);
	bytes_put16(s.b + s.payload_at, 0);
	sum = plain_sum(s.b + s.l4, s.f.len - s.l4, 0);
	bytes_put16(s.b + s.payload_at, (uint16_t)~sum);
	assert_int_equal(l2_segment_start(&seg, &s.f), 0);
	assert_int_equal(l2_segment_next(&seg, out, sizeof(out)), s.f.len);
	assert_int_equal(bytes_get16(out + s.l4 + 6), 0xffff);
}

static void lies(void **state)
{
	static struct super s;
	const struct shape h = { .gso = L2_GSO_TCP4, .payload = 3000, .size = 1460 };
	struct l2_segment seg;

	(void)state;
#define LIE(change) do { super_build(&s, &h); change; assert_int_equal(l2_segment_start(&seg, &s.f), -EBADMSG); } while (0)
	LIE(s.f.gso_size = 0);
	LIE(s.f.csum = L2_CSUM_COMPLETE);
	LIE(s.f.csum = L2_CSUM_GOOD);
	LIE(s.f.csum_off = 6);
	LIE(s.f.csum_start = 14);
	LIE(s.f.csum_start = 35);
	LIE(s.f.csum_start = 0xffff);
	LIE(s.f.len = 53);
	LIE(s.f.len = 13);
	LIE(s.f.gso = L2_GSO_TCP6);
	LIE(s.b[12] = 0x09);
	LIE(s.b[14] = 0x46);
	LIE(s.b[s.l4 + 12] = 0x40);
	LIE((s.f.len = 60, s.b[s.l4 + 12] = 0xf0));
	LIE((s.f.gso = L2_GSO_NONE, s.f.csum_start = (uint16_t)(s.f.len - 17)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments),
		cmocka_unit_test(sums),
		cmocka_unit_test(udp_zero),
		cmocka_unit_test(lies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
