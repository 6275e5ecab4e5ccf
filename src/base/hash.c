/* SPDX-License-Identifier: BSD-3-Clause
 *
 * SipHash-2-4: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012.
 *
 * Refuses to be a hash without a key: the key is what keeps guests and peers from choosing collisions. Invariant:
 * the result is that of the paper on every byte order.
 */
#include "base/hash.h"

#include <string.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static inline uint64_t le64(uint64_t x)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return __builtin_bswap64(x);
#else
	return x;
#endif
}

static inline void sip_round(struct sip *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotl(s->v1, 13) ^ s->v0;
	s->v3 = rotl(s->v3, 16) ^ s->v2;
	s->v0 = rotl(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotl(s->v1, 17) ^ s->v2;
	s->v3 = rotl(s->v3, 21) ^ s->v0;
	s->v2 = rotl(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t m)
{
	s->v3 ^= m;
	sip_round(s);
	sip_round(s);
	s->v0 ^= m;
}

uint64_t hash_sip(const struct hash_key *key, const void *p, size_t len)
{
	struct sip s = {
		.v0 = key->k[0] ^ 0x736f6d6570736575, .v1 = key->k[1] ^ 0x646f72616e646f6d,
		.v2 = key->k[0] ^ 0x6c7967656e657261, .v3 = key->k[1] ^ 0x7465646279746573,
	};
	const uint8_t *b = p;
	uint64_t m, last = (uint64_t)len << 56;
	size_t left = len;

	for (; left >= 8; b += 8, left -= 8) {
		memcpy(&m, b, 8);
		sip_word(&s, le64(m));
	}
	for (size_t i = 0; i < left; i++)
		last |= (uint64_t)b[i] << (8 * i);
	sip_word(&s, last);

	s.v2 ^= 0xff;
	for (int i = 0; i < 4; i++)
		sip_round(&s);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
