// SPDX-License-Identifier: Apache-2.0
// What --model names: one of the library's models, or what a shared library of
// a user's has.
#ifndef LS_CLI_MODELS_H_
#define LS_CLI_MODELS_H_

#include "cli/cli.h"

// One of the two.
typedef struct cli_found {
  const ls_model_type *model;
  const ls_estimator_type *estimator;
} cli_found;
// "./mine.so", or "./mine.so:NAME" where it has more than one. False: there is
// none, which has been said.
bool cli_find_in_library(const char *command, const char *text, cli_found *out);

// One of the library's models as an estimator: the last one that was asked for.
const ls_estimator_type *cli_linked_estimator(const ls_model_type *model,
                                              bool trains);

// The estimator that --model, or that with --estimator, names among the words
// of a command, NULL if that names something else. False: its library is of no
// use, which has been said.
bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type);

// ---- Commands --------------------------------------------------------------
// The commands, where --model names an estimator.
int cli_estimator_train(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_eval(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_predict(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_export(const ls_estimator_type *type, int argc, char **argv);

#endif  // LS_CLI_MODELS_H_
