// SPDX-License-Identifier: Apache-2.0
//
// Lockstep: trains models in lock step on many replicas, from C. This header
// has what a program needs to train a model: arrays and nests, ops, layers,
// optimizers, functions, strategies, data sets, ls_train. lockstep/full.h adds
// the rest, such as TPU systems, estimators, sessions, hooks and checkpoints;
// each of its headers can also be included alone. README.md has an
// introduction.
//
// For C11 and later, and C++11 and later. In C++ `ls_bag bag{}` makes a zeroed
// struct, and fields of options are assigned, or named as in C from C++20 on,
// in the order of their declaration.
//
// Required arguments must not be NULL: a call that returns a status refuses
// NULL with LS_INVALID_ARGUMENT, naming itself and the argument, and op makers
// and nests fail; getters do not check. A list may be NULL when it has no
// items. Using an object after its last reference was released is an error that
// only debug builds can catch, by a trap.
//
// Threads: the head of each header states what threads may do at the same time.
#ifndef LOCKSTEP_LOCKSTEP_H_
#define LOCKSTEP_LOCKSTEP_H_

#include "lockstep/array.h"
#include "lockstep/bag.h"
#include "lockstep/data.h"
#include "lockstep/dataset.h"
#include "lockstep/distributed.h"
#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/host.h"
#include "lockstep/iterator.h"
#include "lockstep/models.h"
#include "lockstep/nest.h"
#include "lockstep/nn.h"
#include "lockstep/ops.h"
#include "lockstep/parameters.h"
#include "lockstep/replica.h"
#include "lockstep/runtime.h"
#include "lockstep/shape.h"
#include "lockstep/status.h"
#include "lockstep/strategy.h"
#include "lockstep/train.h"
#include "lockstep/variable.h"
#include "lockstep/version.h"

// Must come last: gives op makers their caller's source line.
#include "lockstep/places.h"

#endif  // LOCKSTEP_LOCKSTEP_H_
