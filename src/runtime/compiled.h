// SPDX-License-Identifier: Apache-2.0
//
// What a compiled program is: program.c makes it, run.c runs it.
#ifndef LS_RUNTIME_COMPILED_H_
#define LS_RUNTIME_COMPILED_H_

#include "runtime/program.h"

// A program bound to a store; a list of idle ones.
typedef struct ls_bound {
  struct ls_bound *next;
  uint64_t store_id;
  uint64_t moves;  // The store's when buffers were looked up last.
  ls_instance *instance;
  ls_place **places;    // One a use.
  ls_buffer **buffers;  // Those of the uses, then those that are borrowed.
  struct ls_padded_inputs *padded;  // NULL: the program pads none.
} ls_bound;

struct ls_compiled {
  ls_object object;
  ls_allocator *allocator;
  ls_backend *backend;
  ls_program *program;
  ls_executable *executable;
  char *key;  // In the runtime's program cache, which does not own it.
  size_t key_size;
  bool distributed;   // Uses a distributed variable or a part of one.
  bool draws;         // By the step.
  ls_touch *touches;  // What it uses of a store, for the gate.
  size_t num_touches;
  ls_bound *idle;    // One is taken and given back with an atomic exchange.
  uint64_t settled;  // A store's changes as they were when all that is asked
                     // before a run, and noted after it, was so. Atomic.
};

// Room for a program's inputs with their padding: pad.c. NULL if it pads none.
ls_status ls_padded_inputs_create(const ls_program *program,
                                  ls_allocator *allocator,
                                  struct ls_padded_inputs **out);
void ls_padded_inputs_destroy(struct ls_padded_inputs *padded);
// Copies what a run is given there, with zeros behind it, and has the run take
// that in its place, with the numbers of rows.
ls_status ls_padded_inputs_fill(struct ls_padded_inputs *padded,
                                ls_run_args *args);

// Destroys a list of instances.
void ls_compiled_drop_bound(const ls_compiled *compiled, ls_bound *list);

#endif  // LS_RUNTIME_COMPILED_H_
