/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP headers and options (L2-22).
 */
#include "wire/tcp.h"

#include <errno.h>

#include "split.h"
#include "base/bytes.h"

/* Header with FLAGS and these options, which must fill words; the data offset follows */
static uint32_t make(uint8_t *b, uint8_t flags, const char *options)
{
	uint32_t len = split_hex(b, "1234 abcd 01020304 a1a2a3a4 50 00 7fff 5555 0102");

	len += split_hex(b + len, options);
	assert_int_equal(len % 4, 0);
	b[12] = (uint8_t)(len / 4 << 4);
	b[13] = flags;
	return len;
}

static int parse_flat(const uint8_t *b, uint32_t len, struct wire_tcp *ret, uint32_t *ret_left)
{
	struct split s;
	struct view v = split_make(&s, b, len, 0);
	const int r = wire_tcp_parse(&v, ret);

	*ret_left = v.len;
	split_free(&s);
	return r;
}

static void fields(void **state)
{
	uint8_t b[24];

	(void)state;
	make(b, 0xff, "");
	memcpy(b + 20, "data", 4);
	b[12] |= 0x0f;			/* reserved bits */
	for (uint32_t way = 0; way < SPLIT_WAYS(24); way++) {
		struct wire_tcp h;
		struct split s;
		struct view v = split_make(&s, b, 24, way);

		memset(&h, 0xff, sizeof(h));
		assert_int_equal(wire_tcp_parse(&v, &h), 0);
		assert_int_equal(h.sport, 0x1234);
		assert_int_equal(h.dport, 0xabcd);
		assert_int_equal(h.seq, 0x01020304);
		assert_int_equal(h.ack, 0xa1a2a3a4);
		assert_int_equal(h.flags, 0xff);
		assert_int_equal(h.wnd, 0x7fff);
		assert_int_equal(h.urg, 0x0102);
		assert_false(h.has_mss || h.has_ws || h.has_sack_ok || h.has_ts || h.sack_cnt);
		assert_int_equal(v.len, 4);
		split_free(&s);
	}
}

static void data_offset(void **state)
{
	uint8_t b[70] = { 0 };

	(void)state;
	make(b, WIRE_TCP_ACK, "");
	for (unsigned off = 0; off < 16; off++) {
		b[12] = (uint8_t)(off << 4);
		for (uint32_t len = 0; len <= sizeof(b); len++) {
			for (uint32_t way = 0; way < SPLIT_WAYS(len); way += 7) {
				const bool ok = len >= 20 && off >= 5 && off * 4 <= len;
				struct wire_tcp h;
				struct split s;
				struct view v = split_make(&s, b, len, way);

				assert_int_equal(wire_tcp_parse(&v, &h), ok ? 0 : -EBADMSG);
				if (ok)
					assert_int_equal(v.len, len - off * 4);
				split_free(&s);
			}
		}
	}
}

static void syn_options(void **state)
{
	/* As Linux writes them, and in an odd order with an unknown option between */
	static const char *const t[] = {
		"020405b4 0402080a01020304a1a2a3a4 01030307",
		"030307 080a01020304a1a2a3a4 fe05aabbcc 020405b4 0402",
	};
	uint8_t b[60];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const uint32_t len = make(b, WIRE_TCP_SYN, t[i]);

		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct wire_tcp h;
			struct split s;
			struct view v = split_make(&s, b, len, way);

			assert_int_equal(wire_tcp_parse(&v, &h), 0);
			assert_true(h.has_mss && h.has_ws && h.has_sack_ok && h.has_ts);
			assert_int_equal(h.mss, 1460);
			assert_int_equal(h.ws, 7);
			assert_int_equal(h.ts_val, 0x01020304);
			assert_int_equal(h.ts_ecr, 0xa1a2a3a4);
			assert_int_equal(v.len, 0);
			split_free(&s);
		}
	}
}

#define MSS 1
#define WS 2
#define SOK 4
#define TS 8

static const struct {
	uint8_t flags;
	const char *options;
	unsigned has;
	unsigned sack;
} option_table[] = {
	/* The end ends; what came before counts */
	{ WIRE_TCP_SYN, "020405b4 00030307", MSS, 0 },
	{ WIRE_TCP_SYN, "00000000 020405b4", 0, 0 },
	{ WIRE_TCP_SYN, "01010101 01010204 05b40000", MSS, 0 },
	/* Lengths below two, and beyond the header */
	{ WIRE_TCP_SYN, "020405b4 fe000000 03030700", MSS, 0 },
	{ WIRE_TCP_SYN, "020405b4 fe010000 03030700", MSS, 0 },
	{ WIRE_TCP_SYN, "020405b4 0101fe03", MSS, 0 },
	{ WIRE_TCP_SYN, "020405b4 010101fe", MSS, 0 },
	{ WIRE_TCP_SYN, "020405b4 01010103", MSS, 0 },
	{ WIRE_TCP_SYN, "010204b4", 0, 0 },
	{ WIRE_TCP_SYN, "080a0102 03040506", 0, 0 },
	{ WIRE_TCP_SYN, "ff280000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000", 0, 0 },
	/* Known kinds of wrong length are stepped over */
	{ WIRE_TCP_SYN, "020305 030201 040300 0808010203040506 020405b4 000000", MSS, 0 },
	{ WIRE_TCP_SYN, "0b0c0102030405060708090a 01030302", WS, 0 },
	/* Only where they may stand */
	{ WIRE_TCP_ACK, "020405b4 0402080a01020304a1a2a3a4 01030307", TS, 0 },
	{ WIRE_TCP_SYN | WIRE_TCP_ACK, "020405b4 0402080a01020304a1a2a3a4 01030307", MSS | WS | SOK | TS, 0 },
	{ WIRE_TCP_SYN, "0101050a 00000001 00000002", 0, 0 },
	{ WIRE_TCP_ACK, "0101080a 01020304 a1a2a3a4", TS, 0 },
	{ WIRE_TCP_SYN, "0101080a 01020304 a1a2a3a4", TS, 0 },
	{ WIRE_TCP_ACK, "080a0102 0304a1a2 a3a40101", TS, 0 },
	/* Blocks */
	{ WIRE_TCP_ACK, "0101050a 00000001 00000002", 0, 1 },
	{ WIRE_TCP_ACK, "01010512 00000001 00000002 00000003 00000004", 0, 2 },
	{ WIRE_TCP_ACK, "0101051a 00000001 00000002 00000003 00000004 00000005 00000006", 0, 3 },
	{ WIRE_TCP_ACK, "01010522 00000001 00000002 00000003 00000004 00000005 00000006 00000007 00000008", 0, 4 },
	{ WIRE_TCP_ACK, "0101080a 01020304 a1a2a3a4 0101051a 00000001 00000002 00000003 00000004 00000005 00000006",
	  TS, 3 },
	{ WIRE_TCP_ACK, "01010502", 0, 0 },
	{ WIRE_TCP_ACK, "050b0000 00010000 00020000", 0, 0 },
	{ WIRE_TCP_ACK, "05060000 00010101", 0, 0 },
	{ WIRE_TCP_ACK, "01010512 00000001 00000002", 0, 0 },
};

static void options(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(option_table) / sizeof(option_table[0]); i++) {
		uint8_t b[60];
		const uint32_t len = make(b, option_table[i].flags, option_table[i].options);

		for (uint32_t way = 0; way < SPLIT_WAYS(len); way++) {
			struct wire_tcp h;
			struct split s;
			struct view v = split_make(&s, b, len, way);
			unsigned has;

			assert_int_equal(wire_tcp_parse(&v, &h), 0);
			has = (h.has_mss ? MSS : 0) | (h.has_ws ? WS : 0) | (h.has_sack_ok ? SOK : 0) | (h.has_ts ? TS : 0);
			if (has != option_table[i].has || h.sack_cnt != option_table[i].sack)
				fail_msg("options %u: has %#x, blocks %u", i, has, h.sack_cnt);
			for (unsigned k = 0; k < h.sack_cnt; k++) {
				assert_int_equal(h.sack[k].from, 2 * k + 1);
				assert_int_equal(h.sack[k].to, 2 * k + 2);
			}
			split_free(&s);
		}
	}
}

/* The scale is handed on as it came, even above 14 */
static void big_scale(void **state)
{
	uint8_t b[24];
	struct wire_tcp h;
	uint32_t left;

	(void)state;
	make(b, WIRE_TCP_SYN, "0303ff01");
	assert_int_equal(parse_flat(b, 24, &h, &left), 0);
	assert_true(h.has_ws);
	assert_int_equal(h.ws, 255);
}

/* Every set of options: fits, is padded, and parses to the same */
static void round_trip(void **state)
{
	(void)state;
	for (unsigned set = 0; set < 16 * 5 * 2; set++) {
		struct wire_tcp h, back;
		const bool syn = set & 16;
		const uint8_t blocks = (uint8_t)(set / 32);
		uint8_t b[WIRE_TCP_LEN + WIRE_TCP_OPT_MAX + 1];
		uint32_t len, left;

		memset(&h, 0, sizeof(h));
		h = (struct wire_tcp){ .sport = 1, .dport = 65535, .seq = 0xfffffffe, .ack = 0x80000001, .wnd = 0xfffe,
				       .urg = 0x8001, .flags = (uint8_t)(0xfd | (syn ? WIRE_TCP_SYN : 0)) };
		h.has_mss = syn && set & MSS;
		h.has_ws = syn && set & WS;
		h.has_sack_ok = syn && set & SOK;
		h.has_ts = set & TS;
		h.mss = h.has_mss ? 65495 : 0;
		h.ws = h.has_ws ? 14 : 0;
		h.ts_val = h.has_ts ? 0xfffefdfc : 0;
		h.ts_ecr = h.has_ts ? 0x80818283 : 0;
		h.sack_cnt = syn ? 0 : blocks;
		for (unsigned k = 0; k < h.sack_cnt; k++) {
			h.sack[k].from = 0xfffffff0 + k;
			h.sack[k].to = 0x10 + k;
		}

		len = wire_tcp_hdr_len(&h);
		assert_int_equal(len % 4, 0);
		assert_in_range(len, WIRE_TCP_LEN, WIRE_TCP_LEN + WIRE_TCP_OPT_MAX);
		memset(b, 0xee, sizeof(b));
		assert_int_equal(wire_tcp_emit(b, &h, 0xbeef), len);
		assert_int_equal(b[len], 0xee);
		assert_int_equal(bytes_get16(b + 16), 0xbeef);
		memset(&back, 0, sizeof(back));
		assert_int_equal(parse_flat(b, len, &back, &left), 0);
		assert_int_equal(left, 0);
		/* Beside timestamps the fourth block doesn't fit */
		if (h.has_ts && h.sack_cnt == 4) {
			h.sack_cnt = 3;
			memset(&h.sack[3], 0, sizeof(h.sack[3]));
		}
		assert_memory_equal(&back, &h, sizeof(h));
	}
}

/* Options that don't belong on this kind of segment aren't written, and a made-up count isn't followed */
static void emit_filters(void **state)
{
	struct wire_tcp h = { .flags = WIRE_TCP_ACK, .has_mss = true, .has_ws = true, .has_sack_ok = true };
	uint8_t b[WIRE_TCP_LEN + WIRE_TCP_OPT_MAX];

	(void)state;
	assert_int_equal(wire_tcp_hdr_len(&h), 20);
	assert_int_equal(wire_tcp_emit(b, &h, 0), 20);
	assert_int_equal(b[12], 0x50);
	h.sack_cnt = 255;
	assert_int_equal(wire_tcp_emit(b, &h, 0), 20 + 4 + 32);
	h.flags = WIRE_TCP_SYN;
	h.has_ts = true;
	assert_int_equal(wire_tcp_emit(b, &h, 0), 20 + 4 + 4 + 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields), cmocka_unit_test(data_offset), cmocka_unit_test(syn_options),
		cmocka_unit_test(options), cmocka_unit_test(big_scale), cmocka_unit_test(round_trip),
		cmocka_unit_test(emit_filters),
	};

	return cmocka_run_group_tests_name("wire/tcp", tests, NULL, NULL);
}
