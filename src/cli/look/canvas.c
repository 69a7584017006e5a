// SPDX-License-Identifier: Apache-2.0
#include "cli/look/canvas.h"

#include <string.h>

ls_status cli_canvas_make(int width, int height, cli_canvas *canvas) {
  canvas->width = width;
  canvas->height = height;
  canvas->cells =
      cli_allocate((size_t)width * (size_t)height * sizeof(*canvas->cells));
  return canvas->cells != NULL ? ls_ok() : ls_out_of_memory();
}

void cli_canvas_close(cli_canvas *canvas) {
  cli_release(canvas->cells);
  *canvas = (cli_canvas){0};
}

// ---- Texts -----------------------------------------------------------------
size_t cli_character_size(const char *text) {
  const unsigned char *at = (const unsigned char *)text;
  // C1 control characters are U+0080 to U+009F.
  const bool is_control =
      at[0] < 0x20 || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0);
  return is_control ? 0 : cli_utf8_size(text, strnlen(text, 4));
}

static bool is_inside(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// Returns the start of the next character, after an invalid one, too.
static const char *skip_character(const char *text) {
  const size_t size = cli_character_size(text);
  if (size > 0) return text + size;
  for (++text; is_inside((unsigned char)*text);)
    ++text;
  return text;
}

// Returns the columns of a character: 2 of East Asian ones and pictures, 0 of
// those that combine with the one before. The main ranges, whatever the locale.
static int count_columns(const cli_canvas *canvas, const char *text) {
  static const struct {
    uint32_t first, last;
    int columns;
  } rows[] = {
      {0x300, 0x36f, 0},     {0x1100, 0x115f, 2},  {0x200b, 0x200f, 0},
      {0x2e80, 0x303e, 2},   {0x3041, 0xa4cf, 2},  {0xac00, 0xd7a3, 2},
      {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},  {0xfe30, 0xfe6f, 2},
      {0xff01, 0xff60, 2},   {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2},
      {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2}};
  const size_t size = cli_character_size(text);
  if (size < 2 || !canvas->unicode) return 1;
  uint32_t code = (unsigned char)text[0] & 0x7fU >> size;
  for (size_t i = 1; i < size; ++i)
    code = code << 6 | ((unsigned char)text[i] & 0x3f);
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    if (code >= rows[i].first && code <= rows[i].last) return rows[i].columns;
  return 1;
}

int cli_canvas_text(cli_canvas *canvas, int x, int y, int color, int width,
                    const char *text) {
  int used = 0;
  if (y < 0 || y >= canvas->height) return 0;
  if (width > canvas->width - x) width = canvas->width - x;
  for (; *text != '\0'; text = skip_character(text)) {
    const int columns = count_columns(canvas, text);
    if (used + columns > width) break;
    if (columns == 0) continue;
    const size_t size = cli_character_size(text);
    cli_cell *cell = &canvas->cells[y * canvas->width + x + used];
    if (columns == 2) cell[1] = (cli_cell){.text = {CLI_TAKEN}};
    used += columns;
    const bool plain = size == 1 || (size > 1 && canvas->unicode);
    memset(cell->text, 0, sizeof(cell->text));
    memcpy(cell->text, plain ? text : "?", plain ? size : 1);
    cell->color = (unsigned char)color;
    cell->dots = 0;
  }
  return used;
}

// Returns the number of bytes of a line of at most `width` columns, which ends
// before a space if there is one.
static size_t measure_line(const cli_canvas *canvas, const char *text,
                           int width) {
  const char *at = text, *space = NULL;
  int columns = 0;
  for (; *at != '\0'; at = skip_character(at)) {
    columns += count_columns(canvas, at);
    if (columns > width) break;
    if (*at == ' ' && at > text) space = at;
  }
  if (*at == '\0' || *at == ' ' || space == NULL) return (size_t)(at - text);
  return (size_t)(space - text);
}

int cli_canvas_paragraph(cli_canvas *canvas, const cli_paragraph *paragraph,
                         const char *text) {
  enum { HANGING = 2 };
  int lines = 0;
  while (*text != '\0') {
    char line[512];
    const int indent = paragraph->indent + (lines > 0 ? HANGING : 0);
    const int width = paragraph->width - indent;
    size_t size = measure_line(canvas, text, width);
    if (size >= sizeof(line)) size = sizeof(line) - 1;
    snprintf(line, sizeof(line), "%.*s", (int)size, text);
    if (!paragraph->measure)
      cli_canvas_text(canvas, indent, paragraph->y + lines, paragraph->color,
                      width, line);
    ++lines;
    text += size;
    text += strspn(text, " ");
  }
  return lines;
}

// ---- Output ----------------------------------------------------------------
static void print_color(int color, FILE *out) {
  static const int codes[] = {36, 33, 35, 32, 34, 31};
  if (color == 0)
    fputs("\x1b[0m", out);
  else if (color == CLI_FAINT)
    fputs("\x1b[0;2m", out);
  else
    fprintf(out, "\x1b[0;%dm", codes[(color - 1) % CLI_NUM_COLORS]);
}

static void print_dots(unsigned dots, FILE *out) {
  const unsigned code = 0x2800 + dots;
  fputc((int)(0xe0 | code >> 12), out);
  fputc((int)(0x80 | (code >> 6 & 0x3f)), out);
  fputc((int)(0x80 | (code & 0x3f)), out);
}

static bool is_blank(const cli_cell *cell) {
  return cell->dots == 0 && (cell->text[0] == '\0' || cell->text[0] == ' ');
}

void cli_canvas_print(const cli_canvas *canvas, bool rewrites, FILE *out) {
  for (int y = 0; y < canvas->height; ++y) {
    const cli_cell *row = &canvas->cells[y * canvas->width];
    int end = canvas->width, color = 0;
    while (end > 0 && is_blank(&row[end - 1]))
      --end;
    for (int x = 0; x < end; ++x) {
      const cli_cell *cell = &row[x];
      if (cell->text[0] == CLI_TAKEN) continue;
      if (canvas->colors && !is_blank(cell) && cell->color != color) {
        color = cell->color;
        print_color(color, out);
      }
      if (cell->text[0] != '\0')
        fputs(cell->text, out);
      else if (cell->dots != 0)
        print_dots(cell->dots, out);
      else
        fputc(' ', out);
    }
    if (color != 0) print_color(0, out);
    fputs(rewrites ? "\x1b[K\n" : "\n", out);
  }
}
