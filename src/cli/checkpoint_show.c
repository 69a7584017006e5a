// SPDX-License-Identifier: Apache-2.0
// lockstep checkpoint list and show.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/checkpoint.h"

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

static void print_number(double value) {
  if (isfinite(value))
    printf("%.17g", value);
  else
    printf("null");
}

static void print_metrics_json(const ls_saved_info *info) {
  printf("\"metrics\":{");
  for (size_t i = 0; i < info->num_metrics; ++i) {
    if (i > 0) printf(",");
    cli_print_json(info->metrics[i].name);
    printf(":");
    print_number(info->metrics[i].value);
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
  char bytes[32], age[32];
  if (json) {
    printf("{\"step\":%lld,\"whole\":true,\"saved\":%.3f,\"bytes\":%lld,"
           "\"arrays\":%zu,",
           (long long)step, (double)info->wall * 1e-9, (long long)info->bytes,
           info->num_entries);
    print_metrics_json(info);
    printf("}\n");
    return;
  }
  cli_print_bytes((double)info->bytes, bytes, sizeof(bytes));
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

static ls_status checkpoint_show_list(const char *folder, bool json) {
  int64_t *steps = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(cli_recover_run(folder));
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(folder, &steps, &count));
  if (count == 0) {
    cli_release(steps);
    return ls_not_found("'%s' holds no checkpoint", folder);
  }
  if (!json)
    printf("%10s  %8s  %10s  %6s  %-7s  metrics\n", "step", "age", "size",
           "arrays", "state");
  for (size_t i = 0; i < count; ++i) {
    char path[PATH_MAX + 64];
    ls_saved_file *file = NULL;
    snprintf(path, sizeof(path), "%s/model.ckpt-%lld", folder,
             (long long)steps[i]);
    const ls_status status = ls_saved_file_open_unread(path, &file);
    ls_saved_info info;
    if (ls_status_is_ok(status)) {
      ls_saved_file_describe(file, &info);
      list_whole(steps[i], &info, json);
    } else {
      list_damaged(steps[i], ls_status_message(status), json);
    }
    ls_status_free(status);
    ls_saved_file_close(file);
  }
  cli_release(steps);
  return ls_ok();
}

int cli_checkpoint_list(int argc, char **argv) {
  const char *folder = NULL;
  bool json = false;
  const cli_option options[] = {
      {"json", CLI_FLAG, &json, NULL,
       "print a line of JSON each: step, whole, saved (seconds\n"
       "since 1970), bytes, arrays, metrics; or step, whole, why",
       0},
  };
  const cli_syntax syntax = {
      .command = "checkpoint list",
      .about =
          "Lists the checkpoints of a folder, the newest last: step, age, "
          "size, arrays,\nmetrics, and whether both files are there and as "
          "long as they should be.\n'lockstep checkpoint verify' reads the "
          "values, too.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "FOLDER",
      .operand = &folder};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  ls_runtime *runtime = NULL;
  ls_status status = cli_saved_runtime(&runtime);
  if (ls_status_is_ok(status)) status = checkpoint_show_list(folder, json);
  if (!ls_status_is_ok(status)) code = cli_report("checkpoint list", status);
  return cli_runtime_close("checkpoint list", runtime, code);
}

// ---- Statistics ------------------------------------------------------------
typedef struct statistics {
  double least, most, mean, deviation;  // Of those that are numbers.
  int64_t zeros, nans;                  // Infinities count as these.
} statistics;

static statistics statistics_of(const ls_array *array) {
  statistics s = {.least = INFINITY, .most = -INFINITY};
  const int64_t count = ls_array_num_elements(array);
  double squares = 0;  // Of distances to the mean so far (Welford, 1962).
  int64_t numbers = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = ls_array_f64(array, i);
    s.zeros += value == 0;
    if (!isfinite(value)) {
      ++s.nans;
      continue;
    }
    const double before = value - s.mean;
    s.mean += before / (double)++numbers;
    squares += before * (value - s.mean);
    s.least = fmin(s.least, value);
    s.most = fmax(s.most, value);
  }
  if (numbers == 0) s.least = s.most = s.mean = s.deviation = (double)NAN;
  if (numbers > 0) s.deviation = sqrt(squares / (double)numbers);
  return s;
}

// ---- Show ------------------------------------------------------------------
typedef struct show_flags {
  const char *path, *only;
  cli_words words;
  bool json, brief;
} show_flags;

static void print_text_or_empty(const ls_record *record) {
  char *text = NULL;
  size_t size = 0;
  ls_status status = ls_record_to_text(record, &text, &size);
  printf("%s", ls_status_is_ok(status) ? text : "{}");
  ls_status_free(status);
  ls_text_release(text);
}

// Member by member, in lines.
static void print_members(const char *title, const ls_record *record) {
  char *text = NULL;
  size_t size = 0;
  cli_member member;
  ls_status status = ls_record_to_text(record, &text, &size);
  if (ls_status_is_ok(status)) {
    for (const char *at = text; cli_json_next(&at, &member);)
      printf("%s %.*s: %.*s\n", title, (int)member.key_size, member.key,
             (int)member.value_size, member.value);
  }
  ls_status_free(status);
  ls_text_release(text);
}

static ls_status show_head(const ls_saved_file *file, const show_flags *flags) {
  ls_saved_info info;
  ls_record *identity = NULL, *states = NULL;
  char date[40], bytes[32];
  ls_saved_file_describe(file, &info);
  LS_RETURN_IF_ERROR(ls_saved_file_records(file, &identity, &states));
  if (flags->json) {
    printf("{\"path\":");
    cli_print_json(info.path);
    printf(",\"format\":\"%s\"", info.format);
    if (info.step >= 0) {
      printf(",\"step\":%lld,\"saved\":%.3f,", (long long)info.step,
             (double)info.wall * 1e-9);
      print_metrics_json(&info);
      printf(",\"identity\":");
      print_text_or_empty(identity);
      printf(",\"states\":");
      print_text_or_empty(states);
    }
    printf(",\"arrays\":[");
  } else {
    cli_print_bytes((double)info.bytes, bytes, sizeof(bytes));
    printf("%s: %s, %zu array%s, %s\n", info.path, info.format,
           info.num_entries, info.num_entries == 1 ? "" : "s", bytes);
    if (info.step >= 0) {
      print_date(info.wall, date, sizeof(date));
      printf("step %lld, saved %s\n", (long long)info.step, date);
      if (info.num_metrics > 0) {
        printf("metrics ");
        print_metrics(&info);
        printf("\n");
      }
      print_members("run", identity);
      print_members("state", states);
    }
  }
  ls_record_destroy(identity);
  ls_record_destroy(states);
  return ls_ok();
}

static void print_entry_json(const ls_saved_entry *entry, const statistics *s) {
  printf("{\"name\":");
  cli_print_json(entry->name);
  printf(",\"dtype\":\"%s\",\"shape\":[", ls_dtype_name(entry->type.dtype));
  for (int i = 0; i < entry->type.shape.rank; ++i)
    printf("%s%lld", i > 0 ? "," : "", (long long)entry->type.shape.dim[i]);
  printf("],\"bytes\":%zu", entry->bytes);
  if (s != NULL) {
    printf(",\"min\":");
    print_number(s->least);
    printf(",\"max\":");
    print_number(s->most);
    printf(",\"mean\":");
    print_number(s->mean);
    printf(",\"deviation\":");
    print_number(s->deviation);
    printf(",\"zeros\":%lld,\"no_numbers\":%lld", (long long)s->zeros,
           (long long)s->nans);
  }
  printf("}");
}

static void print_entry(const ls_saved_entry *entry, const statistics *s) {
  char bytes[32];
  cli_print_bytes((double)entry->bytes, bytes, sizeof(bytes));
  printf("%-36s  %-18s %10s", entry->name,
         LS_SHAPE_TEXT(entry->type.dtype, entry->type.shape), bytes);
  if (s != NULL)
    printf("  %11.4g %11.4g %11.4g %11.4g", s->least, s->most, s->mean,
           s->deviation);
  if (s != NULL && s->nans > 0)
    printf("  %lld are no numbers", (long long)s->nans);
  printf("\n");
}

static ls_status show_entry(const ls_saved_file *file, size_t index,
                            const ls_saved_entry *entry,
                            const show_flags *flags) {
  statistics s;
  const statistics *shown = NULL;
  if (!flags->brief) {
    ls_array *array = NULL;
    LS_RETURN_IF_ERROR(ls_saved_file_read(file, index, &array));
    s = statistics_of(array);
    shown = &s;
    ls_array_release(array);
  }
  if (flags->json)
    print_entry_json(entry, shown);
  else
    print_entry(entry, shown);
  return ls_ok();
}

static ls_status cli_show(const ls_saved_file *file, const show_flags *flags) {
  ls_saved_info info;
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
       "no statistics, for which values are read", 0},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: path, format, step, saved,\n"
       "metrics, identity, states, and arrays, each with name,\n"
       "dtype, shape, bytes, min, max, mean, deviation, zeros,\n"
       "no_numbers",
       0},
  };
  const cli_syntax syntax = {
      .command = "checkpoint show",
      .about = "Shows what a checkpoint or a file holds: its step, when it was "
               "saved, what its\nrun is and the states in it, and of each "
               "array the type and some statistics.\nPATH is as in 'lockstep "
               "checkpoint --help'.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "PATH",
      .operand = &flags.path};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (!cli_words_open("checkpoint show", "only", flags.only, NULL,
                      &flags.words)) {
    cli_words_close(&flags.words);
    return CLI_USAGE;
  }
  ls_runtime *runtime = NULL;
  ls_saved_file *file = NULL;
  ls_status status = cli_saved_runtime(&runtime);
  if (ls_status_is_ok(status)) status = cli_recover_run(flags.path);
  if (ls_status_is_ok(status))
    status = ls_saved_file_open_unread(flags.path, &file);
  if (ls_status_is_ok(status)) status = cli_show(file, &flags);
  ls_saved_file_close(file);
  cli_words_close(&flags.words);
  if (!ls_status_is_ok(status)) code = cli_report("checkpoint show", status);
  return cli_runtime_close("checkpoint show", runtime, code);
}
