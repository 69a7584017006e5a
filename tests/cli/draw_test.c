// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "support/fault.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The program's own, which is not in the library.
#include "base/memory/own.h"
#include "cli/draw.c"

// The command's own, in services.c.
void *cli_allocate(size_t size) {
  return ls_allocate_zeroed(ls_allocator_system(), 1, size);
}

void cli_release(void *memory) { ls_release(ls_allocator_system(), memory); }

static char *drawn;
static size_t drawn_size;

static ls_status draw(const ls_array *const *images, size_t count,
                      const cli_draw_options *options) {
  free(drawn);
  drawn = NULL;
  FILE *out = open_memstream(&drawn, &drawn_size);
  ls_status status = cli_draw(images, count, options, out);
  fclose(out);
  return status;
}

static void expect_drawn(const ls_array *const *images, size_t count,
                         const cli_draw_options *options, const char *wanted) {
  expect_ok(draw(images, count, options));
  assert_string_equal(drawn, wanted);
}

static ls_array *image_of(ls_dtype dtype, ls_shape shape,
                          const double *numbers) {
  ls_array *image = NULL;
  expect_ok(ls_array_create(dtype, shape, &image));
  for (int64_t i = 0; i < ls_array_num_elements(image); ++i)
    ls_array_set_f64(image, i, numbers[i]);
  return image;
}

// u8 [height, width], from 0 on in even steps to 255.
static ls_array *ramp(int64_t height, int64_t width) {
  ls_array *image = NULL;
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(height, width), &image));
  for (int64_t i = 0; i < height * width; ++i)
    ls_array_set_i64(image, i, i * 255 / (height * width - 1));
  return image;
}

TEST(letters_go_from_dark_to_bright) {
  const ls_array *image = ramp(1, 10);
  expect_drawn(&image, 1, NULL, " .:-=+*#%@\n");
  ls_array_release((ls_array *)(uintptr_t)image);
}

TEST(a_letter_is_two_pixels) {
  const double numbers[] = {0, 255, 255, 255, 0, 255};
  const ls_array *image = image_of(LS_DTYPE_U8, LS_SHAPE(2, 3, 1), numbers);
  expect_drawn(&image, 1, NULL, "++@\n");
  ls_array_release((ls_array *)(uintptr_t)image);
}

TEST(floats_are_drawn_from_the_least_to_the_largest) {
  const double numbers[] = {-1, 3, 1, NAN, INFINITY, 3};
  const ls_array *image = image_of(LS_DTYPE_F32, LS_SHAPE(1, 6), numbers);
  expect_drawn(&image, 1, NULL, " @+?@@\n");
  ls_array_release((ls_array *)(uintptr_t)image);
  const double same[] = {7, 7};
  image = image_of(LS_DTYPE_I32, LS_SHAPE(1, 2), same);
  expect_drawn(&image, 1, NULL, "  \n");
  ls_array_release((ls_array *)(uintptr_t)image);
}

TEST(colors_have_the_brightness_that_eyes_see) {
  const double numbers[] = {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255};
  const ls_array *image = image_of(LS_DTYPE_U8, LS_SHAPE(1, 4, 3), numbers);
  expect_drawn(&image, 1, NULL, "-+.@\n");
  ls_array_release((ls_array *)(uintptr_t)image);
  const double clear[] = {255, 0, 0, 255};
  image = image_of(LS_DTYPE_U8, LS_SHAPE(1, 2, 2), clear);
  expect_drawn(&image, 1, NULL, "@ \n");
  ls_array_release((ls_array *)(uintptr_t)image);
}

TEST(images_stand_side_by_side_as_many_as_fit) {
  LS_OWN(ls_array, wide) = ramp(2, 4);
  LS_OWN(ls_array, high) = ramp(5, 2);
  const ls_array *images[] = {wide, high, wide};
  static const char *const captions[] = {"seven", "9", "a\nb"};
  expect_drawn(images, 3, &(cli_draw_options){.width = 9, .captions = captions},
               "seve 9\n-=+* .:\n     =+\n     #%\na?b\n-=+*\n");
}

TEST(large_images_shrink_to_fit) {
  LS_OWN(ls_array, image) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(40, 400, 3), &image));
  memset(ls_array_mutable_data(image), 255, ls_array_size(image));
  const ls_array *images[] = {image, image};
  expect_drawn(images, 1, &(cli_draw_options){.width = 20},
               "@@@@@@@@@@@@@@@@@@@@\n");
  expect_drawn(images, 2, &(cli_draw_options){.width = 21, .most = 10},
               "@@@@@@@@@@ @@@@@@@@@@\n");
}

TEST(half_blocks_have_two_colors) {
  const double numbers[] = {255, 0, 0, 255, 0, 0, 0, 0, 255,
                            0,   0, 0, 9,   9, 9, 9, 9, 9};
  const ls_array *image = image_of(LS_DTYPE_U8, LS_SHAPE(3, 2, 3), numbers);
  expect_drawn(&image, 1, &(cli_draw_options){.paint = CLI_PAINT_TRUE},
               "\x1b[38;2;255;0;0m\x1b[48;2;0;0;255m\xe2\x96\x80"
               "\x1b[48;2;0;0;0m\xe2\x96\x80\x1b[0m\n"
               "\x1b[38;2;9;9;9m\xe2\x96\x80\xe2\x96\x80\x1b[0m\n");
  expect_drawn(&image, 1, &(cli_draw_options){.paint = CLI_PAINT_256},
               "\x1b[38;5;196m\x1b[48;5;21m\xe2\x96\x80"
               "\x1b[48;5;16m\xe2\x96\x80\x1b[0m\n"
               "\x1b[38;5;232m\xe2\x96\x80\xe2\x96\x80\x1b[0m\n");
  ls_array_release((ls_array *)(uintptr_t)image);
}

TEST(what_is_no_image_is_refused) {
  const ls_array *line = image_of(LS_DTYPE_U8, LS_SHAPE(0), NULL);
  const ls_array *many = image_of(LS_DTYPE_F32, LS_SHAPE(0, 2, 5), NULL);
  const ls_array *empty = image_of(LS_DTYPE_F32, LS_SHAPE(0, 2), NULL);
  expect_status(draw(&line, 1, NULL), LS_INVALID_ARGUMENT,
                "u8[0] is no image: one is numbers [height, width]");
  expect_status(draw(&many, 1, NULL), LS_INVALID_ARGUMENT, "f32[0,2,5]");
  expect_drawn(&empty, 1, NULL, "");
  expect_drawn(NULL, 0, NULL, "");
  ls_array_release((ls_array *)(uintptr_t)line);
  ls_array_release((ls_array *)(uintptr_t)many);
  ls_array_release((ls_array *)(uintptr_t)empty);
}

static const char *const *variables;

static const char *environment(void *user, const char *name) {
  (void)user;
  for (size_t i = 0; variables[i] != NULL; i += 2)
    if (strcmp(variables[i], name) == 0) return variables[i + 1];
  return NULL;
}

// A terminal's other end.
static int open_terminal(int *keeps_open) {
  *keeps_open = posix_openpt(2);
  if (*keeps_open < 0 || grantpt(*keeps_open) != 0 ||
      unlockpt(*keeps_open) != 0)
    return -1;
  FILE *other = fopen(ptsname(*keeps_open), "r+");
  if (other == NULL) return -1;
  const int terminal = dup(fileno(other));
  fclose(other);
  return terminal;
}

TEST(the_terminal_says_what_it_shows) {
  static const struct {
    const char *variables[9];
    cli_paint paint;
  } rows[] = {
      {{"LANG", "C.UTF-8", "TERM", "xterm-256color"}, CLI_PAINT_256},
      {{"LANG", "en_US.utf8", "TERM", "xterm", "COLORTERM", "truecolor"},
       CLI_PAINT_TRUE},
      {{"LANG", "C.UTF-8", "TERM", "xterm", "COLORTERM", "24bit", "NO_COLOR",
        "1"},
       CLI_PAINT_LETTERS},
      {{"LANG", "C.UTF-8", "TERM", "xterm-direct"}, CLI_PAINT_TRUE},
      {{"LANG", "C.UTF-8", "TERM", "dumb"}, CLI_PAINT_LETTERS},
      {{"LANG", "C.UTF-8", "LC_ALL", "C", "TERM", "xterm-256color"},
       CLI_PAINT_LETTERS},
      {{"TERM", "xterm-256color"}, CLI_PAINT_LETTERS},
  };
  ls_runtime *runtime = NULL;
  variables = rows[0].variables;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.environment = environment},
                              &runtime));
  int keeps_open = -1;
  const int terminal = open_terminal(&keeps_open);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
    variables = rows[i].variables;
    assert_int_equal(cli_paint_of(runtime, -1), CLI_PAINT_LETTERS);
    if (terminal >= 0)
      assert_int_equal(cli_paint_of(runtime, terminal), rows[i].paint);
  }
  if (terminal >= 0) close(terminal);
  if (keeps_open >= 0) close(keeps_open);
  expect_ok(ls_runtime_destroy(runtime));
}

static ls_status draw_with_little_memory(void *unused) {
  (void)unused;
  const unsigned char bytes[6] = {1, 2, 3};
  LS_OWN(ls_array, image) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_U8, LS_SHAPE(2, 3), bytes, &image));
  const ls_array *images[] = {image, image};
  return draw(images, 2, &(cli_draw_options){.width = 2});
}

TEST(no_memory_is_survived) {
  REFUSE_EACH(draw_with_little_memory, NULL);
  free(drawn);
  drawn = NULL;
}
