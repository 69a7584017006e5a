// SPDX-License-Identifier: Apache-2.0
//
// Runs a program on a store: takes an instance, bound to the variables'
// buffers, and waits at the gate.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "engine/backend.h"
#include "graph/text/text.h"
#include "runtime/compiled.h"
#include "runtime/ranks.h"

// ---- Padded inputs ---------------------------------------------------------
// Inputs of a program for several sizes: a run's inputs, followed by rows of
// zeros, and the numbers of real rows (lower/mask.h).
typedef struct ls_padded_inputs {
  const ls_program *program;
  ls_allocator *allocator;
  const void **inputs;  // All inputs of the program.
  int32_t *rows;        // Real rows of each padded input.
  ls_array **arrays;    // The padded inputs.
} ls_padded_inputs;

static ls_type pad_type_of(const ls_program *program, size_t i) {
  return ls_graph_type(program->body,
                       program->body->parameters[program->padded[i]]);
}

static void padded_inputs_destroy(ls_padded_inputs *p) {
  if (p == NULL) return;
  for (size_t i = 0; p->arrays != NULL && i < p->program->num_padded; ++i)
    ls_array_release(p->arrays[i]);
  ls_release(p->allocator, p->inputs);
  ls_release(p->allocator, p->rows);
  ls_release(p->allocator, p->arrays);
  ls_release(p->allocator, p);
}
LS_OWNED_POINTER(ls_padded_inputs, padded_inputs_destroy)

static ls_status pad_make_room(ls_padded_inputs *p) {
  const ls_program *program = p->program;
  p->inputs = ls_new_array(p->allocator, const void *, program->num_inputs + 1);
  p->rows = ls_new_array(p->allocator, int32_t, program->num_padded);
  p->arrays = ls_new_array(p->allocator, ls_array *, program->num_padded);
  if (p->inputs == NULL || p->rows == NULL || p->arrays == NULL)
    return ls_out_of_memory();
  for (size_t i = 0; i < program->num_padded; ++i) {
    const ls_type type = pad_type_of(program, i);
    LS_RETURN_IF_ERROR(ls_array_create(type.dtype, type.shape, &p->arrays[i]));
  }
  return ls_ok();
}

// Makes room for padded inputs; NULL if the program pads none.
static ls_status padded_inputs_create(const ls_program *program,
                                      ls_allocator *allocator,
                                      ls_padded_inputs **out) {
  *out = NULL;
  if (program->num_padded == 0) return ls_ok();
  LS_OWN_NEW_OR_RETURN(allocator, ls_padded_inputs, p);
  p->program = program;
  p->allocator = allocator;
  LS_RETURN_IF_ERROR(pad_make_room(p));
  return ls_hand_over(&p, out);
}

// Copies a run's inputs to padded ones, zeros at their ends, and replaces the
// run's inputs by the padded ones and their numbers of rows.
static ls_status padded_inputs_fill(ls_padded_inputs *p, ls_run_args *args) {
  const ls_program *program = p->program;
  const size_t given = program->num_inputs - program->num_padded;
  if (args->given == NULL)
    return ls_internal(
        "a program for several sizes was called without its sizes");
  memcpy(p->inputs, args->inputs, given * sizeof(*p->inputs));
  for (size_t i = 0; i < program->num_padded; ++i) {
    const uint32_t input = program->padded[i];
    const int64_t rows = args->given[input].shape.dim[0];
    const int64_t room = pad_type_of(program, i).shape.dim[0];
    if (rows > room)
      return ls_internal("%lld rows in a program for up to %lld",
                         (long long)rows, (long long)room);
    unsigned char *to = ls_array_mutable_data(p->arrays[i]);
    const size_t all = ls_array_size(p->arrays[i]);
    const size_t real = all / (size_t)room * (size_t)rows;
    if (real > 0) memcpy(to, args->inputs[input], real);
    memset(to + real, 0, all - real);
    p->rows[i] = (int32_t)rows;
    p->inputs[input] = to;
    p->inputs[given + i] = &p->rows[i];
  }
  args->inputs = p->inputs;
  return ls_ok();
}

void ls_compiled_drop_bound(const ls_compiled *compiled, ls_bound *b) {
  while (b != NULL) {
    ls_bound *next = b->next;
    if (b->instance != NULL)
      compiled->backend->vtable->destroy_instance(b->instance);
    ls_release(compiled->allocator, b->places);
    ls_release(compiled->allocator, b->buffers);
    padded_inputs_destroy(b->padded);
    ls_release(compiled->allocator, b);
    b = next;
  }
}

// ---- Binding ---------------------------------------------------------------
static ls_status run_look_up(const ls_compiled *compiled, ls_store *store,
                             ls_bound *b) {
  const ls_program *program = compiled->program;
  const uint64_t moves = ls_store_moves(store);
  for (size_t i = 0; i < program->num_uses; ++i)
    LS_RETURN_IF_ERROR(ls_place_buffer(store, b->places[i], &b->buffers[i]));
  b->moves = moves;
  return ls_ok();
}

static ls_status make_bound(const ls_compiled *compiled, ls_store *store,
                            ls_bound *b) {
  const ls_program *program = compiled->program;
  const size_t count = program->num_uses;
  b->store_id = ls_store_id(store);
  b->places = ls_new_array(compiled->allocator, ls_place *, count + 1);
  b->buffers = ls_new_array(compiled->allocator, ls_buffer *, 2 * count + 1);
  if (b->places == NULL || b->buffers == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_store_place(
        store, (ls_variable *)program->uses[i].variable, &b->places[i]));
  LS_RETURN_IF_ERROR(
      padded_inputs_create(program, compiled->allocator, &b->padded));
  LS_RETURN_IF_ERROR(run_look_up(compiled, store, b));
  return compiled->backend->vtable->bind(compiled->executable, b->buffers,
                                         &b->instance);
}

static ls_status bind(ls_compiled *compiled, ls_store *store,
                      ls_bound **out_bound) {
  LS_NEW_OR_RETURN(compiled->allocator, ls_bound, b);
  const ls_status status = make_bound(compiled, store, b);
  if (!ls_status_is_ok(status)) ls_compiled_drop_bound(compiled, b);
  if (ls_status_is_ok(status)) *out_bound = b;
  return status;
}

// Takes the whole idle list, keeps the first instance of this store, and puts
// the others back.
static ls_bound *take_idle(ls_compiled *compiled, uint64_t store_id) {
  ls_bound *list = __atomic_exchange_n(&compiled->idle, NULL, __ATOMIC_ACQ_REL);
  if (list == NULL || (list->next == NULL && list->store_id == store_id))
    return list;
  ls_bound *found = NULL;
  for (ls_bound **at = &list; *at != NULL; at = &(*at)->next) {
    if ((*at)->store_id != store_id) continue;
    found = *at;
    *at = found->next;
    found->next = NULL;
    break;
  }
  list = __atomic_exchange_n(&compiled->idle, list, __ATOMIC_ACQ_REL);
  ls_compiled_drop_bound(compiled,
                         list);  // A concurrent run has put its list there.
  return found;
}

static void give_back(ls_compiled *compiled, ls_bound *b) {
  b->next = __atomic_exchange_n(&compiled->idle, NULL, __ATOMIC_ACQ_REL);
  ls_bound *lost = __atomic_exchange_n(&compiled->idle, b, __ATOMIC_ACQ_REL);
  ls_compiled_drop_bound(compiled, lost);
}

// Takes an instance on `store`, idle or new.
static ls_status run_take(ls_compiled *compiled, ls_store *store,
                          ls_bound **out_bound) {
  *out_bound = take_idle(compiled, ls_store_id(store));
  return *out_bound != NULL ? ls_ok() : bind(compiled, store, out_bound);
}

// ---- Running ---------------------------------------------------------------
// Checks that all variables that are read have values.
static ls_status run_check_values(const ls_compiled *compiled,
                                  const ls_store *store) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_variable *variable = (ls_variable *)program->uses[i].variable;
    if (program->uses[i].read && !ls_store_has_value(store, variable))
      return ls_failed_precondition(
          "variable '%s' is read but was never initialized; run its "
          "initializer (ls_global_initializer) or assign a value first. A "
          "branch or loop that assigns it reads it, too: it keeps the old "
          "value where it does not run",
          variable->name);
  }
  return ls_ok();
}

// Returns true if no state that the program depends on or changes has changed
// since its last run, and that run changed nothing.
static bool is_settled(const ls_compiled *compiled, const ls_store *store) {
  return __atomic_load_n(&compiled->settled, __ATOMIC_ACQUIRE) ==
         ls_store_changes(store);
}

bool ls_compiled_is_current(const ls_compiled *compiled) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_launches; ++i)
    if (!program->runtime->launches->is_current(program->launches[i]))
      return false;
  return true;
}

// Passes each of its TPU computations to its cores' queues.
static ls_status launch(const ls_compiled *compiled, bool *out_stale) {
  const ls_program *program = compiled->program;
  if (program->num_launches == 0) return ls_ok();
  *out_stale = !ls_compiled_is_current(compiled);
  if (*out_stale)
    return LS_STATUS(LS_ABORTED, "a system was initialized again meanwhile");
  for (size_t i = 0; i < program->num_launches; ++i)
    LS_RETURN_IF_ERROR(program->runtime->launches->pass(program->launches[i]));
  return ls_ok();
}

bool ls_compiled_fits(const ls_compiled *compiled, const ls_store *store) {
  const ls_program *program = compiled->program;
  if (!ls_compiled_is_current(compiled)) return false;
  if (is_settled(compiled, store)) return true;
  for (size_t i = 0; i < program->num_expects; ++i)
    if (ls_store_has_value(store,
                           (ls_variable *)program->expects[i].variable) !=
        program->expects[i].initialized)
      return false;
  for (size_t i = 0; compiled->distributed && i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    const ls_variable *variable = (ls_variable *)use->variable;
    const ls_variable *container =
        variable->num_components > 0 ? variable : variable->container;
    // A component with its own buffer has no effect on the container's state.
    if (container == NULL || (container != variable && !use->split_before))
      continue;
    if (ls_store_is_shared(store, container) == use->split_before) return false;
  }
  return true;
}

// Stores the states after a run: which variables have values, and which are
// shared.
static void note_writes(const ls_compiled *compiled, ls_store *store) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    const ls_variable *variable = (ls_variable *)use->variable;
    if (use->written) ls_store_mark_written(store, variable);
    if (variable->num_components > 0 && (use->written || use->split_after))
      ls_store_set_shared(store, variable, !use->split_after);
  }
}

// Marks variables whose values a failed run has lost.
static void note_losses(const ls_compiled *compiled, const ls_run *r) {
  const ls_program *program = compiled->program;
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written && r->bound->buffers[i] != NULL &&
        r->bound->buffers[i]->lost)
      ls_store_mark_lost(r->store, (ls_variable *)program->uses[i].variable);
}

// Binds the instance to the variables' current buffers.
static ls_status update_buffers(ls_run *r) {
  const ls_compiled *compiled = r->compiled;
  const ls_program *program = compiled->program;
  ls_bound *b = r->bound;
  if (r->access.is_crowded)
    for (size_t i = 0; i < program->num_uses; ++i)
      if (program->uses[i].written)
        LS_RETURN_IF_ERROR(ls_place_detach(r->store, b->places[i]));
  if (b->moves == ls_store_moves(r->store)) return ls_ok();
  LS_RETURN_IF_ERROR(run_look_up(compiled, r->store, b));
  compiled->backend->vtable->rebind(b->instance, b->buffers);
  return ls_ok();
}

// Holds the variables' values for a long run, and gets buffers for new values.
static ls_status take_values(ls_run *r) {
  const ls_compiled *compiled = r->compiled;
  const ls_program *program = compiled->program;
  ls_bound *b = r->bound;
  ls_buffer **fresh = b->buffers + program->num_uses;
  LS_RETURN_IF_ERROR(run_look_up(compiled, r->store, b));
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written)
      LS_RETURN_IF_ERROR(ls_place_borrow(r->store, b->places[i], &fresh[i]));
  compiled->backend->vtable->rebind(b->instance, b->buffers);
  for (size_t i = 0; i < program->num_uses; ++i)
    ls_place_hold(r->store, b->buffers[i]);
  ls_gate_took(ls_store_gate(r->store), &r->access);
  return ls_ok();
}

// Drops the old values held; publishes the new ones, or drops those.
static void give_values(ls_run *r, bool publish) {
  const ls_program *program = r->compiled->program;
  ls_bound *b = r->bound;
  ls_buffer **fresh = b->buffers + program->num_uses;
  for (size_t i = 0; i < program->num_uses; ++i) {
    if (r->access.hold != LS_HOLD_TAKING)
      ls_place_drop(r->store, b->buffers[i]);
    if (fresh[i] == NULL) continue;
    (publish ? ls_place_publish : ls_place_give_back)(r->store, b->places[i],
                                                      fresh[i]);
    fresh[i] = NULL;
  }
}

static ls_status enter_store(ls_run *r, bool *out_stale) {
  ls_compiled *compiled = r->compiled;
  r->changes = ls_store_changes(r->store);
  if (!is_settled(compiled, r->store)) {
    *out_stale = !ls_compiled_fits(compiled, r->store);
    if (*out_stale)
      return LS_STATUS(LS_ABORTED,
                       "values of variables have changed meanwhile");
    LS_RETURN_IF_ERROR(run_check_values(compiled, r->store));
  }
  LS_RETURN_IF_ERROR(run_take(compiled, r->store, &r->bound));
  return compiled->program->apart ? take_values(r) : update_buffers(r);
}

static void leave_store(ls_run *r, bool succeeded) {
  ls_compiled *compiled = r->compiled;
  if (r->bound != NULL && compiled->program->apart) {
    if (succeeded) ls_gate_give(ls_store_gate(r->store), &r->access);
    give_values(r, succeeded);
  }
  if (r->bound != NULL && !succeeded) note_losses(compiled, r);
  if (r->bound != NULL) give_back(compiled, r->bound);
  if (!succeeded || is_settled(compiled, r->store)) return;
  note_writes(compiled, r->store);
  if (ls_store_changes(r->store) == r->changes)
    __atomic_store_n(&compiled->settled, r->changes, __ATOMIC_RELEASE);
}

// ---- Runs ------------------------------------------------------------------
// Begins a run: enters the gate, unless the program uses no variables.
static ls_status run_begin(ls_run *r, bool *out_stale) {
  if (r->compiled->num_touches == 0) {
    if (r->compiled->program->apart) r->args.run = ls_gate_inherit_run();
    return run_take(r->compiled, r->store, &r->bound);
  }
  LS_RETURN_IF_ERROR(ls_gate_enter(ls_store_gate(r->store), &r->access));
  r->has_store = true;
  r->args.run = r->access.run;
  return enter_store(r, out_stale);
}

static void run_end(ls_run *r, bool succeeded) {
  if (r->has_store) {
    leave_store(r, succeeded);
    ls_gate_leave(ls_store_gate(r->store), &r->access);
  } else if (r->bound != NULL) {
    give_back(r->compiled, r->bound);
  }
}

static ls_status run_launch(ls_run *run, bool *out_stale) {
  ls_compiled *compiled = run->compiled;
  if (compiled->ops != NULL)
    LS_RETURN_IF_ERROR(ls_ranks_meet(compiled, &run->args));
  LS_RETURN_IF_ERROR(launch(compiled, out_stale));
  LS_RETURN_IF_ERROR(run_begin(run, out_stale));
  if (run->bound->padded != NULL)
    LS_RETURN_IF_ERROR(padded_inputs_fill(run->bound->padded, &run->args));
  if (compiled->ops != NULL)
    ls_ranks_number(compiled, &run->args);
  return compiled->backend->vtable->start(run->bound->instance, &run->args);
}

ls_status ls_run_start(ls_run *run, ls_compiled *compiled, ls_store *store,
                       const ls_run_args *args, bool *out_stale) {
  *out_stale = false;
  *run = (ls_run){.compiled = compiled,
                  .store = store,
                  .args = *args,
                  .access = {.touches = compiled->touches,
                             .count = compiled->num_touches,
                             .hold = compiled->program->apart ? LS_HOLD_TAKING
                                                              : LS_HOLD_SHORT}};
  run->args.cancels[0] = ls_cancel_current();
  run->access.cancels = run->args.cancels;
  const ls_status status = run_launch(run, out_stale);
  if (ls_status_is_ok(status)) return status;
  run_end(run, false);
  if (compiled->ops != NULL && !*out_stale)
    ls_ranks_tell(compiled->backend->runtime, status);
  return status;
}

// Makes arrays own their strings and objects, which until now belong to the
// instance.
static ls_status own_results(const ls_run *run) {
  const size_t count = run->compiled->program->num_outputs;
  for (size_t i = 0; run->args.arrays != NULL && i < count; ++i)
    if (run->args.arrays[i] != NULL)
      LS_RETURN_IF_ERROR(ls_array_own(run->args.arrays[i]));
  return ls_ok();
}

ls_status ls_run_finish(ls_run *run) {
  ls_instance *instance = run->bound->instance;
  bool keeps = false;
  ls_status status = run->compiled->backend->vtable->finish(instance, &keeps);
  if (ls_status_is_ok(status)) status = own_results(run);
  run_end(run, keeps);
  return status;
}

// Continues the run until it ends or waits for the host.
static ls_run_state run_advance(ls_run *run) {
  return run->compiled->backend->vtable->advance(run->bound->instance);
}

void ls_run_stop(ls_run *run, ls_status status) {
  run->compiled->backend->vtable->stop(run->bound->instance, status);
}

// Advances all runs that have not ended. Returns one that has failed, or NULL.
static ls_run *advance_all(ls_run *runs, size_t count, ls_instance **waiting,
                           size_t *num_waiting) {
  *num_waiting = 0;
  for (size_t i = 0; i < count; ++i) {
    if (runs[i].has_ended) continue;
    const ls_run_state now = run_advance(&runs[i]);
    if (now == LS_RUN_FAILED) return &runs[i];
    if (now == LS_RUN_WAITS)
      waiting[(*num_waiting)++] = runs[i].bound->instance;
    runs[i].has_ended = now == LS_RUN_ENDED;
  }
  return NULL;
}

static ls_status finish_all(ls_run *runs, size_t count, ls_run *failed) {
  ls_status first = ls_ok();
  for (size_t i = 0; failed != NULL && i < count; ++i)
    if (&runs[i] != failed)
      ls_run_stop(&runs[i],
                  LS_STATUS(LS_CANCELLED, "another part of the run failed"));
  if (failed != NULL) first = ls_run_finish(failed);
  for (size_t i = 0; i < count; ++i) {
    if (&runs[i] == failed) continue;
    const ls_status status = ls_run_finish(&runs[i]);
    first = ls_status_join(first, status);
  }
  return first;
}

ls_status ls_runs_drive(ls_run *runs, size_t count) {
  ls_instance *few[16], **waiting = few;
  if (count > LS_COUNT_OF(few)) {
    waiting = ls_new_array(runs->compiled->allocator, ls_instance *, count);
    if (waiting == NULL) {
      ls_run_stop(runs, ls_out_of_memory());
      return finish_all(runs, count, runs);
    }
  }
  const ls_backend *backend = runs->compiled->backend;
  ls_run *failed = NULL;
  size_t num_waiting = 0;
  for (;;) {
    failed = advance_all(runs, count, waiting, &num_waiting);
    if (failed != NULL || num_waiting == 0) break;
    backend->vtable->wait(waiting, num_waiting);
  }
  if (waiting != few) ls_release(runs->compiled->allocator, waiting);
  return finish_all(runs, count, failed);
}

ls_status ls_compiled_run(ls_compiled *compiled, ls_store *store,
                          const ls_run_args *args, bool *out_stale) {
  ls_run run;
  LS_RETURN_IF_ERROR(ls_run_start(&run, compiled, store, args, out_stale));
  while (run_advance(&run) == LS_RUN_WAITS)
    compiled->backend->vtable->wait(&run.bound->instance, 1);
  return ls_run_finish(&run);
}

ls_status ls_compiled_fill(const ls_compiled *compiled, ls_buffer *buffer,
                           uint64_t step) {
  return compiled->backend->vtable->fill(buffer, compiled->executable,
                                         &(ls_run_args){.step = step});
}

// Takes an instance for printing or measuring; binds one if need be.
static ls_status take_to_look(ls_compiled *compiled, ls_store *store,
                              ls_bound **out_bound) {
  ls_access access = {.touches = compiled->touches,
                      .count = compiled->num_touches};
  LS_RETURN_IF_ERROR(ls_gate_enter(ls_store_gate(store), &access));
  const ls_status status = run_take(compiled, store, out_bound);
  ls_gate_leave(ls_store_gate(store), &access);
  return status;
}

ls_status ls_compiled_measure(ls_compiled *compiled, ls_store *store, bool on) {
  ls_bound *b = NULL;
  LS_RETURN_IF_ERROR(take_to_look(compiled, store, &b));
  const ls_status status = compiled->backend->vtable->measure(b->instance, on);
  give_back(compiled, b);
  return status;
}

ls_status ls_compiled_print_cost(ls_compiled *compiled, ls_store *store,
                                 char **out_text) {
  ls_bound *b = NULL;
  LS_OWN(ls_text, text) = {0};
  *out_text = NULL;
  LS_RETURN_IF_ERROR(take_to_look(compiled, store, &b));
  ls_print_begin(&text, compiled->allocator);
  const ls_status status =
      compiled->backend->vtable->print_cost(b->instance, &text);
  give_back(compiled, b);
  return ls_status_is_ok(status) ? ls_print_end(&text, out_text) : status;
}

void ls_compiled_forget_store(ls_compiled *compiled, const ls_store *store) {
  ls_bound *b = NULL;
  while ((b = take_idle(compiled, ls_store_id(store))) != NULL)
    ls_compiled_drop_bound(compiled, b);
}

enum { KEPT_BYTES = 1 << 20 };

size_t ls_compiled_bytes(const ls_compiled *compiled) {
  const size_t kept = compiled->instance_bytes;
  return compiled->program_bytes + (kept > KEPT_BYTES ? 0 : kept);
}

void ls_compiled_drop_large(ls_compiled *compiled, const ls_store *store) {
  if (compiled->instance_bytes > KEPT_BYTES)
    ls_compiled_forget_store(compiled, store);
}
