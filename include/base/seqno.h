/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP sequence numbers: modular comparison (RFC 9293 3.4).
 */
#ifndef BASE_SEQNO_H
#define BASE_SEQNO_H

#include <stdbool.h>
#include <stdint.h>

static inline bool seqno_lt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline bool seqno_le(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) <= 0;
}

static inline bool seqno_gt(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) > 0;
}

static inline bool seqno_ge(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) >= 0;
}

#endif
