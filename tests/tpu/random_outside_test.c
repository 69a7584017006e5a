// SPDX-License-Identifier: Apache-2.0
//
// Where ops of replicated computations run changes no bit: each op of the
// conformance cases, and random programs, with random ops put outside. And
// clusters of gradients are those that their rules say; and clusters in loops
// and branches do what they do op by op.
//
// A few in each run of the tests; LS_TEST_OUTSIDE=500 tries so many programs,
// graphs with gradients, and a tenth as many rounds of each case, from number
// LS_TEST_SEED on.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "graph/gather/gather.h"
#include "lockstep/gradients.h"
#include "support/computation.h"
#include "support/draw.h"
#include "support/op_case.h"
#include "support/outside.h"
#include "support/outside_flows.h"
#include "support/random_ways.h"
#include "support/sanitizer.h"
#include "support/spec.h"

enum { REPLICAS = 2, MOST_RESULTS = 16, FEW_PROGRAMS = LS_SANITIZED ? 3 : 20 };

static int how_many(int few) {
  return int_from_environment("LS_TEST_OUTSIDE", few);
}
static uint64_t first_seed(void) {
  return (uint64_t)int_from_environment("LS_TEST_SEED", 1);
}
static bool tells(void) { return getenv("LS_TEST_OUTSIDE") != NULL; }

// ---- Conformance cases ------------------------------------------------------
// The operand of replica r: turned by r elements, so that replicas differ.
static ls_array *operand_of(const ls_array *array, size_t r) {
  ls_array *made = NULL;
  const ls_shape shape = ls_array_shape(array);
  const size_t item = ls_dtype_size(ls_array_dtype(array));
  const size_t count = (size_t)ls_shape_num_elements(shape);
  expect_ok(ls_array_create(ls_array_dtype(array), shape, &made));
  for (size_t i = 0; i < count; ++i)
    memcpy((char *)ls_array_mutable_data(made) + i * item,
           (const char *)ls_array_data(array) + (i + r) % count * item, item);
  return made;
}

static ls_nest operands_of(const trial *t, size_t r) {
  ls_nest leaves[TRIAL_OPERANDS];
  for (size_t i = 0; i < t->count; ++i) {
    LS_OWN(ls_array, array) = operand_of(t->operand[i], r);
    leaves[i] = ls_leaf(ls_constant(array));
  }
  return ls_nest_sequence(LS_KIND_LIST, leaves, t->count);
}

// The case's results in a list; those that differ in structure are flat.
static ls_nest call_case(ls_nest args, void *user) {
  ls_tensor xs[TRIAL_OPERANDS];
  ls_nest leaves[MOST_RESULTS];
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    xs[i] = ls_nest_tensor(args, i);
  const ls_nest made = trial_make(user, xs);
  if (ls_nest_is_failed(made)) return made;
  const size_t count = ls_nest_flatten(made, leaves, MOST_RESULTS);
  for (size_t i = 0; i < count; ++i)
    ls_nest_retain(leaves[i]);
  ls_nest_release(made);
  return ls_nest_sequence(LS_KIND_LIST, leaves, count);
}

typedef struct outcome {
  ls_status status;
  ls_nest results;
  size_t num_outside;
} outcome;

static outcome run_case(trial *t, uint64_t outside) {
  outcome out = {.results = ls_none()};
  ls_nest outputs = ls_none();
  computation c;
  computation_open(&c);
  const ls_nest inputs =
      LS_LIST(operands_of(t, 0), operands_of(t, REPLICAS - 1));
  out.status = ls_replicate(call_case, t, inputs, NULL, &outputs);
  if (outside != 0) out.num_outside = put_some_outside(c.graph, outside);
  if (ls_status_is_ok(out.status))
    out.status = ls_session_create(c.graph, &c.session);
  if (ls_status_is_ok(out.status))
    out.status = ls_session_run(c.session, outputs, NULL, 0, &out.results);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  if (ls_status_is_ok(out.status)) {
    computation_close(&c);
  } else {
    ls_session_destroy(c.session);
    ls_scope_end(&c.scope);
    ls_graph_destroy(c.graph);
  }
  return out;
}

static void outcome_drop(outcome *out) {
  ls_status_free(out->status);
  ls_nest_release(out->results);
}
LS_OWNED_STRUCT(outcome, outcome_drop)

static bool same_bytes(ls_nest a, ls_nest b) {
  ls_nest x[REPLICAS * MOST_RESULTS], y[REPLICAS * MOST_RESULTS];
  const size_t count = ls_nest_flatten(a, x, LS_COUNT_OF(x));
  if (ls_nest_flatten(b, y, LS_COUNT_OF(y)) != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_array *p = ls_nest_as_array(x[i]), *q = ls_nest_as_array(y[i]);
    if (ls_array_dtype(p) != ls_array_dtype(q) ||
        !ls_shape_equal(ls_array_shape(p), ls_array_shape(q)) ||
        memcmp(ls_array_data(p), ls_array_data(q), ls_array_size(p)) != 0)
      return false;
  }
  return true;
}

typedef struct tally {
  size_t trials, refused, outside;
} tally;

static void check_case(const op_case *row, ls_dtype dtype, int round,
                       loop_random *random, tally *all) {
  trial t;
  trial_init(&t, row, dtype, round, random);
  const uint64_t subset = 1 + loop_random_bits(random);
  if (t.variable == NULL) {
    LS_OWN(outcome, plain) = run_case(&t, 0);
    LS_OWN(outcome, marked) = run_case(&t, subset);
    const char *name = ls_op_table[row->op].name;
    if (ls_status_code(plain.status) != ls_status_code(marked.status))
      fail_msg("%s of %s, round %d: '%s' and, outside, '%s'", name,
               ls_dtype_name(dtype), round, ls_status_message(plain.status),
               ls_status_message(marked.status));
    if (ls_status_is_ok(plain.status) &&
        !same_bytes(plain.results, marked.results))
      fail_msg("%s of %s, round %d: other bytes outside", name,
               ls_dtype_name(dtype), round);
    ++all->trials;
    all->refused += !ls_status_is_ok(plain.status);
    all->outside += marked.num_outside;
  }
  trial_deinit(&t);
}

// In a thin run each case with one of its dtypes.
TEST(cases_give_the_same_bytes_outside) {
  LS_SPEC("O66");
  const int rounds = tells() ? (how_many(0) + 9) / 10 : 1;
  loop_random random = {first_seed()};
  tally all = {0};
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row) {
      int64_t skip = loop_random_between(&random, 0, 3);
      for (ls_dtype dtype = LS_DTYPE_F64; dtype <= LS_DTYPE_BOOL; ++dtype) {
        if ((row->dtypes >> dtype & 1U) == 0) continue;
        const bool is_last = row->dtypes >> dtype == 1U;
        if (!tells() && skip-- != 0 && !(is_last && skip >= 0)) continue;
        for (int round = 0; round < rounds; ++round)
          check_case(row, dtype, round, &random, &all);
      }
    }
  assert_true(all.refused < all.trials / 4);
  if (tells())
    printf("%zu trials of cases, %zu refused in both ways, %zu ops outside\n",
           all.trials, all.refused, all.outside);
}

// ---- Random programs -------------------------------------------------------
TEST(random_programs_give_the_same_bytes_outside) {
  LS_SPEC("O66");
  size_t failed = 0, compared = 0, outside = 0;
  const int count = how_many(FEW_PROGRAMS);
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first_seed() + (uint64_t)i;
    const random_program program = random_program_draw(seed);
    random_way way = {"TPU",
                      RANDOM_STRATEGY_SESSION,
                      .threads = 1 + i % 2,
                      .replicas = 2 + i % 2,
                      .fetch = RANDOM_FETCH_ALL,
                      .is_tpu = true};
    char text[400] = "";
    random_outcome *plain = random_run(&program, &way);
    way.outside = seed;
    random_outcome *marked = random_run(&program, &way);
    if (plain->code != marked->code)
      fail_msg("program %" PRIu64 ": '%s' and, outside, '%s'", seed,
               plain->message, marked->message);
    if (random_compare(plain, marked, text, sizeof(text), &compared) > 0)
      fail_msg("program %" PRIu64 ", %zu ops outside: %s", seed,
               marked->num_outside, text);
    failed += plain->code != LS_OK;
    if (getenv("LS_TEST_FAILURES") != NULL && plain->code != LS_OK)
      printf("program %" PRIu64 ": %s\n", seed, plain->message);
    outside += marked->num_outside;
    random_outcome_destroy(plain);
    random_outcome_destroy(marked);
  }
  assert_true(outside > 0);
  assert_true(failed * 4 < (size_t)count);
  if (tells())
    printf("%d programs, %zu refused in both ways, %zu arrays compared, %zu "
           "ops outside\n",
           count, failed, compared, outside);
}

// ---- Clusters of gradients -------------------------------------------------
enum { MOST_VALUES = 24, MOST_CALLS = 3 };

typedef struct drawing {
  loop_random random;
  bool in_gradients;  // A function outside may take gradients itself.
  size_t checked;
} drawing;

static ls_tensor draw_op(drawing *d, ls_tensor x, ls_tensor y) {
  switch (loop_random_between(&d->random, 0, 5)) {
  case 0:
    return ls_mul(x, y);
  case 1:
    return ls_tanh(x);
  case 2:
    return ls_add(ls_mul_scalar(x, 0.5), y);
  case 3:
    return ls_sub(x, ls_sigmoid(y));
  case 4:
    return ls_neg(ls_mul(x, x));
  default:
    return ls_div(x, ls_add_scalar(ls_mul(y, y), 1));
  }
}

static ls_tensor gradient_of(ls_tensor y, ls_tensor x) {
  const ls_nest ys = ls_leaf(y), xs = ls_leaf(x);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&ys, 1, &xs, 1,
                         &(ls_gradient_options){.colocate_with_ops = true},
                         &made));
  return made.kind == LS_KIND_TENSOR ? made.as.tensor : ls_mul_scalar(x, 0);
}

static ls_nest some_ops(ls_nest args, void *user) {
  drawing *d = user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  ls_tensor z = draw_op(d, x, y);
  if (loop_random_between(&d->random, 0, 1) == 1) z = draw_op(d, z, x);
  if (loop_random_between(&d->random, 0, 3) == 0) z = gradient_of(z, x);
  return ls_leaf(z);
}

// What the rules say of an op that is colocated with ops of these clusters, one
// of which it must follow. "": it is compiled.
static void cluster_after(const char *of, const char *uid, char *out,
                          size_t size) {
  const char *last = of == NULL ? NULL : strrchr(of, '.');
  if (of == NULL)
    snprintf(out, size, "%s", "");
  else if (last != NULL && strcmp(last + 1, uid) == 0)
    snprintf(out, size, "%s", of);
  else
    snprintf(out, size, "%s.%s", of, uid);
}

// Whether an op is of a group: its first one, or beside it.
static bool is_of_group(ls_graph *graph, ls_node *node, const char *group) {
  static const char before[] = "loc:@";
  const ls_attr *attr = ls_node_attr_named(node, "_class");
  assert_int_equal(strncmp(group, before, strlen(before)), 0);
  for (size_t k = 0; attr != NULL && k < attr->as.strings.count; ++k)
    if (strcmp(attr->as.strings.items[k], group) == 0) return true;
  return strcmp(ls_node_name(graph, node), group + strlen(before)) == 0;
}

// Whether `got` is where an op of the group that was made before puts it.
static bool follows(ls_graph *graph, ls_op op, const char *group,
                    const char *uid, const char *got) {
  for (size_t i = 0; i < graph->num_nodes && graph->nodes[i]->id < op.id; ++i) {
    char wanted[400];
    if (!is_of_group(graph, graph->nodes[i], group)) continue;
    cluster_after(ls_node_mark(graph->nodes[i], LS_MARK_OUTSIDE), uid, wanted,
                  sizeof(wanted));
    if (strcmp(got == NULL ? "" : got, wanted) == 0) return true;
  }
  return false;
}

// Whether an op is where one of those that it is colocated with puts it. -1: it
// is colocated with none.
static int is_followed(ls_graph *graph, ls_op op, const char *uid,
                       const char *got) {
  const ls_attr *attr = NULL;
  const ls_status status = ls_op_attr(op, "_class", &attr);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return -1;
  }
  for (size_t k = 0; k < attr->as.strings.count; ++k)
    if (follows(graph, op, attr->as.strings.items[k], uid, got)) return 1;
  return 0;
}

// Whether it is where an op puts it that gives its gradient on as it is.
static bool is_passed_on(ls_graph *graph, const char *uid, const char *got) {
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    char wanted[400];
    if (node->type != LS_OP_ADD && node->type != LS_OP_SUB &&
        node->type != LS_OP_ADD_N && node->type != LS_OP_IDENTITY)
      continue;
    cluster_after(ls_node_mark(node, LS_MARK_OUTSIDE), uid, wanted,
                  sizeof(wanted));
    if (strcmp(got == NULL ? "" : got, wanted) == 0) return true;
  }
  return false;
}

// A sum of gradients is made for the op whose results they are of: where what
// uses it is, which says so unless that op gives it on as it is. One that
// nobody uses is of `x` (O58).
static bool is_sum_in_place(ls_graph *graph, ls_op sum, const char *uid,
                            const char *got, ls_tensor x) {
  bool is_used = false;
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    for (uint32_t k = 0; k < node->num_inputs; ++k) {
      if (ls_ref_id(node->inputs[k]) != sum.id) continue;
      const int followed =
          is_followed(graph, (ls_op){graph, node->id}, uid, got);
      if (followed == 1) return true;
      is_used = is_used || followed == 0;
    }
  }
  char wanted[400];
  cluster_after(attr_text(ls_tensor_op(x), LS_MARK_OUTSIDE), uid, wanted,
                sizeof(wanted));
  if (strcmp(got == NULL ? "" : got, wanted) == 0 && !is_used) return true;
  return is_passed_on(graph, uid, got);
}

// Ops made by a call of gradients, whose names are below its scope.
static void check_clusters(drawing *d, ls_graph *graph, size_t first,
                           ls_tensor x) {
  const char *name = ls_op_name(ls_graph_op(graph, first));
  const char *at = strstr(name, "gradients");
  assert_non_null(at);
  char uid[200];
  snprintf(uid, sizeof(uid), "%.*s/uid",
           (int)((size_t)(at - name) + strcspn(at, "/")), name);
  for (size_t i = first; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    const char *got = attr_text(op, LS_MARK_OUTSIDE);
    const int followed = is_followed(graph, op, uid, got);
    if (followed < 0 && got != NULL)
      fail_msg("'%s' is in '%s' and follows no op", ls_op_name(op), got);
    if (followed == 0 && (ls_graph_node(graph, op.id)->type != LS_OP_ADD_N ||
                          !is_sum_in_place(graph, op, uid, got, x)))
      fail_msg("'%s' is in '%s', uid '%s'", ls_op_name(op),
               got == NULL ? "" : got, uid);
    ++d->checked;
  }
}

static ls_nest differentiate(ls_nest args, void *user) {
  drawing *d = user;
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  ls_tensor values[MOST_VALUES];
  size_t count = 1;
  values[0] = ls_nest_tensor(args, 0);
  const size_t ops = (size_t)loop_random_between(&d->random, 3, 10);
  while (count <= ops) {
    const int64_t last = (int64_t)count - 1;
    const ls_tensor x = values[loop_random_between(&d->random, 0, last)];
    const ls_tensor y = values[last];
    if (loop_random_between(&d->random, 0, 1) == 1) {
      values[count++] = draw_op(d, y, x);
      continue;
    }
    LS_OWN(ls_nest, pair) = LS_LIST(ls_leaf(y), ls_leaf(x));
    const ls_nest made = ls_outside_compilation(some_ops, d, pair);
    assert_int_equal(made.kind, LS_KIND_TENSOR);
    values[count++] = made.as.tensor;
  }
  ls_tensor y = values[count - 1];
  const int64_t calls = loop_random_between(&d->random, 1, MOST_CALLS);
  for (int64_t k = 0; k < calls; ++k) {
    const size_t first = ls_graph_num_ops(graph);
    const ls_tensor slope = gradient_of(y, values[0]);
    if (ls_graph_num_ops(graph) > first)
      check_clusters(d, graph, first, values[0]);
    // The next one is of this, or of the same again.
    if (loop_random_between(&d->random, 0, 1) == 1) y = slope;
    values[count++] = slope;
  }
  return LS_LIST(ls_leaf(y), ls_leaf(values[count - 1]));
}

TEST(gradients_are_in_the_clusters_that_rules_say) {
  LS_SPEC("O52 O54 O55 O56 O60");
  const int count = how_many(FEW_PROGRAMS);
  size_t checked = 0;
  for (int i = 0; i < count; ++i) {
    drawing d = {.random = {first_seed() + (uint64_t)i}};
    computation c;
    computation_open(&c);
    computation_replicate(&c, REPLICAS, differentiate, &d);
    (void)computation_output(&c, 0, 0);  // It runs.
    computation_close(&c);
    checked += d.checked;
  }
  assert_true(checked > (size_t)count);
  if (tells())
    printf("%d graphs with gradients, %zu ops checked\n", count, checked);
}

// ---- Loops and branches ----------------------------------------------------
TEST(clusters_in_loops_and_branches_do_what_rules_say_op_by_op) {
  LS_SPEC("O43 O68 O77 O78 O88 O90");
  outside_flows_tally all = {0};
  const int count = how_many(LS_SANITIZED ? 5 : 40);
  for (int i = 0; i < count; ++i)
    outside_flows_check(first_seed() + (uint64_t)i, &all);
  assert_true(all.runs > 0 && all.writes > 0);
  if (tells())
    printf("%d programs with loops and branches: %zu runs, %zu failed as they "
           "were to, %zu calls, %zu writes\n",
           count, all.runs, all.failed, all.calls, all.writes);
}
