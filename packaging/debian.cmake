# SPDX-License-Identifier: Apache-2.0
#
# Three Debian packages by CPack, one for each component of the installation: weir (the program as a service), libweir0,
# libweir-dev. `make package` builds them in a folder of its own with Debian's paths and flags; see tools/package.

# Only packages have these: `make install` leaves /etc and the service manager alone.
set(only PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ COMPONENT program EXCLUDE_FROM_ALL)
file(GLOB units CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/systemd/*.service ${CMAKE_CURRENT_SOURCE_DIR}/systemd/*.socket)
install(FILES ${units} DESTINATION /usr/lib/systemd/system ${only})
install(FILES systemd/weir.sysusers DESTINATION /usr/lib/sysusers.d RENAME weir.conf ${only})
install(FILES weir.yaml DESTINATION /etc/weir ${only})
install(FILES debian/weir.default DESTINATION /etc/default RENAME weir ${only})
install(FILES ${CMAKE_SOURCE_DIR}/docs/operations.md DESTINATION /usr/share/doc/weir ${only})

# Each package says whose it is and what changed. SOURCE_DATE_EPOCH, where it is set, makes two builds equal.
string(TIMESTAMP changed "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(package_revision 1)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian
  "weir (${PROJECT_VERSION}-${package_revision}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n"
  " -- weir maintainers <maintainers@weir.invalid>  ${changed}\n")
find_program(GZIP gzip)
if(GZIP)
  execute_process(COMMAND ${GZIP} -9nf ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
endif()
foreach(pair program:weir library:libweir0 development:libweir-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 package)
  install(FILES debian/copyright ${CMAKE_CURRENT_BINARY_DIR}/changelog.Debian.gz DESTINATION /usr/share/doc/${package}
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ COMPONENT ${component} EXCLUDE_FROM_ALL)
  # It is not of Debian's archive, so no bug of Debian's asked for it.
  set(overrides "${package}: initial-upload-closes-no-bugs\n")
  if(component STREQUAL library)
    string(APPEND overrides "# Made by CPack, beside the trigger.\n${package}: maintscript-calls-ldconfig\n")
  endif()
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/overrides/${package} "${overrides}")
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/overrides/${package} DESTINATION /usr/share/lintian/overrides
    PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ COMPONENT ${component} EXCLUDE_FROM_ALL)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
endforeach()

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_CONTACT "weir maintainers <maintainers@weir.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_DEBIAN_PACKAGE_RELEASE ${package_revision})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# Under DESTDIR, with the prefix of packages wherever this tree would install itself: so .pc files say /usr.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)

# The first line is the synopsis; a line of the rest has at most 80 columns.
string(CONCAT CPACK_COMPONENT_PROGRAM_DESCRIPTION "rate limiting server\n"
  "Decides for other programs whether the next request may pass, by a contract in\n"
  "YAML: token and leaky buckets, windows, concurrency, queues. Asked over HTTP,\n"
  "by Redis clients, or by Envoy over gRPC.")
string(CONCAT CPACK_COMPONENT_LIBRARY_DESCRIPTION "rate limiting library\n"
  "Decides whether the next request, counted under some key, may pass: lock-free,\n"
  "in memory that is reserved at the start.")
string(CONCAT CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "rate limiting library - development files\n"
  "Headers, static libraries, and what pkg-config and CMake need to find libweir\n"
  "and libweir-contract.")

set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "adduser")
# CPack takes the names as they are, so they are copied to those that dpkg knows.
set(control)
foreach(script postinst prerm postrm)
  configure_file(debian/weir.${script} ${CMAKE_CURRENT_BINARY_DIR}/control/${script} COPYONLY)
  list(APPEND control ${CMAKE_CURRENT_BINARY_DIR}/control/${script})
endforeach()
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/control/conffiles "/etc/weir/weir.yaml\n/etc/default/weir\n")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${control} ${CMAKE_CURRENT_BINARY_DIR}/control/conffiles)

set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/control/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/control/triggers)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libweir0 (= ${PROJECT_VERSION}-${package_revision}), libyaml-dev")
# The library of the package beside it, which is not installed where it is built.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
include(CPack)
