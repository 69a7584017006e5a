// SPDX-License-Identifier: Apache-2.0
#include "tpu/replicate/arity.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"

// What is wrong with so many; NULL: nothing.
static const char *complaint(const ls_parameters *parameters, size_t given,
                             size_t *out_number) {
  const size_t least = parameters->count - parameters->num_optional;
  const bool is_exact = parameters->num_optional == 0 && !parameters->variadic;
  *out_number = least;
  if (given < least) return is_exact ? "exactly" : "at least";
  *out_number = parameters->count;
  if (given <= parameters->count || parameters->variadic) return NULL;
  return is_exact ? "exactly" : "at most";
}

static void append_names(ls_text *text, ls_nest inputs) {
  for (size_t i = 0; i < ls_nest_count(inputs); ++i) {
    const ls_nest item = ls_nest_item(inputs, i);
    char printed[200];
    ls_text_append(text, i == 0 ? " (" : ", ");
    ls_text_append(text, item.kind == LS_KIND_TENSOR
                             ? ls_tensor_name(item.as.tensor)
                             : ls_nest_print(item, printed, sizeof(printed)));
  }
  if (ls_nest_count(inputs) > 0) ls_text_append(text, ")");
}

static const char *plural(size_t count) { return count == 1 ? "" : "s"; }

ls_status ls_check_arity(const ls_parameters *parameters, const char *what,
                         ls_nest inputs, const ls_infeed_queue *queue,
                         bool takes_infeed) {
  if (parameters == NULL) return ls_ok();
  const size_t count = ls_nest_count(inputs);
  const size_t elements =
      queue == NULL ? 0 : ls_infeed_queue_num_elements(queue);
  size_t number = 0;
  const char *wrong =
      complaint(parameters, count + (takes_infeed ? elements : 0), &number);
  if (wrong == NULL) return ls_ok();
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, ls_current_allocator());
  ls_text_append_format(&text, "it is given %zu input%s", count, plural(count));
  append_names(&text, inputs);
  if (queue != NULL && takes_infeed)
    ls_text_append_format(&text, " and %zu element%s of infeed queue '%s'",
                          elements, plural(elements),
                          ls_infeed_queue_name(queue));
  else if (queue != NULL)
    ls_text_append_format(&text, "; the infeed is not passed to the condition");
  return ls_invalid_argument("%s takes %s %zu argument%s; %s", what, wrong,
                             number, plural(number), ls_text_data(&text));
}
