// SPDX-License-Identifier: Apache-2.0
// Arrays in IDX, npy and npz files as examples and labels.
#define _GNU_SOURCE
#include "cli/data/data.h"

static ls_type leaf_type(const ls_element_spec *spec, int item) {
  return spec->leaves[ls_nest_item(spec->structure, (size_t)item).as.i64].type;
}

// Makes tuples of two items of each element, unchanged arrays, with labels of 0
// if `label` is NO_LABEL. Takes over the data set.
enum { NO_LABEL = -1 };
static ls_status pair_items(ls_dataset *dataset,
                            const cli_pair_request *request, int example,
                            int label, ls_dataset **out) {
  CLI_OWN(ls_dataset, items) = dataset;
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(items, &spec));
  const ls_dtype dtype = leaf_type(&spec, example).dtype;
  if (dtype == LS_DTYPE_BOOL)
    return ls_invalid_argument("the examples are bool, and a model learns from "
                               "numbers: save them as x.astype('float32')");
  if (label != NO_LABEL && leaf_type(&spec, label).dtype == LS_DTYPE_STRING)
    return ls_invalid_argument(
        "the labels are texts: those of NumPy files are whole numbers, as of "
        "np.unique(y, return_inverse=True)[1]");
  if (ls_dtype_is_integer(dtype) && dtype != LS_DTYPE_U8 && !request->test &&
      request->type != NULL && request->type->example_dtype != LS_DTYPE_I32)
    ls_runtime_log(ls_runtime_current(), LS_LOG_INFO, "data",
                   "the examples are %s, which are not scaled; u8 are, to 0 to "
                   "1: x.astype('uint8') of 0 to 255",
                   ls_dtype_name(dtype));
  cli_pairing pairing = {.first = (size_t)example,
                         .no_label = label == NO_LABEL,
                         .labels = cli_missing_labels(request)};
  pairing.example = leaf_type(&spec, example);
  if (label != NO_LABEL) {
    pairing.label = (size_t)label;
    pairing.labels = leaf_type(&spec, label);
    if (request->task != NULL && !cli_has_numbers(request) &&
        ls_dtype_is_float(pairing.labels.dtype) &&
        pairing.labels.shape.rank == 0)
      LS_RETURN_IF_ERROR(cli_take_whole(items, (size_t)label, &pairing));
  }
  *out = cli_pair(cli_give(&items), &pairing);
  return ls_dataset_status(*out);
}

// ---- IDX and npy -----------------------------------------------------------
// Makes pairs from a data set of one or two arrays, which it takes over.
// Refuses one array if labels are needed.
static ls_status pair_columns(const cli_files *files,
                              const cli_pair_request *request,
                              ls_dataset *dataset, ls_dataset **out) {
  CLI_OWN(ls_dataset, columns) = dataset;
  ls_element_spec spec = {0};
  LS_RETURN_IF_ERROR(ls_dataset_spec(columns, &spec));
  if (spec.count == 1 && request->no_labels)
    return pair_items(cli_give(&columns), request, 0, NO_LABEL, out);
  if (spec.count != 2)
    return ls_invalid_argument(
        "'%s' is one array; give two files, of examples and of labels: "
        "--data EXAMPLES,LABELS",
        files->text);
  // Labels have fewer dimensions, in whatever order the files are given.
  const bool swapped =
      spec.leaves[0].type.shape.rank < spec.leaves[1].type.shape.rank;
  return pair_items(cli_give(&columns), request, swapped,
                    request->no_labels ? NO_LABEL : !swapped, out);
}

ls_status cli_idx_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  ls_dataset *columns = ls_dataset_idx(files->paths, files->count, NULL);
  if (files->count == 1)
    columns = ls_dataset_zip(LS_TUPLE(ls_nest_dataset(columns)));
  return pair_columns(files, request, columns, out);
}

ls_status cli_npy_pairs(const cli_files *files, const cli_pair_request *request,
                        ls_dataset **out) {
  ls_nest arrays[3];  // The third file is refused.
  const size_t count = files->count < 3 ? files->count : 3;
  for (size_t i = 0; i < count; ++i)
    arrays[i] = ls_nest_dataset(ls_dataset_npy(files->paths[i], NULL));
  return pair_columns(
      files, request,
      ls_dataset_zip(ls_nest_sequence(LS_KIND_TUPLE, arrays, count)), out);
}

// ---- npz -------------------------------------------------------------------
// Gets the names of examples and labels, of which the latter may be missing if
// they are not needed.
static ls_status name_arrays(const cli_files *files,
                             const cli_pair_request *request,
                             const char *names[2]) {
  const cli_features *features = request->features;
  const bool fits =
      features->count == 2 || (request->no_labels && features->count == 1);
  if (!fits || features->items[0].typed || features->items[1].typed)
    return ls_invalid_argument("--features of '%s': two names of arrays, of "
                               "examples and of labels, without types",
                               files->first);
  for (int i = 0; i < 2; ++i)
    names[i] = features->items[i].name;
  return ls_ok();
}

static ls_status open_arrays(const cli_files *files,
                             const cli_pair_request *request,
                             const char *const *names, ls_dataset **out) {
  const bool alone = request->no_labels;
  CLI_OWN(ls_dataset, arrays) =
      ls_dataset_npz(files->first, names, alone ? 1 : 2, NULL);
  LS_RETURN_IF_ERROR(ls_dataset_status(arrays));
  return pair_items(cli_give(&arrays), request, 0, alone ? NO_LABEL : 1, out);
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
    LS_RETURN_IF_ERROR(name_arrays(files, request, names));
    return open_arrays(files, request, names, out);
  }
  CLI_OWN(ls_status, first) = ls_ok();
  for (size_t k = 0; k < 4; ++k) {
    const char *const *names = request->test ? &known[k][2] : known[k];
    if (names[0] == NULL) continue;
    CLI_OWN(ls_status, status) = open_arrays(files, request, names, out);
    if (ls_status_code(status) != LS_NOT_FOUND) return cli_give(&status);
    if (ls_status_is_ok(first)) first = cli_give(&status);
  }
  if (request->test) return ls_ok();
  return ls_status_annotate(cli_give(&first),
                            "nor x and y, or images and labels: name them "
                            "with --features EXAMPLES,LABELS");
}
