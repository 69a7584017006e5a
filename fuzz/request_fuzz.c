// SPDX-License-Identifier: Apache-2.0
// Any body is a request of `lockstep serve`, whose arrays fit the signature, or
// gives a status; arrays that are read from JSON are written and read again as
// they were. The first byte selects the kind of body and the signature.
#define _GNU_SOURCE
#include "bytes_files.h"

// The program's own files, which are not in the library.
#include "cli/data/data_classes.c"
#include "cli/data/json_text.c"
#include "cli/json.c"
#include "cli/serve/answer.c"
#include "cli/serve/columns.c"
#include "cli/serve/model.c"
#include "cli/serve/request.c"
#include "cli/words.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void *cli_allocate(size_t size) {
  void *memory = malloc(size > 0 ? size : 1);
  if (memory != NULL) memset(memory, 0, size);
  return memory;
}

void cli_release(void *memory) { free(memory); }

ls_status cli_open_file(const char *path, FILE **out_file) {
  *out_file = NULL;
  return ls_not_found("'%s'", path);
}

ls_status cli_kept_math(const char *path, const char *kept,
                        const char **out_math) {
  (void)out_math;
  return ls_not_found("'%s': %s", path, kept);
}

void cli_say(const char *command, const char *format, ...) {
  (void)command, (void)format;
}

bool cli_refuse(const char *command, const char *format, ...) {
  (void)command, (void)format;
  return false;
}

int cli_report(const char *command, ls_status status) {
  (void)command;
  ls_status_free(status);
  return CLI_FAILED;
}

// ---- Signatures ------------------------------------------------------------
#define VALUE(key, of, ...)                                                    \
  {                                                                            \
    key, { LS_DTYPE_##of, LS_SHAPE(__VA_ARGS__) }                              \
  }

static const ls_serving_value rows[] = {VALUE("x", F32, -1, 2)};
static const ls_serving_value pairs[] = {VALUE("n", I8, -1),
                                         VALUE("s", I64, -1, -1)};
static const ls_serving_value kinds[] = {
    VALUE("u", U64, -1, 2), VALUE("d", F64, -1), VALUE("b", BOOL, -1, 1, 2),
    VALUE("h", F16, -1)};
static const ls_serving_value whole[] = {
    {"any", {LS_DTYPE_F32, {.rank = LS_UNKNOWN_RANK}}},
    {"one", {LS_DTYPE_I32, {.rank = 0}}}};

#define SIGNATURE(name, values)                                                \
  {                                                                            \
    .key = name, .inputs = values, .outputs = values,                          \
    .num_inputs = sizeof(values) / sizeof(*values),                            \
    .num_outputs = sizeof(values) / sizeof(*values)                            \
  }
static const ls_serving_info infos[] = {
    SIGNATURE("serving_default", rows), SIGNATURE("pairs", pairs),
    SIGNATURE("kinds", kinds), SIGNATURE("whole", whole)};
enum { INFOS = sizeof(infos) / sizeof(*infos) };

static cli_signature signatures[INFOS];
static ls_train_config config = {
    .columns = "c", .categories = "c\nblue\nred\n\n", .bytes = ""};
static cli_served model = {
    .signatures = signatures, .num_signatures = INFOS, .config = &config};

static void check_request(const cli_request *request) {
  const ls_serving_info *info = &request->signature->info;
  if (ls_nest_count(request->inputs) != info->num_inputs) abort();
  for (size_t i = 0; i < info->num_inputs; ++i) {
    const ls_type wanted = info->inputs[i].type;
    const ls_array *array = ls_nest_as_array(ls_nest_item(request->inputs, i));
    const ls_shape shape = ls_array_shape(array);
    if (ls_array_dtype(array) != wanted.dtype) abort();
    if (wanted.shape.rank >= 0 && wanted.shape.rank != shape.rank) abort();
    for (int k = 0; k < wanted.shape.rank; ++k)
      if (wanted.shape.dim[k] >= 0 && wanted.shape.dim[k] != shape.dim[k])
        abort();
    if (request->signature->batched && shape.dim[0] != request->rows) abort();
  }
}

static void compare_arrays(const ls_array *a, const ls_array *b) {
  // Nothing but the first size of an empty array can be read again.
  if (ls_array_num_elements(a) == 0 && ls_array_num_elements(b) == 0) return;
  if (!ls_shape_equal(ls_array_shape(a), ls_array_shape(b))) abort();
  if (memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) != 0)
    abort();
}

// Writes the inputs as a request, and reads it again.
static void read_again(const cli_request *request) {
  cli_buffer text = {0};
  cli_request again;
  FILE *to = cli_buffer_open(&text);
  fprintf(to, "{\"signature_name\":\"%s\",\"inputs\":",
          request->signature->info.key);
  cli_write_values(to, request->inputs);
  fputs("}", to);
  fclose(to);
  const ls_status status = cli_request_parse(&model, NULL, CLI_BODY_JSON,
                                             text.data, text.size, &again);
  // Sizes within an empty list cannot be inferred.
  bool empty = false;
  for (size_t i = 0; i < ls_nest_count(request->inputs); ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(request->inputs, i));
    empty = empty || ls_array_num_elements(array) == 0;
    if (ls_status_is_ok(status))
      compare_arrays(array, ls_nest_as_array(ls_nest_item(again.inputs, i)));
  }
  if (!ls_status_is_ok(status) && !empty) abort();
  ls_status_free(status);
  cli_request_close(&again);
  cli_release(text.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes_files_runtime();
  for (size_t i = 0; i < INFOS; ++i)
    cli_signature_init(&model, &infos[i], &signatures[i]);
  if (size == 0) return 0;
  const bool npy = data[0] % 2 == 1;
  const int selected = data[0] / 2 % (INFOS + 1);
  model.name = (char[]){"m"};
  cli_request request;
  const ls_status status =
      cli_request_parse(&model, selected < INFOS ? infos[selected].key : NULL,
                        npy ? CLI_BODY_NPY : CLI_BODY_JSON,
                        (const char *)data + 1, size - 1, &request);
  if (ls_status_is_ok(status)) {
    check_request(&request);
    if (!npy) read_again(&request);
  }
  ls_status_free(status);
  cli_request_close(&request);
  return 0;
}
