// SPDX-License-Identifier: Apache-2.0
// Arrays in IDX, npy and npz files as examples and labels.
#define _GNU_SOURCE
#include "cli/data/data.h"

// Makes tuples of two items of each element, unchanged arrays. Takes over the
// data set.
static ls_status pair_items(ls_dataset *dataset, size_t example, size_t label,
                            ls_dataset **out) {
  CLI_OWN(ls_dataset, items) = dataset;
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(items, &spec));
  const size_t leaf = (size_t)ls_nest_item(spec.structure, example).as.i64;
  const size_t labels = (size_t)ls_nest_item(spec.structure, label).as.i64;
  *out = cli_pair(cli_give(&items),
                  &(cli_pairing){.first = example,
                                 .label = label,
                                 .example = spec.leaves[leaf].type,
                                 .labels = spec.leaves[labels].type});
  return ls_dataset_status(*out);
}

// ---- IDX and npy -----------------------------------------------------------
// Makes pairs from a data set of two arrays, which it takes over; returns NULL
// for a data set of one array.
static ls_status pair_columns(const cli_files *files, ls_dataset *dataset,
                              ls_dataset **out) {
  CLI_OWN(ls_dataset, columns) = dataset;
  ls_element_spec spec = {0};
  if (columns != NULL) LS_RETURN_IF_ERROR(ls_dataset_spec(columns, &spec));
  if (spec.count != 2)
    return ls_invalid_argument(
        "'%s' is one array; give two files, of examples and of labels: "
        "--data EXAMPLES,LABELS",
        files->text);
  // Labels have fewer dimensions, in whatever order the files are given.
  const bool swapped =
      spec.leaves[0].type.shape.rank < spec.leaves[1].type.shape.rank;
  return pair_items(cli_give(&columns), swapped, !swapped, out);
}

ls_status cli_idx_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  (void)request;
  return pair_columns(files, ls_dataset_idx(files->paths, files->count, NULL),
                      out);
}

ls_status cli_npy_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  (void)request;
  if (files->count != 2) return pair_columns(files, NULL, out);
  return pair_columns(
      files,
      ls_dataset_zip(
          LS_TUPLE(ls_nest_dataset(ls_dataset_npy(files->paths[0], NULL)),
                   ls_nest_dataset(ls_dataset_npy(files->paths[1], NULL)))),
      out);
}

// ---- npz -------------------------------------------------------------------
static ls_status name_arrays(const cli_files *files,
                             const cli_features *features,
                             const char *names[2]) {
  if (features->count != 2 || features->items[0].typed ||
      features->items[1].typed)
    return ls_invalid_argument("--features of '%s': two names of arrays, of "
                               "examples and of labels, without types",
                               files->first);
  for (int i = 0; i < 2; ++i)
    names[i] = features->items[i].name;
  return ls_ok();
}

static ls_status open_arrays(const cli_files *files, const char *const *names,
                             ls_dataset **out) {
  CLI_OWN(ls_dataset, arrays) = ls_dataset_npz(files->first, names, 2, NULL);
  LS_RETURN_IF_ERROR(ls_dataset_status(arrays));
  return pair_items(cli_give(&arrays), 0, 1, out);
}

ls_status cli_npz_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  static const char *const known[][4] = {
      {"x_train", "y_train", "x_test", "y_test"},
      {"train_images", "train_labels", "test_images", "test_labels"},
      {"x", "y", NULL, NULL},
      {"images", "labels", NULL, NULL}};
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  if (request->features->count > 0) {
    const char *names[2];
    if (request->test) return ls_ok();
    LS_RETURN_IF_ERROR(name_arrays(files, request->features, names));
    return open_arrays(files, names, out);
  }
  CLI_OWN(ls_status, first) = ls_ok();
  for (size_t k = 0; k < 4; ++k) {
    const char *const *names = request->test ? &known[k][2] : known[k];
    if (names[0] == NULL) continue;
    CLI_OWN(ls_status, status) = open_arrays(files, names, out);
    if (ls_status_code(status) != LS_NOT_FOUND) return cli_give(&status);
    if (ls_status_is_ok(first)) first = cli_give(&status);
  }
  if (request->test) return ls_ok();
  return ls_status_annotate(cli_give(&first),
                            "nor x and y, or images and labels: name them "
                            "with --features EXAMPLES,LABELS");
}
