/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared by the back-ends: the virtio-net header (virtio 1.2, 5.1.6), little
 * endian, as struct l2_frame's descriptor.
 */
#ifndef L2_PRIV_H
#define L2_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "port/l2.h"

#define L2_VNET_LEN	12		/* with num_buffers */
#define L2_VNET_LEN_OLD	10		/* without */

/* Header at P into the descriptor of F, whose len is set. False: it can't be true of such a frame. */
bool l2_vnet_parse(const uint8_t *p, struct l2_frame *f);
/* Descriptor of F to a header of L2_VNET_LEN bytes at P; num_buffers is 0 */
void l2_vnet_emit(uint8_t *p, const struct l2_frame *f);
/* Whether a link with offloads TAKES can send F as it is */
bool l2_takes(uint32_t takes, const struct l2_frame *f);

#endif
