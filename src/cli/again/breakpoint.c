// SPDX-License-Identifier: Apache-2.0
#include "cli/again/replay.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "cli/look/layers.h"

// ---- Variables -------------------------------------------------------------
static ls_optimizer *optimizer_of(const ls_model *model) {
  return model->type->optimizer != NULL ? model->type->optimizer(model->self)
                                        : NULL;
}

static void name_file(const cli_breakpoint *at, const char *name,
                      const char *ending, char path[PATH_MAX]) {
  snprintf(path, PATH_MAX, "%s/%s%s", at->folder, name, ending);
}

// Writes a file of values in the other format, too.
static ls_status write_other(const cli_breakpoint *at, const char *name,
                             const char *from, const char *to) {
  char path[PATH_MAX], other[PATH_MAX];
  CLI_OWN(ls_saved_file, file) = NULL;
  name_file(at, name, from, path);
  name_file(at, name, to, other);
  LS_RETURN_IF_ERROR(ls_saved_file_open(path, &file));
  return ls_saved_file_write(
      file, other, &(ls_saved_write_options){.parts = LS_FLAG_ON}, NULL);
}

static ls_status save_variables(const cli_breakpoint *at, const char *name,
                                const ls_model *model, bool restores) {
  char path[PATH_MAX];
  ls_saver saver = {.exact = true};
  size_t slots = 0;
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(cli_list_variables(model, NULL, &variables,
                                        &saver.num_variables, &slots));
  saver.variables = variables;
  name_file(at, name, ".safetensors", path);
  return restores ? ls_saver_restore(&saver, path)
                  : ls_saver_save(&saver, path);
}

// Lists the trained variables of a model. Free the list with cli_release.
static ls_status list_trained(const ls_model *model, ls_variable ***out,
                              size_t *out_count) {
  const size_t count = model->type->variables(model->self, NULL, 0);
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, variables, count);
  const size_t listed = model->type->variables(model->self, variables, count);
  *out_count = 0;
  for (size_t i = 0; i < listed; ++i)
    if (ls_variable_is_trainable(variables[i]))
      variables[(*out_count)++] = variables[i];
  return cli_hand_over(&variables, out);
}

ls_status cli_breakpoint_before(const cli_breakpoint *at,
                                const cli_again *again) {
  bool made = false;
  LS_RETURN_IF_ERROR(cli_make_folder(at->folder, &made));
  const ls_model *model = again->model;
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  size_t count = 0;
  if (optimizer_of(model) != NULL) {  // Before step 1 it has no state.
    LS_RETURN_IF_ERROR(list_trained(model, &variables, &count));
    LS_RETURN_IF_ERROR(
        ls_optimizer_prepare(optimizer_of(model), variables, count));
  }
  LS_RETURN_IF_ERROR(save_variables(at, "variables", model, false));
  return write_other(at, "variables", ".safetensors", ".npz");
}

// ---- The batch -------------------------------------------------------------
void cli_name_examples(const ls_run_context *context, char *text, size_t size) {
  enum { MOST = 8 };
  int64_t examples[MOST];
  size_t count = 0;
  const ls_status status =
      ls_run_context_examples(context, examples, MOST, &count);
  snprintf(text, size, "the batch has examples%s",
           ls_status_is_ok(status) ? "" : " without numbers");
  ls_status_free(status);
  for (size_t i = 0, at; i < count && i <= MOST; ++i) {
    at = strlen(text);
    if (i < MOST)
      snprintf(text + at, size - at, "%s %lld", i == 0 ? "" : ",",
               (long long)examples[i]);
    else
      snprintf(text + at, size - at, " and %zu more", count - MOST);
  }
}

// Adds the arrays of a batch, those of each replica, to the items of a dict.
static size_t list_arrays(ls_nest batch, int64_t replicas, ls_nest *items,
                          char (*keys)[64]) {
  static const char *const names[] = {"examples", "labels"};
  size_t count = 0;
  for (int64_t r = 0; r < replicas; ++r) {
    for (size_t i = 0; i < ls_nest_count(batch) && i < 2; ++i) {
      const ls_nest leaf =
          ls_distributed_component(ls_nest_item(batch, i), (size_t)r);
      if (ls_nest_as_array(leaf) == NULL) continue;
      if (replicas == 1)
        snprintf(keys[count], sizeof(*keys), "%s", names[i]);
      else
        snprintf(keys[count], sizeof(*keys), "replica_%lld/%s", (long long)r,
                 names[i]);
      items[count++] = ls_nest_retain(leaf);
    }
  }
  return count;
}

static ls_status add_numbers(const ls_run_context *context, ls_nest *items,
                             char (*keys)[64], size_t *count) {
  size_t examples = 0;
  CLI_OWN(ls_array, numbers) = NULL;
  const ls_status status = ls_run_context_examples(context, NULL, 0, &examples);
  if (!ls_status_is_ok(status)) {  // A stream.
    ls_status_free(status);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_I64, (ls_shape){1, {(int64_t)examples}}, &numbers));
  LS_RETURN_IF_ERROR(ls_run_context_examples(
      context, ls_array_mutable_data(numbers), examples, &examples));
  snprintf(keys[*count], sizeof(*keys), "numbers");
  items[(*count)++] = ls_nest_array(cli_give(&numbers));
  return ls_ok();
}

static ls_status write_batch(const cli_breakpoint *at, const cli_again *again,
                             const ls_run_context *context) {
  char path[PATH_MAX];
  const ls_nest batch = ls_run_context_args(context);
  const int64_t replicas = ls_strategy_num_replicas(again->strategy);
  const size_t most = 2 * (size_t)replicas + 1;
  typedef char key[64];
  CLI_OWN_ARRAY_OR_RETURN(ls_nest, items, most);
  CLI_OWN_ARRAY_OR_RETURN(key, keys, most);
  CLI_OWN_ARRAY_OR_RETURN(const char *, names, most);
  size_t count = list_arrays(batch, replicas, items, keys);
  LS_RETURN_IF_ERROR(add_numbers(context, items, keys, &count));
  for (size_t i = 0; i < count; ++i)
    names[i] = keys[i];
  CLI_OWN(ls_nest, dict) = ls_nest_dict(NULL, names, items, count);
  name_file(at, "batch", ".npz", path);
  LS_RETURN_IF_ERROR(ls_npz_write(path, dict, LS_FLAG_DEFAULT));
  return write_other(at, "batch", ".npz", ".safetensors");
}

// ---- Gradients -------------------------------------------------------------
// A variable, and the size of its gradient.
typedef struct gradient {
  ls_variable *variable, *kept;
  double largest, squares;
} gradient;

// Makes the step once more, on the same batch, with its gradients kept.
static ls_status make_again(const cli_breakpoint *at, const cli_again *again,
                            const ls_run_context *context) {
  const ls_model *model = again->model;
  CLI_OWN(ls_function, step) = NULL;
  CLI_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = model->type->train_step,
                                                .user = model->self,
                                                .name = "train_step",
                                                .seed = again->seed},
                         &step));
  ls_function_set_steps(step, (uint64_t)at->step - 1);
  return ls_strategy_run(again->strategy, ls_traced(step),
                         ls_run_context_args(context), &results);
}

// Compares the values after both steps.
static ls_status compare_steps(const cli_breakpoint *at) {
  static const char *const names[] = {"after", "again"};
  static const cli_words all;
  char paths[2][PATH_MAX];
  CLI_OWN(ls_saved_file, a) = NULL;
  CLI_OWN(ls_saved_file, b) = NULL;
  size_t different = 0;
  for (int i = 0; i < 2; ++i)
    name_file(at, names[i], ".safetensors", paths[i]);
  LS_RETURN_IF_ERROR(ls_saved_file_open(paths[0], &a));
  LS_RETURN_IF_ERROR(ls_saved_file_open(paths[1], &b));
  LS_RETURN_IF_ERROR(cli_compare_files(
      a, b, &(cli_compare_options){.only = &all, .most = 8}, &different));
  for (int i = 0; i < 2; ++i)
    (void)unlink(paths[i]);
  return different == 0 ? ls_ok()
                        : LS_STATUS(LS_INTERNAL,
                                    "step %lld came to other values when it "
                                    "was made once more",
                                    (long long)at->step);
}

static int by_largest(const void *a, const void *b) {
  const double x = ((const gradient *)a)->largest;
  const double y = ((const gradient *)b)->largest;
  return x < y ? 1 : x > y ? -1 : 0;
}

static ls_status print_gradients(gradient *all, size_t count) {
  enum { MOST = 8 };
  double squares = 0;
  for (size_t i = 0; i < count; ++i) {
    CLI_OWN(ls_array, value) = NULL;
    LS_RETURN_IF_ERROR(ls_variable_value(all[i].kept, &value));
    for (int64_t k = 0; k < ls_array_num_elements(value); ++k) {
      const double x = ls_array_f64(value, k);
      if (!(fabs(x) <= all[i].largest)) all[i].largest = fabs(x);
      all[i].squares += x * x;
    }
    squares += all[i].squares;
  }
  if (squares == 0) {
    printf("gradients: all are zero; the step moves no variable by one\n");
    return ls_ok();
  }
  qsort(all, count, sizeof(*all), by_largest);
  printf("gradients: norm %g; the largest:\n", sqrt(squares));
  for (size_t i = 0; i < count && i < MOST; ++i)
    printf("  %s: %g, norm %g\n", ls_variable_name(all[i].variable),
           all[i].largest, sqrt(all[i].squares));
  return ls_ok();
}

static ls_status keep_gradients(ls_optimizer *optimizer,
                                ls_variable *const *variables, gradient *all,
                                size_t count) {
  LS_RETURN_IF_ERROR(ls_optimizer_keep_gradients(optimizer, variables, count));
  for (size_t i = 0; i < count; ++i) {
    all[i].variable = variables[i];
    LS_RETURN_IF_ERROR(
        ls_optimizer_kept_gradient(optimizer, variables[i], &all[i].kept));
  }
  return ls_ok();
}

static ls_status save_gradients(const cli_breakpoint *at, const gradient *all,
                                size_t count) {
  char path[PATH_MAX];
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, kept, count);
  CLI_OWN_ARRAY_OR_RETURN(const char *, names, count);
  for (size_t i = 0; i < count; ++i) {
    kept[i] = all[i].kept;
    names[i] = ls_variable_name(all[i].variable);
  }
  name_file(at, "gradients", ".safetensors", path);
  LS_RETURN_IF_ERROR(ls_saver_save(
      &(ls_saver){.variables = kept, .num_variables = count, .names = names},
      path));
  return write_other(at, "gradients", ".safetensors", ".npz");
}

ls_status cli_breakpoint_after(const cli_breakpoint *at, const cli_again *again,
                               const ls_run_context *context) {
  const ls_model *model = again->model;
  ls_optimizer *optimizer = optimizer_of(model);
  size_t count = 0;
  char examples[200];
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(list_trained(model, &variables, &count));
  CLI_OWN_ARRAY_OR_RETURN(gradient, all, count);
  LS_RETURN_IF_ERROR(write_batch(at, again, context));
  if (optimizer == NULL)
    return ls_unimplemented("the gradients of model '%s': it has no optimizer "
                            "that keeps them (see ls_model_type.optimizer)",
                            model->type->name);
  LS_RETURN_IF_ERROR(save_variables(at, "after", model, false));
  LS_RETURN_IF_ERROR(save_variables(at, "variables", model, true));
  LS_RETURN_IF_ERROR(keep_gradients(optimizer, variables, all, count));
  LS_RETURN_IF_ERROR(make_again(at, again, context));
  LS_RETURN_IF_ERROR(save_variables(at, "again", model, false));
  LS_RETURN_IF_ERROR(compare_steps(at));
  LS_RETURN_IF_ERROR(save_gradients(at, all, count));
  printf("step %lld: its batch, gradients, and the variables before it are in "
         "%s\n",
         (long long)at->step, at->folder);
  cli_name_examples(context, examples, sizeof(examples));
  printf("%s\n", examples);
  return print_gradients(all, count);
}
