// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "lockstep/image.h"
#include "lockstep/iterator.h"
#include "support/image_files.h"

#define IMAGES LS_TESTS_DIR "/images"
#define FOLDER "image_folder"

static void put(const char *path, const void *data, size_t size) {
  const ls_file_system *files = ls_file_system_system();
  char folder[256];
  snprintf(folder, sizeof(folder), "%s", path);
  *strrchr(folder, '/') = '\0';
  expect_ok(files->make_directories(files->user, folder));
  expect_ok(files->write(files->user, path, data, size));
}

static void put_image(const char *path, const char *name) {
  LS_OWN(ls_image_file, file) = image_file_open(IMAGES, name);
  put(path, file.bytes, file.size);
}

static int make_folder(void **state) {
  (void)state;
  if (system("rm -rf " FOLDER) != 0) return 1;
  put_image(FOLDER "/cats/b.PNG", "rgb.png");
  put_image(FOLDER "/cats/a.png", "gray.png");
  put_image(FOLDER "/cats/.hidden.png", "gray.png");
  put_image(FOLDER "/Dogs/x.png", "palette_8.png");
  put_image(FOLDER "/dogs/rgba.png", "rgba.png");
  put_image(FOLDER "/dogs/one.jpg.png", "one_pixel.png");
  put(FOLDER "/dogs/notes.txt", "none", 4);
  put(FOLDER "/.cache/x", "none", 4);
  put(FOLDER "/README", "none", 4);
  return 0;
}

// The next element's image and label, lent.
static ls_array *next(ls_iterator *iterator, ls_nest *element, int *label) {
  expect_ok(ls_iterator_next(iterator, element));
  *label = (int)ls_array_i64(ls_nest_as_array(ls_nest_item(*element, 1)), 0);
  return ls_nest_as_array(ls_nest_item(*element, 0));
}

static void expect_same(const ls_array *got, const ls_array *wanted) {
  assert_true(ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)));
  assert_memory_equal(ls_array_data(got), ls_array_data(wanted),
                      ls_array_size(wanted));
}

static const struct {
  const char *reference;
  int label;
} elements[] = {{"palette_8.png:3", 0},
                {"gray.png:3", 1},
                {"rgb.png:3", 1},
                {"one_pixel.png:3", 2},
                {"rgba.png:3", 2}};

TEST(images_come_with_the_numbers_of_their_folders) {
  if (!image_is_read(".png")) skip();
  LS_OWN(ls_dataset, dataset) = ls_dataset_image_folder(FOLDER, NULL);
  ls_element_spec spec;
  char text[200];
  expect_ok(ls_dataset_spec(dataset, &spec));
  assert_string_equal(ls_element_spec_print(&spec, text, sizeof(text)),
                      "(u8[?,?,3], i32[])");
  assert_int_equal(ls_dataset_cardinality(dataset), 5);
  assert_true(ls_dataset_is_indexed(dataset));
  assert_string_equal(ls_image_folder_class(dataset, 0), "Dogs");
  assert_string_equal(ls_image_folder_class(dataset, 1), "cats");
  assert_string_equal(ls_image_folder_class(dataset, 2), "dogs");
  assert_null(ls_image_folder_class(dataset, 3));
  assert_null(ls_image_folder_class(dataset, -1));
  assert_true(ls_image_folder_file(dataset, 0, text, sizeof(text)));
  assert_string_equal(text, "Dogs/x.png");
  assert_false(ls_image_folder_file(dataset, 5, text, sizeof(text)));
  assert_false(ls_image_folder_file(dataset, -1, text, sizeof(text)));
  assert_false(ls_image_folder_file(NULL, 0, text, sizeof(text)));
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (size_t i = 0; i < LS_COUNT_OF(elements); ++i) {
    int label = -1;
    LS_OWN(ls_array, wanted) = image_reference(IMAGES, elements[i].reference);
    expect_same(next(iterator, &element, &label), wanted);
    assert_int_equal(label, elements[i].label);
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
}

// What ls_resize_image makes of a reference, of all of it or of a part.
static ls_array *resized(const char *reference, int64_t height, int64_t width,
                         const ls_resize_options *part) {
  LS_OWN(ls_array, image) = image_reference(IMAGES, reference);
  ls_array *out = NULL;
  const ls_shape shape = LS_SHAPE(height, width, ls_array_shape(image).dim[2]);
  expect_ok(ls_array_create(LS_DTYPE_U8, shape, &out));
  expect_ok(ls_resize_image(image, part, out));
  return out;
}

static void expect_batch(const ls_image_folder_options *options,
                         const char *type, const ls_resize_options *part) {
  LS_OWN(ls_dataset, dataset) = ls_dataset_batch(
      ls_dataset_image_folder(FOLDER, options), &(ls_batch_options){.size = 5});
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  int label = -1;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_array *images = next(iterator, &element, &label);
  assert_string_equal(LS_SHAPE_TEXT(LS_DTYPE_U8, ls_array_shape(images)), type);
  const unsigned char *at = ls_array_data(images);
  for (size_t i = 0; i < LS_COUNT_OF(elements); ++i) {
    char name[64];
    snprintf(name, sizeof(name), "%.*s:%d",
             (int)(strlen(elements[i].reference) - 2), elements[i].reference,
             options->channels != 0 ? options->channels : 3);
    const bool dot = strstr(name, "one_pixel") != NULL;
    LS_OWN(ls_array, wanted) =
        resized(name, options->height, options->width, dot ? NULL : part);
    assert_memory_equal(at, ls_array_data(wanted), ls_array_size(wanted));
    at += ls_array_size(wanted);
    assert_int_equal(
        ls_array_i64(ls_nest_as_array(ls_nest_item(element, 1)), (int64_t)i),
        elements[i].label);
  }
}

// Of 13 x 11 pixels.
TEST(images_are_resized_or_cut_to_one_shape) {
  if (!image_is_read(".png")) skip();
  expect_batch(&(ls_image_folder_options){.height = 8, .width = 9},
               "u8[5,8,9,3]", NULL);
  expect_batch(
      &(ls_image_folder_options){.height = 13, .width = 11, .channels = 1},
      "u8[5,13,11,1]", NULL);
  const ls_resize_options square = {1, 0, 11, 11, LS_FLAG_DEFAULT};
  expect_batch(&(ls_image_folder_options){.height = 4, .width = 4, .cut = true},
               "u8[5,4,4,3]", &square);
  const ls_resize_options high = {0, 2, 13, 7, LS_FLAG_DEFAULT};
  expect_batch(
      &(ls_image_folder_options){
          .height = 12, .width = 6, .cut = true, .channels = 4},
      "u8[5,12,6,4]", &high);
  const ls_resize_options wide = {5, 0, 3, 11, LS_FLAG_DEFAULT};
  expect_batch(
      &(ls_image_folder_options){.height = 5, .width = 20, .cut = true},
      "u8[5,5,20,3]", &wide);
}

TEST(an_image_that_cannot_be_read_is_its_element_s_failure) {
  if (!image_is_read(".png")) skip();
  put(FOLDER "/Dogs/bad.jpg", "GIF89a", 6);
  for (int sized = 0; sized < 2; ++sized) {
    LS_OWN(ls_dataset, dataset) = ls_dataset_image_folder(
        FOLDER, &(ls_image_folder_options){.height = sized, .width = sized});
    LS_OWN(ls_iterator, iterator) = NULL;
    LS_OWN(ls_nest, element) = ls_none();
    int label = -1;
    expect_ok(ls_iterator_create(dataset, NULL, &iterator));
    expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                  "'" FOLDER "/Dogs/bad.jpg' is no image that is read");
    next(iterator, &element, &label);
    assert_int_equal(label, 0);
  }
  // Gone since.
  LS_OWN(ls_dataset, dataset) = ls_dataset_image_folder(FOLDER, NULL);
  remove(FOLDER "/Dogs/bad.jpg");
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_status(ls_iterator_next(iterator, &element), LS_NOT_FOUND,
                FOLDER "/Dogs/bad.jpg");
}

static void expect_refused(const char *folder,
                           const ls_image_folder_options *options, ls_code code,
                           const char *part) {
  LS_OWN(ls_dataset, dataset) = ls_dataset_image_folder(folder, options);
  expect_status(ls_dataset_status(dataset), code, part);
  assert_null(ls_image_folder_class(dataset, 100));
}

TEST(what_is_no_folder_of_images_is_named) {
  expect_refused(NULL, NULL, LS_INVALID_ARGUMENT, "folder is NULL");
  expect_refused("nowhere", NULL, LS_NOT_FOUND, "nowhere");
  expect_refused(FOLDER "/cats", NULL, LS_NOT_FOUND,
                 "'" FOLDER
                 "/cats' has no folders; images are expected as " FOLDER
                 "/cats/CLASS/NAME.png or .jpg");
  put(FOLDER "/elephants/a.gif", "GIF89a", 6);
  expect_refused(FOLDER, NULL, LS_NOT_FOUND,
                 "'" FOLDER "/elephants' has no images: none of its 1 files");
  remove(FOLDER "/elephants/a.gif");
  remove(FOLDER "/elephants");
#define REFUSED(part, ...)                                                     \
  expect_refused(FOLDER, &(ls_image_folder_options){__VA_ARGS__},              \
                 LS_INVALID_ARGUMENT, part)
  REFUSED("5 x 0 (height x width): give both", .height = 5);
  REFUSED("-1 x 2", .height = -1, .width = 2);
  REFUSED("from 1 to 1048576", .height = 1 << 21, .width = 2);
  REFUSED("cut images to no size", .cut = true);
  REFUSED("5 channels; 1 to 4 are possible", .channels = 5);
  REFUSED("at most -1 pixels", .most_pixels = -1);
}

TEST(it_says_what_it_is_made_of) {
  char one[200], two[200];
  ls_dataset *dataset = ls_dataset_image_folder(
      FOLDER, &(ls_image_folder_options){.height = 4, .width = 6, .cut = true});
  ls_dataset_print(dataset, one, sizeof(one));
  expect_contains(one, "image_folder(5 images of 3 classes, names ");
  expect_contains(one, ", u8[4,6,3], cut)");
  ls_dataset_release(dataset);
  assert_int_equal(rename(FOLDER "/cats", FOLDER "/cows"), 0);
  dataset = ls_dataset_image_folder(
      FOLDER, &(ls_image_folder_options){.height = 4, .width = 6, .cut = true});
  ls_dataset_print(dataset, two, sizeof(two));
  assert_string_not_equal(one, two);
  ls_dataset_release(dataset);
  assert_int_equal(rename(FOLDER "/cows", FOLDER "/cats"), 0);
}

static ls_status read_two(const ls_image_folder_options *options) {
  ls_dataset *dataset = ls_dataset_image_folder(FOLDER, options);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  ls_status status = ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator);
  ls_dataset_release(dataset);
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i)
    status = ls_iterator_next(iterator, &element);
  return status;
}

static ls_status read_with_little_memory(void *unused) {
  (void)unused;
  LS_RETURN_IF_ERROR(read_two(NULL));
  return read_two(&(ls_image_folder_options){.height = 4, .width = 30});
}

TEST(no_memory_is_survived) {
  if (!image_is_read(".png")) skip();
  REFUSE_EACH(read_with_little_memory, NULL);
}

TEST_FILE(.set_up = make_folder)
