/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Process life around the work: descriptors, limits, signals, the background
 * and the PID file (ISO-1, ISO-15, ISO-16). The caller sees "ready" as the
 * parent's exit, never before. Refuses to print: the one line is in struct err.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "box/daemon.h"

static void close_from(unsigned int first, unsigned int last)
{
	struct rlimit lim;

	if (first > last || !syscall(SYS_close_range, first, last, 0) || getrlimit(RLIMIT_NOFILE, &lim))
		return;
	/* Before Linux 5.9, or forbidden */
	last = (unsigned int)BYTES_MIN(BYTES_MIN(lim.rlim_cur, (rlim_t)1 << 20), (rlim_t)last);
	for (unsigned int fd = first; fd <= last; fd++)
		close((int)fd);
}

int box_fds_clean(int keep, struct err *e)
{
	int fd;

	if (keep >= 3) {
		close_from(3, (unsigned int)keep - 1);
		close_from((unsigned int)keep + 1, ~0u);
	} else {
		close_from(3, ~0u);
	}
	do {
		fd = open("/dev/null", O_RDWR);
		if (fd < 0)
			return err_set(e, -errno, "Cannot open /dev/null: %s", strerror(errno));
	} while (fd < 3);
	close(fd);
	return 0;
}

unsigned long box_fds_raise(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return 0;
	if (lim.rlim_cur < lim.rlim_max) {
		const rlim_t before = lim.rlim_cur;

		lim.rlim_cur = lim.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &lim))
			return before;
	}
	return lim.rlim_cur;
}

static void signals_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGQUIT);
	sigaddset(set, SIGCHLD);
}

void box_close_behind(void)
{
	if (fork())
		return;			/* also if there is no child: then we take the time */
	for (int fd = 0; fd <= 2; fd++)
		close(fd);		/* nobody shall wait for an end of file */
	_exit(0);
}

int box_signals_open(struct err *e)
{
	sigset_t set;
	int fd;

	signals_set(&set);
	signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return err_set(e, -errno, "Cannot block signals: %s", strerror(errno));
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return err_set(e, -errno, "Cannot open a signal descriptor: %s", strerror(errno));
	return fd;
}

int box_signals_read(int fd)
{
	struct signalfd_siginfo si;
	int got = 0;

	while (read(fd, &si, sizeof(si)) == sizeof(si))
		got |= si.ssi_signo == SIGCHLD ? BOX_SIGNAL_CHILD : BOX_SIGNAL_END;
	return got;
}

int box_pidfile_open(const char *path, struct err *e)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(e, -errno, "Cannot open PID file %s: %s", path, strerror(errno));
	return fd;
}

int box_pidfile_write(int fd, pid_t pid, struct err *e)
{
	char line[16];
	const int len = snprintf(line, sizeof(line), "%i\n", pid);
	ssize_t n;
	int code;

	do
		n = write(fd, line, (size_t)len);
	while (n < 0 && errno == EINTR);
	code = n == len ? 0 : n < 0 ? -errno : -EIO;
	/* A reader of a FIFO waits for this */
	close(fd);
	return code ? err_set(e, code, "Cannot write PID file: %s", strerror(-code)) : 0;
}

int box_daemon_fork(struct box_daemon *d, int pid_fd, struct err *e)
{
	int sync[2];

	*d = (struct box_daemon){ .sync_fd = -1, .pid_fd = pid_fd };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync))
		return err_set(e, -errno, "Cannot make a socket pair: %s", strerror(errno));
	/* Unwritten output would come out twice */
	fflush(NULL);
	d->child = fork();
	if (d->child < 0) {
		close(sync[0]);
		close(sync[1]);
		return err_set(e, -errno, "Cannot start a process in the background: %s", strerror(errno));
	}
	close(sync[d->child ? 1 : 0]);
	d->sync_fd = sync[d->child ? 0 : 1];
	if (!d->child && pid_fd >= 0) {
		close(pid_fd);
		d->pid_fd = -1;
	}
	return d->child ? 1 : 0;
}

int box_daemon_wait(struct box_daemon *d, struct err *e)
{
	int rc = 0;
	ssize_t n;
	char c;

	*e = (struct err){ 0 };
	do
		n = recv(d->sync_fd, &c, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1) {
		/* It has said why; but if it was killed nobody has */
		int status = 0;

		if (waitpid(d->child, &status, 0) > 0 && WIFSIGNALED(status))
			return err_set(e, -ECHILD, "The process in the background was killed by signal %i", WTERMSIG(status));
		return -ECHILD;
	}
	if (d->pid_fd >= 0)
		rc = box_pidfile_write(d->pid_fd, d->child, e);
	if (rc)
		kill(d->child, SIGKILL);	/* it waits, and has nothing to say */
	else
		(void)send(d->sync_fd, "g", 1, MSG_NOSIGNAL);
	return rc;
}

int box_daemon_ready(struct box_daemon *d, struct err *e)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ssize_t n;
	char c;

	if (null < 0)
		return err_set(e, -errno, "Cannot open /dev/null: %s", strerror(errno));
	/* After the first of these nobody would see a message */
	setsid();
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	/* If it was ended before it has said who we are, nobody knows that there is something to end */
	n = send(d->sync_fd, "r", 1, MSG_NOSIGNAL);
	while (n == 1 && (n = recv(d->sync_fd, &c, 1, 0)) < 0 && errno == EINTR)
		n = 1;
	if (n != 1) {
		close(null);
		return err_set(e, -EPIPE, "The process that started us has gone");
	}
	close(d->sync_fd);
	d->sync_fd = -1;
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
	return 0;
}
