// SPDX-License-Identifier: Apache-2.0
#include "support/saving.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "lockstep/eager.h"
#include "support/expect.h"
#include "support/safetensors.h"

const char path[] = "saver-test.safetensors";

ls_saver saver_of(ls_variable *const *variable) {
  return (ls_saver){.variables = variable, .num_variables = 1};
}

void save(ls_variable *variable) {
  const ls_saver saver = saver_of(&variable);
  expect_ok(ls_saver_save(&saver, path));
}

void restore(ls_variable *variable) {
  const ls_saver saver = saver_of(&variable);
  expect_ok(ls_saver_restore(&saver, path));
}

ls_variable *plain(const char *name, double initial) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, initial);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = array}, &variable));
  return variable;
}

double value_of(ls_variable *variable) {
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_variable_value(variable, &array));
  return ls_array_f64(array, 0);
}

void expect_entries(const char *const *names, const double *values,
                    size_t count) {
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(ls_safetensors_open(ls_runtime_current(), path, &file));
  assert_int_equal(file.num_entries, count);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_array, array) = safetensors_array(&file, names[i]);
    if (array == NULL) fail_msg("there is no entry '%s'", names[i]);
    assert_true(ls_array_f64(array, 0) == values[i]);
  }
}

void expect_entry(const char *name, double value) {
  expect_entries(&name, &value, 1);
}
