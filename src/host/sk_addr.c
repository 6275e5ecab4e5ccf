/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Socket addresses and the making of sockets.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/sk_ns.h"
#include "sk_priv.h"

socklen_t sk_to_sockaddr(const struct sk_addr *a, int af, union sk_sockaddr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (af == AF_INET) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(a->port);
		if (!inaddr_is_unset(&a->a))
			memcpy(&ret->v4.sin_addr, a->a.b + 12, 4);
		return sizeof(ret->v4);
	}
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(a->port);
	memcpy(&ret->v6.sin6_addr, a->a.b, 16);
	ret->v6.sin6_scope_id = a->scope;
	return sizeof(ret->v6);
}

void sk_from_sockaddr(const union sk_sockaddr *sa, struct sk_addr *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (sa->sa.sa_family == AF_INET) {
		ret->a = inaddr_v4(&sa->v4.sin_addr);
		ret->port = ntohs(sa->v4.sin_port);
	} else {
		ret->a = inaddr_v6(&sa->v6.sin6_addr);
		ret->port = ntohs(sa->v6.sin6_port);
		ret->scope = sa->v6.sin6_scope_id;
	}
}

int sk_set_int(int fd, int level, int name, int v)
{
	return setsockopt(fd, level, name, &v, sizeof(v)) ? -errno : 0;
}

static int new_inside(struct sk_ns *ns, bool v6, int type)
{
	if (type == SOCK_STREAM)
		return sk_ns_take(ns, v6 ? SK_NS_TCP6 : SK_NS_TCP4);
	return sk_ns_take(ns, v6 ? SK_NS_UDP6 : SK_NS_UDP4);
}

int sk_make(struct sk_host *s, bool v6, int type, int proto)
{
	int fd = s->ns ? new_inside(s->ns, v6, type) : socket(v6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, proto);

	if (fd < 0)
		return s->ns ? fd : -errno;
	if ((uint32_t)fd >= s->slot_cnt) {
		close(fd);
		return -EMFILE;
	}
	return fd;
}

int sk_new(struct sk_host *s, const struct inaddr *to, int type, int proto)
{
	bool v6 = !inaddr_is_v4(to);
	const char *dev = s->set.outbound_if[v6 ? SK_V6 : SK_V4];
	int fd = sk_make(s, v6, type, proto);

	if (fd < 0)
		return fd;
	/* a filter must not fail open (NAT-5) */
	if (dev && !inaddr_is_loopback(to) && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, dev, (socklen_t)strlen(dev))) {
		int err = -errno;

		close(fd);
		return err;
	}
	sk_port_release(s, fd);
	s->slot[fd] = (struct sk_slot){ .peek_off = SK_PEEK_UNSET, .v6 = v6, .dgram = type == SOCK_DGRAM };
	return fd;
}

/* Bound to an address, some port: 0, or errno */
static int addr_try(const struct sk_addr *a, const char *ifname)
{
	const int af = inaddr_is_v4(&a->a) ? AF_INET : AF_INET6;
	const struct sk_addr any_port = { .a = a->a, .scope = a->scope };
	int fd = socket(af, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(&any_port, af, &sa);

	if (fd < 0)
		return errno;
	if (ifname && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, (socklen_t)strlen(ifname)))
		err = errno;
	else if (bind(fd, &sa.sa, len) && errno != EADDRINUSE)	/* out of ports is another matter */
		err = errno;
	close(fd);
	return err;
}

bool sk_host_has_addr(const struct inaddr *a, const char *ifname)
{
	const struct sk_addr addr = { .a = *a };

	return !addr_try(&addr, ifname);
}

bool sk_has_addr(struct sk *s, const struct sk_addr *a)
{
	(void)s;
	return addr_try(a, NULL) != EADDRNOTAVAIL;
}
