/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Life as a process: descriptors, limits, signals, the background, PID file.
 */
#ifndef BOX_DAEMON_H
#define BOX_DAEMON_H

#include <sys/types.h>

#include "base/err.h"

/* Close what we inherited from 3 on, but KEEP (-1: nothing), and put /dev/null where 0, 1 or 2 is closed */
int box_fds_clean(int keep, struct err *e);
/* Soft limit of descriptors to the hard one; returns the limit */
unsigned long box_fds_raise(void);

/* Right before the end: what the kernel does slowly when the last of us closes a descriptor, happens behind our back. Removing a
 * tap waits for grace periods of RCU, some 20 ms, which a caller of a short command would wait for.
 */
void box_close_behind(void);

#define BOX_SIGNAL_END	(1 << 0)	/* SIGTERM or SIGQUIT: exit 0 */
#define BOX_SIGNAL_CHILD (1 << 1)	/* SIGCHLD: a child ended, not always the command */

/* Block TERM, QUIT and CHLD, ignore PIPE; returns a descriptor to watch for EV_IN. After box_ns_spawn(). */
int box_signals_open(struct err *e);
/* What came: BOX_SIGNAL_*, 0: nothing */
int box_signals_read(int fd);

/* PID file or FIFO at PATH, truncated; to be opened early, with the caller's identity. Returns a descriptor. */
int box_pidfile_open(const char *path, struct err *e);
/* Write PID and close FD, which tells the reader of a FIFO that it has all */
int box_pidfile_write(int fd, pid_t pid, struct err *e);

struct box_daemon {
	int sync_fd;			/* between the two; -1: no daemon */
	int pid_fd;			/* PID file, in the parent; -1: none */
	pid_t child;			/* in the parent */
};

/* Go on in a child: 0 there, 1 in the parent, which has nothing left but box_daemon_wait(). PID_FD is the PID file that
 * the parent will write, -1: none. Call it before rings and other memory that is not inherited; messages still reach
 * the caller's stderr.
 */
int box_daemon_fork(struct box_daemon *d, int pid_fd, struct err *e);
/* Parent: wait until the child is ready, then write the PID file. 0: exit 0. Otherwise exit 1, and print *E if its code
 * is set; if it is not, the child has said why.
 */
int box_daemon_wait(struct box_daemon *d, struct err *e);
/* Child: own session, terminal signals ignored, let the parent write the PID file and go, then /dev/null on 0 to 2. Fails if the
 * parent has gone before that.
 */
int box_daemon_ready(struct box_daemon *d, struct err *e);

#endif
