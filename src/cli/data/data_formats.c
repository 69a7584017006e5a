// SPDX-License-Identifier: Apache-2.0
// The table of formats: recognizes files, and opens them.
#define _GNU_SOURCE
#include <dirent.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/data/data.h"

// ---- Formats told by their bytes -------------------------------------------
// Returns true for a record's length that fits into the file, which is how
// TFRecord files begin.
static bool is_record(const unsigned char *head, size_t size,
                      int64_t file_size) {
  if (size < 12) return false;
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | head[i];
  return file_size >= 16 && length <= (uint64_t)file_size - 16;
}

// Returns true for an object with a member in the same line, perhaps after a
// byte order mark.
static bool is_json(const unsigned char *head, size_t size, int64_t file_size) {
  char text[32] = "";
  (void)file_size;
  memcpy(text, head, size < sizeof(text) - 1 ? size : sizeof(text) - 1);
  const char *at = text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0);
  at += strspn(at, " \t\r\n");
  return *at == '{' && at[1 + strspn(at + 1, " \t")] == '"';
}

static bool is_idx(const unsigned char *head, size_t size, int64_t file_size) {
  (void)file_size;
  return size >= 4 && head[0] == 0 && head[1] == 0 && head[2] >= 8 &&
         head[2] <= 14;
}

static bool is_text(const unsigned char *head, size_t size, int64_t file_size) {
  (void)file_size;
  for (size_t i = 0; i < size; ++i) {
    if (head[i] < 0x20 && strchr("\t\n\r\f", head[i]) == NULL) return false;
    if (head[i] == 0) return false;
  }
  return true;
}

// ---- Folders ---------------------------------------------------------------
static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_mnist(const char *folder) {
  static const char *const names[] = {
      "train-labels-idx1-ubyte", "train-labels-idx1-ubyte.gz",
      "t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz"};
  char path[PATH_MAX];
  struct stat info;
  for (size_t i = 0; i < 4; ++i) {
    snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
    if (stat(path, &info) == 0) return true;
  }
  return false;
}

static bool has_folders(const char *folder) {
  bool found = false;
  DIR *entries = opendir(folder);
  if (entries == NULL) return false;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    char path[PATH_MAX];
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
    found |= is_folder(path);
  }
  closedir(entries);
  return found;
}

// Returns true for a folder with a file that is named like an image.
static bool has_images(const char *folder) {
  bool found = false;
  DIR *entries = opendir(folder);
  if (entries == NULL) return false;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    found |= entry->d_name[0] != '.' &&
             cli_is_image_name(entry->d_name, strlen(entry->d_name));
  }
  closedir(entries);
  return found;
}

// ---- Formats ---------------------------------------------------------------
static ls_status open_mnist(const cli_files *files, ls_dataset **out) {
  *out = ls_dataset_fashion_mnist(files->first, true);
  return ls_ok();
}

static ls_status open_mnist_pairs(const cli_files *files,
                                  const cli_pair_request *request,
                                  ls_dataset **out) {
  *out = ls_dataset_fashion_mnist(files->first, !request->test);
  return ls_ok();
}

static ls_status open_idx(const cli_files *files, ls_dataset **out) {
  *out = ls_dataset_idx(files->paths, files->count, NULL);
  return ls_ok();
}

static ls_status open_npy(const cli_files *files, ls_dataset **out) {
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  *out = ls_dataset_npy(files->first, NULL);
  return ls_ok();
}

static ls_status open_npz(const cli_files *files, ls_dataset **out) {
  *out = ls_dataset_npz(files->first, NULL, 0, NULL);
  return ls_ok();
}

static ls_status open_tfrecords(const cli_files *files, ls_dataset **out) {
  *out = ls_dataset_tfrecords(files->paths, files->count, NULL);
  return ls_ok();
}

// ---- The table -------------------------------------------------------------
static const cli_format formats[] = {
    // The first row is also used for unrecognized folders: opening one reports
    // what is missing.
    {.name = "IDX folder",
     .is_folder = has_mnist,
     .has_test = true,
     .is_complete = true,
     .open = open_mnist,
     .open_pairs = open_mnist_pairs},
    {.name = "images with masks",
     .is_folder = cli_has_masks,
     .has_test = true,
     .open_pairs = cli_masked_pairs},
    {.name = "images by class",
     .is_folder = has_folders,
     .has_test = true,
     .open_pairs = cli_image_folder_pairs},
    {.name = "images",
     .is_folder = has_images,
     .open = cli_image_files,
     .open_unlabeled = cli_unlabeled_images},
    {.name = "texts", .is_folder = cli_has_texts, .open = cli_text_lines},
    {.name = "npz",
     .kind = ".npz",
     .ends = {".npz"},
     .magics = {"PK\003\004"},
     .has_features = true,
     .has_test = true,
     .has_tokens = true,
     .open = open_npz,
     .open_pairs = cli_npz_pairs},
    {.name = "npy",
     .kind = ".npy",
     .ends = {".npy"},
     .magics = {"\223NUMPY"},
     .has_tokens = true,
     .open = open_npy,
     .open_pairs = cli_npy_pairs},
    {.name = "CSV",
     .kind = ".csv",
     .ends = {".csv", ".tsv"},
     .has_features = true,
     .open = cli_csv_rows,
     .open_pairs = cli_csv_pairs},
    {.name = "lines of JSON",
     .kind = ".jsonl",
     .ends = {".jsonl", ".ndjson"},
     .is_head = is_json,
     .has_features = true,
     .open = cli_json_lines,
     .open_pairs = cli_json_pairs},
    {.name = "TFRecord",
     .kind = ".tfrecord",
     .ends = {".tfrecord", ".tfrecords", ".gz"},
     .is_head = is_record,
     .has_features = true,
     .has_tokens = true,
     .open = open_tfrecords,
     .open_pairs = cli_tfrecord_pairs},
    {.name = "image",
     .kind = ".png, .jpg",
     .ends = {".png", ".jpg", ".jpeg"},
     .magics = {"\211PNG", "\377\330\377"},
     .open = cli_image_files,
     .open_unlabeled = cli_unlabeled_images},
    {.name = "IDX",
     .kind = "IDX",
     .ends = {"-ubyte", ".idx"},
     .is_head = is_idx,
     .open = open_idx,
     .open_pairs = cli_idx_pairs},
    {.name = "text",
     .kind = "text",
     .is_head = is_text,
     .open = cli_text_lines},
};
enum { NUM_FORMATS = sizeof(formats) / sizeof(formats[0]) };

// ---- Finding a row ---------------------------------------------------------
static const cli_format *find_by_folder(const char *path) {
  for (size_t i = 0; i < NUM_FORMATS; ++i) {
    if (formats[i].is_folder != NULL && formats[i].is_folder(path))
      return &formats[i];
  }
  return &formats[0];
}

// Finds a format by the end of the first `size` characters of a name.
static const cli_format *find_by_name(const char *name, size_t size) {
  for (size_t i = 0; i < NUM_FORMATS; ++i) {
    for (size_t k = 0; k < CLI_MOST_ENDS; ++k) {
      const char *end = formats[i].ends[k];
      const size_t length = end != NULL ? strlen(end) : size;
      if (size > length && strncasecmp(name + size - length, end, length) == 0)
        return &formats[i];
    }
  }
  return NULL;
}

bool cli_is_image_name(const char *name, size_t size) {
  const cli_format *format = find_by_name(name, size);
  return format != NULL && format->open == cli_image_files;
}

static bool has_head(const cli_format *format, const unsigned char *head,
                     size_t size, int64_t file_size) {
  for (size_t k = 0; k < 2 && format->magics[k] != NULL; ++k) {
    const size_t length = strlen(format->magics[k]);
    if (size >= length && memcmp(head, format->magics[k], length) == 0)
      return true;
  }
  return format->is_head != NULL && format->is_head(head, size, file_size);
}

static const cli_format *find_by_bytes(const char *path, int64_t file_size) {
  unsigned char head[512];
  CLI_OWN(FILE, file) = NULL;
  CLI_OWN(ls_status, status) = cli_open_file(path, &file);
  if (!ls_status_is_ok(status)) return NULL;
  const size_t size = fread(head, 1, sizeof(head), file);
  for (size_t i = 0; i < NUM_FORMATS; ++i) {
    if (has_head(&formats[i], head, size, file_size)) return &formats[i];
  }
  return NULL;
}

const cli_format *cli_format_named(const char *name) {
  return find_by_name(name, strlen(name));
}

const cli_format *cli_format_find(const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return NULL;
  if (S_ISDIR(info.st_mode)) return find_by_folder(path);
  // Does not read devices or fifos, which may block for ever.
  if (!S_ISREG(info.st_mode)) return NULL;
  const size_t size = strlen(path);
  const bool is_packed = size > 3 && strcasecmp(path + size - 3, ".gz") == 0;
  const cli_format *format = find_by_name(path, is_packed ? size - 3 : size);
  if (format == NULL && is_packed) format = find_by_name(path, size);
  return format != NULL ? format : find_by_bytes(path, info.st_size);
}

// ---- Messages --------------------------------------------------------------
// Lists the kinds of rows that fit, with `last` before the last kind.
static void list_kinds(bool (*fits)(const cli_format *), const char *last,
                       char text[200]) {
  size_t used = 0;
  const cli_format *listed = NULL;
  for (size_t i = 0; i <= NUM_FORMATS; ++i) {
    const cli_format *format = i < NUM_FORMATS ? &formats[i] : NULL;
    if (format != NULL && (format->kind == NULL || !fits(format))) continue;
    if (listed != NULL)
      used += (size_t)snprintf(text + used, 200 - used, "%s%s",
                               used == 0 ? "" : (format == NULL ? last : ", "),
                               listed->kind);
    listed = format;
  }
}

static bool is_any(const cli_format *format) { return format != NULL; }
static bool has_features(const cli_format *format) {
  return format->has_features;
}
static bool takes_two(const cli_format *format) {
  return format->open_pairs != NULL && !format->has_features;
}

static ls_status refuse_features(const cli_files *files) {
  char kinds[200];
  list_kinds(has_features, " and ", kinds);
  return ls_invalid_argument("--features is for %s files; '%s' is none", kinds,
                             files->first);
}

static ls_status refuse_model(const cli_files *files,
                              const ls_model_type *type) {
  char named[200], two[200];
  struct stat info = {0};
  const size_t size = strlen(files->first);
  list_kinds(has_features, ", ", named);
  list_kinds(takes_two, " or ", two);
  if (stat(files->first, &info) == 0 && S_ISFIFO(info.st_mode))
    return ls_invalid_argument(
        "'%s' is a pipe, and data are read again: write them to a file",
        files->first);
  if (size > 5 && strcasecmp(files->first + size - 5, ".json") == 0)
    return ls_invalid_argument(
        "'%s' is no .jsonl file, an object a line: of an array, jq -c '.[]' "
        "makes lines",
        files->first);
  return ls_invalid_argument(
      "model '%s' learns from images or numbers, '%s' has neither: images are "
      "PNG or JPEG; give a folder of them by class or of MNIST's IDX files, or "
      "files %s, or %s as EXAMPLES,LABELS",
      type->name, files->first, named, two);
}

static ls_status refuse_unlabeled(const cli_files *files) {
  return ls_invalid_argument(
      "'%s' has images without labels: training needs a folder with a folder "
      "of images for each class",
      files->first);
}

// ---- Opening ---------------------------------------------------------------
static ls_status open_as_it_is(const cli_files *files, ls_dataset **out) {
  if (files->format != NULL && files->format->open != NULL) {
    LS_RETURN_IF_ERROR(files->format->open(files, out));
    return ls_dataset_status(*out);
  }
  char kinds[200];
  list_kinds(is_any, " or ", kinds);
  return ls_invalid_argument(
      "'%s' has no known format: give a folder of images by class or of "
      "MNIST's IDX files, or files %s",
      files->first, kinds);
}

// Checks that examples are images or rows as the run has them, and that
// --missing is for rows.
static ls_status check_kind(const cli_files *files,
                            const cli_classes *classes) {
  const cli_format *format = files->format;
  if (classes == NULL || format == NULL) return ls_ok();
  const bool are_images = format->open == cli_image_files ||
                          format->open_pairs == cli_image_folder_pairs ||
                          format->open_pairs == cli_masked_pairs;
  const char *bytes = classes->bytes != NULL ? classes->bytes : "";
  const bool are_rows =
      bytes[0] != '\0' || cli_classes_count(classes->columns) > 0;
  if (are_images && are_rows && !classes->may_find && strcmp(bytes, "yes") != 0)
    return ls_invalid_argument("the model learns from rows: give rows (.csv, "
                               ".jsonl), not the images of '%s'",
                               files->first);
  if (!classes->may_find || classes->missing == NULL ||
      classes->missing[0] == '\0' || format->open_pairs == cli_csv_pairs ||
      format->open_pairs == cli_json_pairs)
    return ls_ok();
  return ls_invalid_argument("--missing is for columns of .csv and .jsonl "
                             "files; '%s' has none",
                             files->first);
}

ls_status cli_open_pairs(const cli_files *files,
                         const cli_pair_request *request, ls_dataset **out) {
  const cli_format *format = files->format;
  LS_RETURN_IF_ERROR(check_kind(files, request->classes));
  const bool named = format != NULL && format->has_features;
  if (request->features->count > 0 && !named) return refuse_features(files);
  if (format != NULL && format->open_unlabeled != NULL)
    return request->test        ? ls_ok()
           : request->no_labels ? format->open_unlabeled(files, request, out)
                                : refuse_unlabeled(files);
  if (format == NULL || format->open_pairs == NULL)
    return refuse_model(files, request->type);
  if (request->test && !format->has_test) return ls_ok();
  return format->open_pairs(files, request, out);
}

ls_status cli_open_shown(const cli_files *files, const char *features_text,
                         const char *missing, ls_dataset **out) {
  cli_features features;
  LS_RETURN_IF_ERROR(cli_features_parse(features_text, &features));
  CLI_OWN(cli_classes, classes) = {.may_find = true, .missing = missing};
  const cli_pair_request request = {.features = &features};
  const cli_pair_request named = {
      .features = &features, .classes = &classes, .command = "data"};
  const cli_format *format = files->format;
  *out = NULL;
  if (format == NULL || !format->has_features) {
    if (features.count > 0) return refuse_features(files);
    LS_RETURN_IF_ERROR(check_kind(files, &classes));
    // Two files are examples and labels.
    const bool paired = format != NULL && format->open_pairs != NULL &&
                        (format->open == NULL || files->count == 2);
    return paired ? format->open_pairs(files, &request, out)
                  : open_as_it_is(files, out);
  }
  ls_status status = cli_open_pairs(files, &named, out);
  // If a flag was given, reports the failure; else shows the file's elements
  // unchanged, also those with texts as labels.
  if (features.count > 0 || missing != NULL ||
      (ls_status_is_ok(status) && classes.found == NULL))
    return status;
  CLI_OWN(ls_dataset, pairs) = *out;
  *out = NULL;
  CLI_OWN(ls_status, raw) = open_as_it_is(files, out);
  if (ls_status_is_ok(raw)) {
    const char *why = ls_status_message(status);
    if (!ls_status_is_ok(status))
      cli_say("data", "no examples for 'lockstep train' yet: %.*s",
              (int)strcspn(why, "\n"), why);
    ls_status_free(status);
    return ls_ok();
  }
  ls_dataset_release(*out);
  *out = cli_give(&pairs);
  return status;
}
