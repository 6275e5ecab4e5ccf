/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pseudo-random numbers (xoshiro256**), seeded by app from the kernel and by
 * tests from a printed seed. Not for secrets: keys come from the seed directly.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

void rng_seed(struct rng *r, uint64_t seed);
uint64_t rng_u64(struct rng *r);
/* Uniform in [0, n), n > 0 */
uint32_t rng_below(struct rng *r, uint32_t n);

#endif
