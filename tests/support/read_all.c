// SPDX-License-Identifier: Apache-2.0
#include "support/read_all.h"

#include <string.h>

#include "data/own.h"
#include "support/expect.h"

static void print_leaf(const ls_array *array, ls_text *out) {
  const int64_t count = ls_array_num_elements(array);
  if (ls_array_shape(array).rank > 0) ls_text_append_char(out, '[');
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) ls_text_append_char(out, ',');
    if (ls_array_dtype(array) == LS_DTYPE_STRING) {
      const ls_bytes *text = (const ls_bytes *)ls_array_data(array) + i;
      ls_text_append_char(out, '\'');
      ls_text_append_bytes(out, text->data, text->size);
      ls_text_append_char(out, '\'');
    } else if (ls_dtype_is_float(ls_array_dtype(array))) {
      ls_text_append_format(out, "%g", ls_array_f64(array, i));
    } else {
      ls_text_append_i64(out, ls_array_i64(array, i));
    }
  }
  if (ls_array_shape(array).rank > 0) ls_text_append_char(out, ']');
}

ls_status read_all(ls_dataset *dataset, ls_text *out) {
  ls_iterator *iterator = NULL;
  ls_status status = ls_iterator_create(dataset, NULL, &iterator);
  ls_dataset_release(dataset);
  LS_OWN(ls_nest, element) = ls_none();
  while (ls_status_is_ok(status)) {
    status = ls_iterator_next(iterator, &element);
    if (!ls_status_is_ok(status)) break;
    ls_nest leaves[16];
    const size_t count = ls_nest_flatten(element, leaves, 16);
    for (size_t i = 0; i < count && i < 16; ++i) {
      if (i > 0) ls_text_append_char(out, ' ');
      print_leaf(ls_nest_as_array(leaves[i]), out);
    }
    ls_text_append(out, "; ");
  }
  ls_iterator_release(iterator);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_text_status(out);
}

void expect_elements_at(ls_dataset *dataset, const char *want, const char *file,
                        int line) {
  LS_OWN_BEGUN(ls_text, out, ls_text_init, ls_allocator_system());
  expect_status_at(read_all(dataset, &out), LS_OK, "", file, line);
  if (strcmp(ls_text_data(&out), want) != 0) {
    print_error("wanted %s\ngot    %s\n", want, ls_text_data(&out));
    _fail(file, line);
  }
}

void expect_no_elements_at(ls_dataset *dataset, ls_code code, const char *part,
                           const char *file, int line) {
  LS_OWN_BEGUN(ls_text, out, ls_text_init, ls_allocator_system());
  expect_status_at(read_all(dataset, &out), code, part, file, line);
}

ls_status first_element(ls_dataset *dataset) {
  LS_OWN(ls_dataset, owned) = dataset;
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &iterator));
  return ls_iterator_next(iterator, &element);
}
