// SPDX-License-Identifier: Apache-2.0
#include "lockstep/table.h"

#include "distribute/own.h"
#include "support/expect.h"
#include "support/ways.h"

// ---- Values ----------------------------------------------------------------
static ls_array *array_of(ls_dtype dtype, size_t count, const void *data) {
  ls_array *array = NULL;
  expect_ok(
      ls_array_create_copy(dtype, LS_SHAPE((int64_t)count), data, &array));
  return array;
}

static const ls_bytes animals[] = {{"cat", 3}, {"dog", 3}, {"", 0}};

// Numbers of words.
static ls_table *words(bool has_missing) {
  LS_OWN(ls_array, keys) = array_of(LS_DTYPE_STRING, 3, animals);
  LS_OWN(ls_array, values) = array_of(LS_DTYPE_I64, 3, (int64_t[]){7, 8, 9});
  LS_OWN(ls_array, missing) = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &(int64_t){-1}, &missing));
  ls_table *table = NULL;
  expect_ok(ls_table_create(
      &(ls_table_options){.name = "words",
                          .keys = keys,
                          .values = values,
                          .missing = has_missing ? missing : NULL},
      &table));
  return table;
}

static void make_words(ways *self) { self->more = words(self->user != NULL); }
static void drop_table(ways *self) { ls_table_release(self->more); }

static ls_nest look_up(ls_nest args, ways *self) {
  (void)args;
  const ls_bytes asked[] = {{"", 0}, {"dog", 3}, {"mouse", 5}};
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_STRING, 3, asked);
  const ls_tensor keys = ls_constant(array);
  return LS_TUPLE(ls_leaf(ls_table_lookup(self->more, keys)),
                  ls_leaf(ls_table_size(self->more)));
}

static void expect_numbers(const ways *self) {
  for (int r = 0; r < self->replicas; ++r) {
    assert_true(ways_result(self, 0, r, 0, 0) == 9);
    assert_true(ways_result(self, 0, r, 0, 1) == 8);
    assert_true(ways_result(self, 0, r, 0, 2) == -1);
    assert_true(ways_result(self, 0, r, 1, 0) == 3);
  }
}

static ls_nest look_up_numbers(ls_nest args, ways *self) {
  (void)args;
  return ls_leaf(
      ls_table_lookup(self->more, ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1)));
}

TEST(a_table_is_looked_up_in_every_way) {
  const ways_case cases[] = {
      {.name = "words",
       .user = "missing",
       .make = make_words,
       .drop = drop_table,
       .step = look_up,
       .check = expect_numbers},
      {.name = "a word that is not there",
       .make = make_words,
       .drop = drop_table,
       .step = look_up,
       .refused = LS_NOT_FOUND,
       .says = "key 'mouse' is not in table 'words'"},
      {.name = "other keys",
       .make = make_words,
       .drop = drop_table,
       .step = look_up_numbers,
       .refused = LS_INVALID_ARGUMENT,
       .says = "table 'words' has keys of string, got f32[2]"},
  };
  ways_hold(cases, sizeof(cases) / sizeof(*cases));
}

// ---- Refusals --------------------------------------------------------------
TEST(a_table_that_cannot_be_is_refused_by_name) {
  LS_OWN(ls_array, keys) = array_of(LS_DTYPE_I32, 3, (int32_t[]){1, 2, 1});
  LS_OWN(ls_array, two) = array_of(LS_DTYPE_I32, 2, (int32_t[]){1, 2});
  LS_OWN(ls_array, floats) = array_of(LS_DTYPE_F32, 3, (float[]){1, 2, 3});
  ls_table *table = NULL;
  const struct {
    ls_table_options options;
    const char *says;
  } cases[] = {
      {{.keys = keys, .values = floats},
       "key 1 is there twice in table 'table'"},
      {{.keys = two, .values = floats}, "has 2 keys and 3 values"},
      {{.keys = floats, .values = floats}, "must be strings or integers"},
      {{.values = floats}, "has no keys"},
      {{.keys = two, .values = two, .missing = two},
       "must be i32[], is i32[2]"},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i) {
    expect_status(ls_table_create(&cases[i].options, &table),
                  LS_INVALID_ARGUMENT, cases[i].says);
    assert_null(table);
  }
}

TEST(a_table_outside_of_hosts_is_one) {
  LS_OWN(ls_table, table) = words(true);
  assert_int_equal(ls_table_num_hosts(table), 0);
  assert_null(ls_table_host(table, 0));
  assert_null(ls_table_on_host(table, 0));
  assert_ptr_equal(ls_table_here(table), table);
}
