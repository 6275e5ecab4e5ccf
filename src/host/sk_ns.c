/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets from inside the guest's network namespace (SK_NS_STOCK of each kind).
 * One request names a kind and a number, one answer brings them as SCM_RIGHTS,
 * with what went wrong if there are fewer.
 *
 * Options that every socket of its kind gets are set on the other side too:
 * there they cost nobody's connection time.
 *
 * Nothing is asked for before it is needed or wanted, and nobody is woken while
 * nothing is taken.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/sk_ns.h"
#include "sk_priv.h"

struct ask {
	uint8_t kind, cnt;
};

struct answer {
	int32_t kind;
	int32_t code;			/* negative errno if there are fewer than asked for */
};

union rights {				/* control message with descriptors */
	struct cmsghdr align;
	uint8_t buf[CMSG_SPACE(SK_NS_STOCK * sizeof(int))];
};

int sk_ns_pair(int ret_fd[2], struct err *e)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fd))
		return err_set(e, -errno, "Can't make a pair of sockets: %s", strerror(errno));
	return 0;
}

/* --- inside --- */

static int make(enum sk_ns_kind kind)
{
	const bool v6 = kind == SK_NS_TCP6 || kind == SK_NS_UDP6, tcp = kind == SK_NS_TCP4 || kind == SK_NS_TCP6;
	int fd = socket(v6 ? AF_INET6 : AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (tcp)
		sk_tcp_options(fd);
	else
		sk_udp_options(fd, v6);
	return fd;
}

static bool serve(int to, const struct ask *q)
{
	struct answer a = { .kind = q->kind };
	struct iovec iov = { &a, sizeof(a) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fd[SK_NS_STOCK], cnt = 0;
	union rights r;
	ssize_t n;

	while (cnt < q->cnt && cnt < SK_NS_STOCK && !a.code) {
		const int new = make((enum sk_ns_kind)q->kind);

		if (new < 0)
			a.code = new;
		else
			fd[cnt++] = new;
	}
	if (cnt) {
		struct cmsghdr *c = &r.align;

		m.msg_control = &r;
		m.msg_controllen = CMSG_SPACE((unsigned)cnt * sizeof(int));
		memset(&r, 0, sizeof(r));
		*c = (struct cmsghdr){ CMSG_LEN((unsigned)cnt * sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(c), fd, (unsigned)cnt * sizeof(int));
	}
	n = sendmsg(to, &m, MSG_NOSIGNAL);
	if (n < 0 && (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM)) {
		a.code = -errno;	/* too many on their way already */
		m.msg_control = NULL;
		m.msg_controllen = 0;
		n = sendmsg(to, &m, MSG_NOSIGNAL);
	}
	while (cnt)
		close(fd[--cnt]);
	return n > 0;
}

void sk_ns_serve(int fd)
{
	struct ask q;

	while (recv(fd, &q, sizeof(q), 0) == sizeof(q) && q.kind < SK_NS_KINDS)
		if (!serve(fd, &q))
			return;
}

/* --- outside --- */

int sk_ns_open(struct sk_ns *n, struct ev *ev, int fd)
{
	const struct ev_ref ref = { .kind = EV_KIND_NS };

	*n = (struct sk_ns){ .fd = fd, .ev = ev };
	return ev->ops->set(ev, fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
}

void sk_ns_close(struct sk_ns *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
	for (int k = 0; k < SK_NS_KINDS; k++)
		while (n->shelf[k].cnt)
			close(n->shelf[k].fd[--n->shelf[k].cnt]);
}

void sk_ns_want(struct sk_ns *n, enum sk_ns_kind kind)
{
	struct sk_ns_shelf *s = &n->shelf[kind];
	const struct ask q = { (uint8_t)kind, (uint8_t)(SK_NS_STOCK - s->cnt) };

	if (n->fd < 0 || s->asked || s->short_of || s->cnt > SK_NS_STOCK / 2)
		return;
	/* one request of each kind is on its way at most: there is room for it; if not, the other end has gone */
	s->asked = send(n->fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(q);
}

int sk_ns_take(struct sk_ns *n, enum sk_ns_kind kind)
{
	struct sk_ns_shelf *s = &n->shelf[kind];
	int fd = -EAGAIN;

	if (s->cnt)
		fd = s->fd[--s->cnt];
	else if (n->fd < 0)
		return -EPIPE;
	else if (s->short_of)
		return -EMFILE;
	sk_ns_want(n, kind);
	return fd;
}

uint32_t sk_ns_stock(const struct sk_ns *n, enum sk_ns_kind kind)
{
	const struct sk_ns_shelf *s = &n->shelf[kind];

	return !s->cnt && (n->fd < 0 || s->short_of) ? UINT32_MAX : s->cnt;
}

/* What has come: 0, -EAGAIN, or -EPIPE */
static int answer_take(struct sk_ns *n)
{
	struct answer a;
	struct iovec iov = { &a, sizeof(a) };
	union rights r;
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &r, .msg_controllen = sizeof(r) };
	const ssize_t len = recvmsg(n->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct sk_ns_shelf *s;
	struct cmsghdr *c;
	int fd[SK_NS_STOCK];
	uint32_t cnt = 0;

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (len != sizeof(a) || a.kind < 0 || a.kind >= SK_NS_KINDS)
		return -EPIPE;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		cnt = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fd, CMSG_DATA(c), cnt * sizeof(int));
	}
	s = &n->shelf[a.kind];
	for (uint32_t i = 0; i < cnt; i++) {
		if (s->cnt < SK_NS_STOCK)
			s->fd[s->cnt++] = fd[i];
		else
			close(fd[i]);
	}
	s->asked = false;
	s->short_of = !cnt;
	return 0;
}

int sk_ns_event(struct sk_ns *n)
{
	int r = n->fd < 0 ? -EAGAIN : 0;

	while (!r)
		r = answer_take(n);
	if (r == -EAGAIN)
		return 0;
	/* what is in stock stays good */
	close(n->fd);
	n->fd = -1;
	return -EPIPE;
}

bool sk_ns_retry(struct sk_ns *n)
{
	bool any = false;

	for (int k = 0; k < SK_NS_KINDS; k++) {
		if (!n->shelf[k].short_of)
			continue;
		n->shelf[k].short_of = false;
		sk_ns_want(n, (enum sk_ns_kind)k);
		any = true;
	}
	return any;
}
