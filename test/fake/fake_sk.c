/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scripted TCP sockets. Strict: a call on a closed handle, a second send while
 * one is under way, a peek beyond what there is ends the test at once. Datagram sockets can't be opened.
 */
#include "fake_sk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fake_sk_die(const char *why, int h)
{
	fprintf(stderr, "fake_sk: %s (handle %d)\n", why, h);
	abort();
}

static struct fake_sk_sock *fake_sk_of(struct sk *s, int h)
{
	struct fake_sk *k = (struct fake_sk *)s;

	if (h < 0 || h >= k->cnt || !k->s[h].open)
		fake_sk_die("call on a handle that is not open", h);
	return &k->s[h];
}

static void fake_sk_add(struct fake_sk_bytes *b, const void *p, uint32_t len)
{
	if (b->len + len > b->cap) {
		b->cap = (b->len + len) * 2;
		b->p = realloc(b->p, b->cap);
	}
	if (len)
		memcpy(b->p + b->len, p, len);
	b->len += len;
}

static int fake_sk_new(struct fake_sk *k)
{
	struct fake_sk_sock *s;

	if (k->cnt == FAKE_SK_MAX)
		return -EMFILE;
	s = &k->s[k->cnt];
	*s = (struct fake_sk_sock){ .open = true, .keep_alive = -1, .peer_tos = k->peer_tos, .result = -EINPROGRESS, .take = k->take, .room = k->room,
				    .peek_max = FAKE_SK_ANY, .mark = FAKE_SK_ANY };
	return k->cnt++;
}

static int fake_sk_connect(struct sk *sk, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from,
			   struct sk_syn syn)
{
	struct fake_sk *k = (struct fake_sk *)sk;
	int open = 0, h;

	for (int i = 0; i < k->cnt; i++)
		open += k->s[i].open;
	if (k->max_open && open >= k->max_open)
		return -EMFILE;
	h = k->connect_err ? k->connect_err : fake_sk_new(k);

	if (h < 0)
		return h;
	k->s[h].ref = ref;
	k->s[h].to = *to;
	k->s[h].from = *from;
	k->s[h].tos = syn.tos;
	k->s[h].ttl = syn.ttl;
	k->s[h].mss = syn.mss;
	k->s[h].errors = syn.ttl && syn.ttl < SK_TTL_PROBE;
	k->s[h].watched = true;
	return h;
}

static int fake_sk_result(struct sk *sk, int h)
{
	return fake_sk_of(sk, h)->result;
}

static int fake_sk_accept(struct sk *sk, int listener, struct sk_addr *ret_peer, struct sk_addr *ret_local)
{
	(void)sk, (void)listener, (void)ret_peer, (void)ret_local;
	return -EAGAIN;
}

static uint8_t fake_sk_peer_class(struct sk *sk, int h, bool v4)
{
	(void)v4;
	return fake_sk_of(sk, h)->peer_tos;
}

static int fake_sk_set(struct sk *sk, int h, enum sk_opt opt, int value)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	s->sets++;
	switch (opt) {
	case SK_OPT_CLASS:
		s->tos = (uint8_t)value;
		break;
	case SK_OPT_KEEP_ALIVE:
		s->keep_alive = value;
		break;
	case SK_OPT_ERRORS:
		s->errors = value;
		break;
	}
	return 0;
}

static int fake_sk_watch(struct sk *sk, int h, struct ev_ref ref)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);
	int err = ((struct fake_sk *)sk)->watch_err;

	if (s->watched)
		fake_sk_die("watched twice", h);
	if (err)
		return err;
	s->watched = true;
	s->ref = ref;
	return 0;
}

static int fake_sk_peek(struct sk *sk, int h, uint32_t skip, const struct iovec *iov, int cnt)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);
	uint32_t at = s->head + skip, n = 0;
	const int err = s->peek_err;

	s->peeks++;
	s->peek_err = 0;
	if (err)
		return err;
	if (at > s->rx.len)
		fake_sk_die("peek beyond what the peer sent", h);
	for (int i = 0; i < cnt && at < s->rx.len && n < s->peek_max; i++) {
		uint32_t l = s->rx.len - at;

		if (l > iov[i].iov_len)
			l = (uint32_t)iov[i].iov_len;
		if (l > s->peek_max - n)
			l = s->peek_max - n;
		if (at < s->mark && l > s->mark - at)
			l = s->mark - at;
		if (l)
			memcpy(iov[i].iov_base, s->rx.p + at, l);
		at += l;
		n += l;
		if (at == s->mark && n)
			break;
	}
	if (n)
		return (int)n;
	if (s->err)
		return -s->err;
	return s->eof ? 0 : -EAGAIN;
}

static int fake_sk_drop(struct sk *sk, int h, uint32_t len)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	s->drops++;
	if (s->drop_err)
		return s->drop_err;
	if (len > s->rx.len - s->head) {
		/* tcp_guest_gone() asks for all that there is */
		s->head = s->rx.len;
		return -EAGAIN;
	}
	s->head += len;
	if (s->head > s->mark)
		s->mark = FAKE_SK_ANY;
	return 0;
}

/* What one send could add: as Linux, whole buffers of up to 64 KiB as long as the limit is not reached */
static uint32_t fake_sk_accepts(const struct fake_sk_sock *s)
{
	uint32_t queued = s->tx.len - s->drained, free;

	if (!s->sndbuf)
		return s->take;
	if (queued >= s->sndbuf)
		return 0;
	free = (s->sndbuf - queued + 65535) / 65536 * 65536;
	return free < s->take ? free : s->take;
}

struct sk_room fake_sk_room_now(const struct fake_sk_sock *s)
{
	uint32_t queued = s->tx.len - s->drained, free = s->sndbuf > queued ? s->sndbuf - queued : 0;

	if (!s->sndbuf)
		return s->room;
	return (struct sk_room){ .free = free - free / 16, .queued = queued, .writable = free && free >= queued / 2 };
}

static int fake_sk_finish(struct fake_sk_sock *s, const struct iovec *iov, int cnt)
{
	uint32_t n = 0, most = fake_sk_accepts(s);

	if (s->take_once && most > s->take_once)
		most = s->take_once;
	s->take_once = 0;

	if (s->send_err)
		return s->send_err;
	if (s->err)
		return -EPIPE;
	for (int i = 0; i < cnt && most; i++) {
		uint32_t l = (uint32_t)iov[i].iov_len;

		if (l > most)
			l = most;
		if (most != FAKE_SK_ANY)
			most -= l;
		if (s->take != FAKE_SK_ANY)
			s->take -= l;
		fake_sk_add(&s->tx, iov[i].iov_base, l);
		n += l;
		if (l < iov[i].iov_len)
			break;
	}
	return n ? (int)n : -EAGAIN;
}

static int fake_sk_send(struct sk *sk, int h, const struct iovec *iov, int cnt)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	s->sends++;
	if (s->shuts)
		fake_sk_die("send after shut", h);
	if (cnt < 1 || cnt > FAKE_SK_IOV)
		fake_sk_die("send of an impossible number of pieces", h);
	if (s->pending)
		fake_sk_die("send while one is under way", h);
	if (!((struct fake_sk *)sk)->deferred)
		return fake_sk_finish(s, iov, cnt);
	s->pending = true;
	s->pend_cnt = cnt;
	s->pend = realloc(s->pend, (size_t)cnt * sizeof(*iov));
	memcpy(s->pend, iov, (size_t)cnt * sizeof(*iov));
	return -EINPROGRESS;
}

static int fake_sk_urge(struct sk *sk, int h, uint8_t byte)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);
	const struct iovec iov = { &byte, 1 };
	int r;

	s->sends++;
	if (s->shuts)
		fake_sk_die("urgent data after shut", h);
	if (s->pending)
		fake_sk_die("urgent data while a send is under way", h);
	r = fake_sk_finish(s, &iov, 1);
	if (r == 1) {
		s->urged++;
		s->urged_at = s->tx.len - 1;
	}
	return r;
}

static enum sk_mark fake_sk_mark(struct sk *sk, int h)
{
	const struct fake_sk_sock *s = fake_sk_of(sk, h);

	if (s->mark == FAKE_SK_ANY)
		return SK_MARK_NONE;
	return s->head == s->mark ? SK_MARK_HERE : SK_MARK_AHEAD;
}

static int fake_sk_room(struct sk *sk, int h, struct sk_room *ret)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	if (s->room_err)
		return s->room_err;
	*ret = fake_sk_room_now(s);
	return 0;
}

static int fake_sk_arm(struct sk *sk, int h)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	s->arms++;
	s->armed = true;
	return 0;
}

static int fake_sk_shut(struct sk *sk, int h)
{
	fake_sk_of(sk, h)->shuts++;
	return 0;
}

static void fake_sk_close(struct sk *sk, int h, enum sk_end how)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	s->open = false;
	s->how = how;
}

static int fake_sk_udp_open(struct sk *sk, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to,
			    struct sk_addr *ret_local)
{
	(void)sk, (void)ref, (void)local, (void)to, (void)ret_local;
	return -EMFILE;
}

static int fake_sk_group_open(struct sk *sk, struct ev_ref ref, enum sk_group what, const struct sk_addr *local,
			      const struct sk_addr *group)
{
	(void)sk, (void)ref, (void)what, (void)local, (void)group;
	return -EMFILE;
}

static int fake_sk_ping_open(struct sk *sk, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from)
{
	(void)sk, (void)ref, (void)to, (void)from;
	return -EMFILE;
}

static int fake_sk_guest_has(struct sk *sk, bool tcp, const struct sk_addr *local, const struct sk_addr *remote)
{
	(void)tcp, (void)local, (void)remote;
	return ((struct fake_sk *)sk)->guest_has;
}

static int fake_sk_recv_err(struct sk *sk, int h, struct sk_err *ret, void *buf, uint32_t len)
{
	struct fake_sk_sock *s = fake_sk_of(sk, h);

	(void)buf, (void)len;
	if (!s->errors || !s->router.code)
		return -EAGAIN;
	*ret = s->router;
	s->router.code = 0;
	return 0;
}

static const struct sk_ops fake_sk_ops = {
	.name = "fake",
	.connect = fake_sk_connect,
	.result = fake_sk_result,
	.accept = fake_sk_accept,
	.peer_class = fake_sk_peer_class,
	.set = fake_sk_set,
	.watch = fake_sk_watch,
	.peek = fake_sk_peek,
	.drop = fake_sk_drop,
	.send = fake_sk_send,
	.urge = fake_sk_urge,
	.mark = fake_sk_mark,
	.room = fake_sk_room,
	.arm = fake_sk_arm,
	.shut = fake_sk_shut,
	.close = fake_sk_close,
	.udp_open = fake_sk_udp_open,
	.group_open = fake_sk_group_open,
	.ping_open = fake_sk_ping_open,
	.guest_has = fake_sk_guest_has,
	.recv_err = fake_sk_recv_err,
};

void fake_sk_init(struct fake_sk *k, bool deferred)
{
	memset(k, 0, sizeof(*k));
	k->sk.ops = &fake_sk_ops;
	k->deferred = deferred;
	k->room = (struct sk_room){ .free = 262144, .writable = true };
	k->take = FAKE_SK_ANY;
}

void fake_sk_done(struct fake_sk *k)
{
	for (int i = 0; i < k->cnt; i++) {
		free(k->s[i].rx.p);
		free(k->s[i].tx.p);
		free(k->s[i].pend);
	}
	k->cnt = 0;
}

int fake_sk_accepted(struct fake_sk *k)
{
	int h = fake_sk_new(k);

	if (h >= 0)
		k->s[h].result = 0;
	return h;
}

void fake_sk_feed(struct fake_sk *k, int h, const void *p, uint32_t len)
{
	fake_sk_add(&k->s[h].rx, p, len);
}

bool fake_sk_complete(struct fake_sk *k, struct ev_hit *ret)
{
	for (int i = 0; i < k->cnt; i++) {
		struct fake_sk_sock *s = &k->s[i];

		if (!s->pending)
			continue;
		s->pending = false;
		*ret = (struct ev_hit){ .ref = s->ref, .mask = EV_SENT, .res = -ECANCELED };
		if (s->open)
			ret->res = fake_sk_finish(s, s->pend, s->pend_cnt);
		return true;
	}
	return false;
}
