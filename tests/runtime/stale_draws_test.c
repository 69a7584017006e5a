// SPDX-License-Identifier: Apache-2.0
//
// A run that begins again, as a variable has got its first value while it
// waited, draws by the number that it had: no two runs draw the same numbers,
// and none are left out.
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include "lockstep/host.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/values.h"

// ---- A write that others wait for ------------------------------------------
static struct { sem_t begun, may_end; } gate;

static ls_status start_slowly(ls_host_call *call) {
  sem_post(&gate.begun);
  sem_wait(&gate.may_end);
  *(float *)call->outputs[0] = 1;
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel slow_kernel = {.name = "slow",
                                           .infer = infer_like_first,
                                           .start = start_slowly,
                                           .flags = LS_HOST_INLINE};

static ls_tensor write_slowly(ls_variable *variable) {
  const ls_tensor zero = ls_scalar(LS_DTYPE_F32, 0);
  return ls_variable_assign(
      variable,
      ls_op_output(ls_host_call_add(&slow_kernel, NULL, &zero, 1), 0));
}

static ls_tensor draw(void) {
  return ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
}

static ls_tensor is_initialized(ls_variable *variable) {
  return ls_convert(ls_variable_is_initialized(variable, NULL), LS_DTYPE_F32);
}

// A variable that has no value until it is written.
static ls_variable *valueless(bool in_graph) {
  ls_variable *made = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.name = "v",
                                                      .no_value = !in_graph,
                                                      .dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR},
                               &made));
  return made;
}

// ---- The runs --------------------------------------------------------------
// Ways to run, with their user's data: `looks` draws and looks at the variable.
typedef struct ways {
  void *(*writes)(void *self);
  void *(*looks)(void *self);
  float (*draws)(void *self);
  float looked, initialized;
} ways;

// Draws three numbers: one that begins again, one meanwhile, one behind.
static void draw_around_a_write(ways *w, float numbers[3]) {
  pthread_t writer, looker;
  sem_init(&gate.begun, 0, 0);
  sem_init(&gate.may_end, 0, 0);
  assert_int_equal(pthread_create(&writer, NULL, w->writes, w), 0);
  sem_wait(&gate.begun);
  assert_int_equal(pthread_create(&looker, NULL, w->looks, w), 0);
  usleep(20000);  // It waits for the writer, most probably.
  numbers[1] = w->draws(w);
  sem_post(&gate.may_end);
  pthread_join(writer, NULL);
  pthread_join(looker, NULL);
  assert_true(w->initialized == 1);
  numbers[0] = w->looked;
  numbers[2] = w->draws(w);
  sem_destroy(&gate.begun);
  sem_destroy(&gate.may_end);
}

// Expects the same numbers, in any order.
static void expect_same(const float *numbers, const float *wanted) {
  for (int i = 0; i < 3; ++i) {
    int found = 0;
    for (int k = 0; k < 3; ++k)
      found += numbers[k] == wanted[i];
    assert_int_equal(found, 1);
  }
}

static float item_at(ls_nest results, size_t index) {
  return *(const float *)ls_nest_data(results, index);
}

// ---- Sessions --------------------------------------------------------------
typedef struct fetching {
  ways ways;
  ls_session *session;
  ls_tensor written, drawn, initialized;
} fetching;

static void *run_write(void *self) {
  const fetching *f = self;
  ls_nest_release(session_results(f->session, ls_leaf(f->written)));
  return NULL;
}

static float run_draw(void *self) {
  const fetching *f = self;
  LS_OWN(ls_nest, results) = session_results(f->session, ls_leaf(f->drawn));
  return item_at(results, 0);
}

static void *run_look(void *self) {
  fetching *f = self;
  LS_OWN(ls_nest, fetches) =
      LS_LIST(ls_leaf(f->drawn), ls_leaf(f->initialized));
  LS_OWN(ls_nest, results) = session_results(f->session, fetches);
  f->ways.looked = item_at(ls_nest_item(results, 0), 0);
  f->ways.initialized = item_at(ls_nest_item(results, 1), 0);
  return NULL;
}

TEST(a_session_run_that_begins_again_keeps_its_number) {
  fetching f = {.ways = {run_write, run_look, run_draw, 0, 0}};
  float numbers[3], wanted[3];
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_variable, variable) = NULL;
  {
    LS_GRAPH_SCOPE(graph);
    variable = valueless(true);
    f.drawn = draw();
    f.initialized = is_initialized(variable);
    f.written = write_slowly(variable);
  }
  f.session = session_of(graph);
  for (int i = 0; i < 3; ++i)
    wanted[i] = run_draw(&f);
  ls_session_destroy(f.session);
  f.session = session_of(graph);
  draw_around_a_write(&f.ways, numbers);
  ls_session_destroy(f.session);
  expect_same(numbers, wanted);
}

// ---- Functions -------------------------------------------------------------
typedef struct calling {
  ways ways;
  ls_function *writer, *drawer;
} calling;

static ls_nest do_write(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(write_slowly(user));
}

// Looks at the variable if the argument is 1.
static ls_nest do_draw(ls_nest args, void *user) {
  const bool looks = ls_nest_number(ls_nest_item(args, 0)) == 1;
  return LS_LIST(ls_leaf(draw()), ls_leaf(looks ? is_initialized(user)
                                                : ls_scalar(LS_DTYPE_F32, 0)));
}

static ls_nest call_drawer(const calling *c, bool looks) {
  LS_OWN(ls_nest, args) = LS_LIST(ls_nest_i64(looks));
  return call_results(c->drawer, args);
}

static void *call_write(void *self) {
  const calling *c = self;
  ls_nest_release(call_results(c->writer, ls_none()));
  return NULL;
}

static float call_draw(void *self) {
  LS_OWN(ls_nest, results) = call_drawer(self, false);
  return item_at(ls_nest_item(results, 0), 0);
}

static void *call_look(void *self) {
  calling *c = self;
  LS_OWN(ls_nest, results) = call_drawer(c, true);
  c->ways.looked = item_at(ls_nest_item(results, 0), 0);
  c->ways.initialized = item_at(ls_nest_item(results, 1), 0);
  return NULL;
}

TEST(a_call_that_begins_again_keeps_its_number) {
  float numbers[3], wanted[3];
  LS_OWN(ls_variable, variable) = valueless(false);
  calling c = {.ways = {call_write, call_look, call_draw, 0, 0},
               .writer = unnamed_function(do_write, variable),
               .drawer = unnamed_function(do_draw, variable)};
  for (int i = 0; i < 3; ++i)
    wanted[i] = call_draw(&c);
  ls_function_release(c.drawer);
  c.drawer = unnamed_function(do_draw, variable);
  draw_around_a_write(&c.ways, numbers);
  ls_function_release(c.writer);
  ls_function_release(c.drawer);
  expect_same(numbers, wanted);
}
