/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared by the services: addresses that are the guest's own business.
 */
#ifndef SVC_PRIV_H
#define SVC_PRIV_H

#include "proto/svc.h"

/* Assigned, seen, or announced by the guest: never claimed by us */
bool svc_owned(const struct proto *p, const struct inaddr *a);
/* The guest announced A; ours and the router's are not for it to take */
void svc_own(struct proto *p, const struct inaddr *a);
/* One ARP request for the guest's assigned address */
void svc_arp_solicit(struct proto *p);
/* One neighbour solicitation for the guest's assigned address */
void svc_nd_solicit(struct proto *p);

#endif
