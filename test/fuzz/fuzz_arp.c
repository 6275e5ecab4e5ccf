/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP: what is taken is written back byte for byte.
 */
#include "pieces.h"
#include "wire/arp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t b[WIRE_ARP_LEN];
	const uint8_t *cuts;
	struct wire_arp a;
	struct pieces s;

	if (!pieces_input(&data, &size, &cuts))
		return 0;
	if (!wire_arp_parse(pieces_make(&s, cuts, data, size), &a)) {
		wire_arp_emit(b, &a);
		fuzz_require(!memcmp(b, data, sizeof(b)));
	}
	pieces_free(&s);
	return 0;
}
