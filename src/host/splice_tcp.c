/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced TCP: from accept to end (SPL-1, SPL-3, SPL-6 to SPL-11). No time-out:
 * who is idle may stay.
 *
 * Nothing is read from the accepted socket before the other one is connected:
 * if nobody listens there, the other family's address is tried with all of it
 * still in place. The two directions never wait for each other, so that peers
 * who both only write can't lock each other (D07). A connection that waits on one
 * end and has nothing under way holds no pipe, and an edge is reported once, so
 * a half-closed one costs nothing (D11).
 */
#include <errno.h>

#include "splice_priv.h"

#define WAIT_MAX	64u		/* connections without a socket inside; further ones stay in the kernel's queue */

static const struct inaddr any_source;

static bool out_of_descriptors(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS;
}

void splice_tcp_end(struct splice *s, struct splice_flow *f, enum sk_end how)
{
	struct sk *sk = splice_sk(s);

	for (int i = 0; i < SPLICE_SIDES; i++) {
		splice_pipe_drop(s, &f->dir[i]);
		if (f->h[i] != SPLICE_NONE)
			sk->ops->close(sk, f->h[i], how);
	}
	twheel_cancel(&s->tw, &f->timer);
	splice_flow_free(s, f);
	s->flow_gone = true;
}

/* While its sink is full, what comes to a source need not wake us */
static int hear(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	const bool deaf = d->pending && !d->out;

	if (deaf == d->deaf)
		return 0;
	d->deaf = deaf;
	return sk_host_hear(s->set.sk, f->h[side], !deaf);
}

void splice_tcp_more(struct splice *s, struct splice_flow *f)
{
	int to_host = splice_pump(s, f, SPLICE_GUEST), to_guest;

	to_guest = to_host < 0 ? to_host : splice_pump(s, f, SPLICE_HOST);
	if (to_guest < 0)
		splice_tcp_end(s, f, SK_END_RESET);
	else if (f->dir[SPLICE_GUEST].shut && f->dir[SPLICE_HOST].shut)
		splice_tcp_end(s, f, SK_END_GRACEFUL);
	else if (hear(s, f, SPLICE_GUEST) || hear(s, f, SPLICE_HOST))
		splice_tcp_end(s, f, SK_END_RESET);
	else if (to_host || to_guest)
		splice_flow_ready(s, f);
}

/* Begin to connect the second socket, from FROM; to the next address where that fails at once. 0, -EAGAIN if there is no
 * socket inside at hand, or another negative errno.
 */
static int back_connect(struct splice *s, struct splice_flow *f, const struct inaddr *from)
{
	struct sk *sk = splice_back_sk(s, f);
	const enum splice_side back = splice_back(f);
	int r;

	do {
		r = sk->ops->connect(sk, splice_flow_ref(s, f, back), &f->to, from, (struct sk_syn){ 0 });
		from = &any_source;
	} while (r < 0 && r != -EAGAIN && r != -EPIPE && !out_of_descriptors(r) && splice_flow_elsewhere(f));
	if (r < 0)
		return r;
	f->h[back] = r;
	return 0;
}

/* The same for a flow from the host, which may have to wait */
static int inside_connect(struct splice *s, struct splice_flow *f)
{
	int r = back_connect(s, f, &any_source);

	if (r != -EAGAIN && !out_of_descriptors(r))
		return r;
	splice_flow_wait(s, f);
	return 0;
}

/* Nobody listens there: has another try begun? */
static bool try_again(struct splice *s, struct splice_flow *f)
{
	const enum splice_side back = splice_back(f);

	if (!splice_flow_elsewhere(f))
		return false;
	splice_sk(s)->ops->close(splice_sk(s), f->h[back], SK_END_RESET);
	f->h[back] = SPLICE_NONE;
	f->dir[back].in = f->dir[back].fin = false;
	return !(back == SPLICE_GUEST ? inside_connect(s, f) : back_connect(s, f, &any_source));
}

/* A reset reaches the other side behind what was sent before it, as it would without us */
static void broken(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	if (f->connected)
		splice_pump(s, f, side);
	else if (side == splice_back(f) && try_again(s, f))
		return;
	if (!f->connected && side == splice_back(f))
		splice_refuse(s, SPLICE_REFUSE_CONNECT);
	splice_tcp_end(s, f, SK_END_RESET);
}

void splice_tcp_event(struct splice *s, struct splice_flow *f, enum splice_side side, uint32_t mask)
{
	struct splice_dir *from = &f->dir[side], *to = &f->dir[!side];

	if (mask & (EV_IN | EV_RDHUP | EV_HUP | EV_ERR))
		from->in = true;
	if (mask & (EV_RDHUP | EV_HUP))
		from->fin = true;
	if (mask & (EV_OUT | EV_HUP))
		to->out = true;
	if (mask & EV_PRI)
		from->urgent = true;
	if (mask & EV_ERR) {
		broken(s, f, side);
		return;
	}
	if (side == splice_back(f) && mask & EV_OUT)
		f->connected = true;
	if (f->connected)
		splice_tcp_more(s, f);
}

/* Begin a flow for what was accepted: 0, or out of descriptors or entries, and then nothing has happened */
static int begin(struct splice *s, const struct splice_listener *l, int h, const struct sk_addr *peer, const struct sk_addr *local)
{
	struct sk *sk = splice_sk(s);
	struct splice_flow *f;
	struct splice_way w;
	struct inaddr from;
	int r;

	if (!inaddr_is_loopback(&peer->a) || !inaddr_is_loopback(&local->a)) {
		splice_refuse(s, SPLICE_REFUSE_NOT_LOOPBACK);
		sk->ops->close(sk, h, SK_END_RESET);
		return 0;
	}
	f = splice_flow_new(s, SPLICE_KIND_TCP);
	if (!f)
		return -ENOBUFS;
	w = splice_target(s, &l->l, local, peer, &from);
	f->front = SPLICE_GUEST;
	f->to = w.to;
	f->alt = w.alt;
	r = back_connect(s, f, &from);
	if (out_of_descriptors(r)) {
		splice_refuse(s, SPLICE_REFUSE_NO_DESCRIPTOR);
		splice_flow_free(s, f);
		return r;
	}
	f->h[SPLICE_GUEST] = h;
	if (!r) {
		f->dir[SPLICE_GUEST].out = f->dir[SPLICE_HOST].out = true;
		r = sk->ops->watch(sk, h, splice_flow_ref(s, f, SPLICE_GUEST));
		splice_flow_begun(s, f);
	}
	if (r) {
		splice_refuse(s, SPLICE_REFUSE_CONNECT);
		splice_tcp_end(s, f, SK_END_RESET);
	}
	return 0;
}

void splice_tcp_listen(struct splice *s, struct splice_listener *l)
{
	struct sk *sk = splice_sk(s);
	struct sk_addr peer, local;
	int h;

	l->paused = false;
	if (l->held != SPLICE_NONE) {
		if (begin(s, l, l->held, &l->held_peer, &l->held_local)) {
			l->paused = s->any_paused = true;
			return;
		}
		l->held = SPLICE_NONE;
	}
	do {
		h = sk->ops->accept(sk, l->l.h, &peer, &local);
		if (h >= 0 && begin(s, l, h, &peer, &local)) {
			l->held = h;
			l->held_peer = peer;
			l->held_local = local;
			l->paused = s->any_paused = true;
			return;
		}
	} while (h >= 0 || h == -ECONNABORTED || h == -EINTR);
	if (out_of_descriptors(h)) {
		splice_refuse(s, SPLICE_REFUSE_NO_DESCRIPTOR);
		l->paused = s->any_paused = true;
	}
}

bool splice_takes(const struct splice *s)
{
	return s->wait_cnt < WAIT_MAX && (s->free_first || s->fresh < SPLICE_FLOW_MAX);
}

void splice_accepted(struct splice *s, int h, const struct splice_way *w)
{
	struct splice_flow *f = splice_flow_new(s, SPLICE_KIND_TCP);
	struct sk *sk = splice_sk(s);
	int r;

	if (!f) {
		sk->ops->close(sk, h, SK_END_RESET);
		return;
	}
	f->front = SPLICE_HOST;
	f->to = w->to;
	f->alt = w->alt;
	f->h[SPLICE_HOST] = h;
	f->dir[SPLICE_GUEST].out = f->dir[SPLICE_HOST].out = true;
	splice_flow_begun(s, f);
	/* its end shows while we wait for a socket inside */
	r = sk->ops->watch(sk, h, splice_flow_ref(s, f, SPLICE_HOST));
	if (!r)
		r = inside_connect(s, f);
	if (r) {
		splice_refuse(s, SPLICE_REFUSE_CONNECT);
		splice_tcp_end(s, f, SK_END_RESET);
	}
}

void splice_tcp_waiting(struct splice *s)
{
	const uint32_t before = s->wait_cnt;

	for (uint32_t i = 0; i < before; i++) {
		struct splice_flow *f = splice_flow_waiting(s);

		if (f && inside_connect(s, f)) {
			splice_refuse(s, SPLICE_REFUSE_CONNECT);
			splice_tcp_end(s, f, SK_END_RESET);
		}
	}
	if (before >= WAIT_MAX && s->wait_cnt < WAIT_MAX)
		s->flow_gone = true;
}
