/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Big-endian fields at any alignment, and small arithmetic helpers.
 */
#ifndef BASE_BYTES_H
#define BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define BYTES_MIN(a, b)	((a) < (b) ? (a) : (b))
#define BYTES_MAX(a, b)	((a) > (b) ? (a) : (b))
#define BYTES_COUNT(a)	(sizeof(a) / sizeof((a)[0]))

static inline uint16_t bytes_get16(const void *p)
{
	const uint8_t *b = p;

	return (uint16_t)(b[0] << 8 | b[1]);
}

static inline uint32_t bytes_get32(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static inline void bytes_put16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

static inline void bytes_put32(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = (uint8_t)(v >> 24);
	b[1] = (uint8_t)(v >> 16);
	b[2] = (uint8_t)(v >> 8);
	b[3] = (uint8_t)v;
}

#endif
