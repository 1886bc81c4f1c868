# tenon_add_model(): compile an ONNX model into a target.
#
#   tenon_add_model(<target> <model.onnx>
#     [TARGET <t>]        what to compile for: cpu:native (default), cpu:x86-64-v3,
#                         cuda:sm_87, cuda:sm_80+sm_90a, mcu:cortex-m4, ...
#     [PRECISION <p>]     fp32 (default), fp16, ...
#     [PREFIX <name>]     prefix of the C interface, and name of the generated files
#                         (default: the model's file name as an identifier)
#     [WEIGHTS <mode>]    inline, incbin or file
#     [THREADS <n>]       threads of a context where its program does not say (C++ targets)
#     [BIND <n=v>...]     values of symbolic dimensions
#     [RANGE <n=a..b>...] dimensions that stay dynamic, with their bounds
#     [OPTIONS <opt>...]) further options of `tenon compile`
#
# The generated source becomes a static library <target>.<prefix> that <target> links,
# so its language, architectures and standard do not touch the target's own sources;
# `#include "<prefix>.h"` works in the target. The model is compiled again when it, the
# compiler, or anything else that was read changes.
#
# Where the weights are in a file of their own, <PREFIX>_WEIGHTS_PATH is its path in the build tree, for
# `options.weights_path` (an empty file where the program holds them: options ignore it then), and so is
# the property TENON_WEIGHTS_FILE of <target>.<prefix>. An installed program finds its own:
#
#   tenon_install_weights(<target> DESTINATION <folder>)    installs the weights files of its models
#
# Call it at file scope: a CUDA target enables CMake's CUDA language.

cmake_policy(PUSH)
cmake_policy(VERSION 3.21)

set(_TENON_PACKAGE_DIR ${CMAKE_CURRENT_LIST_DIR})

# Prints the CMAKE_CUDA_ARCHITECTURES form of "cuda:sm_80+sm_90a+ptx" into `var`.
function(_tenon_cuda_architectures spec var)
  string(REGEX REPLACE "^cuda:" "" spec "${spec}")
  string(REPLACE "+" ";" parts "${spec}")
  set(result "")
  set(newest "")
  foreach(part IN LISTS parts)
    if(part STREQUAL "native")
      list(APPEND result native)
    elseif(part MATCHES "^sm_([0-9]+[a-z]?)$")
      list(APPEND result ${CMAKE_MATCH_1}-real)
      # Architecture-specific code (sm_90a) has no forward-compatible PTX.
      if(CMAKE_MATCH_1 MATCHES "^[0-9]+$" AND (newest STREQUAL "" OR CMAKE_MATCH_1 GREATER newest))
        set(newest ${CMAKE_MATCH_1})
      endif()
    elseif(part STREQUAL "ptx")
      set(ptx TRUE)
    else()
      message(FATAL_ERROR "tenon_add_model: unknown architecture '${part}' in TARGET cuda:${spec}")
    endif()
  endforeach()
  if(ptx AND newest)
    list(APPEND result ${newest}-virtual)
  elseif(ptx)
    message(FATAL_ERROR "tenon_add_model: +ptx needs an architecture without suffix beside it")
  endif()
  set(${var} "${result}" PARENT_SCOPE)
endfunction()

function(_tenon_add_model target model)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "TARGET;PRECISION;PREFIX;WEIGHTS;THREADS" "BIND;RANGE;OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tenon_add_model: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET ${target})
    message(FATAL_ERROR "tenon_add_model: '${target}' is not a target; add it first")
  endif()
  cmake_path(ABSOLUTE_PATH model BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
  if(NOT EXISTS ${model})
    message(FATAL_ERROR "tenon_add_model: no such model: ${model}")
  endif()
  if(NOT arg_TARGET)
    set(arg_TARGET cpu:native)
  endif()
  if(NOT arg_PREFIX)
    cmake_path(GET model STEM arg_PREFIX)
    string(MAKE_C_IDENTIFIER "${arg_PREFIX}" arg_PREFIX)
  endif()

  set(extension cpp)
  if(arg_TARGET MATCHES "^cuda:")
    set(extension cu)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/tenon/${target})
  set(source ${folder}/${arg_PREFIX}.${extension})
  set(header ${folder}/${arg_PREFIX}.h)
  set(cppHeader ${folder}/${arg_PREFIX}.hpp)
  set(weights ${folder}/${arg_PREFIX}.weights)
  set(depfile ${folder}/${arg_PREFIX}.d)
  file(MAKE_DIRECTORY ${folder})

  set(command ${TENON_EXECUTABLE} compile ${model} -o ${source} --target=${arg_TARGET}
      --prefix=${arg_PREFIX} --depfile=${depfile} -q)
  if(arg_PRECISION)
    list(APPEND command --precision=${arg_PRECISION})
  endif()
  if(arg_WEIGHTS)
    list(APPEND command --weights=${arg_WEIGHTS})
  endif()
  if(arg_THREADS)
    list(APPEND command --threads=${arg_THREADS})
  endif()
  foreach(bind IN LISTS arg_BIND)
    list(APPEND command --bind ${bind})
  endforeach()
  foreach(range IN LISTS arg_RANGE)
    list(APPEND command --range ${range})
  endforeach()
  list(APPEND command ${arg_OPTIONS})

  set(flags ${folder}/${arg_PREFIX}.flags)
  add_custom_command(
    OUTPUT ${source} ${header} ${cppHeader} ${weights} ${flags}
    COMMAND ${command}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DHEADER=${header} -DWEIGHTS=${weights} -DOUTPUT=${flags}
            -P ${_TENON_PACKAGE_DIR}/TenonModelFlags.cmake
    DEPENDS ${model} ${TENON_EXECUTABLE}
    DEPFILE ${depfile}
    COMMENT "Compiling ${model} for ${arg_TARGET}"
    VERBATIM)

  set(library ${target}.${arg_PREFIX})
  add_library(${library} STATIC ${source} ${header} ${cppHeader})
  # The folder is also where the assembler looks for .incbin files.
  target_include_directories(${library} PUBLIC ${folder})
  string(TOUPPER ${arg_PREFIX} upper)
  target_compile_definitions(${library} PUBLIC "${upper}_WEIGHTS_PATH=\"${weights}\"")
  set_property(TARGET ${target} APPEND PROPERTY TENON_MODELS ${library})
  set_target_properties(${library} PROPERTIES
    TENON_WEIGHTS_FILE ${weights}
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON)
  if(extension STREQUAL "cu")
    _tenon_cuda_architectures(${arg_TARGET} architectures)
    set_target_properties(${library} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${flags})
    target_compile_options(${library} PRIVATE "SHELL:--options-file ${flags}")
    # nvcc links the target, too, which may be older than the language.
    get_target_property(own ${target} CUDA_ARCHITECTURES)
    if(NOT own)
      set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
    endif()
  else()
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${flags})
    target_compile_options(${library} PRIVATE @${flags})
    if(NOT arg_TARGET MATCHES "^mcu:")
      find_package(Threads REQUIRED)
      target_link_libraries(${library} PUBLIC Threads::Threads)
    endif()
  endif()
  target_link_libraries(${target} PRIVATE ${library})
endfunction()

function(tenon_install_weights target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESTINATION" "")
  if(NOT arg_DESTINATION)
    message(FATAL_ERROR "tenon_install_weights: DESTINATION is missing")
  endif()
  get_target_property(models ${target} TENON_MODELS)
  if(NOT models)
    message(FATAL_ERROR "tenon_install_weights: '${target}' has no model; call tenon_add_model first")
  endif()
  foreach(model IN LISTS models)
    get_target_property(weights ${model} TENON_WEIGHTS_FILE)
    # Which models have such a file is known once they are compiled.
    install(CODE "
      file(SIZE \"${weights}\" size)
      if(size GREATER 0)
        cmake_path(SET folder \"${arg_DESTINATION}\")
        cmake_path(ABSOLUTE_PATH folder BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
        file(INSTALL DESTINATION \"\${folder}\" TYPE FILE FILES \"${weights}\")
      endif()")
  endforeach()
endfunction()

# A macro, because enable_language() must run in the scope of the caller's file.
macro(tenon_add_model)
  if("${ARGV}" MATCHES "(^|;)cuda:([^;]*)")
    if(NOT CMAKE_CUDA_COMPILER_LOADED)
      if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
        _tenon_cuda_architectures("cuda:${CMAKE_MATCH_2}" CMAKE_CUDA_ARCHITECTURES)
      endif()
      enable_language(CUDA)
    endif()
  elseif(NOT CMAKE_CXX_COMPILER_LOADED)
    enable_language(CXX)
  endif()
  _tenon_add_model(${ARGV})
endmacro()

cmake_policy(POP)
