/* SPDX-License-Identifier: BSD-3-Clause
 *
 * conf/set_net.c: resolvers of the host with the interface that leads to them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"

static struct conf conf;
static struct err err;

/* --dns-host ARG, then OPT with MORE */
static int run(const char *arg, const char *opt, const char *more)
{
	char *argv[] = { (char *)"pasta", (char *)"--dns-host", (char *)arg, (char *)opt, (char *)more, NULL };

	memset(&conf, 0xa5, sizeof(conf));
	memset(&err, 0, sizeof(err));
	return conf_parse(&conf, opt ? 5 : 3, argv, &err);
}

static void is(enum fwd_family fam, const char *addr, const char *scope)
{
	char text[INADDR_STR_MAX];

	assert_string_equal(inaddr_is_unset(&conf.f[fam].dns_host) ? "" : inaddr_str(&conf.f[fam].dns_host, text), addr);
	assert_string_equal(conf.f[fam].dns_host_scope, scope);
}

static void test_scope(void **state)
{
	static const struct {
		const char *arg, *opt, *more, *addr, *scope;
	} t[] = {
		{ "fe80::1%eth0", NULL, NULL, "fe80::1", "eth0" },
		{ "[fe80::1%2]", NULL, NULL, "fe80::1", "2" },
		{ "fe80::1%fifteen-is-most", NULL, NULL, "fe80::1", "fifteen-is-most" },
		{ "fe80::1", NULL, NULL, "fe80::1", "" },
		{ "[fe80::1]", NULL, NULL, "fe80::1", "" },
		{ "fe80::1%eth0", "--dns-host", "fe80::2%eth1", "fe80::2", "eth1" },
		{ "fe80::1%eth0", "--dns-host", "2001:db8::1", "2001:db8::1", "" },
		{ "fe80::1%eth0", "--dns-host", "192.0.2.1", "fe80::1", "eth0" },
		{ "fe80::1%eth0", "-D", "none", "", "" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(run(t[i].arg, t[i].opt, t[i].more), 0);
		is(FWD_V6, t[i].addr, t[i].scope);
		assert_string_equal(conf.f[FWD_V4].dns_host_scope, "");
	}
	run("192.0.2.1", "--dns-host", "fe80::1%eth0");
	is(FWD_V4, "192.0.2.1", "");
	is(FWD_V6, "fe80::1", "eth0");
}

static void test_refused(void **state)
{
	static const struct {
		const char *arg, *why;
	} t[] = {
		{ "fe80::1%", "expected an interface name of 1 to 15 characters" },
		{ "[fe80::1%]", "expected an interface name of 1 to 15 characters" },
		{ "fe80::1%sixteen-too-many", "expected an interface name of 1 to 15 characters" },
		{ "fe80::1%a/b", "expected an interface name of 1 to 15 characters" },
		{ "2001:db8::1%eth0", "behind a link-local address of IPv6 only" },
		{ "::1%lo", "behind a link-local address of IPv6 only" },
		{ "169.254.1.1%eth0", "behind a link-local address of IPv6 only" },
		{ "192.0.2.1%eth0", "behind a link-local address of IPv6 only" },
		{ "%eth0", "not an IPv4 or IPv6 address" },
		{ "ff02::1%eth0", "not the address of one host" },
		{ "::%eth0", "not the address of one host" },
		{ "[", "not an IPv4 or IPv6 address" },
		{ "[]", "not an IPv4 or IPv6 address" },
		{ "", "not an IPv4 or IPv6 address" },
		{ "[fe80::1%eth0", "not an IPv4 or IPv6 address" },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char begin[64];
		const int r = run(t[i].arg, NULL, NULL);

		assert_true(r < 0);
		assert_int_equal(err.code, r);
		snprintf(begin, sizeof(begin), "--dns-host '%s': ", t[i].arg);
		assert_memory_equal(err.text, begin, strlen(begin));
		assert_non_null(strstr(err.text, t[i].why));
		assert_null(strchr(err.text, '\n'));
	}
	/* the guest's side of it has no interfaces of the host */
	assert_true(run("fe80::1", "--dns-forward", "fe80::1%eth0") < 0);
	assert_true(run("fe80::1", "-D", "fe80::1%eth0") < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_scope), cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests_name("conf/set_net", tests, NULL, NULL);
}
