/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Setters of the table of options that are about the network: interfaces,
 * addresses, resolvers. Each checks its own argument and nothing else; that an
 * interface exists, or an address belongs to the host, is for app to find out.
 */
#include "conf_priv.h"

#include <errno.h>

int conf_set_ifname(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	if (!conf_text_is_ifname(arg, strlen(arg)))
		return err_set(e, -EINVAL, "--%s '%s': not an interface name of 1 to %d characters", o->name, arg,
			       CONF_IFNAME_MAX - 1);
	*(const char **)((char *)c + o->off) = arg;
	return 0;
}

int conf_set_mtu(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	uint64_t v;

	if (!conf_text_num(arg, strlen(arg), 0, CONF_MTU_MAX, &v))
		return err_set(e, -EINVAL, "--%s '%s': expected a number from 0 to %u", o->name, arg, CONF_MTU_MAX);
	c->mtu = (unsigned)v;
	c->mtu_given = true;
	return 0;
}

static int conf_mac_parse(const struct conf_opt *o, const char *arg, struct macaddr *ret, struct err *e)
{
	struct macaddr m;

	if (macaddr_parse(arg, &m))
		return err_set(e, -EINVAL, "--%s '%s': expected xx:xx:xx:xx:xx:xx", o->name, arg);
	if (!macaddr_is_unicast(&m))
		return err_set(e, -EINVAL, "--%s '%s': a group or zero address can't be one interface's", o->name, arg);
	*ret = m;
	return 0;
}

int conf_set_mac(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	return conf_mac_parse(o, arg, &c->our_mac, e);
}

int conf_set_ns_mac(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	int r = conf_mac_parse(o, arg, &c->ns_mac, e);

	if (!r)
		c->ns_mac_given = true;
	return r;
}

static int conf_family_only(struct conf *c, enum fwd_family family)
{
	c->f[FWD_V4].on = family == FWD_V4;
	c->f[FWD_V6].on = family == FWD_V6;
	return 0;
}

int conf_set_v4_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	return conf_family_only(c, FWD_V4);
}

int conf_set_v6_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	return conf_family_only(c, FWD_V6);
}

/* An address that a host can have, with loopback as the option's row says */
static int conf_addr_parse(const struct conf_opt *o, const char *arg, size_t len, struct inaddr *ret, struct err *e)
{
	struct inaddr a;

	if (!conf_text_addr(arg, len, &a))
		return err_set(e, -EINVAL, "--%s '%s': not an IPv4 or IPv6 address", o->name, arg);
	if (inaddr_is_unset(&a) || inaddr_is_multicast(&a) || inaddr_is_broadcast(&a))
		return err_set(e, -EINVAL, "--%s '%s': not the address of one host", o->name, arg);
	if (inaddr_is_loopback(&a) && (o->loopback == CONF_LOOPBACK_REFUSED ||
				       (o->loopback == CONF_LOOPBACK_V4_ONLY && !inaddr_is_v4(&a))))
		return err_set(e, -EINVAL, "--%s '%s': a loopback address can't be used here", o->name, arg);
	*ret = a;
	return 0;
}

int conf_set_addr(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	const char *slash = strchr(arg, '/');
	struct conf_family *f;
	unsigned max_bits;
	uint64_t bits = 0;
	struct inaddr a;
	int r;

	r = conf_addr_parse(o, arg, slash ? (size_t)(slash - arg) : strlen(arg), &a, e);
	if (r)
		return r;
	max_bits = inaddr_is_v4(&a) ? 32 : 128;
	if (slash && !conf_text_num(slash + 1, strlen(slash + 1), 10, max_bits, &bits))
		return err_set(e, -EINVAL, "--%s '%s': expected a prefix length from 0 to %u behind the slash", o->name,
			       arg, max_bits);
	f = &c->f[fwd_family_of(&a)];
	f->addr = a;
	f->prefix_len = slash ? (int)bits : -1;
	return 0;
}

/* Number of leading ones of a mask, or -1 if ones follow a zero */
static int conf_mask_bits(const struct inaddr *mask)
{
	int i, bits = 0;

	for (i = 0; i < 32; i++) {
		if (!(mask->b[12 + i / 8] & (0x80 >> i % 8)))
			continue;
		if (bits != i)
			return -1;
		bits++;
	}
	return bits;
}

int conf_set_netmask(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	uint64_t bits = 0;
	struct inaddr a;
	int mask = -1;

	if (conf_text_num(arg, strlen(arg), 10, 32, &bits)) {
		c->netmask_len = (unsigned)bits;
		return 0;
	}
	if (*arg != '[' && conf_text_addr(arg, strlen(arg), &a) && inaddr_is_v4(&a))
		mask = conf_mask_bits(&a);
	if (mask < 0)
		return err_set(e, -EINVAL, "--%s '%s': expected a number from 0 to 32, or a mask such as 255.255.255.0",
			       o->name, arg);
	c->netmask_len = (unsigned)mask;
	return 0;
}

int conf_set_family_addr(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	struct inaddr a;
	int r = conf_addr_parse(o, arg, strlen(arg), &a, e);

	if (!r)
		*(struct inaddr *)((char *)&c->f[fwd_family_of(&a)] + o->off) = a;
	return r;
}

/* "fe80::1%eth0", in brackets or not, leads to that interface, as in resolv.conf (RFC 4007 11) */
int conf_set_dns_host(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	const bool braces = *arg == '[' && arg[strlen(arg) - 1] == ']';
	const char *text = arg + braces, *percent = strchr(text, '%');
	const size_t len = strlen(text) - braces, addr_len = percent ? (size_t)(percent - text) : len;
	const size_t scope_len = percent ? len - addr_len - 1 : 0;
	struct conf_family *f;
	struct inaddr a;
	int r = percent ? conf_addr_parse(o, text, addr_len, &a, e) : conf_addr_parse(o, arg, strlen(arg), &a, e);

	if (r)
		return r;
	if (percent && (inaddr_is_v4(&a) || !inaddr_is_linklocal(&a)))
		return err_set(e, -EINVAL, "--%s '%s': an interface can stand behind a link-local address of IPv6 only, as in "
			       "fe80::1%%eth0", o->name, arg);
	if (percent && !conf_text_is_ifname(percent + 1, scope_len))
		return err_set(e, -EINVAL, "--%s '%s': expected an interface name of 1 to %d characters behind %%", o->name, arg,
			       CONF_IFNAME_MAX - 1);
	f = &c->f[fwd_family_of(&a)];
	f->dns_host = a;
	memcpy(f->dns_host_scope, percent ? percent + 1 : "", scope_len);
	f->dns_host_scope[scope_len] = '\0';
	return 0;
}

/* An address or "none", which takes back the addresses of both families */
int conf_set_alias(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	const struct inaddr unset = { { 0 } };
	unsigned i;

	if (strcmp(arg, "none"))
		return conf_set_family_addr(c, o, arg, e);
	for (i = 0; i < FWD_FAMILIES; i++)
		*(struct inaddr *)((char *)&c->f[i] + o->off) = unset;
	if (o->off == offsetof(struct conf_family, host_loopback))
		c->no_map_gw = true;
	return 0;
}

int conf_set_dns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	const struct inaddr unset = { { 0 } };
	struct conf_family *f;
	struct inaddr a;
	unsigned i;
	int r;

	if (!strcmp(arg, "none")) {
		for (i = 0; i < FWD_FAMILIES; i++) {
			c->f[i].dns_cnt = 0;
			c->f[i].dns_forward = c->f[i].dns_host = unset;
			c->f[i].dns_host_scope[0] = '\0';
		}
		c->no_dns = true;
		return 0;
	}
	r = conf_addr_parse(o, arg, strlen(arg), &a, e);
	if (r)
		return r;
	f = &c->f[fwd_family_of(&a)];
	c->no_dns = false;
	if (f->dns_cnt == CONF_DNS_MAX)
		conf_warn_add(c, "--dns: only the first three resolvers of a family are used");
	else
		f->dns[f->dns_cnt++] = a;
	return 0;
}

int conf_set_search(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	const char *p = arg;
	size_t len;

	if (!strcmp(arg, "none")) {
		c->search_cnt = 0;
		c->no_search = true;
		return 0;
	}
	if (!arg[strspn(arg, " \t")])
		return err_set(e, -EINVAL, "--%s: the list is empty, use 'none' for no search domains", o->name);
	for (p += strspn(p, " \t"); *p; p += len, p += strspn(p, " \t")) {
		len = strcspn(p, " \t");
		if (len > CONF_SEARCH_LEN_MAX)
			return err_set(e, -ENAMETOOLONG, "--%s: a search domain is longer than %d bytes", o->name,
				       CONF_SEARCH_LEN_MAX);
		if (c->search_cnt == CONF_SEARCH_MAX)
			return err_set(e, -E2BIG, "--%s: more than %d search domains", o->name, CONF_SEARCH_MAX);
		c->search[c->search_cnt++] = (struct conf_text){ p, len };
	}
	c->no_search = false;
	return 0;
}
