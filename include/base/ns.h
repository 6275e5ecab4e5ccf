/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Time: signed nanoseconds of one monotonic clock, always handed in.
 */
#ifndef BASE_NS_H
#define BASE_NS_H

#include <stdint.h>

typedef int64_t ns_t;

#define NS_US	((ns_t)1000)
#define NS_MS	((ns_t)1000000)
#define NS_S	((ns_t)1000000000)
#define NS_NEVER INT64_MAX

#endif
