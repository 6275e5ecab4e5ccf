/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ethernet II header (IEEE 802.3, without tags).
 */
#ifndef WIRE_ETH_H
#define WIRE_ETH_H

#include "base/addr.h"
#include "base/view.h"

#define WIRE_ETH_LEN	14
#define WIRE_ETH_IPV4	0x0800
#define WIRE_ETH_ARP	0x0806
#define WIRE_ETH_IPV6	0x86dd

struct wire_eth {
	struct macaddr dst, src;
	uint16_t type;			/* host order */
};

/* Pull the header: 0, or -EBADMSG if the frame is shorter */
int wire_eth_parse(struct view *v, struct wire_eth *ret);
/* Write WIRE_ETH_LEN bytes */
void wire_eth_emit(uint8_t *p, const struct wire_eth *h);

#endif
