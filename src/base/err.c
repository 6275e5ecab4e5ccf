/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Errors with words.
 *
 * Refuses to hand on control characters: texts may quote what a user or a file said, and become one line of a log.
 * Invariant: the text is terminated; what doesn't fit is cut off.
 */
#include "base/err.h"

#include <stdio.h>

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	char *c;

	e->code = code;
	e->text[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);

	for (c = e->text; *c; c++) {
		if (*c == '\n' && !c[1]) {
			*c = '\0';
			break;
		}
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return code;
}
