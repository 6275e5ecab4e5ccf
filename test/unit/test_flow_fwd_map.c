/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address translation, statement by statement, both families from one table.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow/fwd.h"

struct names {				/* what the tests call the addresses of one family */
	const char *guest, *gw, *alias_guest, *dns, *resolver, *lo, *far, *other, *multicast, *unset, *ours;
};

static const struct names names[FWD_FAMILIES] = {
	[FWD_V4] = {
		.guest = "192.0.2.2", .gw = "192.0.2.1", .alias_guest = "192.0.2.9", .dns = "192.0.2.53",
		.resolver = "127.0.0.53", .lo = "127.0.0.1", .far = "198.51.100.7", .other = "192.0.2.77",
		.multicast = "224.0.0.251", .unset = "0.0.0.0", .ours = "192.0.2.1",
	},
	[FWD_V6] = {
		.guest = "2001:db8::2", .gw = "2001:db8::1", .alias_guest = "2001:db8::9", .dns = "2001:db8::53",
		.resolver = "2001:db8:5::53", .lo = "::1", .far = "2001:db8:7::7", .other = "2001:db8::77",
		.multicast = "ff02::fb", .unset = "::", .ours = "fe80::1",
	},
};

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

static void assert_addr(const struct inaddr *a, const char *text)
{
	char buf[INADDR_STR_MAX];
	struct inaddr want = addr(text);

	assert_string_equal(inaddr_str(a, buf), text);
	assert_true(inaddr_eq(a, &want));
}

static struct fwd full(void)
{
	struct fwd w = { .tcp_on = true, .udp_on = true, .icmp_on = true };
	unsigned i;

	for (i = 0; i < FWD_FAMILIES; i++) {
		const struct names *n = &names[i];

		w.f[i] = (struct fwd_family_set){
			.on = true,
			.guest = addr(n->guest),
			.host_own = addr(n->guest),
			.seen = addr(n->guest),
			.gateway = addr(n->gw),
			.ours = addr(n->ours),
			.host_loopback = addr(n->gw),
			.host_guest = addr(n->alias_guest),
			.dns_match = addr(n->dns),
			.dns_host = addr(n->resolver),
		};
	}
	return w;
}

static void check_to_host(const struct fwd *w, const char *dst, uint16_t port, const char *want)
{
	struct inaddr a = addr(dst), r = fwd_to_host(w, &a, port);

	assert_addr(&r, want);
}

static void check_from_host(const struct fwd *w, const char *peer, const char *want)
{
	struct inaddr a = addr(peer), r;

	if (!want) {
		assert_int_equal(fwd_from_host(w, &a, &r), -EADDRNOTAVAIL);
		return;
	}
	assert_int_equal(fwd_from_host(w, &a, &r), 0);
	assert_addr(&r, want);
}

static void check_guest(const struct fwd *w, const char *src, const char *want)
{
	struct inaddr a = addr(src), r;

	if (!want) {
		assert_int_equal(fwd_guest_addr(w, &a, &r), -EADDRNOTAVAIL);
		return;
	}
	assert_int_equal(fwd_guest_addr(w, &a, &r), 0);
	assert_addr(&r, want);
}

static void see(struct fwd *w, const char *src)
{
	struct inaddr a = addr(src);

	fwd_seen(w, &a);
}

/* NAT-1, NAT-2 */
static void test_to_host(void **state)
{
	struct fwd w = full();
	unsigned i;

	(void)state;
	for (i = 0; i < FWD_FAMILIES; i++) {
		const struct names *n = &names[i];

		check_to_host(&w, n->dns, 53, n->resolver);
		check_to_host(&w, n->dns, 853, n->resolver);
		check_to_host(&w, n->dns, 54, n->dns);
		check_to_host(&w, n->dns, 0, n->dns);
		check_to_host(&w, n->gw, 80, n->lo);
		check_to_host(&w, n->gw, 53, n->lo);
		check_to_host(&w, n->gw, 0, n->lo);
		check_to_host(&w, n->alias_guest, 80, n->guest);
		check_to_host(&w, n->guest, 80, n->guest);	/* NAT-6 */
		check_to_host(&w, n->far, 53, n->far);
		check_to_host(&w, n->multicast, 5353, n->multicast);
	}
}

/* The resolver wins over the alias where both are the same address */
static void test_to_host_order(void **state)
{
	struct fwd w = full();
	unsigned i;

	(void)state;
	for (i = 0; i < FWD_FAMILIES; i++) {
		w.f[i].dns_match = w.f[i].gateway;
		check_to_host(&w, names[i].gw, 53, names[i].resolver);
		check_to_host(&w, names[i].gw, 80, names[i].lo);
		w.f[i].dns_host = addr(names[i].unset);
		check_to_host(&w, names[i].gw, 53, names[i].lo);
		w.f[i].host_guest = w.f[i].gateway;
		check_to_host(&w, names[i].gw, 80, names[i].lo);
	}
}

static void test_unset_settings_match_nothing(void **state)
{
	struct fwd w = { .f = { { .on = true }, { .on = true } } };
	unsigned i, v;

	(void)state;
	for (v = 0; v < 2; v++) {	/* all zero, and the family's own unspecified address */
		for (i = 0; i < FWD_FAMILIES; i++) {
			check_to_host(&w, names[i].unset, 53, names[i].unset);
			check_to_host(&w, names[i].gw, 53, names[i].gw);
			check_from_host(&w, names[i].far, names[i].far);
			check_from_host(&w, names[i].lo, NULL);
			check_from_host(&w, names[i].unset, NULL);
			check_guest(&w, names[i].far, NULL);
			w.f[i].dns_match = w.f[i].host_loopback = w.f[i].host_guest = addr(names[i].unset);
			w.f[i].ours = w.f[i].guest = w.f[i].seen = w.f[i].seen_ll = addr(names[i].unset);
		}
	}
}

/* NAT-20, NAT-21 */
static void test_from_host(void **state)
{
	struct fwd w = full();
	unsigned i;

	(void)state;
	for (i = 0; i < FWD_FAMILIES; i++) {
		const struct names *n = &names[i];

		check_from_host(&w, n->lo, n->gw);
		check_from_host(&w, n->guest, n->alias_guest);
		check_from_host(&w, n->far, n->far);
		check_from_host(&w, n->gw, n->gw);
		check_from_host(&w, n->multicast, NULL);
		check_from_host(&w, n->unset, NULL);

		see(&w, n->other);
		check_from_host(&w, n->other, n->ours);
		w.f[i].host_guest = addr(n->unset);
		check_from_host(&w, n->guest, n->ours);
		w.f[i].host_loopback = addr(n->unset);		/* NAT-23 */
		check_from_host(&w, n->lo, n->ours);
		w.f[i].ours = addr(n->unset);
		check_from_host(&w, n->lo, NULL);
		check_from_host(&w, n->guest, NULL);
		check_from_host(&w, n->far, n->far);
		w.f[i].on = false;
		check_from_host(&w, n->far, NULL);
	}
	w = full();
	check_from_host(&w, "127.0.0.5", "192.0.2.1");
	check_from_host(&w, "255.255.255.255", NULL);
	w.f[FWD_V4].host_loopback = addr("192.0.2.33");
	check_from_host(&w, "127.0.0.5", "192.0.2.1");
	check_from_host(&w, "127.0.0.1", "192.0.2.33");
	see(&w, "fe80::77");
	check_from_host(&w, "fe80::77", "fe80::1");
	check_from_host(&w, "fe80::78", "fe80::78");
}

/* NAT-22 */
static void test_guest_addr(void **state)
{
	struct fwd w = full();
	unsigned i;

	(void)state;
	for (i = 0; i < FWD_FAMILIES; i++) {
		check_guest(&w, names[i].far, names[i].guest);
		see(&w, names[i].other);
		check_guest(&w, names[i].far, names[i].other);
		w.f[i].on = false;
		check_guest(&w, names[i].far, NULL);
		w.f[i].on = true;
	}
	check_guest(&w, "fe80::1", "2001:db8::77");
	see(&w, "fe80::77");
	check_guest(&w, "fe80::1", "fe80::77");
	check_guest(&w, "2001:db8:7::7", "2001:db8::77");
	check_guest(&w, "169.254.1.1", "192.0.2.77");
	w.f[FWD_V6].seen = addr("::");
	check_guest(&w, "2001:db8:7::7", "2001:db8::2");
}

/* L2-30, L2-31, L2-33 */
static void test_seen(void **state)
{
	static const char *const ignored[] = {
		"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "192.0.2.1",
		"::", "::1", "ff02::1", "2001:db8::1", "fe80::1",
	};
	struct fwd w = full();
	unsigned i;

	(void)state;
	for (i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		see(&w, ignored[i]);
	for (i = 0; i < FWD_FAMILIES; i++) {
		assert_addr(&w.f[i].seen, names[i].guest);
		assert_true(inaddr_is_unset(&w.f[i].seen_ll));
		see(&w, names[i].other);
		assert_addr(&w.f[i].seen, names[i].other);
		assert_addr(&w.f[i].guest, names[i].guest);
		w.seen_fixed[i] = true;
		see(&w, names[i].far);
		assert_addr(&w.f[i].seen, names[i].other);
		w.seen_fixed[i] = false;
		w.f[i].on = false;
		see(&w, names[i].far);
		assert_addr(&w.f[i].seen, names[i].other);
		w.f[i].on = true;
	}
	see(&w, "fe80::77");
	assert_addr(&w.f[FWD_V6].seen_ll, "fe80::77");
	assert_addr(&w.f[FWD_V6].seen, "2001:db8::77");
}

/* L2-31 in local mode: no address was assigned */
static void test_seen_local_mode(void **state)
{
	struct fwd w = full();

	(void)state;
	w.f[FWD_V6].guest = w.f[FWD_V6].seen = addr("::");
	check_guest(&w, "2001:db8:7::7", NULL);
	see(&w, "fe80::77");
	assert_addr(&w.f[FWD_V6].guest, "fe80::77");
	assert_addr(&w.f[FWD_V6].seen, "fe80::77");
	see(&w, "2001:db8::77");
	see(&w, "fe80::78");
	assert_addr(&w.f[FWD_V6].guest, "fe80::77");
	assert_addr(&w.f[FWD_V6].seen, "2001:db8::77");
	assert_addr(&w.f[FWD_V6].seen_ll, "fe80::78");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_host),
		cmocka_unit_test(test_to_host_order),
		cmocka_unit_test(test_unset_settings_match_nothing),
		cmocka_unit_test(test_from_host),
		cmocka_unit_test(test_guest_addr),
		cmocka_unit_test(test_seen),
		cmocka_unit_test(test_seen_local_mode),
	};

	return cmocka_run_group_tests_name("flow/fwd_map", tests, NULL, NULL);
}
