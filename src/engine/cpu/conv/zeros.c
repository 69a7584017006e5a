// SPDX-License-Identifier: Apache-2.0
//
// Products with lists of the nonzero values of dy. Each pixel of dy is a row of
// a list. A tap row adds a line of rows to a line of results, 16 channels at a
// time, whose sums stay in registers from pixel to pixel.
#include "engine/cpu/conv/zeros.h"

enum { Y = LS_WINDOW_DIMS - 2, X = LS_WINDOW_DIMS - 1 };
enum { LANES = 16 };  // Channels added at once.

void ls_conv_zeros_plan(ls_conv_zeros *self, const ls_cpu_zeros *kernels,
                        const ls_conv *conv, const ls_conv_types *types,
                        const ls_conv_bands *bands, size_t *end) {
  const ls_conv_phase phase = ls_conv_phase_of(conv, 0);
  const ls_conv_axis *x = &phase.axis[X];
  if (x->taps < 2 || x->taps > LS_ZEROS_TAPS || x->move != 1 ||
      conv->in_channels * conv->out_channels > INT32_MAX)
    return;
  const size_t values = bands->bytes / types->size;
  *self = (ls_conv_zeros){
      .kernels = kernels, .phase = phase, .columns = conv->out_channels};
  self->begin = ls_conv_place(end, (values / (size_t)conv->in_channels + 1) *
                                       sizeof(uint32_t));
  self->list = ls_conv_place(
      end, values / LS_ZEROS_SPARSE * sizeof(ls_cpu_nonzero) + LS_ZEROS_ROOM);
  self->sums = ls_conv_place(end, (size_t)(bands->lines * x->count) * LANES *
                                      sizeof(float));
}

static bool is_sparse(const ls_conv_zeros *self, const ls_conv_view *view) {
  const int64_t line = view->width * self->phase.conv->in_channels;
  const float *from = view->start;
  size_t found = 0;
  for (int64_t i = 0; i < view->height; ++i)
    found += self->kernels->count(from + i * view->pitch, (size_t)line);
  return found <= (size_t)(line * view->height) / LS_ZEROS_SPARSE;
}

// Lists the view's pixels; row i begins at begin[i].
static void list_pixels(const ls_conv_zeros *self, const ls_conv_view *view,
                        uint32_t *begin, ls_cpu_nonzero *list) {
  const int64_t channels = self->phase.conv->in_channels;
  const float *from = view->start;
  *begin = 0;
  for (int64_t i = 0; i < view->height; ++i)
    for (int64_t k = 0; k < view->width; ++k, ++begin)
      begin[1] =
          *begin + (uint32_t)self->kernels->list_row(
                       list + *begin, from + i * view->pitch + k * channels,
                       (size_t)channels, (int32_t)self->columns);
}

// Stores the sums of each pixel, up to the number of channels.
static void put_sums(const float *sums, int64_t pixels, int64_t pitch,
                     float *out, int64_t channels) {
  if (channels >= LANES) {
    for (int64_t i = 0; i < pixels; ++i)
      memcpy(out + i * pitch, sums + i * LANES, LANES * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < pixels; ++i)
    memcpy(out + i * pitch, sums + i * LANES, (size_t)channels * sizeof(float));
}

bool ls_conv_zeros_multiply(const ls_conv_zeros *self, const ls_conv_view *view,
                            int64_t lines, const float *w, float *out,
                            char *scratch) {
  if (!is_sparse(self, view)) return false;
  const ls_conv_axis *y = &self->phase.axis[Y], *x = &self->phase.axis[X];
  const int64_t columns = self->columns, pixels = lines * x->count;
  const int64_t tap = self->phase.conv->in_channels * columns;
  uint32_t *begin = (uint32_t *)(void *)(scratch + self->begin);
  ls_cpu_nonzero *list = (ls_cpu_nonzero *)(void *)(scratch + self->list);
  float *sums = (float *)(void *)(scratch + self->sums);
  list_pixels(self, view, begin, list);
  for (int64_t c = 0; c < columns; c += LANES) {
    memset(sums, 0, (size_t)(pixels * LANES) * sizeof(float));
    for (int64_t t = 0; t < y->taps; ++t)
      for (int64_t i = 0; i < lines; ++i)
        self->kernels->add_line(
            sums + i * x->count * LANES, (size_t)x->count, list,
            begin + (i * y->move + t * y->start_step) * view->width,
            w + t * x->taps * tap + c, (size_t)tap, (size_t)x->taps);
    put_sums(sums, pixels, columns, out + c, columns - c);
  }
  return true;
}
