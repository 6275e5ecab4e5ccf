/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sock_diag(7): who listens in a network namespace. A netlink socket stays in the namespace where it was made, so a socket
 * from inside lets us look there from outside. The kernel tells nobody of new listeners, so this is asked again and again:
 * only states and ports of interest are asked for, and answers are parsed in place.
 *
 * Refuses to wait: all of an answer that is to come is there when recv() is called. Trusts no length. Messages with another
 * sequence number are left-overs of an answer that was given up, and passed over.
 */
#include "host/diag.h"

#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/nl_data.h"

#define DIAG_RX_LEN	32768		/* the kernel fills at most this much at a time (netlink_dump) */
#define DIAG_UDP_BOUND	TCP_CLOSE	/* the state of UDP sockets that are not connected */

struct diag_request {
	struct nlmsghdr nlh;
	struct inet_diag_req_v2 req;
	struct nlattr attr;
	uint32_t program[DIAG_PROGRAM_LEN];
};

struct diag {
	int fd;
	uint32_t seq;			/* of the latest request */
	struct diag_request tx;
	char rx[DIAG_RX_LEN] __attribute__((aligned(8)));
};

_Static_assert(sizeof(struct inet_diag_bc_op) == sizeof(uint32_t), "words of a program");
_Static_assert(offsetof(struct diag_request, program) + sizeof(((struct diag_request *)0)->program) ==
	       sizeof(struct diag_request), "the request is sent as it lies in memory");

static uint32_t word(uint8_t code, uint8_t yes, uint16_t no)
{
	const struct inet_diag_bc_op op = { code, yes, no };
	uint32_t w;

	memcpy(&w, &op, sizeof(w));
	return w;
}

/* Jumps count bytes from the instruction. To the very end is to accept, one word further to reject; the kernel wants each
 * target to be on the way of those who always answer yes, hence the jump after a range that matched.
 */
unsigned diag_program(const struct diag_ports *v, unsigned cnt, uint32_t *ret_words)
{
	uint32_t *w = ret_words;

	for (unsigned i = 0; i < cnt; i++) {
		const bool last = i + 1 == cnt;

		*w++ = word(INET_DIAG_BC_S_GE, 8, 20);
		*w++ = word(0, 0, v[i].first);
		*w++ = word(INET_DIAG_BC_S_LE, 8, 12);
		*w++ = word(0, 0, v[i].last);
		if (!last)	/* 20 bytes for each range to come, but no jump in the last one */
			*w++ = word(INET_DIAG_BC_JMP, 4, (uint16_t)(20 * (cnt - i - 1)));
	}
	return (unsigned)(w - ret_words);
}

int diag_open(struct diag **ret, struct err *e)
{
	struct diag *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, -ENOMEM, "Can't ask for listening sockets: %s", strerror(ENOMEM));
	d->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
	if (d->fd < 0) {
		const int code = -errno;

		free(d);
		return err_set(e, code, "Can't ask for listening sockets: %s", strerror(-code));
	}
	d->tx.nlh = (struct nlmsghdr){
		.nlmsg_len = offsetof(struct diag_request, attr), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	*ret = d;
	return 0;
}

void diag_close(struct diag *d)
{
	if (d)
		close(d->fd);
	free(d);
}

void diag_ports(struct diag *d, const struct diag_ports *v, unsigned cnt)
{
	const unsigned words = diag_program(v, cnt, d->tx.program);

	d->tx.attr.nla_type = INET_DIAG_REQ_BYTECODE;
	d->tx.attr.nla_len = (uint16_t)(sizeof(d->tx.attr) + words * sizeof(uint32_t));
	d->tx.nlh.nlmsg_len = (uint32_t)(offsetof(struct diag_request, attr) + d->tx.attr.nla_len);
}

static int v6only_take(const struct nlattr *a, void *data)
{
	bool *both = data;

	if (mnl_attr_get_type(a) == INET_DIAG_SKV6ONLY && mnl_attr_validate(a, MNL_TYPE_U8) >= 0)
		*both = !mnl_attr_get_u8(a);
	return MNL_CB_OK;
}

int diag_parse(const struct nlmsghdr *nlh, enum sk_proto proto, bool v6, struct diag_socks *ret)
{
	const size_t head = MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(struct inet_diag_msg));
	struct inet_diag_msg m;
	struct diag_sock s = { .proto = proto };

	if (nlh->nlmsg_type != SOCK_DIAG_BY_FAMILY)
		return 0;
	if (nlh->nlmsg_len < MNL_NLMSG_HDRLEN + sizeof(m))
		return -EBADMSG;
	memcpy(&m, mnl_nlmsg_get_payload(nlh), sizeof(m));
	if (m.idiag_family != (v6 ? AF_INET6 : AF_INET) || !m.id.idiag_sport ||
	    m.idiag_state != (proto == SK_TCP ? TCP_LISTEN : DIAG_UDP_BOUND))
		return 0;
	s.addr = v6 ? inaddr_v6(m.id.idiag_src) : inaddr_v4(m.id.idiag_src);
	s.port = ntohs(m.id.idiag_sport);
	s.ifindex = m.id.idiag_if;
	s.inode = m.idiag_inode;
	/* missing before Linux 3.16: as net.ipv6.bindv6only has it, unless somebody set it. Not mnl_attr_parse(): that rounds
	 * the length of the message up.
	 */
	s.both = v6;
	if (v6 && nlh->nlmsg_len > head)
		mnl_attr_parse_payload((const char *)nlh + head, nlh->nlmsg_len - head, v6only_take, &s.both);
	s.both = s.both && !inaddr_is_v4(&s.addr) && inaddr_is_unset(&s.addr);
	if (nl_list_grow(&ret->v, ret->cnt, &ret->room, sizeof(*ret->v)))
		return -ENOMEM;
	ret->v[ret->cnt++] = s;
	return 0;
}

static int message_code(const struct nlmsghdr *nlh)
{
	int code;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(code))
		return nlh->nlmsg_type == NLMSG_DONE ? 0 : -EBADMSG;
	memcpy(&code, mnl_nlmsg_get_payload(nlh), sizeof(code));
	return code;
}

/* Messages of one read of LEN bytes: 1 if more is to come, 0 at the end, or negative errno */
static int messages(struct diag *d, size_t len, enum sk_proto proto, bool v6, struct diag_socks *ret)
{
	const struct nlmsghdr *nlh;
	size_t at = 0;

	while ((nlh = nl_msg_next(d->rx, len, &at))) {
		if (nlh->nlmsg_seq != d->seq)
			continue;
		if (nlh->nlmsg_type == NLMSG_ERROR || nlh->nlmsg_type == NLMSG_DONE)
			return message_code(nlh);
		/* one that we don't understand is left out; the others are as good as before */
		if (diag_parse(nlh, proto, v6, ret) == -ENOMEM)
			return -ENOMEM;
	}
	return 1;
}

int diag_dump(struct diag *d, enum sk_proto proto, bool v6, struct diag_socks *ret)
{
	const unsigned before = ret->cnt;
	int r = 1;

	d->tx.nlh.nlmsg_seq = ++d->seq;
	d->tx.req = (struct inet_diag_req_v2){
		.sdiag_family = v6 ? AF_INET6 : AF_INET, .sdiag_protocol = proto == SK_TCP ? IPPROTO_TCP : IPPROTO_UDP,
		.idiag_states = 1u << (proto == SK_TCP ? TCP_LISTEN : DIAG_UDP_BOUND),
	};
	if (send(d->fd, &d->tx, d->tx.nlh.nlmsg_len, 0) < 0)
		r = -errno;
	while (r > 0) {
		const ssize_t n = recv(d->fd, d->rx, sizeof(d->rx), 0);

		r = n < 0 ? (errno == EINTR ? 1 : -errno) : messages(d, (size_t)n, proto, v6, ret);
	}
	if (r)
		ret->cnt = before;
	return r;
}
