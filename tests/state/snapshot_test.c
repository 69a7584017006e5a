// SPDX-License-Identifier: Apache-2.0
//
// Large values in files: copied, written and read in pieces by several threads,
// with memory for one copy.
#include "state/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "lockstep/checkpoint.h"
#include "lockstep/eager.h"
#include "support/expect.h"
#include "support/values.h"

enum { MIB = 1 << 20, VARIABLES = 6 };

// Of sizes that no piece ends with.
static const struct row {
  const char *name;
  ls_dtype dtype;
  int64_t size;
} rows[VARIABLES] = {
    {"bytes", LS_DTYPE_U8, 3 * MIB + 5},
    {"wide", LS_DTYPE_F64, 300001},
    {"large", LS_DTYPE_F32, 2 * MIB + 3},
    {"none", LS_DTYPE_F32, 0},
    {"one", LS_DTYPE_I64, 1},
    {"half", LS_DTYPE_BF16, 70001},
};

typedef struct world {
  ls_counting_allocator *counting;
  ls_runtime *runtime, *before;
  ls_variable *variables[VARIABLES];
  ls_saver saver;
  size_t bytes;  // Of all values.
  ls_checkpoints *checkpoints;
} world;

static unsigned char byte_of(int variable, size_t i, int seed) {
  return (unsigned char)((i * 2654435761u >> 9) + (unsigned)variable * 31u +
                         (unsigned)seed);
}

static ls_array *value_of(int variable, int seed) {
  const struct row *row = &rows[variable];
  ls_array *array = NULL;
  expect_ok(ls_array_create(row->dtype, LS_SHAPE(row->size), &array));
  unsigned char *data = ls_array_mutable_data(array);
  for (size_t i = 0; i < ls_array_size(array); ++i)
    data[i] = byte_of(variable, i, seed);
  return array;
}

static void set_all(world *w, int seed) {
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, array) = value_of(i, seed);
    expect_ok(ls_variable_set_value(w->variables[i], array));
  }
}

static void expect_all(world *w, int seed) {
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, wanted) = value_of(i, seed);
    LS_OWN(ls_array, got) = variable_array(w->variables[i]);
    const size_t size = ls_array_size(wanted);
    if (size > 0 &&
        memcmp(ls_array_data(wanted), ls_array_data(got), size) != 0)
      fail_msg("'%s' is not what was saved", rows[i].name);
  }
}

static void begin(world *w, int threads) {
  memset(w, 0, sizeof(*w));
  assert_int_equal(system("rm -rf large"), 0);
  expect_ok(ls_counting_allocator_create(NULL, &w->counting));
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.allocator =
                                ls_counting_allocator_allocator(w->counting),
                            .threads = threads},
      &w->runtime));
  w->before = ls_runtime_make_current(w->runtime);
  for (int i = 0; i < VARIABLES; ++i) {
    LS_OWN(ls_array, array) = value_of(i, 0);
    w->bytes += ls_array_size(array);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = rows[i].name, .initial_array = array},
        &w->variables[i]));
  }
  w->saver = (ls_saver){.variables = w->variables, .num_variables = VARIABLES};
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = "large", .values = &w->saver},
      &w->checkpoints));
}

static void end(world *w) {
  expect_ok(ls_checkpoints_close(w->checkpoints));
  for (int i = 0; i < VARIABLES; ++i)
    ls_variable_release(w->variables[i]);
  ls_runtime_make_current(w->before);
  expect_ok(ls_runtime_destroy(w->runtime));
  ls_counting_allocator_destroy(w->counting);
}
LS_OWNED_STRUCT(world, end)

TEST(large_values_come_back) {
  for (int threads = 1; threads <= 4; threads += 3) {
    LS_OWN_BEGUN(world, w, begin, threads);
    for (int step = 1; step <= 3; ++step) {
      set_all(&w, step);
      expect_ok(ls_checkpoints_save(w.checkpoints, step, NULL, 0));
      set_all(&w, 77);  // While it is being written.
    }
    for (int step = 3; step >= 1; --step) {
      expect_ok(ls_checkpoints_restore(
          w.checkpoints, &(ls_restore_options){.step = LS_SOME(step)}, NULL));
      expect_all(&w, step);
    }
    expect_ok(ls_saver_save(&w.saver, "large/other.safetensors"));
    set_all(&w, 77);
    expect_ok(ls_saver_restore(&w.saver, "large/other.safetensors"));
    expect_all(&w, 1);
  }
}

static size_t live(const world *w) {
  return ls_counting_allocator_counts(w->counting).live_bytes;
}

static size_t peak(const world *w) {
  return ls_counting_allocator_counts(w->counting).peak_bytes;
}

TEST(saves_take_memory_for_one_copy_and_restores_for_none) {
  LS_OWN_BEGUN(world, w, begin, 2);
  set_all(&w, 1);
  const size_t before = live(&w);
  const size_t most = before + w.bytes + w.bytes / 20;
  // What was there before is no more than this.
  assert_true(before <= w.bytes + 20 * MIB);
  for (int step = 1; step <= 4; ++step) {
    expect_ok(ls_checkpoints_save(w.checkpoints, step, NULL, 0));
    expect_ok(ls_checkpoints_wait(w.checkpoints));
    assert_in_range(live(&w), before + w.bytes, most);
  }
  assert_in_range(peak(&w), before + w.bytes, most);
  expect_ok(ls_checkpoints_close(w.checkpoints));
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = "large", .values = &w.saver},
      &w.checkpoints));
  assert_true(live(&w) <= before + MIB);
  expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, NULL));
  assert_in_range(peak(&w), before + w.bytes, most);
  assert_true(live(&w) <= before + MIB);
}

TEST(a_bit_in_any_piece_counts) {
  LS_OWN_BEGUN(world, w, begin, 3);
  for (int step = 1; step <= 2; ++step) {
    set_all(&w, step);
    expect_ok(ls_checkpoints_save(w.checkpoints, step, NULL, 0));
  }
  expect_ok(ls_checkpoints_wait(w.checkpoints));
  FILE *file = fopen("large/model.ckpt-2.safetensors", "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  for (long at = 700; at < size; at += 250007) {
    for (int back = 0; back < 2; ++back) {
      assert_int_equal(fseek(file, at, SEEK_SET), 0);
      const int byte = getc(file);
      assert_int_equal(fseek(file, at, SEEK_SET), 0);
      assert_int_equal(putc(byte ^ 16, file), byte ^ 16);
      assert_int_equal(fflush(file), 0);
      ls_restore_report report;
      expect_ok(ls_checkpoints_restore(w.checkpoints, NULL, &report));
      assert_int_equal(report.step, 1 + back);
      if (at % 7 == 0) expect_all(&w, 1 + back);
    }
  }
  fclose(file);
}

// Parts of a file are what the whole has there, and their sums come to its.
TEST(parts_of_a_file_make_the_whole) {
  LS_OWN_BEGUN(world, w, begin, 1);
  LS_OWN(ls_snapshot, whole) = {0};
  LS_OWN(ls_snapshot, part) = {0};
  expect_ok(ls_snapshot_take(&whole, w.runtime, &w.saver, NULL, 0, 0, 1));
  assert_int_equal(whole.begin, 0);
  assert_int_equal(whole.end, whole.size);
  for (size_t parts = 1; parts <= 20; parts += parts < 5 ? 1 : 15) {
    size_t at = 0;
    for (size_t k = 0; k < parts; ++k) {
      expect_ok(
          ls_snapshot_take(&part, w.runtime, &w.saver, NULL, 0, k, parts));
      assert_int_equal(part.size, whole.size);
      assert_int_equal(part.header_crc, whole.header_crc);
      assert_int_equal(part.begin, at);
      if (part.end > at)
        assert_memory_equal(part.bytes, whole.bytes + at, part.end - at);
      at = part.end;
    }
    assert_int_equal(at, whole.size);
  }
}
