/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plays all scenario files of test/sim (or those given), each four times: IPv4
 * and IPv6, sends inline and deferred. An error in a file is a failure as any
 * other. It refuses to succeed on no file.
 */
#include <ctype.h>
#include <glob.h>

#include "scn.h"

void scn_fail(struct scn *s, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: [%s, %s] ", s->file, s->line, s->w.v6 ? "IPv6" : "IPv4",
		s->w.sk.deferred ? "deferred" : "inline");
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
	uint32_t hdrs = (s->w.v6 ? 40 : 20) + 20;

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

static void scn_line(struct scn *s, char *line)
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

static void scn_init(struct scn *s, const char *file, bool v6, bool deferred)
{
	memset(s, 0, sizeof(*s));
	s->file = file;
	s->start = 1000 * NS_S;
	world_init(&s->w, v6, deferred, s->start, 64);
	for (int i = 0; i < SCN_CONNS; i++)
		s->conn[i] = (struct scn_conn){ .guest_port = (uint16_t)(40000 + i), .guest_isn = 1000000 * (uint32_t)(i + 1),
						.mss = v6 ? 1440 : 1460 };
	s->c = &s->conn[0];
}

static bool scn_play(const char *file, bool v6, bool deferred)
{
	static struct scn s;
	static char line[1024];
	volatile bool ok = true;
	FILE *f = fopen(file, "r");

	if (!f) {
		fprintf(stderr, "cannot open %s: %s\n", file, strerror(errno));
		return false;
	}
	scn_init(&s, file, v6, deferred);
	if (setjmp(s.failed)) {
		ok = false;
	} else {
		while (fgets(line, sizeof(line), f)) {
			s.line++;
			scn_line(&s, line);
		}
		if (!s.line)
			scn_fail(&s, "an empty scenario");
		if (s.in_batch)
			scn_fail(&s, "a batch without end");
		scn_quiet(&s);
	}
	fclose(f);
	world_done(&s.w);
	return ok;
}

int main(int argc, char **argv)
{
	int failed = 0, cnt = 0;
	glob_t g = { 0 };

	if (argc < 2) {
		if (glob("test/sim/*.scn", 0, NULL, &g)) {
			fprintf(stderr, "no scenario: test/sim/*.scn matches nothing here\n");
			return 1;
		}
		argv = g.gl_pathv;
		argc = (int)g.gl_pathc;
	} else {
		argv++;
		argc--;
	}
	for (int i = 0; i < argc; i++, cnt++) {
		bool ok = true;

		for (int mode = 0; mode < 4 && ok; mode++)
			ok = scn_play(argv[i], mode & 1, mode & 2);
		failed += !ok;
	}
	if (g.gl_pathc)
		globfree(&g);
	printf("sim: %d scenarios, four ways each, %d failed\n", cnt, failed);
	return failed ? 1 : 0;
}
