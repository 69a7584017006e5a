// SPDX-License-Identifier: Apache-2.0
// Plain numbers: in texts they have a point, whatever language the program has
// chosen by setlocale.
//
// All that this library prints and reads goes through here. Thread-safe: the
// language is changed for the calling thread only.
#ifndef LS_BASE_PLAIN_H_
#define LS_BASE_PLAIN_H_

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>

#include "lockstep/status.h"

// From here to the end, what this thread prints and reads by the C library has
// plain numbers. Returns what the end is given.
locale_t ls_plain_begin(void);
void ls_plain_end(locale_t before);

// snprintf and vsnprintf with plain numbers.
int ls_format(char *buffer, size_t size, const char *format, ...)
    LS_PRINTF(3, 4);
int ls_format_v(char *buffer, size_t size, const char *format,
                va_list arguments);
// strtod of a plain number; `out_end` may be NULL.
double ls_read_f64(const char *text, char **out_end);

#endif  // LS_BASE_PLAIN_H_
