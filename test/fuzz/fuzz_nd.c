/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Neighbour discovery: solicitations of any bytes; and router advertisements with any configuration, whose options must
 * fill the message exactly. After the lengths of pieces: a byte of switches, a hop limit, the message.
 */
#include "base/csum.h"
#include "pieces.h"
#include "wire/ip.h"
#include "wire/nd.h"

#define NAMES	24

static const struct inaddr router = { { 0xfe, 0x80, [15] = 1 } };

static void check_ra(const uint8_t *b, uint32_t len)
{
	uint32_t at = 16;

	fuzz_require(len <= WIRE_ND_RA_MAX);
	while (at < len) {
		fuzz_require(len - at >= 8 && b[at + 1] && b[at + 1] * 8u <= len - at);
		at += b[at + 1] * 8u;
	}
	fuzz_require(csum_done(csum_add(csum_pseudo(&router, &router, WIRE_IP_ICMP6, len), b, len)) == 0);
}

/* Names are the message's bytes between zeros */
static void advertise(uint8_t switches, uint8_t prefix_len, const uint8_t *data, size_t size)
{
	struct wire_nd_ra ra = { .has_prefix = switches & 4, .prefix_len = prefix_len, .mtu = switches & 8 ? 1500 : 0 };
	uint8_t *b = malloc(WIRE_ND_RA_MAX);
	char *text = malloc(size + 1);
	const char *search[NAMES];

	fuzz_require(text && b);
	memcpy(text, data, size);
	text[size] = 0;
	for (size_t at = 0; at < size && ra.search_cnt < NAMES; at += strlen(text + at) + 1)
		search[ra.search_cnt++] = text + at;
	ra.search = search;
	ra.dns_cnt = switches >> 5;
	for (unsigned i = 0; i < WIRE_ND_DNS_MAX && i * 16 + 16 <= size; i++)
		ra.dns[i] = inaddr_v6(data + i * 16);
	ra.prefix = ra.dns[0];
	check_ra(b, wire_nd_emit_ra(b, &ra, &router, &router));
	free(text);
	free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *cuts;
	struct wire_nd_sol sol, back;
	struct inaddr src = router;
	struct pieces s;
	struct view v;

	if (!pieces_input(&data, &size, &cuts) || size < 2)
		return 0;
	if (data[0] & 1)
		memset(&src, 0, sizeof(src));
	v = pieces_make(&s, cuts, data + 2, size - 2);
	if (!wire_nd_parse_ns(v, data[1], &src, &sol)) {
		uint8_t b[WIRE_ND_NS_LEN];
		const struct iovec iov = { b, sizeof(b) };

		fuzz_require(data[1] == 255 && !inaddr_is_multicast(&sol.target));
		fuzz_require(!sol.has_lladdr || (macaddr_is_unicast(&sol.lladdr) && !inaddr_is_unset(&src)));
		wire_nd_emit_ns(b, &sol.target, &sol.lladdr, &router, &router);
		fuzz_require(!wire_nd_parse_ns(view_of(&iov, sizeof(b)), 255, &router, &back));
		fuzz_require(inaddr_eq(&sol.target, &back.target));
		fuzz_require(!sol.has_lladdr || macaddr_eq(&sol.lladdr, &back.lladdr));
	}
	if (!wire_nd_parse_rs(v, data[1], &src, &sol))
		fuzz_require(data[1] == 255 && inaddr_is_unset(&sol.target));
	pieces_free(&s);
	if (data[0] & 2)
		advertise(data[0], data[1], data + 2, size - 2);
	return 0;
}
