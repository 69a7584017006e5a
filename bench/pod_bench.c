// SPDX-License-Identifier: Apache-2.0
//
// A whole TPU program against the mirrored strategy's step: hosts feed the
// cores of a pod through infeeds, the cores take many steps in one run, whose
// losses go to outfeeds, to a summary and to a function on the hosts. Both have
// a net of their own and the same batch, and take turns; then the bytes of what
// they have learnt are compared.
//
// Usage: pod_bench [-m MODEL] [-p POD] [-t THREADS] [-k TRIPS] [-n ROUNDS]
//                  [-b BATCH]
//   by default 200 steps of cnn and 20 of gpt on virtual:4x4,hosts=4

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MOST_ROUNDS = 100, MOST_VARIABLES = 1000 };

typedef struct options {
  const char *model, *pod;
  int threads, trips, rounds;
  int64_t batch;
} options;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "pod_bench: %s\n", ls_status_message(status));
  exit(1);
}

static ls_nest checked(ls_status status, ls_nest made) {
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

// ---- The program -----------------------------------------------------------
typedef struct program {
  int trips;
  int32_t hosts, per_host;
  ls_strategy *strategy;
  ls_graph *graph;
  ls_session *session;
  ls_model model;
  ls_infeed_queue *queue;
  ls_summary_writer *writer;
  ls_tensor batch[2];  // Placeholders, of whole batches.
  ls_nest fetches, results;
  int64_t calls, records;
} program;

static int64_t *called;  // By host calls.

static ls_status count_call(ls_host_call *call) {
  __atomic_fetch_add(called, 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel counter = {.name = "count", .start = count_call};

static void count_record(void *user, const ls_summary_record *record) {
  (void)record;
  __atomic_fetch_add((int64_t *)user, 1, __ATOMIC_RELAXED);
}

static ls_nest on_host(ls_nest args, void *user) {
  const program *p = user;
  const ls_tensor loss = ls_nest_tensor(args, 0);
  LS_SUMMARY_SCOPE(p->writer);
  (void)ls_summary("loss", loss);
  (void)ls_host_call_add(&counter, NULL, &loss, 1);
  return ls_none();
}

// A step on a core. `args`: the loss before, examples, labels.
static ls_nest on_core(ls_nest args, void *user) {
  program *p = user;
  const ls_nest batch = LS_TUPLE(ls_nest_item(args, 1), ls_nest_item(args, 2));
  const ls_nest made = p->model.type->train_step(batch, p->model.self);
  const ls_nest loss = ls_nest_retain(ls_nest_find(made, "loss"));
  ls_nest_release(batch);
  ls_nest_release(made);
  const ls_nest args_of_host = LS_LIST(loss);
  ls_nest_release(ls_outside_compilation(on_host, p, args_of_host));
  ls_nest_release(args_of_host);
  return LS_LIST(loss, ls_nest_op(ls_outfeed_enqueue(loss.as.tensor)));
}

static ls_nest core_loop(ls_nest args, void *user) {
  program *p = user;
  ls_nest last = ls_none();
  return checked(
      ls_training_repeat(
          p->trips,
          &(ls_training_loop){.body = on_core, .user = p, .infeed = p->queue},
          args, &last),
      last);
}

// Feeds all cores, and adds up what they say.
static ls_nest host_step(ls_nest args, void *user) {
  program *p = user;
  ls_tensor sum = ls_nest_tensor(args, 0);
  ls_nest ops = ls_none();
  const ls_nest batch = LS_LIST(ls_leaf(p->batch[0]), ls_leaf(p->batch[1]));
  const ls_status status =
      ls_infeed_queue_split_and_enqueue(p->queue, batch, NULL, &ops);
  ls_nest_release(batch);
  ls_nest_release(ops);
  for (int32_t h = 0; h < p->hosts; ++h) {
    char device[60];
    snprintf(device, sizeof(device), "/task:%d/device:CPU:0", h);
    LS_DEVICE_SCOPE(device);
    for (int32_t i = 0; i < p->per_host; ++i)
      sum = ls_add(sum, ls_outfeed_dequeue(LS_DTYPE_F32, LS_SCALAR, i));
  }
  return checked(status, LS_LIST(ls_leaf(sum)));
}

static void build(program *p) {
  ls_nest cores = ls_none(), hosts = ls_none();
  LS_GRAPH_SCOPE(p->graph);
  const ls_nest zero = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  check(ls_strategy_run(p->strategy, ls_plain(core_loop, p), zero, &cores));
  check(ls_training_repeat(p->trips,
                           &(ls_training_loop){.body = host_step, .user = p},
                           zero, &hosts));
  p->fetches = LS_LIST(
      ls_nest_retain(ls_distributed_component(ls_nest_item(cores, 0), 0)),
      hosts);
  ls_nest_release(cores);
  ls_nest_release(zero);
}

static void make(program *p, const options *o, ls_nest batch) {
  ls_tpu_resolver *pod = NULL;
  ls_nest nothing = ls_none();
  p->trips = o->trips;
  check(
      ls_tpu_resolver_create(&(ls_tpu_resolver_options){.name = o->pod}, &pod));
  check(ls_tpu_initialize(pod, NULL));
  check(
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = pod}, &p->strategy));
  ls_tpu_resolver_release(pod);
  p->hosts = ls_tpu_strategy_num_hosts(p->strategy);
  p->per_host = ls_tpu_strategy_num_replicas_per_host(p->strategy);
  check(ls_summary_writer_create(count_record, &p->records, &p->writer));
  called = &p->calls;
  check(ls_graph_create("pod", &p->graph));
  {
    LS_GRAPH_SCOPE(p->graph);
    LS_STRATEGY_SCOPE(p->strategy);
    check(ls_model_create(ls_model_find(o->model), NULL, &p->model));
    for (size_t i = 0; i < 2; ++i) {
      const ls_array *array = ls_nest_as_array(ls_nest_item(batch, i));
      p->batch[i] =
          ls_placeholder(ls_array_dtype(array), ls_array_shape(array), "batch");
    }
  }
  check(ls_infeed_queue_create(&(ls_infeed_options){.num_elements = LS_SOME(2)},
                               &p->queue));
  const ls_nest whole = LS_LIST(ls_leaf(p->batch[0]), ls_leaf(p->batch[1]));
  check(ls_infeed_queue_configure_from(p->queue, whole));
  ls_nest_release(whole);
  build(p);
  check(ls_session_create(p->graph, &p->session));
  ls_op initialize;
  {
    LS_GRAPH_SCOPE(p->graph);
    initialize = ls_global_initializer();
  }
  check(ls_session_run(p->session, ls_nest_op(initialize), NULL, 0, &nothing));
}

static void run_program(program *p, ls_nest batch) {
  ls_feed feeds[2];
  for (size_t i = 0; i < 2; ++i)
    feeds[i] = (ls_feed){p->batch[i], ls_nest_as_array(ls_nest_item(batch, i))};
  check(ls_session_run(p->session, p->fetches, feeds, 2, &p->results));
}

static void release(program *p) {
  ls_nest_release(p->fetches);
  ls_nest_release(p->results);
  ls_session_destroy(p->session);
  ls_model_destroy(&p->model);
  ls_summary_writer_release(p->writer);
  ls_infeed_queue_release(p->queue);
  ls_graph_destroy(p->graph);
  ls_strategy_release(p->strategy);
}

// ---- The mirrored strategy -------------------------------------------------
typedef struct mirrored {
  ls_strategy *strategy;
  ls_model model;
  ls_function *step;
  ls_nest args, results;
} mirrored;

static void make_mirrored(mirrored *m, const char *model, int replicas,
                          ls_nest batch) {
  ls_nest parts[2];
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &m->strategy));
  {
    LS_STRATEGY_SCOPE(m->strategy);
    check(ls_model_create(ls_model_find(model), NULL, &m->model));
  }
  check(ls_function_create(
      &(ls_function_options){.call = m->model.type->train_step,
                             .user = m->model.self},
      &m->step));
  for (size_t i = 0; i < 2; ++i)
    check(ls_strategy_split(
        m->strategy, ls_nest_as_array(ls_nest_item(batch, i)), &parts[i]));
  m->args = LS_TUPLE(parts[0], parts[1]);
}

static void run_mirrored(mirrored *m, int steps) {
  for (int i = 0; i < steps; ++i)
    check(
        ls_strategy_run(m->strategy, ls_traced(m->step), m->args, &m->results));
}

static void release_mirrored(mirrored *m) {
  ls_nest_release(m->args);
  ls_nest_release(m->results);
  ls_function_release(m->step);
  ls_model_destroy(&m->model);
  ls_strategy_release(m->strategy);
}

// ---- Both ------------------------------------------------------------------
static bool have_same_bytes(const program *p, const mirrored *m) {
  static ls_variable *ours[MOST_VARIABLES], *theirs[MOST_VARIABLES];
  const size_t count =
      p->model.type->variables(p->model.self, ours, MOST_VARIABLES);
  bool same =
      m->model.type->variables(m->model.self, theirs, MOST_VARIABLES) == count;
  for (size_t i = 0; i < count && same; ++i) {
    ls_array *a = NULL, *b = NULL;
    check(ls_session_variable_value(p->session, ours[i], &a));
    check(ls_variable_value(theirs[i], &b));
    same = memcmp(ls_array_data(a), ls_array_data(b),
                  (size_t)ls_array_num_elements(a) *
                      ls_dtype_size(ls_array_dtype(a))) == 0;
    ls_array_release(a);
    ls_array_release(b);
  }
  return same;
}

static void compare(const options *o) {
  double times[MOST_ROUNDS], plain[MOST_ROUNDS], ratios[MOST_ROUNDS];
  const ls_model_type *type = ls_model_find(o->model);
  if (type == NULL) exit(2);
  ls_nest batch = ls_none();
  check(ls_model_synthetic_batch(
      type, o->batch > 0 ? o->batch : type->batch_size, &batch));
  program p = {.fetches = ls_none(), .results = ls_none()};
  mirrored m = {.results = ls_none()};
  make(&p, o, batch);
  const int cores = p.hosts * p.per_host;
  make_mirrored(&m, o->model, cores, batch);
  for (int i = 0; i < o->rounds; ++i) {
    const double begin = machine_seconds();
    run_program(&p, batch);
    const double middle = machine_seconds();
    run_mirrored(&m, o->trips);
    times[i] = (middle - begin) / o->trips;
    plain[i] = (machine_seconds() - middle) / o->trips;
    ratios[i] = times[i] / plain[i];
  }
  printf("%-8s %d cores on %d hosts, %d runs of %d steps: %.3f ms a step, of "
         "the mirrored strategy %.3f; ratio %.3f; %lld host calls, %lld "
         "summaries; variables are %s\n",
         o->model, cores, p.hosts, o->rounds, o->trips,
         1e3 * machine_median(times, (size_t)o->rounds),
         1e3 * machine_median(plain, (size_t)o->rounds),
         machine_median(ratios, (size_t)o->rounds), (long long)p.calls,
         (long long)p.records,
         have_same_bytes(&p, &m) ? "the same bytes" : "DIFFERENT");
  release(&p);
  release_mirrored(&m);
  ls_nest_release(batch);
}

int main(int argc, char **argv) {
  options o = {.pod = "virtual:4x4,hosts=4", .rounds = 3};
  for (int c = 0; (c = getopt(argc, argv, "m:p:t:k:n:b:")) != -1;) {
    if (c == '?') return 2;
    const int number = atoi(optarg);
    if (c == 'm') o.model = optarg;
    if (c == 'p') o.pod = optarg;
    if (c == 't') o.threads = number;
    if (c == 'k') o.trips = number;
    if (c == 'n') o.rounds = number;
    if (c == 'b') o.batch = number;
  }
  if (o.rounds < 1 || o.rounds > MOST_ROUNDS) return 2;
  ls_runtime *runtime = NULL;
  check(
      ls_runtime_create(&(ls_runtime_options){.threads = o.threads}, &runtime));
  ls_runtime_make_current(runtime);
  for (int k = 0; k < (o.model == NULL ? 2 : 1); ++k) {
    options each = o;
    if (o.model == NULL) each.model = k == 0 ? "cnn" : "gpt";
    const bool is_gpt = strcmp(each.model, "gpt") == 0;
    if (o.trips == 0) each.trips = is_gpt ? 20 : 200;
    if (o.batch == 0 && is_gpt) each.batch = 32;  // One for each core.
    compare(&each);
  }
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
