/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ICMP and ICMPv6 headers of eight bytes: echo and errors.
 *
 * Refuses only what is shorter; types, codes and checksums are the caller's business (L2-13).
 * RFC 792, RFC 4443 2.1 and 2.3.
 */
#include "wire/icmp.h"

#include <errno.h>

#include "base/bytes.h"
#include "base/csum.h"
#include "wire/ip.h"

int wire_icmp_parse(struct view *v, struct wire_icmp *ret)
{
	uint8_t bounce[WIRE_ICMP_LEN];
	const uint8_t *p = view_pull(v, bounce, WIRE_ICMP_LEN);

	if (!p)
		return -EBADMSG;
	ret->type = p[0];
	ret->code = p[1];
	ret->id = bytes_get16(p + 4);
	ret->seq = bytes_get16(p + 6);
	return 0;
}

void wire_icmp_emit(uint8_t *p, const struct wire_icmp *h, const struct view *body,
		    const struct inaddr *src6, const struct inaddr *dst6)
{
	const uint32_t len = WIRE_ICMP_LEN + (body ? body->len : 0);
	uint32_t sum = src6 ? csum_pseudo(src6, dst6, WIRE_IP_ICMP6, len) : 0;

	p[0] = h->type;
	p[1] = h->code;
	bytes_put16(p + 2, 0);
	bytes_put16(p + 4, h->id);
	bytes_put16(p + 6, h->seq);
	sum = csum_add(sum, p, WIRE_ICMP_LEN);
	if (body)
		sum = csum_add_view(sum, body);
	bytes_put16(p + 2, csum_done(sum));
}
