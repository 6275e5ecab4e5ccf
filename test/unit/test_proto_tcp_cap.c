/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The bound on what is in flight after a loss: halved, given back, gone.
 */
#include "rig_tcp.h"

static void test_cut(void **state)
{
	struct tcp t = { .una = 0xfff00000, .nxt = 0xfff00000 + 40 * TCP_SUPER, .max = 0xfff00000 + 40 * TCP_SUPER };

	(void)state;
	assert_int_equal(tcp_cap_room(&t), INT32_MAX);
	tcp_cap_cut(&t);
	assert_int_equal(t.cap, 20 * TCP_SUPER);
	assert_int_equal(tcp_cap_room(&t), -20 * (int32_t)TCP_SUPER);
	tcp_cap_cut(&t);		/* what is in flight beyond the cap was sent before it */
	assert_int_equal(t.cap, 10 * TCP_SUPER);
	for (int i = 0; i < 10; i++)
		tcp_cap_cut(&t);
	assert_int_equal(t.cap, TCP_CAP_MIN);
}

/* A super-frame for each round trip; what SACK shows is in flight no more */
static void test_grow(void **state)
{
	struct tcp t = { .una = 1, .nxt = 1 + 8 * TCP_SUPER, .max = 1 + 8 * TCP_SUPER, .wnd_max = 10 * TCP_SUPER };

	(void)state;
	tcp_cap_grow(&t, TCP_SUPER);
	assert_int_equal(t.cap, 0);
	t.cap = 8 * TCP_SUPER;
	assert_int_equal(tcp_cap_room(&t), 0);
	t.sacked[t.sacked_cnt++] = (struct tcp_range){ 1 + TCP_SUPER, 1 + 3 * TCP_SUPER };
	assert_int_equal(tcp_cap_room(&t), 2 * TCP_SUPER);
	for (int i = 0; i < 8; i++)
		tcp_cap_grow(&t, TCP_SUPER);
	assert_in_range(t.cap, 8 * TCP_SUPER + TCP_SUPER * 9 / 10, 9 * TCP_SUPER);
	for (int i = 0; i < 11; i++)	/* the guest's window is the limit again */
		tcp_cap_grow(&t, TCP_SUPER);
	assert_int_equal(t.cap, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cut), cmocka_unit_test(test_grow) };

	return cmocka_run_group_tests_name("proto/tcp/cap", tests, NULL, NULL);
}
