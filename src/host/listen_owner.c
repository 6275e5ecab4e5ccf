/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Who has the port that we want: from the kernel's tables in /proc, a socket's
 * number, and from everybody's open files that we may see, the process.
 */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/listen.h"

#define TCP_LISTENING	0x0a		/* TCP_LISTEN in these tables */

/* The table's words of 32 bits, each in the byte order of this machine: 8 digits for IPv4, 32 for IPv6 */
static bool table_addr(const char *hex, struct inaddr *ret)
{
	const size_t len = strlen(hex);
	uint32_t word[4];

	if (len != 8 && len != 32)
		return false;
	for (size_t i = 0; i < len / 8; i++)
		if (sscanf(hex + 8 * i, "%8x", &word[i]) != 1)
			return false;
	*ret = len == 8 ? inaddr_v4(word) : inaddr_v6(word);
	return true;
}

static bool in_the_way(const struct sk_listen *l, const struct inaddr *other, bool v6)
{
	/* :: takes IPv4 too, unless its owner says otherwise, which the table does not tell */
	if (l->any || (v6 && inaddr_eq(other, &(struct inaddr){ { 0 } })))
		return true;
	if (inaddr_is_v4(other) != inaddr_is_v4(&l->addr.a))
		return false;
	return inaddr_is_unset(other) || inaddr_is_unset(&l->addr.a) || inaddr_eq(other, &l->addr.a);
}

bool listen_owner_line(const char *line, const struct sk_listen *l, unsigned *ret_uid, unsigned long *ret_inode)
{
	unsigned port, state, uid;
	struct inaddr addr;
	unsigned long inode;
	char hex[33];

	if (sscanf(line, " %*u: %32[0-9A-F]:%4x %*32[0-9A-F]:%*4x %2x %*x:%*x %*x:%*x %*x %u %*u %lu", hex, &port, &state, &uid,
		   &inode) != 5 || !table_addr(hex, &addr))
		return false;
	if (port != l->addr.port || (l->proto == SK_TCP && state != TCP_LISTENING) || !in_the_way(l, &addr, strlen(hex) == 32))
		return false;
	*ret_uid = uid;
	*ret_inode = inode;
	return true;
}

static bool table_find(const char *path, const struct sk_listen *l, unsigned *ret_uid, unsigned long *ret_inode)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f))
		found = listen_owner_line(line, l, ret_uid, ret_inode);
	if (f)
		fclose(f);
	return found;
}

/* Whether process PID, by the name of its directory, has the file that LINK names */
static bool has_file(const char *pid, const char *link)
{
	char path[64], text[64];
	struct dirent *d;
	bool found = false;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fd", pid);
	dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		n = readlinkat(dirfd(dir), d->d_name, text, sizeof(text) - 1);
		if (n <= 0)
			continue;
		text[n] = 0;
		found = !strcmp(text, link);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void process_find(unsigned long inode, struct listen_owner *ret)
{
	char link[40], path[64];
	DIR *proc = opendir("/proc");
	struct dirent *d;
	FILE *f;

	snprintf(link, sizeof(link), "socket:[%lu]", inode);
	while (proc && !ret->pid && (d = readdir(proc)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && has_file(d->d_name, link))
			ret->pid = atoi(d->d_name);
	if (proc)
		closedir(proc);
	snprintf(path, sizeof(path), "/proc/%d/comm", ret->pid);
	f = ret->pid ? fopen(path, "re") : NULL;
	if (!f || fscanf(f, "%15[^\n]", ret->comm) != 1)
		ret->pid = 0;
	if (f)
		fclose(f);
}

bool listen_owner_find(const struct sk_listen *l, struct listen_owner *ret)
{
	const char *const tcp[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };
	const char *const udp[] = { "/proc/self/net/udp", "/proc/self/net/udp6" };
	unsigned long inode;

	*ret = (struct listen_owner){ 0 };
	for (int i = 0; i < 2; i++) {
		if (!table_find((l->proto == SK_TCP ? tcp : udp)[i], l, &ret->uid, &inode))
			continue;
		process_find(inode, ret);
		return true;
	}
	return false;
}
