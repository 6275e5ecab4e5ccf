/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Between ip4.c and ip6.c: wire_ip_emit() is in the former, its IPv6 half in the latter.
 */
#ifndef WIRE_IP_PRIV_H
#define WIRE_IP_PRIV_H

#include "wire/ip.h"

void wire_ip6_emit(uint8_t *p, const struct wire_ip *h, uint32_t payload);

#endif
