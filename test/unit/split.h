/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For unit tests: bytes cut into pieces, each in memory of exactly its size, so that the sanitizer sees every byte read
 * too far.
 */
#ifndef UNIT_SPLIT_H
#define UNIT_SPLIT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "base/view.h"

struct split {
	struct iovec *iov;
	int cnt;
};

static inline void split_add(struct split *s, const void *p, size_t len)
{
	s->iov = realloc(s->iov, (size_t)(s->cnt + 1) * sizeof(*s->iov));
	assert_non_null(s->iov);
	s->iov[s->cnt].iov_base = malloc(len);
	s->iov[s->cnt].iov_len = len;
	if (len)
		memcpy(s->iov[s->cnt].iov_base, p, len);
	s->cnt++;
}

static inline void split_free(struct split *s)
{
	for (int i = 0; i < s->cnt; i++)
		free(s->iov[i].iov_base);
	free(s->iov);
	*s = (struct split){ 0 };
}

/* Ways to cut LEN bytes: 0 to LEN: two pieces, cut there; LEN + 1: single bytes with empty pieces between; LEN + 2: 3s */
#define SPLIT_WAYS(len)	((uint32_t)(len) + 3)

static inline struct view split_make(struct split *s, const void *p, uint32_t len, uint32_t way)
{
	const uint8_t *b = p;
	uint32_t n;

	*s = (struct split){ 0 };
	if (way <= len) {
		split_add(s, b, way);
		split_add(s, b, 0);
		split_add(s, b + way, len - way);
	} else {
		for (uint32_t i = 0; i < len; i += n) {
			n = way == len + 1 || len - i < 3 ? 1 : 3;
			split_add(s, b + i, n);
			if (way == len + 1)
				split_add(s, b, 0);
		}
	}
	return view_of(s->iov, len);
}

/* Hex text with blanks to bytes; returns how many */
static inline uint32_t split_hex(uint8_t *ret, const char *hex)
{
	uint32_t n = 0;
	char two[3] = { 0 };

	while (*hex) {
		if (*hex == ' ') {
			hex++;
			continue;
		}
		assert_true(hex[1]);
		memcpy(two, hex, 2);
		ret[n++] = (uint8_t)strtoul(two, NULL, 16);
		hex += 2;
	}
	return n;
}

#endif
