/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP (RFC 792) and ICMPv6 (RFC 4443): echo, and errors towards the guest.
 */
#ifndef WIRE_ICMP_H
#define WIRE_ICMP_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/view.h"

#define WIRE_ICMP_LEN	8		/* type, code, checksum, rest */

#define WIRE_ICMP4_ECHO_REPLY	0
#define WIRE_ICMP4_UNREACH	3
#define WIRE_ICMP4_ECHO		8
#define WIRE_ICMP4_TIME_EXCEEDED 11
#define WIRE_ICMP4_PARAM	12
#define WIRE_ICMP6_UNREACH	1
#define WIRE_ICMP6_TOO_BIG	2
#define WIRE_ICMP6_TIME_EXCEEDED 3
#define WIRE_ICMP6_PARAM	4
#define WIRE_ICMP6_ECHO		128
#define WIRE_ICMP6_ECHO_REPLY	129
#define WIRE_ICMP6_RS		133
#define WIRE_ICMP6_RA		134
#define WIRE_ICMP6_NS		135
#define WIRE_ICMP6_NA		136

struct wire_icmp {
	uint8_t type, code;
	uint16_t id, seq;		/* echo; for errors the two halves of the rest word */
};

/* Pull the 8-byte header: 0 or -EBADMSG. The checksum is not verified (L2-13). */
int wire_icmp_parse(struct view *v, struct wire_icmp *ret);
/* Write WIRE_ICMP_LEN bytes with the checksum over header and BODY; ICMPv6 needs SRC and DST, ICMP takes NULL */
void wire_icmp_emit(uint8_t *p, const struct wire_icmp *h, const struct view *body,
		    const struct inaddr *src6, const struct inaddr *dst6);

#endif
