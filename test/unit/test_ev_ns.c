/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets from another process: kinds, stock, shortage, and the end of it. The
 * process is a real one, which happens to live in our own namespace.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ev/ev.h"
#include "host/sk_ns.h"

#define LIMIT_MS	60000

struct rig {
	struct ev *ev;
	struct sk_ns ns;
	pid_t pid;
};

static void rig_open(struct rig *r)
{
	struct err e;
	int fd[2];

	assert_int_equal(ev_epoll_open(&r->ev, &e), 0);
	assert_int_equal(sk_ns_pair(fd, &e), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (!r->pid) {
		close(fd[0]);
		sk_ns_serve(fd[1]);
		_exit(0);
	}
	close(fd[1]);
	assert_int_equal(sk_ns_open(&r->ns, r->ev, fd[0]), 0);
}

/* The process inside ends with its socket */
static void rig_close(struct rig *r)
{
	int status;

	sk_ns_close(&r->ns);
	assert_int_equal(waitpid(r->pid, &status, 0), r->pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	r->ev->ops->close(r->ev);
}

static int answer(struct rig *r)
{
	struct ev_hit hit;

	assert_int_equal(r->ev->ops->wait(r->ev, &hit, 1, 0, LIMIT_MS * NS_MS), 1);
	assert_int_equal(hit.ref.kind, EV_KIND_NS);
	return sk_ns_event(&r->ns);
}

/* Whether the other side has nothing to say: an answer to a request comes at once, or was never asked for */
static bool silent(struct rig *r)
{
	for (int k = 0; k < SK_NS_KINDS; k++)
		if (r->ns.shelf[k].asked)
			return false;
	return true;
}

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int v = -1;

	assert_return_code(getsockopt(fd, level, name, &v, &len), errno);
	return v;
}

static void test_kinds(void **state)
{
	static const struct { int domain, type; } want[SK_NS_KINDS] = {
		[SK_NS_TCP4] = { AF_INET, SOCK_STREAM }, [SK_NS_TCP6] = { AF_INET6, SOCK_STREAM },
		[SK_NS_UDP4] = { AF_INET, SOCK_DGRAM }, [SK_NS_UDP6] = { AF_INET6, SOCK_DGRAM },
	};
	struct rig r;

	(void)state;
	rig_open(&r);
	assert_true(silent(&r));	/* nothing before it is needed */
	for (int k = 0; k < SK_NS_KINDS; k++) {
		int fd = sk_ns_take(&r.ns, (enum sk_ns_kind)k);

		assert_int_equal(fd, -EAGAIN);
		assert_int_equal(answer(&r), 0);
		assert_int_equal(r.ns.shelf[k].cnt, SK_NS_STOCK);
		fd = sk_ns_take(&r.ns, (enum sk_ns_kind)k);
		assert_true(fd >= 0);
		assert_int_equal(option(fd, SOL_SOCKET, SO_DOMAIN), want[k].domain);
		assert_int_equal(option(fd, SOL_SOCKET, SO_TYPE), want[k].type);
		assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		if (want[k].type == SOCK_STREAM)
			assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
		close(fd);
		assert_true(silent(&r));
	}
	rig_close(&r);
}

/* Refilled when half of it is gone, and once; what is in stock needs no answer */
static void test_stock(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	sk_ns_want(&r.ns, SK_NS_TCP6);
	sk_ns_want(&r.ns, SK_NS_TCP6);
	assert_int_equal(answer(&r), 0);
	for (int round = 0; round < 5; round++) {
		assert_int_equal(r.ns.shelf[SK_NS_TCP6].cnt, SK_NS_STOCK);
		for (int i = 0; i < SK_NS_STOCK; i++) {
			int fd = sk_ns_take(&r.ns, SK_NS_TCP6);

			assert_true(fd >= 0);
			close(fd);
			assert_int_equal(silent(&r), i + 1 < SK_NS_STOCK / 2);
		}
		assert_int_equal(sk_ns_take(&r.ns, SK_NS_TCP6), -EAGAIN);
		assert_int_equal(answer(&r), 0);
		assert_true(r.ns.shelf[SK_NS_TCP6].cnt >= SK_NS_STOCK / 2);
		assert_true(silent(&r));
		sk_ns_want(&r.ns, SK_NS_TCP6);
		if (!silent(&r))
			assert_int_equal(answer(&r), 0);
	}
	rig_close(&r);
}

/* Killed: told once, the stock is still good, then there is nothing any more */
static void test_killed(void **state)
{
	struct rig r;

	(void)state;
	rig_open(&r);
	sk_ns_want(&r.ns, SK_NS_UDP4);
	assert_int_equal(answer(&r), 0);
	kill(r.pid, SIGKILL);
	assert_int_equal(answer(&r), -EPIPE);
	assert_int_equal(sk_ns_event(&r.ns), 0);
	for (int i = 0; i < SK_NS_STOCK; i++) {
		int fd = sk_ns_take(&r.ns, SK_NS_UDP4);

		assert_true(fd >= 0);
		close(fd);
	}
	assert_int_equal(sk_ns_take(&r.ns, SK_NS_UDP4), -EPIPE);
	assert_int_equal(sk_ns_take(&r.ns, SK_NS_TCP4), -EPIPE);
	sk_ns_close(&r.ns);
	assert_int_equal(waitpid(r.pid, NULL, 0), r.pid);
	r.ev->ops->close(r.ev);
}

/* Out of descriptors: no storm of requests, and some as soon as there is room */
static void test_shortage(void **state)
{
	struct rlimit all, few;
	struct rig r;
	int top, fd;

	(void)state;
	rig_open(&r);
	top = dup(0);
	close(top);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &all), errno);
	few = all;
	few.rlim_cur = (rlim_t)top;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
	assert_int_equal(sk_ns_take(&r.ns, SK_NS_TCP4), -EAGAIN);
	assert_int_equal(answer(&r), 0);
	assert_int_equal(sk_ns_take(&r.ns, SK_NS_TCP4), -EMFILE);
	assert_true(silent(&r));
	few.rlim_cur = (rlim_t)top + 3;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
	assert_true(sk_ns_retry(&r.ns));
	assert_int_equal(answer(&r), 0);
	assert_int_equal(r.ns.shelf[SK_NS_TCP4].cnt, 3);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &all), errno);
	fd = sk_ns_take(&r.ns, SK_NS_TCP4);
	assert_true(fd >= 0);
	close(fd);
	assert_false(sk_ns_retry(&r.ns));
	assert_int_equal(answer(&r), 0);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_stock),
		cmocka_unit_test(test_killed),
		cmocka_unit_test(test_shortage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
