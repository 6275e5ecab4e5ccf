/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Choice of a resolver for the forwarding address. The order of the list
 * counts, as it does to a resolver library; a server that failed is left alone
 * for a time that doubles with each failure, until it answers again. Where all
 * have failed, the one whose time is over first is as good as any.
 *
 * It asks nobody itself, and looks into no message.
 */
#include "flow/fwd_dns.h"

#include "flow/fwd.h"

#define DNS_PORT	53
#define DNS_PORT_TLS	853		/* RFC 7858 3.1, RFC 9250 4.1.1 */
#define DNS_BAD_MIN	(10 * NS_S)	/* an answer within this time would be a resolver's second try, and late */
#define DNS_BAD_MAX	(60 * NS_S)	/* to try it again costs one query a fraction of a second */

struct fwd_dns *fwd_dns_of(struct fwd *w, const struct inaddr *dst, uint16_t port)
{
	struct fwd_family_set *s = &w->f[fwd_family_of(dst)];

	if ((port != DNS_PORT && port != DNS_PORT_TLS) || !s->dns.cnt || inaddr_is_unset(&s->dns_match) ||
	    !inaddr_eq(&s->dns_match, dst))
		return NULL;
	return &s->dns;
}

bool fwd_dns_set(struct fwd_dns *d, const struct fwd_dns_server *server, unsigned cnt)
{
	bool same;

	if (cnt > FWD_DNS_MAX)
		cnt = FWD_DNS_MAX;
	same = d->cnt == cnt;
	for (unsigned i = 0; same && i < cnt; i++)
		same = inaddr_eq(&d->server[i].addr, &server[i].addr) && d->server[i].scope == server[i].scope;
	if (same)
		return false;
	for (unsigned i = 0; i < cnt; i++)
		d->server[i] = (struct fwd_dns_server){ .addr = server[i].addr, .scope = server[i].scope };
	d->cnt = cnt;
	d->gen++;
	return true;
}

int fwd_dns_pick(const struct fwd_dns *d, enum fwd_dns_service s, uint32_t asked, ns_t now)
{
	int best = -1;

	for (unsigned i = 0; i < d->cnt; i++) {
		const ns_t until = d->server[i].health[s].bad_until;

		if (asked & 1u << i)
			continue;
		if (until <= now)
			return (int)i;
		if (best < 0 || until < d->server[best].health[s].bad_until)
			best = (int)i;
	}
	return best;
}

void fwd_dns_failed(struct fwd_dns *d, unsigned i, enum fwd_dns_service s, ns_t now)
{
	struct fwd_dns_health *h;
	ns_t wait = DNS_BAD_MIN;

	if (i >= d->cnt)
		return;
	h = &d->server[i].health[s];
	if (h->bad_until > now)		/* of many queries that wait, each tells it */
		return;
	for (unsigned n = 0; n < h->failed_cnt && wait < DNS_BAD_MAX; n++)
		wait *= 2;
	h->bad_until = now + (wait < DNS_BAD_MAX ? wait : DNS_BAD_MAX);
	if (h->failed_cnt < UINT8_MAX)
		h->failed_cnt++;
}

void fwd_dns_answered(struct fwd_dns *d, unsigned i, enum fwd_dns_service s)
{
	if (i < d->cnt)
		d->server[i].health[s] = (struct fwd_dns_health){ 0 };
}
