// SPDX-License-Identifier: Apache-2.0
//
// Runs of the program on images with a class for each pixel.
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "lockstep/files.h"
#include "lockstep/image.h"
#include "support/expect.h"
#include "support/image_files.h"
#include "support/scratch.h"

static int remove_all(void **state) {
  static const char *const folders[] = {"pets",  "moved",    "run",
                                        "masks", "numbered", "exports"};
  for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); ++i)
    remove_tree(folders[i]);
  return scratch_clear(state);
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave,
          .after_each = remove_all)

// ---- The program -----------------------------------------------------------
static char out[8192], err[8192];

static void read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "r");
  text[0] = '\0';
  if (file == NULL) return;
  text[fread(text, 1, size - 1, file)] = '\0';
  (void)fclose(file);
}

// Prints as printf, runs, and expects this code.
__attribute__((format(printf, 2, 3))) static void
expect_run(int wanted, const char *format, ...) {
  char arguments[600], command[800];
  va_list values;
  va_start(values, format);
  vsnprintf(arguments, sizeof(arguments), format, values);
  va_end(values);
  snprintf(command, sizeof(command), "\"$LOCKSTEP\" %s >out.txt 2>err.txt",
           arguments);
  const int code = system(command);
  read_text("out.txt", out, sizeof(out));
  read_text("err.txt", err, sizeof(err));
  if (!WIFEXITED(code) || WEXITSTATUS(code) != wanted)
    fail_msg("lockstep %s: code %d, wanted %d\n%s%s", arguments, code, wanted,
             out, err);
}

static void expect_part(const char *text, const char *part) {
  if (strstr(text, part) == NULL) fail_msg("no '%s' in: %s", part, text);
}

// Expects code 1, and one line with this part.
static void expect_refused(const char *part, const char *arguments) {
  expect_run(1, "%s", arguments);
  expect_part(err, part);
}

static bool can_run(void) {
  return getenv("LOCKSTEP") != NULL && image_is_read(".png");
}

static bool is_sanitized(void) {
  const char *name = getenv("LS_SANITIZE");
  return name != NULL && name[0] != '\0';
}

// ---- Files -----------------------------------------------------------------
// Class c has color c.
static const unsigned char colors[3][3] = {
    {250, 20, 20}, {20, 250, 20}, {20, 20, 250}};

// Image i: four bands of two classes each.
static int class_at(int i, int64_t y, int64_t x, ls_shape shape) {
  return (int)((i + 4 * y / shape.dim[0] + 2 * x / shape.dim[1]) % 3);
}

static ls_array *make_pixels(int i, ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_U8, shape, &array));
  for (int64_t k = 0; k < ls_array_num_elements(array); ++k) {
    const int64_t y = k / (shape.dim[1] * shape.dim[2]);
    const int64_t x = k / shape.dim[2] % shape.dim[1];
    const int number = class_at(i, y, x, shape);
    ls_array_set_i64(array, k,
                     shape.dim[2] == 1 ? number : colors[number][k % 3]);
  }
  return array;
}

static void put_image(const char *path, int i, ls_shape shape) {
  LS_OWN(ls_array, array) = make_pixels(i, shape);
  expect_ok(ls_png_write(path, array));
}

// Puts images of different sizes, and their masks, into a folder.
static void put_images(const char *folder, int first, int count) {
  char path[128];
  for (int i = first; i < first + count; ++i) {
    const int64_t height = 8 + 4 * (i % 3), width = 8 + 8 * (i % 2);
    for (int channels = 1; channels <= 3; channels += 2) {
      const char *kind = channels == 1 ? "masks" : "images";
      snprintf(path, sizeof(path), "%s/%s", folder, kind);
      expect_ok(ls_file_system_system()->make_directories(NULL, path));
      snprintf(path, sizeof(path), "%s/%s/%d.png", folder, kind, i);
      put_image(path, i, LS_SHAPE(height, width, channels));
    }
  }
}

static void put_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  (void)fputs(text, file);
  (void)fclose(file);
}

// Returns the library of the model of pixels.
static const char *library(void) {
  static char path[512];
  snprintf(path, sizeof(path), "%s", getenv("LOCKSTEP"));
  char *end = strrchr(path, '/');
  snprintf(end, sizeof(path) - (size_t)(end - path),
           "/tests/cli/libraries/pixels.so");
  return path;
}

static void train_pixels(const char *data, const char *more) {
  expect_run(0, "train --model %s --data %s --quiet --run-dir run %s",
             library(), data, more);
}

static ls_array *read_mask(const char *path) {
  ls_array *mask = NULL;
  LS_OWN(ls_image_file, file) = image_file_open(".", path);
  expect_ok(ls_decode_image(file.bytes, file.size,
                            &(ls_image_options){.indices = true}, &mask));
  return mask;
}

// ---- Runs ------------------------------------------------------------------
TEST(a_model_learns_the_classes_of_pixels) {
  static char page[1 << 17];
  char text[4096];
  double accuracy = 0, iou = 0;
  if (!can_run()) skip();
  put_images("pets/train", 0, 12);
  put_images("pets/test", 12, 3);
  train_pixels("pets", "--flip");  // Of images and masks alike.
  assert_int_equal(
      sscanf(out, "test accuracy: %lf\ntest mean_iou: %lf", &accuracy, &iou),
      2);
  assert_true(accuracy > 0.95 && iou > 0.9);
  // The model has as many classes as the masks of the training set.
  read_text("run/config.json", text, sizeof(text));
  expect_part(text, "\"outputs\":3");
  read_text("run/metrics.jsonl", text, sizeof(text));
  expect_part(text, "\"test_mean_iou\":");
  expect_run(0, "eval run --model %s", library());
  expect_part(out, "\ntest mean_iou: ");
  expect_run(0, "eval run --model %s --json --data pets/train", library());
  expect_part(out, "\"examples\":12,");
  expect_part(out, ",\"mean_iou\":");
  // Masks are of the size of their images.
  expect_run(0,
             "predict run --model %s --data pets/test/images --out masks "
             "--limit 2",
             library());
  expect_part(out, "{\"shares\":{\"0\":0.375,\"1\":0.375,\"2\":0.25},"
                   "\"mask\":\"masks/12.png\","
                   "\"file\":\"pets/test/images/12.png\"}\n");
  LS_OWN(ls_array, mask) = read_mask("masks/13.png");
  LS_OWN(ls_array, wanted) = make_pixels(13, LS_SHAPE(12, 16, 1));
  assert_true(ls_shape_equal(ls_array_shape(mask), ls_array_shape(wanted)));
  assert_memory_equal(ls_array_data(mask), ls_array_data(wanted), 12 * 16);
  assert_int_not_equal(access("masks/14.png", F_OK), 0);
  expect_run(1, "predict run --model %s --data pets/test/images --out masks",
             library());
  expect_part(err, "'masks/12.png' exists: of a prediction before");
  assert_string_equal(out, "");
  // Masks are not needed.
  expect_run(0, "predict run --model %s --data pets/test", library());
  expect_part(out, "\"file\":\"pets/test/images/14.png\"}");
  assert_null(strstr(out, "mask"));
  // The test set; a part that was held out has the names of its files.
  expect_run(0, "predict run --model %s", library());
  expect_part(
      out, "/pets/test/images/12.png\"}\n{\"shares\":{\"0\":0.25,\"1\":0.375,");
  // Pixels of all three images, which are 8 x 8 each for the model.
  expect_run(0, "report run --model %s --out page.html", library());
  read_text("page.html", page, sizeof(page));
  expect_part(page, " of 192 pixels of the test set of ");
}

TEST(a_run_on_masks_goes_on_in_another_folder) {
  static char whole[sizeof(out)];
  if (!can_run()) skip();
  put_images("pets", 0, 8);
  train_pixels("pets", "--split 0.25 --steps 6 --flip");
  memcpy(whole, out, sizeof(out));
  remove_tree("run");
  train_pixels("pets", "--split 0.25 --steps 3 --flip");
  assert_int_equal(rename("pets", "moved"), 0);
  expect_run(0, "train --resume run --model %s --data moved --quiet --steps 6",
             library());
  assert_string_equal(out, whole);
}

TEST(a_part_that_is_held_out_has_the_names_of_its_files) {
  int first = 0;
  if (!can_run()) skip();
  put_images("pets", 0, 12);
  train_pixels("pets", "--split 0.25");
  expect_run(0, "predict run --model %s --out masks --limit 1", library());
  const char *name = strstr(out, "/pets/images/");
  assert_non_null(name);
  assert_int_equal(sscanf(name, "/pets/images/%d.png", &first), 1);
  char path[64];
  snprintf(path, sizeof(path), "masks/%d.png", first);
  LS_OWN(ls_array, mask) = read_mask(path);
  LS_OWN(ls_array, wanted) =
      make_pixels(first, LS_SHAPE(8 + 4 * (first % 3), 8 + 8 * (first % 2), 1));
  assert_int_equal(ls_array_size(mask), ls_array_size(wanted));
  assert_memory_equal(ls_array_data(mask), ls_array_data(wanted),
                      ls_array_size(mask));
}

TEST(classes_have_the_names_of_a_file) {
  if (!can_run()) skip();
  put_images("pets", 0, 4);
  put_text("pets/classes.txt", "rock\r\nsea\r\nsky\r\n\n");
  train_pixels("pets", "--test none --epochs 50");
  expect_run(0, "predict run --model %s --data pets/images/0.png", library());
  expect_part(out, "{\"shares\":{\"rock\":0.375,\"sea\":0.375,\"sky\":0.25},"
                   "\"file\":\"pets/images/0.png\"}\n");
  expect_run(0, "export run --model %s --onnx --stablehlo --out exports",
             library());
  expect_run(0, "data pets");
  expect_part(out, "images with masks, 4 elements of (u8[8,8,3], u8[8,8])");
}

TEST(a_test_set_has_the_names_of_the_training_set) {
  char text[4096];
  if (!can_run()) skip();
  put_images("pets", 0, 4);
  put_images("moved", 4, 4);
  put_text("pets/classes.txt", "sky\nroad\ncar\n");
  put_text("moved/classes.txt", "car\nroad\nsky\n");
  snprintf(text, sizeof(text),
           "train --model %s --data pets --test moved --quiet --steps 1 "
           "--run-dir run",
           library());
  expect_refused("class 0 is 'sky' in 'pets/classes.txt', and 'car' in "
                 "'moved/classes.txt'",
                 text);
  put_text("moved/classes.txt", "sky\r\nroad\r\ncar\r\n");
  train_pixels("pets", "--test moved --steps 1");
  read_text("run/config.json", text, sizeof(text));
  expect_part(text, "sky\\nroad\\ncar");
  // Numbers of classes that have no names in the run fit any names.
  remove_tree("run");
  remove("pets/classes.txt");
  train_pixels("pets", "--test moved --steps 1");
  expect_run(0, "eval run --model %s --data moved", library());
}

TEST(a_test_set_has_the_folders_of_the_training_set) {
  static const char *const paths[] = {"pets/cat", "pets/dog", "moved/dog",
                                      "moved/zebra"};
  static const char command[] =
      "train --model tiny --data pets --test moved --quiet --steps 1 "
      "--run-dir run";
  char path[64];
  if (!can_run()) skip();
  for (int i = 0; i < 8; ++i) {
    expect_ok(ls_file_system_system()->make_directories(NULL, paths[i / 2]));
    snprintf(path, sizeof(path), "%s/%d.png", paths[i / 2], i);
    put_image(path, i, LS_SHAPE(8, 8, 3));
  }
  expect_refused("class 0 is 'cat' in 'pets', and 'dog' in 'moved': both need "
                 "the same names in the same order",
                 command);
  remove_tree("moved/zebra");
  expect_refused("'moved' has 1 folders of classes", command);
  assert_int_equal(rename("moved", "masks"), 0);
  assert_int_equal(rename("pets", "moved"), 0);
  expect_run(0, "train --model tiny --data moved --test moved --quiet "
                "--steps 1 --run-dir run");
}

TEST(arrays_of_classes_are_resized_with_their_images) {
  if (!can_run()) skip();
  LS_OWN(ls_array, x) = make_pixels(0, LS_SHAPE(1, 16, 48));
  ls_array *images = NULL, *labels = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_U8, LS_SHAPE(1, 16, 16, 3),
                                 ls_array_data(x), &images));
  expect_ok(ls_array_create(LS_DTYPE_I64, LS_SHAPE(1, 16, 16), &labels));
  for (int64_t i = 0; i < 256; ++i)
    ls_array_set_i64(labels, i, i % 3);
  const char *const names[] = {"x", "y"};
  const ls_nest items[] = {ls_nest_array(images), ls_nest_array(labels)};
  LS_OWN(ls_nest, arrays) = ls_nest_dict("", names, items, 2);
  expect_ok(ls_npz_write("arrays.npz", arrays, LS_FLAG_OFF));
  train_pixels("arrays.npz", "--test none --steps 1 --outputs 3");
  expect_run(0, "eval run --model %s --data arrays.npz --json", library());
  expect_part(out, "\"mean_iou\":");
  // Rows have no size and no name of their own.
  expect_run(0, "predict run --model %s --data arrays.npz --out masks",
             library());
  expect_part(out, ",\"mask\":\"masks/0.png\",\"row\":0}");
  LS_OWN(ls_array, mask) = read_mask("masks/0.png");
  assert_true(ls_shape_equal(ls_array_shape(mask), LS_SHAPE(8, 8, 1)));
}

TEST(the_reference_model_of_pixels_trains) {
  char text[4096];
  if (!can_run() || is_sanitized()) skip();
  put_images("pets", 0, 3);
  expect_run(0, "train --model unet --data pets --steps 1 --batch-size 2 "
                "--run-dir run");
  expect_part(err, "resized to 64 x 64");
  read_text("run/config.json", text, sizeof(text));
  expect_part(text, "\"outputs\":3");
  expect_part(out, "test mean_iou: ");
  expect_run(0, "predict run --data pets/images/0.png --out masks");
  expect_part(out, "\"mask\":\"masks/0.png\"");
  expect_run(0, "export run --onnx --stablehlo --out exports");
  // Class 255 is void: of no class, and left out of losses and metrics.
  LS_OWN(ls_array, mask) = make_pixels(1, LS_SHAPE(12, 16, 1));
  for (int64_t i = 0; i < 100; ++i)
    ls_array_set_i64(mask, i, 255);
  expect_ok(ls_png_write("pets/masks/1.png", mask));
  expect_run(0, "train --model unet --data pets --steps 1 --batch-size 2 "
                "--run-dir run --overwrite --task classification --test none");
  read_text("run/config.json", text, sizeof(text));
  expect_part(text, "\"outputs\":3");
  expect_run(0, "eval run --data pets");
  expect_part(out, "test mean_iou: 0.");
  expect_run(0, "train --model unet --data pets --steps 1 --batch-size 2 "
                "--run-dir estimated --estimator");
  expect_run(0, "eval estimated --data pets");
}

// ---- What goes wrong -------------------------------------------------------
TEST(faults_of_masks_name_their_file) {
  char command[700];
  if (!can_run()) skip();
  put_images("pets", 0, 3);
  snprintf(command, sizeof(command),
           "train --model %s --data pets --test none --steps 1 --outputs 3 "
           "--run-dir run",
           library());
  put_image("pets/masks/1.png", 1, LS_SHAPE(5, 16, 1));
  expect_refused("mask 'pets/masks/1.png' is 5 x 16, its image "
                 "'pets/images/1.png' 12 x 16",
                 command);
  put_image("pets/masks/1.png", 1, LS_SHAPE(12, 16, 3));
  expect_refused("'pets/masks/1.png' is a PNG of 3 channels of 8 bits",
                 command);
  LS_OWN(ls_array, mask) = make_pixels(1, LS_SHAPE(12, 16, 1));
  ls_array_set_i64(mask, 18, 255);
  expect_ok(ls_png_write("pets/masks/1.png", mask));
  expect_refused("mask 'pets/masks/1.png' has class 255 in column 2 of row 1; "
                 "the model has 3 classes, which count from 0; pixels to "
                 "ignore need a type with ls_task_pixels",
                 command);
  remove("pets/masks/1.png");
  expect_refused("image 'pets/images/1.png' has no mask: there is no "
                 "'pets/masks/1.png'",
                 command);
  put_image("pets/masks/1.png", 1, LS_SHAPE(12, 16, 1));
  expect_refused("'pets' has masks, a class for each pixel; model 'tiny' has "
                 "labels i32[] of an image: unet has such labels",
                 "train --model tiny --data pets --steps 1 --run-dir run");
  expect_ok(ls_file_system_system()->make_directories(NULL, "moved/images"));
  expect_ok(ls_file_system_system()->make_directories(NULL, "moved/masks"));
  FILE *notes = fopen("moved/images/notes.txt", "w");
  assert_non_null(notes);
  (void)fclose(notes);
  expect_refused("folder 'moved/images' has no .png, .jpg or .jpeg files",
                 "data moved");
  snprintf(command, sizeof(command),
           "train --model %s --data pets --crop 2 --run-dir run", library());
  expect_refused("--crop is not for classes of pixels", command);
  expect_run(0, "train --model tiny --data synthetic --steps 1 --quiet "
                "--run-dir run");
  expect_refused("--out is for classes of pixels; model 'tiny' has labels "
                 "i32[]",
                 "predict run --out masks");
}
