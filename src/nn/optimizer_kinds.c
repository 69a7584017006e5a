// SPDX-License-Identifier: Apache-2.0
// Creates optimizers by the name of their kind, from one table.
#include <stdio.h>

#include "nn/optimizer.h"

#include "base/require.h"
#include "lockstep/optimizer_state.h"

static const double usual_momentum = 0.9;

// Makes options of `type`, a struct that begins with LS_OPTIMIZER_FIELDS. The
// remaining arguments set its other fields.
#define OPTIONS_OF(type, common, ...)                                          \
  ls_##type##_options options = {__VA_ARGS__};                                 \
  memcpy(&options, common, sizeof(*(common)))

static ls_status create_sgd(const ls_optimizer_options *common,
                            ls_optimizer **out_optimizer) {
  OPTIONS_OF(sgd, common, .momentum = 0);
  return ls_sgd_create(&options, out_optimizer);
}

static ls_status create_momentum(const ls_optimizer_options *common,
                                 ls_optimizer **out_optimizer) {
  OPTIONS_OF(sgd, common, .momentum = usual_momentum);
  return ls_sgd_create(&options, out_optimizer);
}

static ls_status create_nesterov(const ls_optimizer_options *common,
                                 ls_optimizer **out_optimizer) {
  OPTIONS_OF(sgd, common, .momentum = usual_momentum, .nesterov = true);
  return ls_sgd_create(&options, out_optimizer);
}

static ls_status create_adam(const ls_optimizer_options *common,
                             ls_optimizer **out_optimizer) {
  OPTIONS_OF(adam, common, .beta1 = 0);
  return ls_adam_create(&options, out_optimizer);
}

static ls_status create_adamw(const ls_optimizer_options *common,
                              ls_optimizer **out_optimizer) {
  OPTIONS_OF(adam, common, .beta1 = 0);
  return ls_adamw_create(&options, out_optimizer);
}

static ls_status create_lamb(const ls_optimizer_options *common,
                             ls_optimizer **out_optimizer) {
  OPTIONS_OF(adam, common, .beta1 = 0);
  return ls_lamb_create(&options, out_optimizer);
}

static ls_status create_adagrad(const ls_optimizer_options *common,
                                ls_optimizer **out_optimizer) {
  OPTIONS_OF(adagrad, common, .initial = 0);
  return ls_adagrad_create(&options, out_optimizer);
}

static ls_status create_rmsprop(const ls_optimizer_options *common,
                                ls_optimizer **out_optimizer) {
  OPTIONS_OF(rmsprop, common, .momentum = 0);
  return ls_rmsprop_create(&options, out_optimizer);
}

static ls_status create_lion(const ls_optimizer_options *common,
                             ls_optimizer **out_optimizer) {
  OPTIONS_OF(lion, common, .beta1 = 0);
  return ls_lion_create(&options, out_optimizer);
}

static const struct {
  const char *name;
  ls_status (*create)(const ls_optimizer_options *common,
                      ls_optimizer **out_optimizer);
} kinds[] = {
    {"sgd", create_sgd},           {"momentum", create_momentum},
    {"nesterov", create_nesterov}, {"adam", create_adam},
    {"adamw", create_adamw},       {"lamb", create_lamb},
    {"adagrad", create_adagrad},   {"rmsprop", create_rmsprop},
    {"lion", create_lion},
};

const char *ls_optimizer_kind(size_t index) {
  return index < LS_COUNT_OF(kinds) ? kinds[index].name : NULL;
}

static ls_status no_such_kind(const char *kind) {
  char all[128] = "";
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s", i > 0 ? ", " : "",
             kinds[i].name);
  }
  return ls_invalid_argument(
      "there is no optimizer '%s'; the optimizers are: %s", kind, all);
}

ls_status ls_optimizer_create(const char *kind,
                              const ls_optimizer_options *options,
                              ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer);
  LS_REQUIRE(kind);
  static const ls_optimizer_options defaults;
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    if (strcmp(kinds[i].name, kind) == 0)
      return kinds[i].create(options != NULL ? options : &defaults,
                             out_optimizer);
  }
  return no_such_kind(kind);
}
