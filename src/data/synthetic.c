// SPDX-License-Identifier: Apache-2.0
// Made-up examples. Class c has a fixed random pattern; example i is of class
// i mod classes: half its pattern, half noise of its own.
#include "base/allocator.h"
#include "base/random.h"
#include "lockstep/data.h"

enum { STREAM_PATTERN = 1, STREAM_NOISE = 2 };

// Number `index` of a source.
static float draw(const ls_random_source *source, int64_t index) {
  uint32_t bits[4];
  ls_random_source_bits(source, (uint64_t)index / 4, bits);
  return ls_random_uniform_f32(bits[index % 4]);
}

static ls_random_source source_of(const ls_synthetic_options *options,
                                  uint64_t stream, int64_t id) {
  const bool noise = stream == STREAM_NOISE;
  return ls_random_source_make(
      &(ls_random_key){.seed = (uint64_t)options->seed,
                       .stream = stream,
                       .step = noise ? (uint64_t)options->sample : 0,
                       .id = (uint64_t)id});
}

static void fill(const ls_synthetic_options *options, float *examples,
                 int32_t *labels) {
  const int64_t width = ls_shape_num_elements(options->shape);
  for (int64_t i = 0; i < options->size; ++i) {
    const int64_t label = i % options->num_classes;
    const ls_random_source pattern = source_of(options, STREAM_PATTERN, label);
    const ls_random_source noise = source_of(options, STREAM_NOISE, i);
    for (int64_t k = 0; k < width; ++k)
      examples[i * width + k] =
          0.5F * draw(&pattern, k) + 0.5F * draw(&noise, k);
    labels[i] = (int32_t)label;
  }
}

ls_status ls_dataset_synthetic(const ls_synthetic_options *options,
                               ls_dataset **out_dataset) {
  *out_dataset = NULL;
  ls_synthetic_options opts =
      options != NULL ? *options : (ls_synthetic_options){0};
  if (opts.size == 0) opts.size = 1024;
  if (opts.num_classes == 0) opts.num_classes = 2;
  if (opts.size < 1 || opts.num_classes < 1 ||
      opts.num_classes > INT32_MAX - 1 || !ls_shape_is_known(opts.shape) ||
      opts.shape.rank >= LS_MAX_RANK)
    return ls_invalid_argument(
        "made-up data need at least one example and one class, and a known "
        "shape of at most %d dimensions; asked for %lld examples %s of %lld "
        "classes",
        LS_MAX_RANK - 1, (long long)opts.size,
        LS_SHAPE_TEXT(LS_DTYPE_F32, opts.shape), (long long)opts.num_classes);
  ls_shape shape = {.rank = opts.shape.rank + 1, .dim = {opts.size}};
  for (int i = 0; i < opts.shape.rank; ++i)
    shape.dim[i + 1] = opts.shape.dim[i];
  ls_array *examples = NULL, *labels = NULL;
  ls_status status = ls_ok();
  LS_GOTO_IF_ERROR(done, status,
                   ls_array_create(LS_DTYPE_F32, shape, &examples));
  LS_GOTO_IF_ERROR(done, status,
                   ls_array_create(LS_DTYPE_I32, LS_SHAPE(opts.size), &labels));
  fill(&opts, ls_array_mutable_data(examples), ls_array_mutable_data(labels));
  status = ls_dataset_create(examples, labels, out_dataset);
done:
  ls_array_release(examples);
  ls_array_release(labels);
  return status;
}
