// SPDX-License-Identifier: Apache-2.0
// The command `lockstep generate`.
#include <string.h>

#include "cli/language.h"
#include "cli/serve/serve.h"

typedef struct generate_flags {
  cli_run run;
  const char *prompt;
  int64_t tokens, count;
  cli_drawing drawing;
  bool quiet;
} generate_flags;

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

// Writes one text. Adds to the time and number of its tokens except the first
// two, which wait for compilations.
static ls_status write_sample(const generate_flags *flags, cli_writer *text,
                              double *seconds, int64_t *timed) {
  double begun = 0;
  unsigned char byte = 0;
  for (int64_t i = 0; i < flags->tokens; ++i) {
    if (cli_signals_first() != 0 || ferror(stdout)) break;
    LS_RETURN_IF_ERROR(cli_writer_next(text, &byte));
    putchar(byte);
    fflush(stdout);
    if (i == 1) begun = cli_now();
    if (i > 1) ++*timed;
  }
  *seconds += begun > 0 ? cli_now() - begun : 0;
  putchar('\n');
  return ls_ok();
}

static ls_status generate_texts(void *user, cli_language *language) {
  const generate_flags *flags = user;
  CLI_OWN(cli_writer, text) = {0};
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
  // Until here a signal ends the program.
  (void)cli_signals_defer(0);
  cli_signals_saved();
  LS_RETURN_IF_ERROR(cli_writer_open(&flags->drawing, language, &text));
  for (int64_t i = 0; i < flags->count && cli_signals_first() == 0; ++i) {
    LS_RETURN_IF_ERROR(cli_writer_begin(&text, i, prompt.data, prompt.size));
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
                          .drawing = {.temperature = 1}};
  const cli_option options[] = {
      {"prompt", CLI_TEXT, &flags.prompt, "TEXT",
       "text to continue, which is printed, too (default: none); -: standard "
       "input"},
      {"tokens", CLI_COUNT, &flags.tokens, "N",
       "number of bytes to add (default 200)"},
      {"temperature", CLI_REAL_OR_ZERO, &flags.drawing.temperature, "X",
       "divides logits: below 1 likely bytes become likelier (default 1); 0: "
       "always the most likely one"},
      {"top-k", CLI_COUNT, &flags.drawing.top_k, "K",
       "draw among the K most likely bytes (default: all)"},
      {"seed", CLI_COUNT_OR_ZERO, &flags.drawing.seed, "N",
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
               "is the model of a checkpoint, RUN@best the best one's. Ctrl-C "
               "ends the text.",
      CLI_OPTIONS(options),
      .operand_form = "RUN|EXPORT",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("generate", flags.run.math)) return CLI_USAGE;
  int code = cli_with_language(&flags.run, generate_texts, &flags);
  return code == CLI_OK && cli_signals_first() != 0
             ? CLI_SIGNAL + cli_signals_first()
             : code;
}
