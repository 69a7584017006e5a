// SPDX-License-Identifier: Apache-2.0
//
// Packing the tensors of a batch, and putting them back.
#include "distribute/cross_device/cross_device.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "runtime/own.h"
#include "support/fault.h"
#include "support/placed.h"

enum { DEVICES = 2, MOST = 18 };

static const char *const names[DEVICES] = {LOCAL_DEVICE "GPU:0",
                                           LOCAL_DEVICE "GPU:1"};

// Rows of tensors with numbers of their own, in a build graph.
typedef struct rows {
  ls_graph *graph;
  ls_device_name device_names[DEVICES];
  ls_device_set devices;
  ls_tensor items[DEVICES][MOST], out[DEVICES][MOST];
  ls_tensor_row row[DEVICES], results[DEVICES];
} rows;

typedef struct column {
  ls_dtype dtype;
  ls_shape shape;
} column;

static double number(size_t device, size_t c, int64_t k) {
  return (double)(100 * c) + (double)k + 1000 * (double)device;
}

static void begin(rows *r, const column *columns, size_t count) {
  *r = (rows){.devices = {.names = r->device_names, .count = DEVICES}};
  expect_ok(ls_graph_create("g", &r->graph));
  {
    LS_GRAPH_SCOPE(r->graph);
    for (size_t d = 0; d < DEVICES; ++d) {
      strcpy(r->device_names[d].text, names[d]);
      r->row[d] = (ls_tensor_row){r->items[d], count};
      r->results[d] = (ls_tensor_row){r->out[d], count};
      for (size_t c = 0; c < count; ++c) {
        LS_OWN(ls_array, array) = NULL;
        expect_ok(ls_array_create(columns[c].dtype, columns[c].shape, &array));
        for (int64_t k = 0; k < ls_array_num_elements(array); ++k)
          ls_array_set_f64(array, k, number(d, c, k));
        {
          LS_DEVICE_SCOPE(names[d]);
          r->items[d][c] = ls_constant(array);
        }
      }
    }
  }
}

static void end(rows *r) { ls_graph_destroy(r->graph); }
LS_OWNED_STRUCT(rows, end)

// Unpacks the pieces as they are, and expects what was packed.
static void expect_back(rows *r, const ls_packed *packed) {
  {
    LS_GRAPH_SCOPE(r->graph);
    expect_ok(ls_unpack(packed, packed->pieces, r->results));
    for (size_t d = 0; d < DEVICES; ++d)
      for (size_t c = 0; c < r->row[d].count; ++c) {
        const ls_shape was = ls_tensor_shape(r->items[d][c]);
        double numbers[64];
        const int64_t count = ls_shape_num_elements(was);
        for (int64_t k = 0; k < count; ++k)
          numbers[k] = number(d, c, k);
        assert_true(ls_shape_equal(ls_tensor_shape(r->out[d][c]), was));
        assert_int_equal(ls_tensor_dtype(r->out[d][c]),
                         ls_tensor_dtype(r->items[d][c]));
        expect_fetched(ls_leaf(r->out[d][c]), 0, numbers, (size_t)count);
      }
  }
}

static void expect_sizes(const ls_packed *packed, const int64_t *sizes,
                         size_t count) {
  for (size_t d = 0; d < DEVICES; ++d) {
    assert_int_equal(packed->pieces[d].count, count);
    for (size_t i = 0; i < count; ++i)
      assert_int_equal(ls_tensor_shape(packed->pieces[d].items[i]).dim[0],
                       sizes[i]);
  }
}

// ---- Joined and cut --------------------------------------------------------
TEST(a_batch_is_joined_and_cut) {
  LS_SPEC("M95 M96");
  static const column ten[] = {{LS_DTYPE_F32, LS_SHAPE(2, 3)},
                               {LS_DTYPE_F32, LS_SCALAR},
                               {LS_DTYPE_F32, LS_SHAPE(0)},
                               {LS_DTYPE_F32, LS_SHAPE(3)}};
  static const column four[] = {{LS_DTYPE_F32, LS_SHAPE(4)}};
  static const struct {
    const column *columns;
    size_t count;
    int64_t packs, sizes[8];
  } cases[] = {{ten, 4, 3, {3, 3, 4}},
               {ten, 4, 1, {10}},
               {four, 1, 8, {0, 0, 0, 0, 0, 0, 0, 4}}};
  for (size_t i = 0; i < 3; ++i) {
    LS_OWN(rows, r) = {0};
    LS_OWN(ls_packed, packed) = {0};
    begin(&r, cases[i].columns, cases[i].count);
    {
      LS_GRAPH_SCOPE(r.graph);
      expect_ok(
          ls_pack_joined(r.row, DEVICES, &r.devices, cases[i].packs, &packed));
    }
    expect_sizes(&packed, cases[i].sizes, (size_t)cases[i].packs);
    if (i == 0)  // In the order of the batch.
      expect_fetched(ls_leaf(packed.pieces[1].items[2]), 0,
                     (double[]){1100, 1300, 1301, 1302}, 4);
    expect_back(&r, &packed);
  }
  ls_packed packed;
  LS_OWN_BEGUN(rows, r, begin, four, 1);
  for (int64_t packs = -1; packs < 1; ++packs)
    expect_status(ls_pack_joined(r.row, DEVICES, &r.devices, packs, &packed),
                  LS_INVALID_ARGUMENT,
                  packs < 0 ? "num_packs -1" : "num_packs 0");
}

TEST(more_packs_than_memory_holds_are_refused) {
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(3)},
                                   {LS_DTYPE_F64, LS_SHAPE(3)},
                                   {LS_DTYPE_I32, LS_SHAPE(3)},
                                   {LS_DTYPE_I64, LS_SHAPE(3)}};
  // Four times the second is 0 in a size_t.
  const int64_t packs[] = {INT64_MAX, INT64_C(1) << 62};
  ls_packed packed;
  LS_OWN_BEGUN(rows, r, begin, columns, LS_COUNT_OF(columns));
  for (size_t i = 0; i < LS_COUNT_OF(packs); ++i)
    expect_status(ls_pack_joined(r.row, DEVICES, &r.devices, packs[i], &packed),
                  LS_RESOURCE_EXHAUSTED, "");
}

TEST(each_type_is_packed_by_itself) {
  LS_SPEC("M97");
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(3)},
                                   {LS_DTYPE_F64, LS_SHAPE(2)},
                                   {LS_DTYPE_F32, LS_SHAPE(2)},
                                   {LS_DTYPE_F64, LS_SHAPE(2)}};
  LS_OWN(rows, r) = {0};
  LS_OWN(ls_packed, packed) = {0};
  begin(&r, columns, 4);
  {
    LS_GRAPH_SCOPE(r.graph);
    expect_ok(ls_pack_joined(r.row, DEVICES, &r.devices, 2, &packed));
  }
  expect_sizes(&packed, (int64_t[]){2, 3, 2, 2}, 4);
  assert_int_equal(ls_tensor_dtype(packed.pieces[0].items[1]), LS_DTYPE_F32);
  assert_int_equal(ls_tensor_dtype(packed.pieces[0].items[2]), LS_DTYPE_F64);
  expect_back(&r, &packed);
}

TEST(sizes_may_be_known_at_run_time_only) {
  LS_SPEC("M96");
  LS_OWN(rows, r) = {0};
  LS_OWN(ls_packed, packed) = {0};
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(2, 2)},
                                   {LS_DTYPE_F32, LS_SHAPE(3)}};
  begin(&r, columns, 2);
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, got) = ls_none();
  {
    LS_GRAPH_SCOPE(r.graph);
    ls_tensor fed[DEVICES];
    for (size_t d = 0; d < DEVICES; ++d) {
      LS_DEVICE_SCOPE(names[d]);
      fed[d] = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 2), "fed");
      r.items[d][0] = fed[d];
    }
    expect_ok(ls_pack_joined(r.row, DEVICES, &r.devices, 3, &packed));
    assert_int_equal(packed.pieces[0].count, 1);
    expect_ok(ls_unpack(&packed, packed.pieces, r.results));
    expect_ok(ls_session_create(r.graph, &session));
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(3, 2), &array));
    for (int64_t k = 0; k < 6; ++k)
      ls_array_set_f64(array, k, (double)k);
    LS_OWN(ls_nest, fetches) =
        LS_LIST(ls_leaf(r.out[1][0]), ls_leaf(r.out[1][1]));
    expect_ok(ls_session_run(session, fetches,
                             &(ls_feed){.tensor = fed[1], .value = array}, 1,
                             &got));
    const ls_array *back = ls_nest_as_array(ls_nest_item(got, 0));
    assert_true(ls_shape_equal(ls_array_shape(back), LS_SHAPE(3, 2)));
    for (int64_t k = 0; k < 6; ++k)
      assert_true(ls_array_f64(back, k) == (double)k);
    assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(got, 1)), 2) ==
                number(1, 1, 2));
  }
}

// ---- Small tensors ---------------------------------------------------------
TEST(runs_of_small_tensors_become_one) {
  LS_SPEC("M98 M100");
  static const column columns[] = {
      {LS_DTYPE_F32, LS_SHAPE(2)}, {LS_DTYPE_F32, LS_SHAPE(9)},  // Too large.
      {LS_DTYPE_F32, LS_SHAPE(3)}, {LS_DTYPE_F32, LS_SHAPE(1)},
      {LS_DTYPE_F32, LS_SHAPE(2)}, {LS_DTYPE_F64, LS_SHAPE(1)},  // Not f32.
      {LS_DTYPE_F32, LS_SHAPE(2)}};
  LS_OWN(rows, r) = {0};
  LS_OWN(ls_packed, packed) = {0};
  begin(&r, columns, 7);
  {
    LS_GRAPH_SCOPE(r.graph);
    expect_ok(ls_pack_small(r.row, DEVICES, &r.devices, LS_SOME(12), LS_SOME(2),
                            &packed));
  }
  // 2 and 3 are a run of two; 0, 4 and 6 stand alone.
  expect_sizes(&packed, (int64_t[]){4, 2, 9, 2, 1, 2}, 6);
  expect_fetched(ls_leaf(packed.pieces[0].items[0]), 0,
                 (double[]){200, 201, 202, 300}, 4);
  assert_true(ls_tensor_equal(packed.pieces[0].items[1], r.items[0][0]));
  expect_back(&r, &packed);
  size_t packs = 0, unpacks = 0;
  for (size_t i = 0; i < ls_graph_num_ops(r.graph); ++i) {
    const ls_op op = ls_graph_op(r.graph, i);
    const char *name = ls_op_name(op);
    const bool in = strncmp(name, "pack/", 5) == 0;
    const bool out = strncmp(name, "unpack/", 7) == 0;
    packs += in;
    unpacks += out;
    if (in || out) {
      const ls_attr *place = NULL;
      assert_true(ls_op_device(op)[0] != '\0');
      expect_ok(ls_op_attr(op, "_class", &place));
    } else {
      assert_string_equal(ls_op_type_name(op), "constant");
    }
  }
  assert_true(packs > 0);
  assert_true(unpacks > 0);
  assert_int_equal(count_ops(r.graph, "concatenate", "GPU:1"), 1);
}

TEST(without_a_run_nothing_is_packed) {
  LS_SPEC("M99 M100");
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(2)},
                                   {LS_DTYPE_F64, LS_SHAPE(2)},
                                   {LS_DTYPE_F32, LS_SHAPE(2)}};
  ls_packed packed;
  LS_OWN_BEGUN(rows, r, begin, columns, 3);
  const size_t before = ls_graph_num_ops(r.graph);
  expect_ok(ls_pack_small(r.row, DEVICES, &r.devices, (ls_opt){0}, (ls_opt){0},
                          &packed));
  assert_int_equal(ls_graph_num_ops(r.graph), before);
  for (size_t c = 0; c < 3; ++c)
    assert_true(ls_tensor_equal(packed.pieces[1].items[c], r.items[1][c]));
  ls_packed_deinit(&packed);
  for (int i = 0; i < 2; ++i)
    expect_status(ls_pack_small(r.row, DEVICES, &r.devices,
                                LS_SOME(i == 0 ? 0 : 64),
                                LS_SOME(i == 0 ? 5 : -3), &packed),
                  LS_INVALID_ARGUMENT,
                  i == 0 ? "max_bytes 0 and max_group 5"
                         : "max_bytes 64 and max_group -3");
  // By default 1 MiB is small, and up to 16 go together.
  column many[MOST];
  for (size_t c = 0; c < MOST; ++c)
    many[c] = (column){LS_DTYPE_F32, LS_SHAPE(4)};
  end(&r);
  begin(&r, many, MOST);
  {
    LS_GRAPH_SCOPE(r.graph);
    expect_ok(ls_pack_small(r.row, DEVICES, &r.devices, (ls_opt){0},
                            (ls_opt){0}, &packed));
  }
  expect_sizes(&packed, (int64_t[]){64, 8}, 2);
  ls_packed_deinit(&packed);
}

TEST(rows_have_equal_lengths) {
  LS_SPEC("M102");
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(2)},
                                   {LS_DTYPE_F32, LS_SHAPE(2)}};
  ls_packed packed;
  LS_OWN_BEGUN(rows, r, begin, columns, 2);
  r.row[1].count = 1;
  for (int i = 0; i < 2; ++i) {
    const ls_status status =
        i == 0 ? ls_pack_joined(r.row, DEVICES, &r.devices, 1, &packed)
               : ls_pack_small(r.row, DEVICES, &r.devices, (ls_opt){0},
                               (ls_opt){0}, &packed);
    expect_contains(ls_status_message(status), "replica 0 offers 2");
    expect_status(status, LS_INVALID_ARGUMENT, "replica 1 offers 1");
  }
}

// ---- Runs of indices -------------------------------------------------------
TEST(indices_are_cut_into_runs) {
  LS_SPEC("M101 M100");
  static const size_t some[] = {1, 3, 4, 6, 7, 8, 9};
  ls_index_range ranges[40];
  size_t singles[40], num_ranges = 0, num_singles = 0;
  ls_index_ranges(some, 7, 0, ranges, &num_ranges, singles, &num_singles);
  assert_int_equal(num_ranges, 2);
  assert_int_equal(ranges[0].first, 3);
  assert_int_equal(ranges[0].last, 4);
  assert_int_equal(ranges[1].first, 6);
  assert_int_equal(ranges[1].last, 9);
  assert_int_equal(num_singles, 1);
  assert_int_equal(singles[0], 1);
  ls_index_ranges(NULL, 0, 0, ranges, &num_ranges, singles, &num_singles);
  assert_int_equal(num_ranges, 0);
  assert_int_equal(num_singles, 0);
  // A run has the limit's length at most, 32 by default.
  size_t many[40];
  for (size_t i = 0; i < 40; ++i)
    many[i] = i;
  ls_index_ranges(many, 40, 0, ranges, &num_ranges, singles, &num_singles);
  assert_int_equal(num_ranges, 2);
  assert_int_equal(ranges[0].last, 31);
  ls_index_ranges(many, 7, 3, ranges, &num_ranges, singles, &num_singles);
  assert_int_equal(num_ranges, 2);
  assert_int_equal(ranges[1].last, 5);
  assert_int_equal(num_singles, 1);
  assert_int_equal(singles[0], 6);
}

// ---- Without memory --------------------------------------------------------
typedef struct packing {
  rows r;
  bool joined, by_size;
} packing;

static ls_status begin_small(void *user) {
  static const column columns[] = {{LS_DTYPE_F32, LS_SHAPE(2)},
                                   {LS_DTYPE_F32, LS_SHAPE(3)},
                                   {LS_DTYPE_F64, LS_SHAPE(1)}};
  packing *self = user;
  begin(&self->r, columns, 3);
  return ls_ok();
}

static ls_status begin_joined(void *user) {
  ((packing *)user)->joined = true;
  return begin_small(user);
}

static ls_status begin_by_size(void *user) {
  ((packing *)user)->by_size = true;
  return begin_small(user);
}

static ls_status pack(void *user) {
  packing *self = user;
  rows *r = &self->r;
  ls_packed packed = {0};
  ls_status status = ls_ok();
  {
    LS_GRAPH_SCOPE(r->graph);
    status = self->by_size
                 ? ls_pack_by_size(r->row, DEVICES, &r->devices, 100, &packed)
             : self->joined
                 ? ls_pack_joined(r->row, DEVICES, &r->devices, 2, &packed)
                 : ls_pack_small(r->row, DEVICES, &r->devices, (ls_opt){0},
                                 (ls_opt){0}, &packed);
    if (ls_status_is_ok(status)) {
      status = ls_unpack(&packed, packed.pieces, r->results);
      ls_packed_deinit(&packed);
    }
  }
  return status;
}

static void drop_rows(void *user) { end(&((packing *)user)->r); }

TEST(packing_survives_a_lack_of_memory) {
  const fault_scenario scenarios[] = {{.name = "small",
                                       .size = sizeof(packing),
                                       .begin = begin_small,
                                       .act = pack,
                                       .end = drop_rows},
                                      {.name = "joined",
                                       .size = sizeof(packing),
                                       .begin = begin_joined,
                                       .act = pack,
                                       .end = drop_rows},
                                      {.name = "by size",
                                       .size = sizeof(packing),
                                       .begin = begin_by_size,
                                       .act = pack,
                                       .end = drop_rows}};
  REFUSE_ROWS(scenarios);
}
