/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced TCP: data, ends, errors, shortage.
 */
#include "rig_splice.h"

#define BULK		(64ull << 20)

struct stream {				/* test data from one socket to another */
	int from, to;
	size_t step;			/* bytes that the reader takes at a time */
	uint64_t sent, got, len;
	bool shut, end;
	size_t piece;			/* bytes that the writer sends at a time, 0: CHUNK */
};

static void stream_send(struct rig *r, struct stream *t)
{
	size_t len = BYTES_MIN(t->len - t->sent, (uint64_t)(t->piece ? t->piece : CHUNK));
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
	struct stream up = { c, s, 16 << 10, 0, 0, BULK, false, false, 0 }, down = { s, c, CHUNK, 0, 0, BULK, false, false, 0 };
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

/* While the reader sleeps and the way to it is full, what the writer sends wakes nobody; then all of it comes */
static void reader_sleeps(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);
	struct stream t = { c, s, CHUNK, 0, 0, BULK, false, false, 16 << 10 }, none = { s, c, CHUNK, 0, 0, 0, false, false, 0 };
	uint64_t before, moved;
	int events = 0;

	do {
		before = t.sent;
		moved = r->s.stats.bytes[r->front];
		stream_send(r, &t);
		for (int n, calm = 0; calm < 3; calm = n ? 0 : calm + 1) {
			n = turn(r);
			events += n;
		}
		if (r->s.stats.bytes[r->front] > moved)
			events = 0;
	} while (t.sent > before);
	assert_in_range(events, 0, 1);
	r->busy = true;
	UNTIL(r, streams_done(r, &t, &none));
	assert_int_equal(t.got, BULK);
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
		struct stream t = { y, x, CHUNK, 0, 0, 1 << 20, false, false, 0 };

		put(r, x, "hello", 5);
		assert_return_code(shutdown(x, SHUT_WR), errno);
		expect(r, y, "hello", 5);
		expect_end(r, y);
		quiet(r);
		assert_int_equal(r->s.cnt[SK_TCP], 1);
		/* towards the guest what is missing is no loss of the guest's */
		assert_int_equal(splice_draining(&r->s), first == (r->front == SPLICE_GUEST));
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
		struct stream t = { x, y, CHUNK, 0, 0, BULK, false, false, 0 };

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

/* Nobody listens where the client asks, but at the other family's address: that answers, and nothing of what was sent early
 * is lost
 */
static void other_family(int mode)
{
	struct rig *r = rig_open(mode, SK_TCP);
	const int other = r->af == AF_INET ? AF_INET6 : AF_INET;
	int c, s;

	close(r->server);
	server_open(r, other);
	c = client(r, SOCK_STREAM);
	put(r, c, "early", 5);
	s = served(r);
	expect(r, s, "early", 5);
	put(r, s, "answer", 6);
	close(s);
	expect(r, c, "answer", 6);
	expect_end(r, c);
	close(c);
	no_flows(r);
	assert_int_equal(r->s.stats.refused[SPLICE_REFUSE_CONNECT], 0);
	rig_close(r);
}

/* More at once than there are sockets in stock: they wait, and all get one; also if there is a limit of descriptors */
static void stock_empty(int af)
{
	enum { N = 3 * SK_NS_STOCK };
	struct rig *r = rig_open(af | INTO, SK_TCP);
	int c[N], s[N];

	for (unsigned i = 0; i < N; i++) {
		c[i] = client(r, SOCK_STREAM);
		put(r, c[i], &i, sizeof(i));
	}
	UNTIL(r, r->s.cnt[SK_TCP] == N);
	for (unsigned i = 0; i < N; i++) {
		unsigned got;

		s[i] = served(r);
		UNTIL(r, recv(s[i], &got, sizeof(got), 0) == sizeof(got));
		assert_true(got < N);
		close(s[i]);
	}
	for (unsigned i = 0; i < N; i++) {
		expect_end(r, c[i]);
		close(c[i]);
	}
	no_flows(r);
	assert_int_equal(r->s.wait_cnt, 0);
	rig_close(r);
}

/* No sockets to be had any more: who waits is reset, and so is who comes */
static void inside_gone(int af)
{
	struct rig *r = rig_open(af | INTO, SK_TCP);
	int c = client(r, SOCK_STREAM);

	kill(r->pid, SIGKILL);
	expect_reset(r, c);
	close(c);
	c = client(r, SOCK_STREAM);
	expect_reset(r, c);
	close(c);
	no_flows(r);
	assert_int_equal(r->s.wait_cnt, 0);
	rig_close(r);
}

/* A client that gives up while it waits leaves nothing behind */
static void gives_up_waiting(int af)
{
	struct rig *r = rig_open(af | INTO, SK_TCP);
	int c, s;

	kill(r->pid, SIGSTOP);
	c = client(r, SOCK_STREAM);
	UNTIL(r, r->s.wait_cnt == 1);
	reset(c);
	UNTIL(r, !r->s.cnt[SK_TCP]);
	c = client(r, SOCK_STREAM);
	UNTIL(r, r->s.wait_cnt == 1 && r->s.cnt[SK_TCP] == 1);
	kill(r->pid, SIGCONT);
	s = served(r);
	assert_int_equal(r->s.wait_cnt, 0);
	close(s);
	expect_end(r, c);
	close(c);
	no_flows(r);
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
		sa.sin_addr.s_addr = r->front_sa.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
		assert_return_code(bind(l, (struct sockaddr *)&sa, len), errno);
		assert_return_code(bind(c, (struct sockaddr *)&me, len), errno);
		if (proto == SK_TCP)
			assert_return_code(listen(l, 1), errno);
		if (connect(c, &r->front_sa.sa, r->len))
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

static void test_addresses(void **state)
{
	(void)state;
	addresses(SK_TCP);
	addresses(SK_UDP);
}

static uint64_t take_all(struct rig *r, int fd)
{
	uint64_t got = 0;
	ssize_t n;

	while ((n = recv(fd, r->buf, CHUNK, 0)) > 0)
		got += (uint64_t)n;
	return got;
}

/* SPL-9: a long run of pieces is woken for only when several have come, but what comes after a pause is not held back for
 * longer than that takes to notice; and then no more
 */
static void long_run(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);
	uint64_t sent = 0, got = 0;

	r->busy = true;
	while (splice_next(&r->s) == NS_NEVER || !splice_next(&r->s)) {
		ssize_t n = send(c, r->pattern, CHUNK / 4, MSG_NOSIGNAL);

		assert_true(sent < 1ull << 30);
		sent += n > 0 ? (uint64_t)n : 0;
		turn(r);
		got += take_all(r, s);
	}
	assert_true(sent > BULK);
	UNTIL(r, (r->now += NS_MS, got += take_all(r, s), got == sent));
	UNTIL(r, (r->now += NS_MS, splice_next(&r->s) == NS_NEVER));
	r->busy = false;
	put(r, c, "x", 1);
	expect(r, s, "x", 1);
	close(c);
	expect_end(r, s);
	close(s);
	no_flows(r);
	rig_close(r);
}

/* FLOW-7: only with the trace on */
static void traced(int af)
{
	struct rig *r = rig_open(af, SK_TCP);
	int c = client(r, SOCK_STREAM), s = served(r);
	uint16_t port;

	assert_int_equal(r->trace.head, 0);
	close(c);
	expect_end(r, s);
	close(s);
	no_flows(r);
	r->trace.on = true;
	c = client(r, SOCK_STREAM);
	s = served(r);
	port = port_of(c);
	put(r, s, "x", 1);
	expect(r, c, "x", 1);
	traced_once(r, port, true);
	close(c);
	expect_end(r, s);
	close(s);
	no_flows(r);
	traced_once(r, port, false);
	rig_close(r);
}

#define BOTH_LIST(X) X(pingpong) X(bulk) X(reader_sleeps) X(half_close) X(refused) X(peer_reset) X(reset_behind_answer) X(urgent) X(many) \
	X(other_family) X(long_run) X(traced)
#define IN_BOTH_LIST(X) X(exhausted) X(stock_empty) X(inside_gone) X(gives_up_waiting)
BOTH_LIST(BOTH)
IN_BOTH_LIST(IN_BOTH)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH_LIST(TESTS)
		BOTH_LIST(INTO_TESTS)
		IN_BOTH_LIST(TESTS)
		cmocka_unit_test(test_addresses),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
