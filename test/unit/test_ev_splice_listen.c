/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Listeners of spliced ports come and go while others, and connections, stay: on real sockets over loopback.
 */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ev/ev.h"
#include "host/splice.h"

#define LIMIT_S		60		/* a step that has not happened by then will not */

struct rig {
	struct ev *ev;
	struct sk_host sk;
	struct splice s;
	struct ev_hit last;		/* the latest event of a listener */
	bool v6;
	enum sk_proto proto;
	union { struct sockaddr sa; struct sockaddr_in v4; struct sockaddr_in6 v6; } addr;
	socklen_t len;
};

static int turn(struct rig *r)
{
	struct ev_hit hit[16];
	int n = r->ev->ops->wait(r->ev, hit, 16, 0, splice_next(&r->s) ? NS_MS : 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		if (hit[i].ref.idx >> 31)
			r->last = hit[i];
		splice_event(&r->s, &hit[i], NS_S);
	}
	splice_tick(&r->s, NS_S);
	return n;
}

#define UNTIL(r, cond) do { \
	const time_t end_ = time(NULL) + LIMIT_S; \
	while (!(cond)) { \
		turn(r); \
		if (time(NULL) > end_) \
			fail_msg("not within %d s: %s", LIMIT_S, #cond); \
	} \
} while (0)

static void address(struct rig *r, uint16_t port)
{
	memset(&r->addr, 0, sizeof(r->addr));
	if (r->v6)
		r->addr.v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(port),
						    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	else
		r->addr.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
						   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	r->len = r->v6 ? sizeof(r->addr.v6) : sizeof(r->addr.v4);
}

static int sock(const struct rig *r)
{
	int fd = socket(r->v6 ? AF_INET6 : AF_INET, (r->proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	return fd;
}

/* A socket that is bound to any port, and listens */
static int server(struct rig *r, uint16_t *ret_port)
{
	int fd = sock(r);

	address(r, 0);
	assert_return_code(bind(fd, &r->addr.sa, r->len), errno);
	if (r->proto == SK_TCP)
		assert_return_code(listen(fd, 10), errno);
	assert_return_code(getsockname(fd, &r->addr.sa, &r->len), errno);
	*ret_port = ntohs(r->addr.v4.sin_port);	/* lies at the same place in both */
	return fd;
}

/* A listener whose port leads to TARGET; its index */
static int open_to(struct rig *r, uint16_t target, uint16_t *ret_port)
{
	static const uint8_t any[16];
	struct sk_listen l = { .proto = r->proto, .ifname = "lo", .addr.a = r->v6 ? inaddr_v6(any) : inaddr_v4(any) };
	struct splice_listen sl = { .proto = r->proto, .port = target, .h = -1 };

	for (int i = 0; sl.h < 0 && i < 10; i++) {
		close(server(r, &l.addr.port));
		sl.h = sk_host_listen(&r->sk, &l, splice_listener_ref(&r->s));
	}
	assert_true(sl.h >= 0);
	*ret_port = l.addr.port;
	return splice_listener_add(&r->s, &sl);
}

static int client(struct rig *r, uint16_t port)
{
	int fd = sock(r);

	address(r, port);
	if (connect(fd, &r->addr.sa, r->len) && errno != EINPROGRESS)
		fail_msg("connect: %s", strerror(errno));
	return fd;
}

static bool is_refused(struct rig *r, uint16_t port)
{
	int fd = socket(r->v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0), err = 0;	/* the kernel answers at once */

	address(r, port);
	if (connect(fd, &r->addr.sa, r->len))
		err = errno;
	close(fd);
	return err == ECONNREFUSED;
}

static struct rig *rig_open(bool v6, enum sk_proto proto)
{
	struct splice_settings set = { .key = { { 1, 2 } }, .timeout_oneway = 30 * NS_S, .timeout_stream = 120 * NS_S };
	const struct sk_host_settings none = { .no_peek_off = false };
	struct rig *r = calloc(1, sizeof(*r));
	struct err e;

	assert_non_null(r);
	r->v6 = v6;
	r->proto = proto;
	assert_int_equal(ev_epoll_open(&r->ev, &e), 0);
	assert_int_equal(sk_host_open(&r->sk, r->ev, &none, &e), 0);
	set.sk = &r->sk;
	assert_int_equal(splice_open(&r->s, &set, NS_S, &e), 0);
	return r;
}

static void rig_close(struct rig *r)
{
	splice_close(&r->s);
	r->ev->ops->close(r->ev);
	free(r);
}

/* FWD-8: what was connected goes on, the port is free at once; the next listener takes the place, not the old one's events */
static void tcp(bool v6)
{
	struct rig *r = rig_open(v6, SK_TCP);
	uint16_t target, port[3];
	int srv = server(r, &target), idx[3], c, s;
	struct ev_hit old;
	char buf[8];

	for (int i = 0; i < 2; i++)
		idx[i] = open_to(r, target, &port[i]);
	assert_true(idx[0] == 0 && idx[1] == 1);
	c = client(r, port[0]);
	UNTIL(r, (s = accept4(srv, NULL, NULL, SOCK_NONBLOCK)) >= 0);
	old = r->last;
	splice_listener_close(&r->s, 0);
	splice_listener_close(&r->s, 0);	/* once is enough */
	assert_true(is_refused(r, port[0]));
	assert_false(is_refused(r, port[1]));
	splice_event(&r->s, &old, NS_S);	/* nobody's */
	assert_int_equal(send(c, "1", 1, 0), 1);
	UNTIL(r, recv(s, buf, 8, 0) == 1);
	assert_int_equal(send(s, "2", 1, 0), 1);
	UNTIL(r, recv(c, buf, 8, 0) == 1);

	idx[2] = open_to(r, target, &port[2]);
	assert_int_equal(idx[2], 0);
	assert_true(splice_listener_ref(&r->s).idx != old.ref.idx);
	close(client(r, port[2]));
	UNTIL(r, r->last.ref.idx == old.ref.idx && r->last.ref.gen != old.ref.gen);
	assert_int_equal(send(c, "3", 1, 0), 1);
	UNTIL(r, recv(s, buf, 8, 0) == 1);
	close(c);
	close(s);
	close(srv);
	rig_close(r);
}

/* Replies leave through the listener: its flows end with it, those of others don't */
static void udp(bool v6)
{
	struct rig *r = rig_open(v6, SK_UDP);
	uint16_t target, port[2];
	int srv = server(r, &target), c[2];
	char buf[8];

	for (int i = 0; i < 2; i++) {
		open_to(r, target, &port[i]);
		c[i] = client(r, port[i]);
		assert_int_equal(send(c[i], "1", 1, 0), 1);
		UNTIL(r, recv(srv, buf, 8, 0) == 1);
	}
	assert_int_equal(r->s.cnt[SK_UDP], 2);
	splice_listener_close(&r->s, 0);
	assert_int_equal(r->s.cnt[SK_UDP], 1);
	assert_int_equal(send(c[1], "2", 1, 0), 1);
	UNTIL(r, recv(srv, buf, 8, 0) == 1);
	assert_int_equal(open_to(r, target, &port[0]), 0);
	close(c[0]);
	c[0] = client(r, port[0]);
	assert_int_equal(send(c[0], "3", 1, 0), 1);
	UNTIL(r, recv(srv, buf, 8, 0) == 1);
	assert_int_equal(r->s.cnt[SK_UDP], 2);
	for (int i = 0; i < 2; i++)
		close(c[i]);
	close(srv);
	rig_close(r);
}

static void test_tcp(void **state)
{
	(void)state;
	tcp(false);
	tcp(true);
}

static void test_udp(void **state)
{
	(void)state;
	udp(false);
	udp(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),
		cmocka_unit_test(test_udp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
