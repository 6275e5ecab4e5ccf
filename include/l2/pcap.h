/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Capture: a guest link that writes each frame that passes to a file, and is
 * otherwise the link below.
 */
#ifndef L2_PCAP_H
#define L2_PCAP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "port/l2.h"

struct l2_pcap {
	struct l2 l2;			/* hand this to others */
	struct l2 *below;
	int fd;
	int error;			/* negative errno of the first write that failed, 0: none; for one line in the log */
	uint64_t lost_cnt;		/* frames that could not be written */
};

/* New file at PATH, mode 0600, an old one is emptied. pcap 2.4, Ethernet, microseconds, both directions; super-frames as
 * they pass the link, so checksums may be partial. 0 or negative errno.
 */
int l2_pcap_open(struct l2_pcap *p, const char *path, struct l2 *below, struct err *e);
/* Flush to the disk and close; the link below stays */
void l2_pcap_close(struct l2_pcap *p);

#endif
