// SPDX-License-Identifier: Apache-2.0
// Services for all commands: messages, the runtime, and a step to time or
// print.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/look/canvas.h"
#include "cli/ranks.h"
#include "cli/serve/serve.h"
#include "lockstep/communicator.h"

// ---- Messages --------------------------------------------------------------
// Writes an untrusted text, such as a path, without control characters and
// bytes that are no UTF-8; leaves out the middle of a long one.
static void put_clean(FILE *out, const char *text, size_t size, char except) {
  enum { MOST = 4096, END = 256 };
  char piece[512];
  size_t used = 0, next = 0;  // `next` is where the next character begins.
  bool good = true;
  for (size_t i = 0; i < size; ++i) {
    if (i == next) {
      const size_t length = cli_character_size(text + i);
      good = length > 0 || text[i] == except;
      next += length > 0 ? length : 1;
    }
    piece[used++] = good ? text[i] : '?';
    const bool cut = size > MOST && i == MOST - END;
    if (used == sizeof(piece) || cut) {
      fwrite(piece, 1, used, out);
      used = 0;
    }
    if (!cut) continue;
    fputs(" [...] ", out);
    i = size - END - 1;
    next = size - END;
  }
  fwrite(piece, 1, used, out);
}

void cli_print_clean(const char *text) {
  cli_print_clean_bytes(text, strlen(text));
}

void cli_print_clean_bytes(const char *bytes, size_t size) {
  put_clean(stdout, bytes, size, '\0');
}

// Writes which rank is speaking, if it is another one than the first.
static void put_rank(FILE *out) {
  const ls_communicator *ranks = cli_ranks();
  if (cli_leads()) return;
  fprintf(out, "rank %d", ranks->rank);
  if (ranks->host != NULL)
    fprintf(out, " (host %s)", ranks->host(ranks, ranks->rank));
  fputs(": ", out);
}

// Begins a message, of a command (NULL: of the program), and locks its file.
static FILE *begin_line(const char *command) {
  FILE *out = cli_messages();
  flockfile(out);
  cli_clear_progress();
  fprintf(out, "lockstep%s%s: ", command != NULL ? " " : "",
          command != NULL ? command : "");
  put_rank(out);
  return out;
}

static void end_line(FILE *out) {
  fputc('\n', out);
  funlockfile(out);
}

static void LS_PRINTF(3, 0) say(const char *command, bool refuses,
                                const char *format, va_list arguments) {
  char text[3 * PATH_MAX];
  vsnprintf(text, sizeof(text), format, arguments);
  if (!cli_leads() && (!refuses || cli_is_told_elsewhere(text))) return;
  FILE *out = begin_line(command);
  put_clean(out, text, strlen(text), '\0');
  end_line(out);
}

void cli_say(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(command, false, format, arguments);
  va_end(arguments);
}

bool cli_refuse(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(command, true, format, arguments);
  va_end(arguments);
  return false;
}

// Prints a status on one line, with its notes in parentheses; a text with a
// list, which follows a colon, keeps its lines.
int cli_report(const char *command, ls_status status) {
  if (ls_status_is_ok(status)) return CLI_OK;
  if (cli_is_told_elsewhere(ls_status_message(status))) {
    ls_status_free(status);
    return CLI_OTHER_RANK;
  }
  const char *text = ls_status_message(status);
  const bool has_list = strstr(text, ":\n") != NULL;
  const size_t first = strcspn(text, "\n");
  FILE *out = begin_line(command);
  put_clean(out, text, first, '\0');
  for (const char *at = text + first; *at != '\0';) {
    ++at;
    const size_t size = strcspn(at, "\n");
    if (size > 0) {
      fputs(has_list ? "\n" : " (", out);
      put_clean(out, at, size, '\0');
      fputs(has_list ? "" : ")", out);
    }
    at += size;
  }
  end_line(out);
  ls_status_free(status);
  return CLI_FAILED;
}

// ---- Files -----------------------------------------------------------------
static ls_status no_file(const char *path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  return LS_STATUS(missing ? LS_NOT_FOUND : LS_UNAVAILABLE,
                   "cannot read '%s': %s", path, strerror(error));
}

ls_status cli_open_file(const char *path, FILE **out_file) {
  struct stat info;
  *out_file = NULL;
  // Checked before opening, too: opening a device may have effects.
  if (stat(path, &info) != 0) return no_file(path, errno);
  const int file = S_ISREG(info.st_mode)
                       ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
                       : -1;
  if (file < 0 && S_ISREG(info.st_mode)) return no_file(path, errno);
  if (file < 0 || fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    if (file >= 0) close(file);
    return ls_invalid_argument("cannot read '%s': it is no regular file", path);
  }
  *out_file = fdopen(file, "rb");
  if (*out_file != NULL) return ls_ok();
  close(file);
  return ls_out_of_memory();
}

ls_status cli_create_file(const char *path, cli_new_file *out) {
  enum { MOST_NAMES = 1000 };
  struct stat old;
  *out = (cli_new_file){.path = path};
  const bool is_there = lstat(path, &old) == 0;
  if (is_there && S_ISLNK(old.st_mode))
    return ls_invalid_argument(
        "cannot write '%s': it is a link, which may lead to anybody's file; "
        "name the file itself, or remove the link",
        path);
  if (is_there && !S_ISREG(old.st_mode))
    return ls_invalid_argument("cannot write '%s': it is no regular file",
                               path);
  // Takes a name that no file has: one there may be anybody's, or what a killed
  // command left.
  int file = -1;
  char number[16] = "";
  errno = EEXIST;
  for (int i = 1; i < MOST_NAMES && file < 0 && errno == EEXIST; ++i) {
    errno = ENAMETOOLONG;
    if (snprintf(out->aside, PATH_MAX, "%s%s.tmp", path, number) < PATH_MAX)
      file = open(out->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    snprintf(number, sizeof(number), ".%d", i);
  }
  if (file >= 0 && is_there) (void)fchmod(file, old.st_mode & 07777);
  if (file >= 0) out->file = fdopen(file, "wb");
  if (out->file != NULL) return ls_ok();
  const ls_status status =
      LS_STATUS(LS_UNAVAILABLE, "cannot write '%s': %s", path, strerror(errno));
  if (file >= 0) {
    (void)unlink(out->aside);
    close(file);
  }
  return status;
}

ls_status cli_finish_file(cli_new_file *self, ls_status status) {
  const bool good = fflush(self->file) == 0 && ferror(self->file) == 0 &&
                    fsync(fileno(self->file)) == 0;
  if (ls_status_is_ok(status) &&
      (!good || rename(self->aside, self->path) != 0))
    status = LS_STATUS(LS_UNAVAILABLE, "cannot write '%s': %s", self->path,
                       strerror(errno));
  if (!ls_status_is_ok(status)) (void)unlink(self->aside);
  (void)fclose(self->file);
  self->file = NULL;
  return status;
}

// ---- Memory ----------------------------------------------------------------
void *cli_allocate(size_t size) {
  ls_allocator *system = ls_allocator_system();
  void *memory = system->allocate(system, size > 0 ? size : 1, 16);
  if (memory != NULL) memset(memory, 0, size);
  return memory;
}

void cli_release(void *memory) {
  ls_allocator *system = ls_allocator_system();
  if (memory != NULL) system->release(system, memory);
}

// ---- Runtime ---------------------------------------------------------------
static ls_log_level shown = LS_LOG_DEBUG;

void cli_show_warnings_alone(void) {
  shown = cli_leads() ? LS_LOG_WARNING : LS_LOG_ERROR;
}

// Writes a log line without breaking the progress line, cleaned like messages.
static void write_log(void *user, const ls_log_line *line) {
  static const char *const levels[] = {"error", "warning", "info", "debug"};
  FILE *out = user != NULL ? user : stderr;
  // A user who traces tensors wants to see them.
  const bool is_wanted =
      line->level <= shown || strcmp(line->source, "tensor_tracer") == 0;
  if (!is_wanted || !ls_log_is_shown(line->level)) return;
  // The first rank logs for all.
  if (!cli_leads() && line->level > LS_LOG_ERROR) return;
  flockfile(out);
  cli_clear_progress();
  fprintf(out, "lockstep: %s: %s: ", levels[line->level], line->source);
  put_clean(out, line->text, strlen(line->text), '\n');
  fputc('\n', out);
  funlockfile(out);
}

bool cli_check_math(const char *command, const char *math) {
  static const char *const choices[] = {"fast", "direct"};
  return math == NULL || cli_choose(command, "math", math, choices, 2);
}

cli_device_flags cli_device;

bool cli_check_device(const char *command) {
  static const char *const bits[] = {"fast", "exact"};
  if (cli_device.topology != NULL && cli_device.name == NULL)
    cli_device.name = "tpu";
  const bool given = cli_device.bits != NULL || cli_device.count > 0;
  if (cli_device.bits != NULL &&
      !cli_choose(command, "bits", cli_device.bits, bits, 2))
    return false;
  if (!given ||
      (cli_device.name != NULL && strcmp(cli_device.name, "cpu") != 0))
    return true;
  return cli_refuse(command, "--%s is for devices with a plug-in%s",
                    cli_device.count > 0 ? "devices" : "bits",
                    cli_device.name == NULL ? ": add --device"
                                            : ", not for --device cpu");
}

bool cli_check_arithmetic(const char *command, const char *precision,
                          const char **math) {
  if (!cli_check_math(command, *math)) return false;
  if (precision == NULL) return true;
  if (!cli_check_precision(command, precision)) return false;
  if (strcmp(precision, "bf16") != 0) return true;
  const bool direct = *math != NULL && strcmp(*math, "direct") == 0;
  *math = ls_math_name(direct ? LS_MATH_BF16_DIRECT : LS_MATH_BF16);
  return true;
}

static bool find_math(const char *name, ls_math *out_math) {
  for (int i = 0; ls_math_name((ls_math)i) != NULL; ++i) {
    *out_math = (ls_math)i;
    if (strcmp(ls_math_name(*out_math), name) == 0) return true;
  }
  return false;
}

ls_status cli_kept_math(const char *path, const char *kept,
                        const char **out_math) {
  ls_math known;
  if (!find_math(kept, &known))
    return ls_invalid_argument(
        "'%s': \"math\" is '%s', expected fast, direct, bf16 or bf16-direct",
        path, kept);
  *out_math = ls_math_name(known);
  return ls_ok();
}

const char *cli_math_name(const ls_runtime *runtime) {
  return ls_math_name(ls_runtime_math(runtime));
}

ls_status cli_runtime_open(int64_t threads, const char *math,
                           ls_runtime **out_runtime) {
  *out_runtime = NULL;
  ls_math wanted = LS_MATH_FAST;
  if (math != NULL) (void)find_math(math, &wanted);  // Checked before.
  const bool is_exact =
      cli_device.bits != NULL && strcmp(cli_device.bits, "exact") == 0;
  const cli_process *process = cli_process_current();
  ls_runtime_options options = {.threads = (int)threads,
                                .communicator = process->ranks};
  if (process->simulated != NULL) options = *process->simulated;
  options.log = write_log;
  options.log_user = process->output;
  options.math = wanted;
  options.device = cli_device.name;
  options.num_devices = (int)cli_device.count;
  options.exact_bits = is_exact;
  options.find_nan = cli_device.find_nan;
  options.topology = cli_device.topology;
  LS_RETURN_IF_ERROR(ls_runtime_create(&options, out_runtime));
  ls_runtime_make_current(*out_runtime);
  return ls_ok();
}

ls_status cli_runtime_open_input(int64_t threads, ls_runtime **out_runtime) {
  *out_runtime = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.log = write_log,
                            .threads = 1,
                            .input_threads =
                                threads >= 0 ? LS_SOME(threads) : (ls_opt){0}},
      out_runtime));
  ls_runtime_make_current(*out_runtime);
  return ls_ok();
}

bool cli_is_overwritten(const char *path) {
  char phase[PATH_MAX];
  struct stat info;
  const int size =
      snprintf(phase, sizeof(phase), "%s/.overwritten/phase", path);
  return size < (int)sizeof(phase) && lstat(phase, &info) == 0;
}

ls_status cli_open_step(const char *folder, int64_t step, ls_saved_file **out) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof(path), "%s/model.ckpt-%lld", folder, (long long)step);
  return ls_saved_file_open_unread(path, out);
}

ls_status cli_recover_run(const char *path) {
  CLI_OWN(ls_train_config, config) = NULL;
  if (!cli_is_overwritten(path)) return ls_ok();
  // Reading config.json, which an estimator's run lacks, settles an overwritten
  // run.
  CLI_OWN(ls_status, status) = ls_train_config_read(path, &config);
  return ls_status_code(status) == LS_NOT_FOUND ? ls_ok() : cli_give(&status);
}

ls_status cli_checkpoint_steps(const char *folder, int64_t **out_steps,
                               size_t *out_count) {
  size_t room = 0;
  *out_steps = NULL;
  *out_count = 0;
  LS_RETURN_IF_ERROR(ls_saved_steps(folder, NULL, 0, &room));
  CLI_OWN_ARRAY_OR_RETURN(int64_t, steps, room);
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_saved_steps(folder, steps, room, &count));
  *out_steps = cli_give(&steps);
  *out_count = count < room ? count : room;  // A run may write more.
  return ls_ok();
}

ls_status cli_has_checkpoints(const char *folder, bool *out_has) {
  size_t count = 0;
  const ls_status status = ls_saved_steps(folder, NULL, 0, &count);
  *out_has = count > 0;
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  ls_status_free(status);
  return ls_ok();
}

ls_status cli_note_saved(const char *run_folder, ls_status status) {
  size_t count = 0;
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  const ls_code code = ls_status_code(status);
  const bool by_files = code == LS_UNAVAILABLE || code == LS_PERMISSION_DENIED;
  if (!by_files || run_folder == NULL) return status;
  ls_status_free(cli_checkpoint_steps(run_folder, &steps, &count));
  if (count > 0)
    status = ls_status_annotate(
        status,
        "the run in '%s' is saved up to step %lld, its newest checkpoint; once "
        "the cause is fixed, 'lockstep train --resume' continues from there",
        run_folder, (long long)steps[count - 1]);
  return status;
}

ls_status cli_note_seeds(const char *folder, ls_status status) {
  char pattern[PATH_MAX + 32];
  glob_t found = {0};
  snprintf(pattern, sizeof(pattern), "%s/seed-*/metrics.jsonl", folder);
  if (ls_status_code(status) == LS_NOT_FOUND &&
      glob(pattern, 0, NULL, &found) == 0)
    status = ls_status_annotate(status, "it has runs of %zu seeds: %s/seed-*",
                                found.gl_pathc, folder);
  globfree(&found);
  return status;
}

// Adds a hint if a path is not a run folder but a run's checkpoint, or an
// estimator's folder, which has checkpoints and no config.json.
static ls_status hint_run(const char *path, ls_status status) {
  bool has = false;
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  const char *slash = strrchr(path, '/');
  if (strncmp(slash != NULL ? slash + 1 : path, "model.ckpt-", 11) == 0)
    return ls_status_annotate(
        status, "name the folder, for its newest checkpoint; 'lockstep train "
                "--resume' takes an older one, too, and continues in a new "
                "folder");
  ls_status_free(cli_has_checkpoints(path, &has));
  if (!has) return cli_note_seeds(path, status);
  return ls_status_annotate(
      status, "it has checkpoints: if an estimator was trained there, name it "
              "by --model ./mine.so, or by --model NAME --estimator");
}

ls_status cli_run_open(const char *run_folder, int64_t threads,
                       const char *math, ls_runtime **out_runtime,
                       ls_train_config **out_config) {
  char path[PATH_MAX + 16];
  *out_config = NULL;
  LS_RETURN_IF_ERROR(cli_runtime_open(threads, math, out_runtime));
  LS_RETURN_IF_ERROR(
      hint_run(run_folder, ls_train_config_read(run_folder, out_config)));
  const char *kept = (*out_config)->math;
  if (math != NULL || strcmp(kept, cli_math_name(*out_runtime)) == 0)
    return ls_ok();
  snprintf(path, sizeof(path), "%s/config.json", run_folder);
  LS_RETURN_IF_ERROR(cli_kept_math(path, kept, &kept));
  // Only a runtime can read the run's math, so makes a second runtime with it.
  ls_train_config_destroy(*out_config);
  *out_config = NULL;
  ls_runtime_make_current(NULL);
  LS_RETURN_IF_ERROR(ls_runtime_destroy(*out_runtime));
  LS_RETURN_IF_ERROR(cli_runtime_open(threads, kept, out_runtime));
  return ls_train_config_read(run_folder, out_config);
}

int cli_runtime_close(const char *command, ls_runtime *runtime, int code) {
  ls_runtime_make_current(NULL);
  if (runtime == NULL) return code;
  const int closed = cli_report(command, ls_runtime_destroy(runtime));
  return closed == CLI_OK ? code : closed;
}

ls_status cli_begin_rows(ls_dataset *dataset, ls_iterator **out_iterator) {
  return ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, out_iterator);
}

int cli_with_runtime(const char *command, ls_status (*body)(void *user),
                     void *user) {
  ls_runtime *runtime = NULL;
  ls_status status = cli_runtime_open(0, NULL, &runtime);
  if (ls_status_is_ok(status)) status = body(user);
  return cli_runtime_close(command, runtime, cli_report(command, status));
}

// Calls `body` for an open run; returns an exit code.
static int use_run(cli_run *run, const ls_train_config *config,
                   ls_status (*body)(void *user, const ls_train_config *config,
                                     const ls_model_type *type),
                   void *user) {
  if (!cli_run_model(run->command, run->folder, run->step, config->model,
                     run->model, &run->model))
    return CLI_USAGE;
  const ls_model_type *type = cli_find_model(run->command, run->model);
  if (type == NULL) return CLI_FAILED;
  ls_model_type room;
  ls_status status = cli_run_type(config, &type, &room);
  if (ls_status_is_ok(status)) status = body(user, config, type);
  return cli_report(run->command, status);
}

ls_status cli_load_run(const cli_run *run, const ls_model *model,
                       ls_session *session) {
  const bool is_last = run->checkpoint[0] == '\0';
  if (is_last && session == NULL) return ls_train_load(run->folder, model);
  CLI_OWN(ls_saved_file, file) = NULL;
  const size_t count = model->type->variables(model->self, NULL, 0);
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, variables, count);
  (void)model->type->variables(model->self, variables, count);
  LS_RETURN_IF_ERROR(
      ls_saved_file_open(is_last ? run->folder : run->checkpoint, &file));
  return ls_saved_file_restore(file, &(ls_saver){.variables = variables,
                                                 .num_variables = count,
                                                 .session = session});
}

// Splits RUN@STEP into the run's folder and its checkpoint.
static bool take_step(cli_run *run) {
  if (!cli_split_step(run->command, run->folder, run->room, &run->step))
    return false;
  if (!run->step.set || !cli_is_run(run->room)) return true;
  run->folder = run->room;
  snprintf(run->checkpoint, sizeof(run->checkpoint), "%s/model.ckpt-%lld",
           run->folder, (long long)run->step.value);
  return true;
}

// Checks that the checkpoint that was named is there; a failure tells which
// are.
static ls_status check_step(const cli_run *run) {
  char path[PATH_MAX + 64], all[200] = "";
  CLI_OWN_MEMORY(int64_t, steps) = NULL;
  size_t count = 0;
  snprintf(path, sizeof(path), "%s.json", run->checkpoint);
  if (run->checkpoint[0] == '\0' || cli_exists(path)) return ls_ok();
  LS_RETURN_IF_ERROR(cli_checkpoint_steps(run->folder, &steps, &count));
  for (size_t i = 0, size = 0; i < count && size < sizeof(all) - 24; ++i)
    size += (size_t)snprintf(all + size, sizeof(all) - size, "%s %lld",
                             i > 0 ? "," : "", (long long)steps[i]);
  return ls_not_found("'%s' has no checkpoint of step %s; it has%s",
                      run->folder, strrchr(run->checkpoint, '-') + 1,
                      count > 0 ? all : " none");
}

int cli_with_run(cli_run *run,
                 ls_status (*body)(void *user, const ls_train_config *config,
                                   const ls_model_type *type),
                 void *user) {
  ls_runtime *runtime = NULL;
  ls_train_config *config = NULL;
  if (!take_step(run)) return CLI_FAILED;
  ls_status status =
      cli_run_open(run->folder, run->threads, run->math, &runtime, &config);
  if (ls_status_is_ok(status)) status = check_step(run);
  const int code = ls_status_is_ok(status) ? use_run(run, config, body, user)
                                           : cli_report(run->command, status);
  ls_train_config_destroy(config);
  return cli_runtime_close(run->command, runtime, code);
}

int cli_with_export(const cli_run *run,
                    ls_status (*body)(void *user, cli_served *served),
                    void *user) {
  ls_runtime *runtime = NULL;
  cli_served served = {0};
  if (run->model != NULL)
    return cli_misuse(run->command,
                      "--model is for runs; '%s' is an export, which has "
                      "its model",
                      run->folder);
  ls_status status = cli_served_locate(run->folder, &served);
  if (ls_status_is_ok(status))
    status = cli_runtime_open(
        run->threads, run->math != NULL ? run->math : served.math, &runtime);
  if (ls_status_is_ok(status)) status = cli_served_load(&served);
  if (ls_status_is_ok(status)) status = body(user, &served);
  cli_served_close(&served);
  return cli_runtime_close(run->command, runtime,
                           cli_report(run->command, status));
}

// ---- Traces ----------------------------------------------------------------
ls_status cli_trace_begin(ls_runtime *runtime, const char *path,
                          ls_trace **out_trace) {
  *out_trace = NULL;
  return path == NULL
             ? ls_ok()
             : ls_trace_begin(runtime, &(ls_trace_options){.path = path},
                              out_trace);
}

int cli_trace_end(const char *command, ls_trace *trace, int code) {
  if (trace == NULL) return code;
  ls_trace_end(trace);
  const int written = cli_report(command, ls_trace_write(trace, NULL));
  ls_trace_destroy(trace);
  return code == CLI_OK && written != CLI_OK ? CLI_FAILED : code;
}
