/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The rooms box and l2 without the rest: makes or takes namespaces, opens a tap
 * there, and mirrors UDP frames back with their descriptors, so that a test in
 * the namespace sees both directions of every offload. Prints one line for each
 * fact a test may want. Usage:
 *   box_probe [-r RUNAS] [-o OFFLOADS] [-s] [-n] [-u USERNS] [-b] [-p PIDFILE] [-c] spawn [COMMAND...]
 *   box_probe [...] pid PID        box_probe [...] path PATH
 * -o: L2_OFF_* bits; -s: segment towards the guest in software; -n: no user namespace; -b: background; -c: pcap file
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "box/daemon.h"
#include "box/ident.h"
#include "box/ns.h"
#include "box/watch.h"
#include "l2/pcap.h"
#include "l2/tap.h"

struct probe {
	const char *runas, *userns, *pidfile, *capture, *mode;
	char **rest;			/* after the mode */
	uint32_t offloads;
	bool soft, netns_only, background;

	struct box_identity id;
	struct box_ns ns;
	struct box_notes notes;
	struct box_watch watch;
	struct box_daemon daemon;
	struct l2_tap tap;
	struct l2_pcap pcap;
	struct l2 *link;
	struct err e;
};

static void __attribute__((noreturn)) die(const struct probe *p)
{
	fprintf(stderr, "box_probe: %s\n", p->e.text);
	exit(1);
}

static int open_tap(void *arg)
{
	struct probe *p = arg;
	const struct l2_tap_settings s = { .name = "tap0", .offloads = p->offloads, .mtu = 1500 };

	return l2_tap_open(&p->tap, &s, &p->e);
}

/* Turn a UDP frame round; anything else is left alone. Swapping addresses and ports keeps every checksum. */
static bool mirror(uint8_t *f, uint32_t len)
{
	const bool v6 = len >= 62 && bytes_get16(f + 12) == 0x86dd && f[20] == 17;
	const bool v4 = len >= 42 && bytes_get16(f + 12) == 0x0800 && f[14] == 0x45 && f[23] == 17;
	uint8_t tmp[16];

	if (!v4 && !v6)
		return false;
#define SWAP(a, b, n) (memcpy(tmp, a, n), memcpy(a, b, n), memcpy(b, tmp, n))
	SWAP(f, f + 6, 6);
	if (v4) {
		SWAP(f + 26, f + 30, 4);
		SWAP(f + 34, f + 36, 2);
	} else {
		SWAP(f + 22, f + 38, 16);
		SWAP(f + 54, f + 56, 2);
	}
	return true;
}

static void frames(struct probe *p)
{
	static struct l2_frame in[L2_TAP_POOL], out[L2_TAP_POOL];
	int n, m = 0;

	n = p->link->ops->recv(p->link, in, L2_TAP_POOL);
	if (n < 0 && n != -EAGAIN) {
		printf("recv %s\n", strerror(-n));
		exit(3);
	}
	if (n <= 0 || p->link->ops->reserve(p->link, out, n, L2_TAP_FRAME_MAX) != n)
		return;
	for (int i = 0; i < n; i++) {
		struct iovec iov = out[m].iov[0];

		if (!mirror(in[i].iov[0].iov_base, in[i].len))
			continue;
		fprintf(stderr, "mirror len %u gso %u size %u csum %u\n", in[i].len, in[i].gso, in[i].gso_size, in[i].csum);
		memcpy(iov.iov_base, in[i].iov[0].iov_base, in[i].len);
		const uint32_t id = out[m].id;

		out[m] = in[i];
		out[m].iov[0] = iov;
		out[m].id = id;
		m++;
	}
	p->link->ops->release(p->link);
	n = m ? p->link->ops->commit(p->link, out, m) : 0;
	if (n != m)
		fprintf(stderr, "commit %i of %i\n", n, m);
}

static int serve(struct probe *p, int sig_fd)
{
	struct pollfd fds[] = {
		{ .fd = sig_fd, .events = POLLIN },
		{ .fd = p->watch.fd, .events = POLLIN },
		{ .fd = p->tap.fd, .events = POLLIN },
	};

	for (;;) {
		if (poll(fds, 3, -1) < 0)
			continue;
		if (fds[0].revents && (box_signals_read(sig_fd) & BOX_SIGNAL_END))
			return 0;
		if (fds[2].revents)
			frames(p);
		if (fds[1].revents && box_watch_gone(&p->watch))
			return p->ns.child ? box_ns_status(&p->ns) : 0;
	}
}

static void options(struct probe *p, int argc, char **argv)
{
	int c;

	p->offloads = ~0u;
	while ((c = getopt(argc, argv, "+r:o:snu:bp:c:")) != -1) {
		switch (c) {
		case 'r': p->runas = optarg; break;
		case 'o': p->offloads = (uint32_t)strtoul(optarg, NULL, 0); break;
		case 's': p->soft = true; break;
		case 'n': p->netns_only = true; break;
		case 'u': p->userns = optarg; break;
		case 'b': p->background = true; break;
		case 'p': p->pidfile = optarg; break;
		case 'c': p->capture = optarg; break;
		default: exit(2);
		}
	}
	if (optind == argc)
		exit(2);
	p->mode = argv[optind];
	p->rest = argv + optind + 1;
}

static void target(struct probe *p)
{
	const bool by_pid = !strcmp(p->mode, "pid");
	const struct box_spawn_settings spawn = { .argv = p->rest[0] ? p->rest : NULL, .netns_only = p->netns_only, .id = &p->id };
	const struct box_attach_settings attach = {
		.pid = by_pid ? atoi(p->rest[0]) : 0,
		.netns = by_pid ? NULL : p->rest[0],
		.userns = p->userns,
		.netns_only = p->netns_only,
	};
	int rc;

	if (!strcmp(p->mode, "spawn"))
		rc = box_ns_spawn(&p->ns, &spawn, &p->notes, &p->e);
	else
		rc = box_ns_attach(&p->ns, &attach, &p->e);
	if (rc || box_watch_open(&p->watch, &p->ns, attach.netns, &p->notes, &p->e))
		die(p);
	for (int i = 0; i < p->notes.cnt; i++)
		fprintf(stderr, "note: %s\n", p->notes.note[i].text);
}

static void link_open(struct probe *p)
{
	if (box_ns_run(&p->ns, open_tap, p, &p->e))
		die(p);
	fprintf(stderr, "tap %s takes %x gives %x vnet %u queue %u\n", p->tap.name, p->tap.l2.takes, p->tap.l2.gives,
		p->tap.vnet_len, p->tap.l2.queue_frames);
	if (p->soft)
		p->tap.l2.takes = 0;
	p->link = &p->tap.l2;
	if (p->capture) {
		if (l2_pcap_open(&p->pcap, p->capture, p->link, &p->e))
			die(p);
		p->link = &p->pcap.l2;
	}
}

static void background(struct probe *p, int pid_fd)
{
	int rc;

	if (!p->background)
		return;
	rc = box_daemon_fork(&p->daemon, pid_fd, &p->e);
	if (rc < 0)
		die(p);
	if (!rc)
		return;
	rc = box_daemon_wait(&p->daemon, &p->e);
	if (rc && p->e.code)
		die(p);
	exit(rc ? 1 : 0);
}

int main(int argc, char **argv)
{
	static struct probe p;
	int pid_fd = -1, sig_fd;

	options(&p, argc, argv);
	if (box_fds_clean(-1, &p.e) || box_identity_decide(p.runas, &p.id, &p.e))
		die(&p);
	if (p.pidfile && (pid_fd = box_pidfile_open(p.pidfile, &p.e)) < 0)
		die(&p);
	target(&p);
	sig_fd = box_signals_open(&p.e);
	if (sig_fd < 0)
		die(&p);
	background(&p, pid_fd);
	link_open(&p);
	if (box_bounds_drop(&p.e) || box_identity_apply(&p.id, &p.e) || box_caps_drop(0, &p.e) || box_seal(&p.e))
		die(&p);
	if (p.background ? box_daemon_ready(&p.daemon, &p.e) : pid_fd >= 0 ? box_pidfile_write(pid_fd, getpid(), &p.e) : 0)
		die(&p);
	if (p.ns.child && box_ns_release(&p.ns, &p.e))
		die(&p);
	return serve(&p, sig_fd);
}
