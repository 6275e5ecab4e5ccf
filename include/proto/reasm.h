/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fragments from the guest become whole packets again (RFC 791 3.2, RFC 815,
 * RFC 8200 4.5), in bounded memory of app.
 */
#ifndef PROTO_REASM_H
#define PROTO_REASM_H

#include "proto/proto.h"

#define PROTO_REASM_CNT		16	/* packets in the making; one more replaces the oldest */
#define PROTO_REASM_TIME	(30 * NS_S)	/* Linux ipfrag_time; RFC 8200 allows 60 s */
#define PROTO_REASM_UNITS	8192	/* of eight bytes, in the largest packet */

struct proto_reasm_entry {
	bool used;
	bool done;			/* whole; its bytes are read until release */
	bool dead;			/* what still comes of it is dropped (RFC 5722 4) */
	struct inaddr src, dst;
	uint32_t id;
	uint8_t proto;
	ns_t since;
	struct wire_ip ip;		/* of the first fragment, by offset */
	uint32_t have, total;		/* payload bytes; total 0: not known yet */
	uint32_t first;			/* bytes of the first fragment; 0: it has not come */
	uint32_t top;			/* end of the fragment that reaches farthest */
	uint64_t unit[PROTO_REASM_UNITS / 64];	/* which have come */
	struct iovec iov;
	uint8_t data[PROTO_REASM_UNITS * 8];
};

struct proto_reasm {			/* all zero: empty. Pages never used cost nothing. */
	ns_t next;			/* when the oldest packet may be given up; 0: there is none */
	struct proto_reasm_entry e[PROTO_REASM_CNT];
};

/* A fragment: PKT as wire/ip has left it, IP the view from the IP header on. True if it made the packet whole: PKT->ip and
 * PKT->l4 are then those of the packet, valid until proto_reasm_release(). Fragments that don't fit are counted, and so is a
 * whole whose checksum is wrong: an identification that was used again in time puts parts of two packets together (RFC 4963).
 */
bool proto_reasm_take(struct proto *p, struct proto_reasm *r, struct view ip, struct proto_pkt *pkt);
/* Give up what is too old, and tell its sender (RFC 792, RFC 4443 3.3) */
void proto_reasm_tick(struct proto *p, struct proto_reasm *r);
/* When it has something to do, NS_NEVER: nothing */
static inline ns_t proto_reasm_next(const struct proto_reasm *r)
{
	return r->next ? r->next : NS_NEVER;
}
/* The whole packets are done with */
void proto_reasm_release(struct proto_reasm *r);

#endif
