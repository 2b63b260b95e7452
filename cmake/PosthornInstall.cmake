# Install and export, so that find_package(posthorn) works.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY POSTHORN_LIBRARIES)
install(TARGETS ${libraries} EXPORT posthornTargets)
install(TARGETS posthorn RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/posthorn TYPE INCLUDE)
install(EXPORT posthornTargets NAMESPACE posthorn:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/posthorn)
configure_package_config_file(cmake/posthornConfig.cmake.in posthornConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/posthorn)
write_basic_package_version_file(posthornConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/posthornConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/posthornConfigVersion.cmake"
              cmake/FindMariaDBClient.cmake cmake/FindCctz.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/posthorn)

# For whoever runs the daemon: an example of its file, which is nobody's configuration yet, and a unit of systemd that
# starts the program where it was installed.
install(FILES packaging/posthorn.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/posthorn)
set(unit "${CMAKE_CURRENT_BINARY_DIR}/posthorn.service")
install(CODE "
  set(program \"\${CMAKE_INSTALL_PREFIX}\")
  cmake_path(APPEND program \"${CMAKE_INSTALL_BINDIR}\" posthorn)
  file(READ \"${CMAKE_CURRENT_SOURCE_DIR}/packaging/posthorn.service\" text)
  string(REPLACE /usr/bin/posthorn \"\${program}\" text \"\${text}\")
  file(WRITE \"${unit}\" \"\${text}\")")
install(FILES "${unit}" DESTINATION lib/systemd/system)
