/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Port specs: what they mean, and what is refused.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "conf/conf.h"

#define WORDS_MAX	2048

static const struct conf_ports ports = { 32768, 60999 };
static struct conf conf;
static struct err err;
static char shown[65536];

/* Both passes over words split at blanks */
static int run(const char *text)
{
	static char buf[65536], *argv[WORDS_MAX + 1];
	char *save, *word;
	int argc = 0;

	assert_true(strlen(text) < sizeof(buf));
	strcpy(buf, text);
	for (word = strtok_r(buf, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(argc < WORDS_MAX);
		argv[argc++] = strcmp(word, "_") ? word : word + 1;
	}
	argv[argc] = NULL;
	memset(&err, 0, sizeof(err));
	if (conf_parse(&conf, argc, argv, &err))
		fail_msg("'%s': %s in the first pass", text, err.text);
	return conf_rules_parse(&conf, argc, argv, &ports, &err);
}

/* One word a rule: PROTO LISTEN%IF:FIRST-LAST>TARGET:FIRST, * for both families, ! for weak, ? for scan */
static const char *show(const struct fwd_rules *t)
{
	char *p = shown, listen[INADDR_STR_MAX], target[INADDR_STR_MAX];
	unsigned i;

	*p = 0;
	for (i = 0; i < t->cnt; i++) {
		const struct fwd_rule *r = &t->rule[i];

		p += sprintf(p, "%s%s:%s%s%s:%u-%u>%s:%u%s%s", i ? " " : "", r->proto == FWD_TCP ? "tcp" : "udp",
			     r->any ? "*" : inaddr_str(&r->listen, listen), *r->ifname ? "%" : "", r->ifname, r->first,
			     r->last, inaddr_is_unset(&r->target) ? "" : inaddr_str(&r->target, target),
			     r->target_first, r->weak ? "!" : "", r->scan ? "?" : "");
		if (r->any)
			assert_true(inaddr_is_unset(&r->listen));
	}
	return shown;
}

static void gives_all(const char *prefix, const char *opts, const char *host, const char *ns)
{
	char text[32768];

	assert_true((size_t)snprintf(text, sizeof(text), "pasta %s%s", prefix, opts) < sizeof(text));
	if (run(text))
		fail_msg("'%s': %s", text, err.text);
	assert_string_equal(show(&conf.host_rules), host);
	assert_string_equal(show(&conf.ns_rules), ns);
}

/* Without the defaults */
static void gives(const char *opts, const char *host, const char *ns)
{
	gives_all("-t none -u none -T none -U none ", opts, host, ns);
}

static void bad(const char *opts, const char *want)
{
	char text[32768];
	int r;

	assert_true((size_t)snprintf(text, sizeof(text), "pasta %s", opts) < sizeof(text));
	r = run(text);
	if (!r)
		fail_msg("'%s' was accepted: %s", text, show(&conf.host_rules));
	assert_true(r < 0);
	assert_int_equal(err.code, r);
	assert_null(strchr(err.text, '\n'));
	if (!strstr(err.text, want))
		fail_msg("'%s' gave '%s', which lacks '%s'", text, err.text, want);
	assert_false(conf.usage);
}

static void test_none(void **state)
{
	(void)state;
	gives("", "", "");
	gives("-t none -u none -T none -U none", "", "");
	gives("-t none -t none -t 22", "tcp:*:22-22>:22", "");
	gives("-u 22 -t none", "udp:*:22-22>:22", "");
	gives("-t 22 -T none", "tcp:*:22-22>:22", "");
	bad("-t 22 -t none", "'none' behind ports");
	bad("-T 22 -T none", "'none' behind ports");
	bad("-t none,22", "can't be part of a list");
	bad("-t 22,none", "can't be part of a list");
	bad("-t 127.0.0.1/none", "can't be part of a list");
	bad("-t NONE", "expected a port");
}

static void test_ports(void **state)
{
	(void)state;
	gives("-t 22", "tcp:*:22-22>:22", "");
	gives("-u 53 --udp-ports 54", "udp:*:53-53>:53 udp:*:54-54>:54", "");
	gives("--tcp-ports=1,65535", "tcp:*:1-1>:1 tcp:*:65535-65535>:65535", "");
	gives("-t 22-25:1022-1025", "tcp:*:22-25>:1022", "");
	gives("-t 22-22:80-80", "tcp:*:22-22>:80", "");
	gives("-t 022", "tcp:*:22-22>:22", "");
	gives("-t +22,\t23-\t24:+33-\t34", "tcp:*:22-22>:22 tcp:*:23-24>:33", "");
	gives("-t 2222:22,8080-8081 -u 1", "tcp:*:2222-2222>:22 tcp:*:8080-8081>:8080 udp:*:1-1>:1", "");
	gives("-T 22:23 -U 1-3", "", "tcp:*:22-22>:23 udp:*:1-3>:1");
	gives("-t 22 -T 22 -u 22 -U 22", "tcp:*:22-22>:22 udp:*:22-22>:22", "tcp:*:22-22>:22 udp:*:22-22>:22");
}

static void test_exclusions(void **state)
{
	(void)state;
	gives("-t 10-20,~12,~15-17", "tcp:*:10-11>:10 tcp:*:13-14>:13 tcp:*:18-20>:18", "");
	gives("-t ~12,10-20:110-120", "tcp:*:10-11>:110 tcp:*:13-20>:113", "");
	gives("-t 10-20,~10,~20", "tcp:*:11-19>:11", "");
	gives("-t 22,~22", "", "");
	gives("-t 65530-65535,~65535", "tcp:*:65530-65534>:65530", "");
	gives("-t ~0,1", "tcp:*:1-1>:1", "");
}

/* What is left of a range, port by port */
static void test_exclusions_model(void **state)
{
	unsigned x = 1, round, i, port, next, len;
	static bool want[65537];
	char text[512], *p;

	(void)state;
	for (round = 0; round < 300; round++) {
		unsigned first = 1 + round % 40, last = round % 3 ? first + 3 * round : 65535;

		p = text + sprintf(text, "pasta -u none -t %u-%u", first, last);
		for (port = 0; port <= 65536; port++)
			want[port] = port >= first && port <= last;
		for (i = 0; i < round % 7; i++) {
			x = x * 1103515245 + 12345;
			port = (x >> 8) % (round % 2 ? 65536 : 200);
			len = BYTES_MIN((x >> 4) % 18, 65535 - port);
			p += sprintf(p, ",~%u-%u", port, port + len);
			memset(want + port, 0, len + 1);
		}
		assert_int_equal(run(text), 0);
		for (i = 0, port = 1; i < conf.host_rules.cnt; i++, port = next) {
			while (!want[port])
				assert_true(++port < 65536);
			for (next = port; want[next]; next++)
				;
			assert_int_equal(conf.host_rules.rule[i].first, port);
			assert_int_equal(conf.host_rules.rule[i].last, next - 1);
		}
		for (; port < 65536; port++)
			assert_false(want[port]);
	}
}

static void test_all(void **state)
{
	(void)state;
	gives("-t all", "tcp:*:1-32767>:1! tcp:*:61000-65535>:61000!", "");
	gives("-U all", "", "udp:*:1-32767>:1! udp:*:61000-65535>:61000!");
	gives("-t ~1-1024", "tcp:*:1025-32767>:1025! tcp:*:61000-65535>:61000!", "");
	gives("-t all,~25", "tcp:*:1-24>:1! tcp:*:26-32767>:26! tcp:*:61000-65535>:61000!", "");
	gives("-t all,22", "tcp:*:22-22>:22", "");
	gives("-t 127.0.0.1/all:10.0.0.1,all:10.0.0.2,~32768-65535", "tcp:127.0.0.1:1-32767>10.0.0.2:1!", "");
	gives("-t 127.0.0.1/all:10.0.0.1,all,~2-65535", "tcp:127.0.0.1:1-1>:1!", "");
	bad("-t ALL", "expected a port");
	bad("-t allx", "expected a port");
	bad("-t all:", "the target");
	bad("-t all:10.0.0.1", "begin with 0.0.0.0/ or [::]/");
	bad("-t all:22", "the target");
	bad("-t all -t 22", "overlap");
}

static void test_listen(void **state)
{
	(void)state;
	gives("-t /22", "tcp:*:22-22>:22", "");
	gives("-t */22", "tcp:*:22-22>:22", "");
	gives("-t %eth0/22", "tcp:*%eth0:22-22>:22", "");
	gives("-t *%eth0/22", "tcp:*%eth0:22-22>:22", "");
	gives("-t 127.0.0.1/22,23", "tcp:127.0.0.1:22-22>:22 tcp:127.0.0.1:23-23>:23", "");
	gives("-t ::1/22", "tcp:::1:22-22>:22", "");
	gives("-t [::1]/22 -t [127.0.0.1]/22", "tcp:::1:22-22>:22 tcp:127.0.0.1:22-22>:22", "");
	gives("-t ::ffff:127.0.0.1/22", "tcp:127.0.0.1:22-22>:22", "");
	gives("-t 0.0.0.0/22 -t [::]/22", "tcp:0.0.0.0:22-22>:22 tcp::::22-22>:22", "");
	gives("-t [fe80::1]%exactly15chars0/22", "tcp:fe80::1%exactly15chars0:22-22>:22", "");
	gives("-t 2222:fe80::1/23", "tcp:2222:fe80::1:23-23>:23", "");
	gives("-4 -t 22", "tcp:0.0.0.0:22-22>:22", "");
	gives("-6 -t 22 -T 22", "tcp::::22-22>:22", "tcp::::22-22>:22");
	gives("-4 -t %eth0/22", "tcp:0.0.0.0%eth0:22-22>:22", "");
	gives("-u 239.255.255.250/1900", "udp:239.255.255.250:1900-1900>:1900", "");
	bad("-t 239.255.255.250/22", "address of a group");
	bad("-t 255.255.255.255/22", "address of a group");
	bad("-t [ff02::1]%eth0/22", "address of a group");
	bad("-4 -t ::1/22", "switched off");
	bad("-6 -t 127.0.0.1/22", "switched off");
	bad("-t %/22", "interface name");
	bad("-t %exactly16chars01/22", "interface name");
	bad("-t %../22", "interface name");
	bad("-t [fe80::1%eth0]/22", "expected a port");
	bad("-t 10.0.0/22", "expected a port");
	bad("-t [::1/22", "expected a port");
	bad("-t //22", "expected a port");
	bad("-t 127.0.0.1/", "expected a port");
	bad("-t 127.0.0.1", "expected a port");
	bad("-t 10.0.0.1:22", "stands before a slash");
	bad("-t 127.0.0.1:8080:80", "stands before a slash");
	bad("-t [::1]:8080", "stands before a slash");
	bad("-t x:8080", "from 1 to 65535");
	bad("-T 127.0.0.1/22", "can't be given here");
	bad("-T */22", "can't be given here");
	bad("-U /22", "can't be given here");
	bad("-U %lo/22", "can't be given here");
}

static void test_targets(void **state)
{
	(void)state;
	gives("-t 0.0.0.0/22:10.0.0.1", "tcp:0.0.0.0:22-22>10.0.0.1:22", "");
	gives("-t 127.0.0.1/22:10.0.0.1/23", "tcp:127.0.0.1:22-22>10.0.0.1:23", "");
	gives("-t [::]/22-23:[2001:db8::1]/32-33", "tcp::::22-23>2001:db8::1:32", "");
	gives("-t [::]/2222:fe80::1/23,24", "tcp::::2222-2222>fe80::1:23 tcp::::24-24>:24", "");
	gives("-t [::]/22:2001:db8::1,24", "tcp::::22-22>2001:db8::1:22 tcp::::24-24>:24", "");
	gives("-4 -t 22:10.0.0.1 -T 23:10.0.0.2/24", "tcp:0.0.0.0:22-22>10.0.0.1:22", "tcp:0.0.0.0:23-23>10.0.0.2:24");
	gives("-t 0.0.0.0/20-25:10.0.0.1/120-125,~22",
	      "tcp:0.0.0.0:20-21>10.0.0.1:120 tcp:0.0.0.0:23-25>10.0.0.1:123", "");
	bad("-t 22:10.0.0.1", "begin with 0.0.0.0/ or [::]/");
	bad("-t %eth0/22:10.0.0.1", "begin with 0.0.0.0/ or [::]/");
	bad("-T 22:10.0.0.1", "--ipv4-only or --ipv6-only");
	bad("-t 0.0.0.0/22:[::1]", "another family");
	bad("-t [::]/22:10.0.0.1", "another family");
	bad("-4 -t 22:[2001:db8::1]", "another family");
	bad("-t 0.0.0.0/22:224.0.0.1", "not the address of one host");
	bad("-t 0.0.0.0/22:0.0.0.0", "not the address of one host");
	bad("-t [::]/22:[ff02::1]/22", "not the address of one host");
	bad("-t 0.0.0.0/22:10.0.0.1/", "behind the slash");
	bad("-t 0.0.0.0/22:10.0.0.1/x", "behind the slash");
	bad("-t 0.0.0.0/22:10.0.0.1/23:24", "behind the slash");
	bad("-t 0.0.0.0/22:10.0.0.1/0", "port 0");
	bad("-t 0.0.0.0/22:10.0.0.1/23-24", "differ in number");
}

static void test_syntax_errors(void **state)
{
	static const char *const specs[] = {
		"_", "22,", ",22", "22,,23", "5-4", "22x", "x", "65536", "1-65536", "22-", "-22", "++22", "22+", "+", "+ 22", "~", "~x",
		"~5-4", "22-23-24", "22:x", "22:", "22:23:24", "0x16", "99999999999999999999", "AUTO", "autox", "auto,",
	};
	char text[64];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		snprintf(text, sizeof(text), "-u 1 -t %s", specs[i]);
		bad(text, "--tcp-ports");
	}
	bad("-t 0", "port 0");
	bad("-t 0-5", "port 0");
	bad("-t 22:0", "port 0");
	bad("-t 1-3:4", "differ in number");
	bad("-t 1-3:4-5", "differ in number");
	bad("-t 1:4-5", "differ in number");
	bad("-t 65000-65535:65001-65536", "the target");
}

#define T_AUTO	"tcp:*:1-32767>:1!? tcp:*:61000-65535>:61000!?"
#define U_AUTO	"udp:*:1-32767>:1!? udp:*:61000-65535>:61000!?"

static void test_auto(void **state)
{
	static char *const argv[] = { (char *)"pasta", (char *)"-t", (char *)"auto", NULL };

	(void)state;
	gives("-t auto", T_AUTO, "");
	gives("-u auto -T auto", U_AUTO, T_AUTO);
	gives("-U auto,~1-32767,~65000-65535", "", "udp:*:61000-64999>:61000!?");
	gives("-t auto,all", T_AUTO, "");
	gives("-t all,auto,22", "tcp:*:22-22>:22?", "");
	gives("-t 53:54,auto,60-62,~61", "tcp:*:53-53>:54? tcp:*:60-60>:60? tcp:*:62-62>:62?", "");
	gives("-u 127.0.0.1/auto,~2-65535", "udp:127.0.0.1:1-1>:1!?", "");
	gives("-t %eth0/auto,~2-65535", "tcp:*%eth0:1-1>:1!?", "");
	gives("-4 -t auto,all:10.0.0.1,~2-65535", "tcp:0.0.0.0:1-1>10.0.0.1:1!?", "");
	bad("-t auto -t 22", "overlap");
	bad("-t 22 -t auto", "overlap");
	bad("-t auto -t none", "'none' behind ports");
	bad("-T 127.0.0.1/auto", "can't be given here");
	bad("-t auto:22", "expected a port");
	bad("-t ~auto", "expected a port");

	assert_int_equal(conf_parse(&conf, 3, argv, &err), 0);
	conf.mode = CONF_MODE_PASST;
	assert_int_equal(conf_rules_parse(&conf, 3, argv, &ports, &err), -EINVAL);
	assert_non_null(strstr(err.text, "only for pasta"));
	assert_int_equal(conf_rules_parse(&conf, 1, argv, &ports, &err), 0);
	assert_string_equal(show(&conf.host_rules), "");
}

/* An option that was given at all has no default */
static void test_default_is_auto(void **state)
{
	(void)state;
	gives_all("", "", T_AUTO " " U_AUTO, T_AUTO " " U_AUTO);
	gives_all("", "-t none", U_AUTO, T_AUTO " " U_AUTO);
	gives_all("", "-t 22 -U none", "tcp:*:22-22>:22 " U_AUTO, T_AUTO);
	gives_all("", "-t 22,~22 -u none -T none -U none", "", "");
	gives_all("", "--no-tcp", U_AUTO, U_AUTO);
	gives_all("", "--no-udp -t none -T none", "", "");
	gives_all("", "-6 -u none -T none -U none", "tcp::::1-32767>:1!? tcp::::61000-65535>:61000!?", "");
}

static void test_protocol_off(void **state)
{
	(void)state;
	gives("--no-tcp --no-udp", "", "");
	gives("--no-tcp -t none -T none -u 53", "udp:*:53-53>:53", "");
	bad("--no-tcp -t 22", "TCP is switched off");
	bad("-T 22 --no-tcp", "TCP is switched off");
	bad("-u 22 --no-udp", "UDP is switched off");
	bad("-U all --no-udp", "UDP is switched off");
}

static void test_overlap(void **state)
{
	(void)state;
	bad("-t 22,22", "overlap");
	bad("-t 22 -t 22", "overlap");
	bad("-t 20-30 -t 30-40", "overlap");
	bad("-t 20-30 -t 10-20", "overlap");
	bad("-t 20-30 -t 25", "overlap");
	bad("-t 22 -t 127.0.0.1/22", "overlap");
	bad("-t ::1/22 -t 22", "overlap");
	bad("-t 0.0.0.0/22 -t 127.0.0.1/22", "overlap");
	bad("-t ::1/22 -t [::]/22", "overlap");
	bad("-t 127.0.0.1/22 -t 127.0.0.1/22", "overlap");
	bad("-t %eth0/22 -t %eth0/22", "overlap");
	bad("-t %eth0/22 -t 22", "overlap");
	bad("-t 22:23 -t 22:24", "overlap");
	bad("-T 22 -T 22", "overlap");
	gives("-t 127.0.0.1/22 -t 127.0.0.2/22 -t ::1/22",
	      "tcp:127.0.0.1:22-22>:22 tcp:127.0.0.2:22-22>:22 tcp:::1:22-22>:22", "");
	gives("-t %eth0/22 -t %eth1/22", "tcp:*%eth0:22-22>:22 tcp:*%eth1:22-22>:22", "");
	gives("-t 20-30 -t 31-40", "tcp:*:20-30>:20 tcp:*:31-40>:31", "");
	gives("-t 22:80 -t 23:80", "tcp:*:22-22>:80 tcp:*:23-23>:80", "");
}

static void test_C02_limits(void **state)
{
	static char text[65536];
	char *p = text;
	unsigned i;

	(void)state;
	p += sprintf(p, "pasta -T none -U none -t ");
	for (i = 0; i < FWD_RULE_MAX; i++)
		p += sprintf(p, "%s%u", i ? "," : "", 2 * i + 1);
	assert_int_equal(run(text), 0);
	assert_int_equal(conf.host_rules.cnt, FWD_RULE_MAX);
	sprintf(p, " -u 1");
	assert_int_equal(run(text), -E2BIG);
	sprintf(p, ",10001");
	assert_int_equal(run(text), -E2BIG);
	assert_non_null(strstr(err.text, "more than 4096"));

	/* C02 */
	p = text + sprintf(text, "pasta");
	for (i = 0; i < 500; i++)
		p += sprintf(p, " -t %u -u %u", 3 * i + 1, 7 * i + 1);
	assert_int_equal(run(text), 0);
	assert_int_equal(conf.host_rules.cnt, 1000);

	/* 5 * 65535 sockets fit, not one range more */
	p = text + sprintf(text, "pasta");
	for (i = 1; i <= 5; i++)
		p += sprintf(p, " -t 127.0.0.%u/1-65535", i);
	assert_int_equal(run(text), 0);
	sprintf(p, " -t 127.0.0.9/1-5");
	assert_int_equal(run(text), 0);
	sprintf(p, " -t 127.0.0.9/1-6");
	assert_int_equal(run(text), -E2BIG);
	assert_non_null(strstr(err.text, "more than 327680"));
}

/* The second pass obeys what app found out in between, and can be repeated */
static void test_families_known_later(void **state)
{
	static char *const argv[] = { (char *)"pasta", (char *)"-u", (char *)"none", (char *)"-t", (char *)"22", NULL };
	static char *const v6[] = { (char *)"pasta", (char *)"-u", (char *)"none", (char *)"-t", (char *)"[::]/22", NULL };

	(void)state;
	assert_int_equal(conf_parse(&conf, 5, argv, &err), 0);
	conf.f[FWD_V6].on = false;
	assert_int_equal(conf_rules_parse(&conf, 5, argv, &ports, &err), 0);
	assert_string_equal(show(&conf.host_rules), "tcp:0.0.0.0:22-22>:22");
	assert_int_equal(conf_rules_parse(&conf, 5, argv, &ports, &err), 0);
	assert_string_equal(show(&conf.host_rules), "tcp:0.0.0.0:22-22>:22");
	assert_int_equal(conf_rules_parse(&conf, 5, v6, &ports, &err), -EINVAL);
	conf.f[FWD_V4].on = false;
	assert_int_equal(conf_rules_parse(&conf, 5, argv, &ports, &err), -EINVAL);
	assert_non_null(strstr(err.text, "neither IPv4 nor IPv6"));
}

static void test_specs_of_the_command_are_not_ours(void **state)
{
	(void)state;
	gives("-t 22 true -t x", "tcp:*:22-22>:22", "");
	gives("-t 22 -- true -u x", "tcp:*:22-22>:22", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_exclusions),
		cmocka_unit_test(test_exclusions_model),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_syntax_errors),
		cmocka_unit_test(test_auto),
		cmocka_unit_test(test_default_is_auto),
		cmocka_unit_test(test_protocol_off),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_C02_limits),
		cmocka_unit_test(test_families_known_later),
		cmocka_unit_test(test_specs_of_the_command_are_not_ours),
	};

	return cmocka_run_group_tests_name("conf/fwd", tests, NULL, NULL);
}
