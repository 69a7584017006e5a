// SPDX-License-Identifier: Apache-2.0
// What can be opened by its path, what it says of itself, and the same as other
// files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "io/zip.h"
#include "lockstep/checkpoint.h"
#include "support/fault.h"
#include "support/npy_files.h"
#include "support/npz_files.h"
#include "support/replicas.h"
#include "support/saving.h"
#include "support/values.h"

#define ONLY(...)                                                              \
  .only = (const char *const[]){__VA_ARGS__},                                  \
  .num_only = sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)
#define MAPS(...)                                                              \
  .names = (const ls_name_map[]){__VA_ARGS__},                                 \
  .num_names =                                                                 \
      sizeof((const ls_name_map[]){__VA_ARGS__}) / sizeof(ls_name_map)

// ---- A folder --------------------------------------------------------------
static ls_variable *both[2];
static const ls_saver saver = {.variables = both, .num_variables = 2};

static ls_status save_state(void *self, ls_record *record) {
  (void)self;
  return ls_record_set_i64(record, "counter", 7);
}
static ls_status restore_state(void *self, const ls_record *record) {
  (void)self;
  (void)record;
  return ls_ok();
}
static const ls_saveable own = {
    .name = "own", .save = save_state, .restore = restore_state};

static void shell(const char *command) { assert_int_equal(system(command), 0); }

// Steps 1 to `count`, at each of which 'a' is the step and 'b' a tenth of it.
static void make_folder(const char *folder, int count) {
  char command[80];
  snprintf(command, sizeof(command), "rm -rf '%s'", folder);
  shell(command);
  LS_OWN(ls_record, identity) = NULL;
  ls_checkpoints *checkpoints = NULL;
  both[0] = plain("a", 0);
  both[1] = plain("b", 0);
  expect_ok(ls_record_create(&identity));
  expect_ok(ls_record_set_text(identity, "model", "mine"));
  expect_ok(
      ls_checkpoints_open(&(ls_checkpoints_options){.folder = folder,
                                                    .values = &saver,
                                                    .states = &own,
                                                    .num_states = 1,
                                                    .identity = identity,
                                                    .background = LS_FLAG_OFF},
                          &checkpoints));
  for (int step = 1; step <= count; ++step) {
    set_variable(both[0], (double[]){step});
    set_variable(both[1], (double[]){step / 10.0});
    expect_ok(ls_checkpoints_save(
        checkpoints, step,
        &(ls_checkpoint_metric){.name = "loss", .value = 0.5 * step}, 1));
  }
  expect_ok(ls_checkpoints_close(checkpoints));
  ls_variable_release(both[0]);
  ls_variable_release(both[1]);
}

static void expect_array(const ls_saved_file *file, size_t index,
                         const char *name, double value) {
  ls_saved_entry entry;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_saved_file_entry(file, index, &entry));
  assert_string_equal(entry.name, name);
  expect_ok(ls_saved_file_read(file, index, &array));
  assert_true(ls_array_f64(array, 0) == (double)(float)value);
}

// What opens is of this step, and holds its values.
static void expect_step(const char *name, int64_t step) {
  LS_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  expect_ok(ls_saved_file_open(name, &file));
  ls_saved_file_describe(file, &info);
  assert_string_equal(info.format, "checkpoint");
  assert_int_equal(info.step, step);
  assert_true(info.checked && info.wall > 0);
  assert_int_equal(info.num_entries, 2);
  assert_int_equal(info.bytes, 8);
  assert_int_equal(info.num_metrics, 1);
  assert_string_equal(info.metrics[0].name, "loss");
  assert_true(info.metrics[0].value == 0.5 * (double)step);
  expect_array(file, 0, "a", (double)step);
  expect_array(file, 1, "b", (double)step / 10);
}

TEST(a_folder_is_its_newest_whole_checkpoint) {
  make_folder("opened", 3);
  expect_step("opened", 3);
  expect_step("opened/model.ckpt-2", 2);
  expect_step("opened/model.ckpt-2.json", 2);
  expect_step("opened/model.ckpt-1.safetensors", 1);
  shell("printf x | dd of=opened/model.ckpt-3.safetensors bs=1 conv=notrunc "
        "seek=$(($(wc -c <opened/model.ckpt-3.safetensors) - 1)) 2>/dev/null");
  expect_step("opened", 2);
  ls_saved_file *file = NULL;
  expect_status(ls_saved_file_open("opened/model.ckpt-3", &file), LS_DATA_LOSS,
                "'opened/model.ckpt-3.safetensors' is damaged: the checksum of "
                "array 'b'");
  assert_null(file);
  // Unread it opens, and says which is damaged.
  expect_ok(ls_saved_file_open_unread("opened", &file));
  ls_saved_info info;
  ls_array *array = NULL;
  ls_saved_file_describe(file, &info);
  assert_int_equal(info.step, 3);
  expect_ok(ls_saved_file_check(file, 0));
  expect_status(ls_saved_file_check(file, 1), LS_DATA_LOSS, "array 'b'");
  expect_status(ls_saved_file_read(file, 1, &array), LS_DATA_LOSS, "array 'b'");
  assert_null(array);
  expect_status(ls_saved_file_check(file, 2), LS_OUT_OF_RANGE, "has 2 arrays");
  ls_saved_file_close(file);
  // Looking takes nothing away.
  shell("touch opened/model.ckpt-9.safetensors opened/checkpoint.tmp");
  int64_t steps[2] = {0};
  size_t count = 0;
  expect_ok(ls_saved_steps("opened", steps, 2, &count));
  assert_int_equal(count, 3);
  assert_int_equal(steps[1], 2);
  shell("[ -e opened/model.ckpt-9.safetensors ] && [ -e opened/checkpoint.tmp "
        "]");
  expect_status(ls_saved_steps("no-such", steps, 2, &count), LS_NOT_FOUND,
                "no-such");
}

TEST(a_folder_of_damaged_checkpoints_is_its_final_values) {
  make_folder("lone", 1);
  shell("cp lone/model.ckpt-1.safetensors lone/model.safetensors; printf x | "
        "dd of=lone/model.ckpt-1.safetensors bs=1 conv=notrunc "
        "seek=$(($(wc -c <lone/model.safetensors) - 1)) 2>/dev/null");
  ls_saved_file *file = NULL;
  ls_saved_info info;
  expect_ok(ls_saved_file_open("lone", &file));
  ls_saved_file_describe(file, &info);
  assert_string_equal(info.path, "lone/model.safetensors");
  assert_int_equal(info.step, -1);
  ls_saved_file_close(file);
  shell("rm lone/model.safetensors");
  expect_status(ls_saved_file_open("lone", &file), LS_DATA_LOSS, "array 'b'");
}

TEST(states_and_identity_are_records) {
  make_folder("records", 1);
  ls_saved_file *file = NULL;
  ls_record *identity = NULL, *states = NULL;
  const ls_record *inner = NULL;
  const char *model = NULL;
  int64_t counter = 0;
  expect_ok(ls_saved_file_open("records", &file));
  expect_ok(ls_saved_file_records(file, &identity, &states));
  expect_ok(ls_record_get_text(identity, "model", &model));
  assert_string_equal(model, "mine");
  expect_ok(ls_record_find(states, "own", &inner));
  expect_ok(ls_record_get_i64(inner, "counter", &counter));
  assert_int_equal(counter, 7);
  ls_record_destroy(identity);
  ls_record_destroy(states);
  ls_saved_file_close(file);
  // Another file has none.
  ls_variable *v = plain("v", 1);
  save(v);
  ls_variable_release(v);
  expect_ok(ls_saved_file_open(path, &file));
  expect_ok(ls_saved_file_records(file, NULL, &states));
  expect_status(ls_record_find(states, "own", &inner), LS_NOT_FOUND, "own");
  ls_record_destroy(states);
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  assert_string_equal(info.format, "safetensors");
  assert_int_equal(info.step, -1);
  assert_true(info.checked);
  ls_saved_file_close(file);
}

TEST(what_is_none_is_refused) {
  ls_saved_file *file = NULL;
  shell("rm -rf none && mkdir none && echo text >none/text");
  expect_status(ls_saved_file_open("none", &file), LS_NOT_FOUND,
                "'none' has no checkpoint and no model.safetensors");
  expect_status(ls_saved_file_open("none/x", &file), LS_NOT_FOUND, "none/x");
  expect_status(ls_saved_file_open("none/model.ckpt-4", &file), LS_NOT_FOUND,
                "none/model.ckpt-4.json");
  expect_status(ls_saved_file_open("none/text", &file), LS_DATA_LOSS,
                "none/text");
  ls_variable *v = plain("v", 4);
  save(v);
  ls_variable_release(v);
  char command[120];
  snprintf(command, sizeof(command),
           "cp %s none/model.safetensors; cp %s none/model.ckpt-4.safetensors",
           path, path);
  shell(command);
  static const char *const alone[] = {"none", "none/model.ckpt-4.safetensors"};
  for (size_t i = 0; i < 2; ++i) {
    expect_ok(ls_saved_file_open(alone[i], &file));
    expect_array(file, 0, "v", 4);
    ls_saved_file_close(file);
  }
}

// ---- Written elsewhere -----------------------------------------------------
TEST(values_go_to_npz_and_back) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16,
                                    LS_DTYPE_I8,  LS_DTYPE_I16, LS_DTYPE_I32,
                                    LS_DTYPE_I64, LS_DTYPE_U8,  LS_DTYPE_U16,
                                    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};
  enum { COUNT = LS_COUNT_OF(dtypes) };
  ls_variable *all[COUNT];
  char names[COUNT][16];
  for (size_t i = 0; i < COUNT; ++i) {
    snprintf(names[i], sizeof(names[i]), "d/%zu", i);
    all[i] = variable_of(names[i], dtypes[i], LS_SHAPE(2, 1),
                         (double[]){1, (double)(i % 2)});
  }
  const ls_saver whole = {.variables = all, .num_variables = COUNT};
  expect_ok(ls_saver_save(&whole, path));
  static const char *const chain[] = {path, "there.npz", "back.safetensors"};
  for (size_t k = 0; k < 3; ++k) {
    LS_OWN(ls_saved_file, file) = NULL;
    ls_saved_info info;
    size_t count = 0;
    expect_ok(ls_saved_file_open(chain[k], &file));
    ls_saved_file_describe(file, &info);
    assert_string_equal(info.format, k == 1 ? "npz" : "safetensors");
    assert_int_equal(info.num_entries, COUNT);
    for (size_t i = 0; i < COUNT; ++i)
      expect_ok(ls_saved_file_check(file, i));
    if (k < 2) {
      expect_ok(ls_saved_file_write(file, chain[k + 1], NULL, &count));
      assert_int_equal(count, COUNT);
    }
    for (size_t i = 0; i < COUNT; ++i)
      set_variable(all[i], (double[]){0, 0});
    expect_ok(ls_saved_file_restore(file, &whole));
    for (size_t i = 0; i < COUNT; ++i)
      expect_variable(all[i], (double[]){1, (double)(i % 2)}, 2, 0);
  }
  for (size_t i = 0; i < COUNT; ++i)
    ls_variable_release(all[i]);
  char command[80];
  snprintf(command, sizeof(command), "cmp %s back.safetensors", path);
  shell(command);
}

TEST(the_empty_name_goes_to_npz_and_back) {
  static const char *const names[] = {""};
  LS_OWN(ls_variable, variable) = plain("w", 7);
  const ls_saver unnamed = {
      .variables = &variable, .num_variables = 1, .names = names};
  LS_OWN(ls_saved_file, file) = NULL;
  LS_OWN(ls_saved_file, npz) = NULL;
  size_t count = 0;
  expect_ok(ls_saver_save(&unnamed, path));
  expect_ok(ls_saved_file_open(path, &file));
  expect_ok(ls_saved_file_write(file, "there.npz", NULL, &count));
  expect_ok(ls_saved_file_open("there.npz", &npz));
  set_variable(variable, (double[]){0});
  expect_ok(ls_saved_file_restore(npz, &unnamed));
  assert_true(value_of(variable) == 7);
}

static void put_npz(const char *name, bool deflated, const char *key,
                    const char *npy, size_t size) {
  ls_zip_writer *zip = NULL;
  expect_ok(ls_zip_writer_open(ls_runtime_current(), name, &zip));
  expect_ok(ls_zip_add(zip, key, deflated, npy, size, NULL, 0));
  expect_ok(ls_zip_writer_close(zip, true));
}

// Whatever the order of bytes and elements, packed or not.
TEST(files_of_numpy_are_read_as_they_are) {
  static const struct {
    const char *npy;
    size_t size;
    ls_dtype dtype;
    int64_t count;
    double values[6];
  } rows[] = {
      {npy_floats,
       sizeof(npy_floats) - 1,
       LS_DTYPE_F32,
       6,
       {1, 2.5, -3, 4, 5, 6}},
      {npy_columns,
       sizeof(npy_columns) - 1,
       LS_DTYPE_F32,
       6,
       {1, 2.5, -3, 4, 5, 6}},
      {npy_big_endian, sizeof(npy_big_endian) - 1, LS_DTYPE_I16, 2, {1, -2}},
      {npy_version_3, sizeof(npy_version_3) - 1, LS_DTYPE_BOOL, 2, {1, 0}},
      {npy_scalar, sizeof(npy_scalar) - 1, LS_DTYPE_F64, 1, {0.5}},
  };
  ls_saved_file *file = NULL;
  for (size_t i = 0; i < 2 * LS_COUNT_OF(rows); ++i) {
    const size_t at = i / 2;
    ls_array *array = NULL;
    put_npz("one.npz", i % 2 == 1, "x/y.npy", rows[at].npy, rows[at].size);
    expect_ok(ls_saved_file_open("one.npz", &file));
    expect_ok(ls_saved_file_check(file, 0));
    expect_ok(ls_saved_file_read(file, 0, &array));
    assert_int_equal(ls_array_dtype(array), rows[at].dtype);
    assert_int_equal(ls_array_num_elements(array), rows[at].count);
    for (int64_t k = 0; k < rows[at].count; ++k)
      assert_true(ls_array_f64(array, k) == rows[at].values[k]);
    ls_array_release(array);
    ls_saved_file_close(file);
  }
  put_npz("one.npz", false, "x", npy_bytes, sizeof(npy_bytes) - 1);
  expect_status(ls_saved_file_open("one.npz", &file), LS_INVALID_ARGUMENT,
                "'one.npz' has array 'x' of texts");
  put_npz("one.npz", false, "x", npy_texts, sizeof(npy_texts) - 1);
  expect_status(ls_saved_file_open("one.npz", &file), LS_UNIMPLEMENTED,
                "while reading 'one.npz'");
  put_npz("one.npz", false, "x", "text", 4);
  expect_status(ls_saved_file_open("one.npz", &file), LS_INVALID_ARGUMENT,
                "while reading 'one.npz'");
  static const struct {
    const char *bytes;
    size_t size;
  } whole[] = {{npz_stored, sizeof(npz_stored) - 1},
               {npz_deflated, sizeof(npz_deflated) - 1}};
  for (size_t i = 0; i < 2; ++i) {
    ls_saved_entry entry;
    expect_ok(ls_file_system_system()->write(NULL, "one.npz", whole[i].bytes,
                                             whole[i].size));
    expect_ok(ls_saved_file_open("one.npz", &file));
    expect_ok(ls_saved_file_entry(file, 0, &entry));
    assert_string_equal(entry.name, "x");
    expect_array(file, 1, "y", 7);
    ls_saved_file_close(file);
  }
}

TEST(chosen_arrays_are_written_under_other_names) {
  make_folder("chosen", 2);
  ls_saved_file *file = NULL, *made = NULL;
  size_t count = 0;
  expect_ok(ls_saved_file_open("chosen", &file));
  static const char *const made_names[] = {"made.safetensors", "made.npz"};
  for (size_t i = 0; i < 2; ++i) {
    expect_ok(ls_saved_file_write(
        file, made_names[i],
        &(ls_saved_write_options){ONLY("b"), MAPS({"b", "mine/b"})}, &count));
    assert_int_equal(count, 1);
    expect_ok(ls_saved_file_open(made_names[i], &made));
    expect_array(made, 0, "mine/b", 0.2);
    expect_status(ls_saved_file_check(made, 1), LS_OUT_OF_RANGE, "1 array");
    ls_saved_file_close(made);
    expect_status(ls_saved_file_write(
                      file, made_names[i],
                      &(ls_saved_write_options){MAPS({"b", "a"})}, &count),
                  LS_INVALID_ARGUMENT, "two arrays called 'a'");
    expect_status(ls_saved_file_write(file, made_names[i],
                                      &(ls_saved_write_options){ONLY("c")},
                                      &count),
                  LS_INVALID_ARGUMENT, "'c' fits no array of 2: 'a', 'b'");
    assert_int_equal(count, 0);
  }
  // A refused writing leaves what was there.
  expect_ok(ls_saved_file_open("made.npz", &made));
  expect_array(made, 0, "mine/b", 0.2);
  ls_saved_file_close(made);
  ls_saved_file_close(file);
  // A type that npz has not.
  ls_variable *v = variable_of("v", LS_DTYPE_BF16, LS_SHAPE(1), (double[]){1});
  save(v);
  ls_variable_release(v);
  expect_ok(ls_saved_file_open(path, &file));
  expect_status(ls_saved_file_write(file, "made.npz", NULL, NULL),
                LS_UNIMPLEMENTED, "bf16");
  ls_saved_file_close(file);
}

TEST(parts_of_replicas_are_left_out_unless_wanted) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(
      two, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                           .aggregation = LS_AGGREGATION_SUM});
  set_components(v, (double[]){3, 4}, 2);
  ls_saver exact = saver_of(&v);
  exact.exact = true;
  expect_ok(ls_saver_save(&exact, path));
  ls_saved_file *file = NULL;
  size_t count = 0;
  expect_ok(ls_saved_file_open(path, &file));
  ls_saved_entry entry;
  expect_ok(ls_saved_file_entry(file, 0, &entry));
  assert_false(entry.is_part);
  expect_ok(ls_saved_file_entry(file, 1, &entry));
  assert_true(entry.is_part);
  expect_ok(ls_saved_file_write(file, "whole.safetensors", NULL, &count));
  assert_int_equal(count, 1);
  expect_ok(ls_saved_file_write(file, "parts.npz",
                                &(ls_saved_write_options){.parts = LS_FLAG_ON},
                                &count));
  assert_int_equal(count, 3);
  ls_saved_file_close(file);
  set_components(v, (double[]){0, 0}, 2);
  expect_ok(ls_saver_restore_part(&exact, "parts.npz", NULL, NULL));
  expect_components(v, (double[]){3, 4}, 2);
}

// ---- Damage ----------------------------------------------------------------
TEST(no_cut_or_flipped_npz_brings_anything_down) {
  make_folder("garbled", 1);
  ls_saved_file *file = NULL;
  expect_ok(ls_saved_file_open("garbled", &file));
  expect_ok(ls_saved_file_write(file, "garbled.npz", NULL, NULL));
  ls_saved_file_close(file);
  const ls_file_system *files = ls_file_system_system();
  char *data = NULL;
  size_t size = 0;
  expect_ok(files->read(NULL, "garbled.npz", SIZE_MAX, ls_allocator_system(),
                        &data, &size));
  for (size_t i = 0; i < 2 * size; ++i) {
    const size_t at = i % size;
    if (i < size) data[at] = (char)(data[at] ^ (1 << (at % 8)));
    FILE *out = fopen("garbled.npz", "wb");
    assert_non_null(out);
    fwrite(data, 1, i < size ? size : at, out);
    fclose(out);
    if (i < size) data[at] = (char)(data[at] ^ (1 << (at % 8)));
    // A status, or the values: what is not covered by a checksum may differ.
    LS_OWN(ls_status, status) = ls_saved_file_open("garbled.npz", &file);
    for (size_t k = 0; k < 2 && ls_status_is_ok(status); ++k) {
      LS_OWN(ls_array, array) = NULL;
      LS_OWN(ls_status, read) = ls_saved_file_read(file, k, &array);
      if (ls_status_is_ok(read) && ls_array_num_elements(array) == 1 &&
          ls_array_dtype(array) == LS_DTYPE_F32)
        assert_true(ls_array_f64(array, 0) == (double)(k == 0 ? 1.0f : 0.1f));
    }
    ls_saved_file_close(file);
  }
  ls_release(ls_allocator_system(), data);
}

static ls_status open_and_write(void *user) {
  ls_saved_file *file = NULL;
  LS_RETURN_IF_ERROR(ls_saved_file_open(user, &file));
  ls_status status = ls_saved_file_write(
      file, "memory.npz", &(ls_saved_write_options){MAPS({"a", "c"})}, NULL);
  ls_saved_file_close(file);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_saved_file_open("memory.npz", &file));
  ls_array *array = NULL;
  ls_record *states = NULL;
  status = ls_saved_file_read(file, 1, &array);
  if (ls_status_is_ok(status))
    status = ls_saved_file_records(file, NULL, &states);
  ls_record_destroy(states);
  ls_array_release(array);
  ls_saved_file_close(file);
  return status;
}

TEST(failed_allocations_are_survived) {
  char folder[] = "memory";
  make_folder(folder, 1);
  REFUSE_EACH(open_and_write, folder);
}

TEST_FILE(.leaves = path)
