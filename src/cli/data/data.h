// SPDX-License-Identifier: Apache-2.0
// Users' data: files of all formats as data sets of examples and labels.
#ifndef LS_CLI_DATA_DATA_H_
#define LS_CLI_DATA_DATA_H_

#include <limits.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/words.h"

// ---- Files -----------------------------------------------------------------
typedef struct cli_format cli_format;

// Files named by a text: a path, with or without a pattern, or several with
// commas between them, or "-", standard input.
typedef struct cli_files {
  const char *text;    // The text given by the user. Lent.
  char *copy;          // The same, cut into paths.
  const char **paths;  // Patterns are not expanded.
  size_t count;
  char first[PATH_MAX];      // The first file or folder that exists.
  const cli_format *format;  // Format of that file; NULL: unknown.
} cli_files;
// Open files named by a text or by words. The caller closes them, also after a
// failure.
//   LS_NOT_FOUND  the first path is no file or folder.
ls_status cli_files_open(const char *text, cli_files *out);
ls_status cli_files_open_list(const char *const *paths, size_t count,
                              cli_files *out);
void cli_files_close(cli_files *files);
CLI_OWNED_STRUCT(cli_files, cli_files_close)
// Refuses all but one file or folder.
ls_status cli_files_check_one(const cli_files *files);

// ---- Examples and labels ---------------------------------------------------
// One of --features: "NAME", "NAME=TYPE", "NAME=TYPE[SHAPE]" or "NAME=image".
typedef struct cli_feature {
  const char *name;
  bool typed, shaped, image;
  ls_dtype dtype;
  ls_shape shape;
} cli_feature;
enum { CLI_MOST_FEATURES = 64 };
typedef struct cli_features {
  char text[1024];  // Storage of the names.
  cli_feature items[CLI_MOST_FEATURES];
  size_t count;
  size_t num_labels;  // The last of them are labels.
} cli_features;
// Parses the flag; NULL and "" name nothing.
ls_status cli_features_parse(const char *text, cli_features *out);

// ---- Labels that are texts -------------------------------------------------
// Sorted names of classes, numbered from 0.
typedef struct cli_class_list cli_class_list;
// Makes a list of names, one per line.
ls_status cli_class_list_make(const char *names, cli_class_list **out);
void cli_class_list_release(cli_class_list *list);  // Accepts NULL.
CLI_OWNED_POINTER(cli_class_list, cli_class_list_release)
// Finds the number of a class.
//   LS_INVALID_ARGUMENT  there is no such class.
ls_status cli_class_number(const cli_class_list *list, ls_bytes name,
                           int64_t *out);
size_t cli_class_list_count(const cli_class_list *list);
// Formats the first names: "blue, green and 3 more".
void cli_class_list_print(const cli_class_list *list, char *text, size_t size);
// Finds a column's texts, one a line, in ls_train_config.categories; returns
// their size, 0 if there are none.
size_t cli_column_texts(const char *categories, const char *column,
                        const char **out);
// Finds the distinct texts in item `item` of the rows of a data set, or in its
// lists of texts, sorted, one per line; the caller owns the text. `command`
// reports them; NULL: silent.
ls_status cli_classes_find(ls_dataset *rows, size_t item, bool are_lists,
                           const char *column, const char *file,
                           const char *command, char **out_names);
// Takes the next text of a list, "funny; sad"; returns false at its end.
bool cli_next_label(ls_bytes *rest, ls_bytes *out);
int64_t cli_classes_count(const char *names);
// Stores names of classes, which it takes over, if none are known, and may be
// found.
//   LS_INVALID_ARGUMENT  others are known
ls_status cli_classes_keep(char *names, const char *file, cli_classes *classes);
// Gets the name of a class, which is not terminated.
ls_bytes cli_class_name(const char *names, int64_t number);
// Writes the names that belong to row `row` of predictions (-1: a list of those
// of all rows), as members of JSON after a comma: "name", that of the "class",
// or "labels", those whose "probability" is above 0.5. Writes nothing if no
// names ("" or NULL) or others are known.
void cli_write_names(FILE *to, const char *names, ls_nest predictions,
                     int64_t row);

// Numbers of an example: `count` elements of an item, from number `from` on, or
// the text there as a 1 among zeros.
typedef struct cli_part {
  size_t item;
  int64_t from, count;
  cli_class_list *categories;  // NULL: numbers.
  char *column;                // The column's name, for errors.
} cli_part;

// Mapping of elements of a data set to tuples of an example and its label.
typedef struct cli_pairing {
  // Items of an element that are the example and the label.
  size_t first, label;
  // Items that are single numbers of the labels, instead of `label`; 0: none.
  size_t label_items[CLI_MOST_FEATURES], num_labels;
  ls_type example, labels;  // Types after the mapping.
  bool decode;              // The example is the bytes of an image file.
  bool no_label;            // Labels are 0; `label` is ignored.
  cli_class_list *classes;  // Classes of text labels.
  bool are_lists;           // A label is a list of classes.
  bool are_whole;           // A label is a float without a fraction.
  // Parts that the example is put together of, and the file's name, for errors.
  // None: the example is one item.
  cli_part *parts;
  size_t num_parts;
  char *file;
  const ls_task *task;  // Task of labels that are `label_items`,
  char *columns;        // and their names, one per line.
} cli_pairing;
// Maps elements to pairs. Takes over the data set, the classes, the columns and
// the parts with what they hold.
ls_dataset *cli_pair(ls_dataset *dataset, const cli_pairing *pairing);

// Makes labels, floats in item `item`, whole numbers if the first ones are.
ls_status cli_take_whole(ls_dataset *rows, size_t item, cli_pairing *pairing);
// Copies the array in item `item` of an element.
void cli_copy_item(ls_nest element, size_t item, void *out);
// Makes an array of an image's elements that has a dimension of channels.
ls_status cli_view_image(const ls_array *array, ls_array **out);

// Gets the size of images for a model, given the first image's height and
// width; returns false if the model takes no such images.
bool cli_image_shape(const ls_model_type *type, int64_t height, int64_t width,
                     ls_shape *out_shape);
// Converts pairs for a model: labels of its shape, images of its size, numbers
// of its type. Takes over the data set. `command` reports resizing; NULL:
// silent.
ls_dataset *cli_fit(ls_dataset *pairs, const ls_model_type *type,
                    const char *name, const char *command);
// Splits a data set, lent, into two disjoint parts by a hash of each element's
// number, or into the first elements and the last ones. `train` or `test` may
// be NULL.
ls_status cli_hold_out(ls_dataset *dataset, double split, bool last,
                       const char *name, ls_dataset **train, ls_dataset **test);

// ---- Formats ---------------------------------------------------------------
// Request for pairs of examples and labels from files.
typedef struct cli_pair_request {
  const cli_features *features;  // Not NULL, but may name no parts.
  const ls_model_type *type;     // NULL: keeps types and shapes.
  const ls_task *task;           // Task of the labels. NULL: classification.
  cli_classes *classes;          // Classes of text labels; NULL: refused.
  const char *command;           // Reports classes and sizes; NULL: silent.
  bool test;                     // Asks for the test set, if any.
  bool is_other;  // Other data of a run: may lack some of its classes.
  // Labels are not needed: they may be missing, are not read, and may be 0.
  bool no_labels;
  // With `no_labels`: gets the names of the examples' files, string scalars in
  // the same order; stays NULL if an example is not a file.
  ls_dataset **names;
} cli_pair_request;

// Opens elements unchanged.
typedef ls_status cli_opener(const cli_files *files, ls_dataset **out);
// Opens tuples of an example and its label; `*out` stays NULL if a requested
// test set does not exist.
typedef ls_status cli_pair_opener(const cli_files *files,
                                  const cli_pair_request *request,
                                  ls_dataset **out);

enum { CLI_MOST_ENDS = 3 };
// A row of the table in data_formats.c. A zero field means none.
struct cli_format {
  const char *name;  // "CSV".
  const char *kind;  // File ending for messages: ".csv". NULL: a folder.
  // Names of the format's files end so, in any case and perhaps with .gz added.
  // If no format's ending matches, the file has the first format whose magic or
  // test fits its first bytes.
  const char *ends[CLI_MOST_ENDS], *magics[2];
  bool (*is_head)(const unsigned char *head, size_t size, int64_t file_size);
  bool (*is_folder)(const char *path);
  bool has_features;  // The format has features that --features can name.
  bool has_test;      // Files may include a test set.
  bool is_complete;   // Has training and test set without flags.
  // Has arrays of tokens. For a text model, files of other formats are plain
  // text.
  bool has_tokens;
  cli_opener *open;                 // NULL: pairs only.
  cli_pair_opener *open_pairs;      // NULL: not for training.
  cli_pair_opener *open_unlabeled;  // For files that never have labels.
};
// Finds the format of a file or folder; NULL: unknown.
const cli_format *cli_format_find(const char *path);
// Finds the format of files with this name; NULL: unknown.
const cli_format *cli_format_named(const char *name);

// Returns true for the name of an image file.
bool cli_is_image_name(const char *name, size_t size);

// Files that are read as a text of bytes, for a language model.
extern const cli_format cli_text_format;
// Returns true if --data names files that a language model reads so.
bool cli_is_text(const char *data);
// Returns true for a folder with a file *.txt.
bool cli_has_texts(const char *folder);

// Opens pairs by the format, for a model.
cli_pair_opener cli_open_pairs;
// Opens pairs if possible, else elements unchanged.
ls_status cli_open_shown(const cli_files *files, const char *features,
                         const char *missing, ls_dataset **out);

// Readers of the table, for its fields `open` and `open_pairs`.
cli_opener cli_csv_rows, cli_text_lines, cli_image_files, cli_json_lines;
cli_pair_opener cli_unlabeled_images, cli_masked_pairs, cli_csv_pairs,
    cli_json_pairs, cli_idx_pairs, cli_image_folder_pairs, cli_npy_pairs,
    cli_npz_pairs, cli_tfrecord_pairs;

// Returns true if labels are numbers, not classes.
bool cli_has_numbers(const cli_pair_request *request);
// Returns the type of labels that are missing, which are zeros.
ls_type cli_missing_labels(const cli_pair_request *request);

// ---- Images ----------------------------------------------------------------
// Reads a file; its bytes are followed by room for a 0.
ls_status cli_read_bytes(const char *path, char **out_data, size_t *out_size);
// Decodes an image file. `options` are not NULL; the name is the path.
ls_status cli_read_image(const char *path, const ls_image_options *options,
                         ls_array **out);
// Lists the paths of a folder's images, sorted, as string scalars.
ls_dataset *cli_list_images(const char *folder);
// Decodes the images of a data set of paths, which it takes over.
ls_dataset *cli_read_images(ls_dataset *paths);
// Chooses a size for the model by the first image of a data set, which it takes
// over: images, or tuples that begin with one. `path` names them in messages.
ls_status cli_fit_first(const char *path, const cli_pair_request *request,
                        ls_dataset *images, ls_shape *out);
// Returns a model of the library with such labels that takes images of 3
// channels; NULL: none.
const char *cli_colored_model(const ls_model_type *type);
// Copies classes [h, w] to an array of their type and another size: to each the
// nearest one.
void cli_sample_classes(const ls_array *from, ls_array *to);
// Finds the first of these folders in a folder, and prints its path.
bool cli_find_folder(const char *above, const char *const *names,
                     char path[PATH_MAX]);
// Finds the folder of the training or of the test set in a folder of images.
bool cli_find_part(const char *folder, bool test, char path[PATH_MAX]);
// Returns true for a folder of images with masks.
bool cli_has_masks(const char *folder);

// Returns true if whole numbers of this range are pixels: from 0 to 255, and
// not all of them small.
bool cli_are_pixels(int64_t least, int64_t most);
// Returns true if whole numbers of examples count as bytes: as in the run, else
// as they were `found` to be, which is kept for other data. `classes` may be
// NULL.
bool cli_are_bytes(cli_classes *classes, bool found);

// ---- Predicted masks -------------------------------------------------------
// Begins a line of JSON with the fraction of pixels of each class of row `row`
// of classes [n, h, w], by the names of classes ("" or NULL: their numbers).
ls_status cli_write_shares(FILE *to, const char *names, const ls_array *classes,
                           int64_t row, int64_t num_classes);
// Writes the classes of a row as a PNG file in a folder: of the size and name
// of the image's file, or, if that is NULL, with the example's number as name.
// Prints its path.
//   LS_FAILED_PRECONDITION  the file exists.
enum { CLI_MASK_PATH = 2 * PATH_MAX };
ls_status cli_write_mask(const char *folder, const char *image, int64_t number,
                         const ls_array *classes, int64_t row,
                         char path[CLI_MASK_PATH]);

// Prints the first elements of a data set to standard output: images drawn,
// with their labels above, numbers and texts cut to lines.
ls_status cli_show_elements(ls_runtime *runtime, ls_dataset *dataset);
// Prints what files of text are as tokens.
ls_status cli_show_text(const cli_files *files);

// ---- Files with named columns ----------------------------------------------
enum { CLI_LOOK_AT = 100 };  // First rows by which types are guessed.

// Columns of a file, guessed from its first rows.
typedef struct cli_sheet {
  const cli_classes *classes;  // Borrowed. NULL: unknown.
  bool is_json;
  char delimiter;
  bool header;
  size_t count;            // Columns,
  ls_csv_column *columns;  // and their names, in their order in the file.
  // Elements of each column that is an array, in JSON; 0: a number or a text;
  // -1: a list of texts, whose type is NONE until it is read as labels.
  int64_t *widths;
  // Texts of the columns that are one-hot; NULL: others.
  cli_class_list **categories;
  char **names;         // Storage of names that a file has not by itself.
  cli_words missing;    // Values of missing fields, by columns.
  ls_dataset *guessed;  // A data set with types guessed from the first rows.
} cli_sheet;
void cli_sheet_close(cli_sheet *table);
CLI_OWNED_STRUCT(cli_sheet, cli_sheet_close)

// Makes room for `count` columns.
ls_status cli_sheet_make(cli_sheet *table, size_t count);
// Open a table by its first rows.
ls_status cli_sheet_open_csv(const cli_files *files, cli_sheet *out);
ls_status cli_sheet_open_json(const cli_files *files, cli_sheet *out);
// Reads these columns as dicts: of CSV one array "*" of all that are stacked,
// in the place of the first of them, and one item for each of the others.
ls_dataset *cli_sheet_read(const cli_files *files, const cli_sheet *table,
                           const ls_csv_column *columns, size_t count);
// Reads some columns so, as if they were all: in a file without names the
// others are texts in their places.
ls_dataset *cli_sheet_read_some(const cli_files *files, const cli_sheet *table,
                                const size_t *items, size_t count);
ls_dataset *cli_json_rows(const cli_files *files, const cli_sheet *table,
                          const ls_csv_column *columns, size_t count);
// Finds a column by its name.
ls_status cli_sheet_find(const cli_files *files, const cli_sheet *table,
                         const char *name, size_t *out);
// Refuses a column of neither numbers nor texts, with advice.
ls_status cli_sheet_check(const cli_files *files, const cli_sheet *table,
                          size_t column, const char *advice);
// Returns true if one of these is this column.
bool cli_is_among(const size_t *items, size_t count, size_t column);
// Reads --missing of the table's `classes`.
ls_status cli_sheet_open_missing(cli_sheet *table);
// Sets the values of missing fields, and guesses types with them.
ls_status cli_sheet_missing(const cli_files *files, cli_sheet *table);
// Finds the texts of the columns that are one-hot.
ls_status cli_sheet_one_hot(const cli_files *files,
                            const cli_pair_request *request, cli_sheet *table);
// Reads the first CLI_LOOK_AT rows, to find a failure among them.
ls_status cli_read_first_rows(ls_dataset *rows);
// Reads a column as numbers up to the first text, whose failure names it.
ls_status cli_sheet_find_text(const cli_files *files, const cli_sheet *table,
                              size_t item);
// Returns the number of elements of a column in an example.
int64_t cli_sheet_width(const cli_sheet *table, size_t column);
// Counts the numbers of an example of these columns; NULL: of all.
int64_t cli_sheet_numbers(const cli_sheet *table, const size_t *items,
                          size_t count);

// Columns that are chosen.
typedef struct cli_choice {
  size_t *items;  // Columns of an example.
  size_t count;
  const cli_feature *type;  // Type of examples; NULL: not given.
  size_t labels[CLI_MOST_FEATURES], num_labels;
} cli_choice;
// Chooses columns. `out->items` has room for all of the table and of
// --features.
ls_status cli_choose_columns(const cli_files *files,
                             const cli_pair_request *request, cli_sheet *table,
                             cli_choice *out);
// Chooses the type of examples: the flag's, u8 for pixels, else f32, with a
// scale if they are bytes in the training, but not all whole.
ls_status cli_choose_dtype(const cli_files *files, const cli_sheet *table,
                           const cli_choice *choice, cli_classes *classes,
                           ls_convert_options *out_scaling, ls_dtype *out);

#endif  // LS_CLI_DATA_DATA_H_
