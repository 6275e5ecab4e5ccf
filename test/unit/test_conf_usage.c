/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Help and version: callers search them for what they may ask for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"

static char *text;

static const char *capture(void (*print)(FILE *out, enum conf_mode mode), enum conf_mode mode)
{
	size_t len;
	FILE *f;

	free(text);
	f = open_memstream(&text, &len);
	assert_non_null(f);
	print(f, mode);
	fclose(f);
	return text;
}

/* How often the help has a line that begins with option WORD */
static unsigned lines_of(const char *help, const char *word)
{
	size_t len = strlen(word);
	unsigned cnt = 0;
	const char *p;

	for (p = strstr(help, word); p; p = strstr(p + len, word)) {
		if (p >= help + 7 && (p[len] == ' ' || p[len] == '\n') &&
		    ((p[-7] == '\n' && !strncmp(p - 6, "      ", 6)) ||
		     (p[-7] == '\n' && p[-4] == '-' && p[-2] == ',')))
			cnt++;
	}
	return cnt;
}

static void test_each_working_option_is_shown(void **state)
{
	static const char *const names[] = {
		"help", "version", "debug", "trace", "quiet", "foreground", "stderr", "pid", "runas", "pcap", "netns",
		"userns", "netns-only", "no-netns-quit", "config-net", "no-copy-routes", "no-copy-addrs", "ns-ifname",
		"ns-mac-addr", "mac-addr", "mtu", "hostname", "interface", "address", "netmask", "gateway", "ipv4-only",
		"ipv6-only", "outbound", "outbound-if4", "outbound-if6", "map-host-loopback", "no-map-gw",
		"map-guest-addr", "host-own-addr", "dns", "dns-forward", "dns-host", "search", "no-tcp", "no-udp",
		"no-icmp", "no-ndp",
		"no-ra", "no-dhcp", "no-dhcpv6", "tcp-ports", "udp-ports", "tcp-ns", "udp-ns", "freebind",
		"host-lo-to-ns-lo", "no-splice", "splice-only", "multicast",
	};
	const char *help = capture(conf_usage_print, CONF_MODE_PASTA), *p;
	unsigned i, options = 0;
	char word[64];

	(void)state;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(word, sizeof(word), "--%s", names[i]);
		if (lines_of(help, word) != 1)
			fail_msg("%s has %u lines in the help", word, lines_of(help, word));
	}
	for (p = help; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		options += !strncmp(p, "  -", 3) || !strncmp(p, "      --", 8);
	}
	assert_int_equal(options, sizeof(names) / sizeof(names[0]));
}

static void test_nothing_else_is_shown(void **state)
{
	static const char *const words[] = {
		"--no-tap-tso", "--no-tap-uso", "--no-tap-csum", "--no-peek-off", "--engine", "--log-file",
		"--conf-path", "--vhost-user", "--socket", "--repair-path", "--no-pidns",
	};
	const char *help = capture(conf_usage_print, CONF_MODE_PASTA);
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		assert_null(strstr(help, words[i]));
}

static void test_shape(void **state)
{
	static const char begin[] = "Usage: pasta [OPTION]... [COMMAND [ARG]...]\n";
	const char *help = capture(conf_usage_print, CONF_MODE_PASTA), *p, *end;

	(void)state;
	assert_memory_equal(help, begin, sizeof(begin) - 1);
	assert_int_equal(help[strlen(help) - 1], '\n');
	assert_non_null(strstr(help, "\n  -t, --tcp-ports SPEC        Forward TCP ports of the host to the namespace\n"
			       "                              SPEC: none, or ["));
	for (p = help; *p; p = end + 1) {
		end = strchr(p, '\n');
		if (end - p > 80 || (end > p && end[-1] == ' '))
			fail_msg("bad line: %.*s", (int)(end - p), p);
	}
}

static void test_passt(void **state)
{
	const char *help = capture(conf_usage_print, CONF_MODE_PASST);

	(void)state;
	assert_non_null(strstr(help, "Usage: passt"));
	assert_non_null(strstr(help, "not supported by this version yet"));
	assert_int_equal(lines_of(help, "--help"), 1);
	assert_int_equal(lines_of(help, "--version"), 1);
	assert_null(strstr(help, "--netns"));
}

static void test_version(void **state)
{
	(void)state;
	assert_non_null(strstr(capture(conf_version_print, CONF_MODE_PASTA), "pasta " GEMELLI_VERSION));
	assert_int_equal(strncmp(text, "pasta ", 6), 0);
	assert_non_null(strstr(text, "\nLicence: BSD-3-Clause"));
	assert_int_equal(strncmp(capture(conf_version_print, CONF_MODE_PASST), "passt ", 6), 0);
}

static int cleanup(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_working_option_is_shown),
		cmocka_unit_test(test_nothing_else_is_shown),
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_passt),
		cmocka_unit_test(test_version),
	};

	return cmocka_run_group_tests_name("conf/usage", tests, NULL, cleanup);
}
