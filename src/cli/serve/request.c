// SPDX-License-Identifier: Apache-2.0
// Bodies of requests as arrays, in the formats of TensorFlow Serving:
//
//   {"signature_name": "...", "instances": [row, ...]}   rows of the inputs
//   {"signature_name": "...", "inputs": {"name": ...}}   whole arrays
//
// or an npy file for the only input, or an npz file with all of them.
#include <string.h>

#include "cli/data/json_text.h"
#include "cli/serve/serve.h"
#include "lockstep/files.h"

void cli_request_close(cli_request *request) {
  ls_nest_release(request->inputs);
  *request = (cli_request){0};
}

// ---- Members ---------------------------------------------------------------
// Members of a request, by their positions in the text.
typedef struct members {
  cli_cursor instances, inputs;  // `at` is NULL if there is none.
  int64_t num_instances;
  char *key;
} members;

static void end_members(members *found) { cli_release(found->key); }
CLI_OWNED_STRUCT(members, end_members)

static ls_status read_member(cli_cursor *c, members *out) {
  CLI_OWN_MEMORY(char, name) = NULL;
  LS_RETURN_IF_ERROR(cli_cursor_name(c, &name));
  if (!cli_cursor_take(c, ':')) return cli_cursor_error(c, "':'");
  cli_cursor_space(c);
  const bool rows = strcmp(name, "instances") == 0;
  const bool whole = strcmp(name, "inputs") == 0;
  if ((rows ? out->instances.at : out->inputs.at) != NULL && (rows || whole))
    return cli_cursor_error(c, "each member once");
  if (rows) {
    out->instances = *c;
    return cli_cursor_skip(c, &out->num_instances);
  }
  if (whole) {
    out->inputs = *c;
    return cli_cursor_skip(c, NULL);
  }
  if (strcmp(name, "signature_name") != 0 || out->key != NULL)
    return cli_cursor_error(
        c, "\"instances\" or \"inputs\", and \"signature_name\" at most, as "
           "names of members");
  return cli_cursor_name(c, &out->key);
}

// Checks the whole text, and finds its members.
static ls_status read_members(cli_cursor *c, members *out) {
  if (!cli_cursor_take(c, '{'))
    return cli_cursor_error(c, "an object with \"instances\" or \"inputs\"");
  do
    LS_RETURN_IF_ERROR(read_member(c, out));
  while (cli_cursor_take(c, ','));
  if (!cli_cursor_take(c, '}')) return cli_cursor_error(c, "',' or '}'");
  cli_cursor_space(c);
  if (c->at != c->end) return cli_cursor_error(c, "the end");
  if ((out->instances.at == NULL) == (out->inputs.at == NULL))
    return ls_invalid_argument(
        "a request has either \"instances\", a list of rows, or \"inputs\", "
        "whole arrays");
  return ls_ok();
}

// ---- Arrays ----------------------------------------------------------------
// Arrays of a request that are being read.
typedef struct reading {
  const cli_signature *signature;
  cli_filler fillers[CLI_VALUES];
  ls_array *arrays[CLI_VALUES];
  size_t body_size;
  cli_buffer expanded;  // Rows in place of the body's.
} reading;

static void end_reading(reading *r) {
  for (size_t i = 0; i < CLI_VALUES; ++i)
    ls_array_release(r->arrays[i]);
  cli_release(r->expanded.data);
}
CLI_OWNED_STRUCT(reading, end_reading)

// Completes a shape by the value's lists from dimension `at` on. Unknown sizes
// become those of the first items.
static ls_status infer_shape(cli_cursor c, int at, ls_shape *shape) {
  const bool any = shape->rank == LS_UNKNOWN_RANK;
  if (any) *shape = (ls_shape){.rank = at};
  for (; any || at < shape->rank; ++at) {
    cli_cursor list = c;
    if (!cli_cursor_take(&c, '[')) {
      // The reader of elements reports a list that is missing.
      for (; !any && at < shape->rank; ++at)
        if (shape->dim[at] < 0) shape->dim[at] = 0;
      return ls_ok();
    }
    if (any && at == LS_MAX_RANK)
      return cli_cursor_error(&list, "at most 8 dimensions");
    if (any) shape->rank = at + 1;
    if (any || shape->dim[at] < 0)
      LS_RETURN_IF_ERROR(cli_cursor_skip(&list, &shape->dim[at]));
  }
  return ls_ok();
}

// Makes the array of input `index`.
static ls_status begin_input(reading *r, size_t index, ls_shape shape) {
  const ls_serving_value *input = &r->signature->info.inputs[index];
  cli_filler *f = &r->fillers[index];
  const ls_dtype dtype = input->type.dtype;
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype) &&
      dtype != LS_DTYPE_BOOL)
    return ls_invalid_argument(
        "input '%s' is %s, for which JSON has no numbers: send npy",
        input->name, LS_SHAPE_TEXT(dtype, input->type.shape));
  *f = (cli_filler){.name = input->name, .dtype = dtype, .shape = shape};
  // A body that is too short has a list that is: its reading finds it.
  int64_t count = 1;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.dim[i] > 0 && count > (int64_t)r->body_size / shape.dim[i])
      return ls_ok();
    count *= shape.dim[i];
  }
  LS_RETURN_IF_ERROR(ls_array_create(dtype, shape, &r->arrays[index]));
  f->array = r->arrays[index];
  f->data = ls_array_mutable_data(f->array);
  return ls_ok();
}

static ls_status find_input(const cli_signature *signature, const char *name,
                            size_t *out_index) {
  const ls_serving_info *info = &signature->info;
  for (*out_index = 0; *out_index < info->num_inputs; ++*out_index)
    if (strcmp(name, info->inputs[*out_index].name) == 0) return ls_ok();
  return ls_invalid_argument(
      "signature '%s' has no input '%.64s'; its first is '%s'", info->key, name,
      info->num_inputs > 0 ? info->inputs[0].name : "");
}

// ---- Rows ------------------------------------------------------------------
// Makes the array of an input by its value in the first of `count` rows.
static ls_status begin_rows(reading *r, size_t index, cli_cursor first,
                            int64_t count) {
  ls_shape shape = r->signature->info.inputs[index].type.shape;
  if (shape.rank == 0)
    return ls_invalid_argument(
        "input '%s' has no rows: send \"inputs\" instead of \"instances\"",
        r->signature->info.inputs[index].name);
  if (shape.rank > 0 && shape.dim[0] >= 0 && shape.dim[0] != count)
    return ls_invalid_argument("input '%s' has %lld rows, expected %lld",
                               r->signature->info.inputs[index].name,
                               (long long)count, (long long)shape.dim[0]);
  LS_RETURN_IF_ERROR(infer_shape(first, 1, &shape));
  shape.dim[0] = count;
  return begin_input(r, index, shape);
}

static ls_status read_row(reading *r, size_t index, cli_cursor *c, int64_t row,
                          int64_t count) {
  if (row == 0 && r->fillers[index].name == NULL)
    LS_RETURN_IF_ERROR(begin_rows(r, index, *c, count));
  return cli_filler_read(&r->fillers[index], c, row);
}

// Reads an instance that is an object, by the names of the inputs.
static ls_status read_named_row(reading *r, cli_cursor *c, int64_t row,
                                int64_t count) {
  const ls_serving_info *info = &r->signature->info;
  bool seen[CLI_VALUES] = {false};
  size_t found = 0;
  cli_cursor_take(c, '{');
  while (!cli_cursor_take(c, '}')) {
    CLI_OWN_MEMORY(char, name) = NULL;
    size_t index = 0;
    cli_cursor_take(c, ',');
    LS_RETURN_IF_ERROR(cli_cursor_name(c, &name));
    LS_RETURN_IF_ERROR(find_input(r->signature, name, &index));
    cli_cursor_take(c, ':');
    if (seen[index])
      return ls_invalid_argument("instance %lld has input '%s' twice",
                                 (long long)row, info->inputs[index].name);
    seen[index] = true;
    ++found;
    LS_RETURN_IF_ERROR(read_row(r, index, c, row, count));
  }
  for (size_t i = 0; i < info->num_inputs; ++i)
    if (!seen[i])
      return ls_invalid_argument("instance %lld lacks input '%s'",
                                 (long long)row, info->inputs[i].name);
  return ls_ok();
}

static ls_status read_instances(reading *r, const members *found) {
  cli_cursor c = found->instances;
  const int64_t count = found->num_instances;
  if (!cli_cursor_take(&c, '['))
    return cli_cursor_error(&c, "a list of instances");
  if (count == 0) return ls_invalid_argument("\"instances\" is empty");
  for (int64_t row = 0; row < count; ++row) {
    cli_cursor_take(&c, ',');
    cli_cursor_space(&c);
    if (*c.at == '{') {
      LS_RETURN_IF_ERROR(read_named_row(r, &c, row, count));
    } else if (r->signature->info.num_inputs == 1) {
      LS_RETURN_IF_ERROR(read_row(r, 0, &c, row, count));
    } else {
      return ls_invalid_argument(
          "instance %lld is no object; signature '%s' has %zu inputs, so each "
          "instance names them",
          (long long)row, r->signature->info.key,
          r->signature->info.num_inputs);
    }
  }
  return ls_ok();
}

// ---- Whole arrays ----------------------------------------------------------
static ls_status read_whole(reading *r, size_t index, cli_cursor *c) {
  ls_shape shape = r->signature->info.inputs[index].type.shape;
  LS_RETURN_IF_ERROR(infer_shape(*c, 0, &shape));
  LS_RETURN_IF_ERROR(begin_input(r, index, shape));
  return cli_filler_read(&r->fillers[index], c, -1);
}

static ls_status read_inputs(reading *r, cli_cursor c) {
  const ls_serving_info *info = &r->signature->info;
  cli_cursor_space(&c);
  if (*c.at != '{') {
    if (info->num_inputs == 1) return read_whole(r, 0, &c);
    return cli_cursor_error(&c, "an object with an array for each input");
  }
  cli_cursor_take(&c, '{');
  while (!cli_cursor_take(&c, '}')) {
    CLI_OWN_MEMORY(char, name) = NULL;
    size_t index = 0;
    cli_cursor_take(&c, ',');
    LS_RETURN_IF_ERROR(cli_cursor_name(&c, &name));
    LS_RETURN_IF_ERROR(find_input(r->signature, name, &index));
    cli_cursor_take(&c, ':');
    if (r->fillers[index].name != NULL)
      return ls_invalid_argument("input '%s' is given twice",
                                 info->inputs[index].name);
    LS_RETURN_IF_ERROR(read_whole(r, index, &c));
  }
  return ls_ok();
}

// ---- Requests --------------------------------------------------------------
// Checks the tokens of a language model.
static ls_status check_tokens(const cli_language *language,
                              const ls_serving_value *input,
                              const ls_array *tokens) {
  if (language->decoder == NULL || input->type.dtype != LS_DTYPE_I32)
    return ls_ok();
  for (int64_t i = 0; i < ls_array_num_elements(tokens); ++i) {
    const int64_t token = ls_array_i64(tokens, i);
    if (token < 0 || token >= language->all)
      return ls_invalid_argument(
          "number %lld of input '%s' is %lld: the model's tokens are 0 to %lld",
          (long long)i + 1, input->name, (long long)token,
          (long long)language->all - 1);
  }
  return ls_ok();
}

// Makes the dict of a request's inputs, and finds their number of rows.
static ls_status take_inputs(reading *r, cli_request *out) {
  const ls_serving_info *info = &r->signature->info;
  const char *names[CLI_VALUES];
  ls_nest items[CLI_VALUES];
  out->rows = -1;
  for (size_t i = 0; i < info->num_inputs; ++i) {
    const ls_shape shape = ls_array_shape(r->arrays[i]);
    const int64_t rows = shape.rank > 0 ? shape.dim[0] : -1;
    LS_RETURN_IF_ERROR(check_tokens(&r->signature->model->language,
                                    &info->inputs[i], r->arrays[i]));
    if (i == 0) out->rows = rows;
    if (rows != out->rows && r->signature->batched)
      return ls_invalid_argument("input '%s' has %lld rows, '%s' has %lld",
                                 info->inputs[0].name, (long long)out->rows,
                                 info->inputs[i].name, (long long)rows);
    if (rows != out->rows) out->rows = -1;
  }
  if (r->signature->batched && out->rows == 0)
    return ls_invalid_argument("the inputs have no rows");
  for (size_t i = 0; i < info->num_inputs; ++i) {
    names[i] = info->inputs[i].name;
    items[i] = ls_nest_array(cli_give(&r->arrays[i]));
  }
  out->inputs = ls_nest_dict("", names, items, info->num_inputs);
  return ls_nest_status(out->inputs);
}

static ls_status complete_inputs(reading *r, cli_request *out) {
  const ls_serving_info *info = &r->signature->info;
  for (size_t i = 0; i < info->num_inputs; ++i) {
    cli_filler *f = &r->fillers[i];
    if (f->name == NULL)
      return ls_invalid_argument("signature '%s' needs input '%s', which is %s",
                                 info->key, info->inputs[i].name,
                                 LS_SHAPE_TEXT(info->inputs[i].type.dtype,
                                               info->inputs[i].type.shape));
    if (f->data == NULL)
      return ls_invalid_argument("input '%s' has fewer elements than its shape",
                                 f->name);
  }
  return take_inputs(r, out);
}

static ls_status parse_json(const cli_served *model, const char *key,
                            const char *body, size_t size, reading *r,
                            cli_request *out) {
  cli_cursor c = {.text = body, .at = body, .end = body + size};
  CLI_OWN(members, found) = {0};
  LS_RETURN_IF_ERROR(read_members(&c, &found));
  if (key != NULL && found.key != NULL)
    return ls_invalid_argument(
        "the signature stands in the address and in the body: one is enough");
  if (key == NULL) key = found.key;
  LS_RETURN_IF_ERROR(cli_served_find(model, key, &out->signature));
  r->signature = out->signature;
  out->columns = found.inputs.at != NULL;
  if (!out->columns)
    LS_RETURN_IF_ERROR(cli_expand_columns(r->signature, found.num_instances,
                                          &found.instances, &r->expanded));
  r->body_size += r->expanded.size;
  LS_RETURN_IF_ERROR(out->columns ? read_inputs(r, found.inputs)
                                  : read_instances(r, &found));
  return complete_inputs(r, out);
}

// ---- npy and npz -----------------------------------------------------------
bool cli_takes_bytes(const ls_serving_value *input) {
  const ls_shape shape = input->type.shape;
  return strcmp(input->name, "examples") == 0 &&
         input->type.dtype == LS_DTYPE_F32 && shape.rank == 4 &&
         shape.dim[3] >= 1 && shape.dim[3] <= 4;
}

// Makes numbers of bytes, with the bits of ls_train_examples.
static ls_status scale_bytes(const ls_array *array, ls_array **out) {
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, ls_array_shape(array), out));
  const uint8_t *from = ls_array_data(array);
  float *to = ls_array_mutable_data(*out);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    to[i] = (float)from[i] * (float)(1.0 / 255);
  return ls_ok();
}

static ls_status take_array(reading *r, size_t index, const ls_array *array) {
  const ls_serving_value *input = &r->signature->info.inputs[index];
  const ls_shape shape = ls_array_shape(array), wanted = input->type.shape;
  const ls_dtype dtype = ls_array_dtype(array);
  const bool bytes = dtype == LS_DTYPE_U8 && input->type.dtype != dtype;
  const bool scaled = bytes && cli_takes_bytes(input);
  bool fits = (dtype == input->type.dtype || scaled) &&
              (wanted.rank == shape.rank || wanted.rank == LS_UNKNOWN_RANK);
  for (int i = 0; fits && i < wanted.rank; ++i)
    fits = wanted.dim[i] < 0 || wanted.dim[i] == shape.dim[i];
  if (!fits)
    return ls_invalid_argument(
        "input '%s' is %s, the array is %s%s%s", input->name,
        LS_SHAPE_TEXT(input->type.dtype, wanted), LS_SHAPE_TEXT(dtype, shape),
        dtype == input->type.dtype || scaled
            ? ""
            : ": convert it with NumPy's astype",
        bytes && !scaled && ls_dtype_is_float(input->type.dtype)
            ? ", and divide by 255 if the model was trained on bytes, which "
              "training divides"
            : "");
  if (scaled) return scale_bytes(array, &r->arrays[index]);
  r->arrays[index] = ls_array_retain((ls_array *)(uintptr_t)array);
  return ls_ok();
}

static ls_status parse_npz(reading *r, const char *body, size_t size) {
  const ls_serving_info *info = &r->signature->info;
  CLI_OWN(ls_nest, arrays) = ls_none();
  LS_RETURN_IF_ERROR(ls_npz_parse(body, size, 8 * size + 4096, &arrays));
  for (size_t i = 0; i < ls_nest_count(arrays); ++i) {
    const char *name = ls_nest_key(arrays, i);
    size_t index = 0;
    LS_RETURN_IF_ERROR(find_input(r->signature, name, &index));
    LS_RETURN_IF_ERROR(
        take_array(r, index, ls_nest_as_array(ls_nest_item(arrays, i))));
  }
  for (size_t i = 0; i < info->num_inputs; ++i)
    if (r->arrays[i] == NULL)
      return ls_invalid_argument("the npz file lacks input '%s'",
                                 info->inputs[i].name);
  return ls_ok();
}

static ls_status parse_npy(const cli_served *model, const char *key,
                           const char *body, size_t size, reading *r,
                           cli_request *out) {
  CLI_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(cli_served_find(model, key, &out->signature));
  r->signature = out->signature;
  out->columns = true;
  if (size > 2 && memcmp(body, "PK", 2) == 0) {
    LS_RETURN_IF_ERROR(parse_npz(r, body, size));
    return take_inputs(r, out);
  }
  if (r->signature->info.num_inputs != 1)
    return ls_invalid_argument(
        "signature '%s' has %zu inputs: send an npz file with all of them",
        r->signature->info.key, r->signature->info.num_inputs);
  LS_RETURN_IF_ERROR(ls_npy_parse(body, size, &array));
  LS_RETURN_IF_ERROR(take_array(r, 0, array));
  return take_inputs(r, out);
}

ls_status cli_request_parse(const cli_served *model, const char *key,
                            cli_body_kind kind, const char *body, size_t size,
                            cli_request *out) {
  *out = (cli_request){0};
  CLI_OWN(reading, r) = {.body_size = size};
  return kind == CLI_BODY_JSON ? parse_json(model, key, body, size, &r, out)
                               : parse_npy(model, key, body, size, &r, out);
}
