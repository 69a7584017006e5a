// SPDX-License-Identifier: Apache-2.0
//
// Outside compilation for each part of what is cut over a replica's cores.
#include <string.h>

#include "lockstep/graph_ops.h"
#include "support/assignments.h"
#include "support/callbacks.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "tpu/own.h"

// What an annotation says of a value; see lockstep/logical_device.h.
static ls_tensor cut(ls_tensor x, const int64_t *parts, size_t rank,
                     size_t count) {
  static const int64_t cores[] = {0, 1, 2, 3};
  const ls_tensor made = ls_identity(x);
  const ls_attr attrs[] = {
      {.name = "sharding", .kind = LS_ATTR_STRING, .as.string = "tiled"},
      {.name = "tile", .kind = LS_ATTR_INTS, .as.ints = {parts, rank}},
      {.name = "devices", .kind = LS_ATTR_INTS, .as.ints = {cores, count}}};
  for (size_t i = 0; i < 3; ++i)
    expect_ok(ls_op_set_attr(ls_tensor_op(made), &attrs[i]));
  return made;
}

// ---- A mapped function ----------------------------------------------------
typedef struct mapped {
  int64_t parts[2];
  int num_calls;
  bool is_cut;
  ls_flag spmd;
} mapped;

// Marks the rows and columns it is given with their place: x - mean of the
// part.
static ls_nest center(ls_nest args, void *user) {
  mapped *m = user;
  const ls_tensor x = ls_nest_tensor(args, 0), whole = ls_nest_tensor(args, 1);
  const bool apart = m->is_cut && m->spmd != LS_FLAG_OFF;
  assert_int_equal(ls_tensor_shape(x).dim[0], apart ? 4 / m->parts[0] : 4);
  assert_int_equal(ls_tensor_shape(x).dim[1], apart ? 2 / m->parts[1] : 2);
  assert_int_equal(ls_tensor_shape(whole).rank, 0);
  ++m->num_calls;
  const ls_tensor mean = ls_reduce_mean(x, LS_ALL_AXES);
  const ls_tensor made = ls_sub(x, ls_add(mean, whole));
  const ls_attr *attr = NULL;
  expect_ok(
      ls_op_attr(ls_tensor_op(made), "_xla_map_outside_compilation", &attr));
  assert_true(attr->kind == LS_ATTR_BOOL && attr->as.i);
  assert_non_null(attr_text(ls_tensor_op(made), "_xla_outside_compilation"));
  return LS_TUPLE(ls_leaf(made), ls_leaf(ls_neg(made)));
}

// x[i][j] = (2 i + j) * the replica's number.
static ls_nest map_center(ls_nest args, void *user) {
  mapped *m = user;
  const ls_tensor r = ls_nest_tensor(args, 0);
  ls_tensor x =
      ls_reshape(ls_iota(LS_DTYPE_F32, LS_SHAPE(8), 0), LS_SHAPE(4, 2));
  x = ls_mul(x, r);
  if (m->is_cut) x = cut(x, m->parts, 2, (size_t)(m->parts[0] * m->parts[1]));
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(x), ls_leaf(r));
  const ls_nest made = ls_map_outside_compilation(center, m, given);
  if (ls_nest_is_failed(made)) return made;
  const ls_tensor back = ls_nest_tensor(made, 0);
  const ls_tensor other = ls_nest_tensor(made, 1);
  ls_nest_release(made);
  return LS_LIST(ls_leaf(back), ls_leaf(other));
}

static double expected(const mapped *m, int i, int j, double r) {
  const bool apart = m->is_cut && m->spmd != LS_FLAG_OFF;
  const int rows = apart ? (int)(4 / m->parts[0]) : 4;
  const int columns = apart ? (int)(2 / m->parts[1]) : 2;
  const int i0 = i / rows * rows, j0 = j / columns * columns;
  double sum = 0;
  for (int a = i0; a < i0 + rows; ++a)
    for (int b = j0; b < j0 + columns; ++b)
      sum += 2 * a + b;
  return (2 * i + j - sum / (rows * columns)) * r - r;
}

static ls_device_assignment *cores_of(int replicas, int cores) {
  static const int at[][2] = {{0, 0}, {0, 1}, {0, 2}, {0, 3},
                              {1, 0}, {1, 1}, {1, 2}, {1, 3}};
  LS_OWN(ls_topology, topology) = make_topology(2, 4);
  return make_assignment(topology, replicas, cores, at);
}

static void expect_mapped(mapped m, int replicas) {
  const int cores = (int)(m.parts[0] * m.parts[1]);
  LS_OWN(ls_device_assignment, assignment) = cores_of(replicas, cores);
  const ls_replicate_options options = {.assignment = assignment,
                                        .xla.spmd = m.spmd};
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs((size_t)replicas);
  expect_ok(ls_replicate(map_center, &m, inputs, &options, &c.outputs));
  // Once for each part, on that part's core.
  const bool apart = m.is_cut && m.spmd != LS_FLAG_OFF;
  assert_int_equal(m.num_calls, apart ? cores : 1);
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op_named(c.graph, "tpu_replicate_metadata"),
                       "host_compute_core", &attr));
  assert_int_equal(attr->as.strings.count, apart ? cores : 0);
  for (int k = 0; k < cores && apart; ++k) {
    char entry[] = "0:0";
    entry[0] = entry[2] = (char)('0' + k);
    assert_string_equal(attr->as.strings.items[k], entry);
  }
  expect_ok(ls_session_create(c.graph, &c.session));
  LS_OWN(ls_nest, result) = session_results(c.session, c.outputs);
  for (int r = 0; r < replicas; ++r)
    for (size_t k = 0; k < 8; ++k)
      for (size_t leaf = 0; leaf < 2; ++leaf) {
        const ls_array *array = ls_nest_as_array(
            ls_nest_item(ls_nest_item(result, (size_t)r), leaf));
        const double wanted = expected(&m, (int)k / 2, (int)k % 2, r + 1);
        assert_true(ls_array_f64(array, (int64_t)k) ==
                    (leaf == 0 ? wanted : -wanted));
      }
}

TEST(it_is_called_for_each_part_of_what_is_cut) {
  LS_SPEC("O46");
  static const int64_t tilings[][2] = {{2, 1}, {1, 2}, {2, 2}, {4, 1}};
  for (int replicas = 1; replicas <= 2; ++replicas)
    for (size_t i = 0; i < sizeof(tilings) / sizeof(*tilings); ++i) {
      mapped m = {.parts = {tilings[i][0], tilings[i][1]}, .is_cut = true};
      expect_mapped(m, replicas);
      // Where cores are not one, or nothing is cut, it is called once.
      m.spmd = LS_FLAG_OFF;
      expect_mapped(m, replicas);
      m.spmd = LS_FLAG_ON;
      m.is_cut = false;
      expect_mapped(m, replicas);
    }
}

// ---- Elsewhere, and refusals ----------------------------------------------
static ls_nest give_sum(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES));
}

typedef struct refused {
  int how;
  const char *says;
  ls_code code;
} refused;

static ls_nest map_badly(ls_nest args, void *user) {
  static const int64_t rows[] = {2, 1}, columns[] = {1, 2};
  const int how = ((const refused *)user)->how;
  const ls_tensor r = ls_nest_tensor(args, 0);
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2, 2), 1);
  ls_tensor a = cut(x, rows, 2, 2), b = cut(x, columns, 2, 2);
  if (how == 0) b = cut(x, rows, 2, 2);
  LS_OWN(ls_nest, given) = LS_TUPLE(ls_leaf(a), ls_leaf(b), ls_leaf(r));
  return ls_map_outside_compilation(how == 2   ? NULL
                                    : how == 0 ? give_sum
                                               : give_args,
                                    NULL, given);
}

TEST(what_cannot_be_put_together_is_refused) {
  static const refused rows[] = {
      {0, "result 0 is no tensor of rank 2", LS_INVALID_ARGUMENT},
      {1, "cut in different ways", LS_INVALID_ARGUMENT},
      {2, "fn is NULL", LS_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    refused row = rows[i];
    LS_OWN_BEGUN(computation, c, computation_open);
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    LS_OWN(ls_device_assignment, assignment) = cores_of(2, 2);
    expect_status(
        ls_replicate(map_badly, &row, inputs,
                     &(ls_replicate_options){.assignment = assignment},
                     &c.outputs),
        row.code, row.says);
  }
}

TEST(outside_of_computations_it_is_just_called) {
  LS_OWN_BEGUN(computation, c, computation_open);
  const ls_tensor x = f32_of(2);
  const ls_nest made = ls_map_outside_compilation(give_args, NULL, ls_leaf(x));
  assert_true(made.as.tensor.ref == x.ref);
}
