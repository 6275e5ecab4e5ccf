/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What "auto" listens on, as a table: services there, sockets here.
 */
#include "flow/fwd_auto.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BOUND_MAX	16
#define WANT_MAX	16
#define LINK		7		/* index of the guest's interface */

struct rig {
	struct fwd_rules rules;
	struct fwd fwd;
	struct fwd_auto s;
};

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	if (inaddr_parse(text, &a))
		fail_msg("%s is no address", text);
	return a;
}

/* One rule of both protocols for all ports, unless a test changes them */
static struct rig *rig_new(bool ns)
{
	struct rig *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	for (int f = 0; f < FWD_FAMILIES; f++) {
		r->fwd.f[f].on = true;
		r->fwd.f[f].guest = r->fwd.f[f].seen = addr(f == FWD_V4 ? "192.0.2.2" : "2001:db8::2");
	}
	r->fwd.f[FWD_V6].seen_ll = addr("fe80::2");
	r->rules.cnt = 2;
	for (unsigned i = 0; i < 2; i++)
		r->rules.rule[i] = (struct fwd_rule){
			.proto = i ? FWD_UDP : FWD_TCP, .any = true, .first = 1, .last = 65535, .target_first = 1, .scan = true,
		};
	r->s = (struct fwd_auto){
		.rules = &r->rules, .fwd = &r->fwd, .ns = ns, .link = true, .guest_ifindex = LINK,
	};
	return r;
}

/* "t 127.0.0.1 80", "u * 53 7": protocol, address (*: both families' wildcard), port, interface */
static unsigned bound_parse(const char *text, struct fwd_bound *ret)
{
	unsigned n = 0;

	while (*text) {
		char proto, a[INADDR_STR_MAX];
		unsigned port, ifindex = 0;
		int used = 0, more = 0;

		assert_true(n < BOUND_MAX);
		assert_int_equal(sscanf(text, " %c %45s %u%n", &proto, a, &port, &used), 3);
		if (sscanf(text + used, " %u%n", &ifindex, &more) == 1)
			used += more;
		ret[n++] = (struct fwd_bound){
			.addr = addr(*a == '*' ? "::" : a), .both = *a == '*', .port = (uint16_t)port, .ifindex = ifindex,
			.proto = proto == 'u' ? FWD_UDP : FWD_TCP,
		};
		text += used;
		text += strspn(text, ", ");
	}
	qsort(ret, n, sizeof(*ret), fwd_bound_cmp);
	return n;
}

/* "0:80@0.0.0.0 1:80@::1": rule, port, address, in this order */
static const char *wants(const struct rig *r, const char *bound)
{
	static char text[2][1024];	/* the latest two */
	static unsigned turn;
	char *buf = text[turn++ % 2], a[INADDR_STR_MAX];
	struct fwd_bound b[BOUND_MAX];
	struct fwd_want w[WANT_MAX];
	unsigned n = fwd_auto_wants(&r->s, b, bound_parse(bound, b), w, WANT_MAX);
	size_t len = 0;

	assert_true(n <= WANT_MAX);
	*buf = '\0';
	for (unsigned i = 0; i < n; i++) {
		assert_true(!i || fwd_want_cmp(&w[i - 1], &w[i]) < 0);
		len += (size_t)snprintf(buf + len, sizeof(text[0]) - len, "%s%u:%u@%s", i ? " " : "", w[i].rule, w[i].port,
					inaddr_str(&w[i].listen, a));
	}
	return buf;
}

struct row {
	const char *bound, *want;
};

static void check(const struct rig *r, const struct row *t, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		const char *got = wants(r, t[i].bound);

		if (strcmp(got, t[i].want))
			fail_msg("'%s': '%s' instead of '%s'", t[i].bound, got, t[i].want);
	}
}

#define CHECK(r, t)	check(r, t, sizeof(t) / sizeof(t[0]))

/* From the host, without splicing: what the guest's link reaches */
static void test_host(void **state)
{
	static const struct row t[] = {
		{ "", "" },
		{ "u 0.0.0.0 53", "1:53@0.0.0.0" },			/* TCP does not follow UDP, UDP follows TCP */
		{ "t 0.0.0.0 80", "0:80@0.0.0.0 1:80@0.0.0.0" },
		{ "u :: 53", "1:53@::" },
		{ "u * 53", "1:53@0.0.0.0 1:53@::" },
		{ "u 192.0.2.2 53", "1:53@0.0.0.0" },			/* the guest's address */
		{ "u 2001:db8::2 53, u fe80::2 54", "1:53@:: 1:54@::" },
		{ "u 192.0.2.3 53, u 2001:db8::3 53", "" },		/* another one of the namespace */
		{ "u 127.0.0.1 53, u 127.0.0.53 53, u ::1 53", "" },	/* FWD-6 */
		{ "u 127.0.0.1 53, u 0.0.0.0 53", "1:53@0.0.0.0" },
		{ "u 0.0.0.0 53 7, u :: 53 7", "1:53@0.0.0.0 1:53@::" },	/* by interface: the link, another one */
		{ "u 0.0.0.0 53 8, u :: 53 1", "" },
		{ "t * 80, t * 80, u 0.0.0.0 80, u 0.0.0.0 80", "0:80@0.0.0.0 0:80@:: 1:80@0.0.0.0 1:80@::" },
		{ "u * 2, u :: 1, u 0.0.0.0 65535", "1:1@:: 1:2@0.0.0.0 1:2@:: 1:65535@0.0.0.0" },
	};
	struct rig *r = rig_new(false);

	(void)state;
	CHECK(r, t);
	r->s.link = false;
	assert_string_equal(wants(r, "t * 80, u 192.0.2.2 53"), "");
	free(r);
}

/* Clients on the host's loopback are spliced to the guest's address: of either family, its loopback stays closed */
static void test_host_splice(void **state)
{
	static const struct row t[] = {
		{ "u 0.0.0.0 53", "1:53@0.0.0.0 1:53@::1" },
		{ "u :: 53", "1:53@127.0.0.1 1:53@::" },
		{ "u * 53", "1:53@0.0.0.0 1:53@::" },
		{ "u 192.0.2.2 53", "1:53@0.0.0.0 1:53@::1" },
		{ "u 127.0.0.1 53, t ::1 53", "" },
	};
	struct rig *r = rig_new(false);

	(void)state;
	r->s.splice = true;
	CHECK(r, t);
	r->fwd.f[FWD_V6].on = false;
	assert_string_equal(wants(r, "u 0.0.0.0 53, u * 54, u :: 55"), "1:53@0.0.0.0 1:54@0.0.0.0");
	free(r);
}

/* --host-lo-to-ns-lo: what the namespace has on loopback is for the host's loopback, at the same address */
static void test_host_lo(void **state)
{
	static const struct row t[] = {
		{ "u 127.0.0.1 53", "1:53@127.0.0.1 1:53@::1" },
		{ "u ::1 53", "1:53@127.0.0.1 1:53@::1" },
		{ "u 127.0.0.54 53, u 127.0.0.53 53 1, u ::1 53", "1:53@127.0.0.53 1:53@127.0.0.54 1:53@::1" },
		{ "u 127.0.0.53 53, u 0.0.0.0 53, u ::1 53", "1:53@0.0.0.0 1:53@::1" },
		{ "u 127.0.0.1 53 7, u 0.0.0.0 54 8", "" },
		{ "u * 53 1, u 127.0.0.5 53", "1:53@127.0.0.1 1:53@127.0.0.5 1:53@::1" },
		{ "u 192.0.2.3 53", "" },
	};
	struct rig *r = rig_new(false);

	(void)state;
	r->s.splice = r->s.lo_to_lo = true;
	CHECK(r, t);
	r->s.link = false;		/* nothing but splicing: never more than loopback */
	assert_string_equal(wants(r, "u * 53, u 192.0.2.2 54"), "1:53@127.0.0.1 1:53@::1");
	free(r);
}

/* The address of the rule narrows what may be opened */
static void test_host_listen(void **state)
{
	struct rig *r = rig_new(false);
	struct fwd_rule *u = &r->rules.rule[1];

	(void)state;
	r->s.splice = r->s.lo_to_lo = true;
	u->any = false;
	u->listen = addr("198.51.100.1");
	assert_string_equal(wants(r, "u * 53, u :: 54, u 127.0.0.1 55, u 192.0.2.2 56"), "1:53@198.51.100.1 1:56@198.51.100.1");
	u->listen = addr("2001:db8:7::1");
	assert_string_equal(wants(r, "u * 53, u 0.0.0.0 54, u ::1 55"), "1:53@2001:db8:7::1");
	u->listen = addr("127.0.0.1");
	assert_string_equal(wants(r, "u * 53, u 127.0.0.1 54, u 127.0.0.2 55, u ::1 56"), "1:53@127.0.0.1 1:54@127.0.0.1");
	u->listen = addr("0.0.0.0");
	assert_string_equal(wants(r, "u * 53, u 127.0.0.2 54, u ::1 55"), "1:53@0.0.0.0 1:54@127.0.0.2");
	u->any = true;
	u->listen = addr("::");
	strcpy(u->ifname, "eth0");
	assert_string_equal(wants(r, "u 0.0.0.0 53, u 127.0.0.1 54"), "1:53@0.0.0.0");
	strcpy(u->ifname, "lo");
	assert_string_equal(wants(r, "u 127.0.0.1 54"), "1:54@127.0.0.1 1:54@::1");
	free(r);
}

/* What the rule names as its target is what counts: ports and address */
static void test_targets(void **state)
{
	struct rig *r = rig_new(false);
	struct fwd_rule *t = &r->rules.rule[0], *u = &r->rules.rule[1];

	(void)state;
	*u = *t;
	*t = (struct fwd_rule){ .proto = FWD_TCP, .any = true, .first = 8000, .last = 8009, .target_first = 80, .scan = true };
	*u = (struct fwd_rule){ .proto = FWD_TCP, .any = true, .first = 9000, .last = 9000, .target_first = 81 };
	assert_string_equal(wants(r, "t 0.0.0.0 79, t 0.0.0.0 80, t :: 89, t * 90, t 0.0.0.0 81"),
			    "0:8000@0.0.0.0 0:8001@0.0.0.0 0:8009@::");
	t->any = false;
	t->listen = addr("0.0.0.0");
	t->target = addr("10.0.3.1");
	assert_string_equal(wants(r, "t 10.0.3.1 80, t 192.0.2.2 81, t 0.0.0.0 82, t 127.0.0.1 83"),
			    "0:8000@0.0.0.0 0:8002@0.0.0.0");
	r->fwd.f[FWD_V4].on = false;
	assert_string_equal(wants(r, "t 10.0.3.1 80"), "");
	free(r);
}

/* From the namespace: the host's loopback, and nothing else of it */
static void test_ns(void **state)
{
	static const struct row t[] = {
		{ "u 0.0.0.0 53", "1:53@0.0.0.0 1:53@::1" },
		{ "u * 53", "1:53@0.0.0.0 1:53@::" },
		{ "u 127.0.0.1 53", "1:53@127.0.0.1 1:53@::1" },
		{ "u 127.0.0.53 53 1, u 127.0.0.54 53", "1:53@127.0.0.53 1:53@127.0.0.54" },
		{ "u ::1 53, u 127.0.0.1 53", "1:53@127.0.0.1 1:53@::1" },
		{ "u 127.0.0.53 53, u 127.0.0.54 53", "1:53@127.0.0.53 1:53@127.0.0.54" },	/* not "localhost" */
		{ "u 192.0.2.2 53, u 2001:db8::2 53, u fe80::2 53", "" },
		{ "u 0.0.0.0 53 7, u :: 53 2", "" },
		{ "u * 53 1", "1:53@0.0.0.0 1:53@::" },
		{ "t 127.0.0.1 80, u 127.0.0.1 80", "0:80@127.0.0.1 0:80@::1 1:80@127.0.0.1 1:80@::1" },
	};
	struct rig *r = rig_new(true);
	struct fwd_rule *u = &r->rules.rule[1];

	(void)state;
	r->s.splice = true;
	r->s.link = false;
	CHECK(r, t);
	u->any = false;
	u->listen = addr("0.0.0.0");	/* --ipv4-only */
	u->target = addr("192.0.2.9");
	assert_string_equal(wants(r, "u 127.0.0.1 53, u 192.0.2.9 54, u 0.0.0.0 55"), "1:54@0.0.0.0 1:55@0.0.0.0");
	free(r);
}

/* An address that the guest was seen with comes before the one that it was given */
static void test_seen(void **state)
{
	struct rig *r = rig_new(false);

	(void)state;
	r->fwd.f[FWD_V4].seen = addr("192.0.2.77");
	assert_string_equal(wants(r, "u 192.0.2.77 53, u 192.0.2.2 54"), "1:53@0.0.0.0");
	r->fwd.f[FWD_V4].seen = addr("0.0.0.0");
	assert_string_equal(wants(r, "u 192.0.2.77 53, u 192.0.2.2 54"), "1:54@0.0.0.0");
	free(r);
}

/* More than there is room for: counted, not written */
static void test_room(void **state)
{
	struct rig *r = rig_new(false);
	struct fwd_bound b[BOUND_MAX];
	struct fwd_want w[4];
	unsigned n = bound_parse("t * 80, t * 81, u * 82", b);

	(void)state;
	memset(w, 0x5a, sizeof(w));
	assert_int_equal(fwd_auto_wants(&r->s, b, n, w, 3), 10);
	assert_int_equal(w[2].port, 81);
	assert_int_equal(w[3].port, 0x5a5a);
	assert_int_equal(fwd_auto_wants(&r->s, b, n, NULL, 0), 10);
	free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_host_splice),
		cmocka_unit_test(test_host_lo),
		cmocka_unit_test(test_host_listen),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_ns),
		cmocka_unit_test(test_seen),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests_name("flow/fwd_auto", tests, NULL, NULL);
}
