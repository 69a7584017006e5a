// SPDX-License-Identifier: Apache-2.0
//
// What hooks cost: a saver, a counter of steps, summaries, a logger and a guard
// of the loss around training steps, in a monitored session and in ls_train,
// against the same steps without them. Contestants take turns; a round is some
// hundred steps. The saver saves at the start alone (600 seconds), the others
// are due each so many steps.
//
// Usage: hooks_bench [-m MODEL] [-t THREADS] [-k STEPS_A_RUN] [-n ROUNDS]
//                    [-s STEPS_A_ROUND] [-e EVERY] [-b BATCH] [-o MASK]
//   -o  which hooks: bits of 1 saver, 2 counter, 4 summaries, 8 logger,
//       16 guard; default 31

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MOST_ROUNDS = 1000, HOOKS = 5 };
enum { SAVER = 1, COUNTER = 2, SUMMARIES = 4, LOGGER = 8, GUARD = 16 };

typedef struct options {
  const char *model;
  int threads, per_run, rounds, steps, every, mask, batch;
} options;

// A loop of steps tells of all of them at its end: rounds are whole loops,
// which lines and summaries end. What is compiled is by then, and what the
// saver has saved at the start is written.
static int first_step(const options *o) {
  return o->per_run > o->every ? o->per_run : o->every;
}

static char folder[] = "/tmp/hooks_bench.XXXXXX";

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "hooks_bench: %s\n", ls_status_message(status));
  exit(1);
}

static void drop_line(void *user, const ls_log_line *line) {
  (void)user, (void)line;
}

static ls_event_writer *events;
static const ls_model_type *trained;

// ---- Hooks -----------------------------------------------------------------
// With a loss of a graph, and the op of its summary; or by name.
typedef struct values {
  const ls_tensor *loss;
  const ls_op *summary;
  ls_summary_writer *writer;
} values;

static size_t make_hooks(const options *o, const values *v, ls_hook **hooks) {
  static const char *const names[] = {"loss"};
  const ls_opt every = LS_SOME(o->every);
  const int64_t runs = o->every / o->per_run;
  size_t count = 0;
  if (o->mask & SAVER)
    check(ls_saver_hook(&(ls_saver_hook_options){.folder = folder},
                        &hooks[count++]));
  if (o->mask & COUNTER)
    check(ls_counter_hook(
        &(ls_counter_hook_options){.every_steps = every,
                                   .steps_per_run = LS_SOME(o->per_run),
                                   .writer = events},
        &hooks[count++]));
  if (o->mask & SUMMARIES)
    check(ls_summary_hook(
        &(ls_summary_hook_options){.ops = v->summary,
                                   .num_ops = v->summary != NULL ? 1 : 0,
                                   .writer = v->writer,
                                   .every_steps = every},
        &hooks[count++]));
  if (o->mask & LOGGER)
    check(ls_log_hook(
        &(ls_log_hook_options){.names = names,
                               .values = v->loss,
                               .num_values = 1,
                               .every_steps = LS_SOME(runs > 0 ? runs : 1)},
        &hooks[count++]));
  if (o->mask & GUARD)
    check(v->loss != NULL
              ? ls_nan_hook(*v->loss, LS_FLAG_DEFAULT, &hooks[count++])
              : ls_nan_hook_named("loss", LS_FLAG_DEFAULT, &hooks[count++]));
  return count;
}

static void release_hooks(ls_hook **hooks, size_t count) {
  for (size_t i = 0; i < count; ++i)
    ls_hook_release(hooks[i]);
}

// ---- Contestants -----------------------------------------------------------
typedef enum way { SESSION, MONITORED, STEP, TRAIN, FOLDER, HOOKED, WAYS } way;
static const char *const names_of_ways[] = {
    "session",           "monitored with hooks", "step",
    "ls_train, nothing", "ls_train, run folder", "ls_train with hooks"};

typedef struct contestant {
  const options *options;
  ls_model_type type;
  ls_model model;
  ls_summary_writer *writer;
  // In a graph.
  ls_graph *graph;
  ls_tensor batch[2], loss;
  ls_feed feeds[2];
  ls_op summary;
  ls_nest fetches, results;
  ls_session *session;
  ls_monitored_session *monitored;
  // Of functions.
  ls_strategy *strategy;
  ls_function *function;
  ls_dataset *data;
  double began;
  double times[MOST_ROUNDS];
} contestant;

static ls_nest trip(ls_nest inputs, void *user) {
  contestant *c = user;
  (void)inputs;
  const ls_nest args = LS_TUPLE(ls_leaf(c->batch[0]), ls_leaf(c->batch[1]));
  const ls_nest made = c->type.train_step(args, c->model.self);
  const ls_nest loss = ls_nest_retain(ls_nest_find(made, "loss"));
  ls_nest_release(args);
  ls_nest_release(made);
  return LS_LIST(loss);
}

static void build(contestant *c, ls_nest batch) {
  ls_variable *step = NULL;
  ls_nest last = ls_none();
  check(ls_graph_create("bench", &c->graph));
  check(ls_global_step_create(c->graph, &step));
  LS_GRAPH_SCOPE(c->graph);
  check(ls_model_create(&c->type, NULL, &c->model));
  for (size_t i = 0; i < 2; ++i) {
    ls_array *array = ls_nest_as_array(ls_nest_item(batch, i));
    c->batch[i] =
        ls_placeholder(ls_array_dtype(array), ls_array_shape(array), "batch");
    c->feeds[i] = (ls_feed){c->batch[i], array};
  }
  const ls_nest zero = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  check(ls_training_repeat(c->options->per_run,
                           &(ls_training_loop){.body = trip, .user = c}, zero,
                           &last));
  c->loss = ls_nest_tensor(last, 0);
  ls_nest_release(zero);
  ls_nest_release(last);
  const ls_op made = ls_tensor_op(c->loss);
  ls_op next;
  {
    LS_CONTROL_SCOPE(&made, 1);
    next = ls_tensor_op(ls_variable_assign_add(
        step, ls_scalar(LS_DTYPE_I64, (double)c->options->per_run)));
  }
  {
    LS_SUMMARY_SCOPE(c->writer);
    c->summary = ls_summary("loss", c->loss);
  }
  c->fetches = LS_LIST(ls_leaf(c->loss), ls_nest_op(next));
}

static void open_session(contestant *c) {
  ls_nest nothing = ls_none();
  ls_op initialize;
  {
    LS_GRAPH_SCOPE(c->graph);
    initialize = ls_global_initializer();
  }
  check(ls_session_create(c->graph, &c->session));
  check(ls_session_run(c->session, ls_nest_op(initialize), NULL, 0, &nothing));
}

static void open_monitored(contestant *c) {
  ls_hook *hooks[HOOKS] = {NULL};
  const values v = {&c->loss, &c->summary, c->writer};
  const size_t count = make_hooks(c->options, &v, hooks);
  check(ls_monitored_session_create(&(ls_monitored_options){.graph = c->graph,
                                                            .hooks = hooks,
                                                            .num_hooks = count},
                                    &c->monitored));
  release_hooks(hooks, count);
}

static ls_nest step_with_summary(ls_nest args, void *self) {
  const ls_nest made = trained->train_step(args, self);
  if (!ls_nest_is_failed(made))
    (void)ls_summary("loss", ls_nest_tensor(ls_nest_find(made, "loss"), 0));
  return made;
}

static void make(contestant *c, way w, const options *o, ls_nest batch) {
  c->options = o;
  c->type = *trained;
  c->type.batch_size = o->batch;
  check(ls_summary_writer_create(ls_event_writer_record, events, &c->writer));
  if (w <= MONITORED) {
    build(c, batch);
    if (w == SESSION)
      open_session(c);
    else
      open_monitored(c);
    return;
  }
  if (w == HOOKED) c->type.train_step = step_with_summary;
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(1)}, &c->strategy));
  check(ls_model_create(&c->type, &(ls_model_options){.metrics = true},
                        &c->model));
  check(ls_function_create(
      &(ls_function_options){.call = c->type.train_step, .user = c->model.self},
      &c->function));
  c->data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = c->type.batch_size * (o->steps + first_step(o)),
      .shape = c->type.example_shape,
      .num_classes = c->type.num_classes});
}

static void release(contestant *c) {
  check(ls_monitored_session_close(c->monitored, ls_ok()));
  if (c->session != NULL) ls_session_destroy(c->session);
  ls_nest_release(c->fetches);
  if (c->monitored == NULL) ls_nest_release(c->results);
  ls_function_release(c->function);
  ls_dataset_release(c->data);
  ls_model_destroy(&c->model);
  if (c->graph != NULL) ls_graph_destroy(c->graph);
  if (c->strategy != NULL) ls_strategy_release(c->strategy);
  ls_summary_writer_release(c->writer);
}

// ---- Rounds ----------------------------------------------------------------
static void look(void *user, const ls_train_report *report) {
  contestant *c = user;
  const options *o = c->options;
  const int64_t first = first_step(o);
  if (report->epoch_end) return;
  if (report->step == first) c->began = machine_seconds();
  if (report->step == first + o->steps) c->began = machine_seconds() - c->began;
}

static double train(contestant *c, way w) {
  const options *o = c->options;
  ls_hook *hooks[HOOKS] = {NULL};
  ls_train_result result;
  char path[sizeof(folder) + 8];
  snprintf(path, sizeof(path), "%s/run", folder);
  const values v = {.writer = c->writer};
  const size_t count = w == HOOKED ? make_hooks(o, &v, hooks) : 0;
  const bool writes = w == HOOKED && (o->mask & SUMMARIES) != 0;
  LS_SUMMARY_SCOPE(writes ? c->writer : NULL);
  check(ls_train(&(ls_train_options){.model = &c->model,
                                     .strategy = c->strategy,
                                     .train = c->data,
                                     .num_examples = c->type.batch_size *
                                                     (o->steps + first_step(o)),
                                     .steps = first_step(o) + o->steps,
                                     .iterations_per_loop = o->per_run,
                                     .run_folder = w == FOLDER ? path : NULL,
                                     .overwrite = true,
                                     .save_seconds = 600,
                                     .events = w == FOLDER ? "" : NULL,
                                     .log_every = o->every,
                                     .report = look,
                                     .report_user = c,
                                     .hooks = hooks,
                                     .num_hooks = count},
                 &result));
  release_hooks(hooks, count);
  return c->began / o->steps;
}

// Seconds of a step.
static double run(contestant *c, way w, ls_nest batch) {
  const options *o = c->options;
  if (w >= TRAIN) return train(c, w);
  const int runs = w == STEP ? o->steps : o->steps / o->per_run;
  const double begin = machine_seconds();
  for (int i = 0; i < runs; ++i) {
    if (w == SESSION)
      check(ls_session_run(c->session, c->fetches, c->feeds, 2, &c->results));
    else if (w == MONITORED)
      check(ls_monitored_session_run(c->monitored, c->fetches, c->feeds, 2,
                                     &c->results));
    else
      check(ls_strategy_run(c->strategy, ls_traced(c->function), batch,
                            &c->results));
  }
  return (machine_seconds() - begin) / o->steps;
}

// ---- Figures ---------------------------------------------------------------
static double median(const double *times, int n) {
  double copy[MOST_ROUNDS];
  memcpy(copy, times, (size_t)n * sizeof(*copy));
  return machine_median(copy, (size_t)n);
}

static double least(const double *times, int n) {
  double result = times[0];
  for (int i = 1; i < n; ++i)
    if (times[i] < result) result = times[i];
  return result;
}

// Against the contestant before which does the same without: medians over the
// rounds, and least to least.
static void print(const contestant *all, const options *o) {
  static const way against[] = {SESSION, SESSION, STEP, STEP, TRAIN, TRAIN};
  printf("%-22s %12s %12s %12s %10s %12s\n", "", "us a step", "us more",
         "us a run", "ratio", "least more");
  for (int w = 0; w < WAYS; ++w) {
    double more[MOST_ROUNDS], ratios[MOST_ROUNDS];
    const double *base = all[against[w]].times;
    for (int i = 0; i < o->rounds; ++i) {
      more[i] = (all[w].times[i] - base[i]) * 1e6;
      ratios[i] = all[w].times[i] / base[i];
    }
    printf("%-22s %12.2f %12.2f %12.2f %10.4f %12.2f\n", names_of_ways[w],
           median(all[w].times, o->rounds) * 1e6, median(more, o->rounds),
           median(more, o->rounds) * o->per_run, median(ratios, o->rounds),
           (least(all[w].times, o->rounds) - least(base, o->rounds)) * 1e6);
  }
  printf("%s, %d steps a run, %d a round, %d rounds, due each %d, batch %d\n",
         o->model, o->per_run, o->steps, o->rounds, o->every, o->batch);
}

static options parse(int argc, char **argv) {
  options o = {"mlp", 1, 1, 15, 300, 100, 31, 0};
  int c = 0;
  while ((c = getopt(argc, argv, "m:t:k:n:s:e:o:b:")) != -1) {
    const int number = optarg == NULL ? 0 : atoi(optarg);
    if (c == 'm') o.model = optarg;
    if (c == 't') o.threads = number;
    if (c == 'k') o.per_run = number;
    if (c == 'n') o.rounds = number;
    if (c == 's') o.steps = number;
    if (c == 'e') o.every = number;
    if (c == 'o') o.mask = number;
    if (c == 'b') o.batch = number;
    if (c == '?') exit(2);
  }
  if (o.rounds < 1 || o.rounds > MOST_ROUNDS || o.per_run < 1 ||
      o.steps % o.per_run != 0 || ls_model_find(o.model) == NULL)
    exit(2);
  return o;
}

int main(int argc, char **argv) {
  options o = parse(argc, argv);
  ls_runtime *runtime = NULL;
  ls_nest batch = ls_none();
  if (mkdtemp(folder) == NULL) return 1;
  check(ls_runtime_create(
      &(ls_runtime_options){.threads = o.threads, .log = drop_line}, &runtime));
  ls_runtime_make_current(runtime);
  check(ls_event_writer_open(&(ls_event_writer_options){.folder = folder},
                             &events));
  trained = ls_model_find(o.model);
  if (o.batch == 0) o.batch = (int)trained->batch_size;
  check(ls_model_synthetic_batch(trained, o.batch, &batch));
  contestant *all = calloc(WAYS, sizeof(*all));
  if (all == NULL) return 1;
  for (int w = 0; w < WAYS; ++w)
    make(&all[w], (way)w, &o, batch);
  for (int i = -1; i < o.rounds; ++i)
    for (int w = 0; w < WAYS; ++w) {
      const double seconds = run(&all[w], (way)w, batch);
      if (i >= 0) all[w].times[i] = seconds;
    }
  print(all, &o);
  for (int w = 0; w < WAYS; ++w)
    release(&all[w]);
  free(all);
  ls_nest_release(batch);
  check(ls_event_writer_close(events));
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
