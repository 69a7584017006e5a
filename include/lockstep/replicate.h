// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Replicated computations: one callback, built once, that every replica runs on
// its own values.
//
// In the graph its ops lie flat among the others and carry the attribute
// `_tpu_replicate`, the computation's name; only when a session or a function
// runs are they gathered to what R replicas do in lock step. What the callback
// uses from outside is the same for all. Nothing inside can be fed or fetched:
// what it returns can.
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

// What padded dimensions without a given maximum become.
typedef enum ls_padding_policy {
  LS_PADDING_AUTO,          // The largest size over the replicas.
  LS_PADDING_POWER_OF_TWO,  // ... rounded up to a power of two.
} ls_padding_policy;

// How to replicate. Zero in a field means its default.
typedef struct ls_replicate_options {
  // What the callback takes, to be held against the number of inputs. Default:
  // anything. Inputs that may be left out, and are, come as none.
  const ls_parameters *parameters;
  // Each replica takes a tuple of it, whose elements are arguments behind the
  // inputs. Its number of shards becomes that of the replicas.
  ls_infeed_queue *infeed;
  // Whether the callback is a training loop, at each of whose trips a step
  // begins. Default off: the computation is a step.
  ls_flag on_device_loop;
  // Which cores each replica has, lent for the call. Default: one core, of the
  // system that an op of infeed would mean here (lockstep/infeed.h), if there
  // is one; then there are as many replicas as cores, or one. Where several may
  // be meant, or the first of several was shut down, the call is refused with
  // FAILED_PRECONDITION.
  const ls_device_assignment *assignment;
  // Whether ops that no core runs (strings, summaries, prints) go to the host
  // by themselves. Default off.
  ls_flag soft_placement;
  ls_xla_options xla;
  // Whether it is for TPUs. Default on; off, it is for the hosts' CPUs: every
  // op has a form, and nothing is told of compiling it.
  ls_flag use_tpu;
  // The largest shapes that inputs may have, lent: a nest like one replica's
  // inputs with an ls_maximum_shape for each, or none for one that is not
  // padded. A dimension is padded that is unknown, or differs between replicas:
  // to its maximum, or if that is unknown to the largest size over all
  // replicas, and to 2 at least. Each replica is then given the real sizes too.
  // Without the dynamic padder the computation sees zeros behind the elements;
  // with it real sizes, to the bits of a run without padding. Default: nothing
  // is padded.
  ls_nest maximum_shapes;
  ls_padding_policy padding;  // Of sizes with an unknown maximum.
} ls_replicate_options;

// A leaf of `maximum_shapes`; LS_UNKNOWN_DIM in a dimension: whatever the
// largest is.
LS_API ls_nest ls_maximum_shape(ls_shape shape);

// Builds the computation that `fn` makes in the current graph, a build graph or
// that of a function, loop or branch. `inputs` is a list with a list or tuple
// of inputs for each replica, each input any nest; all replicas' have one
// structure and one dtype a leaf, and shapes that can differ. NONE: one replica
// without inputs. `fn` is given replica's inputs once, for all of them; of a
// none it is given none.
//
// `*outputs`, the caller's, is a list with what each replica has of what `fn`
// has returned. That is tensors and behind them ops, in a list, alone or none:
// each replica has a list of the tensors then, which wait for the ops; without
// tensors it has one op. Or it is another nest, of tensors: each replica has
// such a nest. None after a refusal.
//   LS_FAILED_PRECONDITION  in eager.
//   LS_INVALID_ARGUMENT     inputs or results of other forms; in a replicated
//                           computation; maximum shapes of another structure,
//                           that do not fit, or beside an infeed. The graph is
//                           as it was.
LS_PLACED LS_MUST_USE ls_status
ls_replicate(ls_callback fn, void *user, ls_nest inputs,
             const ls_replicate_options *options, ls_nest *outputs);
// The same, with a string tensor that tells how compiling it went: empty when
// it went well, else protobuf's form of a code (1) and a message (2). Where a
// session fetches it alone, the computation is compiled, with all that it
// gives, and not run: what the session fetches of it later takes that, if
// nothing else is fetched along and feeds are of the same types. Placeholders
// of known size need not be fed for that. With use_tpu off there is no tensor
// (zeroed) but an op "compilation_status", which does nothing.
LS_PLACED LS_MUST_USE ls_status
ls_split_compile_and_replicate(ls_callback fn, void *user, ls_nest inputs,
                               const ls_replicate_options *options,
                               ls_tensor *compile_status, ls_nest *outputs);

// Calls `fn` with `args` once; what it makes in a replicated computation runs
// on the hosts of its replicas instead of their cores: for each replica, on its
// own values, to the same bits. Whatever the computation has can be used in it,
// and what it gives in the computation. Device scopes of the computation do not
// count inside, those around it do. Each such call is a cluster of its own,
// "0", "1" and so on, which its ops carry in `_xla_outside_compilation`; their
// gradients are a cluster for each call of gradients. With one replica the ops
// can be fed and fetched. Outside of computations `fn` is just called.
// A variable of the host that compiled ops do not use can be read and written
// in it. Of a cluster that writes one the replicas make their calls one after
// the other, in their order, also in loops and branches: there those that take
// part do, trip by trip; those that take the first branch of an ls_cond come
// before the others. Ops that need what comes of the cluster itself, as
// gradients may, cut it into parts, each of which all replicas do before the
// next one.
//   LS_UNIMPLEMENTED  inside of another such call; `fn` has left a scope open.
LS_API ls_nest ls_outside_compilation(ls_callback fn, void *user, ls_nest args);

// The same, for values that are cut over a replica's cores
// (ls_split_to_logical_devices) where these are one to the computation
// (ls_xla_options.spmd): `fn` is called for each part, on the host of the core
// that has it, with all else that is in `args` as it is, and what it gives,
// which is of the same rank, is put together as the values are cut. Where
// nothing is cut it is called once. Its ops carry
// `_xla_map_outside_compilation`, true, as well.
//   LS_INVALID_ARGUMENT  values that are cut in different ways.
//   LS_UNIMPLEMENTED     one that is cut along a dimension of unknown size.
LS_API ls_nest ls_map_outside_compilation(ls_callback fn, void *user,
                                          ls_nest args);

// How many replicas the computation has that ops are made for here, which is
// what collectives count by; 0: none. In the scope it is `count`, for ops that
// are put into a computation by hand.
//   LS_UNIMPLEMENTED      in the scope: it is set already.
//   LS_INVALID_ARGUMENT   in the scope: less than 1.
LS_API int32_t ls_num_shards(void);
LS_API void ls_shard_scope_begin(ls_scope *scope, int32_t count);

// Whether the op is of a replicated computation.
LS_API bool ls_op_is_replicated(ls_op op);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REPLICATE_H_
