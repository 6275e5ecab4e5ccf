/* SPDX-License-Identifier: BSD-3-Clause
 *
 * SipHash-2-4 (Aumasson, Bernstein 2012) with a 128-bit key: table positions
 * and initial sequence numbers that a guest or peer can't predict.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k[2];
};

uint64_t hash_sip(const struct hash_key *key, const void *p, size_t len);

#endif
