/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Command lines of the programs that call us, as they have done for years (C16):
 * all are taken, and mean what the caller relies on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "conf/conf.h"

#define WORDS_MAX	64

#define PODMAN_END	" --dns-forward 169.254.1.1 -t none -u none -T none -U none --no-map-gw --quiet --netns /run/netns/x " \
			"--map-guest-addr 169.254.1.2"

static const struct client {
	const char *line;		/* split at blanks */
	bool foreground, no_map_gw;
	enum conf_target target;
	unsigned host_rules;		/* those that listen without a scan */
} clients[] = {
	/* Podman: a container, with its options, with ports */
	{ "pasta --config-net" PODMAN_END, false, true, CONF_TARGET_NETNS, 0 },
	{ "/usr/bin/pasta --config-net --ipv4-only -a 10.0.2.15 -g 10.0.2.2 -m 1280" PODMAN_END, false, true, CONF_TARGET_NETNS, 0 },
	{ "pasta --config-net -t 8080-8080:80-80 -t ::1/8081-8083:81-83 -u 192.0.2.1/53-53:53-53 --dns-forward 169.254.1.1 "
	  "-T none -U none --no-map-gw --quiet --netns /run/netns/x --map-guest-addr 169.254.1.2", false, true, CONF_TARGET_NETNS, 3 },
	{ "pasta --config-net --tcp-ports 192.0.2.1%eth0/8080-8082:80-82 --dns-forward 169.254.1.1 -u none -T none -U none "
	  "--no-map-gw --quiet --netns /run/netns/x --map-guest-addr 169.254.1.2", false, true, CONF_TARGET_NETNS, 1 },
	{ "pasta --config-net -I eth7 --ns-mac-addr 02:00:00:00:00:07" PODMAN_END, false, true, CONF_TARGET_NETNS, 0 },
	/* Podman's bridge networks, Buildah */
	{ "pasta --config-net --pid /run/rootless-netns-conn.pid" PODMAN_END, false, true, CONF_TARGET_NETNS, 0 },
	{ "pasta --config-net --mtu 2000 --ns-mac-addr 02:00:00:00:00:07 --dns-forward 169.254.1.1 -t none -u none -T none -U none "
	  "--no-map-gw --quiet --netns /proc/4242/ns/net --map-guest-addr 169.254.1.2", false, true, CONF_TARGET_NETNS, 0 },
	/* RootlessKit: Docker, containerd */
	{ "pasta --stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 "
	  "--dns-forward=10.0.2.3 --no-map-gw --ipv4-only --tcp-ports=auto --udp-ports=auto --host-lo-to-ns-lo 4242",
	  false, true, CONF_TARGET_PID, 0 },
	{ "pasta --stderr --ns-ifname=tap0 --mtu=65520 --config-net --address=10.0.2.100 --netmask=24 --gateway=10.0.2.2 "
	  "--dns-forward=10.0.2.3 --tcp-ports=none --udp-ports=none --userns=/proc/4242/ns/user --netns=/run/netns/x",
	  false, false, CONF_TARGET_NETNS, 0 },
	/* builders and jails */
	{ "pasta --quiet --foreground --config-net --gateway 169.254.1.1 --address 169.254.1.2 --netmask 16 --dns-forward 169.254.1.1 "
	  "--gateway 64:ff9b:1:4b8e:472e:a5c8:a9fe:101 --address 64:ff9b:1:4b8e:472e:a5c8:a9fe:102 "
	  "--dns-forward 64:ff9b:1:4b8e:472e:a5c8:a9fe:101 --ns-ifname eth0 --no-netns-quit --netns /proc/self/fd/0 "
	  "--userns /proc/self/fd/1", true, false, CONF_TARGET_NETNS, 0 },
	{ "pasta -f -q --no-dhcp --no-dhcpv6 --no-ra --config-net --no-map-gw -a 10.255.255.2 -n 255.255.255.0 -g 10.255.255.1 "
	  "-a fc00::2 -g fc00::1 -I eth0 -t none -u none -T none -U none 4242", true, true, CONF_TARGET_PID, 0 },
	{ "pasta --config-net --foreground --userns /proc/4141/fd/7 --pid /proc/4141/fd/8 4242", true, false, CONF_TARGET_PID, 0 },
	{ "pasta --config-net -4 -t none -u none -T none -U none --map-host-loopback none --dns-forward 169.254.1.1 -f -q -- bwrap x",
	  true, true, CONF_TARGET_SPAWN_COMMAND, 0 },
	{ "pasta --foreground --config-net --netns-only --tcp-ports auto bwrap --unshare-net -f", true, false,
	  CONF_TARGET_SPAWN_COMMAND, 0 },
	{ "pasta --config-net --netns /proc/4242/ns/net --foreground --no-netns-quit --ns-ifname X --quiet", true, false,
	  CONF_TARGET_NETNS, 0 },
	{ "pasta --config-net --runas 0 --pid /run/p --netns /run/netns/x", false, false, CONF_TARGET_NETNS, 0 },
	{ "pasta -qf 4242", true, false, CONF_TARGET_PID, 0 },
	{ "pasta 4242", false, false, CONF_TARGET_PID, 0 },
	/* in the place of another program */
	{ "pasta -q --ipv4-only -a 10.0.2.0 -n 24 -g 10.0.2.2 --dns-forward 10.0.2.3 -m 1500 --no-ndp --no-dhcpv6 --no-dhcp -P /run/p "
	  "-t 8080:80 --netns /run/netns/x", false, false, CONF_TARGET_NETNS, 1 },
};

static void test_C16_command_lines(void **state)
{
	const struct conf_ports ports = { 32768, 60999 };
	static struct conf conf;

	(void)state;
	for (size_t i = 0; i < sizeof(clients) / sizeof(*clients); i++) {
		const struct client *k = &clients[i];
		unsigned listening = 0;
		char buf[1024], *save, *argv[WORDS_MAX + 1];
		struct err e = { 0 };
		int argc = 0;

		assert_true(strlen(k->line) < sizeof(buf));
		strcpy(buf, k->line);
		for (char *w = strtok_r(buf, " ", &save); w; w = strtok_r(NULL, " ", &save))
			argv[argc++] = w;
		argv[argc] = NULL;
		if (conf_parse(&conf, argc, argv, &e) || conf_rules_parse(&conf, argc, argv, &ports, &e))
			fail_msg("%s\n%s", k->line, e.text);
		assert_int_equal(conf.action, CONF_ACTION_RUN);
		for (unsigned n = 0; n < conf.host_rules.cnt; n++)
			listening += !conf.host_rules.rule[n].scan;
		if (conf.foreground != k->foreground || conf.no_map_gw != k->no_map_gw || conf.target != k->target ||
		    listening != k->host_rules)
			fail_msg("%s\nforeground %d, no_map_gw %d, target %d, rules %u", k->line, conf.foreground, conf.no_map_gw,
				 conf.target, listening);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_C16_command_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
