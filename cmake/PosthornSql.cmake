# Compiles a store's .sql files into a header: posthorn_sql(target folder namespace style STATEMENTS … MIGRATIONS …)
add_executable(posthorn_embed_sql "${PROJECT_SOURCE_DIR}/tools/embed_sql.cpp")
target_link_libraries(posthorn_embed_sql PRIVATE posthorn_build)

function(posthorn_sql target folder namespace style)
  cmake_parse_arguments(arg "" "" "STATEMENTS;MIGRATIONS" ${ARGN})
  list(TRANSFORM arg_STATEMENTS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(TRANSFORM arg_MIGRATIONS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  set(header "${PROJECT_BINARY_DIR}/sql/${folder}/statements.hpp")
  file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/sql/${folder}")
  add_custom_command(
    OUTPUT "${header}"
    COMMAND posthorn_embed_sql "${header}" ${namespace} ${style} ${arg_STATEMENTS} --migrations ${arg_MIGRATIONS}
    DEPENDS posthorn_embed_sql ${arg_STATEMENTS} ${arg_MIGRATIONS}
    COMMENT "SQL of ${target}")
  target_sources(${target} PRIVATE "${header}")
  target_include_directories(${target} PRIVATE "${PROJECT_BINARY_DIR}/sql")
endfunction()
