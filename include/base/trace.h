/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Trace of the pure rooms, and of spliced flows: a ring of small records in the
 * caller's memory, one test when off. app turns new records into log lines; tests
 * dump them.
 */
#ifndef BASE_TRACE_H
#define BASE_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ns.h"

#define TRACE_LEN	1024		/* records, a power of two */

struct trace_rec {
	ns_t at;
	const char *what;		/* static text of the event */
	uint32_t flow;			/* number of the flow, UINT32_MAX: none */
	bool opens;			/* the flow begins here */
	uint32_t a, b;			/* meaning by event */
};

struct trace {
	bool on;
	uint32_t head;			/* records ever written */
	uint32_t read;			/* records that app has printed */
	struct trace_rec rec[TRACE_LEN];
};

static inline void trace_add(struct trace *t, ns_t at, const char *what, uint32_t flow, uint32_t a, uint32_t b)
{
	if (!t || !t->on)
		return;
	t->rec[t->head++ % TRACE_LEN] = (struct trace_rec){ at, what, flow, false, a, b };
}

static inline void trace_open(struct trace *t, ns_t at, const char *what, uint32_t flow, uint32_t a, uint32_t b)
{
	trace_add(t, at, what, flow, a, b);
	if (t && t->on)
		t->rec[(t->head - 1) % TRACE_LEN].opens = true;
}

#endif
