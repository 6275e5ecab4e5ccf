/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Neighbour discovery (NDP-2, RA-2 to RA-5).
 */
#include "wire/nd.h"

#include <errno.h>

#include "split.h"
#include "base/bytes.h"
#include "base/csum.h"
#include "wire/ip.h"

#define NS	"87 00 ffff 00000000 fe80000000000000 0000000000000001"
#define RS	"85 00 ffff 00000000"
#define SLLA	"01 01 9a559a559a55"

static const struct macaddr mac = { { 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55 } };

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

static int parse(const char *hex, uint32_t way, const char *src, uint8_t hop_limit, struct wire_nd_sol *ret)
{
	const struct inaddr from = addr(src);
	uint8_t b[400];
	const uint32_t len = split_hex(b, hex);
	struct split s;
	const struct view v = split_make(&s, b, len, way % SPLIT_WAYS(len));
	int ns, rs;

	memset(ret, 0xff, sizeof(*ret));
	rs = wire_nd_parse_rs(v, hop_limit, &from, ret);
	if (rs)
		ns = wire_nd_parse_ns(v, hop_limit, &from, ret);
	else
		ns = wire_nd_parse_ns(v, hop_limit, &from, &(struct wire_nd_sol){ 0 });
	split_free(&s);
	/* No message is both */
	assert_true(ns == -EBADMSG || rs == -EBADMSG);
	return ns && rs ? -EBADMSG : 0;
}

static void good(void **state)
{
	static const struct {
		const char *hex, *src;
		bool lladdr;
	} t[] = {
		{ NS, "fe80::2", false }, { NS SLLA, "fe80::2", true }, { NS, "::", false },
		{ RS, "fe80::2", false }, { RS SLLA, "fe80::2", true }, { RS, "::", false },
		/* Nonce (RFC 7527) with DAD; unknown options before, behind; a long one */
		{ NS "0e01 010203040506", "::", false },
		{ NS "0e01 010203040506" SLLA "fd02 0000 00000000 0000000000000000", "2001:db8::1", true },
		{ RS "fd02 0000 00000000 0000000000000000" SLLA, "fe80::2", true },
		/* Source address of another length, or of no use: as if it were missing */
		{ NS "0102 0000 00000000 0000000000000000", "fe80::2", false },
		{ NS "0101 ffffffffffff", "fe80::2", false }, { NS "0101 000000000000", "fe80::2", false },
	};
	const struct inaddr target = addr("fe80::1");
	struct wire_nd_sol sol;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (uint32_t way = 0; way < 80; way++) {
			if (parse(t[i].hex, way, t[i].src, 255, &sol))
				fail_msg("%s from %s is refused (way %u)", t[i].hex, t[i].src, way);
			assert_int_equal(sol.has_lladdr, t[i].lladdr);
			if (sol.has_lladdr)
				assert_true(macaddr_eq(&sol.lladdr, &mac));
			if (!strncmp(t[i].hex, "87", 2))
				assert_true(inaddr_eq(&sol.target, &target));
			else
				assert_true(inaddr_is_unset(&sol.target));
		}
		for (unsigned hop_limit = 0; hop_limit < 255; hop_limit++)
			assert_int_equal(parse(t[i].hex, 0, t[i].src, (uint8_t)hop_limit, &sol), -EBADMSG);
	}
}

static void bad(void **state)
{
	static const char *const t[] = {
		/* Type, code */
		"88 00 ffff 00000000 fe80000000000000 0000000000000001", "86 00 ffff 00000000",
		"87 01 ffff 00000000 fe80000000000000 0000000000000001", "85 01 ffff 00000000",
		/* Short */
		"", "87", "85 00 ffff 000000", "87 00 ffff 00000000 fe80000000000000 00000000000000",
		/* Target multicast, or v4-mapped */
		"87 00 ffff 00000000 ff02000000000000 0000000000000001",
		"87 00 ffff 00000000 0000000000000000 0000ffff c0000201",
		/* Options: length 0, beyond the end, not whole */
		NS "0100 9a559a559a55", NS "fd00 000000000000", NS "0102 9a559a559a55", NS "fdff 000000000000",
		NS "01", NS "0101", NS "0101 9a559a559a", NS SLLA "01", NS SLLA "fd00 000000000000",
		RS "0100 9a559a559a55", RS "fd00 000000000000", RS "0102 9a559a559a55", RS "0101 9a559a559a",
		RS SLLA "fd02 000000000000",
	};
	struct wire_nd_sol sol;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		for (uint32_t way = 0; way < 60; way++) {
			if (parse(t[i], way, "fe80::2", 255, &sol) != -EBADMSG)
				fail_msg("'%s' is taken", t[i]);
		}
	}
	/* Nobody's link-layer address */
	assert_int_equal(parse(NS SLLA, 0, "::", 255, &sol), -EBADMSG);
	assert_int_equal(parse(RS SLLA, 0, "::", 255, &sol), -EBADMSG);
	assert_int_equal(parse(NS "0102 0000 00000000 0000000000000000", 0, "::", 255, &sol), -EBADMSG);
}

static void check_sum(const uint8_t *p, uint32_t len, const struct inaddr *src, const struct inaddr *dst)
{
	assert_int_equal(csum_done(csum_add(csum_pseudo(src, dst, WIRE_IP_ICMP6, len), p, len)), 0);
}

static void neighbours(void **state)
{
	const struct inaddr src = addr("fe80::1"), dst = addr("2001:db8::2"), target = addr("2001:db8::7");
	uint8_t b[WIRE_ND_NA_LEN + 1], want[WIRE_ND_NA_LEN];
	struct wire_nd_sol sol;
	struct split s;

	(void)state;
	split_hex(want, "88 00 0000 e0000000 20010db8000000000000000000000007 0201 9a559a559a55");
	memset(b, 0xee, sizeof(b));
	wire_nd_emit_na(b, WIRE_ND_NA_ROUTER | WIRE_ND_NA_SOLICITED | WIRE_ND_NA_OVERRIDE, &target, &mac, &src, &dst);
	assert_int_equal(b[WIRE_ND_NA_LEN], 0xee);
	check_sum(b, WIRE_ND_NA_LEN, &src, &dst);
	memcpy(want + 2, b + 2, 2);
	assert_memory_equal(b, want, sizeof(want));

	memset(b, 0xee, sizeof(b));
	wire_nd_emit_ns(b, &target, &mac, &src, &dst);
	assert_int_equal(b[WIRE_ND_NS_LEN], 0xee);
	check_sum(b, WIRE_ND_NS_LEN, &src, &dst);
	assert_int_equal(bytes_get32(b + 4), 0);
	assert_int_equal(wire_nd_parse_ns(split_make(&s, b, WIRE_ND_NS_LEN, 9), 255, &src, &sol), 0);
	split_free(&s);
	assert_true(inaddr_eq(&sol.target, &target));
	assert_true(sol.has_lladdr && macaddr_eq(&sol.lladdr, &mac));
}

/* Option of this type in a message whose options must be whole; NULL if there is none */
static const uint8_t *find_option(const uint8_t *p, uint32_t len, uint8_t type)
{
	const uint8_t *found = NULL;
	uint32_t at = 16;

	while (at < len) {
		assert_true(len - at >= 8 && p[at + 1] && p[at + 1] * 8u <= len - at);
		if (p[at] == type) {
			assert_null(found);
			found = p + at;
		}
		at += p[at + 1] * 8u;
	}
	return found;
}

static uint32_t emit_ra(uint8_t *b, const struct wire_nd_ra *ra)
{
	const struct inaddr src = addr("fe80::1"), dst = addr("ff02::1");
	uint32_t len;

	memset(b, 0xee, WIRE_ND_RA_MAX + 8);
	len = wire_nd_emit_ra(b, ra, &src, &dst);
	assert_in_range(len, 24, WIRE_ND_RA_MAX);
	assert_int_equal(len % 8, 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(b[len > WIRE_ND_RA_MAX ? len + i : WIRE_ND_RA_MAX + i], 0xee);
	check_sum(b, len, &src, &dst);
	return len;
}

static void ra_full(void **state)
{
	static const char *const search[] = { "example.org", "a.b." };
	const struct wire_nd_ra ra = {
		.hop_limit = 255, .managed = true, .router_lifetime_s = 65535,
		.has_prefix = true, .prefix = addr("2001:db8:1:2:3:4:5:6"), .prefix_len = 64, .lladdr = mac, .mtu = 65520,
		.dns = { addr("2001:db8::53"), addr("192.0.2.53"), addr("2001:db8::54") }, .dns_cnt = 3,
		.search = search, .search_cnt = 2,
	};
	uint8_t b[WIRE_ND_RA_MAX + 8], want[300];
	const uint32_t len = split_hex(want, "86 00 0000 ff 80 ffff 00000000 00000000"
		"0304 40 c0 ffffffff ffffffff 00000000 20010db8000100020000000000000000"
		"0101 9a559a559a55"
		"0501 0000 0000fff0"
		"1905 0000 ffffffff 20010db8000000000000000000000053 20010db8000000000000000000000054"
		"1f04 0000 ffffffff 07 6578616d706c65 03 6f7267 00  01 61 01 62 00 000000000000");

	(void)state;
	assert_int_equal(emit_ra(b, &ra), len);
	memcpy(want + 2, b + 2, 2);
	assert_memory_equal(b, want, len);
}

static void ra_least(void **state)
{
	static const char *const search[] = { "x" };
	struct wire_nd_ra ra = { .other = true, .lladdr = mac };
	uint8_t b[WIRE_ND_RA_MAX + 8], want[24];

	(void)state;
	split_hex(want, "86 00 0000 00 40 0000 00000000 00000000 0101 9a559a559a55");
	assert_int_equal(emit_ra(b, &ra), 24);
	memcpy(want + 2, b + 2, 2);
	assert_memory_equal(b, want, 24);

	/* Search names without a resolver (RA-4); a resolver that has no place here */
	ra.search = search;
	ra.search_cnt = 1;
	ra.dns[0] = addr("192.0.2.53");
	ra.dns_cnt = 1;
	assert_int_equal(emit_ra(b, &ra), 24 + 16);
	assert_non_null(find_option(b, 40, 31));
	assert_null(find_option(b, 40, 25));
}

static void ra_prefixes(void **state)
{
	struct wire_nd_ra ra = { .has_prefix = true, .lladdr = mac };
	uint8_t b[WIRE_ND_RA_MAX + 8];

	(void)state;
	memset(&ra.prefix, 0xff, sizeof(ra.prefix));
	for (unsigned len = 0; len <= 140; len++) {
		const uint8_t *opt;

		ra.prefix_len = (uint8_t)len;
		opt = find_option(b, emit_ra(b, &ra), 3);
		assert_non_null(opt);
		assert_int_equal(opt[2], len < 128 ? len : 128);
		for (unsigned bit = 0; bit < 128; bit++)
			assert_int_equal(opt[16 + bit / 8] >> (7 - bit % 8) & 1, bit < len);
	}
}

/* RA-5: a list of every length ends with the option */
static void ra_padding(void **state)
{
	uint8_t b[WIRE_ND_RA_MAX + 8];

	(void)state;
	for (unsigned n = 1; n <= 63; n++) {
		char name[64];
		const char *const search[] = { name };
		const struct wire_nd_ra ra = { .lladdr = mac, .search = search, .search_cnt = 1 };
		const uint8_t *opt;
		uint32_t len;

		memset(name, 'a', n);
		name[n] = 0;
		len = emit_ra(b, &ra);
		opt = find_option(b, len, 31);
		assert_non_null(opt);
		assert_int_equal(opt[1], (8 + n + 2 + 7) / 8);
		assert_int_equal(len, 24 + opt[1] * 8);
		assert_int_equal(opt[8], n);
		assert_memory_equal(opt + 9, name, n);
		for (const uint8_t *p = opt + 9 + n; p < b + len; p++)
			assert_int_equal(*p, 0);
	}
}

static void ra_bad_names(void **state)
{
	static const char label64[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.org";
	char name[300], fits[300];
	const char *const search[] = { "", ".", "..", ".a", "a..b", "a..", label64, name };
	struct wire_nd_ra ra = { .lladdr = mac, .search = search, .search_cnt = BYTES_COUNT(search) };
	const char *const one[] = { fits };
	uint8_t b[WIRE_ND_RA_MAX + 8];

	(void)state;
	assert_int_equal(strlen(label64), 68);
	/* 127 labels of one letter are 254 bytes and the root; one letter more is too long */
	for (unsigned i = 0; i < 254; i++)
		fits[i] = name[i] = i % 2 ? '.' : 'a';
	fits[253] = 0;
	memcpy(name + 253, "b", 2);
	assert_int_equal(emit_ra(b, &ra), 24);
	ra.search = one;
	ra.search_cnt = 1;
	assert_int_equal(emit_ra(b, &ra), 24 + 8 + 256);
}

/* Far more names than fit: whole ones are kept, in order, up to the limit; a short one may still use the rest */
static void ra_full_list(void **state)
{
	char text[200][16];
	const char *search[200];
	uint8_t b[WIRE_ND_RA_MAX + 8];

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		snprintf(text[i], sizeof(text[i]), "name%03u.test", i);
		search[i] = text[i];
	}
	for (unsigned dns = 0; dns <= 5; dns++) {
		struct wire_nd_ra ra = { .has_prefix = dns, .prefix = addr("2001:db8::"), .prefix_len = 64, .lladdr = mac,
					 .mtu = dns & 1 ? 1500 : 0, .dns_cnt = dns, .search = search, .search_cnt = 200 };
		const uint8_t *opt, *p;
		uint32_t len;
		unsigned n = 0;

		for (unsigned i = 0; i < WIRE_ND_DNS_MAX; i++)
			ra.dns[i] = addr("2001:db8::53");
		len = emit_ra(b, &ra);
		assert_in_range(len, WIRE_ND_RA_MAX - 16, WIRE_ND_RA_MAX);
		opt = find_option(b, len, 31);
		assert_non_null(opt);
		for (p = opt + 8; p < b + len && *p; p += 14, n++) {
			assert_int_equal(p[0], 7);
			assert_memory_equal(p + 1, text[n], 7);
			assert_memory_equal(p + 8, "\4test", 6);
		}
		assert_in_range(n, 70, 90);
		opt = find_option(b, len, 25);
		if (dns)
			assert_int_equal(opt[1], 1 + 2 * (dns < 3 ? dns : 3));
		else
			assert_null(opt);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good), cmocka_unit_test(bad), cmocka_unit_test(neighbours), cmocka_unit_test(ra_full),
		cmocka_unit_test(ra_least), cmocka_unit_test(ra_prefixes), cmocka_unit_test(ra_padding),
		cmocka_unit_test(ra_bad_names), cmocka_unit_test(ra_full_list),
	};

	return cmocka_run_group_tests_name("wire/nd", tests, NULL, NULL);
}
