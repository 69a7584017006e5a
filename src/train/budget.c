// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include "base/plain.h"
#include "base/trace.h"
#include "lockstep/communicator.h"

// Returns how long this process waited for ranks other than `rank`; 0 if
// unknown.
static int64_t waited_for(const ls_runtime *runtime, int32_t rank) {
  const ls_communicator *communicator = ls_runtime_communicator(runtime);
  if (communicator == NULL || communicator->waited_for == NULL ||
      rank >= communicator->ranks || rank == communicator->rank)
    return 0;
  return __atomic_load_n(&communicator->waited_for[rank], __ATOMIC_RELAXED);
}

void ls_budget_begin(const ls_runtime *runtime, const ls_spent *spent,
                     ls_budget *budget) {
  *budget = (ls_budget){.began = ls_runtime_now(runtime), .spent = *spent};
  for (int i = 0; i < LS_WAITS; ++i)
    budget->waited[i] = ls_runtime_waited(runtime, (ls_wait)i);
  for (int32_t k = 0; k < LS_BUDGET_RANKS; ++k)
    budget->waited_for[k] = waited_for(runtime, k);
}

// Returns the rank that was waited for longest since the budget began, if
// known.
static ls_opt slowest_rank(const ls_runtime *runtime, const ls_budget *budget) {
  int64_t most = 0;
  ls_opt slowest = {0};
  for (int32_t k = 0; k < LS_BUDGET_RANKS; ++k) {
    const int64_t waited = waited_for(runtime, k) - budget->waited_for[k];
    if (waited <= most) continue;
    most = waited;
    slowest = LS_SOME(k);
  }
  return slowest;
}

static double since(const ls_runtime *runtime, const ls_budget *budget,
                    ls_wait kind) {
  return (double)(ls_runtime_waited(runtime, kind) - budget->waited[kind]) *
         1e-9;
}

static double at_least_0(double seconds) { return seconds > 0 ? seconds : 0; }

// Clamps parts at 0, since other runs under the same runtime add to the waits.
ls_train_budget ls_budget_of(const ls_runtime *runtime, const ls_spent *spent,
                             const ls_budget *budget, ls_iterator *input) {
  ls_iterator_stats stats = {.slowest = ""};
  ls_status_free(ls_iterator_get_stats(input, &stats));
  ls_train_budget result = {
      .whole = (double)(ls_runtime_now(runtime) - budget->began) * 1e-9,
      .input = (double)(spent->input - budget->spent.input) * 1e-9,
      .input_stage = stats.slowest,
      .collective = since(runtime, budget, LS_WAIT_RANKS),
      .slowest_rank = slowest_rank(runtime, budget),
      .host = since(runtime, budget, LS_WAIT_HOST),
      .save = (double)(spent->save - budget->spent.save) * 1e-9};
  const double run = (double)(spent->run - budget->spent.run) * 1e-9;
  const double variables = since(runtime, budget, LS_WAIT_VARIABLES);
  result.compute =
      at_least_0(run - result.collective - result.host - variables);
  result.rest = at_least_0(result.whole - result.input - result.compute -
                           result.collective - result.host - result.save);
  return result;
}

// ---- Printing --------------------------------------------------------------
typedef struct part {
  const char *name;
  double seconds;
} part;

// Prints " (map)": the stage or rank that took most of a part's time.
static const char *print_why(const ls_train_budget *budget, const char *name,
                             char *buffer, size_t size) {
  buffer[0] = '\0';
  if (strcmp(name, "input") == 0 && budget->input_stage[0] != '\0')
    ls_format(buffer, size, " (%s)", budget->input_stage);
  if (strcmp(name, "collective") == 0 && budget->slowest_rank.set)
    ls_format(buffer, size, " (rank %lld)",
              (long long)budget->slowest_rank.value);
  return buffer;
}

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
    char text[128], why[64];
    ls_format(text, sizeof(text), "%s%s %.0f%%%s", i == 0 ? "" : " ",
              most->name, percent,
              print_why(budget, most->name, why, sizeof(why)));
    if (length + strlen(text) >= size) break;
    memcpy(buffer + length, text, strlen(text) + 1);
    length += strlen(text);
    most->seconds = -1;
  }
  return buffer;
}
