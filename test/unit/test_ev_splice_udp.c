/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced UDP: sizes, time-outs, errors, many clients.
 */
#include "rig_splice.h"

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

/* FLOW-7: a flow once, whatever its datagrams */
static void udp_traced(int af)
{
	struct rig *r = rig_open(af, SK_UDP);
	int c = client(r, SOCK_DGRAM);

	r->trace.on = true;
	for (int i = 0; i < 2; i++) {
		put(r, c, "1", 1);
		UNTIL(r, recv(r->server, r->buf, CHUNK, 0) == 1);
		traced_once(r, port_of(c), true);
	}
	r->now += 31 * NS_S;
	turn(r);
	traced_once(r, port_of(c), false);
	close(c);
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
	UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 3);	/* of both families */
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

/* The same with UDP: a first datagram that the error quotes whole is not lost either, a larger one is, but not the next */
static void udp_other_family(int mode)
{
	struct rig *r = rig_open(mode, SK_UDP);
	const int other = r->af == AF_INET ? AF_INET6 : AF_INET;
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	close(r->server);
	server_open(r, other);
	for (unsigned big = 0; big < 2; big++) {
		int c = client(r, SOCK_DGRAM);

		put(r, c, r->pattern, big ? 5000 : 300);
		if (big) {
			UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 2);
			put(r, c, r->pattern, 300);
		}
		UNTIL(r, recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len) == 300);
		assert_memory_equal(r->buf, r->pattern, 300);
		assert_int_equal(sendto(r->server, "answer", 6, 0, (struct sockaddr *)&from, len), 6);
		expect(r, c, "answer", 6);
		close(c);
	}
	rig_close(r);
}

/* Nobody listens yet, on either family: the client that goes on is heard by whoever comes, on whichever of the two */
static void udp_server_comes(int mode)
{
	struct rig *r = rig_open(mode, SK_UDP);
	const int own = r->af, other = own == AF_INET ? AF_INET6 : AF_INET;

	for (unsigned n = 0; n < 4; n++) {
		int c = client(r, SOCK_DGRAM);

		close(r->server);
		r->server = -1;
		r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] = 0;
		put(r, c, "1", 1);
		UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 2);
		if (n & 2) {			/* the other way round */
			r->now += NS_S;
			put(r, c, "2", 1);
			UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == 4);
		}
		put(r, c, "3", 1);		/* too soon for another change */
		UNTIL(r, r->s.stats.refused[SPLICE_REFUSE_UDP_ERROR] == (n & 2 ? 5 : 3));
		server_open(r, n & 1 ? other : own);
		r->now += NS_S;
		put(r, c, "4", 1);
		UNTIL(r, recv(r->server, r->buf, CHUNK, 0) == 1);
		assert_int_equal(r->buf[0], '4');
		close(c);
	}
	rig_close(r);
}

static void class_set(int fd, int af, int tos)
{
	const bool v4 = af == AF_INET;

	assert_return_code(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos)), errno);
}

static void class_wanted(int fd, int af)
{
	const bool v4 = af == AF_INET;
	const int on = 1;

	assert_return_code(setsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on)), errno);
}

/* The class of the next datagram, and whom it is from */
static int class_of(struct rig *r, int fd, struct sockaddr_storage *ret_from)
{
	uint8_t ctrl[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = { r->buf, CHUNK };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1, .msg_name = ret_from, .msg_namelen = sizeof(*ret_from),
			    .msg_control = ctrl, .msg_controllen = sizeof(ctrl) };
	const struct cmsghdr *c;

	UNTIL(r, recvmsg(fd, &m, 0) >= 0);
	c = CMSG_FIRSTHDR(&m);
	return c ? *CMSG_DATA(c) : 0;	/* little endian, or one byte */
}

/* UDP-50: DSCP and congestion marks, several in one batch, both ways; of a first datagram that is sent twice as well */
static void udp_class(int mode)
{
	static const int tos[] = { 0xba, 0, 1, 2, 3, 0xb8 };
	struct rig *r = rig_open(mode, SK_UDP);
	const int af = r->af, other = af == AF_INET ? AF_INET6 : AF_INET;
	struct sockaddr_storage from, us;

	for (int same = 1; same >= 0; same--) {
		const int at = same ? af : other, c = client(r, SOCK_DGRAM);

		if (!same) {
			close(r->server);
			server_open(r, other);
		}
		class_wanted(r->server, at);
		class_wanted(c, af);
		class_set(c, af, tos[0]);
		put(r, c, "first", 5);
		assert_int_equal(class_of(r, r->server, &from), tos[0]);
		for (unsigned i = 0; i < BYTES_COUNT(tos); i++) {
			class_set(c, af, tos[i]);
			put(r, c, "there", 5);
			class_set(r->server, at, tos[i]);
			assert_int_equal(sendto(r->server, "back", 4, 0, (struct sockaddr *)&from,
						at == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)), 4);
		}
		for (unsigned i = 0; i < BYTES_COUNT(tos); i++) {
			assert_int_equal(class_of(r, r->server, &from), tos[i]);
			assert_int_equal(class_of(r, c, &us), tos[i]);
		}
		close(c);
	}
	rig_close(r);
}

/* A published port is closed: its flows end, others stay */
static void listener_gone(int af)
{
	struct rig *r = rig_open(af | INTO, SK_UDP);
	int c = client(r, SOCK_DGRAM);

	put(r, c, "1", 1);
	UNTIL(r, recv(r->server, r->buf, CHUNK, 0) == 1);
	splice_listener_gone(&r->s, r->listener + 1);
	assert_int_equal(r->s.cnt[SK_UDP], 1);
	splice_listener_gone(&r->s, r->listener);
	assert_int_equal(r->s.cnt[SK_UDP], 0);
	close(c);
	rig_close(r);
}

/* Out of descriptors: who was used least recently makes room, a conversation does not */
static void udp_evict(int mode)
{
	enum { N = 100, ROOM = 10 };
	struct rig *r = rig_open(mode, SK_UDP);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);
	struct rlimit all, few;
	int first, c[N];

	for (int i = 0; i < N; i++)
		c[i] = client(r, SOCK_DGRAM);
	first = c[0];
	for (int i = 0; i < 2; i++) {
		put(r, first, "talk", 4);
		UNTIL(r, recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len) == 4);
		assert_int_equal(sendto(r->server, "talk", 4, 0, (struct sockaddr *)&from, len), 4);
		expect(r, first, "talk", 4);
	}
	while (mode & INTO && r->ns.shelf[r->af == AF_INET ? SK_NS_UDP4 : SK_NS_UDP6].asked)
		turn(r);
	few.rlim_cur = (rlim_t)dup(0);
	close((int)few.rlim_cur);
	assert_return_code(getrlimit(RLIMIT_NOFILE, &all), errno);
	few.rlim_max = all.rlim_max;
	few.rlim_cur += ROOM;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &few), errno);
	for (int i = 1; i < N; i++) {
		r->now += NS_MS;
		UNTIL(r, (put(r, c[i], "x", 1), turn(r), recv(r->server, r->buf, CHUNK, 0) == 1));
	}
	put(r, first, "talk", 4);
	UNTIL(r, recvfrom(r->server, r->buf, CHUNK, 0, (struct sockaddr *)&from, &len) == 4);
	assert_int_equal(sendto(r->server, "talk", 4, 0, (struct sockaddr *)&from, len), 4);
	expect(r, first, "talk", 4);
	assert_return_code(setrlimit(RLIMIT_NOFILE, &all), errno);
	assert_true(r->s.cnt[SK_UDP] < N);
	for (int i = 0; i < N; i++)
		close(c[i]);
	rig_close(r);
}

#define BOTH_LIST(X) X(udp_sizes) X(udp_timeouts) X(udp_errors) X(udp_many) X(udp_other_family) X(udp_server_comes) X(udp_class) \
	X(udp_evict) X(udp_traced)
BOTH_LIST(BOTH)
IN_BOTH(listener_gone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH_LIST(TESTS)
		BOTH_LIST(INTO_TESTS)
		TESTS(listener_gone)
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
