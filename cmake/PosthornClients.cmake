# The clients of brokers, each for one transport. A transport whose client is missing is an error that says what to
# install or to switch off: a build never lacks what somebody counts on.
#
#   posthorn_client(RABBITMQ librabbitmq librabbitmq-dev)
#
# adds the option POSTHORN_WITH_RABBITMQ and the target PkgConfig::rabbitmq_client.
include(FindPkgConfig)

macro(posthorn_client name module package)
  string(REPLACE ";" " and " needed "${module}")
  option(POSTHORN_WITH_${name} "Provide the transport of this name (needs ${needed})" ON)
  if(POSTHORN_WITH_${name})
    string(TOLOWER ${name} lower)
    pkg_check_modules(${lower}_client QUIET IMPORTED_TARGET ${module})
    if(NOT ${lower}_client_FOUND)
      message(FATAL_ERROR "The ${lower} transport needs ${needed}: install it (Debian: ${package}), or configure with "
                          "-DPOSTHORN_WITH_${name}=OFF to build without this transport")
    endif()
    string(APPEND POSTHORN_CLIENTS "pkg_check_modules(${lower}_client QUIET REQUIRED IMPORTED_TARGET ${module})\n")
  endif()
endmacro()

# What the program cannot do without: posthorn_program_library(tomlplusplus tomlplusplus libtomlplusplus-dev) adds the
# target PkgConfig::tomlplusplus.
macro(posthorn_program_library target module package)
  pkg_check_modules(${target} QUIET IMPORTED_TARGET ${module})
  if(NOT ${target}_FOUND)
    message(FATAL_ERROR "The posthorn program needs ${module}: install it (Debian: ${package})")
  endif()
endmacro()
