/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The matrix of address translation (T-3) from one table: who is asked for or
 * who asks, by the alias of the host's loopback (on, off, custom), the alias of
 * the host's own address (on, off) and the family. What the guest sends to
 * loopback addresses never comes here (L2-17); socket to socket nothing is
 * translated (NAT-30, NAT-33).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "flow/fwd.h"

enum who {				/* of both families, unless there is none */
	NOBODY,				/* can't be translated */
	LO,				/* host's loopback */
	LO5,				/* another address of 127/8 */
	OWN,				/* host's own, which the guest has too */
	OWN2,				/* another one of those */
	SEEN,				/* what the guest was last seen to use */
	SEEN_LL,			/* the same, link-local */
	GW,				/* guest's router, by default the alias of the host's loopback */
	OURS,				/* we, on the guest's link */
	CUSTOM,				/* --map-host-loopback */
	ALIAS,				/* --map-guest-addr */
	DNS,				/* --dns-forward */
	RESOLVER,			/* --dns-host */
	FAR,
	NEAR,				/* on the host's link */
	LL,				/* the same, link-local */
	LL_HOST,			/* the host's own, link-local */
	GROUP,
	BROADCAST,
	UNSET,
	WHO_CNT
};

static const char *const names[WHO_CNT][FWD_FAMILIES] = {
	[LO] = { "127.0.0.1", "::1" },
	[LO5] = { "127.0.0.5", NULL },
	[OWN] = { "192.0.2.2", "2001:db8::2" },
	[OWN2] = { "192.0.2.4", "2001:db8::4" },
	[SEEN] = { "192.0.2.77", "2001:db8::77" },
	[SEEN_LL] = { NULL, "fe80::77" },
	[GW] = { "192.0.2.1", "2001:db8::1" },
	[OURS] = { "192.0.2.1", "fe80::1" },
	[CUSTOM] = { "169.254.1.3", "fd99::3" },
	[ALIAS] = { "169.254.1.2", "fd99::2" },
	[DNS] = { "169.254.1.1", "fd99::1" },
	[RESOLVER] = { "127.0.0.53", "::1" },
	[FAR] = { "198.51.100.7", "2001:db8:7::7" },
	[NEAR] = { "192.0.2.3", "2001:db8::3" },
	[LL] = { "169.254.9.9", "fe80::9" },
	[LL_HOST] = { "169.254.2.2", "fe80::2" },
	[GROUP] = { "224.0.0.251", "ff02::fb" },
	[BROADCAST] = { "255.255.255.255", NULL },
	[UNSET] = { "0.0.0.0", "::" },
};

enum lo_alias { LO_ON, LO_OFF, LO_CUSTOM, LO_ALIASES };
static const char *const lo_alias_name[] = { "on", "off", "custom" };

/* Sets of lo_alias, and of the other alias being there */
#define ON	(1u << LO_ON)
#define OFF	(1u << LO_OFF)
#define CUST	(1u << LO_CUSTOM)
#define ANY	(ON | OFF | CUST)
#define NO	1u
#define YES	2u
#define BOTH	(NO | YES)

struct row {
	enum who in;
	uint16_t port;			/* of the guest's packet; 0: ping */
	unsigned lo, alias;		/* when it holds */
	enum who out;
};

static const struct row to_host[] = {	/* NAT-1, NAT-2, NAT-6, NAT-8 */
	{ LO, 80, ANY, BOTH, LO },
	{ LO5, 80, ANY, BOTH, LO5 },
	{ OWN, 80, ANY, BOTH, OWN },
	{ OWN, 53, ANY, BOTH, OWN },
	{ OWN2, 80, ANY, BOTH, OWN2 },
	{ SEEN, 80, ANY, BOTH, SEEN },
	{ GW, 80, ON, BOTH, LO },
	{ GW, 53, ON, BOTH, LO },
	{ GW, 0, ON, BOTH, LO },
	{ GW, 80, OFF | CUST, BOTH, GW },
	{ GW, 0, OFF | CUST, BOTH, GW },
	{ CUSTOM, 80, CUST, BOTH, LO },
	{ CUSTOM, 853, CUST, BOTH, LO },
	{ CUSTOM, 0, CUST, BOTH, LO },
	{ CUSTOM, 80, ON | OFF, BOTH, CUSTOM },
	{ ALIAS, 80, ANY, YES, OWN },
	{ ALIAS, 53, ANY, YES, OWN },
	{ ALIAS, 0, ANY, YES, OWN },
	{ ALIAS, 80, ANY, NO, ALIAS },
	{ DNS, 53, ANY, BOTH, RESOLVER },
	{ DNS, 853, ANY, BOTH, RESOLVER },
	{ DNS, 54, ANY, BOTH, DNS },
	{ DNS, 0, ANY, BOTH, DNS },
	{ RESOLVER, 53, ANY, BOTH, RESOLVER },
	{ FAR, 80, ANY, BOTH, FAR },
	{ FAR, 53, ANY, BOTH, FAR },
	{ NEAR, 80, ANY, BOTH, NEAR },
	{ LL, 80, ANY, BOTH, LL },
	{ LL_HOST, 80, ANY, BOTH, LL_HOST },
	{ GROUP, 5353, ANY, BOTH, GROUP },
	{ BROADCAST, 67, ANY, BOTH, BROADCAST },
	{ UNSET, 53, ANY, BOTH, UNSET },
};

static const struct row from_host[] = {	/* NAT-20, NAT-21, NAT-23 */
	{ LO, 0, ON, BOTH, GW },
	{ LO, 0, OFF, BOTH, OURS },
	{ LO, 0, CUST, BOTH, CUSTOM },
	{ LO5, 0, ANY, BOTH, OURS },
	{ OWN, 0, ANY, NO, OURS },
	{ OWN, 0, ANY, YES, ALIAS },
	{ OWN2, 0, ANY, BOTH, OURS },
	{ SEEN, 0, ANY, BOTH, OURS },
	{ SEEN_LL, 0, ANY, BOTH, OURS },
	{ GW, 0, ANY, BOTH, GW },
	{ CUSTOM, 0, ANY, BOTH, CUSTOM },
	{ ALIAS, 0, ANY, BOTH, ALIAS },
	{ DNS, 0, ANY, BOTH, DNS },
	{ FAR, 0, ANY, BOTH, FAR },
	{ NEAR, 0, ANY, BOTH, NEAR },
	{ LL, 0, ANY, BOTH, LL },
	{ LL_HOST, 0, ANY, BOTH, LL_HOST },
	{ GROUP, 0, ANY, BOTH, NOBODY },
	{ BROADCAST, 0, ANY, BOTH, NOBODY },
	{ UNSET, 0, ANY, BOTH, NOBODY },
};

/* NAT-22: the guest's address by the source that it will see; NOBODY: what it was last seen to use */
static const struct row guest_addr[] = {
	{ FAR, 0, ANY, BOTH, SEEN },
	{ GW, 0, ANY, BOTH, SEEN },
	{ OURS, 0, ANY, BOTH, SEEN_LL },
	{ LL, 0, ANY, BOTH, SEEN_LL },
	{ CUSTOM, 0, ANY, BOTH, SEEN },
	{ ALIAS, 0, ANY, BOTH, SEEN },
};

static struct inaddr addr(enum who who, enum fwd_family fam)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(names[who][fam], &a), 0);
	return a;
}

static void settings(struct fwd *w, enum lo_alias lo, bool alias)
{
	static const enum who lo_is[] = { [LO_ON] = GW, [LO_OFF] = UNSET, [LO_CUSTOM] = CUSTOM };

	*w = (struct fwd){ .tcp_on = true, .udp_on = true, .icmp_on = true };
	for (int i = 0; i < FWD_FAMILIES; i++) {
		const enum fwd_family fam = (enum fwd_family)i;
		struct inaddr seen_ll = addr(UNSET, fam);

		if (fam == FWD_V6)
			seen_ll = addr(SEEN_LL, fam);
		w->f[i] = (struct fwd_family_set){
			.on = true, .guest = addr(OWN, fam), .host_own = addr(OWN, fam), .more = { addr(OWN2, fam) },
			.more_cnt = 1, .seen = addr(SEEN, fam), .seen_ll = seen_ll, .gateway = addr(GW, fam),
			.ours = addr(OURS, fam), .host_loopback = addr(lo_is[lo], fam),
			.host_guest = addr(alias ? ALIAS : UNSET, fam), .dns_match = addr(DNS, fam), .dns_host = addr(RESOLVER, fam),
		};
	}
}

typedef int (*translate_fn)(const struct fwd *w, const struct inaddr *in, uint16_t port, struct inaddr *ret);

static int translate_to(const struct fwd *w, const struct inaddr *in, uint16_t port, struct inaddr *ret)
{
	*ret = fwd_to_host(w, in, port);
	return 0;
}

static int translate_from(const struct fwd *w, const struct inaddr *in, uint16_t port, struct inaddr *ret)
{
	(void)port;
	return fwd_from_host(w, in, ret);
}

static int translate_guest(const struct fwd *w, const struct inaddr *in, uint16_t port, struct inaddr *ret)
{
	(void)port;
	return fwd_guest_addr(w, in, ret);
}

struct cell {				/* one setting of one row */
	enum fwd_family fam;
	enum lo_alias lo;
	bool alias;
};

static void check(const struct row *r, const struct cell *c, translate_fn fn)
{
	const struct inaddr in = addr(r->in, c->fam);
	/* a family without link-local tracking uses its only address */
	const enum who out = r->out == SEEN_LL && c->fam == FWD_V4 ? SEEN : r->out;
	struct inaddr got;
	char buf[INADDR_STR_MAX] = "nobody";
	struct fwd w;
	int rc;

	settings(&w, c->lo, c->alias);
	rc = fn(&w, &in, r->port, &got);
	if (!rc)
		inaddr_str(&got, buf);
	else if (rc != -EADDRNOTAVAIL)
		fail_msg("%s: %d", names[r->in][c->fam], rc);
	if (strcmp(buf, out == NOBODY ? "nobody" : names[out][c->fam]))
		fail_msg("%s port %u, loopback alias %s, address alias %s: %s, expected %s", names[r->in][c->fam], r->port,
			 lo_alias_name[c->lo], c->alias ? "on" : "off", buf, out == NOBODY ? "nobody" : names[out][c->fam]);
}

static unsigned check_row(const struct row *r, translate_fn fn)
{
	unsigned cnt = 0;

	for (unsigned i = 0; i < FWD_FAMILIES * LO_ALIASES * 2; i++) {
		const struct cell c = {
			.fam = (enum fwd_family)(i % FWD_FAMILIES), .lo = (enum lo_alias)(i / FWD_FAMILIES % LO_ALIASES),
			.alias = i / FWD_FAMILIES / LO_ALIASES,
		};

		if (!names[r->in][c.fam] || !(r->lo & 1u << c.lo) || !(r->alias & (c.alias ? YES : NO)))
			continue;
		check(r, &c, fn);
		cnt++;
	}
	return cnt;
}

static void check_all(const struct row *rows, unsigned cnt, translate_fn fn)
{
	for (unsigned i = 0; i < cnt; i++)
		if (!check_row(&rows[i], fn))
			fail_msg("row %u holds nowhere", i);
}

static void test_to_host(void **state)
{
	(void)state;
	check_all(to_host, BYTES_COUNT(to_host), translate_to);
}

static void test_from_host(void **state)
{
	(void)state;
	check_all(from_host, BYTES_COUNT(from_host), translate_from);
}

static void test_guest_addr(void **state)
{
	(void)state;
	check_all(guest_addr, BYTES_COUNT(guest_addr), translate_guest);
}

/* A guest with a given address: the alias still means the host's, which the guest may then reach by its own name too */
static void test_given_address(void **state)
{
	struct inaddr in, out;
	struct fwd w;

	(void)state;
	settings(&w, LO_OFF, true);
	for (int i = 0; i < FWD_FAMILIES; i++) {
		const enum fwd_family fam = (enum fwd_family)i;
		struct fwd_family_set *s = &w.f[i];

		s->guest = s->seen = addr(NEAR, fam);
		s->more_cnt = 0;
		in = addr(ALIAS, fam);
		out = fwd_to_host(&w, &in, 80);
		assert_true(inaddr_eq(&out, &s->host_own));
		in = s->host_own;
		assert_int_equal(fwd_from_host(&w, &in, &out), 0);
		assert_true(inaddr_eq(&out, &in));
		s->host_own = addr(UNSET, fam);		/* a host without one: nothing stands behind the alias */
		in = addr(ALIAS, fam);
		out = fwd_to_host(&w, &in, 80);
		assert_true(inaddr_eq(&out, &in));
	}
}

/* --host-own-addr: what both have, and nothing else */
static void test_shared(void **state)
{
	struct inaddr a;
	struct fwd w;

	(void)state;
	settings(&w, LO_ON, true);
	for (int i = 0; i < FWD_FAMILIES; i++)
		for (int who = LO; who < WHO_CNT; who++) {
			if (!names[who][i])
				continue;
			a = addr((enum who)who, (enum fwd_family)i);
			assert_false(fwd_is_shared(&w, &a));
		}
	for (int i = 0; i < FWD_FAMILIES; i++) {
		w.f[i].shared[w.f[i].shared_cnt++] = addr(OWN, (enum fwd_family)i);
		w.f[i].shared[w.f[i].shared_cnt++] = addr(OWN2, (enum fwd_family)i);
	}
	for (int i = 0; i < FWD_FAMILIES; i++)
		for (int who = LO; who < WHO_CNT; who++) {
			if (!names[who][i])
				continue;
			a = addr((enum who)who, (enum fwd_family)i);
			assert_int_equal(fwd_is_shared(&w, &a), who == OWN || who == OWN2);
			assert_false(fwd_is_lost(&w, &a));
			w.f[i].shared_lost = 2;
			assert_int_equal(fwd_is_shared(&w, &a), who == OWN || who == OWN2);
			assert_int_equal(fwd_is_lost(&w, &a), who == OWN2);
			w.f[i].shared_lost = 0;
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_to_host),
		cmocka_unit_test(test_from_host),
		cmocka_unit_test(test_guest_addr),
		cmocka_unit_test(test_given_address),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests_name("flow/fwd_map: matrix", tests, NULL, NULL);
}
