// SPDX-License-Identifier: Apache-2.0
// The command `lockstep generate`.
#include <math.h>
#include <string.h>

#include "cli/language.h"
#include "cli/serve/serve.h"

typedef struct generate_flags {
  cli_run run;
  const char *prompt;
  int64_t tokens, count;
  double temperature;  // 0: the most likely token.
  int64_t top_k;       // Chooses among so many; 0: among all.
  int64_t seed;
  bool quiet;
} generate_flags;

// ---- Choosing tokens -------------------------------------------------------
// A text that grows by one byte at a time.
typedef struct writer {
  const generate_flags *flags;
  cli_language *language;
  ls_function *choose;
  int32_t *window;  // The last bytes, at most N.
  int64_t filled;
  ls_nest chosen;
} writer;

// Takes the most likely token, also where a division would overflow.
static bool is_greedy(const generate_flags *flags) {
  return flags->temperature < 1e-6;
}

// Chooses a token by its logits: the largest after adding Gumbel noise, which
// draws by their softmax.
static ls_nest choose_token(ls_nest args, void *user) {
  const generate_flags *flags = user;
  const ls_tensor logits = ls_nest_tensor(args, 0);
  const int64_t classes = ls_tensor_shape(logits).dim[0];
  const bool all = flags->top_k == 0 || flags->top_k > classes;
  const int64_t count = is_greedy(flags) ? 1 : all ? classes : flags->top_k;
  const ls_op best = ls_top_k(logits, count);
  const ls_tensor values = ls_op_output(best, 0),
                  tokens = ls_op_output(best, 1);
  if (is_greedy(flags)) return ls_leaf(tokens);
  const ls_tensor scores =
      ls_div(ls_sub(values, ls_reduce_max(values, LS_AXES(0))),
             ls_scalar(LS_DTYPE_F32, flags->temperature));
  const ls_tensor uniform =
      ls_random_uniform(LS_DTYPE_F32, LS_SHAPE(count), 0, 1, NULL);
  const ls_tensor noise = ls_neg(ls_log(ls_neg(ls_log(uniform))));
  return ls_leaf(ls_gather(tokens, ls_argmax(ls_add(scores, noise), 0), 0));
}

static ls_status writer_open(const generate_flags *flags,
                             cli_language *language, writer *out) {
  *out = (writer){.flags = flags, .language = language};
  out->window = cli_allocate((size_t)language->tokens * sizeof(*out->window));
  if (out->window == NULL) return ls_out_of_memory();
  return ls_function_create(
      &(ls_function_options){.call = choose_token,
                             .user = (void *)(uintptr_t)flags,
                             .name = "choose",
                             .seed = flags->seed},
      &out->choose);
}

static void writer_close(writer *self) {
  ls_nest_release(self->chosen);
  ls_function_release(self->choose);
  cli_release(self->window);
}
CLI_OWNED_STRUCT(writer, writer_close)

// Appends a token to the window, which drops its oldest if it is full: each
// step computes all positions in any case.
static void append_token(writer *self, int32_t token) {
  if (self->filled == self->language->tokens)
    memmove(self->window, self->window + 1,
            (size_t)--self->filled * sizeof(*self->window));
  self->window[self->filled++] = token;
}

// Begins text number `sample` after a prompt, of which the last N bytes count;
// an empty one stands for a line's end.
static ls_status writer_begin(writer *self, int64_t sample, const char *prompt,
                              size_t size) {
  const cli_language *language = self->language;
  self->filled = 0;
  memset(self->window, 0, (size_t)language->tokens * sizeof(*self->window));
  // Each text has draws of its own, whatever the length of others.
  ls_function_set_steps(self->choose, (uint64_t)sample << 32);
  for (size_t i = 0; i < size; ++i) {
    const unsigned char byte = (unsigned char)prompt[i];
    if (byte >= language->classes)
      return ls_invalid_argument(
          "byte %zu of the prompt, counted from 0, is %d: the model has %lld "
          "classes, so its texts have bytes below that",
          i, byte, (long long)language->classes);
    append_token(self, byte);
  }
  if (size == 0 && '\n' >= language->classes)
    return ls_invalid_argument(
        "a text without a prompt begins after a line's end, byte %d, and the "
        "model has %lld classes: give a --prompt",
        '\n', (long long)language->classes);
  if (size == 0) append_token(self, '\n');
  return ls_ok();
}

// Chooses the next byte, which depends on model, prompt, flags, `sample` and
// the bytes so far alone, not on threads.
static ls_status writer_next(writer *self, unsigned char *out_byte) {
  const int64_t classes = self->language->classes;
  const ls_array *logits = NULL;
  ls_array *row = NULL;
  float values[CLI_BYTES];
  LS_RETURN_IF_ERROR(cli_language_run(self->language, self->window, &logits));
  const int64_t stride = ls_array_shape(logits).dim[2];
  for (int64_t i = 0; i < classes; ++i) {
    values[i] = (float)ls_array_f64(logits, (self->filled - 1) * stride + i);
    if (isnan(values[i]))
      return ls_invalid_argument("logits of the model are NaN");
  }
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(classes), values, &row));
  CLI_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(row));
  LS_RETURN_IF_ERROR(ls_function_call(self->choose, args, &self->chosen));
  *out_byte = (unsigned char)ls_array_i64(ls_nest_as_array(self->chosen), 0);
  append_token(self, *out_byte);
  return ls_ok();
}

// ---- The command -----------------------------------------------------------
// Reads standard input to its end.
static ls_status read_prompt(cli_buffer *out) {
  char block[4096];
  for (size_t size; (size = fread(block, 1, sizeof(block), stdin)) > 0;)
    cli_buffer_append(out, block, size);
  if (ferror(stdin))
    return LS_STATUS(LS_UNAVAILABLE, "cannot read standard input");
  return out->failed ? ls_out_of_memory() : ls_ok();
}

// Writes one text. Adds to the time and number of its tokens except the first,
// which waits for a compilation.
static ls_status write_sample(const generate_flags *flags, writer *text,
                              double *seconds, int64_t *timed) {
  double begun = 0;
  unsigned char byte = 0;
  for (int64_t i = 0; i < flags->tokens; ++i) {
    if (cli_signals_first() != 0 || ferror(stdout)) break;
    LS_RETURN_IF_ERROR(writer_next(text, &byte));
    putchar(byte);
    fflush(stdout);
    if (i == 0) begun = cli_now();
    if (i > 0) ++*timed;
  }
  *seconds += begun > 0 ? cli_now() - begun : 0;
  putchar('\n');
  return ls_ok();
}

static ls_status generate_texts(void *user, cli_language *language) {
  const generate_flags *flags = user;
  CLI_OWN(writer, text) = {0};
  cli_buffer prompt = {.data = (char *)(uintptr_t)flags->prompt,
                       .size = strlen(flags->prompt)};
  CLI_OWN_MEMORY(char, input) = NULL;
  double seconds = 0;
  int64_t timed = 0;
  if (strcmp(flags->prompt, "-") == 0) {
    prompt = (cli_buffer){0};
    const ls_status status = read_prompt(&prompt);
    input = prompt.data;
    LS_RETURN_IF_ERROR(status);
  }
  LS_RETURN_IF_ERROR(writer_open(flags, language, &text));
  for (int64_t i = 0; i < flags->count && cli_signals_first() == 0; ++i) {
    LS_RETURN_IF_ERROR(writer_begin(&text, i, prompt.data, prompt.size));
    if (i > 0) fputs("---\n", stdout);
    fwrite(prompt.data, 1, prompt.size, stdout);
    fflush(stdout);
    LS_RETURN_IF_ERROR(write_sample(flags, &text, &seconds, &timed));
  }
  if (!flags->quiet && timed > 0)
    cli_say("generate", "%.2f ms per token", seconds * 1e3 / (double)timed);
  return ls_ok();
}

int cli_generate(int argc, char **argv) {
  generate_flags flags = {.run = {.command = "generate"},
                          .prompt = "",
                          .tokens = 200,
                          .count = 1,
                          .temperature = 1};
  const cli_option options[] = {
      {"prompt", CLI_TEXT, &flags.prompt, "TEXT",
       "text to continue, which is printed, too (default: none); -: standard "
       "input"},
      {"tokens", CLI_COUNT, &flags.tokens, "N",
       "number of bytes to add (default 200)"},
      {"temperature", CLI_REAL_OR_ZERO, &flags.temperature, "X",
       "divides logits: below 1 likely bytes become likelier (default 1); 0: "
       "always the most likely one"},
      {"top-k", CLI_COUNT, &flags.top_k, "K",
       "draw among the K most likely bytes (default: all)"},
      {"seed", CLI_COUNT_OR_ZERO, &flags.seed, "N",
       "seed of the draws (default 0): the same seed gives the same text, with "
       "any number of threads"},
      {"count", CLI_COUNT, &flags.count, "C",
       "number of texts (default 1), with a line --- between them"},
      {"model", CLI_TEXT, &flags.run.model, "PATH",
       "the run's shared library of models, which is loaded only if it is "
       "named here"},
      CLI_THREADS_OPTION(&flags.run.threads),
      CLI_DEVICE_OPTIONS,
      {"math", CLI_TEXT, &flags.run.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep train'"},
      {"quiet", CLI_FLAG, &flags.quiet, NULL,
       "do not print the time per token"},
  };
  const cli_syntax syntax = {
      .command = "generate",
      .about = "Continues a text by a language model whose tokens are bytes, "
               "of a run or of an export, and prints it as it comes. The model "
               "sees as many bytes as it takes tokens, the last ones. RUN@STEP "
               "is the model of a checkpoint. Ctrl-C ends the text.",
      CLI_OPTIONS(options),
      .operand_form = "RUN|EXPORT",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("generate", flags.run.math)) return CLI_USAGE;
  (void)cli_signals_defer(0);
  cli_signals_saved();
  int code = cli_with_language(&flags.run, generate_texts, &flags);
  return code == CLI_OK && cli_signals_first() != 0
             ? CLI_SIGNAL + cli_signals_first()
             : code;
}
