/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IPv4: what was parsed can be written, and parses to the same.
 */
#include "pieces.h"
#include "wire/ip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_ip ip = { .proto = 0 }, back = { .proto = 0 };
	const uint8_t *cuts;
	struct pieces s;
	struct view v;

	if (!pieces_input(&data, &size, &cuts))
		return 0;
	v = pieces_make(&s, cuts, data, size);
	if (wire_ip4_parse(&v, &ip) == WIRE_IP_OK) {
		const uint32_t len = WIRE_IP4_LEN + v.len;
		uint8_t *b = malloc(len);
		const struct iovec iov = { b, len };
		struct view w = view_of(&iov, len);

		fuzz_require(b);
		fuzz_require(len <= size);
		fuzz_require(wire_ip_hdr_len(&ip.src) == WIRE_IP4_LEN);
		fuzz_require(wire_ip_emit(b, &ip, v.len) == WIRE_IP4_LEN);
		fuzz_require(view_copy(&v, b + WIRE_IP4_LEN, v.len) == v.len);
		fuzz_require(wire_ip4_parse(&w, &back) == WIRE_IP_OK);
		fuzz_require(w.len == v.len);
		fuzz_require(inaddr_eq(&ip.src, &back.src) && inaddr_eq(&ip.dst, &back.dst));
		fuzz_require(ip.proto == back.proto && ip.ttl == back.ttl && ip.tos == back.tos && ip.df == back.df);
		free(b);
	}
	pieces_free(&s);
	return 0;
}
