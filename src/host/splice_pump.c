/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One direction of a spliced TCP connection (SPL-2, SPL-4 to SPL-6, SPL-9).
 *
 * It goes on while its source may have data and its sink may have room, as
 * events and -EAGAIN tell. Little at once is copied: recv() and send() of some
 * bytes cost less than two splice() and the pages of a pipe. Much at once goes
 * through a pipe, as many segments in a call as it takes, and no byte of it is
 * touched. Such a pipe is filled only when it is empty: -EAGAIN then always means
 * a dry source. A direction with nothing under way holds no pipe.
 *
 * A long run of pieces is woken for only when several have come. That many may
 * never come, so that a timer looks whether it still runs: whoever pauses pays
 * for it with no more than QUIET, once for a run that gets twice as long each
 * time. A source that is fast enough to give us much at once is left alone: to
 * wait for more would only make the sink wait.
 *
 * What was read and can't be sent goes into a pipe, so that is at hand before
 * anything is read; without descriptors for one, data stays in its source until
 * the sink has taken it. That way urgent data goes as well, at which splice(2)
 * stops for ever.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "sk_priv.h"
#include "splice_priv.h"

#define PIPE_LEN	(1 << 20)	/* fs.pipe-max-size, which nobody needs a privilege for */
#define PIPE_LEN_MIN	(64 << 10)
#define FILL_LEN	(4 << 20)	/* what a pipe may take: each of its slots takes up to a 32 KiB piece of a segment */
#define BUDGET		(4 << 20)	/* bytes of one direction before others get their turn */
#define COPY_LEN	65536u		/* so much at once is bulk, and less than BULK_LEN is not */
#define BULK_LEN	16384u
#define LOWAT		(256u << 10)	/* worth a wake-up ... */
#define LOWAT_RUN	(64u << 10)	/* ... after this many KiB without a pause */
#define LOWAT_WARY	10
#define QUIET		(2 * NS_MS)	/* a pause */

void splice_pipe_close(struct splice_pipe *p)
{
	close(p->fd[0]);
	close(p->fd[1]);
}

/* Whether there is a pipe in the pool now */
static bool pool_any(struct splice *s)
{
	const long page = sysconf(_SC_PAGESIZE);
	struct splice_pipe p;
	int len;

	if (s->pool_cnt)
		return true;
	if (pipe2(p.fd, O_NONBLOCK | O_CLOEXEC))
		return false;
	/* more than fs.pipe-user-pages-soft of one user's pipes can't grow, and are small; they work nevertheless */
	for (len = PIPE_LEN; len > PIPE_LEN_MIN; len /= 2)
		if (fcntl(p.fd[1], F_SETPIPE_SZ, len) > 0)
			break;
	len = fcntl(p.fd[1], F_GETPIPE_SZ);
	p.slot_cnt = len > page ? (uint32_t)(len / page) : 1;
	p.len = p.slot_cnt * (uint32_t)page;
	s->pool[s->pool_cnt++] = p;
	return true;
}

/* Whether the direction has a pipe now */
static bool pipe_get(struct splice *s, struct splice_dir *d)
{
	if (d->piped)
		return true;
	if (!pool_any(s))
		return false;
	d->pipe = s->pool[--s->pool_cnt];
	return d->piped = true;
}

void splice_pipe_drop(struct splice *s, struct splice_dir *d)
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

/* Without a pipe: what fits goes, and only that is taken away from the source */
static int copy_kept(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	struct iovec iov = { s->buf, COPY_LEN };
	struct sk *sk = splice_sk(s);
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

/* Some bytes: what the sink does not take of them at once is pending in a pipe */
static int copy_some(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	const uint32_t most = BYTES_MIN(COPY_LEN, s->pool[s->pool_cnt - 1].len);
	ssize_t n = recv(f->h[side], s->buf, most, MSG_DONTWAIT), sent;

	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n <= 0) {
		d->in = n == 0;
		d->eof = n == 0;
		return 0;
	}
	d->bulk = n == COPY_LEN;
	if ((uint32_t)n < most && !d->fin)	/* the queue is empty, and what comes makes an edge */
		d->in = false;
	do
		sent = send(f->h[!side], s->buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0 && errno != EAGAIN)
		return -errno;
	sent = BYTES_MAX(sent, 0);
	s->stats.bytes[side] += (uint64_t)sent;
	if (sent == n)
		return 0;
	d->out = false;
	pipe_get(s, d);
	n = write(d->pipe.fd[1], s->buf + sent, (size_t)(n - sent));
	if (n < 0)
		return -errno;
	d->pending = (uint32_t)n;
	return 0;
}

static void low_off(struct splice_flow *f, enum splice_side side)
{
	sk_set_int(f->h[side], SOL_SOCKET, SO_RCVLOWAT, 1);
	f->dir[side].low = false;
	f->dir[side].run = f->dir[side].runs = 0;
}

/* The source is dry: is it worth while to wait for more than little? */
static void low_on(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	const uint32_t piece = d->piece;

	d->piece = 0;
	d->runs++;
	if (d->low) {
		if (piece > 2 * LOWAT >> 10)
			low_off(f, side);
		return;
	}
	if (d->fin || d->run >> d->wary < LOWAT_RUN)
		return;
	if (d->run / d->runs >= LOWAT / 2 >> 10) {
		d->run = d->runs = 0;
		return;
	}
	if (sk_set_int(f->h[side], SOL_SOCKET, SO_RCVLOWAT, LOWAT))
		return;
	d->low = true;
	if (!twheel_armed(&f->timer))
		twheel_arm(&s->tw, &f->timer, s->now + QUIET);
}

void splice_pump_timer(struct splice *s, struct splice_flow *f)
{
	for (int side = 0; side < SPLICE_SIDES; side++) {
		struct splice_dir *d = &f->dir[side];

		if (!d->low)
			continue;
		/* who waits for its sink has not paused */
		if (d->moved || !d->out) {
			d->moved = false;
			if (!twheel_armed(&f->timer))
				twheel_arm(&s->tw, &f->timer, s->now + QUIET);
			continue;
		}
		low_off(f, (enum splice_side)side);
		d->wary = (uint8_t)BYTES_MIN(d->wary + 1, LOWAT_WARY);
		d->in = true;
		splice_flow_ready(s, f);
	}
}

static int fill(struct splice *s, struct splice_flow *f, enum splice_side side)
{
	struct splice_dir *d = &f->dir[side];
	ssize_t n;

	if (d->urgent)
		return copy_kept(s, f, side);
	if (!d->bulk)
		return pool_any(s) ? copy_some(s, f, side) : copy_kept(s, f, side);
	if (!pipe_get(s, d))
		return copy_kept(s, f, side);
	n = splice(f->h[side], NULL, d->pipe.fd[1], NULL, FILL_LEN, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno != EAGAIN)
		return -errno;
	if (n < 0) {
		d->in = false;
		low_on(s, f, side);
		return 0;
	}
	d->eof = !n;
	d->pending = (uint32_t)n;
	d->bulk = n >= BULK_LEN;
	d->moved = true;
	d->piece += (uint32_t)n >> 10;
	d->run += BYTES_MIN((uint32_t)n >> 10, UINT32_MAX - d->run);
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

int splice_pump(struct splice *s, struct splice_flow *f, enum splice_side side)
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
		splice_pipe_drop(s, d);
	if (!r && d->eof && !d->pending && !d->shut) {
		/* the last end of both is told by closing */
		r = f->dir[!side].shut ? 0 : splice_sk(s)->ops->shut(splice_sk(s), f->h[!side]);
		d->shut = !r;
	}
	return r;
}

