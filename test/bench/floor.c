/* SPDX-License-Identifier: BSD-3-Clause
 *
 * floor - the least that a user-mode translator has to do for datagrams that leave a container
 *
 *   floor PID ADDR PORT     a tap "floor0" in the namespace of PID; datagrams that go into it are sent to ADDR:PORT
 *
 * A yardstick, not a translator. On the bare path, sender and receiver have the processors to themselves; here a third process
 * takes each frame from a tap and gives its payload to a socket, many to each send, and does nothing else: no flow table, no
 * checks, IPv4 only, one server, SIZE bytes in each datagram. What this lacks to the bare path is the price of a third process and
 * of the tap. The last sender gets what the server answers, such as nb's count.
 *
 * Prints "ready" when the tap is there. Whoever started it gives the tap its addresses, without ARP: nobody here would answer.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef TUN_F_USO4
#define TUN_F_USO4 0x20
#define TUN_F_USO6 0x40
#endif

#define SIZE 1400	/* what the tests udp_out and udp_out_gso send */
#define FULL (44 * SIZE)	/* as many as one send can carry, if with few to spare */

struct head {
	struct virtio_net_hdr vnet;
	struct ethhdr eth;
	struct iphdr ip;
	struct udphdr udp;
};
_Static_assert(sizeof(struct head) == 10 + 14 + 20 + 8, "the headers as they lie in a frame");

static void die(const char *what)
{
	fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int dial(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };
	int s = socket(AF_INET, SOCK_DGRAM, 0), size = SIZE;

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1 || connect(s, (void *)&a, sizeof a))
		die(host);
	if (setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size))
		die("UDP_SEGMENT");
	return s;
}

static void enter(const char *pid, const char *kind, int type)
{
	char path[64];
	int ns;

	snprintf(path, sizeof path, "/proc/%s/ns/%s", pid, kind);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, type))
		die(path);
	close(ns);
}

static int open_tap(void)
{
	struct ifreq r = { .ifr_name = "floor0", .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int t = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), tso = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;

	if (t < 0 || ioctl(t, TUNSETIFF, &r))
		die("/dev/net/tun");
	/* Before 6.2, kernels cut UDP super-frames themselves. */
	if (ioctl(t, TUNSETOFFLOAD, tso | TUN_F_USO4 | TUN_F_USO6) && ioctl(t, TUNSETOFFLOAD, tso))
		die("TUNSETOFFLOAD");
	return t;
}

static void pass(int sock, const char *buf, size_t n)
{
	if (n && send(sock, buf, n, 0) < 0 && errno != ECONNREFUSED)
		die("send");
}

/* All frames that wait, as many as fit in each send; *last is the head of the last one. */
static void outward(int tap, int sock, struct head *last)
{
	static char buf[FULL + 65536];
	size_t have = 0;
	ssize_t n;

	for (;;) {
		struct head h;
		struct iovec iov[] = { { &h, sizeof h }, { buf + have, 65536 } };

		n = readv(tap, iov, 2);
		if (n < 0)
			break;
		n -= sizeof h;
		if (n <= 0 || h.eth.h_proto != htons(ETH_P_IP) || h.ip.protocol != IPPROTO_UDP)
			continue;
		*last = h;
		if (n == SIZE) {
			have += n;
			n = 0;
		}
		/* A super-frame, or a datagram of another size, goes alone, behind what came before it. */
		if (n || have == FULL) {
			pass(sock, buf, have);
			pass(sock, buf + have, n);
			have = 0;
		}
	}
	if (errno != EAGAIN)
		die("read");
	pass(sock, buf, have);
}

static uint16_t ip_sum(const struct iphdr *ip)
{
	uint16_t w[sizeof *ip / 2];
	uint32_t sum = 0;

	memcpy(w, ip, sizeof w);
	for (size_t i = 0; i < sizeof w / sizeof *w; i++)
		sum += w[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* One small answer, to whoever sent the last frame: its head the other way round. Without UDP checksum, as IPv4 allows */
static void inward(int tap, int sock, const struct head *last)
{
	struct head h = { .eth = last->eth, .ip = last->ip };
	char buf[SIZE];
	struct iovec iov[] = { { &h, sizeof h }, { buf, 0 } };
	ssize_t n = recv(sock, buf, sizeof buf, MSG_DONTWAIT);

	if (n < 0)
		return;
	iov[1].iov_len = n;
	memcpy(h.eth.h_dest, last->eth.h_source, ETH_ALEN);
	memcpy(h.eth.h_source, last->eth.h_dest, ETH_ALEN);
	h.ip.saddr = last->ip.daddr;
	h.ip.daddr = last->ip.saddr;
	h.ip.tot_len = htons(sizeof h.ip + sizeof h.udp + n);
	h.ip.check = 0;
	h.ip.check = ip_sum(&h.ip);
	h.udp.source = last->udp.dest;
	h.udp.dest = last->udp.source;
	h.udp.len = htons(sizeof h.udp + n);
	if (writev(tap, iov, 2) < 0)
		die("write");
}

int main(int argc, char **argv)
{
	struct pollfd p[2] = { { .events = POLLIN }, { .events = POLLIN } };
	struct head last = { 0 };

	if (argc != 4) {
		fprintf(stderr, "usage: floor PID ADDR PORT\n");
		return 2;
	}
	/* The socket belongs to the namespace where it is opened; there is no way back for an ordinary user. */
	p[1].fd = dial(argv[2], argv[3]);
	enter(argv[1], "user", CLONE_NEWUSER);
	enter(argv[1], "net", CLONE_NEWNET);
	p[0].fd = open_tap();
	puts("ready");
	fflush(stdout);
	for (;;) {
		outward(p[0].fd, p[1].fd, &last);
		if (poll(p, 2, -1) > 0 && p[1].revents)
			inward(p[0].fd, p[1].fd, &last);
	}
}
