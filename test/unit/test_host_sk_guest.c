/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host/sk_guest.c: who gets what is sent to an address, asked of this kernel about sockets of the test.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/host/sk_priv.h"

#define LO_IFINDEX	1

static struct sk_host host;

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

static int setup(void **state)
{
	struct err e = { .code = 0 };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	if (fd >= 0)
		close(fd);
	else
		print_message("no IPv6 here\n");
	if (sk_host_guest_open(&host, LO_IFINDEX, &e))
		fail_msg("%s", e.text);
	return 0;
}

/* A socket on TEXT and a port of the kernel's choice, listening if it is TCP; -1: no such family here */
static int bound(bool tcp, const char *text, bool v6only, struct sk_addr *ret)
{
	struct sk_addr a = { .a = addr(text) };
	int af = inaddr_is_v4(&a.a) ? AF_INET : AF_INET6, fd = socket(af, tcp ? SOCK_STREAM : SOCK_DGRAM, 0);
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(&a, af, &sa);

	if (fd < 0)
		return -1;
	if (af == AF_INET6)
		assert_int_equal(sk_set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, v6only), 0);
	if (bind(fd, &sa.sa, len)) {
		close(fd);
		return -1;
	}
	if (tcp)
		assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, &sa.sa, &len), 0);
	sk_from_sockaddr(&sa, ret);
	return fd;
}

struct row {
	const char *socket;
	bool v6only;
	const char *asked;		/* address that something is sent to */
	int has;
};

static void test_bound(void **state)
{
	static const struct row rows[] = {
		{ "127.0.0.1", false, "127.0.0.1", 1 }, { "127.0.0.1", false, "127.0.0.2", 0 }, { "0.0.0.0", false, "127.0.0.2", 1 },
		{ "::1", true, "::1", 1 }, { "::", true, "::1", 1 }, { "::", false, "127.0.0.1", 1 }, { "::", true, "127.0.0.1", 0 },
		{ "0.0.0.0", false, "::1", 0 },
	};

	(void)state;
	for (unsigned i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		const struct row *r = &rows[i / 2];
		struct sk_addr local, remote = { .a = addr(r->asked), .port = 9 };
		bool tcp = i % 2;
		int fd = bound(tcp, r->socket, r->v6only, &local);

		if (fd < 0)
			continue;
		local.a = addr(r->asked);
		if (sk_guest_has(&host.sk, tcp, &local, &remote) != r->has)
			fail_msg("%s socket on %s, asked for %s", tcp ? "TCP" : "UDP", r->socket, r->asked);
		close(fd);
		assert_int_equal(sk_guest_has(&host.sk, tcp, &local, &remote), 0);
	}
}

/* A connected UDP socket is for its peer alone */
static void test_connected_udp(void **state)
{
	struct sk_addr local, peer, other = { .a = addr("127.0.0.1"), .port = 9 };
	int fd = bound(false, "127.0.0.1", false, &local), to = bound(false, "127.0.0.1", false, &peer);
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(&peer, AF_INET, &sa);

	(void)state;
	assert_int_equal(connect(fd, &sa.sa, len), 0);
	assert_int_equal(sk_guest_has(&host.sk, false, &local, &peer), 1);
	assert_int_equal(sk_guest_has(&host.sk, false, &local, &other), 0);
	close(fd);
	close(to);
}

/* What is left of a TCP connection listens to nobody; while it lasts it is somebody */
static void test_tcp_after_its_end(void **state)
{
	struct sk_addr server, client;
	int srv = bound(true, "127.0.0.1", false, &server), c = socket(AF_INET, SOCK_STREAM, 0), s;
	union sk_sockaddr sa;
	socklen_t len = sk_to_sockaddr(&server, AF_INET, &sa);
	char end;

	(void)state;
	assert_int_equal(connect(c, &sa.sa, len), 0);
	s = accept(srv, NULL, NULL);
	assert_true(s >= 0);
	close(srv);
	assert_int_equal(getsockname(c, &sa.sa, &len), 0);
	sk_from_sockaddr(&sa, &client);
	assert_int_equal(sk_guest_has(&host.sk, true, &server, &client), 1);
	close(s);			/* ends first: its side has the TIME-WAIT */
	assert_int_equal(read(c, &end, 1), 0);
	close(c);
	assert_int_equal(sk_guest_has(&host.sk, true, &server, &client), 0);
}

static void test_not_open(void **state)
{
	struct sk_host none = { .guest_fd = 0 };
	struct sk_addr a = { .a = addr("127.0.0.1"), .port = 9 };

	(void)state;
	assert_int_equal(sk_guest_has(&none.sk, true, &a, &a), -EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_connected_udp),
		cmocka_unit_test(test_tcp_after_its_end),
		cmocka_unit_test(test_not_open),
	};

	return cmocka_run_group_tests_name("host/sk_guest", tests, setup, NULL);
}
