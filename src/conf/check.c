/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Settings against each other, in whatever order they were given, and what
 * follows the options: whom we serve. Nothing here looks at the system.
 */
#include "conf_priv.h"

#include <errno.h>

#define CONF_MTU_MIN_V4	68u		/* bytes, RFC 791 3.2 */
#define CONF_MTU_MIN_V6	1280u		/* bytes, RFC 8200 5 */
#define CONF_PREFIX_V6	64		/* whatever -a says, as the reference program */

/* RFC 791 3.2; what is in no class counts as the smallest */
static int conf_class_bits(const struct inaddr *a)
{
	if (!(a->b[12] & 0x80))
		return 8;
	return a->b[12] & 0x40 ? 24 : 16;
}

static int conf_check_prefix(struct conf *c, struct err *e)
{
	struct conf_family *v4 = &c->f[FWD_V4];

	c->f[FWD_V6].prefix_len = CONF_PREFIX_V6;
	if (inaddr_is_unset(&v4->addr))
		return 0;
	if (v4->prefix_len >= 0 && c->netmask_len)
		return err_set(e, -EINVAL, "--netmask can't be used with the prefix length that --address has");
	if (v4->prefix_len < 0)
		v4->prefix_len = c->netmask_len ? (int)c->netmask_len : conf_class_bits(&v4->addr);
	return 0;
}

static void conf_check_mtu(struct conf *c)
{
	if (!c->mtu)
		return;
	if (c->f[FWD_V4].on && c->mtu < CONF_MTU_MIN_V4)
		conf_warn_add(c, "--mtu: below 68 bytes, too small for IPv4");
	if (c->f[FWD_V6].on && c->mtu < CONF_MTU_MIN_V6)
		conf_warn_add(c, "--mtu: below 1280 bytes, too small for IPv6");
}

int conf_check(struct conf *c, struct err *e)
{
	if (c->splice_only && c->no_splice)
		return err_set(e, -EINVAL, "--splice-only and --no-splice exclude each other");
	if (c->splice_only)
		c->host_lo_to_ns_lo = c->no_icmp = c->no_ndp = c->no_dns = c->no_search = true;
	if (c->host_lo_to_ns_lo && c->no_splice)
		return err_set(e, -EINVAL, "--host-lo-to-ns-lo and --no-splice exclude each other");
	if ((c->no_copy_routes || c->no_copy_addrs) && !c->config_net)
		return err_set(e, -EINVAL, "--no-copy-%s needs --config-net", c->no_copy_routes ? "routes" : "addrs");
	if (c->host_own_addr && !c->config_net)
		return err_set(e, -EINVAL, "--host-own-addr needs --config-net");
	if (c->f[FWD_V4].outbound_if && !c->f[FWD_V4].on)
		return err_set(e, -EINVAL, "--outbound-if4 and --ipv6-only exclude each other");
	if (c->f[FWD_V6].outbound_if && !c->f[FWD_V6].on)
		return err_set(e, -EINVAL, "--outbound-if6 and --ipv4-only exclude each other");
	conf_check_mtu(c);
	return conf_check_prefix(c, e);
}

int conf_target_parse(struct conf *c, int argc, char *const argv[], int first, struct err *e)
{
	uint64_t pid;

	if (*c->netns) {
		if (first < argc)
			return err_set(e, -EINVAL, "'%s': a process or command can't be given together with --netns",
				       argv[first]);
		c->target = CONF_TARGET_NETNS;
		if (!c->userns)
			c->netns_only = true;
		return 0;
	}

	if (first + 1 == argc && *argv[first] && !argv[first][strspn(argv[first], "0123456789")]) {
		if (!conf_text_num(argv[first], strlen(argv[first]), 10, INT_MAX, &pid) || !pid)
			return err_set(e, -EINVAL, "'%s': not a process ID, expected 1 to %d", argv[first], INT_MAX);
		c->target = CONF_TARGET_PID;
		c->pid = (int)pid;
		return 0;
	}

	c->target = first < argc ? CONF_TARGET_SPAWN_COMMAND : CONF_TARGET_SPAWN_SHELL;
	c->cmd_idx = first;
	/* The terminal is the command's */
	c->foreground = true;
	if (c->level < CONF_LEVEL_DEBUG)
		c->level = CONF_LEVEL_QUIET;
	return 0;
}
