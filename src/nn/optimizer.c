// SPDX-License-Identifier: Apache-2.0
// Optimizers: creation, options and slots.
#include "nn/optimizer.h"

#include <math.h>
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/numbers.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/strategy.h"
#include "lockstep/weights.h"

// ---- Lifetime --------------------------------------------------------------
static void release_slots(const ls_optimizer *optimizer, ls_variable **slots) {
  for (size_t i = 0; slots != NULL && i < optimizer->num_slots; ++i)
    ls_variable_release(slots[i]);
  ls_release(optimizer->allocator, slots);
}

static void destroy_optimizer(ls_object *object) {
  ls_optimizer *optimizer = (ls_optimizer *)object;
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&optimizer->slots, &at, &item);)
    release_slots(optimizer, item.value);
  ls_map_deinit(&optimizer->slots);
  for (size_t at = 0; ls_map_next(&optimizer->kept, &at, &item);)
    ls_variable_release(item.value);
  ls_map_deinit(&optimizer->kept);
  ls_variable_release(optimizer->step);
  ls_variable_release(optimizer->calls);
  ls_variable_release(optimizer->examples);
  ls_variable_release(optimizer->first_examples);
  ls_optimizer_release(optimizer->inner);
  ls_release(optimizer->allocator,
             (void *)(uintptr_t)optimizer->groups.members);
  ls_release(optimizer->allocator, optimizer->name_text);
  for (size_t i = 0; i < optimizer->rule_slots; ++i)
    ls_release(optimizer->allocator,
               (void *)(uintptr_t)optimizer->rule.slots[i].name);
  ls_release(optimizer->allocator, optimizer);
}

static const ls_object_type optimizer_type = {.name = "optimizer",
                                              .destroy = destroy_optimizer};

LS_COUNTED(ls_optimizer)

// Returns the inner optimizer of a cross-shard optimizer; else the optimizer
// itself.
static const ls_optimizer *inner_optimizer(const ls_optimizer *optimizer) {
  return optimizer->inner != NULL ? optimizer->inner : optimizer;
}

double ls_optimizer_learning_rate(const ls_optimizer *optimizer) {
  return inner_optimizer(optimizer)->learning_rate;
}

ls_schedule ls_optimizer_schedule(const ls_optimizer *optimizer) {
  return inner_optimizer(optimizer)->schedule;
}

// ---- Options ---------------------------------------------------------------
ls_status ls_optimizer_check(const char *kind, const char *what, double value,
                             double limit) {
  if (value >= 0 && value < limit) return ls_ok();
  if (limit == (double)INFINITY)
    return ls_invalid_argument("%s: the %s must be 0 or more, got %g", kind,
                               what, value);
  return ls_invalid_argument("%s: the %s must be 0 or more and below %g, got "
                             "%g",
                             kind, what, limit, value);
}

static ls_status check_schedule(const char *kind, const ls_schedule *schedule) {
  if (schedule->kind > LS_SCHEDULE_STEP)
    return ls_invalid_argument("%s: there is no schedule %d", kind,
                               (int)schedule->kind);
  const bool steps_matter =
      schedule->kind != LS_SCHEDULE_CONSTANT && schedule->custom == NULL;
  if (schedule->steps < 0 || schedule->warmup < 0 ||
      (steps_matter && schedule->steps == 0))
    return ls_invalid_argument("%s: a schedule needs steps above 0 and a "
                               "warm-up of 0 or more, got %lld and %lld",
                               kind, (long long)schedule->steps,
                               (long long)schedule->warmup);
  LS_RETURN_IF_ERROR(
      ls_optimizer_check(kind, "schedule's end", schedule->end, INFINITY));
  return ls_optimizer_check(kind, "schedule's factor", schedule->factor,
                            INFINITY);
}

static ls_status optimizer_check(const char *kind,
                                 const ls_optimizer_options *options) {
  const struct {
    const char *what;
    double value;
  } numbers[] = {{"learning rate", options->learning_rate},
                 {"limit of values", options->clip.value},
                 {"limit of norms", options->clip.norm},
                 {"limit of the global norm", options->clip.global_norm},
                 {"weight decay", options->weight_decay}};
  for (size_t i = 0; i < LS_COUNT_OF(numbers); ++i)
    LS_RETURN_IF_ERROR(
        ls_optimizer_check(kind, numbers[i].what, numbers[i].value, INFINITY));
  if ((unsigned)options->over_replicas > LS_GRADIENTS_LIKE_LOSS)
    return ls_invalid_argument("%s: gradients over replicas by %d: neither "
                               "LS_GRADIENTS_MEAN nor LS_GRADIENTS_SUM nor "
                               "LS_GRADIENTS_LIKE_LOSS",
                               kind, (int)options->over_replicas);
  if (options->accumulate < 0)
    return ls_invalid_argument("%s: %lld calls cannot make a step", kind,
                               (long long)options->accumulate);
  return check_schedule(kind, &options->schedule);
}

// Takes over a rule with copies of its slots' names.
static ls_status keep_rule(ls_optimizer *optimizer,
                           const ls_optimizer_rule *rule) {
  optimizer->rule = *rule;
  optimizer->rule.name = optimizer->name;
  optimizer->user = optimizer;
  for (size_t i = 0; i < LS_MAX_SLOTS && rule->slots[i].name != NULL; ++i) {
    const char *name = rule->slots[i].name;
    optimizer->rule.slots[i].name =
        ls_copy_text(optimizer->allocator, name, strlen(name));
    LS_RETURN_IF_NO_MEMORY(optimizer->rule.slots[i].name);
    ++optimizer->rule_slots;
  }
  optimizer->num_slots = optimizer->rule_slots + ls_optimizer_holds(optimizer);
  return ls_ok();
}

ls_status ls_optimizer_make(const ls_optimizer_rule *rule, const void *options,
                            ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  ls_optimizer_options common = {0};
  if (options != NULL) memcpy(&common, options, sizeof(common));
  LS_RETURN_IF_ERROR(optimizer_check(rule->name, &common));
  if (rule->needs_all && common.lazy != NULL)
    return ls_invalid_argument(
        "%s: no step can be lazy: its rule needs all rows of a variable",
        rule->name);
  const char *name = common.name != NULL ? common.name : rule->name;
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_optimizer, optimizer);
  ls_object_init(&optimizer->object, &optimizer_type);
  optimizer->allocator = allocator;
  optimizer->learning_rate =
      common.learning_rate != 0 ? common.learning_rate : rule->learning_rate;
  optimizer->schedule = common.schedule;
  optimizer->clip = common.clip;
  optimizer->weight_decay = common.weight_decay;
  optimizer->decays = common.decays;
  optimizer->over_replicas = common.over_replicas;
  optimizer->accumulate = common.accumulate;
  optimizer->lazy = common.lazy;
  optimizer->counts = common.counts;
  ls_map_init(&optimizer->slots, allocator);
  ls_map_init(&optimizer->kept, allocator);
  optimizer->name = optimizer->name_text =
      ls_copy_text(allocator, name, strlen(name));
  const ls_status status =
      optimizer->name != NULL ? keep_rule(optimizer, rule) : ls_out_of_memory();
  if (ls_status_is_ok(status))
    *out_optimizer = optimizer;
  else
    ls_optimizer_release(optimizer);
  return status;
}

// ---- Own rules -------------------------------------------------------------
static ls_status check_slot(const ls_optimizer_rule *rule, size_t slot) {
  const char *name = rule->slots[slot].name;
  if (name[0] == '\0')
    return ls_invalid_argument("%s: slot %zu has no name", rule->name, slot);
  if (strcmp(name, "gradient") == 0 || strcmp(name, "kept_gradient") == 0)
    return ls_invalid_argument("%s: a slot cannot be called '%s': every "
                               "optimizer may have such a one",
                               rule->name, name);
  for (size_t i = 0; i < slot; ++i)
    if (strcmp(rule->slots[i].name, name) == 0)
      return ls_invalid_argument("%s: slots %zu and %zu are both called '%s'",
                                 rule->name, i, slot, name);
  return ls_ok();
}

static ls_status check_rule(const ls_optimizer_rule *rule) {
  if (rule->name == NULL || rule->name[0] == '\0')
    return ls_invalid_argument("a rule of an optimizer has no name");
  if (rule->update == NULL)
    return ls_invalid_argument("%s: the rule's `update` is NULL", rule->name);
  if (!(rule->learning_rate > 0))
    return ls_invalid_argument(
        "%s: the rule's learning rate must be above 0, got %g", rule->name,
        rule->learning_rate);
  for (size_t i = 0; i < LS_MAX_SLOTS && rule->slots[i].name != NULL; ++i)
    LS_RETURN_IF_ERROR(check_slot(rule, i));
  return ls_ok();
}

ls_status ls_optimizer_create_own(const ls_optimizer_rule *rule, void *user,
                                  const ls_optimizer_options *options,
                                  ls_optimizer **out_optimizer) {
  LS_REQUIRE_OUT(out_optimizer, rule);
  LS_RETURN_IF_ERROR(check_rule(rule));
  LS_RETURN_IF_ERROR(ls_optimizer_make(rule, options, out_optimizer));
  (*out_optimizer)->user = user;
  return ls_ok();
}

// ---- Slots -----------------------------------------------------------------
static const char *slot_name(const ls_optimizer *optimizer, size_t slot) {
  return slot < optimizer->rule_slots ? optimizer->rule.slots[slot].name
                                      : "gradient";
}

static ls_weight_options slot_options(const ls_optimizer *optimizer,
                                      const ls_variable *variable,
                                      size_t slot) {
  ls_weight_options options = {.name = slot_name(optimizer, slot),
                               .dtype = ls_wide_dtype(variable->type.dtype),
                               .shape = ls_variable_shape(variable),
                               .initializer = ls_init_zeros(),
                               .trainable = LS_FLAG_OFF};
  if (slot < optimizer->rule_slots)
    options.initializer = ls_init_constant(optimizer->rule.slots[slot].initial);
  return options;
}

// Returns the slots of a variable if they exist: a refused call drops those
// that it made.
static ls_variable **known_slots(const ls_optimizer *optimizer,
                                 const ls_variable *variable) {
  ls_variable **slots = ls_map_find_u64(&optimizer->slots, variable->id);
  return slots == NULL || slots[0]->is_dropped ? NULL : slots;
}

// Enters the strategy of a distributed variable outside of all strategies: a
// slot has a component for each of the variable's.
static void enter_strategy_of(const ls_variable *variable, ls_scope *scope) {
  if (variable->num_components > 0 && !ls_has_strategy())
    ls_strategy_scope_begin(scope, ls_strategy_of(variable));
}

static ls_status create_slots(const ls_optimizer *optimizer,
                              ls_variable *variable, ls_variable **slots) {
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", ls_variable_name(variable));
  {
    LS_NAME_SCOPE(scope);
    LS_SCOPE_BLOCK_(strategy);
    enter_strategy_of(variable, &strategy);
    LS_BESIDE_SCOPE(variable);
    for (size_t i = 0; i < optimizer->num_slots; ++i) {
      const ls_weight_options options = slot_options(optimizer, variable, i);
      LS_RETURN_IF_ERROR(ls_weight_create(&options, &slots[i]));
    }
  }
  return ls_ok();
}

static ls_status create_kept(ls_variable *variable, bool is_local,
                             ls_variable **out_kept) {
  static const char *const collections[] = {LS_COLLECTION_LOCAL_VARIABLES,
                                            LS_COLLECTION_KEPT_GRADIENTS};
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", ls_variable_name(variable));
  {
    LS_NAME_SCOPE(scope);
    LS_SCOPE_BLOCK_(strategy);
    enter_strategy_of(variable, &strategy);
    LS_BESIDE_SCOPE(variable);
    return ls_variable_create(
        &(ls_variable_options){.name = "kept_gradient",
                               .dtype = ls_variable_dtype(variable),
                               .shape = ls_variable_shape(variable),
                               .trainable = LS_FLAG_OFF,
                               .collections = is_local ? collections : NULL,
                               .num_collections = is_local ? 2 : 0},
        out_kept);
  }
  return ls_ok();
}

static ls_status keep_gradient(ls_optimizer *optimizer, ls_variable *variable,
                               bool is_local) {
  if (variable->container != NULL) variable = variable->container;
  ls_variable *former = ls_map_find_u64(&optimizer->kept, variable->id);
  ls_variable *kept = NULL;
  if (former != NULL && !former->is_dropped) return ls_ok();
  LS_RETURN_IF_ERROR(create_kept(variable, is_local, &kept));
  const bool is_kept = ls_map_insert_u64(&optimizer->kept, variable->id, kept);
  ls_variable_release(is_kept ? former : kept);
  return is_kept ? ls_ok() : ls_out_of_memory();
}

ls_status ls_optimizer_slots(ls_optimizer *optimizer, ls_variable *variable,
                             ls_variable ***out_slots) {
  if (ls_graph_keeps_gradients(ls_graph_current()))
    LS_RETURN_IF_ERROR(keep_gradient(optimizer, variable, true));
  *out_slots = known_slots(optimizer, variable);
  const size_t count = optimizer->num_slots;
  if (*out_slots != NULL || count == 0) return ls_ok();
  LS_NEW_ARRAY_OR_RETURN(optimizer->allocator, ls_variable *, slots, count);
  ls_variable **dropped = ls_map_find_u64(&optimizer->slots, variable->id);
  ls_status status = create_slots(optimizer, variable, slots);
  if (ls_status_is_ok(status) &&
      !ls_map_insert_u64(&optimizer->slots, variable->id, slots))
    status = ls_out_of_memory();
  release_slots(optimizer, ls_status_is_ok(status) ? dropped : slots);
  LS_RETURN_IF_ERROR(status);
  *out_slots = slots;
  return ls_ok();
}

ls_variable *ls_slot_component(ls_variable *slot,
                               const ls_variable *component) {
  return component->index < slot->num_components
             ? slot->components[component->index]
             : slot;
}

ls_status ls_optimizer_slot(const ls_optimizer *optimizer,
                            const ls_variable *variable, const char *name,
                            ls_variable **out_slot) {
  LS_REQUIRE_OUT(out_slot, optimizer, variable, name);
  optimizer = inner_optimizer(optimizer);
  const ls_variable *whole =
      variable->container != NULL ? variable->container : variable;
  ls_variable **slots = known_slots(optimizer, whole);
  for (size_t i = 0; slots != NULL && i < optimizer->num_slots; ++i) {
    if (strcmp(slot_name(optimizer, i), name) != 0) continue;
    *out_slot =
        whole == variable ? slots[i] : ls_slot_component(slots[i], variable);
    return ls_ok();
  }
  return LS_STATUS(LS_NOT_FOUND, "%s has no slot '%s' of variable '%s'",
                   optimizer->name, name, ls_variable_name(variable));
}

ls_status ls_optimizer_keep_gradients(ls_optimizer *optimizer,
                                      ls_variable *const *variables,
                                      size_t count) {
  LS_REQUIRE(optimizer);
  LS_REQUIRE_EACH(variables, count);
  if (optimizer->inner != NULL) optimizer = optimizer->inner;
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(keep_gradient(optimizer, variables[i], false));
  return ls_ok();
}

ls_status ls_optimizer_kept_gradient(const ls_optimizer *optimizer,
                                     const ls_variable *variable,
                                     ls_variable **out_gradient) {
  LS_REQUIRE_OUT(out_gradient, optimizer, variable);
  optimizer = inner_optimizer(optimizer);
  const ls_variable *whole = variable->container;
  ls_variable *kept = ls_map_find_u64(&optimizer->kept,
                                      whole != NULL ? whole->id : variable->id);
  *out_gradient =
      kept != NULL && whole != NULL ? ls_slot_component(kept, variable) : kept;
  return kept != NULL
             ? ls_ok()
             : LS_STATUS(LS_NOT_FOUND, "%s keeps no gradient of variable '%s'",
                         optimizer->name, ls_variable_name(variable));
}

static bool optimizer_is_there(const ls_variable *variable) {
  return variable != NULL && !variable->is_dropped;
}

static ls_status create_count(const ls_optimizer *optimizer, const char *name,
                              ls_dtype dtype, ls_variable **variable) {
  if (optimizer_is_there(*variable)) return ls_ok();
  ls_variable_release(*variable);
  *variable = NULL;
  char scope[LS_MAX_FULL_NAME + 2];
  snprintf(scope, sizeof(scope), "%s/", optimizer->name);
  {
    LS_NAME_SCOPE(scope);
    LS_BESIDE_SCOPE(NULL);
    return ls_variable_create(&(ls_variable_options){.name = name,
                                                     .dtype = dtype,
                                                     .trainable = LS_FLAG_OFF},
                              variable);
  }
  return ls_ok();
}

static bool counts_steps(const ls_optimizer *optimizer) {
  return optimizer->counts || optimizer->rule.counts ||
         ls_schedule_changes(&optimizer->schedule);
}

ls_status ls_optimizer_count_steps(ls_optimizer *optimizer) {
  if (counts_steps(optimizer))
    LS_RETURN_IF_ERROR(
        create_count(optimizer, "step", LS_DTYPE_I64, &optimizer->step));
  if (!ls_optimizer_holds(optimizer)) return ls_ok();
  LS_RETURN_IF_ERROR(
      create_count(optimizer, "calls", LS_DTYPE_I64, &optimizer->calls));
  LS_RETURN_IF_ERROR(
      create_count(optimizer, "examples", LS_DTYPE_F64, &optimizer->examples));
  return create_count(optimizer, "first_examples", LS_DTYPE_F64,
                      &optimizer->first_examples);
}

static ls_status make_slots(ls_optimizer *optimizer,
                            ls_variable *const *variables, size_t count) {
  LS_RETURN_IF_ERROR(ls_optimizer_count_steps(optimizer));
  for (size_t i = 0; i < count; ++i) {
    ls_variable **slots = NULL;
    LS_RETURN_IF_ERROR(ls_optimizer_slots(optimizer, variables[i], &slots));
  }
  return ls_ok();
}

ls_status ls_optimizer_prepare(ls_optimizer *optimizer,
                               ls_variable *const *variables, size_t count) {
  LS_REQUIRE(optimizer);
  LS_REQUIRE_EACH(variables, count);
  if (optimizer->inner != NULL) optimizer = optimizer->inner;
  return LS_TRIAL(make_slots(optimizer, variables, count));
}

// Warns of an optimizer whose variables are listed before they exist.
static void warn_of_none(const ls_optimizer *optimizer) {
  char key[LS_MAX_FULL_NAME + 40];
  if (!counts_steps(optimizer) && !ls_optimizer_holds(optimizer) &&
      optimizer->num_slots == 0)
    return;
  snprintf(key, sizeof(key), "no variables of optimizer %s", optimizer->name);
  ls_log_limited(ls_runtime_current(), key, 1, LS_LOG_WARNING, "nn",
                 "optimizer '%s' has no variables yet, so that a checkpoint "
                 "would lack them: call ls_optimizer_prepare before",
                 optimizer->name);
}

size_t ls_optimizer_variables(const ls_optimizer *optimizer,
                              ls_variable **variables, size_t capacity) {
  size_t count = 0;
  optimizer = inner_optimizer(optimizer);
  ls_variable *const counts[] = {optimizer->step, optimizer->calls,
                                 optimizer->examples,
                                 optimizer->first_examples};
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    if (!optimizer_is_there(counts[i])) continue;
    if (count < capacity) variables[count] = counts[i];
    ++count;
  }
  ls_map_item item;
  for (size_t at = 0; ls_map_next(&optimizer->slots, &at, &item);) {
    ls_variable **slots = item.value;
    if (slots[0]->is_dropped) continue;
    for (size_t i = 0; i < optimizer->num_slots; ++i, ++count)
      if (count < capacity) variables[count] = slots[i];
  }
  if (count == 0) warn_of_none(optimizer);
  return count;
}

ls_tensor ls_optimizer_rate(ls_optimizer *optimizer) {
  LS_MAKE_REQUIRE(optimizer);
  if (optimizer->inner != NULL) optimizer = optimizer->inner;
  const ls_tensor rate = ls_scalar(LS_DTYPE_F64, optimizer->learning_rate);
  if (!ls_schedule_changes(&optimizer->schedule)) return rate;
  const ls_status status = ls_optimizer_count_steps(optimizer);
  if (!ls_status_is_ok(status)) return ls_make_failed("learning rate", status);
  return ls_mul(ls_schedule_factor(&optimizer->schedule,
                                   ls_variable_read(optimizer->step)),
                rate);
}

ls_tensor ls_optimizer_step(ls_optimizer *optimizer) {
  LS_MAKE_REQUIRE(optimizer);
  if (optimizer->inner != NULL) optimizer = optimizer->inner;
  const ls_status status =
      counts_steps(optimizer)
          ? ls_optimizer_count_steps(optimizer)
          : ls_failed_precondition(
                "optimizer '%s' does not count its steps: set `counts` in its "
                "options",
                optimizer->name);
  return ls_status_is_ok(status) ? ls_variable_read(optimizer->step)
                                 : ls_make_failed("step", status);
}

// ---- Clipping ---------------------------------------------------------------
// Sums squares in f64, which holds the square of every f32.
static ls_tensor square_sum(ls_tensor x) {
  return ls_reduce_sum(ls_square(ls_convert(x, LS_DTYPE_F64)), LS_ALL_AXES);
}

// Computes limit / max(sqrt(squares), limit), which is exactly 1 within the
// limit.
static ls_tensor factor_for(double limit, ls_tensor squares) {
  const ls_tensor bound = ls_scalar(LS_DTYPE_F64, limit);
  return ls_div(bound, ls_maximum(ls_sqrt(squares), bound));
}

// Multiplies a gradient by an f64 scalar, which 16 bits may not hold.
static ls_tensor scale_gradient(ls_tensor gradient, ls_tensor factor) {
  return ls_convert(ls_update_scale(ls_widened(gradient), factor),
                    ls_tensor_dtype(gradient));
}

ls_tensor ls_clip_one(const ls_clip *clip, ls_tensor gradient) {
  if (clip->value > 0) {
    const ls_dtype dtype = ls_tensor_dtype(gradient);
    const ls_tensor least = ls_scalar(dtype, -clip->value);
    gradient =
        ls_maximum(ls_minimum(gradient, ls_scalar(dtype, clip->value)), least);
  }
  if (clip->norm > 0)
    gradient =
        scale_gradient(gradient, factor_for(clip->norm, square_sum(gradient)));
  return gradient;
}

void ls_clip_all(const ls_clip *clip, ls_tensor *gradients, size_t count,
                 ls_tensor *squares) {
  if (clip->global_norm == 0 || count == 0) return;
  for (size_t i = 0; i < count; ++i)
    squares[i] = square_sum(gradients[i]);
  const ls_tensor factor =
      factor_for(clip->global_norm, ls_add_n(squares, count));
  for (size_t i = 0; i < count; ++i)
    gradients[i] = scale_gradient(gradients[i], factor);
}

// ---- Schedules -------------------------------------------------------------
// Schedules: the factor of the learning rate, as ops on the number of steps.
// All numbers are f64, so that step numbers are exact and a schedule does not
// depend on the type of the weights.

bool ls_schedule_changes(const ls_schedule *schedule) {
  return schedule->kind != LS_SCHEDULE_CONSTANT || schedule->warmup > 0 ||
         schedule->custom != NULL;
}

// Computes the factor in step `i` after the warm-up, both f64 scalars.
static ls_tensor schedule_factor(const ls_schedule *schedule, ls_tensor i) {
  const double end = schedule->end;
  const double factor = schedule->factor != 0 ? schedule->factor : 0.1;
  const ls_tensor at = ls_div(i, ls_step_number((double)schedule->steps));
  switch (schedule->kind) {
  case LS_SCHEDULE_LINEAR:
    return ls_add_scalar(
        ls_mul_scalar(ls_minimum(at, ls_step_number(1)), end - 1), 1);
  case LS_SCHEDULE_COSINE: {
    const ls_tensor angle =
        ls_mul_scalar(ls_minimum(at, ls_step_number(1)), M_PI);
    return ls_add_scalar(
        ls_mul_scalar(ls_add_scalar(ls_cos(angle), 1), (1 - end) / 2), end);
  }
  case LS_SCHEDULE_EXPONENTIAL: {
    const ls_tensor least = ls_step_number(end);
    return ls_maximum(ls_pow(ls_step_number(factor), at), least);
  }
  case LS_SCHEDULE_STEP: {
    // Rounds towards zero, by converting to integers and back.
    const ls_tensor whole =
        ls_convert(ls_convert(at, LS_DTYPE_I64), LS_DTYPE_F64);
    const ls_tensor least = ls_step_number(end);
    return ls_maximum(ls_pow(ls_step_number(factor), whole), least);
  }
  default:
    return ls_step_number(1);
  }
}

ls_tensor ls_schedule_factor(const ls_schedule *schedule, ls_tensor step) {
  LS_MAKE_REQUIRE(schedule);
  const ls_tensor i = ls_convert(step, LS_DTYPE_I64);
  const ls_tensor warmup = ls_scalar_i64(LS_DTYPE_I64, schedule->warmup);
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I64, 0);
  const ls_tensor after =
      schedule->warmup > 0 ? ls_maximum(ls_sub(i, warmup), zero) : i;
  const ls_tensor factor =
      schedule->custom != NULL
          ? schedule->custom(after, schedule->user)
          : schedule_factor(schedule, ls_convert(after, LS_DTYPE_F64));
  if (schedule->warmup == 0) return factor;
  const ls_tensor steps = ls_step_number((double)schedule->warmup);
  const ls_tensor rising =
      ls_div(ls_add_scalar(ls_convert(i, LS_DTYPE_F64), 1), steps);
  return ls_select(ls_less(i, warmup), rising, factor);
}
