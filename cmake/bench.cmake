# SPDX-License-Identifier: Apache-2.0
#
# Each bench/*.c is a program; what runs side by side in bench/compare is in
# bench/contestants/. Benchmarks see the internals.

function(ls_add_bench name)
  add_executable(bench_${name} ${ARGN})
  set_target_properties(bench_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  target_include_directories(bench_${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/bench")
  target_link_libraries(bench_${name} PRIVATE
    ls_flags lockstep_io_static ls_dependencies)
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

# Our side of bench/compare, bench/all_reduce, bench/data and bench/ops:
# users of the shared library, in a folder of their own, for they wait for
# orders.
foreach(contestant serve reduce feed ops)
  add_executable(bench_${contestant}
                 "${PROJECT_SOURCE_DIR}/bench/contestants/${contestant}.c")
  set_target_properties(bench_${contestant} PROPERTIES
    OUTPUT_NAME ${contestant}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
  target_link_libraries(bench_${contestant} PRIVATE
                        ls_flags lockstep_io bench_machine m)
endforeach()

# Models of tools/gpu-check, which the command loads.
add_library(bench_device_models MODULE
            "${PROJECT_SOURCE_DIR}/bench/contestants/device_models.c")
set_target_properties(bench_device_models PROPERTIES
  PREFIX "" OUTPUT_NAME device_models C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
target_link_libraries(bench_device_models PRIVATE ls_flags lockstep)

add_executable(bench_device_parts
               "${PROJECT_SOURCE_DIR}/bench/contestants/device_parts.c")
set_target_properties(bench_device_parts PROPERTIES
  OUTPUT_NAME device_parts
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
target_link_libraries(bench_device_parts PRIVATE ls_flags lockstep)

# Both sides of bench/all_reduce --ranks, once for each MPI.
foreach(prefix IN LISTS LS_MPIS)
  string(TOLOWER "${prefix}" mpi)
  add_executable(bench_reduce_${mpi}
                 "${PROJECT_SOURCE_DIR}/bench/contestants/reduce_ranks.c")
  set_target_properties(bench_reduce_${mpi} PROPERTIES
    OUTPUT_NAME reduce_${mpi}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/contestants")
  target_link_libraries(bench_reduce_${mpi} PRIVATE
    ls_flags lockstep bench_machine PkgConfig::${prefix})
  add_dependencies(bench_reduce_${mpi} lockstep_mpi)
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
