# tenon_embed_runtime(TARGET): puts every file below runtime/ into TARGET, as the
# table that codegen/emit/EmbeddedRuntime.h declares.

find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

function(tenon_embed_runtime target)
  set(folder ${PROJECT_SOURCE_DIR}/runtime)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_runtime.py)
  set(output ${PROJECT_BINARY_DIR}/EmbeddedRuntime.cpp)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*)
  list(SORT files)
  # The list itself is an input too: a deleted file leaves no newer dependency.
  set(manifest ${PROJECT_BINARY_DIR}/EmbeddedRuntime.files)
  string(REPLACE ";" "\n" text "${files}")
  file(CONFIGURE OUTPUT ${manifest} CONTENT "${text}\n" @ONLY)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${Python3_EXECUTABLE} ${script} ${folder} ${manifest} ${output}
    DEPENDS ${script} ${manifest} ${files}
    COMMENT "Embedding runtime/"
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
