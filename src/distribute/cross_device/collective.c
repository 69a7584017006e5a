// SPDX-License-Identifier: Apache-2.0
//
// Collective ops: a group of devices of several processes. Components of other
// processes are fetched, and then reduced like those of this one, so that there
// is one way to add.
#include <math.h>
#include <strings.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"
#include "base/values/array_internal.h"
#include "distribute/cross_device/cross_device.h"
#include "graph/region.h"
#include "lockstep/communicator.h"
#include "lockstep/eager.h"
#include "lockstep/multi_worker.h"
#include "runtime/program.h"

// A component as arrays: values, and for slices indices and perhaps a shape.
enum { VALUES, INDICES, SHAPE, ARRAYS };

// The type of an array, as ranks tell each other; LS_DTYPE_NONE: there is none.
typedef struct array_form {
  int64_t code;  // In a rank's first form: why it has no components.
  int32_t dtype, rank;
  int64_t dim[LS_MAX_RANK];
} array_form;

struct ls_collective {
  ls_runtime *runtime;
  ls_communicator *communicator;  // NULL: this process has all members.
  ls_device_set devices;          // Devices of this process.
  int32_t size;
  int64_t limit;
  // Number among the runtime's groups and strategies: the same on all ranks.
  uint64_t number;
  uint64_t exchanges;  // Number of those so far.
  ls_mutex lock;       // Held for a whole call, which makes two exchanges.
};

// ---- Fetching --------------------------------------------------------------
// A value whose components are being fetched.
typedef struct fetching {
  struct ls_collective *group;
  ls_allocator *allocator;
  ls_components own;
  array_form *forms;  // ARRAYS for each member, as those below.
  ls_array **arrays;
  ls_exchange_piece *pieces;
  ls_components all;  // Owns its items.
} fetching;

static void fetching_deinit(fetching *self) {
  const size_t count = self->group == NULL ? 0 : (size_t)self->group->size;
  for (size_t i = 0; self->arrays != NULL && i < ARRAYS * count; ++i)
    ls_array_release(self->arrays[i]);
  for (size_t i = 0; self->all.items != NULL && i < count; ++i)
    ls_nest_release(self->all.items[i]);
  ls_components_deinit(&self->own);
  ls_components_deinit(&self->all);
  ls_release(self->allocator, self->forms);
  ls_release(self->allocator, self->arrays);
  ls_release(self->allocator, self->pieces);
}
LS_OWNED_STRUCT(fetching, fetching_deinit)

static ls_status fetching_init(fetching *self) {
  const size_t count = (size_t)self->group->size;
  self->all.devices.allocator = self->allocator;
  self->forms = ls_new_array(self->allocator, array_form, ARRAYS * count);
  self->arrays = ls_new_array(self->allocator, ls_array *, ARRAYS * count);
  self->pieces =
      ls_new_array(self->allocator, ls_exchange_piece, ARRAYS * count);
  self->all.items = ls_new_array(self->allocator, ls_nest, count);
  self->all.devices.names =
      ls_new_array(self->allocator, ls_device_name, count);
  return self->forms != NULL && self->arrays != NULL && self->pieces != NULL &&
                 self->all.items != NULL && self->all.devices.names != NULL
             ? ls_ok()
             : ls_out_of_memory();
}

static size_t first_member(const struct ls_collective *group, int32_t rank) {
  return (size_t)ls_communicator_first(group->communicator, rank, group->size);
}

// Reads a component of this process into the arrays of its member.
static ls_status read_member(fetching *self, ls_nest item, size_t member) {
  ls_array **arrays = &self->arrays[ARRAYS * member];
  ls_slices_parts parts = {0};
  if (item.kind == LS_KIND_NONE) return ls_ok();
  if (item.kind == LS_KIND_SLICES)
    LS_RETURN_IF_ERROR(ls_slices_parts_of(item, &parts));
  else
    LS_RETURN_IF_ERROR(ls_region_tensor(item, &parts.values));
  LS_RETURN_IF_ERROR(ls_tensor_value(parts.values, &arrays[VALUES]));
  const ls_dtype dtype = ls_array_dtype(arrays[VALUES]);
  if (ls_dtype_owns_elements(dtype))
    return ls_unimplemented("components of type %s of other processes",
                            ls_dtype_name(dtype));
  if (item.kind != LS_KIND_SLICES) return ls_ok();
  LS_RETURN_IF_ERROR(ls_tensor_value(parts.indices, &arrays[INDICES]));
  return parts.dense_shape.ref == 0
             ? ls_ok()
             : ls_tensor_value(parts.dense_shape, &arrays[SHAPE]);
}

static ls_status read_own(fetching *self) {
  const size_t first =
      first_member(self->group, self->group->communicator->rank);
  const ls_device_set *known = &self->group->devices;
  for (size_t i = 0; i < self->own.devices.count; ++i) {
    const char *device = self->own.devices.names[i].text;
    const size_t at = device[0] == '\0' ? i : ls_device_set_find(known, device);
    char text[400];
    if (at == known->count)
      return ls_invalid_argument(
          "a component is on '%s', the collective's group on %s", device,
          ls_device_set_print(known, text, sizeof(text)));
    LS_RETURN_IF_ERROR(read_member(self, self->own.items[i], first + at));
  }
  for (size_t i = ARRAYS * first; i < ARRAYS * (first + known->count); ++i) {
    const ls_array *array = self->arrays[i];
    if (array == NULL) continue;
    const ls_shape shape = ls_array_shape(array);
    self->forms[i] = (array_form){.dtype = (int32_t)ls_array_dtype(array),
                                  .rank = shape.rank};
    memcpy(self->forms[i].dim, shape.dim, sizeof(shape.dim));
  }
  return ls_ok();
}

static ls_status exchange_all(struct ls_collective *group,
                              const ls_exchange_piece *pieces, size_t count) {
  ls_communicator *communicator = group->communicator;
  ls_exchange exchange = {.name = {.program = {group->number, 0},
                                   .iteration = group->exchanges++,
                                   .merge = UINT32_MAX - 4},
                          .pieces = pieces,
                          .count = count,
                          .limit = group->limit};
  LS_RETURN_IF_ERROR(communicator->start(communicator, &exchange));
  return communicator->wait(communicator, &exchange);
}

// Returns the failure of the first rank that has no components.
static ls_status failure_of_others(const fetching *self) {
  for (int32_t k = 0; k < self->group->communicator->ranks; ++k) {
    const int64_t code =
        self->forms[ARRAYS * first_member(self->group, k)].code;
    if (code != LS_OK)
      return LS_STATUS((ls_code)code,
                       "rank %d of a collective has no components for it", k);
  }
  return ls_ok();
}

// Tells all ranks the types of this one's components, or that it has failed.
static ls_status exchange_forms(fetching *self, ls_code code) {
  const int32_t ranks = self->group->communicator->ranks;
  self->forms[ARRAYS *
              first_member(self->group, self->group->communicator->rank)]
      .code = code;
  for (int32_t k = 0; k < ranks; ++k) {
    const size_t first = first_member(self->group, k);
    const size_t count = first_member(self->group, k + 1) - first;
    self->pieces[k] = (ls_exchange_piece){&self->forms[ARRAYS * first],
                                          ARRAYS * count * sizeof(array_form),
                                          k, LS_EACH_RANK};
  }
  return exchange_all(self->group, self->pieces, (size_t)ranks);
}

static ls_status exchange_arrays(fetching *self) {
  size_t count = 0;
  for (int32_t k = 0; k < self->group->communicator->ranks; ++k)
    for (size_t i = ARRAYS * first_member(self->group, k);
         i < ARRAYS * first_member(self->group, k + 1); ++i)
      if (self->arrays[i] != NULL)
        self->pieces[count++] = (ls_exchange_piece){
            ls_array_mutable_data(self->arrays[i]),
            ls_array_size(self->arrays[i]), k, LS_EACH_RANK};
  return exchange_all(self->group, self->pieces, count);
}

static ls_nest member_of(const fetching *self, size_t member) {
  ls_array *const *arrays = &self->arrays[ARRAYS * member];
  if (arrays[VALUES] == NULL) return ls_none();
  const ls_nest values = ls_leaf(ls_constant(arrays[VALUES]));
  if (arrays[INDICES] == NULL) return values;
  const ls_tensor shape =
      arrays[SHAPE] != NULL ? ls_constant(arrays[SHAPE]) : ls_failed_tensor();
  return ls_nest_slices(values, ls_constant(arrays[INDICES]), shape);
}

static ls_status fetch_others(fetching *self) {
  for (size_t i = 0; i < ARRAYS * (size_t)self->group->size; ++i) {
    const array_form *form = &self->forms[i];
    if (self->arrays[i] != NULL || form->dtype == LS_DTYPE_NONE) continue;
    ls_shape shape = {.rank = form->rank};
    memcpy(shape.dim, form->dim, sizeof(shape.dim));
    LS_RETURN_IF_ERROR(
        ls_array_create((ls_dtype)form->dtype, shape, &self->arrays[i]));
  }
  LS_RETURN_IF_ERROR(exchange_arrays(self));
  for (; self->all.devices.count < (size_t)self->group->size;
       ++self->all.devices.count)
    self->all.items[self->all.devices.count] =
        member_of(self, self->all.devices.count);
  return ls_ok();
}

// Fetches the components of the other processes, if the call has been right so
// far. A failure until then is told with the types, so that all ranks fail in
// this call and the next ones match; a later one ends the others' calls.
static ls_status fetch(fetching *self, ls_status asked) {
  struct ls_collective *group = self->group;
  ls_mutex_lock(&group->lock);
  ls_status lost = fetching_init(self);
  if (ls_status_is_ok(lost)) {
    if (ls_status_is_ok(asked)) asked = read_own(self);
    lost = exchange_forms(self, ls_status_code(asked));
  }
  if (ls_status_is_ok(lost) && ls_status_is_ok(asked)) {
    asked = failure_of_others(self);
    if (ls_status_is_ok(asked)) lost = fetch_others(self);
  }
  if (!ls_status_is_ok(lost))
    group->communicator->cancel(group->communicator, lost);
  ls_mutex_unlock(&group->lock);
  return ls_status_join(asked, lost);
}

// ---- The table -------------------------------------------------------------
// Keeps the components of this process if the others' are absent, as in the
// elements of a distributed data set; returns false if they are there.
static bool keep_present(const struct ls_collective *group,
                         ls_components *own) {
  bool lacks = false;
  for (size_t i = 0; i < own->devices.count; ++i)
    lacks |= own->items[i].kind == LS_KIND_ARRAY &&
             ls_array_is_absent(ls_nest_as_array(own->items[i]));
  if (!lacks) return false;
  const size_t first = first_member(group, group->communicator->rank);
  own->devices.count = group->devices.count;
  memmove(own->items, own->items + first,
          own->devices.count * sizeof(*own->items));
  memmove(own->devices.names, own->devices.names + first,
          own->devices.count * sizeof(*own->devices.names));
  return true;
}

// Finds out if a value lacks the components of other processes.
static ls_status lacks_others(const ls_reduce_plan *how, ls_nest value,
                              ls_components *own, bool *out_lacks) {
  const struct ls_collective *group = how->group;
  *out_lacks = false;
  if (group == NULL || group->communicator == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_components_init(own, value));
  if (own->devices.count == (size_t)group->size && !keep_present(group, own))
    return ls_ok();
  *out_lacks = ls_graph_is_eager(ls_graph_current());
  if (own->devices.count != group->devices.count)
    return ls_invalid_argument("a value of %zu components: the group has %d "
                               "members, %zu of them in this process",
                               own->devices.count, group->size,
                               group->devices.count);
  return *out_lacks
             ? ls_ok()
             : ls_unimplemented("a value of %zu components of a group of %d in "
                                "a graph: only eager values are fetched",
                                own->devices.count, group->size);
}

// Fetches what a value lacks, and finds the devices of the result. Returns in
// `*out_lacks` false if it lacks nothing.
static ls_status fetch_lacking(const ls_reduce_plan *how, ls_nest value,
                               ls_destinations where, fetching *f,
                               ls_device_set *to, bool *out_lacks) {
  f->group = how->group;
  f->allocator = ls_current_allocator();
  ls_status asked = lacks_others(how, value, &f->own, out_lacks);
  if (!*out_lacks) return asked;
  if (ls_status_is_ok(asked)) asked = ls_destination_set(where, value, to);
  return fetch(f, asked);
}

static ls_status collective_reduce(void *user, ls_reduce_op op, ls_nest value,
                                   ls_destinations where, ls_nest *out_value) {
  LS_OWN(fetching, f) = {0};
  LS_OWN(ls_device_set, to) = {0};
  LS_OWN(ls_nest, made) = ls_none();
  bool lacks = false;
  LS_RETURN_IF_ERROR(fetch_lacking(user, value, where, &f, &to, &lacks));
  if (!lacks)
    return ls_in_build_graph()
               ? ls_all_reduce_spread(user, op, value, where, out_value)
               : ls_all_reduce_one(user, op, value, where, out_value);
  {
    LS_DEVICE_SCOPE(to.names[0].text);
    LS_RETURN_IF_ERROR(ls_reduce_parts(op, &f.all, NULL, NULL, &made));
  }
  return ls_copy_to(made, &to, out_value);
}

static ls_status collective_batch_reduce(void *user, ls_reduce_op op,
                                         const ls_nest *values,
                                         const ls_destinations *where,
                                         size_t count, ls_nest *results) {
  if (ls_in_build_graph())
    return ls_all_reduce_batch(user, op, values, where, count, results);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        collective_reduce(user, op, values[i], where[i], &results[i]));
  return ls_ok();
}

static ls_status collective_gather(void *user, ls_nest value, int axis,
                                   ls_destinations where, ls_nest *out_value) {
  LS_OWN(fetching, f) = {0};
  LS_OWN(ls_device_set, to) = {0};
  LS_OWN(ls_nest, made) = ls_none();
  bool lacks = false;
  LS_RETURN_IF_ERROR(fetch_lacking(user, value, where, &f, &to, &lacks));
  if (!lacks) return ls_gather_to_one(value, axis, where, out_value);
  {
    LS_DEVICE_SCOPE(to.names[0].text);
    LS_RETURN_IF_ERROR(ls_gather_parts(&f.all, axis, &made));
  }
  return ls_copy_to(made, &to, out_value);
}

static void group_destroy(struct ls_collective *group) {
  if (group == NULL) return;
  ls_allocator *allocator = group->devices.allocator;
  // The runtime may be gone, unless it is current.
  if (group->number != 0 && group->exchanges == 0 &&
      ls_this_thread.work.runtime == group->runtime)
    ls_runtime_return_number(group->runtime, group->number);
  ls_mutex_deinit(&group->lock);
  ls_release(allocator, group->devices.names);
  ls_release(allocator, group);
}
LS_OWNED_(collective, struct ls_collective *, group_destroy(*ls_owned))

static void collective_release(void *user) {
  group_destroy(((ls_reduce_plan *)user)->group);
  ls_all_reduce_release(user);
}

static const ls_cross_device_table collective_table = {
    .name = "collective",
    .reduce = collective_reduce,
    .batch_reduce = collective_batch_reduce,
    .gather = collective_gather,
    .release = collective_release};

// ---- Options ---------------------------------------------------------------
static const char *const implementations[] = {"AUTO", "RING", "NCCL"};

ls_status ls_collective_implementation_parse(
    const char *text, ls_collective_implementation *out_implementation) {
  LS_REQUIRE_OUT(out_implementation, text);
  for (size_t i = 0; i < LS_COUNT_OF(implementations); ++i)
    if (strcasecmp(text, implementations[i]) == 0) {
      *out_implementation = (ls_collective_implementation)i;
      return ls_ok();
    }
  return ls_invalid_argument(
      "implementation '%s' of collectives: AUTO, RING or NCCL", text);
}

ls_collective_options
ls_collective_options_merge(const ls_collective_options *first,
                            const ls_collective_options *second) {
  ls_collective_options merged =
      first != NULL ? *first : (ls_collective_options){0};
  if (second == NULL) return merged;
  if (second->bytes_per_pack != 0)
    merged.bytes_per_pack = second->bytes_per_pack;
  if (second->timeout_seconds != 0)
    merged.timeout_seconds = second->timeout_seconds;
  if (second->implementation != LS_COLLECTIVE_AUTO)
    merged.implementation = second->implementation;
  return merged;
}

static ls_status check_collective(const ls_collective_options *options) {
  if (options->bytes_per_pack < 0)
    return ls_invalid_argument("bytes_per_pack %lld of collectives is negative",
                               (long long)options->bytes_per_pack);
  if (!(options->timeout_seconds >= 0 && options->timeout_seconds < 1e9))
    return ls_invalid_argument("timeout_seconds %g of collectives",
                               options->timeout_seconds);
  return (unsigned)options->implementation <= LS_COLLECTIVE_NCCL
             ? ls_ok()
             : ls_invalid_argument(
                   "implementation %d of collectives: AUTO, RING or NCCL",
                   (int)options->implementation);
}

// ---- Making ----------------------------------------------------------------
int64_t ls_cross_device_limit(const ls_cross_device *ops) {
  if (ops == NULL || ops->table != &collective_table) return 0;
  const ls_reduce_plan *how = ops->self;
  return how->group != NULL ? how->group->limit : 0;
}

static ls_status name_devices(struct ls_collective *group,
                              const char *const *devices, size_t count) {
  for (; group->devices.count < count; ++group->devices.count) {
    ls_device_name *name = &group->devices.names[group->devices.count];
    LS_RETURN_IF_ERROR(
        ls_device_canonical(devices[group->devices.count], NULL, name));
  }
  return ls_ok();
}

static ls_status make_group(const char *const *devices, size_t count,
                            int32_t size, int64_t limit,
                            struct ls_collective **out_group) {
  ls_allocator *allocator = ls_current_allocator();
  ls_runtime *runtime = ls_runtime_current();
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  const int32_t ranks = communicator != NULL ? communicator->ranks : 1;
  const int32_t workers = size / (int32_t)count;
  if (workers > 1 && workers != ranks)
    return ls_failed_precondition("a group of %d devices, %zu of this process, "
                                  "is of %d workers: the runtime has %d ranks",
                                  size, count, workers, ranks);
  LS_NEW_OR_RETURN(allocator, struct ls_collective, made);
  made->devices.allocator = allocator;
  LS_OWN(collective, group) = made;
  group->runtime = runtime;
  group->communicator = workers > 1 ? communicator : NULL;
  group->size = size;
  group->limit = limit;
  LS_SET_ARRAY_OR_RETURN(allocator, ls_device_name, group->devices.names,
                         count);
  LS_RETURN_IF_ERROR(ls_mutex_init(&group->lock));
  LS_RETURN_IF_ERROR(name_devices(group, devices, count));
  if (group->communicator != NULL)
    LS_RETURN_IF_ERROR(ls_runtime_number_for_ranks(runtime, &group->number));
  return ls_hand_over(&group, out_group);
}

ls_status ls_collective_ops_create(const char *const *devices,
                                   size_t num_devices, int32_t group_size,
                                   const ls_collective_options *options,
                                   ls_cross_device **out_ops) {
  LS_REQUIRE_OUT(out_ops);
  LS_REQUIRE_EACH(devices, num_devices);
  static const ls_collective_options defaults;
  if (options == NULL) options = &defaults;
  LS_RETURN_IF_ERROR(check_collective(options));
  if (num_devices == 0 || group_size < 1 || num_devices > INT32_MAX ||
      group_size % (int32_t)num_devices != 0)
    return ls_invalid_argument(
        "group size %d is no multiple of the number of local devices, %zu",
        group_size, num_devices);
  struct ls_collective *group = NULL;
  LS_RETURN_IF_ERROR(make_group(devices, num_devices, group_size,
                                (int64_t)ceil(options->timeout_seconds * 1e9),
                                &group));
  const ls_reduce_plan how = {.algorithm =
                                  implementations[options->implementation],
                              .by_size = true,
                              .bytes_per_pack = options->bytes_per_pack,
                              .group = group};
  const ls_status status = ls_all_reduce_make(&collective_table, how, out_ops);
  if (!ls_status_is_ok(status)) group_destroy(group);
  return status;
}

ls_status ls_collective_create(const char *implementation,
                               ls_cross_device **out_ops) {
  return ls_all_reduce_make(
      &collective_table,
      (ls_reduce_plan){.algorithm = implementation, .by_size = true}, out_ops);
}
