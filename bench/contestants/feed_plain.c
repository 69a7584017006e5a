// SPDX-License-Identifier: Apache-2.0
//
// The yardstick in bench/data: loops in plain C, one thread, that do what the
// work needs and nothing else. It answers orders as feed.h says, and makes the
// files that all contestants read.
//
// Usage: feed_plain WORK FOLDER
//   WORK  arrays: an order is drawn (Fisher and Yates), rows are scaled
//         tfrecord: the file is read by the megabyte, checked, parsed, dealt
//         from 10,000 examples; jpeg, png: the library's calls alone
//         make: writes the files

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feed_plain.h"

static char path[4096];

static const char *in_folder(const char *folder, const char *name) {
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  return path;
}

static void *room(size_t size) {
  void *memory = malloc(size);
  if (memory != NULL) return memory;
  perror("memory");
  exit(EXIT_FAILURE);
}

void feed_failed(const char *what) {
  perror(what);
  exit(EXIT_FAILURE);
}

static uint32_t drawn = 1;

uint32_t feed_draw(void) {
  drawn ^= drawn << 13;
  drawn ^= drawn >> 17;
  drawn ^= drawn << 5;
  return drawn;
}

static void scale(const unsigned char *restrict from, float *restrict to) {
  for (int i = 0; i < FEED_PIXELS; ++i)
    to[i] = (float)from[i] * FEED_SCALE;
}

// What all of the batch add up to.
static double sum_of(const float *values, const int64_t *labels,
                     int64_t count) {
  double sum =
      feed_sum_floats(values, (size_t)count * FEED_PIXELS) / FEED_PIXELS;
  for (int64_t i = 0; i < count; ++i)
    sum += (double)labels[i];
  return sum;
}

static float values[FEED_BATCH * FEED_PIXELS];
static int64_t labels[FEED_BATCH];

// ---- Arrays ----------------------------------------------------------------
static unsigned char *images, *classes;
static uint32_t order[FEED_IMAGES];
static int64_t dealt;

static void read_part(const char *name, size_t skip, void *to, size_t size) {
  FILE *file = fopen(name, "rb");
  if (file == NULL || fseek(file, (long)skip, SEEK_SET) != 0 ||
      fread(to, size, 1, file) != 1)
    feed_failed(name);
  fclose(file);
}

static void open_arrays(const char *folder) {
  images = room((size_t)FEED_IMAGES * FEED_PIXELS);
  classes = room(FEED_IMAGES);
  read_part(in_folder(folder, "images.idx"), 16, images,
            (size_t)FEED_IMAGES * FEED_PIXELS);
  read_part(in_folder(folder, "labels"), 8, classes, FEED_IMAGES);
}

static void shuffle(void) {
  for (uint32_t i = 0; i < FEED_IMAGES; ++i) {
    const uint32_t place = (uint32_t)((uint64_t)feed_draw() * (i + 1) >> 32);
    order[i] = order[place];
    order[place] = i;
  }
}

static int64_t next_of_arrays(void *user, double *sum) {
  (void)user;
  if (dealt == FEED_IMAGES) {
    dealt = 0;
    return 0;
  }
  if (dealt == 0) shuffle();
  int64_t count = FEED_IMAGES - dealt;
  if (count > FEED_BATCH) count = FEED_BATCH;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t row = order[dealt + i];
    scale(images + (size_t)row * FEED_PIXELS, values + i * FEED_PIXELS);
    labels[i] = classes[row];
  }
  dealt += count;
  if (sum != NULL) *sum += sum_of(values, labels, count);
  return count;
}

// ---- TFRecord --------------------------------------------------------------
static uint64_t load(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; --i)
    value = value << 8 | at[i];
  return value;
}

static void store(unsigned char *at, int bytes, uint64_t value) {
  for (int i = 0; i < bytes; ++i)
    at[i] = (unsigned char)(value >> 8 * i);
}

// One chain of the processor's instruction, as those write it who do not look
// further.
#if defined(__SSE4_2__) || defined(__ARM_FEATURE_CRC32)
static uint32_t crc32c(const unsigned char *at, size_t size) {
  uint32_t crc = ~0u;
  for (; size >= 8; at += 8, size -= 8) {
    uint64_t word;
    memcpy(&word, at, 8);
#ifdef __SSE4_2__
    crc = (uint32_t)__builtin_ia32_crc32di(crc, word);
#else
    crc = __builtin_aarch64_crc32cx(crc, word);
#endif
  }
  for (; size > 0; ++at, --size) {
#ifdef __SSE4_2__
    crc = __builtin_ia32_crc32qi(crc, *at);
#else
    crc = __builtin_aarch64_crc32cb(crc, *at);
#endif
  }
  return ~crc;
}
#else
static uint32_t crc32c(const unsigned char *at, size_t size) {
  static uint32_t table[256];
  for (uint32_t i = 0; i < 256 && table[255] == 0; ++i) {
    uint32_t bits = i;
    for (int k = 0; k < 8; ++k)
      bits = bits >> 1 ^ (bits & 1 ? 0x82f63b78u : 0);
    table[i] = bits;
  }
  uint32_t crc = ~0u;
  for (; size > 0; ++at, --size)
    crc = crc >> 8 ^ table[(crc ^ *at) & 0xff];
  return ~crc;
}
#endif

static uint32_t masked_crc(const unsigned char *at, size_t size) {
  const uint32_t crc = crc32c(at, size);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

enum { READ_AT_ONCE = 1 << 20 };
static int records;
static off_t records_at;
static bool at_end;
static unsigned char buffer[2 * READ_AT_ONCE];
static size_t filled, used;
static unsigned char held[FEED_HELD][FEED_PIXELS];
static int64_t held_labels[FEED_HELD];
static int64_t num_held;

void feed_damaged(void) {
  fputs("a record is damaged\n", stderr);
  exit(EXIT_FAILURE);
}

// The next record; false at the end.
static bool next_record(const unsigned char **out, size_t *out_size) {
  while (!at_end) {
    const unsigned char *at = buffer + used;
    const size_t left = filled - used;
    if (left >= 12) {
      const size_t size = (size_t)load(at, 8);
      if (masked_crc(at, 8) != load(at + 8, 4) || size > READ_AT_ONCE)
        feed_damaged();
      if (left >= size + 16) {
        if (masked_crc(at + 12, size) != load(at + 12 + size, 4))
          feed_damaged();
        *out = at + 12;
        *out_size = size;
        used += size + 16;
        return true;
      }
    }
    memmove(buffer, at, left);
    used = 0;
    const ssize_t got = pread(records, buffer + left, READ_AT_ONCE, records_at);
    at_end = got <= 0;
    filled = left + (at_end ? 0 : (size_t)got);
    records_at += got;
  }
  return false;
}

typedef struct span {
  const unsigned char *at, *end;
} span;

static uint64_t varint(span *in) {
  uint64_t value = 0;
  for (int shift = 0; in->at < in->end && shift < 64; shift += 7) {
    const unsigned char byte = *in->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  feed_damaged();
  return 0;
}

// The next field, which must be of bytes: its number.
static unsigned next_field(span *in, span *out) {
  const uint64_t tag = varint(in), size = varint(in);
  if ((tag & 7) != 2 || size > (uint64_t)(in->end - in->at)) feed_damaged();
  *out = (span){in->at, in->at + size};
  in->at += size;
  return (unsigned)(tag >> 3);
}

static void parse_entry(span entry, unsigned char *image, int64_t *label) {
  span name = {0}, feature = {0}, list, value;
  while (entry.at < entry.end) {
    span field;
    if (next_field(&entry, &field) == 1)
      name = field;
    else
      feature = field;
  }
  const size_t length = (size_t)(name.end - name.at);
  if (length == 5 && memcmp(name.at, "image", 5) == 0) {
    if (next_field(&feature, &list) != 1 || next_field(&list, &value) != 1 ||
        value.end - value.at != FEED_PIXELS)
      feed_damaged();
    memcpy(image, value.at, FEED_PIXELS);
  } else if (length == 5 && memcmp(name.at, "label", 5) == 0) {
    if (next_field(&feature, &list) != 3 || next_field(&list, &value) != 1)
      feed_damaged();
    *label = (int64_t)varint(&value);
  }
}

static bool hold_record(int64_t place) {
  span example = {0}, features, entry;
  const unsigned char *data;
  size_t size;
  if (!next_record(&data, &size)) return false;
  example = (span){data, data + size};
  if (next_field(&example, &features) != 1) feed_damaged();
  while (features.at < features.end) {
    next_field(&features, &entry);
    parse_entry(entry, held[place], &held_labels[place]);
  }
  return true;
}

static void open_records(const char *folder) {
  records = open(in_folder(folder, "records"), O_RDONLY);
  if (records < 0) feed_failed(path);
}

static int64_t next_of_records(void *user, double *sum) {
  (void)user;
  while (num_held < FEED_HELD && hold_record(num_held))
    ++num_held;
  int64_t count = 0;
  for (; count < FEED_BATCH && num_held > 0; ++count) {
    const int64_t place =
        (int64_t)((uint64_t)feed_draw() * (uint64_t)num_held >> 32);
    scale(held[place], values + count * FEED_PIXELS);
    labels[count] = held_labels[place];
    if (hold_record(place)) continue;
    --num_held;
    memcpy(held[place], held[num_held], FEED_PIXELS);
    held_labels[place] = held_labels[num_held];
  }
  if (count == 0) {
    records_at = 0;
    filled = used = 0;
    at_end = false;
  }
  if (sum != NULL) *sum += sum_of(values, labels, count);
  return count;
}

// ---- Making the files ------------------------------------------------------
static void put(FILE *file, const void *bytes, size_t size) {
  if (fwrite(bytes, size, 1, file) != 1) feed_failed("write");
}

static void make_idx(const char *folder) {
  static const unsigned char heads[2][16] = {
      {0, 0, 8, 3, 0, 0, FEED_IMAGES >> 8, FEED_IMAGES & 0xff, 0, 0, 0, 28, 0,
       0, 0, 28},
      {0, 0, 8, 1, 0, 0, FEED_IMAGES >> 8, FEED_IMAGES & 0xff}};
  FILE *first = fopen(in_folder(folder, "images.idx"), "wb");
  FILE *second = fopen(in_folder(folder, "labels"), "wb");
  if (first == NULL || second == NULL) feed_failed(folder);
  put(first, heads[0], 16);
  put(second, heads[1], 8);
  for (int i = 0; i < FEED_IMAGES; ++i) {
    unsigned char image[FEED_PIXELS], label = (unsigned char)(feed_draw() % 10);
    for (int k = 0; k < FEED_PIXELS; ++k)
      image[k] = (unsigned char)feed_draw();
    put(first, image, FEED_PIXELS);
    put(second, &label, 1);
  }
  if (fclose(first) != 0 || fclose(second) != 0) feed_failed(folder);
}

// Makes `size` bytes at `at` a field of a message; returns its size.
static size_t wrap(unsigned char *at, unsigned char tag, size_t size) {
  const size_t head = size < 128 ? 2 : 3;  // Less than 16,384.
  memmove(at + head, at, size);
  at[0] = tag;
  at[1] = (unsigned char)(size < 128 ? size : (size & 127) | 128);
  if (size >= 128) at[2] = (unsigned char)(size >> 7);
  return size + head;
}

// An entry of a tf.Example whose list is one field of `size` bytes at `at`.
static size_t make_entry(unsigned char *at, const char *name,
                         unsigned char kind_tag, size_t size) {
  unsigned char head[16];
  memcpy(head, name, 5);
  const size_t length = wrap(head, 0x0a, 5);
  size = wrap(at, 0x0a, size);
  size = wrap(at, kind_tag, size);
  size = wrap(at, 0x12, size);
  memmove(at + length, at, size);
  memcpy(at, head, length);
  return wrap(at, 0x0a, size + length);
}

static void make_records(const char *folder) {
  FILE *file = fopen(in_folder(folder, "records"), "wb");
  if (file == NULL) feed_failed(path);
  for (int i = 0; i < FEED_RECORDS; ++i) {
    unsigned char record[2 * FEED_PIXELS], *at = record + 12;
    for (int k = 0; k < FEED_PIXELS; ++k)
      at[k] = (unsigned char)feed_draw();
    size_t size = make_entry(at, "image", 0x0a, FEED_PIXELS);
    at[size] = (unsigned char)(feed_draw() % 10);
    size += make_entry(at + size, "label", 0x1a, 1);
    size = wrap(at, 0x0a, size);
    store(record, 8, size);
    store(record + 8, 4, masked_crc(record, 8));
    store(at + size, 4, masked_crc(at, size));
    put(file, record, size + 16);
  }
  if (fclose(file) != 0) feed_failed(path);
}

static int make_all(const char *folder) {
  make_idx(folder);
  make_records(folder);
  feed_make_images(folder);
  return EXIT_SUCCESS;
}

static const struct {
  const char *name;
  void (*open)(const char *folder);
  feed_next next;
} works[] = {
    {"arrays", open_arrays, next_of_arrays},
    {"tfrecord", open_records, next_of_records},
#ifdef LS_HAVE_TURBOJPEG
    {"jpeg", feed_open_jpegs, feed_next_of_jpegs},
#endif
#ifdef LS_HAVE_PNG
    {"png", feed_open_pngs, feed_next_of_pngs},
#endif
};

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: feed_plain WORK FOLDER\n");
    return 2;
  }
  if (strcmp(argv[1], "make") == 0) return make_all(argv[2]);
  for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); ++i) {
    if (strcmp(works[i].name, argv[1]) != 0) continue;
    works[i].open(argv[2]);
    return feed_serve(works[i].next, NULL);
  }
  fprintf(stderr, "no library for '%s'\n", argv[1]);
  return 2;
}
