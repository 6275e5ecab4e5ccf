/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One instance of the program: all rooms, built and wired. Nothing outside this
 * folder sees it.
 */
#ifndef APP_PRIV_H
#define APP_PRIV_H

#include "box/daemon.h"
#include "box/ns.h"
#include "box/watch.h"
#include "conf/conf.h"
#include "ev/ev.h"
#include "ev/look.h"
#include "flow/fwd_auto.h"
#include "host/diag.h"
#include "host/nl.h"
#include "host/resolv.h"
#include "host/sk.h"
#include "host/sk_ns.h"
#include "host/splice.h"
#include "l2/none.h"
#include "l2/pcap.h"
#include "l2/tap.h"
#include "path/path.h"

#define APP_DRAIN_IDLE	(60 * NS_S)	/* a command has ended: how long its data may rest at a far end that stalls; as long
					 * as Linux keeps an orphaned socket by net.ipv4.tcp_fin_timeout
					 */
#define APP_DRAIN_GONE	(800 * NS_MS)	/* a namespace has gone: all of it, so that we end within a second */

#define APP_HALF_OPEN	512		/* connections of one published port that the guest has not answered: beyond that they wait in
					 * the kernel's queue, which answers its clients no more once it is full. As many as a
					 * Linux guest of moderate size would hold itself (net.ipv4.tcp_max_syn_backlog).
					 */

#define APP_TALLY	4		/* kinds of failure to bind that are told apart */

enum app_level { APP_ERROR, APP_WARN, APP_INFO, APP_DEBUG };

struct app_log {
	enum app_level max;
	bool stamp;			/* put seconds since `start` in front */
	ns_t start;
	unsigned *lost;			/* once we serve: lines that had no room; NULL: wait for room */
};

struct app_listener {
	enum fwd_proto proto;
	int h;				/* socket, -1: none, free for another port */
	struct inaddr target;		/* unset: the guest's own address */
	uint16_t port;			/* towards the guest */
	uint16_t rule;			/* which it serves, of conf.host_rules */
	uint32_t gen;			/* in its events' references */
	uint32_t next_free;		/* index + 1, 0: none */
	bool paused;			/* out of flows or descriptors, or too many half open: accept again when one is free */
};

struct app_group {			/* published ports of one protocol in one direction, without those of "auto" */
	unsigned strong;		/* asked for by number */
	unsigned weak;			/* of "all" ... */
	unsigned share;			/* ... how many of them may take a descriptor ... */
	unsigned bound;			/* ... and how many do */
	bool wait;			/* some of them wait for their interface, or would lead back to us */
};

struct app_late {			/* a rule with an interface, or an address that was not there */
	uint16_t rule;			/* of conf.host_rules */
	unsigned ifindex;		/* that its sockets are bound to, 0: none */
	bool served;
	bool failed;			/* the interface is there, but ports could not be bound */
};

struct app_auto_port {			/* a socket that mirrors one of the other side */
	struct fwd_want want;
	int idx;			/* of its listener, or negative errno: can't be opened */
	bool told;			/* people know of that */
	ns_t retry_at;
};

struct app_auto {			/* rules of one direction that follow what listens on the side that they lead to */
	bool on;			/* there are such rules */
	struct diag *diag;		/* that side's namespace; NULL: it can't be asked */
	bool off[2][SK_FAMILIES];	/* by enum sk_proto: the kernel does not tell of these, or nobody wants to know */
	bool told, told_max;
	struct diag_socks seen, next;	/* what listened last time, and does now */
	struct inaddr guest[2 * FWD_FAMILIES];	/* where the guest was to be reached last time */
	struct app_auto_port *port;	/* in order of what they want */
	uint32_t port_cnt;
	ns_t retry_at;			/* NS_NEVER: all are open */
};

enum app_end {
	APP_END_NONE,
	APP_END_DRAIN,			/* what we serve has ended: pass on what was accepted */
	APP_END_NOW,
};

struct app {
	struct conf conf;
	struct app_log log;
	unsigned log_lost;
	struct fwd fwd;
	struct env env;
	struct path path;
	struct twheel tw;
	struct rng rng;
	struct trace trace;
	struct drops drops;
	struct flow_tab flows;
	struct udp_settings udp;
	struct tcp_settings tcp;
	struct tcp_pool tcp_pool;
	struct proto_reasm *reasm;
	struct ping_raw ping_raw[FWD_FAMILIES];
	bool no_ping;			/* neither ping sockets nor raw ones are permitted */
	struct proto_groups *groups;
	uint8_t *scratch;
	struct l2_tap tap;
	struct l2 no_link;		/* in its place with --splice-only */
	struct l2_pcap pcap;
	struct sk_host sk, sk_inside;	/* host's network, guest's network */
	struct sk_ns sk_ns;
	bool inside_news;		/* sk_ns has had an answer */
	uint32_t guest_ifindex;		/* of the link, inside the namespace */
	pid_t inside_pid;		/* who makes sockets inside the namespace; 0: nobody, for no rule needs any */
	struct splice splice;
	struct ev *ev;
	struct ev_look look;
	ns_t read_time;			/* of a datagram: of who reads it on our processors */

	struct box_ns ns;
	struct box_watch watch;
	struct resolv_watch resolv;
	ns_t resolv_look_at;		/* next look at what can't be watched, NS_NEVER: it can be */
	uint32_t dns_host_scope;	/* interface index of --dns-host, 0: not given */
	uint32_t dns_cnt;		/* uses of resolvers, as of the last look */
	struct box_daemon daemon;
	struct box_notes notes;
	int signal_fd, pid_fd;

	struct nl_template tmpl[FWD_FAMILIES];
	struct nl_ns_done ns_done;
	struct nl_warns warns;

	struct app_listener *listener;
	uint32_t *half_open;		/* by listener */
	uint32_t listener_cnt;		/* in use, or free again */
	uint32_t listener_cap;
	uint32_t listener_free;		/* first one that is free again: index + 1, 0: none */
	struct app_group group[2][FWD_PROTOS];	/* on the host, in the namespace */
	uint8_t held[FWD_PROTOS][8192];	/* by port: ours on the host, not of "auto" */
	unsigned fd_limit, fd_wanted;	/* hard limit of descriptors, and what would be enough for all ports */
	struct app_late *late;
	unsigned late_cnt;
	int late_fd;			/* notifications, -1: nothing to wait for */
	int own_fd;			/* the same for own.c, -1: none */
	struct app_auto follow[2];	/* by where we listen: on the host, in the namespace */
	ns_t follow_at;			/* when to look again, NS_NEVER: no rule asks for it */
	uint32_t *ours;			/* inodes of our listening sockets, in order, if there are such rules */
	uint32_t ours_cnt, ours_room;
	ns_t listen_until;		/* how long to wait for a port that is in use */
	bool any_paused;

	ns_t advertise_at;		/* next router advertisement that nobody asked for, NS_NEVER: none */
	enum app_end end;
	ns_t end_at;			/* deadline of draining */
	ns_t busy_at;			/* last event of a flow or of the link */
	int status;			/* our exit status */
};

/* --- log.c --- */
void app_log(const struct app_log *l, enum app_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The one line that says why we don't start; returns 1, the exit status */
int app_fail(const struct app *a, const struct err *e);
/* Warnings that set-up collected, each once */
void app_log_notes(struct app *a);
/* New records of the trace as debug lines */
void app_log_trace(struct app *a);
/* Counters of what was refused, as debug lines */
void app_log_drops(const struct app *a);
/* What we do for whom, as info lines */
void app_log_report(const struct app *a);

/* --- init.c --- */
/* All set-up up to the first turn of the loop. 0, or negative errno with the words in E. */
int app_init(struct app *a, int argc, char *const argv[], struct err *e);
/* What the kernel does not take back by itself; also after app_init() failed half-way */
void app_free(struct app *a);
ns_t app_clock(void);
/* The interface that people chose as a template, NULL: none */
const char *app_template_name(const struct app *a, enum fwd_family fam);
/* The first two numbers in a file of /proc: how many there are */
int app_proc_numbers(const char *path, unsigned *ret_a, unsigned *ret_b);

/* --- dns.c --- */
/* Interface of --dns-host, before there is a guest: 0, or negative errno with E set */
int app_dns_scope(struct app *a, struct err *e);
/* Resolvers of the forwarding addresses, from options and the host's file, and the watch of that */
int app_dns_init(struct app *a, struct err *e);
/* The file may have changed */
void app_dns_event(struct app *a, const struct ev_hit *hit);
/* After a turn, where the file can't be watched: look at it if the guest has asked */
void app_dns_look(struct app *a);

/* --- fwd.c --- */
/* Addresses of both families from options and the host's network */
int app_fwd_init(struct app *a, struct err *e);
void app_listen_event(struct app *a, const struct ev_hit *hit);
/* Accept again where that was given up */
void app_listen_resume(struct app *a);

/* --- listen.c --- */
/* Whether the descriptors that we may have are enough, before anything is bound */
int app_listen_budget(struct app *a, struct err *e);
/* Bind all published ports that don't depend on what the other side listens on */
int app_listen(struct app *a, struct err *e);
/* Inside the namespace: bind the loopback ports that lead to the host */
int app_listen_ns(struct app *a, struct err *e);
/* Free the published ports at once, for the next instance: the kernel takes its time with the rest of us */
void app_listen_close(struct app *a);
/* The ports of one rule: 0, -ENODEV without its interface, or another negative errno. *ret_absent: the host does not have
 * the address yet.
 */
int app_listen_rule(struct app *a, unsigned rule, bool *ret_absent, struct err *e);
void app_listen_rule_close(struct app *a, unsigned rule);
/* A socket for PORT of rule RULE of conf.host_rules: index in a->listener, or negative errno. FREEBIND: even if the host
 * does not have the address.
 */
int app_listener_open(struct app *a, unsigned rule, uint16_t port, bool freebind);
void app_listener_close(struct app *a, uint32_t idx);
/* The same for a rule that follows the other side: at address LISTEN, of conf.ns_rules inside the namespace if NS. INSIDE: who
 * makes sockets there. Index for app_follower_close(), or negative errno, -EAGAIN if a socket is on its way.
 */
int app_follower_open(struct app *a, bool ns, struct sk_host *inside, const struct fwd_want *w);
void app_follower_close(struct app *a, bool ns, uint32_t idx);

struct app_tally {			/* ports of one rule that could not be bound, by errno */
	const struct fwd_rule *r;
	bool ns;
	unsigned kind_cnt;
	struct {
		int err;		/* negative errno */
		unsigned cnt, first, last;
	} kind[APP_TALLY];
};
void app_tally_add(struct app_tally *t, int err, unsigned port);
/* A line for each errno */
void app_tally_tell(const struct app *a, const struct app_tally *t);

/* --- auto.c --- */
/* Which directions have rules that follow the other side. Before anything is bound. */
void app_auto_plan(struct app *a);
/* Get ready to ask who listens: NS on the host, else in the namespace; from there. What fails is told, and no error. */
void app_auto_open(struct app *a, bool ns);
/* Look for the first time. For NS from inside the namespace, where it needs no help to make sockets. */
void app_auto_begin(struct app *a, bool ns);
/* Whether ports that take a privilege to bind may be found later on */
bool app_auto_privileged(const struct app *a);
void app_auto_tick(struct app *a);
/* No more: all of them are closed elsewhere */
void app_auto_end(struct app *a);
void app_auto_free(struct app *a);
/* Our own listening sockets, which are nobody's service */
void app_ours_add(struct app *a, int h);
void app_ours_del(struct app *a, int h);

/* --- late.c --- */
/* Follow the interface and address of RULE, tell people once if it is not served. NO_IFNAME, ABSENT: what is missing. */
int app_late_add(struct app *a, unsigned rule, bool no_ifname, bool absent, struct err *e);
/* Begin to watch, if there is reason to */
int app_late_open(struct app *a, struct err *e);
void app_late_close(struct app *a);
void app_late_check(struct app *a);
void app_late_event(struct app *a, const struct ev_hit *hit);

/* --- own.c --- */
/* Notifications of changes, if there is reason to look at them; they are kept until the loop runs */
int app_own_open(struct app *a, struct err *e);
/* What of the host's own addresses concerns S, whose guest addresses are set */
void app_own_init(const struct app *a, const struct nl_template *t, struct fwd_family_set *s);
/* --host-own-addr, inside the namespace, where the interface is up */
int app_own_link(struct app *a, struct nl *nl, uint32_t ifindex, struct err *e);
void app_own_event(struct app *a, const struct ev_hit *hit);

/* --- inside.c --- */
/* Whether some rule takes sockets inside the namespace at run time */
bool app_inside_needed(const struct app *a);
/* Begin to have sockets inside the namespace: sk_ns, and sk_inside which takes from it. At set-up, with the rights to enter. */
int app_inside_start(struct app *a, const struct box_identity *id, struct err *e);
/* Whether a connection or what waits at a UDP socket has been taken care of: for TCP because it is local; for UDP always, unless
 * it has to wait for sockets inside
 */
bool app_inside_tcp(struct app *a, const struct app_listener *l, int h, const struct sk_addr *peer, const struct sk_addr *local);
bool app_inside_udp(struct app *a, const struct app_listener *l, const struct udp_listener *u, const struct ev_hit *hit);
void app_inside_event(struct app *a, const struct ev_hit *hit);
void app_inside_end(struct app *a);

/* --- loop.c --- */
void app_loop(struct app *a);

#endif
