/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IGMP and MLD of any bytes: every group that is told is multicast and was in the message, and there are no more of them than
 * it has room for. After the lengths of pieces: a byte of switches, the message.
 */
#include "base/csum.h"
#include "pieces.h"
#include "wire/group.h"
#include "wire/ip.h"

static bool within(const uint8_t *data, size_t size, const struct inaddr *a, bool v4)
{
	const size_t len = v4 ? 4 : 16;

	for (size_t i = 0; i + len <= size; i++)
		if (!memcmp(data + i, a->b + 16 - len, len))
			return true;
	return false;
}

static void ask(const struct inaddr *group, uint32_t n)
{
	static const struct inaddr src4 = { { [10] = 0xff, 0xff, 192, 0, 2, 1 } }, src6 = { { 0xfe, 0x80, [15] = 1 } };
	uint8_t *p = malloc(WIRE_GROUP_QUERY_MAX);
	const bool v4 = inaddr_is_v4(group);
	const uint32_t at = v4 ? 24 : 48;
	struct inaddr dst;
	uint32_t len, sum;

	fuzz_require(p);
	len = wire_group_emit_query(p, v4 ? &src4 : &src6, group, n * 7, n, &dst);
	fuzz_require(len <= WIRE_GROUP_QUERY_MAX && inaddr_eq(&dst, group));
	sum = v4 ? 0 : csum_pseudo(&src6, &dst, WIRE_IP_ICMP6, len - at);
	fuzz_require(!csum_done(csum_add(sum, p + at, len - at)));
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_group_list l;
	const uint8_t *cuts;
	struct wire_group g;
	struct pieces s;
	size_t cnt = 0;
	struct view v;
	bool v4;
	int r;

	if (!pieces_input(&data, &size, &cuts) || size < 1)
		return 0;
	v4 = data[0] & 1;
	v = pieces_make(&s, cuts, data + 1, size - 1);
	r = v4 ? wire_igmp_parse(v, &l) : wire_mld_parse(v, &l);
	while (!r && (r = wire_group_next(&l, &g)) > 0) {
		r = 0;
		cnt++;
		fuzz_require(inaddr_is_multicast(&g.a) && inaddr_is_v4(&g.a) == v4);
		fuzz_require(within(data + 1, size - 1, &g.a, v4));
		fuzz_require(cnt * 8 <= size);
		ask(&g.a, (uint32_t)cnt << (data[0] >> 4));
	}
	pieces_free(&s);
	return 0;
}
