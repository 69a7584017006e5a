// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Tables: what a key stands for, such as the number of a word. A table is full
// when it is made, and never changes.
//
// In the scope of a strategy whose replicas have hosts of their own, as a TPU
// strategy's do, a table is one on each host. Whoever uses it uses that of the
// current device's host, or the first one where that host has none.
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
  // What a key that is not there stands for, a scalar of the values' dtype.
  // Default: it fails the run with NOT_FOUND.
  const ls_array *missing;
} ls_table_options;

// Makes a table of copies of keys and values. The caller owns a reference. In
// nests it is an object.
//   LS_INVALID_ARGUMENT  other shapes or dtypes, or a key that is there twice:
//                        names it.
LS_API LS_MUST_USE ls_status ls_table_create(const ls_table_options *options,
                                             ls_table **out_table);
LS_API ls_table *ls_table_retain(ls_table *table);
LS_API void ls_table_release(ls_table *table);

// What each key stands for.
LS_PLACED ls_tensor ls_table_lookup(ls_table *table, ls_tensor keys);
// How many keys there are, an i64 scalar.
LS_PLACED ls_tensor ls_table_size(ls_table *table);

// How many hosts have one; 0: it is one table, of no host.
LS_API size_t ls_table_num_hosts(const ls_table *table);
// The host of one, canonical, and the table that is there; lent, NULL behind
// the last.
LS_API const char *ls_table_host(const ls_table *table, size_t index);
LS_API ls_table *ls_table_on_host(ls_table *table, size_t index);
// The one that is used where the thread is; lent.
LS_API ls_table *ls_table_here(ls_table *table);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TABLE_H_
