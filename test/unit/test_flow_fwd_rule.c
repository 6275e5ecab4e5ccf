/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules of published ports in words.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "flow/fwd.h"

static struct inaddr addr(const char *text)
{
	struct inaddr a;

	assert_int_equal(inaddr_parse(text, &a), 0);
	return a;
}

static void test_name(void **state)
{
	struct fwd_rule r = { .proto = FWD_TCP, .any = true, .first = 22, .last = 25 };
	char buf[FWD_RULE_STR_MAX];

	(void)state;
	assert_string_equal(fwd_rule_name(&r, false, 22, 22, buf), "TCP port 22 on any address");
	assert_string_equal(fwd_rule_name(&r, true, 22, 25, buf), "TCP ports 22 to 25 on the namespace's loopback");
	r = (struct fwd_rule){ .proto = FWD_UDP, .listen = addr("0.0.0.0"), .ifname = "eth0" };
	assert_string_equal(fwd_rule_name(&r, false, 1, 65535, buf), "UDP ports 1 to 65535 on 0.0.0.0 of interface eth0");
	r.listen = addr("::");
	assert_string_equal(fwd_rule_name(&r, false, 1, 1, buf), "UDP port 1 on :: of interface eth0");
}

/* As the reference program shows them */
static void test_line(void **state)
{
	struct fwd_rule r = { .proto = FWD_TCP, .any = true, .first = 22, .last = 22, .target_first = 22 };
	char buf[FWD_RULE_STR_MAX];

	(void)state;
	assert_string_equal(fwd_rule_line(&r, false, buf), "TCP [*]:22  =>  22 ");
	r.scan = true;
	assert_string_equal(fwd_rule_line(&r, true, buf), "TCP [*]%lo:22  =>  22  (auto-scan)");
	r = (struct fwd_rule){ .proto = FWD_UDP, .any = true, .first = 61000, .last = 65535, .target_first = 61000, .weak = true };
	assert_string_equal(fwd_rule_line(&r, false, buf), "UDP [*]:61000-65535  =>  61000-65535  (best effort)");
	r.scan = true;
	assert_string_equal(fwd_rule_line(&r, true, buf), "UDP [*]%lo:61000-65535  =>  61000-65535  (best effort) (auto-scan)");
	r = (struct fwd_rule){ .proto = FWD_TCP, .listen = addr("127.0.0.1"), .target = addr("10.0.0.1"), .first = 22, .last = 23,
			       .target_first = 32 };
	assert_string_equal(fwd_rule_line(&r, false, buf), "TCP [127.0.0.1]:22-23  =>  10.0.0.1:32-33 ");
	r.listen = addr("::1");
	r.target = addr("fe80::1");
	memcpy(r.ifname, "exactly15chars0", 16);
	assert_string_equal(fwd_rule_line(&r, false, buf), "TCP [::1]%exactly15chars0:22-23  =>  fe80::1:32-33 ");
}

/* The longest there are */
static void test_room(void **state)
{
	struct fwd_rule r = { .proto = FWD_UDP, .first = 10000, .last = 20000, .target_first = 30000, .weak = true, .scan = true };
	char buf[FWD_RULE_STR_MAX];

	(void)state;
	r.listen = r.target = addr("1111:2222:3333:4444:5555:6666:7777:8888");
	memcpy(r.ifname, "exactly15chars0", 16);
	fwd_rule_name(&r, false, 10000, 20000, buf);
	assert_non_null(strstr(buf, "of interface exactly15chars0"));
	fwd_rule_line(&r, false, buf);
	assert_non_null(strstr(buf, " (auto-scan)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests_name("flow/fwd_rule", tests, NULL, NULL);
}
