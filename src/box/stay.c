/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that stays inside the namespaces when all set-up is over: having
 * given up our rights we could not enter them again. It has the rights of a
 * stranger there: our user's identity, no capability, and none to be gained, no
 * file but one socket. A guest who is root in the user namespace may kill it,
 * if it sees it at all, but neither trace it nor read our memory in it: who is
 * not dumpable belongs to the user namespace that we were started in.
 *
 * Refuses to keep anything of ours alive: no descriptor, no terminal, and it is
 * in no PID namespace of the guest's, whose end it neither delays nor sees.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cap-ng.h>

#include "box/daemon.h"
#include "box_priv.h"

#define NAME		"pasta.inside"

/* Another user has less to lose; but who becomes one loses the rights to enter, unless they are kept and taken up again */
static int become(const struct box_identity *id, struct err *e)
{
	if (!id->change)
		return 0;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || box_identity_apply(id, e) || capng_get_caps_process())
		return -EPERM;
	for (unsigned cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (capng_have_capability(CAPNG_PERMITTED, cap))
			capng_update(CAPNG_ADD, CAPNG_EFFECTIVE, cap);
	return capng_apply(CAPNG_SELECT_CAPS) ? -EPERM : 0;
}

static void __attribute__((noreturn)) stay_main(const struct box_ns *n, const struct box_identity *id, pid_t us,
						void (*fn)(int fd), int fd)
{
	const int end_with_us = SIGKILL;
	const struct rlimit none = { 0, 0 };
	struct err e;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);	/* a terminal's are for us and the command */
	(void)setsid();			/* who kills the caller's group must not hit the helper of a daemon */
	if (become(id, &e) || box_ns_enter(n, &e))
		_exit(1);
	for (int std = STDIN_FILENO; std <= STDERR_FILENO; std++)
		close(std);		/* somebody may wait for their end; /dev/null instead */
	if (box_fds_clean(fd, &e) || box_bounds_drop(&e) || box_caps_drop(0, &e) || box_seal(&e))
		_exit(1);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_NAME, NAME, 0, 0, 0);
	/* last: the kernel forgets it when identity or rights change */
	if (prctl(PR_SET_PDEATHSIG, end_with_us, 0, 0, 0) || getppid() != us)
		_exit(1);
	fn(fd);
	_exit(0);
}

pid_t box_ns_stay(const struct box_ns *n, const struct box_identity *id, void (*fn)(int fd), int fd, struct err *e)
{
	const pid_t us = getpid();
	/* as fork(), but without SIGCHLD at its end */
	const long pid = syscall(SYS_clone, 0ul, NULL, NULL, NULL, NULL);

	if (pid < 0)
		return err_set(e, -errno, "Cannot start a helper in the namespace: %s", strerror(errno));
	if (!pid)
		stay_main(n, id, us, fn, fd);
	return (pid_t)pid;
}

void box_ns_stay_end(pid_t pid)
{
	if (pid > 0 && !kill(pid, SIGKILL))
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
}
