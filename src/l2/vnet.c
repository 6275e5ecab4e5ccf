/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The virtio-net header in both directions (virtio 1.2, 5.1.6). Nothing of it
 * is believed before it was compared with the frame's length. Refuses UFO (the
 * old UDP fragmentation offload), which nobody is offered. hdr_len is only a
 * hint by the standard and cut to the frame.
 */
#include <string.h>

#include <linux/virtio_net.h>

#include "base/bytes.h"
#include "l2_priv.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4	5	/* Linux 6.2 */
#endif

enum {					/* offsets in the header */
	VNET_FLAGS = 0,
	VNET_GSO = 1,
	VNET_HDR_LEN = 2,
	VNET_GSO_SIZE = 4,
	VNET_CSUM_START = 6,
	VNET_CSUM_OFF = 8,
};

static uint16_t vnet_get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static void vnet_put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static bool vnet_parse_csum(const uint8_t *p, struct l2_frame *f)
{
	f->csum = L2_CSUM_COMPLETE;
	f->csum_start = 0;
	f->csum_off = 0;
	if (p[VNET_FLAGS] & VIRTIO_NET_HDR_F_NEEDS_CSUM) {
		f->csum = L2_CSUM_PARTIAL;
		f->csum_start = vnet_get16(p + VNET_CSUM_START);
		f->csum_off = vnet_get16(p + VNET_CSUM_OFF);
		return f->csum_start >= L2_HDR_LEN && (uint32_t)f->csum_start + f->csum_off + 2 <= f->len;
	}
	if (p[VNET_FLAGS] & VIRTIO_NET_HDR_F_DATA_VALID)
		f->csum = L2_CSUM_GOOD;
	return true;
}

bool l2_vnet_parse(const uint8_t *p, struct l2_frame *f)
{
	f->gso_size = 0;
	f->hdr_len = 0;
	if (!vnet_parse_csum(p, f))
		return false;

	/* The ECN bit says that CWR belongs on the first segment only: nothing to us, who take the payload out */
	switch (p[VNET_GSO] & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_NONE:
		f->gso = L2_GSO_NONE;
		return true;
	case VIRTIO_NET_HDR_GSO_TCPV4:
		f->gso = L2_GSO_TCP4;
		break;
	case VIRTIO_NET_HDR_GSO_TCPV6:
		f->gso = L2_GSO_TCP6;
		break;
	case VIRTIO_NET_HDR_GSO_UDP_L4:
		f->gso = L2_GSO_UDP;
		break;
	default:
		return false;
	}
	f->gso_size = vnet_get16(p + VNET_GSO_SIZE);
	f->hdr_len = (uint16_t)BYTES_MIN(vnet_get16(p + VNET_HDR_LEN), f->len);
	return f->gso_size && f->csum != L2_CSUM_COMPLETE;
}

void l2_vnet_emit(uint8_t *p, const struct l2_frame *f)
{
	static const uint8_t gso[] = {
		[L2_GSO_NONE] = VIRTIO_NET_HDR_GSO_NONE,
		[L2_GSO_TCP4] = VIRTIO_NET_HDR_GSO_TCPV4,
		[L2_GSO_TCP6] = VIRTIO_NET_HDR_GSO_TCPV6,
		[L2_GSO_UDP] = VIRTIO_NET_HDR_GSO_UDP_L4,
	};

	memset(p, 0, L2_VNET_LEN);
	if (f->csum == L2_CSUM_PARTIAL) {
		p[VNET_FLAGS] = VIRTIO_NET_HDR_F_NEEDS_CSUM;
		vnet_put16(p + VNET_CSUM_START, f->csum_start);
		vnet_put16(p + VNET_CSUM_OFF, f->csum_off);
	} else if (f->csum == L2_CSUM_GOOD) {
		p[VNET_FLAGS] = VIRTIO_NET_HDR_F_DATA_VALID;
	}
	if (f->gso != L2_GSO_NONE) {
		p[VNET_GSO] = gso[f->gso];
		vnet_put16(p + VNET_GSO_SIZE, f->gso_size);
		vnet_put16(p + VNET_HDR_LEN, f->hdr_len);
	}
}

bool l2_takes(uint32_t takes, const struct l2_frame *f)
{
	static const uint32_t need[] = {
		[L2_GSO_NONE] = 0,
		[L2_GSO_TCP4] = L2_OFF_TSO4,
		[L2_GSO_TCP6] = L2_OFF_TSO6,
		[L2_GSO_UDP] = L2_OFF_USO,
	};
	const uint32_t want = need[f->gso] | (f->csum == L2_CSUM_PARTIAL ? L2_OFF_CSUM : 0);

	return !(want & ~takes);
}
