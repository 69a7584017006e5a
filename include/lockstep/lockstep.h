// SPDX-License-Identifier: Apache-2.0
//
// Lockstep: trains models in lock step on many replicas, from C. This header
// has what a program needs that trains a model: arrays and nests, ops, layers,
// optimizers, functions, strategies, data sets, ls_train. lockstep/full.h adds
// the rest, such as TPU systems, estimators, sessions, hooks and checkpoints;
// each of its headers can also be included alone. The tour is in README.md.
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

// Last: gives op makers their caller's source line.
#include "lockstep/places.h"

#endif  // LOCKSTEP_LOCKSTEP_H_
