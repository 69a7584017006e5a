// SPDX-License-Identifier: Apache-2.0
//
// The kernels that exist once per instruction set, as a table of functions.
//
// Every function gives the same bits in every table (base, v3 = AVX2 and FMA,
// v4 = AVX-512), for any alignment and any division of the work: a block of a
// product has the bits that it has in the whole product. Only the sign and
// payload of a NaN are not promised. The order of each sum is stated.
//
// All are thread-safe and allocate nothing. Pointers may be unaligned; 64-byte
// alignment is faster. Unless stated otherwise `dst` may be exactly one of the
// inputs, but must not overlap one in part. Empty sizes are allowed.

#ifndef LS_ENGINE_CPU_KERNELS_H_
#define LS_ENGINE_CPU_KERNELS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/values/random.h"
#include "engine/cpu/kernels/attention/attention.h"
#include "engine/cpu/kernels/norm/norms.h"

// Is 1, which compilers do not know. A product with it makes a subnormal a zero
// of its sign and leaves all other numbers: a maximum then has the same bits as
// a comparison and a selection, and as an instruction, which flushes.
extern const float ls_cpu_one;
#define LS_FLUSHED(T, x) ((x) * (T)ls_cpu_one)

// Activation of a product's outputs, applied after the bias.
typedef enum ls_cpu_activation {
  LS_CPU_ACTIVATION_NONE = 0,
  LS_CPU_ACTIVATION_RELU,  // 0 > x ? 0 : x, so a NaN stays.
} ls_cpu_activation;

// C = epilogue(A B), m x n, row-major, all of one type, float or double.
//
// Each output is one chain of fused multiply-adds over k, in order, from +0.
// The epilogue then is, in this order: add the column's bias, activate, add to
// what C held before. The arrays do not overlap.
typedef struct ls_cpu_product {
  size_t m, n, k;
  const void *a;  // m x k, or k x m if a_transposed.
  const void *b;  // k x n, or n x k if b_transposed.
  void *c;        // m x n.
  // Elements from one stored row to the next, at least the stored columns.
  size_t lda;
  size_t ldb;
  size_t ldc;
  const void *bias;  // n values, or NULL.
  ls_cpu_activation activation;
  bool a_transposed;
  bool b_transposed;
  bool accumulate;  // C = C + result instead of C = result.
  bool continues;   // Chains go on from C instead of +0; not with accumulate.
  // A may be a view: after every m_line rows of it, `m_skip` more elements are
  // skipped in the array, and likewise along k. A line of 0: no skips.
  size_t m_line, k_line;
  ptrdiff_t m_skip, k_skip;
} ls_cpu_product;

// The outputs [m0, m1) x [n0, n1) of a product.
typedef struct ls_cpu_block {
  size_t m0, m1;
  size_t n0, n1;
} ls_cpu_block;

// Computes one block of a product. `scratch` has the size that the matching
// _scratch function returns and is used by one call at a time.
typedef void ls_cpu_product_fn(const ls_cpu_product *product,
                               const ls_cpu_block *block, void *scratch);

// Rows at a distance that this number divides share few sets of a cache.
enum { LS_CPU_FEW_SETS = 4096 };

// Returns the bytes of scratch that a call for any block of `product` needs: a
// function of its shape alone. Reads no array.
typedef size_t ls_cpu_product_scratch_fn(const ls_cpu_product *product);

// dst[p * width + j] = src[j * stride + p] for p < k, j < columns.
typedef void ls_cpu_transpose_fn(float *dst, size_t width, const float *src,
                                 size_t stride, size_t k, size_t columns);

typedef void ls_cpu_gelu_again_fn(float *dx, float *y, const float *dy,
                                  const float *x, size_t n);

// Applies a function to each row of a dense rows x columns array. A row's sum
// is that of `sum`; divisions by it are multiplications with its reciprocal.
typedef void ls_cpu_rows_fn(float *dst, const float *src, size_t rows,
                            size_t columns);

// Operations on the rows of windows, as vectors of floats. A NaN is larger than
// any number; of equal numbers, and of NaNs, the first one counts. Tap numbers
// are floats too.
typedef struct ls_cpu_windows {
  // Sets best[i] = x[i] and at[i] = tap where x[i] is larger.
  void (*compare)(void *best, void *at, const void *x, int64_t tap, int64_t n);
  // Adds dx[i] += at[i] == tap ? dy[i] : 0.
  void (*give)(void *dx, const void *at, int64_t tap, const void *dy,
               int64_t n);
  // Sets dx[k][i] = dy[i] where x[k][i] is the largest of four, else 0.
  void (*give_four)(void *const *dx, const void *const *x, const void *dy,
                    int64_t n);
  // Sets max[i] to the largest of four rows and place[i] to its number. `n` is
  // a multiple of 16.
  void (*place_of_four)(float *max, uint8_t *place, const float *const *x,
                        size_t n);
} ls_cpu_windows;

// Adjacent pixels and the rows of channels that are under taps for the first of
// them; for each next one they are `step` elements further on.
typedef struct ls_cpu_taps {
  size_t count, pixels, channels, step;
  const void *const *x;
  void *const *w;  // A row for each tap.
  void *y;         // The pixels' rows, `pitch` elements apart.
  size_t pitch;
  double scale;      // Multiplies the sums, unless 0.
  const void *bias;  // A row, or NULL.
  bool relu;
  bool fused;          // Products are not rounded before they are added.
  bool takes_largest;  // Takes the largest x, from minus infinity, for a sum.
} ls_cpu_taps;

// Sums of products with one weight for each channel.
enum { LS_TAP_SLACK = 16 };
typedef struct ls_cpu_tap_sums {
  // Computes y, from +0, tap by tap; then the scale, the bias and the
  // activation.
  void (*multiply)(const ls_cpu_taps *taps);
  // Adds the products of x and y to w, pixel by pixel.
  void (*add)(const ls_cpu_taps *taps);
  // Writes, for each of the `in` channels of a group, a row of all groups'
  // values, each `out` times. May write LS_TAP_SLACK elements more.
  void (*spread)(void *target, const void *source, size_t groups, size_t in,
                 size_t out);
} ls_cpu_tap_sums;

// The transforms of conv/winograd.h. Numbers of channels are multiples of 16; a
// pixel holds its channels side by side; planes are `channels` apart, or as
// stated.
typedef struct ls_cpu_winograd {
  // Computes the 4 by 4 outputs from M, with the bias, unless NULL, and the
  // activation.
  void (*output)(float *const *pixels, const float *planes, size_t channels,
                 const float *bias, bool relu);
  // Computes the maxima of the 2 by 2 windows of the outputs, and which of the
  // four each maximum is.
  void (*output_pooled)(float *const *maxima, uint8_t *const *places,
                        const float *planes, size_t channels, const float *bias,
                        bool relu);
  // Computes W from the gradients of 4 by 4 outputs.
  void (*gradient)(float *planes, const float *const *pixels, size_t channels);
  // Computes n gradients of weights from the sum, in order, of `parts` dU that
  // are `part` apart; planes and taps are `plane` apart.
  void (*weights_gradient)(float *taps, const float *planes, size_t parts,
                           size_t part, size_t plane, size_t n);
} ls_cpu_winograd;

// Factors of the products: V and U, as floats or as pairs of bf16.
typedef struct ls_cpu_winograd_planes {
  size_t values;  // Input channels per float: 1, or the 2 of a pair.
  // Computes V of the 6 by 6 inputs under a tile, of some of the channels;
  // adjacent pixels are `step` floats apart.
  void (*input)(float *planes, const float *const *pixels, size_t channels,
                size_t step);
  // Computes U of a block of the taps [9, rows, columns]; planes are [m1 - m0,
  // n1 - n0], m divided by `values`.
  void (*weights)(float *planes, const float *taps, size_t rows, size_t columns,
                  const ls_cpu_block *block);
  // Computes U of the taps rotated by 180 degrees; planes are [n1 - n0, m1 -
  // m0], n divided by `values`.
  void (*turned_weights)(float *planes, const float *taps, size_t rows,
                         size_t columns, const ls_cpu_block *block);
  // Computes M of tiles whose planes are `m_pitch` and `v_pitch` apart, or adds
  // to it; `in` counts floats. Sums are chains over the input channels, like
  // those of products.
  void (*multiply)(float *m, size_t m_pitch, const float *v, size_t v_pitch,
                   const float *u, size_t tiles, size_t in, size_t out,
                   bool adds);
} ls_cpu_winograd_planes;

// Nonzero values of a gradient, by channel: channel c has counts[c] values and
// their places, from c * pitch on. Rows have room for 16 more.
typedef struct ls_cpu_nonzeros {
  uint32_t *counts;
  int32_t *places;
  float *values;
  size_t pitch;
} ls_cpu_nonzeros;

// Gradients of convolutions by 3 by 3 taps, computed from d, the gradient of
// the maxima of 2 by 2 windows of their result, and from the position of each
// maximum in its window (conv/sparse.h). `in` and `out` are numbers of
// channels, multiples of 16. A window of d holds its channels side by side; the
// lines of dx and x are sliced: pixels of 16 channels side by side, and the
// next 16 channels `plane` floats further on.
typedef struct ls_cpu_sparse {
  // Writes a line of `count` pixels of `channels` channels from slices; 0 where
  // `relu`, unless NULL, is not above 0.
  void (*unslice)(float *line, const float *slices, size_t plane,
                  const float *relu, size_t channels, size_t count);
  // Appends to `list` the nonzero values of `channels` of `count` windows of d,
  // which are `pitch` apart; window i's four pixels are at pixels[4 * i].
  void (*collect)(const ls_cpu_nonzeros *list, const float *d,
                  const uint8_t *places, size_t pitch, size_t channels,
                  const int32_t *pixels, size_t count);
} ls_cpu_sparse;

// Functions for the gradient of the input, 16 of its channels at a time.
typedef struct ls_cpu_sparse_input {
  size_t block;  // Output channels of a block; the last one may have fewer.
  size_t taps;   // Floats of a block's taps.
  // Arranges the taps of `block` channels of w [3, 3, in, out], from the first
  // input and output channel on.
  void (*pack)(float *taps, const float *w, size_t in, size_t out,
               size_t block);
  // Adds to four lines of dx, of 2 * windows + 2 pixels, the products of
  // `block` channels of a line of d. Windows have `out` channels. Each element
  // is a chain of fused multiply-adds by ascending (window, place, channel)
  // from +0, then added.
  void (*add)(float *const *dx, const float *d, const uint8_t *places,
              const float *taps, size_t windows, size_t out, size_t block);
} ls_cpu_sparse_input;

// Functions for the gradient of the weights, from lists of one output channel
// each. A pixel of a slice takes 16 floats.
typedef struct ls_cpu_sparse_weights {
  size_t channels;  // Channels of a slice.
  int64_t bytes;    // Stored bytes of a channel.
  // Copies `count` pixels of `channels` channels into slices.
  void (*slice)(float *slices, size_t plane, const float *line, size_t channels,
                size_t count);
  // sums[r][t] += value * x[place + r * line + t * 16], for the values in
  // order; sums are [in / 16, 3, 3, 16].
  void (*add)(float *sums, const float *x, size_t line, size_t plane, size_t in,
              const int32_t *places, const float *values, size_t count);
} ls_cpu_sparse_weights;

// A nonzero value and its position.
typedef struct ls_cpu_nonzero {
  int32_t place;
  float value;
} ls_cpu_nonzero;

// Most taps of a line; most vectors of 16 in one call of add_column.
enum { LS_ZEROS_TAPS = 5, LS_ZEROS_VECTORS = 6 };

// Products that skip zeros (conv/zeros.h). Reads of `w` and `x` are of 16
// floats each; `sums` are rows of 16.
typedef struct ls_cpu_zeros {
  size_t (*count)(const float *values, size_t count);  // Counts nonzero values.
  bool (*are_finite)(const float *values, size_t count);
  // Appends the nonzero ones of `count` values, value i at place i * step, and
  // returns their number. May write 64 bytes past them.
  size_t (*list_row)(ls_cpu_nonzero *list, const float *values, size_t count,
                     int32_t step);
  // Appends value i to the list at list + i * pitch, which has counts[i]:
  // nonzero values, or all.
  void (*list_columns)(ls_cpu_nonzero *list, size_t pitch, uint32_t *counts,
                       const float *values, size_t count, int32_t place,
                       bool lists_all);
  // Computes sums[i] += value * w[place + t * tap], for the 2 to 5 taps t and
  // the values of row i + t of the list, which are those from begin[i + t] on,
  // in order.
  void (*add_line)(float *sums, size_t count, const ls_cpu_nonzero *list,
                   const uint32_t *begin, const float *w, size_t tap,
                   size_t taps);
  // Sets sums[v], or with `adds` adds to it, the sum of value * x[v][place]
  // over the list, from +0.
  void (*add_column)(float *sums, const float *const *x, size_t vectors,
                     const ls_cpu_nonzero *list, size_t count, bool adds);
} ls_cpu_zeros;

// Rows and columns of elements to move, and the distance from each to the next,
// in elements of result and operand.
typedef struct ls_cpu_move {
  int64_t rows, columns;
  int64_t out_row, out_column, in_row, in_column;
} ls_cpu_move;

// Copies elements; operand and result are the same or do not overlap.
typedef void ls_cpu_move_fn(void *out, const void *in, const ls_cpu_move *move);
typedef struct ls_cpu_moves {
  ls_cpu_move_fn *of_size[9];  // For elements of 1, 2, 4 and 8 bytes.
} ls_cpu_moves;

// Finds the row of the first winner of each of `columns` adjacent columns of
// [size, inner]: all columns, if there are fewer than 32. Does so for `outer`
// such arrays, if more than one with all their columns.
typedef void ls_cpu_find_fn(int64_t *out, const void *in, int64_t outer,
                            int64_t size, int64_t inner, int64_t columns);
typedef struct ls_cpu_extremes {
  ls_cpu_find_fn *largest[LS_DTYPE_COUNT], *smallest[LS_DTYPE_COUNT];
} ls_cpu_extremes;

// Indices of any integer type; numbers beyond i64 count as its largest. Those
// outside `first` to `last` become the nearest one, or -1.
typedef struct ls_index_range {
  int64_t first, last;
  bool skips;
} ls_index_range;

// An index for each element of [outer, picks, inner], along the middle axis of
// an array [outer, size, inner].
typedef struct ls_index_lines {
  int64_t size, picks, inner;
} ls_index_lines;

// Computes out[i] = x[at[i]].
typedef void ls_cpu_pick_fn(void *out, const void *x, const int64_t *at,
                            int64_t count);

typedef struct ls_cpu_indices {
  // Reads indices `from` to `from + count`, by type.
  void (*read[LS_DTYPE_COUNT])(int64_t *at, const void *indices, int64_t from,
                               int64_t count, const ls_index_range *range);
  // Replaces indices `from` to `from + count` by offsets; -1 stays.
  void (*of_lines)(int64_t *at, int64_t from, int64_t count,
                   const ls_index_lines *lines);
  ls_cpu_pick_fn *pick[sizeof(uint64_t) + 1];  // By the size of an element.
} ls_cpu_indices;

typedef struct ls_cpu_short_rows ls_cpu_short_rows;
typedef struct ls_cpu_reducers ls_cpu_reducers;
typedef struct ls_cpu_spans ls_cpu_spans;
typedef struct ls_cpu_typed_spans ls_cpu_typed_spans;
typedef struct ls_cpu_conversions ls_cpu_conversions;
typedef struct ls_cpu_chains ls_cpu_chains;

typedef struct ls_cpu_kernels {
  const char *name;  // "base", "v3" or "v4".

  // Products. The bits do not depend on the division into blocks, but multiples
  // of these are cheapest. A call may rearrange the part of B that its block
  // uses, so cut columns before rows if possible.
  size_t product_f32_rows, product_f32_columns;
  ls_cpu_product_fn *product_f32;
  ls_cpu_product_scratch_fn *product_f32_scratch;
  // The product of floats that are rounded to bf16 first, to nearest even: to a
  // chain each pair of values of k adds its odd product, then its even one; a
  // single value at the end counts as even. With flush to zero the same bits in
  // every table. A's lines along k are of an even length.
  ls_cpu_product_fn *product_bf16;
  ls_cpu_product_scratch_fn *product_bf16_scratch;
  // The product of floats in use: product_f32, unless changed to another one.
  ls_cpu_product_fn *product;
  ls_cpu_product_scratch_fn *product_scratch;
  ls_cpu_product_fn *product_f64;
  ls_cpu_product_scratch_fn *product_f64_scratch;
  // Products of integers of 16, 32 and 64 bits, which wrap around; the
  // activation takes them as signed.
  ls_cpu_product_fn *product_i16, *product_i32, *product_i64;
  ls_cpu_product_scratch_fn *product_i16_scratch, *product_i32_scratch;
  ls_cpu_product_scratch_fn *product_i64_scratch;
  ls_cpu_transpose_fn *transpose;

  // dst[i] = dy[i] gelu'(x[i]).
  void (*gelu_grad)(float *dst, const float *dy, const float *x, size_t n);
  // Computes gelu_grad, and sets y[i] = gelu(x[i]). `dx` may be `dy`, and `y`
  // may be `x`.
  ls_cpu_gelu_again_fn *gelu_again;
  void (*gelu_again_f64)(double *dx, double *y, const double *dy,
                         const double *x, size_t n);

  // Convert 16-bit floats to f32 and back, to nearest even. No overlap.
  void (*widen_f16)(float *dst, const uint16_t *src, size_t n);
  void (*widen_bf16)(float *dst, const uint16_t *src, size_t n);
  void (*narrow_f16)(uint16_t *dst, const float *src, size_t n);
  void (*narrow_bf16)(uint16_t *dst, const float *src, size_t n);

  // Computes dst[i] = e^(src[i] - max) and returns their sum, added as `sum`
  // adds. `dst` may be `src`, or NULL.
  double (*exp_above)(double *dst, const double *src, double max, size_t n);

  // Computes e^(x - max) / sum, with the sum of all e^(x - max).
  ls_cpu_rows_fn *softmax;
  // Computes (x - max) - log(sum of e^(x - max)).
  ls_cpu_rows_fn *log_softmax;

  // Computes the cross-entropy of softmax(logits) against one class per row:
  // loss[i] = log(sum of e^(x - max)) - (x[label] - max). A label outside [0,
  // columns) makes its row's loss NaN. No overlap.
  void (*label_loss)(float *loss, const float *logits, const int32_t *labels,
                     size_t rows, size_t columns);

  // Computes the gradient of label_loss: (softmax(x) - onehot(label)) * scale[i
  // * scale_stride] for row i; stride 0 is one scale for all. A label outside
  // [0, columns) makes its row NaN. `grad` may be `logits`.
  void (*label_loss_grad)(float *grad, const float *logits,
                          const int32_t *labels, const float *scale,
                          size_t scale_stride, size_t rows, size_t columns);

  // Copies with streaming stores, past the caches; NULL where the machine has
  // none. Other threads may read the copy after stream_end. No overlap.
  void (*stream)(void *dst, const void *src, size_t bytes);
  void (*stream_end)(void);

  // dst[i] = a[i] + b[i].
  void (*add)(float *dst, const float *a, const float *b, size_t n);
  // Add 4 or 8 operands along the canonical tree. `is_streamed`: operands are
  // in memory, not in a cache, and the sum is best stored past the caches.
  void (*add4)(float *dst, const void *const *in, size_t n, bool is_streamed);
  void (*add8)(float *dst, const void *const *in, size_t n, bool is_streamed);

  // Draws the words of consecutive blocks, four each, like
  // ls_random_source_bits.
  void (*random_bits)(uint32_t *restrict dst, const ls_random_source *source,
                      uint64_t first, size_t blocks);
  // Compute pairs of standard normals, like ls_random_normals_f32 from two
  // words each, and like ls_random_normals_f64 from four. No overlap.
  void (*normals)(float *restrict dst, const uint32_t *restrict bits,
                  size_t pairs);
  void (*normals_f64)(double *restrict dst, const uint32_t *restrict bits,
                      size_t pairs);

  // dst[i] = parameter[i] - rate * grad[i], the product rounded first.
  void (*sgd)(float *dst, const float *parameter, const float *grad, float rate,
              size_t n);

  // Elementwise ops of floats: kernels/loops.h. Errors of elementary functions:
  // engine/cpu/elementary, isa/vecmath.h.
  const ls_cpu_spans *spans, *elementary;
  // Spans of other types.
  const ls_cpu_typed_spans *integer_spans, *typed_spans;
  const ls_cpu_conversions *conversions;
  // Reductions: kernels/reduce/short_rows.h.
  const ls_cpu_reducers *reducers;
  const ls_cpu_moves *moves;
  const ls_cpu_extremes *extremes;
  const ls_cpu_indices *indices;
  const ls_cpu_short_rows *short_rows;
  // Several elementwise ops at once: kernels/element/chain.h.
  const ls_cpu_chains *chains;
  const ls_cpu_norms *norms_f32, *norms_f64;
  const ls_cpu_attention *attention;
  const ls_cpu_windows *windows;  // Tables for floats and doubles.
  const ls_cpu_tap_sums *taps_f32, *taps_f64;
  const ls_cpu_winograd *winograd;
  // `winograd_planes` is the one of the two that matches `product`.
  const ls_cpu_winograd_planes *winograd_f32, *winograd_bf16, *winograd_planes;
  const ls_cpu_zeros *zeros;
  const ls_cpu_sparse *sparse;
  // In each line the first matches `product`; the second is for values rounded
  // to bf16, where of each two values of a position or list the second is added
  // first.
  const ls_cpu_sparse_input *sparse_input, *sparse_input_bf16;
  const ls_cpu_sparse_weights *sparse_weights, *sparse_weights_bf16;
} ls_cpu_kernels;

// Returns the fastest table that this machine and its operating system can run.
const ls_cpu_kernels *ls_cpu_kernels_best(void);

// Makes `product` of the table round to bf16, with the bf16 instruction if the
// table is v4 and the machine has it: then returns true.
bool ls_cpu_kernels_use_bf16(ls_cpu_kernels *kernels);

// Returns the table of that name; NULL if there is none or this machine cannot
// run it.
const ls_cpu_kernels *ls_cpu_kernels_find(const char *name);

#endif  // LS_ENGINE_CPU_KERNELS_H_
