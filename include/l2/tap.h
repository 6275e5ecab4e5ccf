/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Guest link over a tap device, with the virtio-net header where the kernel
 * gives it: super-frames and partial checksums both ways, one system call each.
 */
#ifndef L2_TAP_H
#define L2_TAP_H

#include <stdint.h>

#include "base/err.h"
#include "port/l2.h"

#define L2_TAP_POOL	32		/* frames at most in one recv() or reserve() */
#define L2_TAP_NAME_MAX	16		/* IFNAMSIZ: with final NUL */
#define L2_TAP_FRAME_MAX (L2_HDR_LEN + 4 + L2_IP_MAX)	/* with room for one VLAN tag, which path refuses by name */

struct l2_tap_settings {
	const char *name;		/* of the interface in the namespace */
	uint32_t offloads;		/* L2_OFF_* that we may use; less is for comparison and for hunting faults */
	uint32_t mtu;			/* IP bytes, for l2.mtu */
};

struct l2_tap {
	struct l2 l2;			/* hand this to others */
	int fd;				/* to watch for EV_IN; ours */
	char name[L2_TAP_NAME_MAX];	/* what the kernel made of the name */
	uint32_t vnet_len;		/* bytes of virtio-net header before each frame, 0: none */
	uint8_t *rx, *tx;		/* L2_TAP_POOL buffers each, mapped, touched on use */
	uint8_t *bounce;		/* one buffer for software segmentation */

	uint64_t rx_bytes, tx_bytes;	/* of frames from and to the guest */
	uint64_t rx_bad_cnt;		/* frames with an impossible virtio-net header, dropped */
	uint64_t rx_short_cnt;		/* frames shorter than an Ethernet header, dropped */
	uint64_t tx_full_cnt;		/* times the device took no more: EAGAIN, ENOBUFS, ENOSPC, ENOMEM */
	uint64_t tx_down_cnt;		/* times the interface was down: EIO */
	uint64_t tx_refused_cnt;	/* frames that the kernel called malformed, dropped */
	uint64_t tx_soft_cnt;		/* frames segmented or summed by us */
};

/* Make the device, or take over one of that name which nobody holds. To be called inside the target namespace; the rest
 * works from anywhere. 0 or negative errno; *T needs no close on failure.
 */
int l2_tap_open(struct l2_tap *t, const struct l2_tap_settings *s, struct err *e);
/* The device goes away, unless it was made persistent by someone else */
void l2_tap_close(struct l2_tap *t);

#endif
