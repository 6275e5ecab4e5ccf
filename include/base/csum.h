/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Internet checksum (RFC 1071). Partial sums are 32-bit, unfolded.
 */
#ifndef BASE_CSUM_H
#define BASE_CSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/addr.h"
#include "base/view.h"

/* Add LEN bytes to a partial sum; every piece but the last must have even length */
uint32_t csum_add(uint32_t sum, const void *p, size_t len);
/* Add a view of any piece lengths */
uint32_t csum_add_view(uint32_t sum, const struct view *v);
/* Pseudo-header of TCP, UDP or ICMPv6 (RFC 9293 3.1, RFC 8200 8.1), by the family of SRC */
uint32_t csum_pseudo(const struct inaddr *src, const struct inaddr *dst, uint8_t proto, uint32_t len);
/* Fold, not complemented: what goes into the field when the link completes it (partial) */
uint16_t csum_fold(uint32_t sum);
/* Fold and complement: the finished field, host order */
static inline uint16_t csum_done(uint32_t sum)
{
	return (uint16_t)~csum_fold(sum);
}

#endif
