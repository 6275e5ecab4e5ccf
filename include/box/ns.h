/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The namespaces that we serve: made for a command, or taken from others. We
 * never enter them ourselves, only helpers do: short-lived ones (box_ns_run()),
 * and one without rights that stays (box_ns_stay()). A guest that is root in its
 * user namespace then can't trace or signal us, and we need no capability at run
 * time.
 */
#ifndef BOX_NS_H
#define BOX_NS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "box/ident.h"

#define BOX_NOTES_MAX	4

struct box_notes {			/* warnings: set-up went on without something */
	int cnt;
	struct err note[BOX_NOTES_MAX];
};

struct box_ns {
	int userns_fd;			/* -1: nothing to enter */
	int netns_fd;
	int pidfd;			/* of the command or of the target process; -1: none */
	pid_t child;			/* the command, as we see it; 0: none */
	int sync_fd;			/* to the command that is held; -1: none or released */
};

struct box_spawn_settings {
	char *const *argv;		/* command and arguments; NULL: a login shell, $SHELL or /bin/sh */
	const char *hostname;		/* NULL: "pasta-" and the old one */
	bool netns_only;		/* no user namespace: needs CAP_SYS_ADMIN; the command keeps the caller's identity */
	const struct box_identity *id;	/* becomes uid and gid 0 of the new user namespace */
};

struct box_attach_settings {
	pid_t pid;			/* 0: by path */
	const char *netns;		/* path, or name in /run/netns if it has no '/' */
	const char *userns;		/* path; NULL: the process's, or none for a path */
	bool netns_only;		/* never enter a user namespace */
};

/* New user, network, PID, IPC, UTS and mount namespaces with a child that waits for box_ns_release(). It dies if we die
 * before that. Call it while single-threaded and with signals as the caller left them, since the command inherits both.
 */
int box_ns_spawn(struct box_ns *n, const struct box_spawn_settings *s, struct box_notes *notes, struct err *e);
/* Let the command run: 0 once exec() has succeeded, or why it has not */
int box_ns_release(struct box_ns *n, struct err *e);
/* Exit status of the command that has ended (128 + signal if killed), or -EAGAIN while it runs */
int box_ns_status(const struct box_ns *n);

/* Open namespaces that exist, and make sure that we may enter them */
int box_ns_attach(struct box_ns *n, const struct box_attach_settings *s, struct err *e);

/* Call FN(ARG) with all rights inside the namespaces, in a helper that shares our memory and descriptors while we wait.
 * Returns what FN returns, or a negative errno with words in *E if the namespaces can't be entered. FN must return, and
 * must not start threads or change signal handling.
 */
int box_ns_run(const struct box_ns *n, int (*fn)(void *arg), void *arg, struct err *e);

/* A process that stays inside the namespaces, with ID's identity, without any right or descriptor but FD, and calls FN(FD).
 * It ends when FN returns, or with us; it reports nothing, but FD closes with it. No signal comes from its end. Returns its
 * pid, or a negative errno with words.
 */
pid_t box_ns_stay(const struct box_ns *n, const struct box_identity *id, void (*fn)(int fd), int fd, struct err *e);
/* End it, and leave nothing of it. 0: there is none. */
void box_ns_stay_end(pid_t pid);

/* Close the namespace descriptors when box_ns_run() is needed no more; pidfd and child stay */
void box_ns_forget(struct box_ns *n);

#endif
