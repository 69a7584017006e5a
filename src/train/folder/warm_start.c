// SPDX-License-Identifier: Apache-2.0
#include "train/folder/warm_start.h"

#include "base/require.h"
#include "lockstep/training_parts.h"
#include "state/own.h"
#include "train/folder/run_folder.h"
#include "train/folder/saved_values.h"

static void warm_start_tell(ls_runtime *runtime, const ls_saved_file *file,
                            const ls_value_report *report) {
  ls_saved_info info;
  size_t all = 0;
  ls_saved_file_describe(file, &info);
  for (int fate = 0; fate < LS_VALUE_FATES; ++fate)
    all += fate != LS_VALUE_EXTRA ? report->count[fate] : 0;
  ls_runtime_log(
      runtime, LS_LOG_INFO, "train", "%zu of %zu variables start with '%s'",
      report->count[LS_VALUE_RESTORED] + report->count[LS_VALUE_RENAMED], all,
      info.path);
}

static ls_status warm_start_restore(ls_runtime *runtime, const ls_model *model,
                                    const ls_saved_file *file,
                                    const ls_value_choice *values) {
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  ls_saver saver = {0};
  ls_value_report report;
  LS_RETURN_IF_ERROR(ls_train_variables(runtime, model, false, &variables,
                                        &saver.num_variables));
  saver.variables = variables;
  LS_RETURN_IF_ERROR(ls_saved_file_restore_part(file, &saver, values, &report));
  warm_start_tell(runtime, file, &report);
  return ls_ok();
}

ls_status ls_warm_start_apply(ls_runtime *runtime, const ls_model *model,
                              const ls_warm_start *warm_start) {
  if (warm_start == NULL) return ls_ok();
  LS_REQUIRE(warm_start->path);
  LS_OWN(ls_saved_file, file) = NULL;
  ls_status status = ls_run_folder_recover(runtime, warm_start->path);
  if (ls_status_is_ok(status))
    status = ls_saved_file_open(warm_start->path, &file);
  if (ls_status_is_ok(status))
    status = warm_start_restore(runtime, model, file, &warm_start->values);
  return ls_status_annotate(status, "model '%s' was to start with that",
                            model->type->name);
}
