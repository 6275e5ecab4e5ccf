/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Software segmentation: cuts a TCP or UDP super-frame into frames of gso_size
 * payload bytes and completes partial checksums (RFC 9293 3.1, RFC 768, RFC
 * 8200 8.1). Refuses frames whose descriptor contradicts their headers.
 * Invariant: the frames' payloads, put together, are the super-frame's payload.
 * With DF set the IPv4 id is left alone, else it counts up (RFC 6864 4).
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/addr.h"
#include "base/bytes.h"
#include "base/csum.h"
#include "l2/l2.h"

#define TYPE_IPV4	0x0800
#define TYPE_IPV6	0x86dd
#define IP4_LEN		20
#define IP6_LEN		40
#define TCP_LEN		20
#define TCP_SUM		16
#define UDP_LEN		8
#define UDP_SUM		6
#define TCP_FIN_PSH	0x09
#define TCP_CWR		0x80

/* Up to LEN bytes from offset OFF of the frame to DST; returns how many */
static uint32_t frame_copy(const struct l2_frame *f, uint32_t off, uint8_t *dst, uint32_t len)
{
	uint32_t copied = 0;

	for (uint32_t i = 0; i < f->iov_cnt && copied < len; i++) {
		const struct iovec *v = &f->iov[i];
		size_t n;

		if (off >= v->iov_len) {
			off -= (uint32_t)v->iov_len;
			continue;
		}
		n = BYTES_MIN(v->iov_len - off, len - copied);
		memcpy(dst + copied, (const uint8_t *)v->iov_base + off, n);
		copied += (uint32_t)n;
		off = 0;
	}
	return copied;
}

/* Length of all headers, or 0 if they aren't what the descriptor says */
static uint32_t gso_hdr_len(const struct l2_segment *s, uint32_t have)
{
	const struct l2_frame *f = s->f;
	const uint16_t type = bytes_get16(s->hdr + 12);
	uint32_t len = s->l4 + (f->gso == L2_GSO_UDP ? UDP_LEN : TCP_LEN);

	if (type != TYPE_IPV4 && type != TYPE_IPV6)
		return 0;
	if ((f->gso == L2_GSO_TCP4 && type != TYPE_IPV4) || (f->gso == L2_GSO_TCP6 && type != TYPE_IPV6))
		return 0;
	if (s->l4 < L2_HDR_LEN + (type == TYPE_IPV4 ? IP4_LEN : IP6_LEN) || len > have)
		return 0;
	if (type == TYPE_IPV4 && s->l4 != L2_HDR_LEN + 4u * (s->hdr[L2_HDR_LEN] & 0xf))
		return 0;
	if (f->gso != L2_GSO_UDP) {
		const uint32_t tcp = 4u * (s->hdr[s->l4 + 12] >> 4);

		if (tcp < TCP_LEN)
			return 0;
		len = s->l4 + tcp;
	}
	return len <= have ? len : 0;
}

int l2_segment_start(struct l2_segment *s, const struct l2_frame *f)
{
	uint32_t have;

	memset(s, 0, offsetof(struct l2_segment, hdr));
	s->f = f;
	if (f->csum == L2_CSUM_PARTIAL && (uint32_t)f->csum_start + f->csum_off + 2 > f->len)
		return -EBADMSG;
	if (f->gso == L2_GSO_NONE) {
		s->payload = f->len;
		return 0;
	}
	if (f->csum != L2_CSUM_PARTIAL || !f->gso_size || f->csum_off != (f->gso == L2_GSO_UDP ? UDP_SUM : TCP_SUM))
		return -EBADMSG;
	have = frame_copy(f, 0, s->hdr, BYTES_MIN(f->len, sizeof(s->hdr)));
	s->l4 = f->csum_start;
	s->hdr_len = gso_hdr_len(s, have);
	if (!s->hdr_len)
		return -EBADMSG;
	s->payload = f->len - s->hdr_len;
	return 0;
}

/* Complete the sum that starts at START and has its field OFF bytes on */
static void csum_complete(uint8_t *frame, uint32_t len, uint32_t start, uint32_t off)
{
	uint16_t sum = csum_done(csum_add(0, frame + start, len - start));

	/* A UDP sum of 0 would mean none */
	if (off == UDP_SUM && !sum)
		sum = 0xffff;
	bytes_put16(frame + start + off, sum);
}

static void ip4_fix(uint8_t *ip, uint32_t ip_len, uint32_t idx)
{
	bytes_put16(ip + 2, (uint16_t)ip_len);
	if (!(ip[6] & 0x40))
		bytes_put16(ip + 4, (uint16_t)(bytes_get16(ip + 4) + idx));
	bytes_put16(ip + 10, 0);
	bytes_put16(ip + 10, csum_done(csum_add(0, ip, 4u * (ip[0] & 0xf))));
}

/* Headers of one segment with PAYLOAD bytes at BUF */
static void segment_fix(const struct l2_segment *s, uint8_t *buf, uint32_t payload)
{
	uint8_t *ip = buf + L2_HDR_LEN, *l4 = buf + s->l4;
	const uint32_t l4_len = s->hdr_len - s->l4 + payload;
	const bool udp = s->f->gso == L2_GSO_UDP;
	struct inaddr src, dst;
	uint32_t sum;

	if (bytes_get16(buf + 12) == TYPE_IPV4) {
		ip4_fix(ip, s->hdr_len - L2_HDR_LEN + payload, s->idx);
		src = inaddr_v4(ip + 12);
		dst = inaddr_v4(ip + 16);
	} else {
		bytes_put16(ip + 4, (uint16_t)(s->hdr_len - L2_HDR_LEN - IP6_LEN + payload));
		src = inaddr_v6(ip + 8);
		dst = inaddr_v6(ip + 24);
	}
	if (udp) {
		bytes_put16(l4 + 4, (uint16_t)l4_len);
	} else {
		bytes_put32(l4 + 4, bytes_get32(l4 + 4) + s->done);
		if (s->done + payload < s->payload)
			l4[13] &= (uint8_t)~TCP_FIN_PSH;
		if (s->idx)
			l4[13] &= (uint8_t)~TCP_CWR;
	}
	sum = csum_pseudo(&src, &dst, udp ? IPPROTO_UDP : IPPROTO_TCP, l4_len);
	bytes_put16(l4 + s->f->csum_off, csum_fold(sum));
	csum_complete(buf, s->hdr_len + payload, s->l4, s->f->csum_off);
}

int l2_segment_next(struct l2_segment *s, uint8_t *buf, uint32_t size)
{
	const struct l2_frame *f = s->f;
	uint32_t n;

	/* A super-frame without payload still is one frame */
	if (s->idx && s->done == s->payload)
		return 0;
	n = s->payload - s->done;
	if (f->gso != L2_GSO_NONE)
		n = BYTES_MIN(n, f->gso_size);
	if (s->hdr_len + n > size)
		return -EMSGSIZE;

	memcpy(buf, s->hdr, s->hdr_len);
	if (frame_copy(f, s->hdr_len + s->done, buf + s->hdr_len, n) != n)
		return -EBADMSG;
	if (f->gso != L2_GSO_NONE)
		segment_fix(s, buf, n);
	else if (f->csum == L2_CSUM_PARTIAL)
		csum_complete(buf, n, f->csum_start, f->csum_off);
	s->done += n;
	s->idx++;
	return (int)(s->hdr_len + n);
}
