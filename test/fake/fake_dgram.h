/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The datagram half of the host's sockets, scripted: what arrives is queued by
 * the test, what is sent is kept. Handles count from 100. What is asked about
 * the guest's sockets has one answer for all.
 */
#ifndef FAKE_DGRAM_H
#define FAKE_DGRAM_H

#include "port/sk.h"

#define FAKE_DG_MAX	256

struct fake_dg_open {
	int h;				/* or negative errno, as returned */
	struct ev_ref ref;
	struct sk_addr local, to;
	bool ping, closed;
	bool group;			/* by group_open(), for `what` */
	enum sk_group what;
};

struct fake_dg_msg {			/* sent, received or in error */
	int h;
	struct sk_dgram d;		/* iov is not kept */
	struct sk_err err;
	uint8_t *data;			/* d.len or err.len bytes */
};

struct fake_dg {
	struct sk sk;			/* first: the ops cast back */
	struct fake_dg_open opened[FAKE_DG_MAX];
	uint32_t open_cnt;
	struct fake_dg_msg sent[FAKE_DG_MAX];
	uint32_t sent_cnt;
	struct fake_dg_msg in[FAKE_DG_MAX], errs[FAKE_DG_MAX];
	uint32_t in_cnt, in_read, err_cnt, err_read;
	uint32_t send_calls, recv_calls;
	uint32_t max_open;		/* handles open at a time, then -EMFILE; 0: no limit */
	int fail_open;			/* negative errno of the next opens, 0: success */
	uint16_t published;		/* a port for which group_open() says -EALREADY */
	int fail_send;			/* returned by the next `fail_sends` calls */
	uint32_t fail_sends;
	int fail_recv;			/* returned by the next `fail_recvs` calls */
	uint32_t fail_recvs;
	int fail_err;			/* of recv_err() */
	int next_h;
	struct inaddr host;		/* the one address that has_addr() knows */
	struct inaddr source;		/* what udp_open() chooses where the caller leaves it the choice */
	int guest_has;			/* answer: 1, 0 or negative errno */
	uint32_t guest_asked;		/* how often, and the last question: */
	bool guest_tcp;
	struct sk_addr guest_local, guest_remote;
};

void fake_dg_init(struct fake_dg *s);
/* Queue a datagram, or a run if D->seg is set, of LEN bytes for handle H; D gives addresses and traffic class */
void fake_dg_arrive(struct fake_dg *s, int h, const struct sk_dgram *d, const void *data, uint32_t len);
/* Queue an error */
void fake_dg_error(struct fake_dg *s, int h, const struct sk_err *e, const void *data, uint32_t len);
/* Forget what was sent */
void fake_dg_clear(struct fake_dg *s);
void fake_dg_done(struct fake_dg *s);

#endif
