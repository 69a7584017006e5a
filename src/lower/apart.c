// SPDX-License-Identifier: Apache-2.0
#include "lower/apart.h"

#include "base/runtime_internal.h"
#include "graph/gather/copy.h"
#include "graph/passes/inline.h"

// A loop or branch on its way into ops that stand for it.
typedef struct apart {
  ls_lower_scope *scope;
  ls_node *node;
  ls_arena memory;
  bool together;  // Replicas go the same way: nothing need be masked.
  ls_graph *to;   // All of it; captures what the op uses.
} apart;

// A region on its way into the graph `c.to`.
typedef struct level {
  ls_copying c;
  uint64_t mask;  // Whether a replica is in it; 0: all are.
} level;

// ---- What is in it ---------------------------------------------------------
static bool is_step(const ls_node *node) {
  return node->type == LS_OP_MERGE_CALL &&
         ls_node_mark(node, LS_MARK_OUTSIDE) != NULL;
}

bool ls_holds_step(const ls_node *node) {
  if (is_step(node)) return true;
  for (uint32_t r = 0; r < node->num_regions; ++r) {
    const ls_graph *region = ls_graph_resolve(node->regions[r]);
    for (size_t i = 0; i < region->num_nodes; ++i)
      if (ls_holds_step(region->nodes[i])) return true;
  }
  return false;
}

static bool writes(const ls_graph *graph) {
  graph = ls_graph_resolve((ls_graph *)(uintptr_t)graph);
  for (size_t i = 0; i < graph->num_nodes; ++i) {
    const ls_node *node = graph->nodes[i];
    if (ls_node_assigns(node)) return true;
    for (uint32_t r = 0; r < node->num_regions; ++r)
      if (writes(node->regions[r])) return true;
  }
  return false;
}

bool ls_condition_writes(const ls_node *loop) {
  return writes(loop->regions[0]);
}

static ls_status refuse(const level *l, ls_node *node, const char *why) {
  char text[LS_MAX_FULL_NAME];
  ls_node_describe(l->c.from, node, text, sizeof(text));
  return ls_invalid_argument("%s is %s", text, why);
}

static bool merges(const ls_node *node) {
  switch (node->type) {
  case LS_OP_REDUCE_SCATTER:
  case LS_OP_ALL_TO_ALL:
  case LS_OP_PERMUTE:
  case LS_OP_REPLICA_BROADCAST:
  case LS_OP_CROSS_REPLICA_SUM:
    return true;
  case LS_OP_MERGE_CALL:
    return !is_step(node);
  default:
    return (ls_node_info(node)->traits & LS_OP_MERGE) != 0;
  }
}

// What replicas put together all must come to.
static ls_status check_node(const level *l, ls_node *node) {
  if (l->mask != 0 && merges(node))
    return refuse(l, node,
                  "what replicas put together, in a loop or branch through "
                  "which they may go in ways of their own and in which outside "
                  "compiled ops write variables: make the condition the same "
                  "on all, for instance with ls_all_reduce");
  for (uint32_t r = 0; r < node->num_regions && !is_step(node); ++r) {
    const ls_graph *region = ls_graph_resolve(node->regions[r]);
    level inner = {.c = {.from = (ls_graph *)(uintptr_t)region},
                   .mask = l->mask};
    for (size_t i = 0; i < region->num_nodes; ++i)
      LS_RETURN_IF_ERROR(check_node(&inner, region->nodes[i]));
  }
  return ls_ok();
}

static ls_status check_loop(const apart *a, const ls_node *loop) {
  const ls_graph *condition = ls_graph_resolve(loop->regions[0]);
  bool draws = false;
  for (size_t i = 0; i < condition->num_nodes; ++i)
    draws = draws || ls_node_draws(condition->nodes[i]);
  if (ls_node_attr(loop, LS_ATTR_ID_NUM_SAVED) == NULL && !draws)
    return ls_ok();
  return ls_unimplemented(
      "a loop %s %s",
      draws ? "draws random numbers in its condition and"
            : "has a gradient and",
      a->together ? "writes a variable in its condition"
                  : "holds outside compiled ops that write a variable, and "
                    "replicas make numbers of trips of their own");
}

// ---- Ops -------------------------------------------------------------------
static ls_status append(const apart *a, ls_graph *to, const ls_op_spec *spec,
                        const uint64_t *inputs, size_t num_outputs,
                        ls_node **out_node) {
  const ls_node *node = a->node;
  *out_node = ls_graph_append(to, spec, inputs, num_outputs);
  if (*out_node == NULL) return ls_out_of_memory();
  (*out_node)->origin = ls_node_source(a->scope->from, node);
  (*out_node)->file = node->file;
  (*out_node)->line = node->line;
  return ls_ok();
}

static ls_status make(const apart *a, ls_graph *to, uint16_t type,
                      const uint64_t *inputs, size_t num_inputs, ls_attr attr,
                      ls_dtype dtype, uint64_t *out_ref) {
  ls_node *node = NULL;
  LS_RETURN_IF_ERROR(append(a, to,
                            &(ls_op_spec){.type = type,
                                          .num_inputs = num_inputs,
                                          .attrs = &attr,
                                          .num_attrs = attr.name != NULL},
                            inputs, 1, &node));
  node->outputs[0] = (ls_type){dtype, LS_SCALAR};
  *out_ref = ls_ref(node->id, 0);
  return ls_ok();
}

static ls_status make_number(const apart *a, ls_graph *to, ls_dtype dtype,
                             int64_t value, uint64_t *out_ref) {
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, LS_SCALAR, &array));
  ls_array_set_i64(array, 0, value);
  const ls_status status = make(a, to, LS_OP_CONSTANT, NULL, 0,
                                LS_OWN_A(VALUE, array), dtype, out_ref);
  ls_array_release(array);
  return status;
}

static ls_status make_not(const apart *a, ls_graph *to, uint64_t x,
                          uint64_t *out_ref) {
  return make(a, to, LS_OP_NOT, &x, 1, (ls_attr){0}, LS_DTYPE_BOOL, out_ref);
}

// `mask` 0: true.
static ls_status make_and(const apart *a, ls_graph *to, uint64_t mask,
                          uint64_t x, uint64_t *out_ref) {
  const uint64_t inputs[] = {mask, x};
  *out_ref = x;
  return mask == 0 ? ls_ok()
                   : make(a, to, LS_OP_AND, inputs, 2, (ls_attr){0},
                          LS_DTYPE_BOOL, out_ref);
}

// Whether it is true on any replica.
static ls_status make_any(const apart *a, ls_graph *to, uint64_t x,
                          uint64_t *out_ref) {
  uint64_t count = 0, terms[2];
  LS_RETURN_IF_ERROR(make(a, to, LS_OP_CONVERT, &x, 1,
                          LS_OWN_T(DTYPE, LS_DTYPE_I32), LS_DTYPE_I32, &count));
  LS_RETURN_IF_ERROR(make(a, to, LS_OP_ALL_REDUCE, &count, 1,
                          LS_OWN_S(REDUCE, "max"), LS_DTYPE_I32, &terms[0]));
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I32, 0, &terms[1]));
  return make(a, to, LS_OP_GREATER, terms, 2, (ls_attr){0}, LS_DTYPE_BOOL,
              out_ref);
}

static ls_status make_region(const apart *a, const char *name, ls_graph *around,
                             ls_graph **out_graph) {
  return ls_graph_make(LS_GRAPH_REGION, name, a->scope->from->runtime, around,
                       out_graph);
}

// An op with regions, which are taken over; `leading` are the operands before
// those that they capture. The types of the outputs are `types`.
static ls_status append_flow(const apart *a, ls_graph *to, uint16_t type,
                             const uint64_t *leading, size_t num_leading,
                             const ls_attr *attrs, size_t num_attrs,
                             ls_graph **regions, size_t num_regions,
                             const ls_type *types, size_t num_outputs,
                             ls_node **out_node) {
  ls_arena *memory = (ls_arena *)(uintptr_t)&a->memory;
  size_t count = num_leading;
  for (size_t r = 0; r < num_regions; ++r)
    count += regions[r]->num_captures;
  uint64_t *inputs = ls_arena_new_array(memory, uint64_t, count + 1);
  if (inputs == NULL) return ls_out_of_memory();
  memcpy(inputs, leading, num_leading * sizeof(*inputs));
  size_t next = num_leading;
  for (size_t r = 0; r < num_regions; ++r)
    for (size_t i = 0; i < regions[r]->num_captures; ++i)
      inputs[next++] = regions[r]->captures[i].outer.ref;
  LS_RETURN_IF_ERROR(append(a, to,
                            &(ls_op_spec){.type = type,
                                          .num_inputs = count,
                                          .attrs = attrs,
                                          .num_attrs = num_attrs,
                                          .regions = regions,
                                          .num_regions = num_regions},
                            inputs, num_outputs, out_node));
  memset(regions, 0, num_regions * sizeof(*regions));  // The op has them.
  memcpy((*out_node)->outputs, types, num_outputs * sizeof(*types));
  return ls_ok();
}

static ls_status append_cond(const apart *a, ls_graph *to, uint64_t predicate,
                             ls_graph **regions, const ls_type *types,
                             size_t num_outputs, ls_node **out_node) {
  return append_flow(a, to, LS_OP_COND, &predicate, 1, NULL, 0, regions, 2,
                     types, num_outputs, out_node);
}

static void drop(ls_graph **regions, size_t count) {
  for (size_t r = 0; r < count; ++r)
    ls_graph_free(regions[r]);
}

// ---- Joining ---------------------------------------------------------------
static ls_status give(ls_graph *region, ls_graph *around, const uint64_t *refs,
                      size_t count, ls_arena *memory) {
  uint64_t *inner = ls_arena_new_array(memory, uint64_t, count + 1);
  if (inner == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_graph_add_capture(region, (ls_tensor){around, refs[i]}, &inner[i]));
  return ls_graph_set_results(region, inner, count);
}

static ls_status join_by(apart *a, ls_graph *to, uint64_t predicate,
                         const uint64_t *yes, const uint64_t *no, size_t count,
                         ls_graph **regions, uint64_t *out_refs) {
  ls_node *node = NULL;
  ls_type *types = ls_arena_new_array(&a->memory, ls_type, count + 1);
  if (types == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(to, yes[i]);
  LS_RETURN_IF_ERROR(make_region(a, "yes", to, &regions[0]));
  LS_RETURN_IF_ERROR(make_region(a, "no", to, &regions[1]));
  LS_RETURN_IF_ERROR(give(regions[0], to, yes, count, &a->memory));
  LS_RETURN_IF_ERROR(give(regions[1], to, no, count, &a->memory));
  LS_RETURN_IF_ERROR(
      append_cond(a, to, predicate, regions, types, count, &node));
  for (size_t i = 0; i < count; ++i)
    out_refs[i] = ls_ref(node->id, (unsigned)i);
  return ls_ok();
}

// Those values where the predicate holds, else the others.
static ls_status join(apart *a, ls_graph *to, uint64_t predicate,
                      const uint64_t *yes, const uint64_t *no, size_t count,
                      uint64_t *out_refs) {
  ls_graph *regions[2] = {NULL, NULL};
  const ls_status status =
      count == 0 ? ls_ok()
                 : join_by(a, to, predicate, yes, no, count, regions, out_refs);
  drop(regions, 2);
  return status;
}

// ---- What stays together ---------------------------------------------------
static bool is_listed(const uint64_t *list, size_t count, uint64_t ref) {
  for (size_t i = 0; i < count; ++i)
    if (list[i] == ref) return true;
  return false;
}

// A constant needs no mask, and is known where it is used.
static bool is_free(const ls_node *node) {
  return node->type == LS_OP_CONSTANT;
}

static bool is_plain(const level *l, const ls_node *node) {
  return node->type != LS_OP_PARAMETER && !is_free(node) &&
         (l->mask == 0 || !ls_holds_step(node));
}

static bool is_between(const level *l, uint64_t ref, size_t first,
                       size_t last) {
  const size_t place = ls_graph_position(l->c.from, ls_ref_id(ref));
  return place >= first && place < last && is_plain(l, l->c.from->nodes[place]);
}

// The values of plain ops between two places that are used later.
static ls_status list_used(apart *a, const level *l, size_t first, size_t last,
                           uint64_t **out_refs, size_t *out_count) {
  const ls_graph *from = l->c.from;
  size_t most = from->num_results, count = 0;
  for (size_t i = last; i < from->num_nodes; ++i)
    most += from->nodes[i]->num_inputs;
  uint64_t *refs = ls_arena_new_array(&a->memory, uint64_t, most + 1);
  if (refs == NULL) return ls_out_of_memory();
  for (size_t i = last; i < from->num_nodes; ++i)
    for (uint32_t k = 0; k < from->nodes[i]->num_inputs; ++k) {
      const uint64_t ref = from->nodes[i]->inputs[k];
      if (is_between(l, ref, first, last) && !is_listed(refs, count, ref))
        refs[count++] = ref;
    }
  for (size_t i = 0; i < from->num_results; ++i)
    if (is_between(l, from->results[i], first, last) &&
        !is_listed(refs, count, from->results[i]))
      refs[count++] = from->results[i];
  *out_refs = refs;
  *out_count = count;
  return ls_ok();
}

// Ops of `from` for which `takes` says so, from place `first` on, as the first
// region of a branch by `predicate`. Who goes the other way gets zeros.
typedef bool (*taker)(const void *self, const ls_graph *from, size_t place);

static ls_status copy_branch(apart *a, ls_copying *inner, size_t first,
                             size_t last, taker takes, const void *self,
                             uint64_t *refs, size_t count) {
  for (size_t i = first; i < last; ++i)
    if (takes(self, inner->from, i))
      LS_RETURN_IF_ERROR(ls_copy_node(inner, inner->from->nodes[i]));
  uint64_t *results = ls_arena_new_array(&a->memory, uint64_t, count + 1);
  if (results == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_copied(inner, NULL, refs[i], &results[i]));
  return ls_graph_set_results(inner->to, results, count);
}

static ls_status make_branch(apart *a, ls_copying *around, uint64_t predicate,
                             size_t first, size_t last, taker takes,
                             const void *self, uint64_t *refs, size_t count,
                             ls_node **out_node) {
  ls_graph *regions[2] = {NULL, NULL};
  ls_type *types = ls_arena_new_array(&a->memory, ls_type, count + 1);
  if (types == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(around->from, refs[i]);
  ls_status status = make_region(a, "in", around->to, &regions[0]);
  if (ls_status_is_ok(status))
    status = make_region(a, "out", around->to, &regions[1]);
  if (ls_status_is_ok(status)) {
    ls_copying inner;
    ls_copying_init(&inner, around, around->from, regions[0], &a->memory);
    inner.is_body = true;
    status = copy_branch(a, &inner, first, last, takes, self, refs, count);
    ls_copying_deinit(&inner);
  }
  if (ls_status_is_ok(status))
    status =
        append_cond(a, around->to, predicate, regions, types, count, out_node);
  drop(regions, 2);
  return status;
}

static bool takes_plain(const void *self, const ls_graph *from, size_t place) {
  return is_plain(self, from->nodes[place]);
}

static ls_status copy_plain(apart *a, level *l, size_t first, size_t last) {
  bool any = false;
  for (size_t i = first; i < last; ++i)
    any = any || is_plain(l, l->c.from->nodes[i]);
  if (!any) return ls_ok();
  uint64_t *refs = NULL;
  size_t count = 0;
  ls_node *node = NULL;
  LS_RETURN_IF_ERROR(list_used(a, l, first, last, &refs, &count));
  LS_RETURN_IF_ERROR(make_branch(a, &l->c, l->mask, first, last, takes_plain, l,
                                 refs, count, &node));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&l->c, refs[i], ls_ref(node->id, (unsigned)i)));
  return ls_ok();
}

// ---- Steps -----------------------------------------------------------------
static bool takes_replica(const void *self, const ls_graph *from,
                          size_t place) {
  const ls_attr *id = ls_node_attr_named(from->nodes[place], "_xla_replica_id");
  return id != NULL && id->kind == LS_ATTR_INT &&
         id->as.i == *(const int64_t *)self;
}

typedef struct step {
  level *around;
  ls_node *node;
  size_t replicas, num_args, num_given;
  uint64_t *masks;  // Parameters of the new body.
  uint64_t *made;
} step;

// Arguments, masks, then captures.
static ls_status declare(const step *s, ls_copying *inner) {
  const ls_graph *from = inner->from;
  ls_tensor made;
  for (size_t i = 0; i < from->num_declared; ++i) {
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        inner->to, ls_graph_type(from, from->parameters[i]), NULL, &made));
    LS_RETURN_IF_ERROR(ls_copying_set(inner, from->parameters[i], made.ref));
  }
  for (size_t r = 0; r < s->replicas; ++r) {
    LS_RETURN_IF_ERROR(ls_graph_add_parameter(
        inner->to, (ls_type){LS_DTYPE_BOOL, LS_SCALAR}, NULL, &made));
    s->masks[r] = made.ref;
  }
  return ls_ok();
}

// The captures of a region, of what `around` has.
static ls_status capture(ls_copying *inner, ls_copying *around) {
  const ls_graph *from = inner->from;
  for (size_t i = 0; i < from->num_captures; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(
        ls_copied(around, NULL, from->captures[i].outer.ref, &ref));
    if (inner->to != around->to)
      LS_RETURN_IF_ERROR(
          ls_graph_add_capture(inner->to, (ls_tensor){around->to, ref}, &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(inner, from->captures[i].inner, ref));
  }
  return ls_ok();
}

static ls_status fill_step(apart *a, const step *s, ls_copying *inner) {
  const ls_graph *from = inner->from;
  uint64_t *refs = ls_arena_new_array(&a->memory, uint64_t, s->num_given + 1);
  if (refs == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(declare(s, inner));
  LS_RETURN_IF_ERROR(capture(inner, &s->around->c));
  for (size_t r = 0; r < s->replicas; ++r) {
    const int64_t replica = (int64_t)r;
    ls_node *node = NULL;
    for (size_t i = 0; i < s->num_given; ++i)
      refs[i] = from->results[i * s->replicas + r];
    LS_RETURN_IF_ERROR(make_branch(a, inner, s->masks[r], 0, from->num_nodes,
                                   takes_replica, &replica, refs, s->num_given,
                                   &node));
    for (size_t i = 0; i < s->num_given; ++i)
      s->made[i * s->replicas + r] = ls_ref(node->id, (unsigned)i);
  }
  return ls_graph_set_results(inner->to, s->made, s->num_given * s->replicas);
}

static ls_status append_step(apart *a, const step *s, ls_graph **body) {
  level *l = s->around;
  const ls_node *node = s->node;
  uint64_t *leading = ls_arena_new_array(&a->memory, uint64_t, s->num_args + 1);
  if (leading == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < s->num_args; ++i)
    LS_RETURN_IF_ERROR(ls_copied(&l->c, NULL, node->inputs[i], &leading[i]));
  leading[s->num_args] = l->mask;
  const ls_attr attrs[] = {LS_OWN_I(REPLICAS, (int64_t)s->replicas),
                           LS_OWN_I(NUM_ARGS, (int64_t)s->num_args + 1),
                           LS_OWN_I(NUM_GATHERED, (int64_t)s->num_given),
                           *ls_node_attr_named(node, LS_MARK_OUTSIDE)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_flow(
      a, l->c.to, LS_OP_MERGE_CALL, leading, s->num_args + 1, attrs,
      LS_COUNT_OF(attrs), body, 1, node->outputs, node->num_outputs, &made));
  made->origin = ls_node_source(l->c.from, node);
  made->file = node->file;
  made->line = node->line;
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&l->c, ls_ref(node->id, i), ls_ref(made->id, i)));
  return ls_ok();
}

// Each replica's copy of its ops is a branch that is taken if that is there.
static ls_status mask_step(apart *a, level *l, ls_node *node) {
  step s = {.around = l,
            .node = node,
            .replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS),
            .num_args = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_ARGS),
            .num_given = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED)};
  ls_graph *body = NULL;
  s.masks = ls_arena_new_array(&a->memory, uint64_t, s.replicas);
  s.made =
      ls_arena_new_array(&a->memory, uint64_t, s.num_given * s.replicas + 1);
  if (s.masks == NULL || s.made == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(make_region(a, "merge", l->c.to, &body));
  ls_copying inner;
  ls_copying_init(&inner, &l->c, ls_graph_resolve(node->regions[0]), body,
                  &a->memory);
  ls_status status = fill_step(a, &s, &inner);
  ls_copying_deinit(&inner);
  if (ls_status_is_ok(status)) status = append_step(a, &s, &body);
  ls_graph_free(body);
  return status;
}

// ---- Levels ----------------------------------------------------------------
static ls_status take_flow(apart *a, level *l, ls_node *node);

static ls_status copy_level(apart *a, level *l) {
  const ls_graph *from = l->c.from;
  size_t first = 0;
  for (size_t i = 0; i < from->num_nodes; ++i) {
    ls_node *node = from->nodes[i];
    LS_RETURN_IF_ERROR(check_node(l, node));
    if (is_free(node) || (is_plain(l, node) && l->mask == 0))
      LS_RETURN_IF_ERROR(ls_copy_node(&l->c, node));
    if (l->mask == 0 || node->type == LS_OP_PARAMETER || is_free(node) ||
        is_plain(l, node))
      continue;
    LS_RETURN_IF_ERROR(copy_plain(a, l, first, i));
    LS_RETURN_IF_ERROR(is_step(node) ? mask_step(a, l, node)
                                     : take_flow(a, l, node));
    first = i + 1;
  }
  return l->mask == 0 ? ls_ok() : copy_plain(a, l, first, from->num_nodes);
}

// A region that is copied into `to`: its declared parameters are `args`, its
// results come in `results`.
static ls_status copy_region(apart *a, level *around, ls_graph *from,
                             ls_graph *to, const uint64_t *args, uint64_t mask,
                             uint64_t *results) {
  level inner = {.mask = mask};
  from = ls_graph_resolve(from);
  ls_copying_init(&inner.c, &around->c, from, to, &a->memory);
  ls_status status = ls_ok();
  for (size_t i = 0; i < from->num_declared && ls_status_is_ok(status); ++i)
    status = ls_copying_set(&inner.c, from->parameters[i], args[i]);
  if (ls_status_is_ok(status)) status = capture(&inner.c, &around->c);
  if (ls_status_is_ok(status)) status = copy_level(a, &inner);
  for (size_t i = 0; i < from->num_results && ls_status_is_ok(status); ++i)
    status = ls_copied(&inner.c, NULL, from->results[i], &results[i]);
  ls_copying_deinit(&inner.c);
  return status;
}

static ls_status set_outputs(level *l, const ls_node *node,
                             const uint64_t *refs) {
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(ls_copying_set(&l->c, ls_ref(node->id, i), refs[i]));
  return ls_ok();
}

// ---- Branches --------------------------------------------------------------
static ls_status take_branches(apart *a, level *l, ls_node *node) {
  const size_t count = node->num_outputs;
  ls_graph *to = l->c.to;
  uint64_t *refs[3], predicate = 0, other = 0, masks[2];
  for (size_t i = 0; i < 3; ++i) {
    refs[i] = ls_arena_new_array(&a->memory, uint64_t, count + 1);
    if (refs[i] == NULL) return ls_out_of_memory();
  }
  LS_RETURN_IF_ERROR(ls_copied(&l->c, node, node->inputs[0], &predicate));
  LS_RETURN_IF_ERROR(make_not(a, to, predicate, &other));
  LS_RETURN_IF_ERROR(make_and(a, to, l->mask, predicate, &masks[0]));
  LS_RETURN_IF_ERROR(make_and(a, to, l->mask, other, &masks[1]));
  for (size_t r = 0; r < 2; ++r)
    LS_RETURN_IF_ERROR(
        copy_region(a, l, node->regions[r], to, NULL, masks[r], refs[r]));
  LS_RETURN_IF_ERROR(join(a, to, predicate, refs[0], refs[1], count, refs[2]));
  return set_outputs(l, node, refs[2]);
}

// ---- Loops -----------------------------------------------------------------
// What goes round: whether it goes on, how many trips there were, the values.
typedef struct loop {
  level *around;
  ls_node *node;
  size_t count;
  int64_t most;  // Trips; 0: any number.
  ls_graph *regions[2];
  ls_type *types;
} loop;

enum { GOES_ON, NUM_TRIPS, FIRST_VALUE };

static ls_status declare_round(const loop *p, ls_graph *region,
                               uint64_t *out_refs) {
  for (size_t i = 0; i < FIRST_VALUE + p->count; ++i) {
    ls_tensor made;
    LS_RETURN_IF_ERROR(
        ls_graph_add_parameter(region, p->types[i], NULL, &made));
    out_refs[i] = made.ref;
  }
  return ls_ok();
}

// Whether it goes on with these values.
static ls_status goes_on(apart *a, const loop *p, ls_graph *to, uint64_t mask,
                         const uint64_t *values, uint64_t *out_ref) {
  uint64_t holds = 0;
  LS_RETURN_IF_ERROR(
      copy_region(a, p->around, p->node->regions[0], to, values, mask, &holds));
  return make_and(a, to, mask, holds, out_ref);
}

// The condition again, unless the loop has made all its trips.
static ls_status goes_on_after(apart *a, const loop *p, ls_graph *to,
                               uint64_t mask, uint64_t trips,
                               const uint64_t *values, uint64_t *out_ref) {
  if (p->most == 0) return goes_on(a, p, to, mask, values, out_ref);
  uint64_t terms[2] = {trips, 0}, more = 0;
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, p->most, &terms[1]));
  LS_RETURN_IF_ERROR(
      make(a, to, LS_OP_LESS, terms, 2, (ls_attr){0}, LS_DTYPE_BOOL, &more));
  LS_RETURN_IF_ERROR(make_and(a, to, mask, more, &more));
  return goes_on(a, p, to, more, values, out_ref);
}

static ls_status fill_condition(apart *a, loop *p, uint64_t *refs) {
  uint64_t holds = 0;
  ls_graph *to = p->regions[0];
  LS_RETURN_IF_ERROR(declare_round(p, to, refs));
  holds = refs[GOES_ON];
  if (!a->together) LS_RETURN_IF_ERROR(make_any(a, to, holds, &holds));
  return ls_graph_set_results(to, &holds, 1);
}

static ls_status fill_body(apart *a, loop *p, uint64_t *refs, uint64_t *next) {
  ls_graph *to = p->regions[1];
  LS_RETURN_IF_ERROR(declare_round(p, to, refs));
  const uint64_t mask = a->together ? 0 : refs[GOES_ON];
  LS_RETURN_IF_ERROR(copy_region(a, p->around, p->node->regions[1], to,
                                 refs + FIRST_VALUE, mask, next + FIRST_VALUE));
  if (mask != 0)
    LS_RETURN_IF_ERROR(join(a, to, mask, next + FIRST_VALUE, refs + FIRST_VALUE,
                            p->count, next + FIRST_VALUE));
  uint64_t terms[2] = {refs[NUM_TRIPS], 0};
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, 1, &terms[1]));
  LS_RETURN_IF_ERROR(make(a, to, LS_OP_ADD, terms, 2, (ls_attr){0},
                          LS_DTYPE_I64, &next[NUM_TRIPS]));
  LS_RETURN_IF_ERROR(goes_on_after(a, p, to, mask, next[NUM_TRIPS],
                                   next + FIRST_VALUE, &next[GOES_ON]));
  return ls_graph_set_results(to, next, FIRST_VALUE + p->count);
}

static ls_status fill_loop(apart *a, loop *p, uint64_t *initial, uint64_t *refs,
                           uint64_t *next) {
  level *l = p->around;
  const ls_node *node = p->node;
  ls_graph *to = l->c.to;
  for (size_t i = 0; i < p->count; ++i) {
    uint64_t *ref = &initial[FIRST_VALUE + i];
    LS_RETURN_IF_ERROR(ls_copied(&l->c, NULL, node->inputs[i], ref));
    p->types[FIRST_VALUE + i] = ls_graph_type(to, *ref);
  }
  p->types[GOES_ON] = (ls_type){LS_DTYPE_BOOL, LS_SCALAR};
  p->types[NUM_TRIPS] = (ls_type){LS_DTYPE_I64, LS_SCALAR};
  LS_RETURN_IF_ERROR(
      goes_on(a, p, to, l->mask, initial + FIRST_VALUE, &initial[GOES_ON]));
  LS_RETURN_IF_ERROR(make_number(a, to, LS_DTYPE_I64, 0, &initial[NUM_TRIPS]));
  LS_RETURN_IF_ERROR(make_region(a, "while_condition", to, &p->regions[0]));
  LS_RETURN_IF_ERROR(make_region(a, "while_body", to, &p->regions[1]));
  p->regions[0]->is_while_body = p->regions[1]->is_while_body = true;
  LS_RETURN_IF_ERROR(fill_condition(a, p, refs));
  LS_RETURN_IF_ERROR(fill_body(a, p, refs, next));
  const bool steps = ls_node_int(node, LS_ATTR_ID_COUNTS_STEPS) != 0;
  const ls_attr attrs[] = {
      LS_OWN_I(NUM_CARRIED, (int64_t)(FIRST_VALUE + p->count)),
      LS_OWN_I(MAX_TRIPS, p->most), LS_OWN_B(COUNTS_STEPS, true)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(append_flow(
      a, to, LS_OP_WHILE, initial, FIRST_VALUE + p->count, attrs, steps ? 3 : 2,
      p->regions, 2, p->types, FIRST_VALUE + p->count, &made));
  for (size_t i = 0; i < p->count; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&l->c, ls_ref(node->id, (unsigned)i),
                       ls_ref(made->id, (unsigned)(FIRST_VALUE + i))));
  return ls_ok();
}

static ls_status take_loop(apart *a, level *l, ls_node *node) {
  LS_RETURN_IF_ERROR(check_loop(a, node));
  loop p = {.around = l,
            .node = node,
            .count = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_CARRIED),
            .most = ls_node_int(node, LS_ATTR_ID_MAX_TRIPS)};
  uint64_t *refs[3];
  for (size_t i = 0; i < 3; ++i) {
    refs[i] = ls_arena_new_array(&a->memory, uint64_t, FIRST_VALUE + p.count);
    if (refs[i] == NULL) return ls_out_of_memory();
  }
  p.types = ls_arena_new_array(&a->memory, ls_type, FIRST_VALUE + p.count);
  if (p.types == NULL) return ls_out_of_memory();
  const ls_status status = fill_loop(a, &p, refs[0], refs[1], refs[2]);
  drop(p.regions, 2);
  return status;
}

static ls_status take_flow(apart *a, level *l, ls_node *node) {
  if (node->type == LS_OP_WHILE) return take_loop(a, l, node);
  if (node->type == LS_OP_COND) return take_branches(a, l, node);
  return refuse(l, node,
                "called in a loop or branch through which replicas go in ways "
                "of their own, and holds outside compiled ops that write "
                "variables");
}

// ---- All of it -------------------------------------------------------------
// As a call of the ops that stand for the one.
static ls_status lower_ops(const apart *a, const uint64_t *results) {
  ls_lower_scope *scope = a->scope;
  const ls_node *node = a->node;
  ls_graph *from = a->to;
  ls_lower_scope inner = *scope;
  inner.from = from;
  inner.in_apart = !a->together;
  inner.bodies = NULL;
  ls_map_init(&inner.values, scope->all->allocator);
  ls_status status = ls_graph_set_results(from, results, node->num_outputs);
  for (size_t i = 0; i < from->num_captures && ls_status_is_ok(status); ++i)
    status = ls_lower_map(&inner, from->captures[i].inner,
                          ls_lowered(scope, from->captures[i].outer.ref));
  if (ls_status_is_ok(status)) status = ls_lower_flow_lower(&inner, 1);
  scope->variables = inner.variables;
  scope->known = inner.known;
  scope->key = inner.key;
  for (size_t i = 0; i < node->num_outputs && ls_status_is_ok(status); ++i)
    status = ls_lower_map(scope, ls_ref(node->id, (unsigned)i),
                          ls_lowered(&inner, from->results[i]));
  ls_map_deinit(&inner.values);
  return status;
}

static ls_status build(apart *a, level *l, uint64_t *results) {
  const ls_node *node = a->node;
  l->c.as_is = true;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    uint64_t ref = 0;
    LS_RETURN_IF_ERROR(ls_graph_add_capture(
        a->to, (ls_tensor){a->scope->from, node->inputs[i]}, &ref));
    LS_RETURN_IF_ERROR(ls_copying_set(&l->c, node->inputs[i], ref));
  }
  LS_RETURN_IF_ERROR(take_flow(a, l, a->node));
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_copied(&l->c, NULL, ls_ref(node->id, i), &results[i]));
  return ls_ok();
}

static ls_status lower_new(apart *a) {
  level l = {.mask = 0};
  uint64_t *results =
      ls_arena_new_array(&a->memory, uint64_t, a->node->num_outputs + 1);
  if (results == NULL) return ls_out_of_memory();
  ls_copying_init(&l.c, NULL, a->scope->from, a->to, &a->memory);
  ls_status status = build(a, &l, results);
  ls_copying_deinit(&l.c);
  if (ls_status_is_ok(status)) status = lower_ops(a, results);
  return status;
}

static ls_status lower_as(ls_lower_scope *scope, ls_node *node, bool together) {
  apart a = {.scope = scope, .node = node, .together = together};
  ls_arena_init(&a.memory, scope->all->allocator);
  ls_status status = make_region(&a, "apart", scope->from, &a.to);
  if (ls_status_is_ok(status)) status = lower_new(&a);
  ls_graph_free(a.to);
  ls_arena_deinit(&a.memory);
  return status;
}

ls_status ls_lower_apart(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, false);
}

ls_status ls_lower_turned(ls_lower_scope *scope, ls_node *node) {
  return lower_as(scope, node, true);
}
