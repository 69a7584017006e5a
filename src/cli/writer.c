// SPDX-License-Identifier: Apache-2.0
#include "cli/writer.h"

#include <math.h>
#include <string.h>

// ---- Choosing bytes --------------------------------------------------------
// Takes the most likely byte, also where a division would overflow.
static bool is_greedy(const cli_drawing *drawing) {
  return drawing->temperature < 1e-6;
}

// Chooses a token by its logits: the largest after adding Gumbel noise, which
// draws by their softmax.
static ls_nest choose_token(ls_nest args, void *user) {
  const cli_drawing *drawing = user;
  const ls_tensor logits = ls_nest_tensor(args, 0);
  const int64_t classes = ls_tensor_shape(logits).dim[0];
  const bool all = drawing->top_k == 0 || drawing->top_k > classes;
  const int64_t count = is_greedy(drawing) ? 1 : all ? classes : drawing->top_k;
  const ls_op best = ls_top_k(logits, count);
  const ls_tensor values = ls_op_output(best, 0),
                  tokens = ls_op_output(best, 1);
  if (is_greedy(drawing)) return ls_leaf(tokens);
  const ls_tensor temperature = ls_scalar(LS_DTYPE_F32, drawing->temperature);
  const ls_tensor scores =
      ls_div(ls_sub(values, ls_reduce_max(values, LS_AXES(0))), temperature);
  const ls_tensor uniform =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(count), 0, 1, NULL);
  const ls_tensor noise = ls_neg(ls_log(ls_neg(ls_log(uniform))));
  return ls_leaf(ls_gather(tokens, ls_argmax(ls_add(scores, noise), 0), 0));
}

ls_status cli_writer_open(const cli_drawing *drawing, cli_language *language,
                          cli_writer *out) {
  *out = (cli_writer){.drawing = *drawing, .language = language};
  return ls_function_create(&(ls_function_options){.call = choose_token,
                                                   .user = &out->drawing,
                                                   .name = "choose",
                                                   .seed = drawing->seed},
                            &out->choose);
}

void cli_writer_close(cli_writer *self) {
  ls_nest_release(self->chosen);
  ls_function_release(self->choose);
}

ls_status cli_writer_begin(cli_writer *self, int64_t sample, const char *prompt,
                           size_t size) {
  const cli_language *language = self->language;
  if (size == 0 && '\n' >= language->classes)
    return ls_invalid_argument(
        "a text without a prompt begins after a line's end, byte %d, and the "
        "model has %lld classes: give a prompt",
        '\n', (long long)language->classes);
  for (size_t i = 0; i < size; ++i)
    if ((unsigned char)prompt[i] >= language->classes)
      return ls_invalid_argument(
          "byte %zu of the prompt, counted from 0, is %d: the model has %lld "
          "classes, so its texts have bytes below that",
          i, (unsigned char)prompt[i], (long long)language->classes);
  if (size == 0) {
    prompt = "\n";
    size = 1;
  }
  const size_t most = (size_t)language->tokens;
  const size_t count = size < most ? size : most;
  CLI_OWN_ARRAY_OR_RETURN(int32_t, tokens, count);
  for (size_t i = 0; i < count; ++i)
    tokens[i] = (unsigned char)prompt[size - count + i];
  // Each text has draws of its own, whatever the length of others.
  ls_function_set_steps(self->choose, (uint64_t)sample << 32);
  return ls_decoder_begin(language->decoder, tokens, (int64_t)count,
                          &self->logits);
}

ls_status cli_writer_next(cli_writer *self, unsigned char *out_byte) {
  const cli_language *language = self->language;
  const int64_t classes = language->classes;
  CLI_OWN(ls_nest, args) = ls_none();
  ls_array *row = NULL;
  float values[CLI_BYTES];
  if (self->logits == NULL)
    LS_RETURN_IF_ERROR(
        ls_decoder_next(language->decoder, self->last, &self->logits));
  for (int64_t i = 0; i < classes; ++i) {
    values[i] = (float)ls_array_f64(self->logits, i);
    if (isnan(values[i]))
      return ls_invalid_argument("logits of the model are NaN");
  }
  self->logits = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(classes), values, &row));
  args = LS_TUPLE(ls_nest_array(row));
  LS_RETURN_IF_ERROR(ls_function_call(self->choose, args, &self->chosen));
  self->last = (int32_t)ls_array_i64(ls_nest_as_array(self->chosen), 0);
  *out_byte = (unsigned char)self->last;
  return ls_ok();
}
