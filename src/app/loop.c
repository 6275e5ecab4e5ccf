/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The loop: wait, hand each event to its room, run what is due. The clock is
 * read once a turn. With nothing to do there is no timer and no wake-up.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "app_priv.h"
#include "base/bytes.h"

#define LOOP_HITS	64
#define LOOP_LINK	8		/* batches of the guest in one turn ... */
#define LOOP_LINK_END	64		/* ... and in the last one: more than its queue holds */
#define READ_WORK	800		/* nanoseconds for a datagram, to recvfrom() it, besides entering the kernel ... */
#define READ_TIME_MAX	200000		/* ... and for all of a turn */
#define CALL_TRIES	8		/* one of them is not disturbed */
#define READ_CNT	16		/* so few find room in a socket */
#define RA_MIN		(200 * NS_S)	/* between router advertisements: 200 to 600 s (RA-6) ... */
#define RA_SPREAD_MS	400000u		/* ... within the limits of RFC 4861 6.2.1 */

static void end_begin(struct app *a, ns_t limit)
{
	if (a->end != APP_END_NONE)
		return;
	app_listen_close(a);
	a->end = APP_END_DRAIN;
	a->busy_at = a->env.now;
	a->end_at = a->env.now + limit;
}

/* At most so many batches: frames in the last one, or negative errno */
static int link_read(struct app *a, int batches)
{
	struct l2 *l = a->env.l2;
	struct l2_frame f[L2_TAP_POOL];
	int n;

	do {
		n = l->ops->recv(l, f, L2_TAP_POOL);
		if (n > 0) {
			path_guest(&a->path, f, n);
			l->ops->release(l);
		}
	} while (n == L2_TAP_POOL && --batches);
	return n;
}

static void on_link(struct app *a, const struct ev_hit *hit)
{
	/* full of small frames, ACKs above all: the guest's queue must not grow while we make it longer */
	const int n = link_read(a, LOOP_LINK);

	if (n < 0 && n != -EAGAIN && n != -EINTR) {
		app_log(&a->log, APP_ERROR, "Can't read from the interface %s: %s", a->tap.name, strerror(-n));
		a->status = 1;
		a->end = APP_END_NOW;
	} else if (n <= 0 && hit->mask & (EV_ERR | EV_HUP)) {	/* the device was deleted */
		app_log(&a->log, APP_WARN, "The interface %s is gone", a->tap.name);
		a->end = APP_END_NOW;
	}
	a->busy_at = a->env.now;
}

static void on_flow(struct app *a, const struct ev_hit *hit)
{
	a->busy_at = a->env.now;
	path_host(&a->path, hit);
}

static void on_splice(struct app *a, const struct ev_hit *hit)
{
	a->busy_at = a->env.now;
	splice_event(&a->splice, hit, a->env.now);
}

static void on_child(struct app *a, const struct ev_hit *hit)
{
	int status;

	(void)hit;
	if (a->ns.child > 0) {
		status = box_ns_status(&a->ns);
		if (status < 0)
			return;
		if (a->end == APP_END_NONE)
			a->status = status;
		a->ev->ops->set(a->ev, a->watch.fd, (struct ev_ref){ 0 }, 0);
		end_begin(a, NS_NEVER / 2);
	} else if (box_watch_gone(&a->watch)) {
		a->ev->ops->set(a->ev, a->watch.fd, (struct ev_ref){ 0 }, 0);
		end_begin(a, APP_DRAIN_GONE);
	}
}

static void on_signal(struct app *a, const struct ev_hit *hit)
{
	int what = box_signals_read(a->signal_fd);

	if (what & BOX_SIGNAL_END) {
		a->status = 0;
		a->end = APP_END_NOW;
	}
	if (what & BOX_SIGNAL_CHILD && a->ns.child > 0 && a->end == APP_END_NONE)
		on_child(a, hit);
}

static void on_ping(struct app *a, const struct ev_hit *hit)
{
	ping_raw_host(&a->path.p, &a->ping_raw[hit->ref.idx], hit);
}

static void on_none(struct app *a, const struct ev_hit *hit)
{
	(void)a;
	(void)hit;
}

static void (*const routes[EV_KIND_CNT])(struct app *, const struct ev_hit *) = {
	[EV_KIND_NONE]	 = on_none,
	[EV_KIND_LINK]	 = on_link,
	[EV_KIND_FLOW]	 = on_flow,
	[EV_KIND_LISTEN] = app_listen_event,
	[EV_KIND_SPLICE] = on_splice,
	[EV_KIND_NS]	 = app_inside_event,
	[EV_KIND_CHILD]	 = on_child,
	[EV_KIND_SIGNAL] = on_signal,
	[EV_KIND_MONITOR] = app_late_event,
	[EV_KIND_OWN]	 = app_own_event,
	[EV_KIND_RESOLV] = app_dns_event,
	[EV_KIND_PING]	 = on_ping,
};

/* What we serve has ended: is everything that was accepted on its way out? */
static void end_check(struct app *a)
{
	if (a->env.now >= a->end_at || a->env.now - a->busy_at >= APP_DRAIN_IDLE) {
		a->end = APP_END_NOW;
	} else if (!path_draining(&a->path) && !splice_draining(&a->splice)) {
		/* datagrams sent just before the end: no connection tells of them */
		link_read(a, LOOP_LINK_END);
		a->end = APP_END_NOW;
	}
}

static void advertise(struct app *a)
{
	if (a->env.now < a->advertise_at)
		return;
	if (a->advertise_at)
		svc_advertise(&a->path.p, &a->path.svc);
	a->advertise_at = a->env.now + RA_MIN + rng_below(&a->rng, RA_SPREAD_MS) * NS_MS;
}

/* What starts with the loop: find the guest, and let it find us */
static void begin(struct app *a)
{
	a->advertise_at = NS_NEVER;
	if (a->late_cnt)
		app_late_check(a);	/* before the notifications began */
	if (a->conf.splice_only)
		return;
	if (a->conf.config_net) {
		svc_solicit(&a->path.p);
	} else if (a->path.svc.ra_on && a->fwd.f[FWD_V6].on) {
		a->advertise_at = 0;
		advertise(a);
	}
}

/* To enter the kernel and to come back: 0.1 us, or 1 us where a hypervisor or mitigations take part in it */
static ns_t call_time(void)
{
	ns_t best = NS_NEVER;

	for (int i = 0; i < CALL_TRIES; i++) {
		const ns_t begin = app_clock();

		getppid();
		best = BYTES_MIN(best, app_clock() - begin);
	}
	return best;
}

/* Who reads datagrams on our processors, in the guest or on the host, has a socket that holds fewer of them (212,992 bytes by
 * default, some 90 of 1400) than we can hand over before the scheduler lets it run: what overflows there has cost us all the
 * work, what waits in front of us none.
 */
static void let_readers(struct app *a)
{
	const uint32_t given = a->path.p.udp_given;
	const struct timespec t = { .tv_nsec = (long)BYTES_MIN(given * a->read_time, READ_TIME_MAX) };

	/* Many at once for the guest: leave the processor for as long as they take to read, since whoever reads them may wait
	 * for another one, and a scheduler moves it only to one that is idle. Measured with 40 in each send, on two processors
	 * that a sender, we and a reader share: 80 % of what we give arrives instead of 30 %, and that is more.
	 */
	if (given >= READ_CNT)
		nanosleep(&t, NULL);
	else if (a->path.p.udp_burst)
		sched_yield();
	a->path.p.udp_burst = false;
	a->path.p.udp_given = 0;
}

/* Bytes passed on so far */
static uint64_t moved(const struct app *a)
{
	return a->tap.rx_bytes + a->tap.tx_bytes + a->splice.stats.bytes[SPLICE_GUEST] + a->splice.stats.bytes[SPLICE_HOST];
}

void app_loop(struct app *a)
{
	struct ev_hit hit[LOOP_HITS];

	a->log.lost = &a->log_lost;
	begin(a);
	a->read_time = READ_WORK + call_time();
	prctl(PR_SET_TIMERSLACK, 1);	/* 50 us is too much for let_readers(); the command, begun earlier, keeps its own */

	while (a->end != APP_END_NOW) {
		ns_t until = BYTES_MIN(path_next(&a->path), splice_next(&a->splice));
		int n;

		until = BYTES_MIN(until, BYTES_MIN(a->advertise_at, a->follow_at));
		if (a->end == APP_END_DRAIN)
			until = BYTES_MIN(until, BYTES_MIN(a->end_at, a->busy_at + APP_DRAIN_IDLE));
		n = ev_look_wait(&a->look, a->ev, hit, LOOP_HITS, a->env.now, until, app_clock, moved(a));
		a->env.now = app_clock();
		if (n < 0) {
			app_log(&a->log, APP_ERROR, "Can't wait for events: %s", strerror(-n));
			a->status = 1;
			break;
		}
		for (int i = 0; i < n; i++)
			if (hit[i].ref.kind < EV_KIND_CNT)
				routes[hit[i].ref.kind](a, &hit[i]);
		path_tick(&a->path);
		let_readers(a);
		advertise(a);
		splice_tick(&a->splice, a->env.now);
		app_auto_tick(a);
		app_listen_resume(a);
		app_dns_look(a);
		if (a->trace.on)
			app_log_trace(a);
		if (a->end == APP_END_DRAIN)
			end_check(a);
	}
	app_listen_close(a);
	path_end(&a->path);
	splice_close(&a->splice);
	if (a->pcap.error)
		app_log(&a->log, APP_WARN, "%llu frames are missing in %s: %s", (unsigned long long)a->pcap.lost_cnt,
			a->conf.pcap_path, strerror(-a->pcap.error));
	app_log_drops(a);
}
