// SPDX-License-Identifier: Apache-2.0
// What pipelines give, with any threads, from any saved place.
#ifndef LS_TESTS_SUPPORT_STREAM_RUNS_H_
#define LS_TESTS_SUPPORT_STREAM_RUNS_H_

#include "lockstep/iterator.h"
#include "lockstep/streams.h"
#include "support/expect.h"

// A pipeline; made anew under each runtime.
typedef ls_dataset *(*stream_maker)(void *user);

// A number for an element: that of a scalar i64, else a hash of types, shapes
// and bytes. One that failed is FAILED.
enum { STREAM_MOST = 4000, STREAM_FAILED = -77777 };
int64_t stream_number(ls_nest element);

// Reads an epoch, or what is left of it. Returns how many elements there were,
// failed ones too; behind the end is the end again.
size_t stream_read(ls_iterator *iterator, int64_t *numbers);

// Expects these numbers of epoch 0.
void expect_stream(stream_maker make, void *user, const int64_t *wanted,
                   size_t count);
#define EXPECT_STREAM(make, user, ...)                                         \
  expect_stream((make), (user), (const int64_t[]){__VA_ARGS__},                \
                sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
// Expects that it gives the same, two epochs of it, with 0, 1, 2 and 7 input
// threads and 0, 1 and 8 elements ahead; and that from many saved places, by
// other threads, the rest is the same. Memory comes back.
void expect_stream_alike(stream_maker make, void *user);

// A stream of `count` numbers i + 100000 * epoch, by a generator. `user` of a
// maker points to one of these.
typedef struct stream_numbers {
  int64_t count;
  bool saves;           // Else places are found by reading again.
  int64_t fails_every;  // Element i fails if i % it is 3. 0: none.
  bool is_sized;        // Their number is known.
  bool lacks_quota;     // Those that fail are RESOURCE_EXHAUSTED.
  int64_t longest;      // Not 0: elements are vectors of i % it + 1 numbers.
} stream_numbers;
ls_dataset *stream_of(const stream_numbers *numbers);

#endif  // LS_TESTS_SUPPORT_STREAM_RUNS_H_
