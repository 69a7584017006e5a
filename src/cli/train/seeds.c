// SPDX-License-Identifier: Apache-2.0
// lockstep train --seeds: several runs that differ in their seeds.
#include <limits.h>
#include <math.h>
#include <stdio.h>

#include "cli/ranks.h"
#include "cli/train/train_flags.h"

void cli_spread_add(cli_spread *all, double value) {
  if (all->count == 0 || value < all->low) all->low = value;
  if (all->count == 0 || value > all->high) all->high = value;
  const double before = value - all->mean;
  all->mean += before / (double)++all->count;
  all->squares += before * (value - all->mean);
}

void cli_spread_print(const cli_spread *all) {
  if (all->count < 2) return;
  printf("%s: mean %.4f, deviation %.4f, from %.4f to %.4f, of %lld seeds\n",
         all->name, all->mean, sqrt(all->squares / (double)(all->count - 1)),
         all->low, all->high, (long long)all->count);
}

int cli_train_seeds(const cli_syntax *syntax, const train_flags *flags,
                    cli_train_call run, void *user) {
  char metric[64] = "";
  cli_spread accuracy = {.name = metric}, loss = {.name = "loss"};
  const int64_t first = flags->asked.seed < 0 ? 0 : flags->asked.seed;
  for (int64_t k = 0; k < flags->seeds; ++k) {
    train_flags one = *flags;
    ls_train_result result = {0};
    char folder[PATH_MAX];
    one.asked.seed = first + k;
    one.result = &result;
    if (flags->run_folder != NULL) {
      snprintf(folder, sizeof(folder), "%s/seed-%lld", flags->run_folder,
               (long long)one.asked.seed);
      one.run_folder = folder;
    }
    const int code = run(syntax, &one, user);
    if (code != CLI_OK) return code;
    if (result.task != NULL && !result.tested) continue;
    cli_spread_add(&loss, result.test.loss);
    if (result.task == NULL) continue;  // An estimator's last loss.
    loss.name = "test loss";
    snprintf(metric, sizeof(metric), "test %s", result.task->metric);
    cli_spread_add(&accuracy, result.test.accuracy);
  }
  if (cli_leads()) {
    cli_spread_print(&accuracy);
    cli_spread_print(&loss);
  }
  return CLI_OK;
}
