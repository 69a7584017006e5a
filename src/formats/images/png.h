// SPDX-License-Identifier: Apache-2.0
// PNG (ISO 15948): images packed without loss. All kinds are supported: gray,
// color and palette, with and without alpha, of 1 to 16 bits, interlaced or
// not.
//
// libpng unpacks them (the only place with png.h); its longjmp on errors ends
// in one function here. Gamma and color profiles are not applied, as usual in
// training pipelines; a transparent color counts as alpha if alpha is
// requested, or if the image has a palette.
#ifndef LS_FORMATS_IMAGES_PNG_H_
#define LS_FORMATS_IMAGES_PNG_H_

#include "formats/images/image.h"

bool ls_png_is(const void *bytes, size_t size);

// See ls_image_parse and ls_image_decode (io/images/image.h). 16 bits become 8
// by their high byte, and 8 become 16 by multiplying with 257; color becomes
// gray by ls_image_gray.
LS_MUST_USE ls_status ls_png_parse(const ls_image_file *file,
                                   ls_image_header *out_header);
LS_MUST_USE ls_status ls_png_decode(ls_allocator *allocator,
                                    const ls_image_file *file,
                                    const ls_pixels *out);

#endif  // LS_FORMATS_IMAGES_PNG_H_
