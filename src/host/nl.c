/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An rtnetlink socket: requests with their results, batches of requests, and dumps that are repeated when the kernel says
 * that they were interrupted. Refuses to wait for anything but the kernel's answer, which netlink gives at once. Messages
 * with another sequence number are left-overs of a dump that ended early, and passed over. RFC 3549, netlink(7).
 */
#include "nl_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DUMP_TRIES	8		/* a host where routes change all the time must not stop the start */
#define RCVBUF_LEN	(1 << 20)	/* bytes asked for; results of a batch need some 60 KiB */

/* What ended a run of messages */
enum run {
	RUN_MORE,
	RUN_DONE,
};

void nl_warns_add(struct nl_warns *w, const char *fmt, ...)
{
	va_list ap;

	if (w->cnt < NL_WARN_LINES) {
		va_start(ap, fmt);
		vsnprintf(w->line[w->cnt], sizeof(w->line[0]), fmt, ap);
		va_end(ap);
	}
	w->cnt++;
}

int nl_open(struct nl **ret, struct err *e)
{
	struct nl *nl = calloc(1, sizeof(*nl));
	int on = 1, len = RCVBUF_LEN, code;

	if (!nl)
		return err_set(e, -ENOMEM, "Can't open a netlink socket: %s", strerror(ENOMEM));
	nl->sock = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (!nl->sock || mnl_socket_bind(nl->sock, 0, MNL_SOCKET_AUTOPID) < 0) {
		code = -errno;
		nl_close(nl);
		return err_set(e, code, "Can't open a netlink socket: %s", strerror(-code));
	}
	/* Each of these is a help only: results without a copy of the request (Linux 4.3), filters in dumps (4.20) */
	mnl_socket_setsockopt(nl->sock, NETLINK_CAP_ACK, &on, sizeof(on));
	mnl_socket_setsockopt(nl->sock, NETLINK_GET_STRICT_CHK, &on, sizeof(on));
	setsockopt(mnl_socket_get_fd(nl->sock), SOL_SOCKET, SO_RCVBUF, &len, sizeof(len));
	*ret = nl;
	return 0;
}

void nl_close(struct nl *nl)
{
	if (nl && nl->sock)
		mnl_socket_close(nl->sock);
	free(nl);
}

static struct nlmsghdr *msg_start(struct nl *nl, void *at, uint16_t type, uint16_t flags)
{
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(at);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++nl->seq;
	return nlh;
}

struct nlmsghdr *nl_req_start(struct nl *nl, uint16_t type, uint16_t flags, size_t size, void *ret_fixed)
{
	struct nlmsghdr *nlh = msg_start(nl, nl->tx, type, flags);
	void *fixed = mnl_nlmsg_put_extra_header(nlh, size);

	memcpy(ret_fixed, &fixed, sizeof(fixed));
	return nlh;
}

void nl_attr_put_addr(struct nlmsghdr *nlh, uint16_t type, const struct inaddr *a)
{
	if (inaddr_is_v4(a))
		mnl_attr_put(nlh, type, 4, a->b + 12);
	else
		mnl_attr_put(nlh, type, 16, a->b);
}

static int send_all(struct nl *nl, size_t len)
{
	ssize_t n;

	do
		n = mnl_socket_sendto(nl->sock, nl->tx, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static ssize_t recv_some(struct nl *nl)
{
	ssize_t n;

	do
		n = mnl_socket_recvfrom(nl->sock, nl->rx, sizeof(nl->rx));
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Result carried by NLMSG_ERROR, or by NLMSG_DONE at the end of a dump, which need not have one */
static int msg_result(const struct nlmsghdr *nlh)
{
	int code;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(code))
		return nlh->nlmsg_type == NLMSG_DONE ? 0 : -EBADMSG;
	memcpy(&code, mnl_nlmsg_get_payload(nlh), sizeof(code));
	return code;
}

/* Results of requests FIRST to FIRST + CNT - 1, in any order; those whose result got lost are given -ENOBUFS */
static int results_wait(struct nl *nl, uint32_t first, unsigned cnt, int *ret_code)
{
	unsigned left = cnt, i;

	for (i = 0; i < cnt; i++)
		ret_code[i] = -ENOBUFS;
	while (left) {
		ssize_t n = recv_some(nl);
		const struct nlmsghdr *nlh;
		size_t at = 0;

		if (n == -ENOBUFS)
			return 0;
		if (n < 0)
			return (int)n;
		while ((nlh = nl_msg_next(nl->rx, (size_t)n, &at))) {
			if (nlh->nlmsg_type != NLMSG_ERROR || nlh->nlmsg_seq - first >= cnt)
				continue;
			ret_code[nlh->nlmsg_seq - first] = msg_result(nlh);
			/* The kernel takes requests in order: after the last one there is nothing to come */
			left = nlh->nlmsg_seq - first == cnt - 1 ? 0 : left;
		}
	}
	return 0;
}

int nl_talk(struct nl *nl, struct nlmsghdr *nlh)
{
	int code, rc;

	nlh->nlmsg_flags |= NLM_F_ACK;
	rc = send_all(nl, nlh->nlmsg_len);
	if (!rc)
		rc = results_wait(nl, nlh->nlmsg_seq, 1, &code);
	return rc ? rc : code;
}

int nl_talk_many(struct nl *nl, unsigned cnt, nl_build_t build, const void *data, int *ret_code)
{
	uint32_t first = nl->seq + 1;
	size_t len = 0;
	unsigned i;
	int rc;

	if (!cnt)
		return 0;
	for (i = 0; i < cnt && i < NL_BATCH; i++) {
		struct nlmsghdr *nlh = msg_start(nl, nl->tx + len, 0, NLM_F_ACK);

		build(data, i, nlh);
		len += MNL_ALIGN(nlh->nlmsg_len);
	}
	rc = send_all(nl, len);
	return rc ? rc : results_wait(nl, first, i, ret_code);
}

/* Messages of one read; RET_BROKEN: the dump has to be repeated */
static int run_messages(struct nl *nl, size_t len, const struct nl_dump *d, enum run *ret_run, bool *ret_broken)
{
	const struct nlmsghdr *nlh;
	size_t at = 0;

	while ((nlh = nl_msg_next(nl->rx, len, &at))) {
		int rc;

		if (nlh->nlmsg_seq != nl->seq)
			continue;
		if (nlh->nlmsg_flags & NLM_F_DUMP_INTR)
			*ret_broken = true;
		if (nlh->nlmsg_type == NLMSG_ERROR || nlh->nlmsg_type == NLMSG_DONE) {
			*ret_run = RUN_DONE;
			return msg_result(nlh);
		}
		/* A message that we do not understand is left out; the others are as good as before */
		rc = nlh->nlmsg_type < NLMSG_MIN_TYPE ? 0 : d->parse(nlh, d->data);
		if (rc && rc != -EBADMSG)
			return rc;
	}
	return 0;
}

static int dump_once(struct nl *nl, const struct nlmsghdr *nlh, const struct nl_dump *d, bool *ret_broken)
{
	enum run run = RUN_MORE;
	int rc = send_all(nl, nlh->nlmsg_len);

	while (!rc && run == RUN_MORE) {
		ssize_t n = recv_some(nl);

		if (n == -ENOBUFS)
			*ret_broken = true;
		else if (n < 0)
			rc = (int)n;
		else
			rc = run_messages(nl, (size_t)n, d, &run, ret_broken);
	}
	return rc;
}

int nl_dump_run(struct nl *nl, struct nlmsghdr *nlh, const struct nl_dump *d)
{
	bool broken = true;
	int rc = 0, i;

	nlh->nlmsg_flags |= NLM_F_DUMP;
	for (i = 0; i < DUMP_TRIES && broken && !rc; i++) {
		broken = false;
		nlh->nlmsg_seq = i ? ++nl->seq : nl->seq;
		d->restart(d->data);
		rc = dump_once(nl, nlh, d, &broken);
	}
	/* Interrupted each time: what the last attempt saw is the best there is */
	return rc;
}
