/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who we run as, and what we may do: one function per stage of isolation.
 * Set-up works with the caller's identity and rights; the stages below come
 * after it, in the order of this file.
 */
#ifndef BOX_IDENT_H
#define BOX_IDENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_identity {
	bool change;			/* uid and gid differ from the caller's, or groups must go */
	bool nobody;			/* by default, without --runas: tell the user in one line */
	uid_t uid;
	gid_t gid;
};

/* The initial user namespace, where uid 0 is the machine's root */
bool box_userns_is_initial(void);

/* Decide. RUNAS: UID[:GID] or LOGIN[:GROUP], NULL: not given; then root of the machine becomes nobody. A name that means
 * uid 0 is refused, the number 0 is not. 0 or -EINVAL with words.
 */
int box_identity_decide(const char *runas, struct box_identity *ret, struct err *e);

/* Stage 1: clear the bounding and ambient sets, if we may: without CAP_SETPCAP, as an ordinary user, we can't gain
 * anything by an exec() that stage 4 would not stop as well
 */
int box_bounds_drop(struct err *e);

/* Stage 2: become it, for good; supplementary groups go, and with the id of root all capabilities */
int box_identity_apply(const struct box_identity *id, struct err *e);

/* Stage 3: drop all capabilities but KEEP (bits 1 << CAP_x) */
int box_caps_drop(uint64_t keep, struct err *e);

/* Stage 4: no privilege ever again, and nobody of the same uid may trace us */
int box_seal(struct err *e);

#endif
