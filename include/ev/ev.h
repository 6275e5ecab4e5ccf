/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Event engines of this kernel, behind the table of port/ev.h.
 */
#ifndef EV_EV_H
#define EV_EV_H

#include "base/err.h"
#include "port/ev.h"

/* An epoll instance; 0 or negative errno. Ends with ops->close(). */
int ev_epoll_open(struct ev **ret, struct err *e);

#endif
