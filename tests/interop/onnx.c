// SPDX-License-Identifier: Apache-2.0
// Reads an ONNX file, runs it and trains it: half of check-onnx.
//
// Usage: onnx MODEL INPUTS.npz OUTPUTS.npz
//
// Writes what the file gives in eager mode as "eager/NAME", in a function as
// "traced/NAME"; prints the losses of eleven steps towards other outputs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"
#include "runtime/own.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "onnx: %s\n", ls_status_message(status));
  exit(1);
}

enum { MOST = 64, STEPS = 11 };

typedef struct net {
  ls_onnx *onnx;
  ls_optimizer *optimizer;
} net;

static ls_nest apply(ls_nest args, void *user) {
  return ls_onnx_apply(((net *)user)->onnx, args, false);
}

// Moves the first output of floats towards 0.3.
static ls_nest step(ls_nest args, void *user) {
  const net *self = user;
  const ls_nest outputs = ls_onnx_apply(self->onnx, args, true);
  if (ls_nest_is_failed(outputs)) return outputs;
  const ls_tensor y = ls_nest_tensor(outputs, 0);
  const ls_tensor loss =
      ls_reduce_mean(ls_square(ls_add_scalar(y, -0.3)), LS_ALL_AXES);
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(loss);
}

static ls_nest load_inputs(const char *path) {
  ls_saved_file *file = NULL;
  ls_saved_info info;
  ls_nest leaves[MOST];
  const char *names[MOST];
  must(ls_saved_file_open(path, &file));
  ls_saved_file_describe(file, &info);
  for (size_t i = 0; i < info.num_entries && i < MOST; ++i) {
    ls_saved_entry entry;
    LS_OWN(ls_array, array) = NULL;
    must(ls_saved_file_entry(file, i, &entry));
    must(ls_saved_file_read(file, i, &array));
    names[i] = entry.name;
    leaves[i] = ls_leaf(ls_constant(array));
  }
  const ls_nest inputs = ls_nest_dict("", names, leaves, info.num_entries);
  ls_saved_file_close(file);
  return inputs;
}

// Adds outputs under "KIND/NAME".
static void add_outputs(const char *kind, ls_nest outputs, ls_nest *leaves,
                        char names[][200], size_t *count) {
  must(ls_nest_status(outputs));
  for (size_t i = 0; i < ls_nest_count(outputs); ++i) {
    const ls_nest leaf = ls_nest_item(outputs, i);
    ls_array *array = ls_nest_as_array(leaf);
    if (array != NULL)
      ls_array_retain(array);
    else
      must(ls_tensor_value(ls_nest_tensor(leaf, 0), &array));
    snprintf(names[*count], 200, "%s/%s", kind, ls_nest_key(outputs, i));
    leaves[(*count)++] = ls_nest_array(array);
  }
}

static void write_outputs(net *self, ls_nest inputs, const char *path) {
  static char names[2 * MOST][200];
  const char *keys[2 * MOST];
  ls_nest leaves[2 * MOST];
  size_t count = 0;
  LS_OWN(ls_function, traced) = NULL;
  LS_OWN(ls_nest, eager) = apply(inputs, self);
  LS_OWN(ls_nest, results) = ls_none();
  must(ls_function_create(
      &(ls_function_options){.call = apply, .user = self, .name = "apply"},
      &traced));
  must(ls_function_call(traced, inputs, &results));
  add_outputs("eager", eager, leaves, names, &count);
  add_outputs("traced", results, leaves, names, &count);
  for (size_t i = 0; i < count; ++i)
    keys[i] = names[i];
  LS_OWN(ls_nest, all) = ls_nest_dict("", keys, leaves, count);
  must(ls_npz_write(path, all, LS_FLAG_OFF));
}

static void train(net *self, ls_nest inputs) {
  LS_OWN(ls_function, function) = NULL;
  must(ls_adam_create(&(ls_adam_options){.learning_rate = 1e-3},
                      &self->optimizer));
  must(ls_function_create(
      &(ls_function_options){.call = step, .user = self, .name = "step"},
      &function));
  for (int i = 0; i < STEPS; ++i) {
    LS_OWN(ls_nest, loss) = ls_none();
    must(ls_function_call(function, inputs, &loss));
    printf("%.9g%s", ls_nest_number(loss), i + 1 < STEPS ? " " : "\n");
  }
  ls_optimizer_release(self->optimizer);
}

int main(int argc, char **argv) {
  net self = {NULL};
  if (argc != 4) return 2;
  must(ls_onnx_load(argv[1], NULL, &self.onnx));
  LS_OWN(ls_nest, inputs) = load_inputs(argv[2]);
  write_outputs(&self, inputs, argv[3]);
  train(&self, inputs);
  ls_onnx_destroy(self.onnx);
  return 0;
}
