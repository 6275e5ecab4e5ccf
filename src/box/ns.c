/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Namespaces that exist: open them, check what they are, and run functions
 * inside. We never enter them ourselves: having entered a child user namespace
 * we could not come back, since setns() takes CAP_SYS_ADMIN over the target.
 * Refuses files that are no namespaces of the right kind. Invariant: a target
 * process is held by its pidfd before its files are opened and seen alive
 * after, so that a recycled PID can't be taken for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "box_priv.h"

#define RUN_DIR		"/run/netns/"
#define RUN_STACK	(256 * 1024)

struct err *box_note_next(struct box_notes *notes)
{
	if (notes->cnt < BOX_NOTES_MAX)
		notes->cnt++;
	return &notes->note[notes->cnt - 1];
}

const char *box_netns_path(const char *path_or_name, char *buf)
{
	const int n = snprintf(buf, PATH_MAX, "%s%s", strchr(path_or_name, '/') ? "" : RUN_DIR, path_or_name);

	return n > 0 && n < PATH_MAX ? buf : NULL;
}

pid_t box_netns_pid(const char *path)
{
	char *end;
	long pid;

	if (strncmp(path, "/proc/", 6) || path[6] < '1' || path[6] > '9')
		return 0;
	errno = 0;
	pid = strtol(path + 6, &end, 10);
	return *end == '/' && !errno && pid <= INT_MAX ? (pid_t)pid : 0;
}

int box_pidfd_open(pid_t pid)
{
	const long fd = syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : (int)fd;
}

static const char *ns_word(int type)
{
	return type == CLONE_NEWUSER ? "user" : "network";
}

/* Open a namespace of kind TYPE at PATH; -EACCES and -EPERM may come right inside the user namespace */
static int ns_open(const char *path, int type, struct err *e)
{
	/* O_NONBLOCK: a FIFO must not hold us */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int kind;

	if (fd < 0) {
		const int code = errno;

		if (code == EACCES || code == EPERM)
			return err_set(e, -code, "Cannot open %s namespace %s: %s; check its owner and mode, and whether a security module "
				       "(AppArmor, SELinux) denies it in its log", ns_word(type), path, strerror(code));
		return err_set(e, -code, "Cannot open %s namespace %s: %s", ns_word(type), path, strerror(code));
	}
	kind = ioctl(fd, NS_GET_NSTYPE);
	if (kind == type)
		return fd;
	close(fd);
	if (kind > 0)
		return err_set(e, -EINVAL, "%s is a namespace, but not a %s namespace", path, ns_word(type));
	return err_set(e, -EINVAL, "%s is not a %s namespace: give the path of one, such as /run/netns/NAME or /proc/PID/ns/%s",
		       path, ns_word(type), type == CLONE_NEWUSER ? "user" : "net");
}

static bool ns_is_ours(int fd, const char *ours)
{
	struct stat a, b;

	return !fstat(fd, &a) && !stat(ours, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* What the helper of box_ns_run() gets, in shared memory */
struct run {
	const struct box_ns *n;
	int (*fn)(void *arg);
	void *arg;
	struct err *e;
	int rc;
};

int box_ns_enter(const struct box_ns *n, struct err *e)
{
	int code;

	if (n->userns_fd >= 0 && setns(n->userns_fd, CLONE_NEWUSER)) {
		code = errno;
		return err_set(e, -code, "Cannot enter the user namespace: %s%s", strerror(code),
			       code == EPERM ? "; it belongs to another user" : "");
	}
	if (n->netns_fd >= 0 && setns(n->netns_fd, CLONE_NEWNET)) {
		code = errno;
		return err_set(e, -code, "Cannot enter the network namespace: %s%s", strerror(code),
			       code == EPERM ? "; it takes CAP_SYS_ADMIN in the user namespace that owns it: give that with --userns, or "
			       "run as its owner" : "");
	}
	return 0;
}

static int run_main(void *arg)
{
	struct run *r = arg;

	r->rc = box_ns_enter(r->n, r->e);
	if (!r->rc && r->fn)
		r->rc = r->fn(r->arg);
	return 0;
}

int box_ns_run(const struct box_ns *n, int (*fn)(void *arg), void *arg, struct err *e)
{
	struct run r = { .n = n, .fn = fn, .arg = arg, .e = e, .rc = -ECHILD };
	int status = 0;
	uint8_t *stack;
	pid_t pid;

	stack = mmap(NULL, RUN_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return err_set(e, -errno, "Cannot map a stack: %s", strerror(errno));

	/* A process, not a thread: only that can enter a user namespace. No exit signal, so that no SIGCHLD is left. */
	pid = clone(run_main, stack + RUN_STACK, CLONE_VM | CLONE_FILES | CLONE_VFORK, &r);
	if (pid < 0) {
		r.rc = err_set(e, -errno, "Cannot start a helper in the namespace: %s", strerror(errno));
		goto out;
	}
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status))
		r.rc = err_set(e, -ECHILD, "The helper in the namespace was killed by signal %i", WTERMSIG(status));
out:
	munmap(stack, RUN_STACK);
	return r.rc;
}

/* Open a path inside the user namespace only, where it may be readable */
struct reopen {
	const char *path;
	struct err *e;
	int fd;
};

static int reopen_main(void *arg)
{
	struct reopen *r = arg;

	r->fd = ns_open(r->path, CLONE_NEWNET, r->e);
	return 0;
}

static int netns_open(struct box_ns *n, const char *path, struct err *e)
{
	struct reopen r = { .path = path, .e = e, .fd = -EACCES };
	struct box_ns user_only = *n;
	int rc;

	n->netns_fd = ns_open(path, CLONE_NEWNET, e);
	if (n->netns_fd >= 0 || n->userns_fd < 0 || (n->netns_fd != -EACCES && n->netns_fd != -EPERM))
		return n->netns_fd;

	/* Perhaps it can be read inside the user namespace */
	user_only.netns_fd = -1;
	rc = box_ns_run(&user_only, reopen_main, &r, e);
	if (!rc)
		n->netns_fd = r.fd;
	return n->netns_fd;
}

static int attach_pid(struct box_ns *n, const struct box_attach_settings *s, char *user, char *net, struct err *e)
{
	n->pidfd = box_pidfd_open(s->pid);
	if (n->pidfd < 0)
		return err_set(e, n->pidfd, "Cannot attach to process %i: %s", s->pid, strerror(-n->pidfd));
	snprintf(user, PATH_MAX, "/proc/%i/ns/user", s->pid);
	snprintf(net, PATH_MAX, "/proc/%i/ns/net", s->pid);
	return 0;
}

static int attach_open(struct box_ns *n, const struct box_attach_settings *s, struct err *e)
{
	char user_buf[PATH_MAX], net_buf[PATH_MAX];
	const char *user = s->userns, *net = net_buf;
	struct pollfd p;
	int rc;

	if (s->pid) {
		rc = attach_pid(n, s, user_buf, net_buf, e);
		if (rc)
			return rc;
		if (!user)
			user = user_buf;
	} else {
		net = box_netns_path(s->netns, net_buf);
		if (!net)
			return err_set(e, -ENAMETOOLONG, "Network namespace: path too long");
	}
	if (user && !s->netns_only) {
		n->userns_fd = ns_open(user, CLONE_NEWUSER, e);
		if (n->userns_fd >= 0 && ns_is_ours(n->userns_fd, "/proc/self/ns/user")) {
			/* Entering one's own fails with EINVAL, and there is nothing to enter */
			close(n->userns_fd);
			n->userns_fd = -1;
		} else if (n->userns_fd < 0) {
			rc = n->userns_fd;
			goto gone;
		}
	}
	rc = netns_open(n, net, e);
gone:
	p = (struct pollfd){ .fd = n->pidfd, .events = POLLIN };
	if (n->pidfd >= 0 && poll(&p, 1, 0) > 0)
		return err_set(e, -ESRCH, "Cannot attach to process %i: it has ended", s->pid);
	return rc < 0 ? rc : 0;
}

static void ns_close(struct box_ns *n)
{
	box_ns_forget(n);
	if (n->pidfd >= 0)
		close(n->pidfd);
	n->pidfd = -1;
}

static void ns_reopen(int *fd, const char *path)
{
	const int inside = *fd < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	if (inside < 0)
		return;
	close(*fd);
	*fd = inside;
}

/* A descriptor by the path of a bind mount keeps that mount busy: put one from inside in its place */
static int attach_main(void *arg)
{
	struct box_ns *n = arg;

	ns_reopen(&n->userns_fd, "/proc/self/ns/user");
	ns_reopen(&n->netns_fd, "/proc/self/ns/net");
	return 0;
}

int box_ns_attach(struct box_ns *n, const struct box_attach_settings *s, struct err *e)
{
	int rc;

	*n = (struct box_ns){ .userns_fd = -1, .netns_fd = -1, .pidfd = -1, .sync_fd = -1 };
	rc = attach_open(n, s, e);
	/* Find out now whether we may enter */
	if (!rc)
		rc = box_ns_run(n, attach_main, n, e);
	if (rc)
		ns_close(n);
	return rc;
}

void box_ns_forget(struct box_ns *n)
{
	if (n->userns_fd >= 0)
		close(n->userns_fd);
	if (n->netns_fd >= 0)
		close(n->netns_fd);
	n->userns_fd = n->netns_fd = -1;
}
