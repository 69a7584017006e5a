// SPDX-License-Identifier: Apache-2.0
#include "formats/images/image.h"

#include <stdio.h>

#include "io/bytes.h"

static const unsigned char signature[8] = {0x89, 'P',  'N',  'G',
                                           '\r', '\n', 0x1a, '\n'};

bool ls_png_is(const void *bytes, size_t size) {
  return size >= sizeof(signature) &&
         memcmp(bytes, signature, sizeof(signature)) == 0;
}

// ---- Header ----------------------------------------------------------------
// Bits of a header's kind of color.
enum { HAS_PALETTE = 1, HAS_COLOR = 2, HAS_ALPHA = 4 };

typedef struct png_kind {
  int64_t width, height;
  int bits;          // Bits of a sample, or of an index into the palette.
  int color;         // HAS_*.
  bool clear_color;  // A color, or colors of the palette, are transparent.
} png_kind;

static bool is_chunk(const unsigned char *at, const char *type) {
  return memcmp(at + 4, type, 4) == 0;
}

static ls_status png_report_cut_off(const ls_image_file *file) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is cut off: a PNG of %zu bytes that has no pixels",
                   file->name, file->size);
}

// Reads the header's chunk: its size and type, width, height, and five bytes.
static ls_status read_first(const ls_image_file *file, png_kind *kind) {
  const unsigned char *at = file->bytes + sizeof(signature);
  if (file->size < sizeof(signature) + 8 + 13) return png_report_cut_off(file);
  if (ls_load_be32(at) != 13 || !is_chunk(at, "IHDR")) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is a damaged PNG: it does not begin with a header",
                     file->name);
  }
  kind->width = ls_load_be32(at + 8);
  kind->height = ls_load_be32(at + 12);
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
                     "'%s' is a damaged PNG: its header has color type %d with "
                     "%d bits, which does not exist",
                     file->name, kind->color, kind->bits);
  }
  return ls_ok();
}

// Reads everything before the pixels.
static ls_status read_png_kind(const ls_image_file *file, png_kind *kind) {
  LS_RETURN_IF_ERROR(read_first(file, kind));
  for (size_t at = sizeof(signature); file->size - at >= 12;) {
    const unsigned char *chunk = file->bytes + at;
    if (is_chunk(chunk, "IDAT")) return ls_ok();
    if (is_chunk(chunk, "tRNS")) kind->clear_color = true;
    const size_t size = ls_load_be32(chunk);
    if (size > file->size - at - 12) break;
    at += 12 + size;
  }
  return png_report_cut_off(file);
}

static int samples_a_pixel(const png_kind *kind) {
  if ((kind->color & HAS_PALETTE) != 0) return 1;
  return ((kind->color & HAS_COLOR) != 0 ? 3 : 1) +
         ((kind->color & HAS_ALPHA) != 0 ? 1 : 0);
}

static ls_status check_png_kind(const ls_image_file *file, const png_kind *kind,
                                ls_image_header *out_header) {
  const bool palette = (kind->color & HAS_PALETTE) != 0;
  if (file->indices && (kind->bits > 8 || samples_a_pixel(kind) > 1))
    return ls_invalid_argument(
        "'%s' is a PNG of %d channel%s of %d bits; numbers of classes are a "
        "palette's indices, or gray of at most 8 bits",
        file->name, samples_a_pixel(kind), samples_a_pixel(kind) > 1 ? "s" : "",
        kind->bits);
  const ls_image_header header = {.width = kind->width,
                                  .height = kind->height,
                                  .channels = palette && !file->indices
                                                  ? (kind->clear_color ? 4 : 3)
                                                  : samples_a_pixel(kind),
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
  LS_RETURN_IF_ERROR(read_png_kind(file, &kind));
  return check_png_kind(file, &kind, out_header);
}

// ---- Pixels ----------------------------------------------------------------
#ifdef LS_HAVE_PNG

#include <png.h>
#include <setjmp.h>

// State of reading. libpng's errors jump to `fail`: variables that change
// between setjmp and the jump are here, not on the stack.
typedef struct reading {
  jmp_buf fail;
  ls_allocator *allocator;
  const ls_image_file *file;
  const ls_pixels *out;
  png_kind kind;
  size_t at;  // Number of bytes read.
  png_structp png;
  png_infop info;
  unsigned char *color;  // Rows in color, if gray is wanted; else NULL.
  bool no_memory, no_bytes;
  char message[96];
} reading;

static png_voidp png_allocate(png_structp png, png_alloc_size_t size) {
  reading *self = png_get_mem_ptr(png);
  void *memory = ls_allocate(self->allocator, size);
  if (memory == NULL) self->no_memory = true;
  return memory;
}

static void png_release(png_structp png, png_voidp memory) {
  const reading *self = png_get_mem_ptr(png);
  ls_release(self->allocator, memory);
}

__attribute__((noreturn)) static void on_error(png_structp png,
                                               png_const_charp message) {
  reading *self = png_get_error_ptr(png);
  snprintf(self->message, sizeof(self->message), "%s", message);
  longjmp(self->fail, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
  (void)png, (void)message;
}

static void read_png_bytes(png_structp png, png_bytep target, size_t size) {
  reading *self = png_get_io_ptr(png);
  if (size > self->file->size - self->at) {
    self->no_bytes = true;
    png_error(png, "cut off");
  }
  memcpy(target, self->file->bytes + self->at, size);
  self->at += size;
}

static bool wants_alpha(const reading *self) {
  return self->out->channels % 2 == 0;
}

static bool wants_gray(const reading *self) {
  return (self->kind.color & HAS_COLOR) != 0 && self->out->channels <= 2 &&
         !self->file->indices;
}

// Sets up libpng so that it returns samples of the right width, gray or color
// like the file, else color, and alpha if it is wanted.
static void set_transforms(const reading *self) {
  const png_kind *kind = &self->kind;
  const bool alpha = (kind->color & HAS_ALPHA) != 0 || kind->clear_color;
  png_structp png = self->png;
  if (self->file->indices) {
    png_set_packing(png);  // A byte for each number.
    return;
  }
  if ((kind->color & HAS_PALETTE) != 0) png_set_palette_to_rgb(png);
  if (kind->color == 0 && kind->bits < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (kind->clear_color && wants_alpha(self)) png_set_tRNS_to_alpha(png);
  if (self->out->dtype == LS_DTYPE_U8 && kind->bits == 16)
    png_set_strip_16(png);
  if (self->out->dtype == LS_DTYPE_U16) {
    if (kind->bits < 16) png_set_expand_16(png);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) png_set_swap(png);
  }
  if ((kind->color & HAS_COLOR) == 0 && self->out->channels > 2)
    png_set_gray_to_rgb(png);
  if (alpha && !wants_alpha(self)) png_set_strip_alpha(png);
  if (!alpha && wants_alpha(self)) {
    png_set_add_alpha(png, self->out->dtype == LS_DTYPE_U16 ? 0xffff : 0xff,
                      PNG_FILLER_AFTER);
  }
}

static void to_gray(const reading *self, const unsigned char *color,
                    void *row) {
  const size_t wide = wants_alpha(self) ? 4 : 3, narrow = wide - 2;
  const size_t width = (size_t)self->out->width;
  if (self->out->dtype == LS_DTYPE_U16) {
    const uint16_t *from = (const void *)color;
    uint16_t *target = row;
    for (size_t x = 0; x < width; ++x, from += wide, target += narrow) {
      target[0] = (uint16_t)ls_image_gray(from[0], from[1], from[2]);
      if (narrow == 2) target[1] = from[3];
    }
    return;
  }
  unsigned char *target = row;
  for (size_t x = 0; x < width; ++x, color += wide, target += narrow) {
    target[0] = (unsigned char)ls_image_gray(color[0], color[1], color[2]);
    if (narrow == 2) target[1] = color[3];
  }
}

static void read_png_rows(reading *self, size_t row_bytes) {
  const ls_pixels *out = self->out;
  const int passes = png_set_interlace_handling(self->png);
  png_read_update_info(self->png, self->info);
  if (png_get_rowbytes(self->png, self->info) != row_bytes)
    png_error(self->png, "rows of another size");
  // With several passes all rows are kept: each pass fills in more of them.
  const size_t color_rows = passes > 1 ? (size_t)out->height : 1;
  if (wants_gray(self))
    self->color = png_malloc(self->png, color_rows * row_bytes);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < out->height; ++y) {
      unsigned char *row = (unsigned char *)out->data + (size_t)y * out->stride;
      if (self->color == NULL) {
        png_read_row(self->png, row, NULL);
        continue;
      }
      unsigned char *color =
          self->color + (passes > 1 ? (size_t)y * row_bytes : 0);
      png_read_row(self->png, color, NULL);
      if (pass == passes - 1) to_gray(self, color, row);
    }
  }
}

static void read_image(reading *self) {
  const ls_pixels *out = self->out;
  self->png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, self, on_error,
                               on_warning, self, png_allocate, png_release);
  if (self->png == NULL) longjmp(self->fail, 1);
  self->info = png_create_info_struct(self->png);
  if (self->info == NULL) longjmp(self->fail, 1);
  // The size was checked; text and other chunks are not read.
  png_set_user_limits(self->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_keep_unknown_chunks(self->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
  png_set_read_fn(self->png, self, read_png_bytes);
  png_read_info(self->png, self->info);
  set_transforms(self);
  const int64_t samples = wants_gray(self) ? out->channels + 2 : out->channels;
  read_png_rows(self,
                (size_t)(out->width * samples) * ls_dtype_size(out->dtype));
  png_read_end(self->png, NULL);
}

// Returns false if libpng has failed.
static bool try_to_read(reading *self) {
  if (setjmp(self->fail) != 0) return false;
  read_image(self);
  return true;
}

static ls_status why_not(const reading *self) {
  if (self->no_memory) return ls_out_of_memory();
  if (self->no_bytes) {
    return LS_STATUS(
        LS_DATA_LOSS,
        "'%s' is cut off: a PNG that continues after its end at byte %zu",
        self->file->name, self->file->size);
  }
  return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged PNG near byte %zu: %s",
                   self->file->name, self->at, self->message);
}

static ls_status decode_png(ls_allocator *allocator, const ls_image_file *file,
                            const png_kind *kind, const ls_pixels *out) {
  reading self = {
      .allocator = allocator, .file = file, .kind = *kind, .out = out};
  const ls_status status = try_to_read(&self) ? ls_ok() : why_not(&self);
  if (self.color != NULL) png_free(self.png, self.color);
  if (self.png != NULL)
    png_destroy_read_struct(&self.png, self.info != NULL ? &self.info : NULL,
                            NULL);
  return status;
}

#else

static ls_status decode_png(ls_allocator *allocator, const ls_image_file *file,
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
  LS_RETURN_IF_ERROR(read_png_kind(file, &kind));
  LS_RETURN_IF_ERROR(check_png_kind(file, &kind, &header));
  LS_ASSERT(out->width == header.width && out->height == header.height);
  return decode_png(allocator, file, &kind, out);
}
