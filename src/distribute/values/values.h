// SPDX-License-Identifier: Apache-2.0
// Distributed values: the devices of their components, and a replica's
// component.
#ifndef LS_DISTRIBUTE_VALUES_VALUES_H_
#define LS_DISTRIBUTE_VALUES_VALUES_H_

#include "base/runtime_internal.h"
#include "distribute/base/strategy.h"
#include "lockstep/cross_device.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/summary.h"

// Returns the device that a leaf names; "" if it names none.
const char *ls_leaf_device(ls_nest leaf);
// Finds the canonical device of a component of a distributed value.
ls_status ls_component_device(ls_nest value, size_t index,
                              ls_device_name *out_name);
// Returns the current strategy if it has devices, else NULL.
const ls_strategy *ls_strategy_here(void);
// Returns true if a replica's value may be on `name`: the replica's device, or
// its host's CPU. The names are canonical.
bool ls_device_serves(const char *name, const char *device);

// A list of canonical devices, for each of which a value has a component.
typedef struct ls_device_list {
  const char *const *devices;  // NULL: not known; positions count.
  size_t count;
  bool must_have;  // Refuses to order a leaf on others; else it stays as it is.
  bool takes_more;  // Takes a leaf with components of other devices, too.
} ls_device_list;
// Checks that each distributed leaf has a component for each device. Walks the
// nest, so that it needs no memory.
//   LS_INVALID_ARGUMENT  it has others: names a device that it lacks
ls_status ls_check_components(ls_nest nest, const ls_device_list *list);
// Orders the components of each distributed leaf that names devices by a list
// of these; the caller owns the result.
//   LS_INVALID_ARGUMENT  a leaf lacks a device that it must have: names it
ls_status ls_order_components(ls_nest nest, const ls_device_list *list,
                              ls_nest *out_nest);

// Lists the components of a value as ls_strategy_local_results does, with
// `local` those of this process, else all.
ls_status ls_strategy_results(ls_strategy *strategy, ls_nest value, bool local,
                              ls_nest *out_tuple);

// Returns true if the thread is in a replicated computation, where the variable
// means the replica's own.
bool ls_variable_is_replicated(const ls_variable *variable);

// Makes one op that runs after all of `ops`: a no-op on each of their devices,
// in sorted order, and then one that waits for these; with a single device,
// just one no-op. Default name "group_deps".
ls_op ls_group_by_device(const ls_op *ops, size_t count, const char *name);

// ---- Devices of values and destinations (destinations.c) -------------------
// An ordered set of canonical device names.
typedef struct ls_device_set {
  ls_allocator *allocator;
  ls_device_name *names;
  size_t count;
} ls_device_set;

void ls_device_set_deinit(ls_device_set *set);
LS_OWNED_STRUCT(ls_device_set, ls_device_set_deinit)
// Returns true if two sets have the same names; the order does not matter.
bool ls_device_set_match(const ls_device_set *a, const ls_device_set *b);
// Returns the position of a name in the set; the number of names if it is
// missing.
size_t ls_device_set_find(const ls_device_set *set, const char *name);
bool ls_device_set_has_cpu(const ls_device_set *set);
// Writes the names separated by commas, cut to `size`; returns `buffer`.
const char *ls_device_set_print(const ls_device_set *set, char *buffer,
                                size_t size);

// Returns the number of components of a value or a variable, and one of them,
// borrowed: none if there is no such one.
size_t ls_count_components(ls_nest leaf);
ls_nest ls_component_of(ls_nest leaf, size_t index);

// The components of a value, borrowed: in order of replica ids if the current
// strategy knows their devices, else in stored order. A leaf without
// components, such as a tensor, counts as one component.
typedef struct ls_components {
  ls_nest *items;
  ls_device_set devices;  // One per component; an empty name: not known.
} ls_components;

ls_status ls_components_init(ls_components *parts, ls_nest value);
void ls_components_deinit(ls_components *parts);
LS_OWNED_STRUCT(ls_components, ls_components_deinit)

// Returns true if a destination is empty.
bool ls_destinations_is_none(ls_destinations where);
// Finds the devices of a destination; if the destination is empty, those of
// `value`.
//   LS_INVALID_ARGUMENT  names `destinations`
ls_status ls_destination_set(ls_destinations where, ls_nest value,
                             ls_device_set *out_set);

// ---- Summaries -------------------------------------------------------------
// Summary writers, private part: for ops and writers of the layers above.

// A kind of summary writer: its functions besides recording.
typedef struct ls_summary_writer_kind {
  const char *name;
  ls_status (*ready)(void *user);  // Returns OK if it can record now.
  void (*destroy)(void *user);
  // Called in place of making an ls_summary op; fails, or returns OK to leave
  // the summary out. NULL: ops are made.
  ls_status (*instead)(void *user, const char *tag);
} ls_summary_writer_kind;

struct ls_summary_writer {
  ls_object object;
  ls_allocator *allocator;
  const ls_summary_writer_kind *kind;  // NULL: the writer only has a function.
  ls_summary_function function;
  void *user;
  int64_t step, every;
  ls_mutex lock;  // Held while recording.
};

// Makes a writer, which owns `user` from then on.
LS_MUST_USE ls_status ls_summary_writer_make(const ls_summary_writer_kind *kind,
                                             ls_summary_function function,
                                             void *user,
                                             ls_summary_writer **out_writer);
// Returns true if summary ops for the writer are made; false for NULL.
static inline bool ls_summary_writer_records(const ls_summary_writer *writer) {
  return writer != NULL &&
         (writer->kind == NULL || writer->kind->instead == NULL);
}
// The state of a summary op.
typedef struct ls_summary_state {
  ls_object object;
  ls_allocator *allocator;
  ls_summary_writer *writer;
  ls_summary_kind kind;
  int64_t every;  // Records each so many steps; 0: as the writer does.
  char tag[];     // Begins with the name scope.
} ls_summary_state;
// Makes the state of an op in the current name scope; NULL without memory.
ls_summary_state *ls_summary_state_make(ls_summary_writer *writer,
                                        ls_summary_kind kind, int64_t every,
                                        const char *tag);
// Records a value as a summary.
LS_MUST_USE ls_status ls_summary_write(ls_summary_writer *writer,
                                       ls_summary_kind kind, const char *tag,
                                       int64_t step, const ls_array *value);
// Records the first value of a host call as a summary.
LS_MUST_USE ls_status ls_summary_record_call(const ls_host_call *call,
                                             ls_summary_writer *writer,
                                             ls_summary_kind kind,
                                             const char *tag, int64_t step);
// Returns true if the current replica makes ops of its own and is not replica
// 0, the only one whose values are recorded.
bool ls_summary_is_left_out(void);
// Returns the state of an ls_summary op; NULL for other ops.
const ls_summary_state *ls_summary_of(ls_op op);

#endif  // LS_DISTRIBUTE_VALUES_VALUES_H_
