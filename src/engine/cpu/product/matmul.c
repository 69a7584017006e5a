// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: matmul and dense.
//
// Every output is one chain of multiply-adds over k, in order, except long ones
// of f32 (products.h); then comes the bias, then the activation. f32 and f64
// use the kernel table's product; 16-bit floats are widened, use that product,
// and are rounded once at the end; integers wrap around, and bytes are widened.
//
// The work is cut into units of a band of rows by a panel of columns. The bits
// do not depend on cuts, so neighbouring units of one call are joined; units
// are numbered so that a range of them cuts the longer side of the result.
//
// Each call copies the part of B it uses unless tiles can read it in place. For
// many bands a first step rearranges B once.
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/reduce/short_rows.h"
#include "lockstep/shape_rules.h"

// ---- Parts ------------------------------------------------------------------
// Least values of k that are cut, and most columns.
enum { LONG_K = 4096, FEW_COLUMNS = 256 };
// Least values of a part, and their multiple: a cache line.
enum { PART_K = 1024, LINE = 16, MOST_PARTS = 8 };
// Rows of a block of the first step, elements of a block of the second.
enum { PART_BAND = 384, STRETCH = 4096 };
// If the parts' sums have more than MANY_BYTES there is one step, with blocks
// of TALL_BAND rows: enough blocks to share without cutting along k.
enum { MANY_BYTES = 4 << 20, TALL_BAND = 128 };

typedef struct parts_params {
  ls_cpu_product product;  // The product of a part, without the arrays.
  const ls_cpu_kernels *kernels;
  ls_cpu_activation activation;
  bool has_bias;
  int64_t k, parts, bands;
  int64_t rows;  // Rows of a block of the last step.
  size_t sums;   // Offset of a part's sums in scratch, if there is one step.
} parts_params;

// Returns true if a product of floats of this shape is computed in parts.
static bool has_parts(const ls_cpu_product *product) {
  return !product->a_transposed && product->k >= LONG_K &&
         product->n <= FEW_COLUMNS;
}

static int64_t size_of(const parts_params *self) {
  return (int64_t)(self->product.m * self->product.n);
}

// Writes the sums of a part for the rows [m0, m1) to `target`.
static void multiply_part(const parts_params *self, const ls_kernel_call *call,
                          int64_t part, int64_t m0, int64_t m1, float *target) {
  const int64_t length = (int64_t)self->product.k, first = part * length;
  ls_cpu_product product = self->product;
  product.m = (size_t)(m1 - m0);
  product.k = (size_t)ls_min_i64(length, self->k - first);
  product.a = (const float *)call->in[0] + m0 * (int64_t)product.lda + first;
  product.b = (const float *)call->in[1] +
              (product.b_transposed ? first : first * (int64_t)product.ldb);
  product.c = target;
  self->kernels->product(&product, &(ls_cpu_block){0, product.m, 0, product.n},
                         call->scratch);
}

// Applies bias and activation to `count` rows of sums.
static void finish_rows(const parts_params *self, const ls_kernel_call *call,
                        float *sums, int64_t count) {
  const size_t n = self->product.n;
  for (; count > 0; --count, sums += n) {
    if (self->has_bias) self->kernels->add(sums, sums, call->in[2], n);
    if (self->activation == LS_CPU_ACTIVATION_RELU)
      for (size_t j = 0; j < n; ++j)
        sums[j] = 0 > sums[j] ? 0 : sums[j];
  }
}

// First step: a block is a band of rows of a part.
static void multiply_parts_loop(const ls_kernel_call *call, int64_t begin_block,
                                int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t m = (int64_t)self->product.m, n = (int64_t)self->product.n;
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t part = i / self->bands, m0 = i % self->bands * PART_BAND;
    float *target = (float *)call->out[0] + part * size_of(self) + m0 * n;
    multiply_part(self, call, part, m0, ls_min_i64(m, m0 + PART_BAND), target);
  }
}

// Second step: a block is some rows.
static void add_parts_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t n = (int64_t)self->product.n;
  const int64_t begin = begin_block * self->rows;
  const int64_t end =
      ls_min_i64(end_block * self->rows, (int64_t)self->product.m);
  if (begin >= end) return;
  const size_t count = (size_t)((end - begin) * n);
  const float *part = (const float *)call->in[2 + self->has_bias] + begin * n;
  float *sums = (float *)call->out[0] + begin * n;
  memcpy(sums, part, count * sizeof(float));
  for (int64_t p = 1; p < self->parts; ++p)
    self->kernels->add(sums, sums, part + p * size_of(self), count);
  finish_rows(self, call, sums, end - begin);
}

// Both steps in one, without memory for all parts' sums: a block is a band of
// rows.
static void bands_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const parts_params *self = call->params;
  const int64_t m = (int64_t)self->product.m, n = (int64_t)self->product.n;
  float *part = (float *)((char *)call->scratch + self->sums);
  for (int64_t i = begin_block; i < end_block; ++i) {
    const int64_t m0 = i * self->rows, m1 = ls_min_i64(m, m0 + self->rows);
    float *sums = (float *)call->out[0] + m0 * n;
    multiply_part(self, call, 0, m0, m1, sums);
    for (int64_t p = 1; p < self->parts; ++p) {
      multiply_part(self, call, p, m0, m1, part);
      self->kernels->add(sums, sums, part, (size_t)((m1 - m0) * n));
    }
    finish_rows(self, call, sums, m1 - m0);
  }
}

// ---- Plan ------------------------------------------------------------------
static void plan_two_steps(parts_params *self, ls_kernel_plan *plan) {
  const int64_t m = (int64_t)self->product.m;
  self->bands = ls_max_i64(1, ls_blocks_of(m, PART_BAND));
  self->rows = STRETCH / ls_max_i64(1, (int64_t)self->product.n);
  plan->first = multiply_parts_loop;
  plan->first_blocks = self->parts * self->bands;
  plan->shared = (size_t)(self->parts * size_of(self)) * sizeof(float);
  plan->loop = add_parts_loop;
}

static void plan_one_step(parts_params *self, ls_kernel_plan *plan) {
  self->rows = TALL_BAND;
  self->sums = ls_round_to_line(plan->scratch);
  plan->scratch = self->sums + TALL_BAND * self->product.n * sizeof(float);
  plan->loop = bands_loop;
}

// Fills in the plan. The kernel's inputs are A, B and, with `has_bias`, the
// bias.
static ls_status parts_prepare(const ls_cpu_product *product, bool has_bias,
                               ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, parts_params, self);
  self->product = *product;
  self->product.activation = LS_CPU_ACTIVATION_NONE;
  self->kernels = plan->kernels;
  self->activation = product->activation;
  self->has_bias = has_bias;
  self->k = (int64_t)product->k;
  const int64_t most = ls_min_i64(MOST_PARTS, self->k / PART_K);
  const int64_t length = ls_blocks_of(ls_blocks_of(self->k, most), LINE) * LINE;
  self->product.k = (size_t)length;
  self->parts = ls_blocks_of(self->k, length);
  plan->params = self;
  plan->scratch = plan->kernels->product_scratch(&self->product);
  const int64_t bytes = self->parts * size_of(self) * (int64_t)sizeof(float);
  (bytes < MANY_BYTES ? plan_two_steps : plan_one_step)(self, plan);
  plan->blocks = ls_max_i64(1, ls_blocks_of((int64_t)product->m, self->rows));
  plan->flops = 2.0 * (double)size_of(self) * (double)self->k;
  return ls_ok();
}

// Size of a unit: large enough that rearranging its parts of A and B is cheap
// relative to the product; halved if there would be few units.
enum { PANEL = 256, BAND = 128, LEAST_SIDE = 32, ENOUGH_UNITS = 6 };
// Least multiply-adds of a block.
enum { BLOCK_WORK = 1 << 19 };
// Least bands and elements of B that are worth a separate first step, of which
// a block has LINE columns or rows of B.
enum { MANY_BANDS = 4, LARGE_B = 1 << 14 };
// Bytes of the values of k that are widened at a time; if A has few rows, which
// soon have read the widened rows of B, bytes of all of those.
enum { WIDE_BYTES = 2048, FEW_ROWS = 4, FEW_BYTES = 1 << 14 };

typedef struct matmul_params {
  ls_cpu_product product;  // Arrays are set per call.
  ls_cpu_product_fn *run;
  ls_cpu_dots_fn *dots;  // For a vector of integers and rows, or NULL.
  ls_dtype dtype;
  int64_t batch;
  // Elements from one matrix of a batch to the next.
  int64_t a_step, b_step, c_step;
  int64_t band, panel;  // Rows and columns of a unit.
  int64_t bands, panels, units_per_block, units;
  // True: panels are numbered within a band; false: bands within a panel.
  bool bands_outside;
  bool has_bias;
  bool turned;  // A is the second operand.
  // Row pitch of B after the first step; 0: there is no first step.
  size_t arranged_ldb;
  ls_cpu_transpose_fn *transpose;
  const ls_cpu_conversions *conversions;  // For bytes.
  bool narrow_relu;  // The activation of bytes, after their product.
} matmul_params;

// ---- Narrow elements -------------------------------------------------------
// 16-bit floats are widened to f32, bytes to 16 bits, of which the lower ones
// of a sum depend on the lower ones of its factors alone.
static bool is_narrow(ls_dtype dtype) {
  return ls_is_half(dtype) || ls_dtype_size(dtype) == 1;
}

// Widens a matrix of rows that are `pitch` apart; returns the end of the
// result.
static char *widen_rows(const matmul_params *self, char *out, const char *in,
                        size_t rows, size_t columns, size_t pitch) {
  const size_t size = ls_dtype_size(self->dtype);
  if (columns == pitch) {
    columns *= rows;
    rows = columns > 0;
  }
  for (size_t i = 0; i < rows; ++i, out += 2 * size * columns) {
    const void *from = in + i * pitch * size;
    if (size == 2)
      ls_widen(self->dtype, (float *)(void *)out, from, (int64_t)columns);
    else
      self->conversions->of[LS_DTYPE_U8][LS_DTYPE_U16](NULL, out, &from,
                                                       (int64_t)columns);
  }
  return out;
}

static void narrow_row(const matmul_params *self, char *out, const void *in,
                       size_t columns) {
  if (ls_is_half(self->dtype)) {
    ls_narrow(self->dtype, (uint16_t *)(void *)out, in, (int64_t)columns);
    return;
  }
  self->conversions->of[LS_DTYPE_U16][LS_DTYPE_I8](NULL, out, &in,
                                                   (int64_t)columns);
  for (size_t j = 0; self->narrow_relu && j < columns; ++j)
    if (((int8_t *)out)[j] < 0) out[j] = 0;
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

// Returns the number of values of k that are widened at a time: even, as bf16
// are multiplied in pairs.
static size_t wide_k(const matmul_params *self) {
  const ls_cpu_product *p = &self->product;
  size_t bytes = WIDE_BYTES;
  if (p->m <= FEW_ROWS && !p->b_transposed)
    bytes = FEW_BYTES / min_size(p->n + 1, PANEL) / LINE * LINE;
  return min_size(p->k, min_size(bytes, WIDE_BYTES) /
                            (2 * ls_dtype_size(self->dtype)));
}

// Returns the bytes of a unit's widened bias and C, and of A and B for some
// values of k.
static size_t wide_bytes(const matmul_params *self) {
  const ls_cpu_product *p = &self->product;
  const size_t m = min_size(p->m, BAND), n = min_size(p->n, PANEL);
  const size_t k = wide_k(self);
  const size_t bytes =
      (n + m * n + m * k + k * n) * 2 * ls_dtype_size(self->dtype);
  return ls_round_to_line(bytes);
}

// Scratch: the widened unit, then the product's own. Chains go on in the
// widened C from some values of k to the next.
static void narrow_unit(const matmul_params *self, const ls_cpu_product *p,
                        const ls_cpu_block *t, char *scratch) {
  const size_t m = t->m1 - t->m0, n = t->n1 - t->n0;
  const size_t size = ls_dtype_size(self->dtype);
  ls_cpu_product unit = *p;
  unit.m = m;
  unit.n = n;
  unit.ldc = n;
  unit.bias = NULL;
  unit.activation = LS_CPU_ACTIVATION_NONE;
  char *sums = scratch;
  if (p->bias != NULL)
    sums = widen_rows(self, scratch, (const char *)p->bias + t->n0 * size, 1, n,
                      n);
  char *a = sums + 2 * size * m * n;
  unit.a = a;
  unit.c = sums;
  size_t k0 = 0;
  do {  // Runs once even if k is 0, for the epilogue.
    const size_t k = min_size(wide_k(self), p->k - k0);
    const size_t a0 =
        p->a_transposed ? k0 * p->lda + t->m0 : t->m0 * p->lda + k0;
    const size_t b0 =
        p->b_transposed ? t->n0 * p->ldb + k0 : k0 * p->ldb + t->n0;
    unit.k = k;
    unit.lda = p->a_transposed ? m : k;
    unit.ldb = p->b_transposed ? k : n;
    char *b = widen_rows(self, a, (const char *)p->a + a0 * size,
                         p->a_transposed ? k : m, unit.lda, p->lda);
    unit.b = b;
    widen_rows(self, b, (const char *)p->b + b0 * size, p->b_transposed ? n : k,
               unit.ldb, p->ldb);
    unit.continues = k0 > 0;
    k0 += k;
    if (k0 == p->k) {
      if (p->bias != NULL) unit.bias = scratch;
      unit.activation = p->activation;
    }
    self->run(&unit, &(ls_cpu_block){0, m, 0, n}, scratch + wide_bytes(self));
  } while (k0 < p->k);
  char *c = (char *)p->c + (t->m0 * p->ldc + t->n0) * size;
  for (size_t i = 0; i < m; ++i)
    narrow_row(self, c + i * p->ldc * size, sums + i * n * 2 * size, n);
}

// ---- Loop ------------------------------------------------------------------
// Joins the units from `unit` on that one call can compute, before `end`;
// returns their number.
static int64_t join_units(const matmul_params *self, int64_t unit, int64_t end,
                          ls_cpu_block *out_block) {
  const bool by_band = self->bands_outside;
  const int64_t outer = by_band ? self->bands : self->panels;
  const int64_t inner = by_band ? self->panels : self->bands;
  const int64_t in_matrix = unit % (outer * inner);
  const int64_t o = in_matrix / inner, i = in_matrix % inner;
  int64_t in_outer = 1, in_inner = ls_min_i64(inner - i, end - unit);
  if (is_narrow(self->dtype))
    in_inner = 1;
  else if (in_inner == inner)
    in_outer = ls_min_i64(outer - o, (end - unit) / inner);
  const int64_t band = by_band ? o : i, panel = by_band ? i : o;
  const int64_t bands = by_band ? in_outer : in_inner;
  const int64_t panels = by_band ? in_inner : in_outer;
  *out_block = (ls_cpu_block){
      .m0 = (size_t)(band * self->band),
      .m1 = min_size((size_t)((band + bands) * self->band), self->product.m),
      .n0 = (size_t)(panel * self->panel),
      .n1 = min_size((size_t)((panel + panels) * self->panel), self->product.n),
  };
  return in_outer * in_inner;
}

static const char *matrix_at(const void *base, int64_t index, int64_t step,
                             ls_dtype dtype) {
  return (const char *)base + (size_t)(index * step) * ls_dtype_size(dtype);
}

// First step: arranges B.
static void arrange_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const matmul_params *self = call->params;
  const ls_cpu_product *p = &self->product;
  const float *b = call->in[1];
  float *target = call->out[0];
  const size_t stored_rows = p->b_transposed ? p->n : p->k;
  const size_t end = min_size((size_t)end_block * LINE, stored_rows);
  for (size_t i = (size_t)begin_block * LINE; i < end; i += LINE) {
    const size_t rows = min_size(LINE, end - i);
    if (p->b_transposed) {
      self->transpose(target + i, self->arranged_ldb, b + i * p->ldb, p->ldb,
                      p->k, rows);
      continue;
    }
    for (size_t r = i; r < i + rows; ++r)
      memcpy(target + r * self->arranged_ldb, b + r * p->ldb,
             p->n * sizeof(float));
  }
}

static void matmul_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const matmul_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  ls_cpu_product product = self->product;
  if (self->has_bias) product.bias = call->in[2];
  product.accumulate = call->adds;
  const void *a = call->in[self->turned], *b = call->in[!self->turned];
  const size_t size = ls_dtype_size(self->dtype);
  if (self->arranged_ldb != 0) {
    b = call->in[2 + self->has_bias];
    product.ldb = self->arranged_ldb;
    product.b_transposed = false;
  }
  int64_t unit = begin_block * self->units_per_block;
  while (unit < end) {
    const int64_t at = unit / (self->bands * self->panels);
    ls_cpu_block block;
    unit += join_units(self, unit, end, &block);
    product.a = matrix_at(a, at, self->a_step, self->dtype);
    product.b = matrix_at(b, at, self->b_step, self->dtype);
    product.c = (char *)call->out[0] +
                (size_t)(at * self->c_step) * size;
    if (self->dots != NULL)
      self->dots((char *)product.c + block.m0 * size,
                 (const char *)product.a + block.m0 * product.k * size,
                 product.b, block.m1 - block.m0, product.k);
    else if (is_narrow(self->dtype))
      narrow_unit(self, &product, &block, call->scratch);
    else
      self->run(&product, &block, call->scratch);
  }
}

// ---- Plan ------------------------------------------------------------------
static int64_t product_of(ls_shape shape, int32_t dims) {
  int64_t count = 1;
  for (int32_t i = 0; i < dims; ++i)
    count *= shape.dim[i];
  return count;
}

// Reads the sizes from the types.
static void read_sizes(const ls_kernel_plan *plan, matmul_params *self) {
  const ls_shape a = plan->in[0].shape, b = plan->in[1].shape;
  ls_cpu_product *p = &self->product;
  p->a_transposed = ls_node_int(plan->node, LS_ATTR_ID_TRANSPOSE_A) != 0;
  p->b_transposed = ls_node_int(plan->node, LS_ATTR_ID_TRANSPOSE_B) != 0;
  p->k = (size_t)b.dim[b.rank - (p->b_transposed ? 1 : 2)];
  p->n = (size_t)b.dim[b.rank - (p->b_transposed ? 2 : 1)];
  if (b.rank == 2 && !p->a_transposed) {
    self->batch = 1;  // Leading dimensions are more rows.
    p->m = (size_t)product_of(a, a.rank - 1);
  } else {
    self->batch = product_of(a, a.rank - 2);
    p->m = (size_t)a.dim[a.rank - (p->a_transposed ? 1 : 2)];
  }
  p->lda = p->a_transposed ? p->m : p->k;
  p->ldb = p->b_transposed ? p->k : p->n;
  p->ldc = p->n;
  self->a_step = (int64_t)(p->m * p->k);
  self->b_step = (int64_t)(p->k * p->n);
  self->c_step = (int64_t)(p->m * p->n);
}

// Returns true if the kernel can add the product to C without more scratch,
// which cut chains would need.
static bool can_add(const matmul_params *self,
                    ls_cpu_product_scratch_fn *scratch) {
  ls_cpu_product product = self->product;
  const size_t before = scratch(&product);
  product.accumulate = true;
  return scratch(&product) == before;
}

// Multiplies a vector of one column as a row, by the transposed matrix: tiles
// read many of its columns at a time. Where those are stored as rows, only
// product_f32 does so well.
static void turn_column(const ls_cpu_kernels *kernels, matmul_params *self) {
  ls_cpu_product *p = &self->product;
  if (p->n != 1 || self->has_bias || self->run == kernels->product_bf16 ||
      (!p->a_transposed && self->run != kernels->product_f32))
    return;
  const int64_t a_step = self->a_step;
  self->a_step = self->b_step;
  self->b_step = a_step;
  *p = (ls_cpu_product){.m = 1,
                        .n = p->m,
                        .k = p->k,
                        .lda = p->k,
                        .ldb = p->lda,
                        .ldc = p->m,
                        .activation = p->activation,
                        .b_transposed = !p->a_transposed};
  self->turned = true;
}

// Chooses the function for a vector of integers and rows, which become A.
static void choose_dots(const ls_cpu_kernels *kernels, matmul_params *self) {
  ls_cpu_product *p = &self->product;
  if (self->has_bias || p->activation != LS_CPU_ACTIVATION_NONE) return;
  if (p->m == 1 && p->b_transposed) {
    const int64_t a_step = self->a_step;
    self->a_step = self->b_step;
    self->b_step = a_step;
    *p = (ls_cpu_product){
        .m = p->n, .n = 1, .k = p->k, .lda = p->k, .ldb = 1, .ldc = 1};
    self->turned = true;
  }
  if (p->n == 1 && !p->a_transposed)
    self->dots = kernels->reducers->dots[ls_dtype_size(self->dtype)];
}

// Chooses the product's function; returns false if there is none.
static bool choose_product(ls_kernel_plan *plan, matmul_params *self) {
  const ls_cpu_kernels *kernels = plan->kernels;
  ls_cpu_product_scratch_fn *scratch;
  const size_t size = ls_dtype_size(self->dtype);
  if (self->dtype == LS_DTYPE_F64) {
    self->run = kernels->product_f64;
    scratch = kernels->product_f64_scratch;
  } else if (ls_dtype_is_float(self->dtype)) {
    self->run = kernels->product;
    scratch = kernels->product_scratch;
  } else if (ls_dtype_is_integer(self->dtype)) {
    self->run = size == 8   ? kernels->product_i64
                : size == 4 ? kernels->product_i32
                            : kernels->product_i16;
    scratch = size == 8   ? kernels->product_i64_scratch
              : size == 4 ? kernels->product_i32_scratch
                          : kernels->product_i16_scratch;
    const bool relu = self->product.activation == LS_CPU_ACTIVATION_RELU &&
                      !ls_dtype_is_unsigned(self->dtype);
    self->narrow_relu = relu && size == 1;
    if (!relu) choose_dots(kernels, self);
    if (!relu || size == 1) self->product.activation = LS_CPU_ACTIVATION_NONE;
  } else {
    return false;
  }
  turn_column(kernels, self);
  plan->scratch = scratch(&self->product);
  if (is_narrow(self->dtype))
    plan->scratch += wide_bytes(self);
  else if (ls_dtype_is_float(self->dtype))
    plan->adds = can_add(self, scratch);
  return true;
}

static void cut_units(matmul_params *self) {
  const int64_t m = (int64_t)self->product.m, n = (int64_t)self->product.n;
  const int64_t k = (int64_t)self->product.k;
  self->band = ls_max_i64(1, ls_min_i64(m, BAND));
  self->panel = ls_max_i64(1, ls_min_i64(n, PANEL));
  for (;;) {
    self->bands = ls_blocks_of(m, self->band);
    self->panels = ls_blocks_of(n, self->panel);
    self->units = self->batch * self->bands * self->panels;
    int64_t *longer = self->band >= self->panel ? &self->band : &self->panel;
    if (self->units >= ENOUGH_UNITS || *longer < 2 * LEAST_SIDE ||
        self->band * self->panel * k < 2 * BLOCK_WORK)
      break;
    *longer = (*longer + 1) / 2;
  }
  self->bands_outside = m >= n;
  const int64_t work = self->band * self->panel * k;
  self->units_per_block = ls_max_i64(1, BLOCK_WORK / ls_max_i64(1, work));
}

// Returns true if calls would copy the same part of B repeatedly.
static bool is_worth_arranging(const matmul_params *self,
                               const ls_cpu_kernels *kernels) {
  const ls_cpu_product *p = &self->product;
  return self->dtype == LS_DTYPE_F32 && self->run == kernels->product_f32 &&
         kernels->product_f32_columns >= 2 * LINE && self->batch == 1 &&
         self->bands_outside && self->bands >= MANY_BANDS &&
         p->k * p->n >= LARGE_B &&
         (p->b_transposed || p->ldb * sizeof(float) % LS_CPU_FEW_SETS == 0);
}

// Chooses a pitch of an odd number of cache lines: such rows use all sets of a
// cache.
static void plan_arranging(matmul_params *self, ls_kernel_plan *plan) {
  const ls_cpu_product *p = &self->product;
  self->arranged_ldb = ((p->n + LINE - 1) / LINE | 1) * LINE;
  self->transpose = plan->kernels->transpose;
  plan->first = arrange_loop;
  plan->first_blocks =
      ls_blocks_of((int64_t)(p->b_transposed ? p->n : p->k), LINE);
  plan->shared = p->k * self->arranged_ldb * sizeof(float);
}

ls_status kernel_matmul(ls_kernel_plan *plan) {
  LS_ARENA_NEW_OR_RETURN(plan->arena, matmul_params, self);
  read_sizes(plan, self);
  self->dtype = plan->in[0].dtype;
  self->conversions = plan->kernels->conversions;
  self->has_bias = plan->node->type == LS_OP_DENSE && plan->num_in > 2;
  const ls_attr *activation = ls_node_attr(plan->node, LS_ATTR_ID_ACTIVATION);
  if (activation != NULL) {
    if (strcmp(activation->as.string, "relu") != 0)
      return ls_unimplemented("op '%s' has no CPU kernel for activation '%s'",
                              ls_node_info(plan->node)->name,
                              activation->as.string);
    self->product.activation = LS_CPU_ACTIVATION_RELU;
  }
  // Leading dimensions count as rows only if B has none.
  if (self->dtype == LS_DTYPE_F32 && plan->in[1].shape.rank == 2 &&
      has_parts(&self->product))
    return parts_prepare(&self->product, self->has_bias, plan);
  if (!choose_product(plan, self))
    return ls_kernel_unsupported(plan, self->dtype);
  cut_units(self);
  if (is_worth_arranging(self, plan->kernels)) plan_arranging(self, plan);
  plan->flops = 2.0 * (double)self->batch * (double)self->product.m *
                (double)self->product.n * (double)self->product.k;
  return ls_kernel_runs(plan, matmul_loop, self,
                        ls_blocks_of(self->units, self->units_per_block));
}
