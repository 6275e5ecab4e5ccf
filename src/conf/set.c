/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Setters of the table of options that are about ourselves: log, process,
 * namespaces, names. Each checks its own argument and nothing else; what
 * several options mean together is for check.c.
 */
#include "conf_priv.h"

#include <errno.h>

static void *conf_at(struct conf *c, const struct conf_opt *o)
{
	return (char *)c + o->off;
}

int conf_set_debug(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	if (c->level < CONF_LEVEL_DEBUG)
		c->level = CONF_LEVEL_DEBUG;
	return 0;
}

int conf_set_trace(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->level = CONF_LEVEL_TRACE;
	return 0;
}

int conf_set_quiet(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->level = CONF_LEVEL_QUIET;
	return 0;
}

int conf_set_help(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->action = CONF_ACTION_HELP;
	return 0;
}

int conf_set_version(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->action = CONF_ACTION_VERSION;
	return 0;
}

/* Deprecated options without effect */
int conf_set_nothing(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)c;
	(void)o;
	(void)arg;
	(void)e;
	return 0;
}

int conf_set_flag(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)arg;
	(void)e;
	*(bool *)conf_at(c, o) = true;
	return 0;
}

int conf_set_no_icmp(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->no_icmp = true;
	c->no_ndp = true;
	return 0;
}

static int conf_path_check(const struct conf_opt *o, const char *arg, struct err *e)
{
	if (!*arg)
		return err_set(e, -EINVAL, "--%s: the path is empty", o->name);
	if (strlen(arg) >= PATH_MAX)
		return err_set(e, -ENAMETOOLONG, "--%s: the path is longer than %d bytes", o->name, PATH_MAX - 1);
	return 0;
}

int conf_set_path(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	int r = conf_path_check(o, arg, e);

	if (!r)
		*(const char **)conf_at(c, o) = arg;
	return r;
}

int conf_set_netns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	size_t dir_len = strchr(arg, '/') ? 0 : sizeof(CONF_NETNS_DIR) - 1, len = strlen(arg);
	int r = conf_path_check(o, arg, e);

	if (r)
		return r;
	if (dir_len + len >= sizeof(c->netns))
		return err_set(e, -ENAMETOOLONG, "--%s: the name is too long for a path below %s", o->name,
			       CONF_NETNS_DIR);
	memcpy(c->netns, CONF_NETNS_DIR, dir_len);
	memcpy(c->netns + dir_len, arg, len + 1);
	return 0;
}

int conf_set_userns(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	int r = conf_set_path(c, o, arg, e);

	if (!r)
		c->netns_only = false;
	return r;
}

int conf_set_netns_only(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	c->netns_only = true;
	c->userns = NULL;
	return 0;
}

int conf_set_hostname(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	if (strlen(arg) > CONF_HOSTNAME_LEN_MAX)
		return err_set(e, -ENAMETOOLONG, "--%s: the name is longer than %d bytes", o->name,
			       CONF_HOSTNAME_LEN_MAX);
	c->hostname = arg;
	return 0;
}

/* UID[:GID] or LOGIN[:GROUP]. A number first: a login of digits only can't be named, as it would be ambiguous. */
int conf_set_runas(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	struct conf_runas ids = { .kind = CONF_RUNAS_IDS }, names = { .kind = CONF_RUNAS_NAMES };
	const char *colon = strchr(arg, ':');
	uint64_t uid, gid;

	names.login = (struct conf_text){ arg, colon ? (size_t)(colon - arg) : strlen(arg) };
	if (colon)
		names.group = (struct conf_text){ colon + 1, strlen(colon + 1) };
	if (!names.login.len || (colon && !names.group.len))
		return err_set(e, -EINVAL, "--%s '%s': expected UID, UID:GID, LOGIN or LOGIN:GROUP", o->name, arg);
	if (*arg < '0' || *arg > '9') {
		c->runas = names;
		return 0;
	}

	/* The highest value stands for "no change" in system calls */
	if (!conf_text_num(names.login.p, names.login.len, 0, UINT32_MAX - 1, &uid))
		return err_set(e, -EINVAL, "--%s '%s': the user is no number from 0 to %u", o->name, arg, UINT32_MAX - 1);
	gid = uid;
	if (colon && !conf_text_num(names.group.p, names.group.len, 0, UINT32_MAX - 1, &gid))
		return err_set(e, -EINVAL, "--%s '%s': the group behind a numeric user is no number from 0 to %u",
			       o->name, arg, UINT32_MAX - 1);
	ids.uid = (uint32_t)uid;
	ids.gid = (uint32_t)gid;
	c->runas = ids;
	return 0;
}

int conf_set_engine(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	if (!strcmp(arg, "auto"))
		c->engine = CONF_ENGINE_AUTO;
	else if (!strcmp(arg, "epoll"))
		c->engine = CONF_ENGINE_EPOLL;
	else
		return err_set(e, -EINVAL, "--%s '%s': expected auto or epoll", o->name, arg);
	return 0;
}

int conf_set_vhost_user(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)c;
	(void)arg;
	return err_set(e, -EOPNOTSUPP, "--%s: " CONF_NO_VM, o->name);
}

/* Some callers pass "none" whatever they start */
int conf_set_repair_path(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)c;
	if (strcmp(arg, "none"))
		return err_set(e, -EINVAL, "--%s: pasta has no repair socket, only 'none' is accepted", o->name);
	return 0;
}

int conf_set_host_ports(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	(void)c;
	(void)o;
	(void)arg;
	(void)e;
	return 0;		/* conf_rules_parse() reads it, when addresses are known */
}

int conf_set_ns_ports(struct conf *c, const struct conf_opt *o, const char *arg, struct err *e)
{
	return conf_set_host_ports(c, o, arg, e);
}
