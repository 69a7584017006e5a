// SPDX-License-Identifier: Apache-2.0
//
// Reading images: ours against loops of the libraries' own calls, which take
// turns, in images a second of CPU time, best round of each. A ratio of 0.95
// says that ours reads 95 where the library alone reads 100.
//
// Usage: image_bench [ROUNDS]   (default 20)

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#ifdef LS_HAVE_PNG
#include <png.h>
#endif
#ifdef LS_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

#include "io/png_write.h"
#include "lockstep/files.h"
#include "lockstep/image.h"
#include "lockstep/iterator.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "image_bench: %s\n", ls_status_message(status));
  exit(1);
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Smooth colors with some noise: packs about as well as a photo does.
static ls_array *photo(int64_t height, int64_t width, int64_t channels) {
  ls_array *image = NULL;
  must(ls_array_create(LS_DTYPE_U8, LS_SHAPE(height, width, channels), &image));
  unsigned char *at = ls_array_mutable_data(image);
  uint32_t state = 1;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        state = state * 1664525 + 1013904223;
        const double wave = sin((double)(x + 9 * c) * 0.11) +
                            cos((double)(y - 5 * c) * 0.07) +
                            0.1 * (double)(state >> 24) / 255;
        *at++ = (unsigned char)(120 + 55 * wave);
      }
    }
  }
  return image;
}

// ---- Contestants -----------------------------------------------------------
typedef struct subject {
  const char *name;
  unsigned char *bytes;
  size_t size;
  ls_array *out;
  int repeats;                             // Images a round.
  void (*bare)(const struct subject *it);  // Reads one; NULL: no library.
} subject;

static void ours(const subject *it) {
  must(ls_decode_image_into(it->bytes, it->size, NULL, it->out));
}

#ifdef LS_HAVE_TURBOJPEG
static tjhandle decoder;

static void bare_jpeg(const subject *it) {
  int width, height, sampling, colors;
  if (tjDecompressHeader3(decoder, it->bytes, (unsigned long)it->size, &width,
                          &height, &sampling, &colors) != 0 ||
      tjDecompress2(decoder, it->bytes, (unsigned long)it->size,
                    ls_array_mutable_data(it->out), width, 3 * width, height,
                    TJPF_RGB, 0) != 0)
    exit(1);
}

static void pack_jpeg(const ls_array *image, subject *out) {
  const ls_shape shape = ls_array_shape(image);
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  if (tjCompress2(encoder, ls_array_data(image), (int)shape.dim[1], 0,
                  (int)shape.dim[0], TJPF_RGB, &out->bytes, &size, TJSAMP_420,
                  90, 0) != 0)
    exit(1);
  tjDestroy(encoder);
  out->size = size;
  out->bare = bare_jpeg;
}
#endif

#ifdef LS_HAVE_PNG
typedef struct source {
  const unsigned char *at;
} source;

static void read_source(png_structp png, png_bytep to, size_t size) {
  source *from = png_get_io_ptr(png);
  memcpy(to, from->at, size);
  from->at += size;
}

static void bare_png(const subject *it) {
  source from = {it->bytes};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, 0, 0, 0);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) exit(1);
  png_set_read_fn(png, &from, read_source);
  png_read_info(png, info);
  const size_t stride = png_get_rowbytes(png, info);
  unsigned char *out = ls_array_mutable_data(it->out);
  for (size_t y = 0; y < png_get_image_height(png, info); ++y)
    png_read_row(png, out + y * stride, NULL);
  png_read_end(png, NULL);
  png_destroy_read_struct(&png, &info, NULL);
}
#endif

static void pack_png(const ls_array *image, subject *out) {
  const ls_shape shape = ls_array_shape(image);
  const ls_pixels pixels = {.data = (void *)(uintptr_t)ls_array_data(image),
                            .stride = (size_t)(shape.dim[1] * shape.dim[2]),
                            .width = shape.dim[1],
                            .height = shape.dim[0],
                            .channels = (int)shape.dim[2],
                            .dtype = LS_DTYPE_U8};
  must(ls_png_encode(ls_allocator_system(), &pixels, &out->bytes, &out->size));
#ifdef LS_HAVE_PNG
  out->bare = bare_png;
#endif
}

// ---- Rounds ----------------------------------------------------------------
static double rate(const subject *it, void (*read)(const subject *)) {
  const double start = cpu_seconds();
  for (int i = 0; i < it->repeats; ++i)
    read(it);
  return it->repeats / (cpu_seconds() - start);
}

static void compare(const subject *it, int rounds) {
  double own = 0, bare = 0;
  for (int i = 0; i < rounds; ++i) {
    const double a = rate(it, ours), b = rate(it, it->bare);
    own = a > own ? a : own;
    bare = b > bare ? b : bare;
  }
  printf("%-22s %8zu bytes %10.0f ours %10.0f library %7.3f\n", it->name,
         it->size, own, bare, own / bare);
}

// A batch of a folder's images, of the size that they have, after one another.
enum { FILES = 32 };

static void time_folder(const subject *it, int rounds) {
  char root[] = "/tmp/image_bench.XXXXXX", path[64];
  if (mkdtemp(root) == NULL) exit(1);
  snprintf(path, sizeof(path), "%s/class", root);
  if (mkdir(path, 0700) != 0) exit(1);
  for (int i = 0; i < FILES; ++i) {
    snprintf(path, sizeof(path), "%s/class/%02d.jpg", root, i);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(it->bytes, it->size, 1, file) != 1) exit(1);
    fclose(file);
  }
  ls_dataset *dataset = ls_dataset_batch(
      ls_dataset_image_folder(
          root, &(ls_image_folder_options){.height = 224, .width = 224}),
      &(ls_batch_options){.size = FILES});
  ls_iterator *iterator = NULL;
  ls_nest batch = ls_none();
  must(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  double best = 0, bare = 0;
  for (int i = 0; i < rounds; ++i) {
    const double start = cpu_seconds();
    for (int k = 0; k < 5; ++k) {
      must(ls_iterator_next(iterator, &batch));
      must(ls_iterator_restart(iterator));
    }
    const double now = 5 * FILES / (cpu_seconds() - start);
    best = now > best ? now : best;
    const double other = rate(it, it->bare);
    bare = other > bare ? other : bare;
  }
  printf("folder of such, batch %d             %10.0f ours %10.0f library "
         "%7.3f (without reading files)\n",
         FILES, best, bare, best / bare);
  ls_nest_release(batch);
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  for (int i = 0; i < FILES; ++i) {
    snprintf(path, sizeof(path), "%s/class/%02d.jpg", root, i);
    remove(path);
  }
  snprintf(path, sizeof(path), "%s/class", root);
  remove(path);
  remove(root);
}

static void time_resize(int64_t height, int64_t width, ls_dtype dtype,
                        int rounds) {
  ls_array *image = photo(height, width, 3), *from = NULL, *to = NULL;
  must(ls_array_create(dtype, LS_SHAPE(height, width, 3), &from));
  must(ls_array_create(dtype, LS_SHAPE(224, 224, 3), &to));
  for (int64_t i = 0; i < ls_array_num_elements(from); ++i)
    ls_array_set_i64(from, i, ls_array_i64(image, i));
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    enum { REPEATS = 30 };
    const double start = cpu_seconds();
    for (int k = 0; k < REPEATS; ++k)
      must(ls_resize_image(from, NULL, to));
    const double now = REPEATS / (cpu_seconds() - start);
    best = now > best ? now : best;
  }
  printf("resize %s %dx%d to 224x224 %10.0f ours\n", ls_dtype_name(dtype),
         (int)height, (int)width, best);
  ls_array_release(image);
  ls_array_release(from);
  ls_array_release(to);
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 20;
  ls_array *color = photo(224, 224, 3), *gray = photo(28, 28, 1);
  subject subjects[] = {
      {.name = "JPEG q90 224x224 RGB", .out = color, .repeats = 200},
      {.name = "PNG 224x224 RGB", .out = color, .repeats = 50},
      {.name = "PNG 28x28 gray", .out = gray, .repeats = 4000},
  };
#ifdef LS_HAVE_TURBOJPEG
  decoder = tjInitDecompress();
  pack_jpeg(color, &subjects[0]);
#endif
  pack_png(color, &subjects[1]);
  pack_png(gray, &subjects[2]);
  puts("images a second of CPU time, best of the rounds");
  for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); ++i) {
    if (subjects[i].bare != NULL)
      compare(&subjects[i], rounds);
    else
      printf("%-22s its library is missing\n", subjects[i].name);
  }
  if (subjects[0].bare != NULL) time_folder(&subjects[0], rounds);
  time_resize(375, 500, LS_DTYPE_U8, rounds);
  time_resize(375, 500, LS_DTYPE_F32, rounds);
  time_resize(96, 96, LS_DTYPE_U8, rounds);
  return 0;
}
