// Implements the binding of tenon/tenon.h. Its structures appear under their own names, members in
// Python's spelling; no call holds the interpreter's lock while the compiler works.
#include "module.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>
#include <tenon/tenon.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace tenon::python {
namespace {

/// Text of a model, which may be no UTF-8.
nb::str text(const std::string &bytes) {
  PyObject *decoded = PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "replace");
  if (!decoded)
    throw nb::python_error();
  return nb::steal<nb::str>(decoded);
}

nb::bytes bytesOf(const std::string &bytes) { return nb::bytes(bytes.data(), bytes.size()); }

std::string stringOf(const nb::bytes &bytes) { return {bytes.c_str(), bytes.size()}; }

void bindMessages(nb::module_ &m) {
  nb::class_<Message> message(m, "Message", "One thing that is said about a model or a setting.");
  nb::enum_<Message::Severity>(message, "Severity")
      .value("ERROR", Message::Severity::Error)
      .value("WARNING", Message::Severity::Warning)
      .value("REMARK", Message::Severity::Remark);
  message.def_ro("severity", &Message::severity)
      .def_prop_ro("text", [](const Message &s) { return text(s.text); })
      .def_prop_ro("nodes",
                   [](const Message &s) {
                     nb::list nodes;
                     for (const std::string &n : s.nodes)
                       nodes.append(text(n));
                     return nodes;
                   })
      .def_ro("op", &Message::op)
      .def_prop_ro("notes",
                   [](const Message &s) {
                     nb::list notes;
                     for (const std::string &n : s.notes)
                       notes.append(text(n));
                     return notes;
                   })
      .def("__str__", [](const Message &s) { return text(toString(s)); });
}

void bindSettings(nb::module_ &m) {
  nb::class_<Source>(m, "Source", "A file, or what one would hold.")
      .def_static("file", &Source::file, "path"_a)
      .def_static(
          "memory",
          [](const nb::bytes &bytes, std::string name) {
            return Source::memory(stringOf(bytes), std::move(name));
          },
          "bytes"_a, "name"_a = "model.onnx")
      .def_rw("path", &Source::path)
      .def_rw("folder", &Source::folder);

  nb::class_<Settings> settings(m, "Settings", "What shapes the program beside model and target.");
  nb::class_<Settings::Range>(settings, "Range")
      .def(nb::init<std::int64_t, std::int64_t>(), "low"_a, "high"_a);
  nb::class_<Settings::Interval>(settings, "Interval")
      .def(nb::init<double, double>(), "low"_a, "high"_a);
  nb::class_<Settings::State>(settings, "State")
      .def(nb::init<std::string, std::optional<std::int64_t>>(), "output"_a,
           "append_axis"_a = nb::none());
  nb::class_<Settings::Pool>(settings, "Pool")
      .def(nb::init<std::string, std::int64_t>(), "name"_a, "bytes"_a);
  nb::enum_<Settings::Search>(settings, "Search")
      .value("none", Settings::Search::None)
      .value("heuristic", Settings::Search::Heuristic);
  nb::enum_<Settings::Optimize>(settings, "Optimize")
      .value("default", Settings::Optimize::Default)
      .value("speed", Settings::Optimize::Speed)
      .value("size", Settings::Optimize::Size);
  nb::enum_<Settings::Weights>(settings, "Weights")
      .value("auto", Settings::Weights::Auto)
      .value("inline", Settings::Weights::Inline)
      .value("incbin", Settings::Weights::Incbin)
      .value("file", Settings::Weights::File);
  nb::enum_<Settings::Runtime>(settings, "Runtime")
      .value("embed", Settings::Runtime::Embed)
      .value("include", Settings::Runtime::Include);
  settings.def(nb::init<>())
      .def_rw("bind", &Settings::bind)
      .def_rw("constants", &Settings::constants)
      .def_rw("shapes", &Settings::shapes)
      .def_rw("ranges", &Settings::ranges)
      .def_rw("states", &Settings::states)
      .def_rw("decoder", &Settings::decoder)
      .def_rw("io", &Settings::io)
      .def_rw("quantized_io", &Settings::quantizedIo)
      .def_rw("input_ranges", &Settings::inputRanges)
      .def_rw("operators", &Settings::operators)
      .def_rw("level", &Settings::level)
      .def_rw("disable", &Settings::disable)
      .def_rw("only", &Settings::only)
      .def_rw("debug_counters", &Settings::debugCounters)
      .def_rw("verify_each", &Settings::verifyEach)
      .def_rw("precision", &Settings::precision)
      .def_rw("search", &Settings::search)
      .def_rw("tuning", &Settings::tuning)
      .def_rw("workspace", &Settings::workspace)
      .def_rw("kernels", &Settings::kernels)
      .def_rw("optimize", &Settings::optimize)
      .def_rw("ram_limit", &Settings::ramLimit)
      .def_rw("pools", &Settings::pools)
      .def_rw("name", &Settings::name)
      .def_rw("prefix", &Settings::prefix)
      .def_rw("weights", &Settings::weights)
      .def_rw("runtime", &Settings::runtime)
      .def_rw("text_bytes", &Settings::textBytes)
      .def_rw("hooks", &Settings::hooks);

  nb::class_<Request>(m, "Request", "A model, a target and settings.")
      .def(nb::init<>())
      .def_rw("model", &Request::model)
      .def_rw("target", &Request::target)
      .def_rw("settings", &Request::settings);
}

void bindInterface(nb::module_ &m) {
  nb::class_<Interface> interface(m, "Interface", "What a program takes and gives.");
  nb::class_<Interface::Extent>(interface, "Extent")
      .def_ro("most", &Interface::Extent::most)
      .def_ro("formula", &Interface::Extent::formula);
  nb::class_<Interface::Port>(interface, "Port")
      .def_prop_ro("name", [](const Interface::Port &s) { return text(s.name); })
      .def_ro("type", &Interface::Port::type)
      .def_ro("shape", &Interface::Port::shape);
  nb::class_<Interface::Symbol>(interface, "Symbol")
      .def_ro("name", &Interface::Symbol::name)
      .def_ro("low", &Interface::Symbol::low)
      .def_ro("high", &Interface::Symbol::high)
      .def_ro("carried", &Interface::Symbol::carried);
  nb::class_<Interface::Decoder>(interface, "Decoder")
      .def_ro("tokens", &Interface::Decoder::tokens)
      .def_ro("capacity", &Interface::Decoder::capacity)
      .def_ro("vocabulary", &Interface::Decoder::vocabulary)
      .def_ro("logits", &Interface::Decoder::logits)
      .def_ro("last_logits", &Interface::Decoder::lastLogits)
      .def_ro("shortens", &Interface::Decoder::shortens);
  interface.def_ro("inputs", &Interface::inputs)
      .def_ro("outputs", &Interface::outputs)
      .def_ro("symbols", &Interface::symbols)
      .def_ro("states", &Interface::states)
      .def_ro("decoder", &Interface::decoder);
}

nb::list texts(const std::vector<std::string> &all) {
  nb::list out;
  for (const std::string &one : all)
    out.append(text(one));
  return out;
}

void bindOutput(nb::module_ &m) {
  nb::class_<File>(m, "File").def_ro("name", &File::name).def_prop_ro("bytes", [](const File &s) {
    return bytesOf(s.bytes);
  });
  nb::class_<Fusion>(m, "Fusion", "A fusion that was made, or why it was not.")
      .def_ro("id", &Fusion::id)
      .def_ro("accepted", &Fusion::accepted)
      .def_prop_ro("nodes", [](const Fusion &s) { return texts(s.nodes); })
      .def_ro("reason", &Fusion::reason)
      .def_ro("bytes_saved", &Fusion::bytesSaved)
      .def_ro("variant", &Fusion::variant)
      .def_ro("together", &Fusion::together)
      .def_ro("apart", &Fusion::apart);
  nb::class_<Kernel>(m, "Kernel", "One step of the program.")
      .def_ro("variant", &Kernel::variant)
      .def_ro("step", &Kernel::step)
      .def_ro("schedule", &Kernel::schedule)
      .def_prop_ro("nodes", [](const Kernel &s) { return texts(s.nodes); })
      .def_ro("operations", &Kernel::operations)
      .def_ro("traffic_bytes", &Kernel::trafficBytes)
      .def_ro("scratch_bytes", &Kernel::scratchBytes);
  nb::class_<Weight>(m, "Weight", "A constant's bytes among the weights of a CUDA program.")
      .def_prop_ro("name", [](const Weight &s) { return text(s.name); })
      .def_ro("offset", &Weight::offset)
      .def_ro("bytes", &Weight::bytes);
  nb::class_<Output>(m, "Output", "The files of a program, and what is to be said of it.")
      .def_ro("interface", &Output::interface)
      .def_ro("files", &Output::files)
      .def_ro("target", &Output::target)
      .def_prop_ro("model", [](const Output &s) { return text(s.model); })
      .def_ro("nodes", &Output::nodes)
      .def_ro("kernel_count", &Output::kernelCount)
      .def_ro("weight_bytes", &Output::weightBytes)
      .def_ro("weights", &Output::weights)
      .def_ro("arena_bytes", &Output::arenaBytes)
      .def_ro("state_bytes", &Output::stateBytes)
      .def_ro("estimated_microseconds", &Output::estimatedMicroseconds)
      .def_ro("fusions", &Output::fusions)
      .def_ro("kernels", &Output::kernels)
      .def_ro("files_read", &Output::filesRead);
  m.def(
      "compile",
      [](const Request &request) {
        std::vector<Message> messages;
        std::optional<Output> output;
        {
          nb::gil_scoped_release release;
          output = compile(request, messages);
        }
        return std::make_pair(std::move(output), std::move(messages));
      },
      "request"_a, "The files of a program and messages; no files after errors.");
  m.def("version", &version);
  nb::class_<TargetInfo>(m, "TargetInfo")
      .def_ro("name", &TargetInfo::name)
      .def_ro("summary", &TargetInfo::summary);
  m.def("targets", &targets, "What can be compiled for.");
}

void bindInterpreter(nb::module_ &m) {
  nb::class_<Array>(m, "Array", "A dense, row-major tensor: bytes, or texts of type 'str'.")
      .def(
          "__init__",
          [](Array *self, std::string type, std::vector<std::int64_t> shape, const nb::bytes &bytes,
             const std::vector<nb::bytes> &strings) {
            new (self) Array{std::move(type), std::move(shape), stringOf(bytes), {}};
            for (const nb::bytes &s : strings)
              self->texts.push_back(stringOf(s));
          },
          "type"_a, "shape"_a, "bytes"_a, "texts"_a)
      .def_ro("type", &Array::type)
      .def_ro("shape", &Array::shape)
      .def_prop_ro("bytes", [](const Array &s) { return bytesOf(s.bytes); })
      .def_prop_ro("texts", [](const Array &s) {
        nb::list out;
        for (const std::string &one : s.texts)
          out.append(bytesOf(one));
        return out;
      });
  nb::class_<InterpretedModel>(m, "InterpretedModel", "A model on Tenon's interpreter.")
      .def_static(
          "load",
          [](const Request &request) {
            std::vector<Message> messages;
            std::unique_ptr<InterpretedModel> model;
            {
              nb::gil_scoped_release release;
              model = InterpretedModel::load(request, messages);
            }
            return std::make_pair(std::move(model), std::move(messages));
          },
          "request"_a)
      .def_prop_ro("interface", &InterpretedModel::interface)
      .def(
          "run",
          [](InterpretedModel &self, const std::vector<Array> &inputs) {
            std::vector<Message> messages;
            std::optional<std::vector<Array>> outputs;
            {
              nb::gil_scoped_release release;
              outputs = self.run(inputs, messages);
            }
            return std::make_pair(std::move(outputs), std::move(messages));
          },
          "inputs"_a)
      .def("reset", &InterpretedModel::reset);
}

} // namespace

void bindCompiler(nb::module_ &m) {
  bindMessages(m);
  bindSettings(m);
  bindInterface(m);
  bindOutput(m);
  bindInterpreter(m);
}

} // namespace tenon::python
