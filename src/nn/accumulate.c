// SPDX-License-Identifier: Apache-2.0
//
// A step on a batch in parts: the gradients of the first part start the sums,
// and a loop adds those of the other parts.
#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "nn/optimizer.h"

typedef struct accumulation {
  ls_optimizer *optimizer;
  int64_t parts;
  ls_loss_callback loss;
  ls_nest args;
  void *user;
  // Variables for which the first part has a gradient.
  ls_variable **variables;
  size_t count;
  ls_nest *sums;  // [1 + count]: sums of the losses, then of the gradients.
} accumulation;

// ---- A part ----------------------------------------------------------------
typedef struct cut {
  int64_t parts;
  ls_tensor index;
} cut;

// Cuts part `index` out of a tensor's dimension 0.
static ls_nest cut_leaf(ls_nest leaf, void *user) {
  const cut *c = user;
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_retain(leaf);
  const ls_tensor x = leaf.as.tensor;
  const ls_shape shape = ls_tensor_shape(x);
  if (shape.rank < 1 || shape.rank >= LS_MAX_RANK ||
      (shape.dim[0] >= 0 && shape.dim[0] % c->parts != 0))
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "dimension 0 of argument '%s', which is %s, cannot be cut "
                   "into %lld equal parts",
                   ls_tensor_name(x), LS_SHAPE_TEXT(ls_tensor_dtype(x), shape),
                   (long long)c->parts);
  ls_shape cut_shape = {.rank = shape.rank + 1, .dim = {c->parts, -1}};
  if (shape.dim[0] >= 0) cut_shape.dim[1] = shape.dim[0] / c->parts;
  for (int i = 1; i < shape.rank; ++i)
    cut_shape.dim[i + 1] = shape.dim[i];
  return ls_leaf(ls_gather(ls_reshape(x, cut_shape), c->index, 0));
}

static ls_status loss_of_part(const accumulation *all, ls_tensor index,
                              ls_tensor *out_loss) {
  cut c = {.parts = all->parts, .index = index};
  LS_OWN(ls_nest, args) = ls_nest_map(all->args, cut_leaf, &c);
  LS_RETURN_IF_ERROR(ls_nest_status(args));
  *out_loss = all->loss(args, all->user);
  return ls_optimizer_check_loss(*out_loss);
}

// Computes part 0 outside of the loop, which also finds the trained variables.
static ls_status accumulate_first_part(accumulation *all) {
  ls_allocator *allocator = all->optimizer->allocator;
  ls_tensor loss = ls_failed_tensor();
  size_t count = 0;
  LS_RETURN_IF_ERROR(loss_of_part(all, ls_scalar_i64(LS_DTYPE_I64, 0), &loss));
  LS_RETURN_IF_ERROR(ls_reads_find(allocator, loss, &all->variables, &count));
  if (count == 0) return ls_optimizer_nothing_to_train(loss);
  LS_SET_ARRAY_OR_RETURN(allocator, ls_nest, all->sums, count + 1);
  all->sums[0] = ls_leaf(loss);
  LS_RETURN_IF_ERROR(ls_optimizer_gradients(
      all->optimizer, loss, all->variables, count, all->sums + 1));
  for (size_t i = 0; i < count; ++i) {
    if (all->sums[1 + i].kind == LS_KIND_NONE) continue;
    LS_ASSERT(all->sums[1 + i].kind == LS_KIND_TENSOR);
    all->variables[all->count] = all->variables[i];
    all->sums[1 + all->count++] = all->sums[1 + i];
  }
  return all->count > 0 ? ls_ok()
                        : ls_optimizer_no_gradients(all->variables, count);
}

// ---- The other parts -------------------------------------------------------
// Returns true if a part is left. The loop values are the number of the next
// part, then the sums.
static ls_nest is_left(ls_nest values, void *user) {
  const accumulation *all = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0),
                         ls_scalar_i64(LS_DTYPE_I64, all->parts)));
}

static ls_status add_part(accumulation *all, ls_nest values, ls_nest *next) {
  const ls_tensor index = ls_nest_tensor(values, 0);
  ls_tensor loss = ls_failed_tensor();
  LS_RETURN_IF_ERROR(loss_of_part(all, index, &loss));
  LS_RETURN_IF_ERROR(ls_optimizer_gradients(
      all->optimizer, loss, all->variables, all->count, next + 2));
  next[0] = ls_leaf(ls_add_scalar(index, 1));
  next[1] = ls_leaf(loss);
  for (size_t i = 1; i < all->count + 2; ++i) {
    const ls_tensor sum = ls_nest_tensor(values, i);
    next[i] = ls_leaf(next[i].kind == LS_KIND_TENSOR
                          ? ls_add(sum, ls_widened(next[i].as.tensor))
                          : sum);
  }
  return ls_ok();
}

static ls_nest add_next(ls_nest values, void *user) {
  accumulation *all = user;
  LS_OWN_ARRAY(all->optimizer->allocator, ls_nest, next, all->count + 2);
  if (next == NULL) return ls_fail(ls_out_of_memory());
  const ls_status status = add_part(all, values, next);
  return ls_status_is_ok(status)
             ? ls_nest_sequence(LS_KIND_TUPLE, next, all->count + 2)
             : ls_fail(status);
}

static ls_status other_parts(accumulation *all) {
  if (all->parts == 1) return ls_ok();
  LS_OWN(ls_nest_builder, first) = {0};
  ls_nest_builder_append(&first, ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 1)));
  for (size_t i = 0; i < all->count + 1; ++i)
    ls_nest_builder_append(&first, ls_leaf(ls_widened(all->sums[i].as.tensor)));
  LS_OWN(ls_nest, last) =
      ls_while(is_left, add_next, all,
               ls_nest_builder_finish(&first, LS_KIND_TUPLE), all->parts);
  LS_RETURN_IF_ERROR(ls_nest_status(last));
  for (size_t i = 0; i < all->count + 1; ++i) {
    const ls_dtype dtype = ls_tensor_dtype(all->sums[i].as.tensor);
    const ls_tensor mean =
        ls_mul_scalar(ls_nest_tensor(last, i + 1), 1 / (double)all->parts);
    all->sums[i] = ls_leaf(ls_convert(mean, dtype));
  }
  return ls_ok();
}

static ls_status minimize(accumulation *all, ls_tensor *out_loss) {
  if (all->parts < 1)
    return ls_invalid_argument("a batch cannot be cut into %lld parts",
                               (long long)all->parts);
  LS_RETURN_IF_ERROR(accumulate_first_part(all));
  LS_RETURN_IF_ERROR(other_parts(all));
  const ls_op moved = ls_optimizer_apply(all->optimizer, all->variables,
                                         all->sums + 1, all->count);
  if (ls_op_is_failed(moved)) return ls_ok();  // The graph has the error.
  LS_CONTROL_SCOPE(&moved, 1);
  *out_loss = ls_identity(all->sums[0].as.tensor);
  return ls_ok();
}

ls_tensor ls_optimizer_minimize_parts(ls_optimizer *optimizer, int64_t parts,
                                      ls_loss_callback loss, ls_nest args,
                                      void *user) {
  LS_MAKE_REQUIRE(optimizer);
  accumulation all = {.optimizer = optimizer,
                      .parts = parts,
                      .loss = loss,
                      .args = args,
                      .user = user};
  ls_tensor result = ls_failed_tensor();
  const ls_status status = LS_TRIAL(minimize(&all, &result));
  ls_release(optimizer->allocator, all.variables);
  ls_release(optimizer->allocator, all.sums);
  return ls_status_is_ok(status) ? result : ls_make_failed("optimizer", status);
}

// ---- Held gradients ---------------------------------------------------------
// Steps made of several calls: each call adds its gradients to slots, and the
// last one moves the variables by their mean, in which calls are weighted by
// their examples. The slots hold the gradients of all replicas together, so
// that there is one sum for any number of replicas. A gradient of some rows is
// added to these rows of the sum, which has all rows.

bool ls_optimizer_holds(const ls_optimizer *optimizer) {
  return optimizer->accumulate > 1;
}

// ---- Sums ------------------------------------------------------------------
static ls_variable *held_sum(const ls_optimizer *optimizer,
                             ls_variable *const *slots) {
  return slots[optimizer->rule_slots];
}

// Multiplies a gradient by the call's weight. For a call without examples the
// result is -0.
static ls_tensor weighted_gradient(const ls_held_call *call, ls_tensor gradient,
                                   ls_dtype dtype) {
  const ls_tensor x =
      ls_update_scale(ls_convert(gradient, dtype), call->weight);
  const ls_tensor none = ls_scalar(dtype, -0.0);
  return ls_select(ls_greater(call->weight, ls_scalar(LS_DTYPE_F64, 0)), x,
                   none);
}

ls_tensor ls_hold_gradient(const ls_optimizer *optimizer,
                           const ls_held_call *call, ls_variable *const *slots,
                           ls_tensor gradient) {
  ls_variable *slot = held_sum(optimizer, slots);
  const ls_dtype dtype = ls_variable_dtype(slot);
  ls_tensor rows, values;
  if (ls_find_rows(gradient, &rows, &values))
    return ls_scatter_common(slot, LS_SCATTER_ADD, rows,
                             weighted_gradient(call, values, dtype));
  const ls_tensor added = weighted_gradient(call, gradient, dtype);
  return ls_write_common(slot, LS_OP_ASSIGN,
                         ls_add(ls_variable_read(slot), added));
}

ls_tensor ls_held_mean(ls_tensor sum, ls_tensor share, ls_dtype dtype) {
  return ls_convert(ls_update_scale(sum, share), dtype);
}

ls_op ls_hold_nothing(const ls_optimizer *optimizer,
                      ls_variable *const *slots) {
  ls_variable *slot = held_sum(optimizer, slots);
  return ls_tensor_op(ls_write_common(
      slot, LS_OP_ASSIGN,
      ls_fill(ls_variable_dtype(slot), ls_variable_shape(slot), 0)));
}

// ---- Calls -----------------------------------------------------------------
static ls_tensor sum_over_replicas(ls_tensor count) {
  return ls_all_reduce(LS_REDUCE_SUM, count);
}

ls_tensor ls_optimizer_examples(const ls_optimizer *optimizer,
                                const ls_shares *shares) {
  if (optimizer->over_replicas == LS_GRADIENTS_LIKE_LOSS)
    return ls_scalar(LS_DTYPE_F64, 1);
  return ls_cross_shard_sums(optimizer)
             ? ls_cross_shard_examples()
             : ls_shares_examples(shares, sum_over_replicas);
}

ls_status ls_hold_begin(ls_optimizer *optimizer, ls_tensor examples,
                        ls_held_call *out_call) {
  LS_RETURN_IF_ERROR(ls_optimizer_count_steps(optimizer));
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0);
  const ls_tensor one = ls_scalar(LS_DTYPE_F64, 1);
  const ls_tensor before = ls_variable_read(optimizer->examples);
  const ls_tensor given = ls_select(ls_greater(examples, zero), examples, one);
  const ls_tensor was = ls_variable_read(optimizer->first_examples);
  ls_held_call *call = out_call;
  call->first = ls_select(ls_greater(before, zero), was, given);
  call->weight = ls_div(examples, call->first);
  call->examples = ls_add(before, examples);
  call->total = ls_div(call->examples, call->first);
  return ls_ok();
}

typedef struct turn {
  ls_held_step step;
  void *user;
  const ls_held_call *call;
  ls_tensor calls;  // Number of calls, with this one.
} turn;

// Takes the step. Both branches return the number of calls since the last step,
// the number of their examples, and the number of the first call's examples.
static ls_nest take_step(ls_nest nothing, void *user) {
  (void)nothing;
  const turn *t = user;
  const ls_tensor zero = ls_scalar(LS_DTYPE_F64, 0), total = t->call->total;
  // If no call had examples, the mean gradient is zero.
  const ls_tensor each = ls_div(ls_scalar(LS_DTYPE_F64, 1), total);
  const ls_tensor share = ls_select(ls_greater(total, zero), each, zero);
  const ls_status status = t->step(t->user, share);
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(zero),
                        ls_leaf(zero))
             : ls_fail(status);
}

static ls_nest hold_go_on(ls_nest nothing, void *user) {
  (void)nothing;
  const turn *t = user;
  return LS_TUPLE(ls_leaf(ls_identity(t->calls)),
                  ls_leaf(ls_identity(t->call->examples)),
                  ls_leaf(ls_identity(t->call->first)));
}

static ls_op keep_counts(const ls_optimizer *optimizer, ls_nest counts) {
  ls_variable *const variables[] = {optimizer->calls, optimizer->examples,
                                    optimizer->first_examples};
  ls_op ops[3];
  for (size_t i = 0; i < 3; ++i)
    ops[i] = ls_tensor_op(
        ls_variable_assign(variables[i], ls_nest_tensor(counts, i)));
  return ls_join_ops(ops, 3, NULL);
}

ls_status ls_optimizer_step_if_due(ls_optimizer *optimizer,
                                   const ls_held_call *call, ls_held_step step,
                                   void *user, ls_op *out_op) {
  turn t = {step, user, call,
            ls_add_scalar(ls_variable_read(optimizer->calls), 1)};
  const ls_tensor due = ls_greater_equal(
      t.calls, ls_scalar_i64(LS_DTYPE_I64, optimizer->accumulate));
  LS_OWN(ls_nest, counts) = ls_cond(due, take_step, hold_go_on, &t);
  LS_RETURN_IF_ERROR(ls_nest_status(counts));
  *out_op = keep_counts(optimizer, counts);
  return ls_ok();
}
