// SPDX-License-Identifier: Apache-2.0
// lockstep train --seeds: several runs that differ in their seeds.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/ranks.h"
#include "cli/train/train_flags.h"

// Spread of several runs' values of a metric.
typedef struct spread {
  const char *name;
  int64_t count;
  double mean, squares;  // `squares`: sum of squared distances from the mean.
  double low, high;
} spread;

static void add_value(spread *all, double value) {
  if (all->count == 0 || value < all->low) all->low = value;
  if (all->count == 0 || value > all->high) all->high = value;
  const double before = value - all->mean;
  all->mean += before / (double)++all->count;
  all->squares += before * (value - all->mean);
}

static void print_spread(const spread *all) {
  if (all->count < 2) return;
  printf("%s: mean %.4f, deviation %.4f, from %.4f to %.4f, of %lld seeds\n",
         all->name, all->mean, sqrt(all->squares / (double)(all->count - 1)),
         all->low, all->high, (long long)all->count);
}

bool cli_train_has_seeds(const train_flags *flags) {
  return flags->seeds > 0 && flags->find_lr == NULL;
}

// Refuses flags of one run.
static bool check_seeds(const train_flags *flags, int64_t first) {
  const char *reason = NULL;
  if (flags->resume != NULL && strcmp(flags->resume, "auto") != 0)
    reason = "--resume continues one run; --seeds trains new ones";
  else if (flags->only_saves)
    reason = "--steps 0 saves the initial weights: there is nothing for "
             "--seeds to compare";
  else if (flags->trace != NULL)
    reason = "--trace writes a file of one run: it cannot be given with "
             "--seeds";
  else if (flags->seeds - 1 > INT32_MAX - first)
    reason = "the last seed would be above 2147483647: give a lower --seed";
  return reason == NULL || cli_refuse("train", "%s", reason);
}

// Formats a path of the run of a seed, or returns `base` if it names none.
static const char *name_of_seed(const char *base, int64_t seed,
                                char room[PATH_MAX]) {
  if (base == NULL || base[0] == '\0') return base;
  snprintf(room, PATH_MAX, "%s/seed-%lld", base, (long long)seed);
  return room;
}

int cli_train_seeds(const cli_syntax *syntax, const train_flags *flags,
                    cli_train_call run, void *user) {
  char metric[64] = "";
  spread accuracy = {.name = metric}, loss = {.name = "loss"};
  const int64_t first = flags->asked.seed < 0 ? 0 : flags->asked.seed;
  if (!check_seeds(flags, first)) return CLI_USAGE;
  for (int64_t k = 0; k < flags->seeds; ++k) {
    train_flags one = *flags;
    ls_train_result result = {0};
    char folder[PATH_MAX], events[PATH_MAX];
    one.asked.seed = first + k;
    one.seeds = 0;
    one.result = &result;
    one.run_folder = name_of_seed(flags->run_folder, first + k, folder);
    one.events = name_of_seed(flags->events, first + k, events);
    if (!flags->quiet)
      cli_say("train", "seed %lld, the run %lld of %lld",
              (long long)(first + k), (long long)k + 1,
              (long long)flags->seeds);
    const int code = run(syntax, &one, user);
    if (code >= CLI_SIGNAL && flags->run_folder != NULL)
      cli_say("train", "the same command with --resume auto goes on with all");
    if (code != CLI_OK) return code;
    // An estimator that made no step tells no last loss.
    if (!result.tested && result.task == NULL)
      cli_say("train", "seed %lld made no step: its loss is not in the mean",
              (long long)one.asked.seed);
    if (!result.tested) continue;
    add_value(&loss, result.test.loss);
    if (result.task == NULL) continue;  // An estimator's last loss.
    loss.name = "test loss";
    snprintf(metric, sizeof(metric), "test %s", result.task->metric);
    add_value(&accuracy, result.test.accuracy);
  }
  if (cli_leads()) {
    print_spread(&accuracy);
    print_spread(&loss);
  }
  return CLI_OK;
}
