/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv4 (RFC 791) and IPv6 (RFC 8200) headers, both parsed to one struct. The
 * payload that remains is exactly what the header's length says: padding is
 * trimmed, extension headers are skipped.
 */
#ifndef WIRE_IP_H
#define WIRE_IP_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/view.h"

#define WIRE_IP4_LEN	20		/* without options */
#define WIRE_IP6_LEN	40
#define WIRE_IP_TCP	6
#define WIRE_IP_UDP	17
#define WIRE_IP_ICMP	1
#define WIRE_IP_ICMP6	58

enum wire_ip_verdict {
	WIRE_IP_OK,
	WIRE_IP_MALFORMED,		/* lengths or version don't fit */
	WIRE_IP_FRAGMENTED,		/* a fragment; atomic IPv6 fragments (RFC 6946) are OK instead */
	WIRE_IP_NO_NEXT,		/* IPv6: ends in no next header, ESP, or a chain too long to follow */
};

struct wire_ip {
	struct inaddr src, dst;
	uint8_t proto;			/* of the payload, after IPv6 extension headers */
	uint8_t ttl;			/* or hop limit */
	uint8_t tos;			/* or traffic class */
	bool df;			/* IPv4: don't fragment; IPv6: true */
	uint16_t id;			/* IPv4 identification; IPv6: 0 */
	uint32_t label;			/* IPv6 flow label */
};

/* Pull the headers; the view becomes the payload. The version nibble must match. With WIRE_IP_FRAGMENTED it begins at
 * the fragment header of IPv6, and is unchanged for IPv4; with other verdicts than WIRE_IP_OK it is unspecified, and for
 * WIRE_IP_MALFORMED so is *ret.
 */
enum wire_ip_verdict wire_ip4_parse(struct view *v, struct wire_ip *ret);
enum wire_ip_verdict wire_ip6_parse(struct view *v, struct wire_ip *ret);

/* The same for a packet of which only the beginning is there, as ICMP errors quote it: lengths may say more than there is,
 * and a first fragment is OK
 */
enum wire_ip_verdict wire_ip_quote_parse(struct view *v, bool v4, struct wire_ip *ret);

/* Bytes that wire_ip_emit() writes: 20 or 40, by the family of src */
static inline uint32_t wire_ip_hdr_len(const struct inaddr *src)
{
	return inaddr_is_v4(src) ? WIRE_IP4_LEN : WIRE_IP6_LEN;
}
/* Write the header for PAYLOAD bytes; IPv4: DF by h->df, checksum done. Returns its length. */
uint32_t wire_ip_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload);

#endif
