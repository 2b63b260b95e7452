# How every target of the project is compiled.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(PROJECT_IS_TOP_LEVEL)
  find_program(CCACHE_PROGRAM ccache)
  if(CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
  # Dozens of programs are linked: with mold, where it is installed, in a fraction of the time.
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=mold POSTHORN_HAS_MOLD)
endif()

# The sources of a target are compiled together, because reading the headers they share and expanding their templates
# takes most of the time. With -DCMAKE_UNITY_BUILD=OFF each is compiled on its own, as `./dev lint` does.
if(NOT DEFINED CMAKE_UNITY_BUILD)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 12)
endif()

# Warnings and sanitizers reach our own targets only, never a consumer.
add_library(posthorn_build INTERFACE)
target_compile_options(posthorn_build INTERFACE -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Wconversion
                                                $<$<BOOL:${POSTHORN_WARNINGS_AS_ERRORS}>:-Werror>)
if(CMAKE_UNITY_BUILD) # sources that do not know each other share a scope
  target_compile_options(posthorn_build INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  # The compiler looks for garbage less often: a twentieth less time for a fifth more memory.
  target_compile_options(posthorn_build INTERFACE $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=500000>)
else()
  target_compile_options(posthorn_build INTERFACE -Wshadow)
endif()
if(POSTHORN_HAS_MOLD)
  target_link_options(posthorn_build INTERFACE -fuse-ld=mold)
endif()
if(POSTHORN_SANITIZE)
  list(JOIN POSTHORN_SANITIZE "," sanitizers)
  string(APPEND CMAKE_CXX_FLAGS " -fsanitize=${sanitizers}") # first of all flags: tests take some of it back
endif()

# A library of the project: posthorn_library(name SOURCES … PUBLIC … PRIVATE …)
function(posthorn_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(posthorn_${name} ${arg_SOURCES})
  add_library(posthorn::${name} ALIAS posthorn_${name})
  target_include_directories(
    posthorn_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(posthorn_${name} PUBLIC cxx_std_20)
  target_link_libraries(posthorn_${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:posthorn_build>
                                        $<BUILD_INTERFACE:posthorn_hardened_code>)
  set_target_properties(posthorn_${name} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY POSTHORN_LIBRARIES posthorn_${name})
endfunction()
