/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nt - what the namespace tests cannot do from the test process itself
 *
 *   nt hold SOCK                    connect to the UNIX socket SOCK (the test learns our PID from it), then wait: a byte read
 *                                   is the exit status, end of file means 0
 *   nt push ADDR PORT BYTES MODE    send BYTES of 32-bit little-endian counters, then end; MODE drained: once the kernel
 *                                   has seen everything acknowledged, MODE queued: at once
 *   nt echo ADDR PORT               TCP echo server for many connections
 *   nt many ADDR PORT COUNT         open COUNT connections, echo one byte on each, print "open=N failed=N"; the same again for
 *                                   each byte on standard input, until its end
 *   nt churn ADDR PORT COUNT        COUNT connections, eight at a time: one byte there and back, then an end by us, by both, or
 *                                   by reset; print "done=N failed=N"
 *
 * It does not retry and does not hide errors: the tests judge what it prints. Addresses are numeric.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void die(const char *what)
{
	fprintf(stderr, "nt: %s: %s\n", what, strerror(errno));
	exit(111);
}

static int tcp(const char *host, const char *port, int listening)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST }, *ai;
	int fd, one = 1;

	if (getaddrinfo(host, port, &hints, &ai))
		die("address");
	fd = socket(ai->ai_family, SOCK_STREAM, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (listening ? bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 4096)
		      : connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		int err = errno;

		close(fd);
		errno = err;
		fd = -1;
	}
	freeaddrinfo(ai);
	return fd;
}

static int hold(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	unsigned char status;

	strncpy(sun.sun_path, path, sizeof(sun.sun_path) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)))
		die(path);
	return read(fd, &status, 1) == 1 ? status : 0;
}

static int push(char **arg)
{
	size_t bytes = strtoul(arg[2], NULL, 0), i;
	unsigned *buf = malloc(bytes + 4);
	char *at = (char *)buf;
	int fd = tcp(arg[0], arg[1], 0), queued = 1;

	if (fd < 0)
		die("connect");
	for (i = 0; i < bytes / 4 + 1; i++)
		buf[i] = i;
	while (bytes) {
		ssize_t n = write(fd, at, bytes);

		if (n < 0)
			die("write");
		at += n;
		bytes -= n;
	}
	while (!strcmp(arg[3], "drained") && queued > 0) {
		if (ioctl(fd, SIOCOUTQ, &queued))
			die("SIOCOUTQ");
		usleep(1000);
	}
	return 0;
}

static __attribute__((noreturn)) void echo(char **arg)
{
	int ep = epoll_create1(0), srv = tcp(arg[0], arg[1], 1);
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = srv }, got[64];
	char buf[65536];

	if (srv < 0 || epoll_ctl(ep, EPOLL_CTL_ADD, srv, &ev))
		die("listen");
	puts("ready");
	fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, got, 64, -1);

		for (int i = 0; i < n; i++) {
			int fd = got[i].data.fd;
			ssize_t len;

			if (fd == srv) {
				ev.data.fd = accept(srv, NULL, NULL);
				if (ev.data.fd >= 0)
					epoll_ctl(ep, EPOLL_CTL_ADD, ev.data.fd, &ev);
				continue;
			}
			len = read(fd, buf, sizeof(buf));
			if (len <= 0 || write(fd, buf, len) != len)
				close(fd);
		}
	}
}

static void wait_at_most(int fd, int secs)
{
	struct timeval tv = { .tv_sec = secs };

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

static int many(char **arg)
{
	int cnt = atoi(arg[2]), *fd = calloc(cnt, sizeof(*fd));
	char c = 'x';

	for (int i = 0; i < cnt; i++)
		fd[i] = tcp(arg[0], arg[1], 0);
	do {
		int ok = 0;

		for (int i = 0; i < cnt; i++)
			if (fd[i] >= 0 && write(fd[i], "x", 1) != 1) {
				close(fd[i]);
				fd[i] = -1;
			}
		for (int i = 0; i < cnt; i++) {
			if (fd[i] < 0)
				continue;
			wait_at_most(fd[i], 10);
			ok += read(fd[i], &c, 1) == 1;
		}
		printf("open=%d failed=%d\n", ok, cnt - ok);
		fflush(stdout);
	} while (read(0, &c, 1) > 0);
	return 0;
}

static int churn_one(char **arg, int how)
{
	const struct linger now = { 1, 0 };
	int fd = tcp(arg[0], arg[1], 0), bad;
	char c;

	if (fd < 0)
		return 1;
	wait_at_most(fd, 10);
	bad = write(fd, "x", 1) != 1 || read(fd, &c, 1) != 1;
	if (how == 1) {
		shutdown(fd, SHUT_WR);
		bad |= read(fd, &c, 1) != 0;
	} else if (how == 2) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	}
	close(fd);
	return bad;
}

static int churn(char **arg)
{
	int cnt = atoi(arg[2]), bad = 0, part, p[2];

	if (pipe(p))
		die("pipe");
	for (int n = 0; n < 8; n++) {
		if (fork())
			continue;
		for (int i = n; i < cnt; i += 8)
			bad += churn_one(arg, i / 8 % 3);
		_exit(write(p[1], &bad, sizeof(bad)) != sizeof(bad));
	}
	close(p[1]);
	while (read(p[0], &part, sizeof(part)) == sizeof(part))
		bad += part;
	printf("done=%d failed=%d\n", cnt, bad);
	return 0;
}

int main(int argc, char **argv)
{
	struct rlimit lim;

	signal(SIGPIPE, SIG_IGN);
	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max;
	setrlimit(RLIMIT_NOFILE, &lim);
	if (argc == 3 && !strcmp(argv[1], "hold"))
		return hold(argv[2]);
	if (argc == 6 && !strcmp(argv[1], "push"))
		return push(argv + 2);
	if (argc == 4 && !strcmp(argv[1], "echo"))
		echo(argv + 2);
	if (argc == 5 && !strcmp(argv[1], "many"))
		return many(argv + 2);
	if (argc == 5 && !strcmp(argv[1], "churn"))
		return churn(argv + 2);
	fprintf(stderr, "usage: see the head of nt.c\n");
	return 111;
}
