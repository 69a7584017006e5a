// SPDX-License-Identifier: Apache-2.0
//
// 200 steps of a convolutional net with dropout on 8 replicas: the same bytes
// of all that is saved, weights, moments and counts, as a mirrored strategy
// leaves. Loops of 1 to 200 steps, by infeed and by arguments, on 1, 2 and 8
// threads, on systems of 1, 2 and 4 hosts, with more results and event files,
// straight and killed and gone on with.
//
// All of them with LS_TEST_LOOPS=all, else some, in fewer steps. Kills are
// drawn by LS_TEST_SEED.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "lockstep/data.h"
#include "lockstep/nn.h"
#include "lockstep/tpu_strategy.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/resumable.h"
#include "support/sanitizer.h"
#include "support/small_models.h"
#include "support/spec.h"

enum { REPLICAS = 8, BATCH = 16, EXAMPLES = 320, ALL_STEPS = 200, FEW = 24 };

// One way to run. Zeroed: the mirrored strategy, step by step.
typedef struct way {
  int hosts;  // 0: no TPU system.
  int64_t iterations;
  bool by_arguments;
  int threads;
  bool more;  // Results and event files.
  bool killed;
} way;

static int64_t steps_of_run(void) {
  const char *all = getenv("LS_TEST_LOOPS");
  return all != NULL && strcmp(all, "all") == 0 ? ALL_STEPS : FEW;
}

// ---- A run -----------------------------------------------------------------
static ls_nest step_with_more(ls_nest args, void *self) {
  const ls_nest made = small_cnn.train_step(args, self);
  if (ls_nest_is_failed(made)) return made;
  const ls_tensor loss = ls_nest_tensor(ls_nest_find(made, "loss"), 0);
  const char *const keys[] = {"loss", "twice", "accuracy", "noise"};
  const ls_nest items[] = {
      ls_leaf(loss), ls_leaf(ls_add(loss, loss)),
      ls_nest_retain(ls_nest_find(made, "accuracy")),
      ls_leaf(ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(3), 0, 1, NULL))};
  ls_nest_release(made);
  return ls_nest_dict("", keys, items, 4);
}

static ls_status make_strategy(const way *w, ls_strategy **out) {
  char name[40];
  ls_tpu_resolver *resolver = NULL;
  if (w->hosts == 0)
    return ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(REPLICAS)}, out);
  snprintf(name, sizeof(name), "virtual:4x1,hosts=%d", w->hosts);
  LS_RETURN_IF_ERROR(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = name, .queue_depth = 2}, &resolver));
  const ls_status status =
      ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver}, out);
  ls_tpu_resolver_release(resolver);
  return status;
}

static ls_status train(const way *w, const ls_model *model,
                       ls_strategy *strategy, ls_dataset *data,
                       const char *folder) {
  char config[256];
  ls_train_result result;
  snprintf(config, sizeof(config), "%s/checkpoint", folder);
  return ls_train(
      &(ls_train_options){.model = model,
                          .strategy = strategy,
                          .train = data,
                          .num_examples = EXAMPLES,
                          .batch_size = BATCH,
                          .steps = steps_of_run(),
                          .run_folder = folder,
                          .iterations_per_loop = w->iterations,
                          .loop_infeed =
                              w->by_arguments ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
                          .resume = access(config, F_OK) == 0,
                          .overwrite = access(config, F_OK) != 0,
                          .save_steps = w->killed ? steps_of_run() / 8 : 0,
                          .events = w->more ? "" : NULL},
      &result);
}

static ls_status run_here(const way *w, const char *folder) {
  ls_model_type type = small_cnn;
  ls_strategy *strategy = NULL;
  ls_model model = {0};
  if (w->more) type.train_step = step_with_more;
  ls_dataset *data = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = EXAMPLES,
                              .shape = type.example_shape,
                              .num_classes = type.num_classes});
  ls_status status = make_strategy(w, &strategy);
  if (ls_status_is_ok(status))
    status = ls_model_create(
        &type, &(ls_model_options){.metrics = true, .seed = 3}, &model);
  if (ls_status_is_ok(status))
    status = train(w, &model, strategy, data, folder);
  ls_model_destroy(&model);
  ls_dataset_release(data);
  if (strategy != NULL) ls_strategy_release(strategy);
  return status;
}

static ls_status run(const way *w, const char *folder) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = w->threads > 0 ? w->threads : 2});
  LS_OWN(ls_status, status) = run_here(w, folder);
  return ls_status_clone(status);
}

// ---- Kills -----------------------------------------------------------------
static pid_t begin_life(const way *w, const char *folder) {
  fflush(NULL);
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(120);
  const ls_status status = run(w, folder);
  if (!ls_status_is_ok(status))
    fprintf(stderr, "a life failed: %s\n", ls_status_message(status));
  _exit(ls_status_is_ok(status) ? 0 : 1);
}

// Killed when there is another checkpoint, or sooner, again and again.
static int live_until_the_end(const way *w, const char *folder) {
  static unsigned seed;
  const char *text = getenv("LS_TEST_SEED");
  if (seed == 0) seed = text != NULL ? (unsigned)atoi(text) : 1;
  for (int kills = 0; kills < 1000; ++kills) {
    int how = 0;
    const pid_t child = begin_life(w, folder);
    assert_true(child > 0);
    // Later and later, so that it ends.
    usleep((useconds_t)(rand_r(&seed) % 60000 + 20000 * kills));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how)) {
      assert_int_equal(WEXITSTATUS(how), 0);
      return kills;
    }
  }
  fail_msg("the run in '%s' does not end", folder);
  return 0;
}

// ---- The matrix ------------------------------------------------------------
static int num_runs, num_kills;

static void expect_same_bytes(const way *w) {
  char name[64];
  remove_folder("loops/events/train");
  remove_folder("loops/events");
  remove_folder("loops");
  if (w->killed)
    num_kills += live_until_the_end(w, "loops");
  else
    expect_ok(run(w, "loops"));
  snprintf(name, sizeof(name), "model.ckpt-%lld.safetensors",
           (long long)steps_of_run());
  expect_same_file("mirrored", "loops", "model.safetensors");
  expect_same_file("mirrored", "loops", name);
  ++num_runs;
}

static void in_all_ways(void) {
  static const int64_t iterations[] = {1, 3, 7, 50, 200};
  static const int threads[] = {1, 2, 8}, hosts[] = {1, 2, 4};
  for (size_t i = 0; i < LS_COUNT_OF(iterations); ++i)
    for (size_t t = 0; t < LS_COUNT_OF(threads); ++t)
      for (size_t h = 0; h < LS_COUNT_OF(hosts); ++h)
        for (int k = 0; k < 8; ++k)
          expect_same_bytes(&(way){.hosts = hosts[h],
                                   .iterations = iterations[i],
                                   .by_arguments = (k & 1) != 0,
                                   .threads = threads[t],
                                   .more = (k & 2) != 0,
                                   .killed = (k & 4) != 0});
}

static void in_some_ways(void) {
  const way ways[] = {
      {.hosts = 1, .iterations = 1, .threads = 1},
      {.hosts = 1, .iterations = 3, .threads = 1},
      {.hosts = 2, .iterations = 7, .threads = 2, .more = true},
      {.hosts = 4, .iterations = 50, .threads = 8},
      {.hosts = 1, .iterations = 7, .by_arguments = true, .threads = 2},
      {.iterations = 7, .threads = 2},
      {.hosts = 2, .iterations = 7, .killed = true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i)
    expect_same_bytes(&ways[i]);
}

TEST(loops_leave_what_a_mirrored_strategy_leaves) {
  LS_SPEC("T197");
  remove_folder("mirrored");
  expect_ok(run(&(way){.threads = 2}, "mirrored"));
  if (steps_of_run() == ALL_STEPS)
    in_all_ways();
  else
    in_some_ways();
  print_message("%d runs of %lld steps, %d lives were killed\n", num_runs,
                (long long)steps_of_run(), num_kills);
}
