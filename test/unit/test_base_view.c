/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Views over split pieces against the flat bytes.
 */
#include "split.h"

#include <errno.h>

#define LEN 24

static uint8_t flat[LEN];

static int fill(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LEN; i++)
		flat[i] = (uint8_t)(i * 7 + 3);
	return 0;
}

static bool same(const struct view *v, const uint8_t *p, uint32_t len)
{
	uint8_t out[LEN + 8];

	memset(out, 0, sizeof(out));
	return v->len == len && view_copy(v, out, sizeof(out)) == len && !memcmp(out, p, len);
}

static void pull_and_peek(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(LEN); way++) {
		for (uint32_t skip = 0; skip <= LEN; skip++) {
			for (uint32_t len = 0; len <= LEN + 2; len++) {
				uint8_t bounce[LEN + 2];
				struct split s;
				struct view v = split_make(&s, flat, LEN, way), w;
				const void *p;

				view_skip(&v, skip);
				w = v;
				p = view_peek(&v, bounce, len);
				assert_true(same(&v, flat + skip, LEN - skip));
				if (skip + len > LEN) {
					assert_null(p);
					assert_null(view_pull(&w, bounce, len));
					assert_true(same(&w, flat + skip, LEN - skip));
				} else {
					assert_non_null(p);
					assert_memory_equal(p, flat + skip, len);
					p = view_pull(&w, bounce, len);
					assert_non_null(p);
					assert_memory_equal(p, flat + skip, len);
					assert_true(same(&w, flat + skip + len, LEN - skip - len));
				}
				split_free(&s);
			}
		}
	}
}

/* A header in one piece isn't copied */
static void no_copy(void **state)
{
	const struct iovec iov[] = { { flat, 0 }, { flat, 10 }, { flat + 10, LEN - 10 } };
	struct view v = view_of(iov, LEN);

	(void)state;
	assert_ptr_equal(view_peek(&v, NULL, 10), flat);
	assert_ptr_equal(view_pull(&v, NULL, 4), flat);
	assert_ptr_equal(view_pull(&v, NULL, 6), flat + 4);
	assert_ptr_equal(v.iov, iov + 2);
	assert_ptr_equal(view_pull(&v, NULL, 8), flat + 10);
	assert_ptr_equal(view_pull(&v, NULL, LEN - 18), flat + 18);
	assert_int_equal(v.len, 0);
	assert_non_null(view_pull(&v, NULL, 0));
	assert_null(view_pull(&v, NULL, 1));
}

static void empty(void **state)
{
	struct view v = view_of(NULL, 0);
	uint8_t b[1];

	(void)state;
	assert_null(view_peek(&v, b, 1));
	assert_non_null(view_peek(&v, b, 0));
	view_skip(&v, 5);
	view_trim(&v, 5);
	assert_int_equal(v.len, 0);
	assert_int_equal(view_copy(&v, b, 1), 0);
	assert_int_equal(view_iov(&v, NULL, 0), 0);
}

static void skip_and_trim(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(LEN); way++) {
		for (uint32_t a = 0; a <= LEN + 2; a++) {
			for (uint32_t b = 0; b <= LEN + 2; b++) {
				const uint32_t from = a < LEN ? a : LEN, to = b < LEN - from ? from + b : LEN;
				struct split s;
				struct view v = split_make(&s, flat, LEN, way);

				view_skip(&v, a);
				view_trim(&v, b);
				assert_true(same(&v, flat + from, to - from));
				/* In two steps to the same place */
				view_skip(&v, (to - from) / 2);
				assert_true(same(&v, flat + from + (to - from) / 2, to - from - (to - from) / 2));
				split_free(&s);
			}
		}
	}
}

static void copy_short(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(LEN); way++) {
		for (uint32_t len = 0; len <= LEN; len++) {
			uint8_t out[LEN + 1];
			struct split s;
			const struct view v = split_make(&s, flat, LEN, way);

			memset(out, 0xee, sizeof(out));
			assert_int_equal(view_copy(&v, out, len), len);
			assert_memory_equal(out, flat, len);
			assert_int_equal(out[len], 0xee);
			split_free(&s);
		}
	}
}

static void pieces(void **state)
{
	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(LEN); way++) {
		for (uint32_t skip = 0; skip <= LEN; skip++) {
			struct iovec iov[LEN + 1];
			uint8_t out[LEN];
			uint32_t at = 0;
			struct split s;
			struct view v = split_make(&s, flat, LEN, way);
			int n;

			view_skip(&v, skip);
			n = view_iov(&v, iov, LEN + 1);
			assert_in_range(n, skip < LEN ? 1 : 0, LEN);
			for (int i = 0; i < n; i++) {
				assert_true(iov[i].iov_len);
				memcpy(out + at, iov[i].iov_base, iov[i].iov_len);
				at += (uint32_t)iov[i].iov_len;
			}
			assert_int_equal(at, LEN - skip);
			assert_memory_equal(out, flat + skip, at);
			assert_int_equal(view_iov(&v, iov, n), n);
			if (n)
				assert_int_equal(view_iov(&v, iov, n - 1), -ENOBUFS);
			split_free(&s);
		}
	}
}

static void scatter(void **state)
{
	uint8_t zero[LEN] = { 0 };

	(void)state;
	for (uint32_t way = 0; way < SPLIT_WAYS(LEN); way++) {
		for (uint32_t off = 0; off <= LEN; off++) {
			for (uint32_t len = 0; off + len <= LEN; len++) {
				uint8_t want[LEN] = { 0 };
				struct split s;
				const struct view v = split_make(&s, zero, LEN, way);

				memcpy(want + off, flat, len);
				view_scatter(s.iov, off, flat, len);
				assert_true(same(&v, want, LEN));
				split_free(&s);
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pull_and_peek), cmocka_unit_test(no_copy), cmocka_unit_test(empty),
		cmocka_unit_test(skip_and_trim), cmocka_unit_test(copy_short), cmocka_unit_test(pieces),
		cmocka_unit_test(scatter),
	};

	return cmocka_run_group_tests_name("base/view", tests, fill, NULL);
}
