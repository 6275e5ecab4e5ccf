/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line, pass one: each option, order rules, refusals, diagnostics.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"

#define WORDS_MAX	64

struct line {				/* a command line, split at blanks; "_" stands for an empty word */
	char buf[4096];
	char *argv[WORDS_MAX + 1];
	int argc;
};

static struct conf conf;
static struct line line;
static struct err err;

static int run_words(void)
{
	memset(&conf, 0xa5, sizeof(conf));
	memset(&err, 0, sizeof(err));
	return conf_parse(&conf, line.argc, line.argv, &err);
}

static int run(const char *text)
{
	char *save, *word;

	assert_true(strlen(text) < sizeof(line.buf));
	strcpy(line.buf, text);
	line.argc = 0;
	for (word = strtok_r(line.buf, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		assert_true(line.argc < WORDS_MAX);
		line.argv[line.argc++] = strcmp(word, "_") ? word : word + 1;
	}
	line.argv[line.argc] = NULL;
	return run_words();
}

/* Words that hold blanks, or that are long */
static int run_two(const char *opt, const char *arg)
{
	line.argv[0] = (char *)"pasta";
	line.argv[1] = (char *)opt;
	line.argv[2] = (char *)arg;
	line.argv[3] = NULL;
	line.argc = 3;
	return run_words();
}

static void ok(const char *text)
{
	if (run(text))
		fail_msg("'%s': %s", text, err.text);
	assert_int_equal(conf.action, CONF_ACTION_RUN);
	assert_string_equal(err.text, "");
}

static void bad(const char *text, const char *want)
{
	int r = run(text);

	if (!r)
		fail_msg("'%s' was accepted", text);
	assert_true(r < 0);
	assert_int_equal(err.code, r);
	assert_null(strchr(err.text, '\n'));
	if (!strstr(err.text, want))
		fail_msg("'%s' gave '%s', which lacks '%s'", text, err.text, want);
	assert_false(conf.usage);
}

static void misuse(const char *text, const char *want)
{
	assert_true(run(text) < 0);
	assert_string_equal(err.text, want);
	assert_true(conf.usage);
}

static void assert_addr(const struct inaddr *a, const char *text)
{
	struct inaddr want;

	if (!text) {
		assert_true(inaddr_is_unset(a));
		return;
	}
	assert_int_equal(inaddr_parse(text, &want), 0);
	assert_memory_equal(a, &want, sizeof(want));
}

static void test_defaults(void **state)
{
	static const struct macaddr mac = { { 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55 } };
	unsigned i;

	(void)state;
	ok("pasta");
	assert_int_equal(conf.mode, CONF_MODE_PASTA);
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_SHELL);
	assert_int_equal(conf.mtu, 65520);
	assert_false(conf.mtu_given);
	assert_memory_equal(&conf.our_mac, &mac, sizeof(mac));
	assert_null(conf.pid_path);
	assert_null(conf.ns_ifname);
	assert_null(conf.userns);
	assert_false(conf.config_net);
	assert_false(conf.no_map_gw);
	assert_int_equal(conf.runas.kind, CONF_RUNAS_DEFAULT);
	assert_int_equal(conf.engine, CONF_ENGINE_AUTO);
	assert_int_equal(conf.host_rules.cnt, 0);
	assert_int_equal(conf.ns_rules.cnt, 0);
	assert_int_equal(conf.warn_cnt, 0);
	for (i = 0; i < FWD_FAMILIES; i++) {
		assert_true(conf.f[i].on);
		assert_addr(&conf.f[i].addr, NULL);
		assert_addr(&conf.f[i].gateway, NULL);
		assert_int_equal(conf.f[i].dns_cnt, 0);
		assert_null(conf.f[i].outbound_if);
	}
}

static void test_name_decides_mode(void **state)
{
	static const char *const pasta[] = { "/usr/bin/pasta", "passt-pasta", "mypasta.x", "pasta.avx2", "/passt/pasta" };
	static const char *const passt[] = { "passt", "passt.avx2", "/opt/pasta/passt" };
	char text[64];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(pasta) / sizeof(pasta[0]); i++) {
		ok(pasta[i]);
		assert_int_equal(conf.mode, CONF_MODE_PASTA);
	}
	for (i = 0; i < sizeof(passt) / sizeof(passt[0]); i++) {
		bad(passt[i], "virtual machines are not supported by this version yet");
		snprintf(text, sizeof(text), "%s -f -s /x --netns x", passt[i]);
		bad(text, "virtual machines are not supported by this version yet");
		snprintf(text, sizeof(text), "%s --foreground --help", passt[i]);
		assert_int_equal(run(text), 0);
		assert_int_equal(conf.action, CONF_ACTION_HELP);
		assert_int_equal(conf.mode, CONF_MODE_PASST);
		snprintf(text, sizeof(text), "%s --version", passt[i]);
		assert_int_equal(run(text), 0);
		assert_int_equal(conf.action, CONF_ACTION_VERSION);
	}
	bad("/pasta/other", "'other'");
	bad("pasta/", "''");
	bad("pasta --vhost-user", "virtual machines are not supported by this version yet");
	line.argv[0] = NULL;
	line.argc = 0;
	assert_int_equal(run_words(), -EINVAL);
}

static void test_flags(void **state)
{
	static const struct { const char *opt; size_t off; } flags[] = {
		{ "-f", offsetof(struct conf, foreground) },
		{ "--foreground", offsetof(struct conf, foreground) },
		{ "--netns-only", offsetof(struct conf, netns_only) },
		{ "--no-netns-quit", offsetof(struct conf, no_netns_quit) },
		{ "--config-net", offsetof(struct conf, config_net) },
		{ "--no-map-gw", offsetof(struct conf, no_map_gw) },
		{ "--no-tcp", offsetof(struct conf, no_tcp) },
		{ "--no-udp", offsetof(struct conf, no_udp) },
		{ "--no-icmp", offsetof(struct conf, no_icmp) },
		{ "--no-icmp", offsetof(struct conf, no_ndp) },
		{ "--no-ndp", offsetof(struct conf, no_ndp) },
		{ "--no-ra", offsetof(struct conf, no_ra) },
		{ "--no-dhcp", offsetof(struct conf, no_dhcp) },
		{ "--no-dhcpv6", offsetof(struct conf, no_dhcpv6) },
		{ "--freebind", offsetof(struct conf, freebind) },
		{ "--host-lo-to-ns-lo", offsetof(struct conf, host_lo_to_ns_lo) },
		{ "--no-splice", offsetof(struct conf, no_splice) },
		{ "--splice-only", offsetof(struct conf, splice_only) },
		{ "--multicast", offsetof(struct conf, multicast) },
		{ "--no-tap-tso", offsetof(struct conf, no_tap_tso) },
		{ "--no-tap-uso", offsetof(struct conf, no_tap_uso) },
		{ "--no-tap-csum", offsetof(struct conf, no_tap_csum) },
		{ "--no-peek-off", offsetof(struct conf, no_peek_off) },
	};
	char text[64];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		ok("pasta 1");
		assert_false(*((bool *)&conf + flags[i].off));
		snprintf(text, sizeof(text), "pasta %s %s 1", flags[i].opt, flags[i].opt);
		ok(text);
		assert_true(*((bool *)&conf + flags[i].off));
	}
}

static void test_level(void **state)
{
	static const struct { const char *opts; enum conf_level level; } t[] = {
		{ "", CONF_LEVEL_INFO }, { "-q", CONF_LEVEL_QUIET }, { "-d", CONF_LEVEL_DEBUG },
		{ "--trace", CONF_LEVEL_TRACE }, { "-q -d", CONF_LEVEL_DEBUG }, { "-dq", CONF_LEVEL_QUIET },
		{ "--trace --debug", CONF_LEVEL_TRACE }, { "--quiet --trace", CONF_LEVEL_TRACE },
		{ "--trace --quiet", CONF_LEVEL_QUIET }, { "--trace -q -d", CONF_LEVEL_DEBUG },
	};
	char text[64];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		snprintf(text, sizeof(text), "pasta %s 1", t[i].opts);
		ok(text);
		assert_int_equal(conf.level, t[i].level);
		assert_false(conf.foreground);
		snprintf(text, sizeof(text), "pasta %s true", t[i].opts);
		ok(text);
		assert_int_equal(conf.level, t[i].level == CONF_LEVEL_INFO ? CONF_LEVEL_QUIET : t[i].level);
		assert_true(conf.foreground);
	}
}

static void test_target(void **state)
{
	(void)state;
	ok("pasta echo --vhost-user -Z");
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_COMMAND);
	assert_int_equal(conf.cmd_idx, 1);
	ok("pasta -f -- grep -F x y");
	assert_int_equal(conf.cmd_idx, 3);
	ok("pasta --");
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_SHELL);
	ok("pasta -- 1234");
	assert_int_equal(conf.target, CONF_TARGET_PID);
	assert_int_equal(conf.pid, 1234);
	ok("pasta 2147483647");
	assert_int_equal(conf.pid, INT_MAX);
	bad("pasta 2147483648", "'2147483648'");
	bad("pasta 99999999999999999999999", "process ID");
	bad("pasta 0", "process ID");
	ok("pasta 12 34");
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_COMMAND);
	ok("pasta 12x");
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_COMMAND);
	ok("pasta _");
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_COMMAND);
}

static void test_namespaces(void **state)
{
	char path[PATH_MAX + 1];

	(void)state;
	ok("pasta --netns /proc/self/fd/0");
	assert_int_equal(conf.target, CONF_TARGET_NETNS);
	assert_string_equal(conf.netns, "/proc/self/fd/0");
	assert_true(conf.netns_only);
	assert_false(conf.foreground);
	ok("pasta --netns=blue");
	assert_string_equal(conf.netns, "/run/netns/blue");
	ok("pasta --netns x --netns ./y");
	assert_string_equal(conf.netns, "./y");
	ok("pasta --userns /u --netns /n");
	assert_string_equal(conf.userns, "/u");
	assert_false(conf.netns_only);
	ok("pasta --netns-only --userns /u 1");
	assert_string_equal(conf.userns, "/u");
	assert_false(conf.netns_only);
	ok("pasta --userns /u --netns-only 1");
	assert_null(conf.userns);
	assert_true(conf.netns_only);
	ok("pasta 1");
	assert_false(conf.netns_only);
	bad("pasta --netns /n 1", "together with --netns");
	bad("pasta --netns /n true", "together with --netns");
	bad("pasta --netns _", "--netns: the path is empty");
	bad("pasta --userns _", "--userns: the path is empty");

	memset(path, 'x', PATH_MAX);
	path[PATH_MAX] = 0;
	assert_int_equal(run_two("--userns", path), -ENAMETOOLONG);
	path[PATH_MAX - 1] = 0;
	assert_int_equal(run_two("--userns", path), 0);
	assert_int_equal(run_two("--netns", path), -ENAMETOOLONG);
	path[0] = '/';
	assert_int_equal(run_two("--netns", path), 0);
	assert_string_equal(conf.netns, path);
	path[0] = 'x';
	path[PATH_MAX - sizeof(CONF_NETNS_DIR)] = 0;
	assert_int_equal(run_two("--netns", path), 0);
	assert_string_equal(conf.netns + sizeof(CONF_NETNS_DIR) - 1, path);
}

static void test_paths_and_names(void **state)
{
	char name[300];

	(void)state;
	ok("pasta -P a --pid b -p c -I tun0 -i eth0 -H h");
	assert_string_equal(conf.pid_path, "b");
	assert_string_equal(conf.pcap_path, "c");
	assert_string_equal(conf.ns_ifname, "tun0");
	assert_string_equal(conf.ifname, "eth0");
	assert_string_equal(conf.hostname, "h");
	ok("pasta -H _");
	assert_string_equal(conf.hostname, "");
	ok("pasta --pid -f");
	assert_string_equal(conf.pid_path, "-f");
	ok("pasta --pcap=x --ns-ifname=exactly15chars0 --interface=a --hostname=b");
	assert_string_equal(conf.pcap_path, "x");
	bad("pasta -P _", "--pid: the path is empty");
	bad("pasta -p _", "--pcap: the path is empty");
	bad("pasta -I _", "--ns-ifname ''");
	bad("pasta -i _", "--interface ''");
	bad("pasta -I exactly16chars01", "--ns-ifname 'exactly16chars01'");
	bad("pasta -i a/b", "--interface");
	bad("pasta -i .", "--interface");
	bad("pasta -i ..", "--interface");
	ok("pasta -i ...");
	assert_int_equal(run_two("-i", "a b"), -EINVAL);
	assert_int_equal(run_two("-i", "a\tb"), -EINVAL);

	memset(name, 'n', 254);
	name[254] = 0;
	assert_int_equal(run_two("-H", name), -ENAMETOOLONG);
	name[253] = 0;
	assert_int_equal(run_two("-H", name), 0);
}

static void test_mtu(void **state)
{
	(void)state;
	ok("pasta -m 1500");
	assert_int_equal(conf.mtu, 1500);
	assert_true(conf.mtu_given);
	ok("pasta --mtu=0x5dc");
	assert_int_equal(conf.mtu, 1500);
	ok("pasta -m 0X5DC");
	assert_int_equal(conf.mtu, 1500);
	ok("pasta -m 02734");
	assert_int_equal(conf.mtu, 1500);
	ok("pasta -m65521");
	assert_int_equal(conf.mtu, 65521);
	ok("pasta -m 0");
	assert_int_equal(conf.mtu, 0);
	assert_int_equal(conf.warn_cnt, 0);
	ok("pasta -m 1280");
	assert_int_equal(conf.warn_cnt, 0);
	ok("pasta -m 1279");
	assert_int_equal(conf.warn_cnt, 1);
	ok("pasta -4 -m 1279");
	assert_int_equal(conf.warn_cnt, 0);
	ok("pasta -m 67");
	assert_int_equal(conf.warn_cnt, 2);
	ok("pasta -4 -m 68");
	assert_int_equal(conf.warn_cnt, 0);
	bad("pasta -m 65522", "--mtu '65522': expected a number from 0 to 65521");
	bad("pasta -m _", "--mtu");
	bad("pasta -m 1500x", "--mtu");
	bad("pasta -m -1", "--mtu");
	bad("pasta -m +1", "--mtu");
	bad("pasta -m 09", "--mtu");
	bad("pasta -m 0x", "--mtu");
	bad("pasta -m 18446744073709551617", "--mtu");
	bad("pasta -m 4294967297", "--mtu");
	assert_int_equal(run_two("-m", " 1500"), -EINVAL);
}

static void test_macs(void **state)
{
	static const struct macaddr m = { { 0x02, 0, 0, 0, 0xab, 0xcd } };

	(void)state;
	ok("pasta -M 02:00:00:00:ab:CD");
	assert_memory_equal(&conf.our_mac, &m, sizeof(m));
	assert_false(conf.ns_mac_given);
	ok("pasta --ns-mac-addr 02:00:00:00:ab:cd");
	assert_true(conf.ns_mac_given);
	assert_memory_equal(&conf.ns_mac, &m, sizeof(m));
	bad("pasta -M 2:0:0:0:ab:cd", "--mac-addr");
	bad("pasta -M 02:00:00:00:ab:cd:", "--mac-addr");
	bad("pasta -M 00:00:00:00:00:00", "group or zero");
	bad("pasta --ns-mac-addr 01:00:00:00:00:01", "group or zero");
	bad("pasta --ns-mac-addr x", "--ns-mac-addr 'x'");
}

static void test_address(void **state)
{
	(void)state;
	ok("pasta -a 192.0.2.1/27 -a 2001:db8::1/48");
	assert_addr(&conf.f[FWD_V4].addr, "192.0.2.1");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 27);
	assert_addr(&conf.f[FWD_V6].addr, "2001:db8::1");
	assert_int_equal(conf.f[FWD_V6].prefix_len, 64);
	ok("pasta -a 10.0.0.1");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 8);
	ok("pasta -a 172.16.0.1");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 16);
	ok("pasta -a 192.0.2.1");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 24);
	ok("pasta -a 10.0.2.0 -n 24");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 24);
	ok("pasta -n 255.255.255.252 -a 10.0.2.1 -a 10.0.2.2");
	assert_addr(&conf.f[FWD_V4].addr, "10.0.2.2");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 30);
	ok("pasta -a [2001:db8::1] -a ::ffff:192.0.2.9");
	assert_addr(&conf.f[FWD_V6].addr, "2001:db8::1");
	assert_addr(&conf.f[FWD_V4].addr, "192.0.2.9");
	ok("pasta -a [2001:db8::1]/64 -n 24");
	assert_int_equal(conf.netmask_len, 24);
	bad("pasta -a 192.0.2.1/27 -n 24", "--netmask can't be used");
	bad("pasta -n 24 -a 192.0.2.1/27", "--netmask can't be used");
	ok("pasta -n 24 -a 192.0.2.1/27 -a 192.0.2.2");
	ok("pasta -n 0 -a 192.0.2.1/27");
	assert_int_equal(conf.f[FWD_V4].prefix_len, 27);
	bad("pasta -a 127.0.0.1", "loopback");
	bad("pasta -a ::1", "loopback");
	bad("pasta -a 224.0.0.1", "not the address of one host");
	bad("pasta -a ff02::1", "not the address of one host");
	bad("pasta -a 0.0.0.0", "not the address of one host");
	bad("pasta -a ::", "not the address of one host");
	bad("pasta -a _", "--address ''");
	bad("pasta -a 10.0.0", "--address '10.0.0'");
	bad("pasta -a fe80::1%eth0", "--address");
	bad("pasta -a [10.0.0.1", "--address");
	bad("pasta -a 0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001", "--address");
	bad("pasta -a 10.0.0.1/33", "from 0 to 32");
	bad("pasta -a 2001:db8::1/129", "from 0 to 128");
	bad("pasta -a 10.0.0.1/", "behind the slash");
	bad("pasta -a 10.0.0.1/24/", "behind the slash");
	bad("pasta -a 10.0.0.1/-1", "behind the slash");
}

static void test_netmask(void **state)
{
	(void)state;
	ok("pasta -n 32");
	assert_int_equal(conf.netmask_len, 32);
	ok("pasta -n 255.255.255.255");
	assert_int_equal(conf.netmask_len, 32);
	ok("pasta -n 255.254.0.0");
	assert_int_equal(conf.netmask_len, 15);
	ok("pasta -n 0.0.0.0");
	assert_int_equal(conf.netmask_len, 0);
	bad("pasta -n 33", "--netmask '33'");
	bad("pasta -n 255.0.255.0", "--netmask");
	bad("pasta -n 0.0.0.1", "--netmask");
	bad("pasta -n ffff::", "--netmask");
	bad("pasta -n _", "--netmask");
}

static void test_gateway_and_outbound(void **state)
{
	(void)state;
	ok("pasta -g 192.0.2.1 -g fe80::1 -g 192.0.2.254");
	assert_addr(&conf.f[FWD_V4].gateway, "192.0.2.254");
	assert_addr(&conf.f[FWD_V6].gateway, "fe80::1");
	bad("pasta -g 0.0.0.0", "--gateway");
	bad("pasta -g ::", "--gateway");
	bad("pasta -g 127.0.0.1", "--gateway");
	bad("pasta -g ::1", "--gateway");
	bad("pasta -g 255.255.255.255", "--gateway");
	bad("pasta -g _", "--gateway");

	ok("pasta -o 192.0.2.1 --outbound 2001:db8::1 --outbound-if4 eth0 --outbound-if6=eth1");
	assert_addr(&conf.f[FWD_V4].outbound, "192.0.2.1");
	assert_addr(&conf.f[FWD_V6].outbound, "2001:db8::1");
	assert_string_equal(conf.f[FWD_V4].outbound_if, "eth0");
	assert_string_equal(conf.f[FWD_V6].outbound_if, "eth1");
	ok("pasta -o 127.0.0.1");
	bad("pasta -o 0.0.0.0", "--outbound");
	bad("pasta -o 255.255.255.255", "--outbound");
	bad("pasta -o 224.0.0.1", "--outbound");
	bad("pasta -o ::", "--outbound");
	bad("pasta -o ::1", "--outbound");
	bad("pasta -o ff02::1", "--outbound");
	bad("pasta -o _", "--outbound");
	bad("pasta --outbound-if4 _", "--outbound-if4");
	bad("pasta --outbound-if6 exactly16chars01", "--outbound-if6");
	bad("pasta -6 --outbound-if4 eth0", "--outbound-if4");
	bad("pasta --outbound-if6 eth0 -4", "--outbound-if6");
}

static void test_families(void **state)
{
	(void)state;
	ok("pasta -4");
	assert_true(conf.f[FWD_V4].on);
	assert_false(conf.f[FWD_V6].on);
	ok("pasta --ipv6-only");
	assert_false(conf.f[FWD_V4].on);
	assert_true(conf.f[FWD_V6].on);
	ok("pasta -6 -4");
	assert_true(conf.f[FWD_V4].on);
	assert_false(conf.f[FWD_V6].on);
	ok("pasta -46");
	assert_true(conf.f[FWD_V6].on);
	ok("pasta -4 -a 2001:db8::1 -g fe80::1");
}

static void test_aliases(void **state)
{
	(void)state;
	ok("pasta --map-host-loopback 192.0.2.3 --map-host-loopback 2001:db8::3 --map-guest-addr 192.0.2.4");
	assert_addr(&conf.f[FWD_V4].host_loopback, "192.0.2.3");
	assert_addr(&conf.f[FWD_V6].host_loopback, "2001:db8::3");
	assert_addr(&conf.f[FWD_V4].host_guest, "192.0.2.4");
	assert_addr(&conf.f[FWD_V6].host_guest, NULL);
	assert_false(conf.no_map_gw);
	ok("pasta --map-host-loopback 192.0.2.3 --map-host-loopback none");
	assert_addr(&conf.f[FWD_V4].host_loopback, NULL);
	assert_true(conf.no_map_gw);
	ok("pasta --map-host-loopback none --map-host-loopback 192.0.2.3 --no-map-gw");
	assert_addr(&conf.f[FWD_V4].host_loopback, "192.0.2.3");
	ok("pasta --map-guest-addr 2001:db8::3 --map-guest-addr none");
	assert_addr(&conf.f[FWD_V6].host_guest, NULL);
	assert_false(conf.no_map_gw);
	bad("pasta --map-host-loopback 0.0.0.0", "--map-host-loopback");
	bad("pasta --map-host-loopback 127.0.0.1", "--map-host-loopback");
	bad("pasta --map-host-loopback ff02::1", "--map-host-loopback");
	bad("pasta --map-guest-addr ::1", "--map-guest-addr");
	bad("pasta --map-guest-addr NONE", "--map-guest-addr");
}

static void test_dns(void **state)
{
	(void)state;
	ok("pasta -D 192.0.2.1 -D 127.0.0.53 --dns 2001:db8::1 --dns-forward 169.254.1.1 --dns-host ::1");
	assert_int_equal(conf.f[FWD_V4].dns_cnt, 2);
	assert_addr(&conf.f[FWD_V4].dns[0], "192.0.2.1");
	assert_addr(&conf.f[FWD_V4].dns[1], "127.0.0.53");
	assert_int_equal(conf.f[FWD_V6].dns_cnt, 1);
	assert_addr(&conf.f[FWD_V4].dns_forward, "169.254.1.1");
	assert_addr(&conf.f[FWD_V6].dns_host, "::1");
	assert_false(conf.no_dns);
	ok("pasta -D 192.0.2.1 --dns-forward 192.0.2.2 --dns-host 192.0.2.3 -D none --dns-host 192.0.2.4");
	assert_true(conf.no_dns);
	assert_int_equal(conf.f[FWD_V4].dns_cnt, 0);
	assert_addr(&conf.f[FWD_V4].dns_forward, NULL);
	assert_addr(&conf.f[FWD_V4].dns_host, "192.0.2.4");
	ok("pasta -D none -D 192.0.2.9");
	assert_false(conf.no_dns);
	assert_int_equal(conf.f[FWD_V4].dns_cnt, 1);
	ok("pasta -D 192.0.2.1 -D 192.0.2.2 -D 192.0.2.3 -D 192.0.2.4 -D 192.0.2.5");
	assert_int_equal(conf.f[FWD_V4].dns_cnt, 3);
	assert_addr(&conf.f[FWD_V4].dns[2], "192.0.2.3");
	assert_int_equal(conf.warn_cnt, 1);
	bad("pasta -D _", "--dns ''");
	bad("pasta -D 0.0.0.0", "--dns");
	bad("pasta -D resolver", "--dns 'resolver'");
	bad("pasta --dns-forward 0.0.0.0", "--dns-forward");
	bad("pasta --dns-forward 127.0.0.1", "--dns-forward");
	bad("pasta --dns-forward 255.255.255.255", "--dns-forward");
	bad("pasta --dns-host ::", "--dns-host");
	bad("pasta --dns-host 255.255.255.255", "--dns-host");
}

static void assert_search(unsigned i, const char *want)
{
	assert_true(i < conf.search_cnt);
	assert_int_equal(conf.search[i].len, strlen(want));
	assert_memory_equal(conf.search[i].p, want, strlen(want));
}

static void test_search(void **state)
{
	char name[CONF_SEARCH_LEN_MAX + 2];

	(void)state;
	assert_int_equal(run_two("-S", " a.example  b.example "), 0);
	assert_int_equal(conf.search_cnt, 2);
	assert_search(0, "a.example");
	assert_search(1, "b.example");
	ok("pasta -S a -S b --search c -S d -Se --search=f");
	assert_int_equal(conf.search_cnt, 6);
	assert_search(5, "f");
	bad("pasta -S a -S b -S c -S d -S e -S f -S g", "more than 6");
	ok("pasta -S a -S none");
	assert_int_equal(conf.search_cnt, 0);
	assert_true(conf.no_search);
	ok("pasta -S none -S x");
	assert_false(conf.no_search);
	assert_search(0, "x");
	bad("pasta -S _", "--search");
	assert_int_equal(run_two("-S", "  "), -EINVAL);
	memset(name, 'n', CONF_SEARCH_LEN_MAX + 1);
	name[CONF_SEARCH_LEN_MAX + 1] = 0;
	assert_int_equal(run_two("-S", name), -ENAMETOOLONG);
	name[CONF_SEARCH_LEN_MAX] = 0;
	assert_int_equal(run_two("-S", name), 0);
}

static void assert_text(const struct conf_text *t, const char *want)
{
	assert_int_equal(t->len, strlen(want));
	assert_memory_equal(t->p, want, t->len);
}

static void test_runas(void **state)
{
	(void)state;
	ok("pasta --runas 1000");
	assert_int_equal(conf.runas.kind, CONF_RUNAS_IDS);
	assert_int_equal(conf.runas.uid, 1000);
	assert_int_equal(conf.runas.gid, 1000);
	ok("pasta --runas 0:0x10");
	assert_int_equal(conf.runas.uid, 0);
	assert_int_equal(conf.runas.gid, 16);
	ok("pasta --runas daemon");
	assert_int_equal(conf.runas.kind, CONF_RUNAS_NAMES);
	assert_text(&conf.runas.login, "daemon");
	assert_int_equal(conf.runas.group.len, 0);
	ok("pasta --runas daemon:users");
	assert_text(&conf.runas.login, "daemon");
	assert_text(&conf.runas.group, "users");
	ok("pasta --runas daemon:users --runas 5");
	assert_int_equal(conf.runas.kind, CONF_RUNAS_IDS);
	bad("pasta --runas _", "--runas ''");
	bad("pasta --runas :5", "--runas ':5'");
	bad("pasta --runas 1000:", "--runas '1000:'");
	bad("pasta --runas daemon:", "--runas");
	bad("pasta --runas 1000x", "--runas");
	bad("pasta --runas 1000:users", "--runas");
	bad("pasta --runas 1000:5:6", "--runas");
	bad("pasta --runas 4294967295", "--runas");
	bad("pasta --runas 1:4294967296", "--runas");
}

static void test_engine(void **state)
{
	(void)state;
	ok("pasta --engine epoll");
	assert_int_equal(conf.engine, CONF_ENGINE_EPOLL);
	ok("pasta --engine=epoll --engine=auto");
	assert_int_equal(conf.engine, CONF_ENGINE_AUTO);
	bad("pasta --engine fast", "--engine 'fast': expected auto or epoll");
}

static void test_deprecated(void **state)
{
	(void)state;
	ok("pasta -e -q --stderr -e");
	assert_int_equal(conf.warn_cnt, 1);
	assert_non_null(strstr(conf.warn[0], "--stderr"));
	ok("pasta --config-net --no-copy-routes --no-copy-addrs");
	assert_int_equal(conf.warn_cnt, 2);
	assert_true(conf.no_copy_routes);
	assert_true(conf.no_copy_addrs);
}

static void test_conflicts(void **state)
{
	(void)state;
	bad("pasta --host-lo-to-ns-lo --no-splice", "exclude each other");
	bad("pasta --no-splice --host-lo-to-ns-lo", "exclude each other");
	bad("pasta --no-splice --splice-only", "exclude each other");
	bad("pasta --splice-only --no-splice", "exclude each other");
	bad("pasta --no-copy-routes", "--no-copy-routes needs --config-net");
	bad("pasta --no-copy-addrs", "--no-copy-addrs needs --config-net");
	bad("pasta --host-own-addr", "--host-own-addr needs --config-net");
	ok("pasta --host-own-addr --config-net");
	assert_true(conf.host_own_addr);
}

static void test_not_yet(void **state)
{
	static const char *const not_yet[] = {
		"--stats 1", "--log-file x", "-l x", "--log-size 1", "--conf-path x", "-c x", "--print-capabilities",
		"--fd 5", "-F 5", "--fqdn x", "--chroot-fallback", "--dhcp-dns", "--dhcp-search",
		"--no-pidns",
	};
	static const char *const passt_only[] = {
		"--socket x", "--socket-path x", "-s x", "--migrate-exit", "--migrate-no-linger", "--one-off", "-1",
		"--no-dhcp-dns", "--no-dhcp-search",
	};
	char text[64];
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(not_yet) / sizeof(not_yet[0]); i++) {
		snprintf(text, sizeof(text), "pasta %s", not_yet[i]);
		bad(text, "not supported by this version yet");
	}
	for (i = 0; i < sizeof(passt_only) / sizeof(passt_only[0]); i++) {
		snprintf(text, sizeof(text), "pasta %s", passt_only[i]);
		bad(text, "only for passt");
	}
	ok("pasta --repair-path none");
	bad("pasta --repair-path x", "--repair-path");
}

static void test_getopt_diagnostics(void **state)
{
	(void)state;
	misuse("pasta --x", "pasta: unrecognized option '--x'");
	misuse("./pasta --nope=3 --help", "./pasta: unrecognized option '--nope=3'");
	misuse("pasta -q -fZ", "pasta: invalid option -- 'Z'");
	misuse("pasta --quiet -Zf", "pasta: invalid option -- 'Z'");
	misuse("pasta -fm", "pasta: option requires an argument -- 'm'");
	misuse("pasta --mtu", "pasta: option '--mtu' requires an argument");
	misuse("pasta --net", "pasta: option '--net' is ambiguous; possibilities: '--netns' '--netns-only' '--netmask'");
	misuse("pasta --out=3", "pasta: option '--out=3' is ambiguous; possibilities: "
	       "'--outbound' '--outbound-if4' '--outbound-if6'");
	misuse("pasta --quiet=3", "pasta: option '--quiet' doesn't allow an argument");
	misuse("pasta --qui=3", "pasta: option '--quiet' doesn't allow an argument");
	misuse("pasta --netm", "pasta: option '--netmask' requires an argument");
	misuse("pasta --no- x", "pasta: option '--no-' is ambiguous; possibilities: '--no-netns-quit' "
	       "'--no-copy-routes' '--no-copy-addrs' '--no-map-gw' '--no-tcp' '--no-udp' '--no-icmp' '--no-ndp' "
	       "'--no-ra' '--no-dhcp' '--no-dhcpv6' '--no-splice' '--no-tap-tso' '--no-tap-uso' '--no-tap-csum' "
	       "'--no-peek-off' '--no-pidns' '--no-dhcp-dns' '--no-dhcp-search'");
}

static void test_ways_to_write(void **state)
{
	(void)state;
	ok("pasta -qfm1400 -I tun0 --mt 1500 --config -4 true -6");
	assert_int_equal(conf.mtu, 1500);
	assert_true(conf.config_net);
	assert_true(conf.f[FWD_V4].on);
	assert_int_equal(conf.target, CONF_TARGET_SPAWN_COMMAND);
	ok("pasta --netns /x --mtu 1 --netns-only");
	assert_string_equal(conf.netns, "/x");
}

static void test_help_ends_at_its_place(void **state)
{
	(void)state;
	assert_int_equal(run("pasta --help -Z"), 0);
	assert_int_equal(conf.action, CONF_ACTION_HELP);
	assert_int_equal(run("pasta -qh --mtu 99999"), 0);
	assert_int_equal(conf.action, CONF_ACTION_HELP);
	assert_int_equal(run("pasta -t nonsense --version --help"), 0);
	assert_int_equal(conf.action, CONF_ACTION_VERSION);
	assert_int_equal(run("pasta --no-copy-routes --version"), 0);
	bad("pasta --mtu 99999 --help", "--mtu");
	misuse("pasta -Z --help", "pasta: invalid option -- 'Z'");
	ok("pasta true --help");
	ok("pasta -- --version");
	assert_int_equal(conf.cmd_idx, 2);
}

/* A pass that ended half-way through a cluster leaves nothing behind for the next */
static void test_passes_are_independent(void **state)
{
	(void)state;
	assert_int_equal(run("pasta -hqZ"), 0);
	ok("pasta -f 1");
	assert_true(conf.foreground);
	assert_int_equal(conf.level, CONF_LEVEL_INFO);
	misuse("pasta -Zq", "pasta: invalid option -- 'Z'");
	ok("pasta 1");
	assert_int_equal(conf.level, CONF_LEVEL_INFO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_name_decides_mode),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_level),
		cmocka_unit_test(test_target),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_paths_and_names),
		cmocka_unit_test(test_mtu),
		cmocka_unit_test(test_macs),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_netmask),
		cmocka_unit_test(test_gateway_and_outbound),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_dns),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_runas),
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_deprecated),
		cmocka_unit_test(test_conflicts),
		cmocka_unit_test(test_not_yet),
		cmocka_unit_test(test_getopt_diagnostics),
		cmocka_unit_test(test_ways_to_write),
		cmocka_unit_test(test_help_ends_at_its_place),
		cmocka_unit_test(test_passes_are_independent),
	};

	return cmocka_run_group_tests_name("conf/opt", tests, NULL, NULL);
}
