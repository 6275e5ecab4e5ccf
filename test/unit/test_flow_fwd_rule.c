/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rules of published ports in words, and in circles.
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

/* Ports 8000 to 8009 to 9000 and up; and back from 9003 */
static void test_back(void **state)
{
	struct fwd_rule host = { .proto = FWD_TCP, .any = true, .first = 8000, .last = 8009, .target_first = 9000 };
	struct fwd_rules ns = { .cnt = 2, .rule = {
		{ .proto = FWD_UDP, .any = true, .first = 9003, .last = 9003, .target_first = 8003 },
		{ .proto = FWD_TCP, .any = true, .first = 9002, .last = 9003, .target_first = 8002 } } };

	(void)state;
	assert_ptr_equal(fwd_rules_back(&host, 8003, true, &ns, true), &ns.rule[1]);
	assert_null(fwd_rules_back(&host, 8004, true, &ns, true));
	assert_null(fwd_rules_back(&host, 8001, true, &ns, true));
	/* to the namespace's address: there nothing of ours listens */
	assert_null(fwd_rules_back(&host, 8003, false, &ns, true));
	assert_null(fwd_rules_back(&host, 8003, true, &ns, false));
	host.target = addr("127.0.0.1");
	assert_ptr_equal(fwd_rules_back(&host, 8003, false, &ns, true), &ns.rule[1]);
	host.target = addr("192.0.2.1");
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	host.target = addr("::");
	ns.rule[1].target = addr("192.0.2.1");
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	ns.rule[1].target = addr("::1");
	assert_ptr_equal(fwd_rules_back(&host, 8003, true, &ns, true), &ns.rule[1]);
	/* from elsewhere only */
	host.any = false;
	host.listen = addr("192.0.2.1");
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	host.listen = addr("127.0.0.9");
	assert_non_null(fwd_rules_back(&host, 8003, true, &ns, true));
	host.listen = addr("0.0.0.0");
	assert_non_null(fwd_rules_back(&host, 8003, true, &ns, true));
	memcpy(host.ifname, "eth0", 5);
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	memcpy(host.ifname, "lo", 3);
	assert_non_null(fwd_rules_back(&host, 8003, true, &ns, true));
	/* opens only for somebody else */
	host.scan = true;
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	host.scan = false;
	ns.rule[1].scan = true;
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
	/* one port on, and on, and on: that ends */
	ns.rule[1].scan = false;
	ns.rule[1].target_first = 8003;
	assert_null(fwd_rules_back(&host, 8003, true, &ns, true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_back),
	};

	return cmocka_run_group_tests_name("flow/fwd_rule", tests, NULL, NULL);
}
