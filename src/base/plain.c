// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "base/plain.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

// The "C" locale, shared by all threads and never freed.
static locale_t plain;

static void make_plain(void) {
  plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

// Switches the thread to plain numbers; returns the locale to restore.
static locale_t plain_begin(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_plain);
  return uselocale(plain);  // Without memory for the locale, changes nothing.
}

int ls_format_v(char *buffer, size_t size, const char *format,
                va_list arguments) {
  const locale_t before = plain_begin();
  const int length = vsnprintf(buffer, size, format, arguments);
  uselocale(before);
  return length;
}

int ls_format(char *buffer, size_t size, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = ls_format_v(buffer, size, format, arguments);
  va_end(arguments);
  return length;
}

double ls_read_f64(const char *text, char **out_end) {
  const locale_t before = plain_begin();
  const double value = strtod(text, out_end);
  uselocale(before);
  return value;
}

float ls_read_f32(const char *text, char **out_end) {
  const locale_t before = plain_begin();
  const float value = strtof(text, out_end);
  uselocale(before);
  return value;
}
