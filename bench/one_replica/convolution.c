// SPDX-License-Identifier: Apache-2.0

#include "one_replica/convolution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "one_replica/dense.h"

// A block of this size keeps its activations in the L3 cache.
#define BLOCK_IMAGES ((size_t)16)
#define MAX_ARGS 6

static void check(dnnl_status_t status, const char *what) {
  if (status != dnnl_success) die("oneDNN: %s: status %d", what, (int)status);
}

static dnnl_engine_t the_engine(void) {
  static dnnl_engine_t engine;
  if (engine == NULL) check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
  return engine;
}

dnnl_stream_t convolution_stream(void) {
  dnnl_stream_t stream = NULL;
  check(dnnl_stream_create(&stream, the_engine(), dnnl_stream_default_flags),
        "stream");
  return stream;
}

// ---- Primitives ------------------------------------------------------------
// Not const: oneDNN sets handles. Each thread touches its own row.
struct primitive {
  dnnl_primitive_t handle;
  int args;
  dnnl_exec_arg_t arg[MAX_THREADS][MAX_ARGS];
};

// An argument's number and memory descriptor.
typedef struct {
  int number;
  const dnnl_memory_desc_t *desc;
} argument;

static struct primitive *make_primitive(bench_lane *lane,
                                        const_dnnl_primitive_desc_t desc,
                                        const argument *args, int count) {
  const char *name = NULL;
  check(dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name),
        "implementation");
  if (strstr(name, "ref") != NULL) die("oneDNN chose '%s'", name);
  struct primitive *made = calloc(1, sizeof *made);
  if (made == NULL) die("out of memory");
  check(dnnl_primitive_create(&made->handle, desc), "primitive");
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  program_want_scratch(&lane->program, dnnl_memory_desc_get_size(scratch));
  made->args = count + 1;
  for (int t = 0; t < lane->model->options.threads; ++t) {
    for (int i = 0; i <= count; ++i) {
      made->arg[t][i].arg = i < count ? args[i].number : DNNL_ARG_SCRATCHPAD;
      check(dnnl_memory_create(&made->arg[t][i].memory,
                               i < count ? args[i].desc : scratch, the_engine(),
                               DNNL_MEMORY_NONE),
            "memory");
    }
  }
  return made;
}

// Runs a primitive on the arrays, in the order of its arguments.
static void run_primitive(const struct primitive *primitive,
                          const bench_worker *worker,
                          const void *const *arrays) {
  const dnnl_exec_arg_t *arg = primitive->arg[worker->index];
  for (int i = 0; i < primitive->args; ++i) {
    void *array = worker->scratch;
    if (i < primitive->args - 1) memcpy(&array, &arrays[i], sizeof array);
    check(dnnl_memory_set_data_handle(arg[i].memory, array), "handle");
  }
  check(dnnl_primitive_execute(primitive->handle, worker->stream,
                               primitive->args, arg),
        "execute");
}

// ---- Descriptors -----------------------------------------------------------
typedef struct {
  dnnl_memory_desc_t x, w, b, y;
} descriptors;

static descriptors describe(const convolution *layer) {
  const dnnl_dim_t n = (dnnl_dim_t)layer->images;
  const dnnl_dim_t in = (dnnl_dim_t)layer->shape.in;
  const dnnl_dim_t out = (dnnl_dim_t)layer->shape.out;
  const dnnl_dim_t size = (dnnl_dim_t)layer->shape.size;
  descriptors d;
  check(dnnl_memory_desc_init_by_tag(&d.x, 4, (dnnl_dims_t){n, in, size, size},
                                     dnnl_f32,
                                     in == 1 ? dnnl_nchw : dnnl_nChw16c),
        "x");
  check(dnnl_memory_desc_init_by_tag(&d.w, 4, (dnnl_dims_t){out, in, 3, 3},
                                     dnnl_f32, dnnl_format_tag_any),
        "w");
  check(dnnl_memory_desc_init_by_tag(&d.b, 1, (dnnl_dims_t){out}, dnnl_f32,
                                     dnnl_a),
        "b");
  check(dnnl_memory_desc_init_by_tag(&d.y, 4, (dnnl_dims_t){n, out, size, size},
                                     dnnl_f32, dnnl_nChw16c),
        "y");
  return d;
}

static dnnl_primitive_attr_t make_attributes(bool relu) {
  dnnl_primitive_attr_t attributes = NULL;
  check(dnnl_primitive_attr_create(&attributes), "attributes");
  check(dnnl_primitive_attr_set_scratchpad_mode(attributes,
                                                dnnl_scratchpad_mode_user),
        "scratchpad");
  if (relu) {
    dnnl_post_ops_t ops = NULL;
    check(dnnl_post_ops_create(&ops), "post-ops");
    check(
        dnnl_post_ops_append_eltwise(ops, 1.0f, dnnl_eltwise_relu, 0.0f, 0.0f),
        "relu");
    check(dnnl_primitive_attr_set_post_ops(attributes, ops), "post-ops");
    dnnl_post_ops_destroy(ops);
  }
  return attributes;
}

static dnnl_primitive_desc_t make_desc(const dnnl_convolution_desc_t *op,
                                       bool relu,
                                       const_dnnl_primitive_desc_t forward,
                                       const char *what) {
  dnnl_primitive_attr_t attributes = make_attributes(relu);
  dnnl_primitive_desc_t desc = NULL;
  check(
      dnnl_primitive_desc_create(&desc, op, attributes, the_engine(), forward),
      what);
  dnnl_primitive_attr_destroy(attributes);
  return desc;
}

// ---- Layers ----------------------------------------------------------------
typedef struct {
  const struct primitive *primitive;
  const void *arrays[4];
  size_t strides[4];  // Floats from one block's part of an array to the next.
  const ls_cpu_kernels *kernels;
  const float *relu;  // Where not NULL, arrays[2] is then masked by it.
} block_params;

static void run_blocks(const void *params, int64_t begin, int64_t end,
                       const bench_worker *worker) {
  const block_params *p = params;
  for (int64_t block = begin; block < end; ++block) {
    const void *arrays[4];
    for (int i = 0; i < p->primitive->args - 1; ++i) {
      arrays[i] = (const float *)p->arrays[i] + (size_t)block * p->strides[i];
    }
    run_primitive(p->primitive, worker, arrays);
    if (p->relu != NULL) {
      const size_t n = p->strides[2];
      float *dx = (float *)p->arrays[2] + (size_t)block * n;
      p->kernels->relu_grad(dx, dx, p->relu + (size_t)block * n, n);
    }
  }
}

// Turns w for backward_data, if that wants it in another order.
static void add_reorder(bench_lane *lane, convolution *layer,
                        const dnnl_memory_desc_t *from,
                        const dnnl_memory_desc_t *to) {
  if (dnnl_memory_desc_equal(from, to)) return;
  dnnl_primitive_attr_t attributes = make_attributes(false);
  dnnl_primitive_desc_t desc = NULL;
  check(dnnl_reorder_primitive_desc_create(&desc, from, the_engine(), to,
                                           the_engine(), attributes),
        "reorder");
  layer->turned = lane_floats(lane, layer->weights);
  const block_params params = {
      .primitive = make_primitive(
          lane, desc, (argument[]){{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}},
          2),
      .arrays = {layer->w.value, layer->turned}};
  program_add(&lane->program, "reorder", run_blocks, &params, sizeof params, 1);
  dnnl_primitive_attr_destroy(attributes);
  dnnl_primitive_desc_destroy(desc);
}

static void make_backward(bench_lane *lane, convolution *layer,
                          const descriptors *d,
                          const dnnl_memory_desc_t *weights,
                          dnnl_primitive_desc_t forward) {
  const dnnl_alg_kind_t kind = layer->shape.winograd ? dnnl_convolution_winograd
                                                     : dnnl_convolution_direct;
  const dnnl_dims_t one = {1, 1};
  dnnl_convolution_desc_t op;
  check(dnnl_convolution_backward_weights_desc_init(
            &op, kind, &d->x, weights, &d->b, &d->y, one, one, one),
        "backward weights");
  dnnl_primitive_desc_t desc =
      make_desc(&op, false, forward, "backward weights");
  layer->backward_weights =
      make_primitive(lane, desc,
                     (argument[]){{DNNL_ARG_SRC, &d->x},
                                  {DNNL_ARG_DIFF_DST, &d->y},
                                  {DNNL_ARG_DIFF_WEIGHTS, weights},
                                  {DNNL_ARG_DIFF_BIAS, &d->b}},
                     4);
  dnnl_primitive_desc_destroy(desc);
  if (!layer->shape.data) return;
  check(dnnl_convolution_backward_data_desc_init(&op, kind, &d->x, &d->w, &d->y,
                                                 one, one, one),
        "backward data");
  desc = make_desc(&op, false, forward, "backward data");
  const dnnl_memory_desc_t *wanted =
      dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  layer->backward_data =
      make_primitive(lane, desc,
                     (argument[]){{DNNL_ARG_DIFF_DST, &d->y},
                                  {DNNL_ARG_WEIGHTS, wanted},
                                  {DNNL_ARG_DIFF_SRC, &d->x}},
                     3);
  add_reorder(lane, layer, weights, wanted);
  dnnl_primitive_desc_destroy(desc);
}

size_t convolution_images(const bench_lane *lane) {
  const bool whole = lane->program.vendor || lane->examples < BLOCK_IMAGES;
  return whole ? lane->examples : BLOCK_IMAGES;
}

convolution lane_convolution(bench_lane *lane, const convolution_shape *shape) {
  convolution layer = {.shape = *shape, .images = convolution_images(lane)};
  layer.blocks = lane->examples / layer.images;
  if (layer.blocks * layer.images != lane->examples) die("uneven blocks");
  const descriptors d = describe(&layer);
  const dnnl_dims_t one = {1, 1};
  dnnl_convolution_desc_t op;
  check(
      dnnl_convolution_forward_desc_init(
          &op, dnnl_forward_training,
          shape->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct,
          &d.x, &d.w, &d.b, &d.y, one, one, one),
      "forward");
  dnnl_primitive_desc_t desc = make_desc(&op, true, NULL, "forward");
  const dnnl_memory_desc_t *weights =
      dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
  layer.forward = make_primitive(lane, desc,
                                 (argument[]){{DNNL_ARG_SRC, &d.x},
                                              {DNNL_ARG_WEIGHTS, weights},
                                              {DNNL_ARG_BIAS, &d.b},
                                              {DNNL_ARG_DST, &d.y}},
                                 4);
  layer.weights = dnnl_memory_desc_get_size(weights) / sizeof(float);
  layer.w = lane_parameter(lane, layer.weights,
                           sqrtf(3.0f / (9.0f * (float)shape->in)));
  layer.b = lane_parameter(lane, shape->out, 0.0f);
  if (layer.blocks > 1) {
    layer.parts =
        lane_floats(lane, layer.blocks * (layer.weights + shape->out));
  }
  make_backward(lane, &layer, &d, weights, desc);
  dnnl_primitive_desc_destroy(desc);
  return layer;
}

// ---- Instructions ----------------------------------------------------------
static void emit(bench_lane *lane, const convolution *layer, const char *name,
                 const block_params *params) {
  const convolution_shape *shape = &layer->shape;
  const size_t outputs =
      layer->blocks * layer->images * shape->out * shape->size * shape->size;
  lane->program.flops += 2.0 * 9.0 * (double)(outputs * shape->in);
  instruction *added = program_add(&lane->program, name, run_blocks, params,
                                   sizeof *params, (int64_t)layer->blocks);
  added->whole = lane->program.vendor;
  added->chained = true;
}

static size_t floats_in(const convolution *layer) {
  const convolution_shape *shape = &layer->shape;
  return layer->images * shape->in * shape->size * shape->size;
}

static size_t floats_out(const convolution *layer) {
  const convolution_shape *shape = &layer->shape;
  return layer->images * shape->out * shape->size * shape->size;
}

void emit_convolution(bench_lane *lane, const convolution *layer,
                      const float *x, float *y) {
  emit(lane, layer, "conv forward",
       &(block_params){.primitive = layer->forward,
                       .arrays = {x, layer->w.value, layer->b.value, y},
                       .strides = {floats_in(layer), 0, 0, floats_out(layer)}});
}

void emit_convolution_data(bench_lane *lane, const convolution *layer,
                           const float *dy, const float *x, float *dx) {
  const float *w = layer->turned != NULL ? layer->turned : layer->w.value;
  emit(lane, layer, "conv data",
       &(block_params){.primitive = layer->backward_data,
                       .arrays = {dy, w, dx},
                       .strides = {floats_out(layer), 0, floats_in(layer)},
                       .kernels = lane->program.kernels,
                       .relu = x});
}

void emit_convolution_weights(bench_lane *lane, const convolution *layer,
                              const float *x, const float *dy) {
  const bool alone = layer->parts == NULL;
  float *dw = alone ? layer->w.gradient : layer->parts;
  float *db = alone ? layer->b.gradient : dw + layer->blocks * layer->weights;
  emit(lane, layer, "conv weights",
       &(block_params){.primitive = layer->backward_weights,
                       .arrays = {x, dy, dw, db},
                       .strides = {floats_in(layer), floats_out(layer),
                                   layer->weights, layer->shape.out}});
}

void emit_convolution_sums(bench_lane *lane, const convolution *layer) {
  if (layer->parts == NULL) return;
  emit_sum(lane, layer->w.gradient, layer->parts, layer->blocks,
           layer->weights);
  emit_sum(lane, layer->b.gradient,
           layer->parts + layer->blocks * layer->weights, layer->blocks,
           layer->shape.out);
}
