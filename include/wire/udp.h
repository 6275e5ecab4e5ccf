/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP header (RFC 768).
 */
#ifndef WIRE_UDP_H
#define WIRE_UDP_H

#include <stdbool.h>

#include "base/view.h"

#define WIRE_UDP_LEN	8

struct wire_udp {
	uint16_t sport, dport;
};

/* Pull the header; payload is trimmed to the UDP length. GSO: the frame is a run of datagrams, whose length field is not
 * looked at. -EBADMSG if the length is below 8 or beyond the packet.
 */
int wire_udp_parse(struct view *v, bool gso, struct wire_udp *ret);
/* Write WIRE_UDP_LEN bytes for PAYLOAD bytes */
void wire_udp_emit(uint8_t *p, const struct wire_udp *h, uint32_t payload, uint16_t csum);

#endif
