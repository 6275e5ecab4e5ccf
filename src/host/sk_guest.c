/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets of the guest's namespace, as sock_diag(7) there finds them: by the
 * kernel's own lookup of who gets a packet, without a dump. The netlink socket
 * was opened inside; to ask takes no privilege. Never waits: the kernel answers
 * within the call that asks.
 */
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libmnl/libmnl.h>

#include "sk_priv.h"

#define SK_GUEST_ANSWER_LEN	8192

struct sk_guest_req {
	struct nlmsghdr h;
	struct inet_diag_req_v2 r;
};

static void addr_put(__be32 *ret, const struct inaddr *a)
{
	if (inaddr_is_v4(a))
		memcpy(ret, a->b + 12, 4);
	else
		memcpy(ret, a->b, 16);
}

static struct sk_guest_req request(const struct sk_host *s, bool tcp, const struct sk_addr *local, const struct sk_addr *remote)
{
	/* the lookup of one UDP socket has source and destination the other way round */
	const struct sk_addr *src = tcp ? local : remote, *dst = tcp ? remote : local;
	struct sk_guest_req q = {
		.h = { .nlmsg_len = sizeof(q), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST },
		.r = {
			.sdiag_family = inaddr_is_v4(&local->a) ? AF_INET : AF_INET6,
			.sdiag_protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP,
			.idiag_states = ~0u,
			.id = {
				.idiag_sport = htons(src->port), .idiag_dport = htons(dst->port), .idiag_if = s->guest_ifindex,
				.idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE },
			},
		},
	};

	addr_put(q.r.id.idiag_src, &src->a);
	addr_put(q.r.id.idiag_dst, &dst->a);
	return q;
}

/* 1, 0 or negative errno, from what the kernel says */
static int answer(const struct nlmsghdr *h, ssize_t len)
{
	const struct inet_diag_msg *m;
	const struct nlmsgerr *e;

	if (!mnl_nlmsg_ok(h, (int)len))
		return -EBADMSG;
	if (h->nlmsg_type == NLMSG_ERROR && mnl_nlmsg_get_payload_len(h) >= sizeof(*e)) {
		e = mnl_nlmsg_get_payload(h);
		return e->error == -ENOENT ? 0 : e->error ? e->error : -EBADMSG;
	}
	if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || mnl_nlmsg_get_payload_len(h) < sizeof(*m))
		return -EBADMSG;
	m = mnl_nlmsg_get_payload(h);
	return m->idiag_state != TCP_TIME_WAIT;	/* of a connection that has ended; nobody need be there to answer a new one */
}

int sk_guest_has(struct sk *s, bool tcp, const struct sk_addr *local, const struct sk_addr *remote)
{
	const struct sk_host *host = sk_host_of(s);
	union {
		struct nlmsghdr h;
		uint8_t b[SK_GUEST_ANSWER_LEN];
	} got;
	struct sk_guest_req q;
	ssize_t n;

	if (!host->guest_ifindex)
		return -EOPNOTSUPP;
	q = request(host, tcp, local, remote);
	if (send(host->guest_fd, &q, sizeof(q), MSG_DONTWAIT) < 0)
		return -errno;
	n = recv(host->guest_fd, &got, sizeof(got), MSG_DONTWAIT);
	return n < 0 ? -errno : answer(&got.h, n);
}

int sk_host_guest_open(struct sk_host *s, uint32_t ifindex, struct err *e)
{
	static const uint8_t lo[4] = { 127, 0, 0, 1 };
	const struct sk_addr nobody = { .a = inaddr_v4(lo), .port = 1 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG), r = -errno;

	if (fd >= 0) {
		s->guest_fd = fd;
		s->guest_ifindex = ifindex;
		r = sk_guest_has(&s->sk, true, &nobody, &nobody);
		if (r >= 0)
			r = sk_guest_has(&s->sk, false, &nobody, &nobody);
	}
	return r < 0 ? err_set(e, r, "Can't look for sockets in the namespace, which --host-own-addr needs: %s; the kernel's modules "
			       "inet_diag, tcp_diag and udp_diag do that", strerror(-r)) : 0;
}
