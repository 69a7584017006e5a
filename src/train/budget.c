// SPDX-License-Identifier: Apache-2.0
#include "train/budget.h"

#include "base/plain.h"
#include "base/trace.h"

void ls_budget_begin(const ls_runtime *runtime, ls_budget *budget) {
  *budget = (ls_budget){.began = ls_runtime_now(runtime)};
  for (int i = 0; i < LS_WAITS; ++i)
    budget->waited[i] = ls_runtime_waited(runtime, (ls_wait)i);
}

static double since(const ls_runtime *runtime, const ls_budget *budget,
                    ls_wait what) {
  return (double)(ls_runtime_waited(runtime, what) - budget->waited[what]) *
         1e-9;
}

static double at_least_0(double seconds) { return seconds > 0 ? seconds : 0; }

// Runs of others under the same runtime may wait, too: no part is below 0.
ls_train_budget ls_budget_of(const ls_runtime *runtime, const ls_budget *budget,
                             ls_iterator *input) {
  ls_iterator_stats stats = {.slowest = ""};
  ls_status_free(ls_iterator_get_stats(input, &stats));
  ls_train_budget it = {
      .whole = (double)(ls_runtime_now(runtime) - budget->began) * 1e-9,
      .input = (double)budget->input * 1e-9,
      .input_stage = stats.slowest,
      .collective = since(runtime, budget, LS_WAIT_RANKS),
      .host = since(runtime, budget, LS_WAIT_HOST),
      .save = (double)budget->save * 1e-9};
  const double run = (double)budget->run * 1e-9;
  const double variables = since(runtime, budget, LS_WAIT_VARIABLES);
  it.compute = at_least_0(run - it.collective - it.host - variables);
  it.rest = at_least_0(it.whole - it.input - it.compute - it.collective -
                       it.host - it.save);
  return it;
}

// ---- Printing --------------------------------------------------------------
typedef struct part {
  const char *name;
  double seconds;
} part;

const char *ls_budget_print(const ls_train_budget *budget, char *buffer,
                            size_t size) {
  part parts[] = {{"compute", budget->compute},
                  {"input", budget->input},
                  {"collective", budget->collective},
                  {"host", budget->host},
                  {"save", budget->save},
                  {"rest", budget->rest}};
  enum { COUNT = LS_COUNT_OF(parts) };
  size_t length = 0;
  buffer[0] = '\0';
  for (int i = 0; i < COUNT; ++i) {
    part *most = &parts[0];
    for (int k = 1; k < COUNT; ++k) {
      if (parts[k].seconds > most->seconds) most = &parts[k];
    }
    const double percent = 100 * most->seconds / budget->whole;
    if (!(percent >= 0.5)) break;
    char text[96];
    const bool input = most == &parts[1] && budget->input_stage[0] != '\0';
    ls_format(text, sizeof(text), "%s%s %.0f%%%s%s%s", i == 0 ? "" : " ",
              most->name, percent, input ? " (" : "",
              input ? budget->input_stage : "", input ? ")" : "");
    if (length + strlen(text) >= size) break;
    memcpy(buffer + length, text, strlen(text) + 1);
    length += strlen(text);
    most->seconds = -1;
  }
  return buffer;
}
