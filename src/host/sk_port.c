/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP ports that several of our sockets have. A guest's socket that talks to
 * many peers keeps one port on the host, whatever the number of its flows
 * (RFC 4787 4.1), also if that port is published: each flow's socket is
 * connected, so the kernel finds it first for its peer, and the one that hears
 * anybody for the rest (UDP-4). Two that hear the same peer, for different
 * addresses of the guest, can't share.
 *
 * Sockets that hear anybody allow sharing (SO_REUSEADDR) only while another of
 * ours is being bound: at any other time a second program that took the same
 * port would get their datagrams.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "sk_priv.h"

/* Two peers with the same value only cost a port */
static uint32_t port_peer(const struct sk_addr *a)
{
	uint64_t x[2];

	memcpy(x, a->a.b, sizeof(x));
	return (uint32_t)((x[0] * 0x9e3779b97f4a7c15 ^ x[1] ^ (uint64_t)a->port << 16 ^ a->scope) * 0xd6e8feb86659fd93 >> 32);
}

static uint32_t *port_chain(struct sk_port *p, const struct sk_slot *slot)
{
	return slot->hold == SK_HOLD_PEER ? &p->peers : &p->any;
}

void sk_port_hold(struct sk_host *s, int fd, uint16_t port, enum sk_hold hold, const struct sk_addr *peer)
{
	struct sk_slot *slot = &s->slot[fd];
	struct sk_port *p = &s->port[port];
	uint32_t *first;

	slot->hold = (uint8_t)hold;
	slot->hold_port = p;
	slot->peer = peer ? port_peer(peer) : 0;
	first = port_chain(p, slot);
	slot->hold_prev = 0;
	slot->hold_next = *first;
	if (*first)
		s->slot[*first - 1].hold_prev = (uint32_t)fd + 1;
	*first = (uint32_t)fd + 1;
	p->cnt += hold == SK_HOLD_PEER;
}

void sk_port_release(struct sk_host *s, int fd)
{
	struct sk_slot *slot = &s->slot[fd];
	struct sk_port *p = slot->hold_port;

	if (slot->hold == SK_HOLD_NONE)
		return;
	if (slot->hold_prev)
		s->slot[slot->hold_prev - 1].hold_next = slot->hold_next;
	else
		*port_chain(p, slot) = slot->hold_next;
	if (slot->hold_next)
		s->slot[slot->hold_next - 1].hold_prev = slot->hold_prev;
	p->cnt -= slot->hold == SK_HOLD_PEER;
	slot->hold = SK_HOLD_NONE;
}

bool sk_port_hears(const struct sk_host *s, uint16_t port, const struct sk_addr *peer)
{
	const uint32_t want = port_peer(peer);

	for (uint32_t i = s->port[port].peers; i; i = s->slot[i - 1].hold_next)
		if (s->slot[i - 1].peer == want)
			return true;
	return false;
}

static void port_open(struct sk_host *s, uint16_t port, bool on)
{
	for (uint32_t i = s->port[port].any; i; i = s->slot[i - 1].hold_next)
		sk_set_int((int)i - 1, SOL_SOCKET, SO_REUSEADDR, on);
}

int sk_port_bind(struct sk_host *s, int fd, const union sk_sockaddr *sa, socklen_t len, bool foreign)
{
	const uint16_t port = ntohs(sa->sa.sa_family == AF_INET ? sa->v4.sin_port : sa->v6.sin6_port);
	const bool ours = s->port[port].any || s->port[port].cnt;
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
	for (uint32_t i = s->port[port].any; i; i = s->slot[i - 1].hold_next)
		if (s->slot[i - 1].hold == SK_HOLD_PUBLISHED)
			return true;
	return false;
}

static bool port_has(const struct sk_host *s, uint32_t first, uint32_t inode)
{
	struct stat st;

	for (uint32_t i = first; i; i = s->slot[i - 1].hold_next)
		if (!fstat((int)i - 1, &st) && (uint32_t)st.st_ino == inode)
			return true;
	return false;
}

bool sk_host_is_ours(const struct sk_host *s, uint16_t port, uint32_t inode)
{
	return port_has(s, s->port[port].any, inode) || port_has(s, s->port[port].peers, inode);
}

bool sk_port_is_heard(const struct sk_host *s, uint16_t port)
{
	return s->port[port].foreign || sk_port_is_published(s, port);
}
