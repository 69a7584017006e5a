// SPDX-License-Identifier: Apache-2.0
#ifndef LS_BASE_EXPORT_H_
#define LS_BASE_EXPORT_H_

// Marks a private function that liblockstep exports for liblockstep-io only.
// cmake/symbols.map.in lists them under a symbol version of the release, so
// that two releases cannot be mixed.
#define LS_PRIVATE_API __attribute__((visibility("default")))

#endif  // LS_BASE_EXPORT_H_
