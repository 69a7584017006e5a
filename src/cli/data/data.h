// SPDX-License-Identifier: Apache-2.0
// Data that users have: files of all kinds as data sets of examples and labels.
#ifndef LS_CLI_DATA_DATA_H_
#define LS_CLI_DATA_DATA_H_

#include <limits.h>

#include "cli/cli.h"

// ---- Files -----------------------------------------------------------------
typedef enum cli_format {
  CLI_FORMAT_NONE,    // None that is known.
  CLI_FORMAT_MNIST,   // A folder with MNIST's four files.
  CLI_FORMAT_IMAGES,  // A folder with images, by class.
  CLI_FORMAT_IDX,
  CLI_FORMAT_NPY,
  CLI_FORMAT_NPZ,
  CLI_FORMAT_CSV,
  CLI_FORMAT_TFRECORD,
  CLI_FORMAT_IMAGE,  // PNG or JPEG files.
  CLI_FORMAT_TEXT,
} cli_format;

// What a text names: a path, with or without a pattern, or several with commas
// between them.
typedef struct cli_files {
  const char *text;    // As it was given. Lent.
  char *copy;          // Of it, cut into paths.
  const char **paths;  // Patterns as they are.
  size_t count;
  char first[PATH_MAX];  // The first file or folder that is there.
  cli_format format;     // What that one is.
} cli_files;
// To be closed also after a failure.
//   LS_NOT_FOUND  the first path is of no file or folder.
ls_status cli_files_open(const char *text, cli_files *out);
ls_status cli_files_open_list(const char *const *paths, size_t count,
                              cli_files *out);
void cli_files_close(cli_files *files);
// Refuses all but one file or folder.
ls_status cli_files_check_one(const cli_files *files);

// ---- What is an example and what its label ---------------------------------
// One of --features: "NAME", "NAME=TYPE", "NAME=TYPE[SHAPE]" or "NAME=image".
typedef struct cli_feature {
  const char *name;
  bool typed, shaped, image;
  ls_dtype dtype;
  ls_shape shape;
} cli_feature;
enum { CLI_MOST_FEATURES = 16 };
typedef struct cli_features {
  char text[512];  // What names are in.
  cli_feature items[CLI_MOST_FEATURES];
  size_t count;
} cli_features;
// Reads the flag; NULL and "" are none.
ls_status cli_features_parse(const char *text, cli_features *out);

// ---- Labels that are texts -------------------------------------------------
// Sorted names of classes, which count from 0.
typedef struct cli_class_list cli_class_list;
// Of names, one a line.
ls_status cli_class_list_make(const char *names, cli_class_list **out);
void cli_class_list_release(cli_class_list *list);  // NULL is fine.
//   LS_INVALID_ARGUMENT  there is no such class.
ls_status cli_class_number(const cli_class_list *list, ls_bytes name,
                           int64_t *out);
// The different texts in item `item` of the rows of a data set, sorted, one a
// line: the caller's. `command` says what they are; NULL: nobody does.
ls_status cli_classes_find(ls_dataset *rows, size_t item, const char *column,
                           const char *file, const char *command,
                           char **out_names);
int64_t cli_classes_count(const char *names);

// How elements of a data set become tuples of an example and its label.
typedef struct cli_pairing {
  size_t first, label;      // The items of an element that are which.
  ls_type example, labels;  // What they are, or become.
  bool decode;              // The example is a string, an image file.
  cli_class_list *classes;  // Labels are texts: their numbers here.
} cli_pairing;
// Takes over the data set and the classes.
ls_dataset *cli_pair(ls_dataset *dataset, const cli_pairing *pairing);

// The size of images that a model takes, where the first of those that there
// are is height x width; false: it takes none of that kind.
bool cli_image_shape(const ls_model_type *type, int64_t height, int64_t width,
                     ls_shape *out_shape);
// What a model takes, made of pairs: labels of its shape, images of its size,
// numbers of its type. Takes over the data set. `command`: who says so where
// images are resized; NULL: nobody.
ls_dataset *cli_fit(ls_dataset *pairs, const ls_model_type *type,
                    const char *name, const char *command);
// Two parts that have nothing in common, of a data set that is lent; which
// element is in which depends on its number alone. Either may be NULL.
ls_status cli_hold_out(ls_dataset *dataset, double split, const char *name,
                       ls_dataset **train, ls_dataset **test);

// ---- Data sets of files ----------------------------------------------------
// As they are, of whatever elements.
ls_status cli_open_raw(const cli_files *files, ls_dataset **out);
// As pairs of examples and labels, where that can be, else as they are.
ls_status cli_open_shown(const cli_files *files, const char *features,
                         ls_dataset **out);
// The rows of CSV files, as they are.
ls_status cli_open_table(const cli_files *files, ls_dataset **out);
// Pairs of examples and labels, of kinds that need to be looked into.
// `features` may have none; with `type` NULL examples are as the files say.
// `classes`: of labels that are texts; NULL: those are refused. `command`: who
// says which classes there are.
ls_status cli_open_csv(const cli_files *files, const cli_features *features,
                       cli_classes *classes, const char *command,
                       ls_dataset **out);
ls_status cli_open_tfrecords(const cli_files *files,
                             const cli_features *features,
                             const ls_model_type *type, ls_dataset **out);
// `test`: of the arrays for a test; `*out` is NULL where the file has none.
ls_status cli_open_npz(const cli_files *files, const cli_features *features,
                       bool test, ls_dataset **out);
// A folder of images by class. `test`: the same. `command`: as cli_fit.
ls_status cli_open_images(const cli_files *files, const ls_model_type *type,
                          const char *command, bool test, ls_dataset **out);
// Several IDX or npy files: examples and labels.
ls_status cli_open_columns(const cli_files *files, ls_dataset **out);

// The first element of a data set that is lent; the caller's.
ls_status cli_first_element(ls_dataset *dataset, ls_nest *out);
// Whether these many whole numbers are those of pixels: from 0 to 255, and not
// all of them small.
bool cli_are_pixels(int64_t least, int64_t most);

#endif  // LS_CLI_DATA_DATA_H_
