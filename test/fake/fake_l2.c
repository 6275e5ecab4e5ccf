/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Recording guest link for unit tests. Gives no frames from the guest: tests
 * hand packets to the protocol themselves. Refuses what its owner says.
 */
#include "fake_l2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fake_l2_die(const char *why)
{
	fprintf(stderr, "fake_l2: %s\n", why);
	abort();
}

static int fake_l2_recv(struct l2 *l, struct l2_frame *f, int max)
{
	(void)l, (void)f, (void)max;
	return -EAGAIN;
}

static void fake_l2_release(struct l2 *l)
{
	(void)l;
}

static void fake_l2_unpool(struct fake_l2 *k)
{
	while (k->pool_cnt)
		free(k->pool[--k->pool_cnt]);
}

static int fake_l2_reserve(struct l2 *l, struct l2_frame *f, int n, uint32_t len)
{
	struct fake_l2 *k = (struct fake_l2 *)l;
	int i;

	fake_l2_unpool(k);
	k->pool_len = len;
	for (i = 0; i < n && i < L2_BATCH && (uint32_t)i < k->reserve_max; i++) {
		uint32_t off = 0;

		k->pool[i] = malloc(len ? len : 1);
		memset(k->pool[i], 0xa5, len);
		memset(&f[i], 0xa5, sizeof(f[i]));	/* the descriptor is the caller's to set */
		f[i].iov_cnt = 0;
		f[i].id = (uint32_t)i;
		do {
			uint32_t piece = len - off;

			if (k->split && piece > k->split && f[i].iov_cnt < L2_IOV_MAX - 1)
				piece = k->split;
			f[i].iov[f[i].iov_cnt++] = (struct iovec){ k->pool[i] + off, piece };
			off += piece;
		} while (off < len);
	}
	k->pool_cnt = i;
	return i;
}

static void fake_l2_keep(struct fake_l2 *k, const struct l2_frame *f)
{
	struct fake_l2_frame *r = &k->frames[k->cnt];
	uint32_t off = 0;

	if (k->cnt == FAKE_L2_MAX)
		fake_l2_die("more frames than FAKE_L2_MAX");
	*r = (struct fake_l2_frame){ malloc(f->len ? f->len : 1), f->len, f->gso, f->csum, f->gso_size,
				     f->csum_start, f->csum_off, f->hdr_len };
	for (uint32_t i = 0; i < f->iov_cnt && off < f->len; i++) {
		const uint32_t n = f->iov[i].iov_len < f->len - off ? (uint32_t)f->iov[i].iov_len : f->len - off;

		memcpy(r->buf + off, f->iov[i].iov_base, n);
		off += n;
	}
	if (off != f->len)
		fake_l2_die("a frame longer than its memory");
	k->cnt++;
}

static int fake_l2_commit(struct l2 *l, const struct l2_frame *f, int n)
{
	struct fake_l2 *k = (struct fake_l2 *)l;

	k->commits++;
	for (int i = 0; i < n; i++) {
		if (f[i].id >= (uint32_t)k->pool_cnt || f[i].len > k->pool_len)
			fake_l2_die("commit of what was not reserved");
		if (k->refuse_at != UINT32_MAX && !k->refuse_at)
			return i;
		if (k->refuse_at != UINT32_MAX)
			k->refuse_at--;
		fake_l2_keep(k, &f[i]);
	}
	return n;
}

static const struct l2_ops fake_l2_ops = {
	.name = "fake",
	.recv = fake_l2_recv,
	.release = fake_l2_release,
	.reserve = fake_l2_reserve,
	.commit = fake_l2_commit,
};

void fake_l2_init(struct fake_l2 *l, uint32_t takes)
{
	memset(l, 0, sizeof(*l));
	l->l2.ops = &fake_l2_ops;
	l->l2.takes = takes;
	l->l2.mtu = 1500;
	l->refuse_at = l->reserve_max = UINT32_MAX;
}

void fake_l2_clear(struct fake_l2 *l)
{
	for (uint32_t i = 0; i < l->cnt; i++)
		free(l->frames[i].buf);
	memset(l->frames, 0, sizeof(l->frames[0]) * l->cnt);
	l->cnt = l->commits = 0;
}

void fake_l2_refuse_after(struct fake_l2 *l, uint32_t n)
{
	l->refuse_at = n;
}

void fake_l2_done(struct fake_l2 *l)
{
	fake_l2_clear(l);
	fake_l2_unpool(l);
}
