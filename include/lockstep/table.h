// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Lookup tables: map keys to values, such as words to numbers. A table is
// filled when it is created, and never changes.
//
// In the scope of a strategy whose replicas have hosts of their own, as a TPU
// strategy's do, a table has a copy on each host. A use of it takes the one on
// the current device's host, or the first one if that host has none.
//
// Threads: any number of threads may use a table at the same time.
#ifndef LOCKSTEP_TABLE_H_
#define LOCKSTEP_TABLE_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_table ls_table;

typedef struct ls_table_options {
  const char *name;        // For messages. Default "table".
  const ls_array *keys;    // Required: strings or integers, a vector.
  const ls_array *values;  // Required: as many, a vector of any dtype.
  // Value for unknown keys, a scalar of the values' dtype. Default: an unknown
  // key fails the run with NOT_FOUND.
  const ls_array *missing;
} ls_table_options;

// Creates a table of copies of keys and values. The caller owns a reference. In
// nests it is an object.
//   LS_INVALID_ARGUMENT  other shapes or dtypes, or a duplicate key: names it.
LS_API LS_MUST_USE ls_status ls_table_create(const ls_table_options *options,
                                             ls_table **out_table);
LS_API ls_table *ls_table_retain(ls_table *table);
LS_API void ls_table_release(ls_table *table);

// Looks up the value of each key.
LS_PLACED ls_tensor ls_table_lookup(ls_table *table, ls_tensor keys);
// Returns the number of keys, an i64 scalar.
LS_PLACED ls_tensor ls_table_size(ls_table *table);

// Returns the number of hosts with a copy; 0: it is one table, on no host.
LS_API size_t ls_table_num_hosts(const ls_table *table);
// Return the host of a copy, canonical, and the copy; lent, NULL after the
// last.
LS_API const char *ls_table_host(const ls_table *table, size_t index);
LS_API ls_table *ls_table_on_host(ls_table *table, size_t index);
// Returns the copy for the thread's current device; lent.
LS_API ls_table *ls_table_here(ls_table *table);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TABLE_H_
