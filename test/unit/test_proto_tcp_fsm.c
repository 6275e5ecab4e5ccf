/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Phases of a TCP flow: every pair against the table as the specification has
 * it, and the trap for what is not in it.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig_tcp.h"

static const struct { enum tcp_phase from, to; } legal[] = {
	{ TCP_PHASE_NEW, TCP_PHASE_CONNECTING },
	{ TCP_PHASE_NEW, TCP_PHASE_SYN_SENT },
	{ TCP_PHASE_CONNECTING, TCP_PHASE_SYN_RCVD },
	{ TCP_PHASE_SYN_RCVD, TCP_PHASE_OPEN },
	{ TCP_PHASE_SYN_SENT, TCP_PHASE_OPEN },
	{ TCP_PHASE_SYN_SENT, TCP_PHASE_SYN_RCVD },	/* simultaneous open */
	{ TCP_PHASE_OPEN, TCP_PHASE_QUIET },
};

static bool wanted(unsigned from, unsigned to)
{
	for (size_t i = 0; i < BYTES_COUNT(legal); i++)
		if (legal[i].from == from && legal[i].to == to)
			return true;
	return false;
}

static void test_every_pair(void **state)
{
	(void)state;
	for (unsigned from = 0; from < TCP_PHASE_CNT; from++)
		for (unsigned to = 0; to < TCP_PHASE_CNT; to++)
			if (tcp_phase_legal(from, to) != wanted(from, to))
				fail_msg("%u to %u", from, to);
}

/* Setting a phase obeys the table, in a process of its own where it must not */
static void test_set(void **state)
{
	struct rig *r = *state;
	struct flow *f = flow_new(&r->flows, &r->key);
	struct tcp *t = tcp_of(f);

	for (unsigned from = 0; from < TCP_PHASE_CNT; from++)
		for (unsigned to = 0; to < TCP_PHASE_CNT; to++) {
			int status;
			pid_t pid = fork();

			assert_true(pid >= 0);
			if (!pid) {
				const struct rlimit no_core = { 0, 0 };

				setrlimit(RLIMIT_CORE, &no_core);
				signal(SIGILL, SIG_DFL);
				signal(SIGTRAP, SIG_DFL);
				signal(SIGABRT, SIG_DFL);
				t->phase = (uint8_t)from;
				tcp_phase_set(&r->p, f, (enum tcp_phase)to);
				_exit(t->phase == to ? 0 : 1);
			}
			assert_int_equal(waitpid(pid, &status, 0), pid);
			if (wanted(from, to) != (WIFEXITED(status) && WEXITSTATUS(status) == 0))
				fail_msg("%u to %u: status %#x", from, to, (unsigned)status);
		}
	flow_free(&r->flows, f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_pair),
		cmocka_unit_test_setup_teardown(test_set, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("proto/tcp/fsm", tests, NULL, NULL);
}
