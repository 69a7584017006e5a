// SPDX-License-Identifier: Apache-2.0
// Classes that a run's saved model gives to its test set: counts of each label
// and predicted class, and the mistakes that it was surest of.
#ifndef LS_CLI_LOOK_CLASSIFY_H_
#define LS_CLI_LOOK_CLASSIFY_H_

#include "cli/look/picture.h"

// An example whose class was predicted wrongly.
typedef struct cli_mistake {
  int64_t row;  // Number in the test set.
  int64_t label, predicted;
  double probability;   // Probability of the predicted class.
  cli_picture picture;  // The example, as the data have it, if it is an image.
} cli_mistake;

enum { CLI_MOST_MISTAKES = 24 };
typedef struct cli_classes_result {
  char reason[512];  // Tells why there is no result; "": there is one.
  char data[512];    // Name of the data.
  int64_t num_classes;
  // Numbers of labels: of examples, or of their pixels.
  int64_t examples, correct;
  bool pixels;
  int64_t *counts;  // [label][predicted], num_classes of each.
  char *names;      // One per line; "": unknown. NULL without a result.
  cli_mistake mistakes[CLI_MOST_MISTAKES];  // The surest first.
  size_t num_mistakes;
} cli_classes_result;

// Evaluates the model of the run in a folder on the first `limit` examples of
// its test set. `model` is a shared library that the user has named; NULL:
// none. Whatever prevents this is the result's reason. The caller closes the
// result. No runtime may be current; none is afterwards.
void cli_classify(const char *command, const char *folder, const char *model,
                  int64_t threads, int64_t limit, cli_classes_result *out);
void cli_classes_close(cli_classes_result *result);
CLI_OWNED_STRUCT(cli_classes_result, cli_classes_close)

#endif  // LS_CLI_LOOK_CLASSIFY_H_
