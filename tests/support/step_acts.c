// SPDX-License-Identifier: Apache-2.0
#include "lockstep/replica.h"
#include "lockstep/strategy_extended.h"
#include "support/step_state.h"

void step_compute(step_state *s) {
  const size_t a = step_pick(s), b = step_pick(s);
  const bool met = s->met[a] && s->met[b];
  const ls_tensor x = s->values[a], y = s->values[b];
  switch (step_below(&s->draw, 4)) {
  case 0:
    step_add(s, ls_add(x, y), met);
    break;
  case 1:
    step_add(s, ls_sub(x, y), met);
    break;
  case 2:
    step_add(s, ls_tanh(ls_mul(x, y)), met);
    break;
  default:
    step_add(s, ls_sigmoid(x), s->met[a]);
    break;
  }
}

void step_meet(step_state *s) {
  const ls_tensor x = s->values[step_pick(s)];
  ls_replica *replica = ls_replica_context();
  const ls_reduce_op op =
      step_below(&s->draw, 2) == 0 ? LS_REDUCE_SUM : LS_REDUCE_MEAN;
  switch (step_below(&s->draw, 4)) {
  case 0:
    step_add(s, ls_all_reduce(op, x), true);
    break;
  case 1:
    step_keep(s, ls_replica_all_reduce(replica, op, ls_leaf(x)), true, true);
    break;
  case 2: {
    ls_nest all = ls_replica_all_gather(
        replica, ls_leaf(ls_reshape(x, LS_SHAPE(1, WIDTH))), 0);
    if (all.kind == LS_KIND_TENSOR)
      step_add(s, ls_reduce_sum(all.as.tensor, LS_AXES(0)), true);
    step_keep(s, all, false, true);
    break;
  }
  default: {
    static const double weights[WAYS_MOST_REPLICAS] = {1, 2, 0.5};
    step_keep(s,
              ls_replica_weighted_mean(replica, ls_leaf(x), weights,
                                       (size_t)s->self->replicas),
              true, true);
    break;
  }
  }
}

static const ls_write_op writes[] = {LS_WRITE_ASSIGN, LS_WRITE_ADD,
                                     LS_WRITE_SUB};

void step_write(step_state *s, ls_variable *v) {
  const ls_write_op op = writes[step_below(&s->draw, 3)];
  const ls_tensor x = s->values[step_pick(s)];
  ls_nest after = ls_none();
  const ls_status status = ls_variable_write(v, op, ls_leaf(x), NULL, &after);
  if (!ls_status_is_ok(status)) {
    step_fail(s, status);
    return;
  }
  step_keep(s, after, false, false);
}
