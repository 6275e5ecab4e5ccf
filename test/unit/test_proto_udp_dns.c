/* SPDX-License-Identifier: BSD-3-Clause
 *
 * proto/udp/udp_dns.c: queries that go on to the next resolver when one refuses, has no answer or is silent; and what the
 * guest sees of it, which is one address.
 */
#include "rig_proto.h"

#include <errno.h>

#include "../../src/proto/udp/udp_priv.h"
#include "rig_dns.h"
#include "wire/udp.h"

#define ASK_PORT	40000
#define SMALL		40		/* bytes of a usual query */

static struct flow_key ask_key(struct rig *r, uint16_t port)
{
	return (struct flow_key){ r->guest, r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].dns_match, ASK_PORT, port, FLOW_UDP };
}

static struct flow *flow_at(struct rig *r, uint16_t port)
{
	const struct flow_key k = ask_key(r, port);

	return flow_find(&r->flows, &k);
}

static void message(uint8_t *m, uint16_t id, uint32_t len, uint8_t flags, uint8_t rcode)
{
	rig_pattern(m, len, id);
	m[0] = (uint8_t)(id >> 8);
	m[1] = (uint8_t)id;
	if (len > 3) {
		m[2] = flags;
		m[3] = rcode;
	}
}

/* The guest asks query ID of LEN bytes */
static struct flow *ask_len(struct rig *r, uint16_t id, uint32_t len, uint16_t port)
{
	const struct flow_key k = ask_key(r, port);
	const struct wire_udp h = { ASK_PORT, port };
	uint8_t b[2048];

	wire_udp_emit(b, &h, len, 0);
	message(b + WIRE_UDP_LEN, id, len, 1, 0);
	rig_pkt(r, &k.far, WIRE_IP_UDP, b, WIRE_UDP_LEN + len, 1);
	udp_guest(&r->p, &k, flow_find(&r->flows, &k), r->pkt, 0);
	r->pkt_cnt = 0;
	return flow_at(r, port);
}

static struct flow *ask(struct rig *r, uint16_t id)
{
	return ask_len(r, id, SMALL, 53);
}

/* Message M from a server over handle H */
static void say(struct rig *r, int h, const struct inaddr *server, const uint8_t *m, uint32_t len)
{
	const struct sk_dgram d = { .to_from = { .a = *server, .port = 53 } };
	const struct ev_hit hit = { .ref = flow_ref(&r->flows, flow_at(r, 53)), .mask = EV_IN };

	fake_dg_arrive(&r->dg, h, &d, m, len);
	udp_host(&r->p, flow_at(r, 53), &hit);
}

/* Server N says something over handle H */
static void answer(struct rig *r, int h, unsigned n, uint16_t id, uint8_t rcode)
{
	const struct inaddr a = dns_server(r->v4, n);
	uint8_t m[SMALL];

	message(m, id, SMALL, 0x81, rcode);
	say(r, h, &a, m, SMALL);
}

static void refuse(struct rig *r, int h, unsigned n, int code)
{
	const struct inaddr a = dns_server(r->v4, n);
	struct sk_err e = { .code = code, .icmp_type = inaddr_is_v4(&a) ? 3 : 1, .to = { .a = a, .port = 53 }, .offender = { .a = a } };
	const struct ev_hit hit = { .ref = flow_ref(&r->flows, flow_at(r, 53)), .mask = EV_ERR };
	uint8_t m[SMALL] = { 0 };

	e.icmp_code = inaddr_is_v4(&a) ? 3 : 4;
	fake_dg_error(&r->dg, h, &e, m, SMALL);
	udp_host(&r->p, flow_at(r, 53), &hit);
}

static void pass(struct rig *r, ns_t time)
{
	struct twheel_timer *t;

	r->env.now += time;
	while ((t = twheel_pop(&r->tw, r->env.now)))
		udp_timer(&r->p, flow_of_timer(t));
}

/* What went out since the last look: queries with these identifiers, in order, all over the socket opened as number N */
static void sent(struct rig *r, unsigned n, unsigned cnt, const uint16_t *id)
{
	assert_int_equal(r->dg.sent_cnt, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		const struct fake_dg_msg *m = &r->dg.sent[i];

		assert_int_equal(m->h, r->dg.opened[n].h);
		assert_int_equal(m->data[0] << 8 | m->data[1], id[i]);
		assert_int_equal(m->d.ttl, 64);
	}
	fake_dg_clear(&r->dg);
}

static void sent1(struct rig *r, unsigned n, uint16_t id)
{
	sent(r, n, 1, &id);
}

static void opened(struct rig *r, unsigned n, unsigned server)
{
	const struct inaddr a = dns_server(r->v4, server);

	assert_int_equal(r->dg.open_cnt, n + 1);
	rig_same(&r->dg.opened[n].to.a, &a);
	assert_int_equal(r->dg.opened[n].to.port, 53);
}

/* The guest got answers with these identifiers, from the forwarding address */
static void got(struct rig *r, unsigned cnt, const uint16_t *id)
{
	const struct inaddr far = r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].dns_match;

	assert_int_equal(r->l2.cnt, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		const struct rig_in in = rig_frame(&r->l2.frames[i]);

		rig_same(&in.ip.src, &far);
		assert_int_equal(in.ip.proto, WIRE_IP_UDP);
		assert_int_equal(in.l4[0] << 8 | in.l4[1], 53);
		assert_int_equal(in.l4[8] << 8 | in.l4[9], id[i]);
	}
	fake_l2_clear(&r->l2);
}

static void got1(struct rig *r, uint16_t id)
{
	got(r, 1, &id);
}

static void test_silent(void **state)
{
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 3);
	ask(r, 1);
	opened(r, 0, 0);
	sent1(r, 0, 1);
	pass(r, NS_S - 20 * NS_MS);
	assert_int_equal(r->dg.sent_cnt, 0);
	pass(r, 40 * NS_MS);
	opened(r, 1, 1);
	sent1(r, 1, 1);
	assert_false(r->dg.opened[0].closed);
	pass(r, NS_S + 20 * NS_MS);
	opened(r, 2, 2);
	sent1(r, 2, 1);
	assert_true(r->dg.opened[0].closed);	/* one of the past is enough */
	pass(r, 3 * NS_S);		/* nobody is left */
	assert_int_equal(r->dg.open_cnt, 3);
	answer(r, r->dg.opened[1].h, 1, 1, 0);
	got1(r, 1);
	/* of those two alone nothing was heard */
	ask_len(r, 2, SMALL, 53);
	assert_int_equal(r->dg.open_cnt, 3);
	udp_end(&r->p, flow_at(r, 53));
	for (unsigned i = 0; i < 3; i++)
		assert_true(r->dg.opened[i].closed);
	ask(r, 3);
	opened(r, 3, 1);
}

/* The first one answers late, and is good again; the next query of this flow stays where it is */
static void test_late(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	dns_list(&r->fwd, r->v4, 2);
	ask(r, 1);
	pass(r, NS_S + 20 * NS_MS);
	opened(r, 1, 1);
	answer(r, r->dg.opened[0].h, 0, 1, 0);
	got1(r, 1);
	fake_dg_clear(&r->dg);
	pass(r, 2 * NS_S);
	assert_int_equal(r->dg.sent_cnt, 0);
	f = ask(r, 2);
	sent1(r, 1, 2);
	udp_end(&r->p, f);
	ask(r, 3);
	opened(r, 2, 0);
}

/* A server that was silent gets a short time only when it is tried again */
static void test_doubted(void **state)
{
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 2);
	ask(r, 1);
	pass(r, NS_S + 20 * NS_MS);
	answer(r, r->dg.opened[1].h, 1, 1, 0);
	udp_end(&r->p, flow_at(r, 53));
	pass(r, 20 * NS_S);
	fake_dg_clear(&r->dg);
	ask(r, 2);
	opened(r, 2, 0);
	pass(r, 220 * NS_MS);
	opened(r, 3, 1);
}

static void test_refused(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	dns_list(&r->fwd, r->v4, 3);
	ask(r, 1);
	fake_dg_clear(&r->dg);
	refuse(r, r->dg.opened[0].h, 0, ECONNREFUSED);
	opened(r, 1, 1);
	sent1(r, 1, 1);
	assert_true(r->dg.opened[0].closed);
	assert_int_equal(r->l2.cnt, 0);
	refuse(r, r->dg.opened[1].h, 1, EHOSTUNREACH);
	sent1(r, 2, 1);
	/* the last one: the guest is told, in its own family */
	refuse(r, r->dg.opened[2].h, 2, ECONNREFUSED);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	/* its repetition begins anew, with the one that failed first */
	f = ask(r, 1);
	opened(r, 3, 0);
	sent1(r, 3, 1);
	answer(r, f->h, 0, 1, 0);
	got1(r, 1);
}

/* Refusal by the server of the other family is told in the guest's */
static void test_refused_other_family(void **state)
{
	struct rig *r = *state;
	struct fwd_family_set *s = &r->fwd.f[r->v4 ? FWD_V4 : FWD_V6];
	struct rig_in in;

	dns_list(&r->fwd, r->v4, 3);
	fwd_dns_set(&s->dns, &(struct fwd_dns_server){ .addr = dns_server(r->v4, 1) }, 1);
	ask(r, 1);
	refuse(r, r->dg.opened[0].h, 1, ECONNREFUSED);
	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	assert_int_equal(in.ip.proto, r->v4 ? WIRE_IP_ICMP : WIRE_IP_ICMP6);
	assert_int_equal(in.l4[0], r->v4 ? 3 : 1);
	assert_int_equal(in.l4[1], r->v4 ? 3 : 4);
}

/* Too big, and errors of routers on the way, are no refusal */
static void test_not_refused(void **state)
{
	struct rig *r = *state;
	const struct inaddr a = dns_server(r->v4, 0);
	struct sk_err e = { .code = EHOSTUNREACH, .icmp_type = r->v4 ? 11 : 3, .to = { .a = a, .port = 53 }, .offender = { .a = r->far } };
	struct flow *f;

	dns_list(&r->fwd, r->v4, 3);
	f = ask(r, 1);
	assert_false(udp_dns_refused(&r->p, f, &e));
	e = (struct sk_err){ .code = EMSGSIZE, .local = true, .to = e.to };
	assert_false(udp_dns_refused(&r->p, f, &e));
	assert_int_equal(r->dg.open_cnt, 1);
	e.code = EPERM;
	assert_true(udp_dns_refused(&r->p, f, &e));
	opened(r, 1, 1);
}

/* Two queries at a time; one is answered, the other one goes on, and the server is not taken for dead */
static void test_two(void **state)
{
	static const uint16_t both[] = { 1, 2 };
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 2);
	ask(r, 1);
	ask(r, 2);
	sent(r, 0, 2, both);
	answer(r, r->dg.opened[0].h, 0, 2, 0);
	got1(r, 2);
	pass(r, NS_S + 20 * NS_MS);
	opened(r, 1, 1);
	sent1(r, 1, 1);
	udp_end(&r->p, flow_at(r, 53));
	ask(r, 3);
	opened(r, 2, 0);
	fake_dg_clear(&r->dg);
	ask(r, 4);
	ask(r, 4);		/* twice: kept once */
	refuse(r, r->dg.opened[2].h, 0, ECONNREFUSED);
	assert_int_equal(r->dg.sent_cnt, 4);
	assert_int_equal(r->dg.sent[2].h, r->dg.opened[3].h);
	assert_int_equal(r->dg.sent[2].data[1], 3);
	assert_int_equal(r->dg.sent[3].data[1], 4);
}

static void test_no_answer(void **state)
{
	static const uint8_t codes[] = { 2, 4, 5 };
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(codes); i++) {
		const unsigned n = r->dg.open_cnt;

		dns_list(&r->fwd, r->v4, 2);
		ask(r, 1);
		fake_dg_clear(&r->dg);
		answer(r, r->dg.opened[n].h, 0, 1, codes[i]);
		got(r, 0, NULL);
		assert_int_equal(r->drops.cnt[DROP_DNS_NEXT], i + 1);
		sent1(r, n + 1, 1);
		answer(r, r->dg.opened[n + 1].h, 1, 1, codes[i]);
		got1(r, 1);			/* nobody knows better */
		udp_end(&r->p, flow_at(r, 53));
	}
	/* no such name is an answer; so is a refusal of what was not asked, or was answered */
	ask(r, 1);
	answer(r, flow_at(r, 53)->h, 0, 1, 3);
	got1(r, 1);
	answer(r, flow_at(r, 53)->h, 0, 1, 2);
	got1(r, 1);
	answer(r, flow_at(r, 53)->h, 0, 9, 2);
	got1(r, 9);
	/* the one before says so while the next one is asked */
	ask(r, 5);
	pass(r, NS_S + 20 * NS_MS);
	answer(r, udp_body(flow_at(r, 53))->dns.old_h, 0, 5, 2);
	got(r, 0, NULL);
	answer(r, flow_at(r, 53)->h, 1, 5, 0);
	got1(r, 5);
}

/* The guest got that there is no answer, as RCODE, in a message of LEN bytes */
static void got_none(struct rig *r, uint16_t id, uint8_t rcode, uint32_t len)
{
	struct rig_in in;

	assert_int_equal(r->l2.cnt, 1);
	in = rig_frame(&r->l2.frames[0]);
	assert_int_equal(in.l4_len, WIRE_UDP_LEN + len);
	assert_int_equal(in.l4[WIRE_UDP_LEN + 2], 0x81);
	assert_int_equal(in.l4[WIRE_UDP_LEN + 3], rcode);
	got1(r, id);
}

/* One has no answer and the others are silent: the guest gets that when the last one's second is over */
static void test_none_kept(void **state)
{
	static const uint8_t codes[] = { 2, 4, 5 };
	struct rig *r = *state;

	for (unsigned i = 0; i < BYTES_COUNT(codes); i++) {
		for (unsigned cnt = 2; cnt <= 3; cnt++) {
			const unsigned n = r->dg.open_cnt;

			dns_list(&r->fwd, r->v4, 0);
			dns_list(&r->fwd, r->v4, cnt);
			ask(r, 1);
			answer(r, r->dg.opened[n].h, 0, 1, codes[i]);
			for (unsigned k = 2; k < cnt; k++)
				pass(r, NS_S + 20 * NS_MS);
			pass(r, NS_S - 60 * NS_MS);
			got(r, 0, NULL);
			pass(r, 80 * NS_MS);
			got_none(r, 1, codes[i], SMALL);
			assert_int_equal(udp_body(flow_at(r, 53))->dns.kept_len, 0);
			pass(r, 4 * NS_S);
			got(r, 0, NULL);
			assert_int_equal(r->dg.open_cnt, n + cnt);
			udp_end(&r->p, flow_at(r, 53));
		}
	}
	assert_int_equal(r->drops.cnt[DROP_DNS_NEXT], 6);
	assert_int_equal(r->drops.cnt[DROP_DNS_UNKEPT], 0);
	assert_int_equal(r->flows.cnt, 0);
}

/* A better answer takes its place, and both queries of a flow have theirs; also when the last one was silent before */
static void test_none_not_needed(void **state)
{
	static const uint16_t both[] = { 1, 2 };
	struct rig *r = *state;

	for (unsigned i = 0; i < 2; i++) {
		const unsigned n = r->dg.open_cnt;

		dns_list(&r->fwd, r->v4, 2);
		ask(r, 1);
		ask(r, 2);
		answer(r, r->dg.opened[n].h, 0, 1, 2);
		answer(r, r->dg.opened[n].h, 0, 2, 5);
		got(r, 0, NULL);
		pass(r, 900 * NS_MS);
		if (!i) {
			answer(r, r->dg.opened[n + 1].h, 1, 2, 0);
			got1(r, 2);
		}
		pass(r, 120 * NS_MS);
		got(r, i ? 2 : 1, both);
		assert_int_equal(udp_body(flow_at(r, 53))->dns.kept_len, 0);
		udp_end(&r->p, flow_at(r, 53));
		pass(r, NS_S);
		fake_dg_clear(&r->dg);
	}
	assert_int_equal(r->drops.cnt[DROP_DNS_NEXT], 4);
}

/* Many silent ones: the guest's library waits five seconds. Nor does it when it repeats the query before. */
static void test_none_in_time(void **state)
{
	static const char *const addr[] = {
		"198.51.100.1", "2001:db8:5::2", "198.51.100.3", "2001:db8:5::4", "198.51.100.5", "2001:db8:5::6",
	};
	struct rig *r = *state;
	struct fwd_dns_server l[FWD_DNS_MAX];
	uint8_t m[SMALL];

	message(m, 1, SMALL, 0x81, 2);
	dns_list(&r->fwd, r->v4, 1);
	for (unsigned i = 0; i < FWD_DNS_MAX; i++)
		l[i] = (struct fwd_dns_server){ .addr = rig_addr(addr[i]) };
	fwd_dns_set(&r->fwd.f[r->v4 ? FWD_V4 : FWD_V6].dns, l, FWD_DNS_MAX);
	ask(r, 1);
	pass(r, 500 * NS_MS);
	say(r, r->dg.opened[0].h, &l[0].addr, m, SMALL);
	for (unsigned i = 0; i < 4; i++) {
		pass(r, 860 * NS_MS);
		if (i == 1)
			ask(r, 1);
	}
	got(r, 0, NULL);
	pass(r, 100 * NS_MS);		/* 4.04 s: it has not asked all of them */
	assert_true(r->dg.open_cnt < FWD_DNS_MAX);
	got_none(r, 1, 2, SMALL);
}

/* The one before has none, after the last one's time; and the last one refuses */
static void test_none_last(void **state)
{
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 2);
	ask(r, 1);
	pass(r, NS_S + 20 * NS_MS);
	pass(r, NS_S + 20 * NS_MS);
	answer(r, r->dg.opened[0].h, 0, 1, 2);
	got_none(r, 1, 2, SMALL);
	udp_end(&r->p, flow_at(r, 53));
	dns_list(&r->fwd, r->v4, 3);
	ask(r, 1);
	ask(r, 2);
	answer(r, r->dg.opened[2].h, 0, 1, 5);
	refuse(r, r->dg.opened[3].h, 1, ECONNREFUSED);
	got(r, 0, NULL);
	answer(r, r->dg.opened[4].h, 2, 2, 0);
	got1(r, 2);
	refuse(r, r->dg.opened[4].h, 2, ECONNREFUSED);
	got_none(r, 1, 5, SMALL);		/* and no ICMP error */
}

/* A usual header and question, then EXTRA bytes of records; LABEL: length of the name's only one */
static uint32_t full(uint8_t *m, uint8_t label, uint32_t extra)
{
	const uint32_t end = 12 + 1 + label + 1 + 4;

	message(m, 1, end + extra, 0x81, 2);
	memset(m + 4, 0, 8);
	m[5] = m[11] = 1;
	m[12] = label;
	m[12 + 1 + label] = 0;
	return end + extra;
}

/* What a server says at length is shortened to its question; what can't be is counted and gone */
static void test_none_large(void **state)
{
	struct rig *r = *state;
	uint8_t m[2048];

	for (unsigned i = 0; i < 6; i++) {
		const unsigned n = r->dg.open_cnt;
		const struct inaddr a = dns_server(r->v4, 0);
		uint32_t len;

		dns_list(&r->fwd, r->v4, 0);
		dns_list(&r->fwd, r->v4, 2);
		ask(r, 1);
		len = full(m, 22, i ? 1000 : 60);
		if (i == 2)
			m[5] = 2;		/* two questions */
		if (i == 3)
			m[12] = 0xc0;		/* a name that is a pointer */
		if (i == 4)
			memset(m + 12, 1, len - 12);	/* a name that does not end */
		if (i == 5) {			/* the longest question */
			memset(m + 12, 0, len - 12);
			m[12] = m[76] = m[140] = m[204] = 63;
		}
		say(r, r->dg.opened[n].h, &a, m, len);
		got(r, 0, NULL);
		pass(r, NS_S + 20 * NS_MS);
		if (i > 1) {
			got(r, 0, NULL);
		} else {
			const struct rig_in in = rig_frame(&r->l2.frames[0]);

			assert_memory_equal(in.l4 + WIRE_UDP_LEN, m, 6);
			assert_memory_equal(in.l4 + WIRE_UDP_LEN + 12, m + 12, 28);
			assert_int_equal(in.l4[WIRE_UDP_LEN + 11], !i);
			got_none(r, 1, 2, i ? 40 : 100);
		}
		assert_int_equal(r->drops.cnt[DROP_DNS_UNKEPT], i > 1 ? i - 1 : 0);
		udp_end(&r->p, flow_at(r, 53));
		fake_dg_clear(&r->dg);
	}
	assert_int_equal(r->drops.cnt[DROP_DNS_NEXT], 2);
}

/* What has no place is the guest's to repeat, and then goes to the next one */
static void test_large(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	dns_list(&r->fwd, r->v4, 2);
	f = ask_len(r, 1, 1000, 53);
	fake_dg_clear(&r->dg);
	pass(r, NS_S + 20 * NS_MS);
	opened(r, 1, 1);
	assert_int_equal(r->dg.sent_cnt, 0);
	ask_len(r, 1, 1000, 53);
	sent1(r, 1, 1);
	udp_end(&r->p, f);
	/* refused: the guest is told, so that it does */
	dns_list(&r->fwd, r->v4, 3);
	ask_len(r, 1, 1000, 53);
	refuse(r, r->dg.opened[2].h, 0, ECONNREFUSED);
	opened(r, 3, 1);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	/* as many as there is place for; never more than that */
	for (uint16_t id = 10; id < 40; id++)
		ask_len(r, id, 11 + id % 3, 53);
	assert_true(udp_body(flow_at(r, 53))->dns.kept_len <= UDP_DNS_KEPT);
	fake_dg_clear(&r->dg);
	pass(r, NS_S + 20 * NS_MS);
	assert_in_range(r->dg.sent_cnt, 10, 14);
	/* less than a header, and nothing at all */
	ask_len(r, 50, 0, 53);
	ask_len(r, 51, 1, 53);
}

/* One resolver alone: nothing is kept, no timer runs, its refusal is the guest's at once */
static void test_only_one(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	dns_list(&r->fwd, r->v4, 1);
	f = ask(r, 1);
	assert_int_equal(udp_body(f)->dns.kept_len, 0);
	assert_true(udp_body(f)->dns.again_at == NS_NEVER);
	refuse(r, f->h, 0, ECONNREFUSED);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	ask(r, 1);
	answer(r, f->h, 0, 1, 2);
	got1(r, 1);
	pass(r, 10 * NS_S);
	assert_int_equal(r->dg.open_cnt, 1);
}

/* The list is replaced: a flow that is open follows with its next query, or when it gives up the old server */
static void test_list_changes(void **state)
{
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 1);
	ask(r, 1);
	fake_dg_clear(&r->dg);
	dns_list(&r->fwd, r->v4, 2);
	ask(r, 2);
	opened(r, 1, 0);
	sent1(r, 1, 2);
	answer(r, r->dg.opened[0].h, 0, 1, 0);	/* still read */
	got1(r, 1);
	dns_list(&r->fwd, r->v4, 3);
	pass(r, NS_S + 20 * NS_MS);
	opened(r, 2, 0);
	sent1(r, 2, 2);
	dns_list(&r->fwd, r->v4, 0);		/* none: who is there may go on */
	ask(r, 3);
	sent1(r, 2, 3);
	answer(r, r->dg.opened[2].h, 0, 3, 0);
	got1(r, 3);
}

/* DNS over QUIC is a connection: no copies, no change of server while it lives */
static void test_quic(void **state)
{
	struct rig *r = *state;
	struct flow *f;

	dns_list(&r->fwd, r->v4, 2);
	f = ask_len(r, 1, SMALL, 853);
	assert_int_equal(r->dg.opened[0].to.port, 853);
	fake_dg_clear(&r->dg);
	pass(r, 5 * NS_S);
	assert_int_equal(r->dg.sent_cnt, 0);
	dns_list(&r->fwd, r->v4, 3);
	ask_len(r, 1, SMALL, 853);
	assert_int_equal(r->dg.open_cnt, 1);
	assert_int_equal(udp_body(f)->dns.kept_len, 0);
}

/* Servers that can't even be asked; and no descriptors, which is nobody's fault */
static void test_cannot_open(void **state)
{
	struct rig *r = *state;

	dns_list(&r->fwd, r->v4, 3);
	r->dg.fail_open = -ENETUNREACH;
	ask(r, 1);
	opened(r, 2, 2);
	assert_int_equal(r->l2.cnt, 1);
	fake_l2_clear(&r->l2);
	pass(r, 2 * NS_S);
	assert_int_equal(r->flows.cnt, 0);
	r->dg.fail_open = 0;
	ask(r, 1);
	opened(r, 3, 0);
	r->dg.max_open = 1;
	fake_dg_clear(&r->dg);
	pass(r, NS_S + 20 * NS_MS);
	assert_int_equal(r->dg.open_cnt, 4);
	answer(r, r->dg.opened[3].h, 0, 1, 0);
	got1(r, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_BOTH(test_silent), RIG_BOTH(test_late), RIG_BOTH(test_doubted), RIG_BOTH(test_refused),
		RIG_BOTH(test_refused_other_family), RIG_BOTH(test_not_refused), RIG_BOTH(test_two), RIG_BOTH(test_no_answer),
		RIG_BOTH(test_none_kept), RIG_BOTH(test_none_not_needed), RIG_BOTH(test_none_in_time), RIG_BOTH(test_none_last),
		RIG_BOTH(test_none_large), RIG_BOTH(test_large), RIG_BOTH(test_only_one), RIG_BOTH(test_list_changes), RIG_BOTH(test_quic),
		RIG_BOTH(test_cannot_open),
	};

	return cmocka_run_group_tests_name("proto/udp/udp_dns", tests, NULL, NULL);
}
