// SPDX-License-Identifier: Apache-2.0
// Saving weights to a file that other programs read (safetensors), and starting
// a larger net with them: layers are matched by name.
#include <stdio.h>

#include "lockstep/full.h"

static ls_status make(ls_bag *bag, const char *name, int64_t seed,
                      ls_dense_layer **out_body, ls_variable **variables) {
  LS_NAME_SCOPE(name);  // Until the end of the block.
  *out_body = ls_dense_layer_in(bag, .name = "body", .inputs = 3, .units = 3,
                                .seed = seed);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  (void)ls_dense_layer_variables(*out_body, variables, 2);
  return ls_ok();
}

static ls_status first_weight(const ls_dense_layer *layer, double *out_value) {
  ls_array *array = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(ls_dense_layer_kernel(layer), &array));
  *out_value = ls_array_f64(array, 0);
  ls_array_release(array);
  return ls_ok();
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  static const char path[] = "warm_start.safetensors";
  ls_dense_layer *old_body = NULL, *new_body = NULL;
  ls_variable *old[2], *new_ones[2];
  LS_RETURN_IF_ERROR(make(bag, "old", 1, &old_body, old));
  LS_RETURN_IF_ERROR(make(bag, "new", 2, &new_body, new_ones));
  LS_RETURN_IF_ERROR(first_weight(old_body, first));
  LS_RETURN_IF_ERROR(
      ls_saver_save(&(ls_saver){.variables = old, .num_variables = 2}, path));
  const ls_name_map names = {.from = "old/", .to = "new/"};
  LS_RETURN_IF_ERROR(ls_saver_restore_part(
      &(ls_saver){.variables = new_ones, .num_variables = 2}, path,
      &(ls_value_choice){.names = &names, .num_names = 1}, NULL));
  return first_weight(new_body, last);
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first != 0 && first == last;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
