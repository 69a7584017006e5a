// SPDX-License-Identifier: Apache-2.0
//
// Masks ops that only some replicas run: puts them into a branch by the
// replica's mask, and in steps each replica's ops, too.
#include "graph/gather/gather.h"
#include "lower/apart.h"

// ---- Plain ops -------------------------------------------------------------
bool ls_apart_is_free(const ls_node *node) {
  return node->type == LS_OP_CONSTANT;
}

bool ls_apart_is_plain(const ls_apart_level *l, const ls_node *node) {
  return node->type != LS_OP_PARAMETER && !ls_apart_is_free(node) &&
         (l->mask == 0 || !ls_holds_step(node));
}

static bool is_between(const ls_apart_level *l, uint64_t ref, size_t first,
                       size_t last) {
  const size_t place = ls_graph_position(l->c.from, ls_ref_id(ref));
  return place >= first && place < last &&
         ls_apart_is_plain(l, l->c.from->nodes[place]);
}

// Lists the values of plain ops between two positions that later ops use.
static ls_status list_used(ls_apart *a, const ls_apart_level *l, size_t first,
                           size_t last, uint64_t **out_refs,
                           size_t *out_count) {
  const ls_graph *from = l->c.from;
  size_t most = from->num_results, count = 0;
  for (size_t i = last; i < from->num_nodes; ++i)
    most += from->nodes[i]->num_inputs;
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, uint64_t, refs, most + 1);
  for (size_t i = last; i < from->num_nodes; ++i)
    for (uint32_t k = 0; k < from->nodes[i]->num_inputs; ++k) {
      const uint64_t ref = from->nodes[i]->inputs[k];
      if (is_between(l, ref, first, last)) ls_list_ref(refs, &count, ref);
    }
  for (size_t i = 0; i < from->num_results; ++i)
    if (is_between(l, from->results[i], first, last))
      ls_list_ref(refs, &count, from->results[i]);
  *out_refs = refs;
  *out_count = count;
  return ls_ok();
}

// Returns true if the op of `from` at a position goes into the first region of
// a branch.
typedef bool (*taker)(const void *self, const ls_graph *from, size_t place);

static ls_status copy_branch(ls_apart *a, ls_copying *inner, size_t first,
                             size_t last, taker takes, const void *self,
                             uint64_t *refs, size_t count) {
  for (size_t i = first; i < last; ++i)
    if (takes(self, inner->from, i))
      LS_RETURN_IF_ERROR(ls_copy_node(inner, inner->from->nodes[i]));
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, uint64_t, results, count + 1);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_copied(inner, NULL, refs[i], &results[i]));
  return ls_graph_set_results(inner->to, results, count);
}

// Makes a branch by `predicate` with the ops of a range for which `takes`
// returns true. Replicas that do not take the branch get zeros.
static ls_status make_branch(ls_apart *a, ls_copying *around,
                             uint64_t predicate, size_t first, size_t last,
                             taker takes, const void *self, uint64_t *refs,
                             size_t count, ls_node **out_node) {
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, ls_type, types, count + 1);
  for (size_t i = 0; i < count; ++i)
    types[i] = ls_graph_type(around->from, refs[i]);
  LS_OWN(ls_apart_regions, regions) = {{NULL, NULL}};
  LS_RETURN_IF_ERROR(
      ls_apart_make_region(a, "in", around->to, &regions.items[0]));
  LS_RETURN_IF_ERROR(
      ls_apart_make_region(a, "out", around->to, &regions.items[1]));
  LS_OWN(ls_copying, inner) = {0};
  ls_copying_init(&inner, around, around->from, regions.items[0], &a->memory);
  inner.is_body = true;
  LS_RETURN_IF_ERROR(
      copy_branch(a, &inner, first, last, takes, self, refs, count));
  return ls_apart_append_cond(a, around->to, predicate, regions.items, types,
                              count, out_node);
}

static bool takes_plain(const void *self, const ls_graph *from, size_t place) {
  return ls_apart_is_plain(self, from->nodes[place]);
}

ls_status ls_apart_mask_plain(ls_apart *a, ls_apart_level *l, size_t first,
                              size_t last) {
  bool any = false;
  for (size_t i = first; i < last; ++i)
    any = any || ls_apart_is_plain(l, l->c.from->nodes[i]);
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
  ls_apart_level *around;
  ls_node *node;
  size_t replicas, num_args, num_given;
  uint64_t *masks;  // Parameters of the new body.
  uint64_t *made;
} step;

// Declares the parameters: arguments, masks, then captures.
static ls_status declare_step(const step *s, ls_copying *inner) {
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

static ls_status fill_step(ls_apart *a, const step *s, ls_copying *inner) {
  const ls_graph *from = inner->from;
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, uint64_t, refs, s->num_given + 1);
  LS_RETURN_IF_ERROR(declare_step(s, inner));
  LS_RETURN_IF_ERROR(ls_apart_map_captures(inner, &s->around->c));
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

static ls_status append_step(ls_apart *a, const step *s, ls_graph **body) {
  ls_apart_level *l = s->around;
  const ls_node *node = s->node;
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, uint64_t, leading, s->num_args + 1);
  for (size_t i = 0; i < s->num_args; ++i)
    LS_RETURN_IF_ERROR(ls_copied(&l->c, NULL, node->inputs[i], &leading[i]));
  leading[s->num_args] = l->mask;
  const ls_attr attrs[] = {LS_OWN_I(REPLICAS, (int64_t)s->replicas),
                           LS_OWN_I(NUM_ARGS, (int64_t)s->num_args + 1),
                           LS_OWN_I(NUM_GATHERED, (int64_t)s->num_given),
                           *ls_node_attr_named(node, LS_MARK_OUTSIDE)};
  ls_node *made = NULL;
  LS_RETURN_IF_ERROR(ls_apart_append_flow(
      a, l->c.to, LS_OP_MERGE_CALL, leading, s->num_args + 1, attrs,
      LS_COUNT_OF(attrs), body, 1, node->outputs, node->num_outputs, &made));
  ls_node_take_place(made, l->c.from, node);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    LS_RETURN_IF_ERROR(
        ls_copying_set(&l->c, ls_ref(node->id, i), ls_ref(made->id, i)));
  return ls_ok();
}

ls_status ls_apart_mask_step(ls_apart *a, ls_apart_level *l, ls_node *node) {
  step s = {.around = l,
            .node = node,
            .replicas = (size_t)ls_node_int(node, LS_ATTR_ID_REPLICAS),
            .num_args = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_ARGS),
            .num_given = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED)};
  s.masks = ls_arena_new_array(&a->memory, uint64_t, s.replicas);
  s.made =
      ls_arena_new_array(&a->memory, uint64_t, s.num_given * s.replicas + 1);
  LS_RETURN_IF_NO_MEMORY(s.masks != NULL && s.made != NULL);
  LS_OWN(ls_held_graph, body) = NULL;
  LS_RETURN_IF_ERROR(ls_apart_make_region(a, "merge", l->c.to, &body));
  LS_OWN(ls_copying, inner) = {0};
  ls_copying_init(&inner, &l->c, ls_graph_resolve(node->regions[0]), body,
                  &a->memory);
  LS_RETURN_IF_ERROR(fill_step(a, &s, &inner));
  return append_step(a, &s, &body);
}
