// SPDX-License-Identifier: Apache-2.0
//
// Shape rule of host calls. A call with the attribute `replicas` stands for one
// call per replica: its `wide` operands hold all replicas' parts, the kernel
// infers the types of one replica's call, and every output is wide.
#include "lockstep/host.h"

#include "graph/infer/infer.h"
#include "graph/op_table.h"

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

// Lists the operand types for the kernel; in a call for all replicas those of
// one.
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
    out = ls_arena_new_array(infer->arena, ls_type, wanted);
    if (out == NULL) return ls_out_of_memory();
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
