// SPDX-License-Identifier: Apache-2.0
// A checkpoint of variables of each type, and what is in a safetensors file:
// half of check-safetensors.
//
// Usage: safetensors write FOLDER   a checkpoint of step 7
//        safetensors show FILE      a line an array: name, type, bytes in hex
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/safetensors.h"
#include "lockstep/full.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "safetensors: %s\n", ls_status_message(status));
  exit(1);
}

static const ls_dtype dtypes[] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};
static const ls_shape shapes[] = {
    {0}, {1, {5}}, {2, {3, 4}}, {3, {2, 0, 3}}, {4, {2, 1, 3, 2}}};
enum {
  DTYPES = sizeof(dtypes) / sizeof(*dtypes),
  SHAPES = sizeof(shapes) / sizeof(*shapes),
  VARIABLES = DTYPES * SHAPES
};

// Byte i is 37 i + 11, of a bool its lowest bit.
static ls_array *make(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  must(ls_array_create(dtype, shape, &array));
  unsigned char *bytes = ls_array_mutable_data(array);
  for (size_t i = 0; i < ls_array_size(array); ++i) {
    bytes[i] = (unsigned char)(37 * i + 11);
    if (dtype == LS_DTYPE_BOOL) bytes[i] &= 1;
  }
  return array;
}

static void write_checkpoint(const char *folder) {
  static char names[VARIABLES][32];
  ls_variable *variables[VARIABLES];
  for (size_t i = 0; i < VARIABLES; ++i) {
    const ls_dtype dtype = dtypes[i / SHAPES];
    LS_OWN(ls_array, array) = make(dtype, shapes[i % SHAPES]);
    snprintf(names[i], sizeof(names[i]), "%s/%zu", ls_dtype_name(dtype),
             i % SHAPES);
    must(ls_variable_create(
        &(ls_variable_options){.name = names[i], .initial_array = array},
        &variables[i]));
  }
  const ls_saver saver = {.variables = variables, .num_variables = VARIABLES};
  ls_checkpoints *checkpoints = NULL;
  must(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = folder, .values = &saver},
      &checkpoints));
  must(ls_checkpoints_save(checkpoints, 7, NULL, 0));
  must(ls_checkpoints_close(checkpoints));
  for (size_t i = 0; i < VARIABLES; ++i)
    ls_variable_release(variables[i]);
}

static void show(const char *path) {
  LS_OWN(ls_safetensors_file, file) = {0};
  must(ls_safetensors_open(ls_runtime_current(), path, &file));
  for (size_t i = 0; i < file.num_entries; ++i) {
    const ls_safetensors_entry *entry = &file.entries[i];
    unsigned char *bytes = malloc(entry->size + 1);
    if (bytes == NULL) abort();
    must(ls_safetensors_get(&file, entry, bytes, NULL));
    printf("%s %s ", entry->name, LS_SHAPE_TEXT(entry->dtype, entry->shape));
    for (size_t k = 0; k < entry->size; ++k)
      printf("%02x", bytes[k]);
    printf("\n");
    free(bytes);
  }
  for (size_t i = 0; i < file.num_notes; ++i)
    printf("note %s=%s -\n", file.notes[i].key, file.notes[i].value);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "write") == 0)
    write_checkpoint(argv[2]);
  else if (argc == 3 && strcmp(argv[1], "show") == 0)
    show(argv[2]);
  else
    return 2;
  return 0;
}
