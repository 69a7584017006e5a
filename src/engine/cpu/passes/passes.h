// SPDX-License-Identifier: Apache-2.0
//
// Rewrites of a lowered program for this engine, made before its fingerprint is
// taken.
#ifndef LS_ENGINE_CPU_PASSES_PASSES_H_
#define LS_ENGINE_CPU_PASSES_PASSES_H_

#include "engine/backend.h"

// Applies all rewrites, in order; it is `prepare` of engine/backend.h.
ls_status ls_cpu_prepare(ls_backend *backend, ls_program *program);

// Drops results that a gradient can compute again, instead of keeping them for
// the gradients of their users.
ls_status ls_cpu_rematerialize(ls_graph *graph);

#endif  // LS_ENGINE_CPU_PASSES_PASSES_H_
