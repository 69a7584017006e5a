// SPDX-License-Identifier: Apache-2.0
// Shows the first elements of a data set.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/data/data.h"
#include "cli/look/canvas.h"

enum { MOST_IMAGES = 8, MOST_ELEMENTS = 3, WIDTH = 80 };

// ---- Images ----------------------------------------------------------------
// Returns the example of an element: a tuple's first item, else itself.
static const ls_array *example_of(ls_nest element) {
  return ls_nest_as_array(
      element.kind == LS_KIND_TUPLE ? ls_nest_item(element, 0) : element);
}

static bool is_image(const ls_array *array) {
  if (array == NULL) return false;
  const ls_shape shape = ls_array_shape(array);
  const ls_dtype dtype = ls_array_dtype(array);
  if (dtype != LS_DTYPE_U8 && !ls_dtype_is_float(dtype)) return false;
  return (shape.rank == 2 ||
          (shape.rank == 3 && shape.dim[2] <= 4 && shape.dim[2] >= 1)) &&
         shape.dim[0] >= 4 && shape.dim[1] >= 4;
}

static void print_label(ls_nest element, const ls_dataset *dataset, char *text,
                        size_t size) {
  text[0] = '\0';
  const ls_array *label = element.kind == LS_KIND_TUPLE
                              ? ls_nest_as_array(ls_nest_item(element, 1))
                              : NULL;
  if (label == NULL || !ls_dtype_is_integer(ls_array_dtype(label)) ||
      ls_array_num_elements(label) != 1)
    return;
  const int64_t number = ls_array_i64(label, 0);
  const char *name = ls_image_folder_class(dataset, number);
  snprintf(text, size, "%lld%s%s", (long long)number, name != NULL ? " " : "",
           name != NULL ? name : "");
}

static ls_status draw_images(ls_runtime *runtime, const ls_dataset *dataset,
                             const ls_nest *elements, size_t count) {
  const ls_array *images[MOST_IMAGES];
  char texts[MOST_IMAGES][64];
  const char *captions[MOST_IMAGES];
  bool labelled = false;
  for (size_t i = 0; i < count; ++i) {
    images[i] = example_of(elements[i]);
    print_label(elements[i], dataset, texts[i], sizeof(texts[i]));
    captions[i] = texts[i];
    labelled |= texts[i][0] != '\0';
  }
  const int columns = cli_window_of(STDOUT_FILENO).columns;
  const int width = columns > 0 ? columns : WIDTH;
  return cli_draw(
      images, count,
      &(cli_draw_options){.paint = cli_paint_of(runtime, STDOUT_FILENO),
                          .width = width,
                          .most = width / 4 > 16 ? width / 4 : 16,
                          .captions = labelled ? captions : NULL},
      stdout);
}

// ---- Numbers and texts -----------------------------------------------------
static void print_array(const ls_array *array, char *text, size_t size) {
  const ls_dtype dtype = ls_array_dtype(array);
  const int64_t count = ls_array_num_elements(array);
  const bool several = ls_array_shape(array).rank > 0;
  size_t used = 0;
  text[0] = '\0';
  for (int64_t i = 0; i < count && used + 40 < size; ++i) {
    const char *before = i > 0 ? ", " : (several ? "[" : "");
    if (dtype == LS_DTYPE_STRING) {
      const ls_bytes *bytes = (const ls_bytes *)ls_array_data(array) + i;
      used += (size_t)snprintf(text + used, size - used, "%s\"", before);
      for (size_t k = 0; k < bytes->size && used + 8 < size; ++k) {
        const unsigned char c = (unsigned char)bytes->data[k];
        text[used++] = c >= 0x20 && c != 0x7f ? (char)c : '.';
      }
      const bool cut = used + 8 >= size;
      while (cut && (unsigned char)text[used - 1] > 0x7f)
        --used;  // Perhaps a part of a character.
      used +=
          (size_t)snprintf(text + used, size - used, "\"%s", cut ? "..." : "");
    } else if (ls_dtype_is_float(dtype)) {
      used += (size_t)snprintf(text + used, size - used, "%s%g", before,
                               ls_array_f64(array, i));
    } else if (dtype == LS_DTYPE_U64) {
      used += (size_t)snprintf(text + used, size - used, "%s%llu", before,
                               (unsigned long long)ls_array_i64(array, i));
    } else {
      used += (size_t)snprintf(text + used, size - used, "%s%lld", before,
                               (long long)ls_array_i64(array, i));
    }
    if (i + 1 == count)
      snprintf(text + used, size - used, "%s", several ? "]" : "");
    else if (used + 40 >= size)
      snprintf(text + used, size - used, ", ...]");
  }
}

// Prints "image: [0, 0, 3, ...] label: 9".
static void print_element(int64_t number, ls_nest element) {
  enum { MOST_ITEMS = 12 };
  const size_t count = ls_nest_is_node(element) ? ls_nest_count(element) : 1;
  printf("%lld:", (long long)number);
  const size_t shown = count < MOST_ITEMS ? count : MOST_ITEMS;
  for (size_t i = 0; i < shown; ++i) {
    const ls_nest item =
        ls_nest_is_node(element) ? ls_nest_item(element, i) : element;
    const char *key = ls_nest_is_node(element) ? ls_nest_key(element, i) : NULL;
    const ls_array *array = ls_nest_as_array(item);
    char text[160];
    if (array != NULL && !ls_dtype_is_complex(ls_array_dtype(array)))
      print_array(array, text, count > 2 ? 80 : sizeof(text));
    else
      ls_nest_print(item, text, sizeof(text));
    putchar(' ');
    if (key != NULL) cli_print_clean(key);
    if (key != NULL) putchar('=');
    cli_print_clean(text);
  }
  printf("%s\n", shown < count ? " ..." : "");
}

// Reads the first elements, fewer if they are not images to draw.
static ls_status read_first(ls_dataset *dataset, ls_nest *elements,
                            size_t *out_count, bool *out_images) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  LS_RETURN_IF_ERROR(cli_begin_rows(dataset, &iterator));
  size_t most = MOST_ELEMENTS;
  while (*out_count < most) {
    CLI_NEXT_OR(break, iterator, &elements[*out_count]);
    if (++*out_count > 1 || !is_image(example_of(elements[0]))) continue;
    *out_images = true;
    most = MOST_IMAGES;
  }
  return ls_ok();
}

ls_status cli_show_elements(ls_runtime *runtime, ls_dataset *dataset) {
  ls_nest elements[MOST_IMAGES] = {0};
  size_t count = 0;
  bool are_images = false;
  ls_status status = read_first(dataset, elements, &count, &are_images);
  if (ls_status_is_ok(status) && are_images)
    status = draw_images(runtime, dataset, elements, count);
  for (size_t i = 0; i < MOST_IMAGES; ++i) {
    if (i < count && ls_status_is_ok(status) && !are_images)
      print_element((int64_t)i, elements[i]);
    ls_nest_release(elements[i]);
  }
  return status;
}
