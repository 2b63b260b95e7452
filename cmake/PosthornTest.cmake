# Tests: posthorn_test(name [FAST [PLAIN]] [COST …] SOURCES … LIBRARIES …). FAST ones run under the sanitizers, and
# ./dev test builds and runs them only there. Without the sanitizers it runs the slow ones, and of the FAST ones those
# that are PLAIN: they do more, or are stricter about time, where nothing slows them down. POSTHORN_TEST_ONLY=dev ./dev
# test runs everything.
# Whatever takes long begins first, so that nothing waits for it at the end: COST, about the seconds of its longest test.
find_package(GTest REQUIRED)
include(GoogleTest)

# Test code is compiled once and run once: optimising it would take longer than it saves, and looking for undefined
# behaviour in it would double the time to compile it.
add_library(posthorn_test_build INTERFACE)
target_link_libraries(posthorn_test_build INTERFACE posthorn_build)
target_compile_options(posthorn_test_build INTERFACE -O0 -g1 -fno-sanitize=undefined)

function(posthorn_test name)
  cmake_parse_arguments(arg "FAST;PLAIN" "COST;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} posthorn_test_build GTest::gmock GTest::gtest_main)
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  set(label slow)
  if(arg_FAST)
    set(label fast)
    set_property(GLOBAL APPEND PROPERTY POSTHORN_FAST_TESTS ${name})
    if(arg_PLAIN)
      posthorn_test_parts(${name} "${arg_SOURCES}" "part;plain" ${arg_COST})
    else()
      posthorn_test_parts(${name} "${arg_SOURCES}" part ${arg_COST})
      set_property(GLOBAL APPEND PROPERTY POSTHORN_SANITIZED_TESTS ${name})
    endif()
  elseif(POSTHORN_SANITIZE)
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  if(POSTHORN_SANITIZE)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  gtest_discover_tests(${name} PROPERTIES LABELS ${label} COST ${arg_COST} TIMEOUT ${arg_TIMEOUT}
                                          DISCOVERY_TIMEOUT 60)
endfunction()

# Thousands of processes, each for one test, take longer to start and end than what they test. So a few of them share the
# tests of a program where all of them are run; ./dev counts what they say. Single ones are for whoever looks for
# something: ctest --preset dev -R NAME.
function(posthorn_test_parts name sources labels cost)
  list(LENGTH sources parts)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    add_test(NAME ${name}.part_${part} COMMAND ${name})
    set_tests_properties(${name}.part_${part} PROPERTIES LABELS "${labels}" COST ${cost} TIMEOUT 900 ENVIRONMENT
                                                         "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()

# A test that is a shell script: posthorn_script_test(name [COST …] SCRIPT … ARGUMENTS …)
function(posthorn_script_test name)
  cmake_parse_arguments(arg "" "COST;SCRIPT" "ARGUMENTS" ${ARGN})
  if(NOT arg_COST)
    set(arg_COST 5)
  endif()
  add_test(NAME ${name} COMMAND bash "${CMAKE_CURRENT_SOURCE_DIR}/${arg_SCRIPT}" ${arg_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS slow COST ${arg_COST} TIMEOUT 300)
endfunction()

# What ./dev test needs of a build. With sanitizers that is the target `fast`, the tests that run under them; without it is
# the target `plain`, every program but the tests that run under them only.
function(posthorn_test_targets)
  get_property(fast GLOBAL PROPERTY POSTHORN_FAST_TESTS)
  add_custom_target(fast)
  add_dependencies(fast ${fast})

  get_property(libraries GLOBAL PROPERTY POSTHORN_LIBRARIES) # all of them are installed
  get_property(sanitized GLOBAL PROPERTY POSTHORN_SANITIZED_TESTS)
  posthorn_programs_below("${PROJECT_SOURCE_DIR}" programs)
  list(REMOVE_ITEM programs ${sanitized})
  add_custom_target(plain)
  add_dependencies(plain ${libraries} ${programs})
endfunction()

function(posthorn_programs_below folder result)
  set(programs "")
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE)
      list(APPEND programs ${target})
    endif()
  endforeach()
  get_property(folders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(each ${folders})
    posthorn_programs_below("${each}" below)
    list(APPEND programs ${below})
  endforeach()
  set(${result} ${programs} PARENT_SCOPE)
endfunction()
