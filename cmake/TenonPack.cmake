# What cpack settles when it packs: who maintains a Debian package (DEBFULLNAME and DEBEMAIL, as Debian's tools take
# them), and that its files get Debian's form.

if(CPACK_GENERATOR STREQUAL "DEB")
  set(_name "$ENV{DEBFULLNAME}")
  if(_name STREQUAL "")
    set(_name "${CPACK_PACKAGE_CONTACT}")
  endif()
  if("$ENV{DEBEMAIL}" STREQUAL "")
    message(WARNING "the package's maintainer has no address: set DEBFULLNAME and DEBEMAIL before it is given to others")
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${_name}")
  else()
    set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${_name} <$ENV{DEBEMAIL}>")
  endif()
  set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/TenonDebianFiles.cmake")
endif()
