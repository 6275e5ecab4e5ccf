/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP ports that several of our sockets have. A guest's socket that talks to
 * many peers keeps one port on the host, whatever the number of its flows
 * (RFC 4787 4.1), also if that port is published: each flow's socket is
 * connected, so the kernel finds it first for its peer, and the one that hears
 * anybody for the rest (UDP-4).
 *
 * Sockets that hear anybody allow sharing (SO_REUSEADDR) only while another of
 * ours is being bound: at any other time a second program that took the same
 * port would get their datagrams.
 */
#include <errno.h>

#include "sk_priv.h"

void sk_port_hold(struct sk_host *s, int fd, uint16_t port, enum sk_hold hold)
{
	struct sk_slot *slot = &s->slot[fd];

	slot->hold = (uint8_t)hold;
	slot->hold_port = port;
	slot->hold_next = 0;
	if (hold == SK_HOLD_PEER) {
		s->port[port].cnt++;
		return;
	}
	slot->hold_next = s->port[port].first;
	s->port[port].first = (uint32_t)fd + 1;
}

void sk_port_release(struct sk_host *s, int fd)
{
	struct sk_slot *slot = &s->slot[fd];
	struct sk_port *p = &s->port[slot->hold_port];
	uint32_t *at = &p->first;

	if (slot->hold == SK_HOLD_PEER) {
		p->cnt--;
	} else if (slot->hold != SK_HOLD_NONE) {
		while (*at && *at != (uint32_t)fd + 1)
			at = &s->slot[*at - 1].hold_next;
		*at = slot->hold_next;
	}
	slot->hold = SK_HOLD_NONE;
}

static void port_open(struct sk_host *s, uint16_t port, bool on)
{
	for (uint32_t i = s->port[port].first; i; i = s->slot[i - 1].hold_next)
		sk_set_int((int)i - 1, SOL_SOCKET, SO_REUSEADDR, on);
}

int sk_port_bind(struct sk_host *s, int fd, const union sk_sockaddr *sa, socklen_t len, bool foreign)
{
	const uint16_t port = ntohs(sa->sa.sa_family == AF_INET ? sa->v4.sin_port : sa->v6.sin6_port);
	const bool ours = s->port[port].first || s->port[port].cnt;
	int err;

	if (!bind(fd, &sa->sa, len)) {
		if (!ours)
			s->port[port].foreign = false;
		return 0;
	}
	if (errno != EADDRINUSE || !port || !(ours || foreign))
		return -errno;
	err = sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (err)
		return err;
	port_open(s, port, true);
	err = bind(fd, &sa->sa, len) ? -errno : 0;
	port_open(s, port, false);
	if (err)
		sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);	/* or the kernel's choice of a port could be a shared one */
	else if (!ours)
		s->port[port].foreign = true;
	return err;
}

bool sk_port_is_published(const struct sk_host *s, uint16_t port)
{
	for (uint32_t i = s->port[port].first; i; i = s->slot[i - 1].hold_next)
		if (s->slot[i - 1].hold == SK_HOLD_PUBLISHED)
			return true;
	return false;
}

bool sk_port_is_heard(const struct sk_host *s, uint16_t port)
{
	return s->port[port].foreign || sk_port_is_published(s, port);
}
