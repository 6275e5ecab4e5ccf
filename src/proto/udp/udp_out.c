/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagrams from the host become frames: consecutive ones of a flow that are
 * equally long travel as one super-frame if the link takes those, so that many
 * datagrams cost one call; what is larger than the MTU goes in fragments.
 * Never reorders, keeps nothing after a flush.
 *
 * Invariants: all datagrams of a frame have `seg` bytes but the last, which
 * may be shorter; a frame of more than one fits the link's MTU datagram by
 * datagram, and L2_IP_MAX as a whole. RFC 768, RFC 8200 8.1.
 */
#include "udp_priv.h"

#include "base/bytes.h"
#include "base/csum.h"
#include "wire/udp.h"

#define OUT_SMALL	2048		/* frames up to here are reserved together */
#define OUT_HDR_MAX	(WIRE_ETH_LEN + WIRE_IP6_LEN + WIRE_UDP_LEN)

/* Of the flow's path to the guest, behind our link */
static uint32_t out_mtu(const struct udp_outs *o, struct flow *f)
{
	const struct udp_flow *u = udp_body(f);

	return u->mtu ? u->mtu : o->p->env->l2->mtu;
}

static uint32_t out_ip_len(const struct udp_out *x, uint32_t payload)
{
	return wire_ip_hdr_len(&x->f->key.far) + WIRE_UDP_LEN + payload;
}

/* Whether LEN bytes more can travel in the same frame */
static bool out_joins(const struct udp_outs *o, const struct udp_out *x, const struct udp_out *n, uint32_t len)
{
	const uint32_t need = L2_OFF_USO | L2_OFF_CSUM;
	const struct l2 *l2 = o->p->env->l2;

	return (l2->takes & need) == need && x->f == n->f && x->tos == n->tos && !x->closed && len && len <= x->seg &&
	       x->seg_cnt < UDP_SEG_MAX && out_ip_len(x, x->seg) <= out_mtu(o, x->f) &&
	       out_ip_len(x, x->len + len) <= L2_IP_MAX && inaddr_eq(&x->dst, &n->dst);
}

static void out_piece(struct udp_outs *o, struct udp_out *x, uint8_t *base, uint32_t len)
{
	struct iovec *last = x->piece_cnt ? &o->piece[o->piece_cnt - 1] : NULL;

	x->len += len;
	x->seg_cnt++;
	x->closed = len < x->seg;
	if (last && (uint8_t *)last->iov_base + last->iov_len == base) {
		last->iov_len += len;
		return;
	}
	o->piece[o->piece_cnt++] = (struct iovec){ base, len };
	x->piece_cnt++;
}

static void out_add_one(struct udp_outs *o, const struct udp_out *n, uint8_t *base, uint32_t len)
{
	struct udp_out *x = o->cnt ? &o->out[o->cnt - 1] : NULL;

	if (o->piece_cnt == UDP_PIECE_MAX) {
		udp_out_flush(o);
		x = NULL;
	}
	if (!x || !out_joins(o, x, n, len)) {
		if (o->cnt == UDP_OUT_MAX)
			udp_out_flush(o);
		x = &o->out[o->cnt++];
		*x = *n;
		x->piece = o->piece_cnt;
		x->seg = len;
	}
	out_piece(o, x, base, len);
}

void udp_out_add(struct udp_outs *o, struct flow *f, const struct inaddr *dst, const struct sk_dgram *d)
{
	const struct udp_out n = { .f = f, .dst = *dst, .tos = d->tos };
	const uint32_t seg = d->seg ? d->seg : d->len;
	uint8_t *base = d->iov[0].iov_base;
	uint32_t off = 0;

	do {
		const uint32_t len = BYTES_MIN(seg, d->len - off);

		out_add_one(o, &n, base + off, len);
		off += len;
	} while (off < d->len);
}

static uint32_t out_csum(const struct udp_out *x, const struct iovec *piece, const uint8_t *udp, bool partial)
{
	const uint32_t len = WIRE_UDP_LEN + x->len;
	uint32_t sum = csum_pseudo(&x->f->key.far, &x->dst, WIRE_IP_UDP, len);
	uint16_t done;

	if (partial)
		return csum_fold(sum);
	sum = csum_add(sum, udp, WIRE_UDP_LEN);
	sum = csum_add(sum, piece->iov_base, x->len);	/* one datagram: one piece */
	done = csum_done(sum);
	return done ? done : 0xffff;			/* 0 would mean: none */
}

/* UDP header at P, with its checksum */
static void out_udp(const struct udp_outs *o, const struct udp_out *x, uint8_t *p, bool partial)
{
	const struct wire_udp h = { .sport = x->f->key.far_port, .dport = x->f->key.guest_port };

	wire_udp_emit(p, &h, x->len, 0);
	wire_udp_emit(p, &h, x->len, (uint16_t)out_csum(x, &o->piece[x->piece], p, partial));
}

static void out_fill(const struct udp_outs *o, const struct udp_out *x, struct l2_frame *f)
{
	const bool partial = o->p->env->l2->takes & L2_OFF_CSUM;
	uint8_t hdr[OUT_HDR_MAX];
	uint32_t off = proto_emit_l3(o->p->env, hdr, &x->f->key.far, &x->dst, WIRE_IP_UDP, x->tos, WIRE_UDP_LEN + x->len);

	out_udp(o, x, hdr + off, partial);
	f->gso = x->seg_cnt > 1 ? L2_GSO_UDP : L2_GSO_NONE;
	f->gso_size = x->seg_cnt > 1 ? (uint16_t)x->seg : 0;
	f->csum = partial ? L2_CSUM_PARTIAL : L2_CSUM_COMPLETE;
	f->csum_start = partial ? (uint16_t)off : 0;
	f->csum_off = partial ? 6 : 0;
	f->hdr_len = (uint16_t)(off + WIRE_UDP_LEN);
	off += WIRE_UDP_LEN;
	f->len = off + x->len;
	view_scatter(f->iov, 0, hdr, off);
	for (uint32_t i = 0; i < x->piece_cnt; i++) {
		const struct iovec *v = &o->piece[x->piece + i];

		view_scatter(f->iov, off, v->iov_base, (uint32_t)v->iov_len);
		off += (uint32_t)v->iov_len;
	}
}

/* Larger than the link's packets: fragments, with the checksum of the whole */
static void out_fragments(const struct udp_outs *o, const struct udp_out *x)
{
	uint8_t udp[WIRE_UDP_LEN];
	const struct iovec iov[2] = { { udp, sizeof(udp) }, o->piece[x->piece] };
	const struct view v = view_of(iov, WIRE_UDP_LEN + x->len);
	const struct proto_path way = {
		.src = &x->f->key.far, .dst = &x->dst, .proto = WIRE_IP_UDP, .tos = x->tos, .mtu = out_mtu(o, x->f),
	};

	out_udp(o, x, udp, false);
	proto_send_path(o->p->env, &way, &v);
}

static bool out_too_big(const struct udp_outs *o, const struct udp_out *x)
{
	return x->seg_cnt == 1 && out_ip_len(x, x->len) > out_mtu(o, x->f);
}

/* Reserve, fill and send N frames of up to LEN bytes each */
static void out_send(const struct udp_outs *o, const struct udp_out *x, int n, uint32_t len)
{
	struct env *e = o->p->env;
	struct l2_frame f[UDP_OUT_MAX];

	while (n > 0) {
		const int got = e->l2->ops->reserve(e->l2, f, n, len);
		int sent;

		if (got <= 0)
			break;
		for (int i = 0; i < got; i++)
			out_fill(o, &x[i], &f[i]);
		sent = e->l2->ops->commit(e->l2, f, got);
		if (sent < got) {
			e->drops->cnt[DROP_L2_LINK_FULL] += (uint64_t)(got - (sent > 0 ? sent : 0));
		}
		n -= got;
		x += got;
	}
	e->drops->cnt[DROP_L2_LINK_FULL] += (uint64_t)n;
}

void udp_out_flush(struct udp_outs *o)
{
	uint32_t i = 0, n;

	for (; i < o->cnt; i += n) {
		const struct udp_out *x = &o->out[i];
		uint32_t len = WIRE_ETH_LEN + out_ip_len(x, x->len);

		n = 1;
		if (out_too_big(o, x)) {
			out_fragments(o, x);
			continue;
		}
		while (len <= OUT_SMALL && i + n < o->cnt && !out_too_big(o, x + n)) {
			const uint32_t more = WIRE_ETH_LEN + out_ip_len(x + n, x[n].len);

			if (more > OUT_SMALL)
				break;
			len = BYTES_MAX(len, more);
			n++;
		}
		out_send(o, x, (int)n, len);
	}
	o->cnt = o->piece_cnt = 0;
}
