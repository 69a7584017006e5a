// SPDX-License-Identifier: Apache-2.0
//
// Writes parts at positions that are values, updates by index, and sorts.
#include "emit/stablehlo.h"

static const ls_batch_dims scalar;

void ls_hlo_dynamic_slice(ls_emitter *e, ls_emitted x, const ls_emitted *starts,
                          ls_emitted out) {
  const ls_batch_dims dims = ls_batch_dims_at(e, out);
  const size_t rank = (size_t)dims.rank;
  int64_t sizes[LS_MAX_RANK];
  ls_emitted in[LS_MAX_RANK + 1] = {x};
  memcpy(in + 1, starts, rank * sizeof(*starts));
  for (int32_t i = 0; i < dims.rank; ++i)
    sizes[i] = dims.dim[i].offset;
  ls_text *text = ls_hlo_begin(e, "stablehlo.dynamic_slice", in, rank + 1, out);
  ls_hlo_attr(text, "sizes", sizes, rank);
  ls_hlo_finish(e, in, rank + 1, out);
}

void ls_hlo_scatter(ls_emitter *e, uint16_t op, ls_emitted x,
                    ls_emitted indices, ls_emitted updates, ls_emitted out) {
  const ls_emitted in[] = {x, indices, updates};
  ls_text *text = ls_hlo_begin(e, "\"stablehlo.scatter\"(", in, 3, out);
  ls_text_append(text,
                 ") <{scatter_dimension_numbers = #stablehlo.scatter<"
                 "update_window_dims = [1], inserted_window_dims = [0], "
                 "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
                 "indices_are_sorted = false, unique_indices = false}");
  ls_hlo_combine(e, op, ls_dtype_at(e, x));
  ls_hlo_finish(e, in, 3, out);
}

// Writes a line of a comparison of %a0 and %b0.
static void write_compare(ls_hlo *h, const char *name, const char *how,
                          const char *operands, ls_dtype dtype) {
  ls_text *text = &h->body;
  ls_text_append_format(text, "      %%%s = stablehlo.compare %s, %s : (", name,
                        how, operands);
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, ", ");
  ls_hlo_append_type(h, text, dtype, &scalar);
  ls_text_append(text, ") -> tensor<i1>\n");
}

// A NaN is larger than any number; -0 and 0 are equal.
void ls_hlo_sort(ls_emitter *e, const ls_emitted *in, size_t count,
                 int64_t axis, bool descending, const ls_emitted *out) {
  ls_hlo *h = ls_hlo_of(e);
  ls_text *text = &h->body;
  const ls_dtype dtype = ls_dtype_at(e, in[0]);
  ls_text_append(text, "   ");
  ls_hlo_names(e, out, count);
  ls_text_append(text, " = \"stablehlo.sort\"(");
  ls_hlo_names(e, in, count);
  ls_text_append_format(
      text, ") <{dimension = %lld : i64, is_stable = true}> ({\n    ^bb0(",
      (long long)axis);
  for (size_t i = 0; i < 2 * count; ++i) {
    ls_text_append_format(text, "%s%%%c%zu: ", i > 0 ? ", " : "", "ab"[i % 2],
                          i / 2);
    ls_hlo_append_type(h, text, ls_dtype_at(e, in[i / 2]), &scalar);
  }
  ls_text_append(text, "):\n");
  write_compare(h, "c", descending ? "GT" : "LT", "%a0, %b0", dtype);
  if (ls_dtype_is_float(dtype)) {
    write_compare(h, "d", "NE", descending ? "%a0, %a0" : "%b0, %b0", dtype);
    write_compare(h, "e", "EQ", descending ? "%b0, %b0" : "%a0, %a0", dtype);
    ls_text_append(text, "      %f = stablehlo.and %d, %e : tensor<i1>\n"
                         "      %g = stablehlo.or %c, %f : tensor<i1>\n");
  }
  ls_text_append_format(text,
                        "      stablehlo.return %%%c : tensor<i1>\n    }) : (",
                        ls_dtype_is_float(dtype) ? 'g' : 'c');
  for (size_t i = 0; i < 2 * count; ++i) {
    if (i > 0) ls_text_append(text, i == count ? ") -> (" : ", ");
    ls_hlo_type(h, i < count ? in[i] : out[i - count]);
  }
  ls_text_append(text, ")\n");
}
