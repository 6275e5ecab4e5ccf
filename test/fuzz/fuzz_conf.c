/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Command lines: words of the input end at a newline, the name in front is ours.
 * Whatever they are, parsing ends with a struct within its limits, or one line.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORDS_MAX	200

static void check_words(const struct conf *c, int argc)
{
	unsigned i;

	if (c->search_cnt > CONF_SEARCH_MAX || c->warn_cnt > CONF_WARN_MAX || c->mtu > CONF_MTU_MAX ||
	    c->netmask_len > 32)
		abort();
	if (c->target == CONF_TARGET_SPAWN_COMMAND && (c->cmd_idx < 1 || c->cmd_idx >= argc))
		abort();
	if (c->target == CONF_TARGET_PID && c->pid <= 0)
		abort();
	for (i = 0; i < FWD_FAMILIES; i++) {
		const struct conf_family *f = &c->f[i];

		if (f->dns_cnt > CONF_DNS_MAX)
			abort();
		if (!inaddr_is_unset(&f->addr) && (fwd_family_of(&f->addr) != i || f->prefix_len < 0 ||
						   f->prefix_len > (i == FWD_V4 ? 32 : 128)))
			abort();
	}
}

static void check_error(const struct err *e, int r)
{
	if (r >= 0 || e->code != r || !*e->text || memchr(e->text, 0, sizeof(e->text)) == NULL)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct conf_ports ports = { 32768, 60999 };
	static struct conf conf, *const c = &conf;	/* large: its pages stay */
	char *text = malloc(size + 1), *argv[WORDS_MAX + 2], *p;
	struct err e = { 0 };
	int argc = 0, r;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	argv[argc++] = (char *)"pasta";
	for (p = text; p && *p && argc <= WORDS_MAX;) {
		argv[argc++] = p;
		p = strchr(p, '\n');
		if (p)
			*p++ = 0;
	}
	argv[argc] = NULL;

	r = conf_parse(c, argc, argv, &e);
	if (r) {
		check_error(&e, r);
	} else if (c->action == CONF_ACTION_RUN) {
		check_words(c, argc);
		r = conf_rules_parse(c, argc, argv, &ports, &e);
		if (r)
			check_error(&e, r);
	}
	free(text);
	return 0;
}
