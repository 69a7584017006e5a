// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/conv/plan.h"

#include <math.h>

// Limits of the parts of a weights' gradient: their number, the bytes of their
// sums, and the least pixels of a part that make its sums worth writing.
enum { MOST_PARTS = 8, PARTS_BYTES = 16 << 20, PART_PIXELS = 256 };

ls_status ls_conv_types_of(const ls_kernel_plan *plan, int64_t run,
                           ls_conv_types *out) {
  const ls_dtype dtype = plan->in[0].dtype;
  if (!ls_dtype_is_float(dtype)) return ls_kernel_unsupported(plan, dtype);
  const bool f64 = dtype == LS_DTYPE_F64, pairs = run % 2 == 0;
  const ls_cpu_kernels *kernels = plan->kernels;
  *out = (ls_conv_types){
      .half = ls_is_half(dtype) ? dtype : LS_DTYPE_NONE,
      .size = ls_dtype_size(dtype),
      .wide = f64 ? sizeof(double) : sizeof(float),
      .product = f64     ? kernels->product_f64
                 : pairs ? kernels->product
                         : kernels->product_f32,
      .product_scratch = f64     ? kernels->product_f64_scratch
                         : pairs ? kernels->product_scratch
                                 : kernels->product_f32_scratch,
  };
  return ls_ok();
}

void ls_conv_widen(const ls_conv_types *types, void *target, const void *from,
                   int64_t count) {
  if (types->half != LS_DTYPE_NONE)
    ls_widen(types->half, target, from, count);
  else
    memcpy(target, from, (size_t)count * types->size);
}

void ls_conv_narrow(const ls_conv_types *types, void *target, const void *from,
                    int64_t count) {
  if (types->half != LS_DTYPE_NONE)
    ls_narrow(types->half, target, from, count);
  else
    memcpy(target, from, (size_t)count * types->size);
}

// Returns how many of `count` short rows are converted together.
static int64_t rows_at_once(int64_t n, int64_t count) {
  return ls_max_i64(1, ls_min_i64(LS_CHUNK / ls_max_i64(1, n), count));
}

void ls_conv_widen_rows(const ls_conv_types *types, void *target,
                        const void *from, int64_t pitch, int64_t n,
                        int64_t count) {
  const int64_t row = n * (int64_t)types->size, wide = n * (int64_t)types->wide;
  if (pitch == row) {
    ls_conv_widen(types, target, from, n * count);
    return;
  }
  if (types->half == LS_DTYPE_NONE) {
    ls_conv_copy_rows(target, wide, from, pitch, row, count);
    return;
  }
  uint16_t chunk[LS_CHUNK];
  char *to = target;
  const char *rows = from;
  for (int64_t some; count > 0; count -= some) {
    some = rows_at_once(n, count);
    if (some > 1) ls_conv_copy_rows((char *)chunk, row, rows, pitch, row, some);
    ls_conv_widen(types, to, some > 1 ? (const void *)chunk : rows, some * n);
    to += some * wide;
    rows += some * pitch;
  }
}

void ls_conv_narrow_rows(const ls_conv_types *types, void *target,
                         int64_t pitch, const void *from, int64_t n,
                         int64_t count) {
  const int64_t row = n * (int64_t)types->size, wide = n * (int64_t)types->wide;
  if (pitch == row) {
    ls_conv_narrow(types, target, from, n * count);
    return;
  }
  if (types->half == LS_DTYPE_NONE) {
    ls_conv_copy_rows(target, pitch, from, row, row, count);
    return;
  }
  uint16_t chunk[LS_CHUNK];
  char *to = target;
  const char *rows = from;
  for (int64_t some; count > 0; count -= some) {
    some = rows_at_once(n, count);
    ls_conv_narrow(types, some > 1 ? (void *)chunk : to, rows, some * n);
    if (some > 1)
      ls_conv_copy_rows(to, pitch, (const char *)chunk, row, row, some);
    to += some * pitch;
    rows += some * wide;
  }
}

void ls_conv_widen_column(const ls_conv_types *types, void *target,
                          int64_t pitch, const void *from, int64_t count) {
  if (types->wide == sizeof(double)) {
    for (int64_t i = 0; i < count; ++i)
      ((double *)target)[i * pitch] = ((const double *)from)[i];
    return;
  }
  float chunk[LS_CHUNK];
  const char *in = from;
  for (int64_t done = 0; done < count; done += LS_CHUNK) {
    const int64_t some = ls_min_i64(LS_CHUNK, count - done);
    const float *wide = (const float *)(const void *)in;
    if (types->half != LS_DTYPE_NONE) {
      ls_widen(types->half, chunk, from, some);
      wide = chunk;
    }
    for (int64_t i = 0; i < some; ++i)
      ((float *)target)[(done + i) * pitch] = wide[i];
    in += (size_t)some * types->size;
    from = in;
  }
}

double ls_conv_flops(const ls_conv *conv) {
  double flops = 2.0 * (double)conv->images * (double)conv->groups *
                 (double)conv->in_channels * (double)conv->out_channels;
  for (int i = 0; i < LS_WINDOW_DIMS; ++i) {
    const ls_conv_dim *dim = &conv->dim[i];
    // On average one of `spread` adjacent taps meets an element.
    flops *= ceil((double)dim->out * (double)dim->taps / (double)dim->spread);
  }
  return flops;
}

int64_t ls_conv_parts(const ls_conv *conv, int64_t pieces, int64_t pixels,
                      size_t element_size) {
  const int64_t bytes = ls_conv_taps(conv) * conv->in_channels *
                        conv->out_channels * (int64_t)element_size;
  const int64_t parts =
      ls_min_i64(ls_min_i64(MOST_PARTS, pieces), pixels / PART_PIXELS);
  return parts >= 2 && bytes * parts <= PARTS_BYTES ? parts : 1;
}
