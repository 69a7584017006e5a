// SPDX-License-Identifier: Apache-2.0
// Shape rules of ops with regions: their outputs are the regions' results.
#include "graph/graph.h"
#include "graph/infer/infer.h"
#include "graph/op_table.h"
#include "lockstep/host.h"
#include "lockstep/shape_rules.h"

static ls_status check_regions(const ls_infer *infer, size_t wanted) {
  if (infer->spec->num_regions == wanted) return ls_ok();
  return ls_invalid_argument("%s needs %zu child graphs, got %zu",
                             infer->op_name, wanted, infer->spec->num_regions);
}

static ls_type result_type(const ls_graph *graph, size_t index) {
  return ls_graph_type(graph, graph->results[index]);
}

static ls_status flow_take_results(ls_infer *infer, const ls_graph *graph) {
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, graph->num_results));
  for (size_t i = 0; i < graph->num_results; ++i)
    infer->out[i] = result_type(graph, i);
  return ls_ok();
}

// Finds a type for a loop value that includes the initial value, the body's
// result and the loop's output.
static ls_status carried_type(const ls_infer *infer, size_t i,
                              const ls_graph *body, ls_type *out) {
  const ls_type after = result_type(body, i);
  const ls_type inside = ls_graph_type(body, body->parameters[i]);
  if (after.dtype != infer->in[i].dtype ||
      !ls_shape_compatible(after.shape, infer->in[i].shape))
    return ls_invalid_argument(
        "while: value %zu is %s before the loop and %s after the body; a loop "
        "must keep dtypes and shapes",
        i, LS_OPERAND_TEXT(infer, i), LS_SHAPE_TEXT(after.dtype, after.shape));
  *out = inside;
  return ls_ok();
}

// Sets the further outputs of a loop that saves values of its body: the number
// of trips, and a stack for each value.
static void saved_types(ls_infer *infer, size_t carried, size_t saved) {
  infer->out[carried] = (ls_type){LS_DTYPE_I64, LS_SCALAR};
  for (size_t i = 0; i < saved; ++i)
    infer->out[carried + 1 + i] = (ls_type){LS_DTYPE_VARIANT, LS_SCALAR};
}

ls_status infer_while(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_regions(infer, 2));
  const ls_graph *cond = infer->spec->regions[0];
  const ls_graph *body = infer->spec->regions[1];
  const size_t carried = (size_t)ls_infer_int(infer, LS_ATTR_ID_NUM_CARRIED);
  if (cond->num_results != 1 || result_type(cond, 0).dtype != LS_DTYPE_BOOL ||
      !ls_shape_compatible(result_type(cond, 0).shape, LS_SCALAR))
    return ls_invalid_argument(
        "while: the condition must return one bool scalar, returns %zu "
        "values%s%s",
        cond->num_results, cond->num_results ? ", the first " : "",
        cond->num_results ? LS_SHAPE_TEXT(result_type(cond, 0).dtype,
                                          result_type(cond, 0).shape)
                          : "");
  const bool saves = ls_infer_attr(infer, LS_ATTR_ID_NUM_SAVED) != NULL;
  const size_t saved = (size_t)ls_infer_int(infer, LS_ATTR_ID_NUM_SAVED);
  if (saved > body->num_results || body->num_results != carried + saved ||
      body->num_declared != carried || cond->num_declared != carried ||
      infer->num_in != carried + ls_count_captures(infer->spec->regions, 2))
    return ls_invalid_argument("while: %zu values are carried and %lld are "
                               "saved, the body takes %zu and returns %zu",
                               carried, (long long)saved, body->num_declared,
                               body->num_results);
  LS_RETURN_IF_ERROR(
      ls_infer_outputs(infer, saves ? carried + 1 + saved : carried));
  for (size_t i = 0; i < carried; ++i)
    LS_RETURN_IF_ERROR(carried_type(infer, i, body, &infer->out[i]));
  if (saves) saved_types(infer, carried, saved);
  return ls_ok();
}

ls_status infer_cond(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_regions(infer, 2));
  const ls_graph *yes = infer->spec->regions[0];
  const ls_graph *no = infer->spec->regions[1];
  if (infer->num_in != 1 + yes->num_captures + no->num_captures ||
      yes->num_declared + no->num_declared > 0)
    return ls_invalid_argument(
        "cond: a predicate, %zu and %zu captures against %zu operands, and "
        "%zu and %zu other parameters",
        yes->num_captures, no->num_captures, infer->num_in, yes->num_declared,
        no->num_declared);
  if (infer->in[0].dtype != LS_DTYPE_BOOL ||
      !ls_shape_compatible(infer->in[0].shape, LS_SCALAR))
    return ls_invalid_argument(
        "cond: the predicate must be a bool scalar, got %s",
        LS_OPERAND_TEXT(infer, 0));
  if (yes->num_results != no->num_results)
    return ls_invalid_argument("cond: the branches give %zu and %zu values",
                               yes->num_results, no->num_results);
  LS_RETURN_IF_ERROR(flow_take_results(infer, yes));
  for (size_t i = 0; i < no->num_results; ++i) {
    const ls_type a = infer->out[i], b = result_type(no, i);
    if (a.dtype != b.dtype || !ls_shape_compatible(a.shape, b.shape))
      return ls_invalid_argument(
          "cond: value %zu is %s in one branch and %s in the other", i,
          LS_SHAPE_TEXT(a.dtype, a.shape), LS_SHAPE_TEXT(b.dtype, b.shape));
    for (int d = 0; d < a.shape.rank && b.shape.rank >= 0; ++d)
      if (b.shape.dim[d] < 0) infer->out[i].shape.dim[d] = LS_UNKNOWN_DIM;
    if (b.shape.rank < 0) infer->out[i].shape = LS_SHAPE_UNKNOWN;
  }
  return ls_ok();
}

ls_status infer_call(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_regions(infer, 1));
  const ls_graph *body = infer->spec->regions[0];
  if (infer->num_in != body->num_parameters)
    return ls_invalid_argument("call of '%s': it takes %zu values, got %zu",
                               body->name, body->num_parameters, infer->num_in);
  return flow_take_results(infer, body);
}

// ---- Replicate -------------------------------------------------------------
static ls_status check_classes(const ls_infer *infer,
                               const ls_replicate_counts *r) {
  const ls_attr *classes = ls_infer_attr(infer, LS_ATTR_ID_CLASSES);
  if (r->wide_split + r->wide_gathered > 0 &&
      infer->spec->regions[0]->kind != LS_GRAPH_LOWERED)
    return ls_invalid_argument("replicate: only lowering makes wide values");
  if (classes == NULL) return check_regions(infer, 1);
  if (r->wide_split + r->wide_gathered > 0)
    return ls_invalid_argument("replicate: %zu arguments and %zu results are "
                               "wide, of replicas of several classes",
                               r->wide_split, r->wide_gathered);
  bool fits = classes->as.ints.count == r->replicas;
  for (size_t i = 0; fits && i < r->replicas; ++i)
    fits = (size_t)classes->as.ints.items[i] < infer->spec->num_regions;
  return fits ? ls_ok()
              : ls_invalid_argument("replicate: 'classes' does not name one of "
                                    "%zu bodies for each of %zu replicas",
                                    infer->spec->num_regions, r->replicas);
}

// Checks the bodies. Replicas with different argument shapes have different
// bodies; the attribute `classes` maps replicas to bodies.
static ls_status check_bodies(const ls_infer *infer,
                              const ls_replicate_counts *r) {
  const ls_graph *first = infer->spec->regions[0];
  const size_t declared = r->split + r->wide_split;
  const size_t varying = r->gathered + r->wide_gathered;
  const size_t captures =
      ls_count_captures(infer->spec->regions, infer->spec->num_regions);
  for (size_t k = 0; k < infer->spec->num_regions; ++k) {
    const ls_graph *body = infer->spec->regions[k];
    if (declared != body->num_declared || varying > body->num_results ||
        body->num_results != first->num_results)
      return ls_invalid_argument(
          "replicate: body %zu takes %zu split arguments of %zu and returns "
          "%zu values, %zu of them for each replica",
          k, body->num_declared, declared, body->num_results, varying);
  }
  if (infer->num_in != r->split * r->replicas + r->wide_split + captures)
    return ls_invalid_argument(
        "replicate over %zu: %zu split arguments, %zu wide ones and %zu "
        "captures against %zu operands",
        r->replicas, r->split, r->wide_split, captures, infer->num_in);
  return check_classes(infer, r);
}

ls_status infer_replicate(ls_infer *infer) {
  const ls_replicate_counts r =
      ls_replicate_counts_of(infer->spec->attrs, infer->spec->num_attrs);
  if (infer->spec->num_regions == 0) return check_regions(infer, 1);
  LS_RETURN_IF_ERROR(check_bodies(infer, &r));
  const ls_attr *classes = ls_infer_attr(infer, LS_ATTR_ID_CLASSES);
  ls_graph *const *bodies = infer->spec->regions;
  const size_t others = bodies[0]->num_results - r.gathered;
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, r.gathered * r.replicas + others));
  for (size_t i = 0; i < r.gathered * r.replicas; ++i) {
    const int64_t body =
        classes == NULL ? 0 : classes->as.ints.items[i % r.replicas];
    infer->out[i] = result_type(bodies[body], i / r.replicas);
  }
  ls_type *out = infer->out + r.gathered * r.replicas;
  for (size_t i = 0; i < others; ++i) {
    out[i] = result_type(bodies[0], r.gathered + i);
    if (i < r.wide_gathered)
      LS_RETURN_IF_ERROR(
          ls_status_annotate(ls_wide_type(out[i], (int64_t)r.replicas, &out[i]),
                             "replicate: result %zu", r.gathered + i));
  }
  return ls_ok();
}

// ---- Stacks -----------------------------------------------------------------
// Stacks are variant scalars. The element type is an attribute of the ops that
// make and pop them; a push takes it from the value.
static const ls_type stack_type = {LS_DTYPE_VARIANT, {.rank = 0}};

static ls_status check_stack(const ls_infer *infer) {
  if (infer->in[0].dtype == LS_DTYPE_VARIANT &&
      ls_shape_compatible(infer->in[0].shape, LS_SCALAR))
    return ls_ok();
  return ls_invalid_argument("%s: the stack must be a variant scalar, is %s",
                             infer->op_name, LS_OPERAND_TEXT(infer, 0));
}

static ls_status check_element(const ls_infer *infer, ls_dtype dtype) {
  if (dtype != LS_DTYPE_NONE && dtype != LS_DTYPE_STRING &&
      dtype != LS_DTYPE_RESOURCE)
    return ls_ok();
  return ls_unimplemented(
      "%s: a stack of %s; elements are numbers, bools and stacks",
      infer->op_name, ls_dtype_name(dtype));
}

ls_status infer_stack_new(ls_infer *infer) {
  const ls_attr *dtype = ls_infer_attr(infer, LS_ATTR_ID_DTYPE);
  if (dtype != NULL) LS_RETURN_IF_ERROR(check_element(infer, dtype->as.dtype));
  infer->out[0] = stack_type;
  return ls_ok();
}

ls_status infer_stack_push(ls_infer *infer) {
  LS_RETURN_IF_ERROR(check_stack(infer));
  LS_RETURN_IF_ERROR(check_element(infer, infer->in[1].dtype));
  infer->out[0] = stack_type;
  return ls_ok();
}

ls_status infer_stack_pop(ls_infer *infer) {
  const ls_attr *dtype = ls_infer_attr(infer, LS_ATTR_ID_DTYPE);
  const ls_attr *shape = ls_infer_attr(infer, LS_ATTR_ID_SHAPE);
  LS_RETURN_IF_ERROR(check_stack(infer));
  LS_RETURN_IF_ERROR(check_element(infer, dtype->as.dtype));
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, 2));
  infer->out[0] = stack_type;
  infer->out[1] = (ls_type){dtype->as.dtype, shape->as.shape};
  return ls_ok();
}

// ---- Host calls ------------------------------------------------------------
// Shape rule of host calls. A call with the attribute `replicas` stands for one
// call per replica: its `wide` operands hold all replicas' parts, the kernel
// infers the types of one replica's call, and every output is wide.

static ls_status check_wide(const ls_infer *infer, const ls_attr *wide) {
  int64_t last = -1;
  for (size_t i = 0; i < wide->as.ints.count; ++i) {
    const int64_t at = wide->as.ints.items[i];
    if (at <= last || at >= (int64_t)infer->num_in)
      return ls_invalid_argument(
          "%s: 'wide' must be ascending numbers of its %zu operands",
          infer->op_name, infer->num_in);
    last = at;
  }
  return ls_ok();
}

// Lists the operand types for the kernel; in a call for all replicas, those of
// one replica.
static ls_status host_operands(const ls_infer *infer, const ls_type **out) {
  const ls_attr *replicas = ls_infer_attr(infer, LS_ATTR_ID_REPLICAS);
  const ls_attr *wide = ls_infer_attr(infer, LS_ATTR_ID_WIDE);
  *out = infer->in;
  if (wide == NULL) return ls_ok();
  if (replicas == NULL)
    return ls_invalid_argument("%s: 'wide' goes with 'replicas'",
                               infer->op_name);
  LS_RETURN_IF_ERROR(check_wide(infer, wide));
  LS_ARENA_ARRAY_OR_RETURN(infer->arena, ls_type, in, infer->num_in);
  for (size_t i = 0; i < infer->num_in; ++i)
    in[i] = infer->in[i];
  for (size_t i = 0; i < wide->as.ints.count; ++i) {
    const size_t at = (size_t)wide->as.ints.items[i];
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_wide_part(in[at], replicas->as.i, &in[at]),
                           "%s: operand %zu", infer->op_name, at));
  }
  *out = in;
  return ls_ok();
}

ls_status infer_host(ls_infer *infer) {
  const ls_attr *kernel = ls_infer_attr(infer, LS_ATTR_ID_KERNEL);
  const ls_attr *state = ls_infer_attr(infer, LS_ATTR_ID_STATE);
  const ls_attr *replicas = ls_infer_attr(infer, LS_ATTR_ID_REPLICAS);
  const ls_type *in = NULL;
  LS_RETURN_IF_ERROR(host_operands(infer, &in));
  if (kernel->as.kernel->infer == NULL) return infer_nothing(infer);
  enum { FEW = 16 };
  ls_type few[FEW], *out = few;
  size_t count = FEW;
  const ls_object *object = state == NULL ? NULL : state->as.object;
  LS_RETURN_IF_ERROR(
      kernel->as.kernel->infer(object, in, infer->num_in, out, &count));
  if (count > FEW) {
    const size_t wanted = count;
    LS_ARENA_SET_OR_RETURN(infer->arena, ls_type, out, wanted);
    LS_RETURN_IF_ERROR(
        kernel->as.kernel->infer(object, in, infer->num_in, out, &count));
    if (count != wanted)
      return ls_internal("%s: kernel '%s' has %zu results, then %zu",
                         infer->op_name, kernel->as.kernel->name, wanted,
                         count);
  }
  LS_RETURN_IF_ERROR(ls_infer_outputs(infer, count));
  for (size_t i = 0; i < count; ++i) {
    infer->out[i] = out[i];
    if (replicas != NULL)
      LS_RETURN_IF_ERROR(ls_status_annotate(
          ls_wide_type(out[i], replicas->as.i, &infer->out[i]),
          "%s: output %zu", infer->op_name, i));
  }
  return ls_ok();
}
