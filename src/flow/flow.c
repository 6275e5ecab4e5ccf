/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The flow table: chained hash over an array of fixed capacity.
 *
 * It allocates nothing, knows no protocol and runs no clean-up of its own:
 * who frees a flow has disarmed its timer and closed its socket before.
 *
 * Invariants:
 * - Links (bucket, hash_next, free_head) hold index + 1, so that zeroed memory
 *   is an empty table and no page is touched before it is needed.
 * - Entries from `fresh` on have never been used. Freed ones are taken again
 *   first, the last freed before the others: its memory is still in the cache.
 * - The generation changes with each use of an entry and is never 0, so an
 *   event for an earlier use, or an all-zero reference, names nothing.
 * - A key stays as it is while its flow is in the table.
 */
#include "flow/flow.h"

#define FLOW_GEN_MASK	0xffffffu	/* what struct ev_ref has room for */

_Static_assert(sizeof(struct flow_key) == 40, "the key is hashed as bytes: no padding");
_Static_assert(sizeof(struct flow) < 1024, "memory of an open connection");
_Static_assert(sizeof(struct flow) % _Alignof(uint32_t) == 0, "buckets follow the entries");

static uint32_t flow_bucket_cnt(uint32_t cap)
{
	uint32_t n = 1;

	while (n < cap)
		n <<= 1;
	return n;
}

size_t flow_tab_size(uint32_t cap)
{
	return cap * sizeof(struct flow) + flow_bucket_cnt(cap) * sizeof(uint32_t);
}

void flow_tab_init(struct flow_tab *t, void *mem, uint32_t cap, const struct hash_key *hkey)
{
	*t = (struct flow_tab){
		.tab = mem,
		.bucket = (uint32_t *)((struct flow *)mem + cap),
		.cap = cap,
		.bucket_cnt = flow_bucket_cnt(cap),
		.hkey = *hkey,
	};
}

static uint32_t *flow_bucket(const struct flow_tab *t, const struct flow_key *key)
{
	return &t->bucket[hash_sip(&t->hkey, key, sizeof(*key)) & (t->bucket_cnt - 1)];
}

struct flow *flow_new(struct flow_tab *t, const struct flow_key *key)
{
	uint32_t *head, gen;
	struct flow *f;

	if (t->free_head) {
		f = &t->tab[t->free_head - 1];
		t->free_head = f->hash_next;
	} else if (t->fresh < t->cap) {
		f = &t->tab[t->fresh++];
	} else {
		return NULL;
	}

	gen = (f->gen + 1) & FLOW_GEN_MASK;
	head = flow_bucket(t, key);
	*f = (struct flow){
		.key = *key,
		.gen = gen ? gen : 1,
		.hash_next = *head,
		.batch_first = FLOW_NONE,
		.batch_last = FLOW_NONE,
		.ready_next = FLOW_NONE,
		.h = -1,
	};
	*head = flow_idx(t, f) + 1;
	t->cnt++;
	return f;
}

void flow_free(struct flow_tab *t, struct flow *f)
{
	uint32_t me = flow_idx(t, f) + 1, *link = flow_bucket(t, &f->key);

	while (*link && *link != me)
		link = &t->tab[*link - 1].hash_next;
	if (!*link)		/* freed twice: leave the table whole */
		return;
	*link = f->hash_next;

	f->key.proto = FLOW_FREE;
	f->hash_next = t->free_head;
	t->free_head = me;
	t->cnt--;
}

struct flow *flow_find(const struct flow_tab *t, const struct flow_key *key)
{
	uint32_t i;

	for (i = *flow_bucket(t, key); i; i = t->tab[i - 1].hash_next) {
		if (!memcmp(&t->tab[i - 1].key, key, sizeof(*key)))
			return &t->tab[i - 1];
	}
	return NULL;
}

struct flow *flow_of_ref(const struct flow_tab *t, struct ev_ref ref)
{
	struct flow *f;

	if (ref.kind != EV_KIND_FLOW || ref.idx >= t->fresh)
		return NULL;
	f = &t->tab[ref.idx];
	return f->key.proto != FLOW_FREE && f->gen == ref.gen ? f : NULL;
}
