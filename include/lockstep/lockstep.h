// SPDX-License-Identifier: Apache-2.0
//
// Lockstep: trains models in lock step on many replicas, from C. This header
// includes the whole public interface; the tour is in README.md.
//
// C11 and later; from C++, C++11 and later. There `ls_bag bag{}` makes a zeroed
// struct, and the fields of options are assigned, or named as in C from C++20
// on, in the order of their declaration.
//
// What a call needs is not NULL: a call that returns a status refuses it with
// LS_INVALID_ARGUMENT, naming itself and the argument, and op makers and nests
// fail; what only looks at an object needs one. A list may be NULL when it has
// no items. A handle whose last reference was released is gone: to use it is an
// error that only debug builds can catch, by a trap.
//
// Threads: what threads may do at the same time stands at the head of each
// header.
#ifndef LOCKSTEP_LOCKSTEP_H_
#define LOCKSTEP_LOCKSTEP_H_

#include "lockstep/bag.h"
#include "lockstep/cancel.h"
#include "lockstep/checkpoint.h"
#include "lockstep/cluster.h"
#include "lockstep/cross_device.h"
#include "lockstep/cross_replica.h"
#include "lockstep/data.h"
#include "lockstep/dataset.h"
#include "lockstep/device.h"
#include "lockstep/device_name.h"
#include "lockstep/distribute_input.h"
#include "lockstep/distributed.h"
#include "lockstep/eager.h"
#include "lockstep/early_stopping.h"
#include "lockstep/estimator.h"
#include "lockstep/estimator_config.h"
#include "lockstep/estimator_export.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/estimator_table.h"
#include "lockstep/events.h"
#include "lockstep/export.h"
#include "lockstep/files.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/gauge.h"
#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/handles.h"
#include "lockstep/hook.h"
#include "lockstep/host.h"
#include "lockstep/image.h"
#include "lockstep/infeed.h"
#include "lockstep/iteration_count.h"
#include "lockstep/iterator.h"
#include "lockstep/logical_device.h"
#include "lockstep/metrics.h"
#include "lockstep/models.h"
#include "lockstep/monitored_session.h"
#include "lockstep/nest.h"
#include "lockstep/nn.h"
#include "lockstep/ops.h"
#include "lockstep/parameters.h"
#include "lockstep/record.h"
#include "lockstep/regroup.h"
#include "lockstep/rendezvous.h"
#include "lockstep/replica.h"
#include "lockstep/replicate.h"
#include "lockstep/runs.h"
#include "lockstep/runtime.h"
#include "lockstep/saved_file.h"
#include "lockstep/saver.h"
#include "lockstep/serving.h"
#include "lockstep/session.h"
#include "lockstep/shard.h"
#include "lockstep/shutdown_hooks.h"
#include "lockstep/slices.h"
#include "lockstep/sparse.h"
#include "lockstep/steps.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_step.h"
#include "lockstep/streams.h"
#include "lockstep/strings.h"
#include "lockstep/summary.h"
#include "lockstep/summary_ops.h"
#include "lockstep/table.h"
#include "lockstep/tensor_tracer.h"
#include "lockstep/topology.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/tpu_system.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/trace.h"
#include "lockstep/train.h"
#include "lockstep/train_and_evaluate.h"
#include "lockstep/training_loop.h"
#include "lockstep/trunk.h"
#include "lockstep/variable.h"
#include "lockstep/variable_recipe.h"
#include "lockstep/version.h"

// Last: gives op makers their caller's source line.
#include "lockstep/places.h"

#endif  // LOCKSTEP_LOCKSTEP_H_
