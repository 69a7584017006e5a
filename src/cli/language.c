// SPDX-License-Identifier: Apache-2.0
#include "cli/language.h"

#include <math.h>
#include <string.h>

#include "cli/serve/serve.h"

// ---- Models ----------------------------------------------------------------
ls_status cli_language_refuse(const char *name) {
  return ls_invalid_argument(
      "'%s' is not a language model: generating text needs one that takes "
      "tokens i32[N] and has logits of the token after each",
      name);
}

bool cli_is_language(const ls_model_type *type) {
  return type->example_dtype == LS_DTYPE_I32 && type->example_shape.rank == 1 &&
         ls_shape_equal(type->example_shape, type->label_shape);
}

ls_status cli_language_of_run(const cli_run *run, const ls_train_config *config,
                              const ls_model_type *type,
                              ls_status (*body)(void *user,
                                                cli_language *language),
                              void *user) {
  CLI_OWN(ls_graph, graph) = NULL;
  CLI_OWN(cli_inference, built) = {0};
  CLI_OWN(ls_session, session) = NULL;
  CLI_OWN(ls_decoder, decoder) = NULL;
  if (!cli_is_language(type)) return cli_language_refuse(type->name);
  LS_RETURN_IF_ERROR(ls_graph_create(type->name, &graph));
  LS_RETURN_IF_ERROR(cli_build_inference(config, type, graph, &built));
  LS_RETURN_IF_ERROR(ls_session_create(graph, &session));
  LS_RETURN_IF_ERROR(cli_load_run(run, &built.model, session));
  LS_RETURN_IF_ERROR(
      ls_decoder_create(session, built.examples, built.logits, &decoder));
  cli_language language = {
      .tokens = type->example_shape.dim[0],
      .classes = type->num_classes < CLI_BYTES ? type->num_classes : CLI_BYTES,
      .decoder = decoder};
  return body(user, &language);
}

typedef struct run_use {
  cli_run *run;
  ls_status (*body)(void *user, cli_language *language);
  void *user;
} run_use;

static ls_status use_run(void *user, const ls_train_config *config,
                         const ls_model_type *type) {
  const run_use *use = user;
  return cli_language_of_run(use->run, config, type, use->body, use->user);
}

// ---- Exports ---------------------------------------------------------------
ls_status cli_language_find(cli_served *served) {
  cli_language *out = &served->language;
  cli_signature *found = NULL;
  CLI_OWN(ls_status, missing) = cli_served_find(served, NULL, &found);
  for (size_t i = 0; found != NULL && i < found->info.num_outputs; ++i) {
    const ls_shape logits = found->info.outputs[i].type.shape;
    CLI_OWN(ls_status, status) =
        ls_serving_create_decoder(served->serving, found->info.key,
                                  found->info.outputs[i].name, &out->decoder);
    if (ls_status_code(status) == LS_INVALID_ARGUMENT) continue;
    out->tokens = logits.dim[1];
    out->all = logits.dim[2];
    out->classes = out->all < CLI_BYTES ? out->all : CLI_BYTES;
    return cli_give(&status);
  }
  return ls_ok();
}

ls_status cli_language_warm(cli_language *self) {
  const int32_t token = 0;
  const ls_array *logits = NULL;
  if (self->decoder == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_decoder_begin(self->decoder, &token, 1, &logits));
  return self->tokens > 1 ? ls_decoder_next(self->decoder, token, &logits)
                          : ls_ok();
}

static ls_status use_export(void *user, cli_served *served) {
  const run_use *use = user;
  LS_RETURN_IF_ERROR(cli_language_find(served));
  return served->language.decoder != NULL
             ? use->body(use->user, &served->language)
             : cli_language_refuse(served->name);
}

int cli_with_language(cli_run *run,
                      ls_status (*body)(void *user, cli_language *language),
                      void *user) {
  run_use use = {.run = run, .body = body, .user = user};
  return cli_is_export(run->folder) ? cli_with_export(run, use_export, &use)
                                    : cli_with_run(run, use_run, &use);
}

// ---- Scores ----------------------------------------------------------------
// Returns the cross-entropy of a label by logits from number `first` on.
static double find_loss(const ls_array *logits, int64_t first, int64_t label) {
  const int64_t classes = ls_array_shape(logits).dim[2];
  double largest = -INFINITY, sum = 0;
  for (int64_t i = first; i < first + classes; ++i)
    largest = fmax(largest, ls_array_f64(logits, i));
  for (int64_t i = first; i < first + classes; ++i)
    sum += exp(ls_array_f64(logits, i) - largest);
  return largest + log(sum) - ls_array_f64(logits, first + label);
}

// Computes the sum of the losses of a line's bytes from number `at` on, at most
// a window of them, and of its end.
static ls_status score_window(cli_language *self, ls_bytes line, size_t at,
                              int32_t *window, double *sum) {
  const ls_array *logits = NULL;
  const int64_t left = (int64_t)(line.size + 1 - at);
  const int64_t count = left < self->tokens ? left : self->tokens;
  for (int64_t i = 0; i <= count; ++i) {
    // The line's end before it, its bytes, and its end.
    const size_t place = at + (size_t)i;
    const bool is_end = place == 0 || place > line.size;
    const unsigned char byte =
        is_end ? '\n' : (unsigned char)line.data[place - 1];
    if (is_end && byte >= self->classes)
      return ls_invalid_argument(
          "a line's end is byte %d, and scores count it: the model has %lld "
          "classes, so its texts have bytes below that",
          byte, (long long)self->classes);
    if (byte >= self->classes)
      return ls_invalid_argument(
          "byte %zu, counted from 0, is %d: the model has %lld classes, so its "
          "texts have bytes below that",
          place - 1, byte, (long long)self->classes);
    window[i] = byte;
  }
  memset(window + count + 1, 0,
         (size_t)(self->tokens - count) * sizeof(*window));
  LS_RETURN_IF_ERROR(ls_decoder_run(self->decoder, window, &logits));
  for (int64_t i = 0; i < count; ++i)
    *sum += find_loss(logits, i * ls_array_shape(logits).dim[2], window[i + 1]);
  return ls_ok();
}

static ls_status score_line(cli_language *self, ls_bytes line, int64_t row,
                            int32_t *window) {
  double sum = 0;
  for (size_t at = 0; at <= line.size; at += (size_t)self->tokens)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(score_window(self, line, at, window, &sum),
                           "in line %lld, counted from 0", (long long)row));
  const double loss = sum / (double)(line.size + 1);
  cli_print_member('{', "loss", loss, 6);
  cli_print_member(',', "perplexity", exp(loss), 6);
  printf(",\"row\":%lld}\n", (long long)row);
  return ls_ok();
}

ls_status cli_language_score(cli_language *self, const cli_files *files,
                             int64_t limit) {
  CLI_OWN(ls_dataset, lines) = NULL;
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, line) = ls_none();
  CLI_OWN_ARRAY_OR_RETURN(int32_t, window, (size_t)self->tokens + 1);
  LS_RETURN_IF_ERROR(cli_text_lines(files, &lines));
  LS_RETURN_IF_ERROR(ls_iterator_create(lines, NULL, &iterator));
  for (int64_t row = 0; row < limit || limit == 0; ++row) {
    CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &line);
    if (ls_status_code(status) == LS_OUT_OF_RANGE || ferror(stdout)) break;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    const ls_bytes *bytes = ls_array_data(ls_nest_as_array(line));
    LS_RETURN_IF_ERROR(score_line(self, *bytes, row, window));
  }
  return ls_ok();
}

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
