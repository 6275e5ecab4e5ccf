/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of this room share: the table of options, its setters, and
 * readers of single values.
 */
#ifndef CONF_PRIV_H
#define CONF_PRIV_H

#include <getopt.h>

#include "conf/conf.h"

#define CONF_NO_VM		"virtual machines are not supported by this version yet, only network namespaces (pasta)"
#define CONF_BIT(mode)		(1u << (mode))
#define CONF_IN_PASTA		CONF_BIT(CONF_MODE_PASTA)
#define CONF_IN_PASST		CONF_BIT(CONF_MODE_PASST)
#define CONF_IN_BOTH		(CONF_IN_PASTA | CONF_IN_PASST)
#define CONF_VAL_BASE		256	/* getopt_long's value of row 0; letters are below */
#define CONF_OPT_MAX		128	/* rows; the table asserts it */

enum conf_loopback { CONF_LOOPBACK_REFUSED, CONF_LOOPBACK_ALLOWED, CONF_LOOPBACK_V4_ONLY };

struct conf_opt {
	const char *name;		/* long, without dashes */
	char letter;			/* 0: none */
	const char *arg;		/* what help calls the argument, NULL: takes none */
	const char *help;		/* lines; NULL: not shown */
	const char *warn;		/* deprecated: say this once */
	unsigned modes;			/* CONF_IN_* */
	enum conf_loopback loopback;	/* addresses */
	size_t off;			/* where the setter puts it: in struct conf, or conf_family for addresses */
	/* NULL: belongs to the command line, but this version can't do it yet */
	int (*set)(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
};

extern const struct conf_opt conf_opt_tab[];
extern const unsigned conf_opt_cnt;

struct conf_getopt {			/* getopt_long's view of the table */
	char letters[2 + 2 * CONF_OPT_MAX + 1];
	struct option names[CONF_OPT_MAX + 1];
};

void conf_getopt_init(struct conf_getopt *ret);
/* The row of a value that getopt_long returned */
const struct conf_opt *conf_opt_find(int val);

int conf_set_debug(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_trace(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_quiet(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_help(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_version(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_nothing(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_flag(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_no_icmp(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_path(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_netns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_userns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_netns_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_ifname(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_mtu(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_mac(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_ns_mac(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_hostname(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_runas(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_engine(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_repair_path(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_vhost_user(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_v4_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_v6_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_addr(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_netmask(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_family_addr(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_dns_host(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_alias(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_dns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_search(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_host_ports(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);
int conf_set_ns_ports(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e);

/* Settings against each other, after all options: 0, or negative errno with E set */
int conf_check(struct conf *c, struct err *e);
/* What comes after the options, argv[first] on */
int conf_target_parse(struct conf *c, int argc, char *const argv[], int first, struct err *e);
void conf_warn_add(struct conf *c, const char *text);

struct conf_spec {			/* what a port spec is read against */
	const char *opt;		/* for messages: long name */
	enum fwd_proto proto;
	bool on[FWD_FAMILIES];
	bool proto_on;
	bool ns;			/* -T, -U: no listening address */
	bool scan_ok;			/* what listens on the other side can be known: "auto" */
	struct conf_ports ports;
};

/* One port spec into RULES: 0, or negative errno with E set; then RULES may hold part of it */
int conf_spec_parse(struct fwd_rules *rules, const struct conf_spec *s, const char *text, struct err *e);

/* Readers of LEN bytes at P: true, or RET untouched */
bool conf_text_num(const char *p, size_t len, int base, uint64_t max, uint64_t *ret);
/* Brackets around it are fine */
bool conf_text_addr(const char *p, size_t len, struct inaddr *ret);
bool conf_text_is_ifname(const char *p, size_t len);

#endif
