/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A command or shell in new namespaces (ISO-4, ISO-17). The user namespace is
 * owned by the identity that we are going to have, while its id mapping is
 * written by us with the rights that we still have: this works for an ordinary
 * user, for root who becomes nobody, and for root of another user namespace.
 * Refuses nothing but what the kernel refuses; /proc, host name and
 * ping_group_range are worth a note only.
 * Invariant: until released the child waits on a socket whose end tells it that
 * we are gone; then it leaves.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "box_priv.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC	(1U << 2)	/* Linux 5.11 */
#endif
#define HOST_LEN	64		/* __NEW_UTS_LEN */
#define ARG0_LEN	256

enum msg_kind {				/* from the child */
	MSG_HELLO,			/* its mapping can be written */
	MSG_NO_HOSTNAME,		/* notes */
	MSG_NO_PROC,
	MSG_NO_PING,
	MSG_READY,			/* waits for release */
	MSG_NO_EXEC,			/* the end */
};

struct msg {
	int32_t kind;			/* enum msg_kind */
	int32_t code;			/* errno */
};

static void child_tell(int fd, enum msg_kind kind, int code)
{
	const struct msg m = { kind, code };

	(void)send(fd, &m, sizeof(m), MSG_NOSIGNAL);
}

/* Wait for a byte from our parent; leave if there is none any more */
static void child_wait(int fd)
{
	char c;
	ssize_t n;

	do
		n = recv(fd, &c, 1, 0);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(1);
}

static int file_write(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	int rc = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		rc = -errno;
	close(fd);
	return rc;
}

static int child_hostname(const char *name)
{
	static const char prefix[] = "pasta-";
	char host[2 * HOST_LEN + 2];

	if (!name) {
		memcpy(host, prefix, sizeof(prefix));
		if (gethostname(host + sizeof(prefix) - 1, HOST_LEN + 1))
			return -errno;
		host[HOST_LEN] = '\0';
		name = host;
	}
	return sethostname(name, BYTES_MIN(strlen(name), (size_t)HOST_LEN)) ? -errno : 0;
}

/* Mounts must not spread to the namespace that we come from */
static int child_proc(void)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		return -errno;
	return mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) ? -errno : 0;
}

static void child_setup(const struct box_spawn_settings *s, int fd)
{
	int rc;

	rc = child_hostname(s->hostname);
	if (rc)
		child_tell(fd, MSG_NO_HOSTNAME, -rc);
	rc = child_proc();
	if (rc)
		child_tell(fd, MSG_NO_PROC, -rc);
	rc = file_write("/proc/sys/net/ipv4/ping_group_range", "0 0");
	if (rc)
		child_tell(fd, MSG_NO_PING, -rc);
}

/* All descriptors from 3 on are to close on exec */
static void child_cloexec(void)
{
	struct rlimit lim;

	if (!syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) || getrlimit(RLIMIT_NOFILE, &lim))
		return;
	for (int fd = 3; fd < (int)BYTES_MIN(lim.rlim_cur, (rlim_t)1 << 20); fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static int child_exec(char *const *argv)
{
	const char *shell = getenv("SHELL"), *base;
	char arg0[ARG0_LEN];

	if (argv && argv[0]) {
		execvp(argv[0], argv);
		return errno;
	}
	if (!shell || !*shell)
		shell = "/bin/sh";
	base = strrchr(shell, '/');
	snprintf(arg0, sizeof(arg0), "-%s", base ? base + 1 : shell);
	execlp(shell, arg0, (char *)NULL);
	return errno;
}

static void __attribute__((noreturn)) child_main(const struct box_spawn_settings *s, int fd)
{
	const int end_with_us = SIGKILL;
	sigset_t set;
	char c;

	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	child_tell(fd, MSG_HELLO, 0);
	child_wait(fd);
	child_setup(s, fd);
	child_tell(fd, MSG_READY, 0);
	child_wait(fd);

	/* Our parent handles these by descriptor; the command gets them as usual */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(SIGPIPE, SIG_DFL);

	/* A command without a network, that nobody waits for, is no use: it ends with us, whatever ends us */
	(void)prctl(PR_SET_PDEATHSIG, end_with_us, 0, 0, 0);
	if (!recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT))
		_exit(1);
	child_cloexec();
	child_tell(fd, MSG_NO_EXEC, child_exec(s->argv));
	_exit(1);
}

/* fork() with namespaces */
static pid_t spawn_clone(unsigned long flags)
{
	const long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	return pid < 0 ? -errno : (pid_t)pid;
}

/* A go-between takes the identity on and makes the child, which becomes ours (CLONE_PARENT): the user namespace gets its
 * owner, and we keep our rights. Returns as fork() does, but -errno.
 */
static pid_t spawn_as(const struct box_identity *id, unsigned long flags)
{
	int pipe_fd[2], status;
	pid_t between, pid;
	struct err e;

	if (pipe2(pipe_fd, O_CLOEXEC))
		return -errno;
	between = spawn_clone(0);
	if (!between) {
		pid = box_identity_apply(id, &e);
		if (!pid) {
			/* The change has taken this away, and with it the mapping files' owner */
			(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
			pid = spawn_clone(flags | CLONE_PARENT);
			if (!pid) {
				close(pipe_fd[0]);
				close(pipe_fd[1]);
				return 0;
			}
		}
		_exit(write(pipe_fd[1], &pid, sizeof(pid)) != sizeof(pid));
	}
	close(pipe_fd[1]);
	pid = between;
	if (between > 0) {
		if (read(pipe_fd[0], &pid, sizeof(pid)) != sizeof(pid))
			pid = -ECHILD;
		while (waitpid(between, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(pipe_fd[0]);
	return pid;
}

static int clone_error(struct err *e, int code, bool netns_only)
{
	switch (code) {
	case -EPERM:
		if (netns_only)
			return err_set(e, code, "Cannot make namespaces: %s; --netns-only takes CAP_SYS_ADMIN", strerror(-code));
		return err_set(e, code, "Cannot make a user namespace: %s; they may be switched off (sysctl kernel.unprivileged_userns_clone, "
			       "kernel.apparmor_restrict_unprivileged_userns), or denied by a container or chroot", strerror(-code));
	case -ENOSPC:
	case -EUSERS:
		return err_set(e, code, "Cannot make namespaces: %s; a limit in /proc/sys/user/max_*_namespaces is reached", strerror(-code));
	case -EINVAL:
		return err_set(e, code, "Cannot make namespaces: %s; the kernel lacks one of user, network, PID, IPC, UTS namespaces",
			       strerror(-code));
	}
	return err_set(e, code, "Cannot start a process in new namespaces: %s", strerror(-code));
}

/* Next message of the child, notes taken out: its kind, or -ECHILD if it has ended */
static int spawn_next(const struct box_ns *n, struct box_notes *notes, int *ret_code)
{
	static const char *const what[] = {
		[MSG_NO_HOSTNAME] = "Cannot set the host name of the namespace",
		[MSG_NO_PROC] = "Cannot mount a fresh /proc for the namespace, the old one stays",
		[MSG_NO_PING] = "Cannot allow ping in the namespace (net.ipv4.ping_group_range)",
	};
	struct msg m;

	for (;;) {
		const ssize_t len = recv(n->sync_fd, &m, sizeof(m), MSG_WAITALL);

		if (len < 0 && errno == EINTR)
			continue;
		if (len != sizeof(m))
			return -ECHILD;
		*ret_code = m.code;
		if (m.kind < MSG_NO_HOSTNAME || m.kind > MSG_NO_PING)
			return m.kind;
		(void)err_set(box_note_next(notes), -m.code, "%s: %s", what[m.kind], strerror(m.code));
	}
}

static int map_write(pid_t pid, const char *file, const char *text, struct err *e)
{
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/proc/%i/%s", pid, file);
	rc = file_write(path, text);
	/* Kernels before 3.19 have no setgroups file */
	if (rc && !(rc == -ENOENT && !strcmp(file, "setgroups")))
		return err_set(e, rc, "Cannot write '%s' to %s of the new user namespace: %s", text, file, strerror(-rc));
	return 0;
}

static int spawn_map(pid_t pid, const struct box_identity *id, struct err *e)
{
	char line[32];
	int rc;

	rc = map_write(pid, "setgroups", "deny", e);
	if (rc)
		return rc;
	snprintf(line, sizeof(line), "0 %u 1", id->uid);
	rc = map_write(pid, "uid_map", line, e);
	if (rc)
		return rc;
	snprintf(line, sizeof(line), "0 %u 1", id->gid);
	return map_write(pid, "gid_map", line, e);
}

static int spawn_open(struct box_ns *n, bool netns_only, struct err *e)
{
	char path[64];

	n->pidfd = box_pidfd_open(n->child);
	if (n->pidfd < 0)
		return err_set(e, n->pidfd, "Cannot watch the new process: %s", strerror(-n->pidfd));
	snprintf(path, sizeof(path), "/proc/%i/ns/net", n->child);
	n->netns_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (n->netns_fd >= 0 && !netns_only) {
		snprintf(path, sizeof(path), "/proc/%i/ns/user", n->child);
		n->userns_fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	if (n->netns_fd < 0 || (n->userns_fd < 0 && !netns_only))
		return err_set(e, -errno, "Cannot open %s: %s", path, strerror(errno));
	return 0;
}

/* From the birth of the child until it waits for release */
static int spawn_prepare(struct box_ns *n, const struct box_spawn_settings *s, struct box_notes *notes, struct err *e)
{
	int rc, code;

	if (spawn_next(n, notes, &code) != MSG_HELLO)
		return err_set(e, -ECHILD, "The new process ended before it could run");
	if (!s->netns_only) {
		rc = spawn_map(n->child, s->id, e);
		if (rc)
			return rc;
	}
	rc = spawn_open(n, s->netns_only, e);
	if (rc)
		return rc;
	if (send(n->sync_fd, "m", 1, MSG_NOSIGNAL) != 1 || spawn_next(n, notes, &code) != MSG_READY)
		return err_set(e, -ECHILD, "The new process ended before it could run");
	return 0;
}

int box_ns_spawn(struct box_ns *n, const struct box_spawn_settings *s, struct box_notes *notes, struct err *e)
{
	const unsigned long flags = CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS |
		(s->netns_only ? 0 : CLONE_NEWUSER);
	const bool as_other = !s->netns_only && s->id->change;
	int sync[2], rc;

	*n = (struct box_ns){ .userns_fd = -1, .netns_fd = -1, .pidfd = -1, .sync_fd = -1 };
	/* With SIGCHLD ignored, as some callers leave it, the status would be lost */
	signal(SIGCHLD, SIG_DFL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync))
		return err_set(e, -errno, "Cannot make a socket pair: %s", strerror(errno));

	n->child = as_other ? spawn_as(s->id, flags) : spawn_clone(flags);
	if (!n->child) {
		close(sync[0]);
		child_main(s, sync[1]);
	}
	close(sync[1]);
	n->sync_fd = sync[0];
	if (n->child < 0) {
		rc = clone_error(e, n->child, s->netns_only);
		n->child = 0;
	} else {
		rc = spawn_prepare(n, s, notes, e);
	}
	if (!rc)
		return 0;

	/* The child leaves when it sees this closed */
	close(n->sync_fd);
	n->sync_fd = -1;
	if (n->child)
		while (waitpid(n->child, NULL, 0) < 0 && errno == EINTR)
			;
	if (n->pidfd >= 0)
		close(n->pidfd);
	n->pidfd = -1;
	box_ns_forget(n);
	return rc;
}

int box_ns_release(struct box_ns *n, struct err *e)
{
	struct box_notes none = { 0 };
	int code = 0, kind = -ECHILD;

	if (send(n->sync_fd, "g", 1, MSG_NOSIGNAL) == 1)
		kind = spawn_next(n, &none, &code);
	close(n->sync_fd);
	n->sync_fd = -1;
	/* End of file without a message: exec() has closed the other end */
	if (kind != MSG_NO_EXEC)
		return 0;
	return err_set(e, -code, "Cannot run the command: %s", strerror(code));
}

int box_ns_status(const struct box_ns *n)
{
	siginfo_t si = { 0 };

	/* WNOWAIT: may be asked again */
	if (waitid(P_PID, (id_t)n->child, &si, WEXITED | WNOHANG | WNOWAIT) || !si.si_pid)
		return -EAGAIN;
	return si.si_code == CLD_EXITED ? si.si_status : 128 + si.si_status;
}
