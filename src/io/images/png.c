// SPDX-License-Identifier: Apache-2.0
#include "io/images/png.h"

#include <inttypes.h>
#include <stdio.h>

static const unsigned char signature[8] = {0x89, 'P',  'N',  'G',
                                           '\r', '\n', 0x1a, '\n'};

bool ls_png_is(const void *bytes, size_t size) {
  return size >= sizeof(signature) &&
         memcmp(bytes, signature, sizeof(signature)) == 0;
}

// ---- Header ----------------------------------------------------------------
// The header's kinds of color are bits of these.
enum { HAS_PALETTE = 1, HAS_COLOR = 2, HAS_ALPHA = 4 };

typedef struct png_kind {
  int64_t width, height;
  int bits;          // Of a sample, or of a palette's index.
  int color;         // HAS_*.
  bool clear_color;  // A color, or colors of the palette, are transparent.
} png_kind;

static uint32_t big_endian_32(const unsigned char *at) {
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 |
         (uint32_t)at[3];
}

static bool is_chunk(const unsigned char *at, const char *type) {
  return memcmp(at + 4, type, 4) == 0;
}

static ls_status cut_off(const ls_image_file *file) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is cut off: a PNG of %zu bytes that has no pixels",
                   file->name, file->size);
}

// The header's chunk: its size and type, width, height, and five bytes.
static ls_status read_first(const ls_image_file *file, png_kind *kind) {
  const unsigned char *at = file->bytes + sizeof(signature);
  if (file->size < sizeof(signature) + 8 + 13) return cut_off(file);
  if (big_endian_32(at) != 13 || !is_chunk(at, "IHDR")) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is a damaged PNG: it does not begin with a header",
                     file->name);
  }
  kind->width = big_endian_32(at + 8);
  kind->height = big_endian_32(at + 12);
  kind->bits = at[16];
  kind->color = at[17];
  // Bit n is set where n bits are allowed.
  static const uint32_t allowed[] = {
      [0] = 0x10116,
      [HAS_COLOR] = 0x10100,
      [HAS_COLOR | HAS_PALETTE] = 0x116,
      [HAS_ALPHA] = 0x10100,
      [HAS_COLOR | HAS_ALPHA] = 0x10100,
  };
  if (kind->color >= (int)LS_COUNT_OF(allowed) || kind->bits > 16 ||
      (allowed[kind->color] >> kind->bits & 1) == 0) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is a damaged PNG: its header says color type %d of "
                     "%d bits, which there is not",
                     file->name, kind->color, kind->bits);
  }
  return ls_ok();
}

// What stands before the pixels.
static ls_status read_kind(const ls_image_file *file, png_kind *kind) {
  LS_RETURN_IF_ERROR(read_first(file, kind));
  for (size_t at = sizeof(signature); file->size - at >= 12;) {
    const unsigned char *chunk = file->bytes + at;
    if (is_chunk(chunk, "IDAT")) return ls_ok();
    if (is_chunk(chunk, "tRNS")) kind->clear_color = true;
    const size_t size = big_endian_32(chunk);
    if (size > file->size - at - 12) break;
    at += 12 + size;
  }
  return cut_off(file);
}

static int samples_a_pixel(const png_kind *kind) {
  if ((kind->color & HAS_PALETTE) != 0) return 1;
  return ((kind->color & HAS_COLOR) != 0 ? 3 : 1) +
         ((kind->color & HAS_ALPHA) != 0 ? 1 : 0);
}

static ls_status check_kind(const ls_image_file *file, const png_kind *kind,
                            ls_image_header *out_header) {
  const bool palette = (kind->color & HAS_PALETTE) != 0;
  const ls_image_header header = {
      .width = kind->width,
      .height = kind->height,
      .channels = palette ? (kind->clear_color ? 4 : 3) : samples_a_pixel(kind),
      .bits = palette ? 8 : kind->bits};
  // Deflate makes at most 1032 bytes of one.
  LS_RETURN_IF_ERROR(ls_image_check(
      file, "PNG", &header, 1032 * 8 / (samples_a_pixel(kind) * kind->bits)));
  *out_header = header;
  return ls_ok();
}

ls_status ls_png_parse(const ls_image_file *file, ls_image_header *out_header) {
  png_kind kind = {0};
  *out_header = (ls_image_header){0};
  LS_RETURN_IF_ERROR(read_kind(file, &kind));
  return check_kind(file, &kind, out_header);
}

// ---- Pixels ----------------------------------------------------------------
#ifdef LS_HAVE_PNG

#include <png.h>
#include <setjmp.h>

// What is being read. libpng's errors jump to `fail`: all that is changed
// between there and the jump stands here, not in local variables.
typedef struct reading {
  jmp_buf fail;
  ls_allocator *allocator;
  const ls_image_file *file;
  const ls_pixels *out;
  png_kind kind;
  size_t at;  // Bytes read.
  png_structp png;
  png_infop info;
  unsigned char *color;  // Rows in color, where gray is wanted; else NULL.
  bool no_memory, no_bytes;
  char message[96];
} reading;

static png_voidp allocate(png_structp png, png_alloc_size_t size) {
  reading *it = png_get_mem_ptr(png);
  void *memory = ls_allocate(it->allocator, size);
  if (memory == NULL) it->no_memory = true;
  return memory;
}

static void release(png_structp png, png_voidp memory) {
  const reading *it = png_get_mem_ptr(png);
  ls_release(it->allocator, memory);
}

__attribute__((noreturn)) static void on_error(png_structp png,
                                               png_const_charp message) {
  reading *it = png_get_error_ptr(png);
  snprintf(it->message, sizeof(it->message), "%s", message);
  longjmp(it->fail, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  (void)png, (void)message;
}

static void read_bytes(png_structp png, png_bytep to, size_t size) {
  reading *it = png_get_io_ptr(png);
  if (size > it->file->size - it->at) {
    it->no_bytes = true;
    png_error(png, "cut off");
  }
  memcpy(to, it->file->bytes + it->at, size);
  it->at += size;
}

static bool wants_alpha(const reading *it) {
  return it->out->channels % 2 == 0;
}

static bool wants_gray(const reading *it) {
  return (it->kind.color & HAS_COLOR) != 0 && it->out->channels <= 2;
}

// What comes out of libpng are samples of the right width, gray or color as the
// file or else color, with alpha as is wanted.
static void transform(const reading *it) {
  const png_kind *kind = &it->kind;
  const bool alpha = (kind->color & HAS_ALPHA) != 0 || kind->clear_color;
  png_structp png = it->png;
  if ((kind->color & HAS_PALETTE) != 0) png_set_palette_to_rgb(png);
  if (kind->color == 0 && kind->bits < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (kind->clear_color && wants_alpha(it)) png_set_tRNS_to_alpha(png);
  if (it->out->bits == 8 && kind->bits == 16) png_set_strip_16(png);
  if (it->out->bits == 16) {
    if (kind->bits < 16) png_set_expand_16(png);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_swap(png);
  }
  if ((kind->color & HAS_COLOR) == 0 && it->out->channels > 2)
    png_set_gray_to_rgb(png);
  if (alpha && !wants_alpha(it)) png_set_strip_alpha(png);
  if (!alpha && wants_alpha(it)) {
    png_set_add_alpha(png, it->out->bits == 16 ? 0xffff : 0xff,
                      PNG_FILLER_AFTER);
  }
}

static void to_gray(const reading *it, const unsigned char *color, void *row) {
  const size_t wide = wants_alpha(it) ? 4 : 3, narrow = wide - 2;
  const size_t width = (size_t)it->out->width;
  if (it->out->bits == 16) {
    const uint16_t *from = (const void *)color;
    uint16_t *to = row;
    for (size_t x = 0; x < width; ++x, from += wide, to += narrow) {
      to[0] = (uint16_t)ls_image_gray(from[0], from[1], from[2]);
      if (narrow == 2) to[1] = from[3];
    }
    return;
  }
  unsigned char *to = row;
  for (size_t x = 0; x < width; ++x, color += wide, to += narrow) {
    to[0] = (unsigned char)ls_image_gray(color[0], color[1], color[2]);
    if (narrow == 2) to[1] = color[3];
  }
}

static void read_rows(reading *it, size_t row_bytes) {
  const ls_pixels *out = it->out;
  const int passes = png_set_interlace_handling(it->png);
  png_read_update_info(it->png, it->info);
  if (png_get_rowbytes(it->png, it->info) != row_bytes)
    png_error(it->png, "rows of another size");
  // Passes fill up the same rows.
  const size_t color_rows = passes > 1 ? (size_t)out->height : 1;
  if (wants_gray(it)) it->color = png_malloc(it->png, color_rows * row_bytes);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < out->height; ++y) {
      unsigned char *row = (unsigned char *)out->data + (size_t)y * out->stride;
      if (it->color == NULL) {
        png_read_row(it->png, row, NULL);
        continue;
      }
      unsigned char *color =
          it->color + (passes > 1 ? (size_t)y * row_bytes : 0);
      png_read_row(it->png, color, NULL);
      if (pass == passes - 1) to_gray(it, color, row);
    }
  }
}

static void read_image(reading *it) {
  const ls_pixels *out = it->out;
  it->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, it, on_error,
                                     on_warning, it, allocate, release);
  if (it->png == NULL) longjmp(it->fail, 1);
  it->info = png_create_info_struct(it->png);
  if (it->info == NULL) longjmp(it->fail, 1);
  // The size was checked; the text and the like of a file are not looked at.
  png_set_user_limits(it->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_keep_unknown_chunks(it->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  png_set_read_fn(it->png, it, read_bytes);
  png_read_info(it->png, it->info);
  transform(it);
  const int samples = wants_gray(it) ? out->channels + 2 : out->channels;
  read_rows(it, (size_t)out->width * (size_t)(samples * out->bits / 8));
  png_read_end(it->png, NULL);
}

// False: libpng has failed.
static bool try_to_read(reading *it) {
  if (setjmp(it->fail) != 0) return false;
  read_image(it);
  return true;
}

static ls_status why_not(const reading *it) {
  if (it->no_memory) return ls_out_of_memory();
  if (it->no_bytes) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off: a PNG that goes on behind its end at "
                     "byte %zu",
                     it->file->name, it->file->size);
  }
  return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged PNG near byte %zu: %s",
                   it->file->name, it->at, it->message);
}

static ls_status decode(ls_allocator *allocator, const ls_image_file *file,
                        const png_kind *kind, const ls_pixels *out) {
  reading it = {
      .allocator = allocator, .file = file, .kind = *kind, .out = out};
  const ls_status status = try_to_read(&it) ? ls_ok() : why_not(&it);
  if (it.color != NULL) png_free(it.png, it.color);
  if (it.png != NULL)
    png_destroy_read_struct(&it.png, it.info != NULL ? &it.info : NULL, NULL);
  return status;
}

#else

static ls_status decode(ls_allocator *allocator, const ls_image_file *file,
                        const png_kind *kind, const ls_pixels *out) {
  (void)allocator, (void)kind, (void)out;
  return ls_unimplemented("'%s' is a PNG, which this build does not read: "
                          "libpng (libpng-dev) was missing when it was made",
                          file->name);
}

#endif

ls_status ls_png_decode(ls_allocator *allocator, const ls_image_file *file,
                        const ls_pixels *out) {
  png_kind kind = {0};
  ls_image_header header = {0};
  LS_RETURN_IF_ERROR(read_kind(file, &kind));
  LS_RETURN_IF_ERROR(check_kind(file, &kind, &header));
  LS_ASSERT(out->width == header.width && out->height == header.height);
  return decode(allocator, file, &kind, out);
}
