// SPDX-License-Identifier: Apache-2.0
#include "support/place.h"

#include "support/expect.h"

#include <stdlib.h>
#include <string.h>

static const char *environment_of(void *user, const char *name) {
  const place *where = user;
  if (strcmp(name, "LS_CUT") == 0) return where->cut;
  if (strcmp(name, "LS_LANES") == 0) return where->lanes;
  return getenv(name);
}

ls_status place_open(const place *where, ls_communicator *communicator,
                     open_place *out) {
  const ls_status status = ls_runtime_create(
      &(ls_runtime_options){.threads = where->threads,
                            .communicator = communicator,
                            .environment = environment_of,
                            .environment_user = (void *)(uintptr_t)where},
      &out->runtime);
  if (ls_status_is_ok(status))
    out->before = ls_runtime_make_current(out->runtime);
  return status;
}

ls_status place_close(open_place *self, ls_status status) {
  ls_runtime_make_current(self->before);
  return ls_status_join(status, ls_runtime_destroy(self->runtime));
}

open_place runtime_begin(ls_runtime_options options) {
  open_place self = {0};
  expect_ok(ls_runtime_create(&options, &self.runtime));
  self.before = ls_runtime_make_current(self.runtime);
  return self;
}

void runtime_end(open_place *self) {
  assert_ptr_equal(ls_runtime_make_current(self->before), self->runtime);
  expect_ok(ls_runtime_destroy(self->runtime));
}
