/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced flows on real sockets over loopback: client, splice and server live in
 * this one thread, so that each step waits for a condition. Time is a number of
 * the rig's. Both directions get the same tests: out of the namespace, and into
 * it, with sockets from another process (which are of our own namespace).
 */
#ifndef RIG_SPLICE_H
#define RIG_SPLICE_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "ev/ev.h"
#include "host/sk_ns.h"
#include "host/splice.h"

#define LIMIT_S		60		/* a step that has not happened by then will not */
#define PERIOD		65521u		/* of the test data: no power of two, so that a shift shows */
#define CHUNK		(256u << 10)

#define INTO		0x100		/* with a family: flows into the namespace */

struct rig {
	struct ev *ev;
	struct sk_host sk, inside;
	struct sk_ns ns;
	pid_t pid;			/* who makes sockets */
	bool news;
	struct splice s;
	struct trace trace;		/* off */
	enum splice_side front, back_side;
	int listener;			/* the caller's, of flows into the namespace */
	struct splice_way way;
	ns_t now;
	bool busy;			/* the test itself has work: don't wait for events */
	int af;
	enum sk_proto proto;
	int server;			/* listens at the target */
	union { struct sockaddr sa; struct sockaddr_in v4; struct sockaddr_in6 v6; } front_sa, back;
	socklen_t len;
	uint8_t pattern[PERIOD + CHUNK], buf[CHUNK];
};

static inline double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What the caller of splice does with its listener */
static inline void accept_all(struct rig *r)
{
	struct sk *sk = &r->sk.sk;
	struct sk_addr peer;
	int h;

	while (splice_takes(&r->s) && (h = sk->ops->accept(sk, r->listener, &peer, NULL)) >= 0)
		splice_accepted(&r->s, h, &r->way);
}

static inline void receive_some(struct rig *r)
{
	struct sk_dgram d = { .iov = { { r->buf, CHUNK } }, .iov_cnt = 1 };
	struct sk_err e;

	for (int k = SK_NS_UDP4; k <= SK_NS_UDP6; k++) {
		sk_ns_want(&r->ns, (enum sk_ns_kind)k);
		if (!sk_ns_stock(&r->ns, (enum sk_ns_kind)k))
			return;		/* reported again: EV_LEVEL */
	}
	if (!r->sk.sk.ops->recv_err(&r->sk.sk, r->listener, &e, r->buf, CHUNK))
		r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR]++;
	if (r->sk.sk.ops->recv_dgrams(&r->sk.sk, r->listener, &d, 1) != 1)
		return;
	splice_dgrams(&r->s, r->listener, &d, 1, &r->way);
}

static inline void event(struct rig *r, const struct ev_hit *hit)
{
	if (hit->ref.kind == EV_KIND_SPLICE) {
		splice_event(&r->s, hit, r->now);
	} else if (hit->ref.kind == EV_KIND_NS) {
		sk_ns_event(&r->ns);
		r->news = true;
	} else {
		assert_int_equal(hit->ref.kind, EV_KIND_LISTEN);
		if (r->proto == SK_TCP)
			accept_all(r);
		else
			receive_some(r);
	}
}

/* One turn of a loop: how many events there were */
static inline int turn(struct rig *r)
{
	struct ev_hit hit[64];
	int n = r->ev->ops->wait(r->ev, hit, 64, 0, splice_next(&r->s) && !r->busy ? NS_MS : 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++)
		event(r, &hit[i]);
	splice_tick(&r->s, r->now);
	if (r->s.flow_gone || r->news) {
		if (r->s.flow_gone)
			sk_ns_retry(&r->ns);
		r->s.flow_gone = r->news = false;
		splice_resume(&r->s);
		if (r->listener >= 0 && r->proto == SK_TCP)
			accept_all(r);
	}
	return n;
}

#define UNTIL(r, cond) do { \
	double end_ = seconds() + LIMIT_S; \
	while (!(cond)) { \
		turn(r); \
		if (seconds() > end_) \
			fail_msg("not within %d s: %s", LIMIT_S, #cond); \
	} \
} while (0)

static inline int sock(const struct rig *r, int type)
{
	int fd = socket(r->af, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static inline uint16_t port_of(int fd)
{
	struct sockaddr_in6 sa;		/* the port lies at the same place in both */
	socklen_t len = sizeof(sa);

	assert_return_code(getsockname(fd, (struct sockaddr *)&sa, &len), errno);
	return ntohs(sa.sin6_port);
}

static inline void address(struct rig *r, struct sockaddr *sa, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	r->len = r->af == AF_INET ? sizeof(v4) : sizeof(v6);
	memcpy(sa, r->af == AF_INET ? (void *)&v4 : (void *)&v6, r->len);
}

/* Sockets as from inside the namespace */
static inline void inside_open(struct rig *r)
{
	struct err e;
	int fd[2];

	assert_int_equal(sk_ns_pair(fd, &e), 0);
	r->pid = fork();
	assert_true(r->pid >= 0);
	if (!r->pid) {
		close(fd[0]);
		sk_ns_serve(fd[1]);
		_exit(0);
	}
	close(fd[1]);
	sk_host_inside(&r->inside, &r->sk, &r->ns);
	assert_int_equal(sk_ns_open(&r->ns, r->ev, fd[0]), 0);
}

/* A port bound to the loopback interface that leads to the server; free: it must be named, but somebody may be faster */
static inline void listener_open(struct rig *r)
{
	static const uint8_t any[16];
	struct sk_listen l = { .proto = r->proto, .ifname = "lo", .addr.a = r->af == AF_INET ? inaddr_v4(any) : inaddr_v6(any) };
	struct splice_listen sl = { .proto = r->proto, .h = -1, .port = r->way.to.port };
	const struct ev_ref ours = { .kind = EV_KIND_LISTEN };
	const bool into = r->front == SPLICE_HOST;

	for (int i = 0; sl.h < 0 && i < 10; i++) {
		int fd = sock(r, r->proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM);

		address(r, &r->front_sa.sa, 0);
		assert_return_code(bind(fd, &r->front_sa.sa, r->len), errno);
		l.addr.port = port_of(fd);
		close(fd);
		sl.h = sk_host_listen(&r->sk, &l, into ? ours : splice_listener_ref(&r->s));
	}
	assert_true(sl.h >= 0);
	if (into)
		r->listener = sl.h;
	else
		assert_int_equal(splice_listener_add(&r->s, &sl), 0);
	address(r, &r->front_sa.sa, port_of(sl.h));
}

static inline void server_open(struct rig *r, int af)
{
	const int type = r->proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM, ours = r->af;

	r->af = af;
	r->server = sock(r, type);
	address(r, &r->back.sa, r->way.to.port);
	assert_return_code(bind(r->server, &r->back.sa, r->len), errno);
	if (r->proto == SK_TCP)
		assert_return_code(listen(r->server, 1000), errno);
	r->af = ours;
	address(r, &r->front_sa.sa, r->front_sa.sa.sa_family ? ntohs(r->front_sa.v4.sin_port) : 0);
	r->way.to.port = r->way.alt.port = port_of(r->server);
}

/* A server, and a port that leads to it */
static inline struct rig *rig_open(int mode, enum sk_proto proto)
{
	struct splice_settings set = { .key = { { 1, 2 } }, .timeout_oneway = 30 * NS_S, .timeout_stream = 120 * NS_S };
	const struct sk_host_settings none = { .no_peek_off = false };
	struct rig *r = calloc(1, sizeof(*r));
	struct err e;

	assert_non_null(r);
	r->af = mode & ~INTO;
	r->proto = proto;
	r->front = mode & INTO ? SPLICE_HOST : SPLICE_GUEST;
	r->back_side = mode & INTO ? SPLICE_GUEST : SPLICE_HOST;
	r->listener = r->server = r->ns.fd = -1;
	r->now = 1000 * NS_S;
	for (unsigned i = 0; i < sizeof(r->pattern); i++)
		r->pattern[i] = (uint8_t)(i % PERIOD * 2654435761u >> 13);
	assert_int_equal(ev_epoll_open(&r->ev, &e), 0);
	assert_int_equal(sk_host_open(&r->sk, r->ev, &none, &e), 0);
	if (mode & INTO)
		inside_open(r);
	set.sk = &r->sk;
	set.inside = &r->inside;
	set.tr = &r->trace;
	assert_int_equal(splice_open(&r->s, &set, r->now, &e), 0);
	r->way.to.a = inaddr_loopback(r->af == AF_INET);
	r->way.alt.a = inaddr_loopback(r->af != AF_INET);
	server_open(r, r->af);
	listener_open(r);
	return r;
}

static inline void rig_close(struct rig *r)
{
	splice_close(&r->s);
	sk_ns_close(&r->ns);
	if (r->pid)
		assert_int_equal(waitpid(r->pid, NULL, 0), r->pid);
	if (r->server >= 0)
		close(r->server);
	if (r->listener >= 0)
		close(r->listener);
	r->ev->ops->close(r->ev);
	free(r);
}

static inline int client(const struct rig *r, int type)
{
	int fd = sock(r, type);

	if (connect(fd, &r->front_sa.sa, r->len))
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

/* The server's end of the next connection */
static inline int served(struct rig *r)
{
	int fd;

	UNTIL(r, (fd = accept4(r->server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	return fd;
}

static inline void put(struct rig *r, int fd, const void *p, size_t len)
{
	ssize_t n;

	UNTIL(r, (n = send(fd, p, len, MSG_NOSIGNAL)) >= 0 || errno != EAGAIN);
	assert_int_equal(n, len);
}

static inline void expect(struct rig *r, int fd, const void *p, size_t len)
{
	ssize_t n;

	while (len) {
		UNTIL(r, (n = recv(fd, r->buf, BYTES_MIN(len, sizeof(r->buf)), 0)) >= 0 || errno != EAGAIN);
		if (n <= 0)
			fail_msg("%zu bytes missing: %s", len, n ? strerror(errno) : "end of stream");
		assert_memory_equal(r->buf, p, (size_t)n);
		p = (const char *)p + n;
		len -= (size_t)n;
	}
}

static inline void expect_end(struct rig *r, int fd)
{
	ssize_t n;

	UNTIL(r, (n = recv(fd, r->buf, sizeof(r->buf), 0)) >= 0 || errno != EAGAIN);
	assert_int_equal(n, 0);
}

static inline void expect_reset(struct rig *r, int fd)
{
	UNTIL(r, recv(fd, r->buf, CHUNK, 0) < 0 && errno != EAGAIN);
	assert_int_equal(errno, ECONNRESET);
}

static inline void reset(int fd)
{
	const struct linger now = { 1, 0 };

	assert_return_code(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), errno);
	close(fd);
}

static inline void no_flows(struct rig *r)
{
	UNTIL(r, !r->s.cnt[SK_TCP]);
	assert_int_equal(splice_next(&r->s), NS_NEVER);
	assert_false(splice_draining(&r->s));
}

/* FLOW-7: the latest flow was traced, the first one to be. CLIENT_PORT: of its client. */
static inline void traced_once(struct rig *r, uint16_t client_port, bool open)
{
	const struct trace_rec *t = &r->trace.rec[0];
	const struct inaddr lo = inaddr_loopback(r->af == AF_INET);
	struct splice_ends e;

	assert_int_equal(r->trace.head, 1);
	assert_true(t->opens && t->flow >= SPLICE_TRACED);
	assert_int_equal(splice_ends(&r->s, t->flow - SPLICE_TRACED, &e), open);
	if (!open)
		return;
	assert_int_equal(e.proto, r->proto);
	for (int i = 0; i < SPLICE_SIDES; i++)
		assert_true(inaddr_eq(&e.end[i].a, &lo));
	assert_int_equal(e.end[r->front].port, client_port);
	assert_int_equal(e.end[r->back_side].port, r->way.to.port);
}

/* Nothing is reported while nothing happens */
static inline void quiet(struct rig *r)
{
	double end = seconds() + LIMIT_S;
	int calm = 0;

	while (calm < 20 && seconds() < end)
		calm = turn(r) ? 0 : calm + 1;
	assert_int_equal(calm, 20);
}

/* A test of each family, and in each direction */
#define IN_BOTH(name) \
	static void test_##name##_v4(void **state) \
	{ \
		(void)state; \
		name(AF_INET); \
	} \
	static void test_##name##_v6(void **state) \
	{ \
		(void)state; \
		name(AF_INET6); \
	}
#define BOTH(name) IN_BOTH(name) \
	static void test_##name##_into_v4(void **state) \
	{ \
		(void)state; \
		name(AF_INET | INTO); \
	} \
	static void test_##name##_into_v6(void **state) \
	{ \
		(void)state; \
		name(AF_INET6 | INTO); \
	}
#define TESTS(name) cmocka_unit_test(test_##name##_v4), cmocka_unit_test(test_##name##_v6),
#define INTO_TESTS(name) cmocka_unit_test(test_##name##_into_v4), cmocka_unit_test(test_##name##_into_v6),

#endif
