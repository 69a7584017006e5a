// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <math.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/models.h"
#include "nn/own.h"
#include "support/function.h"
#include "support/sanitizer.h"
#include "support/training.h"

enum { MOST_VARIABLES = TRAINING_MOST_VARIABLES };

TEST(the_table_is_complete) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  assert_int_equal(count, 6);
  for (size_t i = 0; i < count; ++i) {
    const ls_model_type *type = types[i];
    assert_ptr_equal(ls_model_find(type->name), type);
    assert_non_null(type->description);
    assert_true(type->batch_size > 0 && type->epochs > 0 &&
                type->num_classes > 1);
    assert_true(type->learning_rate > 0 && type->flops_per_example > 0);
    // In the order of size.
    if (i > 0)
      assert_true(type->flops_per_example > types[i - 1]->flops_per_example);
  }
  assert_null(ls_model_find("none"));
  assert_null(ls_model_find(""));
}

TEST(steps_have_the_products_that_are_stated) {
  const ls_model_type *mlp = ls_model_find("mlp");
  const double giga = mlp->flops_per_example * (double)mlp->batch_size * 1e-9;
  assert_true(giga > 0.815 && giga < 0.825);
  const ls_model_type *tiny = ls_model_find("tiny");
  assert_true(tiny->flops_per_example * (double)tiny->batch_size == 11264);
  const ls_model_type *cnn = ls_model_find("cnn");
  const double cnn_giga =
      cnn->flops_per_example * (double)cnn->batch_size * 1e-9;
  assert_true(cnn_giga > 12.4 && cnn_giga < 12.5);
  const ls_model_type *resnet20 = ls_model_find("resnet20");
  const double resnet20_giga =
      resnet20->flops_per_example * (double)resnet20->batch_size * 1e-9;
  assert_true(resnet20_giga > 15.6 && resnet20_giga < 15.8);
  const ls_model_type *unet = ls_model_find("unet");
  const double unet_giga =
      unet->flops_per_example * (double)unet->batch_size * 1e-9;
  assert_true(unet_giga > 13.98 && unet_giga < 13.99);
  const ls_model_type *gpt = ls_model_find("gpt");
  const double gpt_giga =
      gpt->flops_per_example * (double)gpt->batch_size * 1e-9;
  assert_true(gpt_giga > 42.65 && gpt_giga < 42.75);
}

TEST(variables_have_names_of_their_own) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_model, model) = {0};
    ls_variable *variables[MOST_VARIABLES] = {NULL};
    expect_ok(ls_model_create(types[i], NULL, &model));
    const size_t n = types[i]->variables(model.self, variables, MOST_VARIABLES);
    assert_true(n > 1 && n <= MOST_VARIABLES);
    // What does not fit is counted, not written.
    ls_variable *two[3] = {NULL};
    assert_int_equal(types[i]->variables(model.self, two, 2), n);
    assert_ptr_equal(two[1], variables[1]);
    assert_null(two[2]);
    for (size_t a = 0; a < n; ++a) {
      for (size_t b = 0; b < a; ++b)
        assert_string_not_equal(ls_variable_name(variables[a]),
                                ls_variable_name(variables[b]));
    }
  }
}

static double loss_of(ls_nest results) {
  return ls_array_f64(ls_nest_as_array(ls_nest_find(results, "loss")), 0);
}

TEST(training_makes_the_loss_smaller) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_model, model) = {0};
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  expect_ok(ls_model_synthetic_batch(type, type->batch_size, &batch));
  LS_OWN(ls_function, function) =
      unnamed_function(type->train_step, model.self);
  LS_OWN(ls_nest, results) = call_results(function, batch);
  const double first = loss_of(results);
  for (int i = 0; i < 300; ++i)
    expect_ok(ls_function_call(function, batch, &results));
  assert_true(loss_of(results) < first / 2);
  assert_true(ls_array_f64(ls_nest_as_array(ls_nest_find(results, "accuracy")),
                           0) > 0.9);
}

TEST(the_accuracy_is_there_if_asked_for) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_model, model) = {0};
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(ls_model_create(type, NULL, &model));
  expect_ok(ls_model_synthetic_batch(type, 4, &batch));
  LS_OWN(ls_function, function) =
      unnamed_function(type->train_step, model.self);
  LS_OWN(ls_nest, results) = call_results(function, batch);
  assert_int_equal(ls_nest_count(results), 1);
}

static ls_nest logits(ls_nest args, void *user) {
  const ls_model *model = user;
  return model->type->logits(args, model->self);
}

TEST(logits_have_a_column_a_class) {
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_model, model) = {0};
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(ls_model_create(type, NULL, &model));
  expect_ok(ls_model_synthetic_batch(type, 5, &batch));
  LS_OWN(ls_function, function) = unnamed_function(logits, &model);
  LS_OWN(ls_nest, results) = call_results(function, batch);
  assert_true(ls_shape_equal(ls_array_shape(ls_nest_as_array(results)),
                             LS_SHAPE(5, 4)));
}

TEST(models_of_one_seed_start_alike) {
  const ls_model_type *type = ls_model_find("tiny");
  ls_array *values[3] = {NULL};
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_model, model) = {0};
    ls_variable *variable = NULL;
    expect_ok(ls_model_create(type, &(ls_model_options){.seed = i == 2 ? 1 : 0},
                              &model));
    type->variables(model.self, &variable, 1);
    expect_ok(ls_variable_value(variable, &values[i]));
  }
  assert_memory_equal(ls_array_data(values[0]), ls_array_data(values[1]),
                      ls_array_size(values[0]));
  assert_memory_not_equal(ls_array_data(values[0]), ls_array_data(values[2]),
                          ls_array_size(values[0]));
  for (int i = 0; i < 3; ++i)
    ls_array_release(values[i]);
}

// ---- Options ---------------------------------------------------------------
TEST(all_that_is_computed_from_is_listed) {
  static const struct {
    const char *model;
    size_t trained, averaged;
  } rows[] = {
      {"tiny", 4, 0},
      {"mlp", 6, 0},
      {"cnn", 8, 0},
      // 19 units with norm, of kernel, scale and offset, and two averages; two
      // projections, and the last layer.
      {"resnet20", 19 * 3 + 2 + 2, 19 * 2},
      // 14 convolutions of 3x3, three that grow the image, and one of 1x1.
      {"unet", 2 * 18, 0},
      {"gpt", 2 + 4 * 8 + 2, 0},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    LS_OWN(ls_model, model) = {0};
    ls_variable *variables[MOST_VARIABLES];
    expect_ok(ls_model_create(ls_model_find(rows[i].model), NULL, &model));
    const size_t count =
        model.type->variables(model.self, variables, MOST_VARIABLES);
    size_t trained = 0;
    for (size_t k = 0; k < count; ++k)
      trained += ls_variable_is_trainable(variables[k]);
    assert_int_equal(trained, rows[i].trained);
    assert_int_equal(count - trained, rows[i].averaged);
  }
}

TEST(an_optimizer_can_be_brought_along) {
  LS_OWN(ls_optimizer, optimizer) = NULL;
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25}, &optimizer));
  ls_model model;
  expect_ok(ls_model_create(ls_model_find("gpt"),
                            &(ls_model_options){.optimizer = optimizer},
                            &model));
  assert_ptr_equal(model.type->optimizer(model.self), optimizer);
  ls_model_destroy(&model);
  // It still is ours; and it does what such a rate of the model's own does.
  LS_OWN(training, own) = {0};
  LS_OWN(training, brought) = {0};
  training_job job = {.model = "tiny", .batch = 8, .steps = 3};
  job.options.optimizer = optimizer;
  training_run(&job, &brought);
  job.options = (ls_model_options){.learning_rate = 0.25};
  training_run(&job, &own);
  expect_same_training(&own, &brought);
}

TEST(every_model_shows_its_optimizer) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_model, model) = {0};
    expect_ok(ls_model_create(types[i], NULL, &model));
    assert_non_null(types[i]->optimizer(model.self));
  }
}

TEST(the_rate_can_fall_to_nothing) {
  LS_OWN(training, run) = {0};
  training_run(&(training_job){.model = "tiny",
                               .batch = 8,
                               .steps = 5,
                               .options = {.decay_steps = 3}},
               &run);
  expect_learnt(&run);
  assert_true(run.losses[2] < run.losses[1]);
  // Three steps moved the weights, and no more do.
  assert_true(run.losses[3] < run.losses[2]);
  assert_true(run.losses[4] == run.losses[3]);
}

TEST(models_compute_in_the_type_that_is_asked_for) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F64, LS_DTYPE_BF16, LS_DTYPE_F16};
  for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); ++i) {
    LS_OWN(training, run) = {0};
    training_run(&(training_job){.model = "tiny",
                                 .batch = 8,
                                 .steps = 4,
                                 .options = {.dtype = dtypes[i]}},
                 &run);
    for (size_t k = 0; k < run.num_values; ++k)
      assert_int_equal(ls_array_dtype(run.values[k]), dtypes[i]);
    expect_learnt(&run);
  }
}

TEST(every_model_learns_in_bf16) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  if (LS_SANITIZED) count = 2;
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(training, run) = {0};
    training_run(&(training_job){.model = types[i]->name,
                                 .batch = 2,
                                 .steps = 2,
                                 .options = {.dtype = LS_DTYPE_BF16}},
                 &run);
    assert_int_equal(ls_array_dtype(run.values[0]), LS_DTYPE_BF16);
    expect_learnt(&run);
  }
}

TEST(options_that_cannot_be_are_refused) {
  const ls_model_type *type = ls_model_find("gpt");
  LS_OWN(ls_optimizer, optimizer) = NULL;
  ls_model model;
  expect_ok(ls_sgd_create(NULL, &optimizer));
  const struct {
    ls_model_options options;
    const char *part;
  } rows[] = {
      {{.dtype = LS_DTYPE_I32}, "f64, f32, f16 or bf16, got i32"},
      {{.decay_steps = -1}, "fall over -1 steps"},
      {{.learning_rate = -1}, "while creating model 'gpt'"},
      {{.optimizer = optimizer, .learning_rate = 0.5}, "given with it"},
      {{.optimizer = optimizer, .decay_steps = 5}, "given with it"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    expect_status(ls_model_create(type, &rows[i].options, &model),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(model.self);
    ls_model_destroy(&model);
  }
}

TEST(a_batch_of_other_tokens_is_refused) {
  const ls_model_type *type = ls_model_find("gpt");
  LS_OWN(ls_model, model) = {0};
  ls_array *x = NULL;
  ls_nest results = {0};
  expect_ok(ls_model_create(type, NULL, &model));
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(2, 64), &x));
  LS_OWN(ls_function, function) = unnamed_function(logits, &model);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x));
  expect_status(ls_function_call(function, args, &results), LS_INVALID_ARGUMENT,
                "[2,64,256]");
}

TEST(a_batch_that_cannot_be_made_up_is_refused) {
  const ls_model_type type = {.name = "tagger",
                              .example_dtype = LS_DTYPE_I32,
                              .example_shape = LS_SHAPE(9),
                              .num_classes = 3};
  ls_nest batch;
  expect_status(ls_model_synthetic_batch(&type, 2, &batch), LS_UNIMPLEMENTED,
                "labels i32[9] for model 'tagger', which takes i32[]");
  expect_status(ls_model_synthetic_batch(ls_model_find("gpt"), -1, &batch),
                LS_INVALID_ARGUMENT, "-1 examples");
}

static ls_status create_and_destroy(void *user) {
  LS_OWN(ls_model, model) = {0};
  LS_RETURN_IF_ERROR(ls_model_create(user, NULL, &model));
  return ls_ok();
}

TEST(no_memory_is_a_status) {
  REFUSE_EACH(create_and_destroy, (void *)(uintptr_t)ls_model_find("tiny"));
}

// ---- Every model -----------------------------------------------------------
TEST(batches_and_logits_have_the_types_that_are_stated) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i) {
    const ls_model_type *type = types[i];
    LS_OWN(ls_model, model) = {0};
    LS_OWN(ls_nest, batch) = ls_none();
    expect_ok(ls_model_create(type, NULL, &model));
    expect_ok(ls_model_synthetic_batch(type, 2, &batch));
    const ls_array *x = ls_nest_as_array(ls_nest_item(batch, 0));
    const ls_array *y = ls_nest_as_array(ls_nest_item(batch, 1));
    assert_int_equal(ls_array_dtype(x), type->example_dtype != LS_DTYPE_NONE
                                            ? type->example_dtype
                                            : LS_DTYPE_F32);
    assert_int_equal(ls_array_num_elements(x),
                     2 * ls_shape_num_elements(type->example_shape));
    assert_int_equal(ls_array_shape(y).rank, 1 + type->label_shape.rank);
    LS_OWN(ls_function, function) = unnamed_function(logits, &model);
    LS_OWN(ls_nest, results) = call_results(function, batch);
    ls_shape shape = ls_array_shape(y);
    shape.dim[shape.rank++] = type->num_classes;
    assert_true(
        ls_shape_equal(ls_array_shape(ls_nest_as_array(results)), shape));
  }
}

// A sanitizer sees all that a step does in few of them.
enum { STEPS = LS_SANITIZED ? 2 : 5, BATCH = LS_SANITIZED ? 2 : 4 };

static void expect_same_bits_again(const training_job *job) {
  LS_OWN(training, a) = {0};
  training b;
  training_run(job, &a);
  expect_learnt(&a);
  if (!LS_SANITIZED) {
    training_run(job, &b);
    expect_same_training(&a, &b);
    training_deinit(&b);
  }
}

TEST(every_model_learns_its_batch_with_the_same_bits_each_time) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t t = 0; t < count; ++t) {
    const training_job job = {
        .model = types[t]->name, .batch = BATCH, .steps = STEPS};
    expect_same_bits_again(&job);
  }
}

// Losses only: Adam's first steps go by the sign of a gradient, so that
// rounding can turn a weight's whole step around where a gradient is near 0.
TEST(two_replicas_train_as_one_does) {
  static const char *const names[] = {"tiny", "mlp", "cnn", "unet", "gpt"};
  const size_t count = LS_SANITIZED ? 2 : sizeof(names) / sizeof(names[0]);
  for (size_t t = 0; t < count; ++t) {
    training_job job = {
        .model = names[t], .batch = BATCH, .steps = LS_SANITIZED ? 1 : 3};
    LS_OWN(training, one) = {0};
    LS_OWN(training, two) = {0};
    training_run(&job, &one);
    job.replicas = 2;
    training_run(&job, &two);
    for (int i = 0; i < job.steps; ++i)
      assert_true(fabs(one.losses[i] - two.losses[i]) <=
                  1e-4 * fabs(one.losses[i]));
  }
}

// Batch norm sees a replica's own part of the batch, so that two replicas are
// not as one; they are the same each time.
TEST(resnet20_learns_on_two_replicas) {
  const training_job job = {
      .model = "resnet20", .batch = BATCH, .steps = STEPS, .replicas = 2};
  expect_same_bits_again(&job);
}

TEST(a_model_that_is_not_there_is_refused) {
  ls_model model;
  ls_nest batch;
  expect_status(ls_model_create(ls_model_find("none"), NULL, &model),
                LS_NOT_FOUND, "tiny, mlp, cnn, resnet20, unet, gpt");
  ls_model_destroy(&model);
  expect_status(ls_model_synthetic_batch(NULL, 8, &batch), LS_NOT_FOUND,
                "tiny, mlp, cnn, resnet20, unet, gpt");
}

// Returns an f64 array of this shape with one value.
static ls_array *filled(ls_shape shape, double value) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, value);
  return array;
}

TEST(a_normalization_is_a_part_of_the_model) {
  LS_OWN(ls_array, mean) = filled(LS_SHAPE(16), 3);
  LS_OWN(ls_array, deviation) = filled(LS_SCALAR, 2);
  LS_OWN(ls_array, plain) = filled(LS_SHAPE(1, 16), 1.5);
  LS_OWN(ls_array, raw) = filled(LS_SHAPE(1, 16), 6);  // (6 - 3) / 2 = 1.5.
  const ls_model_type *type = ls_model_find("tiny");
  LS_OWN(ls_model, one) = {0};
  LS_OWN(ls_model, two) = {0};
  expect_ok(ls_model_create(type, NULL, &one));
  expect_ok(ls_model_create(
      type, &(ls_model_options){.mean = mean, .deviation = deviation}, &two));
  expect_ok(ls_frame_begin());
  const ls_nest plain_args = LS_TUPLE(ls_leaf(ls_constant(plain)));
  const ls_nest raw_args = LS_TUPLE(ls_leaf(ls_constant(raw)));
  const ls_nest a = type->logits(plain_args, one.self);
  const ls_nest b = type->logits(raw_args, two.self);
  LS_OWN(ls_array, x) = NULL;
  LS_OWN(ls_array, y) = NULL;
  expect_ok(ls_tensor_value(ls_nest_tensor(a, 0), &x));
  expect_ok(ls_tensor_value(ls_nest_tensor(b, 0), &y));
  for (int64_t i = 0; i < 4; ++i)
    assert_true(fabs(ls_array_f64(x, i) - ls_array_f64(y, i)) < 1e-6);
  ls_nest_release(a);
  ls_nest_release(b);
  ls_nest_release(plain_args);
  ls_nest_release(raw_args);
  expect_ok(ls_frame_end(NULL));
}

TEST(a_normalization_that_does_not_fit_is_refused) {
  LS_OWN(ls_array, three) = filled(LS_SHAPE(3), 1);
  LS_OWN(ls_array, one) = filled(LS_SCALAR, 1);
  LS_OWN(ls_array, image) = filled(LS_SHAPE(16, 1), 1);
  ls_model model;
  const struct {
    const char *model;
    ls_array *mean, *deviation;
    const char *wanted;
  } rows[] = {
      {"tiny", one, NULL, "needs mean and deviation"},
      {"tiny", NULL, one, "needs mean and deviation"},
      {"tiny", three, one, "by f64[3] does not fit examples of f32[16]"},
      {"tiny", one, image, "by f64[16,1] does not fit examples of f32[16]"},
      {"gpt", one, one, "tokens cannot be normalized"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
    expect_status(
        ls_model_create(ls_model_find(rows[i].model),
                        &(ls_model_options){.mean = rows[i].mean,
                                            .deviation = rows[i].deviation},
                        &model),
        LS_INVALID_ARGUMENT, rows[i].wanted);
}

TEST(inputs_are_for_types_that_take_any) {
  LS_OWN(ls_model, model) = {0};
  ls_variable *first = NULL;
  expect_status(ls_model_create(ls_model_find("cnn"),
                                &(ls_model_options){.inputs = 3}, &model),
                LS_INVALID_ARGUMENT,
                "it takes examples of f32[28,28,1], not of 3 elements");
  expect_status(ls_model_create(ls_model_find("tiny"),
                                &(ls_model_options){.inputs = -1}, &model),
                LS_INVALID_ARGUMENT, "not of -1 elements");
  expect_ok(ls_model_create(ls_model_find("tiny"),
                            &(ls_model_options){.inputs = 3}, &model));
  (void)model.type->variables(model.self, &first, 1);
  assert_true(ls_shape_equal(ls_variable_shape(first), LS_SHAPE(3, 16)));
}
