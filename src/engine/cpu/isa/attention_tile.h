// SPDX-License-Identifier: Apache-2.0
//
// The products of attention, of a head's rows by panels of columns: tiles of
// the sums that registers hold. While they run they fetch what the next head
// needs.

#ifndef LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_
#define LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_

#include "engine/cpu/attention.h"
#include "engine/cpu/isa/product_tile.h"

#define PANEL ((size_t)LS_TILE_VECTORS * VF_LANES)

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

// ---- Ahead -----------------------------------------------------------------
// Rows that the next head will read and write. Tiles fetch them, a line for
// each value of k: copies and stores would wait for every line.
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
// C = A B factor; with `goes_on` chains begin with what C holds.
typedef struct {
  size_t rows, columns, k;
  const float *a;
  size_t a_pitch;
  const float *b;
  size_t b_panel;  // Floats from one panel to the next.
  float *c;
  size_t c_pitch;
  float factor;
  bool turned;  // A is stored transposed.
  bool goes_on;
  ahead *ahead;
} product;

typedef struct {
  size_t k;
  const float *a;
  size_t a_pitch;
  const float *b;
  float *c;
  size_t c_pitch;
  size_t lanes;  // Columns of the last vector.
  float factor;
  bool goes_on;
  const float *next;   // To fetch at the first value of k,
  size_t next_stride;  // and floats from there to the next one's.
} tile;

// Gives the tile something to fetch.
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

// `lanes`: of the last vector.
LS_EXPAND void store_tile(const tile *t, vf sum[][LS_TILE_VECTORS],
                          const size_t rows, const size_t vectors,
                          const size_t lanes) {
  const vf factor = vf_set1(t->factor);
  float *c = t->c;
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i, c += t->c_pitch) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      store_lanes(c + v * VF_LANES, v + 1 == vectors ? lanes : VF_LANES,
                  vf_mul(sum[i][v], factor));
  }
}

// One tile. Everything but `t` is a constant where this is expanded.
LS_EXPAND void run_tile(const tile *t, const size_t rows, const size_t vectors,
                        const bool turned) {
  const size_t lanes = t->lanes, a_pitch = t->a_pitch;
  vf sum[LS_TILE_ROWS][LS_TILE_VECTORS];
  LS_UNROLL
  for (size_t i = 0; i < rows; ++i) {
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v) {
      sum[i][v] = vf_zero();
      if (t->goes_on)
        sum[i][v] = load_lanes(t->c + i * t->c_pitch + v * VF_LANES,
                               v + 1 == vectors ? lanes : VF_LANES);
    }
  }
  const float *a = t->a, *b = t->b, *next = t->next;
  for (size_t k = t->k; k > 0; --k, b += PANEL, a += turned ? a_pitch : 1) {
    vf row[LS_TILE_VECTORS];
    LS_UNROLL
    for (size_t v = 0; v < vectors; ++v)
      row[v] = vf_load(b + v * VF_LANES);
    __builtin_prefetch(next, 0, 2);
    next += t->next_stride;
    LS_UNROLL
    for (size_t i = 0; i < rows; ++i) {
      const vf x = vf_set1(turned ? a[i] : a[i * a_pitch]);
      LS_UNROLL
      for (size_t v = 0; v < vectors; ++v)
        sum[i][v] = vf_fma(x, row[v], sum[i][v]);
    }
  }
  if (lanes == VF_LANES) {
    store_tile(t, sum, rows, vectors, VF_LANES);
  } else {
    store_tile(t, sum, rows, vectors, lanes);
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

// Of each number of rows, largest first; [A transposed].
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

// All rows by the panel at `b`, of `columns`.
static void run_panel(product *p, const float *b, float *c, size_t columns) {
  tile t = {.k = p->k,
            .a = p->a,
            .a_pitch = p->a_pitch,
            .b = b,
            .c = c,
            .c_pitch = p->c_pitch,
            .lanes = (columns - 1) % VF_LANES + 1,
            .factor = p->factor,
            .goes_on = p->goes_on};
  size_t size = 0;
  for (size_t left = p->rows, rows; left > 0; left -= rows) {
    while (tiles[size].rows > left)
      ++size;
    rows = tiles[size].rows;
    take_ahead(p->ahead, &t);
    (columns > VF_LANES ? tiles[size].full : tiles[size].narrow)[p->turned](&t);
    t.a += p->turned ? rows : rows * t.a_pitch;
    t.c += rows * t.c_pitch;
  }
}

static void multiply(product *p) {
  for (size_t j = 0; j < p->columns; j += PANEL)
    run_panel(p, p->b + j / PANEL * p->b_panel, p->c + j,
              smaller(PANEL, p->columns - j));
}

#endif  // LS_ENGINE_CPU_ISA_ATTENTION_TILE_H_
