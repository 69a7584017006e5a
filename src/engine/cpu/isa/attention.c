// SPDX-License-Identifier: Apache-2.0
//
// Attention of one head and its gradient: ls_cpu_attention.
//
// What products multiply with is put into panels once, which all rows use; then
// queries go in groups of a tile's rows, from scores to results without leaving
// the first cache. Of causal attention each tile ends with the last key that
// its group sees. The gradient keeps a band of probabilities, and of the
// scores' gradients, for those of keys and values.

#include "engine/cpu/isa/attention_tile.h"
#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/product_turn.h"
#include "engine/cpu/isa/softmax_row.h"

// Queries, or keys, that causal attention cuts off together: as many in every
// table, for what is cut off shows where 0 times infinity would.
#define GROUP ((size_t)12)

// Scores of a band at most, and its queries at most and at least.
#define SCORES ((size_t)32768)
#define MOST_BAND (11 * GROUP)
#define LEAST_BAND (2 * GROUP)

static size_t rounded_up(size_t n, size_t step) {
  return (n + step - 1) / step * step;
}

// ---- Panels ----------------------------------------------------------------
// What a panel lacks of its columns stays as it is: nobody reads what comes of
// it.

static size_t panels_size(size_t rows, size_t columns) {
  return rows * rounded_up(columns, PANEL);
}

// Panels of rows [begin, begin + rows).
static void put_rows(float *to, ls_cpu_head_rows from, size_t begin,
                     size_t rows, size_t columns) {
  for (size_t i = 0; i < rows; ++i) {
    const float *row = from.data + (begin + i) * from.pitch;
    for (size_t j = 0; j < columns; j += VF_LANES) {
      float *at = to + j / PANEL * PANEL * rows + i * PANEL + j % PANEL;
      const size_t lanes = smaller(VF_LANES, columns - j);
      store_lanes(at, lanes, load_lanes(row + j, lanes));
    }
  }
}

// Panels in which the rows are columns.
static void put_turned(float *to, ls_cpu_head_rows from, size_t rows,
                       size_t columns) {
  for (size_t i = 0; i < rows; i += PANEL)
    turn_floats(to + i * columns, PANEL, from.data + i * from.pitch, from.pitch,
                columns, smaller(PANEL, rows - i));
}

// ---- Scratch ---------------------------------------------------------------
typedef struct {
  const ls_cpu_head *head;
  ahead *ahead;
  size_t band;              // Queries of a band.
  size_t pitch;             // Of the band's scores.
  float *scores, *dscores;  // Those of a group, without a gradient.
  float *k_turned, *v_turned;
  float *q, *k, *v, *d;  // Panels; q and d of a band.
} work;

static size_t divide_scratch(work *w, bool gradient, float *scratch) {
  const ls_cpu_head *h = w->head;
  const size_t keys = h->keys;
  // An odd number of vectors: no two rows share a set of the first cache.
  w->pitch = rounded_up(keys, 2 * VF_LANES) + VF_LANES;
  w->band = GROUP;
  if (gradient) {
    w->band = SCORES / w->pitch / GROUP * GROUP;
    if (w->band < LEAST_BAND) w->band = LEAST_BAND;
    w->band =
        smaller(w->band, smaller(MOST_BAND, rounded_up(h->queries, GROUP)));
  }
  const size_t band = gradient ? w->band : 0;
  struct {
    float **part;
    size_t size;
  } const parts[] = {
      {&w->scores, w->band * w->pitch},
      {&w->dscores, band * w->pitch},
      {&w->k_turned, panels_size(h->depth, keys)},
      {&w->v_turned, gradient ? panels_size(h->value_depth, keys) : 0},
      {&w->q, panels_size(band, h->depth)},
      {&w->k, gradient ? panels_size(keys, h->depth) : 0},
      {&w->v, gradient ? 0 : panels_size(keys, h->value_depth)},
      {&w->d, panels_size(band, h->value_depth)},
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
// Some queries, and the keys that the last of them sees.
typedef struct {
  size_t begin, rows, keys;
  float *scores, *dscores;
} group;

// The group at query `begin`, in the band from `band` to `end`.
static group group_at(const work *w, size_t begin, size_t band, size_t end) {
  const ls_cpu_head *h = w->head;
  const size_t rows = smaller(GROUP, end - begin);
  return (group){.begin = begin,
                 .rows = rows,
                 .keys = h->causal ? begin + rows : h->keys,
                 .scores = w->scores + (begin - band) * w->pitch,
                 .dscores = w->dscores + (begin - band) * w->pitch};
}

// Keys that a query of the group sees.
static size_t seen(const work *w, const group *g, size_t row) {
  return w->head->causal ? g->begin + row + 1 : g->keys;
}

static void clear_unseen(const work *w, const group *g, float *rows) {
  for (size_t i = 0; i < g->rows; ++i)
    for (size_t j = seen(w, g, i); j < g->keys; ++j)
      rows[i * w->pitch + j] = 0;
}

// C = factor A B' for the group's rows of A; B turned has `b`.
static void score(const work *w, const group *g, ls_cpu_head_rows a, size_t k,
                  const float *b, float factor, float *c) {
  multiply(&(product){.rows = g->rows,
                      .columns = rounded_up(g->keys, VF_LANES),
                      .k = k,
                      .a = a.data + g->begin * a.pitch,
                      .a_pitch = a.pitch,
                      .b = b,
                      .b_panel = k * PANEL,
                      .c = c,
                      .c_pitch = w->pitch,
                      .factor = factor,
                      .ahead = w->ahead});
}

// The group's rows of C: what keys have in the panels `b`, by the scores `a`.
static void mix(const work *w, const group *g, const float *a, const float *b,
                size_t columns, ls_cpu_head_rows c) {
  multiply(&(product){.rows = g->rows,
                      .columns = columns,
                      .k = g->keys,
                      .a = a,
                      .a_pitch = w->pitch,
                      .b = b,
                      .b_panel = w->head->keys * PANEL,
                      .c = c.data + g->begin * c.pitch,
                      .c_pitch = c.pitch,
                      .factor = 1,
                      .ahead = w->ahead});
}

static void find_probabilities(const work *w, const group *g) {
  const ls_cpu_head *h = w->head;
  score(w, g, h->q, h->depth, w->k_turned, h->scale, g->scores);
  // Pass by pass: no row waits for its own maximum or sum.
  float max[GROUP], sum[GROUP];
  for (size_t i = 0; i < g->rows; ++i)
    max[i] = row_max(g->scores + i * w->pitch, seen(w, g, i));
  for (size_t i = 0; i < g->rows; ++i) {
    float *row = g->scores + i * w->pitch;
    sum[i] = exp_row(row, row, seen(w, g, i), max[i]);
  }
  for (size_t i = 0; i < g->rows; ++i)
    scale_row(g->scores + i * w->pitch, seen(w, g, i), 1.0f / sum[i], 1.0f);
  clear_unseen(w, g, g->scores);
}

// ---- Forward ---------------------------------------------------------------
static void attend(const ls_cpu_head *h, void *scratch) {
  ahead next = ahead_of(h->next);
  work w = {.head = h, .ahead = &next};
  divide_scratch(&w, false, scratch);
  put_turned(w.k_turned, h->k, h->keys, h->depth);
  put_rows(w.v, h->v, 0, h->keys, h->value_depth);
  for (size_t i = 0; i < h->queries; i += GROUP) {
    const group g = group_at(&w, i, i, h->queries);
    find_probabilities(&w, &g);
    mix(&w, &g, g.scores, w.v, h->value_depth, h->out);
  }
}

// ---- Gradient --------------------------------------------------------------
// ds = factor p (ds - sum(p ds))
LS_INLINE void differentiate_row(float *ds, const float *p, size_t n,
                                 float factor) {
  vf sums = vf_zero();
  size_t j = 0;
  for (; j + VF_LANES <= n; j += VF_LANES)
    sums = vf_fma(vf_load(p + j), vf_load(ds + j), sums);
  if (j < n)
    sums = vf_fma(vf_load_n(p + j, n - j), vf_load_n(ds + j, n - j), sums);
  const vf sum = vf_set1(vf_sum(sums)), factors = vf_set1(factor);
  for (j = 0; j < n; j += VF_LANES) {
    const size_t lanes = smaller(VF_LANES, n - j);
    const vf rest = vf_sub(load_lanes(ds + j, lanes), sum);
    const vf weight = vf_mul(load_lanes(p + j, lanes), factors);
    store_lanes(ds + j, lanes, vf_mul(weight, rest));
  }
}

static void differentiate_group(const work *w, const group *g) {
  const ls_cpu_head *h = w->head;
  find_probabilities(w, g);
  score(w, g, h->out, h->value_depth, w->v_turned, 1, g->dscores);
  for (size_t i = 0; i < g->rows; ++i)
    differentiate_row(g->dscores + i * w->pitch, g->scores + i * w->pitch,
                      seen(w, g, i), h->scale);
  clear_unseen(w, g, g->dscores);
  mix(w, g, g->dscores, w->k, h->depth, h->dq);
}

// Rows [begin, begin + rows) of C, of keys: what the band's queries from number
// `first` on have in the panels `b`, by the scores `a`.
static void gather(const work *w, size_t begin, size_t rows, const float *a,
                   const float *b, size_t first, size_t queries, size_t columns,
                   ls_cpu_head_rows c, bool goes_on) {
  multiply(&(product){.rows = rows,
                      .turned = true,
                      .columns = columns,
                      .k = queries - first,
                      .a = a + first * w->pitch + begin,
                      .a_pitch = w->pitch,
                      .b = b + first * PANEL,
                      .b_panel = queries * PANEL,
                      .c = c.data + begin * c.pitch,
                      .c_pitch = c.pitch,
                      .factor = 1,
                      .goes_on = goes_on,
                      .ahead = w->ahead});
}

// Queries [begin, end). The last band comes first and meets all keys.
static void differentiate_band(const work *w, size_t begin, size_t end) {
  const ls_cpu_head *h = w->head;
  const size_t queries = end - begin, keys = h->causal ? end : h->keys;
  const bool goes_on = end < h->queries;
  put_rows(w->q, h->q, begin, queries, h->depth);
  put_rows(w->d, h->out, begin, queries, h->value_depth);
  for (size_t i = begin; i < end; i += GROUP) {
    const group g = group_at(w, i, begin, end);
    differentiate_group(w, &g);
  }
  for (size_t j = 0; j < keys; j += GROUP) {
    const size_t rows = smaller(GROUP, keys - j);
    const size_t first = h->causal && j > begin ? j - begin : 0;
    gather(w, j, rows, w->scores, w->d, first, queries, h->value_depth, h->dv,
           goes_on);
    gather(w, j, rows, w->dscores, w->q, first, queries, h->depth, h->dk,
           goes_on);
  }
}

static void differentiate(const ls_cpu_head *h, void *scratch) {
  ahead next = ahead_of(h->next);
  work w = {.head = h, .ahead = &next};
  divide_scratch(&w, true, scratch);
  put_turned(w.k_turned, h->k, h->keys, h->depth);
  put_turned(w.v_turned, h->v, h->keys, h->value_depth);
  put_rows(w.k, h->k, 0, h->keys, h->depth);
  size_t end = h->queries;
  do {  // Once even without queries: keys and values have gradients.
    const size_t begin = end == 0 ? 0 : (end - 1) / w.band * w.band;
    differentiate_band(&w, begin, end);
    end = begin;
  } while (end > 0);
}

const ls_cpu_attention LS_ISA_NAME(ls_cpu_attention) = {
    .scratch = scratch_size,
    .attend = attend,
    .differentiate = differentiate,
};
