/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nb - load generator and server for measuring a network translator
 *
 * A measuring tool, not a test: it reports what happened and judges nothing. Payloads are not compared, only counted.
 *
 *   nb serve ADDR PORT                               TCP and UDP server for all tests below
 *   nb rr|crr|udprr ADDR PORT SECS REQ RESP CONNS    transactions/s and latency (crr: connect per transaction)
 *   nb send|recv ADDR PORT SECS CONNS [MBIT]         bulk TCP towards / from the server; MBIT: pace of each connection, Mbit/s.
 *                                                    SIGTERM ends send early, with its figures
 *   nb udpsend ADDR PORT SECS SIZE [GSO]             datagrams sent and counted at the server (GSO: segments per send)
 *   nb put|get ADDR PORT SECS MIB                    one transfer of MIB MiB, given up after SECS; status 1 when incomplete
 *   nb hold ADDR PORT SECS CONNS                     open CONNS idle connections, keep them, check each with one echo
 *
 * A server prints "ready" when it listens. Each client prints one line of key=value pairs. A TCP client opens with a 16-byte header (struct hello).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum mode { RR = 1, SEND, RECV, GET };
struct hello { uint32_t mode, req, resp, secs; };	/* GET: req in MiB; RECV: req in Mbit/s, 0: no limit */
/* Asks for the datagrams counted since the last question. A repeated serial gets the same answer again: either may be lost. */
struct count { char tag[4]; uint32_t serial; uint64_t datagrams, bytes; };
struct conn { int fd; struct hello h; uint32_t got, in; };

static struct sockaddr_storage addr;
static socklen_t addr_len;
static int secs, req, resp, mode, mbit;
static double end;
static atomic_int stopped;
static atomic_ullong total, fails;
static pthread_mutex_t lat_lock = PTHREAD_MUTEX_INITIALIZER;
static float *lat;
static size_t lat_cnt, lat_cap;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static int resolve(const char *host, const char *port, int type)
{
	struct addrinfo hint = { .ai_socktype = type }, *r;
	int e = getaddrinfo(host, port, &hint, &r);

	if (e) {
		fprintf(stderr, "nb: %s: %s\n", host, gai_strerror(e));
		exit(2);
	}
	memcpy(&addr, r->ai_addr, r->ai_addrlen);
	addr_len = r->ai_addrlen;
	freeaddrinfo(r);
	return addr.ss_family;
}

static int read_full(int fd, void *buf, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = read(fd, (char *)buf + done, n - done);

		if (r <= 0)
			return -1;
		done += r;
	}
	return 0;
}

static int write_full(int fd, const void *buf, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = send(fd, (const char *)buf + done, n - done, MSG_NOSIGNAL);

		if (r <= 0)
			return -1;
		done += r;
	}
	return 0;
}

/* The kernel spreads what the socket sends, so that a flow that could go faster leaves the processor to others. */
static void pace(int fd, uint32_t rate_mbit)
{
	uint64_t bytes = rate_mbit * 125000ull;

	if (bytes && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytes, sizeof bytes))
		perror("nb: SO_MAX_PACING_RATE");
}

/* ---- server ---- */

static void *serve_bulk(void *arg)
{
	struct conn *c = arg;
	char *buf = calloc(1, 1 << 20);
	uint64_t sum = 0;
	ssize_t r;

	fcntl(c->fd, F_SETFL, 0);
	if (c->h.mode == SEND) {
		while ((r = read(c->fd, buf, 1 << 20)) > 0)
			sum += r;
		write_full(c->fd, &sum, sizeof sum);
	} else if (c->h.mode == GET) {
		for (uint64_t left = (uint64_t)c->h.req << 20; left && !write_full(c->fd, buf, 1 << 17);)
			left -= 1 << 17;
		shutdown(c->fd, SHUT_WR);
		read_full(c->fd, buf, 1);
	} else {
		double stop = now() + c->h.secs;

		pace(c->fd, c->h.req);
		while (now() < stop && !write_full(c->fd, buf, 1 << 17))
			;
		shutdown(c->fd, SHUT_WR);
		read_full(c->fd, buf, 1);
	}
	close(c->fd);
	free(buf);
	free(c);
	return NULL;
}

static void spawn(void *(*fn)(void *), void *arg)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_attr_init(&a);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&a, 256 << 10);
	pthread_create(&t, &a, fn, arg);
}

/* One readable event on a request-response connection; -1: close it, 1: handed to a thread */
static int serve_rr(int ep, struct conn *c, char *buf)
{
	for (;;) {
		ssize_t r;

		if (c->got < sizeof c->h) {
			r = read(c->fd, (char *)&c->h + c->got, sizeof c->h - c->got);
			if (r <= 0)
				return r < 0 && errno == EAGAIN ? 0 : -1;
			c->got += r;
			if (c->got == sizeof c->h && c->h.mode != RR) {
				epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
				spawn(serve_bulk, c);
				return 1;
			}
			continue;
		}
		r = read(c->fd, buf, c->h.req - c->in);
		if (r <= 0)
			return r < 0 && errno == EAGAIN ? 0 : -1;
		c->in += r;
		if (c->in == c->h.req) {
			c->in = 0;
			if (write_full(c->fd, buf, c->h.resp))
				return -1;
		}
	}
}

static void *serve_udp(void *arg)
{
	int s = (intptr_t)arg;
	struct count cnt = { .tag = "CNT!" }, last = cnt;
	char buf[65536];

	for (;;) {
		struct sockaddr_storage from;
		socklen_t l = sizeof from;
		ssize_t r = recvfrom(s, buf, sizeof buf, 0, (void *)&from, &l);

		if (r < 4)
			continue;
		if (!memcmp(buf, "CNT?", 4) && r == sizeof cnt) {
			memcpy(&cnt.serial, buf + 4, sizeof cnt.serial);
			if (cnt.serial != last.serial) {
				last = cnt;
				cnt.datagrams = cnt.bytes = 0;
			}
			sendto(s, &last, sizeof last, 0, (void *)&from, l);
		} else if (!memcmp(buf, "SINK", 4)) {
			cnt.datagrams++;
			cnt.bytes += r;
		} else {
			sendto(s, buf, r, 0, (void *)&from, l);
		}
	}
	return NULL;
}

/* Started with a pipe as standard input, a server ends with whoever holds the other end. */
static void *serve_until(void *unused)
{
	char c;

	(void)unused;
	while (read(0, &c, 1) > 0)
		;
	exit(0);
}

static int serve(const char *host, const char *port)
{
	int fam = resolve(host, port, SOCK_STREAM), one = 1, big = 8 << 20, ep = epoll_create1(0);
	int l = socket(fam, SOCK_STREAM | SOCK_NONBLOCK, 0), u = socket(fam, SOCK_DGRAM, 0);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL }, hit[64];
	static char buf[1 << 20];
	struct stat st;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (fam == AF_INET6) {
		setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
		setsockopt(u, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	}
	setsockopt(u, SOL_SOCKET, SO_RCVBUFFORCE, &big, sizeof big);
	if (bind(l, (void *)&addr, addr_len) || listen(l, 4096) || bind(u, (void *)&addr, addr_len)) {
		perror("nb: bind");
		return 1;
	}
	spawn(serve_udp, (void *)(intptr_t)u);
	if (!fstat(0, &st) && S_ISFIFO(st.st_mode))
		spawn(serve_until, NULL);
	epoll_ctl(ep, EPOLL_CTL_ADD, l, &ev);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, hit, 64, -1);

		for (int i = 0; i < n; i++) {
			struct conn *c = hit[i].data.ptr;

			if (!c) {
				int fd;

				while ((fd = accept4(l, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
					c = calloc(1, sizeof *c);
					c->fd = fd;
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
					ev.data.ptr = c;
					epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
				}
			} else if (serve_rr(ep, c, buf) < 0) {
				close(c->fd);
				free(c);
			}
		}
	}
}

/* ---- clients ---- */

static void lat_add(const float *v, size_t n)
{
	pthread_mutex_lock(&lat_lock);
	if (lat_cnt + n > lat_cap) {
		lat_cap = (lat_cnt + n) * 2;
		lat = realloc(lat, lat_cap * sizeof *lat);
	}
	memcpy(lat + lat_cnt, v, n * sizeof *v);
	lat_cnt += n;
	pthread_mutex_unlock(&lat_lock);
}

static int dial(void)
{
	struct timeval tv = { 5, 0 };
	int s = socket(addr.ss_family, SOCK_STREAM, 0), one = 1;

	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
	if (connect(s, (void *)&addr, addr_len)) {
		close(s);
		return -1;
	}
	setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return s;
}

#define LAT_MAX (1 << 20)

static void *client_rr(void *crr)
{
	struct hello h = { RR, req, resp, secs };
	char *buf = calloc(1, 1 << 20);
	float *v = malloc(LAT_MAX * sizeof *v);
	size_t n = 0;
	int s = -1;

	while (now() < end) {
		double t = now();

		if (s < 0 && ((s = dial()) < 0 || write_full(s, &h, sizeof h))) {
			fails++;
			if (s >= 0)
				close(s);
			s = -1;
			usleep(1000);
			continue;
		}
		if (write_full(s, buf, req) || read_full(s, buf, resp)) {
			fails++;
			close(s);
			s = -1;
			continue;
		}
		total++;
		if (n < LAT_MAX)
			v[n++] = (now() - t) * 1e6;
		if (crr) {
			close(s);
			s = -1;
		}
	}
	if (s >= 0)
		close(s);
	lat_add(v, n);
	free(v);
	free(buf);
	return NULL;
}

static void *client_udprr(void *arg)
{
	struct timeval tv = { 0, 200000 };
	int s = socket(addr.ss_family, SOCK_DGRAM, 0);
	float *v = malloc(LAT_MAX * sizeof *v);
	char buf[65536] = "ECHO";
	size_t n = 0;

	(void)arg;
	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	if (connect(s, (void *)&addr, addr_len))
		fails++;
	while (now() < end) {
		double t = now();

		if (send(s, buf, req < 4 ? 4 : req, 0) < 0 || recv(s, buf, sizeof buf, 0) < 0) {
			fails++;
			continue;
		}
		total++;
		if (n < LAT_MAX)
			v[n++] = (now() - t) * 1e6;
	}
	lat_add(v, n);
	free(v);
	close(s);
	return NULL;
}

static void *client_bulk(void *arg)
{
	struct hello h = { mode, mbit, 0, secs };
	char *buf = calloc(1, 1 << 20);
	uint64_t sum;
	ssize_t r;
	int s = dial();

	(void)arg;
	if (s < 0 || write_full(s, &h, sizeof h)) {
		fails++;
		return NULL;
	}
	if (mode == SEND) {
		pace(s, mbit);
		while (now() < end && !stopped)
			if (write_full(s, buf, 1 << 17)) {
				fails++;
				break;
			}
		shutdown(s, SHUT_WR);
		if (!read_full(s, &sum, sizeof sum))
			total += sum;
		else
			fails++;
	} else {
		while ((r = read(s, buf, 1 << 20)) > 0)
			total += r;
		if (r < 0)
			fails++;
	}
	close(s);
	free(buf);
	return NULL;
}

/* What the server counted, asked again while question or answer get lost; -1: no answer */
static int count_ask(int s, struct count *ret_cnt)
{
	struct timeval tv = { 1, 0 };
	struct count ask = { .tag = "CNT?", .serial = (uint32_t)getpid() ^ (uint32_t)time(NULL) << 16 };

	setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	for (int i = 0; i < 5; i++)
		if (send(s, &ask, sizeof ask, 0) == sizeof ask && recv(s, ret_cnt, sizeof *ret_cnt, 0) == sizeof *ret_cnt &&
		    !memcmp(ret_cnt->tag, "CNT!", 4) && ret_cnt->serial == ask.serial)
			return 0;
	memset(ret_cnt, 0, sizeof *ret_cnt);
	return -1;
}

static int udpsend(int size, int gso)
{
	int s = socket(addr.ss_family, SOCK_DGRAM, 0), per = gso ? gso : 1;
	char *buf = calloc(1, 65536);
	struct iovec iov = { buf, (size_t)size * per };
	struct mmsghdr m[32] = { 0 };
	struct count got;
	uint64_t sent = 0;
	double start, took;

	for (int i = 0; i < per; i++)
		memcpy(buf + (size_t)i * size, "SINK", 4);
	if (gso && setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size))
		perror("nb: UDP_SEGMENT");
	if (connect(s, (void *)&addr, addr_len))
		perror("nb: connect");
	for (int i = 0; i < 32; i++) {
		m[i].msg_hdr.msg_iov = &iov;
		m[i].msg_hdr.msg_iovlen = 1;
	}
	for (start = now(); (took = now() - start) < secs;) {
		int r = sendmmsg(s, m, 32, 0);

		if (r > 0)
			sent += (uint64_t)r * per;
	}
	usleep(300000);
	size = 0;
	setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size);
	if (count_ask(s, &got))
		fails++;
	printf("udpsend sent=%llu got=%llu pps=%.0f Gbps=%.3f fails=%llu\n", (unsigned long long)sent,
	       (unsigned long long)got.datagrams, got.datagrams / took, got.bytes * 8 / took / 1e9, (unsigned long long)fails);
	return 0;
}

/* Move n bytes one way before `end`; returns what was moved. Short socket time-outs let a stalled transfer notice the end. */
static uint64_t move_bytes(int s, char *buf, uint64_t n, int out)
{
	uint64_t done = 0;

	while (done < n && now() < end) {
		size_t part = n - done < 1 << 17 ? n - done : 1 << 17;
		ssize_t r = out ? send(s, buf, part, MSG_NOSIGNAL) : recv(s, buf, part, 0);

		if (r > 0)
			done += r;
		else if (!r || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return done;
}

/* One transfer of a fixed size. The clock stops when the receiver has everything: put waits for the server's sum. */
static int xfer(int put, int mib)
{
	struct hello h = { put ? SEND : GET, mib, 0, secs };
	uint64_t want = (uint64_t)mib << 20, got = 0, sum = 0;
	struct timeval tv = { 0, 200000 };
	char *buf = calloc(1, 1 << 17);
	double start = now();
	int s, ok;

	end = start + secs;
	s = dial();
	if (s >= 0 && !write_full(s, &h, sizeof h)) {
		setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
		setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
		got = move_bytes(s, buf, want, put);
		if (put && got == want) {
			shutdown(s, SHUT_WR);
			move_bytes(s, (char *)&sum, sizeof sum, 0);
			got = sum;
		}
	}
	ok = got == want;
	printf("%s MiB=%d got=%llu secs=%.4f ok=%d\n", put ? "put" : "get", mib, (unsigned long long)got, now() - start, ok);
	return !ok;
}

static int hold(int conns)
{
	struct hello h = { RR, 1, 1, secs };
	int *fd = calloc(conns, sizeof *fd), ok = 0;
	double t0 = now(), open_s;
	char b = 'x';

	for (int i = 0; i < conns; i++) {
		fd[i] = dial();
		if (fd[i] < 0 || write_full(fd[i], &h, sizeof h))
			fails++;
	}
	open_s = now() - t0;
	sleep(secs);
	for (int i = 0; i < conns; i++)
		if (fd[i] >= 0 && !write_full(fd[i], &b, 1) && !read_full(fd[i], &b, 1))
			ok++;
	printf("hold conns=%d ok=%d open_s=%.2f fails=%llu\n", conns, ok, open_s, (unsigned long long)fails);
	return ok != conns;
}

static int lat_cmp(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int arg(int argc, char **argv, int i, int dflt)
{
	return argc > i ? atoi(argv[i]) : dflt;
}

static void on_term(int sig)
{
	(void)sig;
	stopped = 1;
}

/* Only the main thread takes the signal: it would cut short a send of the others. */
static void stop_early(void)
{
	struct sigaction a = { .sa_handler = on_term, .sa_flags = SA_RESTART };

	sigaction(SIGTERM, &a, NULL);
}

int main(int argc, char **argv)
{
	struct rlimit rl = { 1 << 20, 1 << 20 };
	void *(*fn)(void *) = client_bulk;
	const char *what;
	pthread_t t[4096];
	double start, took;
	sigset_t term;
	int conns, crr;

	signal(SIGPIPE, SIG_IGN);
	if (setrlimit(RLIMIT_NOFILE, &rl) && !getrlimit(RLIMIT_NOFILE, &rl)) {
		rl.rlim_cur = rl.rlim_max;
		setrlimit(RLIMIT_NOFILE, &rl);
	}
	if (argc < 4) {
		fprintf(stderr, "usage: see the top of nb.c\n");
		return 2;
	}
	what = argv[1];
	crr = !strcmp(what, "crr");
	if (!strcmp(what, "serve"))
		return serve(argv[2], argv[3]);
	secs = arg(argc, argv, 4, 5);
	resolve(argv[2], argv[3], strncmp(what, "udp", 3) ? SOCK_STREAM : SOCK_DGRAM);
	if (!strcmp(what, "udpsend"))
		return udpsend(arg(argc, argv, 5, 1400), arg(argc, argv, 6, 0));
	if (!strcmp(what, "put") || !strcmp(what, "get"))
		return xfer(*what == 'p', arg(argc, argv, 5, 64));
	if (!strcmp(what, "hold"))
		return hold(arg(argc, argv, 5, 1000));
	if (!strcmp(what, "send") || !strcmp(what, "recv")) {
		mode = what[0] == 's' ? SEND : RECV;
		conns = arg(argc, argv, 5, 1);
		mbit = arg(argc, argv, 6, 0);
		stop_early();
	} else {
		fn = strcmp(what, "udprr") ? client_rr : client_udprr;
		req = arg(argc, argv, 5, 1);
		resp = arg(argc, argv, 6, 1);
		conns = arg(argc, argv, 7, 1);
	}
	if (conns > 4096)
		conns = 4096;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	start = now();
	end = start + secs;
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	for (int i = 0; i < conns; i++)
		pthread_create(&t[i], NULL, fn, crr ? &crr : NULL);
	pthread_sigmask(SIG_UNBLOCK, &term, NULL);
	for (int i = 0; i < conns; i++)
		pthread_join(t[i], NULL);
	took = now() - start;
	if (fn == client_bulk) {
		printf("%s Gbps=%.3f bytes=%llu fails=%llu\n", what, total * 8 / took / 1e9, (unsigned long long)total,
		       (unsigned long long)fails);
	} else {
		qsort(lat, lat_cnt, sizeof *lat, lat_cmp);
		printf("%s tps=%.0f p50=%.1f p99=%.1f fails=%llu\n", what, total / took,
		       lat_cnt ? lat[lat_cnt / 2] : 0, lat_cnt ? lat[lat_cnt * 99 / 100] : 0, (unsigned long long)fails);
	}
	return 0;
}
