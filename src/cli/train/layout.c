// SPDX-License-Identifier: Apache-2.0
// Warm starts, and their flag --layout: "own", or "torch" and the images that
// kernels have as inputs, "torch,hidden/kernel=64x14x14".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/train/train_flags.h"

// Reads "CxHxW", up to a comma or the end.
static bool read_sizes(const char *text, ls_flat_kernel *out) {
  int64_t *const sizes[] = {&out->channels, &out->height, &out->width};
  for (size_t i = 0; i < 3; ++i) {
    char *end = NULL;
    *sizes[i] = strtoll(text, &end, 10);
    if (end == text || *sizes[i] < 1 || *sizes[i] > 1 << 20) return false;
    if (*end != (i < 2 ? 'x' : '\0')) return false;
    text = end + 1;
  }
  return true;
}

bool cli_layout_read(const char *text, cli_layout *out) {
  *out = (cli_layout){0};
  if (text == NULL || text[0] == '\0') return true;
  snprintf(out->text, sizeof(out->text), "%s", text);
  bool good = strlen(text) < sizeof(out->text);
  char *rest = out->text, *word = strsep(&rest, ",");
  const bool torch = strcmp(word, "torch") == 0;
  good &= torch || strcmp(word, "own") == 0;
  out->layout = torch ? LS_LAYOUT_TORCH : LS_LAYOUT_OWN;
  while (good && (word = strsep(&rest, ",")) != NULL) {
    char *sizes = strchr(word, '=');
    good = torch && out->count < CLI_MOST_FLAT && sizes != NULL &&
           read_sizes(sizes + 1, &out->flat[out->count]);
    if (!good) break;
    *sizes = '\0';
    out->flat[out->count++].variable = word;
  }
  if (!good)
    cli_refuse("train",
               "--layout is '%s', expected own, or torch with up to %d "
               "VARIABLE=CHANNELSxHEIGHTxWIDTH after it",
               text, CLI_MOST_FLAT);
  return good;
}

static bool open_words(const char *flag, const char *text, const char *map,
                       cli_words *out) {
  const bool is_given = text != NULL && text[0] != '\0';
  return cli_words_open("train", flag, is_given ? text : NULL, map, out);
}

ls_status cli_warm_open(const ls_train_config *config, cli_warm *out) {
  if (config->warm_start == NULL || config->warm_start[0] == '\0')
    return ls_ok();
  if (!cli_layout_read(config->warm_layout, &out->layout) ||
      !open_words("only", config->warm_only, NULL, &out->only) ||
      !open_words("except", config->warm_except, NULL, &out->except) ||
      !open_words("map", config->warm_map, "OLD=NEW", &out->maps))
    return ls_invalid_argument(
        "config.json is damaged: its warm start cannot be read");
  out->start = (ls_warm_start){.path = config->warm_start,
                               .values = {.only = out->only.items,
                                          .num_only = out->only.count,
                                          .except = out->except.items,
                                          .num_except = out->except.count,
                                          .names = out->maps.maps,
                                          .num_names = out->maps.count,
                                          .layout = out->layout.layout,
                                          .flat = out->layout.flat,
                                          .num_flat = out->layout.count,
                                          .convert = LS_FLAG_ON}};
  return ls_ok();
}

void cli_warm_close(cli_warm *warm) {
  cli_words_close(&warm->only);
  cli_words_close(&warm->except);
  cli_words_close(&warm->maps);
}
