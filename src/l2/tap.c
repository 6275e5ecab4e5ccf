/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guest link over /dev/net/tun. With the virtio-net header one read or
 * write moves a super-frame of up to 64 KiB; where kernel or caller do without
 * it, frames are plain and l2.c segments. Refuses nothing that the kernel
 * gives; what can't be described is dropped and counted (TAP-3, TAP-4).
 * Invariants: the header sits right before the frame in the same buffer, so
 * that both are one contiguous read or write; no buffer is ever cleared as a
 * whole; the packet starts on a multiple of 16.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/if.h>
#include <linux/if_tun.h>

#include "base/bytes.h"
#include "l2/l2.h"
#include "l2/tap.h"
#include "l2_priv.h"

#define TAP_BATCH	(256u << 10)	/* bytes that one recv() takes at least, if they are there: what fits the cache next to what
					 * becomes of it; more would let small requests wait
					 */

#ifndef TUN_F_USO4
#define TUN_F_USO4	0x20		/* Linux 6.2 */
#define TUN_F_USO6	0x40
#endif

#define TAP_PATH	"/dev/net/tun"
#define TAP_HEAD	50		/* room before the frame: virtio-net header; 50 + 14 puts the packet on 64 */
#define TAP_STRIDE	65728u		/* between buffers: no multiple of 4096, or all headers would share cache sets */
#define TAP_BUFS	(2 * L2_TAP_POOL + 1)

_Static_assert(TAP_HEAD >= L2_VNET_LEN, "virtio-net header fits before the frame");
_Static_assert((TAP_HEAD + L2_HDR_LEN) % 16 == 0 && TAP_STRIDE % 64 == 0, "alignment of packets");
_Static_assert(TAP_HEAD + L2_TAP_FRAME_MAX <= TAP_STRIDE, "largest frame fits");

static struct l2_tap *tap_of(struct l2 *l)
{
	return (struct l2_tap *)((char *)l - offsetof(struct l2_tap, l2));
}

static uint8_t *frame_at(uint8_t *pool, uint32_t idx)
{
	return pool + (size_t)idx * TAP_STRIDE + TAP_HEAD;
}

/* One frame into buffer IDX: 1: described in F, 0: dropped, negative errno: nothing */
static int tap_recv_one(struct l2_tap *t, struct l2_frame *f, uint32_t idx)
{
	uint8_t *p = frame_at(t->rx, idx);
	ssize_t n;

	do
		n = read(t->fd, p - t->vnet_len, t->vnet_len + L2_TAP_FRAME_MAX);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		/* A packet that the kernel can't express in a virtio-net header is consumed by this */
		if (errno == EINVAL) {
			t->rx_bad_cnt++;
			return 0;
		}
		return -errno;
	}
	if (n < (ssize_t)t->vnet_len + L2_HDR_LEN) {
		t->rx_short_cnt++;
		return 0;
	}
	f->iov[0].iov_base = p;
	f->iov[0].iov_len = f->len = (uint32_t)n - t->vnet_len;
	f->iov_cnt = 1;
	f->id = idx;
	if (!t->vnet_len) {
		f->gso = L2_GSO_NONE;
		f->csum = L2_CSUM_COMPLETE;
		f->gso_size = f->csum_start = f->csum_off = f->hdr_len = 0;
		return 1;
	}
	if (!l2_vnet_parse(p - t->vnet_len, f)) {
		t->rx_bad_cnt++;
		return 0;
	}
	return 1;
}

static int tap_recv(struct l2 *l, struct l2_frame *f, int max)
{
	struct l2_tap *t = tap_of(l);
	const int want = BYTES_MIN(max, L2_TAP_POOL);
	uint32_t len = 0;
	int cnt = 0;

	/* Dropped frames count as turns: a flood of them must not keep us here */
	for (int turn = 0; turn < want && len < TAP_BATCH; turn++) {
		const int rc = tap_recv_one(t, &f[cnt], (uint32_t)cnt);

		if (rc < 0)
			return cnt ? cnt : rc;
		len += rc ? f[cnt].len : 0;
		cnt += rc;
	}
	t->rx_bytes += len;
	return cnt;
}

static void tap_release(struct l2 *l)
{
	(void)l;			/* buffers are reused by the next recv() */
}

static int tap_reserve(struct l2 *l, struct l2_frame *f, int n, uint32_t len)
{
	struct l2_tap *t = tap_of(l);
	int i;

	if (len > L2_TAP_FRAME_MAX)
		return 0;
	for (i = 0; i < n && i < L2_TAP_POOL; i++) {
		f[i].iov[0].iov_base = frame_at(t->tx, (uint32_t)i);
		f[i].iov[0].iov_len = len;
		f[i].iov_cnt = 1;
		f[i].len = len;
		f[i].gso = L2_GSO_NONE;
		f[i].csum = L2_CSUM_COMPLETE;
		f[i].gso_size = f[i].csum_start = f[i].csum_off = f[i].hdr_len = 0;
		f[i].id = (uint32_t)i;
	}
	return i;
}

/* Count why the device did not take a frame. 0: this frame is lost, go on; else the negative errno. */
static int tap_tx_error(struct l2_tap *t, int code)
{
	switch (code) {
	case EINVAL:
		t->tx_refused_cnt++;
		return 0;
	case EIO:
		t->tx_down_cnt++;
		break;
	case EAGAIN:
	case ENOBUFS:
	case ENOSPC:
	case ENOMEM:
		t->tx_full_cnt++;
		return -EAGAIN;
	}
	return -code;
}

/* Header and frame in one contiguous piece: LEN bytes at P, with room for the header before and padding behind */
static int tap_write(struct l2_tap *t, uint8_t *p, uint32_t len)
{
	ssize_t n;

	if (len < L2_FRAME_MIN) {
		memset(p + len, 0, L2_FRAME_MIN - len);
		len = L2_FRAME_MIN;
	}
	do
		n = write(t->fd, p - t->vnet_len, t->vnet_len + len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? tap_tx_error(t, errno) : 0;
}

/* Software segmentation. A device that fills up in the middle counts as having taken the frame: the rest is lost as on
 * any link, since the caller can't send half a frame again.
 */
static int tap_send_soft(struct l2_tap *t, const struct l2_frame *f)
{
	uint8_t *p = frame_at(t->bounce, 0);
	struct l2_segment seg;
	int len, rc;

	t->tx_soft_cnt++;
	if (l2_segment_start(&seg, f)) {
		t->tx_refused_cnt++;
		return 0;
	}
	while ((len = l2_segment_next(&seg, p, L2_TAP_FRAME_MAX)) > 0) {
		if (t->vnet_len)
			memset(p - t->vnet_len, 0, t->vnet_len);
		rc = tap_write(t, p, (uint32_t)len);
		if (rc)
			return seg.idx > 1 ? 0 : rc;
	}
	if (len < 0)
		t->tx_refused_cnt++;
	return 0;
}

static int tap_send(struct l2_tap *t, const struct l2_frame *f)
{
	uint8_t *p = frame_at(t->tx, f->id);
	uint8_t hdr[L2_VNET_LEN];

	if (!l2_takes(t->l2.takes, f))
		return tap_send_soft(t, f);
	if (t->vnet_len) {
		l2_vnet_emit(hdr, f);
		memcpy(p - t->vnet_len, hdr, t->vnet_len);
	}
	return tap_write(t, p, f->len);
}

static int tap_commit(struct l2 *l, const struct l2_frame *f, int n)
{
	struct l2_tap *t = tap_of(l);

	for (int i = 0; i < n; i++) {
		const int rc = tap_send(t, &f[i]);

		if (rc)
			return i ? i : rc;
		t->tx_bytes += f[i].len;
	}
	return n;
}

static const struct l2_ops tap_ops = {
	.name = "tap",
	.recv = tap_recv,
	.release = tap_release,
	.reserve = tap_reserve,
	.commit = tap_commit,
};

static int tap_open_error(struct err *e, int code)
{
	switch (code) {
	case ENOENT:
		return err_set(e, -code, "Cannot open " TAP_PATH ": %s: no such device node here; make it with 'mknod " TAP_PATH
			       " c 10 200', or pass it into the container", strerror(code));
	case ENODEV:
	case ENXIO:
		return err_set(e, -code, "Cannot open " TAP_PATH ": %s: the kernel module 'tun' is missing; load it with 'modprobe tun'",
			       strerror(code));
	case EACCES:
	case EPERM:
		return err_set(e, -code, "Cannot open " TAP_PATH ": %s: allow it with 'chmod 666 " TAP_PATH
			       "', or in the container's device policy", strerror(code));
	}
	return err_set(e, -code, "Cannot open " TAP_PATH ": %s", strerror(code));
}

/* The interface, with the virtio-net header if the kernel knows it */
static int tap_attach(struct l2_tap *t, const char *name, struct err *e)
{
	unsigned int features = 0;
	struct ifreq ifr = { 0 };
	int code;

	if (!ioctl(t->fd, TUNGETFEATURES, &features) && (features & IFF_VNET_HDR))
		t->vnet_len = L2_VNET_LEN;
	memcpy(ifr.ifr_name, name, strlen(name));
	ifr.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | (t->vnet_len ? IFF_VNET_HDR : 0));
	if (ioctl(t->fd, TUNSETIFF, &ifr)) {
		code = errno;
		switch (code) {
		case EBUSY:
			return err_set(e, -code, "Cannot make tap interface '%s': %s: another program holds that interface in this namespace; "
				       "end it or choose another name with -I", name, strerror(code));
		case EINVAL:
			return err_set(e, -code, "Cannot make tap interface '%s': %s: the name can't be used, or an interface of that name exists "
				       "that is no tap; choose another with -I", name, strerror(code));
		case EPERM:
			return err_set(e, -code, "Cannot make tap interface '%s': %s: it takes CAP_NET_ADMIN in the user namespace that owns the "
				       "network namespace", name, strerror(code));
		}
		return err_set(e, -code, "Cannot make tap interface '%s': %s", name, strerror(code));
	}
	memcpy(t->name, ifr.ifr_name, sizeof(t->name));
	t->name[sizeof(t->name) - 1] = '\0';
	return 0;
}

static unsigned long tun_flags(uint32_t off)
{
	unsigned long flags = 0;

	if (off & L2_OFF_CSUM)
		flags |= TUN_F_CSUM;
	if (off & L2_OFF_TSO4)
		flags |= TUN_F_TSO4 | TUN_F_TSO_ECN;
	if (off & L2_OFF_TSO6)
		flags |= TUN_F_TSO6 | TUN_F_TSO_ECN;
	if (off & L2_OFF_USO)
		flags |= TUN_F_USO4 | TUN_F_USO6;
	return flags;
}

/* Find out what the kernel does for us, from everything down to nothing */
static void tap_offload(struct l2_tap *t, uint32_t allowed)
{
	static const uint32_t ladder[] = {
		L2_OFF_CSUM | L2_OFF_TSO4 | L2_OFF_TSO6 | L2_OFF_USO,
		L2_OFF_CSUM | L2_OFF_TSO4 | L2_OFF_TSO6,
		L2_OFF_CSUM | L2_OFF_TSO4,
		L2_OFF_CSUM,
	};
	const int little = 1;
	int len = L2_VNET_LEN;

	t->l2.takes = t->l2.gives = 0;
	if (!t->vnet_len)
		return;
	if (ioctl(t->fd, TUNSETVNETHDRSZ, &len))
		t->vnet_len = L2_VNET_LEN_OLD;
	/* Only a big-endian machine needs this; those have had it as long as we can run there (Linux 4.2) */
	(void)ioctl(t->fd, TUNSETVNETLE, &little);

	/* Nothing can be left to a receiver that doesn't complete checksums */
	if (!(allowed & L2_OFF_CSUM))
		allowed = 0;
	for (size_t i = 0; i < BYTES_COUNT(ladder); i++) {
		const uint32_t off = ladder[i] & allowed;

		if (off && !ioctl(t->fd, TUNSETOFFLOAD, tun_flags(off))) {
			/* What the kernel can give it can take: the headers are the same */
			t->l2.takes = t->l2.gives = off;
			return;
		}
	}
	(void)ioctl(t->fd, TUNSETOFFLOAD, 0ul);
}

/* Frames that the kernel queues towards us; 0 if it won't tell */
static uint32_t tap_queue(const struct l2_tap *t)
{
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { 0 };
	uint32_t frames = 0;

	if (fd < 0)
		return 0;
	memcpy(ifr.ifr_name, t->name, sizeof(t->name));
	if (!ioctl(fd, SIOCGIFTXQLEN, &ifr) && ifr.ifr_qlen > 0)
		frames = (uint32_t)ifr.ifr_qlen;
	close(fd);
	return frames;
}

int l2_tap_open(struct l2_tap *t, const struct l2_tap_settings *s, struct err *e)
{
	uint8_t *mem;
	int rc;

	if (!s->name[0] || strlen(s->name) >= L2_TAP_NAME_MAX)
		return err_set(e, -EINVAL, "Interface name '%s': from 1 to %d characters are possible", s->name, L2_TAP_NAME_MAX - 1);
	memset(t, 0, sizeof(*t));
	t->l2.ops = &tap_ops;
	t->l2.mtu = s->mtu;

	t->fd = open(TAP_PATH, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (t->fd < 0)
		return tap_open_error(e, errno);
	rc = tap_attach(t, s->name, e);
	if (rc)
		goto fail;
	tap_offload(t, s->offloads);
	t->l2.queue_frames = tap_queue(t);

	mem = mmap(NULL, (size_t)TAP_BUFS * TAP_STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mem == MAP_FAILED) {
		rc = err_set(e, -errno, "Cannot map %zu bytes of frame buffers: %s", (size_t)TAP_BUFS * TAP_STRIDE, strerror(errno));
		goto fail;
	}
	/* Huge pages would count as resident before they are used */
	(void)madvise(mem, (size_t)TAP_BUFS * TAP_STRIDE, MADV_NOHUGEPAGE);
	t->rx = mem;
	t->tx = mem + (size_t)L2_TAP_POOL * TAP_STRIDE;
	t->bounce = mem + (size_t)2 * L2_TAP_POOL * TAP_STRIDE;
	return 0;
fail:
	close(t->fd);
	t->fd = -1;
	return rc;
}

void l2_tap_close(struct l2_tap *t)
{
	munmap(t->rx, (size_t)TAP_BUFS * TAP_STRIDE);
	close(t->fd);
	t->fd = -1;
}
