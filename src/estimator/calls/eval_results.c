// SPDX-License-Identifier: Apache-2.0
#include "estimator/calls/estimator.h"

#include <string.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "estimator/config/config.h"
#include "lockstep/distributed.h"
#include "lockstep/events.h"

// ---- Losses ----------------------------------------------------------------
static double rounded(const ls_eval_losses *self, double x) {
  return self->is_wide ? x : (double)(float)x;
}

static const ls_array *component_of(ls_nest leaf, size_t replica) {
  return ls_nest_as_array(ls_distributed_component(leaf, replica));
}

static ls_status eval_losses_begin(ls_eval_losses *self, ls_nest losses) {
  const size_t replicas = ls_distributed_count(losses);
  self->count = replicas > 0 && !self->of_first ? replicas : 1;
  self->is_wide = ls_array_dtype(component_of(losses, 0)) == LS_DTYPE_F64;
  self->sums = ls_new_array(ls_current_allocator(), double, self->count);
  return self->sums != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_eval_losses_add(ls_eval_losses *self, ls_nest losses,
                             ls_nest examples) {
  if (self->sums == NULL) LS_RETURN_IF_ERROR(eval_losses_begin(self, losses));
  self->by_examples = examples.kind != LS_KIND_NONE;
  ++self->steps;
  for (size_t r = 0; r < self->count; ++r) {
    const double loss = ls_array_f64(component_of(losses, r), 0);
    self->sums[r] = rounded(self, self->sums[r] + loss);
    if (self->by_examples)
      self->examples += ls_array_i64(component_of(examples, r), 0);
  }
  return ls_ok();
}

// Adds `count` sums from index `from` on, splitting at the largest power of two
// below `count`.
static double tree_sum(const ls_eval_losses *self, size_t from, size_t count) {
  size_t left = 1;
  if (count == 1) return self->sums[from];
  while (left * 2 < count)
    left *= 2;
  return rounded(self, tree_sum(self, from, left) +
                           tree_sum(self, from + left, count - left));
}

// Adds a loss. The first loss is stored unchanged, so that a single one keeps
// all its bits.
void ls_eval_losses_add_mean(ls_eval_losses *self, double loss, double weight) {
  if (!(weight > 0)) return;
  const double total = self->weight + weight;
  self->mean = self->weight > 0
                   ? (self->mean * self->weight + loss * weight) / total
                   : loss;
  self->weight = total;
}

bool ls_eval_losses_any(const ls_eval_losses *self) {
  if (self->weight > 0) return true;
  return self->steps > 0 && (!self->by_examples || self->examples > 0);
}

double ls_eval_losses_mean(const ls_eval_losses *self) {
  if (self->weight > 0) return self->mean;
  const double sum = tree_sum(self, 0, self->count);
  const double parts =
      self->by_examples ? (double)self->examples : (double)self->count;
  const double one = rounded(self, 1 / rounded(self, parts));
  const double mean = rounded(self, sum * one);
  return self->by_examples
             ? mean
             : rounded(self, mean / rounded(self, (double)self->steps));
}

void ls_eval_losses_drop(ls_eval_losses *self) {
  ls_release(ls_current_allocator(), self->sums);
  *self = (ls_eval_losses){.of_first = self->of_first};
}

// ---- Event files -----------------------------------------------------------
static ls_status eval_events_write_text(ls_event_writer *writer,
                                        const char *key, int64_t number,
                                        int64_t step, ls_bytes bytes) {
  LS_OWN(ls_text, tag) = {.allocator = ls_current_allocator()};
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&tag, "%s/%lld", key, (long long)number);
  ls_text_append_bytes(&text, bytes.data, bytes.size);
  LS_RETURN_IF_ERROR(ls_text_status(&tag));
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return ls_event_writer_text(writer, ls_text_data(&tag), step,
                              ls_text_data(&text));
}

// Writes the values of merged summaries one by one, and other strings as texts.
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

ls_status ls_print_eval_folder(const ls_estimator *self, const char *name,
                               ls_text *out) {
  const bool is_named = name != NULL && name[0] != '\0';
  ls_text_init(out, ls_current_allocator());
  ls_text_append_format(out, "%s/eval%s%s", self->model_dir,
                        is_named ? "_" : "", is_named ? name : "");
  return ls_text_status(out);
}

ls_status ls_write_eval_events(const ls_estimator *self, const char *name,
                               const char *checkpoint, ls_nest metrics) {
  ls_event_writer *writer = NULL;
  LS_OWN(ls_text, folder) = {0};
  LS_RETURN_IF_ERROR(ls_print_eval_folder(self, name, &folder));
  LS_RETURN_IF_ERROR(ls_folder_check_own(self->runtime, ls_text_data(&folder)));
  LS_RETURN_IF_ERROR(ls_event_writer_open(
      &(ls_event_writer_options){
          .folder = ls_text_data(&folder),
          .first_step = INT64_MAX,  // Keeps the events of earlier evaluations.
      },
      &writer));
  const ls_status status =
      eval_events_write_all(self, writer, checkpoint, metrics);
  return ls_status_join(status, ls_event_writer_close(writer));
}
