// SPDX-License-Identifier: Apache-2.0
//
// What functions that make data sets, or values, are told of the whole.
#include <stdio.h>

#include "base/require.h"
#include "lockstep/distribute_input.h"

static int32_t or_one(int32_t number) { return number == 0 ? 1 : number; }

ls_status ls_input_context_per_replica_batch_size(ls_input_context context,
                                                  int64_t global_batch,
                                                  int64_t *out_size) {
  LS_REQUIRE_OUT(out_size);
  const int32_t replicas = or_one(context.num_replicas);
  if (replicas < 0 || global_batch < 0)
    return ls_invalid_argument("a global batch of %lld on %d replicas",
                               (long long)global_batch, replicas);
  if (global_batch % replicas != 0)
    return ls_invalid_argument("a global batch of %lld on %d replicas: it is "
                               "to be a multiple of their number",
                               (long long)global_batch, replicas);
  *out_size = global_batch / replicas;
  return ls_ok();
}

const char *ls_input_context_print(ls_input_context context, char *buffer,
                                   size_t size) {
  snprintf(buffer, size, "input pipeline %d of %d", context.pipeline,
           or_one(context.num_pipelines));
  return buffer;
}

const char *ls_value_context_print(int32_t replica, int32_t replicas,
                                   char *buffer, size_t size) {
  snprintf(buffer, size, "replica %d of %d", replica, replicas);
  return buffer;
}
