// SPDX-License-Identifier: Apache-2.0
// Where a host's ops take what they feed.
#include "estimator/input/feed_source.h"

#include "data/dataset.h"
#include "estimator/spec/returned.h"
#include "lockstep/element_spec.h"

void ls_feed_element_drop(ls_feed_element *fed) {
  ls_nest_release(fed->features);
  ls_nest_release(fed->labels);
  ls_nest_release(fed->mask);
  ls_nest_release(fed->ended);
  ls_nest_release(fed->signals);
  *fed = (ls_feed_element){0};
}

// ---- Making ----------------------------------------------------------------
ls_status ls_feed_source_init(ls_feed_source *self, ls_dataset *dataset,
                              ls_nest features, ls_nest labels) {
  *self = (ls_feed_source){0};
  if (dataset != NULL &&
      (features.kind != LS_KIND_NONE || labels.kind != LS_KIND_NONE))
    return ls_failed_precondition("internal error: what is fed comes from a "
                                  "data set and from features and labels");
  if (dataset != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  self->dataset = dataset != NULL ? ls_dataset_retain(dataset) : NULL;
  self->features = ls_nest_retain(features);
  self->labels = ls_nest_retain(labels);
  return ls_ok();
}

ls_status ls_feed_source_of(ls_feed_source *self, ls_nest made) {
  ls_dataset *dataset = ls_nest_as_dataset(made);
  ls_nest features = ls_none(), labels = ls_none();
  *self = (ls_feed_source){0};
  if (dataset == NULL)
    LS_RETURN_IF_ERROR(ls_returned_split(made, &features, &labels));
  return ls_feed_source_init(self, dataset, features, labels);
}

void ls_feed_source_deinit(ls_feed_source *self) {
  ls_dataset_release(self->dataset);
  ls_iterator_release(self->iterator);
  ls_nest_release(self->features);
  ls_nest_release(self->labels);
  ls_nest_release(self->signals);
  *self = (ls_feed_source){0};
}

ls_status ls_feed_source_become(ls_feed_source *self, ls_source_kind kind,
                                ls_dataset *dataset) {
  ls_dataset_release(self->dataset);
  self->dataset = dataset;
  self->kind = kind;
  return ls_dataset_status(dataset);
}

ls_status ls_feed_source_begin(ls_feed_source *self, const char *name,
                               uint64_t seed) {
  if (self->dataset == NULL || self->iterator != NULL) return ls_ok();
  return ls_iterator_create(self->dataset,
                            &(ls_iterator_options){.name = name, .seed = seed},
                            &self->iterator);
}

// ---- Asking ----------------------------------------------------------------
// Features and labels of an element, or of its specs; both are lent.
static ls_status feed_source_split(const ls_feed_source *self, ls_nest element,
                                   ls_nest *out_features, ls_nest *out_labels) {
  if (self->kind == LS_SOURCE_PLAIN)
    return ls_returned_split(element, out_features, out_labels);
  *out_features = ls_nest_find(element, "features");
  *out_labels = ls_nest_find(element, "labels");
  return ls_ok();
}

// Before an iterator refuses it, which knows nothing of features and labels.
static ls_status feed_source_check_static(const ls_feed_source *self) {
  ls_nest features = ls_none(), labels = ls_none();
  const ls_nest specs = ls_dataset_spec_nest(self->dataset);
  ls_status status = ls_nest_status(specs);
  if (ls_status_is_ok(status))
    status = feed_source_split(self, specs, &features, &labels);
  if (ls_status_is_ok(status))
    status = ls_returned_check_static(features, labels);
  ls_nest_release(specs);
  return status;
}

static ls_status feed_source_take(ls_feed_source *self, ls_nest element,
                                  ls_feed_element *out) {
  ls_nest features, labels;
  LS_RETURN_IF_ERROR(feed_source_split(self, element, &features, &labels));
  out->features = ls_nest_retain(features);
  out->labels = ls_nest_retain(labels);
  if (self->kind == LS_SOURCE_PLAIN) return ls_ok();
  out->mask = ls_nest_retain(ls_nest_find(element, "mask"));
  out->ended = ls_nest_retain(ls_nest_find(element, "ended"));
  self->signals = ls_nest_retain(ls_nest_find(element, "signals"));
  self->has_signals = self->kind == LS_SOURCE_SIGNALLED;
  return ls_ok();
}

ls_status ls_feed_source_next(ls_feed_source *self, ls_feed_element *out_fed) {
  *out_fed = (ls_feed_element){0};
  if (self->dataset == NULL) {
    out_fed->features = ls_nest_retain(self->features);
    out_fed->labels = ls_nest_retain(self->labels);
    return ls_ok();
  }
  if (self->iterator == NULL)
    return ls_failed_precondition("features and labels of a data set are asked "
                                  "for before its initializer");
  if (self->has_signals)
    return ls_failed_precondition("features and labels are asked for twice: "
                                  "between are the signals of the first");
  LS_RETURN_IF_ERROR(feed_source_check_static(self));
  const ls_nest element = ls_iterator_get_next(self->iterator);
  ls_status status = ls_nest_status(element);
  if (ls_status_is_ok(status))
    status = feed_source_take(self, element, out_fed);
  ls_nest_release(element);
  return status;
}

ls_status ls_feed_source_signals(ls_feed_source *self, ls_nest *out_signals) {
  *out_signals = ls_none();
  if (self->kind != LS_SOURCE_SIGNALLED) return ls_ok();
  if (!self->has_signals)
    return ls_failed_precondition("signals are asked for before the features "
                                  "and labels that they belong to");
  *out_signals = self->signals;
  self->signals = ls_none();
  self->has_signals = false;
  return ls_ok();
}
