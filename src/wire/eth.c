/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ethernet II header.
 *
 * Refuses only frames shorter than the header: tags and length-encoded frames show as types that nobody handles.
 * IEEE 802.3-2022 3.1.1, RFC 894.
 */
#include "wire/eth.h"

#include <errno.h>

#include "base/bytes.h"

int wire_eth_parse(struct view *v, struct wire_eth *ret)
{
	uint8_t bounce[WIRE_ETH_LEN];
	const uint8_t *p = view_pull(v, bounce, WIRE_ETH_LEN);

	if (!p)
		return -EBADMSG;
	memcpy(ret->dst.b, p, 6);
	memcpy(ret->src.b, p + 6, 6);
	ret->type = bytes_get16(p + 12);
	return 0;
}

void wire_eth_emit(uint8_t *p, const struct wire_eth *h)
{
	memcpy(p, h->dst.b, 6);
	memcpy(p + 6, h->src.b, 6);
	bytes_put16(p + 12, h->type);
}
