/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Errors with words: code, one line, cut to size.
 */
#include "base/err.h"

#include <errno.h>

#include "split.h"

static void words(void **state)
{
	struct err e = { 0 };

	(void)state;
	assert_int_equal(err_set(&e, -EINVAL, "port %d of %s", 80, "guest"), -EINVAL);
	assert_int_equal(e.code, -EINVAL);
	assert_string_equal(e.text, "port 80 of guest");
	assert_int_equal(err_set(&e, -ENOENT, "%s", ""), -ENOENT);
	assert_string_equal(e.text, "");
}

static void one_line(void **state)
{
	struct err e;

	(void)state;
	err_set(&e, -EINVAL, "%s", "a\nb\tc\033[31m\177\n");
	assert_string_equal(e.text, "a?b?c?[31m?");
	err_set(&e, -EINVAL, "\n");
	assert_string_equal(e.text, "");
	err_set(&e, -EINVAL, "%s", "\xc3\xa4");
	assert_string_equal(e.text, "\xc3\xa4");
}

static void long_text(void **state)
{
	struct err e;
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	for (unsigned len = sizeof(e.text) - 3; len < sizeof(e.text) + 3; len++) {
		const size_t want = len < sizeof(e.text) ? len : sizeof(e.text) - 1;

		memset(&e, 0xff, sizeof(e));
		err_set(&e, -E2BIG, "%s", text + sizeof(text) - 1 - len);
		assert_int_equal(strlen(e.text), want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words), cmocka_unit_test(one_line), cmocka_unit_test(long_text),
	};

	return cmocka_run_group_tests_name("base/err", tests, NULL, NULL);
}
