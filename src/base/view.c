/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Walking over bytes that lie in several pieces.
 *
 * Refuses to read beyond view.len, whatever the pieces would hold. Invariant: while bytes are left, iov[0] holds at
 * least one of them (empty pieces are stepped over at once); when none are left, iov is not looked at any more, since
 * it may point behind the caller's array.
 */
#include "base/view.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

static const uint8_t nothing[1];

/* Restore the invariant after off or len changed */
static inline void settle(struct view *v)
{
	while (v->len && v->off >= v->iov->iov_len) {
		v->off -= (uint32_t)v->iov->iov_len;
		v->iov++;
	}
}

static inline const uint8_t *here(const struct view *v)
{
	return (const uint8_t *)v->iov->iov_base + v->off;
}

struct view view_of(const struct iovec *iov, uint32_t len)
{
	struct view v = { iov, 0, len };

	settle(&v);
	return v;
}

const void *view_peek(const struct view *v, void *bounce, uint32_t len)
{
	if (len > v->len)
		return NULL;
	if (!len)
		return bounce ? bounce : nothing;
	if (v->iov->iov_len - v->off >= len)
		return here(v);
	view_copy(v, bounce, len);
	return bounce;
}

const void *view_pull(struct view *v, void *bounce, uint32_t len)
{
	const void *p = view_peek(v, bounce, len);

	if (p)
		view_skip(v, len);
	return p;
}

void view_skip(struct view *v, uint32_t len)
{
	len = BYTES_MIN(len, v->len);
	v->len -= len;
	while (v->len && len >= v->iov->iov_len - v->off) {
		len -= (uint32_t)(v->iov->iov_len - v->off);
		v->off = 0;
		v->iov++;
	}
	v->off += len;
}

uint32_t view_copy(const struct view *v, void *dst, uint32_t len)
{
	const struct iovec *iov = v->iov;
	const uint32_t total = BYTES_MIN(len, v->len);
	uint32_t off = v->off;
	uint8_t *d = dst;

	for (uint32_t left = total; left; iov++, off = 0) {
		const uint32_t n = (uint32_t)BYTES_MIN(iov->iov_len - off, left);

		if (!n)
			continue;
		memcpy(d, (const uint8_t *)iov->iov_base + off, n);
		d += n;
		left -= n;
	}
	return total;
}

int view_iov(const struct view *v, struct iovec *ret, int cnt)
{
	const struct iovec *iov = v->iov;
	uint32_t off = v->off;
	int used = 0;

	for (uint32_t left = v->len; left; iov++, off = 0) {
		const uint32_t n = (uint32_t)BYTES_MIN(iov->iov_len - off, left);

		if (!n)
			continue;
		if (used == cnt)
			return -ENOBUFS;
		ret[used++] = (struct iovec){ (uint8_t *)iov->iov_base + off, n };
		left -= n;
	}
	return used;
}

void view_scatter(const struct iovec *iov, uint32_t off, const void *src, uint32_t len)
{
	const uint8_t *s = src;

	for (; len; iov++) {
		uint32_t n;

		if (off >= iov->iov_len) {
			off -= (uint32_t)iov->iov_len;
			continue;
		}
		n = (uint32_t)BYTES_MIN(iov->iov_len - off, len);
		memcpy((uint8_t *)iov->iov_base + off, s, n);
		s += n;
		len -= n;
		off = 0;
	}
}
