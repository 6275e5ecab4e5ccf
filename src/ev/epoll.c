/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event engine over epoll: readiness only. Edge-triggered unless EV_LEVEL is
 * asked for: peeked data would keep a level-triggered socket readable for ever
 * (TCP-46). Changing a mask makes the kernel look again, so an edge that came
 * before can't be missed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "ev/ev.h"

#define EPOLL_HITS	64		/* events of one wait */

struct ev_epoll {
	struct ev ev;			/* first: the table's users see only this */
	int fd;
};

static uint32_t to_epoll(uint32_t mask)
{
	return (mask & EV_IN ? EPOLLIN : 0) | (mask & EV_OUT ? EPOLLOUT : 0) | (mask & EV_RDHUP ? EPOLLRDHUP : 0) |
	       (mask & EV_PRI ? EPOLLPRI : 0) | (mask & EV_LEVEL ? 0 : (uint32_t)EPOLLET);
}

static uint32_t from_epoll(uint32_t events)
{
	return (events & EPOLLIN ? EV_IN : 0) | (events & EPOLLOUT ? EV_OUT : 0) | (events & EPOLLRDHUP ? EV_RDHUP : 0) |
	       (events & EPOLLERR ? EV_ERR : 0) | (events & EPOLLHUP ? EV_HUP : 0) |
	       (events & EPOLLPRI ? EV_PRI : 0);
}

static int epoll_set(struct ev *e, int fd, struct ev_ref ref, uint32_t mask)
{
	struct ev_epoll *ep = (struct ev_epoll *)e;
	struct epoll_event ev = { .events = to_epoll(mask) };

	_Static_assert(sizeof(ref) == sizeof(ev.data), "a reference must fit the event's data");
	memcpy(&ev.data, &ref, sizeof(ref));
	if (!mask)
		return epoll_ctl(ep->fd, EPOLL_CTL_DEL, fd, NULL) ? -errno : 0;
	return epoll_ctl(ep->fd, mask & EV_FIRST ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev) ? -errno : 0;
}

/* The kernel's milliseconds, rounded up: waking before the deadline would spin */
static int timeout_ms(ns_t now, ns_t until)
{
	ns_t ms;

	if (until == NS_NEVER)
		return -1;
	if (until <= now)
		return 0;
	ms = (until - now + NS_MS - 1) / NS_MS;
	return ms > 1 << 30 ? 1 << 30 : (int)ms;
}

static int epoll_wait_hits(struct ev *e, struct ev_hit *hit, int max, ns_t now, ns_t until)
{
	struct ev_epoll *ep = (struct ev_epoll *)e;
	struct epoll_event ev[EPOLL_HITS];
	int n = epoll_wait(ep->fd, ev, max < EPOLL_HITS ? max : EPOLL_HITS, timeout_ms(now, until));

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		memcpy(&hit[i].ref, &ev[i].data, sizeof(hit[i].ref));
		hit[i].mask = from_epoll(ev[i].events);
		hit[i].res = 0;
	}
	return n;
}

static void epoll_close(struct ev *e)
{
	struct ev_epoll *ep = (struct ev_epoll *)e;

	close(ep->fd);
	free(ep);
}

static const struct ev_ops epoll_ops = {
	.name = "epoll",
	.set = epoll_set,
	.wait = epoll_wait_hits,
	.close = epoll_close,
};

int ev_epoll_open(struct ev **ret, struct err *e)
{
	struct ev_epoll *ep = calloc(1, sizeof(*ep));

	if (!ep)
		return err_set(e, -ENOMEM, "Out of memory for the event engine");
	ep->ev.ops = &epoll_ops;
	ep->fd = epoll_create1(EPOLL_CLOEXEC);
	if (ep->fd < 0) {
		int code = -errno;

		free(ep);
		return err_set(e, code, "Can't create an epoll instance: %s", strerror(-code));
	}
	*ret = &ep->ev;
	return 0;
}
