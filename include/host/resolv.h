/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resolver file, resolv.conf(5): nameserver, search and domain.
 */
#ifndef HOST_RESOLV_H
#define HOST_RESOLV_H

#include <stddef.h>

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

#endif
