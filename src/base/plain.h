// SPDX-License-Identifier: Apache-2.0
// Plain numbers: printed and read with a point, whatever locale the program has
// chosen by setlocale.
//
// The library prints and reads all numbers here. Thread-safe: the locale is
// changed for the calling thread only, while a call lasts.
#ifndef LS_BASE_PLAIN_H_
#define LS_BASE_PLAIN_H_

#include <stdarg.h>
#include <stddef.h>

#include "base/export.h"
#include "lockstep/status.h"

// snprintf and vsnprintf with plain numbers.
LS_PRIVATE_API int ls_format(char *buffer, size_t size, const char *format, ...)
    LS_PRINTF(3, 4);
int ls_format_v(char *buffer, size_t size, const char *format,
                va_list arguments);
// strtod and strtof for plain numbers; `out_end` may be NULL.
LS_PRIVATE_API double ls_read_f64(const char *text, char **out_end);
LS_PRIVATE_API float ls_read_f32(const char *text, char **out_end);

#endif  // LS_BASE_PLAIN_H_
