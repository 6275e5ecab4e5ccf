/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resolver file, resolv.conf(5): nameserver, search and domain.
 */
#ifndef HOST_RESOLV_H
#define HOST_RESOLV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/addr.h"
#include "base/err.h"

#define RESOLV_SERVERS	3		/* of each family */
#define RESOLV_SEARCH	6
#define RESOLV_NAME_LEN	256		/* RFC 1035 2.3.4: 255 with the dots, and a final NUL */
#define RESOLV_SCOPE_LEN 16		/* interface name or number with final NUL */

struct resolv {
	unsigned v4_cnt, v6_cnt, search_cnt;
	struct inaddr v4[RESOLV_SERVERS];
	struct inaddr v6[RESOLV_SERVERS];
	char v6_scope[RESOLV_SERVERS][RESOLV_SCOPE_LEN];	/* what stood after '%', for a link-local server; "" */
	char search[RESOLV_SEARCH][RESOLV_NAME_LEN];	/* no final dot */
};

/* Pure: from text of LEN bytes, which needs no final NUL. Lines that say nothing to us are passed over. */
void resolv_parse(const char *text, size_t len, struct resolv *ret);
/* From a file, PATH relative to the directory DIR_FD (AT_FDCWD: the current one). A missing file is an empty one. */
int resolv_read(int dir_fd, const char *path, struct resolv *ret, struct err *e);
/* Interface index of a scope, which is a name or a number; 0: there is none */
uint32_t resolv_scope(const char *scope);

#define RESOLV_LINKS	8		/* symbolic links on the way to the file that are followed */
#define RESOLV_PLACES	(RESOLV_LINKS + 1)

struct resolv_place {
	int wd;				/* a directory that is watched ... */
	char name[NAME_MAX + 1];	/* ... for this name in it; "": the file itself */
};

struct resolv_watch {
	int fd;				/* watch it for EV_IN, level; -1: none */
	const char *path;
	struct stat st;			/* as of the last look */
	unsigned cnt;
	struct resolv_place at[RESOLV_PLACES];
};

/* From now on notice changes of the file PATH, which need not exist; the string stays the caller's. Open before reading. After
 * an error only resolv_watch_look() can be called.
 */
int resolv_watch_open(struct resolv_watch *w, const char *path, struct err *e);
/* After an event on fd: whether to read again */
bool resolv_watch_changed(struct resolv_watch *w);
/* Without the kernel's help: whether the file is another one than at the last look */
bool resolv_watch_look(struct resolv_watch *w);
void resolv_watch_close(struct resolv_watch *w);

#endif
