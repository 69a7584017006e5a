// SPDX-License-Identifier: Apache-2.0
//
// Variables that replicas make: once, by replica 0; the others get the same
// ones, matched by name without uniquifying numbers, in the order of creation.
#ifndef LS_DISTRIBUTE_REPLICAS_SHARING_H_
#define LS_DISTRIBUTE_REPLICAS_SHARING_H_

#include "distribute/base/strategy.h"

// What replica 0 made in one run of all replicas.
typedef struct ls_sharing {
  ls_strategy *strategy;
  ls_map made;  // Canonical name -> list of variables.
} ls_sharing;

// One replica's requests.
typedef struct ls_shared_requests {
  ls_sharing *sharing;
  int32_t replica;
  ls_map counts;  // Canonical name -> how many it asked for.
} ls_shared_requests;

void ls_sharing_init(ls_sharing *sharing, ls_strategy *strategy);
void ls_sharing_deinit(ls_sharing *sharing);
void ls_shared_requests_deinit(ls_shared_requests *requests);
// The creator to put in force in a replica; `user` is its requests.
ls_status ls_sharing_create(const ls_creator *next,
                            const ls_variable_options *options, void *user,
                            ls_variable **out_variable);
// "foo_1/bar_1/baz" -> "foo/bar/baz", "foo_1" -> "foo"; into `out`, which is as
// large as the name with its zero.
void ls_canonical_variable_name(const char *name, char *out);

#endif  // LS_DISTRIBUTE_REPLICAS_SHARING_H_
