// SPDX-License-Identifier: Apache-2.0
//
// Programs that train: loops of steps on the cores of virtual pods.
#include <math.h>
#include <string.h>

#include "estimator/spec/calls.h"
#include "support/linear_model.h"

static const int counts[] = {1, 3, 8};

typedef struct job {
  linear_model m;
  int calls;
} job;

static ls_status train_model(void *user, ls_model_call *call,
                             ls_estimator_spec **out_spec) {
  job *j = user;
  ++j->calls;
  const ls_tensor loss = linear_model_loss(&j->m, call);
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op =
                                       ls_train_op(j->m.optimizer, loss)},
      out_spec);
}

static void begin(programs *p, job *j, int replicas, programs_options options) {
  *j = (job){0};
  options.mode = LS_MODE_TRAIN;
  options.replicas = replicas;
  options.user = j;
  if (options.model == NULL) options.model = train_model;
  linear_program_begin(p, &j->m, options);
}

static void end(programs *p, job *j) {
  linear_model_drop(&j->m);
  programs_end(p);
}

// Fetches the loss and the number of steps.
static void run(programs *p, int64_t steps) {
  programs_set_steps(p, steps);
  programs_run(p, LS_LIST(ls_leaf(p->program.loss), ls_leaf(p->program.steps),
                          ls_nest_op(p->program.run)));
}

// ---- Steps -----------------------------------------------------------------
TEST(a_loop_of_steps_has_the_bits_of_mirrored_steps) {
  LS_SPEC("E132 E137");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    linear_reference r;
    begin(&p, &j, counts[i], (programs_options){0});
    assert_int_equal(j.calls, 1);
    assert_true(p.program.reduces);
    linear_reference_begin(&r, counts[i]);
    int64_t at = 0;
    for (int steps = 1; steps < 5; ++steps) {
      float loss = 0;
      for (int k = 0; k < steps; ++k)
        programs_put_all(&p, at + k);
      run(&p, steps);
      for (int k = 0; k < steps; ++k)
        loss = linear_reference_train(&r, &p, at + k);
      at += steps;
      assert_true((float)programs_number(&p, 0) == loss);
      assert_true(programs_number(&p, 1) == steps);
      linear_expect_same(&p, &j.m, &r);
      LS_OWN(ls_array, step) = programs_value(&p, p.global_step);
      assert_int_equal(ls_array_i64(step, 0), at);
    }
    linear_reference_end(&r);
    end(&p, &j);
  }
}

TEST(without_a_step_the_loss_is_what_it_begins_with) {
  LS_SPEC("E132");
  for (int any = 0; any < 2; ++any)
    for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
      programs p;
      job j;
      begin(&p, &j, counts[i], (programs_options){.any_batch = any});
      run(&p, 0);
      assert_true(programs_number(&p, 0) == 1e7);
      assert_true(programs_number(&p, 1) == 0);
      end(&p, &j);
    }
}

// Of two cores each: the program knows which.
TEST(a_loop_has_the_cores_of_its_replicas) {
  LS_SPEC("E137");
  programs p;
  job j;
  int found = 0;
  begin(&p, &j, 4, (programs_options){.tpu.num_cores_per_replica = LS_SOME(2)});
  for (size_t i = 0; i < ls_graph_num_ops(p.graph); ++i) {
    const ls_op op = ls_graph_op(p.graph, i);
    const ls_attr *cores = NULL, *places = NULL, *marker = NULL;
    if (strcmp(ls_op_type_name(op), "tpu_replicate_metadata") != 0) continue;
    ++found;
    expect_ok(ls_op_attr(op, "num_cores_per_replica", &cores));
    expect_ok(ls_op_attr(op, "device_assignment", &places));
    expect_ok(ls_op_attr(op, "step_marker_location", &marker));
    assert_int_equal(cores->as.i, 2);
    assert_int_equal(places->as.ints.count, 4 * 2 * 4);
    assert_string_equal(marker->as.string, "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP");
  }
  assert_int_equal(found, 1);
  end(&p, &j);
}

// What looks at variables waits for the loop, and brings it along.
TEST(the_run_alone_is_the_loop_and_what_looks_at_variables) {
  LS_SPEC("E155");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    begin(&p, &j, counts[i], (programs_options){0});
    programs_put_all(&p, 0);
    programs_put_all(&p, 1);
    programs_set_steps(&p, 2);
    programs_run(&p, ls_nest_op(p.program.run));
    ls_array *step = programs_value(&p, p.global_step);
    assert_int_equal(ls_array_i64(step, 0), 2);
    ls_array_release(step);
    end(&p, &j);
  }
}

TEST(the_loop_ends_with_the_data_behind_a_whole_step) {
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    linear_reference r;
    begin(&p, &j, counts[i], (programs_options){0});
    linear_reference_begin(&r, counts[i]);
    programs_put_all(&p, 0);
    programs_put_all(&p, 1);
    if (counts[i] > 1) programs_put(&p, 2, 0, 0, false);
    programs_close(&p);
    run(&p, 5);
    (void)linear_reference_train(&r, &p, 0);
    assert_true((float)programs_number(&p, 0) ==
                linear_reference_train(&r, &p, 1));
    assert_true(programs_number(&p, 1) == 2);
    linear_expect_same(&p, &j.m, &r);
    linear_reference_end(&r);
    end(&p, &j);
  }
}

TEST(the_loss_of_replica_0_is_an_option) {
  LS_SPEC("E137");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    linear_reference r;
    float losses[PROGRAMS_MOST];
    begin(&p, &j, counts[i], (programs_options){.replica_0_loss = true});
    linear_reference_begin(&r, counts[i]);
    programs_put_all(&p, 0);
    run(&p, 1);
    linear_reference_losses(&r, &p, 0, losses);
    assert_true((float)programs_number(&p, 0) == losses[0]);
    linear_reference_end(&r);
    end(&p, &j);
  }
}

// ---- Batches of any size ---------------------------------------------------
// Each example counts once, for the loss and for the gradients: as in a batch
// that one replica has whole, but for rounding.
TEST(a_short_batch_weighs_by_its_examples) {
  static const int shares[][PROGRAMS_MOST] = {{2, 2, 2, 2, 2, 2, 2, 2},
                                              {2, 1, 1, 1, 1, 1, 1, 1},
                                              {1, 1, 1, 0, 0, 0, 0, 0},
                                              {1, 0, 0, 0, 0, 0, 0, 0}};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    double w[3] = {0.5, -0.25, 1}, v[3] = {0}, loss = 0;
    begin(&p, &j, counts[i], (programs_options){.any_batch = true});
    for (size_t s = 0; s < LS_COUNT_OF(shares); ++s) {
      double gradient[3] = {0};
      int examples = 0;
      loss = 0;
      for (int r = 0; r < counts[i]; ++r) {
        LS_OWN(ls_array, x) = programs_fed(&p, (int64_t)s, r, 0);
        LS_OWN(ls_array, y) = programs_fed(&p, (int64_t)s, r, 1);
        examples += shares[s][r];
        for (int row = 0; row < shares[s][r]; ++row) {
          double off = -ls_array_f64(y, row);
          for (int k = 0; k < 3; ++k)
            off += w[k] * ls_array_f64(x, row * 3 + k);
          loss += off * off;
          for (int k = 0; k < 3; ++k)
            gradient[k] += 2 * off * ls_array_f64(x, row * 3 + k);
        }
        programs_put(&p, (int64_t)s, r, shares[s][r], false);
      }
      loss /= examples;
      for (int k = 0; k < 3; ++k) {
        v[k] = 0.9 * v[k] + gradient[k] / examples;
        w[k] -= 0.1 * v[k];
      }
    }
    run(&p, LS_COUNT_OF(shares));
    assert_true(fabs(programs_number(&p, 0) - loss) < 1e-5);
    ls_array *value = programs_value(&p, j.m.w);
    for (int k = 0; k < 3; ++k)
      assert_true(fabs(ls_array_f64(value, k) - w[k]) < 1e-5);
    ls_array_release(value);
    end(&p, &j);
  }
}

// ---- Random ops, tracing ---------------------------------------------------
static ls_status random_model(void *user, ls_model_call *call,
                              ls_estimator_spec **out_spec) {
  job *j = user;
  const ls_tensor noise =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(PROGRAMS_ROWS, 1), -1, 1, NULL);
  const ls_tensor made = linear_model_output(&j->m, call->features);
  const ls_tensor off = ls_sub(ls_add(made, noise), call->labels.as.tensor);
  const ls_tensor loss = ls_reduce_mean(ls_mul(off, off), LS_ALL_AXES);
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op =
                                       ls_train_op(j->m.optimizer, loss)},
      out_spec);
}

// The loss and the bits of the variable behind twelve steps, so many a run.
static double run_random(int replicas, int each, ls_array **out_value) {
  programs p;
  job j;
  begin(&p, &j, replicas, (programs_options){.model = random_model});
  for (int s = 0; s < 12; ++s) {
    programs_put_all(&p, s);
    if ((s + 1) % each == 0) run(&p, each);
  }
  const double loss = programs_number(&p, 0);
  ls_array *value = programs_value(&p, j.m.w);
  double w[3];
  for (int k = 0; k < 3; ++k)
    w[k] = ls_array_f64(value, k);
  ls_array_release(value);
  end(&p, &j);
  *out_value = array_of(LS_DTYPE_F32, LS_SHAPE(3), w);
  return loss;
}

TEST(a_loop_draws_what_single_steps_draw) {
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    static const int each[] = {3, 12};
    LS_OWN(ls_array, wanted) = NULL;
    ls_array *got = NULL;
    const double loss = run_random(counts[i], 1, &wanted);
    for (size_t k = 0; k < LS_COUNT_OF(each); ++k) {
      assert_true(run_random(counts[i], each[k], &got) == loss);
      assert_memory_equal(ls_array_data(got), ls_array_data(wanted), 12);
      ls_array_release(got);
    }
  }
}

TEST(tensors_on_the_way_to_the_loss_are_traced) {
  LS_SPEC("E201");
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    programs p;
    job j;
    linear_reference r;
    begin(&p, &j, counts[i],
          (programs_options){.tracer_flags = "--enable --trace_mode=norm"});
    linear_reference_begin(&r, counts[i]);
    programs_put_all(&p, 0);
    programs_put_all(&p, 1);
    run(&p, 2);
    // The output, what it is off by, and its square, of each replica's steps.
    assert_true(p.traced >= 3 * 2 * counts[i]);
    (void)linear_reference_train(&r, &p, 0);
    assert_true((float)programs_number(&p, 0) ==
                linear_reference_train(&r, &p, 1));
    linear_expect_same(&p, &j.m, &r);
    linear_reference_end(&r);
    end(&p, &j);
  }
}

// ---- Caches ----------------------------------------------------------------
typedef struct cached {
  linear_model m;
  int64_t batch;
  int wrong;  // 1: too few, 2: of another type, 3: too many.
} cached;

// A sum of the labels of a loop's steps, and how many there were.
static ls_nest first_cache(void *user, int64_t batch_size) {
  ((cached *)user)->batch = batch_size;
  return LS_LIST(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(batch_size, 1), 100)),
                 ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)));
}

static ls_status cache_model(void *user, ls_model_call *call,
                             ls_estimator_spec **out_spec) {
  cached *c = user;
  const ls_nest cache = ls_nest_find(call->params, "cache");
  assert_int_equal(cache.kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(cache), 2);
  const ls_tensor sum =
      ls_add(ls_nest_tensor(cache, 0), call->labels.as.tensor);
  const ls_tensor count =
      ls_add(ls_nest_tensor(cache, 1), ls_scalar_i64(LS_DTYPE_I64, 1));
  const ls_tensor next[] = {
      sum, c->wrong == 2 ? ls_convert(count, LS_DTYPE_F32) : count, count};
  // What is reported is made of the cache alone.
  const ls_tensor loss =
      ls_add(ls_reduce_sum(sum, LS_ALL_AXES),
             ls_mul_scalar(ls_convert(count, LS_DTYPE_F32), 1000));
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = loss,
                                   .train_op = ls_tensor_op(loss),
                                   .cache = next,
                                   .cache_size = c->wrong == 1   ? 1
                                                 : c->wrong == 3 ? 3
                                                                 : 2},
      out_spec);
}

static double cache_of(const programs *p, int64_t first, int steps,
                       int replica) {
  float sums[PROGRAMS_ROWS] = {100, 100};
  for (int k = 0; k < steps; ++k) {
    LS_OWN(ls_array, labels) = programs_fed(p, first + k, replica, 1);
    for (int i = 0; i < PROGRAMS_ROWS; ++i)
      sums[i] += (float)ls_array_f64(labels, i);
  }
  return (float)(sums[0] + sums[1]) + 1000.0f * (float)steps;
}

TEST(a_cache_goes_round_in_a_run_and_no_further) {
  LS_SPEC("E133 E134");
  static const ls_estimator_mode modes[] = {LS_MODE_TRAIN, LS_MODE_EVAL};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    for (size_t k = 0; k < LS_COUNT_OF(modes); ++k) {
      programs p;
      cached c = {.batch = 0};
      linear_program_begin(&p, &c.m,
                           (programs_options){.mode = modes[k],
                                              .replicas = counts[i],
                                              .model = cache_model,
                                              .user = &c,
                                              .cache = first_cache,
                                              .replica_0_loss = true});
      assert_int_equal(c.batch, PROGRAMS_ROWS);
      int64_t at = 0;
      for (int steps = 1; steps < 4; ++steps) {
        double wanted = 0, total = 0;
        for (int s = 0; s < steps; ++s)
          programs_put_all(&p, at + s);
        run(&p, steps);
        for (int s = 1; s <= steps; ++s) {
          wanted = cache_of(&p, at, s, 0);
          total += wanted;
        }
        if (modes[k] == LS_MODE_EVAL) wanted = total / steps;
        assert_true(fabs(programs_number(&p, 0) - wanted) < 1e-3 * wanted);
        at += steps;
      }
      end(&p, (job *)&c);
    }
}

// Each replica has its own.
TEST(a_cache_is_a_replicas_own) {
  LS_SPEC("E133");
  programs p;
  cached c = {.batch = 0};
  float each[PROGRAMS_MOST];
  linear_program_begin(&p, &c.m,
                       (programs_options){.mode = LS_MODE_TRAIN,
                                          .replicas = 8,
                                          .model = cache_model,
                                          .user = &c,
                                          .cache = first_cache});
  for (int s = 0; s < 3; ++s)
    programs_put_all(&p, s);
  run(&p, 3);
  for (int r = 0; r < 8; ++r)
    each[r] = (float)cache_of(&p, 0, 3, r);
  assert_true((float)programs_number(&p, 0) ==
              canonical_sum(each, 8) * (1.0f / 8));
  end(&p, (job *)&c);
}

// Of the batch of all, also where each replica is given that.
TEST(a_cache_is_for_a_replicas_share) {
  LS_SPEC("E133");
  for (int broadcast = 0; broadcast < 2; ++broadcast) {
    cached c = {.batch = 0};
    int64_t all = 0, whole = 0;
    LS_OWN_BEGUN(programs, p, programs_begin,
                 (programs_options){.mode = LS_MODE_TRAIN,
                                    .replicas = 3,
                                    .tpu.per_host_input =
                                        broadcast ? LS_INPUT_BROADCAST
                                                  : LS_INPUT_PER_HOST_V1,
                                    .model = cache_model,
                                    .user = &c,
                                    .cache = first_cache});
    whole = p.calls.plan->batch_size.value;
    all = p.calls.plan->model_batch_size.value * (broadcast ? 1 : 3);
    assert_int_equal(all, whole);
    ls_status_free(programs_try(&p));
    assert_int_equal(c.batch, whole / 3);
  }
}

TEST(a_cache_of_another_form_is_refused) {
  LS_SPEC("E133");
  static const char *const says[][2] = {{"2 tensors", "has 1"},
                                        {"tensor 1 of the cache is i64", "f32"},
                                        {"2 tensors", "has 3"}};
  for (int wrong = 1; wrong < 4; ++wrong)
    for (int k = 0; k < 2; ++k) {
      cached c = {.wrong = wrong};
      LS_OWN_BEGUN(programs, p, programs_begin,
                   (programs_options){.mode = LS_MODE_TRAIN,
                                      .replicas = 3,
                                      .model = cache_model,
                                      .user = &c,
                                      .cache = first_cache});
      const size_t before = ls_graph_num_ops(p.graph);
      expect_status(programs_try(&p), LS_INVALID_ARGUMENT, says[wrong - 1][k]);
      assert_true(ls_graph_num_ops(p.graph) <= before + 3);
    }
}

// ---- What is captured ------------------------------------------------------
TEST(what_is_captured_is_captured_once_and_read_then) {
  LS_SPEC("E138");
  ls_captured captured = {0};
  void *value = NULL;
  int thing = 0;
  expect_status(ls_captured_get(&captured, "the spec", &value),
                LS_FAILED_PRECONDITION, "InternalError");
  expect_ok(ls_captured_set(&captured, "the spec", &thing));
  expect_status(ls_captured_set(&captured, "the spec", &thing),
                LS_FAILED_PRECONDITION, "InternalError");
  expect_ok(ls_captured_get(&captured, "the spec", &value));
  assert_ptr_equal(value, &thing);
  // The spec of a model is one: what it has is read behind the program.
  programs p;
  job j;
  begin(&p, &j, 3, (programs_options){0});
  assert_non_null(p.program.spec);
  assert_int_equal(j.calls, 1);
  end(&p, &j);
}
