/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resolver file: grammar of resolv.conf(5), bounds, and what counts as missing.
 */
#include "host/resolv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "split.h"

/* All servers and names in one line: "servers | names" */
static void expect(const char *text, const char *want)
{
	char got[3000] = "", a[INADDR_STR_MAX];
	struct resolv r;
	unsigned i;
	int n = 0;

	resolv_parse(text, strlen(text), &r);
	for (i = 0; i < r.v4_cnt; i++)
		n += sprintf(got + n, "%s ", inaddr_str(&r.v4[i], a));
	for (i = 0; i < r.v6_cnt; i++)
		n += sprintf(got + n, "%s%s%s ", inaddr_str(&r.v6[i], a), *r.v6_scope[i] ? "%" : "", r.v6_scope[i]);
	n += sprintf(got + n, "|");
	for (i = 0; i < r.search_cnt; i++)
		n += sprintf(got + n, " %s", r.search[i]);
	assert_string_equal(got, want);
}

static void servers(void **state)
{
	(void)state;
	expect("", "|");
	expect("\n\n", "|");
	expect("nameserver 192.0.2.1\n", "192.0.2.1 |");
	expect("nameserver 192.0.2.1", "192.0.2.1 |");
	expect("nameserver\t \t192.0.2.1 \t\r\n", "192.0.2.1 |");
	expect("nameserver 192.0.2.1#1\nnameserver 192.0.2.2 ; two\n", "192.0.2.1 192.0.2.2 |");
	expect("nameserver 192.0.2.1 192.0.2.2\n", "192.0.2.1 |");
	expect("#nameserver 192.0.2.1\n;nameserver 192.0.2.2\n nameserver 192.0.2.3\n", "|");
	expect("nameserver\nnameservers 192.0.2.1\nNAMESERVER 192.0.2.1\nnameserver192.0.2.1\n", "|");
	expect("nameserver 192.0.2\nnameserver 0.0.0.0\nnameserver ::\nnameserver 224.0.0.1\nnameserver ff02::1\n", "|");
	expect("nameserver ::1\nnameserver 127.0.0.53\nnameserver ::ffff:192.0.2.1\n", "127.0.0.53 192.0.2.1 ::1 |");
	expect("nameserver fe80::1%eth0\nnameserver fe80::2%\nnameserver fe80::3%a-name-that-is-too-long\n",
	       "fe80::1%eth0 fe80::2 fe80::3 |");
	expect("nameserver 192.0.2.1\nnameserver 2001:db8::1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n"
	       "nameserver 2001:db8::2\nnameserver 2001:db8::3\nnameserver 2001:db8::4\n",
	       "192.0.2.1 192.0.2.2 192.0.2.3 2001:db8::1 2001:db8::2 2001:db8::3 |");
	expect("nameserver 2001:db8:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001\n", "|");
}

static void names(void **state)
{
	char text[1024];

	(void)state;
	expect("search a.example b.example\n", "| a.example b.example");
	expect("search\ta.example\tb.example. # c\n", "| a.example b.example");
	expect("domain a.example b.example\n", "| a.example");
	expect("search a\nsearch b c\n", "| b c");
	expect("search a b\ndomain c\n", "| c");
	expect("domain c\nsearch a b\n", "| a b");
	expect("search a\nsearch\nsearch # none\n", "| a");
	expect("search a\nsearch .\n", "|");
	expect("search a b c d e f g h\n", "| a b c d e f");
	expect("searching a\noptions ndots:5\nsortlist 192.0.2.0\n", "|");
	snprintf(text, sizeof(text), "search %0255d %0256d x", 0, 0);
	{
		struct resolv r;

		resolv_parse(text, strlen(text), &r);
		assert_int_equal(r.search_cnt, 2);
		assert_int_equal(strlen(r.search[0]), 255);
		assert_string_equal(r.search[1], "x");
	}
}

static void files(void **state)
{
	char path[] = "/tmp/test_host_resolv.XXXXXX";
	struct resolv r = { .v4_cnt = 7 };
	struct err e;
	int fd = mkstemp(path), i;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(resolv_read(AT_FDCWD, "/nonexistent/resolv.conf", &r, &e), 0);
	assert_int_equal(r.v4_cnt, 0);
	assert_true(write(fd, "nameserver 192.0.2.1\n", 21) == 21);
	assert_int_equal(resolv_read(AT_FDCWD, path, &r, &e), 0);
	assert_int_equal(r.v4_cnt, 1);
	/* What lies beyond the bound is not read */
	for (i = 0; i < 70000; i += 10)
		assert_true(write(fd, "#23456789\n", 10) == 10);
	assert_true(write(fd, "search a\n", 9) == 9);
	assert_int_equal(resolv_read(AT_FDCWD, path, &r, &e), 0);
	assert_int_equal(r.v4_cnt, 1);
	assert_int_equal(r.search_cnt, 0);
	assert_int_equal(resolv_read(AT_FDCWD, "/tmp", &r, &e), -EISDIR);
	assert_non_null(strstr(e.text, "/tmp"));
	unlink(path);
	close(fd);
	/* A FIFO without a writer ends at once */
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(resolv_read(AT_FDCWD, path, &r, &e), 0);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(servers),
		cmocka_unit_test(names),
		cmocka_unit_test(files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
