/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The virtio-net header: known bytes both ways, and all lies that a length can show.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../src/l2/l2_priv.h"
#include "base/bytes.h"

struct sample {
	uint8_t bytes[L2_VNET_LEN];	/* flags, gso, hdr_len, gso_size, csum_start, csum_offset, num_buffers */
	struct l2_frame f;
};

static const struct sample both_ways[] = {
	{ { 0 }, { .len = 60 } },
	{ { 2 }, { .len = 60, .csum = L2_CSUM_GOOD } },
	{ { 1, 0, 0, 0, 0, 0, 34, 0, 6, 0 }, { .len = 42, .csum = L2_CSUM_PARTIAL, .csum_start = 34, .csum_off = 6 } },
	{ { 1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0 },
	  { .len = 60000, .csum = L2_CSUM_PARTIAL, .csum_start = 34, .csum_off = 16, .gso = L2_GSO_TCP4, .gso_size = 1460, .hdr_len = 54 } },
	{ { 1, 4, 74, 0, 0xa0, 5, 54, 0, 16, 0 },
	  { .len = 60000, .csum = L2_CSUM_PARTIAL, .csum_start = 54, .csum_off = 16, .gso = L2_GSO_TCP6, .gso_size = 1440, .hdr_len = 74 } },
	{ { 1, 5, 62, 0, 0x10, 0x27, 54, 0, 6, 0 },
	  { .len = 60000, .csum = L2_CSUM_PARTIAL, .csum_start = 54, .csum_off = 6, .gso = L2_GSO_UDP, .gso_size = 10000, .hdr_len = 62 } },
};

static void same(const struct l2_frame *a, const struct l2_frame *b)
{
	assert_int_equal(a->gso, b->gso);
	assert_int_equal(a->csum, b->csum);
	assert_int_equal(a->gso_size, b->gso_size);
	assert_int_equal(a->csum_start, b->csum_start);
	assert_int_equal(a->csum_off, b->csum_off);
	assert_int_equal(a->hdr_len, b->hdr_len);
}

static void known(void **state)
{
	(void)state;
	for (size_t i = 0; i < BYTES_COUNT(both_ways); i++) {
		const struct sample *s = &both_ways[i];
		uint8_t out[L2_VNET_LEN];
		struct l2_frame f;

		memset(&f, 0xee, sizeof(f));
		f.len = s->f.len;
		assert_true(l2_vnet_parse(s->bytes, &f));
		same(&f, &s->f);
		memset(out, 0xee, sizeof(out));
		l2_vnet_emit(out, &s->f);
		assert_memory_equal(out, s->bytes, sizeof(out));
	}
}

/* The ECN bit changes nothing; header length is a hint; a validated checksum is enough for what was merged on the way */
static void tolerated(void **state)
{
	const uint8_t ecn[L2_VNET_LEN] = { 1, 0x81, 54, 0, 0xb4, 5, 34, 0, 16, 0 };
	const uint8_t hint[L2_VNET_LEN] = { 1, 1, 0xff, 0xff, 0xb4, 5, 34, 0, 16, 0 };
	const uint8_t merged[L2_VNET_LEN] = { 2, 1, 54, 0, 0xb4, 5 };
	struct l2_frame f = { .len = 100 };

	(void)state;
	assert_true(l2_vnet_parse(ecn, &f));
	assert_int_equal(f.gso, L2_GSO_TCP4);
	assert_true(l2_vnet_parse(hint, &f));
	assert_int_equal(f.hdr_len, 100);
	assert_true(l2_vnet_parse(merged, &f));
	assert_int_equal(f.csum, L2_CSUM_GOOD);
}

static void lies(void **state)
{
	static const uint8_t bad[][L2_VNET_LEN] = {
		{ 1, 0, 0, 0, 0, 0, 0, 0, 6, 0 },		/* sum begins in the Ethernet header */
		{ 1, 0, 0, 0, 0, 0, 13, 0, 6, 0 },
		{ 1, 0, 0, 0, 0, 0, 34, 0, 25, 0 },		/* field one byte outside 60 */
		{ 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff },
		{ 0, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0 },		/* to be cut, with checksum complete */
		{ 1, 1, 54, 0, 0, 0, 34, 0, 16, 0 },		/* into pieces of nothing */
		{ 1, 3, 42, 0, 0xb4, 5, 34, 0, 6, 0 },		/* UFO */
		{ 1, 2, 54, 0, 0xb4, 5, 34, 0, 16, 0 },
		{ 1, 6, 54, 0, 0xb4, 5, 34, 0, 16, 0 },
		{ 1, 0x7f, 54, 0, 0xb4, 5, 34, 0, 16, 0 },
	};
	const uint8_t edge[L2_VNET_LEN] = { 1, 0, 0, 0, 0, 0, 34, 0, 24, 0 };
	struct l2_frame f = { .len = 60 };

	(void)state;
	for (size_t i = 0; i < BYTES_COUNT(bad); i++)
		assert_false(l2_vnet_parse(bad[i], &f));
	assert_true(l2_vnet_parse(edge, &f));
}

/* Every header, with every length: what is accepted lies inside the frame */
static void inside(void **state)
{
	uint32_t x = 1;

	(void)state;
	for (int i = 0; i < 2000000; i++) {
		uint8_t h[L2_VNET_LEN];
		struct l2_frame f;

		for (size_t j = 0; j < sizeof(h); j++) {
			x = x * 1664525 + 1013904223;
			h[j] = (uint8_t)(x >> 24);
			/* Often small, so that some get through */
			if (j < 2 || j % 2)
				h[j] &= 7;
		}
		f.len = 14 + (x >> 8) % 2000;
		if (!l2_vnet_parse(h, &f))
			continue;
		assert_true(f.hdr_len <= f.len);
		assert_true(f.gso == L2_GSO_NONE || f.gso_size);
		if (f.csum == L2_CSUM_PARTIAL)
			assert_true(f.csum_start >= 14 && f.csum_start + f.csum_off + 2u <= f.len);
	}
}

static void takes(void **state)
{
	const uint32_t tso = L2_OFF_CSUM | L2_OFF_TSO4 | L2_OFF_TSO6;

	(void)state;
	assert_true(l2_takes(0, &both_ways[0].f));
	assert_true(l2_takes(0, &both_ways[1].f));
	assert_false(l2_takes(0, &both_ways[2].f));
	assert_true(l2_takes(L2_OFF_CSUM, &both_ways[2].f));
	assert_false(l2_takes(L2_OFF_CSUM | L2_OFF_TSO6, &both_ways[3].f));
	assert_true(l2_takes(tso, &both_ways[3].f));
	assert_false(l2_takes(L2_OFF_CSUM | L2_OFF_TSO4, &both_ways[4].f));
	assert_true(l2_takes(tso, &both_ways[4].f));
	assert_false(l2_takes(tso, &both_ways[5].f));
	assert_true(l2_takes(L2_OFF_CSUM | L2_OFF_USO, &both_ways[5].f));
	assert_false(l2_takes(L2_OFF_USO, &both_ways[5].f));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known),
		cmocka_unit_test(tolerated),
		cmocka_unit_test(lies),
		cmocka_unit_test(inside),
		cmocka_unit_test(takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
