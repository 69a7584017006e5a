// SPDX-License-Identifier: Apache-2.0
// Reads a CSV file with typed columns, shuffles and batches its rows. Link with
// lockstep-io.
#include <stdio.h>

#include "lockstep/full.h"

enum { ROWS = 10 };

static ls_status write_file(const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL) return ls_not_found("cannot write '%s'", path);
  fprintf(file, "width,height,kind\n");
  for (int i = 0; i < ROWS; ++i)
    fprintf(file, "%d.5,%d,%s\n", i, 10 * i, i % 2 == 0 ? "even" : "odd");
  return fclose(file) == 0 ? ls_ok() : ls_not_found("cannot write '%s'", path);
}

static ls_status run(ls_bag *bag, double *first, double *last) {
  static const char path[] = "csv_rows.csv";
  static const ls_csv_column columns[] = {
      {.name = "width", .dtype = LS_DTYPE_F32},
      {.name = "height", .dtype = LS_DTYPE_I64}};
  LS_RETURN_IF_ERROR(write_file(path));
  ls_dataset *data = ls_dataset_csv(
      LS_PATHS(path), &(ls_csv_options){.columns = columns, .num_columns = 2});
  data = ls_dataset_shuffle(data, &(ls_shuffle_options){.seed = 1});
  data = ls_dataset_batch(data, &(ls_batch_options){.size = 4});
  ls_iterator *batches = ls_iterator_in(bag, ls_dataset_in(bag, data));
  ls_nest *batch = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; i < 3; ++i) {  // Of 4, 4 and 2 rows.
    LS_RETURN_IF_ERROR(ls_iterator_next(batches, batch));
    const ls_array *heights = ls_nest_as_array(ls_nest_find(*batch, "height"));
    const ls_array *widths = ls_nest_as_array(ls_nest_find(*batch, "width"));
    for (int64_t k = 0; k < ls_array_num_elements(heights); ++k) {
      *first += ls_array_f64(widths, k);
      *last += ls_array_f64(heights, k);
    }
  }
  return ls_ok();
}

int main(void) {
  ls_bag bag = {0};
  double first = 0, last = 0;
  const ls_status status = run(&bag, &first, &last);
  printf("%.4f, then %.4f %s\n", first, last, ls_status_message(status));
  const bool ok = ls_status_is_ok(status) && first == 50 && last == 450;
  ls_status_free(status);
  ls_bag_empty(&bag);
  return ok ? 0 : 1;
}
