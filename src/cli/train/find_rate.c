// SPDX-License-Identifier: Apache-2.0
// lockstep train --find-lr: a range test of learning rates, which grow
// exponentially from step to step.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ranks.h"
#include "cli/train/train_flags.h"

// Rows of the table, and width of its bars.
enum { DEFAULT_STEPS = 100, LEAST_STEPS = 10, ROWS = 20, BAR = 40 };

// Weight of the earlier losses in a mean, and the multiple of the lowest mean
// at which the test ends.
static const double smoothing = 0.9, most_growth = 4;

// The test: its range, and the losses so far.
typedef struct rate_test {
  double low, high;
  int64_t steps;
  int64_t batches;  // Batches per step of the optimizer, of one rate.
  int64_t count;    // Losses so far.
  double *means;    // Exponential means of the losses up to each step.
  double average;   // The same, not yet divided by the sum of the weights.
  double best;      // The lowest of them.
} rate_test;

// ---- The test --------------------------------------------------------------
// Returns the number of the optimizer's last step, counted from 0.
static int64_t last_rate(const rate_test *test) {
  return (test->steps - 1) / test->batches;
}

static double rate_of(const rate_test *test, int64_t step) {
  const double part = (double)(step / test->batches) / (double)last_rate(test);
  return test->low * pow(test->high / test->low, part);
}

static bool has_grown(const rate_test *test) {
  return test->means[test->count - 1] > most_growth * fabs(test->best);
}

static ls_status take_loss(void *user, ls_run_context *context,
                           ls_nest results) {
  rate_test *test = user;
  double loss = 0;
  (void)results;
  LS_RETURN_IF_ERROR(ls_run_context_number(context, "loss", &loss));
  // Ends an estimator's training as its input's end does.
  if (!isfinite(loss)) return ls_out_of_range("the loss is no number");
  if (test->count == test->steps) return ls_ok();
  test->average = smoothing * test->average + (1 - smoothing) * loss;
  const double mean =
      test->average / (1 - pow(smoothing, (double)(test->count + 1)));
  if (test->count == 0 || mean < test->best) test->best = mean;
  test->means[test->count++] = mean;
  if (has_grown(test)) ls_run_context_request_stop(context);
  return ls_ok();
}

// ---- The range -------------------------------------------------------------
// Reads "LOW:HIGH"; "" is the default.
static bool read_range(const char *text, rate_test *test) {
  char *end = NULL;
  test->low = 1e-6;
  test->high = 10;
  if (text[0] == '\0') return true;
  test->low = strtod(text, &end);
  if (end != text && *end == ':') {
    const char *high = end + 1;
    test->high = strtod(high, &end);
    if (end != high && *end == '\0' && test->low > 0 &&
        test->low < test->high && isfinite(test->high / test->low))
      return true;
  }
  return cli_refuse(
      "train",
      "--find-lr is '%s', expected LOW:HIGH, two rates above 0 such as "
      "1e-5:1",
      text);
}

// ---- Flags -----------------------------------------------------------------
bool cli_find_rate_replaces(const char *flag) {
  static const char *const flags[] = {
      "resume",           "run-dir",  "overwrite",   "seeds",
      "events",           "attest",   "epochs",      "learning-rate",
      "schedule",         "warmup",   "find-spike",  "save-every",
      "save-every-steps", "keep",     "keep-best",   "keep-every-hours",
      "stop-early",       "patience", "min-delta",   "test-steps",
      "eval-every",       "checksum", "check-ranks", "gradient-norm"};
  for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); ++i)
    if (strcmp(flag, flags[i]) == 0) return true;
  return false;
}

static bool is_given(const cli_option *option) {
  if (option->kind == CLI_FLAG) return *(const bool *)option->value;
  if (option->kind == CLI_COUNT) return *(const int64_t *)option->value != 0;
  if (option->kind == CLI_COUNT_OR_ZERO)  // As --keep: -1 if not.
    return *(const int64_t *)option->value >= 0;
  if (option->kind == CLI_REAL) return *(const double *)option->value != 0;
  return *(const char *const *)option->value != NULL;
}

// Refuses flags for runs, which the test does not leave.
static bool check_flags(const cli_syntax *syntax, const train_flags *flags,
                        int64_t batches) {
  const int64_t steps = flags->asked.steps, least = LEAST_STEPS * batches;
  for (size_t i = 0; i < syntax->num_options; ++i) {
    const cli_option *option = &syntax->options[i];
    if (cli_find_rate_replaces(option->name) && is_given(option))
      return cli_refuse("train",
                        "--%s cannot be given with --find-lr, which leaves no "
                        "run and chooses the rates and the end",
                        option->name);
  }
  return steps == 0 || steps >= least ||
         cli_refuse("train", "--find-lr needs --steps of %lld or more",
                    (long long)least);
}

// ---- The result ------------------------------------------------------------
// Finds the step of the lowest mean; -1: none is lower than the first. The
// first tenth is left out, in which means are of few losses.
static int64_t find_lowest(const rate_test *test) {
  int64_t lowest = 0;
  for (int64_t i = test->steps / 10; i < test->count; ++i)
    if (test->means[i] < test->means[lowest]) lowest = i;
  return lowest > 0 ? lowest : -1;
}

static void print_row(const rate_test *test, int64_t step, double highest) {
  const double part = highest > 0 ? test->means[step] / highest : 0;
  const int length = (int)(BAR * (part < 0 ? 0 : part > 1 ? 1 : part) + 0.5);
  printf("%9.2e  %8.4f  %.*s\n", rate_of(test, step), test->means[step], length,
         "########################################");
}

static void print_test(const rate_test *test) {
  const int64_t lowest = find_lowest(test);
  const int64_t every = (test->steps + ROWS - 1) / ROWS;
  // Bars are cut at the first loss, as those at the end are far higher.
  const double highest = 1.25 * test->means[0];
  printf("%9s  %8s\n", "rate", "loss");
  for (int64_t i = 0; i < test->count; i += every)
    print_row(test, i, highest);
  if (test->count < test->steps && !has_grown(test))
    printf("the loss is no number at %.2g: that rate is too high, or an "
           "example is no number\n",
           rate_of(test, test->count));
  else if (test->count < test->steps)
    printf("the loss grows without bound from %.2g on\n",
           rate_of(test, test->count - 1));
  if (lowest < 0)
    printf("no rate lowers the loss: try a lower range, --find-lr %.0e:%.0e\n",
           test->low / 1000, test->low);
  else
    printf("suggestion: --learning-rate %.2g, a tenth of %.2g, at which the "
           "loss is lowest\n",
           rate_of(test, lowest) / 10, rate_of(test, lowest));
}

int cli_train_find_rate(const cli_syntax *syntax, const train_flags *flags,
                        cli_train_call run, void *user) {
  const int64_t asked = flags->asked.steps;
  const int64_t batches =
      flags->asked.accumulate > 0 ? flags->asked.accumulate : 1;
  rate_test test = {.steps = asked != 0 ? asked : DEFAULT_STEPS * batches,
                    .batches = batches};
  if (!read_range(flags->find_lr, &test) ||
      !check_flags(syntax, flags, batches))
    return CLI_USAGE;
  CLI_OWN_MEMORY(double, means) =
      cli_allocate((size_t)test.steps * sizeof(*means));
  if (means == NULL) return cli_report("train", ls_out_of_memory());
  test.means = means;
  cli_again again = {.command = "train",
                     .hook = {.name = "find-lr",
                              .user = &test,
                              .before_run = cli_make_one_step,
                              .after_run = take_loss},
                     .schedule = {.kind = LS_SCHEDULE_EXPONENTIAL,
                                  .steps = last_rate(&test),
                                  .factor = test.high / test.low},
                     .ends_at_nan = true,
                     .is_untested = true};
  train_flags one = *flags;
  one.again = &again;
  one.find_lr = NULL;
  one.quiet = true;
  one.asked.learning_rate = test.low;
  one.asked.steps = test.steps;
  const int code = run(syntax, &one, user);
  if (code == CLI_OK && test.count == 0)
    cli_refuse("train",
               "the loss is no number at the first rate, %g: try a lower "
               "range",
               test.low);
  else if (code == CLI_OK && cli_leads())
    print_test(&test);
  return code == CLI_OK && test.count == 0 ? CLI_FAILED : code;
}
