// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Records: small trees of named numbers, texts and bytes, in which resumable
// objects store their position. In files they are JSON.
//
// Threads: a record belongs to one thread at a time.
#ifndef LOCKSTEP_RECORD_H_
#define LOCKSTEP_RECORD_H_

#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_record ls_record;

// Creates an empty record. The caller owns it.
LS_API LS_MUST_USE ls_status ls_record_create(ls_record **out_record);
LS_API void ls_record_destroy(ls_record *record);  // NULL is fine.

// Set the value of a name; names, texts and bytes are copied. A name set twice
// has the last value. A failure changes nothing.
//   LS_INVALID_ARGUMENT  the name is empty, no UTF-8, or one of those that mark
//                        bytes in files: "base64", "base64 text"
LS_API LS_MUST_USE ls_status ls_record_set_i64(ls_record *record,
                                               const char *name, int64_t value);
LS_API LS_MUST_USE ls_status ls_record_set_text(ls_record *record,
                                                const char *name,
                                                const char *value);
LS_API LS_MUST_USE ls_status ls_record_set_bytes(ls_record *record,
                                                 const char *name,
                                                 const void *data, size_t size);
// Adds an empty record under a name, lent: the outer record owns it, and frees
// it when the name is set again.
//   LS_INVALID_ARGUMENT  more than 1080 nested records
LS_API LS_MUST_USE ls_status ls_record_add(ls_record *record, const char *name,
                                           ls_record **out_inner);
// Removes all entries.
LS_API void ls_record_clear(ls_record *record);
// Makes `target` a copy of `source`, which may be inside it.
LS_API LS_MUST_USE ls_status ls_record_copy(ls_record *target,
                                            const ls_record *source);

// Get the value of a name. Texts, bytes and records are lent.
//   LS_NOT_FOUND         the name is not set.
//   LS_INVALID_ARGUMENT  it has a value of another kind.
LS_API LS_MUST_USE ls_status ls_record_get_i64(const ls_record *record,
                                               const char *name,
                                               int64_t *out_value);
LS_API LS_MUST_USE ls_status ls_record_get_text(const ls_record *record,
                                                const char *name,
                                                const char **out_value);
LS_API LS_MUST_USE ls_status ls_record_get_bytes(const ls_record *record,
                                                 const char *name,
                                                 const void **out_data,
                                                 size_t *out_size);
LS_API LS_MUST_USE ls_status ls_record_find(const ls_record *record,
                                            const char *name,
                                            const ls_record **out_inner);

// Formats the record as JSON: bytes become objects {"base64": "..."}, texts
// that are no UTF-8 {"base64 text": "..."}. The caller owns the text
// (ls_text_release).
//   LS_INVALID_ARGUMENT  more than 65,000 entries, the reader's limit
LS_API LS_MUST_USE ls_status ls_record_to_text(const ls_record *record,
                                               char **out_text,
                                               size_t *out_size);
// Parses a record; the caller owns it. `name` is the text's name in messages.
//   LS_INVALID_ARGUMENT  names the line, or the entry that no record can hold.
LS_API LS_MUST_USE ls_status ls_record_from_text(const char *name,
                                                 const char *text, size_t size,
                                                 ls_record **out_record);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RECORD_H_
