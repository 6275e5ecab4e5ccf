/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From one resolver to the next: what UDP and TCP share of it. The list
 * outlives no flow, so a flow names a server by index and generation of the
 * list. Keeps no time of its own.
 */
#include "proto/dns.h"

static struct fwd_dns *dns_list(const struct proto *p, const struct flow_key *key)
{
	return fwd_dns_of(p->fwd, &key->far, key->far_port);
}

/* ... if it is the one that the flow knows */
static struct fwd_dns *dns_known(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	struct fwd_dns *l = d->on ? dns_list(p, key) : NULL;

	return l && l->gen == d->gen ? l : NULL;
}

static enum fwd_dns_service dns_service(const struct flow_key *key)
{
	if (key->proto == FLOW_TCP)
		return key->far_port == PROTO_DNS_PORT ? FWD_DNS_TCP : FWD_DNS_TLS;
	return key->far_port == PROTO_DNS_PORT ? FWD_DNS_UDP : FWD_DNS_QUIC;
}

bool proto_dns_next(struct proto *p, const struct flow_key *key, struct proto_dns *d, struct sk_addr *ret)
{
	const struct fwd_dns *l = dns_list(p, key);
	int i;

	if (!l)
		return false;
	p->dns_cnt++;
	if (!d->on || d->gen != l->gen)
		*d = (struct proto_dns){ .on = true, .gen = l->gen };
	i = fwd_dns_pick(l, dns_service(key), d->asked, p->env->now);
	if (i < 0)
		return false;
	d->server = (uint8_t)i;
	d->asked |= (uint8_t)(1u << i);
	*ret = (struct sk_addr){ .a = l->server[i].addr, .port = key->far_port, .scope = l->server[i].scope };
	if (!ret->scope && !inaddr_is_v4(&ret->a) && inaddr_is_linklocal(&ret->a))
		ret->scope = p->fwd->f[FWD_V6].scope;
	return true;
}

bool proto_dns_stale(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	const struct fwd_dns *l = d->on ? dns_list(p, key) : NULL;

	return l && l->gen != d->gen;
}

bool proto_dns_more(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	const struct fwd_dns *l = dns_known(p, key, d);

	return l && fwd_dns_pick(l, dns_service(key), d->asked, p->env->now) >= 0;
}

void proto_dns_failed(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	struct fwd_dns *l = dns_known(p, key, d);

	if (l)
		fwd_dns_failed(l, d->server, dns_service(key), p->env->now);
}

void proto_dns_answered(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	struct fwd_dns *l = dns_known(p, key, d);

	if (l)
		fwd_dns_answered(l, d->server, dns_service(key));
}

bool proto_dns_doubted(const struct proto *p, const struct flow_key *key, const struct proto_dns *d)
{
	const struct fwd_dns *l = dns_known(p, key, d);

	return l && l->server[d->server].health[dns_service(key)].failed_cnt;
}
