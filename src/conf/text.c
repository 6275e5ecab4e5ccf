/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Readers of single values: numbers, addresses, interface names. All of the
 * text must belong to the value: no blanks, no signs, nothing behind it, and
 * nothing of what does not fit is cut off.
 */
#include "conf_priv.h"

#include "base/bytes.h"

static int conf_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return INT_MAX;
}

/* Base 0: as in C, by the prefix */
bool conf_text_num(const char *p, size_t len, int base, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (!base) {
		base = 10;
		if (len > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
			base = 16;
			i = 2;
		} else if (len > 1 && p[0] == '0') {
			base = 8;
			i = 1;
		}
	}
	if (i >= len)
		return false;
	for (; i < len; i++) {
		int d = conf_digit(p[i]);

		if (d >= base || v > (max - BYTES_MIN(max, (uint64_t)d)) / (uint64_t)base)
			return false;
		v = v * (uint64_t)base + (uint64_t)d;
	}
	if (v > max)
		return false;
	*ret = v;
	return true;
}

bool conf_text_addr(const char *p, size_t len, struct inaddr *ret)
{
	char buf[INADDR_STR_MAX];

	if (len > 2 && p[0] == '[' && p[len - 1] == ']') {
		p++;
		len -= 2;
	}
	if (len >= sizeof(buf) || memchr(p, 0, len))
		return false;
	memcpy(buf, p, len);
	buf[len] = 0;
	return !inaddr_parse(buf, ret);
}

bool conf_text_is_ifname(const char *p, size_t len)
{
	size_t i;

	if (!len || len >= CONF_IFNAME_MAX || (p[0] == '.' && (len == 1 || (len == 2 && p[1] == '.'))))
		return false;
	for (i = 0; i < len; i++) {
		if (p[i] == '/' || p[i] == ' ' || (p[i] >= '\t' && p[i] <= '\r') || !p[i])
			return false;
	}
	return true;
}
