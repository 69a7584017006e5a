// SPDX-License-Identifier: Apache-2.0
#include "train/run_place.h"

void ls_run_means_begin(ls_run_means *window, const ls_run_place *place) {
  *window = (ls_run_means){0};
  ls_budget_begin(place->runtime, &place->spent, &window->budget);
}

void ls_run_means_begin_epoch(ls_run_means *window, const ls_run_place *place) {
  *window = (ls_run_means){.budget = place->epoch_budget};
}

void ls_run_means_add(ls_run_means *window, const ls_run_place *place,
                      int64_t k) {
  const double examples = (double)place->examples;
  ++window->steps;
  window->examples += place->examples;
  window->loss += place->numbers[k].loss * examples;
  window->accuracy += place->numbers[k].accuracy * examples;
}

static void describe_steps(const ls_run_means *window,
                           const ls_run_place *place, ls_train_report *r) {
  const double seconds = ls_run_seconds(place, window->budget.began);
  const double examples = (double)window->examples;
  r->loss = window->loss / examples;
  r->accuracy = window->accuracy / examples;
  r->examples_per_second = seconds > 0 ? examples / seconds : 0;
  r->seconds = ls_run_seconds(place, place->began);
  r->seconds_left =
      seconds / (double)window->steps * (double)(r->num_steps - r->step);
  r->budget = ls_budget_of(place->runtime, &place->spent, &window->budget,
                           place->input);
}

ls_train_report ls_run_means_describe(const ls_run_means *window,
                                      const ls_run_place *place,
                                      int64_t num_later) {
  ls_train_report r = {.epoch = place->epoch + 1,
                       .num_epochs = place->plan->options.epochs,
                       .epoch_step = ls_run_epoch_steps(place) - num_later,
                       .steps_per_epoch = place->steps_per_epoch,
                       .step = ls_run_steps(place) - num_later,
                       .num_steps = place->plan->num_steps};
  if (window->steps > 0) describe_steps(window, place, &r);
  return r;
}
