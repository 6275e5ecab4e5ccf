/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Capture of the guest link as middleware: frames from the guest when they are
 * received, frames to it when the link has taken them. File format: pcap 2.4,
 * native byte order, microseconds. Refuses to disturb the traffic: a full disk
 * ends the capture in the middle of the file at worst, and is counted.
 * Invariant: a record that was written partly is cut off again, so that the
 * file stays readable.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "l2/pcap.h"

#define PCAP_MAGIC	0xa1b2c3d4u	/* microseconds */
#define PCAP_SNAPLEN	65535u
#define PCAP_ETHERNET	1u

struct pcap_file {
	uint32_t magic;
	uint16_t major, minor;
	int32_t zone;
	uint32_t sigfigs, snaplen, type;
};

struct pcap_rec {
	uint32_t s, us;
	uint32_t cap_len, len;
};

static struct l2_pcap *pcap_of(struct l2 *l)
{
	return (struct l2_pcap *)((char *)l - offsetof(struct l2_pcap, l2));
}

static void pcap_lost(struct l2_pcap *p, int code, ssize_t partly)
{
	p->lost_cnt++;
	if (!p->error)
		p->error = code;
	if (partly > 0) {
		const off_t end = lseek(p->fd, -(off_t)partly, SEEK_CUR);

		if (end < 0 || ftruncate(p->fd, end)) {
			/* Not a file that can be mended: a pipe, for instance */
			close(p->fd);
			p->fd = -1;
		}
	}
}

static void pcap_frame(struct l2_pcap *p, const struct l2_frame *f, const struct timespec *now)
{
	struct pcap_rec rec = {
		.s = (uint32_t)now->tv_sec,
		.us = (uint32_t)(now->tv_nsec / 1000),
		.cap_len = BYTES_MIN(f->len, PCAP_SNAPLEN),
		.len = f->len,
	};
	struct iovec iov[L2_IOV_MAX + 1] = { { &rec, sizeof(rec) } };
	uint32_t left = rec.cap_len, cnt = 1;
	ssize_t n;

	if (p->fd < 0) {
		p->lost_cnt++;
		return;
	}
	for (uint32_t i = 0; i < f->iov_cnt && left; i++) {
		iov[cnt].iov_base = f->iov[i].iov_base;
		iov[cnt].iov_len = BYTES_MIN(f->iov[i].iov_len, left);
		left -= (uint32_t)iov[cnt++].iov_len;
	}
	do
		n = writev(p->fd, iov, (int)cnt);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)(sizeof(rec) + rec.cap_len - left))
		pcap_lost(p, n < 0 ? -errno : -ENOSPC, n);
}

static void pcap_frames(struct l2_pcap *p, const struct l2_frame *f, int n)
{
	struct timespec now;

	if (n <= 0)
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	for (int i = 0; i < n; i++)
		pcap_frame(p, &f[i], &now);
}

static int pcap_recv(struct l2 *l, struct l2_frame *f, int max)
{
	struct l2_pcap *p = pcap_of(l);
	const int n = p->below->ops->recv(p->below, f, max);

	pcap_frames(p, f, n);
	return n;
}

static void pcap_release(struct l2 *l)
{
	struct l2_pcap *p = pcap_of(l);

	p->below->ops->release(p->below);
}

static int pcap_reserve(struct l2 *l, struct l2_frame *f, int n, uint32_t len)
{
	struct l2_pcap *p = pcap_of(l);

	return p->below->ops->reserve(p->below, f, n, len);
}

static int pcap_commit(struct l2 *l, const struct l2_frame *f, int n)
{
	struct l2_pcap *p = pcap_of(l);
	const int done = p->below->ops->commit(p->below, f, n);

	pcap_frames(p, f, done);
	return done;
}

static const struct l2_ops pcap_ops = {
	.name = "pcap",
	.recv = pcap_recv,
	.release = pcap_release,
	.reserve = pcap_reserve,
	.commit = pcap_commit,
};

int l2_pcap_open(struct l2_pcap *p, const char *path, struct l2 *below, struct err *e)
{
	const struct pcap_file head = {
		.magic = PCAP_MAGIC,
		.major = 2,
		.minor = 4,
		.snaplen = PCAP_SNAPLEN,
		.type = PCAP_ETHERNET,
	};
	ssize_t n;
	int rc;

	*p = (struct l2_pcap){ .l2 = *below, .below = below };
	p->l2.ops = &pcap_ops;
	p->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (p->fd < 0)
		return err_set(e, -errno, "Cannot open capture file %s: %s", path, strerror(errno));
	n = write(p->fd, &head, sizeof(head));
	if (n != sizeof(head)) {
		rc = err_set(e, n < 0 ? -errno : -ENOSPC, "Cannot write to capture file %s: %s", path, strerror(n < 0 ? errno : ENOSPC));
		close(p->fd);
		return rc;
	}
	return 0;
}

void l2_pcap_close(struct l2_pcap *p)
{
	if (p->fd >= 0) {
		(void)fsync(p->fd);
		close(p->fd);
	}
	p->fd = -1;
}
