// SPDX-License-Identifier: Apache-2.0
// Runs whose model starts with what another run or a file holds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "lockstep/saved_file.h"
#include "lockstep/saver.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "nn/own.h"
#include "support/expect.h"
#include "support/resumable.h"
#include "support/scratch.h"
#include "support/values.h"

enum { VARIABLES = 4, MOST = 256 };

// What a run's variables are at its end.
typedef struct values {
  float items[VARIABLES][MOST];
} values;

typedef struct warm_run {
  const char *folder;  // Default: none.
  const ls_warm_start *from;
  int64_t replicas, steps, seed;
  bool resume;
  bool stops;  // Before the first step.
  ls_train_result result;
  values end;
} warm_run;

static void read_values(const ls_model *model, values *out) {
  ls_variable *variables[VARIABLES];
  assert_int_equal(model->type->variables(model->self, variables, VARIABLES),
                   VARIABLES);
  memset(out, 0, sizeof(*out));
  for (size_t i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, value) = variable_array(variables[i]);
    assert_true(ls_array_size(value) <= sizeof(out->items[i]));
    memcpy(out->items[i], ls_array_data(value), ls_array_size(value));
  }
}

// Momentum has slots, named after their variables.
static ls_status run(warm_run *r) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  ls_model model = {0};
  ls_train_stop stop = {0};
  if (r->stops) ls_train_stop_request(&stop);
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = 64,
                              .shape = type->example_shape,
                              .num_classes = type->num_classes});
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(r->replicas)}, &strategy));
  expect_ok(ls_optimizer_create(
      "momentum", &(ls_optimizer_options){.learning_rate = 0.05}, &optimizer));
  expect_ok(ls_model_create(type,
                            &(ls_model_options){.optimizer = optimizer,
                                                .seed = r->seed,
                                                .metrics = true},
                            &model));
  const ls_status status = ls_train(&(ls_train_options){.model = &model,
                                                        .strategy = strategy,
                                                        .train = data,
                                                        .batch_size = 8,
                                                        .steps = r->steps,
                                                        .seed = r->seed,
                                                        .run_folder = r->folder,
                                                        .resume = r->resume,
                                                        .warm_start = r->from,
                                                        .stop = &stop},
                                    &r->result);
  read_values(&model, &r->end);
  ls_model_destroy(&model);
  return status;
}

static bool same(const values *a, const values *b, size_t i) {
  return memcmp(a->items[i], b->items[i], sizeof(a->items[i])) == 0;
}

// A run of 5 steps in a folder.
static void make_run(const char *folder, int64_t replicas, warm_run *out) {
  remove_tree(folder);
  *out = (warm_run){.folder = folder, .replicas = replicas, .steps = 5};
  expect_ok(run(out));
}

// What a model starts with.
static ls_status look(const ls_warm_start *from, int64_t replicas,
                      values *out) {
  warm_run r = {
      .from = from, .replicas = replicas, .steps = 5, .seed = 9, .stops = true};
  const ls_status status = run(&r);
  *out = r.end;
  return status;
}

// ---- Where from ------------------------------------------------------------
TEST(a_model_starts_with_another_runs_values) {
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    warm_run old;
    make_run("old", replicas, &old);
    for (int64_t now = 1; now <= 3; ++now) {
      static const char *const paths[] = {"old", "old/model.ckpt-5",
                                          "old/model.safetensors"};
      for (size_t p = 0; p < LS_COUNT_OF(paths); ++p) {
        values own, warm;
        expect_ok(look(NULL, now, &own));
        expect_ok(look(&(ls_warm_start){.path = paths[p]}, now, &warm));
        for (size_t i = 0; i < VARIABLES; ++i)
          assert_true(same(&warm, &old.end, i) && !same(&warm, &own, i));
      }
    }
  }
}

TEST(some_of_them_under_other_names_and_from_npz) {
  warm_run old;
  ls_saved_file *file = NULL;
  values own, warm;
  make_run("old", 1, &old);
  expect_ok(ls_saved_file_open("old", &file));
  expect_ok(
      ls_saved_file_write(file, "other.npz",
                          &(ls_saved_write_options){
                              .names = (ls_name_map[]){{"hidden1/", "encoder/"},
                                                       {"logits/bias", "b"}},
                              .num_names = 2},
                          NULL));
  ls_saved_file_close(file);
  expect_ok(look(NULL, 1, &own));
  expect_ok(look(
      &(ls_warm_start){
          .path = "other.npz",
          .values = {.only = (const char *[]){"hidden1/*", "*/bias"},
                     .num_only = 2,
                     .names = (ls_name_map[]){{"encoder/", "hidden1/"},
                                              {"b", "logits/bias"}},
                     .num_names = 2}},
      1, &warm));
  // hidden1/kernel, hidden1/bias, logits/kernel, logits/bias.
  static const bool taken[VARIABLES] = {true, true, false, true};
  for (size_t i = 0; i < VARIABLES; ++i)
    assert_true(same(&warm, taken[i] ? &old.end : &own, i));
  // A head of another size is let be where that is allowed.
  expect_status(look(&(ls_warm_start){.path = "other.npz"}, 1, &warm),
                LS_NOT_FOUND, "model 'tiny' was to start with that");
  for (size_t i = 0; i < VARIABLES; ++i)
    assert_true(same(&warm, &own, i));
}

// ---- When ------------------------------------------------------------------
TEST(a_run_that_goes_on_is_not_warmed_up_again) {
  warm_run old, whole, parted;
  make_run("old", 2, &old);
  const ls_warm_start from = {.path = "old"};
  remove_tree("whole");
  remove_tree("parted");
  whole = (warm_run){
      .folder = "whole", .from = &from, .replicas = 2, .steps = 6, .seed = 1};
  parted = whole;
  parted.folder = "parted";
  expect_ok(run(&whole));
  parted.steps = 3;
  expect_ok(run(&parted));
  parted.steps = 6;
  parted.resume = true;
  expect_ok(run(&parted));
  assert_int_equal(parted.result.steps, 6);
  for (size_t i = 0; i < VARIABLES; ++i)
    assert_true(same(&parted.end, &whole.end, i));
  // What it began with is told, and is where it begins again if nothing was
  // saved.
  ls_train_config *config = NULL;
  expect_ok(ls_train_config_read("parted", &config));
  assert_string_equal(config->warm_start, "old");
  ls_train_config_destroy(config);
  assert_int_equal(system("rm parted/model.* parted/checkpoint"), 0);
  expect_ok(run(&parted));
  assert_int_equal(parted.result.steps, 6);
  for (size_t i = 0; i < VARIABLES; ++i)
    assert_true(same(&parted.end, &whole.end, i));
}

// A checkpoint has the optimizer's variables, model.safetensors has not.
TEST(the_optimizers_variables_start_anew) {
  static const ls_warm_start from[] = {{.path = "old"},
                                       {.path = "old/model.safetensors"}};
  static const char *const folders[] = {"warm", "bare"};
  warm_run old;
  make_run("old", 1, &old);
  for (size_t i = 0; i < 2; ++i) {
    remove_tree(folders[i]);
    expect_ok(run(&(warm_run){
        .folder = folders[i], .from = &from[i], .replicas = 1, .steps = 2}));
  }
  assert_int_equal(system("cmp warm/model.ckpt-2.safetensors "
                          "bare/model.ckpt-2.safetensors"),
                   0);
  assert_int_equal(system("grep -q kernel/momentum "
                          "warm/model.ckpt-2.safetensors"),
                   0);
}

// All ranks read it; what one of them cannot is told to all.
TEST(ranks_start_with_it_together) {
  ls_train_result result;
  remove_folder("first");
  expect_ok(resumable_run(
      &(resumable){.folder = "first", .replicas = 4, .steps = 5}, &result));
  const ls_warm_start from = {.path = "first"};
  resumable warm = {
      .folder = "one", .replicas = 4, .steps = 5, .warm_start = &from};
  remove_folder("one");
  expect_ok(resumable_run(&warm, &result));
  warm.folder = "two";
  warm.ranks = 2;
  remove_folder("two");
  expect_ok(resumable_run(&warm, &result));
  expect_same_file("one", "two", "model.safetensors");
  // It began elsewhere than a run of its own.
  warm.folder = "own";
  warm.warm_start = NULL;
  remove_folder("own");
  expect_ok(resumable_run(&warm, &result));
  assert_int_not_equal(
      system("cmp -s own/model.safetensors two/model.safetensors"), 0);
  warm.folder = "refused";
  warm.warm_start = &(ls_warm_start){.path = "no-such"};
  remove_folder("refused");
  expect_status(resumable_run(&warm, &result), LS_NOT_FOUND, "no-such");
  // One that has saved nothing begins with it again, on all ranks.
  warm.folder = "two";
  warm.warm_start = &from;
  warm.resume = true;
  assert_int_equal(system("rm two/model.* two/checkpoint"), 0);
  expect_ok(resumable_run(&warm, &result));
  expect_same_file("one", "two", "model.safetensors");
}

TEST(what_is_not_there_leaves_no_run) {
  remove_tree("none");
  warm_run r = {.folder = "none",
                .from = &(ls_warm_start){.path = "no-such"},
                .replicas = 1,
                .steps = 2};
  expect_status(run(&r), LS_NOT_FOUND, "no-such");
  r.from = &(ls_warm_start){0};
  expect_status(run(&r), LS_INVALID_ARGUMENT, "path is NULL");
  r.from = &(ls_warm_start){
      .path = "old",
      .values = {.only = (const char *[]){"dense/*"}, .num_only = 1}};
  expect_status(run(&r), LS_INVALID_ARGUMENT, "'dense/*' fits no variable");
  bool there = true;
  expect_ok(ls_file_system_system()->exists(NULL, "none", &there));
  assert_false(there);
}
