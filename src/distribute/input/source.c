// SPDX-License-Identifier: Apache-2.0
// Sources of the elements that a host feeds to its replicas.
#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "lockstep/element_spec.h"

// ---- Sources ----------------------------------------------------------------
ls_status ls_feed_source_init(ls_feed_source *self, ls_dataset *dataset,
                              ls_nest features, ls_nest labels) {
  *self = (ls_feed_source){0};
  if (dataset != NULL &&
      (features.kind != LS_KIND_NONE || labels.kind != LS_KIND_NONE))
    return ls_failed_precondition("internal error: input comes both from a "
                                  "data set and from features and labels");
  if (dataset != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  self->dataset = dataset != NULL ? ls_dataset_retain(dataset) : NULL;
  self->features = ls_nest_retain(features);
  self->labels = ls_nest_retain(labels);
  return ls_ok();
}

ls_status ls_feed_source_of(ls_feed_source *self, ls_nest value) {
  ls_dataset *dataset = ls_nest_as_dataset(value);
  ls_nest features = ls_none(), labels = ls_none();
  *self = (ls_feed_source){0};
  if (dataset == NULL)
    LS_RETURN_IF_ERROR(ls_features_split(value, &features, &labels));
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

ls_status ls_feed_source_make_even(ls_feed_source *self,
                                   const ls_even_options *options) {
  self->even = *options;
  self->is_even = true;
  if (self->dataset == NULL) return ls_ok();
  self->dataset = ls_even_batches(self->dataset, options);
  return ls_dataset_status(self->dataset);
}

ls_status ls_feed_source_begin(ls_feed_source *self, const char *name,
                               uint64_t seed) {
  if (self->dataset == NULL || self->iterator != NULL) return ls_ok();
  return ls_iterator_create(self->dataset,
                            &(ls_iterator_options){.name = name, .seed = seed},
                            &self->iterator);
}

// Splits an element of the data set, or its specs, into fields.
static ls_status take_element(const ls_feed_source *self, ls_nest element,
                              ls_feed_element *out_fed) {
  ls_nest features, labels;
  if (self->is_even && self->even.rule != LS_END_DROPPED) {
    ls_feed_element_take(element, out_fed);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_features_split(element, &features, &labels));
  out_fed->features = ls_nest_retain(features);
  out_fed->labels = ls_nest_retain(labels);
  return ls_ok();
}

ls_status ls_feed_source_specs(const ls_feed_source *self,
                               ls_feed_element *out_specs) {
  LS_OWN(ls_nest, specs) = ls_dataset_spec_nest(self->dataset);
  LS_RETURN_IF_ERROR(ls_nest_status(specs));
  return take_element(self, specs, out_specs);
}

// ---- The next element -------------------------------------------------------
static ls_status pad_values(const ls_feed_source *self,
                            ls_feed_element *out_fed) {
  const ls_row_shares *shares = &self->even.shares;
  int64_t count = 0;
  LS_RETURN_IF_ERROR(ls_shares_count(shares, self->features, &count));
  LS_RETURN_IF_ERROR(
      ls_features_pad(shares, self->features, self->labels, count, out_fed));
  return ls_take_nest(ls_shares_mask(shares, count, LS_DTYPE_F32, true),
                      &out_fed->mask);
}

static ls_status next_values(const ls_feed_source *self,
                             ls_feed_element *out_fed) {
  if (self->is_even && self->even.rule == LS_END_MASKED)
    return pad_values(self, out_fed);
  out_fed->features = ls_nest_retain(self->features);
  out_fed->labels = ls_nest_retain(self->labels);
  return ls_ok();
}

ls_status ls_feed_source_next(ls_feed_source *self, ls_feed_element *out_fed) {
  *out_fed = (ls_feed_element){0};
  LS_OWN(ls_feed_element, fed) = {0};
  if (self->dataset == NULL) {
    LS_RETURN_IF_ERROR(next_values(self, &fed));
    *out_fed = ls_give(&fed);
    return ls_ok();
  }
  if (self->iterator == NULL)
    return ls_failed_precondition("features and labels of a data set are "
                                  "requested before its initializer");
  if (self->has_signals)
    return ls_failed_precondition("features and labels are requested twice "
                                  "without the signals of the first");
  LS_OWN(ls_nest, element) = ls_iterator_get_next(self->iterator);
  LS_RETURN_IF_ERROR(ls_nest_status(element));
  LS_RETURN_IF_ERROR(take_element(self, element, &fed));
  self->signals = ls_give(&fed.signals);
  self->has_signals = self->signals.kind != LS_KIND_NONE;
  *out_fed = ls_give(&fed);
  return ls_ok();
}

ls_status ls_feed_source_signals(ls_feed_source *self, ls_nest *out_signals) {
  *out_signals = ls_none();
  if (!self->is_even || self->even.rule != LS_END_SIGNALLED) return ls_ok();
  if (!self->has_signals)
    return ls_failed_precondition(
        "signals are requested before their features and labels");
  *out_signals = ls_give(&self->signals);
  self->has_signals = false;
  return ls_ok();
}
