// SPDX-License-Identifier: Apache-2.0
//
// The functions of ls_cpu_norms for one element type: a template, included by
// norm_f32.c and norm_f64.c.
//
// It needs ELEM (the type), FMA (its function), VEC and LANES (its vector),
// V(op) (the operation's name) and TABLE (the name of the table it defines).
//
// Columns are processed GROUP vectors at a time, down all rows, with the
// columns' parameters in registers.

#include <math.h>

#if defined(__AVX512F__)
#define GROUP ((size_t)4)
#else
#define GROUP ((size_t)2)
#endif

LS_INLINE VEC load_lanes(const ELEM *p, size_t lanes) {
  return lanes == LANES ? V(load)(p) : V(load_n)(p, lanes);
}

LS_INLINE void store_lanes(ELEM *p, size_t lanes, VEC v) {
  if (lanes == LANES) {
    V(store)(p, v);
  } else {
    V(store_n)(p, lanes, v);
  }
}

// Loads the elements from column j on of an array with one element per column.
LS_INLINE VEC load_columns(const void *array, size_t j, size_t lanes) {
  return load_lanes((const ELEM *)array + j, lanes);
}

// Calls each(work, first column, vectors, lanes of the last vector) for all
// columns, with constant numbers of vectors and full lanes.
#define EACH_GROUP(each, work, columns)                                        \
  do {                                                                         \
    size_t j = 0;                                                              \
    for (; j + GROUP * LANES <= (columns); j += GROUP * LANES)                 \
      each(work, j, GROUP, LANES);                                             \
    for (; j + LANES <= (columns); j += LANES)                                 \
      each(work, j, (size_t)1, LANES);                                         \
    if (j < (columns)) each(work, j, 1, (columns)-j);                          \
  } while (0)
#define LANES_OF(v) ((v) == vectors - 1 ? lanes : LANES)

// ---- Sums of columns -------------------------------------------------------
typedef struct {
  double *sums, *products;
  const ELEM *dy, *x;
  const void *center;
  const ls_cpu_batch_norm *norm;
  ls_cpu_columns size;
} moments_work;

LS_INLINE void add_wide(double *target, VEC v, size_t lanes) {
  ELEM part[LANES];
  V(store)(part, v);
  for (size_t i = 0; i < lanes; ++i)
    target[i] += (double)part[i];
}

LS_EXPAND void moments_of_group(const moments_work *w, size_t j,
                                const size_t vectors, const size_t lanes) {
  VEC center[GROUP], sums[GROUP], squares[GROUP];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    center[v] = load_columns(w->center, j + v * LANES, LANES_OF(v));
    sums[v] = squares[v] = V(zero)();
  }
  const ELEM *x = w->x + j;
  for (size_t i = w->size.rows; i > 0; --i, x += w->size.pitch) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      const VEC t = V(sub)(load_lanes(x + v * LANES, LANES_OF(v)), center[v]);
      sums[v] = V(add)(sums[v], t);
      squares[v] = V(fma)(t, t, squares[v]);
    }
  }
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    add_wide(w->sums + j + v * LANES, sums[v], LANES_OF(v));
    add_wide(w->products + j + v * LANES, squares[v], LANES_OF(v));
  }
}

static void compute_moments(double *sums, double *squares, const void *x,
                            const void *center, ls_cpu_columns size) {
  const moments_work work = {.sums = sums,
                             .products = squares,
                             .x = x,
                             .center = center,
                             .size = size};
  EACH_GROUP(moments_of_group, &work, size.columns);
}

LS_INLINE void add_gradient_moments(const moments_work *w, size_t j,
                                    const size_t vectors, const size_t lanes,
                                    const bool relu) {
  VEC mean[GROUP], factor[GROUP], shift[GROUP], sums[GROUP], products[GROUP];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    const size_t at = j + v * LANES;
    mean[v] = load_columns(w->norm->mean, at, LANES_OF(v));
    if (relu) {
      factor[v] = load_columns(w->norm->factor, at, LANES_OF(v));
      shift[v] = load_columns(w->norm->shift, at, LANES_OF(v));
    }
    sums[v] = products[v] = V(zero)();
  }
  const ELEM *x = w->x + j, *dy = w->dy + j;
  for (size_t i = w->size.rows; i > 0; --i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      const VEC at = load_lanes(x + v * LANES, LANES_OF(v));
      VEC d = load_lanes(dy + v * LANES, LANES_OF(v));
      if (relu) d = V(where_positive)(d, V(fma)(at, factor[v], shift[v]));
      sums[v] = V(add)(sums[v], d);
      products[v] = V(fma)(d, V(sub)(at, mean[v]), products[v]);
    }
    x += w->size.pitch;
    dy += w->size.pitch;
  }
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    add_wide(w->sums + j + v * LANES, sums[v], LANES_OF(v));
    add_wide(w->products + j + v * LANES, products[v], LANES_OF(v));
  }
}

LS_EXPAND void gradient_moments_of_group(const moments_work *w, size_t j,
                                         const size_t vectors,
                                         const size_t lanes) {
  if (w->norm->relu) {
    add_gradient_moments(w, j, vectors, lanes, true);
  } else {
    add_gradient_moments(w, j, vectors, lanes, false);
  }
}

static void gradient_moments(double *sums, double *products, const void *dy,
                             const void *x, const ls_cpu_batch_norm *norm,
                             ls_cpu_columns size) {
  const moments_work work = {.sums = sums,
                             .products = products,
                             .dy = dy,
                             .x = x,
                             .norm = norm,
                             .size = size};
  EACH_GROUP(gradient_moments_of_group, &work, size.columns);
}

// ---- Columns ---------------------------------------------------------------
typedef struct {
  ELEM *dst;
  const ELEM *dy, *x;
  const ls_cpu_batch_norm *norm;
  ls_cpu_columns size;
} columns_work;

LS_EXPAND void normalize_group(const columns_work *w, size_t j,
                               const size_t vectors, const size_t lanes) {
  VEC factor[GROUP], shift[GROUP];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    const size_t at = j + v * LANES;
    factor[v] = load_columns(w->norm->factor, at, LANES_OF(v));
    shift[v] = load_columns(w->norm->shift, at, LANES_OF(v));
  }
  const bool relu = w->norm->relu;
  const ELEM *x = w->x + j;
  ELEM *dst = w->dst + j;
  for (size_t i = w->size.rows; i > 0; --i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      const VEC at = load_lanes(x + v * LANES, LANES_OF(v));
      VEC y = V(fma)(at, factor[v], shift[v]);
      if (relu) y = V(max)(V(zero)(), y);
      store_lanes(dst + v * LANES, LANES_OF(v), y);
    }
    x += w->size.pitch;
    dst += w->size.pitch;
  }
}

static void normalize_columns(void *dst, const void *x,
                              const ls_cpu_batch_norm *norm,
                              ls_cpu_columns size) {
  const columns_work work = {.dst = dst, .x = x, .norm = norm, .size = size};
  EACH_GROUP(normalize_group, &work, size.columns);
}

LS_INLINE void gradient_columns(const columns_work *w, size_t j,
                                const size_t vectors, const size_t lanes,
                                const bool relu) {
  VEC mean[GROUP], factor[GROUP], slope[GROUP], base[GROUP], shift[GROUP];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v) {
    const size_t at = j + v * LANES;
    mean[v] = load_columns(w->norm->mean, at, LANES_OF(v));
    factor[v] = load_columns(w->norm->factor, at, LANES_OF(v));
    slope[v] = load_columns(w->norm->slope, at, LANES_OF(v));
    base[v] = load_columns(w->norm->base, at, LANES_OF(v));
    if (relu) shift[v] = load_columns(w->norm->shift, at, LANES_OF(v));
  }
  const ELEM *x = w->x + j, *dy = w->dy + j;
  ELEM *dst = w->dst + j;
  for (size_t i = w->size.rows; i > 0; --i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      const VEC at = load_lanes(x + v * LANES, LANES_OF(v));
      VEC d = load_lanes(dy + v * LANES, LANES_OF(v));
      if (relu) d = V(where_positive)(d, V(fma)(at, factor[v], shift[v]));
      const VEC rest = V(fma)(V(sub)(at, mean[v]), slope[v], base[v]);
      store_lanes(dst + v * LANES, LANES_OF(v), V(fma)(d, factor[v], rest));
    }
    x += w->size.pitch;
    dy += w->size.pitch;
    dst += w->size.pitch;
  }
}

LS_EXPAND void gradient_of_group(const columns_work *w, size_t j,
                                 const size_t vectors, const size_t lanes) {
  if (w->norm->relu) {
    gradient_columns(w, j, vectors, lanes, true);
  } else {
    gradient_columns(w, j, vectors, lanes, false);
  }
}

static void differentiate_columns(void *dst, const void *dy, const void *x,
                                  const ls_cpu_batch_norm *norm,
                                  ls_cpu_columns size) {
  const columns_work work = {
      .dst = dst, .dy = dy, .x = x, .norm = norm, .size = size};
  EACH_GROUP(gradient_of_group, &work, size.columns);
}

// ---- Rows ------------------------------------------------------------------
// The gradients of up to ROWS rows are computed together, so that no row waits
// for the sums of another one, and the sums of columns are stored once.
#define ROWS GROUP

typedef struct {
  VEC mean, inverse;  // 1 / sqrt(variance + epsilon)
} row_moments;

// Prefetches the rows after those that are read together: more streams than the
// processor prefetches by itself.
LS_INLINE void fetch_next(const ELEM *row, size_t n, const size_t rows) {
  if (rows > 1) __builtin_prefetch(row + rows * n, 0, 2);
}

LS_INLINE void sum_at(VEC *sums, const ELEM *x, size_t n, const size_t rows,
                      size_t j, size_t lanes) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    sums[i] = V(add)(sums[i], load_lanes(x + i * n + j, lanes));
}

LS_INLINE void sum_squares_at(VEC *sums, const row_moments *moments,
                              const ELEM *x, size_t n, const size_t rows,
                              size_t j, size_t lanes) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const ELEM *at = x + i * n + j;
    fetch_next(at, n, rows);
    VEC t = V(sub)(load_lanes(at, lanes), moments[i].mean);
    if (lanes < LANES) t = V(first_n)(lanes, t, V(zero)());
    sums[i] = V(fma)(t, t, sums[i]);
  }
}

LS_INLINE void measure_rows(row_moments *moments, const ELEM *x, size_t n,
                            const size_t rows, const ls_cpu_row_norm *norm) {
  VEC sums[ROWS], squares[ROWS];
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    sums[i] = squares[i] = V(zero)();
  size_t j = 0;
  if (norm->centred) {
    for (; j + LANES <= n; j += LANES)
      sum_at(sums, x, n, rows, j, LANES);
    if (j < n) sum_at(sums, x, n, rows, j, n - j);
  }
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const ELEM mean = norm->centred ? V(sum)(sums[i]) / (ELEM)n : (ELEM)0;
    moments[i].mean = V(set1)(mean);
  }
  for (j = 0; j + LANES <= n; j += LANES)
    sum_squares_at(squares, moments, x, n, rows, j, LANES);
  if (j < n) sum_squares_at(squares, moments, x, n, rows, j, n - j);
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const double variance = (double)V(sum)(squares[i]) / (double)n;
    const ELEM inverse = (ELEM)(1.0 / sqrt(variance + norm->epsilon));
    moments[i].inverse = V(set1)(inverse);
  }
}

LS_INLINE void normalize_at(ELEM *y, const ELEM *x, size_t j, size_t lanes,
                            row_moments row, const ls_cpu_row_norm *norm) {
  const VEC t = V(sub)(load_lanes(x + j, lanes), row.mean);
  const VEC r = V(mul)(t, row.inverse);
  const VEC scale = load_columns(norm->scale, j, lanes);
  store_lanes(y + j, lanes,
              norm->offset == NULL
                  ? V(mul)(r, scale)
                  : V(fma)(r, scale, load_columns(norm->offset, j, lanes)));
}

// Rows of one element that are computed together.
#define SINGLES ((size_t)128)

// Computes r and the inverse of `rows` rows of one element.
LS_INLINE void measure_singles(ELEM *r, ELEM *inverse, const ELEM *x,
                               size_t rows, const ls_cpu_row_norm *norm) {
  const bool centred = norm->centred;
  const double epsilon = norm->epsilon;
  for (size_t i = 0; i < rows; ++i) {
    const ELEM t = x[i] - (centred ? (ELEM)0 + x[i] : (ELEM)0);
    inverse[i] = (ELEM)(1.0 / sqrt((double)(t * t) + epsilon));
    r[i] = t * inverse[i];
  }
}

static void normalize_singles(ELEM *y, const ELEM *x, size_t rows,
                              const ls_cpu_row_norm *norm) {
  const ELEM scale = *(const ELEM *)norm->scale, *offset = norm->offset;
  for (size_t n = 0; rows > 0; rows -= n, x += n, y += n) {
    ELEM r[SINGLES], inverse[SINGLES];
    n = rows < SINGLES ? rows : SINGLES;
    measure_singles(r, inverse, x, n, norm);
    for (size_t i = 0; i < n; ++i)
      y[i] = offset == NULL ? r[i] * scale : FMA(r[i], scale, *offset);
  }
}

static void normalize_rows(void *dst, const void *src,
                           const ls_cpu_row_norm *norm, size_t rows,
                           size_t columns) {
  const ELEM *x = src;
  ELEM *y = dst;
  if (columns == 1) {
    normalize_singles(y, x, rows, norm);
    return;
  }
  for (; rows > 0; --rows, x += columns, y += columns) {
    row_moments row;
    measure_rows(&row, x, columns, 1, norm);
    size_t j = 0;
    for (; j + LANES <= columns; j += LANES)
      normalize_at(y, x, j, LANES, row, norm);
    if (j < columns) normalize_at(y, x, j, columns - j, row, norm);
  }
}

typedef struct {
  ELEM *dx, *y, *dscale, *doffset;
  const ELEM *dy, *x;
  const ls_cpu_row_norm *norm;
  size_t columns;
} rows_work;

// Values that determine a row's dx: the means of g = dy scale and of g r.
typedef struct {
  VEC mean, inverse, sum, product;
} row_slope;

// Adds some columns of the rows to all sums. In absent lanes dy and r are 0.
LS_INLINE void sum_gradient_at(const rows_work *w, row_slope *slopes,
                               const size_t rows, size_t j, size_t lanes) {
  const VEC scale = load_columns(w->norm->scale, j, lanes);
  VEC dscale = load_lanes(w->dscale + j, lanes), doffset = V(zero)();
  if (w->doffset != NULL) doffset = load_lanes(w->doffset + j, lanes);
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const VEC x = load_lanes(w->x + i * w->columns + j, lanes);
    const ELEM *from = w->dy + i * w->columns + j;
    fetch_next(from, w->columns, rows);
    const VEC dy = load_lanes(from, lanes);
    VEC r = V(mul)(V(sub)(x, slopes[i].mean), slopes[i].inverse);
    if (lanes < LANES) r = V(first_n)(lanes, r, V(zero)());
    const VEC g = V(mul)(dy, scale);
    slopes[i].sum = V(add)(slopes[i].sum, g);
    slopes[i].product = V(fma)(g, r, slopes[i].product);
    dscale = V(fma)(dy, r, dscale);
    doffset = V(add)(doffset, dy);
  }
  store_lanes(w->dscale + j, lanes, dscale);
  if (w->doffset != NULL) store_lanes(w->doffset + j, lanes, doffset);
}

// Computes dx = (g - mean(g) - r mean(g r)) inverse, and y like normalize_at.
LS_INLINE void gradient_at(const rows_work *w, const row_slope *slopes,
                           const size_t rows, size_t j, size_t lanes) {
  const VEC scale = load_columns(w->norm->scale, j, lanes);
  VEC offset = V(zero)();
  if (w->y != NULL) offset = load_columns(w->norm->offset, j, lanes);
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const VEC x = load_lanes(w->x + i * w->columns + j, lanes);
    const VEC dy = load_lanes(w->dy + i * w->columns + j, lanes);
    const VEC r = V(mul)(V(sub)(x, slopes[i].mean), slopes[i].inverse);
    const VEC g = V(sub)(V(mul)(dy, scale), slopes[i].sum);
    const VEC rest = V(sub)(g, V(mul)(r, slopes[i].product));
    store_lanes(w->dx + i * w->columns + j, lanes,
                V(mul)(rest, slopes[i].inverse));
    if (w->y != NULL)
      store_lanes(w->y + i * w->columns + j, lanes, V(fma)(r, scale, offset));
  }
}

LS_EXPAND void gradient_of_some(const rows_work *w, const size_t rows) {
  const size_t columns = w->columns;
  row_moments moments[ROWS];
  measure_rows(moments, w->x, columns, rows, w->norm);
  row_slope slopes[ROWS];
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    slopes[i] = (row_slope){.mean = moments[i].mean,
                            .inverse = moments[i].inverse,
                            .sum = V(zero)(),
                            .product = V(zero)()};
  size_t j = 0;
  for (; j + LANES <= columns; j += LANES)
    sum_gradient_at(w, slopes, rows, j, LANES);
  if (j < columns) sum_gradient_at(w, slopes, rows, j, columns - j);
  const ELEM count = (ELEM)columns;
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    const ELEM mean =
        w->norm->centred ? V(sum)(slopes[i].sum) / count : (ELEM)0;
    slopes[i].sum = V(set1)(mean);
    slopes[i].product = V(set1)(V(sum)(slopes[i].product) / count);
  }
  for (j = 0; j + LANES <= columns; j += LANES)
    gradient_at(w, slopes, rows, j, LANES);
  if (j < columns) gradient_at(w, slopes, rows, j, columns - j);
}

// Computes `rows` rows of one element, at most SINGLES.
LS_INLINE void gradient_of_singles(const rows_work *w, size_t rows) {
  const ls_cpu_row_norm *norm = w->norm;
  const ELEM scale = *(const ELEM *)norm->scale, *offset = norm->offset;
  ELEM r[SINGLES], inverse[SINGLES];
  measure_singles(r, inverse, w->x, rows, norm);
  for (size_t i = 0; i < rows; ++i)
    *w->dscale = FMA(w->dy[i], r[i], *w->dscale);
  for (size_t i = 0; w->doffset != NULL && i < rows; ++i)
    *w->doffset += w->dy[i];
  const bool centred = norm->centred;
  for (size_t i = 0; i < rows; ++i) {
    const ELEM g = w->dy[i] * scale, product = (ELEM)0 + g * r[i];
    const ELEM mean = centred ? (ELEM)0 + g : (ELEM)0;
    w->dx[i] = (g - mean - r[i] * product) * inverse[i];
    if (w->y != NULL) w->y[i] = FMA(r[i], scale, *offset);
  }
}

static void gradient_rows(void *dst, void *y, void *dscale, void *doffset,
                          const void *dy, const void *x,
                          const ls_cpu_row_norm *norm, size_t rows,
                          size_t columns) {
  rows_work work = {.dx = dst,
                    .y = y,
                    .dscale = dscale,
                    .doffset = doffset,
                    .dy = dy,
                    .x = x,
                    .norm = norm,
                    .columns = columns};
  while (rows > 0) {
    const size_t most = columns == 1 ? SINGLES : rows >= ROWS ? ROWS : 1;
    const size_t count = rows < most ? rows : most;
    if (columns == 1) {
      gradient_of_singles(&work, count);
    } else if (count == ROWS) {
      gradient_of_some(&work, ROWS);
    } else {
      gradient_of_some(&work, 1);
    }
    work.dx += count * columns;
    if (y != NULL) work.y += count * columns;
    work.dy += count * columns;
    work.x += count * columns;
    rows -= count;
  }
}

// ---- Softmax ---------------------------------------------------------------
static void softmax_gradient(void *dst, const void *y, const void *dy,
                             size_t n) {
  const ELEM *p = y, *d = dy;
  VEC sums = V(zero)();
  size_t j = 0;
  for (; j + LANES <= n; j += LANES)
    sums = V(fma)(V(load)(p + j), V(load)(d + j), sums);
  if (j < n)
    sums = V(fma)(V(load_n)(p + j, n - j), V(load_n)(d + j, n - j), sums);
  const VEC sum = V(set1)(V(sum)(sums));
  ELEM *out = dst;
  for (j = 0; j + LANES <= n; j += LANES)
    V(store)(out + j, V(mul)(V(load)(p + j), V(sub)(V(load)(d + j), sum)));
  if (j < n) {
    const VEC rest = V(sub)(V(load_n)(d + j, n - j), sum);
    V(store_n)(out + j, n - j, V(mul)(V(load_n)(p + j, n - j), rest));
  }
}

static void scale_row(void *dst, const void *x, double factor, size_t n) {
  const VEC factors = V(set1)((ELEM)factor);
  const ELEM *from = x;
  ELEM *target = dst;
  size_t j = 0;
  for (; j + LANES <= n; j += LANES)
    V(store)(target + j, V(mul)(V(load)(from + j), factors));
  if (j < n)
    V(store_n)(target + j, n - j, V(mul)(V(load_n)(from + j, n - j), factors));
}

const ls_cpu_norms TABLE = {
    .moments = compute_moments,
    .gradient_moments = gradient_moments,
    .normalize = normalize_columns,
    .gradient = differentiate_columns,
    .normalize_rows = normalize_rows,
    .gradient_rows = gradient_rows,
    .softmax_gradient = softmax_gradient,
    .scale = scale_row,
};
