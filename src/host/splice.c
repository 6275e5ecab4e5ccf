/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced flows: their table, their listeners, and who gets an event.
 *
 * A reference's index tells a listener (top bit) from a flow, and of a flow the
 * entry and the side. Refuses at its own listeners, those in the namespace,
 * whatever is not loopback at both ends (NAT-33): the namespace's other addresses
 * are none of our business.
 *
 * Invariants:
 * - All tables are mapped and zero until used; links hold index + 1.
 * - An entry that is freed while on the ready or the waiting list stays there and
 *   goes to the free list when its turn comes: `next` serves all three, and a flow
 *   that waits is never ready.
 * - The generation changes when an entry is freed, so events for an earlier use
 *   name nothing.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "sk_priv.h"
#include "splice_priv.h"

#define REF_LISTENER	(1u << 31)

static void *map(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void unmap_all(struct splice *s)
{
	if (s->flow)
		munmap(s->flow, SPLICE_FLOW_MAX * sizeof(*s->flow));
	if (s->bucket)
		munmap(s->bucket, SPLICE_FLOW_MAX * sizeof(*s->bucket));
	if (s->listener)
		munmap(s->listener, SPLICE_LISTENER_MAX * sizeof(*s->listener));
	if (s->buf)
		munmap(s->buf, SPLICE_BUF_LEN);
}

int splice_open(struct splice *s, const struct splice_settings *set, ns_t now, struct err *e)
{
	*s = (struct splice){ .set = *set, .now = now };
	s->flow = map(SPLICE_FLOW_MAX * sizeof(*s->flow));
	s->bucket = map(SPLICE_FLOW_MAX * sizeof(*s->bucket));
	s->listener = map(SPLICE_LISTENER_MAX * sizeof(*s->listener));
	s->buf = map(SPLICE_BUF_LEN);
	if (!s->flow || !s->bucket || !s->listener || !s->buf) {
		unmap_all(s);
		return err_set(e, -ENOMEM, "Out of memory for flows between loopback interfaces");
	}
	twheel_init(&s->tw, now);
	return 0;
}

void splice_close(struct splice *s)
{
	for (uint32_t i = 0; i < s->fresh; i++) {
		struct splice_flow *f = &s->flow[i];

		if (f->kind == SPLICE_KIND_TCP)
			splice_tcp_end(s, f, f->dir[SPLICE_GUEST].shut ? SK_END_GRACEFUL : SK_END_RESET);
		else if (f->kind == SPLICE_KIND_UDP)
			splice_udp_end(s, f);
	}
	for (uint32_t i = 0; i < s->listener_cnt; i++)
		splice_listener_close(s, i);
	while (s->pool_cnt)
		splice_pipe_close(&s->pool[--s->pool_cnt]);
	unmap_all(s);
}

struct ev_ref splice_listener_ref(const struct splice *s)
{
	const uint32_t idx = s->listener_free ? s->listener_free - 1 : s->listener_cnt;

	return (struct ev_ref){ .idx = idx | REF_LISTENER, .gen = idx < SPLICE_LISTENER_MAX ? s->listener[idx].gen : 0, .kind = EV_KIND_SPLICE };
}

int splice_listener_add(struct splice *s, const struct splice_listen *l)
{
	const uint32_t idx = s->listener_free ? s->listener_free - 1 : s->listener_cnt;
	struct splice_listener *new = &s->listener[idx];

	if (idx == SPLICE_LISTENER_MAX)
		return -ENOSPC;
	if (s->listener_free)
		s->listener_free = new->next_free;
	else
		s->listener_cnt++;
	*new = (struct splice_listener){ .l = *l, .gen = new->gen, .held = SPLICE_NONE };
	return (int)idx;
}

int splice_listener_handle(const struct splice *s, uint32_t idx)
{
	return s->listener[idx].l.h;
}

void splice_listener_close(struct splice *s, uint32_t idx)
{
	struct splice_listener *l = &s->listener[idx];
	struct sk *sk = &s->set.sk->sk;

	if (l->l.h == SPLICE_NONE)
		return;
	if (l->l.proto == SK_UDP)
		splice_listener_gone(s, l->l.h);
	if (l->held != SPLICE_NONE)
		sk->ops->close(sk, l->held, SK_END_RESET);
	sk->ops->close(sk, l->l.h, SK_END_GRACEFUL);
	*l = (struct splice_listener){ .l.h = SPLICE_NONE, .gen = l->gen + 1, .held = SPLICE_NONE, .next_free = s->listener_free };
	s->listener_free = idx + 1;
}

struct splice_flow *splice_flow_new(struct splice *s, enum splice_kind kind)
{
	struct splice_flow *f;

	if (s->free_first) {
		f = &s->flow[s->free_first - 1];
		s->free_first = f->next;
	} else if (s->fresh < SPLICE_FLOW_MAX) {
		f = &s->flow[s->fresh++];
	} else {
		splice_refuse(s, SPLICE_REFUSE_FULL);
		return NULL;
	}
	*f = (struct splice_flow){ .gen = f->gen, .kind = kind, .h = { SPLICE_NONE, SPLICE_NONE } };
	s->cnt[kind == SPLICE_KIND_TCP ? SK_TCP : SK_UDP]++;
	return f;
}

void splice_flow_begun(struct splice *s, const struct splice_flow *f)
{
	s->stats.flows[f->kind == SPLICE_KIND_TCP ? SK_TCP : SK_UDP]++;
	trace_open(s->set.tr, s->now, "spliced flow", (uint32_t)(f - s->flow) + SPLICE_TRACED, f->kind, f->front);
}

bool splice_ends(const struct splice *s, uint32_t idx, struct splice_ends *ret)
{
	const struct splice_flow *f = &s->flow[idx];
	union sk_sockaddr sa;
	socklen_t len = sizeof(sa);

	*ret = (struct splice_ends){ .proto = f->kind == SPLICE_KIND_TCP ? SK_TCP : SK_UDP };
	ret->end[splice_back(f)] = f->to;
	if (f->kind == SPLICE_KIND_UDP)
		ret->end[f->front] = f->udp.client;
	else if (f->kind == SPLICE_KIND_TCP && !getpeername(f->h[f->front], &sa.sa, &len))
		sk_from_sockaddr(&sa, &ret->end[f->front]);
	else
		return false;
	return true;
}

static void free_push(struct splice *s, struct splice_flow *f)
{
	f->next = s->free_first;
	s->free_first = (uint32_t)(f - s->flow) + 1;
}

void splice_flow_free(struct splice *s, struct splice_flow *f)
{
	s->cnt[f->kind == SPLICE_KIND_TCP ? SK_TCP : SK_UDP]--;
	f->kind = SPLICE_KIND_FREE;
	f->gen++;
	if (!f->ready && !f->waits)
		free_push(s, f);
}

bool splice_flow_elsewhere(struct splice_flow *f)
{
	if (!f->alt.port)
		return false;
	f->to = f->alt;
	f->alt = (struct sk_addr){ .port = 0 };
	return true;
}

struct ev_ref splice_flow_ref(const struct splice *s, const struct splice_flow *f, enum splice_side side)
{
	return (struct ev_ref){ .idx = (uint32_t)(f - s->flow) * SPLICE_SIDES + side, .gen = f->gen, .kind = EV_KIND_SPLICE };
}

void splice_flow_ready(struct splice *s, struct splice_flow *f)
{
	uint32_t me = (uint32_t)(f - s->flow) + 1;

	if (f->ready)
		return;
	f->ready = true;
	f->next = 0;
	if (s->ready_first)
		s->flow[s->ready_last - 1].next = me;
	else
		s->ready_first = me;
	s->ready_last = me;
}

void splice_flow_wait(struct splice *s, struct splice_flow *f)
{
	uint32_t me = (uint32_t)(f - s->flow) + 1;

	f->waits = true;
	f->next = 0;
	if (s->wait_first)
		s->flow[s->wait_last - 1].next = me;
	else
		s->wait_first = me;
	s->wait_last = me;
	s->wait_cnt++;
}

struct splice_flow *splice_flow_waiting(struct splice *s)
{
	struct splice_flow *f = &s->flow[s->wait_first - 1];

	s->wait_first = f->next;
	s->wait_cnt--;
	f->waits = false;
	if (f->kind != SPLICE_KIND_FREE)
		return f;
	free_push(s, f);
	return NULL;
}

struct splice_way splice_target(const struct splice *s, const struct splice_listen *l, const struct sk_addr *local,
				const struct sk_addr *client, struct inaddr *ret_from)
{
	const bool same = inaddr_is_unset(&l->target);
	struct splice_way w = { .to = { .a = same ? local->a : l->target, .port = l->port } };

	*ret_from = (struct inaddr){ { 0 } };
	if (inaddr_is_loopback(&w.to.a) && inaddr_is_v4(&w.to.a) == inaddr_is_v4(&client->a))
		*ret_from = client->a;
	if (same && !s->set.one_family)
		w.alt = (struct sk_addr){ .a = inaddr_loopback(!inaddr_is_v4(&local->a)), .port = l->port };
	return w;
}

void splice_listener_gone(struct splice *s, int h)
{
	for (uint32_t i = 0; s->cnt[SK_UDP] && i < s->fresh; i++)
		if (s->flow[i].kind == SPLICE_KIND_UDP && s->flow[i].h[s->flow[i].front] == h)
			splice_udp_end(s, &s->flow[i]);
}

void splice_event(struct splice *s, const struct ev_hit *hit, ns_t now)
{
	uint32_t idx = hit->ref.idx & ~REF_LISTENER, entry = idx / SPLICE_SIDES;
	struct splice_flow *f;

	s->now = now;
	if (hit->ref.idx & REF_LISTENER) {
		if (idx >= s->listener_cnt || s->listener[idx].l.h == SPLICE_NONE || s->listener[idx].gen != hit->ref.gen)
			return;
		if (s->listener[idx].l.proto == SK_TCP)
			splice_tcp_listen(s, &s->listener[idx]);
		else
			splice_udp_listen(s, idx, hit->mask);
		return;
	}
	if (entry >= s->fresh)
		return;
	f = &s->flow[entry];
	if (f->gen != hit->ref.gen)
		return;			/* the flow ended earlier in this turn */
	switch ((enum splice_kind)f->kind) {
	case SPLICE_KIND_TCP:
		splice_tcp_event(s, f, (enum splice_side)(idx % SPLICE_SIDES), hit->mask);
		return;
	case SPLICE_KIND_UDP:
		splice_udp_event(s, f, hit->mask);
		return;
	case SPLICE_KIND_FREE:
		return;
	}
}

static void more(struct splice *s, struct splice_flow *f)
{
	switch ((enum splice_kind)f->kind) {
	case SPLICE_KIND_TCP:
		splice_tcp_more(s, f);
		return;
	case SPLICE_KIND_UDP:
		splice_udp_more(s, f);
		return;
	case SPLICE_KIND_FREE:
		free_push(s, f);
		return;
	}
}

void splice_tick(struct splice *s, ns_t now)
{
	uint32_t last = s->ready_last, i;
	struct twheel_timer *t;

	s->now = now;
	while ((t = twheel_pop(&s->tw, now))) {
		struct splice_flow *f = (struct splice_flow *)((char *)t - offsetof(struct splice_flow, timer));

		if (f->kind == SPLICE_KIND_UDP)
			splice_udp_timer(s, f);
		else
			splice_pump_timer(s, f);
	}
	/* only those that were queued before: who has still more goes to the end */
	while ((i = s->ready_first)) {
		struct splice_flow *f = &s->flow[i - 1];

		s->ready_first = f->next;
		f->ready = false;
		more(s, f);
		if (i == last)
			break;
	}
}

ns_t splice_next(const struct splice *s)
{
	return s->ready_first ? 0 : twheel_next(&s->tw);
}

void splice_resume(struct splice *s)
{
	splice_tcp_waiting(s);
	if (!s->any_paused)
		return;
	s->any_paused = false;
	for (uint32_t i = 0; i < s->listener_cnt; i++)
		if (s->listener[i].paused)
			splice_tcp_listen(s, &s->listener[i]);
}

bool splice_draining(const struct splice *s)
{
	if (!s->cnt[SK_TCP])
		return false;
	for (uint32_t i = 0; i < s->fresh; i++)
		if (s->flow[i].kind == SPLICE_KIND_TCP && !s->flow[i].dir[SPLICE_GUEST].shut)
			return true;
	return false;
}

const char *splice_refuse_text(enum splice_refuse r)
{
	static const char *const text[SPLICE_REFUSE_CNT] = {
#define SPLICE_REFUSE_TEXT(name, words) [SPLICE_REFUSE_##name] = #name ": " words,
		SPLICE_REFUSE_LIST(SPLICE_REFUSE_TEXT)
#undef SPLICE_REFUSE_TEXT
	};

	return text[r];
}
