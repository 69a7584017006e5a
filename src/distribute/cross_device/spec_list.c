// SPDX-License-Identifier: Apache-2.0
//
// All-reduces that are described by a list of specs: names, numbers of shards
// and limits of sizes, which are checked. Every sum follows the canonical tree,
// so that the specs select nothing.
#include "base/require.h"
#include "distribute/cross_device/cross_device.h"
#include "lockstep/multi_worker.h"

static const ls_cross_device_table spec_table = {
    .name = "multi_worker_all_reduce",
    .reduce = ls_all_reduce_one,
    .batch_reduce = ls_all_reduce_batch,
    .gather = ls_all_reduce_gather,
    .release = ls_all_reduce_release};

// The devices on which a spec adds.
typedef enum addends { ON_PLACE, ON_CPUS, ON_GPUS } addends;

static const struct {
  const char *name;
  addends where;
  bool is_ring, is_halving;
} spec_names[] = {
    {"nccl", ON_PLACE, false, false},
    {"nccl/xring", ON_PLACE, true, false},
    {"nccl/rechd", ON_PLACE, false, true},
    {"nccl/pscpu", ON_CPUS, false, false},
    {"xring", ON_PLACE, true, false},
    {"pscpu", ON_CPUS, false, false},
    {"psgpu", ON_GPUS, false, false},
    {"pscpu/pscpu", ON_CPUS, false, false},
};

static ls_status find_spec_name(const ls_all_reduce_spec *spec, size_t index,
                                size_t *out_row) {
  for (size_t i = 0; spec->name != NULL && i < LS_COUNT_OF(spec_names); ++i)
    if (strcmp(spec->name, spec_names[i].name) == 0) {
      *out_row = i;
      return ls_ok();
    }
  return ls_invalid_argument(
      "spec %zu of an all-reduce, '%s', is none of nccl, nccl/xring, "
      "nccl/rechd, nccl/pscpu, xring, pscpu, psgpu, pscpu/pscpu",
      index, spec->name != NULL ? spec->name : "NULL");
}

static ls_status check_shards(const ls_spec_all_reduce_options *options,
                              const ls_all_reduce_spec *spec, addends where) {
  const long long shards = spec->shards.set ? spec->shards.value : 1;
  const long long workers = (long long)options->num_workers;
  const long long devices =
      where == ON_CPUS ? workers : workers * options->gpus_per_worker;
  if (shards < 1)
    return ls_invalid_argument("spec '%s' with %lld shards", spec->name,
                               shards);
  return where == ON_PLACE || shards <= devices
             ? ls_ok()
             : ls_invalid_argument("spec '%s' with %lld shards on %lld devices",
                                   spec->name, shards, devices);
}

static ls_status
check_all_reduce_spec(const ls_spec_all_reduce_options *options,
                      const ls_all_reduce_spec *spec, size_t index) {
  const size_t devices =
      options->num_workers * (size_t)options->gpus_per_worker;
  size_t row = 0;
  LS_RETURN_IF_ERROR(find_spec_name(spec, index, &row));
  if (spec_names[row].is_halving && (devices & (devices - 1)) != 0)
    return ls_invalid_argument(
        "spec '%s' on %zu devices, which is no power of two", spec->name,
        devices);
  if (spec_names[row].is_ring && devices < 2)
    return ls_invalid_argument(
        "spec '%s' on %zu devices: a ring adds at least two tensors",
        spec->name, devices);
  return check_shards(options, spec, spec_names[row].where);
}

static long long limit_of(const ls_all_reduce_spec *spec) {
  return spec->limit.set ? spec->limit.value : -1;
}

static ls_status check_limits(const ls_all_reduce_spec *specs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const long long limit = limit_of(&specs[i]);
    const bool is_last = i + 1 == count;
    if (is_last != (limit < 0))
      return ls_invalid_argument("spec %zu of %zu, '%s', has limit %lld: the "
                                 "last one, and no other, is without limit",
                                 i, count, specs[i].name, limit);
    if (i > 0 && !is_last && limit <= limit_of(&specs[i - 1]))
      return ls_invalid_argument(
          "spec %zu, '%s', has limit %lld after %lld: limits rise", i,
          specs[i].name, limit, limit_of(&specs[i - 1]));
  }
  return ls_ok();
}

static ls_status check_worker_names(const ls_spec_all_reduce_options *options) {
  if (options->num_workers == 0 || options->gpus_per_worker < 1)
    return ls_invalid_argument(
        "an all-reduce over %zu workers with %d GPUs each",
        options->num_workers, options->gpus_per_worker);
  for (size_t i = 0; i < options->num_workers; ++i) {
    ls_device_name name;
    LS_RETURN_IF_ERROR(ls_device_canonical(options->workers[i], NULL, &name));
  }
  return ls_ok();
}

ls_status ls_spec_all_reduce_create(const ls_spec_all_reduce_options *options,
                                    ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops, options);
  LS_REQUIRE_EACH(options->workers, options->num_workers);
  LS_REQUIRE_ITEMS(options->specs, options->num_specs);
  static const ls_all_reduce_spec usual = {.name = "pscpu/pscpu",
                                           .shards = {true, 2}};
  const ls_all_reduce_spec *specs =
      options->specs != NULL ? options->specs : &usual;
  const size_t count = options->specs != NULL ? options->num_specs : 1;
  LS_RETURN_IF_ERROR(check_worker_names(options));
  if (count == 0)
    return ls_invalid_argument("specs of an all-reduce: the list is empty");
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(check_all_reduce_spec(options, &specs[i], i));
  LS_RETURN_IF_ERROR(check_limits(specs, count));
  const ls_reduce_plan how = {
      .algorithm = spec_table.name,
      .needs_shapes = true,
      .num_packs = options->num_packs.set ? options->num_packs.value : 0,
      .small_max_bytes = options->small_max_bytes,
      .small_max_group =
          options->small_max_group.set ? options->small_max_group.value : 10};
  if (how.num_packs < 0)
    return ls_invalid_argument(
        "an all-reduce with num_packs %lld, which is negative",
        (long long)how.num_packs);
  return ls_all_reduce_make(&spec_table, how, out_ops);
}
