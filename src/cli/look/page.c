// SPDX-License-Identifier: Apache-2.0
#include "cli/look/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- The frame -------------------------------------------------------------
static const char style[] =
    ":root{color-scheme:light dark;--page:#fff;--card:#f6f7f9;--ink:#1a1f26;"
    "--faint:#5b6573;--line:#d5dae1;--c1:#0b63c4;--c2:#c2410c;--c3:#7c3aed;"
    "--c4:#15803d;--c5:#be123c;--c6:#0e7490;--hit:11 99 196;--miss:190 18 60}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#14171c;--card:#1c2128;"
    "--ink:#e4e8ee;--faint:#98a2b1;--line:#353c47;--c1:#62a8ff;--c2:#fb9a4b;"
    "--c3:#b197fc;--c4:#4fd07f;--c5:#ff7d92;--c6:#35cbe3;--hit:64 140 240;"
    "--miss:235 80 105}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--page);color:var(--ink);"
    "font:15px/1.5 system-ui,sans-serif}\n"
    "main{max-width:1240px;margin:0 auto;padding:24px 20px 48px}\n"
    "h1{font-size:24px;line-height:1.25;margin:0 0 "
    "4px;overflow-wrap:anywhere}\n"
    "h2{font-size:18px;margin:36px 0 12px;overflow-wrap:anywhere}\n"
    "h3{font-size:15px;margin:20px 0 8px;overflow-wrap:anywhere}\n"
    "p{margin:6px 0;overflow-wrap:anywhere}\n"
    ".faint,figcaption{color:var(--faint)}\n"
    ".cards,.charts{display:grid;gap:16px;"
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,360px),1fr))}\n"
    ".cards{margin-top:16px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr))}\n"
    ".card,figure.chart{margin:0;background:var(--card);border:1px solid "
    "var(--line);border-radius:8px;padding:12px 14px;min-width:0}\n"
    ".card h3{margin:0 0 2px}\n"
    ".bar{display:flex;height:8px;margin:8px 0;border-radius:4px;"
    "overflow:hidden;background:var(--line)}\n"
    ".bar span{display:block;height:100%}\n"
    ".wide{overflow-x:auto;max-width:100%;margin:8px 0 16px}\n"
    ".parts{display:flex;flex-wrap:wrap;gap:2px 16px}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:3px 14px 3px 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--line)}\n"
    "td.n,th.n{text-align:right;white-space:nowrap}\n"
    "th{font-weight:600;color:var(--faint)}\n"
    "td.long{overflow-wrap:anywhere;min-width:165px}\n"
    "tr.differs td,tr.differs th{color:var(--c2)}\n"
    "figcaption{font-size:13px;margin:0 0 6px;display:flex;flex-wrap:wrap;"
    "gap:2px 14px;overflow-wrap:anywhere}\n"
    "figcaption b{color:var(--ink)}\n"
    ".key{display:inline-block;width:10px;height:10px;border-radius:2px;"
    "margin-right:5px}\n"
    "svg{display:block;width:100%;height:auto}\n"
    "svg text{fill:var(--faint);font:11px system-ui,sans-serif}\n"
    "svg .grid{stroke:var(--line);stroke-width:1}\n"
    "svg path{fill:none;stroke-width:1.6;stroke-linejoin:round;"
    "stroke-linecap:round}\n"
    ".s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}"
    ".s4{stroke:var(--c4)}.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}\n"
    ".f1{fill:var(--c1);background:var(--c1)}.f2{fill:var(--c2);"
    "background:var(--c2)}.f3{fill:var(--c3);background:var(--c3)}"
    ".f4{fill:var(--c4);background:var(--c4)}.f5{fill:var(--c5);"
    "background:var(--c5)}.f6{fill:var(--c6);background:var(--c6)}\n"
    "table.matrix{font-size:12px}\n"
    "table.matrix td,table.matrix th{padding:3px 5px;text-align:right;"
    "border:1px solid var(--page)}\n"
    "table.matrix th.name{text-align:left;white-space:nowrap}\n"
    "table.matrix td.hit{background:rgb(var(--hit)/var(--a))}\n"
    "table.matrix td.miss{background:rgb(var(--miss)/var(--a))}\n"
    "table.matrix td.strong{color:#fff}\n"
    ".images{display:grid;gap:12px;"
    "grid-template-columns:repeat(auto-fill,minmax(104px,1fr))}\n"
    ".images figure{margin:0;min-width:0}\n"
    ".images img{width:100%;max-width:112px;image-rendering:pixelated;"
    "height:auto;border-radius:4px;display:block}\n"
    ".images figcaption{font-size:12px;line-height:1.35;margin:4px 0 0;"
    "display:block}\n"
    "@media(max-width:480px){main{padding:16px 12px 32px}"
    "table{font-size:14px}th,td{padding-right:9px}}\n"
    "@media print{figure,.card{break-inside:avoid}}\n";

// Begins with a policy by which a browser loads nothing and runs no script.
void cli_page_begin(FILE *out, const char *title) {
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
        "<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width,"
        "initial-scale=1\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src &#39;none&#39;; style-src "
        "&#39;unsafe-inline&#39;; img-src data:\"/>\n"
        "<meta name=\"color-scheme\" content=\"light dark\"/>\n<title>",
        out);
  cli_page_text(out, title);
  fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n",
          style);
}

void cli_page_end(FILE *out) { fputs("</main>\n</body>\n</html>\n", out); }

// ---- Texts -----------------------------------------------------------------
static const char *escape_of(char c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  default:
    return NULL;
  }
}

void cli_page_text(FILE *out, const char *text) {
  while (*text != '\0') {
    const size_t size = cli_character_size(text);
    const char *escape = escape_of(*text);
    if (escape != NULL)
      fputs(escape, out);
    else if (*text == '\n')
      fputs(text[1] != '\0' ? "; " : " ", out);
    else if (*text == '\t')
      fputc(' ', out);
    else if (size > 0)
      fwrite(text, 1, size, out);
    else
      fputs("\xef\xbf\xbd", out);  // U+FFFD.
    text += size > 0 ? size : 1;
  }
}

void cli_page_bytes(FILE *out, const char *bytes, size_t size) {
  char text[256];
  snprintf(text, sizeof(text), "%.*s", (int)size, bytes);
  cli_page_text(out, text);
}

void cli_page_cell(FILE *out, const char *text) {
  fputs("<td class=\"long\">", out);
  cli_page_text(out, text);
  fputs("</td>", out);
}

void cli_page_number(FILE *out, double value) {
  char text[32];
  cli_print_value(value, text, sizeof(text));
  fprintf(out, "<td class=\"n\">%s</td>", isnan(value) ? "\u2013" : text);
}

// ---- Pictures --------------------------------------------------------------
static bool is_image(const ls_array *array) {
  const ls_shape shape = ls_array_shape(array);
  const ls_dtype dtype = ls_array_dtype(array);
  enum { MOST = 4096 };
  return (ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype)) &&
         (shape.rank == 2 ||
          (shape.rank == 3 && shape.dim[2] >= 1 && shape.dim[2] <= 4)) &&
         shape.dim[0] >= 1 && shape.dim[0] <= MOST && shape.dim[1] >= 1 &&
         shape.dim[1] <= MOST;
}

// ---- Files of BMP ----------------------------------------------------------
static void put_le(unsigned char *at, unsigned long value) {
  for (int i = 0; i < 4; ++i)
    at[i] = (unsigned char)(value >> 8 * i);
}

// Writes the pixels of a row, blue first.
static void put_row(const ls_array *image, cli_range range, int64_t y,
                    int64_t step, unsigned char *row, int64_t width) {
  const ls_shape shape = ls_array_shape(image);
  const int64_t channels = shape.rank == 3 ? shape.dim[2] : 1;
  const double span = range.high > range.low ? range.high - range.low : 1;
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t c = 0; c < 3; ++c) {
      const int64_t at = ((y * step) * shape.dim[1] + x * step) * channels +
                         (channels >= 3 ? 2 - c : 0);
      const double value = (ls_array_f64(image, at) - range.low) / span;
      row[3 * x + c] =
          (unsigned char)(isnan(value) ? 0
                                       : fmin(fmax(value, 0), 1) * 255 + 0.5);
    }
  }
}

static cli_range range_of_image(const ls_array *image) {
  if (ls_array_dtype(image) == LS_DTYPE_U8) return (cli_range){0, 255};
  cli_range range = {NAN, NAN};
  for (int64_t i = 0; i < ls_array_num_elements(image); ++i) {
    const double value = ls_array_f64(image, i);
    cli_range_add(&range, &value, 1);
  }
  return isnan(range.low) ? (cli_range){0, 1} : range;
}

ls_status cli_picture_make(const ls_array *image, cli_picture *out) {
  enum { HEAD = 54, MOST = 96 };
  *out = (cli_picture){0};
  if (!is_image(image)) return ls_ok();
  const ls_shape shape = ls_array_shape(image);
  const int64_t larger =
      shape.dim[0] > shape.dim[1] ? shape.dim[0] : shape.dim[1];
  const int64_t step = (larger + MOST - 1) / MOST;
  const int64_t height = (shape.dim[0] + step - 1) / step;
  const int64_t width = (shape.dim[1] + step - 1) / step;
  const size_t stride = ((size_t)width * 3 + 3) / 4 * 4;
  const size_t size = HEAD + stride * (size_t)height;
  const cli_range range = range_of_image(image);
  CLI_OWN_ARRAY_OR_RETURN(unsigned char, file, size);
  memcpy(file, "BM", 2);
  put_le(file + 2, size);
  put_le(file + 10, HEAD);
  put_le(file + 14, 40);
  put_le(file + 18, (unsigned long)width);
  put_le(file + 22, (unsigned long)height);
  file[26] = 1;   // Planes.
  file[28] = 24;  // Bits per pixel.
  // Rows go upwards.
  for (int64_t y = 0; y < height; ++y)
    put_row(image, range, height - 1 - y, step,
            file + HEAD + (size_t)y * stride, width);
  *out = (cli_picture){cli_give(&file), size, (int)width, (int)height};
  return ls_ok();
}

void cli_picture_close(cli_picture *picture) {
  cli_release(picture->file);
  *picture = (cli_picture){0};
}

// ---- Pages -----------------------------------------------------------------
static void put_base64(FILE *out, const unsigned char *bytes, size_t size) {
  static const char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = size - i;
    const unsigned long word =
        (unsigned long)bytes[i] << 16 |
        (left > 1 ? (unsigned long)bytes[i + 1] << 8 : 0) |
        (left > 2 ? (unsigned long)bytes[i + 2] : 0);
    fputc(digits[word >> 18 & 63], out);
    fputc(digits[word >> 12 & 63], out);
    fputc(left > 1 ? digits[word >> 6 & 63] : '=', out);
    fputc(left > 2 ? digits[word & 63] : '=', out);
  }
}

void cli_picture_write(const cli_picture *picture, FILE *out) {
  fputs("<img alt=\"\" src=\"data:image/bmp;base64,", out);
  put_base64(out, picture->file, picture->size);
  fprintf(out, "\" width=\"%d\" height=\"%d\"/>", picture->width,
          picture->height);
}
