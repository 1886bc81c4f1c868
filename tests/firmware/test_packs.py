#!/usr/bin/env python3
"""What `tenon pack` writes for each kind of project: its files are whole, and its example runs here and says PASS.

The frameworks are not installed. What their build files call is defined here as their documents have it, so that CMake
reads those files and builds the examples for this machine.

    test_packs.py
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from tenon import tenon

DIGITS = ROOT / "examples/digits/digits.onnx"
GENERATED = {"net.cpp", "net.h", "net.hpp", "net_self_test.c"}
ARDUINO = """
#pragma once
#include <stdio.h>
inline unsigned long millis() { return 0; }
inline unsigned long micros() { return 0; }
struct SerialPort {
  void begin(long) {}
  operator bool() const { return true; }
  void print(const char *text) { printf("%s", text); }
  void print(unsigned long number) { printf("%lu", number); }
  void println(const char *text) { printf("%s\\n", text); }
};
static SerialPort Serial;
"""
ARDUINO_MAIN = "int main() { setup(); loop(); }\n"
ZEPHYR = """
function(zephyr_include_directories)
  include_directories(${ARGN})
  target_include_directories(app PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${ARGN})
endfunction()
macro(zephyr_library_named name)
  set(current ${name})
  add_library(${name} STATIC)
endmacro()
function(zephyr_library_sources)
  list(TRANSFORM ARGN PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  target_sources(${current} PRIVATE ${ARGN})
endfunction()
function(zephyr_library_sources_ifdef condition)
  if(${condition})
    zephyr_library_sources(${ARGN})
  endif()
endfunction()
function(zephyr_library_compile_options)
  target_compile_options(${current} PRIVATE ${ARGN})
endfunction()
file(STRINGS prj.conf settings)
foreach(setting IN LISTS settings)
  string(REPLACE "=" ";" setting ${setting})
  list(GET setting 0 name)
  list(GET setting 1 value)
  set(${name} ${value})
endforeach()
include_directories(${CMAKE_CURRENT_LIST_DIR}/include)
enable_language(C CXX)
set(CMAKE_CXX_STANDARD 17)
add_executable(app)
foreach(module IN LISTS ZEPHYR_EXTRA_MODULES)
  add_subdirectory(${module} module)
endforeach()
target_link_libraries(app net)
"""
ESP_IDF = """
macro(project name)
  _project(${name} C CXX)
  function(idf_component_register)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "SRCS;INCLUDE_DIRS;PRIV_REQUIRES")
    list(TRANSFORM arg_SRCS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    get_filename_component(component ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    set(COMPONENT_LIB ${component} PARENT_SCOPE)
    add_library(${component} STATIC ${arg_SRCS})
    target_include_directories(${component} PUBLIC ${arg_INCLUDE_DIRS})
    target_link_libraries(${component} PRIVATE ${arg_PRIV_REQUIRES})
  endfunction()
  foreach(folder IN LISTS EXTRA_COMPONENT_DIRS)
    get_filename_component(folder ${folder} ABSOLUTE)
    get_filename_component(component ${folder} NAME)
    add_subdirectory(${folder} ${component})
  endforeach()
  add_subdirectory(main)
  file(WRITE ${CMAKE_BINARY_DIR}/start.c "void app_main(void); int main(void) { app_main(); return 0; }")
  add_executable(app ${CMAKE_BINARY_DIR}/start.c)
  target_link_libraries(app main)
endmacro()
"""
STM32 = """
cmake_minimum_required(VERSION 3.20)
project(cube C CXX)
add_subdirectory({folder} net)
file(WRITE ${{CMAKE_BINARY_DIR}}/main.c "#include \\"net_check.h\\"\\nint printf(const char *, ...);"
  "int main(void) {{ int code = net_check(); printf(code ? \\"FAIL\\\\n\\" : \\"PASS\\\\n\\"); return code; }}")
add_executable(app ${{CMAKE_BINARY_DIR}}/main.c)
target_link_libraries(app net)
"""


def run(*command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Packs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.pack = self.folder / "net"

    def write(self, kind, *words):
        answer = tenon("pack", DIGITS, f"--for={kind}", "-o", self.pack, *words)
        self.assertEqual(answer.status, 0, answer.errors)
        files = {path.relative_to(self.pack).as_posix(): path for path in self.pack.rglob("*") if path.is_file()}
        self.assertEqual({path.name for path in files.values()} & GENERATED, GENERATED)
        for name, path in files.items():
            self.assertNotIn("@", name)
            if path.name not in GENERATED:
                self.assertNotRegex(path.read_text(), "@[a-zA-Z_]+@")
        return files

    def sketch(self, source, folder):
        (self.folder / "Arduino.h").write_text(ARDUINO)
        program = self.folder / "app"
        text = '#include "Arduino.h"\n' + source.read_text() + ARDUINO_MAIN
        (self.folder / "sketch.cpp").write_text(text)
        run("cc", "-c", "-I", folder, folder / "net_self_test.c", "-o", self.folder / "test.o")
        run("c++", "-std=gnu++17", "-Os", "-Wall", "-Wextra", "-Werror", "-I", self.folder, "-I", folder, self.folder / "sketch.cpp",
            folder / "net.cpp", self.folder / "test.o", "-o", program)  # fmt: skip
        self.assertTrue(run(program).startswith("PASS"))

    def build(self, source, *words, environment=None):
        out = self.folder / "build"
        run("cmake", "-S", source, "-B", out, *words, env={**os.environ, **(environment or {})})
        run("cmake", "--build", out)
        self.assertEqual(run(out / "app"), "PASS\n")

    def test_arduino(self):
        files = self.write("arduino")
        properties = dict(line.split("=", 1) for line in files["library.properties"].read_text().splitlines())
        self.assertEqual((properties["name"], properties["includes"]), ("net", "net.h"))
        self.sketch(files["examples/net_check/net_check.ino"], self.pack / "src")

    def test_platformio(self):
        files = self.write("platformio")
        self.assertEqual(json.loads(files["library.json"].read_text())["headers"], "net.h")

        class Environment(dict):
            def Append(self, **more):
                for name, values in more.items():
                    self[name] = self[name] + values

        environment = Environment(CXXFLAGS=["-fno-rtti", "-std=gnu++11"])
        exec(files["flags.py"].read_text(), {"Import": lambda _: None, "env": environment})
        self.assertEqual(environment["CXXFLAGS"], ["-fno-rtti", "-std=gnu++17", "-ffp-contract=off"])
        self.sketch(files["examples/net_check/net_check.cpp"], self.pack / "src")

    def test_zephyr(self):
        files = self.write("zephyr")
        self.assertIn("config MODEL_NET\n", files["Kconfig"].read_text())
        base = self.folder / "zephyr"
        (base / "include/zephyr/sys").mkdir(parents=True)
        (base / "include/zephyr/kernel.h").touch()
        (base / "include/zephyr/sys/printk.h").write_text("#include <stdio.h>\n#define printk printf\n")
        (base / "ZephyrConfig.cmake").write_text(ZEPHYR)
        self.build(self.pack / "samples/net_check", environment={"ZEPHYR_BASE": str(base)})

    def test_esp_idf(self):
        self.write("esp-idf")
        tools = self.folder / "idf/tools/cmake"
        tools.mkdir(parents=True)
        (tools / "project.cmake").write_text(ESP_IDF)
        self.build(self.pack / "examples/net_check", environment={"IDF_PATH": str(self.folder / "idf")})

    def test_cmsis(self):
        files = self.write("cmsis", "--target=mcu:rp2350")
        pack = ElementTree.fromstring(files["Generated.net.pdsc"].read_text())
        self.assertEqual(pack.find("name").text, "net")
        self.assertEqual(pack.find("releases/release").text, "For mcu:rp2350")
        named = [file.get("name") for file in pack.iter("file")]
        self.assertEqual(len(named), 4)
        for name in named:
            self.assertTrue((self.pack / name).exists(), name)

    def test_stm32cube(self):
        self.write("stm32cube")
        project = self.folder / "cube"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(STM32.format(folder=self.pack))
        self.build(project)

    def test_a_name_that_needs_care(self):
        self.pack = self.folder / "key words-2"
        answer = tenon("pack", DIGITS, "--for=zephyr", "-o", f"{self.pack}/", "-q")
        self.assertEqual((answer.status, answer.errors), (0, ""))
        self.assertTrue((self.pack / "src/key_words_2.cpp").exists())
        self.assertIn("name: key_words_2", (self.pack / "zephyr/module.yml").read_text())

    def test_refused(self):
        (self.folder / "file").touch()
        (self.folder / "taken/src/net.cpp").mkdir(parents=True)
        (self.folder / "taken/src/net.cpp/file").touch()
        for words, status, reason in [
            (["--for=arduino", "-o", self.pack, "--target=cpu:native"], 2, "expected mcu:generic"),
            (["--for=esp-idf", "-o", self.pack, "--target=mcu:cortex-m4"], 2, "take --target=mcu:generic"),
            (["--for=zephyr", "-o", self.pack, "--pool=a=65536"], 2, "places the arena in one memory"),
            (["--for=zephyr", "-o", self.pack, "--ram-limit=100"], 1, "the least that was found"),
            (["--for=teensy", "-o", self.pack], 2, "expected arduino, zephyr"),
            (["--for=zephyr", "-o", self.folder / "file"], 1, "Not a directory"),
            (["--for=zephyr", "-o", self.folder / "file/net"], 1, "cannot"),
            (["--for=zephyr", "-o", ".."], 2, "expected the name of a folder"),
        ]:
            answer = tenon("pack", DIGITS, *words)
            self.assertEqual(answer.status, status, answer.errors)
            self.assertIn(reason, answer.errors)
            self.assertFalse(self.pack.exists())
        answer = tenon("pack", DIGITS, "--for=arduino", "-o", self.folder / "taken", "--prefix=net")
        self.assertEqual(answer.status, 1)
        self.assertEqual([path.name for path in (self.folder / "taken").iterdir()], ["src"])


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
