// SPDX-License-Identifier: Apache-2.0
#include "support/comma.h"

#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The file LC_NUMERIC of a language, as localedef makes it for glibc.
typedef struct numeric_file {
  uint32_t magic, count;
  uint32_t places[6];
  char decimal_point[4];  // Its second byte is the empty text of others.
  uint32_t wide_decimal_point, wide_separator;
  char codeset[8];
} numeric_file;

static bool write_language(const char *folder) {
  char path[300];
  snprintf(path, sizeof(path), "%s/comma", folder);
  if (mkdir(folder, 0777) != 0 || mkdir(path, 0777) != 0) return false;
  const uint32_t empty = offsetof(numeric_file, decimal_point) + 1;
  const numeric_file content = {
      .magic = 0x20031115U ^ 1U,
      .count = 6,
      .places = {offsetof(numeric_file, decimal_point), empty, empty,
                 offsetof(numeric_file, wide_decimal_point),
                 offsetof(numeric_file, wide_separator),
                 offsetof(numeric_file, codeset)},
      .decimal_point = ",",
      .wide_decimal_point = ',',
      .codeset = "UTF-8"};
  snprintf(path, sizeof(path), "%s/comma/LC_NUMERIC", folder);
  FILE *file = fopen(path, "wb");
  if (file == NULL) return false;
  const bool written = fwrite(&content, sizeof(content), 1, file) == 1;
  return fclose(file) == 0 && written;
}

static void remove_language(const char *folder) {
  char path[300];
  snprintf(path, sizeof(path), "%s/comma/LC_NUMERIC", folder);
  (void)remove(path);
  snprintf(path, sizeof(path), "%s/comma", folder);
  (void)remove(path);
  (void)remove(folder);
}

bool comma_begin(void) {
  char folder[] = "language-XXXXXX";
  if (mkdtemp(folder) == NULL || remove(folder) != 0) return false;
  const bool written = write_language(folder);
  setenv("LOCPATH", folder, 1);
  const bool set = written && setlocale(LC_NUMERIC, "comma") != NULL;
  unsetenv("LOCPATH");
  remove_language(folder);
  char text[8] = "";
  snprintf(text, sizeof(text), "%g", 0.5);
  if (set && strcmp(text, "0,5") == 0) return true;
  comma_end();
  return false;
}

void comma_end(void) { setlocale(LC_NUMERIC, "C"); }
