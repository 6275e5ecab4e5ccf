/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Host sockets by script, for TCP. The test plays kernel and peer: it feeds the
 * receive queue, says what send() takes and what room() tells, and delivers
 * events itself. Inline, send() finishes on the spot; deferred, it returns
 * -EINPROGRESS, reads the bytes only at fake_sk_complete() and gives the event
 * with the result. Handles are never used twice, so a use after close is an error.
 */
#ifndef FAKE_SK_H
#define FAKE_SK_H

#include "port/sk.h"

#define FAKE_SK_MAX	128		/* sockets in a life; then -EMFILE */
#define FAKE_SK_IOV	1024		/* pieces of one send: UIO_MAXIOV */
#define FAKE_SK_ANY	UINT32_MAX

struct fake_sk_bytes {
	uint8_t *p;
	uint32_t len, cap;
};

struct fake_sk_sock {
	bool open, watched;
	struct ev_ref ref;
	struct sk_addr to;
	struct inaddr from;
	uint8_t tos, peer_tos;		/* traffic class of what it sends; what peer_class() tells */
	uint8_t ttl;
	uint16_t mss;			/* as connect() got it */
	bool errors;			/* a router's errors are kept */
	struct sk_err router;		/* what recv_err() then tells, once; code 0: nothing */
	int keep_alive;			/* seconds as set; -1: off */
	uint32_t sets;
	int result;			/* of connect: what result() returns */

	struct fake_sk_bytes rx;	/* all that the peer ever sent */
	uint32_t head;			/* discarded so far */
	bool eof;			/* the peer's end follows rx */
	int err;			/* positive errno: reported by peek() after rx, by send() at once; 0: none */
	uint32_t peek_max;		/* most bytes of one peek; FAKE_SK_ANY */
	int peek_err;			/* negative errno of the next peek, once; 0: none */
	int drop_err;			/* of drop() */

	struct fake_sk_bytes tx;	/* all that send() ever took */
	uint32_t take;			/* bytes that it will still take; FAKE_SK_ANY */
	uint32_t take_once;		/* not 0: the next send takes this much at most, later ones do not care */
	uint32_t sndbuf;		/* not 0: a send buffer of this size, and room() by what is in it, cautiously */
	uint32_t drained;		/* bytes of tx that the peer has */
	uint32_t urged, urged_at;	/* urgent bytes of tx, and the place of the last */
	uint32_t mark;			/* place in rx of the peer's urgent byte, FAKE_SK_ANY: none */
	int send_err;			/* negative errno for the next sends; 0: none */
	struct sk_room room;		/* what room() tells */
	int room_err;

	bool pending;			/* a send is under way */
	struct iovec *pend;
	int pend_cnt;

	bool armed;			/* arm() was called; the test clears it with the event */
	uint32_t arms, sends, peeks, drops, shuts;
	enum sk_end how;		/* of close(), if not open */
};

struct fake_sk {
	struct sk sk;			/* first: the ops cast back */
	bool deferred;
	uint8_t peer_tos;		/* of sockets to come */
	int max_open;			/* sockets open at a time, then connects fail by -EMFILE; 0: no limit */
	int connect_err;		/* negative errno for the next connects; 0: none */
	int watch_err;
	int guest_has;			/* what guest_has() answers */
	struct sk_room room;		/* of new sockets */
	uint32_t take;			/* of new sockets */
	int cnt;			/* sockets ever */
	struct fake_sk_sock s[FAKE_SK_MAX];
};

void fake_sk_init(struct fake_sk *k, bool deferred);
/* Release all memory */
void fake_sk_done(struct fake_sk *k);
/* What room() tells of a socket now */
struct sk_room fake_sk_room_now(const struct fake_sk_sock *s);
/* A socket as accept() returns it: handle */
int fake_sk_accepted(struct fake_sk *k);
/* Bytes that the peer sent */
void fake_sk_feed(struct fake_sk *k, int h, const void *p, uint32_t len);
/* Finish the oldest send under way: its event; false if there is none */
bool fake_sk_complete(struct fake_sk *k, struct ev_hit *ret);

#endif
