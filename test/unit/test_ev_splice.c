/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced flows on real sockets over loopback: client, splice and server live in
 * this one thread, so that each step waits for a condition. Time is a number of
 * the rig's.
 */
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "ev/ev.h"
#include "host/splice.h"

#define LIMIT_S		60		/* a step that has not happened by then will not */
#define PERIOD		65521u		/* of the test data: no power of two, so that a shift shows */
#define CHUNK		(256u << 10)
#define BULK		(64ull << 20)

struct rig {
	struct ev *ev;
	struct sk_host sk;
	struct splice s;
	ns_t now;
	bool busy;			/* the test itself has work: don't wait for events */
	int af;
	int server;			/* listens at the target */
	union { struct sockaddr sa; struct sockaddr_in v4; struct sockaddr_in6 v6; } front, back;
	socklen_t len;
	uint8_t pattern[PERIOD + CHUNK], buf[CHUNK];
};

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* One turn of a loop: how many events there were */
static int turn(struct rig *r)
{
	struct ev_hit hit[64];
	int n = r->ev->ops->wait(r->ev, hit, 64, 0, splice_next(&r->s) && !r->busy ? NS_MS : 0);

	assert_true(n >= 0);
	for (int i = 0; i < n; i++) {
		assert_int_equal(hit[i].ref.kind, EV_KIND_SPLICE);
		splice_event(&r->s, &hit[i], r->now);
	}
	splice_tick(&r->s, r->now);
	if (r->s.flow_gone) {
		r->s.flow_gone = false;
		splice_resume(&r->s);
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

static int sock(const struct rig *r, int type)
{
	int fd = socket(r->af, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in6 sa;		/* the port lies at the same place in both */
	socklen_t len = sizeof(sa);

	assert_return_code(getsockname(fd, (struct sockaddr *)&sa, &len), errno);
	return ntohs(sa.sin6_port);
}

static void address(struct rig *r, struct sockaddr *sa, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT };

	r->len = r->af == AF_INET ? sizeof(v4) : sizeof(v6);
	memcpy(sa, r->af == AF_INET ? (void *)&v4 : (void *)&v6, r->len);
}

/* A server, and a port bound to the loopback interface that leads to it */
static struct rig *rig_open(int af, enum sk_proto proto)
{
	static const uint8_t any[16];
	struct sk_listen l = { .proto = proto, .ifname = "lo", .addr.a = af == AF_INET ? inaddr_v4(any) : inaddr_v6(any) };
	struct splice_listen sl = { .proto = proto, .h = -1 };
	struct splice_settings set = { .key = { { 1, 2 } }, .timeout_oneway = 30 * NS_S, .timeout_stream = 120 * NS_S };
	const struct sk_host_settings none = { .no_peek_off = false };
	struct rig *r = calloc(1, sizeof(*r));
	struct err e;

	assert_non_null(r);
	r->af = af;
	r->now = 1000 * NS_S;
	for (unsigned i = 0; i < sizeof(r->pattern); i++)
		r->pattern[i] = (uint8_t)(i % PERIOD * 2654435761u >> 13);
	assert_int_equal(ev_epoll_open(&r->ev, &e), 0);
	assert_int_equal(sk_host_open(&r->sk, r->ev, &none, &e), 0);
	set.sk = &r->sk;
	assert_int_equal(splice_open(&r->s, &set, r->now, &e), 0);

	r->server = sock(r, proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM);
	address(r, &r->back.sa, 0);
	assert_return_code(bind(r->server, &r->back.sa, r->len), errno);
	if (proto == SK_TCP)
		assert_return_code(listen(r->server, 1000), errno);
	sl.port = port_of(r->server);
	for (int i = 0; sl.h < 0 && i < 10; i++) {	/* a free port: it must be named, but somebody may be faster */
		int fd = sock(r, proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM);

		address(r, &r->front.sa, 0);
		assert_return_code(bind(fd, &r->front.sa, r->len), errno);
		l.addr.port = port_of(fd);
		close(fd);
		sl.h = sk_host_listen(&r->sk, &l, splice_listener_ref(&r->s));
	}
	assert_true(sl.h >= 0);
	assert_int_equal(splice_listener_add(&r->s, &sl), 0);
	address(r, &r->front.sa, port_of(sl.h));
	return r;
}

static void rig_close(struct rig *r)
{
	splice_close(&r->s);
	if (r->server >= 0)
		close(r->server);
	r->ev->ops->close(r->ev);
	free(r);
}

static int client(const struct rig *r, int type)
{
	int fd = sock(r, type);

	if (connect(fd, &r->front.sa, r->len))
		assert_int_equal(errno, EINPROGRESS);
	return fd;
}

/* The server's end of the next connection */
static int served(struct rig *r)
{
	int fd;

	UNTIL(r, (fd = accept4(r->server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	return fd;
}

static void put(struct rig *r, int fd, const void *p, size_t len)
{
	ssize_t n;

	UNTIL(r, (n = send(fd, p, len, MSG_NOSIGNAL)) >= 0 || errno != EAGAIN);
	assert_int_equal(n, len);
}

static void expect(struct rig *r, int fd, const void *p, size_t len)
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

static void expect_end(struct rig *r, int fd)
{
	ssize_t n;

	UNTIL(r, (n = recv(fd, r->buf, sizeof(r->buf), 0)) >= 0 || errno != EAGAIN);
	assert_int_equal(n, 0);
}

static void expect_reset(struct rig *r, int fd)
{
	UNTIL(r, recv(fd, r->buf, CHUNK, 0) < 0 && errno != EAGAIN);
	assert_int_equal(errno, ECONNRESET);
}

static void reset(int fd)
{
	const struct linger now = { 1, 0 };

	assert_return_code(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), errno);
	close(fd);
}

struct stream {				/* test data from one socket to another */
	int from, to;
	size_t step;			/* bytes that the reader takes at a time */
	uint64_t sent, got, len;
	bool shut, end;
};

static void stream_send(struct rig *r, struct stream *t)
{
	size_t len = BYTES_MIN(t->len - t->sent, (uint64_t)CHUNK);
	ssize_t n = len ? send(t->from, r->pattern + t->sent % PERIOD, len, MSG_NOSIGNAL) : 0;

	if (n < 0)
		assert_int_equal(errno, EAGAIN);
	else
		t->sent += (uint64_t)n;
	if (t->sent == t->len && !t->shut) {
		assert_return_code(shutdown(t->from, SHUT_WR), errno);
		t->shut = true;
	}
}

static void stream_recv(struct rig *r, struct stream *t)
{
	ssize_t n = recv(t->to, r->buf, t->step, 0);

	if (n < 0) {
		assert_int_equal(errno, EAGAIN);
		return;
	}
	assert_memory_equal(r->buf, r->pattern + t->got % PERIOD, (size_t)n);
	t->got += (uint64_t)n;
	t->end |= !n;
}

static bool streams_done(struct rig *r, struct stream *a, struct stream *b)
{
	stream_send(r, a);
	stream_send(r, b);
	stream_recv(r, a);
	stream_recv(r, b);
	return a->end && b->end;
}

static void no_flows(struct rig *r)
{
	UNTIL(r, !r->s.cnt[SK_TCP]);
	assert_int_equal(splice_next(&r->s), NS_NEVER);
	assert_false(splice_draining(&r->s));
}

/* Nothing is reported while nothing happens */
static void quiet(struct rig *r)
{
	double end = seconds() + LIMIT_S;
	int calm = 0;

	while (calm < 20 && seconds() < end)
		calm = turn(r) ? 0 : calm + 1;
	assert_int_equal(calm, 20);
}

static void pingpong(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);

	for (unsigned i = 0; i < 1000; i++) {
		uint8_t b = (uint8_t)i;

		put(r, c, &b, 1);
		expect(r, s, &b, 1);
		b ^= 0xff;
		put(r, s, &b, 1);
		expect(r, c, &b, 1);
	}
	quiet(r);
	assert_int_equal(r->s.pool_cnt, 1);	/* one pipe was enough for both ways, and is free again */
	assert_int_equal(r->s.stats.bytes[SPLICE_GUEST], 1000);
	assert_int_equal(r->s.stats.bytes[SPLICE_HOST], 1000);
	close(c);
	expect_end(r, s);
	close(s);
	no_flows(r);
	rig_close(r);
}

/* D07: both write until nothing moves any more, then one reads fast and one slowly */
static void bulk(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);
	struct stream up = { c, s, 16 << 10, 0, 0, BULK, false, false }, down = { s, c, CHUNK, 0, 0, BULK, false, false };
	uint64_t before;

	do {
		before = up.sent + down.sent;
		for (int i = 0; i < 20; i++) {
			stream_send(r, &up);
			stream_send(r, &down);
			turn(r);
		}
	} while (up.sent + down.sent > before);
	assert_true(up.sent < BULK && down.sent < BULK);
	quiet(r);
	r->busy = true;
	UNTIL(r, streams_done(r, &up, &down));
	assert_int_equal(up.got, BULK);
	assert_int_equal(down.got, BULK);
	no_flows(r);
	close(c);
	close(s);
	rig_close(r);
}

/* D18: one side ends first and still gets all that the other one has to say. D11: waiting for that costs nothing. */
static void half_close(int af)
{
	struct rig *r = rig_open(af, SK_TCP);

	for (int first = 0; first < 2; first++) {
		int c = client(r, SOCK_STREAM), s = served(r);
		int x = first ? s : c, y = first ? c : s;
		struct stream t = { y, x, CHUNK, 0, 0, 1 << 20, false, false };

		put(r, x, "hello", 5);
		assert_return_code(shutdown(x, SHUT_WR), errno);
		expect(r, y, "hello", 5);
		expect_end(r, y);
		quiet(r);
		assert_int_equal(r->s.cnt[SK_TCP], 1);
		assert_int_equal(splice_draining(&r->s), first);
		UNTIL(r, (stream_send(r, &t), stream_recv(r, &t), t.end));
		assert_int_equal(t.got, 1 << 20);
		no_flows(r);
		close(c);
		close(s);
	}
	rig_close(r);
}

static void refused(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c;

	close(r->server);
	r->server = -1;
	c = client(r, SOCK_STREAM);
	expect_reset(r, c);
	assert_int_equal(r->s.stats.refused[SPLICE_REFUSE_CONNECT], 1);
	no_flows(r);
	close(c);
	rig_close(r);
}

static void peer_reset(int af)
{
	struct rig *r = rig_open(af, SK_TCP);

	for (int who = 0; who < 2; who++) {
		int c = client(r, SOCK_STREAM), s = served(r);
		int x = who ? s : c, y = who ? c : s;
		struct stream t = { x, y, CHUNK, 0, 0, BULK, false, false };

		UNTIL(r, (stream_send(r, &t), stream_recv(r, &t), t.got > 4 << 20));
		reset(x);
		expect_reset(r, y);
		close(y);
		no_flows(r);
	}
	rig_close(r);
}

/* A server that answers and resets before it has read the request: the answer arrives */
static void reset_behind_answer(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);

	put(r, c, "request", 7);
	quiet(r);
	assert_int_equal(send(s, "answer", 6, 0), 6);
	close(s);			/* with unread data: RST */
	expect(r, c, "answer", 6);
	expect_reset(r, c);
	no_flows(r);
	close(c);
	rig_close(r);
}

/* splice(2) stops at urgent data: it must come through nevertheless, in order, alone and with the end behind it */
static void urgent(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r), on = 1;

	assert_return_code(setsockopt(s, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)), errno);
	put(r, c, "ab", 2);
	assert_int_equal(send(c, "c", 1, MSG_OOB), 1);
	put(r, c, "d", 1);
	expect(r, s, "abcd", 4);
	assert_int_equal(send(c, "e", 1, MSG_OOB), 1);
	expect(r, s, "e", 1);
	put(r, c, "fg", 2);
	assert_int_equal(send(c, "h", 1, MSG_OOB), 1);
	close(c);
	expect(r, s, "fgh", 3);
	expect_end(r, s);
	close(s);
	no_flows(r);
	rig_close(r);
}

static void many(int af)
{
	enum { N = 500 };
	struct rig *r = rig_open(af, SK_TCP);
	int c[N], s[N];

	for (unsigned i = 0; i < N; i++) {
		c[i] = client(r, SOCK_STREAM);
		put(r, c[i], &i, sizeof(i));
	}
	for (unsigned i = 0; i < N; i++) {
		unsigned got;

		s[i] = served(r);
		UNTIL(r, recv(s[i], &got, sizeof(got), 0) == sizeof(got));
		put(r, s[i], &got, sizeof(got));
	}
	assert_int_equal(r->s.cnt[SK_TCP], N);
	for (unsigned i = 0; i < N; i++) {
		expect(r, c[i], &i, sizeof(i));
		close(c[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		expect_end(r, s[i]);
		close(s[i]);
	}
	no_flows(r);
	assert_true(r->s.fresh <= N);
	rig_close(r);
}

/* Descriptors for a few connections, none for pipes: these work, the others wait without a storm and get their turn */
static void exhausted(int af)
{
	enum { N = 20, SLOTS = 11 };
	struct rig *r = rig_open(af, SK_TCP);
	struct rlimit all, few;
	int c[N], s[N], top;
	bool open[N];

	for (unsigned i = 0; i < N; i++) {
		c[i] = client(r, SOCK_STREAM);
		put(r, c[i], &i, sizeof(i));
		s[i] = -1;
		open[i] = true;
	}
	top = dup(r->server);
	close(top);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &all), errno);
	few = all;
	few.rlim_cur = (rlim_t)top + SLOTS;
	for (unsigned done = 0, next = 0; done < N;) {
		/* the limit is splice's alone: our own descriptors lie above it */
		assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
		quiet(r);
		assert_return_code(setrlimit(RLIMIT_NOFILE, &all), errno);
		if (!done) {
			assert_int_equal(r->s.cnt[SK_TCP], SLOTS / 2);
			assert_true(r->s.stats.refused[SPLICE_REFUSE_NO_DESCRIPTOR] >= 1);
			assert_int_equal(r->s.pool_cnt, 0);
		}
		for (int fd; (fd = accept4(r->server, NULL, NULL, SOCK_CLOEXEC)) >= 0; next++) {
			s[next] = fcntl(fd, F_DUPFD_CLOEXEC, top + 200);
			assert_true(s[next] >= 0);
			close(fd);
		}
		for (unsigned i = done; i < next; i++) {
			unsigned got;

			assert_int_equal(recv(s[i], &got, sizeof(got), 0), sizeof(got));
			assert_true(got < N && open[got]);
			open[got] = false;
			close(c[got]);
			close(s[i]);
		}
		assert_true(next > done);
		done = next;
	}
	no_flows(r);
	rig_close(r);
}

static void udp_sizes(int af)
{
	static const size_t size[] = { 0, 1, 1200, 8192, 65000 };
	struct rig *r = rig_open(af, SK_UDP);
	int c = client(r, SOCK_DGRAM);
	struct sockaddr_storage from;

	for (unsigned i = 0; i < BYTES_COUNT(size); i++) {
		socklen_t len = sizeof(from);
		ssize_t n;

		put(r, c, r->pattern, size[i]);
		UNTIL(r, (n = recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len)) >= 0);
		assert_int_equal(n, size[i]);
		assert_memory_equal(r->buf, r->pattern, size[i]);
		assert_int_equal(sendto(r->server, r->buf, (size_t)n, 0, (struct sockaddr *)&from, len), n);
		UNTIL(r, (n = recv(c, r->buf, CHUNK, 0)) >= 0);
		assert_int_equal(n, size[i]);
	}
	assert_int_equal(r->s.stats.flows[SK_UDP], 1);
	close(c);
	rig_close(r);
}

/* 127.0.0.5 is 127.0.0.5 on the other side, the client's own address too; answers come from the address that was asked,
 * since the connected clients would not see others
 */
static void addresses(enum sk_proto proto)
{
	struct rig *r = rig_open(AF_INET, proto);
	const int type = proto == SK_TCP ? SOCK_STREAM : SOCK_DGRAM;

	for (unsigned i = 5; i < 9; i++) {
		struct sockaddr_in sa = r->back.v4, me = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 100 + i) };
		socklen_t len = sizeof(sa);
		int l = sock(r, type), c = sock(r, type), s = l;

		sa.sin_port = htons(port_of(r->server));
		sa.sin_addr.s_addr = r->front.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
		assert_return_code(bind(l, (struct sockaddr *)&sa, len), errno);
		assert_return_code(bind(c, (struct sockaddr *)&me, len), errno);
		if (proto == SK_TCP)
			assert_return_code(listen(l, 1), errno);
		if (connect(c, &r->front.sa, r->len))
			assert_int_equal(errno, EINPROGRESS);
		if (proto == SK_TCP)
			UNTIL(r, (s = accept4(l, (struct sockaddr *)&sa, &len, SOCK_NONBLOCK)) >= 0);
		put(r, c, "ask", 3);
		UNTIL(r, recv(s, r->buf, CHUNK, MSG_PEEK) == 3);
		if (proto == SK_UDP)
			assert_int_equal(recvfrom(s, r->buf, CHUNK, 0, (struct sockaddr *)&sa, &len), 3);
		assert_int_equal(sa.sin_addr.s_addr, me.sin_addr.s_addr);
		assert_int_equal(sendto(s, "answer", 6, 0, proto == SK_UDP ? (struct sockaddr *)&sa : NULL, proto == SK_UDP ? len : 0), 6);
		expect(r, c, "answer", 6);
		close(c);
		close(l);
		if (s != l)
			close(s);
	}
	rig_close(r);
}

static void udp_timeouts(int af)
{
	struct rig *r = rig_open(af, SK_UDP);
	int c = client(r, SOCK_DGRAM);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	put(r, c, "1", 1);
	UNTIL(r, recv(r->server, r->buf, CHUNK, 0) == 1);
	assert_true(splice_next(&r->s) <= r->now + 30 * NS_S);
	r->now += 29 * NS_S;
	turn(r);
	assert_int_equal(r->s.cnt[SK_UDP], 1);
	r->now += 2 * NS_S;
	turn(r);
	assert_int_equal(r->s.cnt[SK_UDP], 0);
	assert_int_equal(splice_next(&r->s), NS_NEVER);

	/* the same client again; any datagram refreshes, and both ways it is a stream */
	for (int i = 0; i < 2; i++) {
		put(r, c, "2", 1);
		UNTIL(r, recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len) == 1);
		r->now += 20 * NS_S;
		turn(r);
	}
	assert_int_equal(r->s.cnt[SK_UDP], 1);
	assert_int_equal(sendto(r->server, "3", 1, 0, (struct sockaddr *)&from, len), 1);
	expect(r, c, "3", 1);
	r->now += 119 * NS_S;
	turn(r);
	assert_int_equal(r->s.cnt[SK_UDP], 1);
	r->now += 2 * NS_S;
	turn(r);
	assert_int_equal(r->s.cnt[SK_UDP], 0);
	assert_int_equal(r->s.stats.flows[SK_UDP], 2);
	close(c);
	rig_close(r);
}

/* A closed port on the host, and a client that has gone: counted, and no storm of error events */
static void udp_errors(int af)
{
	struct rig *r = rig_open(af, SK_UDP);
	int c = client(r, SOCK_DGRAM);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	put(r, c, "1", 1);
	UNTIL(r, recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len) == 1);
	close(c);
	assert_int_equal(sendto(r->server, "2", 1, 0, (struct sockaddr *)&from, len), 1);
	UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 1);
	quiet(r);
	close(r->server);
	r->server = -1;
	c = client(r, SOCK_DGRAM);
	put(r, c, "3", 1);
	UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 2);
	quiet(r);
	close(c);
	rig_close(r);
}

/* Clients by the hundred, and datagrams of several of them in one batch */
static void udp_many(int af)
{
	enum { N = 300, GROUP = 50 };	/* a group fits into every receive buffer */
	struct rig *r = rig_open(af, SK_UDP);
	struct sockaddr_storage from;
	int c[N];

	for (unsigned g = 0; g < N; g += GROUP) {
		for (unsigned i = g; i < g + GROUP; i++) {
			c[i] = client(r, SOCK_DGRAM);
			put(r, c[i], &i, sizeof(i));
		}
		for (unsigned i = 0, got; i < GROUP; i++) {
			socklen_t len = sizeof(from);

			UNTIL(r, recvfrom(r->server, &got, sizeof(got), 0, (struct sockaddr *)&from, &len) == sizeof(got));
			assert_int_equal(sendto(r->server, &got, sizeof(got), 0, (struct sockaddr *)&from, len), sizeof(got));
		}
	}
	for (unsigned i = 0; i < N; i++) {
		expect(r, c[i], &i, sizeof(i));
		close(c[i]);
	}
	assert_int_equal(r->s.cnt[SK_UDP], N);
	r->now += 31 * NS_S;
	turn(r);
	assert_int_equal(r->s.cnt[SK_UDP], 0);
	rig_close(r);
}

static void test_addresses(void **state)
{
	(void)state;
	addresses(SK_TCP);
	addresses(SK_UDP);
}

#define BOTH(name) \
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
#define BOTH_LIST(X) X(pingpong) X(bulk) X(half_close) X(refused) X(peer_reset) X(reset_behind_answer) X(urgent) X(many) \
	X(exhausted) X(udp_sizes) X(udp_timeouts) X(udp_errors) X(udp_many)
BOTH_LIST(BOTH)

int main(void)
{
#define TESTS(name) cmocka_unit_test(test_##name##_v4), cmocka_unit_test(test_##name##_v6),
	const struct CMUnitTest tests[] = {
		BOTH_LIST(TESTS)
		cmocka_unit_test(test_addresses),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
