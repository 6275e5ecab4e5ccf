/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notice the end of what we serve (ISO-18). A name is gone when it is removed
 * or moved away; a bind mount that is only unmounted is not. What can't be told
 * is taken as alive. Refuses to poll where inotify or a pidfd can tell; a
 * namespace given as one of our own descriptors has no end that shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/bytes.h"
#include "box/watch.h"
#include "box_priv.h"

static bool name_missing(const struct box_watch *w)
{
	struct stat st;

	/* ENOENT, or ENOTDIR and the like: not there. Permission denied: who knows. */
	return fstatat(w->dir_fd, w->name, &st, AT_SYMLINK_NOFOLLOW) && (errno == ENOENT || errno == ESTALE);
}

static bool fd_ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static int watch_poll(struct box_watch *w, const char *path, int code, struct box_notes *notes, struct err *e)
{
	const struct itimerspec each_s = { .it_interval.tv_sec = 1, .it_value.tv_sec = 1 };

	(void)err_set(box_note_next(notes), code, "Cannot watch the directory of %s: %s; looking there each second instead", path,
		      strerror(-code));
	w->kind = BOX_WATCH_POLL;
	w->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (w->fd < 0 || timerfd_settime(w->fd, 0, &each_s, NULL))
		return err_set(e, -errno, "Cannot make a timer: %s", strerror(errno));
	w->own_fd = true;
	return 0;
}

static int watch_name(struct box_watch *w, const char *path, struct box_notes *notes, struct err *e)
{
	char dir_buf[PATH_MAX], name_buf[PATH_MAX];
	const char *dir, *name;
	int code = 0;

	snprintf(dir_buf, sizeof(dir_buf), "%s", path);
	snprintf(name_buf, sizeof(name_buf), "%s", path);
	dir = dirname(dir_buf);
	name = basename(name_buf);
	if (strlen(name) >= sizeof(w->name))
		return err_set(e, -ENAMETOOLONG, "%s: name too long", path);
	memcpy(w->name, name, strlen(name) + 1);

	/* A handle, since the path may lead nowhere once we are locked in */
	w->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (w->dir_fd < 0)
		return err_set(e, -errno, "Cannot open directory %s: %s", dir, strerror(errno));
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->fd < 0 || inotify_add_watch(w->fd, dir, IN_DELETE | IN_MOVED_FROM | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR) < 0) {
		code = -errno;
		if (w->fd >= 0)
			close(w->fd);
		w->fd = -1;
		code = watch_poll(w, path, code, notes, e);
	} else {
		w->kind = BOX_WATCH_NAME;
		w->own_fd = true;
	}
	if (!code && name_missing(w))
		code = err_set(e, -ENOENT, "Network namespace %s has been removed", path);
	return code;
}

/* Paths in /proc: a process, or one of our descriptors, which may lead to a name elsewhere */
static int watch_proc(struct box_watch *w, const char *path, struct box_notes *notes, struct err *e)
{
	const pid_t pid = box_netns_pid(path);
	char target[PATH_MAX];
	struct stat a, b;
	ssize_t n;

	if (pid) {
		w->fd = box_pidfd_open(pid);
		if (w->fd < 0)
			return err_set(e, w->fd == -ESRCH ? -ENOENT : w->fd, "Cannot watch process %i: %s", pid, strerror(-w->fd));
		w->kind = BOX_WATCH_PID;
		w->own_fd = true;
		return 0;
	}
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0 || target[0] != '/')
		return 0;
	target[n] = '\0';
	if (stat(path, &a) || stat(target, &b) || a.st_dev != b.st_dev || a.st_ino != b.st_ino || box_netns_pid(target))
		return 0;
	return watch_name(w, target, notes, e);
}

int box_watch_open(struct box_watch *w, const struct box_ns *n, const char *path, struct box_notes *notes, struct err *e)
{
	char buf[PATH_MAX], dir[PATH_MAX];
	struct statfs fs;
	int rc;

	*w = (struct box_watch){ .kind = BOX_WATCH_NONE, .fd = -1, .dir_fd = -1 };
	if (n->pidfd >= 0) {
		w->kind = BOX_WATCH_PID;
		w->fd = n->pidfd;
		return 0;
	}
	path = box_netns_path(path, buf);
	if (!path)
		return err_set(e, -ENAMETOOLONG, "Network namespace: path too long");
	snprintf(dir, sizeof(dir), "%s", path);
	if (!statfs(dirname(dir), &fs) && fs.f_type == PROC_SUPER_MAGIC)
		rc = watch_proc(w, path, notes, e);
	else
		rc = watch_name(w, path, notes, e);
	if (rc)
		box_watch_close(w);
	return rc;
}

/* Whether events say that the name has gone; a new file of that name does not bring it back */
static bool name_gone(struct box_watch *w)
{
	char buf[sizeof(struct inotify_event) + NAME_MAX + 1] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool gone = false;
	ssize_t n;

	while ((n = read(w->fd, buf, sizeof(buf))) > 0) {
		for (size_t off = 0; off + sizeof(struct inotify_event) <= (size_t)n;) {
			const struct inotify_event *ev = (const void *)(buf + off);

			if ((ev->mask & (IN_DELETE | IN_MOVED_FROM)) && ev->len && !strcmp(ev->name, w->name))
				gone = true;
			if (ev->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW))
				gone |= name_missing(w);
			off += sizeof(*ev) + ev->len;
		}
	}
	return gone;
}

bool box_watch_gone(struct box_watch *w)
{
	uint64_t ticks;

	switch (w->kind) {
	case BOX_WATCH_NONE:
		return false;
	case BOX_WATCH_PID:
		return fd_ready(w->fd);
	case BOX_WATCH_NAME:
		return name_gone(w);
	case BOX_WATCH_POLL:
		(void)!read(w->fd, &ticks, sizeof(ticks));
		return name_missing(w);
	}
	return false;
}

void box_watch_close(struct box_watch *w)
{
	if (w->own_fd && w->fd >= 0)
		close(w->fd);
	if (w->dir_fd >= 0)
		close(w->dir_fd);
	w->fd = w->dir_fd = -1;
	w->kind = BOX_WATCH_NONE;
	w->own_fd = false;
}
