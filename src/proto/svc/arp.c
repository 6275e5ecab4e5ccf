/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP: we answer for every address but the guest's own, on the link and off it
 * alike, so that all traffic comes to us (proxy ARP). Never learns a MAC (path
 * does), never answers an announcement, ignores replies.
 *
 * RFC 826, RFC 5227 2.1.1 and 2.3; ARP-1 to ARP-9.
 */
#include "svc_priv.h"

#include <errno.h>

#include "wire/arp.h"

static void arp_send(struct proto *p, const struct macaddr *to, const struct wire_arp *a)
{
	const struct wire_eth eth = { .dst = *to, .src = p->env->our_mac, .type = WIRE_ETH_ARP };
	uint8_t buf[WIRE_ETH_LEN + WIRE_ARP_LEN];
	struct l2_frame f;

	if (!proto_reserve(p->env, &f, sizeof(buf)))
		return;
	wire_eth_emit(buf, &eth);
	wire_arp_emit(buf + WIRE_ETH_LEN, a);
	view_scatter(f.iov, 0, buf, sizeof(buf));
	proto_commit(p->env, &f);
}

void svc_arp(struct proto *p, struct view v)
{
	struct wire_arp a;

	if (!p->fwd->f[FWD_V4].on) {
		env_drop(p->env, DROP_FAMILY_OFF);
		return;
	}
	if (wire_arp_parse(v, &a) < 0 || !macaddr_is_unicast(&a.sha)) {
		env_drop(p->env, DROP_ARP_BAD);
		return;
	}
	if (a.op != WIRE_ARP_REQUEST)
		return;
	if (inaddr_eq(&a.sip, &a.tip)) {
		svc_own(p, &a.tip);
		return;
	}
	if (!inaddr_is_unicast(&a.tip) || svc_owned(p, &a.tip))
		return;

	const struct wire_arp reply = {
		.op = WIRE_ARP_REPLY, .sha = p->env->our_mac, .sip = a.tip, .tha = a.sha, .tip = a.sip,
	};

	arp_send(p, &a.sha, &reply);
}

void svc_arp_solicit(struct proto *p)
{
	const struct fwd_family_set *f = &p->fwd->f[FWD_V4];
	const uint8_t zero[4] = { 0 };
	const struct wire_arp req = {
		.op = WIRE_ARP_REQUEST, .sha = p->env->our_mac, .tha = macaddr_broadcast, .tip = f->guest,
		/* without an address of our own it becomes a probe, which is answered just as well */
		.sip = inaddr_is_unset(&f->ours) ? inaddr_v4(zero) : f->ours,
	};

	if (f->on && !inaddr_is_unset(&f->guest))
		arp_send(p, &macaddr_broadcast, &req);
}
