/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Changes through rtnetlink: the loopback interface, and a guest's interface from nl_ns_configure(). Addresses are ready
 * at once: the kernel is kept from making a link-local address by itself while the interface goes up, and gets ours
 * without duplicate detection instead (RFC 4862 5.4: there is nobody but us on the link). Lifetimes and labels of
 * the host's addresses are not copied: nothing would refresh or explain them. Refuses to enable a family that the
 * namespace has switched off.
 */
#include "nl_priv.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#define LO_IFINDEX	1		/* of each network namespace */
#define IPV6_MTU_MIN	1280		/* RFC 8200 5 */

static struct nlmsghdr *link_req(struct nl *nl, uint32_t ifindex, struct ifinfomsg **ret_ifi)
{
	struct nlmsghdr *nlh = nl_req_start(nl, RTM_NEWLINK, 0, sizeof(**ret_ifi), ret_ifi);

	(*ret_ifi)->ifi_family = AF_UNSPEC;
	(*ret_ifi)->ifi_index = (int)ifindex;
	return nlh;
}

static int link_up(struct nl *nl, uint32_t ifindex)
{
	struct ifinfomsg *ifi;
	struct nlmsghdr *nlh = link_req(nl, ifindex, &ifi);

	ifi->ifi_flags = ifi->ifi_change = IFF_UP;
	return nl_talk(nl, nlh);
}

static int link_set_mtu(struct nl *nl, uint32_t ifindex, uint32_t mtu)
{
	struct ifinfomsg *ifi;
	struct nlmsghdr *nlh = link_req(nl, ifindex, &ifi);

	mnl_attr_put_u32(nlh, IFLA_MTU, mtu);
	return nl_talk(nl, nlh);
}

static int link_set_mac(struct nl *nl, uint32_t ifindex, const struct macaddr *mac)
{
	struct ifinfomsg *ifi;
	struct nlmsghdr *nlh = link_req(nl, ifindex, &ifi);

	mnl_attr_put(nlh, IFLA_ADDRESS, sizeof(*mac), mac);
	return nl_talk(nl, nlh);
}

/* How the kernel makes link-local addresses: IN6_ADDR_GEN_MODE_* */
static int link_set_gen_mode(struct nl *nl, uint32_t ifindex, uint8_t mode)
{
	struct ifinfomsg *ifi;
	struct nlmsghdr *nlh = link_req(nl, ifindex, &ifi);
	struct nlattr *spec = mnl_attr_nest_start(nlh, IFLA_AF_SPEC);
	struct nlattr *inet6 = mnl_attr_nest_start(nlh, AF_INET6);

	mnl_attr_put_u8(nlh, IFLA_INET6_ADDR_GEN_MODE, mode);
	mnl_attr_nest_end(nlh, inet6);
	mnl_attr_nest_end(nlh, spec);
	return nl_talk(nl, nlh);
}

int nl_lo_up(struct nl *nl, struct err *e)
{
	int rc = link_up(nl, LO_IFINDEX);

	return rc ? err_set(e, rc, "Can't raise the loopback interface of the namespace: %s", strerror(-rc)) : 0;
}

static int addr_add(const struct nl_ns *ns, const struct nl_addr *a)
{
	const bool v4 = inaddr_is_v4(&a->addr);
	struct ifaddrmsg *ifa;
	struct nlmsghdr *nlh = nl_req_start(ns->nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, sizeof(*ifa), &ifa);
	int rc;

	ifa->ifa_family = v4 ? AF_INET : AF_INET6;
	ifa->ifa_prefixlen = a->prefix_len;
	ifa->ifa_scope = a->scope;
	ifa->ifa_index = ns->done->link.ifindex;
	nl_attr_put_addr(nlh, IFA_LOCAL, &a->addr);
	nl_attr_put_addr(nlh, IFA_ADDRESS, &a->peer);
	if (v4 && a->has_bcast)
		nl_attr_put_addr(nlh, IFA_BROADCAST, &a->bcast);
	mnl_attr_put_u32(nlh, IFA_FLAGS, (a->flags & IFA_F_NOPREFIXROUTE) | (v4 ? 0 : IFA_F_NODAD));
	if (a->metric)
		mnl_attr_put_u32(nlh, IFA_RT_PRIORITY, a->metric);
	rc = nl_talk(ns->nl, nlh);
	return rc == -EEXIST ? 0 : rc;
}

/* The only address that is given, or that the local mode uses */
static struct nl_addr addr_single(const struct inaddr *addr, uint8_t prefix_len)
{
	struct nl_addr a = { .addr = *addr, .peer = *addr, .prefix_len = prefix_len };
	unsigned i;

	if (!inaddr_is_v4(addr) || prefix_len > 30)	/* RFC 3021: no broadcast address on a /31 */
		return a;
	a.has_bcast = true;
	a.bcast = *addr;
	for (i = prefix_len; i < 32; i++)
		a.bcast.b[12 + i / 8] |= (uint8_t)(0x80 >> i % 8);
	return a;
}

/* Addresses that the interface is to get, in the order in which they are to be given: 0 or -ENOMEM. The kernel prefers, as source
 * and in its lists, the IPv4 address that came first, but the IPv6 address that came last: the host's choice has to be the guest's.
 */
static int addrs_choose(const struct nl_ns_family *f, struct nl_addrs *ret)
{
	const struct nl_template *t = f->tmpl;
	const bool single = f->has_addr || t->local;
	unsigned cnt = !single ? t->addrs.cnt : f->has_addr || t->has_addr ? 1 : 0, i;

	for (i = 0; i < cnt; i++) {
		struct nl_addr a;

		if (f->has_addr)
			a = addr_single(&f->addr, f->prefix_len);
		else
			a = single ? addr_single(&t->addr, t->prefix_len) : t->addrs.v[t->v6 ? cnt - 1 - i : i];
		/* Whoever keeps the kernel from making the subnet's route sets it by himself: we, by copying */
		if (f->has_gw)
			a.flags &= ~(uint32_t)IFA_F_NOPREFIXROUTE;
		if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(a)))
			return -ENOMEM;
		ret->v[ret->cnt++] = a;
	}
	return 0;
}

/* Give the interface its addresses; those that are refused leave the list */
static void addrs_add(const struct nl_ns *ns, struct nl_addrs *addrs)
{
	char text[INADDR_STR_MAX];
	unsigned cnt = 0, i;

	for (i = 0; i < addrs->cnt; i++) {
		const struct nl_addr *a = &addrs->v[i];
		int rc = addr_add(ns, a);

		if (rc)
			nl_warns_add(ns->warns, "Can't give %s the address %s/%u: %s; it goes without", ns->conf->ifname,
				     inaddr_str(&a->addr, text), a->prefix_len, strerror(-rc));
		else
			addrs->v[cnt++] = *a;
	}
	addrs->cnt = cnt;
}

static void family_configure(const struct nl_ns *ns, const struct nl_ns_family *f, unsigned *ret_route_cnt)
{
	struct nl_addrs addrs = { .v = NULL };

	if (addrs_choose(f, &addrs))
		nl_warns_add(ns->warns, "Can't copy addresses: %s", strerror(ENOMEM));
	addrs_add(ns, &addrs);
	nl_copy_routes(ns, f, &addrs, ret_route_cnt);
	nl_list_free(&addrs);
}

static void ipv6_warn_off(const struct nl_ns *ns, int code)
{
	const char *why = "the kernel has none, or net.ipv6.conf.*.disable_ipv6 is set there";

	if (ns->done->link.mtu < IPV6_MTU_MIN)
		why = "the MTU is below 1280";
	nl_warns_add(ns->warns, "No IPv6 on %s (%s): %s; going on with IPv4 only", ns->conf->ifname, strerror(-code), why);
}

/* Modified EUI-64 (RFC 4291 2.5.1, appendix A): what the kernel would make */
static struct inaddr linklocal_from_mac(const struct macaddr *m)
{
	const uint8_t b[16] = { 0xfe, 0x80, 0, 0, 0, 0, 0, 0, m->b[0] ^ 2, m->b[1], m->b[2], 0xff, 0xfe, m->b[3], m->b[4], m->b[5] };

	return inaddr_v6(b);
}

static void ipv6_linklocal(const struct nl_ns *ns)
{
	struct nl_ns_done *d = ns->done;
	struct inaddr addr = linklocal_from_mac(&d->link.mac);
	struct nl_addr a = addr_single(&addr, 64);
	int rc;

	a.scope = RT_SCOPE_LINK;
	rc = addr_add(ns, &a);
	if (!rc) {
		d->has_linklocal = true;
		d->linklocal = addr;
	} else if (nl_family_missing(rc)) {
		d->v6_on = false;
		ipv6_warn_off(ns, rc);
	} else {
		nl_warns_add(ns->warns, "Can't give %s a link-local address: %s; IPv6 may start late", ns->conf->ifname,
			     strerror(-rc));
	}
}

/* The interface as it is: 0, or negative errno */
static int link_read(struct nl *nl, const char *name, struct nl_link *ret, struct err *e)
{
	struct nl_links links = { .v = NULL };
	const struct nl_link *l;
	int rc = nl_links_get(nl, &links, e);

	l = rc ? NULL : nl_link_by_name(&links, name);
	if (l)
		*ret = *l;
	else if (!rc)
		rc = err_set(e, -ENODEV, "There is no interface %s in the namespace", name);
	nl_list_free(&links);
	return rc;
}

/* Properties that are set while the interface is still down; whether IPv6 is there at all */
static void link_prepare(const struct nl_ns *ns)
{
	const struct nl_ns_conf *c = ns->conf;
	uint32_t ifindex = ns->done->link.ifindex;
	int rc = c->mtu ? link_set_mtu(ns->nl, ifindex, c->mtu) : 0;

	if (rc)
		nl_warns_add(ns->warns, "Can't set the MTU of %s to %u: %s; it keeps %u", c->ifname, c->mtu, strerror(-rc),
			     ns->done->link.mtu);
	else if (c->mtu)
		ns->done->link.mtu = c->mtu;
	rc = c->has_mac ? link_set_mac(ns->nl, ifindex, &c->mac) : 0;
	if (rc)
		nl_warns_add(ns->warns, "Can't set the MAC address of %s: %s; it keeps its own", c->ifname, strerror(-rc));
	/* Also where IPv6 is not wanted: no link-local address, no traffic of that family */
	rc = link_set_gen_mode(ns->nl, ifindex, IN6_ADDR_GEN_MODE_NONE);
	if (nl_family_missing(rc) && ns->done->v6_on) {
		ns->done->v6_on = false;
		ipv6_warn_off(ns, rc);
	}
}

int nl_ns_configure(struct nl *nl, const struct nl_ns_conf *c, struct nl_ns_done *ret, struct nl_warns *w, struct err *e)
{
	struct nl_ns_done done = { .v4_on = c->v4.on, .v6_on = c->v6.on };
	const struct nl_ns ns = { .nl = nl, .conf = c, .done = &done, .warns = w };
	int rc = link_read(nl, c->ifname, &done.link, e);

	if (rc)
		return rc;
	link_prepare(&ns);
	rc = link_up(nl, done.link.ifindex);
	if (rc)
		return err_set(e, rc, "Can't raise %s in the namespace: %s", c->ifname, strerror(-rc));
	rc = link_read(nl, c->ifname, &done.link, e);
	if (rc)
		return rc;
	if (done.v6_on)
		ipv6_linklocal(&ns);
	if (done.v4_on)
		family_configure(&ns, &c->v4, &done.v4_route_cnt);
	if (done.v6_on) {
		family_configure(&ns, &c->v6, &done.v6_route_cnt);
		/* If the guest lowers and raises the interface, the kernel shall make the address again */
		link_set_gen_mode(nl, done.link.ifindex, IN6_ADDR_GEN_MODE_EUI64);
	}
	*ret = done;
	return 0;
}
