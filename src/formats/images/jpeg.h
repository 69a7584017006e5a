// SPDX-License-Identifier: Apache-2.0
// JPEG (ITU T.81): photos packed with loss, baseline and progressive, of 8
// bits: gray, YCbCr, RGB, and CMYK, which becomes RGB.
//
// libjpeg-turbo unpacks them, through its TurboJPEG API (the only place with
// turbojpeg.h), with the methods that are its own default and Pillow's: exact
// integer cosine transform, smooth upsampling. So the pixels are the same.
#ifndef LS_FORMATS_IMAGES_JPEG_H_
#define LS_FORMATS_IMAGES_JPEG_H_

#include "formats/images/image.h"

bool ls_jpeg_is(const void *bytes, size_t size);

// As ls_image_parse and ls_image_decode (formats/images/image.h). Gray is the
// image's luminance; a requested alpha is opaque; 8 bits become 16 by
// multiplying with 257.
LS_MUST_USE ls_status ls_jpeg_parse(const ls_image_file *file,
                                    ls_image_header *out_header);
// LS_DATA_LOSS  also if the decoder guesses pixels, unless damaged files are
//                allowed: then a truncated file is gray after its end.
LS_MUST_USE ls_status ls_jpeg_decode(ls_allocator *allocator,
                                     const ls_image_file *file,
                                     const ls_pixels *out);

#endif  // LS_FORMATS_IMAGES_JPEG_H_
