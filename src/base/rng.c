/* SPDX-License-Identifier: BSD-3-Clause
 *
 * xoshiro256** (Blackman, Vigna 2018), its state filled by SplitMix64 as the authors advise.
 *
 * Refuses to make keys: who sees a few outputs can compute the rest. Invariant: the state is never all zero, whatever
 * the seed, and equal seeds give equal runs on every machine.
 */
#include "base/rng.h"

static inline uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

void rng_seed(struct rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		r->s[i] = z ^ z >> 31;
	}
}

uint64_t rng_u64(struct rng *r)
{
	const uint64_t ret = rotl(r->s[1] * 5, 7) * 9;
	const uint64_t t = r->s[1] << 17;

	r->s[2] ^= r->s[0];
	r->s[3] ^= r->s[1];
	r->s[1] ^= r->s[2];
	r->s[0] ^= r->s[3];
	r->s[2] ^= t;
	r->s[3] = rotl(r->s[3], 45);
	return ret;
}

uint32_t rng_below(struct rng *r, uint32_t n)
{
	/* Multiply and keep the upper half; the few low values that would favour some results are drawn again */
	const uint32_t reject = -n % n;
	uint64_t m;

	do
		m = (rng_u64(r) >> 32) * n;
	while ((uint32_t)m < reject);
	return (uint32_t)(m >> 32);
}
