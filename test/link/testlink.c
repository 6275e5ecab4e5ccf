/* SPDX-License-Identifier: BSD-3-Clause
 *
 * testlink - a bad link between two network namespaces
 *
 * A tap device in each, and frames from one to the other through link.c: lost,
 * doubled, out of order, late, at a limited rate. The same seed and frames give
 * the same fate. See --help below.
 *
 * It knows nothing of what the frames mean, and never blocks on a namespace.
 * Taps without --vnet get frames as a network card would see them: segmented and
 * with checksums, by their own kernels.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "link.h"

#define NS_S UINT64_C(1000000000)
#define FRAME_MAX (65536 + 64)
#define READ_TURN 64		/* frames of one side before the other one and the clock get their turn */

static const char usage[] =
"usage: testlink [OPTION VALUE]... NETNS:IFNAME NETNS:IFNAME\n"
"Joins two new tap devices, a and b, each in the network namespace of a path such as /run/netns/NAME.\n"
"An option counts for both ways; with -ab or -ba at its end for one. P is per cent, and may have a fraction.\n"
"  --loss P       lose frames               --dup P        deliver them twice\n"
"  --reorder P    hold frames back          --reorder-n N  until so many others have passed (3) ...\n"
"  --reorder-us N ... or for so long (5000) --delay US     time under way\n"
"  --jitter US    more of it, at random, without a change of order\n"
"  --rate MBIT    of the wire, 0: any (0)   --limit N      frames that wait for it (1000)\n"
"  --seed N       of all decisions; printed --vnet 1       super-frames and partial checksums, as the kernel gives them\n"
"Prints \"ready seed=N\", and figures on SIGUSR1 and at its end (SIGTERM, SIGINT). Lines \"OPTION VALUE\" on standard\n"
"input, without the dashes, change the link while it runs; each is answered with \"ok\".\n";

struct link_end {
	int fd;
	struct link_dir dir;	/* what this end's namespace sends */
	uint64_t write_errors;
};

struct testlink {
	struct link_end end[2];
	struct link_conf conf[2];
	uint64_t seed;
	bool vnet;
	int timer, sig, ep;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "testlink: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_S + (uint64_t)ts.tv_nsec;
}

/* One value into one direction. False: no such option. */
static bool set_dir(struct link_conf *c, const char *name, double v)
{
	if (!strcmp(name, "loss"))
		c->loss_ppm = (uint32_t)(v * 1e4 + .5);
	else if (!strcmp(name, "dup"))
		c->dup_ppm = (uint32_t)(v * 1e4 + .5);
	else if (!strcmp(name, "reorder"))
		c->reorder_ppm = (uint32_t)(v * 1e4 + .5);
	else if (!strcmp(name, "reorder-n"))
		c->reorder_cnt = (uint32_t)v;
	else if (!strcmp(name, "reorder-us"))
		c->reorder_ns = (uint64_t)(v * 1e3);
	else if (!strcmp(name, "delay"))
		c->delay_ns = (uint64_t)(v * 1e3);
	else if (!strcmp(name, "jitter"))
		c->jitter_ns = (uint64_t)(v * 1e3);
	else if (!strcmp(name, "rate"))
		c->rate_bps = (uint64_t)(v * 1e6);
	else if (!strcmp(name, "limit"))
		c->limit_cnt = (uint32_t)v;
	else
		return false;
	return true;
}

static bool set(struct link_conf *conf[2], const char *option, const char *value)
{
	size_t len = strlen(option);
	bool ab = true, ba = true;
	char name[32], *end;
	double v;

	errno = 0;
	v = strtod(value, &end);
	if (errno || end == value || *end || v < 0 || len >= sizeof(name))
		return false;
	memcpy(name, option, len + 1);
	if (len > 3 && !strcmp(name + len - 3, "-ab"))
		ba = false;
	else if (len > 3 && !strcmp(name + len - 3, "-ba"))
		ab = false;
	if (!ab || !ba)
		name[len - 3] = '\0';
	return (!ab || set_dir(conf[0], name, v)) && (!ba || set_dir(conf[1], name, v));
}

static int open_tap(const char *where, bool vnet)
{
	int flags = IFF_TAP | IFF_NO_PI | (vnet ? IFF_VNET_HDR : 0), fd, ns, home;
	const char *colon = strrchr(where, ':');
	struct ifreq ifr = { .ifr_flags = (short)flags };
	char path[256];

	if (!colon || !colon[1] || strlen(colon + 1) >= IFNAMSIZ || colon - where >= (int)sizeof(path)) {
		fprintf(stderr, "testlink: %s: not NETNS:IFNAME\n", where);
		exit(2);
	}
	memcpy(path, where, (size_t)(colon - where));
	path[colon - where] = '\0';
	strcpy(ifr.ifr_name, colon + 1);
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || home < 0 || setns(ns, CLONE_NEWNET))
		die(path);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr))
		die(where);
	if (vnet && ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6))
		die("TUNSETOFFLOAD");
	if (setns(home, CLONE_NEWNET))
		die("back to the first namespace");
	close(ns);
	close(home);
	return fd;
}

static void print_stats(const struct testlink *tl)
{
	for (int i = 0; i < 2; i++) {
		const struct link_stat *s = &tl->end[i].dir.stat;

		printf("{\"dir\": \"%s\", \"in\": %" PRIu64 ", \"out\": %" PRIu64 ", \"out_bytes\": %" PRIu64
		       ", \"lost\": %" PRIu64 ", \"duplicated\": %" PRIu64 ", \"reordered\": %" PRIu64
		       ", \"overflow\": %" PRIu64 ", \"write_errors\": %" PRIu64 "}\n",
		       i ? "ba" : "ab", s->in, s->out, s->out_bytes, s->lost, s->duplicated, s->reordered, s->overflow,
		       tl->end[!i].write_errors);
	}
	fflush(stdout);
}

static void pull(struct link_end *from)
{
	uint8_t buf[FRAME_MAX];

	for (int n = 0; n < READ_TURN; n++) {
		ssize_t len = read(from->fd, buf, sizeof(buf));

		if (len <= 0)
			return;
		link_put(&from->dir, now_ns(), buf, (uint32_t)len);
	}
}

static void push(struct link_end *from, struct link_end *to)
{
	struct link_frame *f;

	while ((f = link_take(&from->dir, now_ns()))) {
		if (write(to->fd, f->data, f->len) < 0)
			to->write_errors++;	/* the interface there is down, for example */
		free(f);
	}
}

static void arm(const struct testlink *tl)
{
	uint64_t a = link_next(&tl->end[0].dir), b = link_next(&tl->end[1].dir), at = a < b ? a : b;
	struct itimerspec its = { .it_interval = { 0, 0 }, .it_value = { 0, 0 } };

	if (at != LINK_NEVER) {
		at = at ? at : 1;	/* 0 would disarm */
		its.it_value.tv_sec = (time_t)(at / NS_S);
		its.it_value.tv_nsec = (long)(at % NS_S);
	}
	if (timerfd_settime(tl->timer, TFD_TIMER_ABSTIME, &its, NULL))
		die("timerfd_settime");
}

/* A line on standard input; a bad one is answered too. False: no more lines will come. */
static bool command(struct testlink *tl)
{
	struct link_conf *conf[2] = { &tl->end[0].dir.conf, &tl->end[1].dir.conf };
	char buf[4096], option[32], value[32], *line, *save;
	ssize_t len = read(STDIN_FILENO, buf, sizeof(buf) - 1);

	if (len <= 0)
		return false;
	buf[len] = '\0';
	for (line = strtok_r(buf, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		puts(sscanf(line, "%31s %31s", option, value) == 2 && set(conf, option, value) ? "ok" : "bad");
	fflush(stdout);
	return true;
}

static void watch(struct testlink *tl, int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };

	if (epoll_ctl(tl->ep, EPOLL_CTL_ADD, fd, &e) && fd != STDIN_FILENO)	/* EPERM for /dev/null: no lines then */
		die("epoll_ctl");
}

/* False: asked to end */
static bool handle_signal(const struct testlink *tl)
{
	struct signalfd_siginfo si;

	if (read(tl->sig, &si, sizeof(si)) != sizeof(si))
		return true;
	print_stats(tl);
	return si.ssi_signo == SIGUSR1;
}

static void run(struct testlink *tl)
{
	struct epoll_event e[8];
	uint64_t unused;

	for (;;) {
		int n = epoll_wait(tl->ep, e, 8, -1);

		for (int i = 0; i < n; i++) {
			int fd = e[i].data.fd;

			if (fd == tl->sig && !handle_signal(tl))
				return;
			if (fd == tl->timer && read(fd, &unused, sizeof(unused)) < 0 && errno != EAGAIN)
				die("timer");
			if (fd == STDIN_FILENO && !command(tl))
				epoll_ctl(tl->ep, EPOLL_CTL_DEL, fd, NULL);
			for (int k = 0; k < 2; k++)
				if (fd == tl->end[k].fd)
					pull(&tl->end[k]);
		}
		push(&tl->end[0], &tl->end[1]);
		push(&tl->end[1], &tl->end[0]);
		arm(tl);
	}
}

static void parse(struct testlink *tl, int argc, char **argv)
{
	struct link_conf *conf[2] = { &tl->conf[0], &tl->conf[1] };
	const char *where[2] = { NULL };
	int n = 0;

	for (int i = 1; i < argc; i++) {
		const char *a = argv[i];

		if (!strcmp(a, "--help")) {
			fputs(usage, stdout);
			exit(0);
		}
		if (strncmp(a, "--", 2) && n < 2) {
			where[n++] = a;
			continue;
		}
		if (!strncmp(a, "--", 2) && i + 1 < argc) {
			const char *v = argv[++i];

			if (!strcmp(a, "--seed")) {
				tl->seed = strtoull(v, NULL, 0);
				continue;
			}
			if (!strcmp(a, "--vnet")) {
				tl->vnet = atoi(v);
				continue;
			}
			if (set(conf, a + 2, v))
				continue;
		}
		fprintf(stderr, "testlink: %s: unknown, or without a proper value\n%s", a, usage);
		exit(2);
	}
	if (n != 2) {
		fprintf(stderr, "testlink: two ends are needed\n%s", usage);
		exit(2);
	}
	for (int i = 0; i < 2; i++)
		tl->end[i].fd = open_tap(where[i], tl->vnet);
}

int main(int argc, char **argv)
{
	struct testlink tl = { .vnet = false };
	sigset_t set;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	tl.seed = now_ns();
	for (int i = 0; i < 2; i++)
		tl.conf[i] = (struct link_conf){ .reorder_cnt = 3, .reorder_ns = 5000000, .limit_cnt = 1000 };
	parse(&tl, argc, argv);
	for (int i = 0; i < 2; i++)
		link_init(&tl.end[i].dir, &tl.conf[i], tl.seed * 2 + (uint64_t)i);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	tl.sig = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	tl.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	tl.ep = epoll_create1(EPOLL_CLOEXEC);
	if (tl.sig < 0 || tl.timer < 0 || tl.ep < 0)
		die("epoll, timer, signals");
	watch(&tl, tl.sig);
	watch(&tl, tl.timer);
	watch(&tl, STDIN_FILENO);
	for (int i = 0; i < 2; i++)
		watch(&tl, tl.end[i].fd);
	printf("ready seed=%" PRIu64 "\n", tl.seed);
	fflush(stdout);
	run(&tl);
	for (int i = 0; i < 2; i++)
		link_free(&tl.end[i].dir);
	return 0;
}
