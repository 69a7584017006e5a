// SPDX-License-Identifier: Apache-2.0
//
// Strategies, private part.
#ifndef LS_DISTRIBUTE_BASE_STRATEGY_H_
#define LS_DISTRIBUTE_BASE_STRATEGY_H_

#include "base/memory/own.h"
#include "base/threads/fiber.h"
#include "base/threads/threads.h"
#include "base/values/nest_internal.h"
#include "graph/context.h"
#include "graph/variables/variable.h"
#include "lockstep/communicator.h"
#include "lockstep/cross_device.h"
#include "lockstep/distribute_input.h"
#include "lockstep/regroup.h"
#include "lockstep/status.h"
#include "lockstep/strategy.h"
#include "lockstep/summary.h"
#include "lockstep/variable_parts.h"
#include "lockstep/variable_recipe.h"
#include "runtime/function.h"

// ---- The class --------------------------------------------------------------
// The class of a kind of strategy: one static table per kind.
//
// Public functions check their arguments and call the table; no other code
// depends on a strategy's kind. A new kind is a file with its table, which may
// use functions of other kinds, and a public header with a constructor.

typedef struct ls_crossing ls_crossing;
typedef struct ls_update_call ls_update_call;

// The input to distribute: a data set, or a function that makes a data set for
// each pipeline.
typedef struct ls_input_request {
  const char *noun;  // Name of the public call, for messages.
  ls_nest dataset;
  ls_dataset_function function;  // NULL: `dataset` is given.
  void *user;
  // Options of the call, never NULL; see distribute_input.h.
  const struct ls_input_options *options;
} ls_input_request;

// A run of a callable, with arguments in the form that the callable receives.
typedef struct ls_run_request {
  ls_callable callable;
  ls_nest args;
  // True if the last argument is a dict of arguments by name.
  bool has_names;
  const ls_run_options *options;  // Never NULL.
} ls_run_request;

typedef struct ls_strategy_class {
  const char *name;  // Start of labels; the devices follow if there are any.
  size_t size;  // Size of the kind's struct, which begins with an ls_strategy.
  // True for the default strategy, which is current outside all scopes. Its own
  // scope changes nothing and is optional.
  bool is_default;
  // True if values and variables have a component for each replica, on the
  // replica's device. False: there is one replica, and values and variables are
  // plain.
  bool distributes;
  // True if a variable may be placed next to a single component of another
  // variable.
  bool beside_components;
  bool has_host_tables;  // True if its tables have a copy on each host.
  bool gathers_equal;    // True if gathers need equal shapes.
  // Most inputs of an add or a concatenation over components; 0: no limit.
  size_t most_inputs;
  // True if arguments of replicas, except batches, need static shapes.
  bool needs_static_shapes;
  // True if functions of data sets are called for each host only, never for
  // each replica.
  bool has_host_pipelines;
  // Classes of the kind's variables; NULL: plain variables.
  const ls_variable_class_map *classes;
  const ls_variable_policy_map *policies;

  // Checks a run before it starts. The arguments are not bound to `parameters`
  // (may be NULL) yet; `noun` names the callable in messages. NULL: only
  // options for TPU strategies are refused.
  ls_status (*check_run)(const ls_strategy *strategy,
                         const ls_run_request *request,
                         const ls_parameters *parameters, const char *noun);
  // Runs the callable on the replicas, from cross-replica context. A plain
  // callable makes new `results`; a traced one fills the results of its
  // previous call.
  ls_status (*run)(ls_strategy *strategy, ls_crossing *crossing,
                   const ls_run_request *request, ls_nest *results);
  // Calls a plain callback for each replica. NULL: `run` does this.
  ls_status (*call_each)(ls_strategy *strategy, ls_callback callback,
                         ls_nest args, void *user, ls_nest *results);

  // Reduces in cross-replica context: one nest to a nest, or a list of leaves
  // to a list.
  ls_status (*reduce)(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                      const ls_reduce_options *options, ls_nest *out_value);
  // Reduces to destinations. reduce_to and batch_reduce_to must check `op`
  // themselves.
  ls_status (*reduce_to)(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                         ls_destinations where, ls_nest *out_value);
  ls_status (*batch_reduce_to)(ls_strategy *strategy, ls_reduce_op op,
                               const ls_nest *values,
                               const ls_destinations *where, size_t count,
                               ls_nest *results);
  ls_status (*broadcast_to)(ls_strategy *strategy, ls_nest value,
                            ls_destinations where, ls_nest *out_value);
  ls_status (*gather)(ls_strategy *strategy, ls_nest value, int axis,
                      ls_nest *out_value);
  ls_status (*fetch)(ls_strategy *strategy, ls_nest value, const char *device,
                     ls_callback fn, void *user, ls_nest *out_value);

  // Updates variables and maps values, in the thread's current context.
  ls_status (*update)(const ls_update_call *call, ls_variable *variable,
                      ls_nest *out_value);
  ls_status (*update_non_slot)(const ls_update_call *call,
                               const char *const *devices, size_t num_devices,
                               ls_nest *out_value);
  ls_status (*map)(const ls_update_call *call, const ls_nest *items,
                   size_t num_items, ls_nest *out_value);
  ls_status (*create_variable)(ls_strategy *strategy, const ls_creator *next,
                               const ls_variable_options *options,
                               ls_variable **out_variable);
  ls_status (*distribute)(ls_strategy *strategy,
                          const ls_input_request *request, ls_nest *out_value);
  // Returns the value that other code sees in place of a leaf, such as a
  // component's container. NULL: the leaf.
  ls_nest (*value_container)(ls_nest leaf);
  // Called after a container and its components were made. May be NULL.
  ls_status (*adopt)(ls_strategy *strategy, const ls_variable_options *options,
                     ls_variable *container);
  // Called after a scope of the strategy was left. May be NULL.
  void (*leave)(ls_strategy *strategy);
  // Implements ls_strategy_non_slot_devices.
  ls_status (*non_slot_devices)(const ls_strategy *strategy,
                                ls_variable *const *variables,
                                size_t num_variables, const char **devices,
                                size_t capacity, size_t *out_count);
  // Frees the fields after the ls_strategy, in partly built strategies, too.
  // May be NULL.
  void (*destroy)(ls_strategy *strategy);
} ls_strategy_class;

// Makes a strategy of a kind; the fields after the ls_strategy are zero. If the
// kind distributes, it then sets the devices of all replicas: see
// ls_strategy_set_label.
ls_status ls_strategy_make(const ls_strategy_class *kind, ls_runtime *runtime,
                           int32_t num_replicas, ls_strategy **out_strategy);
// Sets the device of replica `index`; if replicas have several devices, indices
// from num_replicas on are those of the next column.
//   LS_INVALID_ARGUMENT  not the name of a device
ls_status ls_strategy_place(ls_strategy *strategy, int32_t index,
                            const char *device);

extern const ls_strategy_class ls_default_strategy_class;
extern const ls_strategy_class ls_mirrored_strategy_class;

// Declares a function that can be this member of a class.
#define LS_STRATEGY_FUNCTION(member, name)                                     \
  __typeof__(*((ls_strategy_class *)0)->member) name

// ---- Shared by strategies with a device for each replica --------------------
LS_STRATEGY_FUNCTION(run, ls_mirrored_run);
LS_STRATEGY_FUNCTION(reduce, ls_mirrored_reduce);
LS_STRATEGY_FUNCTION(reduce_to, ls_mirrored_reduce_to);
LS_STRATEGY_FUNCTION(batch_reduce_to, ls_mirrored_batch_reduce_to);
LS_STRATEGY_FUNCTION(broadcast_to, ls_mirrored_broadcast_to);
LS_STRATEGY_FUNCTION(gather, ls_mirrored_gather);
LS_STRATEGY_FUNCTION(fetch, ls_mirrored_fetch);
LS_STRATEGY_FUNCTION(update, ls_mirrored_update);
LS_STRATEGY_FUNCTION(update_non_slot, ls_mirrored_update_non_slot);
LS_STRATEGY_FUNCTION(map, ls_mirrored_map);
LS_STRATEGY_FUNCTION(create_variable, ls_mirrored_create_variable);
LS_STRATEGY_FUNCTION(non_slot_devices, ls_mirrored_non_slot_devices);
extern const ls_variable_class_map ls_mirrored_classes;
extern const ls_variable_policy_map ls_mirrored_policies;

struct ls_strategy {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  const ls_strategy_class *kind;  // Table of its functions.
  // A number that no other strategy has had. It changes when the user sets a
  // cross-device table, because traces depend on the table.
  uint64_t id;
  // Number among the runtime's strategies of several replicas, from 1: the same
  // on all ranks.
  uint64_t number;
  bool has_run;        // Replicas have run in a graph. Atomic.
  char *label;         // For messages.
  char *scope_prefix;  // Prefix of replicas' name scopes; NULL: "replica".
  int32_t num_replicas;
  // Canonical device names; NULL: no devices. Other code reads them through
  // accessors. First one device per replica; if replicas have several devices,
  // as many again for each further column.
  char **devices;
  int32_t num_columns;
  const char *no_cpu;     // First device that is not a CPU, or NULL.
  bool is_placed;         // The user chose the devices.
  bool has_devices;       // The runtime has all of them for good. Atomic.
  char *default_device;   // Device of ops in the strategy's scope; NULL: none.
  bool packs_variables;   // Variables made in eager mode get a packed handle.
  bool uses_policies;     // Variables have one class, each with a policy.
  bool follows_chief;     // Variables start from rank 0's values.
  bool is_v1;             // True for V1: no gather, no values from functions.
  ls_fiber_pool *fibers;  // Stacks for replicas' callbacks.
  ls_cross_device *cross_device;  // NULL: none.
  // The cores of a TPU system on which replicas are: tpu/pod/system_id.h. NULL:
  // none.
  const struct ls_strategy_cores *cores;
  ls_flag prefetch;
  ls_mutex lock;  // Guards the idle replica contexts.
  ls_replica *idle_replicas;
};

// A replica as its callback sees it. Callbacks may keep the pointer: it stays
// valid until the strategy is freed. `runs` is true while the replica's
// callback is running.
struct ls_replica {
  ls_strategy *strategy;
  int32_t id, count;
  bool runs;
  // In replica 0: the next idle contexts. The contexts of the other replicas
  // follow replica 0's in memory.
  struct ls_replica *next_idle;
  // The replica's fiber; NULL: no other replica runs.
  struct ls_replica_task *task;
  // A device name in a context that stands for all replicas, whose ids are
  // known only at run time. NULL: the id is known.
  const char *device_of_all;
  // In a merge call in such a context: the id of the first op that the merge
  // function makes, and the depth of its graph.
  uint64_t first_merged;
  int merged_depth;
  bool is_alone;    // True if replica 0 is called on behalf of all replicas.
  ls_graph *graph;  // Graph of its trace; NULL: eager mode or a build graph.
  // Array or tensor with one row per example of this replica. A number of
  // examples set by the step takes precedence.
  ls_nest examples;  // Borrowed; none: not known.
  // True if replicas may have different numbers of examples.
  bool examples_differ;
  ls_tensor given_examples;
};

// Tells other ranks about a failed run on the replicas, because otherwise they
// would wait for this rank. Does nothing if the others fail, too.
void ls_strategy_tell_ranks(const ls_strategy *strategy, ls_status status);

// Returns the communicator over whose ranks the replicas are spread; NULL: this
// process has all of them.
struct ls_communicator *ls_strategy_communicator(const ls_strategy *strategy);
// Finds the replicas of this process: from `*out_first` up to `*out_end`.
void ls_strategy_own_replicas(const ls_strategy *strategy, size_t *out_first,
                              size_t *out_end);

// Takes the contexts of all replicas for one run. ls_replicas_give gives them
// back.
ls_status ls_replicas_take(ls_strategy *strategy, ls_replica **out_replicas);
// NULL is allowed.
void ls_replicas_give(ls_strategy *strategy, ls_replica *replicas);

// Gives the strategy a new unique id.
void ls_strategy_renew_id(ls_strategy *strategy);
// Notes that the strategy's replicas run in a graph; not in an eager graph.
void ls_strategy_note_graph(ls_strategy *strategy, ls_graph *graph);
// Fails with FAILED_PRECONDITION if the strategy names no devices; `noun` is
// what it lacks without them.
ls_status ls_strategy_check_devices(const ls_strategy *strategy,
                                    const char *noun);
// Fails with UNIMPLEMENTED if the strategy has no call named `noun`.
ls_status ls_strategy_check_has(const ls_strategy *strategy, const char *noun);
// Makes the label after the devices are set; `name` is the user's name for the
// strategy, or NULL.
ls_status ls_strategy_set_label(ls_strategy *strategy, const char *name);
// Returns the canonical devices, one per replica (NULL: no devices). The second
// function returns the device of a replica ("": none).
const char *const *ls_strategy_devices(const ls_strategy *strategy);
const char *ls_strategy_device(const ls_strategy *strategy, int32_t replica);
// Returns the device of a replica in a column. The second function uses the
// thread's current column: 0, except in a scope that pushed a column of this
// strategy.
const char *ls_strategy_column_device(const ls_strategy *strategy,
                                      int32_t column, int32_t replica);
const char *ls_strategy_device_here(const ls_strategy *strategy,
                                    int32_t replica);
// Pushes a column, for an open scope that has no entry yet.
void ls_column_push(ls_scope *scope, const ls_strategy *strategy,
                    int32_t column);
// Returns the replica whose device has this canonical name, or -1.
int32_t ls_strategy_device_index(const ls_strategy *strategy,
                                 const char *device);

// Traces `function` for all replicas into `graph`, as one replicate op.
ls_status ls_replicas_trace(ls_strategy *strategy, ls_graph *graph,
                            const ls_function_options *function, ls_nest args,
                            ls_nest *out_result);
// Calls a plain callback on every replica, in the thread's current graph.
ls_status ls_replicas_call(ls_strategy *strategy, ls_callback callback,
                           ls_nest args, void *user, ls_nest *results);

// ---- Scopes ----------------------------------------------------------------
// Data of this layer in a context (graph/context.h): the scopes of strategies
// and variables.
typedef struct ls_distribute_scoped {
  // The strategies and replicas that the thread has entered, innermost first:
  // context/context.h.
  const struct ls_distribution *distribution;
  // Columns of strategies' devices that were pushed, innermost first.
  const struct ls_column_entry *columns;
  // Strategies whose losses are scaled, innermost first.
  const struct ls_loss_scaling *loss_scaling;
  struct ls_summary_writer *summary_writer;  // NULL: none.
  // True if replicas read the aggregate of all components of variables that are
  // synchronized on read.
  bool sync_on_read;
} ls_distribute_scoped;

static inline ls_distribute_scoped *
ls_distribute_scoped_in(ls_scope_state *state) {
  return LS_CONTEXT_ROOM(ls_distribute_scoped, state, distribute);
}
static inline ls_distribute_scoped *
ls_distribute_scoped_of(ls_context *context) {
  return ls_distribute_scoped_in(&context->scoped);
}
static inline ls_distribute_scoped *ls_distribute_scoped_here(void) {
  return ls_distribute_scoped_of(ls_context_current());
}

// ---- Hosts ------------------------------------------------------------------
// Maps of hosts: which host reads the input of which replica.
//
// A map is made from the device of each replica (the first of several cores),
// so that every kind of strategy has a map. Hosts are in the order in which
// replicas first name them. Values are numbered host by host, and within a host
// in the order of its devices; value i is for replica i.

// A host of a map.
typedef struct ls_input_host {
  char *name;      // Canonical name of its CPU.
  char **devices;  // Canonical names, one per value of this host.
  size_t count;
  size_t first;   // Number of the host's first value.
  bool is_other;  // True if another rank reads the host's input.
} ls_input_host;

typedef struct ls_host_map {
  ls_allocator *allocator;
  ls_input_host *hosts;
  size_t num_hosts, num_values;
} ls_host_map;

// Makes a map from the canonical devices of all replicas. `to_hosts`: values go
// to the devices' hosts. Deinit it even after a failure; it may be zeroed.
LS_MUST_USE ls_status ls_host_map_init(ls_host_map *map,
                                       ls_allocator *allocator,
                                       const char *const *devices, size_t count,
                                       bool to_hosts);
// Makes a map of ranks, if several ranks share the replicas: the replicas that
// a rank has of a host are a host. Hosts that are whole on their ranks are thus
// numbered as in one process.
LS_MUST_USE ls_status ls_host_map_init_ranks(
    ls_host_map *map, ls_allocator *allocator, const char *const *devices,
    size_t count, bool to_hosts, const ls_communicator *communicator);
void ls_host_map_deinit(ls_host_map *map);
LS_OWNED_STRUCT(ls_host_map, ls_host_map_deinit)

// Returns the index of the host that reads a value.
size_t ls_host_map_find(const ls_host_map *map, size_t value);

// Checks that all hosts have equal numbers of values; INVALID_ARGUMENT names
// two that differ.
LS_MUST_USE ls_status ls_host_map_check_even(const ls_host_map *map);

#endif  // LS_DISTRIBUTE_BASE_STRATEGY_H_
