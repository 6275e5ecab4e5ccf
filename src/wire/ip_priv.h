/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between ip4.c and ip6.c: what serves both families is in the former, its IPv6 half in the latter.
 */
#ifndef WIRE_IP_PRIV_H
#define WIRE_IP_PRIV_H

#include "wire/ip.h"

enum wire_ip_verdict wire_ip6_quote(struct view *v, struct wire_ip *ret);
void wire_ip6_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload);

#endif
