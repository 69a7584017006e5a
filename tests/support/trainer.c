// SPDX-License-Identifier: Apache-2.0
#include "support/trainer.h"

#include "lockstep/eager.h"

static ls_status create_function(trainer *self) {
  LS_RETURN_IF_ERROR(
      mlp_create(self->options.shape, LS_DTYPE_F32, &self->model));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = mlp_step, .user = &self->model},
      &self->step));
  const ls_nest items[] = {ls_nest_array(ls_array_retain(self->examples)),
                           ls_nest_array(ls_array_retain(self->labels))};
  self->args = ls_nest_sequence(LS_KIND_TUPLE, items, 2);
  return ls_nest_status(self->args);
}

static ls_status create_strategy(trainer *self, const char *const *devices) {
  ls_mirrored_options mirrored = {.devices = devices};
  if (devices != NULL)
    mirrored.num_devices = (size_t)self->options.replicas;
  else
    mirrored.num_replicas = (ls_opt)LS_SOME(self->options.replicas);
  LS_RETURN_IF_ERROR(
      mlp_create(self->options.shape, LS_DTYPE_F32, &self->model));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = mlp_step, .user = &self->model},
      &self->step));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(&mirrored, &self->strategy));
  ls_nest items[2];
  LS_RETURN_IF_ERROR(
      ls_strategy_split(self->strategy, self->examples, &items[0]));
  const ls_status status =
      ls_strategy_split(self->strategy, self->labels, &items[1]);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(items[0]);
    return status;
  }
  self->args = ls_nest_sequence(LS_KIND_TUPLE, items, 2);
  return ls_nest_status(self->args);
}

static ls_status build(trainer *self, ls_op *out_initializer) {
  const int64_t inputs = self->options.shape->size[0];
  LS_RETURN_IF_ERROR(
      mlp_create(self->options.shape, LS_DTYPE_F32, &self->model));
  const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, inputs), "x");
  const ls_tensor y = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1), "y");
  mlp_ops ops;
  LS_RETURN_IF_ERROR(mlp_add_step(&self->model, x, y, &ops));
  *out_initializer = ls_global_initializer();
  self->feeds[0] = (ls_feed){x, self->examples};
  self->feeds[1] = (ls_feed){y, self->labels};
  const ls_nest items[] = {ls_leaf(ops.loss), ls_nest_op(ops.update)};
  self->fetches = ls_nest_sequence(LS_KIND_TUPLE, items, 2);
  return ls_nest_status(self->fetches);
}

static ls_status create_session(trainer *self) {
  ls_op initializer = {0};
  ls_status status = ls_graph_create("training", &self->graph);
  LS_RETURN_IF_ERROR(status);
  {
    LS_GRAPH_SCOPE(self->graph);
    status = build(self, &initializer);
  }
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_graph_error(self->graph));
  LS_RETURN_IF_ERROR(ls_session_create(self->graph, &self->session));
  ls_nest nothing = ls_none();
  return ls_session_run(self->session, ls_nest_op(initializer), NULL, 0,
                        &nothing);
}

ls_status trainer_create(const trainer_options *options, trainer *out) {
  return trainer_create_on(options, NULL, out);
}

ls_status trainer_create_on(const trainer_options *options,
                            const char *const *devices, trainer *out) {
  *out = (trainer){.options = *options};
  LS_RETURN_IF_ERROR(mlp_batch(options->shape, LS_DTYPE_F32, 0, options->batch,
                               &out->examples, &out->labels));
  switch (options->way) {
  case TRAINER_FUNCTION:
    return create_function(out);
  case TRAINER_STRATEGY:
    return create_strategy(out, devices);
  case TRAINER_SESSION:
    return create_session(out);
  case TRAINER_EAGER:
    return mlp_create(options->shape, LS_DTYPE_F32, &out->model);
  }
  return ls_invalid_argument("no such way to train");
}

void trainer_destroy(trainer *self) {
  ls_nest_release(self->args);
  ls_nest_release(self->result);
  ls_nest_release(self->fetches);
  ls_array_release(self->examples);
  ls_array_release(self->labels);
  ls_function_release(self->step);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  ls_session_destroy(self->session);
  mlp_destroy(&self->model);
  if (self->graph != NULL) ls_graph_destroy(self->graph);
  *self = (trainer){0};
}

static ls_status step_eager(trainer *self) {
  ls_array *loss = NULL;
  LS_RETURN_IF_ERROR(
      mlp_step_eager(&self->model, self->examples, self->labels, &loss));
  ls_nest_release(self->result);
  self->result = ls_nest_array(loss);
  return ls_ok();
}

ls_status trainer_step(trainer *self) {
  switch (self->options.way) {
  case TRAINER_FUNCTION:
    return ls_function_call(self->step, self->args, &self->result);
  case TRAINER_STRATEGY:
    return ls_strategy_run(self->strategy, ls_traced(self->step), self->args,
                           &self->result);
  case TRAINER_SESSION:
    return ls_session_run(self->session, self->fetches, self->feeds, 2,
                          &self->result);
  case TRAINER_EAGER:
    return step_eager(self);
  }
  return ls_invalid_argument("no such way to train");
}

float trainer_loss(const trainer *self) {
  ls_nest leaf = self->result;
  if (leaf.kind == LS_KIND_TUPLE) leaf = ls_nest_item(leaf, 0);
  if (ls_distributed_count(leaf) > 0) leaf = ls_distributed_component(leaf, 0);
  return (float)ls_array_f64(ls_nest_as_array(leaf), 0);
}
