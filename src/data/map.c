// SPDX-License-Identifier: Apache-2.0
// Map: a function of each element. Rows are handed over as nests of views that
// each thread makes once, so that an element costs two copies of its bytes and
// no allocation.
#include "base/plain.h"
#include "base/require.h"
#include "base/values/random.h"
#include "data/own.h"
#include "data/streams.h"

typedef ls_map_dataset map_dataset;

ls_map_call ls_map_call_make(uint64_t seed, uint64_t stream, int64_t epoch,
                             int64_t id) {
  uint32_t bits[4];
  ls_random_bits(&(ls_random_key){.seed = seed,
                                  .stream = stream,
                                  .step = (uint64_t)epoch,
                                  .id = (uint64_t)id},
                 0, bits);
  return (ls_map_call){
      .id = id, .epoch = epoch, .key = (uint64_t)bits[0] << 32 | bits[1]};
}

// Makes the random source of many calls: folds everything but the id once.
static ls_random_source keys_of(const map_dataset *self,
                                const ls_fetch *fetch) {
  return ls_random_source_make(
      &(ls_random_key){.seed = fetch->seed,
                       .stream = self->options.stream,
                       .step = (uint64_t)fetch->epoch});
}

static uint64_t next_key(ls_random_source *source, int64_t id) {
  uint32_t bits[4];
  source->id = (uint64_t)id;
  ls_random_source_bits(source, 0, bits);
  return (uint64_t)bits[0] << 32 | bits[1];
}

// ---- Mapping one element ---------------------------------------------------
static ls_status fill_result(const map_dataset *self, ls_nest element,
                             const ls_map_call *call, ls_nest *result) {
  LS_RETURN_IF_ERROR(ls_element_reuse_row(&self->base, result));
  return self->options.fill(element, *result, call, self->options.user);
}

static ls_status make_result(const map_dataset *self, ls_nest element,
                             const ls_map_call *call, ls_nest *result) {
  LS_RETURN_IF_ERROR(ls_element_replace(
      self->options.call(element, call, self->options.user), result));
  return self->base.num_leaves > 0
             ? ls_dataset_check_element(&self->base, *result)
             : ls_ok();
}

ls_status ls_map_apply(const map_dataset *self, ls_nest element,
                       const ls_map_call *call, ls_nest *result) {
  return ls_status_annotate(
      (self->options.fill != NULL ? fill_result : make_result)(self, element,
                                                               call, result),
      "map '%s' of element %lld", self->name, (long long)call->id);
}

static ls_map_call call_of(const map_dataset *self, const ls_fetch *fetch,
                           int64_t index) {
  return ls_map_call_make(fetch->seed, self->options.stream, fetch->epoch,
                          ls_dataset_id(self->base.inputs[0], fetch, index));
}

// Keeps the element for the next call, unless others also hold it.
static ls_status get_mapped(const ls_dataset *dataset, ls_fetch *fetch,
                            int64_t index, ls_nest *element) {
  const map_dataset *self = (const map_dataset *)dataset;
  ls_fetch_kept *kept = ls_fetch_keep(fetch, dataset);
  if (kept == NULL) return ls_out_of_memory();
  ls_nest input = kept->nests[0];
  kept->nests[0] = ls_none();
  ls_status status = ls_dataset_get(dataset->inputs[0], fetch, index, &input);
  const ls_map_call call = call_of(self, fetch, index);
  if (ls_status_is_ok(status))
    status = ls_map_apply(self, input, &call, element);
  ls_nest *place = &ls_fetch_keep(fetch, dataset)->nests[0];
  ls_nest_release(*place);
  *place = input;
  return status;
}

// ---- Rows ------------------------------------------------------------------
// Bytes of the input that are read at a time, to stay in a cache.
static const size_t most_bytes = 128 << 10;

// Copies row `row` to or from the arrays of an element.
static void move_row(const ls_dataset *dataset, ls_nest element,
                     void *const *rows, size_t row, bool to_rows,
                     ls_nest *leaves) {
  ls_nest_flatten(element, leaves, dataset->num_leaves);
  for (size_t i = 0; i < dataset->num_leaves; ++i) {
    char *at = (char *)rows[i] + row * dataset->row_sizes[i];
    char *data = ls_array_mutable_data(ls_nest_as_array(leaves[i]));
    memcpy(to_rows ? at : data, to_rows ? data : at, dataset->row_sizes[i]);
  }
}

typedef struct row_work {
  const map_dataset *self;
  ls_fetch *fetch;
  ls_random_source keys;
  int64_t *ids;     // Ids of the rows.
  void **input;     // The input's rows, a temporary buffer.
  ls_nest *leaves;  // Room for the leaves of input or result.
} row_work;

static ls_status map_row(row_work *work, size_t from, void *const *rows,
                         size_t to) {
  const map_dataset *self = work->self;
  const ls_dataset *input = self->base.inputs[0];
  ls_fetch_kept *kept = ls_fetch_keep(work->fetch, &self->base);
  if (kept == NULL) return ls_out_of_memory();
  ls_nest element = kept->nests[0], result = kept->nests[1];
  kept->nests[0] = kept->nests[1] = ls_none();
  ls_status status = ls_element_reuse_row(input, &element);
  if (ls_status_is_ok(status)) {
    move_row(input, element, work->input, from, false, work->leaves);
    const int64_t id = work->ids[from];
    const ls_map_call call = {.id = id,
                              .epoch = work->fetch->epoch,
                              .key = next_key(&work->keys, id)};
    status = ls_map_apply(self, element, &call, &result);
  }
  if (ls_status_is_ok(status))
    move_row(&self->base, result, rows, to, true, work->leaves);
  kept->nests[0] = element;
  kept->nests[1] = result;
  return status;
}

static ls_status map_rows(row_work *work, size_t block, const int64_t *indices,
                          size_t count, void *const *rows) {
  const ls_dataset *input = work->self->base.inputs[0];
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t some = count - begin < block ? count - begin : block;
    LS_RETURN_IF_ERROR(ls_dataset_read(input, work->fetch, indices + begin,
                                       some, work->input));
    ls_dataset_find_ids(input, work->fetch, indices + begin, some, work->ids);
    for (size_t i = 0; i < some; ++i) {
      LS_RETURN_IF_ERROR(map_row(work, i, rows, begin + i));
      if (work->fetch->work != NULL)
        ls_runtime_note_input(work->fetch->work->runtime);
    }
  }
  return ls_ok();
}

static ls_status read_mapped(const ls_dataset *dataset, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  const ls_dataset *input = dataset->inputs[0];
  size_t bytes = 1;
  for (size_t i = 0; i < input->num_leaves; ++i)
    bytes += input->row_sizes[i];
  size_t block = most_bytes / bytes + 1;
  if (block > count) block = count;
  const size_t most = input->num_leaves > dataset->num_leaves
                          ? input->num_leaves
                          : dataset->num_leaves;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, ids, block);
  LS_ROOM_OR_RETURN(fetch, void *, between, most);
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, most);
  for (size_t i = 0; i < input->num_leaves; ++i) {
    between[i] = ls_fetch_room(fetch, block * input->row_sizes[i]);
    LS_RETURN_IF_NO_MEMORY(between[i]);
  }
  row_work work = {.self = (const map_dataset *)dataset,
                   .fetch = fetch,
                   .keys = keys_of((const map_dataset *)dataset, fetch),
                   .ids = ids,
                   .input = between,
                   .leaves = leaves};
  return map_rows(&work, block, indices, count, rows);
}

// ---- Making ----------------------------------------------------------------
static void describe_map(const ls_dataset *dataset, ls_text *text) {
  const map_dataset *self = (const map_dataset *)dataset;
  ls_text_append_format(text, "%s: ", self->name);
  ls_structure_print(dataset->structure, dataset->leaves, text);
  if (self->options.stream != 0)
    ls_text_append_format(text, ", stream=%llu",
                          (unsigned long long)self->options.stream);
}

static ls_dataset *remake_map(const ls_dataset *dataset, ls_dataset **inputs);

#define MAP_CLASS                                                              \
  .name = "map", .describe = describe_map, .remake = remake_map,               \
  .get = get_mapped, .stage = &ls_map_stage
static const ls_dataset_class map_class = {MAP_CLASS};
// Maps rows to rows.
static const ls_dataset_class map_rows_class = {MAP_CLASS, .read = read_mapped};

// Applies the function to the first element, to find the results' spec.
static ls_status map_first(map_dataset *self, ls_nest *mapped) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, first) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      self->base.inputs[0], &(ls_iterator_options){.prefetch = LS_SOME(0)},
      &iterator));
  ls_status status = ls_iterator_next(iterator, &first);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    return ls_invalid_argument(
        "map '%s' of no element: give the types of results (ls_map_options)",
        self->name);
  }
  LS_RETURN_IF_ERROR(status);
  // Uses the current runtime, since there is no iterator here.
  ls_runtime *runtime = ls_runtime_current();
  ls_runtime_begin_callback(runtime);
  status = ls_map_apply(self, first, &(ls_map_call){0}, mapped);
  ls_runtime_end_callback(runtime);
  return status;
}

static ls_status fill_map(map_dataset *self, const ls_map_options *options,
                          ls_nest given) {
  LS_OWN(ls_nest, result) = given;
  if ((options->call == NULL) == (options->fill == NULL))
    return ls_invalid_argument("map '%s' needs one of `call` and `fill`",
                               self->name);
  self->base.num_leaves = 0;  // Unknown until map_first.
  if (result.kind == LS_KIND_NONE && options->fill != NULL)
    return ls_invalid_argument("map '%s': `fill` needs the types of results",
                               self->name);
  if (result.kind == LS_KIND_NONE) {
    LS_OWN(ls_nest, mapped) = ls_none();
    LS_RETURN_IF_ERROR(map_first(self, &mapped));
    result = ls_spec_of_element(mapped);
  }
  LS_RETURN_IF_ERROR(ls_dataset_set_spec(&self->base, ls_give(&result)));
  if (options->fill != NULL && self->base.num_leaves > 0 && !self->base.rows)
    return ls_invalid_argument("map '%s': `fill` writes into arrays of known "
                               "shapes; give `call` where they differ",
                               self->name);
  if (self->base.rows && self->base.inputs[0]->rows)
    self->base.kind = &map_rows_class;
  return ls_ok();
}

static ls_dataset *new_map(ls_dataset *input, const ls_map_options *options,
                           ls_user *user, ls_nest result) {
  LS_OWN(ls_nest, given) = result;
  map_dataset *self = (map_dataset *)ls_dataset_new_with(
      &map_class, sizeof(*self), &input, 1, user, ls_ok());
  if (self == NULL) return NULL;
  self->options = *options;
  self->options.result = ls_none();
  ls_format(self->name, sizeof(self->name), "%s",
            options->name != NULL ? options->name : "map");
  self->options.name = self->base.title = self->name;
  if (!ls_status_is_ok(self->base.failure)) return &self->base;
  return ls_dataset_fail(&self->base, fill_map(self, options, ls_give(&given)));
}

static ls_dataset *remake_map(const ls_dataset *dataset, ls_dataset **inputs) {
  const map_dataset *self = (const map_dataset *)dataset;
  return new_map(inputs[0], &self->options, ls_object_retain(dataset->user),
                 ls_dataset_spec_nest(dataset));
}

ls_dataset *ls_dataset_map(ls_dataset *dataset, const ls_map_options *options) {
  LS_DATASET_REQUIRE(options, map_dataset, &map_class, &dataset, 1);
  return new_map(dataset, options,
                 ls_user_create(options->user, options->release),
                 options->result);
}
