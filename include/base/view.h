/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A view: bytes spread over an iovec array, read-only and passed by value.
 * Lengths and offsets are bytes. A view never owns memory.
 */
#ifndef BASE_VIEW_H
#define BASE_VIEW_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct view {
	const struct iovec *iov;	/* first piece that still holds bytes */
	uint32_t off;			/* offset of the first byte in iov[0] */
	uint32_t len;			/* bytes from there on; the iovec holds at least as many */
};

struct view view_of(const struct iovec *iov, uint32_t len);

/* Header at the start: a pointer to LEN contiguous bytes, which are removed from the view. Where they are split over
 * pieces they are copied to BOUNCE (LEN bytes) first. NULL, and an unchanged view, if fewer are left.
 */
const void *view_pull(struct view *v, void *bounce, uint32_t len);
/* The same without removing */
const void *view_peek(const struct view *v, void *bounce, uint32_t len);
/* Remove LEN bytes at the start, at most all */
void view_skip(struct view *v, uint32_t len);
/* Keep at most LEN bytes */
static inline void view_trim(struct view *v, uint32_t len)
{
	if (v->len > len)
		v->len = len;
}
/* Copy up to LEN bytes out; returns how many */
uint32_t view_copy(const struct view *v, void *dst, uint32_t len);
/* Pieces of the view into RET (CNT places): number used, or -ENOBUFS if more were needed */
int view_iov(const struct view *v, struct iovec *ret, int cnt);

/* Scatter LEN bytes of SRC into IOV from byte OFF on; the pieces must hold them */
void view_scatter(const struct iovec *iov, uint32_t off, const void *src, uint32_t len);

#endif
