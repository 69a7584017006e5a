// SPDX-License-Identifier: Apache-2.0
//
// What is kept for later is not mistaken for something else that lies where
// its owner was. The allocator here makes that sure: it hands out the block
// that came back last.
#include "support/counted.h"
#include "support/expect.h"

#include <string.h>

#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/host.h"
#include "lockstep/object.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- The allocator ---------------------------------------------------------
// In front of each block's memory. One thread uses it.
typedef struct block {
  struct block *next;  // Of the idle ones, newest first.
  size_t size, alignment;
  void *whole;
} block;

typedef struct reusing {
  ls_allocator allocator;  // The first member: this is one.
  block *idle;
} reusing;

static block *block_of(void *memory) {
  return (block *)(void *)((char *)memory - sizeof(block));
}

static void *allocate(ls_allocator *self, size_t size, size_t alignment) {
  reusing *memory = (reusing *)self;
  for (block **at = &memory->idle; *at != NULL; at = &(*at)->next) {
    block *found = *at;
    if (found->size != size || found->alignment != alignment) continue;
    *at = found->next;
    return (char *)found + sizeof(block);
  }
  ls_allocator *base = ls_allocator_system();
  const size_t head =
      alignment > sizeof(block) ? alignment : sizeof(block) + alignment;
  char *whole =
      base->allocate(base, head + size, alignment < 16 ? 16 : alignment);
  if (whole == NULL) return NULL;
  const size_t offset = (sizeof(block) + alignment - 1) / alignment * alignment;
  void *given = whole + offset;
  *block_of(given) =
      (block){.size = size, .alignment = alignment, .whole = whole};
  return given;
}

static void release(ls_allocator *self, void *given) {
  reusing *memory = (reusing *)self;
  if (given == NULL) return;
  block *back = block_of(given);
  back->next = memory->idle;
  memory->idle = back;
}

// A current runtime on the allocator.
typedef struct fixture {
  reusing memory;
  ls_runtime *runtime, *before;
} fixture;

static void begin(fixture *f) {
  *f = (fixture){.memory = {.allocator = {allocate, release}}};
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.allocator = &f->memory.allocator, .threads = 1},
      &f->runtime));
  f->before = ls_runtime_make_current(f->runtime);
}

static void end(fixture *f) {
  ls_runtime_make_current(f->before);
  expect_ok(ls_runtime_destroy(f->runtime));
  ls_allocator *base = ls_allocator_system();
  for (block *next = NULL; f->memory.idle != NULL; f->memory.idle = next) {
    next = f->memory.idle->next;
    base->release(base, f->memory.idle->whole);
  }
}
LS_OWNED_STRUCT(fixture, end)

// ---- Strategies ------------------------------------------------------------
static ls_nest count_replicas(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_scalar_i64(LS_DTYPE_I32, ls_num_replicas()));
}

TEST(a_trace_is_not_that_of_a_strategy_that_is_gone) {
  LS_OWN_BEGUN(fixture, f, begin);
  LS_OWN(ls_function, function) = unnamed_function(count_replicas, NULL);
  const ls_strategy *first = NULL;
  LS_OWN(ls_nest, result) = ls_none();
  for (int replicas = 2; replicas < 5; ++replicas) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
    if (first == NULL) first = strategy;
    assert_ptr_equal(strategy, first);  // Else the test shows nothing.
    expect_ok(
        ls_strategy_run(strategy, ls_traced(function), ls_none(), &result));
    assert_int_equal(ls_distributed_count(result), replicas);
    const ls_nest component = ls_distributed_component(result, 0);
    assert_int_equal(ls_array_i64(ls_nest_as_array(component), 0), replicas);
  }
}

// ---- Sessions --------------------------------------------------------------
// A counter in a build graph.
typedef struct counter {
  ls_graph *graph;
  ls_variable *variable;
  ls_tensor next;
} counter;

static void counter_create(counter *out) {
  *out = (counter){0};
  expect_ok(ls_graph_create("counter", &out->graph));
  {
    LS_GRAPH_SCOPE(out->graph);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "count", .dtype = LS_DTYPE_I64},
        &out->variable));
    out->next =
        ls_variable_assign_add(out->variable, ls_scalar_i64(LS_DTYPE_I64, 1));
  }
}

// What a session's next value is, after a run of the initializer or not.
static int64_t run_counter(const counter *c, ls_session *session,
                           bool initializes) {
  LS_OWN(ls_nest, result) = ls_none();
  if (initializes)
    expect_ok(ls_session_run(session,
                             ls_nest_op(ls_variable_initializer(c->variable)),
                             NULL, 0, &result));
  expect_ok(ls_session_run(session, ls_leaf(c->next), NULL, 0, &result));
  const int64_t value = ls_array_i64(ls_nest_as_array(result), 0);
  LS_OWN(ls_array, array) = session_array(session, c->variable);
  assert_int_equal(ls_array_i64(array, 0), value);
  return value;
}

TEST(a_session_has_nothing_of_one_that_is_gone) {
  LS_OWN_BEGUN(fixture, f, begin);
  counter c;
  counter_create(&c);
  ls_session *lasting = session_of(c.graph);  // Keeps programs alive.
  assert_int_equal(run_counter(&c, lasting, true), 1);
  ls_session *gone = session_of(c.graph);
  assert_int_equal(run_counter(&c, gone, true), 1);
  assert_int_equal(run_counter(&c, gone, false), 2);
  const ls_session *place = gone;
  ls_session_destroy(gone);
  ls_session *next = session_of(c.graph);
  assert_ptr_equal(next, place);  // Else the test shows nothing.
  ls_nest result = ls_none();
  expect_status(ls_session_run(next, ls_leaf(c.next), NULL, 0, &result),
                LS_FAILED_PRECONDITION, "count");
  ls_nest_release(result);
  assert_int_equal(run_counter(&c, next, true), 1);
  assert_int_equal(run_counter(&c, lasting, false), 2);
  ls_session_destroy(next);
  ls_session_destroy(lasting);
  ls_variable_release(c.variable);
  ls_graph_destroy(c.graph);
}

TEST(sessions_that_come_and_go_leave_no_memory_behind) {
  LS_OWN(counted, memory) = counted_begin(1);
  counter c;
  counter_create(&c);
  ls_session *lasting = session_of(c.graph);
  assert_int_equal(run_counter(&c, lasting, true), 1);
  const uint64_t blocks = counted_now(&memory).live_blocks;
  for (int i = 0; i < 5; ++i) {
    ls_session *session = session_of(c.graph);
    assert_int_equal(run_counter(&c, session, true), 1);
    ls_session_destroy(session);
    assert_int_equal(counted_now(&memory).live_blocks, blocks);
  }
  ls_session_destroy(lasting);
  ls_variable_release(c.variable);
  ls_graph_destroy(c.graph);
}

// ---- Objects ---------------------------------------------------------------
// A host kernel whose result is what its state holds.
typedef struct box {
  ls_object object;
  int64_t value;
} box;

static void leave_box(ls_object *object) { (void)object; }
static const ls_object_type box_type = {.name = "box", .destroy = leave_box};

static ls_status infer_box(const ls_object *object, const ls_type *in,
                           size_t num_in, ls_type *out, size_t *num_out) {
  (void)object;
  (void)in;
  (void)num_in;
  out[0] = (ls_type){.dtype = LS_DTYPE_I64};
  *num_out = 1;
  return ls_ok();
}

static ls_status open_box(ls_host_call *call) {
  memcpy(call->outputs[0], &((const box *)call->state)->value, sizeof(int64_t));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel box_kernel = {
    .name = "open_box", .infer = infer_box, .start = open_box};

static ls_nest call_box(ls_nest args, void *user) {
  (void)args;
  const ls_op op = ls_host_call_add(&box_kernel, user, NULL, 0);
  return ls_leaf(ls_op_output(op, 0));
}

TEST(functions_that_differ_by_an_object_are_two_programs) {
  box boxes[2] = {{.value = 10}, {.value = 11}};
  ls_function *functions[2] = {NULL, NULL};
  for (size_t i = 0; i < 2; ++i) {
    ls_object_init(&boxes[i].object, &box_type);
    expect_ok(ls_function_create(
        &(ls_function_options){.call = call_box, .user = &boxes[i]},
        &functions[i]));
    LS_OWN(ls_nest, result) = call_results(functions[i], ls_none());
    assert_int_equal(ls_array_i64(ls_nest_as_array(result), 0), boxes[i].value);
  }
  ls_function_release(functions[0]);
  ls_function_release(functions[1]);
}

static ls_nest add_variable_size(ls_nest args, void *user) {
  (void)user;
  const ls_variable *variable = ls_nest_as_variable(ls_nest_item(args, 0));
  return ls_leaf(ls_scalar_i64(
      LS_DTYPE_I64, ls_shape_num_elements(ls_variable_shape(variable))));
}

// The callback looks at the argument but records no op on it.
TEST(a_trace_is_not_that_of_a_variable_that_is_gone) {
  LS_OWN_BEGUN(fixture, f, begin);
  LS_OWN(ls_function, function) = unnamed_function(add_variable_size, NULL);
  for (int64_t size = 1; size < 4; ++size) {
    ls_variable *variable = NULL;
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SHAPE(size)},
        &variable));
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_variable(variable));
    ls_variable_release(variable);
    LS_OWN(ls_nest, result) = call_results(function, args);
    assert_int_equal(ls_array_i64(ls_nest_as_array(result), 0), size);
  }
}
