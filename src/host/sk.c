/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP sockets of the host. Every call is one system call where the kernel
 * allows it, and none blocks.
 *
 * Send buffers start at SK_SNDBUF instead of tcp_wmem[1] (16 KiB): with less
 * than some super-frames of room the window towards the guest could not take
 * one. Setting SO_SNDBUF would end the kernel's own growth of it, so the lock is
 * taken off again (SO_BUF_LOCK, Linux 5.15; older kernels keep their default).
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/bytes.h"
#include "sk_priv.h"

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK	72
#endif
#define SK_SNDBUF	(256 << 10)	/* doubled by the kernel for its overhead */
#define SK_SKIP_LEN	(1u << 20)	/* scratch for peeks without SO_PEEK_OFF, used repeatedly ... */
#define SK_SKIP_CNT	16u		/* ... this many times in one call at most: 16 MiB (TCP-42) */
#define SK_IOV		128
#define SK_TCP_MASK	(EV_IN | EV_OUT | EV_RDHUP | EV_PRI)

void sk_tcp_options(int fd)
{
	sk_set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	sk_set_int(fd, SOL_SOCKET, SO_OOBINLINE, 1);	/* urgent data stays in order (TCP-49) */
	if (!sk_set_int(fd, SOL_SOCKET, SO_SNDBUF, SK_SNDBUF))
		sk_set_int(fd, SOL_SOCKET, SO_BUF_LOCK, 0);
}

static int sk_connect(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from,
		      struct sk_syn syn)
{
	struct sk_host *h = sk_host_of(s);
	int fd = sk_new(h, &to->a, SOCK_STREAM, IPPROTO_TCP), err;
	int af = inaddr_is_v4(&to->a) ? AF_INET : AF_INET6;
	union sk_sockaddr sa;
	socklen_t len;

	if (fd < 0)
		return fd;
	if (!h->ns)
		sk_tcp_options(fd);
	if (syn.tos)
		sk_tcp_class(fd, af == AF_INET6, syn.tos);
	if (syn.ttl && syn.ttl != SK_TTL_USUAL)
		sk_tcp_ttl(fd, af == AF_INET6, syn.ttl);
	if (syn.mss)
		sk_tcp_mss(fd, syn.mss);
	if (!inaddr_is_unset(from)) {
		struct sk_addr src = { .a = *from, .scope = to->scope };

		sk_set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
		len = sk_to_sockaddr(&src, af, &sa);
		if (bind(fd, &sa.sa, len)) {
			err = -errno;
			goto fail;
		}
	}
	len = sk_to_sockaddr(to, af, &sa);
	err = sk_ephemeral_connect(&h->ephemeral, fd, to, &sa, len);
	if (err)
		goto fail;
	h->slot[fd].ref = ref;
	err = h->ev->ops->set(h->ev, fd, ref, SK_TCP_MASK | EV_FIRST);
	if (!err)
		return fd;
fail:
	close(fd);
	return err;
}

static int sk_result(struct sk *s, int h)
{
	socklen_t len = sizeof(int);
	int err = 0;

	(void)s;
	if (getsockopt(h, SOL_SOCKET, SO_ERROR, &err, &len))
		return -errno;
	return -err;
}

static int sk_accept(struct sk *s, int listener, struct sk_addr *ret_peer, struct sk_addr *ret_local)
{
	struct sk_host *h = sk_host_of(s);
	union sk_sockaddr sa;
	socklen_t len = sizeof(sa);
	int fd = accept4(listener, &sa.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return -errno;
	if ((uint32_t)fd >= h->slot_cnt) {
		close(fd);
		return -EMFILE;
	}
	sk_from_sockaddr(&sa, ret_peer);
	sk_port_release(h, fd);
	h->slot[fd] = (struct sk_slot){ .peek_off = SK_PEEK_UNSET, .v6 = sa.sa.sa_family == AF_INET6 };
	if (!ret_local)
		return fd;
	len = sizeof(sa);
	if (getsockname(fd, &sa.sa, &len)) {
		int err = -errno;

		close(fd);
		return err;
	}
	sk_from_sockaddr(&sa, ret_local);
	return fd;
}

static int sk_watch(struct sk *s, int h, struct ev_ref ref)
{
	struct sk_host *host = sk_host_of(s);

	host->slot[h].ref = ref;
	return host->ev->ops->set(host->ev, h, ref, SK_TCP_MASK | EV_FIRST);
}

int sk_host_hear(struct sk_host *s, int h, bool hear)
{
	/* the kernel wakes those who wait for urgent data for any other as well */
	return s->ev->ops->set(s->ev, h, s->slot[h].ref, hear ? SK_TCP_MASK : SK_TCP_MASK & ~(EV_IN | EV_PRI));
}

/* Whether the peer's FIN is all that follows the first LEN bytes of the receive queue */
static bool at_end(int fd, uint32_t len)
{
	struct tcp_info ti;
	socklen_t tl = sizeof(ti);
	int queued;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &ti, &tl))
		return false;
	if (ti.tcpi_state != TCP_CLOSE_WAIT && ti.tcpi_state != TCP_LAST_ACK && ti.tcpi_state != TCP_CLOSING &&
	    ti.tcpi_state != TCP_TIME_WAIT && ti.tcpi_state != TCP_CLOSE)
		return false;
	/* asked after the state: nothing more can arrive behind a FIN */
	return !ioctl(fd, SIOCINQ, &queued) && (uint32_t)queued <= len;
}

/* Without SO_PEEK_OFF: read over what is known again */
static int peek_over(struct sk_host *s, int fd, uint32_t skip, const struct iovec *iov, int cnt)
{
	struct iovec v[SK_SKIP_CNT + SK_IOV];
	struct msghdr m = { .msg_iov = v };
	uint32_t left = skip;
	ssize_t r;

	while (left) {
		uint32_t n = BYTES_MIN(left, SK_SKIP_LEN);

		if (m.msg_iovlen == SK_SKIP_CNT)
			return -EMSGSIZE;
		v[m.msg_iovlen++] = (struct iovec){ s->skip_buf, n };
		left -= n;
	}
	for (int i = 0; i < cnt && i < SK_IOV; i++)
		v[m.msg_iovlen++] = iov[i];
	r = recvmsg(fd, &m, MSG_PEEK | MSG_DONTWAIT);
	if (r < 0)
		return -errno;
	if (r > (ssize_t)skip)
		return (int)(r - skip);
	if (!skip)
		return 0;
	return r == (ssize_t)skip && at_end(fd, skip) ? 0 : -EAGAIN;
}

static int sk_peek(struct sk *s, int h, uint32_t skip, const struct iovec *iov, int cnt)
{
	struct sk_host *host = sk_host_of(s);
	struct sk_slot *slot = &host->slot[h];
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)cnt };
	ssize_t r;

	if (!host->peek_off[slot->v6 ? SK_V6 : SK_V4])
		return peek_over(host, h, skip, iov, cnt);
	/* switched off, every peek begins at the head: the first one needs no call */
	if (slot->peek_off != (int32_t)skip && (skip || slot->peek_off != SK_PEEK_UNSET)) {
		int err = sk_set_int(h, SOL_SOCKET, SO_PEEK_OFF, (int)skip);

		if (err)
			return err;
		slot->peek_off = (int32_t)skip;
	}
	r = recvmsg(h, &m, MSG_PEEK | MSG_DONTWAIT);
	if (r < 0)
		return -errno;
	if (slot->peek_off != SK_PEEK_UNSET)
		slot->peek_off += (int32_t)r;
	return (int)r;
}

static int sk_drop(struct sk *s, int h, uint32_t len)
{
	struct sk_slot *slot = &sk_host_of(s)->slot[h];

	while (len) {
		ssize_t r = recv(h, NULL, len, MSG_TRUNC | MSG_DONTWAIT);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r ? -errno : -EPIPE;
		len -= (uint32_t)r;
		if (slot->peek_off != SK_PEEK_UNSET)	/* the kernel moves it in the same way */
			slot->peek_off = BYTES_MAX(slot->peek_off - (int32_t)r, 0);
	}
	return 0;
}

static int sk_send(struct sk *s, int h, const struct iovec *iov, int cnt)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)cnt };
	ssize_t r;

	(void)s;
	do
		r = sendmsg(h, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : (int)r;
}

static int sk_urge(struct sk *s, int h, uint8_t byte)
{
	ssize_t r;

	(void)s;
	do
		r = send(h, &byte, 1, MSG_OOB | MSG_DONTWAIT | MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : (int)r;
}

static enum sk_mark sk_mark(struct sk *s, int h)
{
	struct pollfd p = { .fd = h, .events = POLLPRI };
	int here;

	(void)s;
	if (!ioctl(h, SIOCATMARK, &here) && here)
		return SK_MARK_HERE;
	return poll(&p, 1, 0) > 0 && p.revents & POLLPRI ? SK_MARK_AHEAD : SK_MARK_NONE;
}

static int sk_room(struct sk *s, int h, struct sk_room *ret)
{
	uint32_t mem[SK_MEMINFO_VARS], size, queued;
	socklen_t len = sizeof(mem);

	(void)s;
	if (getsockopt(h, SOL_SOCKET, SO_MEMINFO, mem, &len))
		return -errno;
	size = mem[SK_MEMINFO_SNDBUF];
	queued = mem[SK_MEMINFO_WMEM_QUEUED];
	ret->queued = queued;
	ret->free = size > queued ? size - queued : 0;
	ret->free -= ret->free / 16;	/* what the kernel's bookkeeping of each 64 KiB takes, and some */
	ret->writable = queued < size && size - queued >= queued / 2;	/* as the kernel's poll decides */
	return 0;
}

static int sk_arm(struct sk *s, int h)
{
	struct sk_host *host = sk_host_of(s);

	return host->ev->ops->set(host->ev, h, host->slot[h].ref, SK_TCP_MASK);
}

static int sk_shut(struct sk *s, int h)
{
	(void)s;
	return shutdown(h, SHUT_WR) ? -errno : 0;
}

static void sk_close(struct sk *s, int h, enum sk_end how)
{
	const struct linger now = { 1, 0 };

	sk_port_release(sk_host_of(s), h);
	if (how == SK_END_RESET)
		setsockopt(h, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(h);
}

static int sk_set(struct sk *s, int h, enum sk_opt opt, int value)
{
	switch (opt) {
	case SK_OPT_CLASS:
		return sk_tcp_class(h, sk_host_of(s)->slot[h].v6, value);
	case SK_OPT_KEEP_ALIVE:
		return sk_tcp_keep_alive(h, value);
	case SK_OPT_ERRORS:
		return sk_tcp_errors(h, sk_host_of(s)->slot[h].v6, value);
	}
	return -EINVAL;
}

static const struct sk_ops sk_host_ops = {
	.name = "kernel",
	.connect = sk_connect,
	.result = sk_result,
	.accept = sk_accept,
	.peer_class = sk_tcp_peer_class,
	.set = sk_set,
	.watch = sk_watch,
	.peek = sk_peek,
	.drop = sk_drop,
	.send = sk_send,
	.urge = sk_urge,
	.mark = sk_mark,
	.room = sk_room,
	.arm = sk_arm,
	.shut = sk_shut,
	.close = sk_close,
	.udp_open = sk_udp_open,
	.group_open = sk_group_open,
	.ping_open = sk_ping_open,
	.recv_dgrams = sk_recv_dgrams,
	.send_dgrams = sk_send_dgrams,
	.recv_err = sk_recv_err,
	.has_addr = sk_has_addr,
	.guest_has = sk_guest_has,
};

static bool probe_peek_off(int af)
{
	int fd = socket(af, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool ok = fd >= 0 && !sk_set_int(fd, SOL_SOCKET, SO_PEEK_OFF, 0);

	if (fd >= 0)
		close(fd);
	return ok;
}

int sk_host_open(struct sk_host *s, struct ev *ev, const struct sk_host_settings *set, struct err *e)
{
	struct rlimit rl;
	int fd;

	*s = (struct sk_host){
		.sk.ops = &sk_host_ops, .ev = ev, .set = *set,
		.ephemeral = { .ports = set->ephemeral, .key = set->key },
	};
	if (getrlimit(RLIMIT_NOFILE, &rl))
		return err_set(e, -errno, "Can't read the limit of open files: %s", strerror(errno));
	rl.rlim_cur = rl.rlim_max;
	setrlimit(RLIMIT_NOFILE, &rl);	/* to the hard limit is always allowed */
	s->slot_cnt = (uint32_t)BYTES_MIN(rl.rlim_max, 1u << 24);
	s->slot = mmap(NULL, s->slot_cnt * sizeof(*s->slot), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	s->skip_buf = mmap(NULL, SK_SKIP_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	s->port = mmap(NULL, 2 * SK_PORTS * sizeof(*s->port), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->slot == MAP_FAILED || s->port == MAP_FAILED || s->skip_buf == MAP_FAILED)
		return err_set(e, -ENOMEM, "Out of memory for %u sockets", s->slot_cnt);
	s->peek_off[SK_V4] = !set->no_peek_off && probe_peek_off(AF_INET);
	s->peek_off[SK_V6] = !set->no_peek_off && probe_peek_off(AF_INET6);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	s->v6 = fd >= 0;
	if (fd >= 0)
		close(fd);
	return 0;
}

void sk_host_inside(struct sk_host *ret, const struct sk_host *s, struct sk_ns *ns)
{
	*ret = *s;
	ret->port += SK_PORTS;
	ret->ns = ns;
	ret->set = (struct sk_host_settings){ .no_peek_off = s->set.no_peek_off };
}

/* Before bind(): of a datagram that comes sooner than IP_PKTINFO the kernel does not know the interface, and none of our addresses */
static int listen_dgrams(const struct sk_host *s, int fd, const struct sk_listen *l, int af)
{
	int err;

	sk_udp_options(fd, af == AF_INET6);
	err = sk_set_int(fd, af == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP, af == AF_INET6 ? IPV6_RECVPKTINFO : IP_PKTINFO, 1);
	if (!err && l->any && af == AF_INET6)
		err = sk_set_int(fd, IPPROTO_IP, IP_PKTINFO, 1);	/* tells our address if it was a broadcast */
	if (!err && l->any && s->set.multicast)
		err = sk_set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 1);	/* off on sockets of IPv6 */
	return err;
}

int sk_host_listen(struct sk_host *s, const struct sk_listen *l, struct ev_ref ref)
{
	int af = l->any ? (s->v6 ? AF_INET6 : AF_INET) : inaddr_is_v4(&l->addr.a) ? AF_INET : AF_INET6;
	int type = l->proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM, err;
	int fd = sk_make(s, af == AF_INET6, type, 0);
	union sk_sockaddr sa;
	socklen_t len;

	if (fd < 0)
		return fd;
	err = 0;
	if (af == AF_INET6)	/* explicit: net.ipv6.bindv6only may be 1 */
		err = sk_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, !l->any);
	if (!err)
		err = sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, l->proto == SK_TCP);	/* UDP: sk_port.c */
	if (!err && (s->set.freebind || l->freebind))
		err = sk_set_int(fd, IPPROTO_IP, IP_FREEBIND, 1);
	if (!err && l->ifname && setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, l->ifname, (socklen_t)strlen(l->ifname)))
		err = -errno;
	if (!err && l->proto == SK_UDP)
		err = listen_dgrams(s, fd, l, af);
	if (!err) {
		len = sk_to_sockaddr(&l->addr, af, &sa);
		if (l->proto == SK_UDP)
			err = sk_port_bind(s, fd, &sa, len, false);
		else if (bind(fd, &sa.sa, len))
			err = -errno;
	}
	if (!err && l->proto == SK_TCP) {
		sk_tcp_options(fd);	/* inherited by what it accepts, as is the next one */
		sk_set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);
		if (listen(fd, SOMAXCONN))
			err = -errno;
	} else if (!err) {
		sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0);	/* sk_port_bind() may have needed it */
	}
	if (!err) {
		sk_port_release(s, fd);
		s->slot[fd] = (struct sk_slot){ .ref = ref, .peek_off = SK_PEEK_UNSET, .v6 = af == AF_INET6,
						.dgram = l->proto == SK_UDP, .port = l->addr.port };
		if (l->proto == SK_UDP && !l->ifname && inaddr_is_unset(&l->addr.a))
			sk_port_hold(s, fd, l->addr.port, SK_HOLD_PUBLISHED, NULL);
		err = s->ev->ops->set(s->ev, fd, ref, EV_IN | EV_FIRST | (l->proto == SK_UDP ? EV_LEVEL : 0));
	}
	if (err) {
		sk_port_release(s, fd);
		close(fd);
		return err;
	}
	return fd;
}
