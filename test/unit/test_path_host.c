/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events to their flows, and the turn: timers, then each flow that gave up the
 * turn before, once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../src/proto/tcp/tcp_priv.h"
#include "proto/reasm.h"
#include "sim/world.h"

static struct world w;

static int setup_family(void **state)
{
	world_init(&w, *state, false, 1000 * NS_S, 8);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	world_done(&w);
	return 0;
}

#define BOTH(test) \
	{ #test " IPv4", test, setup_family, teardown, NULL }, { #test " IPv6", test, setup_family, teardown, (void *)1 }

/* A flow with a large window, and more to send than fits a turn */
static struct flow *open_busy(uint16_t port)
{
	static uint8_t data[2000000];
	struct flow_key key = world_key(&w, port, 80);
	struct world_seg s = { .key = key, .h = { .sport = port, .dport = 80, .flags = WIRE_TCP_SYN, .wnd = 65535,
						  .has_ws = true, .ws = 14, .has_mss = true, .mss = 1400 } };
	uint32_t iss = world_iss(&w, &key);
	struct flow *f;

	world_batch(&w, &s);
	world_deliver(&w);
	f = flow_find(&w.flows, &key);
	assert_non_null(f);
	w.sk.s[f->h].result = 0;
	world_event(&w, flow_ref(&w.flows, f), EV_OUT);
	s.h = (struct wire_tcp){ .sport = port, .dport = 80, .flags = WIRE_TCP_ACK, .wnd = 65535, .seq = 1, .ack = iss + 1 };
	world_batch(&w, &s);
	world_deliver(&w);
	fake_sk_feed(&w.sk, f->h, data, sizeof(data));
	return f;
}

static uint32_t frames_since(uint32_t *before)
{
	uint32_t n = w.l2.cnt - *before;

	*before = w.l2.cnt;
	return n;
}

static void event(struct flow *f, uint32_t mask)
{
	struct ev_hit hit = { .ref = flow_ref(&w.flows, f), .mask = mask };

	path_host(&w.path, &hit);
}

/* A turn of the loop is what all flows share, however many they are (D05): a new event waits for no more than that */
static void test_turns(void **state)
{
	struct flow *a = open_busy(40000), *b = open_busy(40001);
	uint32_t seen = w.l2.cnt, sent;

	(void)state;
	assert_true(path_next(&w.path) > w.env.now);
	event(a, EV_IN);
	event(b, EV_IN);
	assert_int_equal(frames_since(&seen), TCP_TURN + 1);	/* the first took it all, but for one of the other's own */
	assert_int_equal(path_next(&w.path), 0);		/* more to do: no wait */
	event(a, EV_IN);
	event(b, EV_IN);
	assert_int_equal(frames_since(&seen), 0);		/* they have had their turn */
	path_tick(&w.path);
	assert_int_equal(frames_since(&seen), 1);
	for (int i = 0; i < 6; i++) {
		struct flow *f = i % 2 ? a : b;
		uint32_t nxt = tcp_of(f)->nxt;

		path_tick(&w.path);
		assert_int_equal(frames_since(&seen), TCP_TURN);
		assert_true(tcp_of(f)->nxt - nxt > (TCP_TURN - 1) * 60000);
	}
	assert_int_equal(path_next(&w.path), 0);
	sent = TCP_TURN + 1 + 1 + 6 * TCP_TURN;
	while (!path_next(&w.path))
		path_tick(&w.path);
	assert_int_equal(frames_since(&seen), 2 * (2000000 / ((65535 - 40) / 1400 * 1400) + 1) - sent);
	assert_true(path_next(&w.path) > w.env.now);
}

/* A timer ends the flow that is last in the queue: the others get one turn, not all at once */
static void test_last_is_freed(void **state)
{
	struct flow *a = open_busy(40000), *b = open_busy(40001);
	static uint8_t more[3000000];
	uint32_t seen;

	(void)state;
	fake_sk_feed(&w.sk, a->h, more, sizeof(more));
	event(a, EV_IN);
	event(b, EV_IN);
	tcp_of(b)->retries = TCP_RETRIES;
	tcp_of(b)->rto_at = w.env.now;
	twheel_arm(&w.tw, &b->timer, w.env.now);
	seen = w.l2.cnt;
	path_tick(&w.path);
	assert_int_equal(w.flows.cnt, 1);
	assert_int_equal(frames_since(&seen), 1 + 1);		/* and the reset of b */
	assert_int_equal(path_next(&w.path), 0);
}

static void test_stale(void **state)
{
	struct flow *a = open_busy(40000);
	struct ev_hit hit = { .ref = flow_ref(&w.flows, a), .mask = EV_IN };
	uint32_t seen = w.l2.cnt;

	(void)state;
	hit.ref.gen++;
	path_host(&w.path, &hit);
	hit.ref.gen--;
	hit.ref.kind = EV_KIND_LISTEN;
	path_host(&w.path, &hit);
	hit.ref.kind = EV_KIND_FLOW;
	hit.ref.idx = 5;
	path_host(&w.path, &hit);
	assert_int_equal(frames_since(&seen), 0);
}

static void test_draining(void **state)
{
	struct flow *a = open_busy(40000);

	(void)state;
	assert_true(path_draining(&w.path));
	tcp_of(a)->guest_fin = true;
	assert_false(path_draining(&w.path));
	path_end(&w.path);
	assert_int_equal(w.flows.cnt, 0);
	assert_false(path_draining(&w.path));
}

/* A packet that never came whole is given up by the turn, and nothing spins until then */
static void test_reassembly(void **state)
{
	struct proto_reasm *r = calloc(1, sizeof(*r));

	(void)state;
	w.path.p.reasm = r;
	assert_true(path_next(&w.path) == NS_NEVER);
	r->e[3].used = true;
	r->e[3].since = w.env.now;
	r->next = w.env.now + PROTO_REASM_TIME;
	assert_true(path_next(&w.path) == r->next);
	w.env.now = r->next - 1;
	path_tick(&w.path);
	assert_true(r->e[3].used);
	w.env.now++;
	path_tick(&w.path);
	assert_false(r->e[3].used);
	assert_true(path_next(&w.path) == NS_NEVER);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(test_turns), BOTH(test_last_is_freed), BOTH(test_stale), BOTH(test_draining), BOTH(test_reassembly),
	};

	return cmocka_run_group_tests_name("path/host", tests, NULL, NULL);
}
