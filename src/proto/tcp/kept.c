/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Payload from the guest that can't be passed on yet: it came ahead of a gap,
 * or the host socket was full. It waits as copies in blocks of a pool that all
 * flows share, so that one lost segment costs one retransmission and not a
 * window. Nothing here is acknowledged, only reported by SACK (RFC 2018): what
 * does not fit is dropped, and the guest still has it.
 *
 * Invariants: a flow's blocks are in order of sequence and don't overlap; a
 * flow has at most TCP_POOL_FLOW of them. Adjacent data shares a block as long
 * as it has room, so small segments don't take a block each. What lies behind all
 * of them, as most that comes ahead of a gap, is put there without a walk.
 */
#include "tcp_priv.h"

struct block {
	uint32_t next;			/* index + 1, 0: last */
	uint32_t seq, len;
	uint8_t data[TCP_POOL_BLOCK - 3 * sizeof(uint32_t)];
};

_Static_assert(sizeof(struct block) == TCP_POOL_BLOCK, "blocks fill the pool");

static struct block *block_at(const struct proto *p, uint32_t link)
{
	return (struct block *)(p->tcp_pool->mem + (size_t)(link - 1) * TCP_POOL_BLOCK);
}

static uint32_t block_end(const struct block *b)
{
	return b->seq + b->len;
}

/* Index + 1, 0: none left */
static uint32_t block_new(struct proto *p, struct tcp *t)
{
	struct tcp_pool *pool = p->tcp_pool;
	uint32_t link = pool->free_head;

	if (t->kept_cnt == TCP_POOL_FLOW)
		return 0;
	if (link)
		pool->free_head = block_at(p, link)->next;
	else if (pool->fresh < TCP_POOL_CNT)
		link = ++pool->fresh;
	else
		return 0;
	pool->used++;
	t->kept_cnt++;
	return link;
}

static void block_free(struct proto *p, struct tcp *t, uint32_t link)
{
	block_at(p, link)->next = p->tcp_pool->free_head;
	p->tcp_pool->free_head = link;
	p->tcp_pool->used--;
	if (!--t->kept_cnt)
		t->kept_last = 0;
}

/* Up to LEN bytes of V at SEQ behind the block PREV (0: before all): how many were stored, 0 if there is no room */
static uint32_t store(struct proto *p, struct tcp *t, uint32_t *prev, uint32_t seq, struct view *v, uint32_t len)
{
	struct block *b = *prev ? block_at(p, *prev) : NULL;
	uint32_t link, next = b ? b->next : t->kept_head;

	if (!b || block_end(b) != seq || b->len == sizeof(b->data)) {
		link = block_new(p, t);
		if (!link)
			return 0;
		if (b)
			b->next = link;
		else
			t->kept_head = link;
		b = block_at(p, link);
		b->next = next;
		if (!next)
			t->kept_last = link;
		b->seq = seq;
		b->len = 0;
		*prev = link;
	}
	len = BYTES_MIN(len, (uint32_t)sizeof(b->data) - b->len);
	len = view_copy(v, b->data + b->len, len);
	b->len += len;
	return len;
}

bool tcp_kept_add(struct proto *p, struct flow *f, uint32_t seq, const struct view *v_all)
{
	struct tcp *t = tcp_of(f);
	struct view v = *v_all;
	uint32_t prev = 0, link, n;

	if (!p->tcp_pool || !p->tcp_pool->mem)
		return false;
	link = t->kept_head;
	t->kept_recent = seq;
	if (link && seqno_le(block_end(block_at(p, t->kept_last)), seq)) {
		prev = t->kept_last;
		link = 0;
	}
	while (v.len) {
		const struct block *b = link ? block_at(p, link) : NULL;

		if (b && seqno_le(block_end(b), seq)) {
			prev = link;
			link = b->next;
			continue;
		}
		if (b && seqno_le(b->seq, seq)) {
			n = BYTES_MIN(block_end(b) - seq, v.len);	/* have it already */
		} else {
			n = store(p, t, &prev, seq, &v, b ? BYTES_MIN(b->seq - seq, v.len) : v.len);
			if (!n)
				return false;
		}
		view_skip(&v, n);
		seq += n;
	}
	return true;
}

int tcp_kept_iov(struct proto *p, struct flow *f, uint32_t seq, struct iovec *iov, int cnt, uint32_t *ret_len)
{
	int n = 0;

	*ret_len = 0;
	for (uint32_t link = tcp_of(f)->kept_head; link && n < cnt;) {
		struct block *b = block_at(p, link);

		link = b->next;
		if (seqno_le(block_end(b), seq))
			continue;
		if (seqno_gt(b->seq, seq))
			break;
		iov[n++] = (struct iovec){ b->data + (seq - b->seq), block_end(b) - seq };
		*ret_len += block_end(b) - seq;
		seq = block_end(b);
	}
	return n;
}

uint32_t tcp_kept_end(struct proto *p, struct flow *f, uint32_t seq)
{
	for (uint32_t link = tcp_of(f)->kept_head; link;) {
		const struct block *b = block_at(p, link);

		if (seqno_gt(b->seq, seq))
			break;
		if (seqno_gt(block_end(b), seq))
			seq = block_end(b);
		link = b->next;
	}
	return seq;
}

void tcp_kept_drop(struct proto *p, struct flow *f, uint32_t seq)
{
	struct tcp *t = tcp_of(f);

	while (t->kept_head) {
		uint32_t link = t->kept_head;
		const struct block *b = block_at(p, link);

		if (seqno_gt(block_end(b), seq))
			return;
		t->kept_head = b->next;
		block_free(p, t, link);
	}
}

void tcp_kept_free(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);

	while (t->kept_head) {
		uint32_t link = t->kept_head;

		t->kept_head = block_at(p, link)->next;
		block_free(p, t, link);
	}
}

int tcp_kept_ranges(struct proto *p, struct flow *f, struct tcp_range *ret, int max)
{
	const struct tcp *t = tcp_of(f);
	struct tcp_range run = { 0, 0 };
	uint32_t link = t->kept_head;
	int n = 0;

	while (link && max > 0) {
		const struct block *b = block_at(p, link);

		run.from = b->seq;
		for (run.to = block_end(b); (link = b->next) && block_at(p, link)->seq == run.to; run.to = block_end(b))
			b = block_at(p, link);
		/* what only waits for the socket is in order: no range beyond the acknowledgement */
		if (seqno_le(run.from, t->rcv_nxt))
			continue;
		if (seqno_le(run.from, t->kept_recent) && seqno_lt(t->kept_recent, run.to)) {
			n = BYTES_MIN(n, max - 1);
			memmove(&ret[1], &ret[0], (size_t)n * sizeof(ret[0]));
			ret[0] = run;
			n++;
		} else if (n < max) {
			ret[n++] = run;
		}
	}
	return n;
}
