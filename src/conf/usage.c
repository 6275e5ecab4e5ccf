/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Help and version texts. The list of options derives from the table. It must
 * show every option that works and none that doesn't: callers search it.
 */
#include "conf_priv.h"

#define CONF_HELP_COLUMN	30

static void conf_usage_option(FILE *out, const struct conf_opt *o)
{
	const char *line = o->help;
	int column;

	column = o->letter ? fprintf(out, "  -%c, --%s", o->letter, o->name) : fprintf(out, "      --%s", o->name);
	if (o->arg)
		column += fprintf(out, " %s", o->arg);
	if (column > CONF_HELP_COLUMN - 2) {
		fputc('\n', out);
		column = 0;
	}
	while (*line) {
		int len = (int)strcspn(line, "\n");

		fprintf(out, "%*s%.*s\n", CONF_HELP_COLUMN - column, "", len, line);
		column = 0;
		line += len;
		line += *line == '\n';
	}
}

void conf_usage_print(FILE *out, enum conf_mode mode)
{
	unsigned i;

	switch (mode) {
	case CONF_MODE_PASTA:
		fputs("Usage: pasta [OPTION]... [COMMAND [ARG]...]\n"
		      "       pasta [OPTION]... PID\n"
		      "       pasta [OPTION]... --netns PATH|NAME\n"
		      "\n"
		      "Give a network namespace the network of the host, without privileges: that of\n"
		      "a process, one with a name, or a new one for COMMAND or a shell.\n"
		      "\n", out);
		break;
	case CONF_MODE_PASST:
		fputs("Usage: passt [OPTION]...\n"
		      "\n"
		      "Give a virtual machine the network of the host: " CONF_NO_VM ".\n"
		      "\n", out);
		break;
	}
	fputs("Options:\n", out);
	for (i = 0; i < conf_opt_cnt; i++) {
		if (conf_opt_tab[i].help && conf_opt_tab[i].modes & CONF_BIT(mode))
			conf_usage_option(out, &conf_opt_tab[i]);
	}
}

void conf_version_print(FILE *out, enum conf_mode mode)
{
	fprintf(out,
		"%s %s (Gemelli)\n"
		"Licence: BSD-3-Clause <https://spdx.org/licenses/BSD-3-Clause.html>\n"
		"This is free software: you may change and redistribute it.\n"
		"There is no warranty, to the extent permitted by law.\n",
		mode == CONF_MODE_PASTA ? "pasta" : "passt", GEMELLI_VERSION);
}
