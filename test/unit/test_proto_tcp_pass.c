/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/tcp/pass.c: DSCP and the wish for keep-alive, from the guest to the host's socket.
 */
#include "rig_tcp.h"

/* A segment of the guest: OFF from what we expect next, LEN bytes */
static struct tcp_seg seg(const struct rig *r, int32_t off, uint32_t len, uint8_t flags)
{
	static uint8_t byte[2];
	static const struct iovec iov = { byte, sizeof(byte) };

	return (struct tcp_seg){ .h = { .seq = r->t->rcv_nxt + (uint32_t)off, .ack = r->t->una, .wnd = 1000, .flags = flags },
				 .data = view_of(&iov, len), .next = FLOW_NONE };
}

static void probe(struct rig *r)
{
	const struct tcp_seg s = seg(r, -1, 0, WIRE_TCP_ACK);

	tcp_pass_keep_alive(&r->p, r->f, &s);
}

/* Six bits pass, once for each change; the two of ECN are another's */
static void test_class(void **state)
{
	struct rig *r = *state;
	uint32_t sets;

	rig_open(r, true);
	sets = rig_sock(r)->sets;
	tcp_pass_class(&r->p, r->f, 0);
	tcp_pass_class(&r->p, r->f, 3);
	assert_int_equal(rig_sock(r)->sets, sets);
	tcp_pass_class(&r->p, r->f, 0xb9);
	assert_int_equal(rig_sock(r)->tos, 0xb8);
	assert_int_equal(rig_sock(r)->sets, sets + 1);
	tcp_pass_class(&r->p, r->f, 0xb8);
	tcp_pass_class(&r->p, r->f, 0xbb);
	assert_int_equal(rig_sock(r)->sets, sets + 1);
	tcp_pass_class(&r->p, r->f, 0xff);
	assert_int_equal(rig_sock(r)->tos, 0xfc);
	tcp_pass_class(&r->p, r->f, 0);
	assert_int_equal(rig_sock(r)->tos, 0);
	assert_int_equal(rig_sock(r)->sets, sets + 3);
}

/* The first probe turns it on, with the kernel's own time: the guest's is not known yet */
static void test_first_probe(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	rig_sock(r)->keep_alive = -1;
	r->env.now += 7200 * NS_S;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, 0);
	assert_true(r->t->keep_alive);
	assert_true(r->t->keep_at == r->env.now);
}

/* Two probes show how patient the guest is; the shortest time counts, and is set once */
static void test_interval(void **state)
{
	static const struct { ns_t wait; int idle_s; uint32_t sets; } step[] = {
		{ NS_S - 1, 0, 1 }, { 75 * NS_S, 75, 2 }, { 75 * NS_S, 75, 2 }, { 76 * NS_S, 75, 2 }, { 75 * NS_S - 1, 74, 3 },
		{ 10 * NS_MS, 74, 3 }, { NS_S, 1, 4 }, { 500 * NS_S, 1, 4 },
	};
	struct rig *r = *state;
	uint32_t sets;

	rig_open(r, true);
	sets = rig_sock(r)->sets;
	probe(r);
	for (unsigned i = 0; i < BYTES_COUNT(step); i++) {
		r->env.now += step[i].wait;
		probe(r);
		if (rig_sock(r)->keep_alive != step[i].idle_s || rig_sock(r)->sets != sets + step[i].sets)
			fail_msg("step %u: %d s, %u calls", i, rig_sock(r)->keep_alive, rig_sock(r)->sets - sets);
	}
}

/* TCP_KEEPIDLE takes 32767 seconds */
static void test_interval_max(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	probe(r);
	r->env.now += 100000 * NS_S;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, 32767);
}

/* Data between two probes: what lies between them is not the guest's patience */
static void test_data_between(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	probe(r);
	r->env.now += 50 * NS_S;
	r->t->guest_data_at = r->env.now;
	r->env.now += 30 * NS_S;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, 0);
	assert_true(r->t->keep_at == r->env.now);
	r->env.now += 30 * NS_S;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, 30);
}

/* RFC 9293 3.8.4: one below what is expected, a byte or none; all else is old data, or means something */
static void test_no_probe(void **state)
{
	struct rig *r = *state;
	struct tcp_seg s;

	rig_open(r, true);
	rig_sock(r)->keep_alive = -1;
	for (int32_t off = -3; off <= 1; off++) {
		if (off == -1)
			continue;
		s = seg(r, off, 0, WIRE_TCP_ACK);
		tcp_pass_keep_alive(&r->p, r->f, &s);
	}
	s = seg(r, -1, 2, WIRE_TCP_ACK);
	tcp_pass_keep_alive(&r->p, r->f, &s);
	s = seg(r, -1, 0, WIRE_TCP_ACK | WIRE_TCP_FIN);
	tcp_pass_keep_alive(&r->p, r->f, &s);
	s = seg(r, -1, 0, WIRE_TCP_SYN);
	tcp_pass_keep_alive(&r->p, r->f, &s);
	s = seg(r, -1, 0, WIRE_TCP_ACK | WIRE_TCP_RST);
	tcp_pass_keep_alive(&r->p, r->f, &s);
	assert_int_equal(rig_sock(r)->keep_alive, -1);
	assert_true(r->t->keep_at != r->env.now);
	s = seg(r, -1, 1, WIRE_TCP_ACK);
	tcp_pass_keep_alive(&r->p, r->f, &s);
	assert_int_equal(rig_sock(r)->keep_alive, 0);
}

/* At a closed window the same segment asks for the window */
static void test_window_probe(void **state)
{
	struct rig *r = *state;

	rig_open(r, true);
	rig_sock(r)->keep_alive = -1;
	r->t->rcv_edge = r->t->rcv_nxt;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, -1);
	r->t->rcv_edge++;
	probe(r);
	assert_int_equal(rig_sock(r)->keep_alive, 0);
}

/* On the way that segments take: a probe is answered, and carries no class */
static void test_through_guest(void **state)
{
	struct rig *r = *state;
	struct tcp_seg s;

	rig_open(r, true);
	rig_sock(r)->keep_alive = -1;
	s = seg(r, -1, 0, WIRE_TCP_ACK);
	tcp_guest(&r->p, r->f, &s, 0);
	assert_int_equal(rig_sock(r)->keep_alive, 0);
	assert_int_equal(r->l2.cnt, 1);
	s = seg(r, 0, 1, WIRE_TCP_ACK);
	s.tos = 0x2e;
	tcp_guest(&r->p, r->f, &s, 0);
	assert_int_equal(rig_sock(r)->tos, 0x2c);
}

/* Where a send is cut: before the urgent byte, behind it; across the wrap */
static void test_mark_cut(void **state)
{
	struct tcp t = { .rcv_nxt = 0xfffffffe };
	struct tcp_seg s = { .h = { .seq = 0xfffffffe, .urg = 5, .flags = WIRE_TCP_ACK } };
	bool urgent;

	(void)state;
	tcp_mark_take(&t, &s);		/* the flag is missing */
	assert_false(t.guest_mark);
	assert_int_equal(tcp_mark_cut(&t, 10, &urgent), 10);
	assert_false(urgent);
	s.h.flags |= WIRE_TCP_URG;
	tcp_mark_take(&t, &s);
	assert_true(t.guest_mark);
	assert_int_equal(t.guest_mark_seq, 2);
	assert_int_equal(tcp_mark_cut(&t, 10, &urgent), 4);
	assert_false(urgent);
	assert_int_equal(tcp_mark_cut(&t, 4, &urgent), 4);
	assert_int_equal(tcp_mark_cut(&t, 0, &urgent), 0);
	t.rcv_nxt = 2;
	assert_int_equal(tcp_mark_cut(&t, 10, &urgent), 1);
	assert_true(urgent);
	assert_int_equal(tcp_mark_cut(&t, 0, &urgent), 0);	/* a FIN in its place */
	assert_false(urgent);
	s.h.urg = 4;			/* it never goes back */
	tcp_mark_take(&t, &s);
	assert_int_equal(t.guest_mark_seq, 2);
	t.guest_mark = false;
	t.rcv_nxt = 3;
	s.h.urg = 5;			/* old */
	tcp_mark_take(&t, &s);
	s.h.seq = 3;
	s.h.urg = 0;			/* no byte */
	tcp_mark_take(&t, &s);
	assert_false(t.guest_mark);
}

/* Two marks in one batch: the first goes out before the second one takes its place */
static void test_two_marks(void **state)
{
	struct rig *r = *state;
	struct tcp_seg s[2];

	rig_open(r, true);
	rig_pool(r, 4);
	s[0] = seg(r, 0, 2, WIRE_TCP_ACK | WIRE_TCP_URG);
	s[1] = seg(r, 2, 2, WIRE_TCP_ACK | WIRE_TCP_URG);
	s[0].h.urg = s[1].h.urg = 2;
	s[0].next = 1;
	tcp_guest(&r->p, r->f, s, 0);
	assert_int_equal(rig_sock(r)->tx.len, 4);
	assert_int_equal(rig_sock(r)->urged, 2);
	assert_int_equal(rig_sock(r)->urged_at, 3);
	assert_false(r->t->guest_mark);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_class), RIG_BOTH(test_first_probe), RIG_BOTH(test_interval), RIG_BOTH(test_interval_max),
		RIG_BOTH(test_data_between), RIG_BOTH(test_no_probe), RIG_BOTH(test_window_probe), RIG_BOTH(test_through_guest),
		cmocka_unit_test(test_mark_cut), RIG_BOTH(test_two_marks),
	};

	return cmocka_run_group_tests_name("proto/tcp/pass", tests, NULL, NULL);
}
