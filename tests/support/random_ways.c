// SPDX-License-Identifier: Apache-2.0
#include "support/random_ways.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/outside.h"
#include "support/place.h"
#include "support/tpu_strategies.h"

// A program in the way it runs, under its runtime.
typedef struct running {
  const random_program *program;
  const random_way *way;
  random_outcome *out;
  ls_variable *variables[RANDOM_VARIABLES];
  ls_optimizer *optimizer;
  ls_strategy *strategy;
  ls_function *function;
  ls_graph *graph;
  ls_session *session;
  ls_feed feeds[RANDOM_ARGS * RANDOM_REPLICAS];
  size_t num_feeds;
  ls_nest args, results, fetches;
} running;

// Whether a graph is built, in which the op that updates is fetched, too.
static bool is_built(const running *self) {
  return self->way->how == RANDOM_SESSION ||
         self->way->how == RANDOM_STRATEGY_SESSION;
}

// ---- One build -------------------------------------------------------------
static bool is_fetched(const running *self, size_t index) {
  switch (self->way->fetch) {
  case RANDOM_FETCH_ALL:
    return true;
  case RANDOM_FETCH_LOSS:
    return false;
  default:
    return (index * 7 + self->program->seed) % 3 == 0;
  }
}

// The values that are asked for, none in the places of others; the loss.
static ls_nest results_of(const running *self, const random_values *values) {
  ls_nest leaves[RANDOM_RESULTS];
  for (size_t i = 0; i < RANDOM_VALUES; ++i) {
    self->out->names[i] = values->names[i];
    leaves[i] = i < values->count && is_fetched(self, i)
                    ? ls_leaf(values->items[i])
                    : ls_none();
  }
  self->out->names[RANDOM_VALUES] = "loss";
  leaves[RANDOM_VALUES] = ls_leaf(values->loss);
  return ls_nest_sequence(LS_KIND_LIST, leaves, RANDOM_RESULTS);
}

// Ops stand behind values in one list.
static ls_nest with_op(ls_nest results, ls_nest update) {
  ls_nest items[RANDOM_RESULTS + 1];
  const size_t count = ls_nest_count(results);
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_retain(ls_nest_item(results, i));
  ls_nest_release(results);
  items[count] = update;
  return ls_nest_sequence(LS_KIND_LIST, items,
                          count + (update.kind != LS_KIND_NONE));
}

// A function and a strategy take the number of examples from their arguments:
// the rows of the first one that has any. Tells the other ways.
static ls_tensor examples_of(const random_program *program) {
  for (size_t i = 0; i < RANDOM_ARGS; ++i)
    if (program->args[i].shape.rank > 0)
      return ls_scalar_i64(LS_DTYPE_I64, program->args[i].shape.dim[0]);
  return ls_scalar_i64(LS_DTYPE_I64, 1);
}

static ls_op minimize_in_graph(const running *self, ls_tensor loss) {
  if (self->way->how != RANDOM_SESSION)
    return ls_optimizer_minimize(self->optimizer, loss);
  LS_EXAMPLES_SCOPE(examples_of(self->program));
  return ls_optimizer_minimize(self->optimizer, loss);
}

static ls_status minimize_on_tape(const running *self, ls_tape *tape,
                                  ls_tensor loss) {
  if (self->way->how != RANDOM_EAGER)
    return ls_optimizer_minimize_tape(self->optimizer, tape, loss);
  LS_EXAMPLES_SCOPE(examples_of(self->program));
  return ls_optimizer_minimize_tape(self->optimizer, tape, loss);
}

static ls_nest step_in_graph(ls_nest args, void *user) {
  const running *self = user;
  random_values values = {.count = 0};
  ls_tensor xs[RANDOM_ARGS];
  for (size_t i = 0; i < RANDOM_ARGS; ++i)
    xs[i] = ls_nest_tensor(args, i);
  random_program_build(self->program, xs, self->variables, &values);
  ls_nest update = ls_none();
  if (self->program->trains)
    update = ls_nest_op(minimize_in_graph(self, values.loss));
  const ls_nest results = results_of(self, &values);
  if (self->way->is_tpu) return with_op(results, update);
  return is_built(self) ? LS_TUPLE(results, update) : results;
}

static ls_status build_on_tape(const running *self, ls_nest args,
                               random_values *values) {
  LS_OWN(ls_tape, tape) = NULL;
  ls_tensor xs[RANDOM_ARGS];
  LS_RETURN_IF_ERROR(ls_tape_begin(&tape));
  for (size_t i = 0; i < RANDOM_ARGS; ++i) {
    const ls_nest arg = ls_nest_item(args, i);
    xs[i] = arg.kind == LS_KIND_TENSOR
                ? arg.as.tensor
                : ls_tensor_from_array(ls_nest_as_array(arg));
  }
  random_program_build(self->program, xs, self->variables, values);
  return self->program->trains ? minimize_on_tape(self, tape, values->loss)
                               : ls_tape_end(tape);
}

static ls_nest step_eager(ls_nest args, void *user) {
  const running *self = user;
  random_values values = {.count = 0};
  const ls_status status = build_on_tape(self, args, &values);
  return ls_status_is_ok(status) ? results_of(self, &values) : ls_fail(status);
}

// ---- Making ----------------------------------------------------------------
static ls_status create_each_variable(running *self) {
  static const char *const names[RANDOM_VARIABLES] = {"a", "b", "c", "d"};
  for (size_t i = 0; i < RANDOM_VARIABLES; ++i) {
    LS_OWN(ls_array, initial) = random_program_initial(self->program, i);
    const ls_status status = ls_variable_create(
        &(ls_variable_options){.name = names[i], .initial_array = initial},
        &self->variables[i]);
    LS_RETURN_IF_ERROR(status);
  }
  return random_program_optimizer(self->program, &self->optimizer);
}

static ls_status create_variables(running *self) {
  if (self->strategy == NULL) return create_each_variable(self);
  ls_status status = ls_ok();
  {
    LS_STRATEGY_SCOPE(self->strategy);
    status = create_each_variable(self);
  }
  return status;
}

static bool is_distributed(const running *self) {
  return self->way->how >= RANDOM_STRATEGY;
}

static void create_args(running *self) {
  ls_nest items[RANDOM_ARGS], parts[RANDOM_REPLICAS];
  for (size_t i = 0; i < RANDOM_ARGS; ++i) {
    const int count = is_distributed(self) ? self->way->replicas : 1;
    for (int r = 0; r < count; ++r)
      parts[r] = ls_nest_array(
          random_program_arg(self->program, i, self->way->same_args ? 0 : r));
    items[i] = is_distributed(self)
                   ? ls_nest_distributed(LS_PER_REPLICA, parts, (size_t)count)
                   : parts[0];
  }
  self->args = ls_nest_sequence(LS_KIND_LIST, items, RANDOM_ARGS);
}

// Feeds `leaf` of the arguments, each of its components.
static ls_nest placeholders_for(ls_nest leaf, void *user) {
  running *self = user;
  if (leaf.kind == LS_KIND_DISTRIBUTED) {
    ls_nest parts[RANDOM_REPLICAS];
    const size_t count = ls_distributed_count(leaf);
    for (size_t r = 0; r < count; ++r)
      parts[r] = placeholders_for(ls_distributed_component(leaf, r), self);
    return ls_nest_distributed(LS_PER_REPLICA, parts, count);
  }
  const ls_array *value = ls_nest_as_array(leaf);
  const ls_tensor x =
      ls_placeholder(ls_array_dtype(value), ls_array_shape(value), "x");
  self->feeds[self->num_feeds++] = (ls_feed){x, value};
  return ls_leaf(x);
}

// A session fetches tensors: of each replica's values, a list.
static ls_nest components_of(ls_nest leaf, void *user) {
  (void)user;
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  ls_nest parts[RANDOM_REPLICAS];
  const size_t count = ls_distributed_count(leaf);
  for (size_t r = 0; r < count; ++r)
    parts[r] = ls_nest_retain(ls_distributed_component(leaf, r));
  return ls_nest_sequence(LS_KIND_LIST, parts, count);
}

static ls_status build_graph(running *self, ls_op *out_initializer) {
  LS_RETURN_IF_ERROR(create_variables(self));
  LS_OWN(ls_nest, xs) = ls_nest_map(self->args, placeholders_for, self);
  LS_RETURN_IF_ERROR(ls_nest_status(xs));
  ls_status status = ls_ok();
  LS_OWN(ls_nest, made) = ls_none();
  if (self->strategy != NULL)
    status = ls_strategy_run(self->strategy, ls_plain(step_in_graph, self), xs,
                             &made);
  else
    made = step_in_graph(xs, self);
  LS_RETURN_IF_ERROR(status);
  self->fetches = ls_nest_map(made, components_of, NULL);
  LS_RETURN_IF_ERROR(ls_nest_status(self->fetches));
  *out_initializer = ls_global_initializer();
  if (self->way->outside != 0)
    self->out->num_outside =
        put_some_outside(ls_graph_current(), self->way->outside);
  return ls_graph_error(ls_graph_current());
}

static ls_status create_session(running *self) {
  ls_op initializer = {0};
  ls_status status = ls_graph_create("program", &self->graph);
  LS_RETURN_IF_ERROR(status);
  {
    LS_GRAPH_SCOPE(self->graph);
    status = build_graph(self, &initializer);
  }
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_session_create(self->graph, &self->session));
  ls_nest nothing = ls_none();
  return ls_session_run(self->session, ls_nest_op(initializer), NULL, 0,
                        &nothing);
}

static ls_status create(running *self) {
  create_args(self);
  if (self->way->is_tpu)
    self->strategy = tpu_strategy_of(self->way->replicas);
  else if (is_distributed(self))
    LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(self->way->replicas)},
        &self->strategy));
  if (is_built(self)) return create_session(self);
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = step_in_graph, .user = self},
      &self->function));
  return create_variables(self);
}

static void destroy(running *self) {
  ls_nest_release(self->args);
  ls_nest_release(self->results);
  ls_nest_release(self->fetches);
  ls_function_release(self->function);
  ls_session_destroy(self->session);
  ls_optimizer_release(self->optimizer);
  for (size_t i = 0; i < RANDOM_VARIABLES; ++i)
    ls_variable_release(self->variables[i]);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  if (self->graph != NULL) ls_graph_destroy(self->graph);
}

// ---- Running ---------------------------------------------------------------
static random_bytes bytes_of(const ls_array *array) {
  random_bytes bytes = {.type = {ls_array_dtype(array), ls_array_shape(array)},
                        .size = ls_array_size(array)};
  bytes.data = malloc(bytes.size + 1);
  assert_non_null(bytes.data);
  memcpy(bytes.data, ls_array_data(array), bytes.size);
  return bytes;
}

static ls_status keep_leaf(ls_nest leaf, random_bytes *out) {
  if (leaf.kind == LS_KIND_NONE) return ls_ok();
  LS_OWN(ls_array, array) = NULL;
  if (leaf.kind == LS_KIND_TENSOR)
    LS_RETURN_IF_ERROR(ls_tensor_value(leaf.as.tensor, &array));
  else
    array = ls_array_retain(ls_nest_as_array(leaf));
  *out = bytes_of(array);
  return ls_ok();
}

static ls_status keep_results(running *self, int step, ls_nest results) {
  for (size_t i = 0; i < RANDOM_RESULTS; ++i) {
    const ls_nest leaf = ls_nest_item(results, i);
    const bool is_list = leaf.kind == LS_KIND_LIST;
    const size_t count =
        is_list ? ls_nest_count(leaf) : ls_distributed_count(leaf);
    for (size_t r = 0; r < (count == 0 ? 1 : count); ++r) {
      const ls_nest part = count == 0 ? leaf
                           : is_list  ? ls_nest_item(leaf, r)
                                      : ls_distributed_component(leaf, r);
      LS_RETURN_IF_ERROR(keep_leaf(part, &self->out->results[step][r][i]));
    }
  }
  return ls_ok();
}

static ls_status run_eager(running *self, int step) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_status status = ls_ok();
  if (self->way->how == RANDOM_EAGER) {
    LS_OWN(ls_nest, results) = step_eager(self->args, self);
    status = ls_nest_status(results);
    if (ls_status_is_ok(status)) status = keep_results(self, step, results);
  } else {
    status = ls_strategy_run(self->strategy, ls_plain(step_eager, self),
                             self->args, &self->results);
    if (ls_status_is_ok(status))
      status = keep_results(self, step, self->results);
    ls_nest_release(self->results);
    self->results = ls_none();
  }
  const ls_status ended = ls_frame_end(NULL);
  if (ls_status_is_ok(status)) return ended;
  ls_status_free(ended);
  return status;
}

static ls_status run_step(running *self, int step) {
  switch (self->way->how) {
  case RANDOM_SESSION:
  case RANDOM_STRATEGY_SESSION:
    LS_RETURN_IF_ERROR(ls_session_run(self->session, self->fetches, self->feeds,
                                      self->num_feeds, &self->results));
    return keep_results(self, step,
                        self->way->is_tpu ? self->results
                                          : ls_nest_item(self->results, 0));
  case RANDOM_FUNCTION:
    LS_RETURN_IF_ERROR(
        ls_function_call(self->function, self->args, &self->results));
    return keep_results(self, step, self->results);
  case RANDOM_STRATEGY:
    LS_RETURN_IF_ERROR(ls_strategy_run(
        self->strategy, ls_traced(self->function), self->args, &self->results));
    return keep_results(self, step, self->results);
  default:
    return run_eager(self, step);
  }
}

// Twice as many replicas have twice as many examples.
static bool counts_examples(const ls_variable *variable) {
  return strstr(ls_variable_name(variable), "examples") != NULL;
}

static ls_status keep_variables(running *self) {
  ls_variable *all[RANDOM_MOST_VARIABLES];
  for (size_t i = 0; i < RANDOM_VARIABLES; ++i)
    all[i] = self->variables[i];
  const size_t count =
      RANDOM_VARIABLES +
      ls_optimizer_variables(self->optimizer, all + RANDOM_VARIABLES,
                             RANDOM_MOST_VARIABLES - RANDOM_VARIABLES);
  assert_true(count <= RANDOM_MOST_VARIABLES);
  for (size_t i = 0; i < count; ++i) {
    ls_array *value = NULL;
    if (self->way->same_args && counts_examples(all[i])) continue;
    LS_RETURN_IF_ERROR(
        self->session != NULL
            ? ls_session_variable_value(self->session, all[i], &value)
            : ls_variable_value(all[i], &value));
    self->out->variables[i] = bytes_of(value);
    ls_array_release(value);
  }
  return ls_ok();
}

static ls_status run(running *self) {
  LS_RETURN_IF_ERROR(create(self));
  for (int step = 0; step < self->program->steps; ++step)
    LS_RETURN_IF_ERROR(run_step(self, step));
  return keep_variables(self);
}

static const char *environment_of(void *user, const char *name) {
  const random_way *way = user;
  if (way->isa != NULL && strcmp(name, "LS_ISA") == 0) return way->isa;
  if (way->lanes != NULL && strcmp(name, "LS_LANES") == 0) return way->lanes;
  return getenv(name);
}

random_outcome *random_run(const random_program *program,
                           const random_way *way) {
  random_outcome *out = calloc(1, sizeof(*out));
  assert_non_null(out);
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = way->threads,
                           .environment = environment_of,
                           .environment_user = (void *)(uintptr_t)way});
  running self = {.program = program, .way = way, .out = out};
  const ls_status status = run(&self);
  out->code = ls_status_code(status);
  if (!ls_status_is_ok(status))
    snprintf(out->message, RANDOM_TEXT, "%s", ls_status_message(status));
  ls_status_free(status);
  destroy(&self);
  return out;
}

void random_outcome_destroy(random_outcome *self) {
  for (size_t s = 0; s < RANDOM_STEPS; ++s)
    for (size_t r = 0; r < RANDOM_REPLICAS; ++r)
      for (size_t i = 0; i < RANDOM_RESULTS; ++i)
        free(self->results[s][r][i].data);
  for (size_t i = 0; i < RANDOM_MOST_VARIABLES; ++i)
    free(self->variables[i].data);
  free(self);
}

// ---- Comparing -------------------------------------------------------------
// Not in NaNs: only their sign and payload are not promised (isa/vec.h).
static bool element_differs(const random_bytes *a, const random_bytes *b,
                            size_t index) {
  const ls_dtype dtype = a->type.dtype;
  const size_t width = ls_dtype_size(dtype), at = index * width;
  if (memcmp((const char *)a->data + at, (const char *)b->data + at, width) ==
      0)
    return false;
  return !ls_dtype_is_float(dtype) ||
         !isnan(loop_read(dtype, a->data, (int64_t)index)) ||
         !isnan(loop_read(dtype, b->data, (int64_t)index));
}

static bool differ(const random_bytes *a, const random_bytes *b) {
  if (a->type.dtype != b->type.dtype ||
      !ls_shape_equal(a->type.shape, b->type.shape))
    return true;
  if (memcmp(a->data, b->data, a->size) == 0) return false;
  const size_t count = a->size / ls_dtype_size(a->type.dtype);
  for (size_t i = 0; i < count; ++i)
    if (element_differs(a, b, i)) return true;
  return false;
}

static void hex_of(const random_bytes *bytes, size_t at, size_t size,
                   char text[40]) {
  for (size_t k = size; k-- > 0;)
    text += sprintf(text, "%02x", ((const uint8_t *)bytes->data)[at + k]);
}

static void describe(const random_bytes *a, const random_bytes *b,
                     const char *what, char *text, size_t size) {
  char x[40] = "", y[40] = "";
  const size_t width = ls_dtype_size(a->type.dtype);
  size_t at = 0, count = 0, first = 0;
  for (; a->size == b->size && at < a->size; at += width)
    if (element_differs(a, b, at / width))
      if (count++ == 0) first = at;
  if (count > 0) {
    hex_of(a, first, width, x);
    hex_of(b, first, width, y);
  }
  snprintf(text, size, "%s, %s: %zu elements, element %zu: %s, %s", what,
           LS_SHAPE_TEXT(a->type.dtype, a->type.shape), count, first / width, x,
           y);
}

size_t random_compare(const random_outcome *a, const random_outcome *b,
                      char *text, size_t size, size_t *compared) {
  size_t count = 0;
  char what[80];
  ++*compared;
  if (a->code != b->code) {
    snprintf(text, size, "'%.230s', '%.230s'", a->message, b->message);
    return 1;
  }
  for (size_t s = 0; s < RANDOM_STEPS; ++s)
    for (size_t r = 0; r < RANDOM_REPLICAS; ++r)
      for (size_t i = 0; i < RANDOM_RESULTS; ++i) {
        const random_bytes *x = &a->results[s][r][i], *y = &b->results[s][r][i];
        if (x->data == NULL || y->data == NULL) continue;
        ++*compared;
        if (!differ(x, y)) continue;
        if (count++ > 0) continue;
        snprintf(what, sizeof(what), "step %zu, replica %zu, value %zu (%s)", s,
                 r, i, a->names[i]);
        describe(x, y, what, text, size);
      }
  for (size_t i = 0; i < RANDOM_MOST_VARIABLES; ++i) {
    const random_bytes *x = &a->variables[i], *y = &b->variables[i];
    if (x->data == NULL || y->data == NULL) continue;
    ++*compared;
    if (!differ(x, y)) continue;
    if (count++ > 0) continue;
    snprintf(what, sizeof(what), "variable %zu", i);
    describe(x, y, what, text, size);
  }
  return count;
}
