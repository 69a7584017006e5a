// SPDX-License-Identifier: Apache-2.0
// Flags that only models have, or only estimators, and the reasons.
#include <string.h>

#include "cli/estimator.h"

const char *cli_refusal_find(const cli_refusals *refused, const char *name,
                             size_t size) {
  for (size_t i = 0; i < refused->count; ++i)
    for (const char *at = refused->rows[i].names; *at != '\0';
         at += strspn(at, ",")) {
      const size_t length = strcspn(at, ",");
      if (length == size && memcmp(at, name, size) == 0)
        return refused->rows[i].reason;
      at += length;
    }
  return NULL;
}

#define ROWS(table) (table), sizeof(table) / sizeof(*(table))

// ---- Models ----------------------------------------------------------------
static const char no_params[] =
    "a model has no parameters; of one of the library --learning-rate and "
    "others are flags";

static const cli_refusal models_train[] = {
    {"param", no_params},
    {"eval-every", "each epoch ends with a test; --epochs and --test-steps set "
                   "how many there are and how long they take"}};
const cli_refusals cli_train_refused_by_models = {"models", ROWS(models_train)};

static const cli_refusal models_use[] = {
    {"param", no_params},
    {"tpu", "a model is used on this machine, by --device on others; its "
            "results do not depend on how it was trained"},
    {"replicas", "one replica computes the same"},
    {"batch-size", "results do not depend on it"},
    {"steps", "all of the data are used; --data names others"},
    {"checkpoint", "name it with the run, as RUN@STEP"},
    {"name", "no event files are written"},
    {"keys", "the task says what is printed"}};
const cli_refusals cli_use_refused_by_models = {"models", ROWS(models_use)};

// ---- Estimators ------------------------------------------------------------
static const cli_refusal libraries_train[] = {
    {"find-lr,optimizer,learning-rate,schedule,warmup,weight-decay,clip-norm,"
     "accumulate,precision",
     "its model function makes the optimizer and chooses types; --param passes "
     "numbers to it"},
    {"data,test,split,features,label,task,outputs,one-hot,missing,normalize,"
     "flip,crop,epochs",
     "its input functions have the data; --param passes numbers to them"}};

const cli_refusals cli_train_refused_by_libraries = {
    "estimators of shared libraries", ROWS(libraries_train)};

static const cli_refusal estimators_use[] = {
    {"out", "masks of pixels are written by a model's run"},
    {"top,logits", "its model function has the predictions; --keys chooses "
                   "among them"},
    {"test,split,task,outputs",
     "the run's are in its estimator.json; --data names other data"}};
const cli_refusals cli_use_refused_by_estimators = {"estimators",
                                                    ROWS(estimators_use)};
