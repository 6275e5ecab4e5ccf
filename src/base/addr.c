/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Classes and text of IP and link-layer addresses.
 *
 * Refuses: names, scopes ("%eth0"), brackets, the short IPv4 forms of inet_aton(3) and the MAC forms with dashes or
 * single digits. Invariant: IPv4 is kept v4-mapped, so every question asks for the family first.
 * RFC 1122 3.2.1.3, RFC 4291 2.4 and 2.5, RFC 5952 (text, by inet_ntop).
 */
#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>

#define V4_OFF_BITS	96		/* where the IPv4 part begins */

const struct macaddr macaddr_broadcast = { { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };

static const uint8_t v4_mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
static const uint8_t zero[16];

bool inaddr_is_v4(const struct inaddr *a)
{
	return !memcmp(a->b, v4_mapped, sizeof(v4_mapped));
}

bool inaddr_is_unset(const struct inaddr *a)
{
	return inaddr_is_v4(a) ? !memcmp(a->b + 12, zero, 4) : !memcmp(a->b, zero, 16);
}

bool inaddr_is_loopback(const struct inaddr *a)
{
	if (inaddr_is_v4(a))
		return a->b[12] == 127;
	return !memcmp(a->b, zero, 15) && a->b[15] == 1;
}

struct inaddr inaddr_loopback(bool v4)
{
	static const uint8_t lo4[4] = { 127, 0, 0, 1 };
	static const uint8_t lo6[16] = { [15] = 1 };

	return v4 ? inaddr_v4(lo4) : inaddr_v6(lo6);
}

bool inaddr_is_multicast(const struct inaddr *a)
{
	return inaddr_is_v4(a) ? (a->b[12] & 0xf0) == 0xe0 : a->b[0] == 0xff;
}

bool inaddr_is_broadcast(const struct inaddr *a)
{
	return inaddr_is_v4(a) && !memcmp(a->b + 12, macaddr_broadcast.b, 4);
}

bool inaddr_is_linklocal(const struct inaddr *a)
{
	if (inaddr_is_v4(a))
		return a->b[12] == 169 && a->b[13] == 254;
	return a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

bool inaddr_is_unicast(const struct inaddr *a)
{
	return !inaddr_is_unset(a) && !inaddr_is_multicast(a) && !inaddr_is_broadcast(a);
}

bool inaddr_in_prefix(const struct inaddr *a, const struct inaddr *net, unsigned len_bits)
{
	const bool v4 = inaddr_is_v4(net);
	const unsigned max = v4 ? 32 : 128;
	unsigned bits, bytes;

	if (inaddr_is_v4(a) != v4)
		return false;
	bits = (len_bits < max ? len_bits : max) + (v4 ? V4_OFF_BITS : 0);
	bytes = bits / 8;
	if (memcmp(a->b, net->b, bytes))
		return false;
	return !(bits % 8) || !((a->b[bytes] ^ net->b[bytes]) >> (8 - bits % 8));
}

int inaddr_parse(const char *text, struct inaddr *ret)
{
	uint8_t buf[16];

	if (inet_pton(AF_INET, text, buf) == 1)
		*ret = inaddr_v4(buf);
	else if (inet_pton(AF_INET6, text, buf) == 1)
		*ret = inaddr_v6(buf);
	else
		return -EINVAL;
	return 0;
}

const char *inaddr_str(const struct inaddr *a, char *buf)
{
	const bool v4 = inaddr_is_v4(a);

	/* Can't fail: both families are known and the buffer holds the longest text */
	inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? a->b + 12 : a->b, buf, INADDR_STR_MAX);
	return buf;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int macaddr_parse(const char *text, struct macaddr *ret)
{
	struct macaddr m;

	for (unsigned i = 0; i < 6; i++, text += 3) {
		const int hi = hex_digit(text[0]);
		const int lo = hi < 0 ? -1 : hex_digit(text[1]);

		if (lo < 0 || text[2] != (i < 5 ? ':' : '\0'))
			return -EINVAL;
		m.b[i] = (uint8_t)(hi << 4 | lo);
	}
	*ret = m;
	return 0;
}

bool macaddr_is_unicast(const struct macaddr *m)
{
	return !(m->b[0] & 1) && memcmp(m->b, zero, 6);
}
