// SPDX-License-Identifier: Apache-2.0
// Applies options of image files.
#ifndef LS_FORMATS_IMAGES_IMAGE_FILE_H_
#define LS_FORMATS_IMAGES_IMAGE_FILE_H_

#include "formats/images/image.h"
#include "lockstep/image.h"

// Checks the options (NULL: defaults) of `function` and applies them.
LS_MUST_USE ls_status ls_image_open(const char *function, const void *bytes,
                                    size_t size,
                                    const ls_image_options *options,
                                    ls_image_file *file);

#endif  // LS_FORMATS_IMAGES_IMAGE_FILE_H_
