/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/tcp/dns.c: connections to the forwarding address go on to the next resolver as long as none has answered (N01).
 */
#include "rig_tcp.h"

#include "rig_dns.h"

static struct tcp_seg start(struct rig *r, unsigned cnt, uint16_t port)
{
	r->key.far = dns_list(&r->fwd, inaddr_is_v4(&r->key.guest), cnt);
	r->key.far_port = port;
	return (struct tcp_seg){ .h = { .sport = r->key.guest_port, .dport = port, .seq = RIG_ISN, .wnd = 65535, .flags = WIRE_TCP_SYN,
					.has_mss = true, .mss = 1220 },
				 .tos = 0x28, .next = FLOW_NONE };
}

static struct flow *open_dns(struct rig *r, unsigned cnt, uint16_t port)
{
	const struct tcp_seg s = start(r, cnt, port);

	tcp_guest_new(&r->p, &r->key, &s);
	return flow_find(&r->flows, &r->key);
}

static void event(struct rig *r, int result, uint32_t mask)
{
	struct flow *f = flow_find(&r->flows, &r->key);
	const struct ev_hit hit = { .ref = flow_ref(&r->flows, f), .mask = mask };

	r->sk.s[f->h].result = result;
	tcp_host(&r->p, f, &hit);
}

static void pass(struct rig *r, ns_t time)
{
	struct twheel_timer *t;

	r->env.now += time;
	while ((t = twheel_pop(&r->tw, r->env.now)))
		tcp_timer(&r->p, flow_of_timer(t));
}

/* Socket N goes to server I and is the flow's; those before are closed */
static void at(struct rig *r, int n, unsigned i)
{
	const struct inaddr a = dns_server(inaddr_is_v4(&r->key.guest), i);

	assert_int_equal(r->sk.cnt, n + 1);
	assert_true(inaddr_eq(&r->sk.s[n].to.a, &a));
	assert_int_equal(r->sk.s[n].to.port, r->key.far_port);
	assert_int_equal(r->sk.s[n].tos, 0x28);
	assert_int_equal(r->sk.s[n].mss, 1220);
	assert_int_equal(flow_find(&r->flows, &r->key)->h, n);
	for (int k = 0; k < n; k++)
		assert_false(r->sk.s[k].open);
}

static void test_refused(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;

	for (uint16_t port = 53; port <= 853; port += 800) {
		const int n = r->sk.cnt;

		open_dns(r, 3, port);
		at(r, n, 0);
		event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
		at(r, n + 1, 1);
		event(r, -EHOSTUNREACH, EV_ERR | EV_HUP);
		at(r, n + 2, 2);
		assert_int_equal(r->l2.cnt, 0);
		event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
		assert_null(flow_find(&r->flows, &r->key));
		rig_frame(r, 0, &h);		/* nobody is left: the last one's word */
		assert_int_equal(h.flags, WIRE_TCP_RST | WIRE_TCP_ACK);
		fake_l2_clear(&r->l2);
	}
}

static void test_silent(void **state)
{
	struct rig *r = *state;
	struct wire_tcp h;

	open_dns(r, 3, 53);
	pass(r, NS_S - 20 * NS_MS);
	at(r, 0, 0);
	pass(r, 40 * NS_MS);
	at(r, 1, 1);
	assert_int_equal(r->sk.s[0].how, SK_END_RESET);
	pass(r, NS_S + 20 * NS_MS);
	at(r, 2, 2);
	pass(r, 100 * NS_S);		/* the last one has its time */
	at(r, 2, 2);
	event(r, 0, EV_OUT);
	rig_frame(r, 0, &h);
	assert_int_equal(h.flags, WIRE_TCP_SYN | WIRE_TCP_ACK);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	pass(r, NS_S + 20 * NS_MS);	/* from now on the timer is that of the SYN, ACK */
	assert_int_equal(r->l2.cnt, 1);
	assert_int_equal(r->sk.cnt, 3);
}

/* A connection to the first of two servers, which refused the last time, 20 s ago */
static void open_distrusting(struct rig *r)
{
	open_dns(r, 2, 53);
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	tcp_abort(&r->p, flow_find(&r->flows, &r->key));
	r->env.now += 20 * NS_S;
	open_dns(r, 2, 53);
}

/* What was learned counts for the next connection; an answer makes it void */
static void test_remembered(void **state)
{
	struct rig *r = *state;

	open_dns(r, 2, 53);
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	event(r, 0, EV_OUT);
	tcp_abort(&r->p, flow_find(&r->flows, &r->key));
	open_dns(r, 2, 53);
	at(r, 2, 1);
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	at(r, 3, 0);
	event(r, 0, EV_OUT);
	tcp_abort(&r->p, flow_find(&r->flows, &r->key));
	open_dns(r, 2, 53);
	at(r, 4, 0);
	tcp_abort(&r->p, flow_find(&r->flows, &r->key));
	/* one that failed the last time has to be quick */
	open_distrusting(r);
	at(r, 7, 0);
	pass(r, 220 * NS_MS);
	at(r, 8, 1);
}

/* A server that failed once and answers is trusted as before, and the time that it took ends nothing */
static void test_answered(void **state)
{
	struct rig *r = *state;

	open_distrusting(r);
	at(r, 2, 0);
	event(r, 0, EV_OUT);
	tcp_abort(&r->p, flow_find(&r->flows, &r->key));
	fake_l2_clear(&r->l2);
	open_dns(r, 2, 53);
	at(r, 3, 0);
	pass(r, 600 * NS_MS);
	at(r, 3, 0);
	event(r, 0, EV_OUT);
	assert_int_equal(r->l2.cnt, 1);
	pass(r, 600 * NS_MS);
	assert_int_equal(r->l2.cnt, 1);
	pass(r, 420 * NS_MS);
	assert_int_equal(r->l2.cnt, 2);	/* the SYN, ACK again */
}

/* One server, or another port: as any connection */
static void test_plain(void **state)
{
	struct rig *r = *state;

	open_dns(r, 1, 53);
	pass(r, 5 * NS_S);
	at(r, 0, 0);
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	assert_null(flow_find(&r->flows, &r->key));
	open_dns(r, 3, 80);
	assert_int_equal(r->sk.cnt, 2);
	assert_true(inaddr_eq(&r->sk.s[1].to.a, &r->key.far));
	pass(r, 5 * NS_S);
	assert_int_equal(r->sk.cnt, 2);
	assert_true(r->sk.s[1].open);
}

/* No descriptor for the next server is no reason to try none of the others later */
static void test_no_descriptor(void **state)
{
	struct rig *r = *state;

	open_dns(r, 3, 53);
	r->sk.connect_err = -EMFILE;
	pass(r, NS_S + 20 * NS_MS);
	at(r, 0, 0);
	r->sk.connect_err = 0;
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	assert_non_null(flow_find(&r->flows, &r->key));
	assert_int_equal(r->sk.cnt, 2);
}

/* A connect that can't even begin; no descriptors; a guest that gives up */
static void test_ends(void **state)
{
	struct rig *r = *state;
	struct tcp_seg s = start(r, 3, 53);
	struct flow *f;

	r->sk.connect_err = -ENETUNREACH;
	tcp_guest_new(&r->p, &r->key, &s);
	assert_null(flow_find(&r->flows, &r->key));
	assert_int_equal(r->l2.cnt, 1);
	r->sk.connect_err = 0;
	f = open_dns(r, 3, 53);
	r->sk.connect_err = -EMFILE;
	pass(r, NS_S + 20 * NS_MS);
	at(r, 0, 0);			/* goes on waiting */
	event(r, -ECONNREFUSED, EV_ERR | EV_HUP);
	assert_null(flow_find(&r->flows, &r->key));
	r->sk.connect_err = 0;
	f = open_dns(r, 2, 53);
	s.h.flags = WIRE_TCP_RST;
	s.h.seq = RIG_ISN + 1;
	tcp_guest(&r->p, f, &s, 0);
	assert_null(flow_find(&r->flows, &r->key));
	pass(r, 5 * NS_S);
	assert_false(r->sk.s[1].open);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_refused), RIG_BOTH(test_silent), RIG_BOTH(test_remembered), RIG_BOTH(test_answered),
		RIG_BOTH(test_plain), RIG_BOTH(test_no_descriptor), RIG_BOTH(test_ends),
	};

	return cmocka_run_group_tests_name("proto/tcp/dns", tests, NULL, NULL);
}
