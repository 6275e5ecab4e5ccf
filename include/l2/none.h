/* SPDX-License-Identifier: BSD-3-Clause
 *
 * No guest link at all: nothing comes, nothing goes.
 */
#ifndef L2_NONE_H
#define L2_NONE_H

#include "port/l2.h"

void l2_none_init(struct l2 *l);

#endif
