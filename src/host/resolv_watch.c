/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notice that the resolver file has changed: written in place, replaced by
 * renaming, or a link to it, or what a link leads to, turned elsewhere. Each
 * directory on the way is watched for the one name that matters there; where
 * one does not exist yet, the nearest above it for the next name of the path;
 * and the file itself, for writers that come by another way (a bind mount).
 *
 * Where the kernel has no watch left for us, the file's inode and times can be
 * compared now and then. Never reads the file, never polls. Watches are set before anybody reads, so
 * no change is lost; one too many may be reported.
 */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/bytes.h"
#include "host/resolv.h"

#define RESOLV_TRIES	8
#define DIR_MASK	(IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)
#define FILE_MASK	(IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF)

static bool place_add(struct resolv_watch *w, int wd, const char *name)
{
	struct resolv_place *at;

	for (unsigned i = 0; i < w->cnt; i++)
		if (w->at[i].wd == wd && !strcmp(w->at[i].name, name))
			return true;
	if (wd < 0 || w->cnt == RESOLV_PLACES || strlen(name) >= sizeof(at->name))
		return false;
	at = &w->at[w->cnt++];
	at->wd = wd;
	memcpy(at->name, name, strlen(name) + 1);
	return true;
}

/* Watch for PATH in its directory, or above. 0, or negative errno; *ret_there: the directory is the very one. -EAGAIN: it is
 * watched, but by now there may be a better place.
 */
static int watch_name(struct resolv_watch *w, const char *path, bool *ret_there)
{
	char dir[PATH_MAX], name[PATH_MAX], cut[PATH_MAX];
	int wd;

	snprintf(cut, sizeof(cut), "%s", path);
	for (*ret_there = true;; *ret_there = false) {
		snprintf(name, sizeof(name), "%s", cut);
		snprintf(dir, sizeof(dir), "%s", cut);
		snprintf(cut, sizeof(cut), "%s", dirname(dir));
		wd = inotify_add_watch(w->fd, cut, DIR_MASK);
		if (wd >= 0)
			break;
		if ((errno != ENOENT && errno != ENOTDIR) || !strcmp(cut, "/") || !strcmp(cut, "."))
			return -errno;
	}
	if (!place_add(w, wd, basename(name)))
		return -ENAMETOOLONG;
	/* made while we looked, and so without an event */
	return !*ret_there && !access(name, F_OK) ? -EAGAIN : 0;
}

/* Follow a link: its target into PATH */
static bool link_follow(char *path)
{
	char target[PATH_MAX], copy[PATH_MAX], joined[2 * PATH_MAX];
	const ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	snprintf(copy, sizeof(copy), "%s", path);
	if (*target == '/')
		snprintf(joined, sizeof(joined), "%s", target);
	else
		snprintf(joined, sizeof(joined), "%s/%s", dirname(copy), target);
	if (strlen(joined) >= PATH_MAX)
		return false;
	memcpy(path, joined, strlen(joined) + 1);
	return true;
}

static int watch_all(struct resolv_watch *w)
{
	char path[PATH_MAX];
	int r, tries = 0;
	bool there;

	w->cnt = 0;
	snprintf(path, sizeof(path), "%s", w->path);
	for (int hop = 0; hop < RESOLV_LINKS; hop++) {
		do
			r = watch_name(w, path, &there);
		while (r == -EAGAIN && ++tries < RESOLV_TRIES);
		if (r && r != -EAGAIN)	/* a file where a directory should be stays one */
			return r;
		if (!there || !link_follow(path))
			break;
	}
	if (there)
		place_add(w, inotify_add_watch(w->fd, path, FILE_MASK), "");
	return 0;
}

int resolv_watch_open(struct resolv_watch *w, const char *path, struct err *e)
{
	int r;

	*w = (struct resolv_watch){ .path = path };
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	r = w->fd < 0 ? -errno : watch_all(w);
	if (!r || w->cnt)		/* where a link leads may be none of our business; the link itself is */
		return 0;
	resolv_watch_close(w);
	resolv_watch_look(w);
	return err_set(e, r, "Can't watch %s: %s%s", path, strerror(-r),
		       r == -EMFILE ? "; raise fs.inotify.max_user_instances" : "");
}

bool resolv_watch_look(struct resolv_watch *w)
{
	const struct stat was = w->st;

	if (stat(w->path, &w->st))
		memset(&w->st, 0, sizeof(w->st));
	return was.st_ino != w->st.st_ino || was.st_dev != w->st.st_dev || was.st_size != w->st.st_size ||
	       was.st_mtim.tv_sec != w->st.st_mtim.tv_sec || was.st_mtim.tv_nsec != w->st.st_mtim.tv_nsec;
}

static bool is_ours(const struct resolv_watch *w, const struct inotify_event *ev)
{
	if (ev->mask & IN_Q_OVERFLOW)
		return true;
	for (unsigned i = 0; i < w->cnt; i++)
		if (w->at[i].wd == ev->wd && (!ev->len || !strcmp(w->at[i].name, ev->name)))
			return true;
	return false;
}

bool resolv_watch_changed(struct resolv_watch *w)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	int old[RESOLV_PLACES];
	const unsigned old_cnt = w->cnt;
	bool changed = false;
	ssize_t n;

	while ((n = read(w->fd, buf, sizeof(buf))) > 0) {
		for (size_t off = 0; off + sizeof(struct inotify_event) <= (size_t)n;) {
			const struct inotify_event *ev = (const void *)(buf + off);

			changed |= is_ours(w, ev);
			off += sizeof(*ev) + ev->len;
		}
	}
	if (!changed)
		return false;
	for (unsigned i = 0; i < old_cnt; i++)
		old[i] = w->at[i].wd;
	watch_all(w);			/* what it can't watch now it finds when something else changes on the way */
	for (unsigned i = 0; i < old_cnt; i++) {
		bool kept = false;

		for (unsigned k = 0; k < w->cnt; k++)
			kept |= w->at[k].wd == old[i];
		if (!kept)
			inotify_rm_watch(w->fd, old[i]);	/* fails where the kernel has done so */
	}
	return true;
}

void resolv_watch_close(struct resolv_watch *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}
