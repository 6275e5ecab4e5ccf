/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The window towards the guest: what the host socket would take, so that
 * nothing accepted must be dropped and a far, slow peer shows through.
 *
 * Invariants: the right edge never moves left (RFC 9293 3.8.6), but to 0 while
 * the host's kernel has no memory for more. Where less than one super-frame is
 * advertised a wake-up is armed, else a guest that wants to send more than that
 * would wait for its own probe timer. The kernel calls a socket writable from a third of its buffer on and takes whole socket buffers
 * of up to 64 KiB then, so a writable one always gets one super-frame: arming
 * it would answer at once and spin.
 */
#include "tcp_priv.h"

uint32_t tcp_win_room(const struct sk_room *r, uint32_t limit)
{
	uint32_t room = r->free;

	if (r->writable)
		room = BYTES_MAX(room, TCP_SUPER);
	return BYTES_MIN(BYTES_MIN(room, limit), TCP_WND_MAX);
}

void tcp_win_bulk(struct proto *p, struct tcp *t)
{
	if (p->env->now >= p->tcp_bulk_end) {
		p->tcp_bulk = p->tcp_bulk_now;
		p->tcp_bulk_now = 0;
		p->tcp_bulk_end = p->env->now + TCP_BULK_PERIOD;
		p->tcp_bulk_period++;
	}
	if (t->bulk_period != p->tcp_bulk_period) {
		t->bulk_period = p->tcp_bulk_period;
		p->tcp_bulk_now++;
	}
}

/* What one flow may have in the guest's device. Without segmentation offload its queue of frames is the limit (D04). */
static uint32_t queue_limit(const struct proto *p, const struct flow *f)
{
	const struct l2 *l = p->env->l2;
	const uint32_t bulk = BYTES_MAX(p->tcp_bulk, p->tcp_bulk_now);
	uint32_t tso = inaddr_is_v4(&f->key.guest) ? L2_OFF_TSO4 : L2_OFF_TSO6;

	if ((l->gives & tso) || !l->queue_frames)
		return bulk < 2 ? TCP_WND_MAX : BYTES_MAX(TCP_WND_SHARED / bulk, TCP_WND_SHARE);
	return BYTES_MAX(l->queue_frames / 2 * (l->mtu - wire_ip_hdr_len(&f->key.guest) - WIRE_TCP_LEN), TCP_SUPER);
}

void tcp_win_update(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	uint32_t left = t->rcv_edge - t->rcv_nxt, room;
	struct sk_room r;

	if (left >= t->wnd_low || t->guest_fin || f->h < 0)
		return;
	if (p->env->sk->ops->room(p->env->sk, f->h, &r))
		return;			/* the socket's own error event tells the rest */
	room = tcp_win_room(&r, BYTES_MIN(queue_limit(p, f), 65535u << t->ws_ours));
	/* not for a few bytes at a time (RFC 9293 3.8.6.2.2): a slow peer would turn the flow into tiny segments. But where
	 * nothing will wake us, since the socket is writable, the guest must have room for all that it may send at once.
	 */
	if (room > left && (room - left >= TCP_SUPER / 4 || (left < TCP_SUPER && room >= TCP_SUPER))) {
		t->rcv_edge = t->rcv_nxt + room;
		left = room;
	}
	t->wnd_low = BYTES_MAX(left / 2, TCP_SUPER);
	if (left < TCP_SUPER && !t->armed && !r.writable) {
		t->armed = true;
		p->env->sk->ops->arm(p->env->sk, f->h);
	}
}

uint16_t tcp_win_field(struct tcp *t)
{
	uint32_t left = t->rcv_edge - t->rcv_nxt, unit = 1u << t->ws_ours;
	uint32_t field = BYTES_MIN((left + unit - 1) >> t->ws_ours, 65535u);

	/* A guest that sees room and no acknowledgement gives the connection up after some minutes. At 0 it probes for as long
	 * as the peer does not read, as it would without us. What it has sent already is taken as before.
	 */
	if (t->stuck)
		return 0;

	/* rounded up, as rounding down would move the edge left by a few bytes */
	if (field << t->ws_ours > left)
		t->rcv_edge = t->rcv_nxt + (field << t->ws_ours);
	return (uint16_t)field;
}
