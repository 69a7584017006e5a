// SPDX-License-Identifier: Apache-2.0
// Signals of batches of a prediction, and data sets that have them.
#include "estimator/input/stopping_signals.h"

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "estimator/input/batches.h"
#include "estimator/spec/returned.h"
#include "lockstep/element_spec.h"

// ---- Signals ---------------------------------------------------------------
ls_tensor ls_stopping_signal(ls_tensor stopping) {
  return ls_reshape(
      ls_slice(stopping, LS_SHAPE(0, 0), LS_SHAPE(1, 1), LS_SCALAR), LS_SCALAR);
}

ls_nest ls_should_stop(ls_nest signal) {
  double number = 0;
  if (signal.kind == LS_KIND_TENSOR)
    return ls_leaf(ls_and(signal.as.tensor, ls_scalar(LS_DTYPE_BOOL, 1)));
  const ls_status status = ls_nest_to_number(signal, &number);
  return ls_status_is_ok(status) ? ls_nest_bool(number != 0) : ls_fail(status);
}

// ---- Elements --------------------------------------------------------------
typedef struct signaller {
  ls_allocator *allocator;
  ls_signal_options options;
  bool stops;
  bool hides;  // The mask says that nothing is real.
} signaller;

static void release_signaller(void *user) {
  signaller *self = user;
  ls_release(self->allocator, self);
}

static ls_nest dict_of_signals(ls_nest stopping, ls_nest mask) {
  static const char *const keys[] = {LS_SIGNAL_STOPPING, LS_SIGNAL_PADDING};
  const ls_nest items[] = {stopping, mask};
  return ls_nest_dict("", keys, items, mask.kind == LS_KIND_NONE ? 1 : 2);
}

static ls_nest stopping_of(const signaller *self) {
  const int64_t size = ls_padding_size(self->options.padding);
  const ls_nest made = ls_nest_zeros(LS_DTYPE_BOOL, LS_SHAPE(size, 1));
  if (!ls_nest_is_failed(made))
    memset(ls_nest_data(made, 0), self->stops, (size_t)size);
  return made;
}

static ls_nest signal_element(ls_nest element, const ls_map_call *call,
                              void *user) {
  const signaller *self = user;
  const ls_batch_padding padding = self->options.padding;
  ls_nest features, labels;
  int64_t count = 0;
  (void)call;
  ls_status status = ls_returned_split(element, &features, &labels);
  if (ls_status_is_ok(status) && self->options.pads)
    status = ls_padding_count(padding, features, &count);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (!self->options.pads)
    return ls_returned_dict(ls_nest_retain(features), ls_nest_retain(labels),
                            "signals",
                            dict_of_signals(stopping_of(self), ls_none()));
  return ls_returned_dict(
      ls_pad_arrays(padding, features, count),
      ls_pad_arrays(padding, labels, count), "signals",
      dict_of_signals(stopping_of(self),
                      ls_padding_mask(padding, self->hides ? 0 : count)));
}

// ---- Data sets -------------------------------------------------------------
static ls_nest signalled_specs(const ls_dataset *dataset,
                               const ls_signal_options *options) {
  const int64_t size = ls_padding_size(options->padding);
  const ls_nest all = ls_dataset_spec_nest(dataset);
  const bool pads = options->pads;
  ls_nest features, labels;
  ls_status status = ls_nest_status(all);
  if (ls_status_is_ok(status))
    status = ls_returned_split(all, &features, &labels);
  if (ls_status_is_ok(status) && pads && ls_nest_num_leaves(features) == 0)
    status = ls_invalid_argument("Cannot find any Tensor in the features, "
                                 "whose first dimension would be the batch "
                                 "size");
  const ls_nest made =
      !ls_status_is_ok(status)
          ? ls_fail(status)
          : ls_returned_dict(
                pads ? ls_pad_specs(options->padding, features)
                     : ls_nest_retain(features),
                pads ? ls_pad_specs(options->padding, labels)
                     : ls_nest_retain(labels),
                "signals",
                dict_of_signals(ls_nest_spec(LS_DTYPE_BOOL, LS_SHAPE(size, 1)),
                                pads
                                    ? ls_nest_spec(LS_DTYPE_I32, LS_SHAPE(size))
                                    : ls_none()));
  ls_nest_release(all);
  return made;
}

static ls_dataset *signalled(ls_dataset *dataset,
                             const ls_signal_options *options, bool stops) {
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  ls_allocator *allocator = ls_current_allocator();
  signaller *self = ls_new(allocator, signaller);
  if (self == NULL) return ls_dataset_fail(dataset, ls_out_of_memory());
  *self = (signaller){.allocator = allocator,
                      .options = *options,
                      .stops = stops,
                      .hides = stops && options->at_once > 1};
  const ls_nest specs = signalled_specs(dataset, options);
  return ls_dataset_map(dataset,
                        &(ls_map_options){.name = stops ? "stop" : "go_on",
                                          .call = signal_element,
                                          .user = self,
                                          .release = release_signaller,
                                          .result = specs});
}

ls_dataset *ls_signalled_batches(ls_dataset *dataset,
                                 const ls_signal_options *options) {
  if (dataset == NULL || !ls_status_is_ok(dataset->failure)) return dataset;
  ls_dataset *first = ls_dataset_take(ls_dataset_retain(dataset), 1);
  ls_dataset *end = signalled(first, options, true);
  if (options->at_once > 1)
    end = ls_dataset_repeat(end, 2 * options->at_once - 1);
  return ls_dataset_prefetch(
      ls_dataset_concatenate(signalled(dataset, options, false), end), 2);
}
