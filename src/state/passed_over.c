// SPDX-License-Identifier: Apache-2.0
#include "state/passed_over.h"

#include "base/plain.h"

void ls_passed_over_add(ls_passed_over *self, int64_t step, ls_status why) {
  if (self->count++ > 0) {
    ls_status_free(why);
    return;
  }
  self->newest = step;
  self->why = why;
}

void ls_passed_over_log(ls_passed_over *self, ls_runtime *runtime,
                        const char *folder, int64_t taken) {
  char others[64] = " is";
  if (self->count > 1)
    ls_format(others, sizeof(others), " and %zu other%s are", self->count - 1,
              self->count > 2 ? "s" : "");
  if (self->count > 0)
    ls_runtime_log(runtime, LS_LOG_WARNING, "checkpoint",
                   "'%s/model.ckpt-%lld'%s passed over for "
                   "'%s/model.ckpt-%lld', the newest checkpoint that is whole: "
                   "%s",
                   folder, (long long)self->newest, others, folder,
                   (long long)taken, ls_status_message(self->why));
  ls_passed_over_deinit(self);
}

ls_status ls_passed_over_end(ls_passed_over *self, const char *folder) {
  const ls_status why = self->why;
  *self = (ls_passed_over){0};
  return ls_status_code(why) == LS_DATA_LOSS
             ? ls_status_annotate(why, "no checkpoint in '%s' is whole", folder)
             : why;
}

void ls_passed_over_deinit(ls_passed_over *self) {
  ls_status_free(self->why);
  *self = (ls_passed_over){0};
}
