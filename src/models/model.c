// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/require.h"
#include "io/sha256.h"
#include "lockstep/data.h"
#include "lockstep/iterator.h"
#include "lockstep/optimizer_table.h"
#include "models/classifier.h"
#include "models/library.h"

// ---- Libraries --------------------------------------------------------------
// Users' shared libraries: loads and checks their tables of models.

// ---- Tables ----------------------------------------------------------------
// The common beginning of all kinds of tables.
typedef struct table {
  uint32_t size, version, type_size, count;
  const void *const *types;
} table;
_Static_assert(sizeof(table) == sizeof(ls_model_table), "they begin alike");

static ls_status check_row(const char *path, const ls_table_kind *kind,
                           uint32_t number, const void *type) {
  const char *missing = "type", *extra = NULL;
  if (type != NULL) {
    const char *name = *(const char *const *)type;
    missing = name == NULL || name[0] == '\0' ? "name" : NULL;
    if (missing == NULL && kind->lacks != NULL) missing = kind->lacks(type);
    if (missing == NULL && kind->oversteps != NULL)
      extra = kind->oversteps(type);
  }
  if (missing != NULL)
    return ls_invalid_argument("%s %u of '%s' lacks its '%s'", kind->noun,
                               number, path, missing);
  if (extra != NULL)
    return ls_invalid_argument("%s %u of '%s' sets '%s', which is the "
                               "command's",
                               kind->noun, number, path, extra);
  return ls_ok();
}

ls_status ls_library_table(const ls_model_library *library,
                           const ls_table_kind *kind,
                           const void *const **out_types, size_t *out_count) {
  *out_types = NULL;
  *out_count = 0;
  if (library->handle == NULL)
    return ls_invalid_argument("the library of models is not open");
  const void *from = dlsym(library->handle, kind->symbol);
  table head = {0};
  if (from == NULL) return ls_ok();
  memcpy(&head, from, 2 * sizeof(uint32_t));
  if (head.version != kind->version)
    return ls_invalid_argument(
        "'%s' has %ss of version %u, this program needs %u: compile it again",
        library->path, kind->noun, head.version, kind->version);
  // Reads no further than the table's own size.
  const bool whole = head.size >= sizeof(head);
  if (whole) memcpy(&head, from, sizeof(head));
  if (!whole || head.type_size < kind->type_size)
    return ls_invalid_argument(
        "'%s' has %ss of an older Lockstep (%s of %u bytes, at least %zu are "
        "needed): compile it again",
        library->path, kind->noun, whole ? "types" : "a table",
        whole ? head.type_size : head.size,
        whole ? kind->type_size : sizeof(head));
  for (uint32_t i = 0; i < head.count; ++i)
    LS_RETURN_IF_ERROR(check_row(library->path, kind, i + 1, head.types[i]));
  *out_types = head.types;
  *out_count = head.count;
  return ls_ok();
}

// ---- Models ----------------------------------------------------------------
static const char *model_lacks(const void *row) {
  const ls_model_type *type = row;
  if (type->batch_size < 1) return "batch_size";
  if (type->epochs < 1) return "epochs";
  if (type->num_classes < 1) return "num_classes";
  if (type->create == NULL) return "create";
  if (type->destroy == NULL) return "destroy";
  if (type->train_step == NULL) return "train_step";
  if (type->logits == NULL) return "logits";
  if (type->variables == NULL) return "variables";
  return type->optimizer == NULL ? "optimizer" : NULL;
}

static const ls_table_kind models = {
    .noun = "model",
    .symbol = "ls_exported_models",
    .version = LS_MODEL_TABLE_VERSION,
    .type_size = sizeof(ls_model_type),
    .lacks = model_lacks,
};

// ---- Optimizers ------------------------------------------------------------
static const ls_table_kind optimizers = {
    .noun = "optimizer",
    .symbol = "ls_exported_optimizers",
    .version = LS_OPTIMIZER_TABLE_VERSION,
    .type_size = sizeof(ls_optimizer_rule),
};

ls_status
ls_model_library_optimizers(const ls_model_library *library,
                            const ls_optimizer_rule *const **out_rules,
                            size_t *out_count) {
  const void *const *rules = NULL;
  LS_REQUIRE_OUT(out_rules);
  LS_REQUIRE_OUT(out_count, library);
  LS_RETURN_IF_ERROR(ls_library_table(library, &optimizers, &rules, out_count));
  *out_rules = (const ls_optimizer_rule *const *)rules;
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
static ls_status find_models(ls_model_library *library) {
  const void *const *types = NULL;
  LS_RETURN_IF_ERROR(
      ls_library_table(library, &models, &types, &library->count));
  library->types = (const ls_model_type *const *)types;
  if (dlsym(library->handle, models.symbol) != NULL ||
      dlsym(library->handle, "ls_exported_estimators") != NULL ||
      dlsym(library->handle, optimizers.symbol) != NULL)
    return ls_ok();
  return ls_invalid_argument(
      "'%s' has no models: it does not export '%s'; see LS_EXPORT_MODELS in "
      "lockstep/models.h, LS_EXPORT_ESTIMATORS in lockstep/estimator_table.h, "
      "or LS_EXPORT_OPTIMIZERS in lockstep/optimizer_table.h",
      library->path, models.symbol);
}

static void hash_file(const char *path, char text[LS_SHA256_TEXT]) {
  char bytes[1 << 14];
  ls_sha256 sha;
  FILE *file = fopen(path, "rb");
  ls_sha256_init(&sha);
  for (size_t n;
       file != NULL && (n = fread(bytes, 1, sizeof(bytes), file)) > 0;)
    ls_sha256_add(&sha, bytes, n);
  ls_sha256_print(&sha, text);
  if (file != NULL) (void)fclose(file);
}

ls_status ls_model_library_open(const char *path,
                                ls_model_library *out_library) {
  LS_REQUIRE_OUT(out_library, path);
  struct stat info;
  if (stat(path, &info) != 0)
    return LS_STATUS(LS_NOT_FOUND, "cannot load '%s': %s", path,
                     strerror(errno));
  if (!S_ISREG(info.st_mode))  // A load would wait for a fifo's writer.
    return ls_invalid_argument("cannot load '%s': it is no regular file", path);
  // Adds a slash: dlopen searches other folders for a name without one.
  char full[PATH_MAX];
  const char *resolved = realpath(path, full);
  ls_model_library library = {
      .path = path,
      .handle =
          dlopen(resolved != NULL ? resolved : path, RTLD_NOW | RTLD_LOCAL)};
  if (library.handle == NULL)
    return ls_invalid_argument("cannot load '%s' as a shared library: %s", path,
                               dlerror());
  hash_file(path, library.sha256);
  const ls_status status = find_models(&library);
  if (ls_status_is_ok(status))
    *out_library = library;
  else
    ls_model_library_close(&library);
  return status;
}

void ls_model_library_close(ls_model_library *library) {
  if (library == NULL) return;
  if (library->handle != NULL) dlclose(library->handle);
  *library = (ls_model_library){0};
}

static const ls_model_type *const types[] = {&ls_model_tiny, &ls_model_mlp,
                                             &ls_model_cnn,  &ls_model_resnet20,
                                             &ls_model_unet, &ls_model_gpt};
enum { NUM_TYPES = sizeof(types) / sizeof(types[0]) };

const ls_model_type *const *ls_model_types(size_t *out_count) {
  *out_count = NUM_TYPES;
  return types;
}

const ls_model_type *ls_model_find(const char *name) {
  if (name == NULL) return NULL;
  for (size_t i = 0; i < NUM_TYPES; ++i)
    if (strcmp(types[i]->name, name) == 0) return types[i];
  return NULL;
}

// Refuses a NULL type, which ls_model_find returns for an unknown name.
static ls_status model_check_type(const ls_model_type *type) {
  char names[200] = "";
  size_t at = 0;
  if (type != NULL) return ls_ok();
  for (size_t i = 0; i < NUM_TYPES && at < sizeof(names); ++i)
    at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
                           i == 0 ? "" : ", ", types[i]->name);
  return LS_STATUS(LS_NOT_FOUND,
                   "there is no such model (its type is NULL); the table has "
                   "%s",
                   names);
}

// Returns true if an array of floats broadcasts to the shape of an example.
static bool fits_examples(const ls_array *array, ls_shape example) {
  const ls_shape shape = ls_array_shape(array);
  if (!ls_dtype_is_float(ls_array_dtype(array)) || shape.rank > example.rank)
    return false;
  for (int i = 1; i <= shape.rank; ++i) {
    const int64_t size = shape.dim[shape.rank - i];
    if (size != 1 && size != example.dim[example.rank - i]) return false;
  }
  return true;
}

static ls_status check_normalization(const ls_model_type *type,
                                     const ls_model_options *options) {
  const ls_array *const both[] = {options->mean, options->deviation};
  if (both[0] == NULL && both[1] == NULL) return ls_ok();
  if (both[0] == NULL || both[1] == NULL)
    return ls_invalid_argument("a normalization needs mean and deviation");
  const ls_shape example =
      options->inputs > 0 ? LS_SHAPE(options->inputs) : type->example_shape;
  if (type->example_dtype == LS_DTYPE_I32)
    return ls_invalid_argument("tokens cannot be normalized");
  for (size_t i = 0; i < 2; ++i)
    if (!fits_examples(both[i], example))
      return ls_invalid_argument(
          "a normalization by %s does not fit examples of %s",
          LS_SHAPE_TEXT(ls_array_dtype(both[i]), ls_array_shape(both[i])),
          LS_SHAPE_TEXT(LS_DTYPE_F32, example));
  return ls_ok();
}

static ls_status model_with_defaults(const ls_model_type *type,
                                     const ls_model_options *options,
                                     ls_model_options *out) {
  *out = options != NULL ? *options : (ls_model_options){0};
  if (out->dtype == LS_DTYPE_NONE) out->dtype = LS_DTYPE_F32;
  if (!ls_dtype_is_float(out->dtype))
    return ls_invalid_argument("a model computes in f64, f32, f16 or bf16, "
                               "got %s",
                               ls_dtype_name(out->dtype));
  if (out->decay_steps < 0)
    return ls_invalid_argument("a rate cannot fall over %lld steps",
                               (long long)out->decay_steps);
  if (out->optimizer != NULL &&
      (out->learning_rate != 0 || out->decay_steps != 0))
    return ls_invalid_argument(
        "an optimizer has a learning rate and schedule of its own, so %g over "
        "%lld steps cannot be given with it",
        out->learning_rate, (long long)out->decay_steps);
  if (out->inputs < 0 || (out->inputs > 0 && !type->any_inputs))
    return ls_invalid_argument("it takes examples of %s, not of %lld elements",
                               LS_SHAPE_TEXT(LS_DTYPE_F32, type->example_shape),
                               (long long)out->inputs);
  LS_RETURN_IF_ERROR(check_normalization(type, out));
  if (out->learning_rate == 0) out->learning_rate = type->learning_rate;
  out->type = type;
  return ls_ok();
}

ls_status ls_model_create(const ls_model_type *type,
                          const ls_model_options *options,
                          ls_model *out_model) {
  LS_REQUIRE_OUT(out_model);
  LS_RETURN_IF_ERROR(model_check_type(type));
  LS_REQUIRE(type->create, type->destroy);
  out_model->type = type;
  ls_model_options opts;
  const ls_status refusal = model_with_defaults(type, options, &opts);
  return ls_status_annotate(ls_status_is_ok(refusal)
                                ? type->create(&opts, &out_model->self)
                                : refusal,
                            "while creating model '%s'", type->name);
}

void ls_model_destroy(ls_model *model) {
  if (model->type != NULL) model->type->destroy(model->self);
  *model = (ls_model){0};
}

// Replaces the labels of a batch by zeros of the type's shape.
static ls_status set_labels(const ls_model_type *type, int64_t batch_size,
                            ls_nest *batch) {
  ls_shape shape = {.rank = type->label_shape.rank + 1, .dim = {batch_size}};
  memcpy(shape.dim + 1, type->label_shape.dim,
         (size_t)type->label_shape.rank * sizeof(*shape.dim));
  const ls_nest made =
      LS_TUPLE(ls_nest_retain(ls_nest_item(*batch, 0)),
               ls_nest_zeros(ls_model_type_task(type)->label_dtype, shape));
  ls_nest_release(*batch);
  *batch = made;
  return ls_nest_status(made);
}

ls_status ls_model_synthetic_batch(const ls_model_type *type,
                                   int64_t batch_size, ls_nest *out_batch) {
  LS_REQUIRE_OUT(out_batch);
  LS_RETURN_IF_ERROR(model_check_type(type));
  const bool numbers = ls_model_type_task(type)->label_dtype == LS_DTYPE_F32;
  const bool text = type->example_dtype == LS_DTYPE_I32;
  if (text && !numbers &&
      !ls_shape_equal(type->label_shape, type->example_shape))
    return LS_STATUS(
        LS_UNIMPLEMENTED,
        "synthetic data have labels %s for model '%s', which takes %s",
        LS_SHAPE_TEXT(LS_DTYPE_I32, type->example_shape), type->name,
        LS_SHAPE_TEXT(LS_DTYPE_I32, type->label_shape));
  ls_dataset *dataset = ls_dataset_batch(
      ls_dataset_synthetic(&(ls_synthetic_options){
          .size = batch_size,
          .dtype = type->example_dtype,
          .shape = type->example_shape,
          .num_classes = type->num_classes,
          .label_shape = numbers ? LS_SCALAR : type->label_shape}),
      &(ls_batch_options){.size = batch_size});
  ls_iterator *iterator = NULL;
  ls_status status = ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator);
  if (ls_status_is_ok(status)) status = ls_iterator_next(iterator, out_batch);
  if (ls_status_is_ok(status) && numbers)
    status = set_labels(type, batch_size, out_batch);
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  return status;
}
