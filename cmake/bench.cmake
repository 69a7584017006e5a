# SPDX-License-Identifier: Apache-2.0
#
# Each bench/*.c is a program, and so is the folder bench/one_replica/; what
# runs side by side in bench/compare is in bench/contestants/. Benchmarks see
# the internals, and oneDNN as the yardstick where it is installed
# (LS_HAVE_DNNL).

function(ls_add_bench name)
  add_executable(bench_${name} ${ARGN})
  set_target_properties(bench_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_include_directories(bench_${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(bench_${name} PRIVATE
    ls_flags lockstep_static ls_dependencies)
  if(TARGET ls_dnnl)
    target_link_libraries(bench_${name} PRIVATE ls_dnnl)
  endif()
endfunction()

include(CheckCCompilerFlag)
check_c_compiler_flag(-march=native LS_HAS_MARCH_NATIVE)

# What the machine can do, and loops written by hand, for those who compare with
# them.
add_library(bench_machine STATIC
  "${PROJECT_SOURCE_DIR}/bench/common/machine.c"
  "${PROJECT_SOURCE_DIR}/bench/common/chains.c"
  "${PROJECT_SOURCE_DIR}/bench/common/feed.c"
  "${PROJECT_SOURCE_DIR}/bench/common/plain.c")
target_include_directories(bench_machine PUBLIC
  "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/bench")
target_link_libraries(bench_machine PRIVATE ls_flags Threads::Threads)
if(LS_HAS_MARCH_NATIVE)
  target_compile_options(bench_machine PRIVATE -march=native)
endif()

file(GLOB benches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")
foreach(bench IN LISTS benches)
  get_filename_component(name "${bench}" NAME_WE)
  ls_add_bench(${name} ${bench})
  target_link_libraries(bench_${name} PRIVATE bench_machine)
endforeach()

# Our side of bench/compare, bench/all_reduce and bench/data: users of the shared
# library, in a folder of their own, for they wait for orders.
foreach(contestant serve reduce feed)
  add_executable(bench_${contestant}
                 "${PROJECT_SOURCE_DIR}/bench/contestants/${contestant}.c")
  set_target_properties(bench_${contestant} PROPERTIES
    OUTPUT_NAME ${contestant}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
  target_link_libraries(bench_${contestant} PRIVATE
                        ls_flags lockstep bench_machine)
endforeach()

# The yardstick in bench/data, which knows nothing of the library.
add_executable(bench_feed_plain
               "${PROJECT_SOURCE_DIR}/bench/contestants/feed_plain.c"
               "${PROJECT_SOURCE_DIR}/bench/contestants/feed_images.c")
set_target_properties(bench_feed_plain PROPERTIES
  OUTPUT_NAME feed_plain
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
target_link_libraries(bench_feed_plain PRIVATE ls_flags bench_machine m)
if(LS_HAS_MARCH_NATIVE)
  target_compile_options(bench_feed_plain PRIVATE -march=native -O3)
endif()

foreach(library IN LISTS LS_IO_LIBRARIES)
  foreach(bench image_bench feed_plain)
    target_link_libraries(bench_${bench} PRIVATE PkgConfig::${library})
    target_compile_definitions(bench_${bench} PRIVATE LS_HAVE_${library}=1)
  endforeach()
endforeach()

# Runs oneDNN on OpenMP's threads and on ours, so it needs both. Its loops are
# compiled for the machine at hand.
find_package(OpenMP QUIET COMPONENTS C)
if(TARGET ls_dnnl AND OpenMP_C_FOUND)
  file(GLOB sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/bench/one_replica/*.c")
  ls_add_bench(one_replica ${sources})
  target_link_libraries(bench_one_replica PRIVATE OpenMP::OpenMP_C bench_machine)
  if(LS_HAS_MARCH_NATIVE)
    set_source_files_properties(
      "${PROJECT_SOURCE_DIR}/bench/one_replica/loops.c"
      PROPERTIES COMPILE_OPTIONS -march=native)
  endif()
else()
  list(APPEND LS_MISSING
    "oneDNN or OpenMP: the benchmark one_replica is not built")
endif()
