/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP header and options (RFC 9293 3.1, RFC 7323, RFC 2018).
 */
#ifndef WIRE_TCP_H
#define WIRE_TCP_H

#include <stdbool.h>

#include "base/addr.h"
#include "base/view.h"

#define WIRE_TCP_LEN	20		/* without options */
#define WIRE_TCP_OPT_MAX 40

#define WIRE_TCP_FIN	0x01
#define WIRE_TCP_SYN	0x02
#define WIRE_TCP_RST	0x04
#define WIRE_TCP_PSH	0x08
#define WIRE_TCP_ACK	0x10
#define WIRE_TCP_URG	0x20
#define WIRE_TCP_ECE	0x40
#define WIRE_TCP_CWR	0x80

#define WIRE_TCP_SACK_MAX 4

struct wire_tcp {
	uint16_t sport, dport;
	uint32_t seq, ack;
	uint16_t wnd;			/* as in the header, not scaled */
	uint16_t urg;
	uint8_t flags;
	/* options; only what was there */
	bool has_mss, has_ws, has_sack_ok, has_ts;
	uint16_t mss;
	uint8_t ws;			/* as received; above 14 means 14 (RFC 7323 2.3), the caller clamps */
	uint8_t sack_cnt;
	uint32_t ts_val, ts_ecr;
	struct { uint32_t from, to; } sack[WIRE_TCP_SACK_MAX];
};

/* Pull header and options; the view becomes the payload. Options end at a malformed one, what came before counts
 * (RFC 9293 3.2: a receiver must be able to skip anything): 0, -EBADMSG if the data offset doesn't fit.
 */
int wire_tcp_parse(struct view *v, struct wire_tcp *ret);
/* Bytes of header with the options that H has (SYN: MSS, window scale, SACK permitted, timestamps; else timestamps and
 * SACK blocks), padded to four
 */
uint32_t wire_tcp_hdr_len(const struct wire_tcp *h);
/* Write it, checksum field CSUM; returns its length */
uint32_t wire_tcp_emit(uint8_t *p, const struct wire_tcp *h, uint16_t csum);

#endif
