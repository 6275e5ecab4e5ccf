/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The way of a frame: from the guest link to the protocol it is for, from a
 * host socket's event to its flow, and the turn of timers. Pure: the loop in
 * app does the waiting.
 */
#ifndef PATH_PATH_H
#define PATH_PATH_H

#include "proto/ping.h"
#include "proto/svc.h"
#include "proto/tcp.h"
#include "proto/udp.h"

struct path {
	struct proto p;
	struct svc svc;

	/* the batch in work */
	struct proto_pkt pkt[L2_BATCH];
	struct tcp_seg seg[L2_BATCH];
	uint32_t group[L2_BATCH];	/* flows with packets in this batch, in order of their first */
	uint32_t group_cnt;
};

void path_init(struct path *pa, struct env *e, struct flow_tab *flows, struct fwd *fwd, const struct svc *svc);
/* Frames from the guest, at most L2_BATCH. All sends that return -EINPROGRESS keep them in use (port/sk.h). */
void path_guest(struct path *pa, const struct l2_frame *f, int n);
/* Event of a flow's host socket */
void path_host(struct path *pa, const struct ev_hit *hit);
/* Timers that are due, and flows that gave up their last turn */
void path_tick(struct path *pa);
/* When path_tick() must run next: now or earlier if there is work, NS_NEVER if nothing is to come */
ns_t path_next(const struct path *pa);
/* Whether some flow of the guest has not come to its end: for the time after the guest's own */
bool path_draining(const struct path *pa);
/* End all flows so that the kernel finishes what was accepted */
void path_end(struct path *pa);

#endif
