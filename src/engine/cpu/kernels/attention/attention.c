// SPDX-License-Identifier: Apache-2.0
//
// Attention, and its gradient, head by head.
//
// A head is a range of columns of each token, so its matrices lie in their
// arrays with a pitch. The table's kernels of attention take a whole head of
// floats. f64, and floats with another product than the default, use the
// table's product, which reads the matrices in place: queries in bands whose
// scores stay in the cache; with causal attention a band computes only the keys
// up to its last query. The gradient computes the probabilities again, band
// after band from the last one, and adds up the bands' contributions to keys
// and values in that order: the first one uses all keys. Every product is one
// chain over its inner size; bands and blocks depend on the shape alone.
//
// 16-bit floats are widened, computed as f32 and rounded once.
#include <math.h>

#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Heads ------------------------------------------------------------------
// Heads of attention and of its gradient: whole, or in bands of queries.

// Position of the heads' columns in an operand.
typedef struct ls_cpu_head_place {
  uint32_t operand;
  int64_t offset;  // Elements before the first head.
  int64_t rows, depth, pitch;
} ls_cpu_head_place;

typedef struct ls_cpu_attention_params {
  const ls_cpu_kernels *kernels;
  const ls_cpu_norms *norms;
  // Kernels for whole heads; NULL: bands of products.
  const ls_cpu_attention *head_kernels;
  ls_cpu_product_fn *product;
  ls_dtype dtype;
  // Bytes of an operand's element, and of a computed one.
  size_t element, wide;
  double scale;
  bool causal;
  int64_t heads, units, units_per_block;  // A unit is a head.
  int64_t band;  // Queries per band; whole heads: all queries.
  ls_cpu_head_place q, k, v, out;  // `out`: the result, or its gradient.
  ls_cpu_head_place dq, dk, dv;    // Results of the gradient.
  size_t table_scratch;            // Scratch of the product, or of whole heads.
} ls_cpu_attention_params;

// One head's matrix, in the type of the computation.
typedef struct matrix {
  void *data;
  int64_t pitch;
} matrix;

// Buffers of a thread, in its scratch.
typedef struct attention_work {
  const ls_cpu_attention_params *self;
  const ls_kernel_call *call;
  int64_t unit;
  void *table;                 // Scratch of the kernel table's functions.
  void *scores, *dscores, *q;  // Values of a band; q is scaled.
  // Widened copies, for 16-bit floats; `rows` and `dq` are of a band.
  void *k, *v, *rows, *dq, *dk, *dv;
} attention_work;

// ---- Scratch ---------------------------------------------------------------
// Gives `work` its parts of `scratch`, unless NULL. Returns their total bytes.
static size_t divide_scratch(const ls_cpu_attention_params *self, bool gradient,
                             attention_work *work, char *scratch) {
  const int64_t keys = self->k.rows, queries = self->band;
  const bool half = ls_is_half(self->dtype);
  const int64_t scores = self->head_kernels == NULL ? queries * keys : 0;
  struct {
    void **part;
    int64_t elements;
  } const parts[] = {
      {&work->scores, scores},
      {&work->dscores, gradient ? scores : 0},
      {&work->q,
       half || self->head_kernels == NULL ? queries * self->q.depth : 0},
      {&work->k, half ? keys * self->k.depth : 0},
      {&work->v, half ? keys * self->v.depth : 0},
      {&work->rows, half ? queries * self->v.depth : 0},
      {&work->dq, half && gradient ? queries * self->q.depth : 0},
      {&work->dk, half && gradient ? keys * self->k.depth : 0},
      {&work->dv, half && gradient ? keys * self->v.depth : 0},
  };
  size_t size = ls_round_to_line(self->table_scratch);
  if (scratch != NULL) work->table = scratch;
  for (size_t i = 0; i < LS_COUNT_OF(parts); ++i) {
    if (scratch != NULL) *parts[i].part = scratch + size;
    size += ls_round_to_line((size_t)parts[i].elements * self->wide);
  }
  return size;
}

// ---- Matrices --------------------------------------------------------------
static size_t bytes_before(const attention_work *work,
                           const ls_cpu_head_place *at, int64_t row) {
  const ls_cpu_attention_params *self = work->self;
  const int64_t head = work->unit % self->heads;
  const int64_t first = work->unit / self->heads * at->rows;
  const int64_t element =
      at->offset + (first + row) * at->pitch + head * at->depth;
  return (size_t)element * self->element;
}

static const void *find_row(const attention_work *work,
                            const ls_cpu_head_place *at, int64_t row) {
  return (const char *)work->call->in[at->operand] +
         bytes_before(work, at, row);
}

static void *result_row_of(const attention_work *work,
                           const ls_cpu_head_place *at, int64_t row) {
  return (char *)work->call->out[at->operand] + bytes_before(work, at, row);
}

static void *address_of(const ls_cpu_attention_params *self, void *data,
                        int64_t elements) {
  return (char *)data + (size_t)elements * self->wide;
}

// Returns rows of an operand, widened into `room` if necessary.
static matrix open_rows(const attention_work *work, const ls_cpu_head_place *at,
                        int64_t row, int64_t rows, void *room) {
  const ls_cpu_attention_params *self = work->self;
  const void *data = find_row(work, at, row);
  if (!ls_is_half(self->dtype))
    return (matrix){(void *)(uintptr_t)data, at->pitch};
  for (int64_t i = 0; i < rows; ++i)
    ls_widen(self->dtype, (float *)room + i * at->depth,
             (const uint16_t *)data + i * at->pitch, at->depth);
  return (matrix){room, at->depth};
}

// Returns the memory in which rows of a result are computed.
static matrix place_rows(const attention_work *work,
                         const ls_cpu_head_place *at, int64_t row, void *room) {
  if (ls_is_half(work->self->dtype)) return (matrix){room, at->depth};
  return (matrix){result_row_of(work, at, row), at->pitch};
}

static void keep_rows(const attention_work *work, const ls_cpu_head_place *at,
                      int64_t row, int64_t rows, const void *room) {
  const ls_cpu_attention_params *self = work->self;
  if (!ls_is_half(self->dtype)) return;
  uint16_t *out = result_row_of(work, at, row);
  for (int64_t i = 0; i < rows; ++i)
    ls_narrow(self->dtype, out + i * at->pitch,
              (const float *)room + i * at->depth, at->depth);
}

// Computes c = a b, m x n, with inner size k.
static void multiply_matrices(const attention_work *work, int64_t m, int64_t n,
                              int64_t k, matrix a, bool turn_a, matrix b,
                              bool turn_b, matrix c, bool accumulate) {
  const ls_cpu_product product = {.m = (size_t)m,
                                  .n = (size_t)n,
                                  .k = (size_t)k,
                                  .a = a.data,
                                  .b = b.data,
                                  .c = c.data,
                                  .lda = (size_t)a.pitch,
                                  .ldb = (size_t)b.pitch,
                                  .ldc = (size_t)c.pitch,
                                  .a_transposed = turn_a,
                                  .b_transposed = turn_b,
                                  .accumulate = accumulate};
  const ls_cpu_block full_block = {0, (size_t)m, 0, (size_t)n};
  work->self->product(&product, &full_block, work->table);
}

// ---- Whole heads -----------------------------------------------------------
static ls_cpu_head_rows head_rows(matrix m) {
  return (ls_cpu_head_rows){m.data, (size_t)m.pitch};
}

static ls_cpu_head open_head(const attention_work *work, bool gradient) {
  const ls_cpu_attention_params *self = work->self;
  const ls_cpu_head_place *q = &self->q, *k = &self->k, *v = &self->v;
  ls_cpu_head head = {
      .queries = (size_t)q->rows,
      .keys = (size_t)k->rows,
      .depth = (size_t)q->depth,
      .value_depth = (size_t)v->depth,
      .scale = (float)self->scale,
      .causal = self->causal,
      .q = head_rows(open_rows(work, q, 0, q->rows, work->q)),
      .k = head_rows(open_rows(work, k, 0, k->rows, work->k)),
      .v = head_rows(open_rows(work, v, 0, v->rows, work->v)),
  };
  if (!gradient) {
    head.out = head_rows(place_rows(work, &self->out, 0, work->rows));
    return head;
  }
  head.out = head_rows(open_rows(work, &self->out, 0, q->rows, work->rows));
  head.dq = head_rows(place_rows(work, &self->dq, 0, work->dq));
  head.dk = head_rows(place_rows(work, &self->dk, 0, work->dk));
  head.dv = head_rows(place_rows(work, &self->dv, 0, work->dv));
  return head;
}

// Describes in `room` the head that this thread usually runs next; returns NULL
// if there is none, or if it must be widened.
static const ls_cpu_head *head_after(const attention_work *work, bool gradient,
                                     ls_cpu_head *room) {
  attention_work after = *work;
  if (++after.unit == work->self->units || ls_is_half(work->self->dtype))
    return NULL;
  *room = open_head(&after, gradient);
  return room;
}

static void attend_whole(const attention_work *work) {
  const ls_cpu_attention_params *self = work->self;
  ls_cpu_head after, head = open_head(work, false);
  head.next = head_after(work, false, &after);
  self->head_kernels->attend(&head, work->table);
  keep_rows(work, &self->out, 0, self->q.rows, work->rows);
}

static void differentiate_whole(const attention_work *work) {
  const ls_cpu_attention_params *self = work->self;
  ls_cpu_head after, head = open_head(work, true);
  head.next = head_after(work, true, &after);
  self->head_kernels->differentiate(&head, work->table);
  keep_rows(work, &self->dq, 0, self->q.rows, work->dq);
  keep_rows(work, &self->dk, 0, self->k.rows, work->dk);
  keep_rows(work, &self->dv, 0, self->k.rows, work->dv);
}

// ---- Bands -----------------------------------------------------------------
typedef struct query_band {
  int64_t begin, rows;
  int64_t keys;
} query_band;

static query_band band_at(const ls_cpu_attention_params *self, int64_t begin) {
  query_band b = {begin, ls_min_i64(self->band, self->q.rows - begin),
                  self->k.rows};
  if (self->causal) b.keys = begin + b.rows;
  return b;
}

// Returns the number of keys that a query of the band attends to; the rest of
// its row is 0.
static int64_t count_seen_keys(const ls_cpu_attention_params *self,
                               const query_band *b, int64_t row) {
  return self->causal ? b->begin + row + 1 : b->keys;
}

static void clear_unseen(const attention_work *work, const query_band *b,
                         void *rows, int64_t row) {
  const int64_t from = count_seen_keys(work->self, b, row);
  memset(address_of(work->self, rows, row * b->keys + from), 0,
         (size_t)(b->keys - from) * work->self->wide);
}

// Computes the band's scaled queries, and their probabilities in work->scores.
static void find_probabilities(const attention_work *work, const query_band *b,
                               matrix k) {
  const ls_cpu_attention_params *self = work->self;
  const int64_t depth = self->q.depth;
  const matrix q = open_rows(work, &self->q, b->begin, b->rows, work->q);
  for (int64_t i = 0; i < b->rows; ++i)
    self->norms->scale(address_of(self, work->q, i * depth),
                       address_of(self, q.data, i * q.pitch), self->scale,
                       (size_t)depth);
  multiply_matrices(work, b->rows, b->keys, depth, (matrix){work->q, depth},
                    false, k, true, (matrix){work->scores, b->keys}, false);
  for (int64_t i = 0; i < b->rows; ++i) {
    void *row = address_of(self, work->scores, i * b->keys);
    const int64_t n = count_seen_keys(self, b, i);
    if (self->dtype == LS_DTYPE_F64)
      ls_softmax_f64(self->kernels, row, row, n);
    else
      self->kernels->softmax(row, row, 1, (size_t)n);
    clear_unseen(work, b, work->scores, i);
  }
}

// ---- Forward ---------------------------------------------------------------
static void attend_in_bands(const attention_work *work) {
  const ls_cpu_attention_params *self = work->self;
  const matrix k = open_rows(work, &self->k, 0, self->k.rows, work->k);
  const matrix v = open_rows(work, &self->v, 0, self->v.rows, work->v);
  for (int64_t i = 0; i < self->q.rows; i += self->band) {
    const query_band b = band_at(self, i);
    find_probabilities(work, &b, k);
    multiply_matrices(work, b.rows, self->v.depth, b.keys,
                      (matrix){work->scores, b.keys}, false, v, false,
                      place_rows(work, &self->out, i, work->rows), false);
    keep_rows(work, &self->out, i, b.rows, work->rows);
  }
}

// Runs blocks of heads.
static void attend_heads(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const ls_cpu_attention_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  attention_work work = {.self = self, .call = call};
  divide_scratch(self, false, &work, call->scratch);
  for (work.unit = begin_block * self->units_per_block; work.unit < end;
       ++work.unit)
    (self->head_kernels != NULL ? attend_whole : attend_in_bands)(&work);
}

// ---- Gradient --------------------------------------------------------------
// Computes, with p the probabilities and d the gradient of the result: dv = p'
// d, ds = p (dp - sum(p dp)) for dp = d v', dq = scale ds k, dk = ds' (scale
// q).
static void differentiate_band(const attention_work *work, const query_band *b,
                               matrix k, matrix v, matrix dk, matrix dv,
                               bool add) {
  const ls_cpu_attention_params *self = work->self;
  const int64_t rows = b->rows, keys = b->keys;
  const int64_t depth = self->q.depth, value_depth = self->v.depth;
  const matrix p = {work->scores, keys}, ds = {work->dscores, keys};
  find_probabilities(work, b, k);
  const matrix d = open_rows(work, &self->out, b->begin, rows, work->rows);
  multiply_matrices(work, keys, value_depth, rows, p, true, d, false, dv, add);
  multiply_matrices(work, rows, keys, value_depth, d, false, v, true, ds,
                    false);
  for (int64_t i = 0; i < rows; ++i) {
    void *row = address_of(self, ds.data, i * keys);
    self->norms->softmax_gradient(row, address_of(self, p.data, i * keys), row,
                                  (size_t)count_seen_keys(self, b, i));
    clear_unseen(work, b, ds.data, i);
  }
  multiply_matrices(work, keys, depth, rows, ds, true, (matrix){work->q, depth},
                    false, dk, add);
  const matrix dq = place_rows(work, &self->dq, b->begin, work->dq);
  multiply_matrices(work, rows, depth, keys, ds, false, k, false, dq, false);
  for (int64_t i = 0; i < rows; ++i) {
    void *row = address_of(self, dq.data, i * dq.pitch);
    self->norms->scale(row, row, self->scale, (size_t)depth);
  }
  keep_rows(work, &self->dq, b->begin, rows, work->dq);
}

// Clears rows that no query writes, if there are no queries.
static void clear_rows(const ls_cpu_attention_params *self, matrix m,
                       int64_t rows, int64_t depth) {
  for (int64_t i = 0; i < rows; ++i)
    memset(address_of(self, m.data, i * m.pitch), 0,
           (size_t)depth * self->wide);
}

static void differentiate_in_bands(const attention_work *work) {
  const ls_cpu_attention_params *self = work->self;
  const int64_t keys = self->k.rows;
  const matrix k = open_rows(work, &self->k, 0, keys, work->k);
  const matrix v = open_rows(work, &self->v, 0, keys, work->v);
  const matrix dk = place_rows(work, &self->dk, 0, work->dk);
  const matrix dv = place_rows(work, &self->dv, 0, work->dv);
  const int64_t bands = (self->q.rows + self->band - 1) / self->band;
  for (int64_t i = bands; i-- > 0;) {
    const query_band b = band_at(self, i * self->band);
    differentiate_band(work, &b, k, v, dk, dv, i + 1 < bands);
  }
  if (bands == 0) {
    clear_rows(self, dk, keys, self->k.depth);
    clear_rows(self, dv, keys, self->v.depth);
  }
  keep_rows(work, &self->dk, 0, keys, work->dk);
  keep_rows(work, &self->dv, 0, keys, work->dv);
}

// Run blocks of heads.
static void attend_gradient(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const ls_cpu_attention_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  attention_work work = {.self = self, .call = call};
  divide_scratch(self, true, &work, call->scratch);
  for (work.unit = begin_block * self->units_per_block; work.unit < end;
       ++work.unit)
    (self->head_kernels != NULL ? differentiate_whole
                                : differentiate_in_bands)(&work);
}

// Returns the bytes of scratch per thread.
static size_t attention_scratch(const ls_cpu_attention_params *self,
                                bool gradient) {
  return divide_scratch(self, gradient, &(attention_work){0}, NULL);
}

// Most scores of a band, least and most queries in it; multiply-adds of a
// block.
enum { SCORES = 32768, LEAST_BAND = 16, MOST_BAND = 128, BLOCK_WORK = 1 << 19 };
enum { CAUSAL_BAND = 32 };

// ---- Plan ------------------------------------------------------------------
static ls_cpu_head_place find_head_place(uint32_t operand, ls_shape shape,
                                         int64_t offset, int64_t width,
                                         int64_t heads) {
  return (ls_cpu_head_place){operand, offset, shape.dim[1], width / heads,
                             shape.dim[2]};
}

// Finds q, k and v among the operands from number `first` on: three operands,
// or one in which they are concatenated.
static void find_qkv(ls_cpu_attention_params *self, const ls_kernel_plan *plan,
                     uint32_t first) {
  ls_cpu_head_place *const places[] = {&self->q, &self->k, &self->v};
  ls_cpu_head_place *const results[] = {&self->dq, &self->dk, &self->dv};
  const bool packed = plan->num_in == first + 1;
  for (uint32_t i = 0; i < 3; ++i) {
    const uint32_t number = packed ? 0 : i;
    const ls_shape shape = plan->in[first + number].shape;
    const int64_t width = packed ? shape.dim[2] / 3 : shape.dim[2];
    *places[i] = find_head_place(first + number, shape, packed ? i * width : 0,
                                 width, self->heads);
    *results[i] = *places[i];
    results[i]->operand = number;
  }
}

static int64_t band_of(const ls_cpu_attention_params *self) {
  const int64_t keys = ls_max_i64(1, self->k.rows);
  int64_t band = ls_min_i64(MOST_BAND, ls_max_i64(LEAST_BAND, SCORES / keys));
  if (self->causal) band = ls_min_i64(band, CAUSAL_BAND);
  return ls_min_i64(band, ls_max_i64(1, self->q.rows));
}

// Returns the most scratch that any product of the loops needs.
static size_t product_scratch(const ls_cpu_attention_params *self,
                              ls_cpu_product_scratch_fn *size_of) {
  const size_t queries = (size_t)self->band, keys = (size_t)self->k.rows;
  const size_t depth = (size_t)ls_max_i64(self->q.depth, self->v.depth);
  const ls_cpu_product products[] = {
      {.m = queries, .n = keys, .k = depth, .b_transposed = true},
      {.m = queries, .n = depth, .k = keys},
      {.m = keys,
       .n = depth,
       .k = queries,
       .a_transposed = true,
       .accumulate = true},
  };
  size_t size = 0;
  for (size_t i = 0; i < LS_COUNT_OF(products); ++i) {
    const size_t product_bytes = size_of(&products[i]);
    if (product_bytes > size) size = product_bytes;
  }
  return size;
}

static size_t table_scratch(const ls_cpu_attention_params *self,
                            const ls_cpu_kernels *kernels, bool gradient) {
  if (self->head_kernels == NULL)
    return product_scratch(self, self->dtype == LS_DTYPE_F64
                                     ? kernels->product_f64_scratch
                                     : kernels->product_scratch);
  const ls_cpu_head head = {.queries = (size_t)self->q.rows,
                            .keys = (size_t)self->k.rows,
                            .depth = (size_t)self->q.depth,
                            .value_depth = (size_t)self->v.depth};
  return self->head_kernels->scratch(&head, gradient);
}

static ls_status plan_attention(ls_kernel_plan *plan, uint32_t first,
                                ls_cpu_attention_params **out_self) {
  const ls_type type = plan->in[0];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, ls_cpu_attention_params, self);
  const bool f64 = type.dtype == LS_DTYPE_F64;
  self->kernels = plan->kernels;
  self->norms = f64 ? plan->kernels->norms_f64 : plan->kernels->norms_f32;
  self->product = f64 ? plan->kernels->product_f64 : plan->kernels->product;
  self->dtype = type.dtype;
  self->element = ls_dtype_size(type.dtype);
  self->wide = f64 ? sizeof(double) : sizeof(float);
  self->heads = ls_node_int(plan->node, LS_ATTR_ID_NUM_HEADS);
  self->causal = ls_node_int(plan->node, LS_ATTR_ID_CAUSAL) != 0;
  find_qkv(self, plan, first);
  const ls_attr *scale = ls_node_attr(plan->node, LS_ATTR_ID_SCALE);
  self->scale = scale != NULL
                    ? scale->as.f
                    : 1.0 / sqrt((double)ls_max_i64(1, self->q.depth));
  if (!f64 && self->product == plan->kernels->product_f32)
    self->head_kernels = plan->kernels->attention;
  if (self->head_kernels != NULL)
    self->band = ls_max_i64(1, self->q.rows);
  else
    self->band = band_of(self);
  self->table_scratch = table_scratch(self, plan->kernels, first > 0);
  plan->params = self;
  *out_self = self;
  return ls_ok();
}

// Counts the scores of a head that are actually computed.
static double scores_of(const ls_cpu_attention_params *self) {
  const double rows = (double)self->q.rows, keys = (double)self->k.rows;
  if (!self->causal) return rows * keys;
  // In a band all queries use the keys of the last one; a whole head has no
  // bands.
  const double band = self->head_kernels != NULL ? 1 : (double)self->band;
  return rows * (rows + band) / 2;
}

static void set_blocks(ls_kernel_plan *plan, ls_cpu_attention_params *self,
                       double work, bool gradient) {
  // Without columns there is nothing to compute, whatever the number of heads.
  plan->blocks = 0;
  if (self->q.depth + self->v.depth == 0) return;
  self->units = plan->in[0].shape.dim[0] * self->heads;
  self->units_per_block = (int64_t)fmax(1, BLOCK_WORK / fmax(1, work));
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->flops = 2 * work * (double)self->units;
  plan->scratch = attention_scratch(self, gradient);
}

ls_status kernel_attention(ls_kernel_plan *plan) {
  ls_cpu_attention_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_attention(plan, 0, &self));
  self->out = find_head_place(0, plan->out[0].shape, 0,
                              plan->out[0].shape.dim[2], self->heads);
  set_blocks(plan, self,
             scores_of(self) * (double)(self->q.depth + self->v.depth), false);
  plan->loop = attend_heads;
  return ls_ok();
}

// Operands: the result's gradient, then the operands of attention.
ls_status kernel_attention_grad(ls_kernel_plan *plan) {
  ls_cpu_attention_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_attention(plan, 1, &self));
  self->out = find_head_place(0, plan->in[0].shape, 0, plan->in[0].shape.dim[2],
                              self->heads);
  set_blocks(plan, self,
             scores_of(self) * (double)(3 * self->q.depth + 2 * self->v.depth),
             true);
  plan->loop = attend_gradient;
  return ls_ok();
}
