/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Spliced TCP: two sockets, and for each direction a pipe while data is under
 * way (SPL-1 to SPL-11). No time-out: who is idle may stay.
 *
 * A direction goes on while its source may have data and its sink may have room,
 * as events and -EAGAIN tell; the two directions never wait for each other, so
 * that peers who both only write can't lock each other (D07). A pipe is filled
 * only when it is empty: -EAGAIN then always means a dry source. A connection
 * that waits on one end and has nothing under way holds no pipe, and an edge is
 * reported once, so a half-closed one costs nothing (D11).
 *
 * Two kinds of data take a detour through a buffer, and are copied: urgent data,
 * at which splice(2) stops for ever, and any when there are no descriptors for a
 * pipe.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "splice_priv.h"

#define PIPE_LEN	(1 << 20)	/* fs.pipe-max-size, which nobody needs a privilege for */
#define PIPE_LEN_MIN	(64 << 10)
#define BUDGET		(2 << 20)	/* bytes of one direction before others get their turn */
#define COPY_LEN	65536u

static struct sk *sk_of(const struct splice *s)
{
	return &s->set.sk->sk;
}

static bool out_of_descriptors(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -ENOBUFS;
}

void splice_pipe_close(struct splice_pipe *p)
{
	close(p->fd[0]);
	close(p->fd[1]);
}

/* Whether the direction has a pipe now */
static bool pipe_get(struct splice *s, struct splice_dir *d)
{
	long page = sysconf(_SC_PAGESIZE);
	int len;

	if (d->piped)
		return true;
	if (s->pool_cnt) {
		d->pipe = s->pool[--s->pool_cnt];
		return d->piped = true;
	}
	if (pipe2(d->pipe.fd, O_NONBLOCK | O_CLOEXEC))
		return false;
	/* more than fs.pipe-user-pages-soft of one user's pipes can't grow, and are small; they work nevertheless */
	for (len = PIPE_LEN; len > PIPE_LEN_MIN; len /= 2)
		if (fcntl(d->pipe.fd[1], F_SETPIPE_SZ, len) > 0)
			break;
	len = fcntl(d->pipe.fd[1], F_GETPIPE_SZ);
	d->pipe.slot_cnt = len > page ? (uint32_t)(len / page) : 1;
	return d->piped = true;
}

static void pipe_put(struct splice *s, struct splice_dir *d)
{
	if (!d->piped)
		return;
	if (!d->pending && s->pool_cnt < SPLICE_POOL)
		s->pool[s->pool_cnt++] = d->pipe;
	else
		splice_pipe_close(&d->pipe);
	d->piped = false;
	d->pending = 0;
}

void splice_tcp_end(struct splice *s, struct splice_flow *f, enum sk_end how)
{
	struct sk *sk = sk_of(s);

	for (int i = 0; i < SPLICE_SIDES; i++) {
		pipe_put(s, &f->dir[i]);
		if (f->h[i] != SPLICE_NONE)
			sk->ops->close(sk, f->h[i], how);
	}
	splice_flow_free(s, f);
	s->flow_gone = true;
}

/* Without a pipe: what fits goes, and only that is taken away from the source */
static int copy_some(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	struct iovec iov = { s->buf, COPY_LEN };
	struct sk *sk = sk_of(s);
	int r = sk->ops->peek(sk, f->h[side], 0, &iov, 1);

	if (r == -EAGAIN) {
		d->in = d->urgent = false;
		return 0;
	}
	if (r <= 0) {
		d->eof = !r;
		return r == -EINTR ? 0 : r;
	}
	iov.iov_len = (size_t)r;
	r = sk->ops->send(sk, f->h[!side], &iov, 1);
	if (r == -EAGAIN) {
		d->out = false;
		return 0;
	}
	if (r < 0)
		return r;
	s->stats.bytes[side] += (uint64_t)r;
	return sk->ops->drop(sk, f->h[side], (uint32_t)r);
}

static int fill(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	ssize_t n;

	if (d->urgent || !pipe_get(s, d))
		return copy_some(s, f, side);
	n = splice(f->h[side], NULL, d->pipe.fd[1], NULL, PIPE_LEN, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n < 0)
		d->in = false;
	else if (!n)
		d->eof = true;
	else
		d->pending = (uint32_t)n;
	/* so little can't have filled the pipe: the queue is empty, and what comes makes an edge */
	if (n > 0 && (uint32_t)n < d->pipe.slot_cnt && !d->fin)
		d->in = false;
	return 0;
}

static int drain(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	ssize_t n = splice(d->pipe.fd[0], NULL, f->h[!side], NULL, d->pending, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n <= 0) {
		d->out = false;
		return 0;
	}
	d->pending -= (uint32_t)n;
	s->stats.bytes[side] += (uint64_t)n;
	return 0;
}

/* All that goes now: 0, 1 if there is more, or negative errno */
static int pump(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	uint64_t end = s->stats.bytes[side] + BUDGET;
	int r = 0;

	while (!r && d->out && (d->pending || (d->in && !d->eof))) {
		if (s->stats.bytes[side] >= end)
			r = 1;
		else
			r = d->pending ? drain(s, f, side) : fill(s, f, side);
	}
	if (!d->pending)
		pipe_put(s, d);
	if (!r && d->eof && !d->pending && !d->shut) {
		r = sk_of(s)->ops->shut(sk_of(s), f->h[!side]);
		d->shut = !r;
	}
	return r;
}

void splice_tcp_more(struct splice *s, struct splice_flow *f)
{
	int to_host = pump(s, f, SPLICE_GUEST), to_guest;

	to_guest = to_host < 0 ? to_host : pump(s, f, SPLICE_HOST);
	if (to_guest < 0)
		splice_tcp_end(s, f, SK_END_RESET);
	else if (f->dir[SPLICE_GUEST].shut && f->dir[SPLICE_HOST].shut)
		splice_tcp_end(s, f, SK_END_GRACEFUL);
	else if (to_host || to_guest)
		splice_flow_ready(s, f);
}

/* A reset reaches the other side behind what was sent before it, as it would without us */
static void broken(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	if (f->connected)
		pump(s, f, side);
	else if (side == SPLICE_HOST)
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
	if (side == SPLICE_HOST && !f->connected) {
		if (!(mask & EV_OUT))
			return;
		if (sk_of(s)->ops->result(sk_of(s), f->h[side])) {
			broken(s, f, side);
			return;
		}
		f->connected = true;
	}
	if (f->connected)
		splice_tcp_more(s, f);
}

/* Begin a flow for what was accepted: 0, or out of descriptors or entries, and then nothing has happened */
static int begin(struct splice *s, const struct splice_listener *l, int h, const struct sk_addr *peer, const struct sk_addr *local)
{
	struct sk *sk = sk_of(s);
	struct splice_flow *f;
	struct inaddr from;
	struct sk_addr to;
	int r;

	if (!inaddr_is_loopback(&peer->a) || !inaddr_is_loopback(&local->a)) {
		splice_refuse(s, SPLICE_REFUSE_NOT_LOOPBACK);
		sk->ops->close(sk, h, SK_END_RESET);
		return 0;
	}
	f = splice_flow_new(s, SPLICE_KIND_TCP);
	if (!f)
		return -ENOBUFS;
	to = splice_target(&l->l, local, peer, &from);
	r = sk->ops->connect(sk, splice_flow_ref(s, f, SPLICE_HOST), &to, &from, 0, 0);
	if (out_of_descriptors(r)) {
		splice_refuse(s, SPLICE_REFUSE_NO_DESCRIPTOR);
		splice_flow_free(s, f);
		return r;
	}
	f->h[SPLICE_GUEST] = h;
	if (r >= 0) {
		f->h[SPLICE_HOST] = r;
		f->dir[SPLICE_GUEST].out = f->dir[SPLICE_HOST].out = true;
		r = sk->ops->watch(sk, h, splice_flow_ref(s, f, SPLICE_GUEST));
		s->stats.flows[SK_TCP]++;
	}
	if (r) {
		splice_refuse(s, SPLICE_REFUSE_CONNECT);
		splice_tcp_end(s, f, SK_END_RESET);
	}
	return 0;
}

void splice_tcp_listen(struct splice *s, struct splice_listener *l)
{
	struct sk *sk = sk_of(s);
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
