// SPDX-License-Identifier: Apache-2.0
// Filter: keeps the elements for which a function returns true.
#include "base/plain.h"
#include "base/require.h"
#include "data/streams.h"
#include "lockstep/streams.h"

typedef struct filter {
  ls_dataset dataset;
  char name[64];
  ls_filter_options options;
} filter;

// ---- Reading ---------------------------------------------------------------
static ls_status is_kept(ls_stage *stage, ls_nest element, bool *out_keep) {
  const filter *self = (const filter *)stage->dataset;
  const ls_map_call call =
      ls_map_call_make(stage->work->seed, self->options.stream, stage->epoch,
                       ls_stage_id(stage->inputs[0]));
  *out_keep = false;
  return ls_status_annotate(ls_stage_no_end(self->options.call(
                                element, &call, self->options.user, out_keep)),
                            "filter '%s' of element %lld", self->name,
                            (long long)call.id);
}

static ls_status filter_next(ls_stage *stage, ls_nest *element) {
  bool keep = false;
  while (!keep) {
    LS_RETURN_IF_ERROR(ls_stage_next(stage->inputs[0], element));
    LS_RETURN_IF_ERROR(is_kept(stage, *element, &keep));
  }
  return ls_ok();
}

static const ls_stage_class filter_stage = {.next = filter_next};

// ---- Making ----------------------------------------------------------------
static void filter_describe(const ls_dataset *dataset, ls_text *text) {
  const filter *self = (const filter *)dataset;
  ls_text_append(text, self->name);
  if (self->options.stream != 0)
    ls_text_append_format(text, ", stream=%llu",
                          (unsigned long long)self->options.stream);
}

static ls_dataset *filter_remake(const ls_dataset *dataset,
                                 ls_dataset **inputs);

static const ls_dataset_class filter_class = {.name = "filter",
                                              .describe = filter_describe,
                                              .remake = filter_remake,
                                              .stage = &filter_stage};

static ls_dataset *filter_make(ls_dataset *input, const ls_filter_options *o,
                               ls_user *user) {
  filter *self = (filter *)ls_dataset_new_with(
      &filter_class, sizeof(*self), &input, 1, user,
      o->call != NULL ? ls_ok()
                      : ls_invalid_argument("filter needs a function `call`"));
  if (self == NULL) return NULL;
  self->options = *o;
  ls_format(self->name, sizeof(self->name), "%s",
            o->name != NULL ? o->name : "filter");
  self->options.name = self->name;
  self->dataset.indexed = false;
  // An empty data set stays empty; any other, even an endless one, gets an
  // unknown size.
  if (self->dataset.size != 0) self->dataset.size = LS_UNKNOWN_SIZE;
  return &self->dataset;
}

static ls_dataset *filter_remake(const ls_dataset *dataset,
                                 ls_dataset **inputs) {
  const filter *self = (const filter *)dataset;
  return filter_make(inputs[0], &self->options,
                     ls_object_retain(dataset->user));
}

ls_dataset *ls_dataset_filter(ls_dataset *dataset,
                              const ls_filter_options *options) {
  LS_DATASET_REQUIRE(options, filter, &filter_class, &dataset, 1);
  return filter_make(dataset, options,
                     ls_user_create(options->user, options->release));
}
