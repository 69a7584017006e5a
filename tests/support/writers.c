// SPDX-License-Identifier: Apache-2.0
#include "support/writers.h"
#include "base/memory/own.h"

#include <string.h>

// ---- The step --------------------------------------------------------------
static ls_nest build_step(ls_nest args, void *user) {
  (void)args;
  const writer *w = user;
  ls_tensor by = ls_scalar(LS_DTYPE_F32, 1);
  if (w->looks_at != NULL)
    by = ls_add(
        by, ls_mul_scalar(
                ls_reduce_sum(ls_variable_read(w->looks_at), LS_ALL_AXES), 0));
  const ls_shape shape = ls_tensor_shape(ls_variable_read(w->value));
  const ls_tensor value =
      ls_variable_assign_add(w->value, ls_broadcast(by, shape));
  ls_op after = ls_tensor_op(value);
  if (w->kernel != NULL) {
    LS_CONTROL_SCOPE(&after, 1);
    after = ls_host_call_add(w->kernel, NULL, NULL, 0);
  }
  LS_CONTROL_SCOPE(&after, 1);
  const ls_tensor steps =
      ls_variable_assign_add(w->steps, ls_scalar(LS_DTYPE_F32, 1));
  return LS_LIST(ls_leaf(steps), ls_nest_op(after));
}

// Results that are left to the run are not made.
static ls_nest call_step(ls_nest args, void *user) {
  LS_OWN(ls_nest, made) = build_step(args, user);
  return ls_nest_retain(ls_nest_item(made, 0));
}

static void make_variables(writer *w, int64_t size) {
  LS_OWN(ls_array, zeros) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(size), &zeros));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "value", .initial_array = zeros},
      &w->value));
  w->steps = variable_of("steps", LS_DTYPE_F32, LS_SCALAR, (double[]){0});
}

static void build_session(writer *w, int64_t size, const writer *with) {
  ls_op init = {0};
  if (with == NULL) expect_ok(ls_graph_create("g", &w->graph));
  {
    LS_GRAPH_SCOPE(with == NULL ? w->graph : with->graph);
    make_variables(w, size);
    w->fetches = build_step(ls_none(), w);
    init = ls_global_initializer();
  }
  if (with == NULL)
    expect_ok(ls_session_create(w->graph, &w->session));
  else
    w->session = with->session;
  ls_nest none = ls_none();
  expect_ok(ls_session_run(w->session, ls_nest_op(init), NULL, 0, &none));
}

void writer_init(writer *w, way_to_write way, int64_t size,
                 const writer *with) {
  w->way = way;
  if (way == IN_SESSION) {
    build_session(w, size, with);
    return;
  }
  make_variables(w, size);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = call_step, .user = w}, &w->function));
}

void writer_deinit(writer *w) {
  ls_nest_release(w->fetches);
  ls_function_release(w->function);
  if (w->graph != NULL) ls_session_destroy(w->session);
  ls_variable_release(w->value);
  ls_variable_release(w->steps);
  ls_graph_destroy(w->graph);
}

static ls_status step_in_eager(writer *w) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  LS_OWN(ls_nest, made) = build_step(ls_none(), w);
  const ls_status status = ls_tensor_status(ls_nest_tensor(made, 0));
  ls_status_free(ls_frame_end(NULL));
  return status;
}

ls_status writer_step(writer *w) {
  ls_nest result = ls_none();
  if (w->way == IN_EAGER) return step_in_eager(w);
  const ls_status status =
      w->way == IN_FUNCTION
          ? ls_function_call(w->function, ls_none(), &result)
          : ls_session_run(w->session, w->fetches, NULL, 0, &result);
  ls_nest_release(result);
  return status;
}

// ---- Values ----------------------------------------------------------------
ls_status writer_read(const writer *w, ls_variable *variable,
                      ls_array **out_array) {
  return w->way == IN_SESSION
             ? ls_session_variable_value(w->session, variable, out_array)
             : ls_variable_value(variable, out_array);
}

double whole_value(const ls_array *array) {
  const char *data = ls_array_data(array);
  const size_t size = ls_array_size(array);
  return memcmp(data, data + 4, size - 4) == 0 ? ls_array_f64(array, 0) : -1;
}

double writer_value(const writer *w, ls_variable *variable) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(writer_read(w, variable, &array));
  return whole_value(array);
}

// ---- Threads ---------------------------------------------------------------
static void *write_steps(void *user) {
  writing *w = user;
  while (!__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE) &&
         (w->steps == 0 || w->done < w->steps)) {
    const ls_status status = writer_step(w->writer);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      __atomic_store_n(&w->failed, true, __ATOMIC_RELEASE);
      break;
    }
    __atomic_fetch_add(&w->done, 1, __ATOMIC_RELEASE);
  }
  return NULL;
}

void writing_begin(writing *w, writer *of, int steps) {
  *w = (writing){.writer = of, .steps = steps};
  assert_int_equal(pthread_create(&w->thread, NULL, write_steps, w), 0);
}

void writing_end(writing *w) {
  if (w->steps == 0) __atomic_store_n(&w->stop, true, __ATOMIC_RELEASE);
  pthread_join(w->thread, NULL);
  assert_false(w->failed);
}
