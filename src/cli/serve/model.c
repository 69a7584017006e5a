// SPDX-License-Identifier: Apache-2.0
// Exports that are served, and their signatures.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/serve/serve.h"
#include "cli/words.h"

// ---- Signatures ------------------------------------------------------------
static bool has_rows(const ls_serving_value *values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const ls_shape shape = values[i].type.shape;
    if (shape.rank < 1 || shape.dim[0] != LS_UNKNOWN_DIM ||
        values[i].type.dtype == LS_DTYPE_STRING)
      return false;
    for (int k = 1; k < shape.rank; ++k)
      if (shape.dim[k] < 0) return false;
  }
  return count > 0;
}

void cli_signature_init(const cli_served *model, const ls_serving_info *info,
                        cli_signature *out) {
  *out = (cli_signature){.model = model, .info = *info};
  out->batched = has_rows(info->inputs, info->num_inputs) &&
                 has_rows(info->outputs, info->num_outputs);
}

ls_status cli_served_find(const cli_served *model, const char *key,
                          cli_signature **out) {
  *out = NULL;
  if (key == NULL) key = LS_SERVING_DEFAULT;
  char known[256] = "";
  size_t used = 0;
  for (size_t i = 0; i < model->num_signatures; ++i) {
    const char *name = model->signatures[i].info.key;
    if (strcmp(name, key) == 0) {
      *out = &model->signatures[i];
      return ls_ok();
    }
    if (used < sizeof(known))
      used += (size_t)snprintf(known + used, sizeof(known) - used, "%s'%s'",
                               i > 0 ? ", " : "", name);
  }
  return ls_not_found("model '%s' has no signature '%.64s'; it has %s",
                      model->name, key, known);
}

// ---- Folders ---------------------------------------------------------------
static bool is_number(const char *text, size_t size) {
  for (size_t i = 0; i < size; ++i)
    if (!isdigit((unsigned char)text[i])) return false;
  return size > 0;
}

// Finds the newest export in a folder that is none itself: the folder with the
// largest number for a name.
static void find_newest(char *path, size_t size) {
  char file[PATH_MAX + 16];
  snprintf(file, sizeof(file), "%s/%s.ls", path, LS_SERVING_TAG);
  if (access(file, F_OK) == 0) return;
  DIR *folder = opendir(path);
  if (folder == NULL) return;
  char best[NAME_MAX + 1] = "";  // As it is written, such as "007".
  for (const struct dirent *it; (it = readdir(folder)) != NULL;) {
    const char *name = it->d_name;
    if (is_number(name, strlen(name)) &&
        (best[0] == '\0' ||
         strtoull(name, NULL, 10) > strtoull(best, NULL, 10)))
      snprintf(best, sizeof(best), "%s", name);
  }
  closedir(folder);
  const size_t used = strlen(path);
  if (best[0] != '\0') snprintf(path + used, size - used, "/%s", best);
}

// Returns the name of a model without one: the last part of its path that is
// no number.
static char *derive_name(const char *path) {
  char full[PATH_MAX];
  if (realpath(path, full) == NULL) snprintf(full, sizeof(full), "%s", path);
  for (size_t end = strlen(full); end > 0;) {
    size_t begin = end;
    while (begin > 0 && full[begin - 1] != '/')
      --begin;
    if (end > begin && !is_number(full + begin, end - begin))
      return cli_copy_text(full + begin, end - begin);
    end = begin > 0 ? begin - 1 : 0;
  }
  return cli_copy_text("model", 5);
}

static bool is_name(const char *text) {
  const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789._-";
  return text[0] != '\0' && text[strspn(text, letters)] == '\0';
}

// Reads an additional file; NULL if the export has none.
static ls_status read_asset(const cli_served *model, const char *name,
                            char **out) {
  char path[PATH_MAX + 64], text[4096];
  cli_buffer buffer = {0};
  *out = NULL;
  snprintf(path, sizeof(path), "%s/assets.extra/%s", model->folder, name);
  if (access(path, F_OK) != 0) return ls_ok();
  CLI_OWN(FILE, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  for (size_t size; (size = fread(text, 1, sizeof(text), file)) > 0;)
    cli_buffer_append(&buffer, text, size);
  cli_buffer_append(&buffer, "", 1);
  *out = buffer.data;
  return buffer.failed ? ls_out_of_memory() : ls_ok();
}

// Names the command that exports a run, if the folder is one.
static ls_status check_no_run(const char *folder) {
  char file[PATH_MAX + 16];
  snprintf(file, sizeof(file), "%s/%s.ls", folder, LS_SERVING_TAG);
  if (access(file, F_OK) == 0) return ls_ok();
  if (errno == ENOTDIR)
    return ls_invalid_argument("'%s' is no folder of an export: lockstep "
                               "export RUN makes one",
                               folder);
  snprintf(file, sizeof(file), "%s/config.json", folder);
  if (access(file, F_OK) != 0) return ls_ok();
  return LS_STATUS(LS_NOT_FOUND,
                   "'%s' is a run without an export: make one with lockstep "
                   "export %s",
                   folder, folder);
}

static ls_status read_signatures(cli_served *out) {
  const size_t count = ls_serving_num_signatures(out->serving);
  CLI_SET_ARRAY_OR_RETURN(out->signatures, count + 1);
  out->num_signatures = count;
  for (size_t i = 0; i < out->num_signatures; ++i) {
    ls_serving_info info;
    LS_RETURN_IF_ERROR(ls_serving_signature_info(out->serving, i, &info));
    if (info.num_inputs > CLI_VALUES || info.num_outputs > CLI_VALUES)
      return ls_unimplemented("signature '%s' has more than %d inputs or "
                              "outputs",
                              info.key, CLI_VALUES);
    cli_signature_init(out, &info, &out->signatures[i]);
  }
  return ls_ok();
}

// Reads the math of the run that was exported, which the runtime must have
// before the configuration can be read. A program's export may have a file of
// its own by the name config.json.
static ls_status read_math(cli_served *model) {
  char path[PATH_MAX + 64], kept[64];
  CLI_OWN_MEMORY(char, config) = NULL;
  CLI_OWN_MEMORY(char, estimator) = NULL;
  cli_member found;
  model->math = ls_math_name(LS_MATH_FAST);
  LS_RETURN_IF_ERROR(read_asset(model, "config.json", &config));
  LS_RETURN_IF_ERROR(read_asset(model, "estimator.json", &estimator));
  model->is_run = config != NULL && cli_json_find(config, "model", &found);
  const char *text = model->is_run ? config : estimator;
  snprintf(path, sizeof(path), "%s/assets.extra/%s", model->folder,
           model->is_run ? "config.json" : "estimator.json");
  return text != NULL && cli_json_find(text, "math", &found) &&
                 cli_json_copy(&found, kept, sizeof(kept))
             ? cli_kept_math(path, kept, &model->math)
             : ls_ok();
}

ls_status cli_served_locate(const char *word, cli_served *out) {
  char path[PATH_MAX];
  const char *equals = strchr(word, '=');
  const char *slash = strchr(word, '/');
  const bool named = equals != NULL && (slash == NULL || equals < slash) &&
                     access(word, F_OK) != 0;
  snprintf(path, sizeof(path), "%s", named ? equals + 1 : word);
  for (size_t end = strlen(path); end > 1 && path[end - 1] == '/';)
    path[--end] = '\0';
  find_newest(path, sizeof(path));
  out->name =
      named ? cli_copy_text(word, (size_t)(equals - word)) : derive_name(path);
  out->folder = cli_copy_text(path, strlen(path));
  if (out->name == NULL || out->folder == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(check_no_run(path));
  return read_math(out);
}

ls_status cli_served_load(cli_served *model) {
  char assets[PATH_MAX + 32];
  LS_RETURN_IF_ERROR(ls_serving_load(model->folder, NULL, &model->serving));
  LS_RETURN_IF_ERROR(read_signatures(model));
  snprintf(assets, sizeof(assets), "%s/assets.extra", model->folder);
  if (model->is_run)
    LS_RETURN_IF_ERROR(ls_train_config_read(assets, &model->config));
  return read_asset(model, "classes.txt", &model->classes);
}

ls_status cli_served_check_name(const cli_served *model) {
  return is_name(model->name)
             ? ls_ok()
             : ls_invalid_argument("'%s' is no name of a model, which stands in "
                                   "addresses: give one of letters, digits and "
                                   "._-, as in mnist=%s",
                                   model->name, model->folder);
}

bool cli_is_export(const char *folder) {
  char path[PATH_MAX], file[PATH_MAX + 16];
  size_t checkpoints = 0;
  snprintf(path, sizeof(path), "%s", folder);
  snprintf(file, sizeof(file), "%s/config.json", path);
  ls_status_free(ls_saved_steps(path, NULL, 0, &checkpoints));
  if (checkpoints > 0 || access(file, F_OK) == 0) return false;
  find_newest(path, sizeof(path));
  snprintf(file, sizeof(file), "%s/%s.ls", path, LS_SERVING_TAG);
  return access(file, F_OK) == 0;
}

void cli_served_close(cli_served *model) {
  for (size_t i = 0; i < model->num_signatures; ++i) {
    for (int k = 0; k < CLI_BUCKETS; ++k) {
      ls_nest_release(model->signatures[i].buckets[k].inputs);
      ls_nest_release(model->signatures[i].buckets[k].outputs);
    }
  }
  ls_decoder_destroy(model->language.decoder);
  ls_serving_destroy(model->serving);
  cli_release(model->signatures);
  cli_release(model->classes);
  ls_train_config_destroy(model->config);
  cli_release(model->folder);
  cli_release(model->name);
  *model = (cli_served){0};
}

// ---- Descriptions ----------------------------------------------------------
static void write_values(FILE *to, const char *name,
                         const ls_serving_value *values, size_t count) {
  fprintf(to, "\"%s\":{", name);
  for (size_t i = 0; i < count; ++i) {
    const ls_shape shape = values[i].type.shape;
    if (i > 0) putc(',', to);
    cli_write_json(to, values[i].name, strlen(values[i].name));
    fprintf(to, ":{\"dtype\":\"%s\",\"shape\":",
            ls_dtype_name(values[i].type.dtype));
    if (shape.rank < 0) fputs("null", to);
    for (int k = 0; k < shape.rank; ++k)
      fprintf(to, "%c%lld", k == 0 ? '[' : ',', (long long)shape.dim[k]);
    fputs(shape.rank == 0 ? "[]" : shape.rank > 0 ? "]" : "", to);
    if (cli_takes_bytes(&values[i]))
      fputs(",\"scale\":\"u8 arrays are divided by 255\"", to);
    putc('}', to);
  }
  putc('}', to);
}

const char *cli_served_version(const cli_served *model) {
  const char *slash = strrchr(model->folder, '/');
  const char *name = slash != NULL ? slash + 1 : model->folder;
  return is_number(name, strlen(name)) ? name : "1";
}

void cli_served_describe(FILE *to, const cli_served *model) {
  const char *version = cli_served_version(model);
  fputs("{\"name\":", to);
  cli_write_json(to, model->name, strlen(model->name));
  fputs(",\"model_version_status\":[{\"version\":", to);
  cli_write_json(to, version, strlen(version));
  fputs(",\"state\":\"AVAILABLE\",\"status\":{\"error_code\":\"OK\","
        "\"error_message\":\"\"}}],\"signatures\":{",
        to);
  for (size_t i = 0; i < model->num_signatures; ++i) {
    const ls_serving_info *info = &model->signatures[i].info;
    if (i > 0) putc(',', to);
    cli_write_json(to, info->key, strlen(info->key));
    fputs(":{", to);
    write_values(to, "inputs", info->inputs, info->num_inputs);
    putc(',', to);
    write_values(to, "outputs", info->outputs, info->num_outputs);
    fprintf(to, ",\"batched\":%s}",
            model->signatures[i].batched ? "true" : "false");
  }
  putc('}', to);
  if (model->language.decoder != NULL) fputs(",\"generates\":true", to);
  const char *at = model->classes;
  for (; at != NULL && *at != '\0';) {
    const size_t size = strcspn(at, "\n");
    fputs(at == model->classes ? ",\"classes\":[" : ",", to);
    cli_write_json(to, at, size);
    at += size + (at[size] == '\n');
  }
  fputs(at != NULL && at > model->classes ? "]}\n" : "}\n", to);
}
