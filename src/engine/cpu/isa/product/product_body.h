// SPDX-License-Identifier: Apache-2.0
//
// The product of ls_cpu_product for one element type: a template, included by
// product_f32.c, product_f64.c and product_bf16.c.
//
// It needs ELEM (the type), VEC and LANES (its vector), V(op) (the operation's
// name), PRODUCT and PRODUCT_SCRATCH (the functions' names), and TURN, a
// function
//   (dst, width, src, stride, k, columns):
//     dst[p * width + j] = src[j * stride + p] for p < k, j < columns.
//
// Tiles may compute with pairs of values that follow one another along k, in an
// element, which copies make. Then PAIRED is defined; everything is copied, by
// TURN and by COPY, which makes pairs of src[p * stride + j]; both count k in
// values, p in elements. MULTIPLY_ADD is what a pair of A and one of B add to a
// chain.
//
// The innermost loop, a tile, holds a few rows by one or two vectors of C in
// registers while it runs over k. Around it everything is cut to fit the second
// cache: k into blocks of K_BLOCK (a tile's chain goes on from C or, if C is
// added to, from scratch), rows into blocks of M_BLOCK, columns into groups of
// GROUP and these into panels of a tile's width. Panels of B that are stored
// transposed, or in few sets of the caches, are copied so that tiles read them
// in order; so are strips of A that many columns use, unless A is transposed in
// many sets. No cut touches the order of any output's chain. What comes next,
// tiles fetch into the second cache, a line for each value of k.
#include <string.h>

#include "engine/cpu/isa/product/product_tile.h"

#ifdef PAIRED
#define VALUES ((size_t)2)  // Values of k in an element that tiles read.
#else
#define VALUES ((size_t)1)
#define MULTIPLY_ADD V(fma)
#define COPY copy_panel
#endif

#define PANEL ((size_t)LS_TILE_VECTORS * LANES)
#define K_BLOCK ((size_t)256)
#define M_BLOCK ((size_t)516)
#define GROUP ((size_t)256)
#define TURNED_K ((size_t)8)
#define TURNED_STRIP ((size_t)96)  // Rows: whole lines of the cache.
#define N_BLOCK ((size_t)1024)     // Bounds the scratch for chains.

// Least numbers of uses for which a copy pays, measured on Zen 4. If A is
// stored transposed, its rows are adjacent for a tile, and the copy pays only
// if all values of k are in few sets of the caches.
#define PACK_A_COLUMNS ((size_t)256)
#define PACK_TURNED_A_COLUMNS ((size_t)128)
#define PACK_B_ROWS ((size_t)48)

#define LINE ((size_t)64)  // Bytes of a cache's line.

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

// Operations after the chain.
typedef struct {
  const ELEM *bias;  // Bias of the tile's first column, or NULL.
  bool relu;
  bool accumulate;
} epilogue;

// Lines to prefetch, row after row.
typedef struct {
  const char *at;    // The next line,
  size_t left;       // ... and the lines of its row from there on.
  size_t lines;      // Lines of a row.
  ptrdiff_t skip;    // Bytes from the end of a row's lines to the next row.
  ptrdiff_t in_all;  // Total number of lines left.
} walk;

// One tile's work.
typedef struct {
  const ELEM *a, *b;
  size_t a_stride;  // Between rows of A as stored (or packed).
  size_t b_stride;  // Between values of k.
  size_t k;
  // Values of k in the first line of A, and in the others.
  size_t k_first, k_line;
  ptrdiff_t k_skip;  // Elements between lines.
  const ELEM *in;    // Values of the chains before this block; NULL: all +0.
  size_t in_stride;
  ELEM *out;
  size_t out_stride;
  walk *ahead;          // Lines to prefetch, for tiles that look ahead.
  size_t lanes;         // Columns of the last vector.
  const epilogue *end;  // NULL: `out` takes the chains unchanged.
} tile_work;

typedef void tile_fn(const tile_work *work);

LS_INLINE VEC load_part(const ELEM *p, bool partial, size_t lanes) {
  return partial ? V(load_n)(p, lanes) : V(load)(p);
}

LS_INLINE void store_part(ELEM *p, bool partial, size_t lanes, VEC v) {
  if (partial) {
    V(store_n)(p, lanes, v);
  } else {
    V(store)(p, v);
  }
}

LS_INLINE void fetch_line(walk *w) {
  __builtin_prefetch(w->at, 0, 2);
  w->at += LINE;
  if (--w->left == 0) {
    w->at += w->skip;
    w->left = w->lines;
  }
}

// Prefetches a tile's outputs while it is computed: stores that wait for their
// lines would delay those of the next copy.
LS_INLINE void fetch_outputs(const tile_work *work, const size_t rows,
                             const size_t vectors) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      __builtin_prefetch(work->out + i * work->out_stride + v * LANES, 1, 2);
  }
}

// Loads the chains of a tile.
LS_INLINE void begin_tile(const tile_work *work, const size_t rows,
                          const size_t vectors, const bool masked, size_t lanes,
                          VEC acc[LS_TILE_ROWS][LS_TILE_VECTORS]) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      acc[i][v] = V(zero)();
      if (work->in != NULL) {
        acc[i][v] = load_part(work->in + i * work->in_stride + v * LANES,
                              masked && v + 1 == vectors, lanes);
      }
    }
  }
}

// Ends the chains of a tile and stores them.
LS_INLINE void end_tile(const tile_work *work, const size_t rows,
                        const size_t vectors, const bool masked, size_t lanes,
                        VEC acc[LS_TILE_ROWS][LS_TILE_VECTORS]) {
  const epilogue *end = work->end;
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      const bool partial = masked && v + 1 == vectors;
      ELEM *out = work->out + i * work->out_stride + v * LANES;
      VEC x = acc[i][v];
      if (end != NULL) {
        if (end->bias != NULL) {
          x = V(add)(x, load_part(end->bias + v * LANES, partial, lanes));
        }
        if (end->relu) x = V(max)(V(zero)(), x);
        if (end->accumulate) x = V(add)(load_part(out, partial, lanes), x);
      }
      store_part(out, partial, lanes, x);
    }
  }
}

// Runs one tile. Everything but `work` is a constant at every expansion.
LS_EXPAND void run_tile(const tile_work *work, const size_t rows,
                        const size_t vectors, const bool a_transposed,
                        const bool masked, const bool looks_ahead) {
  const size_t lanes = work->lanes;
  if (a_transposed) fetch_outputs(work, rows, vectors);
  VEC acc[LS_TILE_ROWS][LS_TILE_VECTORS];
  begin_tile(work, rows, vectors, masked, lanes, acc);

  const ELEM *a = work->a;
  const ELEM *b = work->b;
  walk ahead = looks_ahead ? *work->ahead : (walk){0};
  const size_t a_stride = work->a_stride, b_stride = work->b_stride;
  size_t line = work->k_first;
  for (size_t left = work->k; left > 0; left -= line, a += work->k_skip) {
    if (left < work->k) line = work->k_line;
    if (line > left) line = left;
    for (size_t p = line; p > 0; --p) {
      VEC row[LS_TILE_VECTORS];
      LS_UNROLL
      for (size_t v = 0; v < vectors; ++v) {
        row[v] = load_part(b + v * LANES, masked && v + 1 == vectors, lanes);
      }
      LS_UNROLL
      for (size_t i = 0; i < rows; ++i) {
        const VEC x = V(set1)(a_transposed ? a[i] : a[i * a_stride]);
        LS_UNROLL
        for (size_t v = 0; v < vectors; ++v) {
          acc[i][v] = MULTIPLY_ADD(x, row[v], acc[i][v]);
        }
      }
      if (looks_ahead) {
        LS_UNROLL
        for (size_t i = 0; i < VALUES; ++i)
          fetch_line(&ahead);
      }
      a += a_transposed ? a_stride : 1;
      b += b_stride;
    }
  }

  if (looks_ahead) *work->ahead = ahead;
  end_tile(work, rows, vectors, masked, lanes, acc);
}

#ifdef HALF
// As run_tile with few columns, in vectors of half as many lanes.
LS_EXPAND void run_half(const tile_work *work, const size_t rows,
                        const bool a_transposed) {
  const size_t lanes = work->lanes, a_stride = work->a_stride;
  VEC acc[LS_TILE_ROWS][LS_TILE_VECTORS];
  HALF sum[LS_TILE_ROWS];
  begin_tile(work, rows, 1, true, lanes, acc);
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    sum[i] = vf_half(acc[i][0]);
  const ELEM *a = work->a, *b = work->b;
  size_t line = work->k_first;
  for (size_t left = work->k; left > 0; left -= line, a += work->k_skip) {
    if (left < work->k) line = work->k_line;
    if (line > left) line = left;
    for (size_t p = line; p > 0; --p) {
      const HALF row = vh_load_n(b, lanes);
      LS_UNROLL
      for (size_t i = 0; i < rows; ++i)
        sum[i] = _mm256_fmadd_ps(
            _mm256_set1_ps(a_transposed ? a[i] : a[i * a_stride]), row, sum[i]);
      a += a_transposed ? a_stride : 1;
      b += work->b_stride;
    }
  }
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i)
    acc[i][0] = vf_of_half(sum[i]);
  end_tile(work, rows, 1, true, lanes, acc);
}
#define HALF_COLUMNS (LANES / 2)
#else
#define HALF_COLUMNS ((size_t)0)
#define run_half(work, rows, a_transposed) (void)(work)
#endif

// Tiles for a number of rows: full width, full width with a masked last vector,
// one masked vector, one of half as many lanes; A as stored or transposed.
#define LS_TILE_FUNCTIONS(rows)                                                \
  static void full_##rows(const tile_work *w) {                                \
    run_tile(w, rows, LS_TILE_VECTORS, false, false, false);                   \
  }                                                                            \
  static void full_turned_##rows(const tile_work *w) {                         \
    run_tile(w, rows, LS_TILE_VECTORS, true, false, false);                    \
  }                                                                            \
  static void masked_##rows(const tile_work *w) {                              \
    run_tile(w, rows, LS_TILE_VECTORS, false, true, false);                    \
  }                                                                            \
  static void masked_turned_##rows(const tile_work *w) {                       \
    run_tile(w, rows, LS_TILE_VECTORS, true, true, false);                     \
  }                                                                            \
  static void narrow_##rows(const tile_work *w) {                              \
    run_tile(w, rows, 1, false, true, false);                                  \
  }                                                                            \
  static void narrow_turned_##rows(const tile_work *w) {                       \
    run_tile(w, rows, 1, true, true, false);                                   \
  }                                                                            \
  static void half_##rows(const tile_work *w) { run_half(w, rows, false); }    \
  static void half_turned_##rows(const tile_work *w) {                         \
    run_half(w, rows, true);                                                   \
  }
LS_TILE_EACH_ROWS(LS_TILE_FUNCTIONS)
#undef LS_TILE_FUNCTIONS

static void full_ahead(const tile_work *w) {
  run_tile(w, LS_TILE_ROWS, LS_TILE_VECTORS, false, false, true);
}
static void full_turned_ahead(const tile_work *w) {
  run_tile(w, LS_TILE_ROWS, LS_TILE_VECTORS, true, false, true);
}

typedef struct {
  size_t rows;
  tile_fn *full[2], *masked[2], *narrow[2], *half[2];  // [A transposed]
} tile_size;

static const tile_size tile_sizes[] = {
#define LS_TILE_ROW(rows)                                                      \
  {rows,                                                                       \
   {full_##rows, full_turned_##rows},                                          \
   {masked_##rows, masked_turned_##rows},                                      \
   {narrow_##rows, narrow_turned_##rows},                                      \
   {half_##rows, half_turned_##rows}},
    LS_TILE_EACH_ROWS(LS_TILE_ROW)
#undef LS_TILE_ROW
};

#ifndef PAIRED
LS_INLINE void copy_rows(ELEM *dst, const size_t width, const ELEM *src,
                         size_t stride, size_t k, const size_t columns) {
  for (size_t p = 0; p < k; ++p)
    memcpy(dst + p * width, src + p * stride, columns * sizeof(ELEM));
}

// Copies: dst[p * width + j] = src[p * stride + j] for p < k, j < columns.
static void copy_panel(ELEM *dst, size_t width, const ELEM *src, size_t stride,
                       size_t k, size_t columns) {
  // A constant size needs no call.
  if (columns == PANEL && width == PANEL)
    copy_rows(dst, PANEL, src, stride, k, PANEL);
  else if (columns == LS_TILE_ROWS && width == LS_TILE_ROWS)
    copy_rows(dst, LS_TILE_ROWS, src, stride, k, LS_TILE_ROWS);
  else
    copy_rows(dst, width, src, stride, k, columns);
}
#endif

// One block of rows, columns and k, counted in the tiles' elements, and the
// parts of the call's scratch.
typedef struct {
  const ls_cpu_product *product;
  const ls_cpu_block *block;  // The call's block.
  size_t m0, m1, n0, n1, k0, k1;
  walk ahead[2];  // Next lines of A and of B.
  bool packs_a, packs_b;
  size_t strip, strip_end;  // Rows of the current strip of A.
  ELEM *a;  // This block of A, tile row by tile row; in one group, a strip.
  ELEM *b;  // One group of B, panel after panel.
  ELEM *chains;  // This block's outputs so far, if C cannot hold them.
} step;

static size_t count_elements(size_t k) { return (k + VALUES - 1) / VALUES; }

// Gives `s` its parts of `scratch`, unless NULL. Returns their size in bytes.
static size_t divide_scratch(step *s, ELEM *scratch) {
  const ls_cpu_product *p = s->product;
  const size_t k = min_size(count_elements(p->k), K_BLOCK);
  const size_t m = min_size(p->m, M_BLOCK);
  const size_t panels = (min_size(p->n, GROUP) + PANEL - 1) / PANEL;
  const size_t b_size = k * panels * PANEL;
  const size_t a_size = k * (p->n <= GROUP ? min_size(m, TURNED_STRIP) : m);
  const bool keeps_chains = p->accumulate && count_elements(p->k) > K_BLOCK;
  const size_t chains_size = keeps_chains ? m * min_size(p->n, N_BLOCK) : 0;
  if (scratch != NULL) {
    s->b = scratch;
    s->a = scratch + b_size;
    s->chains = scratch + b_size + a_size;
  }
  return (b_size + a_size + chains_size) * sizeof(ELEM);
}

// Returns the product of the transposed matrices: a row in place of a column.
static ls_cpu_product transpose_column(const ls_cpu_product *p) {
  return (ls_cpu_product){.m = 1,
                          .n = p->m,
                          .k = p->k,
                          .a = p->b,
                          .b = p->a,
                          .c = p->c,
                          .lda = p->k,
                          .ldb = p->lda,
                          .ldc = p->m,
                          .activation = p->activation,
                          .accumulate = p->accumulate,
                          .continues = p->continues};
}

// Returns true if that has the same matrices in memory, and its tiles read A's
// rows of values of k as vectors.
static bool is_column(const ls_cpu_product *p) {
  return VALUES == 1 && p->n == 1 && p->a_transposed &&
         (p->b_transposed || p->ldb == 1) && p->ldc == 1 && p->m_line == 0 &&
         p->k_line == 0 && p->bias == NULL;
}

size_t PRODUCT_SCRATCH(const ls_cpu_product *product) {
  const size_t bytes = divide_scratch(&(step){.product = product}, NULL);
  if (VALUES > 1 || product->n != 1) return bytes;
  const ls_cpu_product row = transpose_column(product);
  const size_t more = divide_scratch(&(step){.product = &row}, NULL);
  return more > bytes ? more : bytes;
}

// Returns the address of row m of A at value k.
static const ELEM *a_at(const step *s, size_t m, size_t k) {
  const ls_cpu_product *p = s->product;
  const ELEM *a = p->a;
  a += p->a_transposed ? k * p->lda + m : m * p->lda + k;
  if (p->m_line > 0) a += (ptrdiff_t)(m / p->m_line) * p->m_skip;
  if (p->k_line > 0) a += (ptrdiff_t)(k / p->k_line) * p->k_skip;
  return a;
}

// Returns the end of the line of rows or of values of k that contains `at`, at
// most `end`.
static size_t line_end(size_t line, size_t at, size_t end) {
  return line > 0 ? min_size(end, (at / line + 1) * line) : end;
}

static const ELEM *b_at(const step *s, size_t n) {
  const ls_cpu_product *p = s->product;
  const ELEM *b = p->b;
  const size_t k = s->k0 * VALUES;
  return p->b_transposed ? b + n * p->ldb + k : b + k * p->ldb + n;
}

// Returns the tile size at row m: as many rows as there are on one line.
static const tile_size *tile_at(const step *s, size_t m) {
  const size_t rows = line_end(s->product->m_line, m, s->m1) - m;
  const tile_size *size = tile_sizes;
  while (size->rows > rows)
    ++size;
  return size;
}

// Returns the end of the strip that begins at row m, after a fixed number of
// tile rows.
static size_t strip_end_at(const step *s, size_t m) {
  const size_t end =
      m + (s->product->a_transposed ? TURNED_STRIP : LS_TILE_ROWS);
  do
    m += tile_at(s, m)->rows;
  while (m < s->m1 && m + LS_TILE_ROWS <= end);
  return m;
}

// Returns the copy of the tile row at row m.
static ELEM *a_copy(const step *s, size_t m) {
  const bool is_one_group = s->n1 - s->n0 <= GROUP;
  return s->a + (m - (is_one_group ? s->strip : s->m0)) * (s->k1 - s->k0);
}

// Copies few values of k at a time if A is stored transposed: each value uses a
// page, and a way of the first cache.
static void pack_a_strip(const step *s) {
  const ls_cpu_product *product = s->product;
  const size_t end = min_size(s->k1 * VALUES, product->k);
  for (size_t k0 = s->k0 * VALUES, k1; k0 < end; k0 = k1) {
    k1 = line_end(product->k_line, k0, end);
    if (product->a_transposed) k1 = min_size(k1, k0 + TURNED_K);
    for (size_t m = s->strip, rows; m < s->strip_end; m += rows) {
      rows = tile_at(s, m)->rows;
      (product->a_transposed ? COPY : TURN)(
          a_copy(s, m) + (k0 / VALUES - s->k0) * rows, rows, a_at(s, m, k0),
          product->lda, k1 - k0, rows);
    }
  }
}

// Copies the panels of the columns [n0, n1). Missing columns of the last panel
// stay unset: tiles mask them.
static void pack_b_group(const step *s, size_t n0, size_t n1) {
  const ls_cpu_product *p = s->product;
  const size_t k = s->k1 - s->k0;
  const size_t values = min_size(s->k1 * VALUES, p->k) - s->k0 * VALUES;
  for (size_t n = n0; n < n1; n += PANEL)
    (p->b_transposed ? TURN : COPY)(s->b + (n - n0) * k, PANEL, b_at(s, n),
                                    p->ldb, values, min_size(PANEL, n1 - n));
}

#include "engine/cpu/isa/product/product_ahead.h"

// Returns the number of columns of the tile at column n: those of a panel, of
// which a vector and at most a half of one are two tiles.
static size_t columns_at(size_t n0, size_t n, size_t n1) {
  const size_t columns = min_size(PANEL - (n - n0) % PANEL, n1 - n);
  return columns > LANES && columns <= LANES + HALF_COLUMNS ? LANES : columns;
}

// Runs the tiles of one tile row, at row m, in the columns [n0, n1) of a group.
static void run_row(step *s, const tile_size *size, size_t m, size_t n0,
                    size_t n1) {
  const ls_cpu_product *p = s->product;
  const size_t k = s->k1 - s->k0;
  const bool is_first = s->k0 == 0, is_last = s->k1 == count_elements(p->k);
  const bool turned = p->a_transposed || s->packs_a;
  epilogue end = {
      .relu = p->activation == LS_CPU_ACTIVATION_RELU,
      .accumulate = p->accumulate,
  };
  ELEM *c = (ELEM *)p->c + m * p->ldc + n0;
  ELEM *chains = c;
  size_t chains_stride = p->ldc;
  if (p->accumulate && !(is_first && is_last)) {
    chains_stride = s->n1 - s->n0;
    chains = s->chains + (m - s->m0) * chains_stride + (n0 - s->n0);
  }
  // A and B may be NULL if there is nothing to multiply.
  tile_work work = {
      .a = s->packs_a ? a_copy(s, m)
           : k > 0    ? a_at(s, m, s->k0 * VALUES)
                      : NULL,
      .a_stride = s->packs_a ? size->rows : p->lda,
      .b_stride = s->packs_b ? PANEL : p->ldb,
      .k = k,
      .k_first = k,
      .in_stride = chains_stride,
      .out_stride = is_last ? p->ldc : chains_stride,
      .end = is_last ? &end : NULL,
  };
  if (p->k_line > 0 && !s->packs_a) {
    work.k_first = line_end(p->k_line, s->k0, s->k1) - s->k0;
    work.k_line = p->k_line;
    work.k_skip = p->k_skip;
  }
  for (size_t n = n0, columns; n < n1; n += columns) {
    columns = columns_at(n0, n, n1);
    const bool is_narrow = columns <= LANES;
    tile_fn *const *tiles = columns == PANEL          ? size->full
                            : columns <= HALF_COLUMNS ? size->half
                            : is_narrow               ? size->narrow
                                                      : size->masked;
    work.lanes = columns - (is_narrow ? 0 : PANEL - LANES);
    const size_t in_panel = (n - n0) % PANEL;
    work.b = s->packs_b ? s->b + (n - n0 - in_panel) * k + in_panel
             : k > 0    ? b_at(s, n)
                        : NULL;
    work.in = is_first && !p->continues ? NULL : chains + (n - n0);
    work.out = (is_last ? c : chains) + (n - n0);
    if (p->bias != NULL) end.bias = (const ELEM *)p->bias + n;
    const bool is_largest = columns == PANEL && size == tile_sizes;
    if (is_largest && take_ahead(s, &work))
      (turned ? full_turned_ahead : full_ahead)(&work);
    else
      tiles[turned](&work);
  }
}

// A strip of A is copied just before its first tiles.
static void run_step(step *s) {
  s->strip_end = s->m0;
  for (size_t n0 = s->n0; n0 < s->n1; n0 += GROUP) {
    const size_t n1 = min_size(s->n1, n0 + GROUP);
    if (s->packs_b) pack_b_group(s, n0, n1);
    look_ahead(s, n1);
    for (size_t m = s->m0; m < s->m1;) {
      if (m == s->strip_end) {
        s->strip = m;
        s->strip_end = strip_end_at(s, m);
        if (s->packs_a) pack_a_strip(s);
        look_ahead_a(s, n1);
      }
      const tile_size *size = tile_at(s, m);
      run_row(s, size, m, n0, n1);
      m += size->rows;
    }
  }
}

// Returns true if many tiles can read, in place, a matrix with a row for each
// value of k: rows are in many sets, and those of a panel are at least two
// lines, as narrower tiles would be too many.
static bool is_fit_in_place(size_t stride) {
  return PANEL * sizeof(ELEM) >= 2 * LINE &&
         stride * sizeof(ELEM) % LS_CPU_FEW_SETS != 0;
}

static bool packs_a(const ls_cpu_product *product, size_t columns) {
  if (VALUES > 1) return true;
  if (!product->a_transposed) return columns >= PACK_A_COLUMNS;
  return columns >= PACK_TURNED_A_COLUMNS && !is_fit_in_place(product->lda);
}

// Copies panels that do not begin with a line: tiles would read lines twice.
static bool packs_b(const ls_cpu_product *product, size_t rows) {
  if (VALUES > 1 || product->b_transposed) return true;
  const bool begins_lines = product->ldb * sizeof(ELEM) % LINE == 0;
  return rows >= PACK_B_ROWS && product->ldb > HALF_COLUMNS &&
         !(begins_lines && is_fit_in_place(product->ldb));
}

void PRODUCT(const ls_cpu_product *product, const ls_cpu_block *block,
             void *scratch) {
  if (is_column(product)) {
    const ls_cpu_product row = transpose_column(product);
    PRODUCT(&row, &(ls_cpu_block){block->n0, block->n1, block->m0, block->m1},
            scratch);
    return;
  }
  const size_t k = count_elements(product->k);
  step s = {
      .product = product,
      .block = block,
      .packs_a = packs_a(product, block->n1 - block->n0),
      .packs_b = packs_b(product, block->m1 - block->m0),
  };
  divide_scratch(&s, scratch);
  for (s.n0 = block->n0; s.n0 < block->n1; s.n0 = s.n1) {
    s.n1 = min_size(block->n1, s.n0 + N_BLOCK);
    for (s.m0 = block->m0; s.m0 < block->m1; s.m0 = s.m1) {
      s.m1 = min_size(block->m1, s.m0 + M_BLOCK);
      s.k0 = 0;
      do {  // Runs once even if k is 0, for the epilogue.
        s.k1 = min_size(k, s.k0 + K_BLOCK);
        run_step(&s);
        s.k0 = s.k1;
      } while (s.k0 < k);
    }
  }
}
