/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notice the end of what we serve, without polling where the kernel can tell.
 */
#ifndef BOX_WATCH_H
#define BOX_WATCH_H

#include <limits.h>
#include <stdbool.h>

#include "base/err.h"
#include "box/ns.h"

enum box_watch_kind {
	BOX_WATCH_NONE,			/* nothing to notice */
	BOX_WATCH_PID,			/* a process ends: pidfd */
	BOX_WATCH_NAME,			/* a name is removed or moved away: inotify */
	BOX_WATCH_POLL,			/* the same by looking each second */
};

struct box_watch {
	enum box_watch_kind kind;
	int fd;				/* watch it for EV_IN, level; -1: none */
	bool own_fd;			/* fd is not the one in struct box_ns */
	int dir_fd;			/* where the name is */
	char name[NAME_MAX + 1];
};

/* For a command or a process (N has a pidfd): its end. For a namespace given as PATH (or name in /run/netns): the end of
 * that name. -ENOENT: it has ended already. What must be polled becomes a note.
 */
int box_watch_open(struct box_watch *w, const struct box_ns *n, const char *path, struct box_notes *notes, struct err *e);
/* After an event on fd: whether it has ended */
bool box_watch_gone(struct box_watch *w);
void box_watch_close(struct box_watch *w);

#endif
