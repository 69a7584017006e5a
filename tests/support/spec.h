// SPDX-License-Identifier: Apache-2.0
// Marks which rows of the spec a test holds: LS_SPEC("O175 O178"); stands in
// its body, or before it at file scope.
#ifndef LS_TESTS_SUPPORT_SPEC_H_
#define LS_TESTS_SUPPORT_SPEC_H_

#define LS_SPEC(ids) _Static_assert(sizeof(ids) > 1, "no rows")

#endif  // LS_TESTS_SUPPORT_SPEC_H_
