/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP errors towards the guest: what the host's error queue or an errno says
 * about a datagram of the guest, with as much of that datagram as is known.
 * Sends no error about an error (RFC 1122 3.2.2): only UDP, echo requests,
 * the SYN of a connect and protocols that are not handled come here. Errors of our own making are limited in rate; relayed ones are
 * as many as the network sent.
 *
 * RFC 792, RFC 4443 2.4 and 3, RFC 1812 4.3.2.3.
 */
#include "proto/icmp.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"

#define ERROR_MAX4	576		/* bytes of the whole packet */
#define ERROR_MAX6	1280
#define ERROR_MORE4	0x2000
#define ERROR_NEXT6	6		/* offset of the next header in an IPv6 header */

static const struct {
	int code;			/* errno */
	uint8_t type4, code4, type6, code6;
} error_tab[] = {
	{ ECONNREFUSED,	WIRE_ICMP4_UNREACH, 3,	WIRE_ICMP6_UNREACH, 4 },	/* port */
	{ EHOSTUNREACH,	WIRE_ICMP4_UNREACH, 1,	WIRE_ICMP6_UNREACH, 3 },	/* host */
	{ EHOSTDOWN,	WIRE_ICMP4_UNREACH, 7,	WIRE_ICMP6_UNREACH, 3 },	/* host unknown */
	{ ENONET,	WIRE_ICMP4_UNREACH, 8,	WIRE_ICMP6_UNREACH, 0 },	/* source host isolated */
	{ ENOPROTOOPT,	WIRE_ICMP4_UNREACH, 2,	WIRE_ICMP6_UNREACH, 3 },	/* protocol */
	{ EPROTO,	WIRE_ICMP4_PARAM, 0,	WIRE_ICMP6_PARAM, 0 },
	{ ENETUNREACH,	WIRE_ICMP4_UNREACH, 0,	WIRE_ICMP6_UNREACH, 0 },	/* net, no route */
	{ ENETDOWN,	WIRE_ICMP4_UNREACH, 0,	WIRE_ICMP6_UNREACH, 0 },
	{ EADDRNOTAVAIL, WIRE_ICMP4_UNREACH, 0,	WIRE_ICMP6_UNREACH, 0 },	/* no source address: family not set up */
	{ EACCES,	WIRE_ICMP4_UNREACH, 13,	WIRE_ICMP6_UNREACH, 1 },	/* prohibited by policy */
	{ EPERM,	WIRE_ICMP4_UNREACH, 13,	WIRE_ICMP6_UNREACH, 1 },
	{ EMSGSIZE,	WIRE_ICMP4_UNREACH, 4,	WIRE_ICMP6_TOO_BIG, 0 },
};

bool proto_icmp_errno(const struct proto *p, int code, bool v4, uint32_t mtu, struct proto_icmp *ret)
{
	const struct fwd_family_set *fam = &p->fwd->f[v4 ? FWD_V4 : FWD_V6];
	const struct inaddr *from = inaddr_is_unset(&fam->ours) ? &fam->gateway : &fam->ours;

	if ((code == EMSGSIZE) != !!mtu)
		return false;		/* "too big" without a size would make the guest shrink for nothing */
	for (unsigned i = 0; i < BYTES_COUNT(error_tab); i++) {
		if (error_tab[i].code != code)
			continue;
		*ret = (struct proto_icmp){
			.type = v4 ? error_tab[i].type4 : error_tab[i].type6,
			.code = v4 ? error_tab[i].code4 : error_tab[i].code6,
			.info = mtu, .from = *from,
		};
		return true;
	}
	return false;
}

static bool error_is_too_big(const struct proto_icmp *i, bool v4)
{
	return v4 ? i->type == WIRE_ICMP4_UNREACH && i->code == 4 : i->type == WIRE_ICMP6_TOO_BIG;
}

static bool error_type_known(uint8_t type, bool v4)
{
	if (v4)
		return type == WIRE_ICMP4_UNREACH || type == WIRE_ICMP4_TIME_EXCEEDED || type == WIRE_ICMP4_PARAM;
	return type >= WIRE_ICMP6_UNREACH && type <= WIRE_ICMP6_PARAM;
}

bool proto_icmp_relay(struct proto *p, const struct sk_err *e, const struct inaddr *host,
		      const struct inaddr *far, struct proto_icmp *ret)
{
	const bool v4 = inaddr_is_v4(far);
	struct proto_icmp i = { .type = e->icmp_type, .code = e->icmp_code };

	if (e->local || inaddr_is_unset(&e->offender.a))
		return proto_icmp_errno(p, e->code, v4, e->code == EMSGSIZE ? e->info : 0, ret) && proto_icmp_allow(p);
	if (!error_type_known(i.type, v4) || inaddr_is_v4(&e->offender.a) != v4)
		return false;
	if (error_is_too_big(&i, v4))
		i.info = e->info;
	if (inaddr_eq(&e->offender.a, host))
		i.from = *far;		/* as the guest named it */
	else if (fwd_from_host(p->fwd, &e->offender.a, &i.from) < 0)
		return false;
	*ret = i;
	return true;
}

bool proto_icmp_allow(struct proto *p)
{
	const ns_t now = p->env->now, step = NS_S / PROTO_ICMP_RATE;

	if (now - p->icmp_at >= step * PROTO_ICMP_BURST) {
		p->icmp_tokens = PROTO_ICMP_BURST;
		p->icmp_at = now;
	} else {
		const uint32_t fresh = (uint32_t)((now - p->icmp_at) / step);

		p->icmp_tokens = BYTES_MIN(p->icmp_tokens + fresh, PROTO_ICMP_BURST);
		p->icmp_at += fresh * step;
	}
	if (!p->icmp_tokens)
		return false;
	p->icmp_tokens--;
	return true;
}

void proto_icmp_error(struct proto *p, const struct proto_icmp *err, const struct proto_quote *q)
{
	const bool v4 = inaddr_is_v4(&q->src);
	const uint32_t room = (v4 ? ERROR_MAX4 : ERROR_MAX6) - 2 * wire_ip_hdr_len(&q->src) - WIRE_ICMP_LEN;
	const struct wire_ip ip = {
		.src = q->src, .dst = q->dst, .proto = q->proto, .ttl = q->ttl, .tos = q->tos, .df = q->df,
		.id = q->id,
	};
	struct wire_icmp h = { .type = err->type, .code = err->code };
	/* without a router on the link, the error comes from where the packet went */
	const struct inaddr *from = inaddr_is_unset(&err->from) ? &q->dst : &err->from;
	uint8_t buf[ERROR_MAX6], *body = buf + WIRE_ICMP_LEN;
	struct view part = q->l4, whole;
	struct iovec iov;
	uint32_t len;

	if (!inaddr_is_unicast(from))
		return;
	if (v4) {			/* RFC 1191 4: the lower half */
		h.seq = (uint16_t)BYTES_MIN(err->info, 65535);
	} else {
		h.id = (uint16_t)(err->info >> 16);
		h.seq = (uint16_t)err->info;
	}
	view_trim(&part, room);
	len = wire_ip_emit(body, &ip, q->l4_len);
	if (v4 && q->more) {
		bytes_put32(body + 4, (uint32_t)q->id << 16 | ERROR_MORE4);
		bytes_put16(body + 10, 0);
		bytes_put16(body + 10, csum_done(csum_add(0, body, WIRE_IP4_LEN)));
	}
	len += view_copy(&part, body + len, part.len);

	iov = (struct iovec){ body, len };
	whole = view_of(&iov, len);
	wire_icmp_emit(buf, &h, &whole, v4 ? NULL : from, v4 ? NULL : &q->src);
	iov = (struct iovec){ buf, WIRE_ICMP_LEN + len };
	whole = view_of(&iov, WIRE_ICMP_LEN + len);
	proto_send(p->env, from, &q->src, v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, 0, &whole);
}

void proto_icmp_teach(struct proto *p, const struct proto_icmp *err, const struct flow_key *key)
{
	const bool v4 = inaddr_is_v4(&key->guest);
	const struct wire_icmp h = { .type = v4 ? WIRE_ICMP4_ECHO_REPLY : WIRE_ICMP6_ECHO_REPLY };
	uint8_t l4[WIRE_ICMP_LEN];
	const struct iovec iov = { l4, sizeof(l4) };
	const struct proto_quote q = {
		.src = key->guest, .dst = key->far, .proto = v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, .ttl = 64, .df = true,
		.l4_len = sizeof(l4), .l4 = view_of(&iov, sizeof(l4)),
	};

	wire_icmp_emit(l4, &h, NULL, v4 ? NULL : &key->guest, v4 ? NULL : &key->far);
	proto_icmp_error(p, err, &q);
}

void proto_icmp_no_protocol(struct proto *p, const struct proto_pkt *pkt)
{
	const struct wire_ip *ip = &pkt->ip;
	const bool v4 = inaddr_is_v4(&ip->src);
	const struct proto_icmp err = {
		.type = v4 ? WIRE_ICMP4_UNREACH : WIRE_ICMP6_PARAM, .code = v4 ? 2 : 1, .info = v4 ? 0 : ERROR_NEXT6,
	};
	const struct proto_quote q = {
		.src = ip->src, .dst = ip->dst, .proto = ip->proto, .ttl = ip->ttl, .tos = ip->tos, .df = ip->df,
		.l4_len = pkt->l4.len, .l4 = pkt->l4,
	};

	if (inaddr_is_unicast(&ip->src) && inaddr_is_unicast(&ip->dst) && proto_icmp_allow(p))
		proto_icmp_error(p, &err, &q);
}
