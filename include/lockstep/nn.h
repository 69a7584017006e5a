// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Layers, losses, metrics and optimizers, the building blocks of models.
//
// All of it is made of ops, so it works in functions, build graphs and eager
// alike, on one replica or many.
//
// Threads: as in each of the headers.
#ifndef LOCKSTEP_NN_H_
#define LOCKSTEP_NN_H_

#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/weights.h"

#endif  // LOCKSTEP_NN_H_
