/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ephemeral ports of connections (RFC 6056). Left to itself, connect() looks at
 * all ports of one parity before it takes one of the other: once some 14,000
 * connections to one server are open or in TIME-WAIT, which 240 short ones a
 * second are enough for, it takes milliseconds, in which everybody else waits for
 * us. So a connection gets a window of few ports, and the kernel chooses one in it
 * that is free for its destination. Windows are used one after the other, so that
 * a port comes again as late as can be, from a place that depends on the
 * destination by a secret (RFC 6056, algorithm 4): whom we connect to learns
 * nothing of our ports towards others.
 */
#include <errno.h>
#include <string.h>

#include "sk_priv.h"

#define TRIES	8u			/* windows without a free port: then there is none, as far as we care */

static uint32_t place_of(const struct sk_ephemeral *e, const struct sk_addr *to)
{
	uint8_t b[sizeof(to->a.b) + sizeof(to->port)];

	memcpy(b, to->a.b, sizeof(to->a.b));
	memcpy(b + sizeof(to->a.b), &to->port, sizeof(to->port));
	return (uint32_t)hash_sip(&e->key, b, sizeof(b));
}

static bool window_set(int fd, uint32_t first)
{
	const uint32_t range = first | (first + SK_WINDOW - 1) << 16;

	return !setsockopt(fd, IPPROTO_IP, SK_LOCAL_PORT_RANGE, &range, sizeof(range));
}

static int connect_now(int fd, const union sk_sockaddr *sa, socklen_t len)
{
	return connect(fd, &sa->sa, len) && errno != EINPROGRESS ? -errno : 0;
}

int sk_ephemeral_connect(struct sk_ephemeral *e, int fd, const struct sk_addr *to, const union sk_sockaddr *sa, socklen_t len)
{
	const uint32_t windows = e->ports.last > e->ports.first ? (e->ports.last - e->ports.first + 1u) / SK_WINDOW : 0;
	const uint32_t place = windows ? place_of(e, to) : 0;
	uint32_t *used = &e->used[place % SK_EPHEMERAL_PLACES];
	int r = -EADDRNOTAVAIL;

	if (windows < TRIES)
		return connect_now(fd, sa, len);
	for (unsigned i = 0; i < TRIES && r == -EADDRNOTAVAIL; i++) {
		if (!window_set(fd, e->ports.first + (place + *used / SK_WINDOW) % windows * SK_WINDOW)) {
			e->ports.last = e->ports.first;	/* an older kernel */
			return connect_now(fd, sa, len);
		}
		r = connect_now(fd, sa, len);
		/* what is full is so for a long way: look far away */
		*used += r == -EADDRNOTAVAIL ? windows / TRIES * SK_WINDOW : 1;
	}
	return r;
}
