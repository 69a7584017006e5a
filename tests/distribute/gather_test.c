// SPDX-License-Identifier: Apache-2.0
//
// Gathering across replicas.
#include "lockstep/object.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"

#include "distribute/own.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest per_replica(ls_tensor a, ls_tensor b) {
  const ls_nest items[] = {ls_leaf(a), ls_leaf(b)};
  return ls_nest_distributed(LS_PER_REPLICA, items, 2);
}

static void keep_slices(ls_object *object) { (void)object; }
static const ls_object_type slices_type = {.name = "slices",
                                           .destroy = keep_slices};

TEST(parts_are_gathered_in_replica_order) {
  LS_SPEC("V194 M132");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_nest value =
      per_replica(eager_vector(LS_DTYPE_F32, (double[]){1, 2, 3}, 3),
                  eager_vector(LS_DTYPE_F32, (double[]){4}, 1));
  ls_nest made = ls_none();
  expect_ok(ls_strategy_gather(strategy, value, 0, &made));
  expect_eager_vector(made, (double[]){1, 2, 3, 4}, 4);
  const ls_nest x = ls_leaf(scalar_of(3));
  expect_ok(ls_strategy_gather(strategy, x, 0, &made));
  assert_true(ls_nest_is_same(made, x));
  for (int axis = -1; axis < 2; axis += 2)
    expect_status(ls_strategy_gather(strategy, value, axis, &made),
                  LS_INVALID_ARGUMENT, axis < 0 ? "axis -1" : "axis 1");
  ls_nest_release(value);
  ls_variable *rows = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32, .shape = LS_SHAPE(2)},
        &rows));
  }
  const ls_nest whole = ls_nest_variable(rows);
  expect_ok(ls_strategy_gather(strategy, whole, 0, &made));
  expect_eager_vector(made, (double[]){0, 0, 0, 0}, 4);
  ls_nest_release(whole);
  ls_variable_release(rows);
  ls_object slices[2];
  for (size_t i = 0; i < 2; ++i)
    ls_object_init(&slices[i], &slices_type);
  const ls_nest sparse[] = {ls_nest_object(LS_KIND_SLICES, &slices[0]),
                            ls_nest_object(LS_KIND_SLICES, &slices[1])};
  const ls_nest both = ls_nest_distributed(LS_PER_REPLICA, sparse, 2);
  expect_status(ls_strategy_gather(strategy, both, 0, &made), LS_UNIMPLEMENTED,
                "gather of IndexedSlices");
  ls_nest_release(both);
  const ls_tensor four = eager_vector(LS_DTYPE_F32, (double[]){1, 2, 3, 4}, 4);
  const struct {
    ls_tensor a, b;
    const char *says;
  } wrong[] = {
      {scalar_of(1), scalar_of(2), "scalars"},
      {four, ls_reshape(four, LS_SHAPE(2, 2)), "replica 1 f32[2,2]"},
      {ls_reshape(four, LS_SHAPE(2, 2)), ls_reshape(four, LS_SHAPE(4, 1)),
       "gather along axis 0: replica 0 has f32[2,2], replica 1 f32[4,1]"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); ++i) {
    LS_OWN(ls_nest, parts) = per_replica(wrong[i].a, wrong[i].b);
    expect_status(ls_strategy_gather(strategy, parts, 0, &made),
                  LS_INVALID_ARGUMENT, wrong[i].says);
  }
}

TEST(complex_parts_are_gathered) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const float values[] = {1, -2, 3, 4};
  ls_tensor parts[2];
  for (size_t i = 0; i < 2; ++i) {
    LS_OWN(ls_array, part) = NULL;
    expect_ok(ls_array_create_copy(LS_DTYPE_C64, LS_SHAPE(1), &values[2 * i],
                                   &part));
    parts[i] = ls_constant(part);
  }
  LS_OWN(ls_nest, value) = per_replica(parts[0], parts[1]);
  LS_OWN(ls_array, gathered) = NULL;
  ls_nest made = ls_none();
  expect_ok(ls_strategy_gather(strategy, value, 0, &made));
  expect_ok(ls_tensor_value(made.as.tensor, &gathered));
  assert_memory_equal(ls_array_data(gathered), values, sizeof(values));
}

TEST(the_order_is_that_of_the_replicas_whatever_that_of_the_parts) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  static const int orders[][3] = {{0, 1, 2}, {1, 0, 2}, {2, 1, 0}, {1, 2, 0}};
  for (size_t k = 0; k < 4; ++k) {
    const char *all[3], *devices[3];
    size_t count = 0;
    ls_nest items[3], made = ls_none();
    expect_ok(ls_strategy_worker_devices(strategy, all, 3, &count));
    for (int i = 0; i < 3; ++i) {
      const double r = orders[k][i];
      devices[i] = all[orders[k][i]];
      items[i] = ls_leaf(eager_vector(LS_DTYPE_F32, &r, 1));
    }
    LS_OWN(ls_nest, value) =
        ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 3);
    expect_ok(ls_strategy_gather(strategy, value, 0, &made));
    expect_eager_vector(made, (double[]){0, 1, 2}, 3);
  }
}

TEST(sizes_that_are_not_known_yet_are_gathered) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor known = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(1, 3), "k"),
                    other = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(1, 4), "o"),
                    late = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, -1), "l"),
                    any = ls_placeholder(LS_DTYPE_F32, LS_SHAPE_UNKNOWN, "a");
    const ls_nest parts[] = {per_replica(known, late), per_replica(late, known),
                             per_replica(any, known), per_replica(known, any)};
    ls_nest made = ls_none();
    for (size_t i = 0; i < 4; ++i) {
      expect_ok(ls_strategy_gather(strategy, parts[i], 0, &made));
      ls_nest_release(made);
      ls_nest_release(parts[i]);
    }
    LS_OWN(ls_nest, wrong) = per_replica(known, other);
    expect_status(ls_strategy_gather(strategy, wrong, 0, &made),
                  LS_INVALID_ARGUMENT, "replica 0 has f32[1,3]");
  }
  expect_ok(ls_graph_take_error(graph));
}
