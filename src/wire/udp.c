/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP header.
 *
 * Refuses lengths below the header or beyond the packet, cuts what lies behind the datagram (L2-23); doesn't verify
 * the checksum (L2-13). RFC 768.
 */
#include "wire/udp.h"

#include <errno.h>

#include "base/bytes.h"

int wire_udp_parse(struct view *v, bool gso, struct wire_udp *ret)
{
	uint8_t bounce[WIRE_UDP_LEN];
	const uint8_t *p = view_pull(v, bounce, WIRE_UDP_LEN);
	uint32_t len;

	if (!p)
		return -EBADMSG;
	len = bytes_get16(p + 4);
	if (!gso) {
		if (len < WIRE_UDP_LEN || len - WIRE_UDP_LEN > v->len)
			return -EBADMSG;
		view_trim(v, len - WIRE_UDP_LEN);
	}
	ret->sport = bytes_get16(p);
	ret->dport = bytes_get16(p + 2);
	return 0;
}

void wire_udp_emit(uint8_t *p, const struct wire_udp *h, uint32_t payload, uint16_t csum)
{
	bytes_put16(p, h->sport);
	bytes_put16(p + 2, h->dport);
	bytes_put16(p + 4, (uint16_t)(WIRE_UDP_LEN + payload));
	bytes_put16(p + 6, csum);
}
