/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sockets inside the guest's namespace, while we are not: the process there that
 * makes them, and what becomes of those who wait for one. Without it local
 * connections take the link, as with --no-splice.
 */
#include <string.h>
#include <unistd.h>

#include "app_priv.h"

bool app_inside_needed(const struct app *a)
{
	return !a->conf.no_splice && a->conf.host_rules.cnt;
}

int app_inside_start(struct app *a, const struct box_identity *id, struct err *e)
{
	int fd[2], r;

	r = sk_ns_pair(fd, e);
	if (r)
		return r;
	a->inside_pid = box_ns_stay(&a->ns, id, sk_ns_serve, fd[1], e);
	close(fd[1]);
	if (a->inside_pid < 0) {
		r = a->inside_pid;
		close(fd[0]);
		return r;
	}
	sk_host_inside(&a->sk_inside, &a->sk, &a->sk_ns);
	r = sk_ns_open(&a->sk_ns, a->ev, fd[0]);
	return r ? err_set(e, r, "Can't watch the helper in the namespace: %s", strerror(-r)) : 0;
}

void app_inside_event(struct app *a, const struct ev_hit *hit)
{
	(void)hit;
	if (sk_ns_event(&a->sk_ns))
		app_log(&a->log, APP_WARN, "The helper in the namespace has ended, was it killed? Connections over the host's loopback "
			"go through the interface %s from now on", a->tap.name);
}

void app_inside_end(struct app *a)
{
	sk_ns_close(&a->sk_ns);
	box_ns_stay_end(a->inside_pid);
	a->inside_pid = 0;
}
