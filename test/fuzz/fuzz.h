/* SPDX-License-Identifier: BSD-3-Clause */
/* What each fuzz target defines: takes any bytes, returns 0; a fault is a crash, an assertion or a sanitizer's report. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
