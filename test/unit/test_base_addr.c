/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Classes, prefixes and text of addresses.
 */
#include "base/addr.h"

#include <errno.h>

#include "split.h"

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	memset(&a, 0xaa, sizeof(a));
	if (inaddr_parse(text, &a))
		fail_msg("%s is not taken as an address", text);
	return a;
}

#define V4 1
#define UNSET 2
#define LOOP 4
#define MULTI 8
#define BCAST 16
#define LL 32
#define UNI 64

static void classes(void **state)
{
	static const struct {
		const char *text;
		unsigned is;
	} t[] = {
		{ "0.0.0.0", V4 | UNSET }, { "0.0.0.1", V4 | UNI }, { "1.0.0.0", V4 | UNI },
		{ "126.255.255.255", V4 | UNI }, { "127.0.0.0", V4 | LOOP | UNI }, { "127.255.255.255", V4 | LOOP | UNI },
		{ "128.0.0.0", V4 | UNI }, { "169.253.255.255", V4 | UNI }, { "169.254.0.0", V4 | LL | UNI },
		{ "169.254.255.255", V4 | LL | UNI }, { "169.255.0.0", V4 | UNI }, { "223.255.255.255", V4 | UNI },
		{ "224.0.0.0", V4 | MULTI }, { "239.255.255.255", V4 | MULTI }, { "240.0.0.0", V4 | UNI },
		{ "255.255.255.254", V4 | UNI }, { "255.255.255.255", V4 | BCAST },
		{ "::", UNSET }, { "::1", LOOP | UNI }, { "::2", UNI }, { "1::1", UNI }, { "::1:0:0:1", UNI },
		{ "::fffe:127.0.0.1", UNI }, { "::127.0.0.1", UNI }, { "::ffff:127.0.0.1", V4 | LOOP | UNI },
		{ "::ffff:0:127.0.0.1", UNI }, { "1::ffff:127.0.0.1", UNI },
		{ "fe7f:ffff::", UNI }, { "fe80::", LL | UNI }, { "febf:ffff::1", LL | UNI }, { "fec0::", UNI },
		{ "feff::1", UNI }, { "ff00::", MULTI }, { "ffff::", MULTI }, { "fd00::1", UNI },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct inaddr a = addr(t[i].text);
		const unsigned is = (inaddr_is_v4(&a) ? V4 : 0) | (inaddr_is_unset(&a) ? UNSET : 0) |
				    (inaddr_is_loopback(&a) ? LOOP : 0) | (inaddr_is_multicast(&a) ? MULTI : 0) |
				    (inaddr_is_broadcast(&a) ? BCAST : 0) | (inaddr_is_linklocal(&a) ? LL : 0) |
				    (inaddr_is_unicast(&a) ? UNI : 0);

		if (is != t[i].is)
			fail_msg("%s: classes %#x, expected %#x", t[i].text, is, t[i].is);
	}
}

/* Against one bit after the other */
static void prefixes(void **state)
{
	const struct inaddr four = addr("10.171.205.239"), six = addr("2001:db8:a5a5:5a5a:1234:5678:9abc:def0");

	(void)state;
	for (unsigned len = 0; len <= 140; len++) {
		for (unsigned bit = 0; bit < 128; bit++) {
			struct inaddr x = six;

			x.b[bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			assert_int_equal(inaddr_in_prefix(&x, &six, len), bit >= len);
			if (bit >= 32)
				continue;
			x = four;
			x.b[12 + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			assert_int_equal(inaddr_in_prefix(&x, &four, len), bit >= len);
		}
		assert_true(inaddr_in_prefix(&four, &four, len));
		assert_true(inaddr_in_prefix(&six, &six, len));
		assert_false(inaddr_in_prefix(&four, &six, len));
		assert_false(inaddr_in_prefix(&six, &four, len));
	}
}

static void text_good(void **state)
{
	static const char *const t[][2] = {
		{ "0.0.0.0", "0.0.0.0" }, { "255.255.255.255", "255.255.255.255" }, { "192.0.2.1", "192.0.2.1" },
		{ "::", "::" }, { "::1", "::1" }, { "2001:DB8:0:0:1:0:0:1", "2001:db8::1:0:0:1" },
		{ "::ffff:192.0.2.1", "192.0.2.1" }, { "::ffff:c000:201", "192.0.2.1" },
		{ "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff" },
		{ "64:ff9b::192.0.2.33", "64:ff9b::c000:221" },
	};
	char buf[INADDR_STR_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct inaddr a = addr(t[i][0]);

		assert_ptr_equal(inaddr_str(&a, buf), buf);
		assert_string_equal(buf, t[i][1]);
	}
}

static void text_bad(void **state)
{
	static const char *const t[] = {
		"", " ", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4 ", " 1.2.3.4", "0x7f.0.0.1", "1.2.3.", "localhost",
		"[::1]", "fe80::1%lo", "fe80::1%1", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", "::g",
		"::1.2.3", "1.2.3.4/8", "::/0",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct inaddr a, was;

		memset(&a, 0x5a, sizeof(a));
		was = a;
		if (inaddr_parse(t[i], &a) != -EINVAL)
			fail_msg("'%s' is taken as an address", t[i]);
		assert_true(inaddr_eq(&a, &was));
	}
}

static void text_round_trip(void **state)
{
	struct rng r;

	(void)state;
	rng_seed(&r, 1);
	for (int i = 0; i < 20000; i++) {
		struct inaddr a, b;
		char buf[INADDR_STR_MAX];
		const uint64_t w[2] = { rng_u64(&r), rng_u64(&r) & rng_u64(&r) & rng_u64(&r) };

		a = i & 1 ? inaddr_v4(w) : inaddr_v6(w);
		for (unsigned k = rng_below(&r, 16); !(i & 1) && k < 12; k++)
			a.b[k] = 0;
		b = addr(inaddr_str(&a, buf));
		assert_true(inaddr_eq(&a, &b));
	}
}

static void mac(void **state)
{
	static const char *const bad[] = {
		"", "9a:55:9a:55:9a:5", "9a:55:9a:55:9a:555", "9a-55-9a-55-9a-55", "9a:55:9a:55:9a", "9a:55:9a:55:9a:55:",
		"g0:55:9a:55:9a:55", "0g:55:9a:55:9a:55", " 9a:55:9a:55:9a:55", "9a:55:9a:55:9a:55 ", "9a559a559a55",
		"+1:00:00:00:00:00", "0x:00:00:00:00:00", "9a:55:9a:55:9a:", "9a:55:9a:55:9a55:",
	};
	static const struct macaddr want = { { 0x9a, 0x55, 0x00, 0xff, 0xAb, 0xcD } };
	struct macaddr m;

	(void)state;
	assert_int_equal(macaddr_parse("9a:55:00:fF:Ab:cD", &m), 0);
	assert_true(macaddr_eq(&m, &want));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		/* In memory of exactly its size: reading on behind the end shows */
		char *exact = strdup(bad[i]);

		if (macaddr_parse(exact, &m) != -EINVAL)
			fail_msg("'%s' is taken as a MAC address", bad[i]);
		assert_true(macaddr_eq(&m, &want));
		free(exact);
	}

	assert_true(macaddr_is_unicast(&want));
	assert_false(macaddr_is_unicast(&macaddr_broadcast));
	assert_false(macaddr_is_unicast(&(struct macaddr){ { 0 } }));
	assert_true(macaddr_is_unicast(&(struct macaddr){ { 0, 0, 0, 0, 0, 1 } }));
	assert_false(macaddr_is_unicast(&(struct macaddr){ { 0x01, 0, 0x5e, 0, 0, 1 } }));
	assert_false(macaddr_eq(&want, &(struct macaddr){ { 0x9a, 0x55, 0x00, 0xff, 0xAb, 0xcc } }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes), cmocka_unit_test(prefixes), cmocka_unit_test(text_good),
		cmocka_unit_test(text_bad), cmocka_unit_test(text_round_trip), cmocka_unit_test(mac),
	};

	return cmocka_run_group_tests_name("base/addr", tests, NULL, NULL);
}
