// SPDX-License-Identifier: Apache-2.0
//
// The kernels of normalizations and of attention's softmax, for one element
// type, float or double. Like those of kernels.h they exist once per
// instruction set and give the same bits in each.
//
// Sums of rows run in 16 partial sums, 8 of doubles, like ls_cpu_kernels.sum;
// sums of columns by rows in order. The result does not depend on the order of
// work on different columns or rows.

#ifndef LS_ENGINE_CPU_KERNELS_NORM_NORMS_H_
#define LS_ENGINE_CPU_KERNELS_NORM_NORMS_H_

#include <stdbool.h>
#include <stddef.h>

// Batch normalization of columns: one element per column.
typedef struct ls_cpu_batch_norm {
  const void *mean;
  const void *factor, *shift;  // z = x factor + shift, y = z or max(z, 0).
  const void *slope, *base;    // dx = d factor + (x - mean) slope + base, with
                               // d = dy, or dy where z > 0 and else 0.
  bool relu;
} ls_cpu_batch_norm;

// Layout: columns of rows that are `pitch` elements apart.
typedef struct ls_cpu_columns {
  size_t rows, columns, pitch;
} ls_cpu_columns;

// Normalization of rows: r = (x - mean) / sqrt(variance + epsilon), and
// y = r scale + offset.
typedef struct ls_cpu_row_norm {
  const void *scale, *offset;  // One element per column. No offset: NULL.
  double epsilon;
  bool centred;  // False: the mean counts as 0 (root mean square).
} ls_cpu_row_norm;

typedef struct ls_cpu_norms {
  // For each column, with t = x - center: adds the sum of t to sums[j], and
  // that of t t to squares[j]. Each sum is one chain over the rows from +0, in
  // elements, and then widened; t t is not rounded.
  void (*moments)(double *sums, double *squares, const void *x,
                  const void *center, ls_cpu_columns size);
  // Sums d and d (x - mean) of each column likewise, with d as above.
  void (*gradient_moments)(double *sums, double *products, const void *dy,
                           const void *x, const ls_cpu_batch_norm *norm,
                           ls_cpu_columns size);
  // Compute y, and dx, of the columns. `dst` may be x or dy.
  void (*normalize)(void *dst, const void *x, const ls_cpu_batch_norm *norm,
                    ls_cpu_columns size);
  void (*gradient)(void *dst, const void *dy, const void *x,
                   const ls_cpu_batch_norm *norm, ls_cpu_columns size);

  // Computes y of dense rows. The mean comes first, then the squares of the
  // differences. `dst` may be x.
  void (*normalize_rows)(void *dst, const void *x, const ls_cpu_row_norm *norm,
                         size_t rows, size_t columns);
  // Computes dx of dense rows; adds dy r to dscale[j] and, unless NULL, dy to
  // doffset[j], row by row; sets `y`, unless NULL, to the normalized rows.
  // `dst` may be dy, and x if `y` is not.
  void (*gradient_rows)(void *dst, void *y, void *dscale, void *doffset,
                        const void *dy, const void *x,
                        const ls_cpu_row_norm *norm, size_t rows,
                        size_t columns);

  // Computes one row of the gradient of softmax: dst = y (dy - sum of dy y).
  void (*softmax_gradient)(void *dst, const void *y, const void *dy, size_t n);
  // Computes dst = x factor.
  void (*scale)(void *dst, const void *x, double factor, size_t n);
} ls_cpu_norms;

#endif  // LS_ENGINE_CPU_KERNELS_NORM_NORMS_H_
