# SPDX-License-Identifier: Apache-2.0
#
# Each bench/*.c is a program, and so is each folder bench/<name>/. Benchmarks
# see the internals, and oneDNN as the yardstick where it is installed
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

file(GLOB benches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")
foreach(bench IN LISTS benches)
  get_filename_component(name "${bench}" NAME_WE)
  ls_add_bench(${name} ${bench})
endforeach()

# Runs oneDNN on OpenMP's threads and on ours, so it needs both. Its loops are
# compiled for the machine at hand.
find_package(OpenMP QUIET COMPONENTS C)
if(TARGET ls_dnnl AND OpenMP_C_FOUND)
  include(CheckCCompilerFlag)
  check_c_compiler_flag(-march=native LS_HAS_MARCH_NATIVE)
  file(GLOB sources CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/bench/one_replica/*.c")
  ls_add_bench(one_replica ${sources})
  target_link_libraries(bench_one_replica PRIVATE OpenMP::OpenMP_C)
  if(LS_HAS_MARCH_NATIVE)
    set_source_files_properties(
      "${PROJECT_SOURCE_DIR}/bench/one_replica/loops.c"
      PROPERTIES COMPILE_OPTIONS -march=native)
  endif()
else()
  list(APPEND LS_MISSING
    "oneDNN or OpenMP: the benchmark one_replica is not built")
endif()
