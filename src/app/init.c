/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From a command line to a running instance, in the order of what depends on
 * what: options, background, the host's network, published ports (with the
 * caller's rights), the namespace and the link in it, then fewer rights.
 * Whatever the guest can reach begins only after that.
 */
#include <errno.h>
#include <limits.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "app_priv.h"
#include "base/bytes.h"
#include "proto/group.h"
#include "proto/reasm.h"

#define UDP_ONEWAY	(30 * NS_S)	/* net.netfilter.nf_conntrack_udp_timeout and _stream, where nobody set them */
#define UDP_STREAM	(120 * NS_S)

ns_t app_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_S + t.tv_nsec;
}

int app_proc_numbers(const char *path, unsigned *ret_a, unsigned *ret_b)
{
	FILE *f = fopen(path, "re");
	int n = f ? fscanf(f, "%u %u", ret_a, ret_b) : 0;

	if (f)
		fclose(f);
	return BYTES_MAX(n, 0);
}

static void log_init(struct app *a)
{
	static const enum app_level of[] = {
		[CONF_LEVEL_QUIET] = APP_WARN, [CONF_LEVEL_INFO] = APP_INFO,
		[CONF_LEVEL_DEBUG] = APP_DEBUG, [CONF_LEVEL_TRACE] = APP_DEBUG,
	};

	a->log.max = of[a->conf.level];
	a->log.stamp = a->conf.level >= CONF_LEVEL_DEBUG;
	a->trace.on = a->conf.level >= CONF_LEVEL_DEBUG;
	for (unsigned i = 0; i < a->conf.warn_cnt; i++)
		app_log(&a->log, APP_WARN, "%s", a->conf.warn[i]);
}

/* The host's ephemeral ports; all zero: they can't be read */
static struct sk_ports ephemeral_ports(void)
{
	unsigned first, last;

	if (app_proc_numbers("/proc/sys/net/ipv4/ip_local_port_range", &first, &last) != 2 || first > last || last > 65535)
		return (struct sk_ports){ 0 };
	return (struct sk_ports){ (uint16_t)first, (uint16_t)last };
}

static int rules_init(struct app *a, int argc, char *const argv[], struct err *e)
{
	struct conf_ports ports = { a->sk.set.ephemeral.first, a->sk.set.ephemeral.last };

	if (!ports.ephemeral_last) {
		ports = (struct conf_ports){ 49152, 65535 };	/* RFC 6335 6 */
		app_log(&a->log, APP_WARN, "Can't read net.ipv4.ip_local_port_range: taking %u to %u for the host's own ports",
			ports.ephemeral_first, ports.ephemeral_last);
	}
	return conf_rules_parse(&a->conf, argc, argv, &ports, e);
}

static int identity(const struct app *a, struct box_identity *ret, struct err *e)
{
	const struct conf_runas *r = &a->conf.runas;
	char text[512];

	switch (r->kind) {
	case CONF_RUNAS_DEFAULT:
		return box_identity_decide(NULL, ret, e);
	case CONF_RUNAS_IDS:
		snprintf(text, sizeof(text), "%u:%u", r->uid, r->gid);
		break;
	case CONF_RUNAS_NAMES:
		snprintf(text, sizeof(text), "%.*s%s%.*s", (int)r->login.len, r->login.p, r->group.len ? ":" : "",
			 (int)r->group.len, r->group.len ? r->group.p : "");
		break;
	}
	return box_identity_decide(text, ret, e);
}

/* Memory that costs nothing until it is touched; NULL: none */
static void *map_zeroed(size_t len)
{
	void *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static unsigned proc_number(const char *path, unsigned missing, unsigned most)
{
	unsigned n, none;

	return app_proc_numbers(path, &n, &none) > 0 ? BYTES_MIN(n, most) : missing;
}

/* How patient the host's own TCP is with SYNs and with silence: a kernel without tcp_syn_linear_timeouts (Linux 6.5) has none */
static void kernel_tcp(struct tcp_settings *ret)
{
	ret->syn_retries = (uint8_t)proc_number("/proc/sys/net/ipv4/tcp_syn_retries", 6, 255);
	ret->syn_linear = (uint8_t)proc_number("/proc/sys/net/ipv4/tcp_syn_linear_timeouts", 0, 255);
	ret->synack_retries = (uint8_t)proc_number("/proc/sys/net/ipv4/tcp_synack_retries", 5, 255);
	ret->rto_max = proc_number("/proc/sys/net/ipv4/tcp_rto_max_ms", 120000, 120000) * NS_MS;
	ret->keep_time = proc_number("/proc/sys/net/ipv4/tcp_keepalive_time", 7200, INT_MAX) * NS_S;
	ret->keep_interval = proc_number("/proc/sys/net/ipv4/tcp_keepalive_intvl", 75, INT_MAX) * NS_S;
	ret->keep_probes = (uint8_t)proc_number("/proc/sys/net/ipv4/tcp_keepalive_probes", 9, 255);
}

/* Engine, sockets, tables: what needs no namespace */
static int rooms_init(struct app *a, struct err *e)
{
	struct splice_settings splice = { .sk = &a->sk, .inside = &a->sk_inside };
	struct sk_host_settings set = {
		.no_peek_off = a->conf.no_peek_off, .freebind = a->conf.freebind, .multicast = a->conf.multicast,
		.outbound_if = { a->conf.f[FWD_V4].outbound_if, a->conf.f[FWD_V6].outbound_if }, .ephemeral = ephemeral_ports(),
	};
	struct hash_key hkey;
	uint64_t seed;
	unsigned s, none;
	void *mem;
	int r;

	if (getrandom(&a->env.key, sizeof(a->env.key), 0) != sizeof(a->env.key) ||
	    getrandom(&set.key, sizeof(set.key), 0) != sizeof(set.key) ||
	    getrandom(&hkey, sizeof(hkey), 0) != sizeof(hkey) || getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		return err_set(e, -errno, "The kernel gives no random numbers: %s", strerror(errno));
	r = ev_epoll_open(&a->ev, e);
	if (!r)
		r = sk_host_open(&a->sk, a->ev, &set, e);
	if (r)
		return r;
	sk_host_inside(&a->sk_inside, &a->sk, &a->sk_ns);
	mem = map_zeroed(flow_tab_size(FLOW_MAX));
	a->scratch = map_zeroed(PROTO_SCRATCH_LEN);
	a->reasm = map_zeroed(sizeof(*a->reasm));
	a->tcp_pool.mem = map_zeroed(TCP_POOL_LEN);
	a->groups = map_zeroed(sizeof(*a->groups));
	if (!mem || !a->scratch || !a->reasm || !a->groups || !a->tcp_pool.mem)
		return err_set(e, -ENOMEM, "Out of memory for the flow table");
	rng_seed(&a->rng, seed);
	flow_tab_init(&a->flows, mem, FLOW_MAX, &hkey);
	a->udp = (struct udp_settings){
		.timeout_oneway = UDP_ONEWAY, .timeout_stream = UDP_STREAM,
		/* a scan by datagrams must leave something for connections */
		.flows_max = FLOW_MAX - FLOW_MAX / 4, .sockets_max = a->sk.slot_cnt - a->sk.slot_cnt / 4,
	};
	if (app_proc_numbers("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", &s, &none) > 0 && s)
		a->udp.timeout_oneway = s * NS_S;
	if (app_proc_numbers("/proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream", &s, &none) > 0 && s)
		a->udp.timeout_stream = s * NS_S;
	kernel_tcp(&a->tcp);
	if (!a->sk.v6)
		a->conf.f[FWD_V6].on = false;
	splice.one_family = !a->conf.f[FWD_V4].on || !a->conf.f[FWD_V6].on;
	splice.key = a->env.key;
	splice.tr = &a->trace;
	splice.timeout_oneway = a->udp.timeout_oneway;
	splice.timeout_stream = a->udp.timeout_stream;
	return splice_open(&a->splice, &splice, app_clock(), e);
}

const char *app_template_name(const struct app *a, enum fwd_family fam)
{
	return a->conf.ifname ? a->conf.ifname : a->conf.f[fam].outbound_if;
}

static int templates(struct app *a, struct err *e)
{
	struct nl *nl;
	int r = nl_open(&nl, e);

	for (int f = 0; f < FWD_FAMILIES && !r; f++)
		if (a->conf.f[f].on)
			r = nl_template_get(nl, f == FWD_V6, app_template_name(a, (enum fwd_family)f), &a->tmpl[f], e);
	nl_close(nl);
	return r;
}

static const char *link_name(const struct app *a)
{
	if (a->conf.ns_ifname)
		return a->conf.ns_ifname;
	for (int f = 0; f < FWD_FAMILIES; f++)
		if (a->conf.f[f].on && a->tmpl[f].link.ifindex)
			return a->tmpl[f].link.name;
	return "tap0";
}

static void ns_family(const struct app *a, enum fwd_family fam, struct nl_ns_family *ret)
{
	const struct conf_family *c = &a->conf.f[fam];
	const struct fwd_family_set *s = &a->fwd.f[fam];

	ret->on = s->on;
	ret->tmpl = &a->tmpl[fam];
	ret->has_addr = !inaddr_is_unset(&c->addr) || (a->conf.no_copy_addrs && !inaddr_is_unset(&s->guest));
	ret->addr = s->guest;
	ret->prefix_len = fam == FWD_V6 ? 64 : s->prefix_len;	/* CFG-4 */
	ret->has_gw = !inaddr_is_unset(&c->gateway) || (a->conf.no_copy_routes && !inaddr_is_unset(&s->gateway));
	ret->gw = s->gateway;
}

struct ns_set_up {
	struct app *a;
	struct err *e;
};

/* We configure the interface and send no advertisements: the guest's kernel need not ask for any. It would otherwise send
 * three solicitations, which is all that goes wrong if this can't be written.
 */
static void link_expects_no_ra(const char *ifname)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sys/net/ipv6/conf/%s/accept_ra", ifname);
	f = fopen(path, "we");
	if (f) {
		fputs("0", f);
		fclose(f);
	}
}

/* Inside the namespace */
static int link_init(struct app *a, struct err *e)
{
	const struct conf *c = &a->conf;
	uint32_t off = (c->no_tap_csum ? 0 : L2_OFF_CSUM) |
		       (c->no_tap_csum || c->no_tap_tso ? 0 : L2_OFF_TSO4 | L2_OFF_TSO6) |
		       (c->no_tap_csum || c->no_tap_uso ? 0 : L2_OFF_USO);
	const struct l2_tap_settings set = { .name = link_name(a), .offloads = off, .mtu = c->mtu ? c->mtu : 1500 };
	struct nl_ns_conf nc = { .mtu = c->mtu, .has_mac = c->ns_mac_given, .mac = c->ns_mac };
	struct nl_links links = { .v = NULL };
	const struct nl_link *link;
	struct nl *nl;
	int r;

	r = l2_tap_open(&a->tap, &set, e);
	if (r)
		return r;
	r = nl_open(&nl, e);
	if (r)
		return r;
	r = nl_lo_up(nl, e);
	nc.ifname = a->tap.name;
	if (!r && c->config_net) {
		ns_family(a, FWD_V4, &nc.v4);
		ns_family(a, FWD_V6, &nc.v6);
		link_expects_no_ra(nc.ifname);
		r = nl_ns_configure(nl, &nc, &a->ns_done, &a->warns, e);
		if (!r && c->host_own_addr)
			r = app_own_link(a, nl, a->ns_done.link.ifindex, e);
	}
	if (!r)
		r = nl_links_get(nl, &links, e);
	link = r ? NULL : nl_link_by_name(&links, a->tap.name);
	if (link && link->has_mac)
		a->env.guest_mac = link->mac;
	a->guest_ifindex = link ? link->ifindex : 0;
	free(links.v);
	nl_close(nl);
	return r;
}

/* Inside the namespace, with --splice-only */
static int loopback_up(struct err *e)
{
	struct nl *nl;
	int r = nl_open(&nl, e);

	if (r)
		return r;
	r = nl_lo_up(nl, e);
	nl_close(nl);
	return r;
}

/* Inside the namespace */
static int ns_init(void *arg)
{
	struct ns_set_up *l = arg;
	int r = l->a->conf.splice_only ? loopback_up(l->e) : link_init(l->a, l->e);

	if (!r)
		r = app_listen_ns(l->a, l->e);
	if (r)
		return r;
	app_auto_open(l->a, false);	/* sees the namespace from here on, wherever we are */
	app_auto_begin(l->a, true);
	return 0;
}

static int target_init(struct app *a, const struct box_identity *id, char *const argv[], struct err *e)
{
	struct ns_set_up l = { a, e };
	int r;

	if (a->conf.target == CONF_TARGET_SPAWN_COMMAND || a->conf.target == CONF_TARGET_SPAWN_SHELL) {
		const struct box_spawn_settings s = {
			.argv = a->conf.target == CONF_TARGET_SPAWN_COMMAND ? argv + a->conf.cmd_idx : NULL,
			.hostname = a->conf.hostname, .netns_only = a->conf.netns_only, .id = id,
		};

		r = box_ns_spawn(&a->ns, &s, &a->notes, e);
	} else {
		const struct box_attach_settings s = {
			.pid = a->conf.target == CONF_TARGET_PID ? a->conf.pid : 0,
			.netns = a->conf.target == CONF_TARGET_NETNS ? a->conf.netns : NULL,
			.userns = a->conf.userns, .netns_only = a->conf.netns_only,
		};

		r = box_ns_attach(&a->ns, &s, e);
	}
	if (!r)
		r = box_ns_run(&a->ns, ns_init, &l, e);
	if (!r && app_inside_needed(a))
		r = app_inside_start(a, id, e);
	return r;
}

/* The notes are filled and printed by now; what ends us is watched from here on */
static int watches_init(struct app *a, struct err *e)
{
	struct ev_ref ref = { .kind = EV_KIND_LINK };
	int r;

	a->signal_fd = box_signals_open(e);
	if (a->signal_fd < 0)
		return a->signal_fd;
	a->watch.fd = -1;
	if (!a->conf.no_netns_quit || a->ns.child > 0) {
		r = box_watch_open(&a->watch, &a->ns, a->conf.target == CONF_TARGET_NETNS ? a->conf.netns : NULL, &a->notes, e);
		if (r)
			return r;
	}
	r = a->conf.splice_only ? 0 : a->ev->ops->set(a->ev, a->tap.fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	ref.kind = EV_KIND_SIGNAL;
	if (!r)
		r = a->ev->ops->set(a->ev, a->signal_fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	ref.kind = EV_KIND_CHILD;
	if (!r && a->watch.fd >= 0)
		r = a->ev->ops->set(a->ev, a->watch.fd, ref, EV_IN | EV_LEVEL | EV_FIRST);
	ref.kind = EV_KIND_PING;
	for (ref.idx = 0; ref.idx < FWD_FAMILIES && !r; ref.idx++)
		if (a->ping_raw[ref.idx].h >= 0)
			r = a->ev->ops->set(a->ev, a->ping_raw[ref.idx].h, ref, EV_IN | EV_LEVEL | EV_FIRST);
	return r ? err_set(e, r, "Can't watch for events: %s", strerror(-r)) : 0;
}

static void path_wire(struct app *a)
{
	struct svc svc = {
		.nd_on = !a->conf.no_ndp || a->conf.config_net,	/* what we configured needs neighbours resolved */
		.ra_on = !a->conf.no_ra && !a->conf.config_net,
		.mtu = a->conf.mtu,
	};

	a->env.now = app_clock();
	l2_none_init(&a->no_link);
	a->env.l2 = a->conf.splice_only ? &a->no_link : &a->tap.l2;
	a->env.sk = &a->sk.sk;
	a->env.tw = &a->tw;
	a->env.rng = &a->rng;
	a->env.tr = &a->trace;
	a->env.drops = &a->drops;
	a->env.our_mac = a->conf.our_mac;
	twheel_init(&a->tw, a->env.now);
	path_init(&a->path, &a->env, &a->flows, &a->fwd, &svc);
	a->path.p.scratch = a->scratch;
	a->path.p.reasm = a->reasm;
	a->path.p.ping_raw = a->ping_raw;
	a->path.p.groups = a->groups;
	a->groups->on = a->conf.multicast;
	a->path.p.tcp_pool = &a->tcp_pool;
	a->path.p.udp = &a->udp;
	a->path.p.tcp = &a->tcp;
	a->path.p.half_open = a->half_open;
	if (a->ns_done.has_linklocal)
		a->fwd.f[FWD_V6].seen_ll = a->ns_done.linklocal;
}

static bool ping_permitted(const struct box_identity *id)
{
	const int fd = id->change ? -1 : socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_ICMP);

	if (fd < 0)
		return sk_ping_permitted(id->gid);
	close(fd);			/* by one of our other groups, maybe */
	return true;
}

/* While we have the rights that we were started with */
static void ping_init(struct app *a, const struct box_identity *id)
{
	const uint8_t high = (uint8_t)rng_below(&a->rng, 256);
	int h = -EACCES;

	for (int f = 0; f < FWD_FAMILIES; f++)
		a->ping_raw[f] = (struct ping_raw){ .h = -1, .high = high };
	if (a->conf.no_icmp || ping_permitted(id))
		return;
	for (int f = 0; f < FWD_FAMILIES; f++) {
		if (!a->conf.f[f].on)
			continue;
		h = sk_host_ping_raw(&a->sk, f == FWD_V6, high);
		a->ping_raw[f].h = h < 0 ? -1 : h;
	}
	if (h >= 0)
		app_log(&a->log, APP_DEBUG, "Ping by a raw socket: group %u may not use ping sockets", (unsigned)id->gid);
	a->no_ping = h < 0;
}

/* Once we are about to start: who is told of an error wants to read of nothing else */
static void ping_say(struct app *a, const struct box_identity *id)
{
	if (a->no_ping)
		app_log(&a->log, APP_WARN, "No ping for the guest: group %u is not in net.ipv4.ping_group_range; permit it with "
			"sysctl -w net.ipv4.ping_group_range=\"0 2147483647\", or start with CAP_NET_RAW", (unsigned)id->gid);
}

/* Everything after the command line; runs in the background process, if there is one */
static int instance_init(struct app *a, const struct box_identity *id, int argc, char *const argv[], struct err *e)
{
	struct err pcap_err;
	int r;

	r = rooms_init(a, e);
	if (!r)
		ping_init(a, id);
	if (!r)
		r = app_own_open(a, e);		/* before the first look */
	if (!r)
		r = templates(a, e);
	if (!r)
		r = rules_init(a, argc, argv, e);
	if (!r)
		r = app_listen_budget(a, e);
	if (!r)
		r = app_fwd_init(a, e);
	if (!r) {
		app_auto_plan(a);
		app_auto_open(a, true);
	}
	if (!r)
		r = app_listen(a, e);
	if (!r)
		r = target_init(a, id, argv, e);
	if (!r)
		r = watches_init(a, e);		/* the directory to watch may be open to the caller only */
	if (!r)
		r = app_dns_init(a, e);		/* behind the watch of the namespace: there may be one left only */
	if (!r)
		app_auto_begin(a, false);
	if (!r)
		r = box_bounds_drop(e);
	for (int f = 0; f < FWD_FAMILIES; f++)
		nl_template_free(&a->tmpl[f]);	/* addresses and routes: up to megabytes */
	if (!r)
		r = box_identity_apply(id, e);
	if (!r)
		r = box_caps_drop(app_auto_privileged(a) ? UINT64_C(1) << CAP_NET_BIND_SERVICE : 0, e);
	app_log_notes(a);
	if (r)
		return r;
	ping_say(a, id);
	path_wire(a);
	if (a->conf.pcap_path && l2_pcap_open(&a->pcap, a->conf.pcap_path, a->env.l2, &pcap_err))
		app_log(&a->log, APP_WARN, "%s", pcap_err.text);	/* no reason to leave the guest without network (Q26) */
	else if (a->conf.pcap_path)
		a->env.l2 = &a->pcap.l2;
	app_log_report(a);
	return box_seal(e);
}

static int command_start(struct app *a, char *const argv[], struct err *e)
{
	const char *name = a->conf.target == CONF_TARGET_SPAWN_COMMAND ? argv[a->conf.cmd_idx] : "the login shell";
	int r = box_ns_release(&a->ns, e);

	return r ? err_set(e, r, "Can't run %s: %s", name, strerror(-r)) : 0;
}

int app_init(struct app *a, int argc, char *const argv[], struct err *e)
{
	struct box_identity id;
	int r;

	a->pid_fd = a->late_fd = -1;
	a->follow_at = NS_NEVER;
	a->daemon.sync_fd = -1;
	a->sk_ns.fd = -1;
	r = conf_parse(&a->conf, argc, argv, e);
	if (r)
		return r;
	if (a->conf.action == CONF_ACTION_HELP)
		conf_usage_print(stdout, a->conf.mode);
	if (a->conf.action == CONF_ACTION_VERSION)
		conf_version_print(stdout, a->conf.mode);
	if (a->conf.action != CONF_ACTION_RUN)
		return fflush(stdout) ? err_set(e, -errno, "Can't write: %s", strerror(errno)) : 0;
	log_init(a);
	r = box_fds_clean(-1, e);
	if (!r)
		r = identity(a, &id, e);
	if (r)
		return r;
	if (id.nobody)
		app_log(&a->log, APP_WARN, "Started as root: going on as nobody (--runas chooses another user)");
	if (a->conf.pid_path) {
		a->pid_fd = box_pidfile_open(a->conf.pid_path, e);
		if (a->pid_fd < 0)
			return a->pid_fd;
	}
	if (!a->conf.foreground) {
		r = box_daemon_fork(&a->daemon, a->pid_fd, e);
		if (r < 0)
			return r;
		if (r) {
			r = box_daemon_wait(&a->daemon, e);
			a->status = r ? 1 : 0;
			return e->code;		/* a failure without words was told by the child */
		}
	}
	r = instance_init(a, &id, argc, argv, e);
	if (r)
		return r;
	if (a->conf.foreground && a->pid_fd >= 0)
		r = box_pidfile_write(a->pid_fd, getpid(), e);
	else if (!a->conf.foreground)
		r = box_daemon_ready(&a->daemon, e);
	if (!r && a->ns.child > 0)
		r = command_start(a, argv, e);
	return r;
}

void app_free(struct app *a)
{
	for (int f = 0; f < FWD_FAMILIES; f++)
		nl_template_free(&a->tmpl[f]);
	if (a->pcap.l2.ops)
		l2_pcap_close(&a->pcap);	/* writes what it still holds */
	app_inside_end(a);
	if (a->ev)
		a->ev->ops->close(a->ev);
	app_auto_free(a);
	free(a->listener);
	free(a->half_open);
	free(a->late);
	free(a);
}
