/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command line as one checked struct. Parsing reads nothing but its
 * arguments, prints nothing and never exits; texts are pointers into argv,
 * which must outlive the struct.
 *
 * Two passes: conf_parse() for all options, then, when app knows which families
 * work and what the ephemeral ports are, conf_rules_parse() for the port specs.
 */
#ifndef CONF_CONF_H
#define CONF_CONF_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/addr.h"
#include "base/err.h"
#include "flow/fwd.h"

#define CONF_MTU_MAX		65521u	/* bytes: 65535 minus an Ethernet header */
#define CONF_MTU_DEFAULT	65520u	/* bytes */
#define CONF_DNS_MAX		3	/* resolvers per family */
#define CONF_SEARCH_MAX		6	/* search domains */
#define CONF_SEARCH_LEN_MAX	1024	/* bytes of one search domain */
#define CONF_HOSTNAME_LEN_MAX	253	/* bytes, RFC 1035 3.1 as text */
#define CONF_IFNAME_MAX		16	/* IFNAMSIZ: 15 characters and NUL */
#define CONF_SOCKETS_MAX	327680u	/* listening sockets per direction (LIM-1) */
#define CONF_WARN_MAX		8
#define CONF_NETNS_DIR		"/run/netns/"

enum conf_mode {
	CONF_MODE_PASTA,		/* serve a network namespace */
	CONF_MODE_PASST			/* serve a virtual machine */
};

enum conf_action {
	CONF_ACTION_RUN,
	CONF_ACTION_HELP,		/* print conf_usage_print() on standard output, exit 0 */
	CONF_ACTION_VERSION		/* the same with conf_version_print() */
};

enum conf_level {			/* of the log, in order of talkativeness */
	CONF_LEVEL_QUIET,		/* warnings and errors */
	CONF_LEVEL_INFO,
	CONF_LEVEL_DEBUG,
	CONF_LEVEL_TRACE
};

enum conf_target {
	CONF_TARGET_SPAWN_SHELL,
	CONF_TARGET_SPAWN_COMMAND,	/* argv from cmd_idx on */
	CONF_TARGET_PID,
	CONF_TARGET_NETNS		/* path in netns */
};

enum conf_engine { CONF_ENGINE_AUTO, CONF_ENGINE_EPOLL };

enum conf_runas_kind {
	CONF_RUNAS_DEFAULT,		/* not given */
	CONF_RUNAS_IDS,			/* uid, gid */
	CONF_RUNAS_NAMES		/* login, and group unless that is empty: app looks them up */
};

struct conf_text {			/* part of an argument, no final NUL */
	const char *p;
	size_t len;			/* bytes */
};

struct conf_runas {
	enum conf_runas_kind kind;
	uint32_t uid, gid;
	struct conf_text login, group;
};

struct conf_family {			/* one family's settings; unset address, NULL: not given */
	bool on;
	struct inaddr addr;		/* -a */
	int prefix_len;			/* bits, valid if addr is set */
	struct inaddr gateway;		/* -g */
	struct inaddr host_loopback;	/* --map-host-loopback */
	struct inaddr host_guest;	/* --map-guest-addr */
	struct inaddr dns[CONF_DNS_MAX];	/* -D */
	unsigned dns_cnt;
	struct inaddr dns_forward, dns_host;
	char dns_host_scope[CONF_IFNAME_MAX];	/* interface of dns_host, name or number; "": not given */
	struct inaddr outbound;		/* -o */
	const char *outbound_if;	/* --outbound-if4, --outbound-if6 */
};

struct conf {
	enum conf_mode mode;
	enum conf_action action;
	bool usage;			/* after an error: print the usage text below it */

	enum conf_level level;
	bool foreground;		/* also true if we spawn */
	const char *pid_path;		/* -P, NULL: none */
	const char *pcap_path;		/* -p, NULL: none */
	struct conf_runas runas;

	enum conf_target target;
	int cmd_idx;			/* index in argv of the command, if one is spawned */
	int pid;			/* CONF_TARGET_PID */
	char netns[PATH_MAX];		/* CONF_TARGET_NETNS */
	const char *userns;		/* --userns, NULL: none */
	bool netns_only;		/* neither join nor create a user namespace */
	bool no_netns_quit;
	const char *hostname;		/* -H, NULL: not given */

	unsigned mtu;			/* bytes, 0: leave the default of the kernel, advertise none */
	bool mtu_given;
	const char *ns_ifname;		/* -I, NULL: as the template */
	const char *ifname;			/* -i, NULL: by routes */
	struct macaddr our_mac;		/* -M */
	struct macaddr ns_mac;		/* --ns-mac-addr, valid if ns_mac_given */
	bool ns_mac_given;
	bool config_net, no_copy_routes, no_copy_addrs;

	struct conf_family f[FWD_FAMILIES];
	unsigned netmask_len;		/* -n in bits, 0: not given. Already applied to -a; else for the template's address */
	bool no_map_gw;			/* no default for host_loopback */
	bool host_own_addr;		/* addresses that both have lead to the host where the guest has no listener */
	bool no_dns;			/* -D none */
	struct conf_text search[CONF_SEARCH_MAX];
	unsigned search_cnt;
	bool no_search;			/* -S none */

	bool no_tcp, no_udp, no_icmp, no_ndp, no_ra, no_dhcp, no_dhcpv6;
	bool freebind, host_lo_to_ns_lo, no_splice;
	bool splice_only;		/* no guest link; host_lo_to_ns_lo, no_icmp, no_ndp, no_dns and no_search are set then */
	bool multicast;			/* the guest's groups are joined on the host */
	bool no_tap_tso, no_tap_uso, no_tap_csum;	/* for comparison */
	bool no_peek_off;		/* behave as on a kernel without SO_PEEK_OFF for TCP */
	enum conf_engine engine;

	const char *warn[CONF_WARN_MAX];	/* one line each, to be shown even with -q */
	unsigned warn_cnt;

	/* at the end: large, and rules beyond the counts are never touched */
	struct fwd_rules host_rules;	/* -t, -u: listen on the host */
	struct fwd_rules ns_rules;	/* -T, -U: listen in the namespace */
};

struct conf_ports {			/* net.ipv4.ip_local_port_range */
	uint16_t ephemeral_first, ephemeral_last;
};

/* All options and the target: 0, or negative errno with E set, and ret->usage if the usage text belongs below it */
int conf_parse(struct conf *ret, int argc, char *const argv[], struct err *e);
/* Port specs of the same command line into C's rules, with the families that are `on` in C by now */
int conf_rules_parse(struct conf *c, int argc, char *const argv[], const struct conf_ports *ports, struct err *e);

void conf_usage_print(FILE *out, enum conf_mode mode);
void conf_version_print(FILE *out, enum conf_mode mode);

#endif
