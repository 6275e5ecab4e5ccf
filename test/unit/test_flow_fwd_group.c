/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which destinations are groups, and where they lead on the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "flow/fwd.h"

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

/* HOST: NULL if DST is no group */
static void check(const char *guest, uint8_t prefix_len, bool same, const char *dst, const char *host)
{
	struct fwd w = { .tcp_on = true };
	const struct inaddr d = addr(dst);
	struct fwd_family_set *s = &w.f[fwd_family_of(&d)];

	s->prefix_len = prefix_len;
	s->same_net = same;
	if (guest)
		s->guest = addr(guest);
	assert_int_equal(fwd_is_group(&w, &d), !!host);
	if (host) {
		const struct inaddr got = fwd_group_to_host(&w, &d), want = addr(host);

		assert_true(inaddr_eq(&got, &want));
	}
}

static void test_groups(void **state)
{
	(void)state;
	for (int same = 0; same < 2; same++) {
		check("192.0.2.2", 24, same, "224.0.0.251", "224.0.0.251");
		check("192.0.2.2", 24, same, "239.255.255.250", "239.255.255.250");
		check("2001:db8::2", 64, same, "ff02::fb", "ff02::fb");
		check("2001:db8::2", 64, same, "ff15::1", "ff15::1");
		check("192.0.2.2", 24, same, "255.255.255.255", "255.255.255.255");
		check(NULL, 0, same, "255.255.255.255", "255.255.255.255");
		check("192.0.2.2", 24, same, "198.51.100.7", NULL);
		check("192.0.2.2", 24, same, "192.0.2.7", NULL);
		check("2001:db8::2", 64, same, "2001:db8::ffff:ffff:ffff:ffff", NULL);
	}
}

/* UDP-14, RFC 3021 */
static void test_net_broadcast(void **state)
{
	(void)state;
	check("192.0.2.2", 24, true, "192.0.2.255", "192.0.2.255");
	check("192.0.2.2", 24, false, "192.0.2.255", "255.255.255.255");
	check("192.0.2.2", 24, true, "192.0.3.255", NULL);
	check("192.0.2.2", 16, true, "192.0.2.255", NULL);
	check("192.0.2.2", 16, false, "192.0.255.255", "255.255.255.255");
	check("192.0.2.2", 20, true, "192.0.15.255", "192.0.15.255");
	check("192.0.2.2", 20, true, "192.0.14.255", NULL);
	check("192.0.2.2", 20, true, "192.0.7.255", NULL);
	check("192.0.2.2", 28, true, "192.0.2.15", "192.0.2.15");
	check("192.0.2.2", 30, true, "192.0.2.3", "192.0.2.3");
	check("10.1.2.3", 8, true, "10.255.255.255", "10.255.255.255");
	check("10.1.2.3", 8, true, "10.255.254.255", NULL);
	check("192.0.2.2", 31, true, "192.0.2.3", NULL);
	check("192.0.2.2", 32, true, "192.0.2.2", NULL);
	check("192.0.2.2", 0, true, "192.0.2.255", NULL);
	check(NULL, 24, true, "0.0.0.255", NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_groups), cmocka_unit_test(test_net_broadcast) };

	return cmocka_run_group_tests_name("flow/fwd_group", tests, NULL, NULL);
}
