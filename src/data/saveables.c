// SPDX-License-Identifier: Apache-2.0
#include "lockstep/saveables.h"

#include "base/require.h"
#include "lockstep/function_plan.h"

static ls_status save_iterator(void *self, ls_record *record) {
  return ls_iterator_save(self, record);
}

static ls_status restore_iterator(void *self, const ls_record *record) {
  return ls_iterator_restore(self, record);
}

ls_saveable ls_saveable_iterator(const char *name, ls_iterator *iterator) {
  return (ls_saveable){name, iterator, save_iterator, restore_iterator};
}

static ls_status save_function(void *self, ls_record *record) {
  LS_REQUIRE(self);
  return ls_record_set_i64(record, "steps", (int64_t)ls_function_steps(self));
}

static ls_status restore_function(void *self, const ls_record *record) {
  LS_REQUIRE(self);
  int64_t steps = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "steps", &steps));
  ls_function_set_steps(self, (uint64_t)steps);
  return ls_ok();
}

ls_saveable ls_saveable_function(const char *name, ls_function *function) {
  return (ls_saveable){name, function, save_function, restore_function};
}
