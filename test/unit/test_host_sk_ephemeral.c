/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host/sk_ephemeral.c: the local ports of this kernel's connections to a server of the test.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../src/host/sk_priv.h"

#define FIRST	40000u		/* within what every kernel allows by default */
#define LAST	50000u

struct server {
	int fd;
	struct sk_addr at;
	union sk_sockaddr sa;
	socklen_t len;
};

static int server_open(struct server *s, int af)
{
	s->at = (struct sk_addr){ .a = inaddr_loopback(af == AF_INET) };
	s->fd = socket(af, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->len = sk_to_sockaddr(&s->at, af, &s->sa);
	if (s->fd < 0 || bind(s->fd, &s->sa.sa, s->len))
		return -errno;
	assert_return_code(listen(s->fd, 4096), errno);
	assert_return_code(getsockname(s->fd, &s->sa.sa, &s->len), errno);
	sk_from_sockaddr(&s->sa, &s->at);
	return 0;
}

static uint16_t local_port(int fd)
{
	union sk_sockaddr sa;
	struct sk_addr a;
	socklen_t len = sizeof(sa);

	assert_return_code(getsockname(fd, &sa.sa, &len), errno);
	sk_from_sockaddr(&sa, &a);
	return a.port;
}

static uint32_t window_of(uint16_t port)
{
	return (port - FIRST) / SK_WINDOW;
}

/* Connections from all ports of a window that are free for that: how many */
static int fill(const struct server *s, uint32_t w, int fd[SK_WINDOW])
{
	const uint32_t range = (FIRST + w * SK_WINDOW) | (FIRST + (w + 1) * SK_WINDOW - 1) << 16;
	int n;

	for (n = 0; n < (int)SK_WINDOW; n++) {
		fd[n] = socket(s->sa.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_return_code(fd[n], errno);
		assert_return_code(setsockopt(fd[n], IPPROTO_IP, SK_LOCAL_PORT_RANGE, &range, sizeof(range)), errno);
		if (connect(fd[n], &s->sa.sa, s->len)) {
			assert_int_equal(errno, EADDRNOTAVAIL);
			close(fd[n]);
			break;
		}
	}
	return n;
}

static void close_all(const int *fd, int n)
{
	while (n--)
		close(fd[n]);
}

static int begin(struct sk_ephemeral *e, const struct server *s)
{
	int fd = socket(s->sa.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_return_code(fd, errno);
	assert_int_equal(sk_ephemeral_connect(e, fd, &s->at, &s->sa, s->len), 0);
	return fd;
}

static void windows(int af)
{
	struct sk_ephemeral e = { .ports = { FIRST, LAST }, .key = { { 3, 4 } } };
	struct server s;
	uint32_t w;
	int fd[SK_WINDOW], full[SK_WINDOW], n;

	if (server_open(&s, af)) {
		print_message("no such family here\n");
		skip();
	}
	fd[0] = begin(&e, &s);
	if (e.ports.last == e.ports.first) {
		print_message("this kernel has no IP_LOCAL_PORT_RANGE (Linux 6.3)\n");
		close(fd[0]);
		close(s.fd);
		skip();
	}
	w = window_of(local_port(fd[0]));
	for (unsigned i = 1; i < SK_WINDOW / 2; i++) {
		fd[i] = begin(&e, &s);
		assert_in_range(local_port(fd[i]), FIRST, LAST);
		assert_int_equal(window_of(local_port(fd[i])), w);
	}
	/* it is full now: far away, and there for a while */
	n = fill(&s, w, full);
	for (unsigned i = SK_WINDOW / 2; i < SK_WINDOW; i++) {
		fd[i] = begin(&e, &s);
		assert_in_range(local_port(fd[i]), FIRST, LAST);
		assert_int_not_equal(window_of(local_port(fd[i])), w);
		if (i > SK_WINDOW / 2)
			assert_int_equal(window_of(local_port(fd[i])), window_of(local_port(fd[i - 1])));
	}
	close_all(fd, SK_WINDOW);
	close_all(full, n);
	close(s.fd);
}

static void test_windows_v4(void **state)
{
	(void)state;
	windows(AF_INET);
}

static void test_windows_v6(void **state)
{
	(void)state;
	windows(AF_INET6);
}

/* Nowhere a free port: told so, as the kernel does */
static void test_none_free(void **state)
{
	enum { WINDOWS = 8 };
	struct sk_ephemeral e = { .ports = { FIRST, FIRST + WINDOWS * SK_WINDOW - 1 }, .key = { { 5, 6 } } };
	struct server s;
	int fd[WINDOWS][SK_WINDOW], n[WINDOWS], none;

	(void)state;
	assert_int_equal(server_open(&s, AF_INET), 0);
	close(begin(&e, &s));
	if (e.ports.last == e.ports.first) {
		close(s.fd);
		skip();
	}
	for (unsigned w = 0; w < WINDOWS; w++)
		n[w] = fill(&s, w, fd[w]);
	none = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(sk_ephemeral_connect(&e, none, &s.at, &s.sa, s.len), -EADDRNOTAVAIL);
	close(none);
	for (unsigned w = 0; w < WINDOWS; w++)
		close_all(fd[w], n[w]);
	close(s.fd);
}

/* So few ports, or none known: the kernel's choice */
static void test_no_windows(void **state)
{
	struct sk_ephemeral few = { .ports = { FIRST, FIRST + 100 } }, none = { .ports = { 0, 0 } };
	struct server s;
	int a, b;

	(void)state;
	assert_int_equal(server_open(&s, AF_INET), 0);
	a = begin(&few, &s);
	b = begin(&none, &s);
	assert_int_not_equal(local_port(a), local_port(b));
	close(a);
	close(b);
	close(s.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_windows_v4),
		cmocka_unit_test(test_windows_v6),
		cmocka_unit_test(test_none_free),
		cmocka_unit_test(test_no_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
