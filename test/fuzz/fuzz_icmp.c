/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors in both directions, with flows open: any bytes as the guest's error, nearly right ones, and any entry of a
 * host's error queue. What reaches the guest is a well-formed error about what it had sent; no flow but the quoted one
 * ends.
 */
#include "dgram_bed.h"
#include "proto/ping.h"
#include "wire/udp.h"

#define PORT	4000
#define FLOWS	3

static struct flow_key key_of(const struct bed *b, uint16_t n)
{
	return (struct flow_key){ b->guest, b->far, (uint16_t)(PORT + n), 53, n == FLOWS ? FLOW_PING : FLOW_UDP };
}

/* A datagram, or an echo request, of flow N */
static struct flow *flow_of(struct bed *b, uint16_t n)
{
	struct flow_key key = key_of(b, n);
	const struct wire_udp h = { key.guest_port, key.far_port };
	const struct l2_frame frame = { .gso = L2_GSO_NONE };
	const struct wire_icmp echo = { .type = b->v4 ? 8 : 128, .id = key.guest_port };
	uint8_t l4[WIRE_UDP_LEN + 20] = { 0 };
	const struct iovec iov = { l4, sizeof(l4) };
	struct proto_pkt pkt = {
		.frame = &frame, .ip = { .src = b->guest, .dst = b->far, .ttl = 64, .df = n & 1, .id = 9 },
		.l4 = view_of(&iov, sizeof(l4)), .next = FLOW_NONE,
	};

	if (n == FLOWS) {
		key.far_port = 0;
		wire_icmp_emit(l4, &echo, NULL, NULL, NULL);
		if (!flow_find(&b->flows, &key))
			ping_guest(&b->p, &pkt);
	} else {
		wire_udp_emit(l4, &h, 20, 0);
		if (!flow_find(&b->flows, &key))
			udp_guest(&b->p, &key, NULL, &pkt, 0);
	}
	fake_dg_clear(&b->dg);
	return flow_find(&b->flows, &key);
}

/* An error of the guest: type and code from the input; the quote is of flow N and then overwritten, or all input */
static void guest_error(struct bed *b, const uint8_t *in, uint32_t len)
{
	const struct wire_ip ip = { .src = b->far, .dst = b->guest, .proto = WIRE_IP_UDP, .ttl = 9 };
	const struct wire_udp h = { 53, (uint16_t)(PORT + in[2] % FLOWS) };
	const uint8_t cuts[PIECES_MAX - 1] = { in[3], 1, 30 };
	uint8_t l4[WIRE_ICMP_LEN + WIRE_IP6_LEN + WIRE_UDP_LEN + 256];
	struct proto_pkt pkt = { .ip = { .src = b->guest, .dst = b->far, .ttl = 64 }, .next = FLOW_NONE };
	uint32_t n = WIRE_ICMP_LEN, before;
	struct pieces s;

	memset(l4, 0, sizeof(l4));
	l4[0] = in[0] % 16;
	l4[1] = in[1] % 16;
	memcpy(l4 + 4, in + 4, 4);
	in += 8;
	len -= 8;
	n += wire_ip_emit(l4 + n, &ip, 500);
	wire_udp_emit(l4 + n, &h, 400, 0);
	n += WIRE_UDP_LEN;
	for (uint32_t i = 0; i + 2 <= len; i += 2)
		l4[WIRE_ICMP_LEN + in[i] % (n - WIRE_ICMP_LEN)] = in[i + 1];
	if (len % 2)
		n = BYTES_MIN(n, in[len - 1]);
	pkt.l4 = pieces_make(&s, cuts, l4, n);
	before = b->flows.cnt;
	proto_icmp_told(&b->p, &pkt);
	fuzz_require(b->flows.cnt + 1 >= before);
	fuzz_require(!b->l2.cnt);
	pieces_free(&s);
}

static void host_error(struct bed *b, const uint8_t *in, uint32_t len)
{
	static const int codes[] = { ECONNREFUSED, EHOSTUNREACH, EMSGSIZE, ENETUNREACH, EPROTO, EACCES, EAGAIN, 0 };
	const uint16_t n = in[0] % (FLOWS + 1);
	struct flow *f = flow_of(b, n);
	struct sk_err e = {
		.code = codes[in[1] % 8], .icmp_type = in[2] % 16, .icmp_code = in[3], .local = in[4] & 1,
		.info = bytes_get32(in + 4), .to = { .a = b->far, .port = 53 }, .offender = { .a = b->far },
	};
	const struct ev_hit hit = { .mask = EV_ERR };

	if (!f || f->h < 0)
		return;
	memcpy(e.offender.a.b + 15, in + 3, 1);
	fake_dg_error(&b->dg, f->h, &e, in + 8, len - 8);
	if (n == FLOWS)
		ping_host(&b->p, f, &hit);
	else
		udp_host(&b->p, f, &hit);
	bed_check_errors(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bed *b;
	unsigned cnt = 0;

	if (size < 1 || size > 4096)
		return 0;
	b = bed_new(data[0] & 1, BED_FLOWS);
	data++;
	size--;
	while (size >= 9 && cnt++ < 60) {	/* the fakes keep what happens in tables */
		const uint32_t len = BYTES_MIN(8 + (data[0] & 0x7fu), (uint32_t)size - 1);

		for (uint16_t n = 0; n <= FLOWS; n++)
			flow_of(b, n);
		fake_l2_clear(&b->l2);
		if (data[0] & 0x80)
			guest_error(b, data + 1, len);
		else
			host_error(b, data + 1, len);
		data += 1 + len;
		size -= 1 + len;
	}
	bed_free(b);
	return 0;
}
