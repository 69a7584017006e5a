// SPDX-License-Identifier: Apache-2.0
// What an estimator takes from checkpoints: an evaluation's values, variables
// by name, and what another model starts with.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "estimator/calls/estimator.h"
#include "lockstep/estimator_export.h"
#include "lockstep/events.h"
#include "lockstep/metrics.h"
#include "lockstep/ops.h"
#include "support/counted.h"
#include "support/estimator_ways.h"
#include "support/estimators.h"
#include "support/event_records.h"
#include "support/fault.h"

static ls_array *value_of(const estimator_case *c, const char *name) {
  ls_array *array = NULL;
  expect_ok(ls_estimator_variable_value(c->estimator, name, &array));
  return array;
}

static bool same_value(const estimator_case *a, const estimator_case *b,
                       const char *name) {
  LS_OWN(ls_array, x) = value_of(a, name);
  LS_OWN(ls_array, y) = value_of(b, name);
  return ls_array_size(x) == ls_array_size(y) &&
         memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) == 0;
}

static bool holds(const char *pattern, const char *files) {
  char command[300];
  snprintf(command, sizeof(command), "grep -qe '%s' %s", pattern, files);
  return system(command) == 0;
}

// ---- Evaluations -----------------------------------------------------------
typedef struct told {
  int fresh, warm, own, not_written;
} told;

static void note(void *user, const ls_log_line *line) {
  told *self = user;
  self->fresh += strstr(line->text, "there is no checkpoint in") != NULL;
  self->warm += strstr(line->text, "variables start with those of") != NULL;
  self->own += strstr(line->text, "2 variables that are not trained") != NULL;
  self->not_written += line->level == LS_LOG_WARNING &&
                       strstr(line->text, "is not written") != NULL;
}

static ls_nest evaluate(estimator_case *c, const char *checkpoint,
                        const char *name) {
  ls_nest metrics = ls_none();
  expect_ok(ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){.input = estimator_input(c),
                                 .steps = LS_SOME(4),
                                 .checkpoint = checkpoint,
                                 .name = name},
      &metrics));
  // Its metrics, the mean loss and the global step.
  assert_int_equal(ls_nest_count(metrics), 5);
  assert_true(estimator_metric(metrics, "count") == 96);
  assert_true(fabs(estimator_metric(metrics, "loss") -
                   estimator_metric(metrics, "mean")) < 1e-5);
  return metrics;
}

// The loss is in the folder's event files at this step, the step is not.
static void expect_written(const char *folder, int64_t step, double loss) {
  ls_event_numbers *numbers = NULL;
  bool found = false;
  expect_ok(ls_events_read(folder, "loss", &numbers));
  for (size_t i = 0; i < numbers->count; ++i)
    found |= numbers->items[i].step == step &&
             fabs(numbers->items[i].value - loss) < 1e-6;
  assert_true(found);
  ls_event_numbers_destroy(numbers);
  expect_ok(ls_events_read(folder, "global_step", &numbers));
  assert_int_equal(numbers->count, 0);
  ls_event_numbers_destroy(numbers);
}

TEST(evaluations_are_of_a_checkpoint_or_of_fresh_values) {
  LS_SPEC("E167");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    told lines = {0};
    LS_OWN(counted, runtime) = counted_begin_with(
        (ls_runtime_options){.log = note, .log_user = &lines});
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    c.folder = "rows-evaluated";
    c.repeats = true;
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    LS_OWN(ls_nest, fresh) = evaluate(&c, NULL, NULL);
    assert_int_equal(lines.fresh, 1);
    assert_true(estimator_metric(fresh, "global_step") == 0);
    assert_false(holds("checkpoint_path", "rows-evaluated/eval/*"));
    (void)estimator_case_train(&c, 8);
    LS_OWN(ls_nest, newest) = evaluate(&c, NULL, NULL);
    LS_OWN(ls_nest, second) =
        evaluate(&c, "rows-evaluated/model.ckpt-4", "second");
    assert_int_equal(lines.fresh, 1);
    assert_true(estimator_metric(newest, "global_step") == 8);
    assert_true(estimator_metric(second, "global_step") == 4);
    const double first_loss = estimator_metric(fresh, "loss");
    const double newest_loss = estimator_metric(newest, "loss");
    const double second_loss = estimator_metric(second, "loss");
    assert_true(first_loss != second_loss && second_loss != newest_loss);
    expect_written("rows-evaluated/eval", 0, first_loss);
    expect_written("rows-evaluated/eval", 8, newest_loss);
    expect_written("rows-evaluated/eval_second", 4, second_loss);
    assert_true(holds("checkpoint_path", "rows-evaluated/eval/*"));
    assert_true(holds("rows-evaluated/model.ckpt-8", "rows-evaluated/eval/*"));
    assert_true(
        holds("rows-evaluated/model.ckpt-4", "rows-evaluated/eval_second/*"));
    // Fresh values are a warm start's, where there is one.
    LS_OWN(estimator_case, warm) = estimator_case_of(i);
    const ls_warm_start from = {.path = "rows-evaluated"};
    warm.folder = "rows-evaluated-warm";
    warm.more.warm_start = &from;
    estimator_case_begin(&warm);
    LS_OWN(ls_nest, started) = evaluate(&warm, NULL, NULL);
    assert_int_equal(lines.fresh, 2);
    assert_int_equal(lines.warm, 1);
    assert_true(estimator_metric(started, "loss") == newest_loss);
    assert_true(estimator_metric(started, "global_step") == 0);
  }
}

static const char *taken_name;

static ls_nest taken_metrics(ls_nest tensors, void *user) {
  (void)user;
  const ls_nest value = ls_leaf(ls_nest_tensor(tensors, 2));
  const ls_nest metric = LS_TUPLE(value, ls_none());
  return ls_nest_dict("", &taken_name, &metric, 1);
}

static ls_status taken_model(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(user);
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = *ls_estimator_spec_values(made);
  o.eval_metrics.call = taken_metrics;
  return ls_tpu_estimator_spec_create(&o, out);
}

TEST(names_of_what_each_evaluation_has_are_refused) {
  LS_SPEC("E167");
  static const char *const names[] = {"loss", "global_step"};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (int n = 0; n < 2; ++n) {
      LS_OWN(estimator_case, c) = estimator_case_of(i);
      ls_nest metrics = ls_none();
      c.folder = "rows-taken";
      c.more.model_fn = (ls_model_function){.call = taken_model, .user = &c};
      taken_name = names[n];
      estimator_case_begin(&c);
      expect_status(ls_estimator_evaluate(
                        c.estimator,
                        &(ls_estimator_evaluation){.input = estimator_input(&c),
                                                   .steps = LS_SOME(1)},
                        &metrics),
                    LS_INVALID_ARGUMENT, names[n]);
      assert_int_equal(metrics.kind, LS_KIND_NONE);
    }
}

// The value of a tag at a step in an evaluation's only file: the message's
// tensor, i32 or f32, is this array.
static void expect_tensor(const char *folder, const char *tag, int64_t step,
                          const ls_array *want) {
  static char data[1 << 16];
  ls_bytes events[64];
  char command[200];
  snprintf(command, sizeof(command), "cat %s/*", folder);
  FILE *file = popen(command, "r");
  assert_non_null(file);
  const size_t size = fread(data, 1, sizeof(data), file);
  assert_int_equal(pclose(file), 0);
  const size_t count = event_records(data, size, events, 64);
  const ls_bytes value = event_value(events, count, tag, step);
  const ls_bytes tensor = PROTO_AT(value, 8), content = PROTO_AT(tensor, 4);
  proto_field dim;
  assert_false(proto_find(value, 5, 0, &dim));  // No histogram.
  assert_int_equal(proto_i64(tensor, 1),
                   ls_array_dtype(want) == LS_DTYPE_F32 ? 1 : 3);
  for (int i = 0; i < ls_array_shape(want).rank; ++i) {
    assert_true(proto_find(PROTO_AT(tensor, 2), 2, (size_t)i, &dim));
    assert_int_equal(proto_i64(dim.bytes, 1), ls_array_shape(want).dim[i]);
  }
  assert_int_equal(content.size, ls_array_size(want));
  assert_memory_equal(content.data, ls_array_data(want), content.size);
}

// A metric that is an array: two of one number each, side by side.
static ls_op update_of(ls_nest metric) {
  const ls_nest update = ls_nest_item(metric, 1);
  return update.kind == LS_KIND_OP ? update.as.op
                                   : ls_tensor_op(update.as.tensor);
}

static ls_nest array_metrics(ls_nest tensors, void *user) {
  (void)user;
  const ls_tensor labels = ls_nest_tensor(tensors, 0),
                  classes = ls_nest_tensor(tensors, 1);
  ls_nest parts[] = {
      ls_metric_accuracy(labels, classes, ls_no_weights(), "right"),
      ls_metric_sum(ls_convert(labels, LS_DTYPE_F32), ls_no_weights(), "sum")};
  ls_tensor values[2];
  ls_op updates[2];
  for (int i = 0; i < 2; ++i) {
    values[i] = ls_reshape(
        ls_convert(ls_nest_tensor(ls_nest_item(parts[i], 0), 0), LS_DTYPE_F32),
        LS_SHAPE(1));
    updates[i] = update_of(parts[i]);
    ls_nest_release(parts[i]);
  }
  const ls_nest pair = LS_TUPLE(ls_leaf(ls_concatenate(values, 2, 0)),
                                ls_nest_op(ls_group(updates, 2, NULL)));
  return ls_nest_dict("", (const char *const[]){"both"}, &pair, 1);
}

static ls_status array_model(void *user, ls_model_call *call,
                             ls_estimator_spec **out) {
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(user);
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = *ls_estimator_spec_values(made);
  o.eval_metrics.call = array_metrics;
  return ls_tpu_estimator_spec_create(&o, out);
}

TEST(metrics_that_are_arrays_are_written_as_tensors) {
  LS_SPEC("E167");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    LS_OWN(ls_nest, metrics) = ls_none();
    c.folder = "rows-arrays";
    c.more.model_fn = (ls_model_function){.call = array_model, .user = &c};
    estimator_case_begin(&c);
    expect_ok(ls_estimator_evaluate(
        c.estimator,
        &(ls_estimator_evaluation){.input = estimator_input(&c),
                                   .steps = LS_SOME(4)},
        &metrics));
    const ls_array *both = ls_nest_as_array(ls_nest_find(metrics, "both"));
    assert_int_equal(ls_array_shape(both).rank, 1);
    assert_true(ls_array_f64(both, 1) == 96);  // Of labels 0, 1 and 2.
    expect_tensor("rows-arrays/eval", "both", 0, both);
  }
}

TEST(what_is_written_depends_on_its_type) {
  LS_SPEC("E167");
  told lines = {0};
  LS_OWN(counted, runtime) =
      counted_begin_with((ls_runtime_options){.log = note, .log_user = &lines});
  LS_OWN(estimator_case, c) = {.folder = "rows-types"};
  estimator_case_begin(&c);
  ls_array *vector = NULL, *texts = NULL;
  // The second is a Summary of two values, 2 and 3.
  static const char summary[] = "\x0a\x08\x0a\x01x\x15\x00\x00\x00\x40"
                                "\x0a\x08\x0a\x01y\x15\x00\x00\x40\x40";
  const ls_bytes both[] = {
      {"red", 3}, {summary, sizeof(summary) - 1}, {"green", 5}};
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), (float[]){1, 2, 3},
                                 &vector));
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(3), both, &texts));
  LS_OWN(ls_nest, metrics) = ls_nest_dict(
      "",
      (const char *const[]){"real", "whole", "vector", "text", "pair",
                            "global_step"},
      (ls_nest[]){ls_nest_f64(0.5), ls_nest_i64(7), ls_nest_array(vector),
                  ls_nest_array(texts), LS_LIST(ls_nest_i64(1), ls_nest_i64(2)),
                  ls_nest_i64(3)},
      6);
  expect_ok(ls_write_eval_events(c.estimator, "kinds", NULL, metrics));
  assert_int_equal(lines.not_written, 1);
  ls_event_numbers *numbers = NULL;
  expect_ok(ls_events_read("rows-types/eval_kinds", NULL, &numbers));
  static const struct {
    const char *tag;
    double value;
  } wanted[] = {{"real", 0.5}, {"text/1", 2}, {"text/2", 3}, {"whole", 7}};
  assert_int_equal(numbers->count, 4);
  for (size_t i = 0; i < 4; ++i) {
    assert_string_equal(numbers->items[i].tag, wanted[i].tag);
    assert_true(numbers->items[i].value == wanted[i].value);
    assert_int_equal(numbers->items[i].step, 3);
  }
  ls_event_numbers_destroy(numbers);
  expect_tensor("rows-types/eval_kinds", "vector", 3, vector);
  assert_true(holds("text/0", "rows-types/eval_kinds/*"));
  assert_true(holds("text/3", "rows-types/eval_kinds/*"));
  assert_true(holds("green", "rows-types/eval_kinds/*"));
  assert_false(holds("pair", "rows-types/eval_kinds/*"));
}

// ---- Memory ----------------------------------------------------------------
static const ls_estimator *writes;

static ls_status write_events(void *user) {
  const ls_status status = ls_write_eval_events(
      writes, "scarce", "a/model.ckpt-3", *(ls_nest *)user);
  assert_int_equal(system("rm -rf rows-scarce/eval_scarce"), 0);
  return status;
}

TEST(events_survive_memory_that_fails) {
  LS_OWN(estimator_case, c) = {.folder = "rows-scarce"};
  static const char summary[] = "\x0a\x08\x0a\x01x\x15\x00\x00\x00\x40";
  const ls_bytes both[] = {{"red", 3}, {summary, sizeof(summary) - 1}};
  ls_array *vector = NULL, *texts = NULL;
  estimator_case_begin(&c);
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), (float[]){1, 2, 3},
                                 &vector));
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), both, &texts));
  LS_OWN(ls_nest, metrics) = ls_nest_dict(
      "", (const char *const[]){"real", "vector", "text", "global_step"},
      (ls_nest[]){ls_nest_f64(0.5), ls_nest_array(vector), ls_nest_array(texts),
                  ls_nest_i64(3)},
      4);
  writes = c.estimator;
  REFUSE_EACH(write_events, &metrics);
}

// ---- Variables by name -----------------------------------------------------
static bool has_name(char *const *names, size_t count, const char *name) {
  for (size_t i = 0; i < count; ++i)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static void expect_no_model(const estimator_case *c) {
  char **names = NULL, *path = NULL;
  size_t count = 1;
  ls_array *array = NULL;
  ls_status status = ls_estimator_variable_names(c->estimator, &names, &count);
  assert_non_null(strstr(ls_status_message(status), c->folder));
  expect_status(status, LS_FAILED_PRECONDITION, "Could not find trained model");
  assert_int_equal(count, 0);
  status = ls_estimator_variable_value(c->estimator, "hidden", &array);
  assert_non_null(strstr(ls_status_message(status), c->folder));
  expect_status(status, LS_FAILED_PRECONDITION, "Could not find trained model");
  assert_null(array);
  expect_ok(ls_estimator_latest_checkpoint(c->estimator, &path));
  assert_null(path);
}

TEST(variables_of_a_trained_model_are_read_by_name) {
  LS_SPEC("E170");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, c) = estimator_case_of(i);
    char **names = NULL;
    LS_OWN(printed, path) = NULL;
    size_t count = 0;
    ls_array *array = NULL;
    c.folder = "rows-names";
    c.repeats = true;
    c.save_steps = LS_SOME(2);
    estimator_case_begin(&c);
    expect_no_model(&c);
    (void)estimator_case_train(&c, 4);
    expect_ok(ls_estimator_variable_names(c.estimator, &names, &count));
    assert_true(has_name(names, count, "hidden"));
    assert_true(has_name(names, count, "out"));
    assert_true(has_name(names, count, "global_step"));
    for (size_t n = 0; n < count; ++n)
      ls_array_release(value_of(&c, names[n]));
    ls_estimator_free_names(names, count);
    array = value_of(&c, "hidden");
    const ls_shape shape = ls_array_shape(array);
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dim[0], ESTIMATOR_WIDTH);
    assert_int_equal(shape.dim[1], 8);
    ls_array_release(array);
    array = value_of(&c, "global_step");
    assert_true(ls_array_f64(array, 0) == 4);
    ls_array_release(array);
    expect_status(ls_estimator_variable_value(c.estimator, "none", &array),
                  LS_NOT_FOUND, "'none'");
    expect_ok(ls_estimator_latest_checkpoint(c.estimator, &path));
    assert_string_equal(path, "rows-names/model.ckpt-4");
    // The list file has names without a folder.
    assert_true(holds("model.ckpt-2", "rows-names/checkpoint"));
    assert_true(holds("model.ckpt-4", "rows-names/checkpoint"));
    assert_false(holds("rows-names", "rows-names/checkpoint"));
  }
}

// ---- Warm starts -----------------------------------------------------------
// What is saved before the first step.
static void start(estimator_case *c, const ls_warm_start *from) {
  c->folder = "rows-warm";
  c->repeats = true;
  c->save_steps = LS_SOME(100);
  c->more.warm_start = from;
  estimator_case_begin(c);
  expect_ok(ls_estimator_train(
      c->estimator,
      &(ls_estimator_training){.input = estimator_input(c),
                               .max_steps = LS_SOME(2),
                               .stop = &(ls_train_stop){.requested = 1}},
      NULL));
}

static void expect_start(const estimator_case *old, estimator_case c,
                         const ls_warm_start *from, bool hidden, bool out,
                         bool slots) {
  start(&c, from);
  assert_int_equal(same_value(old, &c, "hidden"), hidden);
  assert_int_equal(same_value(old, &c, "out"), out);
  char **names = NULL;
  size_t count = 0;
  expect_ok(ls_estimator_variable_names(c.estimator, &names, &count));
  size_t others = 0;
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(names[i], "hidden") == 0 || strcmp(names[i], "out") == 0 ||
        strcmp(names[i], "global_step") == 0)
      continue;
    ++others;
    assert_int_equal(same_value(old, &c, names[i]), slots);
  }
  assert_int_equal(others, 2);
  ls_estimator_free_names(names, count);
  // Never the step.
  ls_array *step = value_of(&c, "global_step");
  assert_true(ls_array_f64(step, 0) == 0);
  ls_array_release(step);
  estimator_case_end(&c);
}

static void expect_refused(estimator_case c, const ls_warm_start *from,
                           ls_code code, const char *text) {
  c.folder = "rows-warm";
  c.repeats = true;
  c.more.warm_start = from;
  estimator_case_begin(&c);
  expect_status(
      ls_estimator_train(c.estimator,
                         &(ls_estimator_training){.input = estimator_input(&c),
                                                  .max_steps = LS_SOME(2)},
                         NULL),
      code, text);
  estimator_case_end(&c);
}

// Names are of any variables.
static void expect_list(const estimator_case *old, estimator_case c) {
  char **names = NULL;
  size_t count = 0, slot = 0;
  expect_ok(ls_estimator_variable_names(old->estimator, &names, &count));
  for (size_t i = 0; i < count; ++i)
    if (strncmp(names[i], "hidden/", 7) == 0) slot = i;
  assert_true(slot > 0);
  const char *const list[] = {"out", names[slot]};
  const ls_warm_start from = {.path = "rows-warm-old",
                              .values = {.only = list, .num_only = 2}};
  start(&c, &from);
  assert_true(same_value(old, &c, "out"));
  assert_true(same_value(old, &c, names[slot]));
  assert_false(same_value(old, &c, "hidden"));
  estimator_case_end(&c);
  ls_estimator_free_names(names, count);
}

TEST(models_start_with_what_others_have_learnt) {
  LS_SPEC("E171");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    const estimator_case fresh = estimator_case_of(i);
    LS_OWN(estimator_case, old) = fresh;
    LS_OWN(printed, path) = NULL;
    old.folder = "rows-warm-old";
    old.repeats = true;
    estimator_case_begin(&old);
    (void)estimator_case_train(&old, 4);
    expect_start(&old, fresh, &(ls_warm_start){.path = "rows-warm-old"}, true,
                 true, true);
    expect_start(&old, fresh,
                 &(ls_warm_start){.path = "rows-warm-old/model.ckpt-4"}, true,
                 true, true);
    // Patterns are of what is trained: an optimizer's variables stay.
    const char *const any[] = {"*"}, *const some[] = {"hid*"};
    expect_start(&old, fresh,
                 &(ls_warm_start){.path = "rows-warm-old",
                                  .values = {.only = any, .num_only = 1}},
                 true, true, false);
    expect_start(&old, fresh,
                 &(ls_warm_start){.path = "rows-warm-old",
                                  .values = {.only = some, .num_only = 1}},
                 true, false, false);
    expect_list(&old, fresh);
    // An export has no optimizer's variables.
    expect_ok(ls_estimator_export(
        old.estimator,
        &(ls_estimator_exporting){.base = "rows-warm-exports",
                                  .receiver = {.call = estimator_receive}},
        &path));
    expect_start(
        &old, fresh,
        &(ls_warm_start){.path = path, .values = {.only = any, .num_only = 1}},
        true, true, false);
    // So it gives what it has, and the log tells of what begins by itself.
    told lines = {0};
    counted runtime = counted_begin_with(
        (ls_runtime_options){.log = note, .log_user = &lines});
    expect_start(&old, fresh, &(ls_warm_start){.path = path}, true, true,
                 false);
    assert_int_equal(lines.own, 1);
    counted_end(&runtime);
    expect_start(
        &old, fresh,
        &(ls_warm_start){.path = path, .values = {.missing = LS_FLAG_ON}}, true,
        true, false);
    expect_refused(
        fresh,
        &(ls_warm_start){.path = path, .values = {.missing = LS_FLAG_OFF}},
        LS_NOT_FOUND, "/momentum'");
    const ls_name_map wrong[] = {{"hidden_before", "hidden"}};
    expect_refused(fresh,
                   &(ls_warm_start){.path = path,
                                    .values = {.names = wrong, .num_names = 1}},
                   LS_NOT_FOUND, "no array 'hidden_before'");
  }
}

static ls_status renamed_model(void *user, ls_model_call *call,
                               ls_estimator_spec **out) {
  const ls_model_function base = estimator_model(user);
  LS_NAME_SCOPE("body");
  return base.call(base.user, call, out);
}

TEST(names_of_a_warm_start_are_renamed_and_its_path_is_needed) {
  LS_SPEC("E171");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    LS_OWN(estimator_case, old) = estimator_case_of(i);
    estimator_case c = old;
    old.folder = "rows-warm-old";
    old.repeats = true;
    estimator_case_begin(&old);
    (void)estimator_case_train(&old, 4);
    const ls_name_map names[] = {{"out", "hidden"}, {"hidden", "out"}};
    const char *const one[] = {"hidden"};
    // Of another shape: it was looked for under the other name.
    const ls_warm_start crossed = {
        .path = "rows-warm-old",
        .values = {.only = one, .num_only = 1, .names = names, .num_names = 2}};
    estimator_case other = c;
    other.folder = "rows-warm-crossed";
    other.repeats = true;
    other.more.warm_start = &crossed;
    estimator_case_begin(&other);
    expect_status(ls_estimator_train(
                      other.estimator,
                      &(ls_estimator_training){.input = estimator_input(&other),
                                               .max_steps = LS_SOME(1)},
                      NULL),
                  LS_INVALID_ARGUMENT, "out");
    estimator_case_end(&other);
    const ls_name_map below[] = {{"/", "body/"}};
    const char *const any[] = {"*"};
    const ls_warm_start from = {
        .path = "rows-warm-old",
        .values = {.only = any, .num_only = 1, .names = below, .num_names = 1}};
    c.more.model_fn = (ls_model_function){.call = renamed_model, .user = &c};
    start(&c, &from);
    ls_array *a = value_of(&old, "hidden"), *b = value_of(&c, "body/hidden");
    assert_memory_equal(ls_array_data(a), ls_array_data(b), ls_array_size(a));
    ls_array_release(a);
    ls_array_release(b);
    estimator_case_end(&c);
    // No path.
    ls_estimator *refused = NULL;
    for (int p = 0; p < 2; ++p)
      expect_status(
          ls_estimator_create(
              &(ls_estimator_options){
                  .model_fn = estimator_model(&old),
                  .config = old.made_config,
                  .model_dir = "rows-warm-none",
                  .use_tpu = LS_FLAG_OFF,
                  .warm_start = &(ls_warm_start){.path = p == 0 ? "" : NULL}},
              &refused),
          LS_INVALID_ARGUMENT, "a warm start needs a checkpoint's path");
  }
}
