/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All that a protocol may touch outside its own state. app fills it in; tests
 * fill it with fakes.
 */
#ifndef PORT_ENV_H
#define PORT_ENV_H

#include "base/hash.h"
#include "base/ns.h"
#include "base/rng.h"
#include "base/trace.h"
#include "base/twheel.h"
#include "port/drop.h"
#include "port/l2.h"
#include "port/sk.h"

struct env {
	ns_t now;			/* read once per turn of the loop */
	struct l2 *l2;
	struct sk *sk;
	struct twheel *tw;
	struct rng *rng;
	struct trace *tr;
	struct drops *drops;
	struct hash_key key;		/* secret, random at start */
	struct macaddr our_mac;		/* source of our frames */
	struct macaddr guest_mac;	/* learned; broadcast until then */
};

static inline void env_drop(struct env *e, enum drop why)
{
	e->drops->cnt[why]++;
}

#endif
