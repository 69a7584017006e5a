// SPDX-License-Identifier: Apache-2.0
// What a saver refuses, and what it does without memory.
#include "lockstep/saver.h"

#include <stdio.h>
#include <unistd.h>

#include "lockstep/saved_file.h"

#include "distribute/own.h"
#include "support/fault.h"
#include "support/replicas.h"
#include "support/saving.h"

#define ON_READ LS_SYNCHRONIZATION_ON_READ
#define SUM LS_AGGREGATION_SUM

// ---- Refusals --------------------------------------------------------------
TEST(what_does_not_fit_is_named_and_nothing_is_restored) {
  LS_OWN(ls_variable, a) = plain("a", 1);
  LS_OWN(ls_variable, b) = plain("b", 2);
  LS_OWN(ls_variable, row) = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.name = "b",
                                                      .dtype = LS_DTYPE_F64,
                                                      .shape = LS_SHAPE(3)},
                               &row));
  ls_variable *const saved[] = {a, b}, *const wanted[] = {a, row};
  ls_saver saver = {.variables = saved, .num_variables = 2};
  expect_ok(ls_saver_save(&saver, path));
  LS_OWN(ls_array, other) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &other));
  ls_array_set_f64(other, 0, 77);
  expect_ok(ls_variable_set_value(a, other));
  saver.variables = wanted;
  expect_status(ls_saver_restore(&saver, path), LS_INVALID_ARGUMENT,
                "'saver-test.safetensors' has array 'b' of f32[]; variable 'b' "
                "needs f64[3]");
  assert_true(value_of(a) == 77);
  static const char *const names[] = {"x", "y"};
  saver.names = names;
  expect_status(ls_saver_restore(&saver, path), LS_NOT_FOUND,
                "'saver-test.safetensors' has no array 'x', which variable 'a' "
                "of f32[] needs; it has 2: 'a', 'b'");
  expect_status(ls_saver_restore(&saver, path), LS_NOT_FOUND,
                "2 of 2 variables cannot be restored");
  expect_status(ls_saver_restore(&saver, "no.safetensors"), LS_NOT_FOUND,
                "no.safetensors");
  saver.names = (const char *const[]){"x", "x"};
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT, "'x'");
  // A file's names of components are no variables' own.
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, w) = variable_in(strategy, (variable_kind){0});
  static const char *const part_names[] = {"w:0", "w"};
  const double numbers[] = {77, 2};
  saver = (ls_saver){.variables = (ls_variable *const[]){a, w},
                     .num_variables = 2,
                     .names = part_names,
                     .exact = true};
  expect_status(ls_saver_save(&saver, path), LS_INVALID_ARGUMENT,
                "'w:0' in a saver is that of a component of 'w'");
  saver.exact = false;
  expect_ok(ls_saver_save(&saver, path));
  // A plain variable has no components.
  saver = (ls_saver){.variables = saved,
                     .num_variables = 2,
                     .names = part_names,
                     .exact = true};
  expect_ok(ls_saver_save(&saver, path));
  expect_entries(part_names, numbers, 2);
  expect_ok(ls_saver_restore(&saver, path));
  // Other names carry the values over.
  saver = (ls_saver){.variables = saved, .num_variables = 2, .names = names};
  expect_ok(ls_saver_save(&saver, path));
  expect_entries(names, (double[]){77, 2}, 2);
}

MEMORY_TEST(save_and_restore) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_variable, v) = NULL;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  {
    LS_STRATEGY_SCOPE(strategy);
    LS_RETURN_IF_ERROR(
        ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                  .name = "v",
                                                  .shape = LS_SHAPE(2),
                                                  .synchronization = ON_READ,
                                                  .aggregation = SUM},
                           &v));
  }
  ls_saver saver = saver_of(&v);
  saver.exact = true;
  LS_RETURN_IF_ERROR(ls_saver_save(&saver, path));
  return ls_saver_restore(&saver, path);
}

// ---- Damage ----------------------------------------------------------------
// Flips a bit of the byte at an offset from `whence`, as fseek does.
static void flip_bit(long offset, int whence, int bit) {
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  assert_int_equal(fseek(file, offset, whence), 0);
  const int byte = fgetc(file) ^ 1 << bit;
  assert_int_equal(fseek(file, offset, whence), 0);
  assert_int_equal(fputc(byte, file), byte);
  assert_int_equal(fclose(file), 0);
}

static long file_size(void) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_int_equal(fclose(file), 0);
  return size;
}

TEST(a_damaged_value_is_never_restored) {
  LS_OWN(ls_variable, a) = plain("a", 1);
  LS_OWN(ls_variable, b) = plain("b", 2);
  ls_variable *const both[] = {a, b};
  const ls_saver saver = {.variables = both, .num_variables = 2};
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  LS_OWN(ls_array, other) = NULL;
  expect_ok(ls_saver_save(&saver, path));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &other));
  ls_array_set_f64(other, 0, 77);
  expect_ok(ls_variable_set_value(a, other));
  flip_bit(-1, SEEK_END, 0);
  expect_status(ls_saver_restore(&saver, path), LS_DATA_LOSS,
                "'saver-test.safetensors' is damaged: the checksum of array "
                "'b' does not match");
  assert_true(value_of(a) == 77);
  expect_ok(ls_saved_file_open(path, &file));
  ls_saved_file_describe(file, &info);
  assert_true(info.checked);
  expect_ok(ls_saved_file_check(file, 0));
  expect_status(ls_saved_file_check(file, 1), LS_DATA_LOSS, "array 'b'");
  expect_status(ls_saved_file_restore(file, &saver), LS_DATA_LOSS, "array 'b'");
  expect_status(ls_saved_file_write(file, "copy.tmp.safetensors", NULL, NULL),
                LS_DATA_LOSS, "array 'b'");
  assert_true(value_of(a) == 77);
}

// Found, but for bits in the name of the note that has the checksums: without
// it the file is another program's, and its values are whole.
TEST(no_flipped_bit_changes_what_is_restored) {
  enum { NAME = 26, NAME_END = NAME + 9 };  // "ls.crc32c"
  LS_OWN(ls_variable, a) = plain("a", 1);
  LS_OWN(ls_variable, b) = plain("b", 2);
  ls_variable *const both[] = {a, b};
  const ls_saver saver = {.variables = both, .num_variables = 2};
  LS_OWN(ls_array, other) = NULL;
  expect_ok(ls_saver_save(&saver, path));
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &other));
  ls_array_set_f64(other, 0, 77);
  const long size = file_size();
  for (long bit = 0; bit < 8 * size; ++bit) {
    expect_ok(ls_variable_set_value(a, other));
    flip_bit(bit / 8, SEEK_SET, (int)(bit % 8));
    const ls_status status = ls_saver_restore(&saver, path);
    const bool found = !ls_status_is_ok(status);
    if (!found && (bit / 8 < NAME || bit / 8 >= NAME_END))
      fail_msg("bit %ld is not found", bit);
    ls_status_free(status);
    assert_true(value_of(a) == (found ? 77 : 1));
    assert_true(value_of(b) == 2);
    flip_bit(bit / 8, SEEK_SET, (int)(bit % 8));
  }
  expect_ok(ls_saver_restore(&saver, path));
  assert_true(value_of(a) == 1);
}

TEST_FILE(.leaves = path)
