/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP and ping sockets of the host: many datagrams a call, runs of equal ones as
 * one (UDP_GRO, UDP_SEGMENT), source addresses of unconnected sockets by
 * PKTINFO, errors by the error queue.
 */
#include <errno.h>
#include <time.h>

#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "sk_priv.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT	103
#endif
#ifndef UDP_GRO
#define UDP_GRO		104
#endif
#define SK_DGRAMS	64		/* in one call */
/* Payload that passes every path, or is DF's least use: it goes with the kernel's default, which saves most flows a call */
#define SK_SMALL4	512
#define SK_SMALL6	1232

/* Control messages of one datagram: PKTINFO, TTL, traffic class, segment size */
union sk_ctrl {
	struct cmsghdr align;
	uint8_t buf[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) + 3 * CMSG_SPACE(sizeof(int))];
};

void sk_udp_options(int fd, bool v6)
{
	if (v6) {
		sk_set_int(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
		sk_set_int(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
	}
	sk_set_int(fd, IPPROTO_IP, IP_RECVERR, 1);	/* on a dual-stack socket too; fails harmlessly otherwise */
	sk_set_int(fd, IPPROTO_IP, IP_RECVTOS, 1);	/* congestion marks belong to each datagram (RFC 3168 5) */
	sk_set_int(fd, SOL_SOCKET, SO_RCVBUF, SK_RCVBUF);	/* net.core.rmem_max is its limit */
	sk_set_int(fd, IPPROTO_UDP, UDP_GRO, 1);	/* Linux 5.0; without it datagrams come one by one */
}

int sk_open_connected(struct sk_host *h, int fd, struct ev_ref ref, const struct sk_addr *to)
{
	int af = inaddr_is_v4(&to->a) ? AF_INET : AF_INET6, err;
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(to, af, &sa);

	if (connect(fd, &sa.sa, len))
		return -errno;
	h->slot[fd].ref = ref;
	err = h->ev->ops->set(h->ev, fd, ref, EV_IN | EV_FIRST);
	return err;
}

int sk_udp_bind(struct sk_host *h, int fd, const struct sk_addr *local, int af)
{
	struct sk_addr want = *local;
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(&want, af, &sa);

	/* what we know of ports is about the host's */
	if (h->ns ? !bind(fd, &sa.sa, len) :
	    h->port[want.port].cnt < SK_SHARE_MAX && !sk_port_bind(h, fd, &sa, len, h->set.multicast))
		return 0;
	/* the guest's port is another program's, or privileged, or crowded: any port is better than none (NAT-4) */
	want.port = 0;
	len = sk_to_sockaddr(&want, af, &sa);
	return bind(fd, &sa.sa, len) ? -errno : 0;
}

int sk_udp_open(struct sk *s, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to, struct sk_addr *ret_local)
{
	struct sk_host *h = sk_host_of(s);
	int fd = sk_new(h, &to->a, SOCK_DGRAM, IPPROTO_UDP), err;
	int af = inaddr_is_v4(&to->a) ? AF_INET : AF_INET6;
	struct sk_addr want = *local;
	union sk_sockaddr sa;
	socklen_t len;

	if (fd < 0)
		return fd;
	if (!h->ns)
		sk_udp_options(fd, af == AF_INET6);
	if (af == AF_INET6)		/* so that the same port of IPv4 stays free */
		sk_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!h->ns && sk_port_hears(h, want.port, to))
		want.port = 0;
	err = sk_udp_bind(h, fd, &want, af);
	if (err)
		goto fail;
	err = sk_open_connected(h, fd, ref, to);
	if (err)
		goto fail;
	len = sizeof(sa);
	if (getsockname(fd, &sa.sa, &len)) {
		err = -errno;
		goto fail;
	}
	sk_from_sockaddr(&sa, ret_local);
	if (!h->ns && local->port && ret_local->port == local->port) {
		sk_port_hold(h, fd, local->port, SK_HOLD_PEER, to);
		sk_set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);	/* for the next one: this one hears its peer only */
	}
	return fd;
fail:
	close(fd);
	return err;
}

static void take_ctrl(struct msghdr *m, struct sk_dgram *d, uint16_t port)
{
	d->seg = 0;
	d->tos = d->ttl = 0;
	d->to_all = false;
	memset(&d->local, 0, sizeof(d->local));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo pi;

			memcpy(&pi, CMSG_DATA(c), sizeof(pi));
			d->to_all = memcmp(&pi.ipi_addr, &pi.ipi_spec_dst, sizeof(pi.ipi_addr));
			d->local.a = inaddr_v4(&pi.ipi_addr);
			d->local.port = port;
			if (d->to_all && !inaddr_is_multicast(&d->local.a))
				d->local.a = inaddr_v4(&pi.ipi_spec_dst);	/* a broadcast address is no source for answers */
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			struct in6_pktinfo pi;

			memcpy(&pi, CMSG_DATA(c), sizeof(pi));
			if (d->local.port && inaddr_is_v4(&d->local.a))
				continue;	/* a dual-stack socket tells both, IPv4's own says more */
			d->local.a = inaddr_v6(&pi.ipi6_addr);
			d->to_all = inaddr_is_multicast(&d->local.a);
			d->local.port = port;
			if (inaddr_is_linklocal(&d->local.a) && !inaddr_is_v4(&d->local.a))
				d->local.scope = pi.ipi6_ifindex;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			d->tos = *CMSG_DATA(c);
		} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
			int tos;

			memcpy(&tos, CMSG_DATA(c), sizeof(tos));
			d->tos = (uint8_t)tos;
		} else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
			int seg;

			memcpy(&seg, CMSG_DATA(c), sizeof(seg));
			d->seg = (uint32_t)seg < d->len ? (uint16_t)seg : 0;
		}
	}
}

/* A raw socket of IPv4 gives the IP header as well */
static void strip_ip(struct sk_dgram *d)
{
	const uint8_t *p = d->iov[0].iov_base;
	const uint32_t hdr = d->len ? (p[0] & 0xfu) * 4 : 0, len = BYTES_MIN(hdr, d->len);

	d->iov[0].iov_base = (uint8_t *)d->iov[0].iov_base + len;
	d->iov[0].iov_len -= len;
	d->len -= len;
}

int sk_recv_dgrams(struct sk *s, int h, struct sk_dgram *d, int n)
{
	union sk_ctrl ctrl[SK_DGRAMS];
	union sk_sockaddr sa[SK_DGRAMS];
	uint16_t port = sk_host_of(s)->slot[h].port;
	struct mmsghdr m[SK_DGRAMS];
	int r;

	n = BYTES_MIN(n, SK_DGRAMS);
	for (int i = 0; i < n; i++) {
		m[i].msg_hdr = (struct msghdr){
			.msg_name = &sa[i], .msg_namelen = sizeof(sa[i]),
			.msg_iov = d[i].iov, .msg_iovlen = d[i].iov_cnt,
			.msg_control = &ctrl[i], .msg_controllen = sizeof(ctrl[i]),
		};
	}
	do
		r = recvmmsg(h, m, (unsigned)n, MSG_DONTWAIT, NULL);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	for (int i = 0; i < r; i++) {
		d[i].len = m[i].msg_len;
		if (m[i].msg_hdr.msg_namelen)
			sk_from_sockaddr(&sa[i], &d[i].to_from);
		else
			memset(&d[i].to_from, 0, sizeof(d[i].to_from));
		take_ctrl(&m[i].msg_hdr, &d[i], port);
		if (sk_host_of(s)->slot[h].ip_hdr)
			strip_ip(&d[i]);
	}
	return r;
}

static void *put_ctrl(struct msghdr *m, union sk_ctrl *ctrl, int level, int type, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)(ctrl->buf + m->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	m->msg_control = ctrl->buf;
	m->msg_controllen += CMSG_SPACE(len);
	return CMSG_DATA(c);
}

static void put_int(struct msghdr *m, union sk_ctrl *ctrl, int level, int type, int v)
{
	memcpy(put_ctrl(m, ctrl, level, type, sizeof(v)), &v, sizeof(v));
}

static bool is_run(const struct sk_dgram *d)
{
	return d->seg && d->seg < d->len;
}

/* V6: of the socket; a dual-stack one sends IPv4 with IPv4's own options */
static void put_dgram(struct mmsghdr *mm, union sk_ctrl *ctrl, union sk_sockaddr *sa, const struct sk_dgram *d, bool v6)
{
	struct msghdr *m = &mm->msg_hdr;
	bool named = d->to_from.port, v4 = !v6 || (named && inaddr_is_v4(&d->to_from.a));

	*m = (struct msghdr){ .msg_iov = (struct iovec *)d->iov, .msg_iovlen = d->iov_cnt };
	if (named) {
		m->msg_name = sa;
		m->msg_namelen = sk_to_sockaddr(&d->to_from, v6 ? AF_INET6 : AF_INET, sa);
	}
	if (d->local.port && !v6) {
		struct in_pktinfo pi = { .ipi_ifindex = (int)d->local.scope };

		memcpy(&pi.ipi_spec_dst, d->local.a.b + 12, 4);
		memcpy(put_ctrl(m, ctrl, IPPROTO_IP, IP_PKTINFO, sizeof(pi)), &pi, sizeof(pi));
	} else if (d->local.port) {
		struct in6_pktinfo pi = { .ipi6_ifindex = d->local.scope };

		memcpy(&pi.ipi6_addr, d->local.a.b, 16);
		memcpy(put_ctrl(m, ctrl, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(pi)), &pi, sizeof(pi));
	}
	if (d->ttl && d->ttl != SK_TTL_USUAL)
		put_int(m, ctrl, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT, d->ttl);
	if (d->tos)
		put_int(m, ctrl, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, d->tos);
	if (is_run(d)) {
		uint16_t seg = d->seg;

		memcpy(put_ctrl(m, ctrl, IPPROTO_UDP, UDP_SEGMENT, sizeof(seg)), &seg, sizeof(seg));
	}
}

static bool is_small(const struct sk_dgram *d, bool v4)
{
	return (is_run(d) ? d->seg : d->len) <= (v4 ? SK_SMALL4 : SK_SMALL6);
}

/* Whether the socket does what this datagram wants when it is too big; SWITCH_OVER: make it so (UDP-37) */
static bool cut_fits(struct sk_host *s, int h, const struct sk_dgram *d, bool switch_over)
{
	struct sk_slot *slot = &s->slot[h];
	const bool v4 = !slot->v6 || (d->to_from.port && inaddr_is_v4(&d->to_from.a));
	const bool never = d->df == SK_DF_YES || (d->df == SK_DF_MAYBE && !slot->yields);
	const uint8_t want = never ? SK_CUT_NEVER : SK_CUT_ALLOWED;
	uint8_t *is = &slot->cut[v4 ? SK_V4 : SK_V6];

	if (*is == want || is_small(d, v4))
		return true;
	if (!switch_over)
		return false;
	slot->yields |= d->df == SK_DF_NO;	/* who sends fragments means no other datagram strictly: no switching to and fro */
	*is = want;			/* also if it fails: it would again */
	if (v4)
		sk_set_int(h, IPPROTO_IP, IP_MTU_DISCOVER, never ? IP_PMTUDISC_DO : IP_PMTUDISC_DONT);
	else
		sk_set_int(h, IPPROTO_IPV6, IPV6_MTU_DISCOVER, never ? IPV6_PMTUDISC_DO : IPV6_PMTUDISC_DONT);
	return true;
}

/* The send of this one failed with errno CODE for its size, and it may go in fragments; a run has errors of its own for that */
static bool cut_yields(struct sk_host *s, int h, const struct sk_dgram *d, int code)
{
	struct sk_slot *slot = &s->slot[h];

	slot->big_port = d->to_from.port;
	if (d->df != SK_DF_MAYBE || slot->yields || (code != EMSGSIZE && !(code == EINVAL && is_run(d))))
		return false;
	slot->yields = true;
	return true;
}

/* A run datagram by datagram, where the kernel does not cut it: larger than the path's MTU, no UDP_SEGMENT, or a device that
 * leaves checksums to the sender
 */
static void send_apart(int h, const struct sk_dgram *run, bool v6)
{
	uint32_t piece = 0, used = 0, len;
	union sk_ctrl ctrl;
	union sk_sockaddr sa;
	struct mmsghdr m;

	memset(&ctrl, 0, sizeof(ctrl));
	for (uint32_t off = 0; off < run->len; off += len) {
		struct sk_dgram d = *run;

		len = BYTES_MIN(run->seg, run->len - off);
		d.seg = 0;
		d.len = len;
		d.iov_cnt = 0;
		for (uint32_t need = len, n; need && piece < run->iov_cnt; need -= n) {
			const struct iovec *v = &run->iov[piece];

			n = (uint32_t)BYTES_MIN(v->iov_len - used, need);
			if (n)
				d.iov[d.iov_cnt++] = (struct iovec){ (uint8_t *)v->iov_base + used, n };
			used += n;
			if (used == v->iov_len) {
				piece++;
				used = 0;
			}
		}
		put_dgram(&m, &ctrl, &sa, &d, v6);
		sendmsg(h, &m.msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL);	/* lost like any datagram if that fails */
	}
}

int sk_send_dgrams(struct sk *s, int h, const struct sk_dgram *d, int n)
{
	bool v6 = sk_host_of(s)->slot[h].v6, again = false;
	union sk_ctrl ctrl[SK_DGRAMS];
	union sk_sockaddr sa[SK_DGRAMS];
	struct mmsghdr m[SK_DGRAMS];
	int done = 0;

	memset(ctrl, 0, sizeof(ctrl[0]) * (size_t)BYTES_MIN(n, SK_DGRAMS));
	while (done < n) {
		const int max = BYTES_MIN(n - done, SK_DGRAMS);
		int cnt = 0, r;

		for (; cnt < max && cut_fits(sk_host_of(s), h, &d[done + cnt], !cnt); cnt++)
			put_dgram(&m[cnt], &ctrl[cnt], &sa[cnt], &d[done + cnt], v6);
		r = sendmmsg(h, m, (unsigned)cnt, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r > 0) {
			done += r;
			again = false;
		} else if (errno == EAGAIN) {
			break;
		} else if (cut_yields(sk_host_of(s), h, &d[done], errno)) {
			continue;
		} else if (again || (errno == EMSGSIZE && !is_small(&d[done], true))) {
			/* too big for the path is told once, by the error queue */
			if (is_run(&d[done]))
				send_apart(h, &d[done], v6);
			done++;		/* this one can't be sent */
			again = false;
		} else {
			again = true;	/* the error may be an earlier datagram's, told only now */
		}
	}
	return done ? done : n ? -EAGAIN : 0;
}

static void take_err(struct sk_err *ret, const struct cmsghdr *c)
{
	struct sock_extended_err ee;
	const struct sockaddr *off;
	union sk_sockaddr sa;

	memcpy(&ee, CMSG_DATA(c), sizeof(ee));
	ret->code = (int)ee.ee_errno;
	ret->icmp_type = ee.ee_type;
	ret->icmp_code = ee.ee_code;
	ret->info = ee.ee_info;
	ret->local = ee.ee_origin == SO_EE_ORIGIN_LOCAL;
	off = SO_EE_OFFENDER((struct sock_extended_err *)CMSG_DATA(c));
	if (off->sa_family == AF_INET)
		memcpy(&sa, off, sizeof(sa.v4));
	else if (off->sa_family == AF_INET6)
		memcpy(&sa, off, sizeof(sa.v6));
	else
		return;
	sk_from_sockaddr(&sa, &ret->offender);
	ret->offender.port = 0;
}

int sk_recv_err(struct sk *s, int h, struct sk_err *ret, void *buf, uint32_t len)
{
	uint8_t ctrl[512] __attribute__((aligned(8)));
	struct iovec iov = { buf, len };
	union sk_sockaddr sa;
	struct msghdr m = {
		.msg_name = &sa, .msg_namelen = sizeof(sa), .msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = ctrl, .msg_controllen = sizeof(ctrl),
	};
	ssize_t r = recvmsg(h, &m, MSG_ERRQUEUE | MSG_DONTWAIT);

	if (r < 0) {
		int code = 0;
		socklen_t cl = sizeof(code);

		if (errno == EAGAIN)	/* the pending error that goes with the queue */
			getsockopt(h, SOL_SOCKET, SO_ERROR, &code, &cl);
		return -EAGAIN;
	}
	memset(ret, 0, sizeof(*ret));
	ret->len = (uint32_t)r;
	if (m.msg_namelen)
		sk_from_sockaddr(&sa, &ret->to);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
		if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
		    (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
			take_err(ret, c);
	if (ret->local && !ret->to.port)
		ret->to.port = sk_host_of(s)->slot[h].big_port;
	return 0;
}
