// SPDX-License-Identifier: Apache-2.0
//
// Runs of the program on the same examples in files of all kinds, which give
// the same model, and on files that are none.
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "formats/bytes/example.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "io/png_write.h"
#include "io/zip.h"
#include "lockstep/files.h"
#include "support/expect.h"
#include "support/image_files.h"

// Images of 4 x 4 pixels of 4 classes, sorted by class as folders are.
enum { SIDE = 4, PIXELS = SIDE * SIDE, CLASSES = 4, TRAIN = 48, TEST = 12 };

static unsigned char pixel(int set, int i, int at) {
  const unsigned mixed = (unsigned)(i * PIXELS + at + set * 7919) * 2654435761u;
  return (unsigned char)(mixed >> 24);
}
static int label_of(int set, int i) {
  return i / ((set == 0 ? TRAIN : TEST) / CLASSES);
}
static int count_of(int set) { return set == 0 ? TRAIN : TEST; }

// ---- Files -----------------------------------------------------------------
static char folder[] = "formats-XXXXXX";

static void put(const char *path, const void *data, size_t size) {
  expect_ok(ls_file_system_system()->write(NULL, path, data, size));
}

static void make_folders(const char *path) {
  expect_ok(ls_file_system_system()->make_directories(NULL, path));
}

static void all_pixels(int set, unsigned char *out) {
  for (int i = 0; i < count_of(set); ++i)
    for (int at = 0; at < PIXELS; ++at)
      *out++ = pixel(set, i, at);
}

static void put_idx(const char *images, const char *labels, int set) {
  unsigned char data[16 + TRAIN * PIXELS] = {0, 0, 8, 3};
  const int count = count_of(set);
  data[7] = (unsigned char)count;
  data[11] = data[15] = SIDE;
  all_pixels(set, data + 16);
  put(images, data, 16 + (size_t)count * PIXELS);
  unsigned char numbers[8 + TRAIN] = {0, 0, 8, 1};
  numbers[7] = (unsigned char)count;
  for (int i = 0; i < count; ++i)
    numbers[8 + i] = (unsigned char)label_of(set, i);
  put(labels, numbers, 8 + (size_t)count);
}

static void add_member(ls_zip_writer *zip, const char *name, ls_dtype dtype,
                       ls_shape shape, const void *data) {
  LS_OWN_BEGUN(ls_text, head, ls_text_init, ls_allocator_system());
  expect_ok(ls_npy_print_header(dtype, shape, &head));
  expect_ok(
      ls_zip_add(zip, name, false, head.data, head.size, data,
                 (size_t)ls_shape_num_elements(shape) * ls_dtype_size(dtype)));
}

// Labels are i64 [n, 1], as some are. Names of one set or of two.
static void put_npz(const char *path, const char *const *names, int first,
                    int sets) {
  ls_zip_writer *zip = NULL;
  expect_ok(ls_zip_writer_open(ls_runtime_current(), path, &zip));
  for (int set = first; set < first + sets; ++set) {
    unsigned char data[TRAIN * PIXELS];
    int64_t labels[TRAIN];
    const int count = count_of(set);
    all_pixels(set, data);
    for (int i = 0; i < count; ++i)
      labels[i] = label_of(set, i);
    add_member(zip, names[2 * (set - first)], LS_DTYPE_U8,
               LS_SHAPE(count, SIDE, SIDE), data);
    add_member(zip, names[2 * (set - first) + 1], LS_DTYPE_I64,
               LS_SHAPE(count, 1), labels);
  }
  expect_ok(ls_zip_writer_close(zip, true));
}

static void put_csv(const char *path, int set, bool header) {
  FILE *file = fopen(path, "w");
  if (header) {
    // The names' order is not that of the alphabet.
    fprintf(file, "label");
    for (int at = 0; at < PIXELS; ++at)
      fprintf(file, ",p%d", at);
    fprintf(file, "\n");
  }
  for (int i = 0; i < count_of(set); ++i) {
    if (header) fprintf(file, "%d,", label_of(set, i));
    for (int at = 0; at < PIXELS; ++at)
      fprintf(file, "%s%d", at > 0 ? "," : "", pixel(set, i, at));
    if (!header) fprintf(file, ",%d", label_of(set, i));
    fprintf(file, "\n");
  }
  fclose(file);
}

static void make_image(int set, int i, unsigned char **out, size_t *out_size) {
  unsigned char pixels[PIXELS];
  for (int at = 0; at < PIXELS; ++at)
    pixels[at] = pixel(set, i, at);
  const ls_pixels image = {.data = pixels,
                           .height = SIDE,
                           .width = SIDE,
                           .channels = 1,
                           .dtype = LS_DTYPE_U8,
                           .stride = SIDE};
  expect_ok(ls_png_encode(ls_allocator_system(), &image, out, out_size));
}

static void put_images(const char *above, int set) {
  for (int i = 0; i < count_of(set); ++i) {
    char path[128];
    unsigned char *bytes = NULL;
    size_t size = 0;
    snprintf(path, sizeof(path), "%s/class-%d", above, label_of(set, i));
    make_folders(path);
    make_image(set, i, &bytes, &size);
    snprintf(path, sizeof(path), "%s/class-%d/%03d.png", above,
             label_of(set, i), i);
    put(path, bytes, size);
    ls_release(ls_allocator_system(), bytes);
  }
}

typedef enum kind { AS_BYTES, AS_INTS, AS_PNG } kind;

static void put_records(const char *path, const char *name, int set, int from,
                        int to, kind as) {
  ls_tfrecord_writer *writer = NULL;
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init,
               ls_allocator_system());
  expect_ok(ls_tfrecord_writer_open(path, &writer));
  for (int i = from; i < to; ++i) {
    unsigned char raw[PIXELS];
    int64_t ints[PIXELS];
    const int64_t label = label_of(set, i);
    for (int at = 0; at < PIXELS; ++at)
      ints[at] = raw[at] = pixel(set, i, at);
    ls_bytes bytes = {(const char *)raw, PIXELS};
    unsigned char *image = NULL;
    if (as == AS_PNG) {
      make_image(set, i, &image, &bytes.size);
      bytes.data = (const char *)image;
    }
    if (as == AS_INTS)
      ls_example_add_ints(&builder, name, ints, PIXELS);
    else
      ls_example_add_bytes(&builder, name, &bytes, 1);
    ls_example_add_ints(&builder, "label", &label, 1);
    ls_bytes example;
    expect_ok(ls_example_end(&builder, &example));
    expect_ok(ls_tfrecord_writer_write(writer, example.data, example.size));
    ls_release(ls_allocator_system(), image);
  }
  expect_ok(ls_tfrecord_writer_close(writer, true));
}

static void pack(const char *path, const char *packed_path) {
  const ls_file_system *files = ls_file_system_system();
  ls_allocator *system = ls_allocator_system();
  char *data = NULL, *packed = NULL;
  size_t size = 0, packed_size = 0;
  expect_ok(files->read(NULL, path, SIZE_MAX, system, &data, &size));
  expect_ok(
      ls_deflate(system, LS_PACKING_GZIP, data, size, &packed, &packed_size));
  put(packed_path, packed, packed_size);
  ls_release(system, data);
  ls_release(system, packed);
}

static void put_all(void) {
  static const char *const keras[] = {"x_train", "y_train", "x_test", "y_test"};
  static const char *const own[] = {"pictures", "kinds"};
  static const char *const xy[] = {"x", "y"};
  make_folders("mnist");
  put_idx("mnist/train-images-idx3-ubyte", "mnist/train-labels-idx1-ubyte", 0);
  put_idx("mnist/t10k-images-idx3-ubyte", "mnist/t10k-labels-idx1-ubyte", 1);
  put_npz("keras.npz", keras, 0, 2);
  put_npz("own.npz", own, 0, 1);
  put_npz("own-test.npz", own, 1, 1);
  put_npz("xy.npz", xy, 0, 1);
  put_csv("train.csv", 0, true);
  put_csv("test.csv", 1, true);
  put_csv("bare.csv", 0, false);
  put_images("images/train", 0);
  put_images("images/test", 1);
  put_records("test.tfrecord", "image", 1, 0, TEST, AS_BYTES);
  put_records("bytes-0.tfrecord", "image", 0, 0, 20, AS_BYTES);
  put_records("bytes-1.tfrecord", "image", 0, 20, TRAIN, AS_BYTES);
  put_records("ints.tfrecord", "x", 0, 0, TRAIN, AS_INTS);
  put_records("odd.tfrecord", "picture", 0, 0, TRAIN, AS_BYTES);
  put_records("odd-test.tfrecord", "picture", 1, 0, TEST, AS_BYTES);
  put_records("png.tfrecord", "image/encoded", 0, 0, TRAIN, AS_PNG);
  pack("ints.tfrecord", "ints.tfrecord.gz");
}

static int make_all(void **state) {
  (void)state;
  if (getenv("LOCKSTEP") == NULL) return 0;
  if (mkdtemp(folder) == NULL || chdir(folder) != 0) return 1;
  put_all();
  return 0;
}

static int remove_all(void **state) {
  (void)state;
  char command[64];
  if (getenv("LOCKSTEP") == NULL) return 0;
  if (chdir("..") != 0) return 1;
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  return system(command) != 0;
}

// ---- The program -----------------------------------------------------------
static char out[8192], err[8192];

static void read_text(const char *path, char *text, size_t size) {
  FILE *file = fopen(path, "r");
  text[0] = '\0';
  if (file == NULL) return;
  const size_t got = fread(text, 1, size - 1, file);
  text[got] = '\0';
  fclose(file);
}

static int run_program(const char *arguments) {
  char command[1024];
  snprintf(command, sizeof(command), "\"$LOCKSTEP\" %s >out.txt 2>err.txt",
           arguments);
  const int code = system(command);
  read_text("out.txt", out, sizeof(out));
  read_text("err.txt", err, sizeof(err));
  return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

// Prints as printf, runs, and expects this code.
__attribute__((format(printf, 2, 3))) static void
expect_run(int wanted, const char *format, ...) {
  char arguments[800];
  va_list values;
  if (getenv("LOCKSTEP") == NULL) skip();
  va_start(values, format);
  vsnprintf(arguments, sizeof(arguments), format, values);
  va_end(values);
  const int code = run_program(arguments);
  if (code != wanted)
    fail_msg("lockstep %s: code %d, wanted %d\n%s%s", arguments, code, wanted,
             out, err);
}

static void expect_same(const char *a, const char *b) {
  ls_allocator *system = ls_allocator_system();
  const ls_file_system *files = ls_file_system_system();
  char path[128], *data[2] = {0};
  size_t size[2] = {0};
  for (int i = 0; i < 2; ++i) {
    snprintf(path, sizeof(path), "%s/model.safetensors", i == 0 ? a : b);
    expect_ok(files->read(NULL, path, SIZE_MAX, system, &data[i], &size[i]));
  }
  if (size[0] != size[1] || memcmp(data[0], data[1], size[0]) != 0)
    fail_msg("%s and %s have other models", a, b);
  ls_release(system, data[0]);
  ls_release(system, data[1]);
}

#define TINY "train --model tiny --quiet --batch-size 16 --schedule constant "

// ---- Tests -----------------------------------------------------------------
static const struct {
  const char *name, *data;
} with_test[] = {
    {"mnist", "mnist"},
    {"keras", "keras.npz"},
    {"images", "images"},
    {"idx", "mnist/train-images-idx3-ubyte,mnist/train-labels-idx1-ubyte "
            "--test mnist/t10k-images-idx3-ubyte,mnist/t10k-labels-idx1-ubyte"},
    {"turned", "mnist/train-labels-idx1-ubyte,mnist/train-images-idx3-ubyte "
               "--test test.csv"},
    {"own", "own.npz --test own-test.npz --features pictures,kinds"},
    {"csv", "train.csv --test test.csv --features '*=u8,label'"},
    {"bare", "bare.csv --test test.csv"},
    {"records", "'bytes-*.tfrecord' --test test.tfrecord"},
    {"two", "bytes-0.tfrecord,bytes-1.tfrecord --test images/test"},
    {"ints", "ints.tfrecord --test test.tfrecord"},
    {"packed", "ints.tfrecord.gz --test test.tfrecord"},
    {"png", "png.tfrecord --test mnist"},
    {"named", "odd.tfrecord --features 'picture=u8[4,4],label=i64' --test "
              "odd-test.tfrecord"},
    {"mixed", "own.npz --features pictures,kinds --test mnist"},
};

// Whether this build reads PNG files, if those are needed.
static bool can_read(const char *data) {
  return image_is_read(".png") ||
         (strstr(data, "images") == NULL && strstr(data, "png") == NULL) ||
         strstr(data, "mnist/") != NULL;
}

TEST(equal_examples_give_equal_models) {
  static char first[sizeof(out)];
  for (size_t i = 0; i < LS_COUNT_OF(with_test); ++i) {
    if (!can_read(with_test[i].data)) continue;
    expect_run(0, TINY "--data %s --steps 2 --run-dir runs/%s",
               with_test[i].data, with_test[i].name);
    if (i == 0)
      snprintf(first, sizeof(first), "%s", out);
    else
      assert_string_equal(out, first);
    char path[64];
    snprintf(path, sizeof(path), "runs/%s", with_test[i].name);
    expect_same("runs/mnist", path);
  }
}

TEST(few_columns_with_names_are_numbers_as_arrays_of_floats_are) {
  ls_zip_writer *zip = NULL;
  float data[TRAIN * PIXELS];
  int64_t labels[TRAIN];
  for (int i = 0; i < TRAIN; ++i) {
    labels[i] = label_of(0, i);
    for (int at = 0; at < PIXELS; ++at)
      data[i * PIXELS + at] = (float)pixel(0, i, at);
  }
  if (getenv("LOCKSTEP") == NULL) skip();
  expect_ok(ls_zip_writer_open(ls_runtime_current(), "floats.npz", &zip));
  add_member(zip, "x", LS_DTYPE_F32, LS_SHAPE(TRAIN, PIXELS), data);
  add_member(zip, "y", LS_DTYPE_I64, LS_SHAPE(TRAIN), labels);
  expect_ok(ls_zip_writer_close(zip, true));
  static const char *const names[] = {"floats.npz", "train.csv"};
  for (int i = 0; i < 2; ++i)
    expect_run(0,
               TINY "--data %s --steps 2 --learning-rate 1e-6 --run-dir "
                    "floats/%d",
               names[i], i);
  expect_same("floats/0", "floats/1");
}

TEST(what_is_held_out_is_the_same_in_all_files) {
  static const char *const files[] = {
      "xy.npz", "train.csv --features '*=u8,label'", "bare.csv",
      "'bytes-*.tfrecord'", "ints.tfrecord"};
  static char first[sizeof(out)];
  for (size_t i = 0; i < LS_COUNT_OF(files); ++i) {
    char path[64];
    snprintf(path, sizeof(path), "held/%zu", i);
    expect_run(0, TINY "--data %s --split 0.25 --steps 2 --run-dir %s",
               files[i], path);
    if (i == 0) memcpy(first, out, sizeof(out));
    assert_string_equal(out, first);
    expect_same("held/0", path);
  }
  // Of a packed file nobody knows how many there are; by their numbers.
  expect_run(0, TINY "--data ints.tfrecord.gz --split 0.25 --steps 2 "
                     "--run-dir held/packed");
}

TEST(runs_on_files_go_on_as_they_began) {
  static const char *const data[] = {"keras.npz",
                                     "images",
                                     "train.csv --test test.csv",
                                     "bare.csv --split .3",
                                     "'bytes-*.tfrecord'",
                                     "ints.tfrecord.gz",
                                     "own.npz --features pictures,kinds"};
  for (size_t i = 0; i < LS_COUNT_OF(data); ++i) {
    if (!can_read(data[i])) continue;
    char whole[64], parts[64];
    static char result[sizeof(out)];
    snprintf(whole, sizeof(whole), "on/whole-%zu", i);
    snprintf(parts, sizeof(parts), "on/parts-%zu", i);
    expect_run(0, TINY "--data %s --steps 5 --run-dir %s", data[i], whole);
    memcpy(result, out, sizeof(out));
    expect_run(0, TINY "--data %s --steps 2 --run-dir %s", data[i], parts);
    expect_run(0, "train --quiet --resume %s --steps 5", parts);
    assert_string_equal(out, result);
    expect_same(whole, parts);
    // Evaluated from another folder, on the same examples.
    expect_run(0, "eval %s", whole);
    assert_non_null(strstr(out, result));
    assert_int_equal(mkdir("elsewhere", 0777) == 0 || errno == EEXIST, true);
    assert_int_equal(chdir("elsewhere"), 0);
    char command[96];
    snprintf(command, sizeof(command), "eval ../%s", whole);
    const int code = run_program(command);
    assert_int_equal(chdir(".."), 0);
    assert_int_equal(code, 0);
    assert_non_null(strstr(out, result));
  }
  // Other examples than the run's are all tested on.
  expect_run(0, "eval on/whole-0 --data test.csv --json");
  assert_non_null(strstr(out, "\"examples\":12,"));
  expect_run(0, "eval on/whole-6 --data own-test.npz --json");
  assert_non_null(strstr(out, "\"examples\":12,"));
  expect_run(2, "train --resume on/whole-3 --split 0.5");
  assert_non_null(strstr(err, "it can only continue with the same"));
}

// ---- What goes wrong -------------------------------------------------------
// Writes a record whose label is a text.
static void put_named_record(const char *path) {
  ls_tfrecord_writer *writer = NULL;
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init,
               ls_allocator_system());
  const float numbers[4] = {0};
  const ls_bytes label = {"cat", 3};
  ls_bytes example;
  ls_example_add_floats(&builder, "x", numbers, 4);
  ls_example_add_bytes(&builder, "label", &label, 1);
  expect_ok(ls_example_end(&builder, &example));
  expect_ok(ls_tfrecord_writer_open(path, &writer));
  expect_ok(ls_tfrecord_writer_write(writer, example.data, example.size));
  expect_ok(ls_tfrecord_writer_close(writer, true));
}

static void put_wrong(void) {
  put_named_record("named.tfrecord");
  static const char *const short_row = "label,a,b\n1,2,3\n0,1\n1,2,3\n1,2,3\n"
                                       "1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n"
                                       "1,2,3\n1,2,3\n1,2,3\n1,2,3\n1,2,3\n"
                                       "1,2,3\n1,2,3\n1,2,3\n1,2,3\n";
  static const char *const texts = "name,label\nanna,0\nbert,1\n";
  static const char *const kinds = "a,b,label\n1,2,0.5\n3,4,1\n";
  static const char *const few = "a,b,label\n1,2,0\n3,4,1\n5,6,1\n";
  static const char *const typo =
      "a,label\n1,0\n2,0\n3,0\n4,0\n5,0\n6,0\n7,0\n8,0"
      "\n9,0\n10,0\nabc,1\n12,0\n";
  const char *const all[] = {short_row, texts, kinds, few, typo};
  put_records("raw.tfrecord", "image/encoded", 0, 0, 1, AS_BYTES);
  const char *const names[] = {"short.csv", "texts.csv", "kinds.csv", "few.csv",
                               "typo.csv"};
  for (int i = 0; i < 5; ++i)
    put(names[i], all[i], strlen(all[i]));
  put("empty.csv", "", 0);
  static const char *const xy[] = {"x", "y"};
  const int64_t labels[] = {0, 1};
  ls_zip_writer *zip = NULL;
  expect_ok(ls_zip_writer_open(ls_runtime_current(), "bools.npz", &zip));
  add_member(zip, xy[0], LS_DTYPE_BOOL, LS_SHAPE(2, 4), (bool[8]){true});
  add_member(zip, xy[1], LS_DTYPE_I64, LS_SHAPE(2), labels);
  expect_ok(ls_zip_writer_close(zip, true));
  put("junk.npz", "this is no zip file, whatever its name says", 43);
  put("junk.tfrecord", "this is no TFRecord file, whatever it says", 42);
  put("junk.bin", "\001\002\003\377\376\375\374\373", 8);
  put("note.txt", "some words\n", 11);
  make_folders("pair/train/a");
  make_folders("pair/train/b");
  make_folders("pair/test/a");
  make_folders("pair/test/c");
  for (int i = 0; i < 4; ++i) {
    static const char *const places[] = {"train/a", "train/b", "test/a",
                                         "test/c"};
    unsigned char *bytes = NULL;
    size_t size = 0;
    char path[64];
    make_image(0, i, &bytes, &size);
    snprintf(path, sizeof(path), "pair/%s/x.png", places[i]);
    put(path, bytes, size);
    ls_release(ls_allocator_system(), bytes);
  }
  make_folders("broken/a");
  put("broken/a/x.png", "\211PNG\r\n\032\nno more", 15);
}

TEST(what_cannot_be_learnt_from_is_told) {
  static const struct {
    const char *data, *part;
  } rows[] = {
      {"nothing.npz", "there is no file or folder 'nothing.npz'"},
      {"'no-*.csv'", "there is no file or folder 'no-*.csv'"},
      {"junk.npz", "'junk.npz'"},
      {"junk.tfrecord", "'junk.tfrecord' record 0"},
      {"junk.bin", "'junk.bin' has neither"},
      {"note.txt", "'note.txt' has neither"},
      {"empty.csv", "'empty.csv' has no row"},
      {"bools.npz", "the examples are bool, and a model learns from numbers: "
                    "save them as x.astype('float32')"},
      {"odd.tfrecord --features a,b,c",
       "names 3: a TFRecord has one feature of examples and one of labels"},
      {"short.csv", "'short.csv' line 3"},
      {"texts.csv", "column 'name' of 'texts.csv' has texts"},
      {"typo.csv", "'typo.csv' line 12, byte 49, column 'a': 'abc' is no f64"},
      {"kinds.csv", "column 'label' of 'kinds.csv' is read as labels and has "
                    "f32: labels of classification are whole numbers from 0 "
                    "on, or texts; learn numbers by --task regression"},
      {"few.csv", "--batch-size is 16, but the data have 2 examples to train "
                  "on: give 2 or less"},
      {"train.csv --features kind", "'train.csv' has no column 'kind'; it has "
                                    "label, p0, p1"},
      {"own.npz", "'own.npz' has no array 'x_train'; it has 'pictures', "
                  "'kinds'"},
      {"own.npz --features pictures,labels", "'own.npz' has no array 'labels'"},
      {"own.npz --features pictures", "two names of arrays"},
      {"odd.tfrecord", "which features of 'odd.tfrecord' are examples? The "
                       "first record has picture (16 bytes), label (i64[1])"},
      {"odd.tfrecord --features picture,kind",
       "the first record of 'odd.tfrecord' has no feature 'kind'; it has "
       "picture"},
      {"odd.tfrecord --features 'picture=u9[4],label'", "u9"},
      {"odd.tfrecord --features 'picture=u8[17],label'",
       "feature 'picture', read as u8[17], has 16 bytes, expected 17"},
      {"odd.tfrecord --features 'picture=f32[16],label'",
       "has 16 bytes, expected 64"},
      {"png.tfrecord --features 'label=image,label'", "has numbers, no image"},
      {"named.tfrecord", "feature 'label' of 'named.tfrecord' is a text or "
                         "other bytes; labels are whole numbers"},
      {"png.tfrecord,raw.tfrecord", "'png.tfrecord,raw.tfrecord'"},
      {"mnist --split 0.5", "--split cannot be given with --data mnist"},
      {"keras.npz --split 0.5",
       "--split cannot be given: 'keras.npz' has a test"},
      {"train.csv --test test.csv --split 0.5", "--split cannot be given "
                                                "with --test"},
      {"synthetic --features a,b", "--features cannot be given with --data "
                                   "synthetic"},
      {"images --missing a=0", "--missing is for columns of .csv and .jsonl "},
      {"images --features a,b", "--features is for .npz, .csv, .jsonl and "
                                ".tfrecord"},
      {"mnist/train-images-idx3-ubyte", "is one array; give two files"},
      {"pair", "class 1 is 'b' in 'pair/train' and 'c' in 'pair/test'"},
      {"broken", "'broken/a/x.png'"},
      {"pair/train --outputs 4",
       "'pair/train' has 2 folders of classes, model 'tiny' has 4 classes"},
      {"train.csv --batch-size 100000000", "--batch-size is 100000000, but the "
                                           "data have "},
      {"train.csv --test nothing.csv", "there is no file or folder "
                                       "'nothing.csv'"},
  };
  if (getenv("LOCKSTEP") == NULL) skip();
  put_wrong();
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    const bool images = strcmp(rows[i].data, "pair") == 0 ||
                        strncmp(rows[i].data, "pair/train", 10) == 0 ||
                        strcmp(rows[i].data, "broken") == 0;
    if (!can_read(images ? "images" : rows[i].data)) continue;
    expect_run(1, TINY "--data %s --steps 2 --run-dir runs/wrong",
               rows[i].data);
    const char *line = strchr(err, '\n');
    if (strstr(err, rows[i].part) == NULL || line == NULL || line[1] != '\0' ||
        out[0] != '\0')
      fail_msg("--data %s\nwanted: %s\nfound: %s%s", rows[i].data, rows[i].part,
               err, out);
    assert_int_not_equal(access("runs/wrong", F_OK), 0);
  }
  expect_run(2, TINY "--split 1.5");
  expect_run(1, "data nothing");
  expect_run(1, "data junk.bin");
  expect_run(2, "data");
}

// ---- Sizes -----------------------------------------------------------------
TEST(images_of_another_size_are_resized_and_it_is_said) {
  unsigned char pixels[8 * 8], *bytes = NULL;
  size_t size = 0;
  if (getenv("LOCKSTEP") == NULL || !image_is_read(".png")) skip();
  for (int i = 0; i < 4; ++i) {
    char path[64];
    memset(pixels, 20 + 60 * i, sizeof(pixels));
    const ls_pixels image = {.data = pixels,
                             .height = 8,
                             .width = 8,
                             .channels = 1,
                             .dtype = LS_DTYPE_U8,
                             .stride = 8};
    expect_ok(ls_png_encode(ls_allocator_system(), &image, &bytes, &size));
    snprintf(path, sizeof(path), "large/%c", 'a' + i);
    make_folders(path);
    for (int k = 0; k < 4; ++k) {
      snprintf(path, sizeof(path), "large/%c/%d.png", 'a' + i, k);
      put(path, bytes, size);
    }
    ls_release(ls_allocator_system(), bytes);
  }
  expect_run(0, "train --model tiny --data large --steps 2 --batch-size 4 "
                "--run-dir runs/large");
  assert_non_null(strstr(
      err, "the first image of 'large' is 8 x 8; all are resized to 4 x 4\n"));
  expect_run(0, "train --model tiny --data images --steps 2 --batch-size 4 "
                "--run-dir runs/small");
  assert_null(strstr(err, "resized"));
  // Arrays are images where the model says so.
  if (getenv("LS_SANITIZE") != NULL && getenv("LS_SANITIZE")[0] != '\0') return;
  expect_run(0, "train --model cnn --data keras.npz --steps 1 --batch-size 4 "
                "--run-dir runs/grown");
  assert_non_null(
      strstr(err, "'keras.npz' has images 4 x 4, resized to 28 x 28\n"));
}

// ---- lockstep data ---------------------------------------------------------
TEST(files_are_shown_and_timed) {
  static const struct {
    const char *files, *parts[3];
  } rows[] = {
      {"mnist", {"IDX folder, 48 elements of (u8[4,4], u8[])\n0    0 "}},
      {"keras.npz", {"npz, 48 elements of (u8[4,4], i64[1])\n"}},
      {"own.npz", {"of {pictures: u8[4,4], kinds: i64[1]}\n0: pictures=[0"}},
      {"train.csv", {"CSV, 48 elements of (f32[16], i64[])\n0: ["}},
      {"train.csv test.csv", {"train.csv and 1 more: CSV, 60 elements"}},
      {"texts.csv",
       {"{name: string[], label: i64[]}\n0: name=\"anna\" label=0"}},
      {"'bytes-*.tfrecord' --shuffle", {"TFRecord, 48 elements", "shuffle"}},
      {"ints.tfrecord.gz --shuffle", {"a stream of (u8[16], i64[])"}},
      {"png.tfrecord", {"(u8[4,4,1], i64[])\n0    0"}},
      {"images --batch 7", {"images by class, 48 elements", "batch"}},
      {"images/train/class-0/*.png --threads 0", {"image, 12 elements of u8["}},
      {"note.txt",
       {"text, 1 element of string[]\nas tokens of a language model: 11 bytes, "
        "9 different, the largest 119, in 1 file\n"
        "0: \"some words\"\n"}},
      {"mnist/train-images-idx3-ubyte", {"IDX, 48 elements of u8[4,4]"}},
  };
  if (getenv("LOCKSTEP") == NULL) skip();
  put_wrong();
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (!can_read(rows[i].files)) continue;
    expect_run(0, "data %s", rows[i].files);
    for (int k = 0; k < 3 && rows[i].parts[k] != NULL; ++k)
      if (strstr(out, rows[i].parts[k]) == NULL ||
          strstr(out, "examples/s, ") == NULL)
        fail_msg("data %s\nwanted: %s\nfound: %s", rows[i].files,
                 rows[i].parts[k], out);
  }
  // Columns of a file without names are chosen by number.
  put("bare-2.csv", "1.5,7,2.5,x,0,3.5\n4.5,8,5.5,y,1,6.5\n", 36);
  expect_run(0, "data bare-2.csv --features 1,3,6,5");
  assert_non_null(strstr(out, "of (f32[3], i64[])\n0: [1.5, 2.5, 3.5] 0\n1: "
                              "[4.5, 5.5, 6.5] 1\n"));
  expect_run(0, "data bare-2.csv --features 3,6,2");
  assert_non_null(strstr(out, "\n0: [2.5, 3.5] 7\n"));
  expect_run(1, "data bare-2.csv --features 3,1,2");
  expect_run(0, "data train.csv --json --batch 5 --seconds 3");
  assert_non_null(strstr(
      out, "{\"files\":\"train.csv\",\"format\":\"CSV\",\"spec\":\"(f32[16], "
           "i64[])\",\"elements\":48,\"read\":48,\"all\":true,\"seconds\":"));
  assert_non_null(strstr(out, ",\"stages\":[{\"name\":\""));
}

TEST_FILE(.set_up = make_all, .tear_down = remove_all)
