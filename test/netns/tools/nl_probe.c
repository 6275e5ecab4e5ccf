/* SPDX-License-Identifier: BSD-3-Clause
 *
 * nl_probe HOST_NS TARGET_NS IFNAME [-i NAME] [-4] [-6] [-a ADDR/LEN]... [-g ADDR]... [-m MTU] [-M MAC]
 * Takes the templates in one network namespace, makes a tap in another and configures it by them. Prints "key value"
 * lines, the last one "ready", and holds the tap until standard input ends. Exit status 1 with the error in words.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "host/nl.h"

static void die(const char *what, const char *why)
{
	fprintf(stderr, "nl_probe: %s: %s\n", what, why);
	exit(1);
}

static void enter(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path, strerror(errno));
	close(fd);
}

static int tap_open(const char *name)
{
	struct ifreq ifr = { .ifr_flags = IFF_TAP | IFF_NO_PI };
	int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, TUNSETIFF, &ifr))
		die("/dev/net/tun", strerror(errno));
	return fd;
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void template_print(const struct nl_template *t)
{
	static const char *const why[] = {
		[NL_WHY_NONE] = "none", [NL_WHY_NAME] = "name", [NL_WHY_DEFAULT] = "default", [NL_WHY_HALF] = "half",
		[NL_WHY_ROUTE] = "route",
	};
	const char *f = t->v6 ? "6" : "4";
	char a[INADDR_STR_MAX];

	printf("if%s %s\nwhy%s %s\nlocal%s %d\n", f, t->link.name, f, why[t->why], f, t->local);
	printf("addr%s %s\n", f, t->has_addr ? inaddr_str(&t->addr, a) : "");
	printf("gw%s %s\nours%s %s\n", f, inaddr_str(&t->gw, a), f, t->gw_is_ours ? "yes" : "no");
	printf("our_addr%s %s\n", f, inaddr_str(&t->our_addr, a));
}

static void addr_given(const char *text, struct nl_ns_conf *c)
{
	char copy[64], *slash;
	struct nl_ns_family *f;
	struct inaddr a;

	snprintf(copy, sizeof(copy), "%s", text);
	slash = strchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (!slash || inaddr_parse(copy, &a))
		die(text, "no address/length");
	f = inaddr_is_v4(&a) ? &c->v4 : &c->v6;
	f->has_addr = true;
	f->addr = a;
	f->prefix_len = (uint8_t)atoi(slash + 1);
}

static void gw_given(const char *text, struct nl_ns_conf *c)
{
	struct nl_ns_family *f;
	struct inaddr a;

	if (inaddr_parse(text, &a))
		die(text, "no address");
	f = inaddr_is_v4(&a) ? &c->v4 : &c->v6;
	f->has_gw = true;
	f->gw = a;
}

static const char *options(int argc, char **argv, struct nl_ns_conf *c)
{
	const char *name = NULL;
	int o;

	while ((o = getopt(argc, argv, "i:46a:g:m:M:")) != -1) {
		if (o == 'i')
			name = optarg;
		else if (o == '4')
			c->v6.on = false;
		else if (o == '6')
			c->v4.on = false;
		else if (o == 'a')
			addr_given(optarg, c);
		else if (o == 'g')
			gw_given(optarg, c);
		else if (o == 'm')
			c->mtu = (uint32_t)atoi(optarg);
		else if (o == 'M' && !macaddr_parse(optarg, &c->mac))
			c->has_mac = true;
		else
			die("usage", "see the head of this file");
	}
	return name;
}

static void configure(const struct nl_ns_conf *c)
{
	struct nl_warns w = { .cnt = 0 };
	char a[INADDR_STR_MAX];
	struct nl_ns_done done;
	struct err e;
	struct nl *nl;
	unsigned i;

	if (nl_open(&nl, &e) || nl_lo_up(nl, &e) || nl_ns_configure(nl, c, &done, &w, &e))
		die("namespace", e.text);
	nl_close(nl);
	printf("on4 %d\non6 %d\nroutes4 %u\nroutes6 %u\n", done.v4_on, done.v6_on, done.v4_route_cnt, done.v6_route_cnt);
	printf("linklocal %s\n", done.has_linklocal ? inaddr_str(&done.linklocal, a) : "");
	for (i = 0; i < nl_warns_kept(&w); i++)
		printf("warn%u %s\n", i, w.line[i]);
	printf("warns %u\n", w.cnt);
}

int main(int argc, char **argv)
{
	struct nl_ns_conf c = { .v4.on = true, .v6.on = true };
	const char *name = options(argc, argv, &c);
	struct nl_template t4, t6;
	double start = now_ms();
	struct err e;
	struct nl *nl;
	int tap;

	if (argc - optind != 3)
		die("usage", "see the head of this file");
	enter(argv[optind]);
	if (nl_open(&nl, &e) || nl_template_get(nl, false, name, &t4, &e) || nl_template_get(nl, true, name, &t6, &e))
		die("template", e.text);
	nl_close(nl);
	template_print(&t4);
	template_print(&t6);
	c.ifname = argv[optind + 2];
	c.v4.tmpl = &t4;
	c.v6.tmpl = &t6;
	enter(argv[optind + 1]);
	tap = tap_open(c.ifname);
	configure(&c);
	nl_template_free(&t4);
	nl_template_free(&t6);
	printf("ms %.1f\nready\n", now_ms() - start);
	fflush(stdout);
	while (getchar() != EOF)
		;
	close(tap);
	return 0;
}
