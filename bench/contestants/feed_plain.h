// SPDX-License-Identifier: Apache-2.0
// What the parts of feed_plain share.
#ifndef LS_BENCH_CONTESTANTS_FEED_PLAIN_H_
#define LS_BENCH_CONTESTANTS_FEED_PLAIN_H_

#include <stdint.h>

#include "common/feed.h"

// They end the program.
void feed_failed(const char *what);  // By errno.
void feed_damaged(void);
// The next of random numbers that are the same at each start.
uint32_t feed_draw(void);

// ---- Images: feed_images.c -------------------------------------------------
void feed_open_jpegs(const char *folder);
int64_t feed_next_of_jpegs(void *user, double *sum);
void feed_open_pngs(const char *folder);
int64_t feed_next_of_pngs(void *user, double *sum);
// Of the kinds that there is a library for.
void feed_make_images(const char *folder);

#endif  // LS_BENCH_CONTESTANTS_FEED_PLAIN_H_
