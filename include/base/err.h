/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An error with words, in the caller's storage: for set-up code of all rooms.
 * Functions that take a struct err return its negative errno.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

struct err {
	int code;			/* negative errno, 0: none */
	char text[400];			/* one line, no final newline */
};

/* Set code and text; returns CODE, so that `return err_set(e, -EINVAL, ...)` reads well */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
