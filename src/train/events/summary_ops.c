// SPDX-License-Identifier: Apache-2.0
// Summaries with explicit steps: host calls of a value and its step, which
// decide on the host whether that step is recorded.
#include "lockstep/summary_ops.h"

#include <stdio.h>

#include "base/require.h"
#include "distribute/base/strategy.h"
#include "distribute/values/values.h"
#include "graph/make/make.h"
#include "lockstep/hook.h"

// ---- Recording -------------------------------------------------------------
// Returns the context's recording interval in steps; 0: nothing is recorded.
static int64_t *records_every_in(ls_context *context) {
  return LS_CONTEXT_ROOM(int64_t, &context->scoped, train);
}

static const ls_scope_type records_scope = {
    .name = "a scope of recorded summaries"};

void ls_record_summaries_begin(ls_scope *scope, int64_t steps) {
  if (steps < 0) {
    ls_context_refuse(scope, ls_invalid_argument(
                                 "summaries of each %lld steps: 1 is always, 0 "
                                 "never",
                                 (long long)steps));
    return;
  }
  *records_every_in(ls_context_open(scope, &records_scope)) = steps;
}

// ---- Calls -----------------------------------------------------------------
typedef ls_summary_state summary;

static bool is_of_another(const ls_host_call *call) {
  return call->replica != 0;
}

static uint64_t summary_ops_order(const ls_object *state) {
  return (uint64_t)(uintptr_t)((const summary *)state)->writer;
}

static bool is_due(const summary *s, int64_t step) {
  const int64_t every = __atomic_load_n(&s->writer->every, __ATOMIC_RELAXED);
  return step % s->every == 0 && step % every == 0;
}

static ls_status summary_ops_record(ls_host_call *call) {
  const summary *s = (const summary *)call->state;
  const ls_shape shape = call->input_types[0].shape;
  int64_t step = 0;
  if (call->input_types[1].shape.rank != 0)
    return ls_invalid_argument(
        "the step of summary '%s' is %s, expected a scalar", s->tag,
        LS_SHAPE_TEXT(LS_DTYPE_I64, call->input_types[1].shape));
  memcpy(&step, call->inputs[1], sizeof(step));
  if (s->kind == LS_SUMMARY_SCALAR && shape.rank != 0)
    return ls_invalid_argument(
        "summary '%s' of a scalar is %s", s->tag,
        LS_SHAPE_TEXT(call->input_types[0].dtype, shape));
  if (is_due(s, step))
    LS_RETURN_IF_ERROR(
        ls_summary_record_call(call, s->writer, s->kind, s->tag, step));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {.name = "summary at a step",
                                      .start = summary_ops_record,
                                      .flags = LS_HOST_ALL,
                                      .skips = is_of_another,
                                      .order = summary_ops_order};

// ---- Makers ----------------------------------------------------------------
static bool summary_ops_is_number(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype) ||
         dtype == LS_DTYPE_BOOL;
}

static bool may_be_image(ls_dtype dtype, ls_shape shape) {
  if (dtype != LS_DTYPE_U8 && dtype != LS_DTYPE_U16 &&
      !ls_dtype_is_float(dtype))
    return false;
  if (shape.rank < 0) return true;
  if (shape.rank != 3 && shape.rank != 4) return false;
  const int64_t channels = shape.dim[shape.rank - 1];
  return channels == LS_UNKNOWN_DIM || (channels >= 1 && channels <= 4);
}

static ls_status summary_ops_check_value(ls_summary_kind kind, const char *tag,
                                         ls_tensor value) {
  static const char *const wanted[] = {
      [LS_SUMMARY_SCALAR] = "a scalar of integers, floats or bool",
      [LS_SUMMARY_HISTOGRAM] = "integers, floats or bool",
      [LS_SUMMARY_IMAGE] =
          "u8, u16 or floats of [height, width, channels] or [n, height, "
          "width, channels], with 1 to 4 channels"};
  const ls_dtype dtype = ls_tensor_dtype(value);
  const ls_shape shape = ls_tensor_shape(value);
  const bool fits = kind == LS_SUMMARY_IMAGE
                        ? may_be_image(dtype, shape)
                        : summary_ops_is_number(dtype) &&
                              (kind == LS_SUMMARY_HISTOGRAM || shape.rank <= 0);
  return fits ? ls_ok()
              : ls_invalid_argument("summary '%s' is %s, expected %s", tag,
                                    LS_SHAPE_TEXT(dtype, shape), wanted[kind]);
}

// Converts the step to i64; without one takes the global step.
static ls_status find_step(const char *tag, ls_tensor *step) {
  if (step->ref != 0) {
    const ls_dtype dtype = ls_tensor_dtype(*step);
    const ls_shape shape = ls_tensor_shape(*step);
    if (!ls_dtype_is_integer(dtype) || shape.rank > 0)
      return ls_invalid_argument(
          "the step of summary '%s' is %s, expected an integer scalar", tag,
          LS_SHAPE_TEXT(dtype, shape));
  } else {
    ls_graph *graph = ls_graph_current();
    while (graph != NULL && graph->kind != LS_GRAPH_BUILD)
      graph = graph->parent;
    if (graph == NULL)
      return ls_failed_precondition(
          "summary '%s' without a step: there is no build graph here that "
          "could have a global step",
          tag);
    ls_variable *global = NULL;
    LS_RETURN_IF_ERROR(ls_global_step_get(graph, &global));
    *step = ls_variable_read(global);
  }
  *step = ls_convert(*step, LS_DTYPE_I64);
  return ls_ok();
}

static ls_op summary_ops_failed(ls_status status) {
  return ls_tensor_op(ls_make_failed("summary", status));
}

static ls_op summary_ops_add(ls_summary_kind kind, const char *tag,
                             ls_tensor value, ls_tensor step) {
  ls_context *context = ls_context_current();
  if (!ls_summary_writer_records(
          ls_distribute_scoped_of(context)->summary_writer) ||
      *records_every_in(context) == 0 || ls_summary_is_left_out())
    return ls_graph_is_eager(ls_graph_current()) ? (ls_op){0}
                                                 : ls_group(NULL, 0, "no_op");
  if (ls_tensor_is_failed(value)) return ls_tensor_op(value);
  ls_status status = summary_ops_check_value(kind, tag, value);
  if (ls_status_is_ok(status)) status = find_step(tag, &step);
  if (!ls_status_is_ok(status)) return summary_ops_failed(status);
  summary *s =
      ls_summary_state_make(ls_distribute_scoped_of(context)->summary_writer,
                            kind, *records_every_in(context), tag);
  if (s == NULL) return summary_ops_failed(ls_out_of_memory());
  const ls_op op = ls_host_call_add(&kernel, &s->object,
                                    (const ls_tensor[]){value, step}, 2);
  ls_object_release(s);
  if (op.id == 0 || op.graph->kind != LS_GRAPH_BUILD) return op;
  status = ls_graph_add_to_collection(op.graph, LS_COLLECTION_SUMMARY_OPS,
                                      ls_nest_op(op));
  return ls_status_is_ok(status) ? op : summary_ops_failed(status);
}

ls_op ls_summary_scalar(const char *tag, ls_tensor value, ls_tensor step) {
  return summary_ops_add(LS_SUMMARY_SCALAR, tag, value, step);
}

ls_op ls_summary_histogram(const char *tag, ls_tensor values, ls_tensor step) {
  return summary_ops_add(LS_SUMMARY_HISTOGRAM, tag, values, step);
}

ls_op ls_summary_image(const char *tag, ls_tensor image, ls_tensor step) {
  return summary_ops_add(LS_SUMMARY_IMAGE, tag, image, step);
}
