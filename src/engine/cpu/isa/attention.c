// SPDX-License-Identifier: Apache-2.0
//
// Attention of one head and its gradient: ls_cpu_attention.
//
// The right operands of products are transposed once, for all rows, or read in
// place; queries go in groups of a tile's rows, from scores to results without
// leaving the first cache. With causal attention each row ends with the last
// key that its query attends to. The gradient keeps a band of probabilities,
// and of the scores' gradients, for the gradients of keys and values.

#include "engine/cpu/isa/attention_rows.h"
#include "engine/cpu/isa/attention_tile.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product/product_turn.h"

// Queries, or keys, that are processed together: equally many in every table,
// because bands are made of them, and whole quads.
#define GROUP ((size_t)12)

// Most scores of a band, and its most and least queries.
#define SCORES ((size_t)32768)
#define MOST_BAND (11 * GROUP)
#define LEAST_BAND (2 * GROUP)

static size_t rounded_up(size_t n, size_t step) {
  return (n + step - 1) / step * step;
}

// ---- Panels ----------------------------------------------------------------
// Missing columns of a panel stay unset: nothing reads the values computed from
// them.

static size_t panels_size(size_t rows, size_t columns) {
  return rows * rounded_up(columns, PANEL);
}

// Returns true if tiles can read rows in place: rows are whole lines, spread
// over many sets of the caches, and a panel has at least two.
static bool is_fit_in_place(ls_cpu_head_rows rows, size_t columns) {
  return LS_TILE_VECTORS > 1 && columns % VF_LANES == 0 &&
         rows.pitch % VF_LANES == 0 &&
         rows.pitch * sizeof(float) % LS_CPU_FEW_SETS != 0;
}

// Returns panels of rows [begin, begin + rows), copied to `room` unless they
// can be read in place.
static panels panels_of(ls_cpu_head_rows from, size_t begin, size_t rows,
                        size_t columns, float *room) {
  const float *row = from.data + begin * from.pitch;
  if (is_fit_in_place(from, columns)) return (panels){row, from.pitch, PANEL};
  for (size_t i = 0; i < rows; ++i, row += from.pitch)
    for (size_t j = 0; j < columns; j += VF_LANES) {
      float *at = room + j / PANEL * PANEL * rows + i * PANEL + j % PANEL;
      const size_t lanes = min_size(VF_LANES, columns - j);
      store_lanes(at, lanes, load_lanes(row + j, lanes));
    }
  return (panels){room, PANEL, PANEL * rows};
}

// Returns transposed panels: the rows are columns.
static panels turned_panels(ls_cpu_head_rows from, size_t rows, size_t columns,
                            float *room) {
  for (size_t i = 0; i < rows; i += PANEL)
    transpose_floats(room + i * columns, PANEL, from.data + i * from.pitch,
                     from.pitch, columns, min_size(PANEL, rows - i));
  return (panels){room, PANEL, PANEL * columns};
}

// ---- Scratch ---------------------------------------------------------------
typedef struct {
  const ls_cpu_head *head;
  ahead *ahead;
  size_t band;   // Queries of a band.
  size_t pitch;  // Row pitch of the band's scores.
  // Scores of the band; without a gradient, of a group.
  float *scores, *dscores;
  panels k_turned, v_turned;
  panels q, k, v, d;  // q and d are of a band.
  struct {
    float *k_turned, *v_turned, *q, *k, *v, *d;
  } room;  // Memory of panels.
} work;

static size_t divide_scratch(work *w, bool gradient, float *scratch) {
  const ls_cpu_head *h = w->head;
  const size_t keys = h->keys;
  // An odd number of vectors keeps two rows from sharing a set of the first
  // cache.
  w->pitch = rounded_up(keys, 2 * VF_LANES) + VF_LANES;
  w->band = GROUP;
  if (gradient) {
    w->band = SCORES / w->pitch / GROUP * GROUP;
    if (w->band < LEAST_BAND) w->band = LEAST_BAND;
    w->band =
        min_size(w->band, min_size(MOST_BAND, rounded_up(h->queries, GROUP)));
  }
  const size_t band = gradient ? w->band : 0;
  struct {
    float **part;
    size_t size;
  } const parts[] = {
      {&w->scores, w->band * w->pitch},
      {&w->dscores, band * w->pitch},
      {&w->room.k_turned, panels_size(h->depth, keys)},
      {&w->room.v_turned, gradient ? panels_size(h->value_depth, keys) : 0},
      {&w->room.q, panels_size(band, h->depth)},
      {&w->room.k, gradient ? panels_size(keys, h->depth) : 0},
      {&w->room.v, gradient ? 0 : panels_size(keys, h->value_depth)},
      {&w->room.d, panels_size(band, h->value_depth)},
  };
  size_t size = 0;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (scratch != NULL) *parts[i].part = scratch + size;
    size += parts[i].size;
  }
  return size * sizeof(float);
}

static size_t scratch_size(const ls_cpu_head *head, bool gradient) {
  return divide_scratch(&(work){.head = head}, gradient, NULL);
}

// ---- Groups ----------------------------------------------------------------
// Some queries, and the keys up to the last one they attend to. Scores of later
// keys are undefined and never read.
typedef struct {
  size_t begin, rows, keys;
  float *scores, *dscores;
} group;

// Returns the group at query `begin`, in the band from `band` to `end`.
static group group_at(const work *w, size_t begin, size_t band, size_t end) {
  const ls_cpu_head *h = w->head;
  const size_t rows = min_size(GROUP, end - begin);
  return (group){.begin = begin,
                 .rows = rows,
                 .keys = h->causal ? begin + rows : h->keys,
                 .scores = w->scores + (begin - band) * w->pitch,
                 .dscores = w->dscores + (begin - band) * w->pitch};
}

// Returns the visible part of four of the group's rows, from number `row` on,
// in `data`.
static quad visible_quad(const work *w, const group *g, size_t row,
                         float *data) {
  const bool causal = w->head->causal;
  return (quad){.data = data + row * w->pitch,
                .pitch = w->pitch,
                .columns = causal ? g->begin + row + 1 : g->keys,
                .step = causal};
}

// Counts the group's first rows that attend to no key from number `key` on.
static size_t rows_before(const work *w, const group *g, size_t key) {
  if (key >= g->keys) return g->rows;
  return w->head->causal && key > g->begin ? key - g->begin : 0;
}

// Computes C = factor A B' for the group's rows of A; `b` has transposed B.
// Keys that a row does not attend to are computed only in the vector of its
// last key.
static void compute_scores(const work *w, const group *g, ls_cpu_head_rows a,
                           size_t k, const panels *b, float factor, float *c) {
  const product p = {.rows = g->rows,
                     .k = k,
                     .a = a.data + g->begin * a.pitch,
                     .a_pitch = a.pitch,
                     .b = *b,
                     .c = c,
                     .c_pitch = w->pitch,
                     .factor = factor,
                     .ahead = w->ahead};
  for (size_t j = 0; j < g->keys; j += PANEL) {
    const size_t first = rows_before(w, g, j);
    const size_t second = rows_before(w, g, j + PANEL - VF_LANES);
    run_rows(&p, j / PANEL, first, second, VF_LANES);
    run_rows(&p, j / PANEL, second, g->rows, PANEL);
  }
}

// Computes the group's rows of C: the panels `b` of keys, weighted by the
// scores `a`.
static void weigh_rows(const work *w, const group *g, const float *a,
                       const panels *b, size_t columns, ls_cpu_head_rows c) {
  multiply_panels(&(product){.rows = g->rows,
                             .columns = columns,
                             .k = g->keys,
                             .a = a,
                             .a_pitch = w->pitch,
                             .b = *b,
                             .c = c.data + g->begin * c.pitch,
                             .c_pitch = c.pitch,
                             .factor = 1,
                             .triangle = w->head->causal,
                             .ahead = w->ahead});
}

static void find_probabilities(const work *w, const group *g) {
  const ls_cpu_head *h = w->head;
  compute_scores(w, g, h->q, h->depth, &w->k_turned, h->scale, g->scores);
  for (size_t i = 0; i < g->rows; i += QUAD) {
    const quad p = visible_quad(w, g, i, g->scores);
    quad_softmax(&p);
  }
}

// ---- Forward ---------------------------------------------------------------
static void attend_head(const ls_cpu_head *h, void *scratch) {
  ahead next = ahead_of(h->next);
  work w = {.head = h, .ahead = &next};
  divide_scratch(&w, false, scratch);
  w.k_turned = turned_panels(h->k, h->keys, h->depth, w.room.k_turned);
  w.v = panels_of(h->v, 0, h->keys, h->value_depth, w.room.v);
  for (size_t i = 0; i < h->queries; i += GROUP) {
    const group g = group_at(&w, i, i, h->queries);
    find_probabilities(&w, &g);
    weigh_rows(&w, &g, g.scores, &w.v, h->value_depth, h->out);
  }
}

// ---- Gradient --------------------------------------------------------------
static void differentiate_group(const work *w, const group *g) {
  const ls_cpu_head *h = w->head;
  find_probabilities(w, g);
  compute_scores(w, g, h->out, h->value_depth, &w->v_turned, 1, g->dscores);
  for (size_t i = 0; i < g->rows; i += QUAD) {
    const quad p = visible_quad(w, g, i, g->scores),
               ds = visible_quad(w, g, i, g->dscores);
    quad_differentiate(&ds, &p, h->scale);
  }
  weigh_rows(w, g, g->dscores, &w->k, h->depth, h->dq);
}

// Computes rows [begin, begin + rows) of C, one per key: the panels `b` of the
// band's queries from number `first` on, weighted by the scores `a`.
static void weigh_queries(const work *w, size_t begin, size_t rows,
                          const float *a, const panels *b, size_t first,
                          size_t queries, size_t columns, ls_cpu_head_rows c,
                          bool triangle, bool goes_on) {
  const panels from = {b->data + first * b->pitch, b->pitch, b->next};
  multiply_panels(&(product){.rows = rows,
                             .turned = true,
                             .columns = columns,
                             .k = queries - first,
                             .a = a + first * w->pitch + begin,
                             .a_pitch = w->pitch,
                             .b = from,
                             .c = c.data + begin * c.pitch,
                             .c_pitch = c.pitch,
                             .factor = 1,
                             .triangle = triangle,
                             .goes_on = goes_on,
                             .ahead = w->ahead});
}

// Differentiates queries [begin, end). The last band comes first and uses all
// keys.
static void differentiate_band(work *w, size_t begin, size_t end) {
  const ls_cpu_head *h = w->head;
  const size_t queries = end - begin, keys = h->causal ? end : h->keys;
  const bool goes_on = end < h->queries;
  w->q = panels_of(h->q, begin, queries, h->depth, w->room.q);
  w->d = panels_of(h->out, begin, queries, h->value_depth, w->room.d);
  for (size_t i = begin; i < end; i += GROUP) {
    const group g = group_at(w, i, begin, end);
    differentiate_group(w, &g);
  }
  for (size_t j = 0; j < keys; j += GROUP) {
    const size_t rows = min_size(GROUP, keys - j);
    const bool triangle = h->causal && j >= begin;
    const size_t first = triangle ? j - begin : 0;
    weigh_queries(w, j, rows, w->scores, &w->d, first, queries, h->value_depth,
                  h->dv, triangle, goes_on);
    weigh_queries(w, j, rows, w->dscores, &w->q, first, queries, h->depth,
                  h->dk, triangle, goes_on);
  }
}

static void differentiate_head(const ls_cpu_head *h, void *scratch) {
  ahead next = ahead_of(h->next);
  work w = {.head = h, .ahead = &next};
  divide_scratch(&w, true, scratch);
  w.k_turned = turned_panels(h->k, h->keys, h->depth, w.room.k_turned);
  w.v_turned = turned_panels(h->v, h->keys, h->value_depth, w.room.v_turned);
  w.k = panels_of(h->k, 0, h->keys, h->depth, w.room.k);
  size_t end = h->queries;
  do {  // Runs once even without queries: keys and values have gradients.
    const size_t begin = end == 0 ? 0 : (end - 1) / w.band * w.band;
    differentiate_band(&w, begin, end);
    end = begin;
  } while (end > 0);
}

const ls_cpu_attention LS_ISA_NAME(ls_cpu_attention) = {
    .scratch = scratch_size,
    .attend = attend_head,
    .differentiate = differentiate_head,
};
