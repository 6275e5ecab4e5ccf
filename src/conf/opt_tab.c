/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of options: the one place that knows their names. Parsing, the
 * arrays for getopt_long() and the usage text derive from it.
 *
 * A row without a setter belongs to the command line that our callers know,
 * but this version can't do it: it is refused by name and not shown, because
 * callers look into the usage text to learn what they may ask for.
 */
#include "conf_priv.h"

#include "base/bytes.h"

#define CONF_AT(field)		.off = offsetof(struct conf, field)
#define CONF_FAMILY_AT(field)	.off = offsetof(struct conf_family, field)
#define CONF_FAMILY_OF(i, field) .off = offsetof(struct conf, f) + (i) * sizeof(struct conf_family) + \
					offsetof(struct conf_family, field)

const struct conf_opt conf_opt_tab[] = {
	{ "help", 'h', .modes = CONF_IN_BOTH, .set = conf_set_help,
	  .help = "Show this help and exit" },
	{ "version", .modes = CONF_IN_BOTH, .set = conf_set_version,
	  .help = "Show version and exit" },

	{ "debug", 'd', .modes = CONF_IN_PASTA, .set = conf_set_debug,
	  .help = "Log what happens, in detail" },
	{ "trace", .modes = CONF_IN_PASTA, .set = conf_set_trace,
	  .help = "Log still more: single packets" },
	{ "quiet", 'q', .modes = CONF_IN_PASTA, .set = conf_set_quiet,
	  .help = "Log warnings and errors only" },
	{ "foreground", 'f', .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(foreground),
	  .help = "Do not go into the background\n"
		  "default: background, unless a command is run" },
	{ "stderr", 'e', .modes = CONF_IN_PASTA, .set = conf_set_nothing,
	  .warn = "--stderr is deprecated and has no effect",
	  .help = "Deprecated, no effect" },
	{ "pid", 'P', "FILE", .modes = CONF_IN_PASTA, .set = conf_set_path, CONF_AT(pid_path),
	  .help = "Write our process ID to FILE when ready" },
	{ "runas", .arg = "UID[:GID]", .modes = CONF_IN_PASTA, .set = conf_set_runas,
	  .help = "Run as this user and group: numbers, or names\n"
		  "default: \"nobody\" if started by root" },
	{ "pcap", 'p', "FILE", .modes = CONF_IN_PASTA, .set = conf_set_path, CONF_AT(pcap_path),
	  .help = "Capture all traffic of the namespace into FILE" },

	{ "netns", .arg = "PATH|NAME", .modes = CONF_IN_PASTA, .set = conf_set_netns,
	  .help = "Join the network namespace at PATH, or\n"
		  "the one called NAME below " CONF_NETNS_DIR },
	{ "userns", .arg = "PATH", .modes = CONF_IN_PASTA, .set = conf_set_userns, CONF_AT(userns),
	  .help = "Join the user namespace at PATH" },
	{ "netns-only", .modes = CONF_IN_PASTA, .set = conf_set_netns_only,
	  .help = "Neither join nor create a user namespace\n"
		  "default with --netns and without --userns" },
	{ "no-netns-quit", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_netns_quit),
	  .help = "Stay when the network namespace goes away" },
	{ "config-net", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(config_net),
	  .help = "Set up the interface in the namespace:\n"
		  "addresses, routes, link" },
	{ "no-copy-routes", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_copy_routes),
	  .warn = "--no-copy-routes is deprecated, use --gateway",
	  .help = "Deprecated: with --config-net, default route only" },
	{ "no-copy-addrs", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_copy_addrs),
	  .warn = "--no-copy-addrs is deprecated, use --address",
	  .help = "Deprecated: with --config-net, one address only" },
	{ "ns-ifname", 'I', "NAME", .modes = CONF_IN_PASTA, .set = conf_set_ifname, CONF_AT(ns_ifname),
	  .help = "Name of the interface in the namespace\n"
		  "default: that of the host's interface, else tap0" },
	{ "ns-mac-addr", .arg = "MAC", .modes = CONF_IN_PASTA, .set = conf_set_ns_mac,
	  .help = "Its MAC address, default: random" },
	{ "mac-addr", 'M', "MAC", .modes = CONF_IN_PASTA, .set = conf_set_mac,
	  .help = "MAC address of the gateway in the namespace\n"
		  "default: 9a:55:9a:55:9a:55" },
	{ "mtu", 'm', "BYTES", .modes = CONF_IN_PASTA, .set = conf_set_mtu,
	  .help = "MTU of the interface, 0 to 65521\n"
		  "default: 65520, 0: leave it and advertise none" },
	{ "hostname", 'H', "NAME", .modes = CONF_IN_PASTA, .set = conf_set_hostname,
	  .help = "Host name of a new namespace\n"
		  "default: pasta- and the name of this host" },

	{ "interface", 'i', "NAME", .modes = CONF_IN_PASTA, .set = conf_set_ifname, CONF_AT(ifname),
	  .help = "Take addresses and routes from this interface\n"
		  "default: by the routes of the host" },
	{ "address", 'a', "ADDR[/LEN]", .modes = CONF_IN_PASTA, .set = conf_set_addr,
	  .help = "Assign this address, one for each of IPv4 and IPv6\n"
		  "default: addresses of the host's interface" },
	{ "netmask", 'n', "MASK", .modes = CONF_IN_PASTA, .set = conf_set_netmask,
	  .help = "IPv4 mask, dotted or as number of bits\n"
		  "default: from the address" },
	{ "gateway", 'g', "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_family_addr, CONF_FAMILY_AT(gateway),
	  .help = "Default gateway, one for each of IPv4 and IPv6\n"
		  "default: gateway of the host" },
	{ "ipv4-only", '4', .modes = CONF_IN_PASTA, .set = conf_set_v4_only,
	  .help = "No IPv6" },
	{ "ipv6-only", '6', .modes = CONF_IN_PASTA, .set = conf_set_v6_only,
	  .help = "No IPv4" },
	{ "outbound", 'o', "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_family_addr, CONF_FAMILY_AT(outbound),
	  .loopback = CONF_LOOPBACK_V4_ONLY,
	  .help = "Source address on the host, one for each of IPv4\n"
		  "and IPv6, default: by the routes of the host" },
	{ "outbound-if4", .arg = "NAME", .modes = CONF_IN_PASTA, .set = conf_set_ifname,
	  CONF_FAMILY_OF(FWD_V4, outbound_if),
	  .help = "Send IPv4 through this interface of the host" },
	{ "outbound-if6", .arg = "NAME", .modes = CONF_IN_PASTA, .set = conf_set_ifname,
	  CONF_FAMILY_OF(FWD_V6, outbound_if),
	  .help = "Send IPv6 through this interface of the host" },
	{ "map-host-loopback", .arg = "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_alias,
	  CONF_FAMILY_AT(host_loopback),
	  .help = "Address that stands for the loopback of the host,\n"
		  "one for each of IPv4 and IPv6, or none\n"
		  "default: the gateway" },
	{ "no-map-gw", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_map_gw),
	  .help = "The gateway does not stand for the host's loopback" },
	{ "map-guest-addr", .arg = "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_alias, CONF_FAMILY_AT(host_guest),
	  .help = "Address that stands for the host's own address,\n"
		  "one for each of IPv4 and IPv6, or none (default)" },
	{ "host-own-addr", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(host_own_addr),
	  .help = "With --config-net: an address that the namespace\n"
		  "shares with the host leads to the host, where no\n"
		  "socket of the namespace has the port. Services on\n"
		  "the host's loopback stay closed" },

	{ "dns", 'D', "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_dns, .loopback = CONF_LOOPBACK_ALLOWED,
	  .help = "Resolver to advertise, up to three for each of\n"
		  "IPv4 and IPv6, or none, default: /etc/resolv.conf" },
	{ "dns-forward", .arg = "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_family_addr,
	  CONF_FAMILY_AT(dns_forward),
	  .help = "Pass queries sent to this address to --dns-host" },
	{ "dns-host", .arg = "ADDR", .modes = CONF_IN_PASTA, .set = conf_set_dns_host, .loopback = CONF_LOOPBACK_ALLOWED,
	  .help = "Resolver for --dns-forward, as in fe80::1%eth0\n"
		  "default: those of /etc/resolv.conf at the time" },
	{ "search", 'S', "LIST", .modes = CONF_IN_PASTA, .set = conf_set_search,
	  .help = "Search domains, space-separated, or none\n"
		  "default: /etc/resolv.conf" },

	{ "no-tcp", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_tcp), .help = "No TCP" },
	{ "no-udp", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_udp), .help = "No UDP" },
	{ "no-icmp", .modes = CONF_IN_PASTA, .set = conf_set_no_icmp,
	  .help = "No ICMP and ICMPv6 echo, implies --no-ndp" },
	{ "no-ndp", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_ndp),
	  .help = "No neighbour discovery, no router advertisements" },
	{ "no-ra", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_ra),
	  .help = "No router advertisements" },
	{ "no-dhcp", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_dhcp), .help = "No DHCP" },
	{ "no-dhcpv6", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_dhcpv6), .help = "No DHCPv6" },

	{ "tcp-ports", 't', "SPEC", .modes = CONF_IN_PASTA, .set = conf_set_host_ports,
	  .help = "Forward TCP ports of the host to the namespace\n"
		  "SPEC: none, or [[ADDR][%IFNAME]/]LIST\n"
		  "LIST: comma-separated PORT[-PORT], all, auto (all\n"
		  "that the other side listens on), or ~PORT[-PORT]\n"
		  "for all but these; a range with\n"
		  ":[ADDR/]PORT[-PORT] or :ADDR has another target\n"
		  "default: auto\n"
		  "-t 2222:22  -t 127.0.0.1/8000-8009,90  -t all,~25" },
	{ "udp-ports", 'u', "SPEC", .modes = CONF_IN_PASTA, .set = conf_set_host_ports,
	  .help = "Forward UDP ports of the host, SPEC as above\n"
		  "default: auto" },
	{ "tcp-ns", 'T', "SPEC", .modes = CONF_IN_PASTA, .set = conf_set_ns_ports,
	  .help = "Forward TCP ports of the namespace's loopback to\n"
		  "the host's, SPEC as above, not [ADDR][%IFNAME]/\n"
		  "default: auto" },
	{ "udp-ns", 'U', "SPEC", .modes = CONF_IN_PASTA, .set = conf_set_ns_ports,
	  .help = "Forward UDP ports in the same way, default: auto" },
	{ "freebind", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(freebind),
	  .help = "Let -t and -u listen on addresses that the host\n"
		  "doesn't have (yet)" },
	{ "host-lo-to-ns-lo", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(host_lo_to_ns_lo),
	  .help = "Connections to the host's loopback reach the\n"
		  "loopback of the namespace, not its address" },
	{ "no-splice", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_splice),
	  .help = "Forward loopback connections through the\n"
		  "interface, too, not from socket to socket" },
	{ "splice-only", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(splice_only),
	  .help = "No interface at all, only loopback connections,\n"
		  "with --host-lo-to-ns-lo" },

	{ "multicast", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(multicast),
	  .help = "Join the multicast groups of the namespace on the\n"
		  "host too. What is sent to a group is received on\n"
		  "ports of -u, on those that the namespace sends to,\n"
		  "and on that of mDNS, LLMNR, SSDP, WS-Discovery or\n"
		  "CoAP if the group is theirs" },

	/* For comparison and tests, not shown */
	{ "no-tap-tso", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_tap_tso) },
	{ "no-tap-uso", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_tap_uso) },
	{ "no-tap-csum", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_tap_csum) },
	{ "no-peek-off", .modes = CONF_IN_PASTA, .set = conf_set_flag, CONF_AT(no_peek_off) },
	{ "engine", .arg = "auto|epoll", .modes = CONF_IN_PASTA, .set = conf_set_engine },

	/* It makes a passt of us, whatever our name */
	{ "vhost-user", .modes = CONF_IN_BOTH, .set = conf_set_vhost_user },

	/* Accepted where harmless */
	{ "repair-path", .arg = "PATH", .modes = CONF_IN_BOTH, .set = conf_set_repair_path },

	/* Not yet */
	{ "stats", .arg = "DELAY", .modes = CONF_IN_BOTH },
	{ "log-file", 'l', "PATH", .modes = CONF_IN_BOTH },
	{ "log-size", .arg = "BYTES", .modes = CONF_IN_BOTH },
	{ "conf-path", 'c', "PATH", .modes = CONF_IN_BOTH },
	{ "print-capabilities", .modes = CONF_IN_BOTH },
	{ "fd", 'F', "FD", .modes = CONF_IN_BOTH },
	{ "fqdn", .arg = "NAME", .modes = CONF_IN_BOTH },
	{ "chroot-fallback", .modes = CONF_IN_BOTH },
	{ "dhcp-dns", .modes = CONF_IN_PASTA },
	{ "dhcp-search", .modes = CONF_IN_PASTA },
	{ "no-pidns", .modes = CONF_IN_PASTA },
	{ "socket", 's', "PATH", .modes = CONF_IN_PASST },
	{ "socket-path", .arg = "PATH", .modes = CONF_IN_PASST },
	{ "migrate-exit", .modes = CONF_IN_PASST },
	{ "migrate-no-linger", .modes = CONF_IN_PASST },
	{ "one-off", '1', .modes = CONF_IN_PASST },
	{ "no-dhcp-dns", .modes = CONF_IN_PASST },
	{ "no-dhcp-search", .modes = CONF_IN_PASST },
};

const unsigned conf_opt_cnt = BYTES_COUNT(conf_opt_tab);

_Static_assert(BYTES_COUNT(conf_opt_tab) <= CONF_OPT_MAX, "struct conf_getopt has room for all rows");

void conf_getopt_init(struct conf_getopt *ret)
{
	char *letter = ret->letters;
	unsigned i;

	*letter++ = '+';		/* stop at the first word that is no option */
	*letter++ = ':';		/* print nothing, tell a missing argument apart */
	for (i = 0; i < conf_opt_cnt; i++) {
		const struct conf_opt *o = &conf_opt_tab[i];

		ret->names[i] = (struct option){
			.name = o->name,
			.has_arg = o->arg ? required_argument : no_argument,
			.val = CONF_VAL_BASE + (int)i,
		};
		if (!o->letter)
			continue;
		*letter++ = o->letter;
		if (o->arg)
			*letter++ = ':';
	}
	ret->names[i] = (struct option){ 0 };
	*letter = 0;
}

const struct conf_opt *conf_opt_find(int val)
{
	unsigned i;

	if (val >= CONF_VAL_BASE)
		return &conf_opt_tab[val - CONF_VAL_BASE];
	for (i = 0; i < conf_opt_cnt; i++) {
		if (conf_opt_tab[i].letter == val)
			return &conf_opt_tab[i];
	}
	return NULL;
}
