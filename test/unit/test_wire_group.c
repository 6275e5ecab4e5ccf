/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IGMP and MLD: every version's reports, in any pieces, and queries whose bytes were worked out by hand.
 */
#include "wire/group.h"

#include <errno.h>

#include "split.h"
#include "base/bytes.h"
#include "base/csum.h"
#include "wire/ip.h"

#define GROUPS	8

struct said {
	int begin, end;			/* of the parser and of the last step */
	uint32_t cnt;
	struct wire_group g[GROUPS];
};

static struct said read_all(struct view v, bool v4)
{
	struct said s = { .begin = 0 };
	struct wire_group_list l;

	s.begin = v4 ? wire_igmp_parse(v, &l) : wire_mld_parse(v, &l);
	if (!s.begin)
		while (s.cnt < GROUPS && (s.end = wire_group_next(&l, &s.g[s.cnt])) > 0)
			s.cnt++;
	return s;
}

/* "224.0.0.251+ 239.1.2.3-": groups in order, joined, left, or kept (=) */
static void check(const char *hex, bool v4, const char *want)
{
	uint8_t b[200];
	const uint32_t len = split_hex(b, hex);

	for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
		char text[400] = "", addr[INADDR_STR_MAX];
		struct split s;
		const struct said got = read_all(split_make(&s, b, len, way), v4);

		assert_int_equal(got.begin, 0);
		assert_int_equal(got.end, 0);
		for (uint32_t i = 0; i < got.cnt; i++)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%c", i ? " " : "",
				 inaddr_str(&got.g[i].a, addr), "+-="[got.g[i].what]);
		assert_string_equal(text, want);
		split_free(&s);
	}
}

static void refused(const char *hex, bool v4, int begin, int end)
{
	uint8_t b[200];
	const uint32_t len = split_hex(b, hex);

	for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
		struct split s;
		const struct said got = read_all(split_make(&s, b, len, way), v4);

		assert_int_equal(got.begin, begin);
		assert_int_equal(got.end, end);
		split_free(&s);
	}
}

static void igmp(void **state)
{
	(void)state;
	check("12 00 0000 e00000fb", true, "224.0.0.251+");
	check("16 00 0000 effffffa", true, "239.255.255.250+");
	check("17 00 0000 effffffa", true, "239.255.255.250-");
	check("22 00 0000 0000 0000", true, "");
	/* to all sources; to none, with auxiliary data; is all but two */
	check("22 00 0000 0000 0003  04 00 0000 e00000fb  03 01 0000 ef010203 aabbccdd"
	      "02 00 0002 ef010204 c0000201 c0000202", true, "224.0.0.251+ 239.1.2.3- 239.1.2.4+");
	/* some sources; one more; one less; a type to come */
	check("22 00 0000 0000 0004  01 00 0001 ef010201 c0000201  05 00 0001 ef010202 c0000201"
	      "06 00 0001 ef010203 c0000201  09 00 0000 ef010204", true,
	      "239.1.2.1+ 239.1.2.2+ 239.1.2.3= 239.1.2.4=");
	/* what follows the last record is none */
	check("22 00 0000 0000 0001  04 00 0000 e00000fb  ffff", true, "224.0.0.251+");
}

static void mld(void **state)
{
	(void)state;
	check("83 00 0000 0000 0000 ff0200000000000000000000000000fb", false, "ff02::fb+");
	check("84 00 0000 0000 0000 ff0200000000000000000000000000fb", false, "ff02::fb-");
	check("8f 00 0000 0000 0002  04 00 0000 ff0200000000000000000000000000fb"
	      "03 00 0000 ff02000000000000000000000000000c", false, "ff02::fb+ ff02::c-");
	check("8f 00 0000 0000 0001  05 01 0001 ff150000000000000000000000000001 20010db8000000000000000000000001 00000000",
	      false, "ff15::1+");
}

static void bad(void **state)
{
	(void)state;
	refused("16 00 0000 e00000", true, -EBADMSG, 0);
	refused("16 00 0000 c0000201", true, -EBADMSG, 0);		/* no group */
	refused("11 00 0000 00000000", true, -EPROTONOSUPPORT, 0);	/* a query */
	refused("22 00 0000 0000 0002  04 00 0000 e00000fb", true, 0, -EBADMSG);
	refused("22 00 0000 0000 0001  04 00 0001 e00000fb c00002", true, 0, -EBADMSG);
	refused("22 00 0000 0000 0001  04 ff 0000 e00000fb 00", true, 0, -EBADMSG);
	refused("22 00 0000 0000 0001  04 00 ffff e00000fb 00", true, 0, -EBADMSG);
	refused("22 00 0000 0000 0001  04 00 0000 0a000001", true, 0, -EBADMSG);
	refused("83 00 0000 0000 0000 ff02", false, -EBADMSG, 0);
	refused("83 00 0000 0000 0000 fe800000000000000000000000000001", false, -EBADMSG, 0);
	refused("82 00 0000 0000 0000", false, -EPROTONOSUPPORT, 0);
	refused("83 00 0000 0000 0000 00000000000000000000ffffe00000fb", false, -EBADMSG, 0);	/* v4-mapped: of neither family */
	refused("8f 00 0000 0000 0001  04 00 0000 00000000000000000000ffffe00000fb", false, 0, -EBADMSG);
	refused("8f 00 0000", false, -EBADMSG, 0);
	refused("8f 00 0000 0000 0001  04 00 0000 ff02000000000000000000000000", false, 0, -EBADMSG);
	refused("8f 00 0000 0000 0001  04 00 ffff ff0200000000000000000000000000fb", false, 0, -EBADMSG);
}

static void query(void **state)
{
	static const struct inaddr all;
	uint8_t p[WIRE_GROUP_QUERY_MAX], want[WIRE_GROUP_QUERY_MAX];
	struct inaddr src, dst, group;
	uint32_t len;

	(void)state;
	inaddr_parse("192.0.2.1", &src);
	inaddr_parse("224.0.0.1", &group);
	len = split_hex(want, "46 c0 0024 0000 0000 01 02 0000 c0000201 e0000001 94040000  11 64 0000 00000000 02 7d 0000");
	assert_int_equal(wire_group_emit_query(p, &src, &all, 10000, 125, &dst), len);
	assert_true(inaddr_eq(&dst, &group));
	assert_int_equal(csum_done(csum_add(0, p, 24)), 0);
	assert_int_equal(csum_done(csum_add(0, p + 24, 12)), 0);
	bytes_put16(p + 10, 0);
	bytes_put16(p + 26, 0);
	assert_memory_equal(p, want, len);

	inaddr_parse("239.1.2.3", &group);
	wire_group_emit_query(p, &src, &group, 1000, 125, &dst);
	assert_true(inaddr_eq(&dst, &group));
	assert_memory_equal(p + 16, group.b + 12, 4);
	assert_memory_equal(p + 28, group.b + 12, 4);
	assert_int_equal(p[25], 10);

	inaddr_parse("fe80::1", &src);
	len = split_hex(want, "60000000 0024 00 01 fe800000000000000000000000000001 ff020000000000000000000000000001"
			"3a00 0502 0000 0100  82 00 0000 2710 0000 00000000000000000000000000000000 02 7d 0000");
	assert_int_equal(wire_group_emit_query(p, &src, &all, 10000, 125, &dst), len);
	assert_int_equal(csum_done(csum_add(csum_pseudo(&src, &dst, WIRE_IP_ICMP6, 28), p + 48, 28)), 0);
	bytes_put16(p + 50, 0);
	assert_memory_equal(p, want, len);
	inaddr_parse("ff02::fb", &group);
	wire_group_emit_query(p, &src, &group, 1000, 1024, &dst);
	assert_true(inaddr_eq(&dst, &group));
	assert_memory_equal(p + 56, group.b, 16);
	assert_int_equal(p[73], 0xb0);		/* 1024 = (0 | 16) << (3 + 3) */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(igmp), cmocka_unit_test(mld), cmocka_unit_test(bad), cmocka_unit_test(query),
	};

	return cmocka_run_group_tests_name("wire/group", tests, NULL, NULL);
}
