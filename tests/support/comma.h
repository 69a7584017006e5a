// SPDX-License-Identifier: Apache-2.0
// A language whose numbers have a decimal comma.
#ifndef LS_TESTS_SUPPORT_COMMA_H_
#define LS_TESTS_SUPPORT_COMMA_H_

#include <stdbool.h>

// Makes the language and sets it, for the whole program, so that the C library
// prints 0,5. No language needs to be installed. False where the C library
// takes none that is made like this.
bool comma_begin(void);
// Sets "C" again. Fine also where beginning has failed.
void comma_end(void);

#endif  // LS_TESTS_SUPPORT_COMMA_H_
