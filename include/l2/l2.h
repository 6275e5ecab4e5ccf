/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Software segmentation and checksums, for links and peers that can't do what
 * a frame asks for. One frame in, one or more plain frames out.
 */
#ifndef L2_L2_H
#define L2_L2_H

#include <stdint.h>

#include "port/l2.h"

#define L2_FRAME_MIN	60		/* without FCS (IEEE 802.3) */
#define L2_HDRS_MAX	(14 + 128 + 60)	/* Ethernet, IP with options or extension headers, TCP: longest that is cut */

struct l2_segment {			/* where we are in one frame */
	const struct l2_frame *f;	/* must stay valid until the last segment */
	uint32_t done;			/* payload bytes already out */
	uint32_t payload;		/* payload bytes in all */
	uint32_t idx;			/* segments already out */
	uint32_t hdr_len;		/* bytes of all headers, copied to each segment */
	uint32_t l4;			/* offset of the TCP or UDP header */
	uint8_t hdr[L2_HDRS_MAX];
};

/* Begin to cut F; a frame without gso counts as one segment. 0, or -EBADMSG if headers and descriptor don't fit. */
int l2_segment_start(struct l2_segment *s, const struct l2_frame *f);

/* Bytes of the next frame, checksums complete, in BUF (SIZE bytes); 0 after the last; -EMSGSIZE if BUF is too small */
int l2_segment_next(struct l2_segment *s, uint8_t *buf, uint32_t size);

#endif
