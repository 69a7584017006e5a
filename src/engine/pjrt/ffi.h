// SPDX-License-Identifier: Apache-2.0
//
// The part of XLA's foreign function interface (FFI) that host calls need, in
// declarations of its own: what a handler is given, and how it is registered.
#ifndef LS_ENGINE_PJRT_FFI_H_
#define LS_ENGINE_PJRT_FFI_H_

#include <stddef.h>
#include <stdint.h>

#define LS_FFI_HEAD                                                            \
  size_t size;                                                                 \
  void *extensions

enum {
  LS_FFI_MINOR = 3,      // Version 0.3 is the newest that is known here.
  LS_FFI_METADATA = 1,   // Type of the extension of a query.
  LS_FFI_EXECUTE = 3,    // Stage of a call that computes.
  LS_FFI_EXTENSION = 5,  // Type of the plug-in's extension.
};

// Slots of a handler's table.
enum { LS_FFI_ERROR_CREATE = 0, LS_FFI_STREAM_GET = 4 };

typedef struct ls_ffi_version {
  LS_FFI_HEAD;
  int major, minor;
} ls_ffi_version;

// Metadata that a query asks for.
typedef struct ls_ffi_metadata {
  size_t size;
  ls_ffi_version version;
  uint32_t traits;
} ls_ffi_metadata;

// Extensions, of a plug-in's table or of a handler's call.
typedef struct ls_ffi_extension {
  size_t size;
  int type;
  struct ls_ffi_extension *next;
} ls_ffi_extension;
typedef struct ls_ffi_query {
  ls_ffi_extension base;
  ls_ffi_metadata *metadata;
} ls_ffi_query;

typedef struct ls_ffi_table {
  LS_FFI_HEAD;
  ls_ffi_version version;
  void *internal;
  void *(*slots[])(void *args);
} ls_ffi_table;

typedef struct ls_ffi_buffer {
  LS_FFI_HEAD;
  int dtype;
  void *data;  // In the device's memory.
  int64_t rank;
  int64_t *dims;
} ls_ffi_buffer;

typedef struct ls_ffi_values {
  LS_FFI_HEAD;
  int64_t count;
  int *types;
  ls_ffi_buffer **items;
} ls_ffi_values;

typedef struct ls_ffi_scalar {
  int dtype;
  void *value;
} ls_ffi_scalar;

// Attributes, sorted by name.
typedef struct ls_ffi_attributes {
  LS_FFI_HEAD;
  int64_t count;
  int *types;
  void **names;
  ls_ffi_scalar **items;
} ls_ffi_attributes;

typedef struct ls_ffi_call {
  LS_FFI_HEAD;
  const ls_ffi_table *table;
  void *context;
  int stage;
  ls_ffi_values operands, results;
  ls_ffi_attributes attributes;
} ls_ffi_call;

typedef struct ls_ffi_error_args {
  LS_FFI_HEAD;
  const char *message;
  int code;
} ls_ffi_error_args;

typedef struct ls_ffi_stream_args {
  LS_FFI_HEAD;
  void *context;
  void *stream;
} ls_ffi_stream_args;

// The extension of a plug-in that registers handlers.
typedef struct ls_ffi_plugin {
  ls_ffi_extension base;
  void *register_type, *add_user_data;
  void *(*register_handler)(void *args);
} ls_ffi_plugin;
typedef struct ls_ffi_register_args {
  size_t size;
  const char *name;
  size_t name_size;
  void *(*handler)(ls_ffi_call *call);
  const char *platform;
  size_t platform_size;
  int traits;
} ls_ffi_register_args;

#endif  // LS_ENGINE_PJRT_FFI_H_
