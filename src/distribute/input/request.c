// SPDX-License-Identifier: Apache-2.0
//
// Public calls that distribute data sets: check options and call the strategy's
// class.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"

// ---- Options ----------------------------------------------------------------
static ls_status request_check_flag(ls_flag flag, const char *name) {
  return (unsigned)flag <= LS_FLAG_OFF
             ? ls_ok()
             : ls_invalid_argument("%s %d of ls_input_options is no flag", name,
                                   (int)flag);
}

static ls_status request_check_values(const ls_input_options *options) {
  enum { MOST_BUFFERED = 1 << 20 };
  const ls_opt *buffer = &options->per_replica_buffer_size;
  LS_RETURN_IF_ERROR(
      request_check_flag(options->fetch_to_device, "fetch_to_device"));
  LS_RETURN_IF_ERROR(request_check_flag(options->prefetch, "prefetch"));
  if ((unsigned)options->replication > LS_PIPELINE_PER_REPLICA)
    return ls_invalid_argument("replication %d of ls_input_options is no mode",
                               (int)options->replication);
  if ((unsigned)options->sharding > LS_SHARD_HINT)
    return ls_invalid_argument("sharding %d of ls_input_options is no policy",
                               (int)options->sharding);
  if (buffer->set && (buffer->value < 0 || buffer->value > MOST_BUFFERED))
    return ls_invalid_argument(
        "per_replica_buffer_size %lld: must be 0 (none) to %d", buffer->value,
        MOST_BUFFERED);
  if (options->prefetch == LS_FLAG_ON && buffer->set && buffer->value < 1)
    return ls_invalid_argument(
        "prefetch is on with per_replica_buffer_size %lld: it needs at least 1",
        buffer->value);
  return ls_ok();
}

static ls_status check_dataset(const ls_input_options *options,
                               const char *what) {
  const ls_shard_policy policy = options->sharding;
  if (options->replication == LS_PIPELINE_PER_REPLICA)
    return ls_unimplemented(
        "%s with a pipeline for each replica (PER_REPLICA), which is for data "
        "sets from a function: use distribute_datasets_from_function",
        what);
  if (options->whole_elements && options->round_up)
    return ls_invalid_argument(
        "whole_elements and round_up: whole elements are not split");
  if (options->round_up && policy != LS_SHARD_DEFAULT &&
      policy != LS_SHARD_DATA && policy != LS_SHARD_AUTO)
    return ls_invalid_argument("round_up is of parts of one batch for all "
                               "hosts: sharding is to be by DATA");
  if (options->prefetch != LS_FLAG_DEFAULT && !options->whole_elements)
    return ls_invalid_argument("prefetch is for whole_elements; for parts use "
                               "per_replica_buffer_size");
  return ls_ok();
}

static ls_status check_function(const ls_strategy *strategy,
                                const ls_input_options *options,
                                const char *what) {
  const bool per_replica = options->replication == LS_PIPELINE_PER_REPLICA;
  if (per_replica && strategy->kind->has_host_pipelines)
    return ls_unimplemented("%s of %s with a pipeline for each replica "
                            "(PER_REPLICA): only the mirrored strategy has it",
                            what, strategy->label);
  if (options->place_dataset_on_device && !per_replica)
    return ls_invalid_argument(
        "place_dataset_on_device with a pipeline for each worker (PER_WORKER): "
        "it needs PER_REPLICA");
  if (options->place_dataset_on_device &&
      options->fetch_to_device != LS_FLAG_OFF)
    return ls_invalid_argument(
        "place_dataset_on_device and fetch_to_device: elements made on the "
        "device are not fetched to it; set fetch_to_device to off");
  if (options->whole_elements || options->round_up ||
      options->sharding != LS_SHARD_DEFAULT)
    return ls_invalid_argument(
        "%s of ls_input_options is for a data set: a function's elements for a "
        "pipeline are used unchanged",
        options->whole_elements ? "whole_elements"
        : options->round_up     ? "round_up"
                                : "sharding");
  return ls_ok();
}

ls_status ls_input_choose_buffer(const ls_strategy *strategy,
                                 const ls_input_options *options,
                                 int64_t *out_buffer) {
  const ls_opt *size = &options->per_replica_buffer_size;
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  const bool eager = ls_graph_is_eager(graph);
  ls_flag flag = options->prefetch;
  if (flag == LS_FLAG_DEFAULT && options->whole_elements)
    flag = strategy->prefetch;
  if (flag == LS_FLAG_ON && eager)
    return ls_failed_precondition(
        "prefetch to the devices of %s is on in eager mode: it is for graphs",
        strategy->label);
  *out_buffer = size->set ? size->value : 1;
  if (flag == LS_FLAG_OFF ||
      (flag == LS_FLAG_DEFAULT && options->whole_elements && eager))
    *out_buffer = 0;
  if (flag == LS_FLAG_ON && *out_buffer < 1) *out_buffer = 1;
  return ls_ok();
}

// ---- Calls ------------------------------------------------------------------
static ls_status request_distribute(ls_strategy *strategy,
                                    ls_input_request request,
                                    const ls_input_options *options,
                                    ls_nest *out) {
  const ls_input_options defaults = {0};
  request.options = options != NULL ? options : &defaults;
  LS_RETURN_IF_ERROR(request_check_values(request.options));
  LS_RETURN_IF_ERROR(
      request.function == NULL
          ? check_dataset(request.options, request.noun)
          : check_function(strategy, request.options, request.noun));
  return strategy->kind->distribute(strategy, &request, out);
}

ls_status ls_strategy_distribute_dataset_with(ls_strategy *strategy,
                                              ls_nest dataset,
                                              const ls_input_options *options,
                                              ls_nest *out_dataset) {
  LS_REQUIRE_OUT(out_dataset, strategy);
  return request_distribute(
      strategy,
      (ls_input_request){.noun = "distribute_dataset", .dataset = dataset},
      options, out_dataset);
}

ls_status ls_strategy_distribute_dataset(ls_strategy *strategy, ls_nest dataset,
                                         ls_nest *out_dataset) {
  LS_REQUIRE_OUT(out_dataset, strategy);
  return ls_strategy_distribute_dataset_with(strategy, dataset, NULL,
                                             out_dataset);
}

ls_status ls_strategy_distribute_datasets_from_function_with(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    const ls_input_options *options, ls_nest *out_dataset) {
  LS_REQUIRE_OUT(out_dataset, strategy, function);
  return request_distribute(
      strategy,
      (ls_input_request){.noun = "distribute_datasets_from_function",
                         .function = function,
                         .user = user},
      options, out_dataset);
}

ls_status ls_strategy_distribute_datasets_from_function(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_nest *out_dataset) {
  LS_REQUIRE_OUT(out_dataset, strategy, function);
  return ls_strategy_distribute_datasets_from_function_with(
      strategy, function, user, NULL, out_dataset);
}

// ---- Iterators made directly ------------------------------------------------
static ls_status make_iterator(ls_strategy *strategy, ls_input_request request,
                               ls_distributed_iterator **out_iterator) {
  LS_OWN(ls_nest, data) = ls_none();
  LS_RETURN_IF_ERROR(request_distribute(strategy, request, NULL, &data));
  return ls_distributed_iterator_create(
      data,
      &(ls_distributed_iterator_options){.kind = LS_ITERATOR_INITIALIZABLE},
      out_iterator);
}

ls_status
ls_strategy_make_dataset_iterator(ls_strategy *strategy, ls_nest dataset,
                                  ls_distributed_iterator **out_iterator) {
  LS_REQUIRE_OUT(out_iterator, strategy);
  return make_iterator(
      strategy,
      (ls_input_request){.noun = "make_dataset_iterator", .dataset = dataset},
      out_iterator);
}

ls_status ls_strategy_make_input_fn_iterator(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_replication_mode mode, ls_distributed_iterator **out_iterator) {
  LS_REQUIRE_OUT(out_iterator, strategy, function);
  if (mode != LS_PIPELINE_PER_WORKER)
    return ls_invalid_argument(
        "make_input_fn_iterator with %s: only a pipeline for each worker "
        "(PER_WORKER) is possible",
        mode == LS_PIPELINE_PER_REPLICA
            ? "a pipeline for each replica (PER_REPLICA)"
            : "an unknown mode");
  return make_iterator(strategy,
                       (ls_input_request){.noun = "make_input_fn_iterator",
                                          .function = function,
                                          .user = user},
                       out_iterator);
}

// ---- Contexts of functions --------------------------------------------------
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
