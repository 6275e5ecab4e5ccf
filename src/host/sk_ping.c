/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets for ping: one of the kernel's ping sockets for each flow, or, where the
 * administrator does not permit those and we have the right, a raw one for all.
 * The raw one sees replies to a block of identifiers and nothing else: the
 * filter is locked, so that nothing that we read can widen it.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <unistd.h>

#include "sk_priv.h"

int sk_ping_open(struct sk *s, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from)
{
	struct sk_host *h = sk_host_of(s);
	bool v6 = !inaddr_is_v4(&to->a);
	int fd = sk_new(h, &to->a, SOCK_DGRAM, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP), err = 0;
	struct sk_addr dst = *to;
	union sk_sockaddr sa;
	socklen_t len;

	if (fd < 0)
		return fd;
	sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
	sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
	sk_set_int(fd, SOL_SOCKET, SO_RCVBUF, SK_RCVBUF);
	if (!inaddr_is_unset(from)) {
		struct sk_addr src = { .a = *from, .scope = to->scope };

		len = sk_to_sockaddr(&src, v6 ? AF_INET6 : AF_INET, &sa);
		if (bind(fd, &sa.sa, len))
			err = -errno;
	}
	dst.port = 0;			/* the kernel's identifier sits in the local port */
	if (!err)
		err = sk_open_connected(h, fd, ref, &dst);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

bool sk_ping_permitted(gid_t gid)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ping_group_range", "re");
	unsigned long first = 1, last = 0;
	bool ok = f && fscanf(f, "%lu %lu", &first, &last) == 2 && first <= gid && gid <= last;

	if (f)
		fclose(f);
	return ok;
}

static int raw_filter(int fd, bool v6, uint8_t high)
{
	struct sock_filter v4_code[] = {
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),		/* behind the IP header */
		BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP_ECHOREPLY, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_IND, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_filter v6_code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ICMP6_ECHO_REPLY, 0, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog prog = {
		.len = v6 ? sizeof(v6_code) / sizeof(v6_code[0]) : sizeof(v4_code) / sizeof(v4_code[0]),
		.filter = v6 ? v6_code : v4_code,
	};
	uint8_t junk[1];

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)))
		return -errno;
	while (recv(fd, junk, sizeof(junk), MSG_DONTWAIT) >= 0)	/* what came before the filter */
		;
	return sk_set_int(fd, SOL_SOCKET, SO_LOCK_FILTER, 1);
}

int sk_host_ping_raw(struct sk_host *s, bool v6, uint8_t high)
{
	const struct inaddr some = v6 ? inaddr_v6(&in6addr_any) : inaddr_v4(&(struct in_addr){ 0 });
	const int fd = sk_new(s, &some, SOCK_RAW, v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
	int err;

	if (fd < 0)
		return fd;
	err = raw_filter(fd, v6, high);
	if (!err)
		err = sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR, 1);
	if (err) {
		close(fd);
		return err;
	}
	sk_set_int(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVTCLASS : IP_RECVTOS, 1);
	sk_set_int(fd, SOL_SOCKET, SO_RCVBUF, SK_RCVBUF);
	s->slot[fd].ip_hdr = !v6;
	return fd;
}
