/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a fuzz target over given files, without a fuzzer: any compiler can replay a corpus or a crash. It refuses to
 * succeed on nothing: a file that cannot be read is an error. Each input lies in memory of exactly its size, so that
 * the address sanitizer sees a read beyond its end.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

static int replay_file(const char *path)
{
	struct stat st;
	uint8_t *data;
	size_t size;
	FILE *f;

	f = fopen(path, "rb");
	if (!f || fstat(fileno(f), &st) < 0) {
		fprintf(stderr, "cannot open %s: %s\n", path, strerror(errno));
		if (f)
			fclose(f);
		return -1;
	}
	size = (size_t)st.st_size;
	data = malloc(size ? size : 1);
	if (!data || fread(data, 1, size, f) != size) {
		fprintf(stderr, "cannot read the %zu bytes of %s\n", size, path);
		free(data);
		fclose(f);
		return -1;
	}
	fclose(f);
	/* An input of no bytes still needs a pointer, but not one to a readable byte. */
	LLVMFuzzerTestOneInput(size ? data : data + 1, size);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s FILE...\n", argv[0]);
		return 2;
	}
	for (int i = 1; i < argc; i++) {
		if (replay_file(argv[i]) < 0)
			return 1;
	}
	return 0;
}
