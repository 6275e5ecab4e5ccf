/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The start and the end of every frame that a protocol sends to the guest, and
 * the queue of flows that go on in the next turn. Writes no transport header,
 * keeps no frame, and never sends one twice: what the link refused is counted
 * and gone, the protocol above decides what that means.
 *
 * Invariants: a flow is in the queue exactly if its `ready` is set; the last
 * one in it has ready_next FLOW_NONE. RFC 1112 6.4, RFC 2464 7.
 */
#include "proto/proto.h"

#include "base/bytes.h"

/* Group addresses map to link addresses; everything else goes to the one station there is */
static struct macaddr frame_dst_mac(const struct env *e, const struct inaddr *dst)
{
	struct macaddr m = e->guest_mac;

	if (!inaddr_is_v4(dst)) {
		if (inaddr_is_multicast(dst)) {
			m = (struct macaddr){ { 0x33, 0x33 } };
			memcpy(m.b + 2, dst->b + 12, 4);
		}
	} else if (inaddr_is_multicast(dst)) {
		m = (struct macaddr){ { 0x01, 0x00, 0x5e } };
		memcpy(m.b + 3, dst->b + 13, 3);
		m.b[3] &= 0x7f;		/* 23 bits of the group */
	} else if (inaddr_is_broadcast(dst)) {
		m = macaddr_broadcast;
	}
	return m;
}

uint32_t proto_emit_l3(const struct env *e, uint8_t *p, const struct inaddr *src, const struct inaddr *dst,
		       uint8_t proto, uint8_t tos, uint32_t l4_len)
{
	const struct wire_eth eth = {
		.dst = frame_dst_mac(e, dst),
		.src = e->our_mac,
		.type = inaddr_is_v4(src) ? WIRE_ETH_IPV4 : WIRE_ETH_IPV6,
	};
	const struct wire_ip ip = {
		.src = *src, .dst = *dst, .proto = proto, .ttl = 255, .tos = tos, .df = true,
	};

	wire_eth_emit(p, &eth);
	return WIRE_ETH_LEN + wire_ip_emit(p + WIRE_ETH_LEN, &ip, l4_len);
}

void proto_put(const struct l2_frame *f, uint32_t off, struct view v)
{
	for (const struct iovec *i = v.iov; v.len; i++) {
		const uint32_t n = BYTES_MIN((uint32_t)i->iov_len - v.off, v.len);

		view_scatter(f->iov, off, (const uint8_t *)i->iov_base + v.off, n);
		off += n;
		v.len -= n;
		v.off = 0;
	}
}

bool proto_reserve(struct env *e, struct l2_frame *f, uint32_t total)
{
	if (e->l2->ops->reserve(e->l2, f, 1, total) < 1) {
		env_drop(e, DROP_L2_LINK_FULL);
		return false;
	}
	f->len = total;
	f->gso = L2_GSO_NONE;
	f->csum = L2_CSUM_COMPLETE;
	f->gso_size = f->csum_start = f->csum_off = f->hdr_len = 0;
	return true;
}

enum sk_df proto_df(const struct wire_ip *ip)
{
	if (!ip->df)
		return SK_DF_NO;
	return ip->ttl < SK_TTL_PROBE || (inaddr_is_v4(&ip->src) && !ip->id) ? SK_DF_YES : SK_DF_MAYBE;
}

bool proto_commit(struct env *e, const struct l2_frame *f)
{
	if (e->l2->ops->commit(e->l2, f, 1) < 1) {
		env_drop(e, DROP_L2_LINK_FULL);
		return false;
	}
	return true;
}

void proto_ready(struct proto *p, struct flow *f)
{
	const uint32_t idx = flow_idx(p->flows, f);

	if (f->ready)
		return;
	f->ready = true;
	f->ready_next = FLOW_NONE;
	if (p->ready_first == FLOW_NONE)
		p->ready_first = idx;
	else
		p->flows->tab[p->ready_last].ready_next = idx;
	p->ready_last = idx;
}

static void frame_unready(struct proto *p, struct flow *f)
{
	const uint32_t idx = flow_idx(p->flows, f);
	uint32_t prev = FLOW_NONE, i = p->ready_first;

	while (i != idx && i != FLOW_NONE) {
		prev = i;
		i = p->flows->tab[i].ready_next;
	}
	if (i == FLOW_NONE)
		return;
	if (prev == FLOW_NONE)
		p->ready_first = f->ready_next;
	else
		p->flows->tab[prev].ready_next = f->ready_next;
	if (p->ready_last == idx)
		p->ready_last = prev;
	f->ready = false;
}

void proto_flow_free(struct proto *p, struct flow *f)
{
	twheel_cancel(p->env->tw, &f->timer);
	if (f->ready)
		frame_unready(p, f);
	flow_free(p->flows, f);
	p->flow_gone = true;
}
