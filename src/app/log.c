/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The log: plain lines on standard error. The only place that prints. While we
 * serve, nobody who doesn't read them (a pipe that is full, a terminal that was
 * stopped) makes the namespace wait.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app_priv.h"

static const char *const drop_text[DROP_CNT] = {
#define DROP_TEXT(name, text) [DROP_##name] = #name ": " text,
	DROP_LIST(DROP_TEXT)
#undef DROP_TEXT
};

/* Whether a line, which is shorter than PIPE_BUF, can go out now */
static bool has_room(const struct app_log *l)
{
	struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

	if (!l->lost || poll(&p, 1, 0))
		return true;
	++*l->lost;
	return false;
}

void app_log(const struct app_log *l, enum app_level level, const char *fmt, ...)
{
	char line[1024];
	size_t len = 0;
	va_list ap;

	if (level > l->max || !has_room(l))
		return;
	if (l->lost && *l->lost) {
		fprintf(stderr, "(%u lines lost, nobody read them)\n", *l->lost);
		*l->lost = 0;
		if (!has_room(l))
			return;
	}
	if (l->stamp) {
		ns_t t = app_clock() - l->start;

		len = (size_t)snprintf(line, sizeof(line), "%d.%04d: ", (int)(t / NS_S), (int)(t % NS_S / 100000));
	}
	va_start(ap, fmt);
	vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
	va_end(ap);
	len = strlen(line);
	line[len] = '\n';
	fwrite(line, 1, len + 1, stderr);
}

int app_fail(const struct app *a, const struct err *e)
{
	app_log(&a->log, APP_ERROR, "%s", e->text);
	return 1;
}

void app_log_notes(struct app *a)
{
	for (int i = 0; i < a->notes.cnt; i++)
		app_log(&a->log, APP_WARN, "%s", a->notes.note[i].text);
	a->notes.cnt = 0;
	for (unsigned i = 0; i < nl_warns_kept(&a->warns); i++)
		app_log(&a->log, APP_WARN, "%s", a->warns.line[i]);
	if (nl_warns_more(&a->warns))
		app_log(&a->log, APP_WARN, "... and %u more of this kind", nl_warns_more(&a->warns));
	a->warns.cnt = 0;
}

/* As the guest sees it (FLOW-7). A flow that is gone again already has left its addresses behind, or given its place to another. */
static void flow_say(const struct app *a, uint32_t idx)
{
	static const char *const proto[] = { [FLOW_FREE] = "ended already", [FLOW_TCP] = "TCP", [FLOW_UDP] = "UDP", [FLOW_PING] = "ping" };
	const struct flow_key *k = &a->flows.tab[idx].key;
	char guest[INADDR_STR_MAX], far[INADDR_STR_MAX];

	app_log(&a->log, APP_DEBUG, "flow %u: new, %s, guest %s port %u, far side %s port %u", idx, proto[k->proto],
		inaddr_str(&k->guest, guest), k->guest_port, inaddr_str(&k->far, far), k->far_port);
}

/* Of these each side's own address: the client's, and where it leads */
static void spliced_say(const struct app *a, uint32_t idx)
{
	char guest[INADDR_STR_MAX], far[INADDR_STR_MAX];
	struct splice_ends ends;

	if (!splice_ends(&a->splice, idx, &ends))
		app_log(&a->log, APP_DEBUG, "spliced flow %u: new, ended already", idx);
	else
		app_log(&a->log, APP_DEBUG, "spliced flow %u: new, %s, guest %s port %u, far side %s port %u", idx,
			ends.proto == SK_TCP ? "TCP" : "UDP",
			inaddr_str(&ends.end[SPLICE_GUEST].a, guest), ends.end[SPLICE_GUEST].port,
			inaddr_str(&ends.end[SPLICE_HOST].a, far), ends.end[SPLICE_HOST].port);
}

void app_log_trace(struct app *a)
{
	const bool all = a->conf.level >= CONF_LEVEL_TRACE;
	struct trace *t = &a->trace;

	if (t->head - t->read > TRACE_LEN) {
		app_log(&a->log, APP_DEBUG, "(%u trace records lost)", t->head - t->read - TRACE_LEN);
		t->read = t->head - TRACE_LEN;
	}
	for (; t->read != t->head; t->read++) {
		const struct trace_rec *r = &t->rec[t->read % TRACE_LEN];

		if (r->flow - SPLICE_TRACED < SPLICE_FLOW_MAX) {
			spliced_say(a, r->flow - SPLICE_TRACED);
			continue;
		}
		if (r->opens)
			flow_say(a, r->flow);
		if (all)
			app_log(&a->log, APP_DEBUG, "flow %u: %s %u %u", r->flow, r->what, r->a, r->b);
	}
}

void app_log_drops(const struct app *a)
{
	for (int i = 0; i < DROP_CNT; i++)
		if (a->drops.cnt[i])
			app_log(&a->log, APP_DEBUG, "%llu dropped, %s", (unsigned long long)a->drops.cnt[i], drop_text[i]);
	for (int i = 0; i < SPLICE_REFUSE_CNT; i++)
		if (a->splice.stats.refused[i])
			app_log(&a->log, APP_DEBUG, "%llu refused, %s", (unsigned long long)a->splice.stats.refused[i],
				splice_refuse_text((enum splice_refuse)i));
}

static void report_family(const struct app *a, enum fwd_family fam)
{
	const struct fwd_family_set *s = &a->fwd.f[fam];
	char addr[INADDR_STR_MAX], gw[INADDR_STR_MAX], lo[INADDR_STR_MAX];

	if (!s->on)
		return;
	if (!inaddr_is_unset(&s->host_loopback))
		app_log(&a->log, APP_INFO, "    NAT to host %s: %s", fam == FWD_V4 ? "127.0.0.1" : "::1",
			inaddr_str(&s->host_loopback, lo));
	app_log(&a->log, APP_INFO, fam == FWD_V4 ? "DHCP:" : "NDP/DHCPv6:");
	app_log(&a->log, APP_INFO, "    assign: %s", inaddr_is_unset(&s->guest) ? "none" : inaddr_str(&s->guest, addr));
	if (fam == FWD_V4) {
		const uint32_t m = s->prefix_len ? ~0u << (32 - s->prefix_len) : 0;

		app_log(&a->log, APP_INFO, "    mask: %u.%u.%u.%u", m >> 24, m >> 16 & 255, m >> 8 & 255, m & 255);
	}
	app_log(&a->log, APP_INFO, "    router: %s", inaddr_str(&s->gateway, gw));
	if (fam == FWD_V6)
		app_log(&a->log, APP_INFO, "    our link-local: %s", inaddr_str(&s->ours, gw));
}

static void report_rules(const struct app *a, const char *title, const struct fwd_rules *rules, bool ns)
{
	char line[FWD_RULE_STR_MAX];

	if (rules->cnt)
		app_log(&a->log, APP_INFO, "%s", title);
	for (unsigned i = 0; i < rules->cnt; i++)
		app_log(&a->log, APP_INFO, "    %s", fwd_rule_line(&rules->rule[i], ns, line));
}

static void report_template(const struct app *a)
{
	char line[FWD_FAMILIES * (sizeof(a->tmpl[0].link.name) + sizeof("none, local mode (IPv4), "))] = "";
	size_t len = 0;

	for (int f = 0; f < FWD_FAMILIES; f++)
		if (a->fwd.f[f].on)
			len += (size_t)snprintf(line + len, sizeof(line) - len, "%s%s (%s)", len ? ", " : "",
				a->tmpl[f].link.ifindex ? a->tmpl[f].link.name : "none, local mode", f == FWD_V4 ? "IPv4" : "IPv6");
	app_log(&a->log, APP_INFO, "Template interface: %s", line);
}

void app_log_report(const struct app *a)
{
	const struct macaddr *m = &a->env.our_mac;

	report_template(a);
	app_log(&a->log, APP_INFO, "Namespace interface: %s", a->conf.splice_only ? "none" : a->tap.name);
	app_log(&a->log, APP_INFO, "MAC:");
	app_log(&a->log, APP_INFO, "    host: %02x:%02x:%02x:%02x:%02x:%02x", m->b[0], m->b[1], m->b[2], m->b[3], m->b[4], m->b[5]);
	report_family(a, FWD_V4);
	report_family(a, FWD_V6);
	report_rules(a, "Inbound forwarding rules (HOST):", &a->conf.host_rules, false);
	report_rules(a, "Outbound forwarding rules (SPLICE):", &a->conf.ns_rules, true);
	app_log(&a->log, APP_DEBUG, "Engine %s; SO_PEEK_OFF for TCP: IPv4 %s, IPv6 %s; link offloads 0x%x to, 0x%x from the guest",
		a->ev->ops->name, a->sk.peek_off[SK_V4] ? "yes" : "no", a->sk.peek_off[SK_V6] ? "yes" : "no",
		a->tap.l2.takes, a->tap.l2.gives);
}
