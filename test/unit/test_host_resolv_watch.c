/* SPDX-License-Identifier: BSD-3-Clause
 *
 * host/resolv_watch.c: each way in which a resolver file comes to say something else is noticed, and nothing else is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/resolv.h"

struct tree {
	char dir[32], file[64];
	struct resolv_watch w;
};

static void run(const struct tree *t, const char *script)
{
	char cmd[1024];

	snprintf(cmd, sizeof(cmd), "cd %s && set -e && %s", t->dir, script);
	assert_int_equal(system(cmd), 0);
}

static bool ready(const struct tree *t)
{
	struct pollfd p = { .fd = t->w.fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* Whether SCRIPT is noticed; afterwards the watch is quiet again */
static bool notices(struct tree *t, const char *script)
{
	bool got = false;

	run(t, script);
	for (int i = 0; i < 10 && ready(t); i++)
		got |= resolv_watch_changed(&t->w);
	assert_false(ready(t));
	return got;
}

static void expect(struct tree *t, bool want, const char *script)
{
	if (notices(t, script) != want)
		fail_msg("%s: %s", script, want ? "not noticed" : "taken for a change");
}

static int setup(void **state)
{
	struct tree *t = calloc(1, sizeof(*t));

	strcpy(t->dir, "/tmp/test_resolv_watch.XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	run(t, "mkdir etc run");
	snprintf(t->file, sizeof(t->file), "%s/etc/resolv.conf", t->dir);
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct tree *t = *state;

	resolv_watch_close(&t->w);
	assert_int_equal(t->w.fd, -1);
	run(t, "rm -rf etc run away");
	rmdir(t->dir);
	free(t);
	return 0;
}

static void begin(struct tree *t)
{
	struct err e;

	assert_int_equal(resolv_watch_open(&t->w, t->file, &e), 0);
	assert_false(ready(t));
}

static void test_file(void **state)
{
	struct tree *t = *state;

	run(t, "echo a > etc/resolv.conf");
	begin(t);
	assert_false(resolv_watch_changed(&t->w));
	for (int i = 0; i < 3; i++) {	/* again and again */
		expect(t, true, "echo b > etc/resolv.conf");
		expect(t, true, "echo b >> etc/resolv.conf");
		expect(t, true, "echo c > etc/new; mv etc/new etc/resolv.conf");
		expect(t, true, "rm etc/resolv.conf");
		expect(t, true, "echo d > etc/resolv.conf");
		expect(t, true, "mv etc/resolv.conf etc/old");
		expect(t, true, "ln etc/old etc/resolv.conf");
		expect(t, true, "ln etc/resolv.conf run/other; echo e > run/other; rm run/other");
		expect(t, false, "echo f > etc/hosts; mv etc/hosts etc/hosts2; rm etc/hosts2 etc/old; mkdir etc/d; rmdir etc/d");
		expect(t, false, "cat etc/resolv.conf > /dev/null; echo x > run/resolv.conf; rm run/resolv.conf");
	}
}

static void test_link(void **state)
{
	struct tree *t = *state;

	run(t, "mkdir run/resolve run/other; echo a > run/resolve/stub.conf; ln -s ../run/resolve/stub.conf etc/resolv.conf");
	begin(t);
	for (int i = 0; i < 3; i++) {
		expect(t, true, "echo b > run/resolve/stub.conf");
		expect(t, true, "echo c > run/resolve/new; mv run/resolve/new run/resolve/stub.conf");
		expect(t, false, "echo d > run/resolve/resolv.conf; rm run/resolve/resolv.conf; echo e > run/x; rm run/x");
		/* the link turns elsewhere: what it led to counts no more */
		expect(t, true, "echo f > run/other/stub.conf; ln -s ../run/other/stub.conf etc/l; mv etc/l etc/resolv.conf");
		expect(t, false, "echo g > run/resolve/stub.conf; rm run/resolve/stub.conf; echo h > run/resolve/stub.conf");
		expect(t, true, "echo i > run/other/stub.conf");
		/* a link to a link, absolute */
		expect(t, true, "ln -s $PWD/run/two etc/l; mv etc/l etc/resolv.conf");
		expect(t, true, "ln -s resolve/stub.conf run/two");
		expect(t, true, "echo j > run/resolve/stub.conf");
		expect(t, true, "rm run/two");
		expect(t, true, "ln -s ../run/resolve/stub.conf etc/l; mv etc/l etc/resolv.conf");
	}
}

/* Directories on the way come and go */
static void test_directories(void **state)
{
	struct tree *t = *state;

	run(t, "ln -s ../run/a/b/resolv.conf etc/resolv.conf");
	begin(t);
	for (int i = 0; i < 3; i++) {
		expect(t, true, "mkdir run/a");
		expect(t, true, "mkdir run/a/b");
		expect(t, false, "mkdir run/a/c run/c; rmdir run/a/c run/c");
		expect(t, true, "echo a > run/a/b/resolv.conf");
		expect(t, true, "rm -r run/a");
		expect(t, true, "mkdir -p run/a/b; echo b > run/a/b/resolv.conf");
		expect(t, true, "echo c > run/a/b/resolv.conf");
		expect(t, true, "mv run/a/b away");
		expect(t, false, "echo d > away/resolv.conf; rm -r away");
		expect(t, true, "mkdir run/b; echo e > run/b/resolv.conf; mv run/b run/a/b");
		expect(t, true, "echo f > run/a/b/resolv.conf");
		expect(t, true, "rm -r run/a");
	}
	expect(t, true, "rm etc/resolv.conf");
	expect(t, true, "rmdir etc");
	expect(t, true, "mkdir etc");
	expect(t, true, "echo a > etc/resolv.conf");
}

/* Links in a circle, files in the place of directories, names without end */
static void test_odd(void **state)
{
	struct tree *t = *state;
	char name[300], script[700];
	struct err e;

	run(t, "ln -s b etc/resolv.conf; ln -s resolv.conf etc/b");
	begin(t);
	expect(t, true, "rm etc/b");
	expect(t, true, "touch run/a; ln -s ../run/a/resolv.conf etc/l; mv etc/l etc/resolv.conf");
	expect(t, true, "rm run/a; mkdir run/a; echo x > run/a/resolv.conf");
	expect(t, true, "echo y > run/a/resolv.conf");
	memset(name, 'n', 250);
	name[250] = '\0';
	snprintf(script, sizeof(script), "ln -s %s/%s etc/l; mv etc/l etc/resolv.conf", name, name);
	expect(t, true, script);
	expect(t, true, "echo y > etc/new; mv etc/new etc/resolv.conf");
	resolv_watch_close(&t->w);
	run(t, "chmod 0 etc");
	if (geteuid()) {
		assert_int_equal(resolv_watch_open(&t->w, t->file, &e), -EACCES);
		assert_non_null(strstr(e.text, t->file));
	}
	run(t, "chmod 755 etc");
}

static void test_scope(void **state)
{
	(void)state;
	assert_int_equal(resolv_scope("lo"), 1);
	assert_int_equal(resolv_scope("7"), 7);
	assert_int_equal(resolv_scope("2147483647"), 2147483647);
	assert_int_equal(resolv_scope("2147483648"), 0);
	assert_int_equal(resolv_scope("99999999999999999999999"), 0);
	assert_int_equal(resolv_scope("7x"), 0);
	assert_int_equal(resolv_scope("-1"), 0);
	assert_int_equal(resolv_scope(""), 0);
	assert_int_equal(resolv_scope("no-such-if"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_file, setup, teardown),
		cmocka_unit_test_setup_teardown(test_link, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(test_odd, setup, teardown),
		cmocka_unit_test(test_scope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
