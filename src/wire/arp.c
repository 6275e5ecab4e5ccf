/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP packets.
 *
 * Refuses other hardware and protocol types than Ethernet and IPv4 (ARP-1); leaves it to the caller which operations
 * and addresses make sense. RFC 826.
 */
#include "wire/arp.h"

#include <errno.h>

#include "base/bytes.h"

#define KIND_LEN	6		/* hrd, pro, hln, pln */

static const uint8_t kind[KIND_LEN] = { 0, 1, 0x08, 0x00, 6, 4 };

int wire_arp_parse(struct view v, struct wire_arp *ret)
{
	uint8_t bounce[WIRE_ARP_LEN];
	const uint8_t *p = view_peek(&v, bounce, KIND_LEN);

	if (!p)
		return -EBADMSG;
	if (memcmp(p, kind, KIND_LEN))
		return -EPROTONOSUPPORT;
	p = view_peek(&v, bounce, WIRE_ARP_LEN);
	if (!p)
		return -EBADMSG;
	ret->op = bytes_get16(p + 6);
	memcpy(ret->sha.b, p + 8, 6);
	ret->sip = inaddr_v4(p + 14);
	memcpy(ret->tha.b, p + 18, 6);
	ret->tip = inaddr_v4(p + 24);
	return 0;
}

void wire_arp_emit(uint8_t *p, const struct wire_arp *a)
{
	memcpy(p, kind, KIND_LEN);
	bytes_put16(p + 6, a->op);
	memcpy(p + 8, a->sha.b, 6);
	memcpy(p + 14, a->sip.b + 12, 4);
	memcpy(p + 18, a->tha.b, 6);
	memcpy(p + 24, a->tip.b + 12, 4);
}
