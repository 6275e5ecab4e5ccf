/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/icmp/told.c: ICMP errors of the guest, down to the UDP flow that they are about.
 */
#include "rig_udp.h"

#include "proto/icmp.h"

/* An error of the guest's side that quotes the first KNOWN bytes of datagram from FAR, port SPORT; whether it was one */
static bool tell(struct rig *r, uint8_t type, uint8_t code, uint32_t info, uint16_t sport, uint32_t known)
{
	const struct wire_icmp h = { .type = type, .code = code, .id = (uint16_t)(info >> 16), .seq = (uint16_t)info };
	const struct wire_ip ip = { .src = r->far, .dst = r->guest, .proto = WIRE_IP_UDP, .ttl = 3 };
	const struct wire_udp u = { sport, GUEST_PORT };
	uint8_t b[200];
	bool was;

	memset(b, 0, sizeof(b));
	wire_icmp_emit(b, &h, NULL, r->v4 ? NULL : &r->guest, r->v4 ? NULL : &r->far);
	wire_udp_emit(b + WIRE_ICMP_LEN + wire_ip_emit(b + WIRE_ICMP_LEN, &ip, 1008), &u, 1000, 0);
	rig_pkt(r, &r->far, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6, b, WIRE_ICMP_LEN + known, 3);
	was = proto_icmp_told(&r->p, &r->pkt[0]);
	r->pkt_cnt = 0;
	return was;
}

static uint32_t quote_len(const struct rig *r)
{
	return wire_ip_hdr_len(&r->far) + WIRE_UDP_LEN;
}

/* Everything but errors is somebody else's */
static void test_types(void **state)
{
	struct rig *r = *state;

	for (unsigned type = 0; type < 256; type++) {
		const bool error = r->v4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4;

		if (tell(r, (uint8_t)type, 0, 0, FAR_PORT, quote_len(r)) != error)
			fail_msg("type %u", type);
	}
	assert_int_equal(r->drops.cnt[DROP_ICMP_QUOTE], r->v4 ? 3 : 4);
}

/* UDP-36: the socket is closed, so that the host's kernel refuses what comes next; a passing error closes nothing */
static void test_refused(void **state)
{
	static const struct { uint8_t v4, type, code; bool hard; } tab[] = {
		{ 1, 3, 3, true }, { 1, 3, 2, true }, { 1, 3, 13, true }, { 1, 3, 9, true }, { 1, 3, 10, true },
		{ 1, 3, 0, false }, { 1, 3, 1, false }, { 1, 11, 0, false }, { 1, 12, 0, false },
		{ 0, 1, 4, true }, { 0, 1, 1, true }, { 0, 1, 5, true }, { 0, 1, 6, true },
		{ 0, 1, 0, false }, { 0, 1, 3, false }, { 0, 3, 0, false }, { 0, 4, 1, false },
	};
	struct rig *r = *state;
	uint64_t untold = 0;

	for (unsigned i = 0; i < BYTES_COUNT(tab); i++) {
		if (tab[i].v4 != r->v4)
			continue;
		if (!find(r, &r->far)) {
			put(r, &r->far, 5, 0, 1);
			push(r, &r->far);
		}
		assert_true(tell(r, tab[i].type, tab[i].code, 0, FAR_PORT, quote_len(r)));
		if (!find(r, &r->far) != tab[i].hard)
			fail_msg("type %u code %u", tab[i].type, tab[i].code);
		assert_int_equal(r->dg.opened[r->dg.open_cnt - 1].closed, tab[i].hard);
		untold += !tab[i].hard;
	}
	assert_int_equal(r->drops.cnt[DROP_ICMP_TOLD], untold);
}

/* A published port has other peers */
static void test_published(void **state)
{
	struct rig *r = *state;
	const struct udp_listener l = { .h = 50, .port = GUEST_PORT };
	const struct ev_hit hit = { .mask = EV_IN };

	come(r, &l, &r->far, FAR_PORT, &r->far, 1);
	udp_listen(&r->p, &l, &hit);
	assert_true(tell(r, r->v4 ? 3 : 1, r->v4 ? 3 : 4, 0, FAR_PORT, quote_len(r)));
	assert_non_null(find(r, &r->far));
	assert_int_equal(r->drops.cnt[DROP_ICMP_TOLD], 1);
}

/* A path behind the guest that takes less than our link: fragments as it asks for */
static void test_too_big(void **state)
{
	struct rig *r = *state;
	struct flow *f = open_flow(r);
	const uint8_t type = r->v4 ? 3 : 2, code = r->v4 ? 4 : 0;

	r->l2.l2.mtu = 9000;
	assert_true(tell(r, type, code, 9000, FAR_PORT, quote_len(r)));
	assert_int_equal(r->drops.cnt[DROP_ICMP_TOLD], 1);
	arrive(r, f->h, 4000, 1, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	assert_true(tell(r, type, code, 1400, FAR_PORT, quote_len(r)));
	assert_true(tell(r, type, code, 1450, FAR_PORT, quote_len(r)));
	assert_int_equal(r->drops.cnt[DROP_ICMP_TOLD], 2);
	arrive(r, f->h, 4000, 1, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, 3);
	for (uint32_t i = 0; i < r->l2.cnt; i++)
		assert_in_range(r->l2.frames[i].len, 60, WIRE_ETH_LEN + 1400);
	fake_l2_clear(&r->l2);
	tell(r, type, code, 1, FAR_PORT, quote_len(r));		/* nobody makes us send dust */
	arrive(r, f->h, 4000, 1, 0, 0);
	ready(r, f, EV_IN);
	assert_int_equal(r->l2.cnt, r->v4 ? 8 : 4);
}

/* What is cut short, of another flow, or no quote at all */
static void test_alien(void **state)
{
	struct rig *r = *state;
	const uint8_t type = r->v4 ? 3 : 1, code = r->v4 ? 3 : 4;

	open_flow(r);
	for (uint32_t known = 0; known < wire_ip_hdr_len(&r->far) + 4; known++)
		assert_true(tell(r, type, code, 0, FAR_PORT, known));
	assert_true(tell(r, type, code, 0, FAR_PORT + 1, quote_len(r)));
	assert_int_equal(r->drops.cnt[DROP_ICMP_QUOTE], wire_ip_hdr_len(&r->far) + 5);
	assert_non_null(find(r, &r->far));
	assert_true(tell(r, type, code, 0, FAR_PORT, wire_ip_hdr_len(&r->far) + 4));
	assert_null(find(r, &r->far));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_types),
		RIG_BOTH(test_refused),
		RIG_BOTH(test_published),
		RIG_BOTH(test_too_big),
		RIG_BOTH(test_alien),
	};

	return cmocka_run_group_tests_name("proto/icmp/told", tests, NULL, NULL);
}
