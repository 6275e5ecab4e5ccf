/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Port specs: the first byte of the input chooses the option and the families,
 * the rest is up to two specs with a newline between. What is accepted must
 * obey the invariants of a table of rules.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rule(const struct fwd_rule *r, unsigned families)
{
	char buf[FWD_RULE_STR_MAX];

	if (strlen(fwd_rule_name(r, false, r->first, r->last, buf)) >= sizeof(buf) - 1 ||
	    strlen(fwd_rule_line(r, false, buf)) >= sizeof(buf) - 1)
		abort();
	if (!r->first || r->first > r->last || !r->target_first)
		abort();
	if (r->target_first + (r->last - r->first) > 65535)
		abort();
	if (!memchr(r->ifname, 0, sizeof(r->ifname)))
		abort();
	if (r->any && (families || !inaddr_is_unset(&r->target)))
		abort();
	if (!inaddr_is_unset(&r->target) &&
	    (inaddr_is_v4(&r->target) != inaddr_is_v4(&r->listen) || inaddr_is_multicast(&r->target)))
		abort();
	if (!r->any && ((families == 1 && !inaddr_is_v4(&r->listen)) || (families == 2 && inaddr_is_v4(&r->listen))))
		abort();
}

/* A packet to one could reach the other */
static bool same_socket(const struct fwd_rule *x, const struct fwd_rule *y)
{
	bool v4 = inaddr_is_v4(&x->listen);

	if (*x->ifname && *y->ifname && strcmp(x->ifname, y->ifname))
		return false;
	if (x->any || y->any)
		return true;
	return v4 == inaddr_is_v4(&y->listen) &&
	       (inaddr_eq(&x->listen, &y->listen) || inaddr_is_unset(&x->listen) || inaddr_is_unset(&y->listen));
}

static void check_rules(const struct fwd_rules *t, unsigned families)
{
	unsigned i, j;

	if (t->cnt > FWD_RULE_MAX)
		abort();
	for (i = 0; i < t->cnt; i++) {
		const struct fwd_rule *x = &t->rule[i];

		check_rule(x, families);
		for (j = 0; j < i; j++) {
			const struct fwd_rule *y = &t->rule[j];

			if (x->proto == y->proto && same_socket(x, y) && x->first <= y->last && y->first <= x->last)
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const opts[] = { "-t", "-u", "-T", "-U" };
	static const char *const only[] = { "-q", "-4", "-6" };
	static const struct conf_ports ports = { 32768, 60999 };
	char *argv[7] = { (char *)"pasta" }, *text, *second;
	static struct conf conf, *const c = &conf;	/* large: its pages stay */
	struct err e = { 0 };
	unsigned families;
	int argc = 1, r;

	text = malloc(size + 1);
	if (!text || !size)
		goto out;
	memcpy(text, data, size);
	text[size] = 0;
	families = (unsigned char)text[0] / 4 % 3;
	argv[argc++] = (char *)only[families];
	argv[argc++] = (char *)opts[text[0] & 3];
	argv[argc++] = text + 1;
	second = strchr(text + 1, '\n');
	if (second) {
		*second++ = 0;
		argv[argc++] = (char *)opts[text[0] & 3];
		argv[argc++] = second;
	}

	if (conf_parse(c, argc, argv, &e))
		abort();
	r = conf_rules_parse(c, argc, argv, &ports, &e);
	if (r && (r > 0 || e.code != r || !*e.text))
		abort();
	if (!r) {
		check_rules(&c->host_rules, families);
		check_rules(&c->ns_rules, families);
	}
out:
	free(text);
	return 0;
}
