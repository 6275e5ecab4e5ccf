/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pasta: a network for a namespace, without privileges. Wires the rooms and
 * runs the loop.
 */
#include <stdio.h>
#include <stdlib.h>

#include "app_priv.h"

int main(int argc, char **argv)
{
	struct err e = { .code = 0 };
	struct app *a = calloc(1, sizeof(*a));
	bool quick;			/* somebody waits for the command's status */
	int status;

	if (!a) {
		fputs("Out of memory\n", stderr);
		return 1;
	}
	a->log.start = app_clock();
	a->log.max = APP_WARN;
	if (app_init(a, argc, argv, &e)) {
		app_fail(a, &e);
		if (a->conf.usage)
			conf_usage_print(stderr, a->conf.mode);
		app_free(a);
		return 1;
	}
	if (a->conf.action == CONF_ACTION_RUN && a->daemon.child <= 0)
		app_loop(a);
	status = a->status;
	quick = a->ns.child > 0;
	app_free(a);
	if (quick)
		box_close_behind();
	return status;
}
