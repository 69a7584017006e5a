// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/merge.h"

#include "engine/cpu/run/team.h"

// ---- Preparing -------------------------------------------------------------
typedef struct preparation {
  const ls_cpu_kernels *kernels;
  ls_arena *arena;
  size_t scratch;
} preparation;

// Prepares a kernel without a node: op `type` from `num_in` operands to one
// result.
static ls_status prepare_step(preparation *self, uint16_t type,
                              const ls_type *in, size_t num_in, ls_type out,
                              ls_cpu_step *step) {
  LS_ARENA_NEW_OR_RETURN(self->arena, ls_node, node);
  LS_ARENA_NEW_OR_RETURN(self->arena, ls_attr, attr);
  LS_ARENA_ARRAY_OR_RETURN(self->arena, ls_type, types, num_in + 1);
  memcpy(types, in, num_in * sizeof(*in));
  types[num_in] = out;
  *attr = LS_OWN_T(DTYPE, out.dtype);  // Read by the convert kernel.
  *node = (ls_node){
      .type = type,
      .num_outputs = 1,
      .outputs = types + num_in,
      .attrs = attr,
      .num_attrs = type == LS_OP_CONVERT ? 1 : 0,
      .base = "merge",
  };
  ls_kernel_plan plan = {
      .node = node,
      .in = types,
      .num_in = num_in,
      .out = types + num_in,
      .num_out = 1,
      .kernels = self->kernels,
      .arena = self->arena,
  };
  const ls_kernel_prepare prepare = ls_kernel_prepare_of(type);
  if (prepare == NULL) return ls_internal("op %u has no kernel", type);
  LS_RETURN_IF_ERROR(prepare(&plan));
  // The merge needs kernels that may write the result over an operand.
  const uint32_t all_operands = type == LS_OP_CONVERT ? 0 : num_in == 2 ? 3 : 1;
  const bool scalar =
      num_in == 2 && in[1].shape.rank == 0 && in[0].shape.rank != 0;
  const uint32_t needed = scalar ? 1 : all_operands;
  if ((plan.in_place & needed) != needed) {
    return ls_internal("kernel '%s' does not work in place",
                       ls_op_table[type].name);
  }
  const size_t bytes = ls_type_bytes(out) * (num_in + 1);
  *step = (ls_cpu_step){plan.loop, plan.params, plan.blocks,
                        ls_cpu_team_gains(plan.flops, bytes, plan.blocks)};
  if (plan.scratch > self->scratch) self->scratch = plan.scratch;
  return ls_ok();
}

static const char *find_reduction(const ls_node *node) {
  const ls_attr *attr = ls_node_attr(node, LS_ATTR_ID_REDUCE);
  return attr != NULL && attr->kind == LS_ATTR_STRING ? attr->as.string : "sum";
}

static ls_status find_combination(const char *reduction, uint16_t *out_type) {
  static const struct {
    const char *name;
    uint16_t type;
  } rows[] = {
      {"sum", LS_OP_ADD},
      {"mean", LS_OP_ADD},
      {"max", LS_OP_MAXIMUM},
      {"min", LS_OP_MINIMUM},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (strcmp(reduction, rows[i].name) == 0) {
      *out_type = rows[i].type;
      return ls_ok();
    }
  }
  return ls_unimplemented("all_reduce: there is no reduction '%s'; the "
                          "reductions are sum, mean, max and min",
                          reduction);
}

bool ls_cpu_merge_is_idempotent(const ls_node *node) {
  const char *reduction = find_reduction(node);
  return strcmp(reduction, "max") == 0 || strcmp(reduction, "min") == 0;
}

// Prepares the mean: one multiplication by 1 / R, in the type of the additions.
static ls_status prepare_mean(preparation *self, ls_type wide,
                              ls_cpu_merge *merge) {
  void *reciprocal = ls_arena_allocate(self->arena, sizeof(double));
  if (reciprocal == NULL) return ls_out_of_memory();
  if (wide.dtype == LS_DTYPE_F32) {
    const float value = 1.0F / (float)merge->replicas;
    memcpy(reciprocal, &value, sizeof(value));
  } else if (wide.dtype == LS_DTYPE_F64) {
    const double value = 1.0 / (double)merge->replicas;
    memcpy(reciprocal, &value, sizeof(value));
  } else {
    return ls_unimplemented("all_reduce: no mean of %s; convert it to a float "
                            "first",
                            ls_dtype_name(wide.dtype));
  }
  merge->reciprocal = reciprocal;
  const ls_type in[2] = {wide, {.dtype = wide.dtype}};
  return prepare_step(self, LS_OP_MUL, in, 2, wide, &merge->scale);
}

// Prepares a gather: concatenates the replicas' rows, without partial results.
static ls_status prepare_gather(ls_arena *arena, const ls_node *node,
                                ls_type type, ls_cpu_merge *merge) {
  const ls_attr *rows = ls_node_attr(node, LS_ATTR_ID_ROWS);
  const size_t replicas = (size_t)merge->replicas;
  LS_ARENA_ARRAY_OR_RETURN(arena, size_t, offsets, replicas + 1);
  if (rows == NULL || rows->as.ints.count != replicas)
    return ls_internal(
        "an all_gather of %zu replicas lacks their numbers of rows", replicas);
  size_t row = ls_dtype_size(type.dtype);
  for (int32_t i = 1; i < type.shape.rank; ++i)
    row *= (size_t)type.shape.dim[i];
  for (size_t r = 0; r < replicas; ++r)
    offsets[r + 1] = offsets[r] + (size_t)rows->as.ints.items[r] * row;
  merge->offsets = offsets;
  return ls_ok();
}

ls_status ls_cpu_merge_prepare(const ls_cpu_kernels *kernels, ls_arena *arena,
                               const ls_node *node, ls_type type,
                               int32_t replicas, ls_cpu_merge **out_merge) {
  *out_merge = NULL;
  preparation self = {kernels, arena, 0};
  LS_ARENA_NEW_OR_RETURN(arena, ls_cpu_merge, merge);
  merge->replicas = replicas;
  if (node->type == LS_OP_ALL_GATHER) {
    *out_merge = merge;
    return prepare_gather(arena, node, type, merge);
  }
  uint16_t combination = LS_OP_NONE;
  const char *reduction = find_reduction(node);
  LS_RETURN_IF_ERROR(find_combination(reduction, &combination));

  ls_type wide = type;
  if (type.dtype == LS_DTYPE_F16 || type.dtype == LS_DTYPE_BF16) {
    wide.dtype = LS_DTYPE_F32;
    LS_RETURN_IF_ERROR(
        prepare_step(&self, LS_OP_CONVERT, &type, 1, wide, &merge->widen));
    LS_RETURN_IF_ERROR(
        prepare_step(&self, LS_OP_CONVERT, &wide, 1, type, &merge->narrow));
  }
  const ls_type in[2] = {wide, wide};
  LS_RETURN_IF_ERROR(
      prepare_step(&self, combination, in, 2, wide, &merge->combine));
  if (strcmp(reduction, "mean") == 0)
    LS_RETURN_IF_ERROR(prepare_mean(&self, wide, merge));

  merge->bytes = ls_type_bytes(wide);
  merge->stride = ls_cpu_stride(merge->bytes);
  merge->scratch = self.scratch;
  *out_merge = merge;
  return ls_ok();
}

// ---- Running ---------------------------------------------------------------
static void run_step(const ls_cpu_step *step, ls_kernel_call *call,
                     const void *left, const void *right, void *out) {
  const void *const in[2] = {left, right};
  void *const outs[1] = {out};
  call->in = in;
  call->out = outs;
  call->params = step->params;
  if (step->by_team)
    ls_cpu_team_run(call->team, step->loop, call, step->blocks);
  else
    step->loop(call, 0, step->blocks);
}

void ls_cpu_merge_put(const ls_cpu_merge *self, uint32_t replica,
                      const void *value, void *result) {
  const size_t begin = self->offsets[replica];
  const size_t size = self->offsets[replica + 1] - begin;
  if (size > 0) memcpy((char *)result + begin, value, size);
}

void ls_cpu_merge_add(const ls_cpu_merge *self, ls_kernel_call *call,
                      const ls_cpu_leaf *leaf, const void *value, char *stack,
                      void *sum, void *wide) {
  void *top = ls_cpu_merge_top(self, stack, leaf);
  if (self->widen.loop != NULL) {
    void *target = top != NULL ? top : wide;
    run_step(&self->widen, call, value, NULL, target);
    value = target;
  }
  if (top != NULL && top != value) memcpy(top, value, self->bytes);
  const bool is_last = leaf->index + 1 == leaf->count;
  uint32_t waiting = leaf->waiting;
  for (uint32_t merges = leaf->merges; merges > 0; --merges) {
    char *left = stack + (size_t)--waiting * self->stride;
    // The last addition writes to the caller's buffer.
    void *target = is_last && merges == 1 && sum != NULL ? sum : left;
    if (value != left) run_step(&self->combine, call, left, value, target);
    value = target;
  }
}

static char *part_sum(const ls_cpu_parts *parts, uint32_t index) {
  return parts->stacks + (index - parts->first) * parts->stride;
}

// Adds up the subtrees that end with part `index`, except those that start
// before `begin`.
static void end_subtrees(const ls_cpu_merge *self, ls_kernel_call *call,
                         const ls_cpu_parts *parts, uint32_t begin,
                         uint32_t index, void *sum) {
  uint32_t right = index;  // First part of the complete subtree.
  const ls_cpu_leaf leaf = ls_cpu_leaf_at(index, parts->count);
  for (uint32_t merges = leaf.merges; merges > 0; --merges) {
    const uint32_t left = right & (right - 1);
    if (left < begin) return;
    const bool ends = index + 1 == parts->count && merges == 1 && sum != NULL;
    char *target = part_sum(parts, left);
    run_step(&self->combine, call, target, part_sum(parts, right),
             ends ? sum : target);
    right = left;
  }
}

void ls_cpu_merge_parts(const ls_cpu_merge *self, ls_kernel_call *call,
                        const ls_cpu_parts *parts, uint32_t begin, uint32_t end,
                        void *sum) {
  for (uint32_t index = begin; index < end; ++index)
    end_subtrees(self, call, parts, begin, index, sum);
}

void ls_cpu_merge_two(const ls_cpu_merge *self, ls_kernel_call *call,
                      const void *left, const void *right, void *out) {
  run_step(&self->combine, call, left, right, out);
}

void ls_cpu_merge_end(const ls_cpu_merge *self, ls_kernel_call *call,
                      char *stack, void *result) {
  void *sum = self->narrow.loop == NULL ? result : stack;
  if (self->scale.loop != NULL)
    run_step(&self->scale, call, sum, self->reciprocal, sum);
  if (self->narrow.loop != NULL)
    run_step(&self->narrow, call, sum, NULL, result);
}

// Merges equal leaves. The complete subtrees of n equal leaves are the ones of
// n, read as a binary number: `power` holds the sum of 2^k leaves after k
// doublings.
void ls_cpu_merge_equal(const ls_cpu_merge *self, ls_kernel_call *call,
                        const void *value, void *result, void *power,
                        void *sum) {
  for (int32_t r = 0; self->offsets != NULL && r < self->replicas; ++r)
    ls_cpu_merge_put(self, (uint32_t)r, value, result);
  if (self->offsets != NULL) return;
  if (self->narrow.loop == NULL) sum = result;
  if (self->widen.loop != NULL) {
    run_step(&self->widen, call, value, NULL, power);
    value = power;
  }
  bool is_first = true;
  for (uint32_t left = (uint32_t)self->replicas;;) {
    if ((left & 1U) != 0) {
      if (is_first)
        memcpy(sum, value, self->bytes);
      else
        run_step(&self->combine, call, value, sum, sum);
      is_first = false;
    }
    left >>= 1;
    if (left == 0) break;
    run_step(&self->combine, call, value, value, power);
    value = power;
  }
  if (self->scale.loop != NULL)
    run_step(&self->scale, call, sum, self->reciprocal, sum);
  if (self->narrow.loop != NULL)
    run_step(&self->narrow, call, sum, NULL, result);
}
