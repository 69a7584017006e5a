# SPDX-License-Identifier: Apache-2.0
#
# Tests are found by name:
#   tests/<folder>/<noun>_test.c  tests that see internals; all are linked into
#                                 one program, tests/unit_tests, which runs the
#                                 file that its argument names
#   tests/base/alone.c            a program of the objects of base alone
#   tests/cli/*.sh                a script that gets the program as $LOCKSTEP
#   tests/mpi/*.c                 programs that mpirun starts, with each MPI
#   tests/tools/*_test.sh         a script about the tree and the build
#   docs/<page>.md                tools/docs_<page>, which runs its code blocks
#   tests/interop/*_test.sh       one that other programs read and write, too
#   tests/languages/*_test.sh     one about programs in other languages
#   tests/languages/ranks.sh      the same on ranks, with each MPI
#   examples/*.c, *.cpp, short/*.c  a program that must exit with 0
#   fuzz/<noun>_fuzz.c            replayed over its corpus, or a libFuzzer
#                                 target where LS_FUZZ is on
# Every test has a time limit, and a scratch folder of its own to run in.

enable_testing()

# Not with sanitizers: these compare numbers or whole runs of the program, take
# long, and pass through no code that the other tests leave out.
set(LS_LONG_TESTS
  "^(models/(golden_|.*bits_test|lanes|scale|uneven|model_arith)|cli/(alike|bench|resume)$|pjrt/topology_test$|examples/(unet|pod|fashion_estimator)$)")

# They begin first, so that none of them is waited for alone at the end.
set(LS_SLOW_TESTS
  "^(models/(replica_bits|lanes|model|bits|memory|golden_gpt|steady|uneven|tpu_text)|engine/(loops_product|convolution_test|kernel_product)|data/(streams|flattened|shuffled|regrouped)_test|distribute/input_digest|distribute/two_sizes|estimator/(model_export|checkpoint_rows|paths|ranks)|faults/|net/(ranks|sums|exchange)|state/snapshot|train/(interrupted|ranks|goes_on|device_loop)|cli/(train|resume|stranger|checkpoint|damage|interrupted|ranks|estimator_ranks|launch)|pjrt/conformance|pjrt/models|pjrt/replica_programs|tools/headers|tools/install|languages/ranks|examples/(unet|tagger|denoise))")

# The plug-in of tests that are no unit tests; those look for it themselves.
set(LS_PLUGIN "$ENV{LS_PJRT_PLUGIN}")
file(GLOB plugins
     "${PROJECT_BINARY_DIR}/../plugins/*/pjrt_c_api_cpu_plugin.so")
if(NOT LS_PLUGIN AND plugins AND NOT LS_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  list(GET plugins 0 LS_PLUGIN)
endif()

# Registers the test `name` that runs the rest of the arguments.
function(ls_add_test name)
  if(LS_SANITIZE AND name MATCHES "${LS_LONG_TESTS}")
    return()
  endif()
  # It bounds what files may grow to, also those of the counts.
  if(LS_COVERAGE AND name STREQUAL "cli/faults")
    return()
  endif()
  set(scratch "${PROJECT_BINARY_DIR}/scratch/${name}")
  file(MAKE_DIRECTORY "${scratch}")
  add_test(NAME "${name}" COMMAND ${ARGN} WORKING_DIRECTORY "${scratch}")
  set(environment
    "LS_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
    "LS_BUILD_DIR=${PROJECT_BINARY_DIR}"
    "CC=${CMAKE_C_COMPILER}"
    "CXX=${CMAKE_CXX_COMPILER}"
    "CMAKE_GENERATOR=${CMAKE_GENERATOR}"
    "LS_SANITIZE=${LS_SANITIZE}"
    # To note all calls takes long; undefined behaviour traps (flags.cmake).
    "ASAN_OPTIONS=malloc_context_size=10:handle_sigill=1"
    "UBSAN_OPTIONS=print_stacktrace=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
  if(TARGET lockstep_cli)
    list(APPEND environment "LOCKSTEP=$<TARGET_FILE:lockstep_cli>")
  endif()
  if(LS_PLUGIN AND name MATCHES "devices(_test)?$")
    list(APPEND environment "LS_PJRT_PLUGIN=${LS_PLUGIN}")
  endif()
  # They compile hundreds of programs, and compare to some digits.
  if(name MATCHES "^pjrt/(conformance|models|replica_programs)_test$")
    list(APPEND environment "XLA_FLAGS=--xla_backend_optimization_level=0")
  endif()
  set_tests_properties("${name}" PROPERTIES
    TIMEOUT ${LS_TEST_TIMEOUT} ENVIRONMENT "${environment}")
  if(name MATCHES "${LS_SLOW_TESTS}")
    set_tests_properties("${name}" PROPERTIES COST 1)
  endif()
  # It looks at who sleeps, and has to have the cores for itself.
  if(name STREQUAL "numerics/share_test")
    set_tests_properties("${name}" PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# The quicker linker, where it is there.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold LS_HAS_GOLD)

# What tests see: the internals, and what they need themselves.
function(ls_see_internals target)
  target_include_directories(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${target} PRIVATE
    ls_flags ls_includes ls_dependencies)
  if(CMOCKA_FOUND)
    target_link_libraries(${target} PRIVATE PkgConfig::CMOCKA)
  endif()
  if(MPFR_FOUND)
    target_link_libraries(${target} PRIVATE PkgConfig::MPFR)
  endif()
endfunction()

# Adds a program that sees the internals of the library.
function(ls_add_inner_executable target folder)
  add_executable(${target} ${ARGN})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
  ls_see_internals(${target})
  target_link_libraries(${target} PRIVATE lockstep_io_static)
  if(LS_HAS_GOLD)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
endfunction()

# Unit tests. Each test registers itself (tests/support/test.h) under the name
# of its file: one link instead of one per file, and still one process per file.
# A file that replaces malloc has a program of its own.
set(LS_LONE_TESTS "^models/steady_test$")
if(LS_TESTS AND CMOCKA_FOUND)
  file(GLOB support CONFIGURE_DEPENDS
       "${PROJECT_SOURCE_DIR}/tests/support/*.c")
  add_library(ls_test_support OBJECT ${support})
  ls_see_internals(ls_test_support)
  # What is compared with is slow enough, and not what is tested.
  file(GLOB references "${PROJECT_SOURCE_DIR}/tests/support/reference*.c"
       "${PROJECT_SOURCE_DIR}/tests/support/cases_*.c"
       "${PROJECT_SOURCE_DIR}/tests/support/geometry.c")
  set(reference_options -O2)
  if(LS_SANITIZE)
    list(APPEND reference_options -fno-sanitize=all)
  endif()
  set_source_files_properties(${references}
    PROPERTIES COMPILE_OPTIONS "${reference_options}")
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS
       RELATIVE "${PROJECT_SOURCE_DIR}/tests"
       "${PROJECT_SOURCE_DIR}/tests/*_test.c")
  set(units "")
  foreach(test IN LISTS tests)
    set(source "${PROJECT_SOURCE_DIR}/tests/${test}")
    string(REGEX REPLACE "\\.c$" "" name "${test}")
    string(MAKE_C_IDENTIFIER "${name}" target)
    if(LS_SANITIZE AND name MATCHES "${LS_LONG_TESTS}")
      continue()
    elseif(NOT MPFR_FOUND AND name STREQUAL "numerics/elementary_f64_test")
      continue()
    elseif(name MATCHES "${LS_LONE_TESTS}")
      get_filename_component(folder "tests/${test}" DIRECTORY)
      set_source_files_properties("${source}"
        PROPERTIES COMPILE_DEFINITIONS "LS_TEST_FILE=\"${name}\"")
      ls_add_inner_executable(${target} ${folder}
        "${PROJECT_SOURCE_DIR}/tests/main.c" ${source}
        $<TARGET_OBJECTS:ls_test_support>)
      ls_add_test("${name}" ${target} "${name}")
    else()
      # The tree's place is told to those alone who read there, so that a
      # compiler's cache serves all trees.
      set(definitions "LS_TEST_FILE=\"${name}\"")
      file(STRINGS "${source}" reads_the_tree REGEX LS_TESTS_DIR)
      if(reads_the_tree)
        list(APPEND definitions "LS_TESTS_DIR=\"${PROJECT_SOURCE_DIR}/tests\"")
      endif()
      set_source_files_properties("${source}"
        PROPERTIES COMPILE_DEFINITIONS "${definitions}")
      list(APPEND units "${source}")
      ls_add_test("${name}" unit_tests "${name}")
    endif()
  endforeach()
  ls_add_inner_executable(unit_tests tests
    "${PROJECT_SOURCE_DIR}/tests/main.c" ${units}
    $<TARGET_OBJECTS:ls_test_support>)
  # What a test computes is not what is tested; the memory that it lends is
  # watched.
  target_link_libraries(unit_tests PRIVATE ls_defined)
  # A PJRT plug-in around another one, which some tests load.
  add_library(pjrt_shim MODULE "${PROJECT_SOURCE_DIR}/tests/pjrt/shim/shim.c")
  set_target_properties(pjrt_shim PROPERTIES PREFIX ""
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  ls_see_internals(pjrt_shim)
  add_dependencies(unit_tests pjrt_shim)
  # Most of it runs once a build; what takes time is the library and support/.
  target_compile_options(unit_tests PRIVATE $<$<CONFIG:Debug>:-O0>)
  # Their accesses are checked by calls, which are compiled sooner.
  if(LS_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(unit_tests PRIVATE
      "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()

# Shared libraries of models, for the program to load: one source, compiled as
# a user would, right and wrong in different ways.
if(LS_TESTS AND TARGET lockstep_cli)
  foreach(variant MINE ANOTHER NO_MODELS OTHER_VERSION SMALL
                  TELLS OWN_RATE OWN_RULE)
    string(TOLOWER "${variant}" name)
    add_library(cli_library_${name} MODULE
      "${PROJECT_SOURCE_DIR}/tests/cli/libraries/mine.c")
    set_target_properties(cli_library_${name} PROPERTIES
      PREFIX "" OUTPUT_NAME ${name} C_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/cli/libraries")
    target_compile_definitions(cli_library_${name} PRIVATE ${variant})
    target_link_libraries(cli_library_${name} PRIVATE ls_flags lockstep)
  endforeach()
  foreach(name convolves estimators functions greedy language optimizers pixels)
    add_library(cli_library_${name} MODULE
      "${PROJECT_SOURCE_DIR}/tests/cli/libraries/${name}.c")
    set_target_properties(cli_library_${name} PROPERTIES
      PREFIX "" OUTPUT_NAME ${name} C_VISIBILITY_PRESET hidden
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/cli/libraries")
    target_link_libraries(cli_library_${name} PRIVATE ls_flags lockstep)
  endforeach()
endif()

# Ranks over each MPI: programs that its mpirun starts. `ranks` loads the module
# as any program does; `host` is linked with MPI itself. Both stand beside the
# modules.
if(LS_TESTS AND CMOCKA_FOUND AND LS_MPIS)
  ls_add_inner_executable(mpi_ranks ""
    "${PROJECT_SOURCE_DIR}/tests/mpi/ranks.c"
    $<TARGET_OBJECTS:ls_test_support>)
  add_dependencies(mpi_ranks lockstep_mpi)
endif()
foreach(prefix IN LISTS LS_MPIS)
  string(TOLOWER "${prefix}" mpi)
  find_program(LS_MPIRUN_${prefix} mpirun.${mpi})
  if(NOT TARGET mpi_ranks OR NOT LS_MPIRUN_${prefix})
    continue()
  endif()
  set(run "${LS_MPIRUN_${prefix}}")
  if(mpi STREQUAL "openmpi")
    list(APPEND run --oversubscribe --allow-run-as-root)
  endif()
  ls_add_inner_executable(mpi_host_${mpi} ""
    "${PROJECT_SOURCE_DIR}/tests/mpi/host.c"
    $<TARGET_OBJECTS:ls_test_support>)
  target_link_libraries(mpi_host_${mpi} PRIVATE PkgConfig::${prefix})
  add_dependencies(mpi_host_${mpi} lockstep_mpi)
  foreach(ranks 1 2 3 4)
    ls_add_test(mpi/${mpi}_${ranks} ${run} -n ${ranks}
      $<TARGET_FILE:mpi_ranks> ${ranks})
  endforeach()
  foreach(level multiple funneled)
    ls_add_test(mpi/${mpi}_${level} ${run} -n 3
      $<TARGET_FILE:mpi_host_${mpi}> ${level})
    # MPICH's transport warns of what ranks have sent before they failed.
    set_property(TEST mpi/${mpi}_${level} APPEND PROPERTY
      ENVIRONMENT UCX_LOG_LEVEL=error)
  endforeach()
endforeach()

# Programs in other languages, on the ranks of each MPI.
if(LS_TESTS AND LS_EXAMPLES AND TARGET lockstep_cli AND NOT LS_COVERAGE)
  foreach(prefix IN LISTS LS_MPIS)
    string(TOLOWER "${prefix}" mpi)
    if(LS_MPIRUN_${prefix})
      ls_add_test(languages/ranks_${mpi}
        sh "${PROJECT_SOURCE_DIR}/tests/languages/ranks.sh"
        ${LS_MPIRUN_${prefix}})
    endif()
  endforeach()
endif()

# base links alone: a program of its objects and nothing else of ours.
if(LS_TESTS)
  add_executable(base_alone "${PROJECT_SOURCE_DIR}/tests/base/alone.c"
                 $<TARGET_OBJECTS:ls_base>)
  set_target_properties(base_alone PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  target_include_directories(base_alone PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(base_alone PRIVATE
    ls_flags ls_includes ls_dependencies)
  ls_add_test(base/alone base_alone)
endif()

# Scripts. Those about the tree and the installed files say nothing new in a
# build with sanitizers, and an installed library could not be linked plainly.
if(LS_TESTS)
  set(patterns "")
  if(TARGET lockstep_cli)
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/tests/cli/*.sh")
  endif()
  if(NOT LS_SANITIZE AND NOT LS_COVERAGE)
    list(APPEND patterns "${PROJECT_SOURCE_DIR}/tests/tools/*_test.sh"
      "${PROJECT_SOURCE_DIR}/tests/interop/*_test.sh"
      "${PROJECT_SOURCE_DIR}/tests/languages/*_test.sh")
    file(GLOB pages CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
         "${PROJECT_SOURCE_DIR}/*.md" "${PROJECT_SOURCE_DIR}/docs/*.md"
         "${PROJECT_SOURCE_DIR}/examples/*.md")
    foreach(page IN LISTS pages)
      string(REGEX REPLACE "^docs/|\\.md$" "" name "${page}")
      string(REPLACE "/" "_" name "${name}")
      if(page STREQUAL "docs/README.md")
        set(name "index")
      endif()
      ls_add_test("tools/docs_${name}"
        sh "${PROJECT_SOURCE_DIR}/tests/tools/docs/page.sh" "${page}")
    endforeach()
    ls_add_test(tools/lint
      "${PROJECT_SOURCE_DIR}/tools/lint" "${PROJECT_SOURCE_DIR}")
    ls_add_test(tools/symbols
      "${PROJECT_SOURCE_DIR}/tools/lint" --symbols "${PROJECT_BINARY_DIR}"
      "${PROJECT_SOURCE_DIR}")
  endif()
  if(patterns)
    file(GLOB scripts CONFIGURE_DEPENDS
         RELATIVE "${PROJECT_SOURCE_DIR}/tests" ${patterns})
    foreach(script IN LISTS scripts)
      string(REGEX REPLACE "\\.sh$" "" name "${script}")
      ls_add_test("${name}" sh "${PROJECT_SOURCE_DIR}/tests/${script}")
    endforeach()
  endif()
endif()

# Examples: written, compiled and linked as a user would.
if(LS_EXAMPLES)
  file(GLOB examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
  # The short ones pass through no code that tests leave out.
  if(NOT LS_SANITIZE AND NOT LS_COVERAGE)
    file(GLOB short_examples CONFIGURE_DEPENDS
         "${PROJECT_SOURCE_DIR}/examples/short/*.c")
    list(APPEND examples ${short_examples})
  endif()
  if(CMAKE_CXX_COMPILER_LOADED)
    file(GLOB cxx_examples CONFIGURE_DEPENDS
         "${PROJECT_SOURCE_DIR}/examples/*.cpp")
    list(APPEND examples ${cxx_examples})
  endif()
  foreach(example IN LISTS examples)
    get_filename_component(name "${example}" NAME_WE)
    add_executable(example_${name} ${example})
    set_target_properties(example_${name} PROPERTIES
      OUTPUT_NAME ${name}
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    # Programs that read files of other people's.
    set(library lockstep)
    if(name MATCHES "^(fashion_estimator|csv_rows)$")
      set(library lockstep_io)
    endif()
    target_link_libraries(example_${name} PRIVATE
                          ls_flags ${library} m Threads::Threads)
    if(name STREQUAL "mlp")  # It includes lockstep.hpp.
      set_target_properties(example_${name} PROPERTIES CXX_STANDARD 17)
    endif()
    if(LS_TESTS)
      ls_add_test(examples/${name} example_${name})
    endif()
  endforeach()
endif()

# An example inside of a program that uses MPI, with each MPI: what it prints is
# the same on any number of ranks.
if(LS_EXAMPLES)
  foreach(prefix IN LISTS LS_MPIS)
    string(TOLOWER "${prefix}" mpi)
    add_executable(example_heat_${mpi}
      "${PROJECT_SOURCE_DIR}/examples/mpi/heat.c")
    # liblockstep finds its module for MPI beside itself.
    set_target_properties(example_heat_${mpi} PROPERTIES
      OUTPUT_NAME heat_${mpi}
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
    target_link_libraries(example_heat_${mpi} PRIVATE
      ls_flags lockstep m PkgConfig::${prefix})
    add_dependencies(example_heat_${mpi} lockstep_mpi)
    if(LS_TESTS AND LS_MPIRUN_${prefix})
      ls_add_test(examples/heat_${mpi} sh
        "${PROJECT_SOURCE_DIR}/tests/mpi/heat.sh" "${LS_MPIRUN_${prefix}}"
        $<TARGET_FILE:example_heat_${mpi}>)
    endif()
  endforeach()
endif()

# Fuzz targets.
if(LS_TESTS OR LS_FUZZ)
  file(GLOB fuzzers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.c")
  foreach(fuzzer IN LISTS fuzzers)
    get_filename_component(name "${fuzzer}" NAME_WE)
    string(REGEX REPLACE "_fuzz$" "" noun "${name}")
    if(LS_FUZZ)
      ls_add_inner_executable(${name} fuzz ${fuzzer})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    else()
      ls_add_inner_executable(${name} fuzz
        ${fuzzer} "${PROJECT_SOURCE_DIR}/fuzz/replay.c")
      ls_add_test(fuzz/${noun} ${name}
        "${PROJECT_SOURCE_DIR}/fuzz/corpus/${noun}")
    endif()
  endforeach()
endif()
