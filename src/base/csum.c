/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Internet checksum: sums in the machine's byte order, 8 to 32 bytes a step.
 *
 * Refuses nothing. Invariants: a one's complement sum may be built in any byte order and swapped at the end
 * (RFC 1071 2.B); it is zero only if every byte was zero, so that the choice between 0 and 0xffff is that of the
 * plain algorithm. Partial sums carry around at 32 bits and never overflow, however much is added.
 */
#include "base/csum.h"

#include "base/bytes.h"

#define LONG_MIN_BYTES	256		/* from here on the vector loop pays */
#define LONG_STEP	64
/* Lanes are 32 bits and gain at most 0xffff twice a step: drain them in time */
#define LONG_MAX_STEPS	16384

static inline uint32_t add32(uint32_t a, uint32_t b)
{
	const uint32_t s = a + b;

	return s + (s < a);
}

static inline uint16_t fold32(uint32_t sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)sum;
}

static inline uint16_t fold64(uint64_t s)
{
	s = (s & 0xffffffff) + (s >> 32);
	s = (s & 0xffffffff) + (s >> 32);
	return fold32((uint32_t)s);
}

uint16_t csum_fold(uint32_t sum)
{
	return fold32(sum);
}

/* Machine order, in 32-bit halves: no carry is lost for less than 2^32 words */
static inline uint64_t sum_short(const uint8_t *p, size_t len)
{
	uint64_t lo = 0, hi = 0, w;
	uint32_t w4;
	uint16_t w2;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&w, p, 8);
		lo += (uint32_t)w;
		hi += w >> 32;
	}
	if (len & 4) {
		memcpy(&w4, p, 4);
		lo += w4;
		p += 4;
	}
	if (len & 2) {
		memcpy(&w2, p, 2);
		hi += w2;
		p += 2;
	}
	if (len & 1) {
		w2 = 0;
		memcpy(&w2, p, 1);
		hi += w2;
	}
	return lo + hi;
}

typedef uint32_t lanes __attribute__((vector_size(32)));

/* Body of the loop over whole steps; compiled once for every instruction set below */
static inline __attribute__((always_inline)) uint64_t sum_steps(const uint8_t *p, size_t steps)
{
	uint64_t total = 0;

	while (steps) {
		const size_t run = BYTES_MIN(steps, (size_t)LONG_MAX_STEPS);
		lanes even = { 0 }, odd = { 0 };

		for (size_t i = 0; i < run; i++, p += LONG_STEP) {
			lanes x, y;

			memcpy(&x, p, sizeof(x));
			memcpy(&y, p + sizeof(x), sizeof(y));
			even += (x & 0xffff) + (y & 0xffff);
			odd += (x >> 16) + (y >> 16);
		}
		for (unsigned i = 0; i < sizeof(lanes) / sizeof(uint32_t); i++)
			total += (uint64_t)even[i] + odd[i];
		steps -= run;
	}
	return total;
}

static uint64_t sum_steps_any(const uint8_t *p, size_t steps)
{
	return sum_steps(p, steps);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static uint64_t sum_steps_avx2(const uint8_t *p, size_t steps)
{
	return sum_steps(p, steps);
}

static uint64_t sum_long(const uint8_t *p, size_t steps)
{
	return __builtin_cpu_supports("avx2") ? sum_steps_avx2(p, steps) : sum_steps_any(p, steps);
}
#else
static uint64_t sum_long(const uint8_t *p, size_t steps)
{
	return sum_steps_any(p, steps);
}
#endif

/* Sum of LEN bytes, folded, as a big-endian number */
static uint16_t sum16(const uint8_t *p, size_t len)
{
	uint64_t s = 0;
	uint16_t f;

	if (len >= LONG_MIN_BYTES) {
		const size_t steps = len / LONG_STEP;

		s = sum_long(p, steps);
		p += steps * LONG_STEP;
		len -= steps * LONG_STEP;
	}
	f = fold64(s + sum_short(p, len));
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	f = __builtin_bswap16(f);
#endif
	return f;
}

uint32_t csum_add(uint32_t sum, const void *p, size_t len)
{
	return add32(sum, sum16(p, len));
}

uint32_t csum_add_view(uint32_t sum, const struct view *v)
{
	const struct iovec *iov = v->iov;
	uint32_t off = v->off, n;
	uint32_t done = 0;

	for (uint32_t left = v->len; left; left -= n, done += n, iov++, off = 0) {
		uint16_t f;

		n = (uint32_t)BYTES_MIN(iov->iov_len - off, left);
		if (!n)
			continue;
		f = sum16((const uint8_t *)iov->iov_base + off, n);
		/* A piece at an odd place contributes with its bytes swapped (RFC 1071 2.A) */
		sum = add32(sum, done & 1 ? __builtin_bswap16(f) : f);
	}
	return sum;
}

uint32_t csum_pseudo(const struct inaddr *src, const struct inaddr *dst, uint8_t proto, uint32_t len)
{
	const unsigned from = inaddr_is_v4(src) ? 12 : 0;
	uint32_t sum = add32(proto, (len & 0xffff) + (len >> 16));

	sum = csum_add(sum, src->b + from, 16 - from);
	return csum_add(sum, dst->b + from, 16 - from);
}
