/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The link of an instance that has none (--splice-only). Refuses every frame.
 */
#include "l2/none.h"

#include <errno.h>

#define MTU	1500u		/* what protocols may divide by */

static int none_recv(struct l2 *l, struct l2_frame *f, int max)
{
	(void)l, (void)f, (void)max;
	return -EAGAIN;
}

static void none_release(struct l2 *l)
{
	(void)l;
}

static int none_reserve(struct l2 *l, struct l2_frame *f, int n, uint32_t len)
{
	(void)l, (void)f, (void)n, (void)len;
	return 0;
}

static int none_commit(struct l2 *l, const struct l2_frame *f, int n)
{
	(void)l, (void)f, (void)n;
	return 0;
}

void l2_none_init(struct l2 *l)
{
	static const struct l2_ops ops = {
		.name = "none", .recv = none_recv, .release = none_release, .reserve = none_reserve, .commit = none_commit,
	};

	*l = (struct l2){ .ops = &ops, .mtu = MTU };
}
