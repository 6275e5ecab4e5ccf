/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Port specs, the arguments of -t, -u, -T and -U, into forwarding rules:
 *
 *	spec   = "none" | [ listen "/" ] chunk { "," chunk }
 *	listen = [ address | "*" ] [ "%" ifname ]
 *	chunk  = "auto" | "all" [ ":" address ] | "~" range | range [ ":" target ]
 *	target = address [ "/" range ] | range
 *	range  = port [ "-" port ]
 *
 * What precedes the first slash is tried as `listen` before anything else.
 * Exclusions and "auto" hold for the whole spec, wherever they stand. It binds
 * nothing: that ports are free is for app to find out.
 *
 * Invariants of a table: no two rules of one protocol could want the same port
 * of the same address, and ports are 1 to 65535 on both sides.
 */
#include "conf_priv.h"

#include <errno.h>

#include "base/bytes.h"

#define CONF_PORT_MAX	65535u
#define CONF_SHOWN	60		/* bytes of an argument in a message */

struct conf_chunk {			/* text between commas */
	const char *p;
	size_t len;
};

struct conf_scan {			/* one spec being read */
	const struct conf_spec *s;
	const char *text;		/* the whole of it */
	struct fwd_rules *rules;
	struct err *e;
	struct fwd_rule rule;		/* what all rules of this spec have in common */
	bool includes;			/* some chunk names ports */
	struct inaddr all_target;	/* of the last "all" */
	uint8_t skip[(CONF_PORT_MAX + 8) / 8];	/* a bit for each excluded port */
};

static int conf_chunk_err(const struct conf_scan *n, const struct conf_chunk *k, const char *why)
{
	/* an empty part is shown by what it is a part of */
	return err_set(n->e, -EINVAL, "--%s '%.*s': %s", n->s->opt,
		       k->len ? (int)BYTES_MIN(k->len, (size_t)CONF_SHOWN) : CONF_SHOWN, k->len ? k->p : n->text, why);
}

/* The chunk at *P, which moves behind its comma, or to NULL after the last one */
static struct conf_chunk conf_chunk_next(const char **p)
{
	struct conf_chunk k = { *p, strcspn(*p, ",") };

	*p = k.p[k.len] ? k.p + k.len + 1 : NULL;
	return k;
}

static bool conf_chunk_is(const struct conf_chunk *k, const char *word)
{
	return k->len == strlen(word) && !memcmp(k->p, word, k->len);
}

/* Blanks and a sign in front are what callers of the reference program get away with: "22, 23" */
static bool conf_port(const char *p, size_t len, uint16_t *ret)
{
	uint64_t port;

	while (len && (*p == ' ' || (*p >= '\t' && *p <= '\r'))) {
		p++;
		len--;
	}
	if (len && *p == '+') {
		p++;
		len--;
	}
	if (!conf_text_num(p, len, 10, CONF_PORT_MAX, &port))
		return false;
	*ret = (uint16_t)port;
	return true;
}

static bool conf_range(const char *p, size_t len, uint16_t *ret_first, uint16_t *ret_last)
{
	const char *dash = memchr(p, '-', len);
	uint16_t first, last;

	if (!conf_port(p, dash ? (size_t)(dash - p) : len, &first))
		return false;
	last = first;
	if (dash && !conf_port(dash + 1, len - (size_t)(dash + 1 - p), &last))
		return false;
	if (first > last)
		return false;
	*ret_first = first;
	*ret_last = last;
	return true;
}

/* Could one packet match the addresses of both? */
static bool conf_listen_overlap(const struct fwd_rule *x, const struct fwd_rule *y)
{
	if (*x->ifname && *y->ifname && strcmp(x->ifname, y->ifname))
		return false;
	if (x->any || y->any)
		return true;
	if (inaddr_is_v4(&x->listen) != inaddr_is_v4(&y->listen))
		return false;
	return inaddr_is_unset(&x->listen) || inaddr_is_unset(&y->listen) || inaddr_eq(&x->listen, &y->listen);
}

static int conf_rule_add(const struct conf_scan *n, const struct fwd_rule *new)
{
	unsigned i, sockets = new->last - new->first + 1u;
	char name[2][FWD_RULE_STR_MAX];
	struct fwd_rules *t = n->rules;

	for (i = 0; i < t->cnt; i++) {
		const struct fwd_rule *o = &t->rule[i];

		sockets += o->last - o->first + 1u;
		if (o->proto == new->proto && o->first <= new->last && new->first <= o->last &&
		    conf_listen_overlap(o, new))
			return err_set(n->e, -EEXIST, "--%s: overlap of %s and, given before, %s", n->s->opt,
				       fwd_rule_name(new, n->s->ns, new->first, new->last, name[0]),
				       fwd_rule_name(o, n->s->ns, o->first, o->last, name[1]));
	}
	if (t->cnt == FWD_RULE_MAX)
		return err_set(n->e, -E2BIG, "--%s: more than %d ranges of ports", n->s->opt, FWD_RULE_MAX);
	if (sockets > CONF_SOCKETS_MAX)
		return err_set(n->e, -E2BIG, "--%s: more than %u ports to listen on", n->s->opt, CONF_SOCKETS_MAX);
	t->rule[t->cnt++] = *new;
	return 0;
}

/* The first port from FIRST to LAST that is excluded, or is not; LAST + 1: none. Bytes that are all alike are passed as a
 * whole: this runs over all ports with each start, by default four times.
 */
static unsigned conf_find(const struct conf_scan *n, unsigned first, unsigned last, bool excluded)
{
	while (first <= last && (n->skip[first / 8] >> first % 8 & 1) != excluded)
		first += first % 8 == 0 && n->skip[first / 8] == (excluded ? 0 : 0xff) ? 8 : 1;
	return BYTES_MIN(first, last + 1);
}

static void conf_skip(struct conf_scan *n, unsigned first, unsigned last)
{
	for (; first <= last && first % 8; first++)
		n->skip[first / 8] |= (uint8_t)(1 << first % 8);
	if (first + 7 <= last) {
		memset(n->skip + first / 8, 0xff, (last + 1 - first) / 8);
		first = (last + 1) & ~7u;
	}
	for (; first <= last; first++)
		n->skip[first / 8] |= (uint8_t)(1 << first % 8);
}

/* Rules for what exclusions leave of RULE's ports */
static int conf_rule_split(const struct conf_scan *n, const struct fwd_rule *rule)
{
	unsigned first = rule->first, last;

	while ((first = conf_find(n, first, rule->last, false)) <= rule->last) {
		struct fwd_rule part = *rule;
		int r;

		last = conf_find(n, first, rule->last, true) - 1;
		part.first = (uint16_t)first;
		part.last = (uint16_t)last;
		part.target_first = (uint16_t)(rule->target_first + (first - rule->first));
		r = conf_rule_add(n, &part);
		if (r)
			return r;
		first = last + 1;
	}
	return 0;
}

/* The target address of chunk K, checked against where its rules listen */
static int conf_target_addr(const struct conf_scan *n, const struct conf_chunk *k, const char *p, size_t len,
			    struct inaddr *ret)
{
	struct inaddr a;

	if (!conf_text_addr(p, len, &a))
		return conf_chunk_err(n, k, "the target is neither a port, nor a range, nor an address");
	if (inaddr_is_unset(&a) || inaddr_is_multicast(&a) || inaddr_is_broadcast(&a))
		return conf_chunk_err(n, k, "the target is not the address of one host");
	if (n->rule.any && n->s->ns)
		return conf_chunk_err(n, k, "a target address needs --ipv4-only or --ipv6-only here");
	if (n->rule.any)
		return conf_chunk_err(n, k, "a target address needs one family to listen on: "
				      "begin with 0.0.0.0/ or [::]/");
	if (inaddr_is_v4(&a) != inaddr_is_v4(&n->rule.listen))
		return conf_chunk_err(n, k, "the target is of another family than the listening address, or of one "
				      "that is switched off");
	*ret = a;
	return 0;
}

/* Target LEN bytes at P of chunk K: into RULE, whose ports are known */
static int conf_target(const struct conf_scan *n, const struct conf_chunk *k, const char *p, size_t len,
		       struct fwd_rule *rule)
{
	const char *slash = memchr(p, '/', len);
	uint16_t first = rule->first, last = rule->last;
	int r;

	if (slash || !conf_range(p, len, &first, &last)) {
		r = conf_target_addr(n, k, p, slash ? (size_t)(slash - p) : len, &rule->target);
		if (r)
			return r;
		if (slash && !conf_range(slash + 1, len - (size_t)(slash + 1 - p), &first, &last))
			return conf_chunk_err(n, k, "expected a target port or range behind the slash");
	}
	if (!first)
		return conf_chunk_err(n, k, "port 0 can't be forwarded to");
	if (last - first != rule->last - rule->first)
		return conf_chunk_err(n, k, "ports and target ports differ in number");
	rule->target_first = first;
	return 0;
}

/* As other programs have it: 127.0.0.1:8080:80, [::1]:8080 */
static bool conf_addr_colon(const struct conf_chunk *k, const char *colon)
{
	struct inaddr a;

	return colon && (*k->p == '[' || conf_text_addr(k->p, (size_t)(colon - k->p), &a));
}

static int conf_include(const struct conf_scan *n, const struct conf_chunk *k)
{
	const char *colon = memchr(k->p, ':', k->len);
	struct fwd_rule rule = n->rule;
	int r = 0;

	if (!conf_range(k->p, colon ? (size_t)(colon - k->p) : k->len, &rule.first, &rule.last))
		return conf_chunk_err(n, k, conf_addr_colon(k, colon) ?
				      "expected a port; an address to listen on stands before a slash: 127.0.0.1/8080:80" :
				      "expected a port from 1 to 65535, or a range such as 8000-8009");
	if (!rule.first)
		return conf_chunk_err(n, k, "port 0 can't be forwarded");
	rule.target_first = rule.first;
	if (colon)
		r = conf_target(n, k, colon + 1, k->len - (size_t)(colon + 1 - k->p), &rule);
	return r ? r : conf_rule_split(n, &rule);
}

static bool conf_chunk_is_all(const struct conf_chunk *k)
{
	return k->len >= 3 && !memcmp(k->p, "all", 3) && (k->len == 3 || k->p[3] == ':');
}

/* What holds for the whole spec */
static int conf_collect(struct conf_scan *n, const char *p)
{
	uint16_t first, last;

	while (p) {
		struct conf_chunk k = conf_chunk_next(&p);

		if (conf_chunk_is(&k, "auto"))
			n->rule.scan = true;
		if (conf_chunk_is(&k, "none"))
			return conf_chunk_err(n, &k, "can't be part of a list");
		if (k.len && *k.p == '~') {
			if (!conf_range(k.p + 1, k.len - 1, &first, &last))
				return conf_chunk_err(n, &k, "expected a port or range behind ~");
			conf_skip(n, first, last);
		} else if (conf_chunk_is_all(&k)) {
			int r = 0;

			n->all_target = (struct inaddr){ { 0 } };
			if (k.len > 3)
				r = conf_target_addr(n, &k, k.p + 4, k.len - 4, &n->all_target);
			if (r)
				return r;
		} else if (!conf_chunk_is(&k, "auto")) {
			n->includes = true;
		}
	}
	if (n->rule.scan && !n->s->scan_ok)
		return err_set(n->e, -EINVAL, "--%s: 'auto' is only for pasta, namespaces: name the ports, or use 'all'",
			       n->s->opt);
	return 0;
}

/* "all", "auto", or exclusions only: what can be had of all ports but ephemeral ones */
static int conf_all(struct conf_scan *n)
{
	struct fwd_rule rule = n->rule;

	conf_skip(n, n->s->ports.ephemeral_first, n->s->ports.ephemeral_last);
	rule.first = rule.target_first = 1;
	rule.last = CONF_PORT_MAX;
	rule.weak = true;
	rule.target = n->all_target;
	return conf_rule_split(n, &rule);
}

/* Wildcards of the families that we have */
static void conf_listen_any(struct conf_scan *n)
{
	static const uint8_t v4[4];

	n->rule.any = n->s->on[FWD_V4] && n->s->on[FWD_V6];
	if (!n->rule.any && n->s->on[FWD_V4])
		n->rule.listen = inaddr_v4(v4);
}

/* `listen` of LEN bytes at P: 1, 0 if it is something else, negative errno with an error */
static int conf_listen(struct conf_scan *n, const char *p, size_t len)
{
	const char *percent = memchr(p, '%', len);
	size_t addr_len = percent ? (size_t)(percent - p) : len;
	struct conf_chunk k = { p, len };
	struct inaddr a;

	if (addr_len && !(addr_len == 1 && *p == '*')) {
		if (!conf_text_addr(p, addr_len, &a))
			return 0;
		if (!n->s->on[fwd_family_of(&a)])
			return conf_chunk_err(n, &k, "the address is of a family that is switched off");
		if (n->s->proto == FWD_TCP && (inaddr_is_multicast(&a) || inaddr_is_broadcast(&a)))
			return conf_chunk_err(n, &k, "TCP can't listen on the address of a group");
		n->rule.any = false;
		n->rule.listen = a;
	}
	if (n->s->ns)
		return conf_chunk_err(n, &k, "an address to listen on can't be given here");
	if (!percent)
		return 1;
	len -= addr_len + 1;
	if (!conf_text_is_ifname(percent + 1, len))
		return conf_chunk_err(n, &k, "expected an interface name of 1 to 15 characters behind %");
	memcpy(n->rule.ifname, percent + 1, len);
	return 1;
}

int conf_spec_parse(struct fwd_rules *rules, const struct conf_spec *s, const char *text, struct err *e)
{
	struct conf_scan n = { .s = s, .text = text, .rules = rules, .e = e, .rule = { .proto = s->proto } };
	const char *slash = strchr(text, '/'), *p = text;
	unsigned i;
	int r;

	if (!strcmp(text, "none")) {
		for (i = 0; i < rules->cnt; i++) {
			if (rules->rule[i].proto == s->proto)
				return err_set(e, -EINVAL, "--%s: 'none' behind ports of the same protocol", s->opt);
		}
		return 0;
	}
	if (!s->proto_on)
		return err_set(e, -EINVAL, "--%s: %s is switched off", s->opt, s->proto == FWD_TCP ? "TCP" : "UDP");
	if (!s->on[FWD_V4] && !s->on[FWD_V6])
		return err_set(e, -EINVAL, "--%s: neither IPv4 nor IPv6 is available", s->opt);

	conf_listen_any(&n);
	r = slash ? conf_listen(&n, text, (size_t)(slash - text)) : 0;
	if (r < 0)
		return r;
	if (r)
		p = slash + 1;
	r = conf_collect(&n, p);
	if (r)
		return r;
	if (!n.includes)
		return conf_all(&n);
	while (p) {
		struct conf_chunk k = conf_chunk_next(&p);

		if (k.len && (*k.p == '~' || conf_chunk_is_all(&k) || conf_chunk_is(&k, "auto")))
			continue;
		r = conf_include(&n, &k);
		if (r)
			return r;
	}
	return 0;
}
