# Gives the staged files of a package the form that Debian's policy asks for: a copyright file, with those of the
# libraries that are linked into the command, a changelog, documents of the system compressed, zsh's completion where
# Debian's zsh looks.

set(_share "${CPACK_TEMPORARY_DIRECTORY}/usr/share")
set(_doc "${_share}/doc/${CPACK_PACKAGE_NAME}")

function(compress file)
  execute_process(COMMAND gzip -9nf "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(WRITE "${_doc}/copyright" "Tenon, by ${CPACK_PACKAGE_VENDOR}

Licensed under the Apache License, version 2.0, which is on Debian systems in /usr/share/common-licenses/Apache-2.0.
What the compiler writes belongs to its user.

The command and the archives contain parts of LLVM, Protocol Buffers and CLI11, with the notices below.
")
foreach(package llvm-14-dev libprotobuf-dev libcli11-dev)
  if(EXISTS "/usr/share/doc/${package}/copyright")
    file(READ "/usr/share/doc/${package}/copyright" notice)
    file(APPEND "${_doc}/copyright" "\n--- ${package} ---\n\n${notice}")
  endif()
endforeach()
file(REMOVE "${_doc}/LICENSE")

string(TIMESTAMP _date "%a, %d %b %Y %H:%M:%S +0000" UTC) # of SOURCE_DATE_EPOCH, where that is set
file(WRITE "${_doc}/changelog" "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; CHANGELOG.md says what is in it.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${_date}
")
compress("${_doc}/changelog")

file(GLOB _pages "${_share}/man/man*/*")
foreach(page IN LISTS _pages)
  compress("${page}")
endforeach()
if(EXISTS "${_share}/zsh/site-functions")
  file(RENAME "${_share}/zsh/site-functions" "${_share}/zsh/vendor-completions")
endif()

# Archives without what only a debugger reads.
file(GLOB _archives "${CPACK_TEMPORARY_DIRECTORY}/usr/lib/*.a")
foreach(archive IN LISTS _archives)
  execute_process(COMMAND strip --strip-debug --enable-deterministic-archives "${archive}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
