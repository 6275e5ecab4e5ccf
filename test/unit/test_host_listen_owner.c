/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which lines of the kernel's tables of sockets are in the way of a port.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/listen.h"

/* A line as the kernel writes it, for a socket on ADDR, PORT in STATE */
static const char *line_of(const char *addr, unsigned port, unsigned state)
{
	static char line[256];
	uint32_t w[4] = { 0 };
	const bool v6 = strchr(addr, ':');
	int n = snprintf(line, sizeof(line), "   0: ");

	assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, addr, w), 1);
	for (int i = 0; i < (v6 ? 4 : 1); i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, "%08X", w[i]);
	snprintf(line + n, sizeof(line) - (size_t)n, ":%04X %s:0000 %02X 00000000:00000000 00:00000000 00000000  1000        0 12345 1 "
		 "ffff888 100 0 0 10 0\n", port, v6 ? "00000000000000000000000000000000" : "00000000", state);
	return line;
}

static bool hit(enum sk_proto proto, const char *want, const char *line)
{
	struct sk_listen l = { .proto = proto, .any = !want, .addr.port = 8080 };
	unsigned long inode = 0;
	unsigned uid = 0;
	bool r;

	if (want)
		assert_int_equal(inaddr_parse(want, &l.addr.a), 0);
	r = listen_owner_line(line, &l, &uid, &inode);
	assert_int_equal(uid, r ? 1000 : 0);
	assert_int_equal(inode, r ? 12345 : 0);
	return r;
}

static void test_lines(void **state)
{
	static const struct {
		const char *want, *has;
		bool in_the_way;
	} row[] = {
		{ NULL, "127.0.0.1", true },		{ NULL, "::1", true },
		{ "127.0.0.1", "127.0.0.1", true },	{ "127.0.0.1", "127.0.0.2", false },
		{ "127.0.0.1", "0.0.0.0", true },	{ "0.0.0.0", "127.0.0.1", true },
		{ "127.0.0.1", "::", true },		{ "127.0.0.1", "::1", false },
		{ "::1", "::1", true },			{ "::1", "::", true },
		{ "::1", "2001:db8::1", false },	{ "::", "2001:db8::1", true },
		{ "::1", "127.0.0.1", false },		{ "::1", "0.0.0.0", false },
		{ "127.0.0.1", "::ffff:127.0.0.1", true },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (hit(SK_TCP, row[i].want, line_of(row[i].has, 8080, 0x0a)) != row[i].in_the_way ||
		    hit(SK_UDP, row[i].want, line_of(row[i].has, 8080, 0x07)) != row[i].in_the_way)
			fail_msg("%s and %s", row[i].want ? row[i].want : "any", row[i].has);
}

static void test_others(void **state)
{
	const char *const bad[] = {
		"", "\n", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n",
		"   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0\n",
		"   0: 0100007:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1\n",
		"   0: 0000000000000000FFFF00000100007F00:1F90 00000000:0000 0A 0:0 00:0 0  1000 0 12345 1\n",
	};

	(void)state;
	assert_false(hit(SK_TCP, NULL, line_of("127.0.0.1", 8081, 0x0a)));	/* another port */
	assert_false(hit(SK_TCP, NULL, line_of("127.0.0.1", 8080, 0x01)));	/* a connection */
	assert_true(hit(SK_UDP, NULL, line_of("127.0.0.1", 8080, 0x01)));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(hit(SK_TCP, NULL, bad[i]));
}

/* Our own sockets, in the tables of this kernel */
static void test_find(void **state)
{
	struct listen_owner o;
	struct sk_listen l = { .proto = SK_UDP };

	(void)state;
	for (int fam = 0; fam < 2; fam++) {
		struct sockaddr_in6 sa = { .sin6_family = fam ? AF_INET6 : AF_INET };
		socklen_t len = sizeof(sa);
		int fd = socket(sa.sin6_family, SOCK_DGRAM, 0);

		if (fd < 0 && fam)
			continue;
		assert_true(fd >= 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&sa, fam ? sizeof(sa) : sizeof(struct sockaddr_in)), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)&sa, &len), 0);
		l.any = true;
		l.addr.port = ntohs(sa.sin6_port);
		assert_true(listen_owner_find(&l, &o));
		assert_int_equal(o.uid, getuid());
		assert_int_equal(o.pid, getpid());
		assert_true(*o.comm);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests_name("host/listen_owner", tests, NULL, NULL);
}
