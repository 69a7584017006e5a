// SPDX-License-Identifier: Apache-2.0
//
// Reading TFRecords of images of 784 bytes with labels: ours against a loop by
// hand, which take turns, in thousands of examples a second of CPU time, best
// round of each. Each makes batches of 128 images in f32, scaled, and labels.
//
// The loop reads the file from the start to the end, a megabyte at once, knows
// where in an example its image is, and deals examples from a buffer of 10,000;
// ours does so in the file's order, and shuffled as a whole, from the file and
// from memory that it was loaded into.
//
// Usage: records_bench [ROUNDS]   (default 5)

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "lockstep/full.h"

enum { EXAMPLES = 60000, PIXELS = 784, BATCH = 128, HELD = 10000 };
static const char path[] = "/tmp/records_bench.tfrecord";

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "records_bench: %s\n", ls_status_message(status));
  exit(1);
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void write_file(void) {
  ls_tfrecord_writer *writer = NULL;
  ls_example_builder builder;
  ls_example_init(&builder, ls_allocator_system());
  must(ls_tfrecord_writer_open(path, &writer));
  static char pixels[PIXELS];
  for (int64_t i = 0; i < EXAMPLES; ++i) {
    for (int k = 0; k < PIXELS; ++k)
      pixels[k] = (char)(i * 7 + k);
    const ls_bytes image = {pixels, PIXELS};
    const int64_t label = i % 10;
    ls_bytes example;
    ls_example_add_bytes(&builder, "image", &image, 1);
    ls_example_add_ints(&builder, "label", &label, 1);
    must(ls_example_end(&builder, &example));
    must(ls_tfrecord_writer_write(writer, example.data, example.size));
  }
  must(ls_tfrecord_writer_close(writer, true));
  ls_example_deinit(&builder);
}

// ---- By hand ---------------------------------------------------------------
static float images[BATCH * PIXELS];
static int64_t labels[BATCH];
static unsigned char held[HELD][PIXELS];
static int64_t held_labels[HELD];

static void put(int64_t at, int64_t place) {
  float *to = images + (at % BATCH) * PIXELS;
  for (int k = 0; k < PIXELS; ++k)
    to[k] = (float)held[place][k] * (1 / 255.0f);
  labels[at % BATCH] = held_labels[place];
}

// An example as this file has it: the image's bytes begin at 22, and the label
// is the last byte.
static int64_t by_hand(void) {
  static unsigned char buffer[2 << 20];
  const int file = open(path, O_RDONLY);
  size_t size = 0, at = 0;
  int64_t count = 0, dealt = 0;
  uint32_t random = 1;
  for (;;) {
    const size_t length = size - at >= 12 ? ls_load_le64(buffer + at) : 0;
    if (size - at < 12 || size - at < length + 16) {
      memmove(buffer, buffer + at, size - at);
      size -= at;
      at = 0;
      const ssize_t got = read(file, buffer + size, 1 << 20);
      if (got <= 0) break;
      size += (size_t)got;
      continue;
    }
    const unsigned char *data = buffer + at + 12;
    if (ls_crc32c_mask(ls_crc32c(0, data, length)) !=
            ls_load_le32(data + length) ||
        ls_crc32c_mask(ls_crc32c(0, buffer + at, 8)) !=
            ls_load_le32(buffer + at + 8))
      exit(1);
    random = random * 1664525 + 1013904223;
    const int64_t place = count < HELD ? count : (random >> 8) % HELD;
    if (count >= HELD) put(dealt++, place);
    memcpy(held[place], data + 22, PIXELS);
    held_labels[place] = data[length - 1];
    ++count;
    at += 16 + length;
  }
  for (int64_t i = 0; i < HELD; ++i)
    put(dealt++, i);
  close(file);
  return dealt;
}

// ---- Ours ------------------------------------------------------------------
static ls_dataset *records(ls_flag load) {
  static const ls_tfrecord_feature features[] = {
      {.name = "image", .dtype = LS_DTYPE_U8, .shape = {1, {PIXELS}}},
      {.name = "label", .dtype = LS_DTYPE_I64}};
  return ls_dataset_tfrecords(LS_PATHS(path),
                              &(ls_tfrecord_options){.features = features,
                                                     .num_features = 2,
                                                     .load = load});
}

static int64_t read_through(ls_dataset *d) {
  d = ls_dataset_convert(
      d, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = 1 / 255.0});
  d = ls_dataset_batch(d, &(ls_batch_options){.size = BATCH});
  ls_iterator *it = NULL;
  must(ls_iterator_create(d, &(ls_iterator_options){.prefetch = LS_SOME(0)},
                          &it));
  ls_dataset_release(d);
  ls_nest batch = ls_none();
  int64_t count = 0;
  ls_status status;
  while (ls_status_is_ok(status = ls_iterator_next(it, &batch)))
    count +=
        ls_array_num_elements(ls_nest_as_array(ls_nest_find(batch, "label")));
  if (ls_status_code(status) != LS_OUT_OF_RANGE) must(status);
  ls_status_free(status);
  ls_nest_release(batch);
  ls_iterator_release(it);
  return count;
}

// Opened once: an epoch after the first needs no scan.
static ls_dataset *opened, *loaded;

static ls_dataset *shuffle(ls_dataset *d) {
  return ls_dataset_shuffle(d, &(ls_shuffle_options){.seed = 1});
}
static int64_t in_order(void) {
  return read_through(ls_dataset_retain(opened));
}
static int64_t shuffled(void) {
  return read_through(shuffle(ls_dataset_retain(opened)));
}
static int64_t loaded_in_order(void) {
  return read_through(ls_dataset_retain(loaded));
}
static int64_t loaded_shuffled(void) {
  return read_through(shuffle(ls_dataset_retain(loaded)));
}
static int64_t scanned(void) {
  ls_dataset *d = records(LS_FLAG_OFF);
  const int64_t count = ls_dataset_cardinality(d);
  ls_dataset_release(d);
  return count;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 5;
  static const struct {
    const char *name;
    int64_t (*read)(void);
  } contestants[] = {{"by hand, shuffled by a buffer", by_hand},
                     {"ours, in order", in_order},
                     {"ours, shuffled as a whole", shuffled},
                     {"ours, loaded, in order", loaded_in_order},
                     {"ours, loaded, shuffled", loaded_shuffled},
                     {"ours, the scan at opening alone", scanned}};
  enum { COUNT = sizeof(contestants) / sizeof(contestants[0]) };
  double best[COUNT] = {0};
  write_file();
  opened = records(LS_FLAG_OFF);
  loaded = records(LS_FLAG_ON);
  must(ls_dataset_status(opened));
  must(ls_dataset_status(loaded));
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < COUNT; ++i) {
      const double began = cpu_seconds();
      const int64_t count = contestants[i].read();
      const double rate = (double)count / (cpu_seconds() - began) / 1000;
      if (count != EXAMPLES) return 1;
      if (rate > best[i]) best[i] = rate;
    }
  }
  for (int i = 0; i < COUNT; ++i)
    printf("%-34s %8.0f k/s  %.2f\n", contestants[i].name, best[i],
           best[i] / best[0]);
  ls_dataset_release(opened);
  ls_dataset_release(loaded);
  unlink(path);
  return 0;
}
