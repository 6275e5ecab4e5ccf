/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Neighbour discovery: we are the router, and the neighbour behind every
 * address but the guest's own. Never learns a MAC (path does), never answers
 * duplicate address detection, ignores advertisements but for what they say
 * about the guest's own addresses.
 *
 * RFC 4861 6.2, 7.2, RFC 4862 5.4, RFC 8106; NDP-1 to NDP-6, RA-1 to RA-6.
 */
#include "svc_priv.h"

#include "base/bytes.h"
#include "wire/icmp.h"
#include "wire/nd.h"

#define ND_HOP_LIMIT	255
#define ND_LIFETIME_S	65535		/* RFC 8319 4 */
#define ND_PREFIX_LEN	64		/* the only one that autoconfiguration takes (RFC 4862 5.5.3 d) */
#define ND_TARGET_OFF	8		/* of solicitation and advertisement */

static const struct inaddr nd_all_nodes = { { 0xff, 0x02, [15] = 1 } };

static void nd_send(struct proto *p, const struct inaddr *src, const struct inaddr *dst, uint8_t *msg, uint32_t len)
{
	const struct iovec iov = { msg, len };
	const struct view v = view_of(&iov, len);

	proto_send(p->env, src, dst, WIRE_IP_ICMP6, 0, &v);
}

static void nd_ns(struct proto *p, const struct proto_pkt *pkt)
{
	const struct inaddr *ours = &p->fwd->f[FWD_V6].ours;
	uint8_t msg[WIRE_ND_NA_LEN];
	struct wire_nd_sol sol;

	if (wire_nd_parse_ns(pkt->l4, pkt->ip.ttl, &pkt->ip.src, &sol) < 0) {
		env_drop(p->env, DROP_ND_BAD);
		return;
	}
	if (inaddr_is_unset(&pkt->ip.src)) {	/* the guest is about to take the address */
		svc_own(p, &sol.target);
		return;
	}
	if (!inaddr_is_unicast(&sol.target) || inaddr_is_unset(ours) || svc_owned(p, &sol.target))
		return;
	wire_nd_emit_na(msg, WIRE_ND_NA_ROUTER | WIRE_ND_NA_SOLICITED | WIRE_ND_NA_OVERRIDE, &sol.target,
			&p->env->our_mac, ours, &pkt->ip.src);
	nd_send(p, ours, &pkt->ip.src, msg, sizeof(msg));
}

/* An advertisement names an address that the guest uses */
static void nd_na(struct proto *p, const struct proto_pkt *pkt)
{
	uint8_t bounce[WIRE_ND_NA_LEN];
	const uint8_t *na = view_peek(&pkt->l4, bounce, ND_TARGET_OFF + sizeof(struct inaddr));

	if (!na || na[1] || pkt->ip.ttl != ND_HOP_LIMIT) {
		env_drop(p->env, DROP_ND_BAD);
		return;
	}
	const struct inaddr target = inaddr_v6(na + ND_TARGET_OFF);

	if (!inaddr_is_v4(&target))
		svc_own(p, &target);
}

static void nd_ra(struct proto *p, const struct svc *s, const struct inaddr *dst)
{
	const struct fwd_family_set *f = &p->fwd->f[FWD_V6];
	struct wire_nd_ra ra = {
		.hop_limit = ND_HOP_LIMIT, .managed = true, .router_lifetime_s = ND_LIFETIME_S,
		.lladdr = p->env->our_mac, .mtu = s->mtu,
		.search = s->search, .search_cnt = s->search_cnt,
	};
	uint8_t msg[WIRE_ND_RA_MAX];

	if (inaddr_is_unset(&f->ours))
		return;
	if (!inaddr_is_unset(&f->guest) && !inaddr_is_linklocal(&f->guest)) {
		ra.has_prefix = true;
		ra.prefix = f->guest;
		ra.prefix_len = ND_PREFIX_LEN;
	}
	ra.dns_cnt = BYTES_MIN(s->dns_cnt, WIRE_ND_DNS_MAX);
	memcpy(ra.dns, s->dns, ra.dns_cnt * sizeof(ra.dns[0]));
	nd_send(p, &f->ours, dst, msg, wire_nd_emit_ra(msg, &ra, &f->ours, dst));
}

static void nd_rs(struct proto *p, const struct svc *s, const struct proto_pkt *pkt)
{
	struct wire_nd_sol sol;

	if (wire_nd_parse_rs(pkt->l4, pkt->ip.ttl, &pkt->ip.src, &sol) < 0)
		env_drop(p->env, DROP_ND_BAD);
	else if (s->ra_on)
		nd_ra(p, s, inaddr_is_unset(&pkt->ip.src) ? &nd_all_nodes : &pkt->ip.src);
}

void svc_nd(struct proto *p, const struct svc *s, const struct proto_pkt *pkt)
{
	uint8_t bounce;
	const uint8_t *type = view_peek(&pkt->l4, &bounce, 1);

	if (!type) {
		env_drop(p->env, DROP_ND_BAD);
		return;
	}
	if (!s->nd_on) {
		env_drop(p->env, DROP_PROTO_OFF);
		return;
	}
	if (*type == WIRE_ICMP6_NS)
		nd_ns(p, pkt);
	else if (*type == WIRE_ICMP6_NA)
		nd_na(p, pkt);
	else if (*type == WIRE_ICMP6_RS)
		nd_rs(p, s, pkt);
	else if (*type != WIRE_ICMP6_RA)
		env_drop(p->env, DROP_ICMP_TYPE);
}

void svc_advertise(struct proto *p, const struct svc *s)
{
	if (p->fwd->f[FWD_V6].on && s->nd_on && s->ra_on)
		nd_ra(p, s, &nd_all_nodes);
}

void svc_nd_solicit(struct proto *p)
{
	const struct fwd_family_set *f = &p->fwd->f[FWD_V6];
	struct inaddr group = { { 0xff, 0x02, [11] = 1, [12] = 0xff } };	/* RFC 4291 2.7.1 */
	uint8_t msg[WIRE_ND_NS_LEN];

	if (!f->on || inaddr_is_unset(&f->guest) || inaddr_is_unset(&f->ours))
		return;
	memcpy(group.b + 13, f->guest.b + 13, 3);
	wire_nd_emit_ns(msg, &f->guest, &p->env->our_mac, &f->ours, &group);
	nd_send(p, &f->ours, &group, msg, sizeof(msg));
}
