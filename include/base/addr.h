/* SPDX-License-Identifier: BSD-3-Clause
 *
 * IP addresses of both families in one type: IPv4 is kept v4-mapped
 * (RFC 4291 2.5.5.2), so that one comparison and one hash serve both.
 * Link-layer addresses are plain six bytes.
 */
#ifndef BASE_ADDR_H
#define BASE_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct inaddr {
	uint8_t b[16];			/* network order; IPv4 in b[12..15] */
} __attribute__((aligned(8)));

struct macaddr {
	uint8_t b[6];
};

#define INADDR_STR_MAX	46		/* INET6_ADDRSTRLEN: text with final NUL */

/* From four bytes in network order */
static inline struct inaddr inaddr_v4(const void *four)
{
	struct inaddr a = { { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff } };

	memcpy(a.b + 12, four, 4);
	return a;
}

/* From sixteen bytes in network order */
static inline struct inaddr inaddr_v6(const void *sixteen)
{
	struct inaddr a;

	memcpy(a.b, sixteen, 16);
	return a;
}

static inline bool inaddr_eq(const struct inaddr *x, const struct inaddr *y)
{
	return !memcmp(x->b, y->b, 16);
}

bool inaddr_is_v4(const struct inaddr *a);
bool inaddr_is_unset(const struct inaddr *a);		/* ::, or 0.0.0.0 */
bool inaddr_is_loopback(const struct inaddr *a);	/* 127/8, ::1 */
struct inaddr inaddr_loopback(bool v4);			/* 127.0.0.1, or ::1 */
bool inaddr_is_multicast(const struct inaddr *a);	/* 224/4, ff00::/8 */
bool inaddr_is_broadcast(const struct inaddr *a);	/* 255.255.255.255 */
bool inaddr_is_linklocal(const struct inaddr *a);	/* 169.254/16, fe80::/10 */
/* May be the source or the target of a connection */
bool inaddr_is_unicast(const struct inaddr *a);
bool inaddr_in_prefix(const struct inaddr *a, const struct inaddr *net, unsigned len_bits);

/* Text to address: 0, or -EINVAL; v4-mapped text gives IPv4. No scope suffix, no brackets. */
int inaddr_parse(const char *text, struct inaddr *ret);
/* Address to text in BUF (INADDR_STR_MAX bytes); returns BUF */
const char *inaddr_str(const struct inaddr *a, char *buf);

extern const struct macaddr macaddr_broadcast;
static inline bool macaddr_eq(const struct macaddr *x, const struct macaddr *y)
{
	return !memcmp(x->b, y->b, 6);
}
/* "xx:xx:xx:xx:xx:xx", exactly 17 characters: 0 or -EINVAL */
int macaddr_parse(const char *text, struct macaddr *ret);
/* Individual (no I/G bit) and not all zero: fit to be a source */
bool macaddr_is_unicast(const struct macaddr *m);

#endif
