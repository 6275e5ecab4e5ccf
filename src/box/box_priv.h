/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared in the room: notes, and the path of a namespace.
 */
#ifndef BOX_PRIV_H
#define BOX_PRIV_H

#include "box/ns.h"

/* Next free note, or the last one again */
struct err *box_note_next(struct box_notes *notes);
/* "/run/netns/NAME" for a name without '/', in BUF of PATH_MAX bytes; others as they are. NULL: too long. */
const char *box_netns_path(const char *path_or_name, char *buf);
/* Process of a path like /proc/PID/ns/net; 0: another path */
pid_t box_netns_pid(const char *path);
int box_pidfd_open(pid_t pid);
/* For good, with the rights of the caller: 0 or negative errno with words */
int box_ns_enter(const struct box_ns *n, struct err *e);

#endif
