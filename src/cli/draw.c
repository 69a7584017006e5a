// SPDX-License-Identifier: Apache-2.0
#include "cli/look/canvas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// ---- Capabilities of the terminal ------------------------------------------
static const char *variable(const ls_runtime *runtime, const char *name) {
  const char *value = ls_runtime_environment(runtime, name);
  return value != NULL ? value : "";
}

bool cli_speaks_utf8(const ls_runtime *runtime) {
  static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
  for (int i = 0; i < 3; ++i) {
    const char *value = variable(runtime, names[i]);
    if (value[0] == '\0') continue;  // Look at the next variable.
    const char *dot = strchr(value, '.');
    return dot != NULL && (strncasecmp(dot, ".utf-8", 6) == 0 ||
                           strncasecmp(dot, ".utf8", 5) == 0);
  }
  return false;
}

cli_paint cli_paint_of(const ls_runtime *runtime, int descriptor) {
  const char *term = variable(runtime, "TERM");
  const char *colors = variable(runtime, "COLORTERM");
  if (isatty(descriptor) != 1 || !cli_speaks_utf8(runtime) ||
      variable(runtime, "NO_COLOR")[0] != '\0')
    return CLI_PAINT_LETTERS;
  if (strcmp(colors, "truecolor") == 0 || strcmp(colors, "24bit") == 0 ||
      strstr(term, "-direct") != NULL)
    return CLI_PAINT_TRUE;
  return strstr(term, "256color") != NULL ? CLI_PAINT_256 : CLI_PAINT_LETTERS;
}

// ---- Images ----------------------------------------------------------------
// A prepared image: f32 [height, width, 1 or 3] from 0 to 1.
typedef struct picture {
  ls_array *pixels;
  int64_t height, width, channels;
} picture;

// Range of an array's numbers.
typedef struct range {
  double low, high;
} range;

static ls_status check_image(const ls_array *image) {
  const ls_shape shape = ls_array_shape(image);
  const ls_dtype dtype = ls_array_dtype(image);
  if ((ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype) ||
       dtype == LS_DTYPE_BOOL) &&
      (shape.rank == 2 ||
       (shape.rank == 3 && shape.dim[2] >= 1 && shape.dim[2] <= 4)))
    return ls_ok();
  return ls_invalid_argument("%s is no image: one is numbers [height, width] "
                             "or [height, width, 1 to 4]",
                             LS_SHAPE_TEXT(dtype, shape));
}

static void widen_range(const ls_array *image, range *all) {
  for (int64_t i = 0; i < ls_array_num_elements(image); ++i) {
    const double value = ls_array_f64(image, i);
    if (!isfinite(value)) continue;
    if (value < all->low) all->low = value;
    if (value > all->high) all->high = value;
  }
}

static ls_status range_of(const ls_array *const *images, size_t count,
                          range *out) {
  range all = {INFINITY, -INFINITY};
  bool bytes = true;
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(check_image(images[i]));
    bytes = bytes && ls_array_dtype(images[i]) == LS_DTYPE_U8;
  }
  for (size_t i = 0; i < count && !bytes; ++i)
    widen_range(images[i], &all);
  *out = bytes ? (range){0, 255} : all;
  return ls_ok();
}

// Scales numbers to 0 to 1, drops alpha, and keeps every `step`-th row and
// column.
static ls_status scale_image(const ls_array *image, range all, int64_t step,
                             ls_array **out) {
  const ls_shape shape = ls_array_shape(image);
  const int64_t has = shape.rank == 3 ? shape.dim[2] : 1;
  const int64_t keeps = has < 3 ? 1 : 3;
  const double scale = all.high > all.low ? 1 / (all.high - all.low) : 0;
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_F32,
                      LS_SHAPE((shape.dim[0] + step - 1) / step,
                               (shape.dim[1] + step - 1) / step, keeps),
                      out));
  float *to = ls_array_mutable_data(*out);
  for (int64_t y = 0; y < shape.dim[0]; y += step) {
    for (int64_t x = 0; x < shape.dim[1]; x += step) {
      for (int64_t c = 0; c < keeps; ++c) {
        const int64_t at = (y * shape.dim[1] + x) * has + c;
        *to++ = (float)((ls_array_f64(image, at) - all.low) * scale);
      }
    }
  }
  return ls_ok();
}

// Reduces the width to `most` columns; a row of letters shows two rows of
// pixels.
static ls_status make_picture(const ls_array *image, range all, int64_t most,
                              cli_paint paint, picture *out) {
  enum { FINE = 16 };  // Samples per column that suffice.
  CLI_OWN(ls_array, whole) = NULL;
  int64_t height = ls_array_shape(image).dim[0];
  int64_t width = ls_array_shape(image).dim[1];
  const int64_t step = most > 0 ? width / (FINE * most) : 0;
  LS_RETURN_IF_ERROR(scale_image(image, all, step > 1 ? step : 1, &whole));
  const ls_shape shape = ls_array_shape(whole);
  if (width > most) {
    height = (height * most + width / 2) / width;
    width = most;
  }
  if (height < 1 && shape.dim[0] > 0) height = 1;
  if (paint == CLI_PAINT_LETTERS) height = (height + 1) / 2;
  *out = (picture){NULL, height, width, shape.dim[2]};
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_F32, LS_SHAPE(height, width, shape.dim[2]), &out->pixels));
  return ls_resize_image(whole, NULL, out->pixels);
}

// ---- Cells -----------------------------------------------------------------
typedef struct color {
  int rgb[3];  // 0 to 255; -1: the terminal's default.
} color;

static const color none = {{-1, -1, -1}};

static int byte_of(float value) {
  if (isnan(value) || value <= 0) return 0;
  return value >= 1 ? 255 : (int)(value * 255 + 0.5f);
}

// Shows NaN in a color that stands out.
static color color_at(const picture *p, int64_t y, int64_t x) {
  if (y >= p->height) return none;
  const float *at = (const float *)ls_array_data(p->pixels) +
                    (y * p->width + x) * p->channels;
  color result;
  for (int64_t c = 0; c < 3; ++c) {
    const float value = at[p->channels == 3 ? c : 0];
    if (isnan(value)) return (color){{255, 0, 255}};
    result.rgb[c] = byte_of(value);
  }
  return result;
}

static char letter_at(const picture *p, int64_t y, int64_t x) {
  static const char shades[] = " .:-=+*#%@";
  const float *at = (const float *)ls_array_data(p->pixels) +
                    (y * p->width + x) * p->channels;
  const float value = p->channels == 3
                          ? 0.299f * at[0] + 0.587f * at[1] + 0.114f * at[2]
                          : at[0];
  return isnan(value) ? '?' : shades[(byte_of(value) * 9 + 127) / 255];
}

// Returns the nearest level in the cube of 6 by 6 by 6 colors.
static int level_of(int byte) {
  return byte < 48 ? 0 : byte < 115 ? 1 : (byte - 35) / 40;
}

// Colors 16 to 231 are that cube, 232 to 255 grays from 8 to 238.
static int number_of_color(color c) {
  const int r = c.rgb[0], g = c.rgb[1], b = c.rgb[2];
  if (r == g && g == b && r >= 4 && r < 247)
    return 232 + (r < 8 ? 0 : r > 238 ? 23 : (r - 8 + 5) / 10);
  return 16 + 36 * level_of(r) + 6 * level_of(g) + level_of(b);
}

// Sets a color for the next characters: 38 foreground, 48 background.
static void choose_color(FILE *out, cli_paint paint, int where, color c) {
  if (c.rgb[0] < 0)
    fprintf(out, "\x1b[%dm", where + 1);
  else if (paint == CLI_PAINT_256)
    fprintf(out, "\x1b[%d;5;%dm", where, number_of_color(c));
  else
    fprintf(out, "\x1b[%d;2;%d;%d;%dm", where, c.rgb[0], c.rgb[1], c.rgb[2]);
}

static void draw_row(const picture *p, int64_t row, cli_paint paint,
                     FILE *out) {
  if (paint == CLI_PAINT_LETTERS) {
    for (int64_t x = 0; x < p->width; ++x)
      fputc(row < p->height ? letter_at(p, row, x) : ' ', out);
    return;
  }
  color upper = none, lower = none;
  for (int64_t x = 0; x < p->width; ++x) {
    const color above = color_at(p, 2 * row, x);
    const color below = color_at(p, 2 * row + 1, x);
    if (memcmp(&above, &upper, sizeof(above)) != 0)
      choose_color(out, paint, 38, above);
    if (memcmp(&below, &lower, sizeof(below)) != 0)
      choose_color(out, paint, 48, below);
    upper = above;
    lower = below;
    // Draws an upper half block in the upper pixel's color; the background is
    // the lower's.
    fputs(above.rgb[0] < 0 ? " " : "\xe2\x96\x80", out);
  }
  fputs("\x1b[0m", out);
}

// ---- Rows of images --------------------------------------------------------
static int64_t count_rows(const picture *p, cli_paint paint) {
  return paint == CLI_PAINT_LETTERS ? p->height : (p->height + 1) / 2;
}

// Replaces control characters of texts from files.
static void write_caption(const char *text, int64_t width, bool last,
                          FILE *out) {
  int64_t written = 0;
  for (; *text != '\0' && written < width; ++text, ++written) {
    const unsigned char c = (unsigned char)*text;
    fputc(c < 0x20 || c >= 0x7f ? '?' : c, out);
  }
  for (; written < width && !last; ++written)
    fputc(' ', out);
}

static void draw_line(const picture *pictures, size_t count,
                      const char *const *captions, cli_paint paint, FILE *out) {
  int64_t rows = 0;
  for (size_t i = 0; i < count; ++i)
    if (count_rows(&pictures[i], paint) > rows)
      rows = count_rows(&pictures[i], paint);
  for (int64_t row = captions != NULL ? -1 : 0; row < rows; ++row) {
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) fputc(' ', out);
      if (row < 0)
        write_caption(captions[i], pictures[i].width, i == count - 1, out);
      else
        draw_row(&pictures[i], row, paint, out);
    }
    fputc('\n', out);
  }
}

// Counts the pictures that fit side by side; at least one.
static size_t count_fitting(const picture *pictures, size_t count,
                            int64_t width) {
  size_t fit = 1;
  int64_t used = pictures[0].width;
  while (fit < count && used + 1 + pictures[fit].width <= width)
    used += 1 + pictures[fit++].width;
  return fit;
}

static ls_status draw_all(const ls_array *const *images, size_t count,
                          const cli_draw_options *options, picture *pictures,
                          FILE *out) {
  const int64_t width = options->width > 0 ? options->width : 80;
  const int64_t most =
      options->most > 0 && options->most < width ? options->most : width;
  range all;
  LS_RETURN_IF_ERROR(range_of(images, count, &all));
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(
        make_picture(images[i], all, most, options->paint, &pictures[i]));
  }
  for (size_t at = 0; at < count;) {
    const size_t fit = count_fitting(pictures + at, count - at, width);
    draw_line(pictures + at, fit,
              options->captions != NULL ? options->captions + at : NULL,
              options->paint, out);
    at += fit;
  }
  return ls_ok();
}

ls_status cli_draw(const ls_array *const *images, size_t count,
                   const cli_draw_options *options, FILE *out) {
  const cli_draw_options given =
      options != NULL ? *options : (cli_draw_options){0};
  CLI_OWN_ARRAY_OR_RETURN(picture, pictures, count);
  const ls_status status = draw_all(images, count, &given, pictures, out);
  for (size_t i = 0; i < count; ++i)
    ls_array_release(pictures[i].pixels);
  return status;
}
