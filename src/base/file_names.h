// SPDX-License-Identifier: Apache-2.0
//
// Names of users that become parts of paths: one that has a '/' or is ".."
// would lead out of the folder that it is to stand in.
#ifndef LS_BASE_FILE_NAMES_H_
#define LS_BASE_FILE_NAMES_H_

#include "lockstep/status.h"

// `what` is how a message calls it: "the name of an exporter".
//   LS_INVALID_ARGUMENT  it is no name of one file or folder: NULL, empty, ".",
//                        "..", or with a '/'.
LS_MUST_USE ls_status ls_file_name_check(const char *what, const char *name);
// The same of a path inside of `folder`, whose parts all are such names.
LS_MUST_USE ls_status ls_inner_path_check(const char *what, const char *folder,
                                          const char *path);

#endif  // LS_BASE_FILE_NAMES_H_
