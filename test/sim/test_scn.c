/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plays all scenario files of test/sim (or those given), each four times: IPv4
 * and IPv6, sends inline and deferred; where a file says `also`, with the guest
 * offering SACK, timestamps, or both as well. An error in a file is a failure as any
 * other. It refuses to succeed on no file.
 */
#include <glob.h>

#include "scn.h"

static void scn_init(struct scn *s, const char *file, unsigned mode)
{
	bool v6 = mode & SCN_OPT_V6;

	memset(s, 0, sizeof(*s));
	s->file = file;
	s->mode = mode;
	s->start = 1000 * NS_S;
	world_init(&s->w, v6, mode & SCN_OPT_DEFERRED, s->start, 64);
	for (int i = 0; i < SCN_CONNS; i++)
		s->conn[i] = (struct scn_conn){ .guest_port = (uint16_t)(40000 + i), .guest_isn = 1000000 * (uint32_t)(i + 1),
						.mss = v6 ? 1440 : 1460 };
	s->c = &s->conn[0];
}

/* Bits of a mode that the file wants both ways, by its line `also` */
static unsigned scn_also(const char *file)
{
	unsigned also = 0;
	char line[1024];
	FILE *f = fopen(file, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "also ", 5))
			also |= (strstr(line, " sack") ? SCN_OPT_SACK : 0) | (strstr(line, " ts") ? SCN_OPT_TS : 0);
	if (f)
		fclose(f);
	return also;
}

static bool scn_play(const char *file, unsigned mode)
{
	static struct scn s;
	static char line[1024];
	volatile bool ok = true;
	FILE *f = fopen(file, "r");

	if (!f) {
		fprintf(stderr, "cannot open %s: %s\n", file, strerror(errno));
		return false;
	}
	scn_init(&s, file, mode);
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
		if (!s.w.flows.cnt && s.w.pool.used)
			scn_fail(&s, "%u blocks of the pool are kept for no flow", s.w.pool.used);
	}
	fclose(f);
	world_done(&s.w);
	return ok;
}

int main(int argc, char **argv)
{
	int failed = 0, cnt = 0, plays = 0;
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
		unsigned also = scn_also(argv[i]) | SCN_OPT_V6 | SCN_OPT_DEFERRED;
		bool ok = true;

		for (unsigned mode = 0; mode < 16 && ok; mode++)
			if (!(mode & ~also)) {
				ok = scn_play(argv[i], mode);
				plays++;
			}
		failed += !ok;
	}
	if (g.gl_pathc)
		globfree(&g);
	printf("sim: %d scenarios, played %d times, %d failed\n", cnt, plays, failed);
	return failed ? 1 : 0;
}
