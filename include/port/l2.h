/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guest link: Ethernet frames in batches, with a descriptor of what has
 * not been done to a frame yet (segmentation, checksum). Memory belongs to the
 * back-end: ours for a tap, the guest's for vhost-user.
 */
#ifndef PORT_L2_H
#define PORT_L2_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define L2_IOV_MAX	18		/* pieces of one frame: virtio-net uses up to 17 + header (64 KiB in pages) */
#define L2_HDR_LEN	14		/* Ethernet II */
#define L2_IP_MAX	65535		/* largest IP packet in a super-frame (16-bit total length) */
#define L2_BATCH	64		/* frames in one call at most */

enum l2_gso {				/* what a frame is to be cut into; values are ours, not virtio's */
	L2_GSO_NONE,
	L2_GSO_TCP4,
	L2_GSO_TCP6,
	L2_GSO_UDP,			/* virtio's UDP_L4: datagrams of gso_size bytes, both families */
};

enum l2_csum {
	L2_CSUM_COMPLETE,		/* the bytes in the frame are what they should be */
	L2_CSUM_PARTIAL,		/* pseudo-header sum is in place, the link completes it */
	L2_CSUM_GOOD,			/* from a link that vouches for it */
};

/* Offloads, for l2.takes (towards the guest) and l2.gives (from the guest) */
#define L2_OFF_CSUM	(1u << 0)
#define L2_OFF_TSO4	(1u << 1)
#define L2_OFF_TSO6	(1u << 2)
#define L2_OFF_USO	(1u << 3)

struct l2_frame {
	struct iovec iov[L2_IOV_MAX];	/* from the Ethernet header on */
	uint32_t iov_cnt;
	uint32_t len;			/* bytes of the frame; iov may hold more after reserve() */
	uint8_t gso;			/* enum l2_gso */
	uint8_t csum;			/* enum l2_csum */
	uint16_t gso_size;		/* payload bytes of each segment */
	uint16_t csum_start, csum_off;	/* PARTIAL: sum from start to the end, field at start + off; bytes from the frame's start */
	uint16_t hdr_len;		/* all headers, for GSO */
	uint32_t id;			/* the back-end's own */
};

struct l2;

/* Errors are negative errno. -EAGAIN: nothing now, readiness comes as an event. */
struct l2_ops {
	const char *name;
	/* Up to MAX frames from the guest; they stay valid until release() */
	int (*recv)(struct l2 *l, struct l2_frame *f, int max);
	/* All frames of the last recv() are done with */
	void (*release)(struct l2 *l);
	/* N empty frames with room for LEN bytes each, valid until the next reserve(); returns how many, maybe fewer */
	int (*reserve)(struct l2 *l, struct l2_frame *f, int n, uint32_t len);
	/* Send N of the reserved frames, in order, with lengths and descriptors set. Returns how many the link took: those
	 * beyond are not sent, and the caller knows that (TAP-4). The link pads to 60 bytes and, for what the peer
	 * can't do, segments and checksums.
	 */
	int (*commit)(struct l2 *l, const struct l2_frame *f, int n);
};

struct l2 {
	const struct l2_ops *ops;
	uint32_t takes, gives;		/* L2_OFF_* */
	uint32_t mtu;			/* IP bytes of an unsegmented packet towards the guest */
	uint32_t queue_frames;		/* frames that the guest can queue towards us before it loses some; 0: unknown */
};

#endif
