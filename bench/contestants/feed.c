// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/data, a user of the public interface: an iterator on
// one of the pipelines below, with as many input threads as it is told. It
// answers orders as feed.h says.
//
// Usage: feed WORK FOLDER --threads N
//   WORK  arrays, idx, tfrecord, loaded, jpeg or png

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/feed.h"
#include "lockstep/full.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "%s: %s\n", ls_code_name(ls_status_code(status)),
          ls_status_message(status));
  exit(EXIT_FAILURE);
}

// ---- Pipelines -------------------------------------------------------------
static char *join(const char *folder, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", folder, name) < 0) exit(EXIT_FAILURE);
  return path;
}

static ls_dataset *scaled_batches(ls_dataset *d) {
  d = ls_dataset_convert(
      d, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = FEED_SCALE});
  return ls_dataset_batch(d, &(ls_batch_options){.size = FEED_BATCH});
}

static ls_dataset *open_idx(const char *folder) {
  char *images = join(folder, "images.idx"), *labels = join(folder, "labels");
  ls_dataset *d = ls_dataset_idx(LS_PATHS(images, labels), NULL);
  free(images);
  free(labels);
  return d;
}

static ls_dataset *idx(const char *folder) {
  ls_dataset *d = open_idx(folder);
  return scaled_batches(ls_dataset_shuffle(d, NULL));
}

// The same numbers as arrays of the caller's.
static ls_dataset *arrays(const char *folder) {
  ls_dataset *d = ls_dataset_batch(open_idx(folder),
                                   &(ls_batch_options){.size = FEED_IMAGES});
  ls_iterator *it = NULL;
  ls_nest all = ls_none();
  must(ls_iterator_create(d, NULL, &it));
  must(ls_iterator_next(it, &all));
  ls_iterator_release(it);
  ls_dataset_release(d);
  d = ls_dataset_from_arrays(all);
  return scaled_batches(ls_dataset_shuffle(d, NULL));
}

static ls_dataset *records(const char *folder, ls_flag load) {
  char *path = join(folder, "records");
  const ls_tfrecord_feature features[] = {
      {.name = "image", .dtype = LS_DTYPE_U8, .shape = LS_SHAPE(FEED_PIXELS)},
      {.name = "label", .dtype = LS_DTYPE_I64}};
  ls_dataset *d = ls_dataset_tfrecords(
      LS_PATHS(path), &(ls_tfrecord_options){.features = features,
                                             .num_features = 2,
                                             .load = load});
  free(path);
  d = ls_dataset_shuffle(d, &(ls_shuffle_options){.buffer = FEED_HELD});
  return scaled_batches(d);
}

static ls_dataset *from_disk(const char *folder) {
  return records(folder, LS_FLAG_OFF);
}

static ls_dataset *loaded(const char *folder) {
  return records(folder, LS_FLAG_ON);
}

static ls_dataset *images(const char *folder, const char *kind) {
  char *path = join(folder, kind);
  ls_dataset *d = ls_dataset_image_folder(
      path,
      &(ls_image_folder_options){.height = FEED_SIDE, .width = FEED_SIDE});
  free(path);
  return ls_dataset_batch(d, &(ls_batch_options){.size = FEED_IMAGE_BATCH});
}

static ls_dataset *jpeg(const char *folder) { return images(folder, "jpeg"); }

static ls_dataset *png(const char *folder) { return images(folder, "png"); }

static const struct {
  const char *name;
  ls_dataset *(*open)(const char *folder);
} works[] = {{"arrays", arrays}, {"idx", idx},   {"tfrecord", from_disk},
             {"loaded", loaded}, {"jpeg", jpeg}, {"png", png}};

// ---- Batches ---------------------------------------------------------------
typedef struct contestant {
  ls_iterator *input;
  ls_nest batch;
} contestant;

static double sum_of(ls_nest batch, int64_t examples) {
  ls_nest leaves[2];
  ls_nest_flatten(batch, leaves, 2);
  const ls_array *values = ls_nest_as_array(leaves[0]);
  const ls_array *labels = ls_nest_as_array(leaves[1]);
  const size_t count = (size_t)ls_array_num_elements(values);
  const void *data = ls_array_data(values);
  double sum = ls_array_dtype(values) == LS_DTYPE_F32
                   ? feed_sum_floats(data, count)
                   : feed_sum_bytes(data, count);
  sum /= (double)count / (double)examples;
  for (int64_t i = 0; i < examples; ++i)
    sum += ls_array_f64(labels, i);
  return sum;
}

static int64_t next(void *user, double *sum) {
  contestant *self = user;
  const ls_status status = ls_iterator_next(self->input, &self->batch);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    must(ls_iterator_restart(self->input));
    return 0;
  }
  must(status);
  ls_nest leaves[2];
  ls_nest_flatten(self->batch, leaves, 2);
  const int64_t examples = ls_array_shape(ls_nest_as_array(leaves[0])).dim[0];
  if (sum != NULL) *sum += sum_of(self->batch, examples);
  return examples;
}

int main(int argc, char **argv) {
  if (argc != 5 || strcmp(argv[3], "--threads") != 0) {
    fprintf(stderr, "usage: feed WORK FOLDER --threads N\n");
    return 2;
  }
  ls_runtime *runtime = NULL;
  must(ls_runtime_create(
      &(ls_runtime_options){.threads = 1,
                            .input_threads = LS_SOME(atoi(argv[4]))},
      &runtime));
  ls_runtime_make_current(runtime);
  ls_dataset *data = NULL;
  for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); ++i) {
    if (strcmp(works[i].name, argv[1]) == 0) data = works[i].open(argv[2]);
  }
  if (data == NULL) {
    fprintf(stderr, "there is no work '%s'\n", argv[1]);
    return 2;
  }
  contestant self = {.batch = ls_none()};
  must(ls_iterator_create(data, NULL, &self.input));
  const int result = feed_serve(next, &self);
  ls_nest_release(self.batch);
  ls_iterator_release(self.input);
  ls_dataset_release(data);
  ls_runtime_make_current(NULL);
  must(ls_runtime_destroy(runtime));
  return result;
}
