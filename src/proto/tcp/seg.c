/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Building segments towards the guest. Each carries the current ACK and window,
 * so building one settles what the guest is owed. Checksums are left partial:
 * the link completes them where the guest can't.
 */
#include "base/csum.h"
#include "tcp_priv.h"

/* Transport header with partial checksum at PKT's transport offset; returns the end of headers */
static uint32_t put_headers(const struct env *e, uint8_t *pkt, const struct flow_key *k, const struct wire_tcp *h, uint32_t len,
			    uint8_t tos)
{
	uint32_t hlen = wire_tcp_hdr_len(h);
	uint32_t off = proto_emit_l3(e, pkt, &k->far, &k->guest, WIRE_IP_TCP, tos, hlen + len);

	wire_tcp_emit(pkt + off, h, csum_fold(csum_pseudo(&k->far, &k->guest, WIRE_IP_TCP, hlen + len)));
	return off + hlen;
}

static bool send_headers(struct env *e, const struct flow_key *k, const struct wire_tcp *h, uint8_t tos)
{
	uint8_t pkt[PROTO_HDR_MAX];
	uint32_t len = put_headers(e, pkt, k, h, 0, tos);
	struct l2_frame fr;

	if (!proto_reserve(e, &fr, len))
		return false;
	view_scatter(fr.iov, 0, pkt, len);
	fr.csum = L2_CSUM_PARTIAL;
	fr.csum_start = (uint16_t)proto_l4_off(&k->far);
	fr.csum_off = 16;
	return proto_commit(e, &fr);
}

static void put_ts(const struct proto *p, const struct tcp *t, struct wire_tcp *h)
{
	h->has_ts = t->ts_on;
	h->ts_val = tcp_ts_now(p, t);
	h->ts_ecr = t->ts_recent;
}

static void put_sacks(struct proto *p, struct flow *f, struct wire_tcp *h)
{
	struct tcp_range r[WIRE_TCP_SACK_MAX];
	const struct tcp *t = tcp_of(f);
	int max = t->ts_on ? WIRE_TCP_SACK_MAX - 1 : WIRE_TCP_SACK_MAX, n = 0;

	if (!t->sack_on)
		return;
	if (t->twice_due)		/* in front of all others (RFC 2883 4) */
		r[n++] = t->twice;
	if (t->kept_head)
		n += tcp_kept_ranges(p, f, r + n, max - n);
	h->sack_cnt = (uint8_t)n;
	for (int i = 0; i < n; i++) {
		h->sack[i].from = r[i].from;
		h->sack[i].to = r[i].to;
	}
}

bool tcp_emit(struct proto *p, struct flow *f, uint8_t flags, uint32_t seq)
{
	struct tcp *t = tcp_of(f);
	struct wire_tcp h = {
		.sport = f->key.far_port, .dport = f->key.guest_port,
		.seq = seq, .flags = flags,
	};

	if (flags & WIRE_TCP_ACK) {
		h.ack = t->rcv_nxt;
		h.wnd = tcp_win_field(t);
		put_sacks(p, f, &h);
	}
	put_ts(p, t, &h);
	if (!send_headers(p->env, &f->key, &h, t->tos_host))
		return false;
	if (flags & WIRE_TCP_ACK)
		tcp_timer_ack_sent(t);
	return true;
}

bool tcp_emit_syn(struct proto *p, struct flow *f)
{
	struct tcp *t = tcp_of(f);
	uint32_t hdrs = wire_ip_hdr_len(&f->key.far) + WIRE_TCP_LEN;
	struct wire_tcp h = {
		.sport = f->key.far_port, .dport = f->key.guest_port,
		.seq = t->iss, .wnd = t->syn_wnd, .flags = t->syn_flags,
		.has_mss = true, .mss = (uint16_t)(p->env->l2->mtu - hdrs),
		/* offered in our SYN; in SYN, ACK only as an answer (RFC 7323 2.2, TCP-13) */
		.has_ws = !(t->syn_flags & WIRE_TCP_ACK) || t->guest_has_ws, .ws = TCP_WS_OURS,
	};

	if (t->syn_flags & WIRE_TCP_ACK) {
		h.ack = t->irs + 1;
		h.has_sack_ok = t->sack_on;
	} else {
		h.has_sack_ok = true;
	}
	put_ts(p, t, &h);
	h.ts_val = t->syn_ts;
	if (!(t->syn_flags & WIRE_TCP_ACK)) {	/* offered; the answer decides */
		h.has_ts = true;
		h.ts_ecr = 0;
	}
	return send_headers(p->env, &f->key, &h, t->tos_host);
}

uint32_t tcp_data_hdr(struct proto *p, struct flow *f, uint8_t *hdr, uint32_t seq, uint8_t flags, uint32_t len)
{
	struct tcp *t = tcp_of(f);
	struct wire_tcp h = {
		.sport = f->key.far_port, .dport = f->key.guest_port,
		.seq = seq, .ack = t->rcv_nxt, .wnd = tcp_win_field(t), .flags = flags,
	};

	if (tcp_mark_at(t, seq)) {
		h.flags |= WIRE_TCP_URG;
		h.urg = 1;
	}
	put_ts(p, t, &h);
	return put_headers(p->env, hdr, &f->key, &h, len, t->tos_host);
}

void tcp_data_desc(const struct flow *f, struct l2_frame *fr, uint32_t hdr_len, uint32_t len)
{
	const struct tcp *t = (const void *)f->body;

	fr->len = hdr_len + len;
	fr->csum = L2_CSUM_PARTIAL;
	fr->csum_start = (uint16_t)proto_l4_off(&f->key.far);
	fr->csum_off = 16;
	fr->hdr_len = (uint16_t)hdr_len;
	if (len > t->mss) {
		fr->gso = inaddr_is_v4(&f->key.far) ? L2_GSO_TCP4 : L2_GSO_TCP6;
		fr->gso_size = t->mss;
	}
}

void tcp_emit_stray_rst(struct proto *p, const struct flow_key *key, const struct tcp_seg *s)
{
	uint32_t len = s->data.len + !!(s->h.flags & WIRE_TCP_SYN) + !!(s->h.flags & WIRE_TCP_FIN);
	struct wire_tcp h = { .sport = key->far_port, .dport = key->guest_port, .flags = WIRE_TCP_RST };

	if (s->h.flags & WIRE_TCP_RST)
		return;
	if (s->h.flags & WIRE_TCP_ACK) {
		h.seq = s->h.ack;
	} else {
		h.ack = s->h.seq + len;
		h.flags |= WIRE_TCP_ACK;
	}
	send_headers(p->env, key, &h, 0);
}
