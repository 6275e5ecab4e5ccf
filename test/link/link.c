/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A wire of limited rate with a queue in front of it, then a delay, then maybe
 * a detour: a frame held back lets some others pass. Loss comes first, so that
 * a lost frame takes no time on the wire; a double takes its own.
 *
 * Each frame draws the same four random numbers whatever the configuration and
 * the load are. So one seed loses the same frames at any rate and delay.
 */
#include <stdlib.h>
#include <string.h>

#include "link.h"

#define NS_S UINT64_C(1000000000)

void link_init(struct link_dir *d, const struct link_conf *conf, uint64_t seed)
{
	memset(d, 0, sizeof(*d));
	d->conf = *conf;
	d->tail = &d->head;
	rng_seed(&d->rng, seed);
}

static void free_list(struct link_frame *f)
{
	while (f) {
		struct link_frame *next = f->next;

		free(f);
		f = next;
	}
}

void link_free(struct link_dir *d)
{
	free_list(d->head);
	free_list(d->held);
	d->head = d->held = d->waiting = NULL;
	d->tail = &d->head;
	d->held_cnt = d->waiting_cnt = 0;
}

/* Frames that the wire has taken no longer wait for it */
static void advance(struct link_dir *d, uint64_t now_ns)
{
	while (d->waiting && d->waiting->sent_ns <= now_ns) {
		d->waiting = d->waiting->next;
		d->waiting_cnt--;
	}
}

static void enqueue(struct link_dir *d, uint64_t now_ns, const void *data, uint32_t len, uint64_t jitter_ns)
{
	struct link_frame *f;
	uint64_t due;

	if (d->conf.limit_cnt && d->waiting_cnt >= d->conf.limit_cnt) {
		d->stat.overflow++;
		return;
	}
	f = malloc(sizeof(*f) + len);
	if (!f) {
		d->stat.overflow++;
		return;
	}
	memset(f, 0, sizeof(*f));
	memcpy(f->data, data, len);
	f->len = len;
	f->sent_ns = now_ns;
	if (d->conf.rate_bps) {
		if (d->busy_ns < now_ns)
			d->busy_ns = now_ns;
		d->busy_ns += (uint64_t)len * 8 * NS_S / d->conf.rate_bps;
		f->sent_ns = d->busy_ns;
	}
	due = f->sent_ns + d->conf.delay_ns + jitter_ns;
	f->due_ns = d->last_ns = due < d->last_ns ? d->last_ns : due;
	*d->tail = f;
	d->tail = &f->next;
	if (!d->waiting)
		d->waiting = f;
	d->waiting_cnt++;
}

void link_put(struct link_dir *d, uint64_t now_ns, const void *data, uint32_t len)
{
	bool lose = rng_below(&d->rng, LINK_CERTAIN) < d->conf.loss_ppm;
	bool dup = rng_below(&d->rng, LINK_CERTAIN) < d->conf.dup_ppm;
	bool hold = rng_below(&d->rng, LINK_CERTAIN) < d->conf.reorder_ppm;
	uint64_t jitter = rng_u64(&d->rng);
	struct link_frame **at;

	d->stat.in++;
	advance(d, now_ns);
	if (lose) {
		d->stat.lost++;
		return;
	}
	jitter = d->conf.jitter_ns ? jitter % d->conf.jitter_ns : 0;
	at = d->tail;
	enqueue(d, now_ns, data, len, jitter);
	if (*at)
		(*at)->hold = hold;
	if (dup) {
		d->stat.duplicated++;
		enqueue(d, now_ns, data, len, jitter);
	}
	advance(d, now_ns);
}

/* The first frame held back whose time has come */
static struct link_frame **released(struct link_dir *d, uint64_t now_ns)
{
	for (struct link_frame **at = &d->held; *at; at = &(*at)->next)
		if (!(*at)->to_pass_cnt || (*at)->due_ns <= now_ns)
			return at;
	return NULL;
}

static struct link_frame *deliver(struct link_dir *d, struct link_frame *f)
{
	f->next = NULL;
	d->stat.out++;
	d->stat.out_bytes += f->len;
	return f;
}

static void hold_back(struct link_dir *d, struct link_frame *f)
{
	struct link_frame **at = &d->held;

	while (*at)
		at = &(*at)->next;
	f->next = NULL;
	f->to_pass_cnt = d->conf.reorder_cnt;
	f->due_ns += d->conf.reorder_ns;
	*at = f;
	d->held_cnt++;
	d->stat.reordered++;
}

struct link_frame *link_take(struct link_dir *d, uint64_t now_ns)
{
	struct link_frame **at, *f;

	advance(d, now_ns);
	at = released(d, now_ns);
	if (at) {
		f = *at;
		*at = f->next;
		d->held_cnt--;
		return deliver(d, f);
	}
	while (d->head && d->head->due_ns <= now_ns) {
		f = d->head;
		d->head = f->next;
		if (!d->head)
			d->tail = &d->head;
		if (f->hold && d->conf.reorder_cnt && d->held_cnt < LINK_HELD_MAX) {
			hold_back(d, f);
			continue;
		}
		for (struct link_frame *h = d->held; h; h = h->next)
			h->to_pass_cnt--;
		return deliver(d, f);
	}
	return NULL;
}

uint64_t link_next(const struct link_dir *d)
{
	uint64_t at = d->head ? d->head->due_ns : LINK_NEVER;

	for (const struct link_frame *h = d->held; h; h = h->next) {
		if (!h->to_pass_cnt)
			return 0;
		if (h->due_ns < at)
			at = h->due_ns;
	}
	return at;
}
