// SPDX-License-Identifier: Apache-2.0
// Files of tests/images, what Pillow reads in them, and what a build without
// the libraries leaves out.
#ifndef LS_TESTS_SUPPORT_IMAGE_FILES_H_
#define LS_TESTS_SUPPORT_IMAGE_FILES_H_

#include "base/memory/own.h"
#include "formats/images/image.h"
#include "lockstep/array.h"

// The file's bytes, given back with ls_release and the system's allocator.
ls_image_file image_file_open(const char *folder, const char *name);
void image_file_close(const ls_image_file *file);
LS_OWNED_STRUCT(ls_image_file, image_file_close)
// What the folder's pillow.safetensors has of this name, the caller's.
ls_array *image_reference(const char *folder, const char *name);
// Whether this build reads files of this name.
bool image_is_read(const char *name);

#endif  // LS_TESTS_SUPPORT_IMAGE_FILES_H_
