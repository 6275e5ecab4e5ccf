/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors from the guest about our segments. One that says nobody takes the
 * connection ends it as long as the guest has not answered: the peer sees what
 * it would have seen at the guest. Open connections outlive every error (RFC
 * 1122 4.2.3.9, RFC 5927 6.1) but learn the size that fits (RFC 1191 6.4).
 *
 * Only an error that quotes a sequence number in flight is believed (RFC 5927
 * 4.1). RFC 9293 3.9.2.2, RFC 8201 5.4.
 */
#include "tcp_priv.h"

#include "proto/icmp.h"

#define TOLD_SEQ	4		/* offset in the header */

static bool too_big(struct proto *p, struct flow *f, uint32_t mtu)
{
	struct tcp *t = tcp_of(f);
	const uint32_t mss = mtu - wire_ip_hdr_len(&f->key.guest) - WIRE_TCP_LEN - tcp_opt_len(t);

	if (mss >= t->mss)
		return false;
	t->mss = (uint16_t)mss;
	/* whatever is in flight may have been too big, all of it */
	tcp_recover(p, t, true);
	tcp_settle(p, f);
	return true;
}

bool tcp_told(struct proto *p, struct flow *f, const struct proto_told *told)
{
	const struct tcp *t = tcp_of(f);
	uint8_t bounce[TOLD_SEQ + 4];
	const uint8_t *hdr = view_peek(&told->l4, bounce, sizeof(bounce));
	uint32_t seq;

	if (!hdr)
		return false;
	seq = bytes_get32(hdr + TOLD_SEQ);
	if (t->phase == TCP_PHASE_SYN_SENT && told->kind != PROTO_TOLD_TOO_BIG && seq == t->iss) {
		tcp_abort(p, f);
		return true;
	}
	if (t->phase != TCP_PHASE_OPEN || told->kind != PROTO_TOLD_TOO_BIG || !seqno_ge(seq, t->una) || !seqno_lt(seq, t->max))
		return false;
	return too_big(p, f, told->mtu);
}
