// SPDX-License-Identifier: Apache-2.0
#include "support/step_state.h"

#include <stdio.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "support/values.h"

uint32_t step_below(drawing *draw, uint32_t n) {
  draw->state = draw->state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(draw->state >> 33) % n;
}

static const struct kind kinds[] = {
    {LS_AGGREGATION_NONE, LS_SYNCHRONIZATION_AUTO},
    {LS_AGGREGATION_NONE, LS_SYNCHRONIZATION_ON_READ},
    {LS_AGGREGATION_SUM, LS_SYNCHRONIZATION_AUTO},
    {LS_AGGREGATION_MEAN, LS_SYNCHRONIZATION_AUTO},
    {LS_AGGREGATION_ONLY_FIRST_REPLICA, LS_SYNCHRONIZATION_AUTO},
    {LS_AGGREGATION_SUM, LS_SYNCHRONIZATION_ON_READ},
    {LS_AGGREGATION_MEAN, LS_SYNCHRONIZATION_ON_READ},
    {LS_AGGREGATION_ONLY_FIRST_REPLICA, LS_SYNCHRONIZATION_ON_READ},
};

const struct kind *step_kind(uint64_t seed, size_t v) {
  drawing draw = {seed * 31 + v};
  step_below(&draw, 2);
  return &kinds[step_below(&draw, LS_COUNT_OF(kinds))];
}

void step_variables(ways *self) {
  const random_step *step = self->user;
  for (size_t v = 0; v < VARIABLES; ++v) {
    char name[8];
    snprintf(name, sizeof(name), "v%zu", v);
    LS_OWN(ls_array, initial) =
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(WIDTH), (uint32_t)v + 7);
    // The first one is always there for merges.
    const struct kind *kind = v == 0 ? &kinds[0] : step_kind(step->seed, v);
    ways_variable(
        self, &(ls_variable_options){.name = name,
                                     .initial_array = initial,
                                     .aggregation = kind->aggregation,
                                     .synchronization = kind->synchronization});
  }
}

ls_nest step_rows(const ways *self, int k, int r) {
  const random_step *step = self->user;
  drawing draw = {step->seed * 977};
  step_below(&draw, 2);
  int64_t rows = 1 + (int64_t)step_below(&draw, 3);
  const bool uneven = step_below(&draw, 2) == 0;
  if (uneven && r > 0) rows = rows % 3 + r;
  return LS_TUPLE(ls_nest_array(
      array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, WIDTH),
                       (uint32_t)(step->seed * 101 + (uint64_t)(k * 10 + r)))));
}

void step_add(step_state *s, ls_tensor value, bool met) {
  if (s->count == VALUES) return;
  s->values[s->count] = value;
  s->met[s->count++] = met;
}

size_t step_pick(step_state *s) {
  return step_below(&s->draw, (uint32_t)s->count);
}

void step_fail(step_state *s, ls_status status) {
  if (ls_status_is_ok(s->status))
    s->status = status;
  else
    ls_status_free(status);
}

void step_keep(step_state *s, ls_nest given, bool is_value, bool met) {
  const ls_status status = ls_nest_status(given);
  if (!ls_status_is_ok(status)) {
    step_fail(s, status);
    ls_nest_release(given);
    return;
  }
  if (is_value && given.kind == LS_KIND_TENSOR)
    step_add(s, given.as.tensor, met);
  // What is made in a loop or branch does not leave it.
  if (s->num_results == RESULTS || s->depth > 0)
    ls_nest_release(given);
  else
    s->results[s->num_results++] = given;
}
