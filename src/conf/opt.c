/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The two passes over the command line.
 *
 * getopt_long() splits it, with its GNU rules (clusters, abbreviations), but
 * never prints: its diagnostics are made here, word by word as callers know
 * them. It keeps its place in variables of the C library, so two passes must
 * not run at the same time; each starts afresh and leaves argv in its order.
 */
#include "conf_priv.h"

#include <errno.h>

static int conf_mode_of(struct conf *c, const char *argv0, struct err *e)
{
	const char *slash = argv0 ? strrchr(argv0, '/') : NULL, *name = slash ? slash + 1 : argv0;

	if (name && strstr(name, "pasta"))
		c->mode = CONF_MODE_PASTA;
	else if (name && strstr(name, "passt"))
		c->mode = CONF_MODE_PASST;
	else
		return err_set(e, -EINVAL, "'%s': started under a name with neither pasta nor passt in it, "
			       "so what to do is not known", name ? name : "");
	return 0;
}

static void conf_defaults(struct conf *c)
{
	static const struct macaddr mac = { { 0x9a, 0x55, 0x9a, 0x55, 0x9a, 0x55 } };

	memset(c, 0, offsetof(struct conf, host_rules));
	c->host_rules.cnt = c->ns_rules.cnt = 0;
	c->level = CONF_LEVEL_INFO;
	c->mtu = CONF_MTU_DEFAULT;
	c->our_mac = mac;
	c->f[FWD_V4].on = c->f[FWD_V6].on = true;
}

void conf_warn_add(struct conf *c, const char *text)
{
	unsigned i;

	for (i = 0; i < c->warn_cnt; i++) {
		if (!strcmp(c->warn[i], text))
			return;
	}
	if (c->warn_cnt < CONF_WARN_MAX)
		c->warn[c->warn_cnt++] = text;
}

/* An unknown long option, or several that begin like it */
static int conf_err_long(const char *argv0, const char *word, struct err *e)
{
	size_t len = strcspn(word + 2, "="), used;
	char list[sizeof(e->text)] = "";
	unsigned i;

	for (i = 0, used = 0; i < conf_opt_cnt; i++) {
		if (strncmp(conf_opt_tab[i].name, word + 2, len))
			continue;
		used += (size_t)snprintf(list + used, sizeof(list) - used, " '--%s'", conf_opt_tab[i].name);
		if (used >= sizeof(list))
			break;
	}
	if (!*list)
		return err_set(e, -EINVAL, "%s: unrecognized option '%s'", argv0, word);
	return err_set(e, -EINVAL, "%s: option '%s' is ambiguous; possibilities:%s", argv0, word, list);
}

static int conf_err_getopt(struct conf *c, int val, char *const argv[], struct err *e)
{
	c->usage = true;
	if (val == ':' && optopt >= CONF_VAL_BASE)
		return err_set(e, -EINVAL, "%s: option '--%s' requires an argument", argv[0],
			       conf_opt_find(optopt)->name);
	if (val == ':')
		return err_set(e, -EINVAL, "%s: option requires an argument -- '%c'", argv[0], optopt);
	if (optopt >= CONF_VAL_BASE)
		return err_set(e, -EINVAL, "%s: option '--%s' doesn't allow an argument", argv[0],
			       conf_opt_find(optopt)->name);
	if (optopt)
		return err_set(e, -EINVAL, "%s: invalid option -- '%c'", argv[0], optopt);
	return conf_err_long(argv[0], argv[optind - 1], e);
}

static int conf_opt_apply(struct conf *c, const struct conf_opt *o, struct err *e)
{
	if (c->mode == CONF_MODE_PASST && o->set != conf_set_help && o->set != conf_set_version)
		return 0;	/* all of it ends in one refusal, see conf_parse() */
	if (!(o->modes & CONF_BIT(c->mode)))
		return err_set(e, -EINVAL, "--%s: only for passt, virtual machines", o->name);
	if (!o->set)
		return err_set(e, -EOPNOTSUPP, "--%s: not supported by this version yet", o->name);
	if (o->warn)
		conf_warn_add(c, o->warn);
	return o->set(c, o, optarg, e);
}

int conf_parse(struct conf *ret, int argc, char *const argv[], struct err *e)
{
	struct conf_getopt g;
	int val, r;

	conf_defaults(ret);
	r = conf_mode_of(ret, argc > 0 ? argv[0] : NULL, e);
	if (r)
		return r;

	conf_getopt_init(&g);
	optind = 0;			/* afresh, also after an incomplete pass */
	opterr = 0;
	while ((val = getopt_long(argc, argv, g.letters, g.names, NULL)) != -1) {
		if (val == '?' || val == ':')
			return conf_err_getopt(ret, val, argv, e);
		r = conf_opt_apply(ret, conf_opt_find(val), e);
		if (r || ret->action != CONF_ACTION_RUN)
			return r;
	}
	if (ret->mode == CONF_MODE_PASST)
		return err_set(e, -EOPNOTSUPP, CONF_NO_VM);

	r = conf_check(ret, e);
	return r ? r : conf_target_parse(ret, argc, argv, optind, e);
}

static bool conf_opt_is_ports(const struct conf_opt *o)
{
	return o && (o->set == conf_set_host_ports || o->set == conf_set_ns_ports);
}

static int conf_rules_add(struct conf *c, const struct conf_opt *o, struct conf_spec *s, const char *text, struct err *e)
{
	s->opt = o->name;
	s->proto = o->letter == 't' || o->letter == 'T' ? FWD_TCP : FWD_UDP;
	s->proto_on = s->proto == FWD_TCP ? !c->no_tcp : !c->no_udp;
	s->ns = o->set == conf_set_ns_ports;
	return conf_spec_parse(s->ns ? &c->ns_rules : &c->host_rules, s, text, e);
}

/* "auto" where nothing was GIVEN, by row of the table. What nobody asked for must not prevent a start. */
static void conf_rules_default(struct conf *c, const bool *given, struct conf_spec *s)
{
	struct err ignored;
	unsigned i;

	for (i = 0; i < conf_opt_cnt && s->scan_ok; i++) {
		unsigned host = c->host_rules.cnt, ns = c->ns_rules.cnt;

		if (!conf_opt_is_ports(&conf_opt_tab[i]) || given[i])
			continue;
		if (conf_rules_add(c, &conf_opt_tab[i], s, "auto", &ignored)) {
			c->host_rules.cnt = host;
			c->ns_rules.cnt = ns;
		}
	}
}

int conf_rules_parse(struct conf *c, int argc, char *const argv[], const struct conf_ports *ports, struct err *e)
{
	struct conf_spec s = {
		.on = { [FWD_V4] = c->f[FWD_V4].on, [FWD_V6] = c->f[FWD_V6].on },
		.scan_ok = c->mode == CONF_MODE_PASTA,
		.ports = *ports,
	};
	bool given[CONF_OPT_MAX] = { false };
	const struct conf_opt *o;
	struct conf_getopt g;
	int val, r;

	c->host_rules.cnt = c->ns_rules.cnt = 0;
	conf_getopt_init(&g);
	optind = 0;
	opterr = 0;
	while ((val = getopt_long(argc, argv, g.letters, g.names, NULL)) != -1) {
		o = conf_opt_find(val);
		if (!conf_opt_is_ports(o))
			continue;
		given[o - conf_opt_tab] = true;
		r = conf_rules_add(c, o, &s, optarg, e);
		if (r)
			return r;
	}
	conf_rules_default(c, given, &s);
	return 0;
}
