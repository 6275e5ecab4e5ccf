/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What host/sk.c's listening sockets know of a datagram, on real ones over loopback: also of one that comes at once.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "ev/ev.h"
#include "host/sk.h"

static struct ev *loop;
static struct sk_host host;
static int hasty;		/* family of a client that sends as soon as the port is bound, 0: none */

static int setup(void **state)
{
	const struct sk_host_settings none = { .no_peek_off = false };
	struct err e;

	(void)state;
	return ev_epoll_open(&loop, &e) || sk_host_open(&host, loop, &none, &e);
}

static void send_to(int af, uint16_t port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = port, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int fd = socket(af, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_return_code(fd, errno);
	assert_int_equal(sendto(fd, "x", 1, 0, af == AF_INET ? (void *)&v4 : (void *)&v6, af == AF_INET ? sizeof(v4) : sizeof(v6)), 1);
	close(fd);
}

/* The program's bind() as well: nothing can be faster than this client */
int bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_in6 got = { .sin6_port = 0 };	/* the port lies at the same place in both */
	socklen_t got_len = sizeof(got);

	if (syscall(SYS_bind, fd, sa, len))
		return -1;
	assert_return_code(getsockname(fd, (struct sockaddr *)&got, &got_len), errno);
	if (hasty)
		send_to(hasty, got.sin6_port);
	return 0;
}

/* The datagram came to the loopback address of its family, and to nobody else */
static void at_once(int af, bool any_family, const char *ifname)
{
	static const uint8_t zero[16];
	const struct sk_listen l = { .proto = SK_UDP, .any = any_family, .ifname = ifname,
				     .addr.a = any_family ? (struct inaddr){ .b = { 0 } } : af == AF_INET ? inaddr_v4(zero) : inaddr_v6(zero) };
	const struct inaddr want = inaddr_loopback(af == AF_INET);
	uint8_t buf[8];
	struct sk_dgram d = { .iov = { { buf, sizeof(buf) } }, .iov_cnt = 1 };
	int h;

	hasty = af;
	h = sk_host_listen(&host, &l, (struct ev_ref){ .kind = EV_KIND_LISTEN });
	hasty = 0;
	assert_true(h >= 0);
	assert_int_equal(host.sk.ops->recv_dgrams(&host.sk, h, &d, 1), 1);
	assert_int_equal(d.len, 1);
	assert_memory_equal(&d.local.a, &want, sizeof(want));
	assert_false(d.to_all);
	host.sk.ops->close(&host.sk, h, SK_END_GRACEFUL);
}

static void family(int af)
{
	at_once(af, false, NULL);
	at_once(af, false, "lo");
	if (host.v6)
		at_once(af, true, NULL);
}

static void test_datagram_at_once_ip4(void **state)
{
	(void)state;
	family(AF_INET);
}

static void test_datagram_at_once_ip6(void **state)
{
	(void)state;
	if (!host.v6)
		skip();
	family(AF_INET6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_datagram_at_once_ip4),
		cmocka_unit_test(test_datagram_at_once_ip6),
	};

	return cmocka_run_group_tests_name("ev sk listen", tests, setup, NULL);
}
