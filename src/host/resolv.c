/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The resolver file: name servers of both families and the search list, by the grammar of resolv.conf(5) as glibc reads
 * it: a keyword starts the line, blanks are spaces and tabs, '#' and ';' begin a comment, the last "search" or "domain"
 * counts. Refuses to follow options and sortlist: they are the guest's own business. resolv_parse() makes no system call
 * and trusts no length; resolv_read() bounds what it reads.
 */
#include "host/resolv.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_LEN_MAX	65536

struct text {
	const char *p, *end;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\0';
}

static bool is_comment(char c)
{
	return c == '#' || c == ';';
}

/* Cut the next line off */
static struct text line_take(struct text *t)
{
	const char *nl = memchr(t->p, '\n', (size_t)(t->end - t->p));
	struct text line = { t->p, nl ? nl : t->end };

	t->p = nl ? nl + 1 : t->end;
	return line;
}

/* Cut the next word off; empty at the end of the line or before a comment */
static struct text word_take(struct text *line)
{
	struct text w;

	while (line->p < line->end && is_blank(*line->p))
		line->p++;
	w.p = line->p;
	while (line->p < line->end && !is_blank(*line->p) && !is_comment(*line->p))
		line->p++;
	w.end = line->p;
	return w;
}

static size_t word_len(const struct text *w)
{
	return (size_t)(w->end - w->p);
}

static bool word_is(const struct text *w, const char *s)
{
	return word_len(w) == strlen(s) && !memcmp(w->p, s, strlen(s));
}

/* To a string, if it fits */
static bool word_str(const struct text *w, char *buf, size_t room)
{
	if (word_len(w) >= room)
		return false;
	memcpy(buf, w->p, word_len(w));
	buf[word_len(w)] = '\0';
	return true;
}

static void server_add(struct text w, struct resolv *ret)
{
	const char *percent = memchr(w.p, '%', word_len(&w));
	struct text scope = { percent ? percent + 1 : w.end, w.end };
	char text[INADDR_STR_MAX];
	struct inaddr a;

	if (percent)
		w.end = percent;
	if (!word_str(&w, text, sizeof(text)) || inaddr_parse(text, &a) || inaddr_is_unset(&a) || inaddr_is_multicast(&a) ||
	    inaddr_is_broadcast(&a))
		return;
	if (inaddr_is_v4(&a)) {
		if (ret->v4_cnt < RESOLV_SERVERS)
			ret->v4[ret->v4_cnt++] = a;
		return;
	}
	if (ret->v6_cnt == RESOLV_SERVERS)
		return;
	if (!word_str(&scope, ret->v6_scope[ret->v6_cnt], RESOLV_SCOPE_LEN))
		ret->v6_scope[ret->v6_cnt][0] = '\0';
	ret->v6[ret->v6_cnt++] = a;
}

/* ONE: "domain", which has a single name. A line without any name changes nothing; "." alone empties the list. */
static void search_set(struct text line, bool one, struct resolv *ret)
{
	struct text w = word_take(&line);

	if (!word_len(&w))
		return;
	ret->search_cnt = 0;
	for (; word_len(&w) && ret->search_cnt < RESOLV_SEARCH; w = word_take(&line)) {
		if (w.end[-1] == '.')
			w.end--;
		if (word_len(&w) && word_str(&w, ret->search[ret->search_cnt], RESOLV_NAME_LEN))
			ret->search_cnt++;
		if (one)
			break;
	}
}

void resolv_parse(const char *text, size_t len, struct resolv *ret)
{
	struct text all = { text, text + len };

	memset(ret, 0, sizeof(*ret));
	while (all.p < all.end) {
		struct text line = line_take(&all), key;

		if (line.p == line.end || is_blank(*line.p))
			continue;
		key = word_take(&line);
		if (word_is(&key, "nameserver"))
			server_add(word_take(&line), ret);
		else if (word_is(&key, "search"))
			search_set(line, false, ret);
		else if (word_is(&key, "domain"))
			search_set(line, true, ret);
	}
}

int resolv_read(int dir_fd, const char *path, struct resolv *ret, struct err *e)
{
	/* O_NONBLOCK: a FIFO put there must not stop the start */
	int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), ret_code = 0;
	size_t len = 0;
	ssize_t n = 0;
	char *buf;

	memset(ret, 0, sizeof(*ret));
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0)
		return err_set(e, -errno, "Can't open %s: %s; give resolvers with -D", path, strerror(errno));
	buf = malloc(FILE_LEN_MAX);
	if (!buf) {
		close(fd);
		return err_set(e, -ENOMEM, "Can't read %s: %s", path, strerror(ENOMEM));
	}
	while (len < FILE_LEN_MAX && (n = read(fd, buf + len, FILE_LEN_MAX - len))) {
		if (n > 0)
			len += (size_t)n;
		else if (errno != EINTR)
			break;
	}
	if (len < FILE_LEN_MAX && n < 0)
		ret_code = err_set(e, -errno, "Can't read %s: %s; give resolvers with -D", path, strerror(errno));
	else
		resolv_parse(buf, len, ret);
	free(buf);
	close(fd);
	return ret_code;
}

uint32_t resolv_scope(const char *scope)
{
	char *end;
	unsigned long n = strtoul(scope, &end, 10);

	if (*scope >= '0' && *scope <= '9' && !*end)
		return n <= INT32_MAX ? (uint32_t)n : 0;
	return if_nametoindex(scope);
}
