/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenario files line by line: words, numbers and times, and the failure that
 * ends a scenario with its place and its trace. Knows no command.
 */
#include <ctype.h>

#include "scn.h"

void scn_fail(struct scn *s, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: [%s, %s%s%s] ", s->file, s->line, s->w.v6 ? "IPv6" : "IPv4",
		s->w.sk.deferred ? "deferred" : "inline", s->mode & SCN_OPT_SACK ? ", SACK" : "",
		s->mode & SCN_OPT_TS ? ", timestamps" : "");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n    now %.3f ms\n", (double)(s->w.env.now - s->start) / 1e6);
	world_dump(&s->w, s->start);
	longjmp(s->failed, 1);
}

bool scn_more(const struct scn *s)
{
	return s->at < s->tok_cnt;
}

char *scn_next(struct scn *s)
{
	if (!scn_more(s))
		scn_fail(s, "the line ends too early");
	return s->tok[s->at++];
}

ns_t scn_time(struct scn *s, const char *text)
{
	char *end;
	double d = strtod(text, &end);

	if (end == text)
		scn_fail(s, "'%s' is no time", text);
	if (!strcmp(end, "us"))
		return (ns_t)(d * 1e3);
	if (!strcmp(end, "ms"))
		return (ns_t)(d * 1e6);
	if (!strcmp(end, "s"))
		return (ns_t)(d * 1e9);
	if (!strcmp(end, "") && d == 0)
		return 0;
	scn_fail(s, "'%s': time needs us, ms or s", text);
}

static uint32_t scn_super(const struct scn *s)
{
	uint32_t hdrs = (s->w.v6 ? 40 : 20) + 20 + (s->c->guest_offers_ts && s->c->we_offer_ts ? 12 : 0);

	return (L2_IP_MAX - hdrs) / s->c->mss * s->c->mss;
}

uint32_t scn_num(struct scn *s, const char *text)
{
	uint32_t sum = 0;
	bool minus = false;
	const char *p = text;

	if (!*p)
		scn_fail(s, "a number is missing");
	while (*p) {
		uint32_t n = 1;
		char *end = (char *)p;

		if (isdigit((unsigned char)*p))
			n = (uint32_t)strtoul(p, &end, 0);
		if (!strncmp(end, "mss", 3)) {
			n *= s->c->mss;
			end += 3;
		} else if (!strncmp(end, "super", 5)) {
			n *= scn_super(s);
			end += 5;
		} else if (end > p && *end == 'k') {
			n *= 1024;
			end++;
		}
		if (end == p || (*end && *end != '+' && *end != '-'))
			scn_fail(s, "'%s' is no number", text);
		sum += minus ? -n : n;
		minus = *end == '-';
		p = *end ? end + 1 : end;
	}
	return sum;
}

/* Tokens are words; "<" to ">" is one */
static void scn_split(struct scn *s, char *line)
{
	char *p = line;

	s->tok_cnt = s->at = 0;
	for (;;) {
		while (isspace((unsigned char)*p))
			p++;
		if (!*p || *p == '#')
			return;
		if (s->tok_cnt == SCN_TOKENS)
			scn_fail(s, "too many words");
		s->tok[s->tok_cnt++] = p;
		if (*p == '<') {
			p = strchr(p, '>');
			if (!p)
				scn_fail(s, "'<' without '>'");
			p++;
		}
		while (*p && !isspace((unsigned char)*p))
			p++;
		if (*p)
			*p++ = 0;
	}
}

void scn_line(struct scn *s, char *line)
{
	scn_split(s, line);
	if (!s->tok_cnt)
		return;
	if (*s->tok[0] == '+' || isdigit((unsigned char)*s->tok[0])) {
		ns_t by = scn_time(s, scn_next(s) + (*s->tok[0] == '+'));

		if (by) {
			scn_quiet(s);
			world_advance(&s->w, by);
		}
		if (!scn_more(s))
			return;
	}
	scn_run(s);
	if (scn_more(s))
		scn_fail(s, "'%s' is not understood", s->tok[s->at]);
}
