/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scripted datagram sockets for unit tests. Stream operations are absent: a
 * protocol that calls one crashes the test, as it should.
 */
#include "fake_dgram.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fake_dg_need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fake_dg: %s\n", what);
	abort();
}

static struct fake_dg_open *fake_dg_find(struct fake_dg *s, int h)
{
	for (uint32_t i = 0; i < s->open_cnt; i++) {
		if (s->opened[i].h == h)
			return &s->opened[i];
	}
	return NULL;
}

static int fake_dg_open(struct fake_dg *s, struct fake_dg_open o)
{
	uint32_t open = 0;

	fake_dg_need(s->open_cnt < FAKE_DG_MAX, "too many opens");
	for (uint32_t i = 0; i < s->open_cnt; i++)
		open += s->opened[i].h >= 0 && !s->opened[i].closed;
	if (s->max_open && open >= s->max_open)
		return -EMFILE;
	o.h = s->fail_open ? s->fail_open : s->next_h++;
	s->opened[s->open_cnt++] = o;
	return o.h;
}

static int fake_dg_udp_open(struct sk *sk, struct ev_ref ref, const struct sk_addr *local, const struct sk_addr *to,
			    struct sk_addr *ret_local)
{
	const int h = fake_dg_open((struct fake_dg *)sk, (struct fake_dg_open){ .ref = ref, .local = *local, .to = *to });

	if (h < 0)
		return h;
	*ret_local = *local;
	if (inaddr_is_unset(&local->a))
		ret_local->a = ((struct fake_dg *)sk)->source;
	return h;
}

static int fake_dg_group_open(struct sk *sk, struct ev_ref ref, enum sk_group what, const struct sk_addr *local,
			      const struct sk_addr *group)
{
	struct fake_dg *s = (struct fake_dg *)sk;
	struct fake_dg_open o = { .ref = ref, .to = *group, .group = true, .what = what };

	if (what == SK_GROUP_SEND)
		o.local = *local;
	else if (what == SK_GROUP_RECV && s->published == group->port)
		return -EALREADY;
	return fake_dg_open(s, o);
}

static int fake_dg_ping_open(struct sk *sk, struct ev_ref ref, const struct sk_addr *to, const struct inaddr *from)
{
	struct fake_dg_open o = { .ref = ref, .to = *to, .ping = true };

	o.local.a = *from;
	return fake_dg_open((struct fake_dg *)sk, o);
}

static void fake_dg_close(struct sk *sk, int h, enum sk_end how)
{
	struct fake_dg_open *o = fake_dg_find((struct fake_dg *)sk, h);

	(void)how;
	fake_dg_need(o && !o->closed, "close of what is not open");
	o->closed = true;
}

static int fake_dg_result(struct sk *sk, int h)
{
	(void)sk, (void)h;
	return 0;
}

static int fake_dg_recv(struct sk *sk, int h, struct sk_dgram *d, int n)
{
	struct fake_dg *s = (struct fake_dg *)sk;
	int cnt = 0;

	s->recv_calls++;
	if (s->fail_recvs) {
		s->fail_recvs--;
		return s->fail_recv;
	}
	while (cnt < n && s->in_read < s->in_cnt && s->in[s->in_read].h == h) {
		const struct fake_dg_msg *m = &s->in[s->in_read++];
		const struct iovec iov = d[cnt].iov[0];

		fake_dg_need(d[cnt].iov_cnt == 1 && iov.iov_len >= m->d.len, "room for a datagram");
		d[cnt] = m->d;
		d[cnt].iov[0] = iov;
		d[cnt].iov_cnt = 1;
		memcpy(iov.iov_base, m->data, m->d.len);
		cnt++;
	}
	return cnt ? cnt : -EAGAIN;
}

static int fake_dg_send(struct sk *sk, int h, const struct sk_dgram *d, int n)
{
	struct fake_dg *s = (struct fake_dg *)sk;

	s->send_calls++;
	if (s->fail_sends) {
		s->fail_sends--;
		return s->fail_send;
	}
	for (int i = 0; i < n; i++) {
		struct fake_dg_msg *m = &s->sent[s->sent_cnt++];
		uint32_t off = 0;

		fake_dg_need(s->sent_cnt <= FAKE_DG_MAX, "too many sent");
		*m = (struct fake_dg_msg){ .h = h, .d = d[i], .data = malloc(d[i].len ? d[i].len : 1) };
		for (uint32_t k = 0; k < d[i].iov_cnt; k++) {
			fake_dg_need(off + d[i].iov[k].iov_len <= d[i].len, "iovec within the length");
			memcpy(m->data + off, d[i].iov[k].iov_base, d[i].iov[k].iov_len);
			off += (uint32_t)d[i].iov[k].iov_len;
		}
		fake_dg_need(off == d[i].len, "iovec as long as the datagram");
	}
	return n;
}

static int fake_dg_recv_err(struct sk *sk, int h, struct sk_err *ret, void *buf, uint32_t len)
{
	struct fake_dg *s = (struct fake_dg *)sk;
	const struct fake_dg_msg *m = &s->errs[s->err_read];

	if (s->fail_err)
		return s->fail_err;
	if (s->err_read == s->err_cnt || m->h != h)
		return -EAGAIN;
	s->err_read++;
	*ret = m->err;
	if (ret->len > len)
		ret->len = len;
	memcpy(buf, m->data, ret->len);
	return 0;
}

static bool fake_dg_has_addr(struct sk *sk, const struct sk_addr *a)
{
	return inaddr_eq(&a->a, &((struct fake_dg *)sk)->host);
}

static int fake_dg_guest_has(struct sk *sk, bool tcp, const struct sk_addr *local, const struct sk_addr *remote)
{
	struct fake_dg *s = (struct fake_dg *)sk;

	s->guest_asked++;
	s->guest_tcp = tcp;
	s->guest_local = *local;
	s->guest_remote = *remote;
	return s->guest_has;
}

static const struct sk_ops fake_dg_ops = {
	.name = "fake datagrams",
	.result = fake_dg_result,
	.close = fake_dg_close,
	.udp_open = fake_dg_udp_open,
	.group_open = fake_dg_group_open,
	.ping_open = fake_dg_ping_open,
	.recv_dgrams = fake_dg_recv,
	.send_dgrams = fake_dg_send,
	.recv_err = fake_dg_recv_err,
	.has_addr = fake_dg_has_addr,
	.guest_has = fake_dg_guest_has,
};

void fake_dg_init(struct fake_dg *s)
{
	memset(s, 0, sizeof(*s));
	s->sk.ops = &fake_dg_ops;
	s->next_h = 100;
}

static void fake_dg_queue(struct fake_dg_msg *q, uint32_t *cnt, struct fake_dg_msg m, const void *data, uint32_t len)
{
	fake_dg_need(*cnt < FAKE_DG_MAX, "too many queued");
	m.data = malloc(len ? len : 1);
	memcpy(m.data, data, len);
	q[(*cnt)++] = m;
}

void fake_dg_arrive(struct fake_dg *s, int h, const struct sk_dgram *d, const void *data, uint32_t len)
{
	struct fake_dg_msg m = { .h = h, .d = *d };

	m.d.len = len;
	fake_dg_queue(s->in, &s->in_cnt, m, data, len);
}

void fake_dg_error(struct fake_dg *s, int h, const struct sk_err *e, const void *data, uint32_t len)
{
	struct fake_dg_msg m = { .h = h, .err = *e };

	m.err.len = len;
	fake_dg_queue(s->errs, &s->err_cnt, m, data, len);
}

static void fake_dg_free(struct fake_dg_msg *m, uint32_t *cnt)
{
	for (uint32_t i = 0; i < *cnt; i++)
		free(m[i].data);
	*cnt = 0;
}

void fake_dg_clear(struct fake_dg *s)
{
	fake_dg_free(s->sent, &s->sent_cnt);
	s->send_calls = s->recv_calls = 0;
}

void fake_dg_done(struct fake_dg *s)
{
	fake_dg_clear(s);
	fake_dg_free(s->in, &s->in_cnt);
	fake_dg_free(s->errs, &s->err_cnt);
	s->in_read = s->err_read = 0;
}
