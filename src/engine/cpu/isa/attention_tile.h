// SPDX-License-Identifier: Apache-2.0
//
// The products of attention, of a head's rows by panels of columns: tiles of
// the sums that registers hold. While they run they prefetch rows of the next
// head.

#ifndef LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_
#define LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_

#include "engine/cpu/isa/product/product_tile.h"
#include "engine/cpu/kernels/attention/attention.h"

#define PANEL ((size_t)LS_TILE_VECTORS * VF_LANES)

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

// ---- Ahead -----------------------------------------------------------------
// Rows that the next head will read and write. Tiles prefetch them, a line for
// each value of k: otherwise copies and stores would wait for every line.
typedef struct {
  ls_cpu_head_rows rows;
  size_t count, columns;
} region;

typedef struct {
  region regions[7];
  size_t count, region, row, column;
} ahead;

#define LINE (64 / sizeof(float))

static void add_region(ahead *a, ls_cpu_head_rows rows, size_t count,
                       size_t columns) {
  if (rows.data != NULL && count * columns > 0)
    a->regions[a->count++] = (region){rows, count, columns};
}

static ahead ahead_of(const ls_cpu_head *head) {
  ahead a = {.count = 0};
  if (head == NULL) return a;
  add_region(&a, head->k, head->keys, head->depth);
  add_region(&a, head->v, head->keys, head->value_depth);
  add_region(&a, head->q, head->queries, head->depth);
  add_region(&a, head->out, head->queries, head->value_depth);
  add_region(&a, head->dq, head->queries, head->depth);
  add_region(&a, head->dk, head->keys, head->depth);
  add_region(&a, head->dv, head->keys, head->value_depth);
  return a;
}

// ---- Tiles -----------------------------------------------------------------
// Columns of B, PANEL by PANEL.
typedef struct {
  const float *data;
  size_t pitch;  // Floats from one value of k to the next,
  size_t next;   // and from one panel to the next.
} panels;

// C = A B factor; with `goes_on` chains continue from the values of C.
typedef struct {
  size_t rows, columns, k;
  const float *a;
  size_t a_pitch;
  panels b;
  float *c;
  size_t c_pitch;
  float factor;
  bool turned;  // A is stored transposed.
  // Each of A's last rows has one value less than the following row; the last
  // one has k. If A is stored transposed, its first rows do, from the other
  // end: row i begins at value i.
  bool triangle;
  bool goes_on;
  ahead *ahead;
} product;

typedef struct {
  size_t k;  // Values that all rows have.
  const float *a;
  size_t a_pitch;
  const float *b;
  size_t b_pitch;
  float *c;
  size_t c_pitch;
  size_t lanes;  // Columns of the last vector.
  float factor;
  bool triangle, goes_on;
  const float *next;   // Address to prefetch at the first value of k,
  size_t next_stride;  // and floats from there to the next one's.
} tile;

// Gives the tile rows to prefetch.
static void take_ahead(ahead *a, tile *t) {
  if (a->region == a->count) {
    t->next = t->a;
    t->next_stride = 0;
    return;
  }
  const region *r = &a->regions[a->region];
  t->next = r->rows.data + a->row * r->rows.pitch + a->column;
  t->next_stride = r->rows.pitch;
  a->row += t->k;
  if (a->row < r->count) return;
  a->row = 0;
  a->column += LINE;
  if (a->column < r->columns) return;
  a->column = 0;
  ++a->region;
}

LS_INLINE vf load_lanes(const float *p, size_t lanes) {
  return lanes == VF_LANES ? vf_load(p) : vf_load_n(p, lanes);
}

LS_INLINE void store_lanes(float *p, size_t lanes, vf v) {
  if (lanes == VF_LANES) {
    vf_store(p, v);
  } else {
    vf_store_n(p, lanes, v);
  }
}

LS_EXPAND void scale_tile(vf sum[][LS_TILE_VECTORS], const size_t rows,
                          const size_t vectors, float factor) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      sum[i][v] = vf_mul(sum[i][v], vf_set1(factor));
  }
}

// Stores the tile; `lanes` are those of the last vector.
LS_EXPAND void store_tile(const tile *t, vf sum[][LS_TILE_VECTORS],
                          const size_t rows, const size_t vectors,
                          const size_t lanes) {
  float *c = t->c;
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i, c += t->c_pitch) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      store_lanes(c + v * VF_LANES, v + 1 == vectors ? lanes : VF_LANES,
                  sum[i][v]);
  }
}

// Values of A at one k. Rows are addressed in threes, as an address can be a
// register plus once or twice another one: an offset per row would take more
// registers than there are. In a stored transpose all rows follow the first.
#define THREES (LS_TILE_ROWS / 3)
typedef struct {
  const float *three[THREES];
} values;

LS_EXPAND void next_values(values *a, size_t step) {
  LS_UNROLL
  for (size_t i = 0; i < THREES; ++i)
    a->three[i] = vf_fixed(a->three[i] + step);
}

// Adds one value of k to rows [begin, end) of the tile.
LS_EXPAND void add_value(const values *a, size_t pitch, const float *b,
                         vf sum[][LS_TILE_VECTORS], size_t begin, size_t end,
                         const size_t rows, const size_t vectors,
                         const bool turned) {
  vf row[LS_TILE_VECTORS];
  LS_UNROLL
  for (size_t v = 0; v < vectors; ++v)
    row[v] = vf_load(b + v * VF_LANES);
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    if (i < begin || i >= end) continue;
    const vf x =
        vf_set1(turned ? a->three[0][i] : a->three[i / 3][i % 3 * pitch]);
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      sum[i][v] = vf_fma(x, row[v], sum[i][v]);
  }
}

LS_EXPAND void load_tile(const tile *t, vf sum[][LS_TILE_VECTORS],
                         const size_t rows, const size_t vectors) {
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      sum[i][v] = load_lanes(t->c + i * t->c_pitch + v * VF_LANES,
                             v + 1 == vectors ? t->lanes : VF_LANES);
  }
}

// Runs one tile. Everything but `t` is a constant at every expansion.
LS_EXPAND void run_tile(const tile *t, const size_t rows, const size_t vectors,
                        const bool turned) {
  const size_t a_pitch = t->a_pitch, b_pitch = t->b_pitch;
  const size_t step = turned ? a_pitch : 1;
  const float *b = t->b, *next = t->next;
  values a;
  LS_UNROLL
  for (size_t i = 0; i < THREES; ++i)
    a.three[i] = t->a + 3 * i * a_pitch;
  vf sum[LS_TILE_ROWS][LS_TILE_VECTORS];
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      sum[i][v] = vf_zero();
  }
  if (t->goes_on) load_tile(t, sum, rows, vectors);
  if (turned && t->triangle) {
    LS_UNROLL
    for (size_t i = 1; i < rows; ++i, b += b_pitch) {
      add_value(&a, a_pitch, b, sum, 0, i, rows, vectors, turned);
      next_values(&a, step);
    }
  }
  for (size_t k = t->k; k > 0; --k, b += b_pitch) {
    __builtin_prefetch(next, 0, 2);
    next += t->next_stride;
    add_value(&a, a_pitch, b, sum, 0, rows, rows, vectors, turned);
    next_values(&a, step);
  }
  if (!turned && t->triangle) {
    LS_UNROLL
    for (size_t i = 1; i < rows; ++i, b += b_pitch) {
      add_value(&a, a_pitch, b, sum, i, rows, rows, vectors, turned);
      next_values(&a, step);
    }
  }
  if (t->factor != 1) scale_tile(sum, rows, vectors, t->factor);
  if (t->lanes == VF_LANES) {
    store_tile(t, sum, rows, vectors, VF_LANES);
  } else {
    store_tile(t, sum, rows, vectors, t->lanes);
  }
}

typedef void tile_fn(const tile *t);

#define TILE_FUNCTIONS(rows)                                                   \
  static void full_##rows(const tile *t) {                                     \
    run_tile(t, rows, LS_TILE_VECTORS, false);                                 \
  }                                                                            \
  static void full_turned_##rows(const tile *t) {                              \
    run_tile(t, rows, LS_TILE_VECTORS, true);                                  \
  }                                                                            \
  static void narrow_##rows(const tile *t) { run_tile(t, rows, 1, false); }    \
  static void narrow_turned_##rows(const tile *t) {                            \
    run_tile(t, rows, 1, true);                                                \
  }
LS_TILE_EACH_ROWS(TILE_FUNCTIONS)
#undef TILE_FUNCTIONS

// Per number of rows, largest first; [A transposed].
static const struct {
  size_t rows;
  tile_fn *full[2], *narrow[2];
} tiles[] = {
#define TILE_ROW(rows)                                                         \
  {rows,                                                                       \
   {full_##rows, full_turned_##rows},                                          \
   {narrow_##rows, narrow_turned_##rows}},
    LS_TILE_EACH_ROWS(TILE_ROW)
#undef TILE_ROW
};

// Runs rows [begin, end) by `columns` of panel number `panel`.
static void run_rows(const product *p, size_t panel, size_t begin, size_t end,
                     size_t columns) {
  tile t = {.a_pitch = p->a_pitch,
            .b_pitch = p->b.pitch,
            .c_pitch = p->c_pitch,
            .lanes = (columns - 1) % VF_LANES + 1,
            .factor = p->factor,
            .triangle = p->triangle,
            .goes_on = p->goes_on};
  size_t size = 0;
  for (size_t i = begin, rows; i < end; i += rows) {
    while (tiles[size].rows > end - i)
      ++size;
    rows = tiles[size].rows;
    // Values of k that not all rows have, before the tile's own and in it.
    const size_t before = p->triangle && p->turned ? i : 0;
    const size_t behind = p->triangle && !p->turned ? p->rows - i - rows : 0;
    t.k = p->k - before - behind - (p->triangle ? rows - 1 : 0);
    t.a = p->a + (p->turned ? before * p->a_pitch + i : i * p->a_pitch);
    t.b = p->b.data + panel * p->b.next + before * p->b.pitch;
    t.c = p->c + i * p->c_pitch + panel * PANEL;
    take_ahead(p->ahead, &t);
    (columns > VF_LANES ? tiles[size].full : tiles[size].narrow)[p->turned](&t);
  }
}

static void multiply_panels(const product *p) {
  for (size_t j = 0; j < p->columns; j += PANEL)
    run_rows(p, j / PANEL, 0, p->rows, min_size(PANEL, p->columns - j));
}

#endif  // LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_
