# SPDX-License-Identifier: Apache-2.0
#
# How every C file of ours is compiled: target `ls_flags`.
#
# NDEBUG is never defined. The floating-point flags are part of the promise of
# equal bits: no contraction that the source does not ask for, while errno and
# trap bookkeeping, which no result depends on, may go.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
# Compilers take half as long as at -O2; gcc's -Warray-bounds asks for
# -ftree-vrp.
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  set(CMAKE_C_FLAGS_DEBUG "-O1 -ftree-vrp -g")
endif()
if(LS_SANITIZE OR LS_COVERAGE)  # Reports need lines, not variables.
  set(CMAKE_C_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD 11)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(ls_flags INTERFACE)
target_compile_options(ls_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wconversion -Wshadow -Wvla -Wundef
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
  $<$<BOOL:${LS_WERROR}>:-Werror>)

if(LS_SANITIZE)
  target_compile_options(ls_flags INTERFACE
    -fsanitize=${LS_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(ls_flags INTERFACE -fsanitize=${LS_SANITIZE})
  # Undefined behaviour ends in a trap, whose line AddressSanitizer tells: the
  # texts of all checks are two thirds of a program, which each start loads.
  if(LS_SANITIZE MATCHES address AND NOT LS_FUZZ)
    target_compile_options(ls_flags INTERFACE
      -fsanitize-undefined-trap-on-error)
    # An access outside of an object is one that AddressSanitizer finds.
    if(LS_SANITIZE MATCHES undefined)
      target_compile_options(ls_flags INTERFACE -fno-sanitize=object-size)
    endif()
  endif()
endif()
if(LS_COVERAGE)
  target_compile_options(ls_flags INTERFACE --coverage)
  target_link_options(ls_flags INTERFACE --coverage)
endif()
if(LS_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LS_FUZZ needs clang, which has libFuzzer; "
                        "the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  target_compile_options(ls_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
