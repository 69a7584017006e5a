// SPDX-License-Identifier: Apache-2.0
// Layer: nn
//
// Bags: owners of objects that live equally long. A bag releases everything
// created in it and keeps the first failure, so that a program sets up its
// layers, optimizer and function without checking every line and makes one call
// at the end:
//
//   ls_bag bag = {0};
//   net.hidden = ls_dense_layer_in(&bag, .inputs = 784, .units = 128);
//   net.optimizer = ls_adam_in(&bag, .learning_rate = 0.01);
//   train = ls_function_in(&bag, .call = step, .user = &net);
//   ls_status status = ls_bag_take_error(&bag);
//   ...
//   ls_bag_empty(&bag);
//
// A name ending in _in is a macro that takes a bag and the fields of the
// options; it returns NULL after a failure. In C++ it is a function of the bag
// and the options: `ls_adam_in(&bag, options)`, and from C++20 on also
// `ls_adam_in(&bag, {.learning_rate = 0.01})`.
//
// Threads: a bag belongs to one thread at a time.
#ifndef LOCKSTEP_BAG_H_
#define LOCKSTEP_BAG_H_

#include "lockstep/data.h"
#include "lockstep/function.h"
#include "lockstep/iterator.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/strategy.h"
#include "lockstep/weights.h"

#ifdef __cplusplus
extern "C" {
#endif

// A plain value; zeroed it is empty.
typedef struct ls_bag {
  struct ls_bag_item *last;
  ls_status error;  // The first failure, until it is taken.
} ls_bag;

// Adds `thing` to the bag, which will release it by calling `release`. For
// objects that none of the makers below creates. NULL is fine. Returns `thing`;
// returns NULL, and releases `thing` at once, if `status` (taken over) is a
// failure or memory runs out.
LS_API void *ls_bag_keep(ls_bag *bag, ls_status status, void *thing,
                         void (*release)(void *thing));
// Adds a nest, taken over, and returns a pointer to it, lent, which may be
// passed to a call as its in-out results, for instance. Returns NULL after a
// failure.
LS_API ls_nest *ls_nest_in(ls_bag *bag, ls_nest nest);
// Adds a nest, taken over, and returns it by value, lent; a none leaf after a
// failure.
LS_API ls_nest ls_bag_nest(ls_bag *bag, ls_nest nest);
// Returns the first failure since the bag was created or since this was last
// called; the caller owns it.
LS_API LS_MUST_USE ls_status ls_bag_take_error(ls_bag *bag);
// Releases everything, in reverse order of creation, and the error. The bag is
// then as new.
LS_API void ls_bag_empty(ls_bag *bag);

// Definitions of the makers below.
#define LS_BAG_MAKER_(maker, type, options_type, drop)                         \
  static inline void maker##_drop_(void *thing) { drop((type *)thing); }       \
  static inline type *maker##_in_(ls_bag *bag, const options_type *options) {  \
    type *made = NULL;                                                         \
    if (bag->error != NULL) return NULL;                                       \
    const ls_status status = maker##_create(options, &made);                   \
    return (type *)ls_bag_keep(bag, status, made, maker##_drop_);              \
  }                                                                            \
  LS_BAG_CXX_MAKER_(maker, type, options_type)
#ifdef __cplusplus
#define LS_BAG_CXX_MAKER_(maker, type, options_type)                           \
  inline type *maker##_in(ls_bag *bag,                                         \
                          const options_type &options = options_type()) {      \
    return maker##_in_(bag, &options);                                         \
  }
#else
#define LS_BAG_CXX_MAKER_(maker, type, options_type)
#endif
LS_BAG_MAKER_(ls_dense_layer, ls_dense_layer, ls_dense_options,
              ls_dense_layer_destroy)
LS_BAG_MAKER_(ls_conv_layer, ls_conv_layer, ls_conv_options,
              ls_conv_layer_destroy)
LS_BAG_MAKER_(ls_batch_norm_layer, ls_batch_norm_layer, ls_batch_norm_options,
              ls_batch_norm_layer_destroy)
LS_BAG_MAKER_(ls_norm_layer, ls_norm_layer, ls_norm_options,
              ls_norm_layer_destroy)
LS_BAG_MAKER_(ls_embedding_layer, ls_embedding_layer, ls_embedding_options,
              ls_embedding_layer_destroy)
LS_BAG_MAKER_(ls_attention_layer, ls_attention_layer,
              ls_attention_layer_options, ls_attention_layer_destroy)
LS_BAG_MAKER_(ls_recurrent_layer, ls_recurrent_layer, ls_recurrent_options,
              ls_recurrent_layer_destroy)
LS_BAG_MAKER_(ls_sgd, ls_optimizer, ls_sgd_options, ls_optimizer_release)
LS_BAG_MAKER_(ls_adam, ls_optimizer, ls_adam_options, ls_optimizer_release)
LS_BAG_MAKER_(ls_adamw, ls_optimizer, ls_adam_options, ls_optimizer_release)
LS_BAG_MAKER_(ls_lamb, ls_optimizer, ls_adam_options, ls_optimizer_release)
LS_BAG_MAKER_(ls_adagrad, ls_optimizer, ls_adagrad_options,
              ls_optimizer_release)
LS_BAG_MAKER_(ls_rmsprop, ls_optimizer, ls_rmsprop_options,
              ls_optimizer_release)
LS_BAG_MAKER_(ls_lion, ls_optimizer, ls_lion_options, ls_optimizer_release)
LS_BAG_MAKER_(ls_weight, ls_variable, ls_weight_options, ls_variable_release)
LS_BAG_MAKER_(ls_function, ls_function, ls_function_options,
              ls_function_release)
LS_BAG_MAKER_(ls_mirrored_strategy, ls_strategy, ls_mirrored_options,
              ls_strategy_release)

// Maker of a running mean.
static inline void ls_running_mean_drop_(void *thing) {
  ls_running_mean_destroy((ls_running_mean *)thing);
}
static inline ls_running_mean *ls_running_mean_in(ls_bag *bag,
                                                  const char *name) {
  ls_running_mean *made = NULL;
  if (bag->error != NULL) return NULL;
  const ls_status status = ls_running_mean_create(name, &made);
  return (ls_running_mean *)ls_bag_keep(bag, status, made,
                                        ls_running_mean_drop_);
}

// Makers of a data set, taken over, and of an iterator on one, which retains
// it.
static inline void ls_dataset_drop_(void *thing) {
  ls_dataset_release((ls_dataset *)thing);
}
static inline void ls_iterator_drop_(void *thing) {
  ls_iterator_release((ls_iterator *)thing);
}
static inline ls_dataset *ls_dataset_in(ls_bag *bag, ls_dataset *dataset) {
  const ls_status status = ls_dataset_status(dataset);
  return (ls_dataset *)ls_bag_keep(bag, status, dataset, ls_dataset_drop_);
}
static inline ls_iterator *ls_iterator_in_(ls_bag *bag, ls_dataset *dataset,
                                           const ls_iterator_options *options) {
  ls_iterator *made = NULL;
  if (bag->error != NULL || dataset == NULL) return NULL;
  const ls_status status = ls_iterator_create(dataset, options, &made);
  return (ls_iterator *)ls_bag_keep(bag, status, made, ls_iterator_drop_);
}

#ifdef __cplusplus
inline ls_iterator *
ls_iterator_in(ls_bag *bag, ls_dataset *dataset,
               const ls_iterator_options &options = ls_iterator_options()) {
  return ls_iterator_in_(bag, dataset, &options);
}
#else
#define ls_dense_layer_in(bag, ...)                                            \
  ls_dense_layer_in_((bag), &(ls_dense_options){__VA_ARGS__})
#define ls_conv_layer_in(bag, ...)                                             \
  ls_conv_layer_in_((bag), &(ls_conv_options){__VA_ARGS__})
#define ls_batch_norm_layer_in(bag, ...)                                       \
  ls_batch_norm_layer_in_((bag), &(ls_batch_norm_options){__VA_ARGS__})
#define ls_norm_layer_in(bag, ...)                                             \
  ls_norm_layer_in_((bag), &(ls_norm_options){__VA_ARGS__})
#define ls_embedding_layer_in(bag, ...)                                        \
  ls_embedding_layer_in_((bag), &(ls_embedding_options){__VA_ARGS__})
#define ls_attention_layer_in(bag, ...)                                        \
  ls_attention_layer_in_((bag), &(ls_attention_layer_options){__VA_ARGS__})
#define ls_recurrent_layer_in(bag, ...)                                        \
  ls_recurrent_layer_in_((bag), &(ls_recurrent_options){__VA_ARGS__})
#define ls_sgd_in(bag, ...) ls_sgd_in_((bag), &(ls_sgd_options){__VA_ARGS__})
#define ls_adam_in(bag, ...) ls_adam_in_((bag), &(ls_adam_options){__VA_ARGS__})
#define ls_adamw_in(bag, ...)                                                  \
  ls_adamw_in_((bag), &(ls_adam_options){__VA_ARGS__})
#define ls_lamb_in(bag, ...) ls_lamb_in_((bag), &(ls_adam_options){__VA_ARGS__})
#define ls_adagrad_in(bag, ...)                                                \
  ls_adagrad_in_((bag), &(ls_adagrad_options){__VA_ARGS__})
#define ls_rmsprop_in(bag, ...)                                                \
  ls_rmsprop_in_((bag), &(ls_rmsprop_options){__VA_ARGS__})
#define ls_lion_in(bag, ...) ls_lion_in_((bag), &(ls_lion_options){__VA_ARGS__})
#define ls_weight_in(bag, ...)                                                 \
  ls_weight_in_((bag), &(ls_weight_options){__VA_ARGS__})
#define ls_function_in(bag, ...)                                               \
  ls_function_in_((bag), &(ls_function_options){__VA_ARGS__})
#define ls_mirrored_strategy_in(bag, ...)                                      \
  ls_mirrored_strategy_in_((bag), &(ls_mirrored_options){__VA_ARGS__})
#define ls_iterator_in(bag, dataset, ...)                                      \
  ls_iterator_in_((bag), (dataset), &(ls_iterator_options){__VA_ARGS__})
#endif  // __cplusplus

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_BAG_H_
