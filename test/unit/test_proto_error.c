/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/icmp/error.c: what the guest is told of the host's errors, how much of its packet comes back, and how often.
 */
#include "rig_proto.h"

#include <errno.h>

#include "proto/icmp.h"

static struct fwd_family_set *mine(struct rig *r)
{
	return &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];
}

/* RFC 792, RFC 1812 5.2.7.1, RFC 4443 3: as the guest's kernel turns them back into the errno */
static void test_errno(void **state)
{
	static const struct { int code, t4, c4, t6, c6; } tab[] = {
		{ ECONNREFUSED, 3, 3, 1, 4 }, { EHOSTUNREACH, 3, 1, 1, 3 }, { EHOSTDOWN, 3, 7, 1, 3 }, { ENONET, 3, 8, 1, 0 },
		{ ENOPROTOOPT, 3, 2, 1, 3 }, { EPROTO, 12, 0, 4, 0 }, { ENETUNREACH, 3, 0, 1, 0 }, { ENETDOWN, 3, 0, 1, 0 },
		{ EADDRNOTAVAIL, 3, 0, 1, 0 }, { EACCES, 3, 13, 1, 1 }, { EPERM, 3, 13, 1, 1 },
	};
	struct rig *r = *state;
	struct proto_icmp i;

	for (unsigned n = 0; n < BYTES_COUNT(tab); n++) {
		assert_true(proto_icmp_errno(&r->p, tab[n].code, r->v4, 0, &i));
		if (i.type != (r->v4 ? tab[n].t4 : tab[n].t6) || i.code != (r->v4 ? tab[n].c4 : tab[n].c6))
			fail_msg("errno %d became type %u code %u", tab[n].code, i.type, i.code);
		assert_int_equal(i.info, 0);
		rig_same(&i.from, &r->router);
	}
}

/* Too big goes with a size, and only it does; what a peer need not know */
static void test_errno_refused(void **state)
{
	static const int quiet[] = { 0, -1, EAGAIN, EINVAL, ENOBUFS, ENOMEM, EMFILE, ETIMEDOUT, ECONNRESET, -ECONNREFUSED };
	struct rig *r = *state;
	struct proto_icmp i;

	for (unsigned n = 0; n < BYTES_COUNT(quiet); n++) {
		if (proto_icmp_errno(&r->p, quiet[n], r->v4, 0, &i))
			fail_msg("errno %d is told", quiet[n]);
	}
	assert_false(proto_icmp_errno(&r->p, EMSGSIZE, r->v4, 0, &i));
	assert_false(proto_icmp_errno(&r->p, ECONNREFUSED, r->v4, 1400, &i));
	assert_true(proto_icmp_errno(&r->p, EMSGSIZE, r->v4, 1, &i));
	assert_int_equal(i.type, r->v4 ? 3 : 2);
	assert_int_equal(i.code, r->v4 ? 4 : 0);
	assert_int_equal(i.info, 1);
	assert_true(proto_icmp_errno(&r->p, EMSGSIZE, r->v4, UINT32_MAX, &i));
	assert_int_equal(i.info, UINT32_MAX);
}

/* From our own address; where there is none, from the router's */
static void test_errno_from(void **state)
{
	static const struct inaddr none;
	struct rig *r = *state;
	struct proto_icmp i;

	mine(r)->ours = rig_addr(r->v4 ? "192.0.2.254" : "fe80::fe");
	assert_true(proto_icmp_errno(&r->p, EACCES, r->v4, 0, &i));
	rig_same(&i.from, &mine(r)->ours);
	mine(r)->ours = none;
	assert_true(proto_icmp_errno(&r->p, EACCES, r->v4, 0, &i));
	rig_same(&i.from, &mine(r)->gateway);
}

static struct sk_err unreach(const struct rig *r, const struct inaddr *offender)
{
	return (struct sk_err){
		.code = ECONNREFUSED, .icmp_type = r->v4 ? 3 : 1, .icmp_code = r->v4 ? 3 : 4, .info = 77,
		.to = { .a = r->far, .port = 9 }, .offender = { .a = *offender },
	};
}

/* UDP-31: who complained, by the name that the guest knows it by */
static void test_relay_from(void **state)
{
	struct rig *r = *state;
	const struct inaddr hop = rig_addr(r->v4 ? "203.0.113.1" : "2001:db8:1::1");
	const struct inaddr group = rig_addr(r->v4 ? "224.0.0.1" : "ff02::1");
	const struct inaddr alien = rig_addr(r->v4 ? "2001:db8:1::1" : "203.0.113.1");
	struct sk_err e = unreach(r, &r->far);
	struct proto_icmp i;

	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.type, e.icmp_type);
	assert_int_equal(i.code, e.icmp_code);
	assert_int_equal(i.info, 0);		/* a size belongs to too big */
	rig_same(&i.from, &r->far);
	e = unreach(r, &hop);
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	rig_same(&i.from, &hop);
	/* the flow's own target, and the host's loopback where the flow goes elsewhere */
	e = unreach(r, &hop);
	assert_true(proto_icmp_relay(&r->p, &e, &hop, &r->far, &i));
	rig_same(&i.from, &r->far);
	e = unreach(r, &r->loop);
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	rig_same(&i.from, &r->router);
	e = unreach(r, &group);
	assert_false(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	e = unreach(r, &alien);
	assert_false(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
}

/* Every type: errors pass with their code, everything else could be a trick */
static void test_relay_types(void **state)
{
	struct rig *r = *state;
	struct sk_err e = unreach(r, &r->far);
	struct proto_icmp i;

	e.icmp_code = 200;
	for (unsigned type = 0; type < 256; type++) {
		const bool known = r->v4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4;

		e.icmp_type = (uint8_t)type;
		if (proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i) != known)
			fail_msg("type %u", type);
		if (!known)
			continue;
		assert_int_equal(i.type, type);
		assert_int_equal(i.code, 200);
	}
}

static void test_relay_too_big(void **state)
{
	struct rig *r = *state;
	struct sk_err e = unreach(r, &r->far);
	struct proto_icmp i;

	e.code = EMSGSIZE;
	e.icmp_type = r->v4 ? 3 : 2;
	e.icmp_code = r->v4 ? 4 : 0;
	e.info = 1400;
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.info, 1400);
	e.icmp_type = r->v4 ? 11 : 3;
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.info, 0);
}

/* Our own kernel's errors carry no ICMP: the errno tells */
static void test_relay_local(void **state)
{
	static const struct inaddr none;
	struct rig *r = *state;
	struct sk_err e = unreach(r, &r->far);
	struct proto_icmp i;

	e.local = true;
	e.code = EACCES;
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.code, r->v4 ? 13 : 1);
	rig_same(&i.from, &r->router);
	e.code = EMSGSIZE;
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.info, 77);
	e.info = 0;
	assert_false(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	e = unreach(r, &none);			/* nobody's */
	e.code = EHOSTUNREACH;
	assert_true(proto_icmp_relay(&r->p, &e, &r->far, &r->far, &i));
	assert_int_equal(i.code, r->v4 ? 1 : 3);
	rig_same(&i.from, &r->router);
}

/* As the kernel's own limit: a burst, then one a millisecond; no fraction is lost, none is saved up beyond the burst */
static void test_rate(void **state)
{
	struct rig *r = *state;
	int n = 0;

	while (proto_icmp_allow(&r->p))
		n++;
	assert_int_equal(n, PROTO_ICMP_BURST);
	r->env.now += 999 * NS_US;
	assert_false(proto_icmp_allow(&r->p));
	r->env.now += NS_US;
	assert_true(proto_icmp_allow(&r->p));
	assert_false(proto_icmp_allow(&r->p));
	r->env.now += 3 * NS_MS + 999 * NS_US;
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, 3);
	r->env.now += NS_US;
	assert_true(proto_icmp_allow(&r->p));
	r->env.now += 49 * NS_MS;
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, 49);
	for (int i = 0; i < 40; i++) {		/* some are left each time */
		r->env.now += 49 * NS_MS;
		assert_true(proto_icmp_allow(&r->p));
	}
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, PROTO_ICMP_BURST - 1);
	r->env.now += 3600 * NS_S;
	for (n = 0; proto_icmp_allow(&r->p); n++)
		;
	assert_int_equal(n, PROTO_ICMP_BURST);
}

/* ---- the packet */

static struct proto_quote quote(const struct rig *r, const struct iovec *iov, uint32_t known, uint32_t whole)
{
	return (struct proto_quote){
		.src = r->guest, .dst = r->far, .proto = WIRE_IP_UDP, .ttl = 9, .tos = 0x2e, .df = true,
		.l4_len = whole, .l4 = view_of(iov, known),
	};
}

static struct rig_in only(struct rig *r, const struct inaddr *from)
{
	struct rig_in in;

	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	assert_int_equal(in.ip.proto, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6);
	assert_int_equal(rig_csum(&in, !r->v4), 0);
	rig_same(&in.ip.src, from);
	rig_same(&in.ip.dst, &r->guest);
	return in;
}

/* The guest's packet as it had sent it: what its kernel finds its socket by */
static void test_quote(void **state)
{
	struct rig *r = *state;
	const struct proto_icmp err = { .type = 3, .code = 1, .from = r->router };
	uint8_t b[100];
	const struct iovec iov[2] = { { b, 5 }, { b + 5, 95 } };
	const uint32_t known[] = { 100, 8, 1, 0 };

	rig_pattern(b, sizeof(b), 1);
	for (unsigned n = 0; n < BYTES_COUNT(known); n++) {
		const struct proto_quote q = quote(r, iov, known[n], 1000);
		const uint8_t *ip;
		struct rig_in in;

		r->l2.split = n & 1 ? 21 : 0;
		proto_icmp_error(&r->p, &err, &q);
		in = only(r, &r->router);
		assert_int_equal(in.l4[0], 3);
		assert_int_equal(in.l4[1], 1);
		assert_int_equal(bytes_get32(in.l4 + 4), 0);
		assert_int_equal(in.l4_len, WIRE_ICMP_LEN + wire_ip_hdr_len(&r->far) + known[n]);
		ip = in.l4 + WIRE_ICMP_LEN;
		if (r->v4) {
			assert_int_equal(csum_done(csum_add(0, ip, 20)), 0);
			assert_int_equal(ip[1], 0x2e);
			assert_int_equal(bytes_get16(ip + 2), 1020);
			assert_true(bytes_get16(ip + 6) & 0x4000);
			assert_int_equal(ip[8], 9);
			assert_int_equal(ip[9], WIRE_IP_UDP);
			assert_memory_equal(ip + 12, r->guest.b + 12, 4);
			assert_memory_equal(ip + 16, r->far.b + 12, 4);
		} else {
			assert_int_equal(bytes_get32(ip) >> 20, 0x62e);
			assert_int_equal(bytes_get16(ip + 4), 1000);
			assert_int_equal(ip[6], WIRE_IP_UDP);
			assert_int_equal(ip[7], 9);
			assert_memory_equal(ip + 8, r->guest.b, 16);
			assert_memory_equal(ip + 24, r->far.b, 16);
		}
		assert_memory_equal(ip + wire_ip_hdr_len(&r->far), b, known[n]);
		fake_l2_clear(&r->l2);
	}
}

/* RFC 1812 4.3.2.3: 576 bytes; RFC 4443 2.4 (c): the least MTU */
static void test_quote_limit(void **state)
{
	struct rig *r = *state;
	const struct proto_icmp err = { .type = 3, .code = 1, .from = r->router };
	const uint32_t most = r->v4 ? 576 : 1280;
	const uint32_t fits = most - 2 * wire_ip_hdr_len(&r->far) - WIRE_ICMP_LEN;
	uint8_t b[1400];
	const struct iovec iov = { b, sizeof(b) };

	rig_pattern(b, sizeof(b), 2);
	for (uint32_t known = fits - 1; known <= fits + 1; known++) {
		const struct proto_quote q = quote(r, &iov, known, 65000);

		proto_icmp_error(&r->p, &err, &q);
		assert_int_equal(r->l2.frames[0].len, WIRE_ETH_LEN + BYTES_MIN(most, most - fits + known));
		assert_memory_equal(only(r, &r->router).l4 + WIRE_ICMP_LEN + wire_ip_hdr_len(&r->far), b, BYTES_MIN(known, fits));
		fake_l2_clear(&r->l2);
	}
}

/* RFC 1191 4: 16 bits, of which the upper stay 0; RFC 4443 3.2: 32 */
static void test_mtu_field(void **state)
{
	static const uint32_t mtu[] = { 0, 1, 1400, 65535, 65536, 70000, UINT32_MAX };
	struct rig *r = *state;
	const struct iovec iov = { NULL, 0 };
	const struct proto_quote q = quote(r, &iov, 0, 1400);

	for (unsigned n = 0; n < BYTES_COUNT(mtu); n++) {
		const struct proto_icmp err = { .type = r->v4 ? 3 : 2, .code = r->v4 ? 4 : 0, .info = mtu[n], .from = r->router };

		proto_icmp_error(&r->p, &err, &q);
		assert_int_equal(bytes_get32(only(r, &r->router).l4 + 4), r->v4 ? BYTES_MIN(mtu[n], 65535) : mtu[n]);
		fake_l2_clear(&r->l2);
	}
}

/* Nobody known: from where the packet went; but never from a group (RFC 1122 3.2.1.3) */
static void test_sender(void **state)
{
	struct rig *r = *state;
	const struct inaddr group = rig_addr(r->v4 ? "239.1.2.3" : "ff05::3");
	const struct iovec iov = { NULL, 0 };
	struct proto_quote q = quote(r, &iov, 0, 100);
	struct proto_icmp err = { .type = 3, .code = 1 };

	proto_icmp_error(&r->p, &err, &q);
	only(r, &r->far);
	fake_l2_clear(&r->l2);
	q.dst = group;
	proto_icmp_error(&r->p, &err, &q);
	assert_int_equal(r->l2.cnt, 0);
	err.from = group;
	q.dst = r->far;
	proto_icmp_error(&r->p, &err, &q);
	assert_int_equal(r->l2.cnt, 0);
	err.from = r->router;			/* about a group it may be told */
	q.dst = group;
	proto_icmp_error(&r->p, &err, &q);
	only(r, &r->router);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_errno),
		RIG_BOTH(test_errno_refused),
		RIG_BOTH(test_errno_from),
		RIG_BOTH(test_relay_from),
		RIG_BOTH(test_relay_types),
		RIG_BOTH(test_relay_too_big),
		RIG_BOTH(test_relay_local),
		RIG_BOTH(test_rate),
		RIG_BOTH(test_quote),
		RIG_BOTH(test_quote_limit),
		RIG_BOTH(test_mtu_field),
		RIG_BOTH(test_sender),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
