/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the guest has of what we sent, by its selective acknowledgements
 * (RFC 2018, 6675), and whether what was sent again arrived: repairs go in rounds
 * of about one RTT, and what is still missing at the end of one was lost again.
 * That is RACK (RFC 8985) with one time for all segments instead of one for each.
 * A scoreboard of a few ranges: with more of them the highest
 * are forgotten, and are sent again in the worst case. Numbers only.
 *
 * Invariant: ranges ascend, don't touch each other, and lie between una and max.
 */
#include "tcp_priv.h"

static void range_add(struct tcp *t, struct tcp_range r)
{
	int i = 0, j;

	while (i < t->sacked_cnt && seqno_lt(t->sacked[i].to, r.from))
		i++;
	/* [i, j) are those that R touches */
	for (j = i; j < t->sacked_cnt && seqno_le(t->sacked[j].from, r.to); j++) {
		if (seqno_lt(t->sacked[j].from, r.from))
			r.from = t->sacked[j].from;
		if (seqno_gt(t->sacked[j].to, r.to))
			r.to = t->sacked[j].to;
	}
	if (i == j) {
		if (i == TCP_SACKED)
			return;
		if (t->sacked_cnt == TCP_SACKED)
			t->sacked_cnt--;
		memmove(&t->sacked[i + 1], &t->sacked[i], (size_t)(t->sacked_cnt - i) * sizeof(t->sacked[0]));
		t->sacked_cnt++;
	} else {
		memmove(&t->sacked[i + 1], &t->sacked[j], (size_t)(t->sacked_cnt - j) * sizeof(t->sacked[0]));
		t->sacked_cnt -= (uint8_t)(j - i - 1);
	}
	t->sacked[i] = r;
}

static bool range_known(const struct tcp *t, const struct tcp_range *r)
{
	for (int i = 0; i < t->sacked_cnt; i++)
		if (seqno_le(t->sacked[i].from, r->from) && seqno_ge(t->sacked[i].to, r->to))
			return true;
	return false;
}

bool tcp_sack_take(struct tcp *t, const struct wire_tcp *h)
{
	uint32_t una = seqno_gt(h->ack, t->una) ? h->ack : t->una;
	bool news = false;

	for (int i = 0; i < h->sack_cnt; i++) {
		const struct tcp_range r = { h->sack[i].from, h->sack[i].to };

		/* not beyond its ACK: a duplicate that it reports (RFC 2883); beyond max: not ours. By distance from one place: of
		 * comparisons in pairs, each can hold in a block that goes half around.
		 */
		if (!(r.from - una) || r.from - una >= r.to - una || r.to - una > t->max - una || range_known(t, &r))
			continue;
		range_add(t, r);
		if (seqno_gt(r.to, t->sacked_max))
			t->sacked_max = r.to;
		news = true;
	}
	return news;
}

void tcp_sack_trim(struct tcp *t)
{
	int gone = 0;

	if (seqno_lt(t->sacked_max, t->una))
		t->sacked_max = t->una;
	while (gone < t->sacked_cnt && seqno_le(t->sacked[gone].to, t->una))
		gone++;
	t->sacked_cnt -= (uint8_t)gone;
	memmove(&t->sacked[0], &t->sacked[gone], t->sacked_cnt * sizeof(t->sacked[0]));
	if (t->sacked_cnt && seqno_lt(t->sacked[0].from, t->una))
		t->sacked[0].from = t->una;
}

uint32_t tcp_sack_sum(const struct tcp *t)
{
	uint32_t sum = 0;

	for (int i = 0; i < t->sacked_cnt; i++)
		sum += t->sacked[i].to - t->sacked[i].from;
	return sum;
}

bool tcp_sack_lost(const struct tcp *t)
{
	return t->sacked_cnt >= TCP_DUPACKS || tcp_sack_sum(t) > (TCP_DUPACKS - 1u) * t->mss;
}

void tcp_sack_round(struct tcp *t)
{
	if (seqno_le(t->round_end, t->una))	/* none has begun: what was lost is not all sent yet */
		return;
	/* as much beyond as shows a loss in the first place */
	if (seqno_le(t->sacked_max, t->round_seq + (TCP_DUPACKS - 1u) * t->mss))
		return;
	t->again = (struct tcp_range){ t->una, t->round_end };
	t->round_end = t->una;		/* the next one begins when that is sent */
}

bool tcp_sack_hole(const struct tcp *t, uint32_t from, struct tcp_range *ret)
{
	for (int i = 0; i < t->sacked_cnt; i++) {
		if (seqno_lt(from, t->sacked[i].from)) {
			*ret = (struct tcp_range){ from, t->sacked[i].from };
			return true;
		}
		if (seqno_lt(from, t->sacked[i].to))
			from = t->sacked[i].to;
	}
	return false;
}
