/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/tcp/refuse.c: every errno of connect() has its answer (TCP-24).
 */
#include "rig_tcp.h"

#include "base/csum.h"
#include "proto/icmp.h"

#define SILENCE	0
#define RESET	(-1)

static const struct {
	int code;			/* errno */
	int type4, code4, type6, code6;	/* or SILENCE, RESET in type */
} answers[] = {
	{ ECONNREFUSED, RESET, 0, RESET, 0 },
	{ ECONNRESET, RESET, 0, RESET, 0 },
	{ EMFILE, RESET, 0, RESET, 0 },
	{ ENOMEM, RESET, 0, RESET, 0 },
	{ EMSGSIZE, RESET, 0, RESET, 0 },
	{ ETIMEDOUT, SILENCE, 0, SILENCE, 0 },
	{ ENETUNREACH, 3, 0, 1, 0 },
	{ ENETDOWN, 3, 0, 1, 0 },
	{ EINVAL, 3, 0, 1, 0 },
	{ EADDRNOTAVAIL, 3, 0, 1, 0 },
	{ EHOSTUNREACH, 3, 1, 1, 3 },
	{ ENOPROTOOPT, 3, 2, 1, 3 },
	{ EHOSTDOWN, 3, 7, 1, 3 },
	{ ENONET, 3, 8, 1, 0 },
	{ EACCES, 3, 13, 1, 1 },
	{ EPERM, 3, 13, 1, 1 },
	{ EPROTO, 12, 0, 4, 0 },
};

static void check_icmp(struct rig *r, int type, int code)
{
	const bool v4 = inaddr_is_v4(&r->key.far);
	const struct fake_l2_frame *f = &r->l2.frames[0];
	const uint8_t *icmp = f->buf + proto_l4_off(&r->key.far);
	const uint32_t ip_len = wire_ip_hdr_len(&r->key.far);
	const struct iovec iov = { (uint8_t *)icmp + WIRE_ICMP_LEN, ip_len + WIRE_TCP_LEN };
	struct view v = view_of(&iov, ip_len + WIRE_TCP_LEN);
	struct wire_ip ip;
	struct wire_tcp h;

	assert_int_equal(f->len, proto_l4_off(&r->key.far) + WIRE_ICMP_LEN + ip_len + WIRE_TCP_LEN);
	assert_int_equal(icmp[0], type);
	assert_int_equal(icmp[1], code);
	assert_int_equal(v4 ? wire_ip4_parse(&v, &ip) : wire_ip6_parse(&v, &ip), WIRE_IP_OK);
	assert_true(inaddr_eq(&ip.src, &r->key.guest) && inaddr_eq(&ip.dst, &r->key.far));
	assert_int_equal(ip.tos, 0x28);
	assert_int_equal(csum_done(csum_add_view(csum_pseudo(&ip.src, &ip.dst, WIRE_IP_TCP, v.len), &v)), 0);
	assert_int_equal(wire_tcp_parse(&v, &h), 0);
	assert_int_equal(h.seq, RIG_ISN);
	assert_int_equal(h.flags, WIRE_TCP_SYN);
	assert_int_equal(h.sport, 40000);
	assert_int_equal(h.dport, 80);
}

static void check_answer(struct rig *r, size_t i)
{
	const bool v4 = inaddr_is_v4(&r->key.far);
	const int type = v4 ? answers[i].type4 : answers[i].type6;

	assert_int_equal(r->flows.cnt, 0);
	assert_int_equal(r->l2.cnt, type == SILENCE ? 0 : 1);
	if (type == RESET) {
		const uint8_t *tcp = r->l2.frames[0].buf + proto_l4_off(&r->key.far);

		assert_int_equal(tcp[13], WIRE_TCP_RST | WIRE_TCP_ACK);
		assert_int_equal(bytes_get32(tcp + 8), RIG_ISN + 1);
	} else if (type != SILENCE) {
		check_icmp(r, type, v4 ? answers[i].code4 : answers[i].code6);
	}
	fake_l2_clear(&r->l2);
}

static const struct tcp_seg syn = {
	.h = { .sport = 40000, .dport = 80, .seq = RIG_ISN, .wnd = 1000, .flags = WIRE_TCP_SYN }, .tos = 0x28, .next = FLOW_NONE,
};

static void test_at_once(void **state)
{
	struct rig *r = *state;

	for (size_t i = 0; i < BYTES_COUNT(answers); i++) {
		r->sk.connect_err = -answers[i].code;
		tcp_guest_new(&r->p, &r->key, &syn);
		check_answer(r, i);
	}
}

static void test_later(void **state)
{
	const struct ev_hit hit = { .mask = EV_OUT | EV_ERR | EV_HUP };
	struct rig *r = *state;

	for (size_t i = 0; i < BYTES_COUNT(answers); i++) {
		struct flow *f;
		int h;

		tcp_guest_new(&r->p, &r->key, &syn);
		f = flow_find(&r->flows, &r->key);
		assert_non_null(f);
		h = f->h;
		r->sk.s[h].result = -answers[i].code;
		tcp_host(&r->p, f, &hit);
		assert_false(r->sk.s[h].open);
		check_answer(r, i);
	}
}

/* Our own errors are limited in rate: beyond it a reset is left. The link's router complains; without one, the far address. */
static void test_rate_and_source(void **state)
{
	struct rig *r = *state;
	const bool v4 = inaddr_is_v4(&r->key.far);

	r->sk.connect_err = -EHOSTUNREACH;
	for (int i = 0; i < PROTO_ICMP_BURST; i++) {
		const uint8_t *ip;

		tcp_guest_new(&r->p, &r->key, &syn);
		ip = r->l2.frames[0].buf + WIRE_ETH_LEN;
		assert_memory_equal(ip + (v4 ? 12 : 8), r->key.far.b + (v4 ? 12 : 0), v4 ? 4 : 16);
		check_icmp(r, v4 ? 3 : 1, v4 ? 1 : 3);
		fake_l2_clear(&r->l2);
	}
	tcp_guest_new(&r->p, &r->key, &syn);
	check_answer(r, 0);
	r->env.now += NS_S / PROTO_ICMP_RATE;
	r->fwd.f[fwd_family_of(&r->key.far)].ours = rig_addr(v4 ? "192.0.2.1" : "fe80::1");
	tcp_guest_new(&r->p, &r->key, &syn);
	check_icmp(r, v4 ? 3 : 1, v4 ? 1 : 3);
	assert_int_equal(r->l2.frames[0].buf[WIRE_ETH_LEN + (v4 ? 12 : 8)], v4 ? 192 : 0xfe);
}

/* A SYN of traceroute: the router where it ended is named, with its own type and code; the kernel gets the TTL */
static void test_hop(void **state)
{
	const struct ev_hit hit = { .mask = EV_OUT | EV_ERR | EV_HUP };
	struct rig *r = *state;
	const bool v4 = inaddr_is_v4(&r->key.far);
	const struct inaddr hop = rig_addr(v4 ? "203.0.113.1" : "2001:db8:1::1");
	struct tcp_seg s = syn;

	for (s.ttl = 1; s.ttl < 40; s.ttl = (uint8_t)(s.ttl + 19)) {
		struct flow *f;
		uint8_t *ip;
		int h;

		tcp_guest_new(&r->p, &r->key, &s);
		f = flow_find(&r->flows, &r->key);
		h = f->h;
		assert_int_equal(r->sk.s[h].ttl, s.ttl);
		r->sk.s[h].router = (struct sk_err){ .code = EHOSTUNREACH, .icmp_type = v4 ? 11 : 3, .offender = { .a = hop } };
		r->sk.s[h].result = -EHOSTUNREACH;
		tcp_host(&r->p, f, &hit);
		assert_false(r->sk.s[h].open);
		assert_int_equal(r->l2.cnt, 1);
		ip = r->l2.frames[0].buf + WIRE_ETH_LEN;
		if (s.ttl < SK_TTL_PROBE) {
			check_icmp(r, v4 ? 11 : 3, 0);
			assert_memory_equal(ip + (v4 ? 12 : 8), hop.b + (v4 ? 12 : 0), v4 ? 4 : 16);
		} else {
			check_icmp(r, v4 ? 3 : 1, v4 ? 1 : 3);
		}
		assert_int_equal(ip[wire_ip_hdr_len(&hop) + WIRE_ICMP_LEN + (v4 ? 8 : 7)], s.ttl);
		fake_l2_clear(&r->l2);
	}
	/* it got through: a router's error is a passing one from here on */
	s.ttl = 5;
	tcp_guest_new(&r->p, &r->key, &s);
	r->f = flow_find(&r->flows, &r->key);
	assert_true(rig_sock(r)->errors);
	rig_sock(r)->result = 0;
	tcp_host(&r->p, r->f, &hit);
	assert_false(rig_sock(r)->errors);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_at_once),
		RIG_BOTH(test_later),
		RIG_BOTH(test_rate_and_source),
		RIG_BOTH(test_hop),
	};

	return cmocka_run_group_tests_name("proto/tcp/refuse", tests, NULL, NULL);
}
