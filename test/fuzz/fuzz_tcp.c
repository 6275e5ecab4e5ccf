/* SPDX-License-Identifier: BSD-3-Clause
 *
 * TCP: emit(parse(x)) fits into a header and parses to the same struct, options included.
 */
#include "pieces.h"
#include "wire/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_tcp h, back;
	const uint8_t *cuts;
	struct pieces s;
	struct view v;

	if (!pieces_input(&data, &size, &cuts))
		return 0;
	v = pieces_make(&s, cuts, data, size);
	memset(&h, 0, sizeof(h));
	memset(&back, 0, sizeof(back));
	if (!wire_tcp_parse(&v, &h)) {
		const uint32_t len = wire_tcp_hdr_len(&h);
		uint8_t *b = malloc(len);
		const struct iovec iov = { b, len };
		struct view w = view_of(&iov, len);

		fuzz_require(b);
		fuzz_require(v.len <= size - WIRE_TCP_LEN);
		fuzz_require(len % 4 == 0 && len >= WIRE_TCP_LEN && len <= WIRE_TCP_LEN + WIRE_TCP_OPT_MAX);
		fuzz_require(wire_tcp_emit(b, &h, 0) == len);
		fuzz_require(!wire_tcp_parse(&w, &back));
		fuzz_require(w.len == 0);
		fuzz_require(h.sport == back.sport && h.dport == back.dport && h.seq == back.seq && h.ack == back.ack);
		fuzz_require(h.wnd == back.wnd && h.urg == back.urg && h.flags == back.flags);
		fuzz_require(h.has_mss == back.has_mss && h.mss == back.mss && h.has_ws == back.has_ws && h.ws == back.ws);
		fuzz_require(h.has_sack_ok == back.has_sack_ok && h.has_ts == back.has_ts);
		fuzz_require(h.ts_val == back.ts_val && h.ts_ecr == back.ts_ecr && h.sack_cnt == back.sack_cnt);
		fuzz_require(h.sack_cnt <= WIRE_TCP_SACK_MAX);
		fuzz_require(!memcmp(h.sack, back.sack, h.sack_cnt * sizeof(h.sack[0])));
		free(b);
	}
	pieces_free(&s);
	return 0;
}
