// SPDX-License-Identifier: Apache-2.0
#include "support/geometry.h"

// ---- Drawing ---------------------------------------------------------------
// Whether each of `outputs` windows sees an element along dimension `i`.
static bool all_see(const trial *t, int32_t i, int64_t size, int64_t outputs) {
  for (int64_t o = 0; o < outputs; ++o) {
    bool sees = false;
    for (int64_t k = 0; k < t->list[TAPS].dim[i]; ++k) {
      const int64_t at = o * t->list[STRIDES].dim[i] +
                         k * t->list[DILATIONS].dim[i] - t->list[LOW].dim[i];
      sees = sees || (at >= 0 && at < size);
    }
    if (!sees) return false;
  }
  return true;
}

ls_shape draw_geometry(trial *t, manner how, ls_shape *outputs) {
  ls_shape places = {.rank = (int32_t)trial_between(t, 1, 3)};
  const bool same = trial_between(t, 0, 3) == 0;
  t->number[1] = same;
  for (int k = STRIDES; k <= TAPS; ++k)
    t->list[k].rank = places.rank;
  *outputs = places;
  const int64_t most = places.rank == 3 ? 3 : 6;
  for (int32_t i = 0; i < places.rank; ++i) {
    const int64_t taps = trial_between(t, 1, 3);
    const int64_t dilation = same && how == SEEING ? 1 : trial_between(t, 1, 2);
    const int64_t stride = trial_between(t, 1, 3);
    const int64_t apart = how == SPREAD ? trial_between(t, 1, 2) : 1;
    const int64_t low = same ? 0 : trial_between(t, 0, 2);
    const int64_t high = same ? 0 : trial_between(t, 0, 2);
    const int64_t span = (taps - 1) * dilation + 1;
    int64_t size = trial_between(t, 1, most);
    while (!same && low + (size - 1) * apart + 1 + high < span)
      ++size;
    const int64_t have = (size - 1) * apart + 1;
    places.dim[i] = size;
    outputs->dim[i] = same ? (have + stride - 1) / stride
                           : (low + have + high - span) / stride + 1;
    t->list[STRIDES].dim[i] = stride;
    t->list[DILATIONS].dim[i] = dilation;
    t->list[SPREADS].dim[i] = apart;
    t->list[LOW].dim[i] = low;
    t->list[HIGH].dim[i] = high;
    t->list[TAPS].dim[i] = taps;
    if (how != SEEING || same || all_see(t, i, size, outputs->dim[i])) continue;
    t->list[LOW].dim[i] = t->list[HIGH].dim[i] = 0;
    places.dim[i] = span + stride;
    outputs->dim[i] = 2;
  }
  return places;
}

ls_shape around(int64_t first, ls_shape spatial, int64_t last) {
  ls_shape shape = {.rank = spatial.rank + 2};
  shape.dim[0] = first;
  for (int32_t i = 0; i < spatial.rank; ++i)
    shape.dim[i + 1] = spatial.dim[i];
  shape.dim[spatial.rank + 1] = last;
  return shape;
}

// ---- Reading ---------------------------------------------------------------
ls_shape spatial(ls_shape shape, int32_t first) {
  ls_shape s = {.rank = shape.rank - 2};
  for (int32_t i = 0; i < s.rank; ++i)
    s.dim[i] = shape.dim[first + i];
  return s;
}

geometry geometry_of(const ref_op *op, ls_shape x, ls_shape y, ls_shape taps) {
  geometry g = {
      .rank = x.rank - 2,
      .places = spatial(x, 1),
      .taps = taps,
      .outputs = spatial(y, 1),
  };
  for (int32_t i = 0; i < g.rank; ++i) {
    g.stride[i] = ref_item(op, "strides", i, 1);
    g.dilation[i] = ref_item(op, "dilations", i, 1);
    g.spread[i] = ref_item(op, "input_dilations", i, 1);
    g.low[i] = ref_item(op, "padding", 2 * i, 0);
    if (ref_int(op, "same", 0) != 0) {
      const int64_t have = (g.places.dim[i] - 1) * g.spread[i] + 1;
      const int64_t want = (g.outputs.dim[i] - 1) * g.stride[i] +
                           (g.taps.dim[i] - 1) * g.dilation[i] + 1;
      g.low[i] = want > have ? (want - have) / 2 : 0;
    }
  }
  return g;
}

int64_t seen(const geometry *g, int64_t o, int64_t k) {
  int64_t output[LS_MAX_RANK], tap[LS_MAX_RANK], place[LS_MAX_RANK];
  ref_place(g->outputs, o, output);
  ref_place(g->taps, k, tap);
  for (int32_t i = 0; i < g->rank; ++i) {
    const int64_t at =
        output[i] * g->stride[i] + tap[i] * g->dilation[i] - g->low[i];
    if (at < 0 || at % g->spread[i] != 0) return -1;
    place[i] = at / g->spread[i];
    if (place[i] >= g->places.dim[i]) return -1;
  }
  return ref_index(g->places, place);
}
