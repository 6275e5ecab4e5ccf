/* SPDX-License-Identifier: BSD-3-Clause
 *
 * For fuzz targets of the wire room: the input cut into pieces, each in memory of exactly its size, and assertions that
 * hold in every build.
 */
#ifndef FUZZ_PIECES_H
#define FUZZ_PIECES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/view.h"
#include "fuzz.h"

#define PIECES_MAX	5

#define fuzz_require(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: required: %s\n", __FILE__, __LINE__, #cond); \
		abort(); \
	} \
} while (0)

struct pieces {
	struct iovec iov[PIECES_MAX];
	int cnt;
};

static inline void pieces_add(struct pieces *s, const uint8_t *p, size_t len)
{
	struct iovec *v = &s->iov[s->cnt++];

	v->iov_len = len;
	v->iov_base = malloc(len ? len : 1);
	fuzz_require(v->iov_base);
	if (len)
		memcpy(v->iov_base, p, len);
}

/* CUTS has PIECES_MAX - 1 lengths of pieces, the last piece takes what is left */
static inline struct view pieces_make(struct pieces *s, const uint8_t *cuts, const uint8_t *p, size_t len)
{
	const size_t total = len;

	s->cnt = 0;
	for (int i = 0; i < PIECES_MAX - 1; i++) {
		const size_t n = cuts[i] < len ? cuts[i] : len;

		pieces_add(s, p, n);
		p += n;
		len -= n;
	}
	pieces_add(s, p, len);
	return view_of(s->iov, (uint32_t)total);
}

static inline void pieces_free(struct pieces *s)
{
	while (s->cnt)
		free(s->iov[--s->cnt].iov_base);
}

/* The first bytes of an input say how the rest is cut: true if there are enough */
static inline int pieces_input(const uint8_t **data, size_t *size, const uint8_t **ret_cuts)
{
	if (*size < PIECES_MAX - 1 || *size > 1 << 17)
		return 0;
	*ret_cuts = *data;
	*data += PIECES_MAX - 1;
	*size -= PIECES_MAX - 1;
	return 1;
}

#endif
