// SPDX-License-Identifier: Apache-2.0
// lockstep data: shows the contents of files, and their read speed.
#define _GNU_SOURCE
#include "cli/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct data_flags {
  const char **files;
  size_t num_files;
  const char *features, *missing;
  int64_t batch, threads, seconds;
  bool shuffle, json;
} data_flags;

typedef struct reading {
  int64_t elements;  // Elements read; batches count their elements.
  double bytes, seconds;
  bool ended;  // All elements were read.
  ls_iterator_stats stats;
} reading;

// Buffer of a shuffle of a stream, which needs one.
enum { SHUFFLE_BUFFER = 10000, BATCH = 128 };

static const char *format_name(const cli_files *files) {
  return files->format != NULL ? files->format->name : "";
}

// ---- Reading ---------------------------------------------------------------
static double bytes_of(ls_nest nest) {
  if (ls_nest_is_node(nest)) {
    double sum = 0;
    for (size_t i = 0; i < ls_nest_count(nest); ++i)
      sum += bytes_of(ls_nest_item(nest, i));
    return sum;
  }
  const ls_array *array = ls_nest_as_array(nest);
  if (array == NULL) return 0;
  if (ls_array_dtype(array) != LS_DTYPE_STRING)
    return (double)ls_array_size(array);
  const ls_bytes *bytes = ls_array_data(array);
  double sum = 0;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    sum += (double)bytes[i].size;
  return sum;
}

static int64_t data_rows_of(ls_nest nest) {
  while (ls_nest_is_node(nest))
    nest = ls_nest_item(nest, 0);
  const ls_array *array = ls_nest_as_array(nest);
  return array != NULL && ls_array_shape(array).rank > 0
             ? ls_array_shape(array).dim[0]
             : 1;
}

static void show_progress(const reading *so_far, int64_t size, bool end) {
  if (isatty(STDERR_FILENO) != 1) return;
  cli_clear_progress();
  if (end) return;
  char part[16] = "", text[128];
  if (size > 0)
    snprintf(part, sizeof(part), "%3.0f%%  ",
             100 * (double)so_far->elements / (double)size);
  snprintf(text, sizeof(text), "%s%lld examples  %.0f examples/s", part,
           (long long)so_far->elements,
           (double)so_far->elements / so_far->seconds);
  cli_show_progress(text);
}

static ls_status read_through(const data_flags *flags, int64_t size,
                              ls_iterator *iterator, reading *out) {
  CLI_OWN(ls_nest, element) = ls_none();
  CLI_OWN(ls_status, status) = ls_ok();
  const double begin = cli_now();
  double shown = begin;
  while (cli_signals_first() == 0) {
    status = ls_iterator_next(iterator, &element);
    out->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
    if (!ls_status_is_ok(status)) break;
    out->elements += flags->batch > 1 ? data_rows_of(element) : 1;
    out->bytes += bytes_of(element);
    const double t = cli_now();
    out->seconds = t - begin;
    if (out->seconds >= (double)flags->seconds) break;
    if (t - shown < 0.2) continue;
    shown = t;
    show_progress(out, size, false);
  }
  out->seconds = cli_now() - begin;
  show_progress(out, size, true);
  if (!ls_status_is_ok(status) && !out->ended) return cli_give(&status);
  return ls_iterator_get_stats(iterator, &out->stats);
}

// ---- Printing --------------------------------------------------------------
static double rate(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

static void print_rates(const reading *read) {
  printf("read %lld example%s in %.3f s%s: %.0f examples/s, %.1f MB/s\n",
         (long long)read->elements, read->elements == 1 ? "" : "s",
         read->seconds, read->ended ? "" : ", not all of them",
         rate((double)read->elements, read->seconds),
         rate(read->bytes, read->seconds) * 1e-6);
  double all = 0;
  for (size_t i = 0; i < read->stats.num_stages; ++i)
    all += (double)read->stats.stages[i].nanos;
  printf("%-16s %12s %10s %12s %6s\n", "stage", "elements", "time", "each",
         "share");
  for (size_t i = 0; i < read->stats.num_stages; ++i) {
    const ls_stage_stats *stats = &read->stats.stages[i];
    const double each = stats->elements > 0
                            ? (double)stats->nanos / (double)stats->elements
                            : 0;
    printf("%-16s %12lld %8.3f s %9.2f us %5.1f%%\n", stats->name,
           (long long)stats->elements, (double)stats->nanos * 1e-9, each * 1e-3,
           all > 0 ? 100 * (double)stats->nanos / all : 0);
  }
}

static void data_print_json(const cli_files *files, const char *spec,
                            int64_t size, const reading *read) {
  cli_print_text('{', "files", files->text);
  cli_print_text(',', "format", format_name(files));
  cli_print_text(',', "spec", spec);
  if (size >= 0)
    printf(",\"elements\":%lld", (long long)size);
  else
    printf(",\"elements\":null");
  printf(",\"read\":%lld,\"all\":%s,\"seconds\":%.6f,"
         "\"examples_per_second\":%.1f,\"megabytes_per_second\":%.3f,"
         "\"stages\":[",
         (long long)read->elements, read->ended ? "true" : "false",
         read->seconds, rate((double)read->elements, read->seconds),
         rate(read->bytes, read->seconds) * 1e-6);
  for (size_t i = 0; i < read->stats.num_stages; ++i) {
    const ls_stage_stats *stats = &read->stats.stages[i];
    printf("%s{\"name\":", i > 0 ? "," : "");
    cli_print_json(stats->name);
    printf(",\"elements\":%lld,\"seconds\":%.6f}", (long long)stats->elements,
           (double)stats->nanos * 1e-9);
  }
  printf("]}\n");
}

// ---- The command -----------------------------------------------------------
static bool can_be_stacked(const ls_element_spec *spec) {
  for (size_t i = 0; i < spec->count; ++i) {
    if (!ls_shape_is_known(spec->leaves[i].type.shape)) return false;
  }
  return spec->count > 0;
}

// Makes the pipeline to time from a data set, which is lent.
static ls_dataset *make_pipeline(data_flags *flags, ls_dataset *dataset,
                                 const ls_element_spec *spec) {
  ls_dataset *made = ls_dataset_retain(dataset);
  if (flags->shuffle)
    made = ls_dataset_shuffle(
        made, &(ls_shuffle_options){
                  .buffer = ls_dataset_is_indexed(made) ? 0 : SHUFFLE_BUFFER});
  if (flags->batch == 0) flags->batch = can_be_stacked(spec) ? BATCH : 1;
  if (flags->batch == 1) return made;
  return ls_dataset_batch(made, &(ls_batch_options){.size = flags->batch});
}

static ls_status data_measure(data_flags *flags, ls_dataset *dataset,
                              const cli_files *files, const char *text,
                              const ls_element_spec *spec) {
  const int64_t size = ls_dataset_cardinality(dataset);
  reading read = {0};
  CLI_OWN(ls_dataset, pipeline) = make_pipeline(flags, dataset, spec);
  CLI_OWN(ls_iterator, iterator) = NULL;
  ls_status status = ls_iterator_create(pipeline, NULL, &iterator);
  (void)cli_signals_defer(0);
  cli_signals_saved();
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(read_through(flags, size, iterator, &read));
  if (flags->json)
    data_print_json(files, text, size, &read);
  else
    print_rates(&read);
  return ls_ok();
}

static ls_status data_show(ls_runtime *runtime, data_flags *flags,
                           const cli_files *files, ls_dataset *dataset) {
  ls_element_spec spec;
  char text[400];
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  ls_element_spec_print(&spec, text, sizeof(text));
  if (!flags->json) {
    const int64_t size = ls_dataset_cardinality(dataset);
    char count[80] = "a stream", more[40] = "";
    if (size >= 0)
      snprintf(count, sizeof(count), "%lld element%s", (long long)size,
               size == 1 ? "" : "s");
    if (flags->num_files > 1)
      snprintf(more, sizeof(more), " and %zu more", flags->num_files - 1);
    cli_print_clean(files->text);
    printf("%s: %s, %s of ", more, format_name(files), count);
    cli_print_clean(text);
    putchar('\n');
    if (strncmp(format_name(files), "text", 4) == 0)
      LS_RETURN_IF_ERROR(cli_show_text(files));
    LS_RETURN_IF_ERROR(cli_show_elements(runtime, dataset));
    fflush(stdout);  // The reads below take a while.
  }
  return data_measure(flags, dataset, files, text, &spec);
}

static ls_status data_open(data_flags *flags, ls_runtime **out_runtime) {
  LS_RETURN_IF_ERROR(cli_runtime_open_input(flags->threads, out_runtime));
  CLI_OWN(cli_files, files) = {0};
  CLI_OWN(ls_dataset, dataset) = NULL;
  // A list with commas is one word; a pattern becomes several words in the
  // shell.
  LS_RETURN_IF_ERROR(
      flags->num_files == 1
          ? cli_files_open(flags->files[0], &files)
          : cli_files_open_list(flags->files, flags->num_files, &files));
  LS_RETURN_IF_ERROR(
      cli_open_shown(&files, flags->features, flags->missing, &dataset));
  return data_show(*out_runtime, flags, &files, dataset);
}

static int data_run(data_flags *flags) {
  ls_runtime *runtime = NULL;
  const ls_status status = data_open(flags, &runtime);
  int code = cli_report("data", status);
  if (code == CLI_OK && cli_signals_first() != 0)
    code = CLI_SIGNAL + cli_signals_first();
  return cli_runtime_close("data", runtime, code);
}

int cli_data_command(int argc, char **argv) {
  data_flags flags = {
      .files = (const char **)argv, .threads = -1, .seconds = 5};
  const cli_option options[] = {
      CLI_FEATURES_OPTION(&flags.features),
      CLI_MISSING_OPTION(&flags.missing),
      {"batch", CLI_COUNT, &flags.batch, "N",
       "examples per batch (default 128, or 1 if they differ in size)"},
      {"shuffle", CLI_FLAG, &flags.shuffle, NULL, "read in random order"},
      {"threads", CLI_COUNT_OR_ZERO, &flags.threads, "N",
       "threads that prefetch (default: one per core)"},
      {"seconds", CLI_COUNT, &flags.seconds, "N",
       "stop reading after N seconds (default 5)"},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON, without elements: files, format, spec, "
       "elements, read, all, seconds, examples_per_second, "
       "megabytes_per_second, stages"},
  };
  const cli_syntax syntax = {
      .command = "data",
      .about =
          "Shows the contents of files: the types of elements, their number, "
          "and the first of them. Then reads all and prints examples per "
          "second and the time of each stage. FILE is as in 'lockstep train "
          "--data', or .npy, PNG, JPEG or text files. Ctrl-C stops reading.",
      CLI_OPTIONS(options),
      .operand_form = "FILE...",
      .num_operands = &flags.num_files};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_words_read("data", "missing", flags.missing, "COLUMN=VALUE"))
    return CLI_USAGE;
  return data_run(&flags);
}
