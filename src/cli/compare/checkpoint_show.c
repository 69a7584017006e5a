// SPDX-License-Identifier: Apache-2.0
// lockstep checkpoint list and show.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/compare/compare.h"
#include "cli/look/table.h"

// ---- Times and numbers -----------------------------------------------------
static void print_age(int64_t wall, char *text, size_t size) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const double age = (double)now.tv_sec - (double)wall * 1e-9;
  if (age < 120)
    snprintf(text, size, "%.0f s", age > 0 ? age : 0);
  else if (age < 120 * 60)
    snprintf(text, size, "%.0f min", age / 60);
  else if (age < 48 * 3600)
    snprintf(text, size, "%.0f h", age / 3600);
  else
    snprintf(text, size, "%.0f days", age / 86400);
}

static void print_date(int64_t wall, char *text, size_t size) {
  const time_t seconds = (time_t)(wall / 1000000000);
  struct tm date;
  text[0] = '\0';
  if (gmtime_r(&seconds, &date) != NULL)
    (void)strftime(text, size, "%Y-%m-%d %H:%M:%S UTC", &date);
}

static void print_metrics_json(const ls_saved_info *info) {
  printf("\"metrics\":{");
  for (size_t i = 0; i < info->num_metrics; ++i) {
    if (i > 0) printf(",");
    cli_print_json(info->metrics[i].name);
    printf(":");
    cli_print_real(info->metrics[i].value, 17);
  }
  printf("}");
}

static void print_metrics(const ls_saved_info *info) {
  for (size_t i = 0; i < info->num_metrics; ++i)
    printf("%s%s=%.6g", i > 0 ? " " : "", info->metrics[i].name,
           info->metrics[i].value);
}

// ---- List ------------------------------------------------------------------
static void list_whole(int64_t step, const ls_saved_info *info, bool json) {
  char bytes[CLI_CELL], age[32];
  if (json) {
    printf("{\"step\":%lld,\"whole\":true,\"saved\":%.3f,\"bytes\":%lld,"
           "\"arrays\":%zu,",
           (long long)step, (double)info->wall * 1e-9, (long long)info->bytes,
           info->num_entries);
    print_metrics_json(info);
    printf("}\n");
    return;
  }
  cli_format_bytes((double)info->bytes, bytes);
  print_age(info->wall, age, sizeof(age));
  printf("%10lld  %8s  %10s  %6zu  whole    ", (long long)step, age, bytes,
         info->num_entries);
  print_metrics(info);
  printf("\n");
}

static void list_damaged(int64_t step, const char *why, bool json) {
  if (!json) {
    printf("%10lld  %8s  %10s  %6s  damaged  %s\n", (long long)step, "", "", "",
           why);
    return;
  }
  printf("{\"step\":%lld,\"whole\":false,\"why\":", (long long)step);
  cli_print_json(why);
  printf("}\n");
}

typedef struct list_flags {
  const char *folder;
  bool json;
} list_flags;

static void list_step(const list_flags *flags, int64_t step) {
  ls_saved_info info;
  CLI_OWN(ls_saved_file, file) = NULL;
  CLI_OWN(ls_status, status) = cli_open_step(flags->folder, step, &file);
  if (!ls_status_is_ok(status)) {
    list_damaged(step, ls_status_message(status), flags->json);
    return;
  }
  ls_saved_file_describe(file, &info);
  list_whole(step, &info, flags->json);
}

static ls_status list_steps(void *user) {
  const list_flags *flags = user;
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(cli_recover_run(flags->folder));
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(flags->folder, &steps, &count));
  if (count == 0)
    return ls_not_found("'%s' holds no checkpoint", flags->folder);
  if (!flags->json)
    printf("%10s  %8s  %10s  %6s  %-7s  metrics\n", "step", "age", "size",
           "arrays", "state");
  for (size_t i = 0; i < count; ++i)
    list_step(flags, steps[i]);
  return ls_ok();
}

int cli_checkpoint_list(int argc, char **argv) {
  list_flags flags = {0};
  const cli_option options[] = {
      {"json", CLI_FLAG, &flags.json, NULL,
       "print a line of JSON per step: step, whole, saved (seconds since "
       "1970), bytes, arrays, metrics; or step, whole, why"},
  };
  const cli_syntax syntax = {
      .command = "checkpoint list",
      .about =
          "Lists the checkpoints of a folder, the newest last: step, age, "
          "size, arrays, metrics, and 'whole' if both files exist and have the "
          "right length. 'lockstep checkpoint verify' reads the values, too.",
      CLI_OPTIONS(options),
      .operand_form = "FOLDER",
      .operand = &flags.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  return cli_with_runtime("checkpoint list", list_steps, &flags);
}

// ---- Statistics ------------------------------------------------------------
typedef struct statistics {
  // Over elements that are not NaN; of complex ones, which have no order, NaN.
  double least, most, mean, deviation;
  int64_t zeros, nans;  // Infinities included.
} statistics;

static statistics statistics_of(const ls_array *array) {
  statistics s = {.least = INFINITY, .most = -INFINITY};
  const int64_t count = ls_array_num_elements(array);
  // Mean, and squared distances to it, so far (Welford, 1962); wider, since the
  // difference of two numbers may be infinite.
  long double mean = 0, squares = 0;
  int64_t numbers = 0;
  const bool is_complex = ls_dtype_is_complex(ls_array_dtype(array));
  for (int64_t i = 0; i < count; ++i) {
    // A NaN or infinite part makes the sum of the sizes such a number.
    const double value = is_complex ? fabs(cli_array_part(array, i, 0)) +
                                          fabs(cli_array_part(array, i, 1))
                                    : ls_array_f64(array, i);
    s.zeros += value == 0;
    if (!isfinite(value)) {
      ++s.nans;
      continue;
    }
    const long double before = (long double)value - mean;
    mean += before / (long double)++numbers;
    squares += before * ((long double)value - mean);
    s.least = fmin(s.least, value);
    s.most = fmax(s.most, value);
  }
  if (numbers == 0 || is_complex) {
    s.least = s.most = s.mean = s.deviation = (double)NAN;
    return s;
  }
  s.mean = (double)mean;
  s.deviation = (double)sqrtl(squares / (long double)numbers);
  return s;
}

// ---- Show ------------------------------------------------------------------
typedef struct show_flags {
  const char *path, *only;
  cli_words words;
  bool json, brief;
} show_flags;

static void print_record_json(const ls_record *record) {
  CLI_OWN(text, text) = NULL;
  size_t size = 0;
  CLI_OWN(ls_status, status) = ls_record_to_text(record, &text, &size);
  printf("%s", ls_status_is_ok(status) ? text : "{}");
}

// Prints a record, a line for each member, cut to the terminal's width.
static void print_members(const char *title, const ls_record *record) {
  CLI_OWN(text, text) = NULL;
  size_t size = 0;
  cli_member member;
  const int columns = cli_output_columns();
  const int width = columns > 0 ? columns : 120;
  CLI_OWN(ls_status, status) = ls_record_to_text(record, &text, &size);
  for (const char *at = text;
       ls_status_is_ok(status) && cli_json_next(&at, &member);) {
    const int room =
        width - (int)(strlen(title) + member.key_size + strlen(" : ..."));
    const bool cut = (int)member.value_size > room + 3;
    int shown = cut ? (room > 0 ? room : 0) : (int)member.value_size;
    while (shown > 0 && cut && (member.value[shown] & 0xc0) == 0x80)
      --shown;  // Keeps characters of several bytes whole.
    printf("%s %.*s: %.*s%s\n", title, (int)member.key_size, member.key, shown,
           member.value, cut ? "..." : "");
  }
}

static void print_head_json(const ls_saved_info *info,
                            const ls_record *identity,
                            const ls_record *states) {
  cli_print_text('{', "path", info->path);
  printf(",\"format\":\"%s\"", info->format);
  if (info->step >= 0) {
    printf(",\"step\":%lld,\"saved\":%.3f,", (long long)info->step,
           (double)info->wall * 1e-9);
    print_metrics_json(info);
    printf(",\"identity\":");
    print_record_json(identity);
    printf(",\"states\":");
    print_record_json(states);
  }
  printf(",\"arrays\":[");
}

static void print_head(const ls_saved_info *info, const ls_record *identity,
                       const ls_record *states) {
  char date[40], bytes[CLI_CELL];
  cli_format_bytes((double)info->bytes, bytes);
  printf("%s: %s, %zu array%s, %s\n", info->path, info->format,
         info->num_entries, info->num_entries == 1 ? "" : "s", bytes);
  if (info->step < 0) return;
  print_date(info->wall, date, sizeof(date));
  printf("step %lld, saved %s\n", (long long)info->step, date);
  if (info->num_metrics > 0) {
    printf("metrics ");
    print_metrics(info);
    printf("\n");
  }
  print_members("run", identity);
  print_members("state", states);
}

static ls_status show_head(const ls_saved_file *file, const show_flags *flags) {
  ls_saved_info info;
  CLI_OWN(ls_record, identity) = NULL;
  CLI_OWN(ls_record, states) = NULL;
  ls_saved_file_describe(file, &info);
  LS_RETURN_IF_ERROR(ls_saved_file_records(file, &identity, &states));
  if (flags->json)
    print_head_json(&info, identity, states);
  else
    print_head(&info, identity, states);
  return ls_ok();
}

static void print_entry_json(const ls_saved_entry *entry, const statistics *s) {
  cli_print_text('{', "name", entry->name);
  printf(",\"dtype\":\"%s\",\"shape\":[", ls_dtype_name(entry->type.dtype));
  for (int i = 0; i < entry->type.shape.rank; ++i)
    printf("%s%lld", i > 0 ? "," : "", (long long)entry->type.shape.dim[i]);
  printf("],\"bytes\":%zu", entry->bytes);
  if (s != NULL) {
    cli_print_member(',', "min", s->least, 17);
    cli_print_member(',', "max", s->most, 17);
    cli_print_member(',', "mean", s->mean, 17);
    cli_print_member(',', "deviation", s->deviation, 17);
    printf(",\"zeros\":%lld,\"no_numbers\":%lld", (long long)s->zeros,
           (long long)s->nans);
  }
  printf("}");
}

static void print_entry(const ls_saved_entry *entry, const statistics *s) {
  char bytes[CLI_CELL];
  cli_format_bytes((double)entry->bytes, bytes);
  cli_print_clean(entry->name);
  const int pad = 36 - (int)strnlen(entry->name, 36);
  printf("%*s  %-18s %10s", pad, "",
         LS_SHAPE_TEXT(entry->type.dtype, entry->type.shape), bytes);
  if (s != NULL && !ls_dtype_is_complex(entry->type.dtype))
    printf("  %11.4g %11.4g %11.4g %11.4g", s->least, s->most, s->mean,
           s->deviation);
  if (s != NULL && s->nans > 0)
    printf("  %lld are no numbers", (long long)s->nans);
  printf("\n");
}

static ls_status show_entry(const ls_saved_file *file, size_t index,
                            const ls_saved_entry *entry,
                            const show_flags *flags) {
  statistics found;
  CLI_OWN(ls_array, array) = NULL;
  if (!flags->brief) {
    LS_RETURN_IF_ERROR(ls_saved_file_read(file, index, &array));
    found = statistics_of(array);
  }
  if (flags->json)
    print_entry_json(entry, array != NULL ? &found : NULL);
  else
    print_entry(entry, array != NULL ? &found : NULL);
  return ls_ok();
}

static ls_status show_file(void *user) {
  const show_flags *flags = user;
  CLI_OWN(ls_saved_file, file) = NULL;
  ls_saved_info info;
  LS_RETURN_IF_ERROR(cli_recover_run(flags->path));
  LS_RETURN_IF_ERROR(ls_saved_file_open_unread(flags->path, &file));
  ls_saved_file_describe(file, &info);
  LS_RETURN_IF_ERROR(cli_words_check(&flags->words, file, NULL));
  LS_RETURN_IF_ERROR(show_head(file, flags));
  if (!flags->json && !flags->brief && info.num_entries > 0)
    printf("%-36s  %-18s %10s  %11s %11s %11s %11s\n", "array", "type", "size",
           "min", "max", "mean", "deviation");
  bool first = true;
  for (size_t i = 0; i < info.num_entries; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    if (!cli_words_fit(&flags->words, entry.name)) continue;
    if (flags->json && !first) printf(",");
    first = false;
    LS_RETURN_IF_ERROR(show_entry(file, i, &entry, flags));
  }
  if (flags->json) printf("]}\n");
  return ls_ok();
}

int cli_checkpoint_show(int argc, char **argv) {
  show_flags flags = {0};
  const cli_option options[] = {
      CLI_ONLY_OPTION(&flags.only),
      {"brief", CLI_FLAG, &flags.brief, NULL,
       "skip statistics, which need to read the values"},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON, with states in full: path, format, step, "
       "saved, metrics, identity, "
       "states, and arrays, each with name, dtype, shape, bytes, min, max, "
       "mean, deviation, zeros, no_numbers"},
  };
  const cli_syntax syntax = {
      .command = "checkpoint show",
      .about = "Shows the contents of a checkpoint or file: its step, the time "
               "of its save, the identity of its run, its states, and the type "
               "and statistics of each array. PATH is as in 'lockstep "
               "checkpoint --help'.",
      CLI_OPTIONS(options),
      .operand_form = "PATH",
      .operand = &flags.path};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  int code = CLI_USAGE;
  if (cli_words_open("checkpoint show", "only", flags.only, NULL, &flags.words))
    code = cli_with_runtime("checkpoint show", show_file, &flags);
  cli_words_close(&flags.words);
  return code;
}
