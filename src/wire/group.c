/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IGMP and MLD. Both have single reports (versions 1, 2; MLDv1) and lists of
 * records (version 3; MLDv2) of the same shape, with addresses of 4 or 16
 * bytes. Sources of a record are counted, not kept: whoever wants some of a
 * group's sources is a member.
 *
 * Refuses queries, groups that are not multicast, and records beyond the
 * message. RFC 1112 app. I, RFC 2236 2, RFC 3376 4, RFC 2710 3, RFC 3810 5;
 * router alert: RFC 2113, RFC 2711.
 */
#include "wire/group.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "wire/ip.h"

#define IGMP_LEN	8		/* single messages, and the head of a list */
#define MLD_LEN		24
#define LIST_LEN	8
#define REC_LEN		4		/* of a record, before its address */
#define IGMP_QUERY	0x11
#define IGMP_REPORT1	0x12
#define IGMP_REPORT2	0x16
#define IGMP_LEAVE	0x17
#define IGMP_REPORT3	0x22
#define QUERY3_LEN	12		/* without sources */
#define QUERY_MLD2_LEN	28
#define IP4_ALERT_LEN	24		/* header with the router alert option */
#define HOP_ALERT_LEN	8
#define ROBUSTNESS	2		/* RFC 3376 8.1 */

enum rec_type { REC_IS_IN = 1, REC_IS_EX, REC_TO_IN, REC_TO_EX, REC_ALLOW, REC_BLOCK };

/* ::ffff:224.0.0.1 in a message of IPv6 is no group of either family */
static bool group_ok(const struct wire_group_list *l, const struct inaddr *a)
{
	return inaddr_is_multicast(a) && inaddr_is_v4(a) == l->v4;
}

static int group_single(struct wire_group_list *l, const struct inaddr *a, enum wire_group_what what)
{
	l->one = (struct wire_group){ .a = *a, .what = what };
	l->single = true;
	l->left = 1;
	return group_ok(l, a) ? 0 : -EBADMSG;
}

static void group_records(struct wire_group_list *l, struct view v, const uint8_t *head)
{
	view_skip(&v, LIST_LEN);
	l->rest = v;
	l->left = bytes_get16(head + 6);
}

int wire_igmp_parse(struct view v, struct wire_group_list *ret)
{
	uint8_t bounce[IGMP_LEN];
	const uint8_t *p = view_peek(&v, bounce, IGMP_LEN);
	struct inaddr a;

	*ret = (struct wire_group_list){ .v4 = true };
	if (!p)
		return -EBADMSG;
	a = inaddr_v4(p + 4);
	switch (p[0]) {
	case IGMP_REPORT1:
	case IGMP_REPORT2:
		return group_single(ret, &a, WIRE_GROUP_JOIN);
	case IGMP_LEAVE:
		return group_single(ret, &a, WIRE_GROUP_LEAVE);
	case IGMP_REPORT3:
		group_records(ret, v, p);
		return 0;
	}
	return -EPROTONOSUPPORT;
}

int wire_mld_parse(struct view v, struct wire_group_list *ret)
{
	uint8_t bounce[MLD_LEN];
	const uint8_t *p = view_peek(&v, bounce, LIST_LEN);
	struct inaddr a;

	*ret = (struct wire_group_list){ .v4 = false };
	if (!p)
		return -EBADMSG;
	if (p[0] == WIRE_ICMP6_MLD2_REPORT) {
		group_records(ret, v, p);
		return 0;
	}
	if (p[0] != WIRE_ICMP6_MLD_REPORT && p[0] != WIRE_ICMP6_MLD_DONE)
		return -EPROTONOSUPPORT;
	p = view_peek(&v, bounce, MLD_LEN);
	if (!p)
		return -EBADMSG;
	a = inaddr_v6(p + 8);
	return group_single(ret, &a, p[0] == WIRE_ICMP6_MLD_DONE ? WIRE_GROUP_LEAVE : WIRE_GROUP_JOIN);
}

static enum wire_group_what rec_what(uint8_t type, uint32_t sources)
{
	switch (type) {
	case REC_IS_EX:
	case REC_TO_EX:
		return WIRE_GROUP_JOIN;
	case REC_IS_IN:
	case REC_TO_IN:
		return sources ? WIRE_GROUP_JOIN : WIRE_GROUP_LEAVE;
	case REC_ALLOW:
		return sources ? WIRE_GROUP_JOIN : WIRE_GROUP_KEEP;
	}
	return WIRE_GROUP_KEEP;		/* RFC 3376 4.2.12: other types are ignored */
}

int wire_group_next(struct wire_group_list *l, struct wire_group *ret)
{
	const uint32_t alen = l->v4 ? 4 : 16;
	uint8_t bounce[REC_LEN + 16];
	uint32_t sources, more;
	const uint8_t *p;

	if (!l->left)
		return 0;
	l->left--;
	if (l->single) {
		*ret = l->one;
		return 1;
	}
	p = view_pull(&l->rest, bounce, REC_LEN + alen);
	if (!p)
		goto bad;
	sources = bytes_get16(p + 2);
	more = sources * alen + p[1] * 4u;
	ret->a = l->v4 ? inaddr_v4(p + REC_LEN) : inaddr_v6(p + REC_LEN);
	ret->what = rec_what(p[0], sources);
	if (more > l->rest.len || !group_ok(l, &ret->a))
		goto bad;
	view_skip(&l->rest, more);
	return 1;
bad:
	l->left = 0;
	return -EBADMSG;
}

/* Query interval as a byte: small values as they are, others as a floating number (RFC 3376 4.1.7) */
static uint8_t query_code(uint32_t v)
{
	uint32_t exp = 0;

	if (v < 128)
		return (uint8_t)v;
	for (v >>= 3; v > 31 && exp < 7; v >>= 1)
		exp++;
	return (uint8_t)(0x80 | exp << 4 | (BYTES_MIN(v, 31) & 15));
}

static uint32_t query4(uint8_t *p, const struct inaddr *src, const struct inaddr *group, const struct inaddr *dst,
		       uint32_t resp_ms, uint8_t interval)
{
	const struct wire_ip ip = { .src = *src, .dst = *dst, .proto = WIRE_IP_IGMP, .ttl = 1, .tos = 0xc0 };
	uint8_t *q = p + IP4_ALERT_LEN;

	wire_ip_emit(p, &ip, IP4_ALERT_LEN - WIRE_IP4_LEN + QUERY3_LEN);
	p[0] = 4 << 4 | IP4_ALERT_LEN / 4;
	bytes_put32(p + WIRE_IP4_LEN, 0x94040000);	/* RFC 2113 2.1 */
	bytes_put16(p + 10, 0);
	bytes_put16(p + 10, csum_done(csum_add(0, p, IP4_ALERT_LEN)));

	memset(q, 0, QUERY3_LEN);
	q[0] = IGMP_QUERY;
	q[1] = query_code(resp_ms / 100);
	memcpy(q + 4, group->b + 12, inaddr_is_unset(group) ? 0 : 4);
	q[8] = ROBUSTNESS;
	q[9] = interval;
	bytes_put16(q + 2, csum_done(csum_add(0, q, QUERY3_LEN)));
	return IP4_ALERT_LEN + QUERY3_LEN;
}

static uint32_t query6(uint8_t *p, const struct inaddr *src, const struct inaddr *group, const struct inaddr *dst,
		       uint32_t resp_ms, uint8_t interval)
{
	const struct wire_ip ip = { .src = *src, .dst = *dst, .proto = 0, .ttl = 1 };	/* 0: hop-by-hop options */
	uint8_t *hop = p + WIRE_IP6_LEN, *q = hop + HOP_ALERT_LEN;
	static const uint8_t alert[HOP_ALERT_LEN] = { WIRE_IP_ICMP6, 0, 5, 2, 0, 0, 1, 0 };	/* RFC 2711 2.1; PadN */

	wire_ip_emit(p, &ip, HOP_ALERT_LEN + QUERY_MLD2_LEN);
	memcpy(hop, alert, sizeof(alert));
	memset(q, 0, QUERY_MLD2_LEN);
	q[0] = WIRE_ICMP6_MLD_QUERY;
	bytes_put16(q + 4, (uint16_t)BYTES_MIN(resp_ms, 32767));
	if (!inaddr_is_unset(group))
		memcpy(q + 8, group->b, 16);
	q[24] = ROBUSTNESS;
	q[25] = interval;
	bytes_put16(q + 2, csum_done(csum_add(csum_pseudo(src, dst, WIRE_IP_ICMP6, QUERY_MLD2_LEN), q, QUERY_MLD2_LEN)));
	return WIRE_IP6_LEN + HOP_ALERT_LEN + QUERY_MLD2_LEN;
}

uint32_t wire_group_emit_query(uint8_t *p, const struct inaddr *src, const struct inaddr *group, uint32_t resp_ms,
			       uint32_t interval_s, struct inaddr *ret_dst)
{
	static const uint8_t all4[4] = { 224, 0, 0, 1 }, all6[16] = { 0xff, 2, [15] = 1 };
	const bool v4 = inaddr_is_v4(src);
	const uint8_t interval = query_code(interval_s);

	*ret_dst = !inaddr_is_unset(group) ? *group : v4 ? inaddr_v4(all4) : inaddr_v6(all6);
	return v4 ? query4(p, src, group, ret_dst, resp_ms, interval) : query6(p, src, group, ret_dst, resp_ms, interval);
}
