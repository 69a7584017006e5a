// SPDX-License-Identifier: Apache-2.0
// Layer: state
//
// Records: small trees of named numbers, texts and bytes, in which things that
// go on later keep where they are. In files they are JSON.
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

// An empty one. The caller owns it.
LS_API LS_MUST_USE ls_status ls_record_create(ls_record **out_record);
LS_API void ls_record_destroy(ls_record *record);  // NULL is fine.

// Sets what stands under a name; names, texts and bytes are copied. A name set
// twice has the last value. A failure changes nothing.
//   LS_INVALID_ARGUMENT  a name that is empty, no UTF-8, or one of those that
//                        mark bytes in files: "base64", "base64 text"
LS_API LS_MUST_USE ls_status ls_record_set_i64(ls_record *record,
                                               const char *name, int64_t value);
LS_API LS_MUST_USE ls_status ls_record_set_text(ls_record *record,
                                                const char *name,
                                                const char *value);
LS_API LS_MUST_USE ls_status ls_record_set_bytes(ls_record *record,
                                                 const char *name,
                                                 const void *data, size_t size);
// An empty record under a name, lent: it is its holder's, and gone when the
// name is set again.
//   LS_INVALID_ARGUMENT  the 49th inside each other
LS_API LS_MUST_USE ls_status ls_record_add(ls_record *record, const char *name,
                                           ls_record **out_inner);
// Empties it.
LS_API void ls_record_clear(ls_record *record);
// Makes `to` the same as `from`, which may be inside it.
LS_API LS_MUST_USE ls_status ls_record_copy(ls_record *to,
                                            const ls_record *from);

// What stands under a name. Texts, bytes and records are lent.
//   LS_NOT_FOUND         nothing does.
//   LS_INVALID_ARGUMENT  something of another kind does.
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

// As JSON: bytes are objects {"base64": "..."}, texts that are no UTF-8
// {"base64 text": "..."}. The caller owns the text (ls_text_release).
//   LS_INVALID_ARGUMENT  more than 65,000 entries, which nobody would read
LS_API LS_MUST_USE ls_status ls_record_to_text(const ls_record *record,
                                               char **out_text,
                                               size_t *out_size);
// `name` is what messages call the text.
//   LS_INVALID_ARGUMENT  names the line, or the entry that no record can hold.
LS_API LS_MUST_USE ls_status ls_record_from_text(const char *name,
                                                 const char *text, size_t size,
                                                 ls_record **out_record);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_RECORD_H_
