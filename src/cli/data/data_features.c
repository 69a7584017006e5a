// SPDX-License-Identifier: Apache-2.0
// Parses --features, which selects examples and labels in the data.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cli/data/data.h"

static ls_status parse_type(char *text, cli_feature *out) {
  out->typed = true;
  if (strcmp(text, "image") == 0) {
    out->image = true;
    return ls_ok();
  }
  out->shaped = strchr(text, '[') != NULL;
  ls_status status = out->shaped
                         ? ls_shape_parse(text, &out->dtype, &out->shape)
                         : ls_dtype_parse(text, &out->dtype);
  if (ls_status_is_ok(status) && out->shaped && !ls_shape_is_known(out->shape))
    status = ls_invalid_argument("'%s' is no known shape", text);
  return ls_status_annotate(status,
                            "in --features: examples of NAME=TYPE are "
                            "image=image, image=u8[28,28] and label=i64");
}

// Returns the end of the entry: a comma or semicolon outside of brackets.
static char *find_end(char *at) {
  int depth = 0;
  for (; *at != '\0' && ((*at != ',' && *at != ';') || depth > 0); ++at)
    depth += (*at == '[') - (*at == ']');
  return at;
}

ls_status cli_features_parse(const char *text, cli_features *out) {
  *out = (cli_features){0};
  if (text == NULL || text[0] == '\0') return ls_ok();
  if ((size_t)snprintf(out->text, sizeof(out->text), "%s", text) >=
      sizeof(out->text))
    return ls_invalid_argument("--features has %zu bytes, more than %zu",
                               strlen(text), sizeof(out->text) - 1);
  size_t num_examples = 0;  // 0: the last entry is the label.
  for (char *at = out->text, *end = NULL; at != NULL;
       at = end != NULL ? end + 1 : NULL) {
    end = find_end(at);
    const bool ends_examples = *end == ';';
    if (*end == '\0')
      end = NULL;
    else
      *end = '\0';
    if (out->count == CLI_MOST_FEATURES)
      return ls_invalid_argument("--features has more than %d names",
                                 CLI_MOST_FEATURES);
    cli_feature *feature = &out->items[out->count++];
    feature->name = at;
    if (ends_examples && num_examples > 0)
      return ls_invalid_argument("--features is '%s': one ; is before the "
                                 "labels",
                                 text);
    if (ends_examples) num_examples = out->count;
    char *type = strchr(at, '=');
    if (type != NULL) {
      *type++ = '\0';
      LS_RETURN_IF_ERROR(parse_type(type, feature));
    }
    if (feature->name[0] == '\0')
      return ls_invalid_argument("--features is '%s': name %zu is empty", text,
                                 out->count);
  }
  out->num_labels = num_examples > 0 ? out->count - num_examples : 1;
  return ls_ok();
}
