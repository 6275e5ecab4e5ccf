/* SPDX-License-Identifier: BSD-3-Clause
 *
 * flow/fwd_dns.c: which resolver is asked, from lists and what happened to them (DNS-2).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "flow/fwd.h"

#define NOW	(1000 * NS_S)

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

static struct fwd_dns list_of(unsigned cnt)
{
	static const char *const names[] = { "192.0.2.1", "fe80::1", "192.0.2.3", "2001:db8::4", "192.0.2.5", "::1", "192.0.2.7" };
	struct fwd_dns_server s[BYTES_COUNT(names)];
	struct fwd_dns d = { .cnt = 0 };

	for (unsigned i = 0; i < cnt; i++)
		s[i] = (struct fwd_dns_server){ .addr = addr(names[i]), .scope = i };
	fwd_dns_set(&d, s, cnt);
	return d;
}

static void test_of(void **state)
{
	static const struct { const char *match, *far, *other; } c[] = {
		{ "169.254.1.1", "192.0.2.1", "::ffff:169.254.1.2" }, { "fd99::53", "2001:db8::1", "fd99::54" },
	};
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const struct inaddr match = addr(c[i].match), far = addr(c[i].far), other = addr(c[i].other);
		struct fwd w = { .tcp_on = true };
		struct fwd_family_set *s = &w.f[fwd_family_of(&match)];
		const struct inaddr unset = inaddr_is_v4(&match) ? addr("0.0.0.0") : addr("::");

		assert_null(fwd_dns_of(&w, &match, 53));
		s->dns = list_of(1);
		assert_null(fwd_dns_of(&w, &match, 53));
		assert_null(fwd_dns_of(&w, &unset, 53));
		s->dns_match = match;
		assert_ptr_equal(fwd_dns_of(&w, &match, 53), &s->dns);
		assert_ptr_equal(fwd_dns_of(&w, &match, 853), &s->dns);
		assert_null(fwd_dns_of(&w, &match, 0));		/* ping */
		assert_null(fwd_dns_of(&w, &match, 54));
		assert_null(fwd_dns_of(&w, &far, 53));
		assert_null(fwd_dns_of(&w, &other, 53));
		s->dns.cnt = 0;
		assert_null(fwd_dns_of(&w, &match, 53));
	}
}

/* Only a list that differs is a new one; it begins without a past */
static void test_set(void **state)
{
	struct fwd_dns d = list_of(3), other = list_of(4);

	(void)state;
	assert_int_equal(d.cnt, 3);
	assert_int_equal(d.gen, 1);
	assert_int_equal(d.server[1].scope, 1);
	fwd_dns_failed(&d, 0, FWD_DNS_UDP, NOW);
	other.server[0].health[FWD_DNS_TCP].bad_until = NS_NEVER;	/* not taken over */
	assert_false(fwd_dns_set(&d, other.server, 3));
	assert_int_equal(d.gen, 1);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW), 1);
	assert_true(fwd_dns_set(&d, other.server, 4));
	assert_int_equal(d.gen, 2);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW), 0);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_TCP, 0, NOW), 0);
	other.server[1].scope = 7;
	assert_true(fwd_dns_set(&d, other.server, 4));
	assert_true(fwd_dns_set(&d, other.server + 1, 3));
	assert_true(fwd_dns_set(&d, NULL, 0));
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW), -1);
	d = list_of(7);
	assert_int_equal(d.cnt, FWD_DNS_MAX);
}

static void test_pick(void **state)
{
	struct fwd_dns d = list_of(3);

	(void)state;
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW), 0);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 1, NOW), 1);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 3, NOW), 2);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 5, NOW), 1);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 7, NOW), -1);
	fwd_dns_failed(&d, 0, FWD_DNS_UDP, NOW);
	fwd_dns_failed(&d, 9, FWD_DNS_UDP, NOW);	/* there is none */
	for (unsigned s = 0; s < FWD_DNS_SERVICES; s++)
		assert_int_equal(fwd_dns_pick(&d, s, 0, NOW), s == FWD_DNS_UDP ? 1 : 0);
	/* asked nevertheless when the others were */
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 6, NOW), 0);
	/* all are bad: the one that has been for longest */
	fwd_dns_failed(&d, 2, FWD_DNS_UDP, NOW + 1);
	fwd_dns_failed(&d, 1, FWD_DNS_UDP, NOW + 2);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW + 3), 0);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 1, NOW + 3), 2);
	fwd_dns_answered(&d, 1, FWD_DNS_UDP);
	fwd_dns_answered(&d, 9, FWD_DNS_UDP);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_UDP, 0, NOW + 3), 1);
}

/* How long a server is left alone: twice as long each time, up to a limit, and as at first after an answer */
static void test_patience(void **state)
{
	static const int secs[] = { 10, 20, 40, 60, 60 };
	struct fwd_dns d = list_of(2);
	ns_t now = NOW;

	(void)state;
	for (unsigned i = 0; i < BYTES_COUNT(secs); i++) {
		for (int n = 0; n < 5; n++)	/* many that wait are one failure */
			fwd_dns_failed(&d, 0, FWD_DNS_TCP, now + n);
		assert_int_equal(fwd_dns_pick(&d, FWD_DNS_TCP, 0, now + secs[i] * NS_S - 1), 1);
		now += secs[i] * NS_S;
		assert_int_equal(fwd_dns_pick(&d, FWD_DNS_TCP, 0, now), 0);
	}
	for (unsigned i = 0; i < 300; i++)	/* the counter ends */
		fwd_dns_failed(&d, 0, FWD_DNS_TCP, now += 100 * NS_S);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_TCP, 0, now + 59 * NS_S), 1);
	fwd_dns_answered(&d, 0, FWD_DNS_TCP);
	fwd_dns_failed(&d, 0, FWD_DNS_TCP, now);
	assert_int_equal(fwd_dns_pick(&d, FWD_DNS_TCP, 0, now + 10 * NS_S), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_pick),
		cmocka_unit_test(test_patience),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
