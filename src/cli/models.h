// SPDX-License-Identifier: Apache-2.0
// Finds --model: one of the library's models, or a row of a user's shared
// library.
#ifndef LS_CLI_MODELS_H_
#define LS_CLI_MODELS_H_

#include "cli/cli.h"

// A model or an estimator; one of the two is set.
typedef struct cli_found {
  const ls_model_type *model;
  const ls_estimator_type *estimator;
} cli_found;
// Finds "./mine.so", or "./mine.so:NAME" if it has several rows. Reports a
// problem and returns false.
bool cli_find_in_library(const char *command, const char *text, cli_found *out);

// Returns one of the library's models as an estimator; valid until the next
// call.
const ls_estimator_type *cli_linked_estimator(const ls_model_type *model,
                                              bool trains);

// Finds the estimator that --model names among a command's words; with
// --estimator also one of the library's models. NULL if it names no estimator.
// Reports a problem with its library and returns false.
bool cli_find_estimator(const char *command, int argc, char **argv,
                        const ls_estimator_type **out_type);

// ---- Commands --------------------------------------------------------------
// Commands for which --model names an estimator.
int cli_estimator_train(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_eval(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_predict(const ls_estimator_type *type, int argc, char **argv);
int cli_estimator_export(const ls_estimator_type *type, int argc, char **argv);

#endif  // LS_CLI_MODELS_H_
