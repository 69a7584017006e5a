// SPDX-License-Identifier: Apache-2.0
#include "formats/images/image.h"

#include <limits.h>

#include "io/bytes.h"

bool ls_jpeg_is(const void *bytes, size_t size) {
  const unsigned char *at = bytes;
  return size >= 3 && at[0] == 0xff && at[1] == 0xd8 && at[2] == 0xff;
}

// ---- Header ----------------------------------------------------------------
enum { END_OF_IMAGE = 0xd9, START_OF_SCAN = 0xda, ADOBE = 0xee };

typedef struct jpeg_kind {
  int frame;  // Marker of the frame header; 0: not found yet.
  int bits, components;
  int64_t width, height;
  bool adobe;   // An Adobe file: CMYK values are inverted.
  size_t scan;  // Start of the pixels.
} jpeg_kind;

static ls_status jpeg_report_cut_off(const ls_image_file *file) {
  return LS_STATUS(LS_DATA_LOSS,
                   "'%s' is cut off: a JPEG of %zu bytes that has no pixels",
                   file->name, file->size);
}

// Returns true for the marker of a frame; three markers in the range are no
// frames.
static bool is_frame(int marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 &&
         marker != 0xcc;
}

static ls_status read_frame(const ls_image_file *file, int marker,
                            const unsigned char *segment, int size,
                            jpeg_kind *kind) {
  if (size < 8 || kind->frame != 0) {
    return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged JPEG: %s", file->name,
                     size < 8 ? "its header is too short"
                              : "it has two headers");
  }
  kind->frame = marker;
  kind->bits = segment[2];
  kind->height = ls_load_be16(segment + 3);
  kind->width = ls_load_be16(segment + 5);
  kind->components = segment[7];
  return ls_ok();
}

// Finds the next marker from `*at` on and moves after it; returns 0 if there is
// none. Skips stray bytes before it, like the decoder.
static int next_marker(const ls_image_file *file, size_t *at) {
  const unsigned char *bytes = file->bytes;
  for (size_t i = *at; i + 1 < file->size; ++i) {
    if (bytes[i] != 0xff || bytes[i + 1] == 0xff || bytes[i + 1] == 0) continue;
    *at = i + 2;
    return bytes[i + 1];
  }
  return 0;
}

// Returns true for a marker without data: TEM and RST0 to RST7.
static bool stands_alone(int marker) {
  return marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7);
}

// Reads everything before the pixels.
static ls_status read_jpeg_kind(const ls_image_file *file, jpeg_kind *kind) {
  for (size_t at = 2;;) {
    const int marker = next_marker(file, &at);
    if (stands_alone(marker)) continue;
    if (marker == 0 || marker == END_OF_IMAGE || file->size - at < 2)
      return jpeg_report_cut_off(file);
    const unsigned char *segment = file->bytes + at;
    const int size = ls_load_be16(segment);
    if (size < 2 || (size_t)size > file->size - at)
      return jpeg_report_cut_off(file);
    if (is_frame(marker))
      LS_RETURN_IF_ERROR(read_frame(file, marker, segment, size, kind));
    if (marker == ADOBE && size >= 14 && memcmp(segment + 2, "Adobe", 5) == 0)
      kind->adobe = true;
    at += (size_t)size;
    if (marker == START_OF_SCAN) {
      kind->scan = at;
      return ls_ok();
    }
  }
}

static ls_status check_jpeg_kind(const ls_image_file *file,
                                 const jpeg_kind *kind,
                                 ls_image_header *out_header) {
  // Frames are baseline, extended or progressive; 0xc9 and 0xca use arithmetic
  // coding.
  const bool arithmetic = kind->frame == 0xc9 || kind->frame == 0xca;
  if (kind->frame == 0) {
    return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged JPEG: it has no header",
                     file->name);
  }
  if (kind->frame > 0xc2 && !arithmetic) {
    return ls_unimplemented("'%s' is a %s JPEG (SOF%d); baseline and "
                            "progressive ones are read",
                            file->name,
                            kind->frame % 4 == 3 ? "lossless" : "hierarchical",
                            kind->frame - 0xc0);
  }
  if (kind->bits != 8) {
    return ls_unimplemented("'%s' is a JPEG of %d bits; those of 8 are read",
                            file->name, kind->bits);
  }
  if (kind->components != 1 && kind->components != 3 && kind->components != 4) {
    return ls_unimplemented("'%s' is a JPEG of %d components; those of 1 "
                            "(gray), 3 (color) and 4 (CMYK) are read",
                            file->name, kind->components);
  }
  const ls_image_header header = {.width = kind->width,
                                  .height = kind->height,
                                  .channels = kind->components == 1 ? 1 : 3,
                                  .bits = 8};
  // Without arithmetic coding a block of 64 pixels takes at least one bit.
  LS_RETURN_IF_ERROR(
      ls_image_check(file, "JPEG", &header, arithmetic ? 0 : 64 * 8));
  *out_header = header;
  return ls_ok();
}

ls_status ls_jpeg_parse(const ls_image_file *file,
                        ls_image_header *out_header) {
  jpeg_kind kind = {0};
  *out_header = (ls_image_header){0};
  LS_RETURN_IF_ERROR(read_jpeg_kind(file, &kind));
  return check_jpeg_kind(file, &kind, out_header);
}

// ---- Pixels ----------------------------------------------------------------
#ifdef LS_HAVE_TURBOJPEG

#include <turbojpeg.h>

// Returns true if the file has an end marker, whose bytes cannot occur in pixel
// data.
static bool has_end(const ls_image_file *file, const jpeg_kind *kind) {
  for (size_t at = file->size; at >= kind->scan + 2; --at) {
    if (file->bytes[at - 1] == END_OF_IMAGE && file->bytes[at - 2] == 0xff)
      return true;
  }
  return false;
}

// Returns true if `text` begins with one of the prefixes. TurboJPEG may report
// an error as a warning if a warning preceded it; then only the text
// distinguishes them.
static bool begins_with_any(const char *text, const char *const *with,
                            size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (strncmp(text, with[i], strlen(with[i])) == 0) return true;
  return false;
}

// Returns true for a harmless warning: all pixels were decoded.
static bool is_harmless(const char *text) {
  static const char *const known[] = {
      "Warning: ", "Unknown Adobe color transform", "Invalid SOS parameters"};
  return begins_with_any(text, known, LS_COUNT_OF(known)) ||
         (strncmp(text, "Corrupt", 7) == 0 &&
          strstr(text, "extraneous bytes before") != NULL);
}

// Returns true for a warning that pixels were guessed.
static bool is_guess(const char *text) {
  static const char *const known[] = {"Corrupt JPEG data",
                                      "Premature end of JPEG file",
                                      "Inconsistent progression"};
  return begins_with_any(text, known, LS_COUNT_OF(known));
}

static ls_status check_result(const ls_image_file *file, tjhandle decoder,
                              int result) {
  if (result == 0) return ls_ok();
  const bool warning = tjGetErrorCode(decoder) == TJERR_WARNING;
  // Getting the text also clears the error.
  const char *text = tjGetErrorStr2(decoder);
  if (warning && (is_harmless(text) || (file->allow_damaged && is_guess(text))))
    return ls_ok();
  if (strstr(text, "emory") != NULL) return ls_out_of_memory();
  return LS_STATUS(LS_DATA_LOSS, "'%s' is a damaged JPEG: %s", file->name,
                   text);
}

static ls_status unpack_pixels(const ls_image_file *file, tjhandle decoder,
                               const ls_pixels *out, int format) {
  if (out->stride > INT_MAX) {
    return ls_invalid_argument("'%s' is to have %zu bytes a row; a JPEG has "
                               "at most %d",
                               file->name, out->stride, INT_MAX);
  }
  const int result =
      tjDecompress2(decoder, file->bytes, (unsigned long)file->size, out->data,
                    (int)out->width, (int)out->stride, (int)out->height, format,
                    TJFLAG_LIMITSCANS);
  return check_result(file, decoder, result);
}

// Returns a * b / 255, rounded, of bytes.
static uint32_t multiply_bytes(uint32_t a, uint32_t b) {
  const uint32_t t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

// Converts CMYK to RGB.
static void convert_inks(const ls_pixels *inks, bool adobe,
                         const ls_pixels *out) {
  const unsigned char flip = adobe ? 0 : 255;
  for (int64_t y = 0; y < out->height; ++y) {
    const unsigned char *from =
        (const unsigned char *)inks->data + (size_t)y * inks->stride;
    unsigned char *target =
        (unsigned char *)out->data + (size_t)y * out->stride;
    for (int64_t x = 0; x < out->width;
         ++x, from += 4, target += out->channels) {
      const uint32_t black = from[3] ^ flip;
      uint32_t rgb[3];
      for (int c = 0; c < 3; ++c)
        rgb[c] = black - multiply_bytes(255u - (from[c] ^ flip), black);
      if (out->channels <= 2) {
        target[0] = (unsigned char)ls_image_gray(rgb[0], rgb[1], rgb[2]);
      } else {
        for (int c = 0; c < 3; ++c)
          target[c] = (unsigned char)rgb[c];
      }
      if (out->channels % 2 == 0) target[out->channels - 1] = 255;
    }
  }
}

static ls_status unpack_inks(ls_allocator *allocator, const ls_image_file *file,
                             bool adobe, tjhandle decoder,
                             const ls_pixels *out) {
  ls_pixels inks = *out;
  inks.stride = (size_t)out->width * 4;
  inks.data = ls_allocate(allocator, inks.stride * (size_t)out->height);
  if (inks.data == NULL) return ls_out_of_memory();
  const ls_status status = unpack_pixels(file, decoder, &inks, TJPF_CMYK);
  if (ls_status_is_ok(status)) convert_inks(&inks, adobe, out);
  ls_release(allocator, inks.data);
  return status;
}

// Widens from the last sample to the first, since each grows to two bytes in
// place.
static void widen_samples(const ls_pixels *out) {
  for (int64_t y = 0; y < out->height; ++y) {
    unsigned char *row = (unsigned char *)out->data + (size_t)y * out->stride;
    for (int64_t i = out->width * out->channels - 1; i >= 0; --i) {
      const uint16_t sample = (uint16_t)(row[i] * 257);
      memcpy(row + 2 * i, &sample, sizeof(sample));
    }
  }
}

static void add_alpha(const ls_pixels *out) {
  for (int64_t y = 0; y < out->height; ++y) {
    unsigned char *row = (unsigned char *)out->data + (size_t)y * out->stride;
    for (int64_t x = out->width - 1; x >= 0; --x) {
      row[2 * x] = row[x];
      row[2 * x + 1] = 255;
    }
  }
}

static ls_status decode_jpeg(ls_allocator *allocator, const ls_image_file *file,
                             const jpeg_kind *kind, const ls_pixels *out) {
  if (!file->allow_damaged && !has_end(file, kind)) {
    return LS_STATUS(LS_DATA_LOSS,
                     "'%s' is cut off: a JPEG of %zu bytes without its end's "
                     "marker ff d9",
                     file->name, file->size);
  }
  // Making a decoder takes a thousandth of the time of decoding an image.
  tjhandle decoder = tjInitDecompress();
  if (decoder == NULL) return ls_out_of_memory();
  static const int formats[] = {0, TJPF_GRAY, TJPF_GRAY, TJPF_RGB, TJPF_RGBA};
  ls_status status = ls_ok();
  if (kind->components == 4) {
    status = unpack_inks(allocator, file, kind->adobe, decoder, out);
  } else {
    status = unpack_pixels(file, decoder, out, formats[out->channels]);
    if (ls_status_is_ok(status) && out->channels == 2) add_alpha(out);
  }
  tjDestroy(decoder);
  if (ls_status_is_ok(status) && out->dtype == LS_DTYPE_U16) widen_samples(out);
  return status;
}

#else

static ls_status decode_jpeg(ls_allocator *allocator, const ls_image_file *file,
                             const jpeg_kind *kind, const ls_pixels *out) {
  (void)allocator, (void)kind, (void)out;
  return ls_unimplemented(
      "'%s' is a JPEG, which this build does not read: libturbojpeg "
      "(libturbojpeg0-dev) was missing when it was made",
      file->name);
}

#endif

ls_status ls_jpeg_decode(ls_allocator *allocator, const ls_image_file *file,
                         const ls_pixels *out) {
  jpeg_kind kind = {0};
  ls_image_header header = {0};
  LS_RETURN_IF_ERROR(read_jpeg_kind(file, &kind));
  LS_RETURN_IF_ERROR(check_jpeg_kind(file, &kind, &header));
  LS_ASSERT(out->width == header.width && out->height == header.height);
  return decode_jpeg(allocator, file, &kind, out);
}
