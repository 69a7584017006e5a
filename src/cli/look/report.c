// SPDX-License-Identifier: Apache-2.0
// lockstep report: runs on one page of HTML.
#define _GNU_SOURCE
#include "cli/look/report.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char command[] = "report";

typedef struct report_flags {
  const char **folders;
  size_t num_folders;
  const char *out, *model;
  int64_t examples, threads;
  bool log;
} report_flags;

// ---- Reading ---------------------------------------------------------------
static double measure_file(const char *folder, const char *name) {
  char path[PATH_MAX];
  struct stat info;
  if (snprintf(path, sizeof(path), "%s/%s", folder, name) >=
          (int)sizeof(path) ||
      stat(path, &info) != 0)
    return 0;
  return (double)info.st_size;
}

static ls_status read_saves(const char *folder, cli_saves *out) {
  out->model_bytes = measure_file(folder, "model.safetensors");
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(folder, &out->steps, &out->count));
  CLI_SET_ARRAY_OR_RETURN(out->bytes, out->count);
  for (size_t i = 0; i < out->count; ++i) {
    static const char *const ends[] = {"safetensors", "json"};
    for (int k = 0; k < 2; ++k) {
      char name[80];
      snprintf(name, sizeof(name), "model.ckpt-%lld.%s",
               (long long)out->steps[i], ends[k]);
      out->bytes[i] += measure_file(folder, name);
    }
  }
  return ls_ok();
}

static void close_data(cli_report_data *data) {
  for (size_t i = 0; i < data->runs.count; ++i) {
    if (data->saves != NULL) cli_release(data->saves[i].steps);
    if (data->saves != NULL) cli_release(data->saves[i].bytes);
    if (data->classes != NULL) cli_classes_close(&data->classes[i]);
  }
  cli_release(data->saves);
  cli_release(data->classes);
  cli_histories_close(&data->runs);
}
CLI_OWNED_STRUCT(cli_report_data, close_data)

typedef struct reader {
  const report_flags *flags;
  cli_report_data *data;
} reader;

// Reads the folders; a runtime is current.
static ls_status read_folders(void *user) {
  const reader *self = user;
  const report_flags *flags = self->flags;
  cli_report_data *data = self->data;
  LS_RETURN_IF_ERROR(
      cli_histories_read(flags->folders, flags->num_folders, &data->runs));
  const size_t count = data->runs.count;
  CLI_SET_ARRAY_OR_RETURN(data->saves, count);
  CLI_SET_ARRAY_OR_RETURN(data->classes, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(read_saves(flags->folders[i], &data->saves[i]));
  return ls_ok();
}

// ---- Writing ---------------------------------------------------------------
static void write_head(FILE *out, const cli_report_data *data) {
  char title[256], date[64] = "";
  const time_t now = time(NULL);
  struct tm utc;
  const size_t count = data->runs.count;
  if (count == 1)
    snprintf(title, sizeof(title), "%s", data->runs.items[0].folder);
  else
    snprintf(title, sizeof(title), "%zu runs compared", count);
  if (gmtime_r(&now, &utc) != NULL)
    strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", &utc);
  cli_page_begin(out, title);
  fputs("<h1>", out);
  cli_page_text(out, title);
  fprintf(out, "</h1>\n<p class=\"faint\">Written by lockstep %s, %s</p>\n",
          ls_version(), date);
}

static ls_status write_page(FILE *out, const cli_report_data *data) {
  write_head(out, data);
  cli_report_summary(out, data);
  LS_RETURN_IF_ERROR(cli_report_curves(out, data));
  cli_report_metrics(out, data);
  cli_report_times(out, data);
  cli_report_classes(out, data);
  cli_report_config(out, data);
  cli_page_end(out);
  return ls_ok();
}

static ls_status write_file(const char *path, const cli_report_data *data) {
  cli_new_file page;
  LS_RETURN_IF_ERROR(cli_create_file(path, &page));
  return cli_finish_file(&page, write_page(page.file, data));
}

// ---- The command -----------------------------------------------------------
static int run_report(const report_flags *flags) {
  CLI_OWN(cli_report_data, data) = {.log = flags->log};
  reader self = {flags, &data};
  const int code = cli_with_runtime(command, read_folders, &self);
  if (code != CLI_OK) return code;
  for (size_t i = 0; i < data.runs.count; ++i)
    cli_classify(command, flags->folders[i], flags->model, flags->threads,
                 flags->examples, &data.classes[i]);
  const bool to_pipe = strcmp(flags->out, "-") == 0;
  const ls_status status =
      to_pipe ? write_page(stdout, &data) : write_file(flags->out, &data);
  if (ls_status_is_ok(status) && !to_pipe)
    printf("the report is in %s\n", flags->out);
  return cli_report(command, status);
}

int cli_report_runs(int argc, char **argv) {
  report_flags flags = {
      .folders = (const char **)argv, .out = "report.html", .examples = 10000};
  const cli_option options[] = {
      {"out", CLI_TEXT, &flags.out, "FILE",
       "file of the page (default report.html); -: standard output"},
      {"log", CLI_FLAG, &flags.log, NULL,
       "logarithmic charts of metrics whose values are above 0"},
      {"examples", CLI_COUNT_OR_ZERO, &flags.examples, "N",
       "test examples to classify by the saved model, for the confusion matrix "
       "and the mistakes (default 10000; 0: none)"},
      {"model", CLI_TEXT, &flags.model, "PATH",
       "the runs' shared library of models, which is loaded only if it is "
       "named here; or their .onnx or .mlir file, if it has moved"},
      CLI_THREADS_OPTION(&flags.threads),
      CLI_DEVICE_OPTIONS,
  };
  const cli_syntax syntax = {
      .command = command,
      .about = "Writes a page of HTML about a run, or comparing several: "
               "progress, curves, final metrics, times, checkpoints and "
               "configuration; for classifiers, whose checkpoint and data are "
               "still there, a confusion matrix and mistakes. The page is one "
               "file, without scripts, that needs no network.",
      CLI_OPTIONS(options),
      .operand_form = "RUN...",
      .num_operands = &flags.num_folders};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  cli_show_warnings_alone();
  return run_report(&flags);
}
