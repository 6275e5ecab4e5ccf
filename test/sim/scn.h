/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenario files: one event a line, read by scn.c, carried out by
 * scn_cmd.c and scn_sk.c. README.md in this folder describes the language.
 */
#ifndef TEST_SIM_SCN_H
#define TEST_SIM_SCN_H

#include <setjmp.h>

#include "world.h"

#define SCN_TOKENS	40
#define SCN_CONNS	8

enum scn_opt {				/* bits: how a scenario is played */
	SCN_OPT_V6 = 1, SCN_OPT_DEFERRED = 2,
	SCN_OPT_SACK = 4, SCN_OPT_TS = 8,	/* the guest's SYNs offer it, said or not; only where the file has a line `also` */
};

struct scn_conn {			/* one connection of the scenario; sequence numbers in files are relative to both ISNs */
	uint16_t guest_port;
	uint32_t guest_isn, iss;
	bool iss_known, handle_known;
	int h;
	uint32_t guest_nxt, our_nxt;	/* relative: end of what each side ever sent */
	uint32_t mss;			/* that of data towards the guest */
	bool guest_ws, edge_known;
	uint8_t ws_ours;
	uint32_t edge;			/* absolute right edge advertised to the guest */
	bool guest_offers_ts, we_offer_ts, guest_offers_sack, we_offer_sack;
	bool ts_seen;
	uint32_t ts_base;		/* our first timestamp: files count from there */
	uint32_t ts_recent;		/* ours to echo */
	uint32_t guest_acked;		/* relative: highest ACK that the guest sent */
};

struct scn {
	const char *file;
	int line;
	unsigned mode;			/* enum scn_opt */
	struct world w;
	ns_t start;
	struct scn_conn conn[SCN_CONNS], *c;
	bool in_batch;
	uint32_t isn_ours;
	bool isn_fixed;
	char *tok[SCN_TOKENS];		/* of this line; at: the next one */
	int tok_cnt, at;
	jmp_buf failed;
};

/* Ends the scenario: file, line, words and trace are printed */
void scn_fail(struct scn *s, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* Reads and plays one line */
void scn_line(struct scn *s, char *line);
/* Carries out the command in the tokens */
void scn_run(struct scn *s);
/* Fails if frames are left that nobody expected */
void scn_quiet(struct scn *s);
/* Next token, or failure */
char *scn_next(struct scn *s);
bool scn_more(const struct scn *s);
/* Next token as a time */
ns_t scn_time(struct scn *s, const char *text);
/* Number: terms with + and -, each a number with k, mss or super, or mss or super alone */
uint32_t scn_num(struct scn *s, const char *text);
void scn_icmp(struct scn *s);		/* the command `icmp` */
void scn_norouter(struct scn *s);	/* the command `norouter` */
void scn_socket(struct scn *s);		/* the command `sk` */

#endif
