/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP for IPv4 over Ethernet (RFC 826, 5227).
 */
#ifndef WIRE_ARP_H
#define WIRE_ARP_H

#include "base/addr.h"
#include "base/view.h"

#define WIRE_ARP_LEN	28
#define WIRE_ARP_REQUEST 1
#define WIRE_ARP_REPLY	2

struct wire_arp {
	uint16_t op;
	struct macaddr sha, tha;
	struct inaddr sip, tip;
};

/* Only hrd 1, pro 0x0800, hln 6, pln 4 (ARP-1): 0, -EBADMSG if short, -EPROTONOSUPPORT for other kinds */
int wire_arp_parse(struct view v, struct wire_arp *ret);
void wire_arp_emit(uint8_t *p, const struct wire_arp *a);

#endif
