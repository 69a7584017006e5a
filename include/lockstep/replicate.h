// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Replicated computations: one callback, built once, that every replica runs on
// its own values.
//
// In the graph its ops are ordinary ops with the attribute `_tpu_replicate`,
// the computation's name; only when a session or a function runs are they
// gathered into a computation of R replicas in lock step. Values from outside
// are the same for all replicas. Nothing inside can be fed or fetched: the
// results can.
//
// Threads: a graph belongs to the threads that build it, one at a time.
#ifndef LOCKSTEP_REPLICATE_H_
#define LOCKSTEP_REPLICATE_H_

#include "lockstep/infeed.h"
#include "lockstep/parameters.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// Sizes of padded dimensions without a given maximum.
typedef enum ls_padding_policy {
  LS_PADDING_AUTO,          // The largest size over the replicas.
  LS_PADDING_POWER_OF_TWO,  // The same, rounded up to a power of two.
} ls_padding_policy;

// Options of replication. Zero in a field means its default.
typedef struct ls_replicate_options {
  // Parameters of the callback, checked against the number of inputs. Default:
  // any. Optional inputs that are omitted are none.
  const ls_parameters *parameters;
  // Queue from which each replica takes a tuple, whose elements are arguments
  // after the inputs. Its number of shards becomes the number of replicas.
  ls_infeed_queue *infeed;
  // On: the callback is a training loop, each of whose iterations begins a
  // step. Default off: the computation is a step.
  ls_flag on_device_loop;
  // Cores of each replica, lent for the call. Default: one core, of the system
  // that an infeed op would belong to here (lockstep/infeed.h), if there is
  // one; then there are as many replicas as cores, or one. If several systems
  // are possible, or the first of several was shut down, the call is refused
  // with FAILED_PRECONDITION.
  const ls_device_assignment *assignment;
  // On: moves ops that cores cannot run (strings, summaries, prints) to the
  // host automatically. Default off.
  ls_flag soft_placement;
  ls_xla_options xla;
  // On: for TPUs. Default on; off: for the hosts' CPUs, where every op is
  // supported and no compilation status is reported.
  ls_flag use_tpu;
  // The largest shapes that inputs may have, lent: a nest like one replica's
  // inputs with an ls_maximum_shape for each, or none for an input that is not
  // padded. Pads a dimension that is unknown, or differs between replicas: to
  // its maximum, or if that is unknown to the largest size over all replicas,
  // and to 2 at least. Each replica also gets the real sizes. Without the
  // dynamic padder the computation sees zeros after the elements; with it real
  // sizes, with the bits of a run without padding. Default: nothing is padded.
  ls_nest maximum_shapes;
  ls_padding_policy padding;  // For sizes with an unknown maximum.
} ls_replicate_options;

// Makes a leaf of `maximum_shapes`; LS_UNKNOWN_DIM in a dimension: no given
// maximum.
LS_API ls_nest ls_maximum_shape(ls_shape shape);

// Builds the computation of `fn` in the current graph, a build graph or that of
// a function, loop or branch. `inputs` is a list with a list or tuple of inputs
// for each replica, each input any nest; all replicas have the same structure
// and dtypes, but shapes can differ. NONE: one replica without inputs. `fn` is
// called once, with one replica's inputs, for all of them; a none input stays
// none.
//
// `*outputs`, which the caller owns, is a list with each replica's results of
// `fn`. `fn` may return tensors followed by ops, in a list, alone or none: each
// replica then has a list of the tensors, which wait for the ops; without
// tensors it has one op. Or it returns any other nest of tensors: each replica
// then has such a nest. `*outputs` is none after a refusal.
//   LS_FAILED_PRECONDITION  in eager.
//   LS_INVALID_ARGUMENT     inputs or results of other forms; in a replicated
//                           computation; maximum shapes of another structure,
//                           that do not fit, or with an infeed. The graph is
//                           unchanged.
LS_PLACED LS_MUST_USE ls_status
ls_replicate(ls_callback fn, void *user, ls_nest inputs,
             const ls_replicate_options *options, ls_nest *outputs);
// Replicates, and returns the compilation status as a string tensor: empty on
// success, else a protobuf message with a code (1) and a message (2). If a
// session fetches it alone, the computation is compiled, with all its results,
// and not run: later fetches of its results use that program, if nothing else
// is fetched too and feeds have the same types. Placeholders of known size need
// not be fed for that. With use_tpu off there is no tensor (zeroed) but an op
// "compilation_status", which does nothing.
LS_PLACED LS_MUST_USE ls_status
ls_split_compile_and_replicate(ls_callback fn, void *user, ls_nest inputs,
                               const ls_replicate_options *options,
                               ls_tensor *compile_status, ls_nest *outputs);

// Calls `fn` with `args` once; its ops in a replicated computation run on the
// hosts of its replicas instead of their cores: for each replica, on its own
// values, with the same bits. `fn` can use all values of the computation, and
// the computation its results. Device scopes inside the computation do not
// apply in it, those around the computation do. Each such call is a cluster,
// "0", "1" and so on, named by its ops' attribute `_xla_outside_compilation`;
// their gradients form a cluster for each computation of gradients. With one
// replica the ops can be fed and fetched. Outside of computations `fn` is
// simply called. It can read and write a host variable that compiled ops do not
// use. If a cluster writes one, the replicas make their calls one after
// another, in replica order, also in loops and branches: there the
// participating ones do, in each iteration; those that take the first branch of
// an ls_cond come before the others. Ops that need results of their own
// cluster, as gradients may, cut it into parts, each of which all replicas
// complete before the next one.
//   LS_UNIMPLEMENTED  inside another such call; `fn` has left a scope open.
LS_API ls_nest ls_outside_compilation(ls_callback fn, void *user, ls_nest args);

// Calls `fn` outside the computation too, for values that are split over a
// replica's cores (ls_split_to_logical_devices) while these form one device for
// the computation (ls_xla_options.spmd): `fn` is called for each part, on the
// host of the core that has it, with all other values in `args` unchanged, and
// its results, of the same rank, are joined as the values are split. If nothing
// is split it is called once. Its ops also have `_xla_map_outside_compilation`,
// true.
//   LS_INVALID_ARGUMENT  values that are split in different ways.
//   LS_UNIMPLEMENTED     a value split along a dimension of unknown size.
LS_API ls_nest ls_map_outside_compilation(ls_callback fn, void *user,
                                          ls_nest args);

// Returns the number of replicas of the computation that ops made here belong
// to, which collectives use; 0: none. The scope sets it to `count`, for ops
// that are added to a computation by hand.
//   LS_UNIMPLEMENTED     in the scope: it is set already.
//   LS_INVALID_ARGUMENT  in the scope: below 1.
LS_API int32_t ls_num_shards(void);
LS_API void ls_shard_scope_begin(ls_scope *scope, int32_t count);

// Returns true if the op belongs to a replicated computation.
LS_API bool ls_op_is_replicated(ls_op op);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REPLICATE_H_
