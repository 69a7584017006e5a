// SPDX-License-Identifier: Apache-2.0
// Normalization of examples: means and deviations of a training set, as a text
// in config.json.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"

// Returns the number of means of examples of this shape: one for each number of
// a row, for each channel of images with channels, else one for all.
static int64_t count_means(ls_shape example) {
  return example.rank == 1 || example.rank == 3 ? example.dim[example.rank - 1]
                                                : 1;
}

// ---- Finding ---------------------------------------------------------------
// Sums of one number of the examples so far (Welford).
typedef struct spread {
  double mean, squares;
  int64_t count;
} spread;

static ls_status add_all(const ls_model_type *type, ls_dataset *dataset,
                         spread *all, int64_t count) {
  CLI_OWN(ls_dataset, examples) = ls_train_examples(type, dataset, false);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      examples, &(ls_iterator_options){.name = "normalize"}, &iterator));
  for (;;) {
    CLI_NEXT_OR(return ls_ok(), iterator, &element);
    const ls_array *array = ls_nest_as_array(ls_nest_item(element, 0));
    const int64_t elements = ls_array_num_elements(array);
    for (int64_t i = 0; i < elements; ++i) {
      spread *one = &all[i % count];
      const double value = ls_array_f64(array, i);
      const double before = value - one->mean;
      one->mean += before / (double)++one->count;
      one->squares += before * (value - one->mean);
    }
  }
}

ls_status cli_find_normalization(const ls_model_type *type, ls_dataset *dataset,
                                 char **out_text) {
  enum { ROOM = 64 };
  const int64_t count = count_means(type->example_shape);
  *out_text = NULL;
  CLI_OWN_ARRAY_OR_RETURN(spread, all, (size_t)count);
  CLI_OWN_ARRAY_OR_RETURN(char, text, (size_t)count *ROOM);
  LS_RETURN_IF_ERROR(add_all(type, dataset, all, count));
  for (int64_t i = 0, used = 0; i < count; ++i) {
    const double deviation = sqrt(all[i].squares / (double)all[i].count);
    if (!isfinite(all[i].mean) || !isfinite(deviation))
      return ls_invalid_argument(
          "--normalize: number %lld of the examples has the mean %g: some "
          "example is no finite number there",
          (long long)i + 1, all[i].mean);
    // A number that never differs is only shifted.
    used += snprintf(text + used, ROOM, "%s%.9g,%.9g", i > 0 ? ";" : "",
                     all[i].mean, deviation > 0 ? deviation : 1);
  }
  return cli_hand_over(&text, out_text);
}

// ---- Reading ---------------------------------------------------------------
// Reads "MEAN,DEVIATION" and what follows it: a semicolon or the end.
static bool read_one(const char **at, double *mean, double *deviation) {
  char *end = NULL;
  *mean = strtod(*at, &end);
  if (end == *at || *end != ',') return false;
  *at = end + 1;
  *deviation = strtod(*at, &end);
  if (end == *at || (*end != ';' && *end != '\0')) return false;
  *at = *end == ';' ? end + 1 : end;
  return isfinite(*mean) && isfinite(*deviation) && *deviation > 0;
}

ls_status cli_read_normalization(const ls_model_type *type, const char *text,
                                 ls_array **out_mean,
                                 ls_array **out_deviation) {
  *out_mean = *out_deviation = NULL;
  if (text == NULL || text[0] == '\0') return ls_ok();
  const int64_t count = count_means(type->example_shape);
  const ls_shape shape = count == 1 ? LS_SCALAR : LS_SHAPE(count);
  CLI_OWN(ls_array, mean) = NULL;
  CLI_OWN(ls_array, deviation) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F64, shape, &mean));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F64, shape, &deviation));
  for (int64_t i = 0; i < count; ++i) {
    double values[2] = {0};
    if (!read_one(&text, &values[0], &values[1]))
      return ls_invalid_argument(
          "config.json: \"normalize\" has no mean and deviation for number "
          "%lld of %lld of the examples of model '%s'",
          (long long)i + 1, (long long)count, type->name);
    ls_array_set_f64(mean, i, values[0]);
    ls_array_set_f64(deviation, i, values[1]);
  }
  if (*text != '\0')
    return ls_invalid_argument("config.json: \"normalize\" has more numbers "
                               "than the examples of model '%s'",
                               type->name);
  *out_mean = cli_give(&mean);
  return cli_hand_over(&deviation, out_deviation);
}
