// SPDX-License-Identifier: Apache-2.0
//
// JPEG and PNG files in plain C: the library's calls alone.
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef LS_HAVE_PNG
#include <png.h>
#endif
#ifdef LS_HAVE_TURBOJPEG
#include <turbojpeg.h>
#endif

#include "feed_plain.h"

#if defined(LS_HAVE_TURBOJPEG) || defined(LS_HAVE_PNG)
static char path[4096];
enum { SIZE = FEED_SIDE * FEED_SIDE * 3 };
static unsigned char batch[FEED_IMAGE_BATCH][SIZE];
static int num_files, next_file;
static const char *kind, *root;
static unsigned char file_bytes[1 << 20];

static size_t read_file(int number) {
  snprintf(path, sizeof(path), "%s/%s/class/%04d.%s", root, kind, number, kind);
  const int file = open(path, O_RDONLY);
  const ssize_t size =
      file < 0 ? -1 : read(file, file_bytes, sizeof(file_bytes));
  if (size <= 0) feed_failed(path);
  close(file);
  return (size_t)size;
}

static int64_t next_of_files(void (*decode)(size_t size, unsigned char *to),
                             double *sum) {
  int64_t count = 0;
  for (; count < FEED_IMAGE_BATCH && next_file < num_files; ++count)
    decode(read_file(next_file++), batch[count]);
  if (count == 0) next_file = 0;
  if (sum != NULL && count > 0)
    *sum += feed_sum_bytes(batch[0], (size_t)count * SIZE) / SIZE;
  return count;
}

static void open_files(const char *folder, const char *files, int count) {
  root = folder;
  kind = files;
  num_files = count;
}

// Smooth colors with some noise: packs about as well as a photo does.
static void paint(unsigned char *at, int number) {
  for (int y = 0; y < FEED_SIDE; ++y) {
    for (int x = 0; x < FEED_SIDE; ++x) {
      for (int c = 0; c < 3; ++c) {
        const double wave = sin((x + 9 * c + number) * 0.11) +
                            cos((y - 5 * c) * (0.03 + number % 64 * 0.001)) +
                            0.1 * (feed_draw() >> 24) / 255;
        *at++ = (unsigned char)(120 + 55 * wave);
      }
    }
  }
}

#ifdef LS_HAVE_TURBOJPEG
static tjhandle decoder;

static void decode_jpeg(size_t size, unsigned char *to) {
  int width, height, sampling, colors;
  if (tjDecompressHeader3(decoder, file_bytes, size, &width, &height, &sampling,
                          &colors) != 0 ||
      width != FEED_SIDE || height != FEED_SIDE ||
      tjDecompress2(decoder, file_bytes, size, to, width, 3 * width, height,
                    TJPF_RGB, 0) != 0)
    feed_damaged();
}

int64_t feed_next_of_jpegs(void *user, double *sum) {
  (void)user;
  return next_of_files(decode_jpeg, sum);
}

void feed_open_jpegs(const char *folder) {
  decoder = tjInitDecompress();
  open_files(folder, "jpeg", FEED_JPEGS);
}

static void make_jpeg(const char *name) {
  unsigned char *bytes = NULL;
  unsigned long size = 0;
  tjhandle encoder = tjInitCompress();
  FILE *file = fopen(name, "wb");
  if (file == NULL ||
      tjCompress2(encoder, batch[0], FEED_SIDE, 0, FEED_SIDE, TJPF_RGB, &bytes,
                  &size, TJSAMP_420, 90, 0) != 0 ||
      fwrite(bytes, size, 1, file) != 1 || fclose(file) != 0)
    feed_failed(name);
  tjFree(bytes);
  tjDestroy(encoder);
}
#endif

#ifdef LS_HAVE_PNG
static void read_source(png_structp png, png_bytep to, size_t size) {
  const unsigned char **from = png_get_io_ptr(png);
  memcpy(to, *from, size);
  *from += size;
}

static void decode_png(size_t size, unsigned char *to) {
  (void)size;
  const unsigned char *from = file_bytes;
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, 0, 0, 0);
  png_infop info = png_create_info_struct(png);
  if (setjmp(png_jmpbuf(png)) != 0) feed_damaged();
  png_set_read_fn(png, &from, read_source);
  png_read_info(png, info);
  if (png_get_rowbytes(png, info) != FEED_SIDE * 3 ||
      png_get_image_height(png, info) != FEED_SIDE)
    feed_damaged();
  for (int y = 0; y < FEED_SIDE; ++y)
    png_read_row(png, to + (size_t)y * FEED_SIDE * 3, NULL);
  png_read_end(png, NULL);
  png_destroy_read_struct(&png, &info, NULL);
}

int64_t feed_next_of_pngs(void *user, double *sum) {
  (void)user;
  return next_of_files(decode_png, sum);
}

void feed_open_pngs(const char *folder) {
  open_files(folder, "png", FEED_PNGS);
}

static void make_png(const char *name) {
  png_image image = {.version = PNG_IMAGE_VERSION,
                     .width = FEED_SIDE,
                     .height = FEED_SIDE,
                     .format = PNG_FORMAT_RGB};
  if (!png_image_write_to_file(&image, name, 0, batch[0], 0, NULL))
    feed_failed(name);
}
#endif

// ---- Making the files ------------------------------------------------------
static void make_images(const char *folder, const char *files, int count,
                        void (*make)(const char *name)) {
  snprintf(path, sizeof(path), "%s/%s", folder, files);
  (void)mkdir(path, 0777);
  snprintf(path, sizeof(path), "%s/%s/class", folder, files);
  if (mkdir(path, 0777) != 0) feed_failed(path);
  for (int i = 0; i < count; ++i) {
    paint(batch[0], i);
    snprintf(path, sizeof(path), "%s/%s/class/%04d.%s", folder, files, i,
             files);
    make(path);
  }
}
#endif

void feed_make_images(const char *folder) {
  (void)folder;
#ifdef LS_HAVE_TURBOJPEG
  make_images(folder, "jpeg", FEED_JPEGS, make_jpeg);
#endif
#ifdef LS_HAVE_PNG
  make_images(folder, "png", FEED_PNGS, make_png);
#endif
}
