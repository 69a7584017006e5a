// SPDX-License-Identifier: Apache-2.0
// Results of an evaluation in event files.
#include "estimator/calls/eval_events.h"

#include <string.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "estimator/config/params.h"
#include "lockstep/events.h"

static ls_status eval_events_write_text(ls_event_writer *writer,
                                        const char *key, int64_t number,
                                        int64_t step, ls_bytes bytes) {
  LS_OWN(ls_text, tag) = {0};
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&tag, ls_current_allocator());
  ls_text_init(&text, ls_current_allocator());
  ls_text_append_format(&tag, "%s/%lld", key, (long long)number);
  ls_text_append_bytes(&text, bytes.data, bytes.size);
  LS_RETURN_IF_ERROR(ls_text_status(&tag));
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return ls_event_writer_text(writer, ls_text_data(&tag), step,
                              ls_text_data(&text));
}

// Writes summaries that were put together, value by value; other strings as
// texts.
static ls_status write_strings(ls_event_writer *writer, const char *key,
                               int64_t step, const ls_array *strings) {
  const ls_bytes *items = ls_array_data(strings);
  int64_t number = 0;
  for (int64_t i = 0; i < ls_array_num_elements(strings); ++i) {
    size_t count = 0;
    LS_RETURN_IF_ERROR(
        ls_event_writer_summary(writer, key, step, number, items[i], &count));
    if (count == 0)
      LS_RETURN_IF_ERROR(
          eval_events_write_text(writer, key, number, step, items[i]));
    number += count > 0 ? (int64_t)count : 1;
  }
  return ls_ok();
}

static ls_status write_value(const ls_estimator *self, ls_event_writer *writer,
                             const char *key, int64_t step, ls_nest value) {
  const ls_array *array = ls_nest_as_array(value);
  double number = 0;
  if (array != NULL && ls_array_dtype(array) == LS_DTYPE_STRING)
    return write_strings(writer, key, step, array);
  if (array != NULL && ls_array_shape(array).rank > 0)
    return ls_event_writer_tensor(writer, key, step, array);
  const ls_status status = ls_nest_to_number(value, &number);
  if (ls_status_is_ok(status))
    return ls_event_writer_scalar(writer, key, step, number);
  ls_runtime_log(self->runtime, LS_LOG_WARNING, "estimator",
                 "the metric '%s' is not written: %s", key,
                 ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

static ls_status eval_events_write_all(const ls_estimator *self,
                                       ls_event_writer *writer,
                                       const char *checkpoint,
                                       ls_nest metrics) {
  const int64_t step = ls_params_i64(metrics, "global_step", 0);
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    if (strcmp(ls_nest_key(metrics, i), "global_step") != 0)
      LS_RETURN_IF_ERROR(write_value(self, writer, ls_nest_key(metrics, i),
                                     step, ls_nest_item(metrics, i)));
  return checkpoint == NULL ? ls_ok()
                            : ls_event_writer_text(writer, "checkpoint_path",
                                                   step, checkpoint);
}

ls_status ls_check_evaluation_name(const char *name) {
  return name == NULL || name[0] == 0
             ? ls_ok()
             : ls_file_name_check("the name of an evaluation", name);
}

ls_status ls_write_eval_events(const ls_estimator *self, const char *name,
                               const char *checkpoint, ls_nest metrics) {
  ls_event_writer *writer = NULL;
  LS_OWN(ls_text, folder) = {0};
  ls_text_init(&folder, ls_current_allocator());
  ls_text_append_format(&folder, "%s/eval%s%s", self->model_dir,
                        name != NULL && name[0] != 0 ? "_" : "",
                        name != NULL ? name : "");
  LS_RETURN_IF_ERROR(ls_text_status(&folder));
  LS_RETURN_IF_ERROR(ls_folder_check_own(self->runtime, ls_text_data(&folder)));
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){
          .folder = ls_text_data(&folder),
          .first_step = INT64_MAX,  // Earlier ones stay.
      },
      &writer));
  const ls_status status =
      eval_events_write_all(self, writer, checkpoint, metrics);
  return ls_status_join(status, ls_event_writer_close(writer));
}
