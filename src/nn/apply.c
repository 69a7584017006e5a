// SPDX-License-Identifier: Apache-2.0
// One step of an optimizer: computes and clips the gradients of the whole
// batch, and moves each variable by its gradient.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/numbers.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "lockstep/eager.h"
#include "lockstep/gradients.h"
#include "lockstep/shape_rules.h"
#include "lockstep/strategy_extended.h"
#include "nn/layer.h"
#include "nn/optimizer.h"
#include "runtime/eager/eager.h"

// ---- For rules -------------------------------------------------------------
ls_tensor ls_update_scale(ls_tensor x, ls_tensor scalar) {
  return ls_mul(x, ls_convert(scalar, ls_tensor_dtype(x)));
}

static ls_tensor update_failed(ls_update *update, const char *format,
                               size_t slot) {
  char text[120];
  snprintf(text, sizeof(text), format, slot);
  const ls_tensor failed = ls_make_failed(
      "optimizer",
      ls_invalid_argument("%s: %s of variable '%s'", update->optimizer->name,
                          text, update->variable->name));
  if (update->failed.ref == 0) update->failed = failed;
  return failed;
}

ls_tensor ls_update_rate(const ls_update *update, ls_tensor x) {
  LS_MAKE_REQUIRE(update);
  return update->scalars->rate_changes
             ? ls_update_scale(x, update->scalars->rate)
             : ls_mul_scalar(x, update->optimizer->learning_rate);
}

ls_tensor ls_update_gradient(const ls_update *update) {
  LS_MAKE_REQUIRE(update);
  return update->gradient;
}

ls_tensor ls_update_step(ls_update *update) {
  LS_MAKE_REQUIRE(update);
  return update->optimizer->rule.counts
             ? update->scalars->number
             : update_failed(update,
                             "the rule does not set `counts`, and asks "
                             "for the number of the step",
                             0);
}

ls_variable *ls_update_variable(const ls_update *update) {
  if (update == NULL) return NULL;
  return update->variable->container != NULL ? update->variable->container
                                             : update->variable;
}

bool ls_update_decays(const ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  return optimizer->weight_decay > 0 &&
         (optimizer->decays == NULL ||
          optimizer->decays(ls_update_variable(update)));
}

ls_tensor ls_update_mix(double decay, ls_tensor x, ls_tensor y) {
  const ls_tensor added = ls_mul_scalar(y, 1 - decay);
  return ls_add(ls_mul_scalar(x, decay), added);
}

// ---- Values of a variable and its slots -------------------------------------
// Slots of 16-bit variables are f32, and rules compute in f32, because squares
// of gradients and an epsilon may be 0 in 16 bits.
ls_tensor ls_widened(ls_tensor x) {
  return ls_convert(x, ls_wide_dtype(ls_tensor_dtype(x)));
}

// Returns a value of a rule in the type of a 16-bit variable.
static ls_tensor narrowed(const ls_update *update, ls_tensor x) {
  const ls_dtype dtype = ls_variable_dtype(update->variable);
  return ls_is_half(dtype) ? ls_convert(x, dtype) : x;
}

static ls_tensor read_rows(const ls_update *update, ls_variable *variable) {
  const ls_tensor all = ls_variable_read(variable);
  return update->has_rows ? ls_gather(all, update->rows, 0) : all;
}

ls_tensor ls_update_value(ls_update *update) {
  LS_MAKE_REQUIRE(update);
  if (update->w.ref == 0) update->w = read_rows(update, update->variable);
  return ls_widened(update->w);
}

ls_tensor ls_update_decay(ls_update *update) {
  LS_MAKE_REQUIRE(update);
  return ls_mul_scalar(ls_update_value(update),
                       update->optimizer->weight_decay);
}

ls_tensor ls_update_read(ls_update *update, size_t slot) {
  LS_MAKE_REQUIRE(update);
  return slot < update->optimizer->rule_slots
             ? read_rows(update, update->slots[slot])
             : update_failed(update, "there is no slot number %zu", slot);
}

// Returns `value` where rows move, else `old`.
static ls_tensor moved_rows(const ls_update *update, ls_tensor value,
                            ls_tensor old) {
  return update->is_masked ? ls_select(update->mask, value, old) : value;
}

ls_tensor ls_update_slot(ls_update *update, size_t slot, ls_tensor value) {
  LS_MAKE_REQUIRE(update);
  if (slot >= update->optimizer->rule_slots)
    return update_failed(update, "there is no slot number %zu", slot);
  ls_variable *variable = update->slots[slot];
  const ls_tensor set =
      update->has_rows
          ? ls_scatter_common(variable, LS_SCATTER_UPDATE, update->rows, value)
          : ls_write_common(
                variable, LS_OP_ASSIGN,
                moved_rows(update, value, ls_update_read(update, slot)));
  update->ops[1 + slot] = ls_tensor_op(set);
  return set;
}

// Stores the variable's value: `moved`, or with rows the value after a scatter.
static ls_tensor set_variable(ls_update *update, ls_tensor moved) {
  ls_variable *variable = update->variable;
  // A constraint needs the whole value of the variable.
  if (!update->has_rows || ls_variable_has_constraint(variable))
    moved = ls_write_common(variable, LS_OP_ASSIGN,
                            ls_variable_constrain(variable, moved));
  update->ops[0] = ls_tensor_op(moved);
  return moved;
}

ls_tensor ls_update_move(ls_update *update, ls_tensor delta) {
  LS_MAKE_REQUIRE(update);
  delta = narrowed(update, delta);
  if (update->has_rows)
    return set_variable(update,
                        ls_scatter_common(update->variable, LS_SCATTER_SUB,
                                          update->rows, delta));
  ls_update_value(update);
  const ls_tensor w = update->w;
  return set_variable(update, moved_rows(update, ls_sub(w, delta), w));
}

ls_tensor ls_update_assign(ls_update *update, ls_tensor value) {
  LS_MAKE_REQUIRE(update);
  value = narrowed(update, value);
  if (update->has_rows)
    return set_variable(update,
                        ls_scatter_common(update->variable, LS_SCATTER_UPDATE,
                                          update->rows, value));
  if (update->is_masked) ls_update_value(update);
  return set_variable(update, moved_rows(update, value, update->w));
}

ls_op ls_join_ops(const ls_op *ops, size_t count, const char *name) {
  if (!ls_graph_is_eager(ls_graph_current())) return ls_group(ops, count, name);
  for (size_t i = 0; i + 1 < count; ++i)
    if (ls_tensor_is_failed(ls_op_output(ops[i], 0))) return ops[i];
  return count > 0 ? ops[count - 1] : (ls_op){0};
}

// Finds the rows to be updated, unless all are.
static void find_rows(ls_update *update, bool decays) {
  const ls_optimizer *optimizer = update->optimizer;
  const bool lazy =
      optimizer->lazy != NULL && optimizer->lazy(ls_update_variable(update));
  if (lazy || (optimizer->rule.keeps_rows && !decays))
    update->has_rows =
        ls_find_rows(update->gradient, &update->rows, &update->gradient);
  if (!lazy) return;
  update->mask = ls_rows_with_gradient(update->gradient);
  update->is_masked = !update->has_rows;
  if (update->has_rows) {
    const ls_tensor none = ls_scalar_i64(LS_DTYPE_I64, -1);
    update->rows = ls_select(ls_reshape_like(update->mask, update->rows),
                             update->rows, none);
  }
}

// Stores the gradient, if it is kept. Returns the op of the update.
static ls_op with_kept_gradient(const ls_update *update, ls_tensor gradient) {
  ls_variable *kept =
      ls_map_find_u64(&update->optimizer->kept, ls_update_variable(update)->id);
  if (kept == NULL) return update->ops[0];
  if (update->variable->container != NULL)
    kept = ls_slot_component(kept, update->variable);
  const ls_op ops[] = {
      ls_tensor_op(ls_write_common(kept, LS_OP_ASSIGN, gradient)),
      update->ops[0]};
  return ls_join_ops(ops, LS_COUNT_OF(ops), NULL);
}

// Makes the ops of the rule. In eager mode a failure stays only in an op.
static void update_by_rule(ls_update *update) {
  const ls_optimizer *optimizer = update->optimizer;
  for (size_t i = 0; i <= optimizer->rule_slots; ++i)
    update->ops[i] = (ls_op){0};
  optimizer->rule.update(update, optimizer->user);
  for (size_t i = 0; i <= optimizer->rule_slots; ++i) {
    if (update->ops[i].graph != NULL) continue;
    update->ops[i] = ls_tensor_op(
        i == 0 ? update_failed(update, "the rule has set no value", 0)
               : update_failed(update, "the rule has not set slot number %zu",
                               i - 1));
  }
  if (update->failed.ref != 0) update->ops[0] = ls_tensor_op(update->failed);
}

void ls_update_make(ls_update *update) {
  const bool decays = ls_update_decays(update);
  const ls_tensor gradient = update->gradient;
  find_rows(update, decays);
  update->gradient = ls_widened(update->gradient);
  // A step by rows subtracts from the variable in place.
  if (!update->has_rows || decays) ls_update_value(update);
  if (!update->optimizer->rule.own_decay && decays)
    update->gradient = ls_add(update->gradient, ls_update_decay(update));
  update_by_rule(update);
  update->ops[0] = with_kept_gradient(update, gradient);
}

// ---- Steps -----------------------------------------------------------------
ls_status ls_optimizer_begin_step(ls_optimizer *optimizer,
                                  ls_step_scalars *scalars) {
  LS_RETURN_IF_ERROR(ls_optimizer_count_steps(optimizer));
  if (optimizer->step == NULL) return ls_ok();
  scalars->rate_changes = ls_schedule_changes(&optimizer->schedule);
  scalars->rate = ls_optimizer_rate(optimizer);
  const ls_tensor done = ls_variable_read(optimizer->step);
  if (!optimizer->rule.counts) return ls_ok();
  scalars->number = ls_convert(ls_add_scalar(done, 1), LS_DTYPE_F64);
  if (optimizer->begin != NULL)
    optimizer->begin(optimizer, scalars->number, scalars);
  return ls_ok();
}

ls_status ls_optimizer_no_gradients(ls_variable *const *variables,
                                    size_t count) {
  char names[300] = "";
  size_t at = 0;
  for (size_t i = 0; i < count && at < sizeof(names); ++i)
    at += (size_t)snprintf(names + at, sizeof(names) - at, "%s'%s'",
                           i == 0 ? "" : ", ", ls_variable_name(variables[i]));
  return ls_invalid_argument(
      "none of the %zu variables has a gradient: no path leads from them to "
      "the loss: %s",
      count, names);
}

ls_status ls_optimizer_check_gradient(const ls_variable *variable,
                                      ls_nest gradient) {
  ls_type type = {0};
  if (gradient.kind == LS_KIND_TENSOR) {
    const ls_tensor x = gradient.as.tensor;
    if (ls_tensor_is_failed(x)) return ls_made_status(x);
    type = (ls_type){ls_tensor_dtype(x), ls_tensor_shape(x)};
  } else {
    const ls_array *array = ls_nest_as_array(gradient);
    type = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
  }
  if (type.dtype == variable->type.dtype &&
      ls_shape_compatible(type.shape, variable->type.shape))
    return ls_ok();
  return ls_invalid_argument(
      "the gradient of variable '%s' is %s, the variable %s", variable->name,
      LS_SHAPE_TEXT(type.dtype, type.shape),
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape));
}

// ---- Apply -----------------------------------------------------------------
// A step of an optimizer, on the variables that have a gradient.
typedef struct step {
  // The enclosing cross-shard optimizer, if there is one; else the optimizer.
  const ls_optimizer *over;
  ls_optimizer *optimizer;
  ls_step_scalars scalars;
  ls_shares shares;
  bool reduced;  // True if gradients are reduced over all replicas already.
  ls_held_call call;  // With several calls per step: this call's weights,
  ls_tensor share;    // and when stepping, the factor of the sums.
  ls_variable **variables;
  ls_tensor *gradients, *squares;
  size_t count;
  ls_op *ops;
  size_t num_ops;
} step;

static ls_status take_pairs(step *s, ls_variable *const *variables,
                            const ls_nest *gradients, size_t count) {
  if ((variables == NULL || gradients == NULL) && count > 0)
    return ls_invalid_argument("%zu %s at NULL", count,
                               variables == NULL ? "variables" : "gradients");
  if (ls_in_cross_replica_context())
    return ls_failed_precondition(
        "ls_optimizer_apply works in replicas: call it in those of "
        "ls_strategy_call_for_each_replica, or with all replicas' gradients "
        "ls_optimizer_apply_across");
  for (size_t i = 0; i < count; ++i) {
    if (variables[i] == NULL)
      return ls_invalid_argument("variable %zu is NULL", i);
    if (gradients[i].kind == LS_KIND_NONE) continue;
    if (gradients[i].kind != LS_KIND_TENSOR)
      return LS_STATUS(LS_UNIMPLEMENTED,
                       "the gradient of variable '%s' is no plain tensor: such "
                       "gradients cannot be applied",
                       ls_variable_name(variables[i]));
    LS_RETURN_IF_ERROR(ls_optimizer_check_gradient(variables[i], gradients[i]));
    // A step moves all components together.
    ls_variable *whole = variables[i]->container;
    s->variables[s->count] = whole != NULL ? whole : variables[i];
    for (size_t k = 0; whole != NULL && k < s->count; ++k)
      if (s->variables[k] == whole)
        return ls_invalid_argument(
            "two gradients are given for components of variable '%s': a step "
            "moves all of them together",
            whole->name);
    s->gradients[s->count++] = gradients[i].as.tensor;
  }
  return s->count > 0 ? ls_ok() : ls_optimizer_no_gradients(variables, count);
}

static ls_status move_one(step *s, size_t i) {
  ls_optimizer *optimizer = s->optimizer;
  ls_variable **slots = NULL;
  LS_RETURN_IF_ERROR(ls_optimizer_slots(optimizer, s->variables[i], &slots));
  ls_update update = {.optimizer = optimizer,
                      .scalars = &s->scalars,
                      .variable = s->variables[i],
                      .slots = slots,
                      .gradient = s->gradients[i],
                      .ops = &s->ops[s->num_ops]};
  ls_update_make(&update);
  s->num_ops += 1 + optimizer->rule_slots;
  if (ls_optimizer_holds(optimizer))
    s->ops[s->num_ops++] = ls_hold_nothing(optimizer, slots);
  return ls_ok();
}

// Reduces the replicas' gradients with the user's cross-device ops, if there
// are any.
static ls_status reduce_by_own(step *s) {
  if (ls_cross_shard_sums(s->over))
    return ls_cross_shard_find(s->over, &s->shares);
  const bool mean = s->over->over_replicas == LS_GRADIENTS_MEAN;
  s->shares = ls_shares_find(mean);
  s->reduced = ls_shares_has_own_ops(&s->shares);
  return s->reduced
             ? ls_shares_reduce_by_own(&s->shares, mean, s->gradients, s->count)
             : ls_ok();
}

static ls_status gradient_of_all(step *s, size_t i) {
  if (ls_cross_shard_sums(s->over))
    return ls_cross_shard_reduce(s->over, &s->shares, &s->gradients[i]);
  if (!s->reduced)
    s->gradients[i] = ls_gradient_of_all(s->over, &s->shares, s->gradients[i]);
  return ls_ok();
}

// Adds the updates of all variables. A global norm needs every gradient before
// the first update; otherwise each variable is updated as soon as its gradient
// is ready.
static ls_status move_all(step *s) {
  const ls_clip *clip = &s->optimizer->clip;
  const bool wait = clip->global_norm > 0;
  for (size_t i = 0; i < s->count; ++i) {
    if (ls_optimizer_holds(s->optimizer))
      s->gradients[i] = ls_held_mean(s->gradients[i], s->share,
                                     ls_variable_dtype(s->variables[i]));
    else
      LS_RETURN_IF_ERROR(gradient_of_all(s, i));
    s->gradients[i] = ls_clip_one(clip, s->gradients[i]);
    if (!wait) LS_RETURN_IF_ERROR(move_one(s, i));
  }
  ls_clip_all(clip, s->gradients, s->count, s->squares);
  for (size_t i = 0; wait && i < s->count; ++i)
    LS_RETURN_IF_ERROR(move_one(s, i));
  if (s->optimizer->step != NULL)
    s->ops[s->num_ops++] = ls_tensor_op(ls_variable_assign_add(
        s->optimizer->step, ls_scalar_i64(LS_DTYPE_I64, 1)));
  return ls_ok();
}

static ls_status move_held(void *user, ls_tensor share) {
  step *s = user;
  s->share = share;
  LS_RETURN_IF_ERROR(ls_optimizer_begin_step(s->optimizer, &s->scalars));
  return move_all(s);
}

static ls_status hold_all(step *s) {
  LS_RETURN_IF_ERROR(reduce_by_own(s));
  LS_RETURN_IF_ERROR(ls_hold_begin(
      s->optimizer, ls_optimizer_examples(s->over, &s->shares), &s->call));
  for (size_t i = 0; i < s->count; ++i) {
    ls_variable **slots = NULL;
    LS_RETURN_IF_ERROR(
        ls_optimizer_slots(s->optimizer, s->variables[i], &slots));
    LS_RETURN_IF_ERROR(gradient_of_all(s, i));
    s->gradients[i] =
        ls_hold_gradient(s->optimizer, &s->call, slots, s->gradients[i]);
  }
  return ls_ok();
}

static ls_status move_here(step *s, ls_op *out_op) {
  if (ls_optimizer_holds(s->optimizer)) {
    LS_RETURN_IF_ERROR(hold_all(s));
    LS_RETURN_IF_ERROR(
        ls_optimizer_step_if_due(s->optimizer, &s->call, move_held, s, out_op));
  } else {
    LS_RETURN_IF_ERROR(ls_optimizer_begin_step(s->optimizer, &s->scalars));
    LS_RETURN_IF_ERROR(reduce_by_own(s));
    LS_RETURN_IF_ERROR(move_all(s));
    *out_op = ls_join_ops(s->ops, s->num_ops, s->optimizer->name);
  }
  return ls_update_ops_join(s->optimizer->name, out_op);
}

static ls_op apply_failed(ls_status status) {
  return ls_tensor_op(ls_make_failed("optimizer", status));
}

static ls_status apply(ls_optimizer *over, ls_variable *const *variables,
                       const ls_nest *gradients, size_t count, ls_op *out_op) {
  ls_optimizer *optimizer = over->inner != NULL ? over->inner : over;
  ls_allocator *allocator = optimizer->allocator;
  ls_graph_note_training(ls_graph_current());
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, kept_variables, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, kept_gradients, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, squares, count);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops,
                         count * (1 + optimizer->num_slots) + 1);
  step s = {.over = over,
            .optimizer = optimizer,
            .variables = kept_variables,
            .gradients = kept_gradients,
            .squares = squares,
            .ops = ops};
  LS_NAME_SCOPE(optimizer->name);
  LS_SCOPE_BLOCK_(shards);  // Opened last, so that it is closed first.
  LS_RETURN_IF_ERROR(take_pairs(&s, variables, gradients, count));
  LS_RETURN_IF_ERROR(ls_cross_shard_begin(over, &shards));
  return ls_optimizer_meets(s.variables, s.count)
             ? ls_optimizer_apply_met(over, s.variables, s.gradients, s.count,
                                      out_op)
             : move_here(&s, out_op);
}

ls_op ls_optimizer_apply(ls_optimizer *optimizer, ls_variable *const *variables,
                         const ls_nest *gradients, size_t count) {
  LS_MAKE_REQUIRE_FOR_OP(optimizer);
  ls_op made = {0};
  const ls_status status =
      LS_TRIAL(apply(optimizer, variables, gradients, count, &made));
  return ls_status_is_ok(status) ? made : apply_failed(status);
}

// ---- Minimize --------------------------------------------------------------
static ls_status check_scalar(ls_tensor loss) {
  const ls_shape shape = ls_tensor_shape(loss);
  if (ls_dtype_is_float(ls_tensor_dtype(loss)) && shape.rank <= 0)
    return ls_ok();
  return ls_invalid_argument("a loss must be a float scalar, got %s",
                             LS_SHAPE_TEXT(ls_tensor_dtype(loss), shape));
}

ls_status ls_optimizer_check_loss(ls_tensor loss) {
  if (ls_graph_is_eager(ls_graph_current()))
    return ls_failed_precondition(
        "ls_optimizer_minimize works in functions and build graphs; in eager "
        "record a tape and use ls_optimizer_minimize_tape");
  return check_scalar(loss);
}

ls_status ls_optimizer_nothing_to_train(ls_tensor loss) {
  return ls_invalid_argument(
      "nothing to train: no trainable variable is read on the way to '%s'",
      ls_tensor_name(loss));
}

// Computes gradients with the tape, or in the graph being built.
static ls_status take_gradients(const ls_optimizer *optimizer, ls_tape *tape,
                                ls_tensor loss, ls_variable *const *variables,
                                size_t count, ls_nest *gradients) {
  LS_OWN_ARRAY_OR_RETURN(optimizer->allocator, ls_nest, xs, count);
  for (size_t i = 0; i < count; ++i)
    xs[i] = ls_nest_variable(variables[i]);
  const ls_nest y = ls_leaf(loss);
  const ls_status status =
      tape != NULL ? ls_tape_gradients(tape, y, xs, count, gradients)
                   : ls_gradients(&y, 1, xs, count, NULL, gradients);
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(xs[i]);
  return status;
}

// Returns the loss to differentiate, scaled if the optimizer treats gradients
// like the loss. Records the choice in the graph.
static ls_tensor scale_loss(const ls_optimizer *optimizer, ls_tensor loss) {
  const int32_t replicas = ls_num_replicas();
  const bool scaled = optimizer->over_replicas == LS_GRADIENTS_LIKE_LOSS &&
                      replicas > 1 && ls_loss_reduction() == LS_REDUCE_MEAN;
  ls_graph_set_loss_scaled(ls_graph_current(), scaled);
  ls_graph_set_gradients_summed(ls_graph_current(),
                                optimizer->over_replicas != LS_GRADIENTS_MEAN &&
                                    !scaled);
  return scaled ? ls_mul_scalar(loss, 1.0 / replicas) : loss;
}

ls_status ls_optimizer_gradients(const ls_optimizer *optimizer, ls_tensor loss,
                                 ls_variable *const *variables, size_t count,
                                 ls_nest *gradients) {
  return take_gradients(optimizer, NULL, scale_loss(optimizer, loss), variables,
                        count, gradients);
}

static ls_status minimize_loss(ls_optimizer *optimizer, ls_tape *tape,
                               ls_tensor loss, ls_variable *const *variables,
                               size_t count, ls_op *out_moved) {
  if (count == 0) return ls_optimizer_nothing_to_train(loss);
  LS_OWN_ARRAY_OR_RETURN(optimizer->allocator, ls_nest, gradients, count);
  LS_RETURN_IF_ERROR(
      take_gradients(optimizer, tape, loss, variables, count, gradients));
  *out_moved = ls_optimizer_apply(optimizer, variables, gradients, count);
  return ls_ok();
}

static ls_status check_list(ls_variable *const *variables, size_t count) {
  for (size_t i = 0; i < count; ++i)
    for (size_t k = 0; k < i; ++k)
      if (variables[k] == variables[i])
        return ls_invalid_argument(
            "variable '%s' is listed twice, as number %zu and %zu",
            ls_variable_name(variables[i]), k, i);
  return count > 0 ? ls_ok() : ls_invalid_argument("no variables are given");
}

// Updates the given variables (NULL: all that were read).
static ls_status minimize(ls_optimizer *optimizer, ls_tensor loss,
                          ls_variable *const *variables, size_t count,
                          ls_op *out_moved) {
  LS_OWN_MEMORY(optimizer->allocator, ls_variable *, found) = NULL;
  LS_RETURN_IF_ERROR(ls_optimizer_check_loss(loss));
  LS_RETURN_IF_ERROR(variables != NULL ? check_list(variables, count)
                                       : ls_reads_find(optimizer->allocator,
                                                       loss, &found, &count));
  return minimize_loss(optimizer, NULL, scale_loss(optimizer, loss),
                       variables != NULL ? variables : found, count, out_moved);
}

ls_op ls_optimizer_minimize(ls_optimizer *optimizer, ls_tensor loss) {
  LS_MAKE_REQUIRE_FOR_OP(optimizer);
  if (loss.ref == 0) return (ls_op){0};  // The graph has the error already.
  ls_op moved = {0};
  const ls_status status = LS_TRIAL(minimize(optimizer, loss, NULL, 0, &moved));
  return ls_status_is_ok(status) ? moved : apply_failed(status);
}

ls_op ls_optimizer_minimize_only(ls_optimizer *optimizer, ls_tensor loss,
                                 ls_variable *const *variables, size_t count) {
  LS_MAKE_REQUIRE_FOR_OP(optimizer);
  LS_MAKE_REQUIRE_FOR_OP(variables);
  for (size_t i = 0; i < count; ++i)
    LS_MAKE_REQUIRE_FOR_OP(variables[i]);
  if (loss.ref == 0) return (ls_op){0};
  ls_op moved = {0};
  const ls_status status =
      LS_TRIAL(minimize(optimizer, loss, variables, count, &moved));
  return ls_status_is_ok(status) ? moved : apply_failed(status);
}

ls_status ls_optimizer_minimize_tape(ls_optimizer *optimizer, ls_tape *tape,
                                     ls_tensor loss) {
  LS_REQUIRE(optimizer, tape);
  LS_RETURN_IF_ERROR(ls_tensor_status(loss));
  LS_RETURN_IF_ERROR(check_scalar(loss));
  loss = scale_loss(optimizer, loss);
  LS_RETURN_IF_ERROR(ls_tape_end(tape));
  const size_t count = ls_tape_list(tape, false, NULL, 0);
  LS_OWN_ARRAY_OR_RETURN(optimizer->allocator, ls_variable *, variables, count);
  ls_tape_list(tape, false, variables, count);
  ls_op moved = {0};
  LS_RETURN_IF_ERROR(
      minimize_loss(optimizer, tape, loss, variables, count, &moved));
  return ls_tensor_status(ls_op_output(moved, 0));
}
