# Makes a mistake in memory end the process before it can be used: what we build is compiled and linked with the
# protections that this compiler, linker and machine know. They are asked one by one, since they differ.
#
# The flags reach our own targets only. A project that links the libraries chooses its own.
option(POSTHORN_HARDENING "Protect what is built against exploitation of memory errors" ${PROJECT_IS_TOP_LEVEL})

include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

# Libraries take the first, programs both.
add_library(posthorn_hardened_code INTERFACE)
add_library(posthorn_hardened_program INTERFACE)
target_link_libraries(posthorn_hardened_program INTERFACE posthorn_hardened_code)

# posthorn_protect_code(flag…): each that the compiler knows.
function(posthorn_protect_code)
  foreach(flag IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "POSTHORN_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      target_compile_options(posthorn_hardened_code INTERFACE ${flag})
    endif()
  endforeach()
endfunction()

# posthorn_protect_program(flag…): each that the linker knows.
function(posthorn_protect_program)
  foreach(flag IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "POSTHORN_HAS${flag}" known)
    check_linker_flag(CXX "${flag}" ${known})
    if(${known})
      target_link_options(posthorn_hardened_program INTERFACE "${flag}")
    endif()
  endforeach()
endfunction()

# The C library checks copies into buffers whose size the compiler knows. It can only do so in optimised code, and warns
# of a level that it does not know. Some compilers define a level by themselves.
function(posthorn_protect_copies)
  foreach(level 3 2)
    set(flags -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level})
    list(JOIN flags " " CMAKE_REQUIRED_FLAGS)
    string(APPEND CMAKE_REQUIRED_FLAGS " -O2 -Werror")
    check_cxx_source_compiles("#include <cstring>\nint main() { return 0; }" POSTHORN_HAS_FORTIFY_${level})
    if(POSTHORN_HAS_FORTIFY_${level})
      target_compile_options(posthorn_hardened_code
                             INTERFACE "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:${flags}>")
      return()
    endif()
  endforeach()
endfunction()

# Sanitizers look for the same mistakes, and do not get along with some of these.
if(POSTHORN_HARDENING AND NOT POSTHORN_SANITIZE)
  posthorn_protect_copies()
  posthorn_protect_code(-fstack-protector-strong -fstack-clash-protection -fcf-protection)
  posthorn_protect_program(-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()
